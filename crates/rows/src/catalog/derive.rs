//! Derived parts of the catalog, which are computed and not stored: the tables that reference each
//! table, the indexes that foreign keys use, the tables that a write touches, and the histograms of
//! each table.
//!
//! Recomputed whenever a catalog is built or changed; only the definitions are stored. A change recomputes what it
//! affects, so that its cost does not depend on the number of tables.

use super::{Catalog, FkAction, FkParent, ForeignKey, Index, Table, TableDef, TableId};
use crate::histogram::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables whose derived fields may differ from those in an older catalog.
#[derive(Default)]
struct Affected {
    /// The tables whose definitions differ, dropped ones included.
    changed: BTreeSet<TableId>,
    /// The tables whose foreign keys are resolved again.
    children: BTreeSet<TableId>,
    /// The tables that may be referenced by others than before.
    parents: BTreeSet<TableId>,
}

/// The foreign keys of tables, resolved.
type ResolvedKeys = BTreeMap<TableId, Vec<ForeignKey>>;

impl Catalog {
    /// Recomputes all derived fields.
    pub fn derive(&mut self) {
        self.derive_after(&Catalog::default());
    }

    /// Recomputes the derived fields that may differ from those of an older catalog, which has its own: those of changed
    /// tables and of their relatives. Unchanged tables keep their `Arc`, so that plans that refer to it stay valid.
    pub(crate) fn derive_after(&mut self, old: &Catalog) {
        let mut affected = self.changed_and_children(old);
        let keys = self.resolve_keys(&affected.children);
        self.derive_waiting(old, &affected, &keys);
        affected.add_parents(old, &keys);
        self.link(old, &affected, keys);
        self.derive_write_sets(old, &affected);
        self.derive_histograms(old, &affected);
    }

    /// The tables that differ, and those whose foreign keys reference them, or will after the change.
    fn changed_and_children(&self, old: &Catalog) -> Affected {
        let mut affected = Affected::default();
        for difference in self.tables.differences(&old.tables, Arc::ptr_eq) {
            affected.changed.insert(*difference.key);
            if let Some(before) = difference.before {
                let children = before.referenced_by.iter().map(|(child, _)| *child);
                affected.children.extend(children);
            }
            if let Some(after) = difference.after {
                affected.children.insert(after.id);
                let name = (after.database.clone(), after.name.clone());
                let waiting = old.waiting.get(&name).into_iter().flatten();
                affected.children.extend(waiting);
            }
        }
        affected
            .children
            .retain(|child| self.tables.contains_key(child));
        affected
    }

    /// Resolves the foreign keys of these tables.
    fn resolve_keys(&self, children: &BTreeSet<TableId>) -> ResolvedKeys {
        let mut resolved = ResolvedKeys::new();
        for table in children.iter().filter_map(|id| self.tables.get(id)) {
            let mut keys = table.foreign_keys.clone();
            for key in &mut keys {
                key.child_index = child_index(table, &key.columns).unwrap_or(0);
                key.parent = self
                    .table(&key.parent_database, &key.parent_table)
                    .and_then(|parent| resolve_parent(parent, key));
            }
            resolved.insert(table.id, keys);
        }
        resolved
    }

    /// Recomputes the tables that wait for parents.
    fn derive_waiting(&mut self, old: &Catalog, affected: &Affected, keys: &ResolvedKeys) {
        let name = |key: &ForeignKey| (key.parent_database.clone(), key.parent_table.clone());
        self.waiting = old.waiting.clone();
        for table in affected.changed_or_children() {
            let before = old.tables.get(table);
            for key in before.map_or(&[][..], |table| &table.foreign_keys) {
                if key.parent.is_none()
                    && let Some(waiting) = self.waiting.get_mut(&name(key))
                {
                    waiting.remove(table);
                }
            }
        }
        for (table, keys) in keys {
            for key in keys.iter().filter(|key| key.parent.is_none()) {
                self.waiting.entry(name(key)).or_default().insert(*table);
            }
        }
        self.waiting.retain(|_, children| !children.is_empty());
    }

