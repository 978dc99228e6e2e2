//! Derived parts of the catalog, which are computed and not stored: the tables that reference each
//! table, the indexes that foreign keys use, the tables that a write touches, and the histograms of
//! each table.
//!
//! Recomputed whenever a catalog is built or changed; only the definitions are stored.

use super::{Catalog, FkAction, FkParent, ForeignKey, Index, Table, TableDef, TableId};
use crate::histogram::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Catalog {
    /// Recomputes all derived fields. Unchanged tables keep their `Arc`, so that plans that refer
    /// to it stay valid.
    pub fn derive(&mut self) {
        let mut children: BTreeMap<TableId, Vec<(TableId, usize)>> = BTreeMap::new();
        let mut resolved: BTreeMap<TableId, Vec<ForeignKey>> = BTreeMap::new();
        for table in self.tables.values() {
            let mut keys = table.foreign_keys.clone();
            for (position, key) in keys.iter_mut().enumerate() {
                key.child_index = child_index(table, &key.columns).unwrap_or(0);
                key.parent = self
                    .table(&key.parent_database, &key.parent_table)
                    .and_then(|parent| resolve_parent(parent, key));
                if let Some(parent) = &key.parent {
                    let list = children.entry(parent.table).or_default();
                    list.push((table.id, position));
                }
            }
            resolved.insert(table.id, keys);
        }
        for (id, table) in &mut self.tables {
            let keys = resolved.remove(id).unwrap_or_default();
            let referenced_by = children.remove(id).unwrap_or_default();
            if table.foreign_keys != keys || table.referenced_by != referenced_by {
                let mut linked = Table::new(TableDef {
                    foreign_keys: keys,
                    ..table.definition().clone()
                });
                linked.referenced_by = referenced_by;
                linked.write_set = table.write_set.clone();
                linked.keep_statistics_of(table);
                *table = Arc::new(linked);
            }
        }
        self.derive_write_sets();
        self.derive_histograms();
    }

    /// Gives tables their histograms, and drops those of columns that are gone or of another type.
    fn derive_histograms(&mut self) {
        let mut found: BTreeMap<TableId, Vec<(usize, Arc<Histogram>)>> = BTreeMap::new();
        let tables = &self.tables;
        self.histograms.retain(|(table, column), histogram| {
            let Some(columns) = tables.get(table).map(|table| &table.columns) else {
                return false;
            };
            let mut columns = columns.iter().enumerate();
            let at = columns.find(|(_, c)| c.id == *column && c.ty == *histogram.column_type());
            if let Some((at, _)) = at {
                found
                    .entry(*table)
                    .or_default()
                    .push((at, histogram.clone()));
            }
            at.is_some()
        });
        for (id, table) in &mut self.tables {
            let new = found.remove(id).unwrap_or_default();
            let old = &table.histograms;
            let unchanged = old.len() == new.len()
                && std::iter::zip(old, &new).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1));
            if !unchanged {
                Arc::make_mut(table).histograms = new;
            }
        }
    }

    fn derive_write_sets(&mut self) {
        let sets: Vec<(TableId, Arc<[TableId]>)> = self
            .tables
            .keys()
            .map(|id| (*id, self.write_set_of(*id)))
            .collect();
        for (id, set) in sets {
            if let Some(table) = self.tables.get_mut(&id)
                && table.write_set != set
            {
                Arc::make_mut(table).write_set = set;
            }
        }
    }

    /// Returns the tables that a write to `start` may read or change: its parents, its children
    /// and, if a referential action changes those, theirs.
    fn write_set_of(&self, start: TableId) -> Arc<[TableId]> {
        let mut touched = BTreeSet::from([start]);
        let mut written = BTreeSet::from([start]);
        let mut queue = vec![start];
        while let Some(table) = queue.pop().and_then(|id| self.tables.get(&id)) {
            let parents = table.foreign_keys.iter().filter_map(|k| k.parent.as_ref());
            touched.extend(parents.map(|p| p.table));
            for (child, position) in &table.referenced_by {
                touched.insert(*child);
                let key = self
                    .tables
                    .get(child)
                    .and_then(|c| c.foreign_keys.get(*position));
                let changes =
                    key.is_some_and(|k| changes_child(k.on_delete) || changes_child(k.on_update));
                if changes && written.insert(*child) {
                    queue.push(*child);
                }
            }
        }
        // The table itself comes first: most statements need only the first entry.
        let others = touched.into_iter().filter(|id| *id != start);
        std::iter::once(start).chain(others).collect()
    }
}

fn changes_child(action: FkAction) -> bool {
    matches!(action, FkAction::Cascade | FkAction::SetNull)
}

/// Returns the position of an index of `table` whose first parts are `columns`, in any order and
/// without prefix lengths or a multi-valued part. The shortest one wins; the primary key counts, too.
pub fn child_index(table: &TableDef, columns: &[usize]) -> Option<usize> {
    table
        .indexes
        .iter()
        .enumerate()
        .filter(|(_, index)| {
            !index.is_full_text()
                && starts_with(index, columns)
                && table.array_column(index).is_none()
        })
        .min_by_key(|(_, index)| index.parts.len())
        .map(|(position, _)| position)
}

/// Whether the first parts of `index` are `columns` in the given order.
pub fn starts_with(index: &Index, columns: &[usize]) -> bool {
    index.parts.len() >= columns.len()
        && index
            .parts
            .iter()
            .zip(columns)
            .all(|(part, column)| part.column == *column && part.prefix.is_none())
}

/// The unique or primary index of `parent` over exactly the referenced columns.
pub(crate) fn resolve_parent(parent: &TableDef, key: &ForeignKey) -> Option<FkParent> {
    let columns: Vec<usize> = key
        .parent_columns
        .iter()
        .map(|name| parent.column(name))
        .collect::<Option<_>>()?;
    parent
        .indexes
        .iter()
        .enumerate()
        .filter(|(_, index)| index.kind.is_unique())
        .find_map(|(position, index)| {
            let order = parent_order(index, &columns)?;
            Some(FkParent {
                table: parent.id,
                index: position,
                order,
            })
        })
}

/// Returns, for each part of `index`, the position of its column in `columns`; `None` unless the
/// index has exactly these columns, without prefix lengths.
pub(crate) fn parent_order(index: &Index, columns: &[usize]) -> Option<Vec<usize>> {
    if index.parts.len() != columns.len() || index.parts.iter().any(|p| p.prefix.is_some()) {
        return None;
    }
    index
        .parts
        .iter()
        .map(|part| columns.iter().position(|c| *c == part.column))
        .collect()
}
