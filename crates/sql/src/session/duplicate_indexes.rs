//! Warning 1831 for an index that a table already has under another name.

use super::SqlSession;
use porpoise_rows::catalog::{Index, IndexKind};
use porpoise_types::{Level, Warning};

impl SqlSession {
    /// Indexes of a table.
    pub(super) fn indexes_of(&self, database: &str, name: &str) -> Vec<Index> {
        let catalog = self.cx.catalog();
        let table = catalog.table(database, name);
        table.map_or_else(Vec::new, |table| table.indexes.clone())
    }

    /// Warns of each index that is new or was changed, and is equal to another one.
    pub(super) fn warn_of_duplicate_indexes(&self, database: &str, name: &str, before: &[Index]) {
        let indexes = self.indexes_of(database, name);
        for (at, index) in indexes.iter().enumerate() {
            // Positions of columns may have changed.
            let is_kept = |old: &&Index| old.id == index.id && old.parts.len() == index.parts.len();
            let is_old = before.iter().any(|old| is_kept(&old));
            let mut others = indexes.iter().enumerate();
            let is_duplicate = others.any(|(other_at, other)| {
                let was_there_before = before.iter().any(|old| old.id == other.id);
                have_same_parts(index, other)
                    && other_at != at
                    && (other_at < at || was_there_before)
            });
            if !is_old && is_duplicate {
                self.cx.env.warn(Warning {
                    level: Level::Warning,
                    code: 1831,
                    message: format!(
                        "Duplicate index '{}' defined on the table '{database}.{name}'. This is \
                         deprecated and will be disallowed in a future release.",
                        index.name
                    ),
                });
            }
        }
    }
}

/// Whether two indexes other than the primary key are of one kind and have the same parts.
fn have_same_parts(a: &Index, b: &Index) -> bool {
    let is_same = |(a, b): (&porpoise_rows::catalog::IndexPart, _)| a == b;
    a.kind == b.kind
        && a.kind != IndexKind::Primary
        && !a.implicit
        && !b.implicit
        && a.parts.len() == b.parts.len()
        && a.parts.iter().zip(&b.parts).all(is_same)
}