    /// Gives tables their resolved foreign keys, and the lists of those that reference them.
    fn link(&mut self, old: &Catalog, affected: &Affected, mut resolved: ResolvedKeys) {
        let mut added: BTreeMap<TableId, Vec<(TableId, usize)>> = BTreeMap::new();
        for (child, keys) in &resolved {
            for (position, key) in keys.iter().enumerate() {
                if let Some(parent) = &key.parent {
                    let list = added.entry(parent.table).or_default();
                    list.push((*child, position));
                }
            }
        }
        for id in affected.children.union(&affected.parents) {
            let Some(table) = self.tables.get(id) else {
                continue;
            };
            let mut referenced_by = added.remove(id).unwrap_or_default();
            let before = old.tables.get(id);
            let unchanged = before.map_or(&[][..], |table| &table.referenced_by).iter();
            referenced_by.extend(unchanged.filter(|(child, _)| {
                !affected.changed.contains(child) && !affected.children.contains(child)
            }));
            referenced_by.sort_unstable();
            let keys = resolved.remove(id);
            let keys = keys.unwrap_or_else(|| table.foreign_keys.clone());
            if table.foreign_keys == keys && table.referenced_by == referenced_by {
                continue;
            }
            let mut linked = Table::new(TableDef {
                foreign_keys: keys,
                ..table.definition().clone()
            });
            linked.referenced_by = referenced_by;
            linked.write_set = table.write_set.clone();
            linked.keep_statistics_of(table);
            self.tables.insert(*id, Arc::new(linked));
        }
    }

