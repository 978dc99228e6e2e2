//! USE, FORCE and IGNORE INDEX (manual, "Index Hints").
//!
//! Invariants:
//! 1. Hints restrict the choice of indexes; a table scan is always possible.
//! 2. USE and FORCE leave only the named indexes, IGNORE only the others. FORCE also gives the
//!    table scan a very high cost.
//! 3. FOR GROUP BY applies to indexes whose order makes groups consecutive (no hash table).

use super::source::Source;
use crate::error::{Result, SqlError};
use crate::parse::ast::{IndexHint, IndexHintFor, IndexHintKind};
use porpoise_rows::catalog::{Index, Table};

/// Indexes that hints allow for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AllowedIndexes {
    /// USE or FORCE: only these; `None`: all.
    allowed: Option<Vec<usize>>,
    /// IGNORE.
    ignored: Vec<usize>,
}

impl AllowedIndexes {
    fn allows(&self, index: usize) -> bool {
        let named = self
            .allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(&index));
        named && !self.ignored.contains(&index)
    }
}

/// The hints on the indexes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    join: AllowedIndexes,
    order: AllowedIndexes,
    group: AllowedIndexes,
    /// FORCE INDEX.
    pub is_forced: bool,
}

impl Hints {
    /// Resolves the hints of a source. Views and derived tables have no indexes.
    ///
    /// # Errors
    /// 1176 for an unknown index, 1221 for USE together with FORCE.
    pub fn of_source(source: &Source, hints: &[IndexHint<'_>]) -> Result<Hints> {
        match source.table().filter(|_| source.view.is_none()) {
            Some(table) => Hints::of(table, &source.alias, hints),
            None => match hints.iter().find_map(|hint| hint.indexes.first()) {
                Some(index) => Err(unknown_index(&source.alias, index.name)),
                None => Ok(Hints::default()),
            },
        }
    }

    fn of(table: &Table, alias: &str, hints: &[IndexHint<'_>]) -> Result<Hints> {
        let mut out = Hints::default();
        let any = |kind: IndexHintKind| hints.iter().any(|h| h.kind == kind);
        if any(IndexHintKind::Use) && any(IndexHintKind::Force) {
            let text = "Incorrect usage of USE INDEX and FORCE INDEX";
            return Err(SqlError::new(1221, "HY000", text));
        }
        out.is_forced = any(IndexHintKind::Force);
        for hint in hints {
            let mut named = Vec::with_capacity(hint.indexes.len());
            for name in hint.indexes {
                named.push(position(table, alias, name.name)?);
            }
            out.add(hint.purpose, hint.kind, &named);
        }
        Ok(out)
    }

    fn add(&mut self, purpose: IndexHintFor, kind: IndexHintKind, named: &[usize]) {
        let purposes: &mut [&mut AllowedIndexes] = match purpose {
            IndexHintFor::All => &mut [&mut self.join, &mut self.order, &mut self.group],
            IndexHintFor::Join => &mut [&mut self.join],
            IndexHintFor::OrderBy => &mut [&mut self.order],
            IndexHintFor::GroupBy => &mut [&mut self.group],
        };
        for choice in purposes {
            match kind {
                IndexHintKind::Ignore => choice.ignored.extend(named),
                _ => choice.allowed.get_or_insert_default().extend(named),
            }
        }
    }

    /// Adds an optimizer hint: INDEX and its variants act as FORCE INDEX, NO_INDEX as IGNORE INDEX.
    pub fn restrict(&mut self, purpose: IndexHintFor, wanted: bool, named: &[usize]) {
        if wanted {
            self.is_forced = true;
            self.add(purpose, IndexHintKind::Force, named);
        } else {
            self.add(purpose, IndexHintKind::Ignore, named);
        }
    }

    /// Whether an index may be used to find rows.
    pub fn allows_lookup(&self, index: usize) -> bool {
        self.join.allows(index)
    }

    /// Whether an index may provide the order of ORDER BY.
    pub fn allows_order(&self, index: usize) -> bool {
        self.order.allows(index)
    }

    /// Whether an index may make the rows of a group consecutive.
    pub fn allows_group(&self, index: usize) -> bool {
        self.group.allows(index)
    }
}

fn position(table: &Table, alias: &str, name: &str) -> Result<usize> {
    let mut indexes = table.indexes.iter();
    let usable = |i: &Index| !i.parts.is_empty() && !i.invisible;
    let found = indexes.position(|i| i.name.eq_ignore_ascii_case(name) && usable(i));
    found.ok_or_else(|| unknown_index(alias, name))
}

fn unknown_index(table: &str, index: &str) -> SqlError {
    let text = format!("Key '{index}' doesn't exist in table '{table}'");
    SqlError::new(1176, "42000", text)
}