    /// Gives tables their histograms, and drops those of columns that are gone or of another type.
    fn derive_histograms(&mut self, old: &Catalog, affected: &Affected) {
        if self.histograms.is_empty() && old.histograms.is_empty() {
            return;
        }
        let mut found: BTreeMap<TableId, Vec<(usize, Arc<Histogram>)>> = BTreeMap::new();
        // Also of tables that are no longer referenced.
        let had = old.histograms.keys().map(|(table, _)| *table);
        for id in had.chain(affected.changed.iter().copied()) {
            found.entry(id).or_default();
        }
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
        for (id, new) in found {
            let before = self.tables.get(&id).map(|table| &table.histograms);
            let unchanged = before.is_none_or(|before| {
                before.len() == new.len()
                    && std::iter::zip(before, &new)
                        .all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1))
            });
            if !unchanged && let Some(table) = self.tables.get_mut(&id) {
                Arc::make_mut(table).histograms = new;
            }
        }
    }

    /// Recomputes the write sets of the affected tables, and of those whose changes cascade to them.
    fn derive_write_sets(&mut self, old: &Catalog, affected: &Affected) {
        let mut queue: Vec<TableId> = affected.all().collect();
        let mut to_update = BTreeSet::new();
        while let Some(id) = queue.pop() {
            if !to_update.insert(id) {
                continue;
            }
            let versions = [old.tables.get(&id), self.tables.get(&id)];
            for key in versions
                .iter()
                .flatten()
                .flat_map(|table| &table.foreign_keys)
            {
                if let Some(parent) = &key.parent
                    && (changes_child(key.on_delete) || changes_child(key.on_update))
                {
                    queue.push(parent.table);
                }
            }
        }
        for id in to_update {
            let set = self.write_set_of(id);
            let differs = |table: &Arc<Table>| table.write_set != set;
            if self.tables.get(&id).is_some_and(differs)
                && let Some(table) = self.tables.get_mut(&id)
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

impl Affected {
    fn changed_or_children(&self) -> impl Iterator<Item = &TableId> {
        self.changed.union(&self.children)
    }

    fn all(&self) -> impl Iterator<Item = TableId> {
        let all = self.changed_or_children().chain(&self.parents);
        all.copied()
    }

    /// Adds the tables that the foreign keys reference, or referenced before.
    fn add_parents(&mut self, old: &Catalog, resolved: &ResolvedKeys) {
        let mut parents = self.changed.clone();
        let tables = self.changed_or_children();
        let before = tables.filter_map(|id| old.tables.get(id));
        let before = before.flat_map(|table| &table.foreign_keys);
        let keys = before.chain(resolved.values().flatten());
        parents.extend(keys.filter_map(|key| Some(key.parent.as_ref()?.table)));
        self.parents = parents;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Column, ColumnId, Database, IndexKind, IndexPart, IndexState};
    use fastrand::Rng;
    use porpoise_types::{Collation, ColumnType, Kind};

    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const COLUMNS: [&str; 3] = ["x", "y", "z"];

    fn column(n: usize) -> Column {
        Column::new(ColumnId(n as u32), COLUMNS[n], ColumnType::int(Kind::Int))
    }

    fn index(n: usize, kind: IndexKind) -> Index {
        Index {
            id: n as u32 + 1,
            name: COLUMNS[n].to_owned(),
            kind,
            parts: vec![IndexPart {
                column: n,
                prefix: None,
                desc: false,
            }],
            spaces: Vec::new(),
            state: IndexState::Public,
            using_hash: false,
            implicit: false,
            comment: String::new(),
            invisible: false,
            full_text: None,
        }
    }

    fn foreign_key(rng: &mut Rng) -> ForeignKey {
        let actions = [FkAction::Restrict, FkAction::Cascade, FkAction::SetNull];
        ForeignKey {
            name: "k".to_owned(),
            columns: vec![rng.usize(0..COLUMNS.len())],
            parent_database: "d".to_owned(),
            parent_table: NAMES[rng.usize(0..NAMES.len())].to_owned(),
            parent_columns: vec![COLUMNS[rng.usize(0..COLUMNS.len())].to_owned()],
            on_delete: actions[rng.usize(0..actions.len())],
            on_update: FkAction::NoAction,
            child_index: 0,
            parent: None,
        }
    }

    /// A table with some unique indexes and foreign keys.
    fn definition(rng: &mut Rng, id: u64, name: &str) -> TableDef {
        let kind = |n: usize, rng: &mut Rng| match n {
            0 => IndexKind::Primary,
            _ if rng.bool() => IndexKind::Unique,
            _ => IndexKind::Plain,
        };
        TableDef {
            columns: (0..COLUMNS.len()).map(column).collect(),
            indexes: (0..COLUMNS.len()).map(|n| index(n, kind(n, rng))).collect(),
            foreign_keys: (0..rng.usize(0..3)).map(|_| foreign_key(rng)).collect(),
            ..TableDef::without_columns(id, "d", name)
        }
    }

    fn unlink(catalog: &mut Catalog, name: &str) {
        let database = catalog.databases.get_mut("d").unwrap();
        if let Some(id) = Arc::make_mut(database).tables.remove(name) {
            catalog.tables.remove(&id);
        }
    }

    fn add(catalog: &mut Catalog, table: Table) {
        let database = catalog.databases.get_mut("d").unwrap();
        let names = &mut Arc::make_mut(database).tables;
        names.insert(table.name.clone(), table.id);
        catalog.tables.insert(table.id, Arc::new(table));
    }

    /// Creates, drops, alters or renames a table.
    fn change(catalog: &mut Catalog, rng: &mut Rng, next_id: &mut u64) {
        let name = NAMES[rng.usize(0..NAMES.len())];
        let Some(table) = catalog.table("d", name).cloned() else {
            *next_id += 1;
            return add(catalog, Table::new(definition(rng, *next_id, name)));
        };
        let other = NAMES[rng.usize(0..NAMES.len())];
        match rng.u8(0..4) {
            0 => unlink(catalog, name),
            1 if catalog.table("d", other).is_none() => {
                let mut renamed = table.definition().clone();
                other.clone_into(&mut renamed.name);
                unlink(catalog, name);
                add(catalog, table.with_definition(renamed));
            }
            _ => {
                let altered = definition(rng, table.id.0, name);
                add(catalog, table.with_definition(altered));
            }
        }
    }

    /// The derived fields of all tables, as text.
    fn derived(catalog: &Catalog) -> String {
        let tables = catalog.tables.values().map(|table| {
            let (keys, by) = (&table.foreign_keys, &table.referenced_by);
            format!("{} {keys:?} {by:?} {:?}", table.name, table.write_set)
        });
        let tables: Vec<String> = tables.collect();
        format!("{} {:?}", tables.join("\n"), catalog.waiting)
    }

    #[test]
    fn a_change_derives_what_a_new_catalog_has() {
        let mut rng = Rng::with_seed(21);
        for _ in 0..40 {
            let mut catalog = Catalog::default();
            let database = Database {
                name: "d".to_owned(),
                collation: Collation::UTF8MB4_0900_AI_CI,
                tables: Default::default(),
            };
            let databases = &mut catalog.databases;
            databases.insert("d".to_owned(), Arc::new(database));
            let mut next_id = 0;
            for _ in 0..60 {
                let mut new = catalog.clone();
                for _ in 0..rng.usize(1..3) {
                    change(&mut new, &mut rng, &mut next_id);
                }
                new.derive_after(&catalog);
                let mut whole = new.clone();
                whole.derive();
                assert_eq!(derived(&new), derived(&whole));
                let table = |id: &TableId| (new.tables.get(id), whole.tables.get(id));
                for (new, whole) in new.tables.keys().map(table) {
                    assert!(
                        Arc::ptr_eq(new.unwrap(), whole.unwrap()),
                        "a table was rebuilt"
                    );
                }
                catalog = new;
            }
        }
    }
}
