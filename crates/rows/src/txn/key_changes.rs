//! Key changes of one updated row: keys that are removed and created, parents newly referenced, and
//! changes of referenced keys.

use super::gather::{Constraint, NO_KEY, gather_unique};
use super::keyset::{KeyId, KeySet};
use crate::definition::IndexPart;
use crate::fk::Referrer;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::LockMode;
use porpoise_types::Value;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Keys that a row's change removes and creates.
#[derive(Default)]
pub(crate) struct KeyChanges {
    /// Removed keys.
    pub(crate) removed: SmallVec<[KeyId; 4]>,
    /// Created keys, with the position of their index.
    pub(crate) created: SmallVec<[(usize, KeyId); 4]>,
    /// Newly referenced parents, with the position of the constraint.
    pub(crate) parents: SmallVec<[(usize, KeyId); 4]>,
}

impl KeyChanges {
    /// Returns the index in which the new value is a duplicate, and the key.
    pub(crate) fn duplicate(&self, keys: &KeySet) -> Option<(usize, KeyId)> {
        let mut created = self.created.iter();
        created.find(|(_, id)| keys.present(*id)).copied()
    }

    /// Returns the constraint whose parent is missing.
    pub(crate) fn missing_parent(&self, keys: &KeySet) -> Option<usize> {
        self.parents
            .iter()
            .find(|(_, id)| {
                let made = self.created.iter().any(|(_, c)| c == id);
                *id != NO_KEY && !made && (!keys.present(*id) || self.removed.contains(id))
            })
            .map(|(fk, _)| *fk)
    }
}

/// Whether a column of an index changes by value.
pub(crate) fn is_key_changed(parts: &[IndexPart], old: &RowRef<'_>, new: &[Value]) -> bool {
    parts
        .iter()
        .any(|p| new.get(p.column).map(Value::as_ref) != Some(old.get(p.column)))
}

/// Whether the entry in the index that finds a constraint's children differs between `old` and
/// `new`.
fn entry_touched(
    table: &Table,
    constraint: &Constraint<'_>,
    old: &RowRef<'_>,
    new: &[Value],
) -> bool {
    let index = table.indexes.get(constraint.fk.child_index);
    index.is_some_and(|index| is_key_changed(&index.parts, old, new))
}

/// Gathers the key changes of an update from `old` to `new`.
pub(crate) fn gather_change(
    table: &Table,
    primary: &[u8],
    old: &RowRef<'_>,
    new_primary: &[u8],
    new: &[Value],
    constraints: &[Constraint<'_>],
    keys: &mut KeySet,
) -> KeyChanges {
    let mut changes = KeyChanges::default();
    let moved = primary != new_primary;
    if moved {
        let space = table.space(0, primary);
        changes
            .removed
            .push(keys.add(space, primary, LockMode::Exclusive));
        let space = table.space(0, new_primary);
        let id = keys.add(space, new_primary, LockMode::Exclusive);
        changes.created.push((0, id));
    }
    for position in &table.derived().unique_indexes {
        let Some(index) = table.maintained_index(*position) else {
            continue;
        };
        if !moved && !is_key_changed(&index.parts, old, new) {
            continue;
        }
        if table.array_column_of(*position).is_some() {
            gather_array_change(table, *position, old, new, moved, keys, &mut changes);
            continue;
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let had = !index.append_parts(table, old, &mut before);
        let has = !index.append_parts(table, new, &mut after);
        let same = had == has && before == after;
        if same && moved && has {
            // The entry's key is unchanged but it refers to another row key.
            keys.add(table.space(*position, &after), &after, LockMode::Exclusive);
        }
        if same {
            continue;
        }
        if had {
            let space = table.space(*position, &before);
            changes
                .removed
                .push(keys.add(space, &before, LockMode::Exclusive));
        }
        if has && index.state.adds_entries() {
            let space = table.space(*position, &after);
            let id = keys.add(space, &after, LockMode::Exclusive);
            if index.state.refuses_duplicates() {
                changes.created.push((*position, id));
            }
        }
    }
    for (n, constraint) in constraints.iter().enumerate() {
        let differs = |c: &usize| new.get(*c).map(Value::as_ref) != Some(old.get(*c));
        if constraint.fk.columns.iter().any(differs) {
            changes.parents.push((n, constraint.gather(new, keys)));
        } else if moved || entry_touched(table, constraint, old, new) {
            // The parent is unchanged, but the entry through which its deletion finds this row
            // moves, and the scan for children does not read a snapshot.
            constraint.gather(new, keys);
        }
    }
    changes
}

/// Gathers the key changes in a unique index with a multi-valued part.
fn gather_array_change(
    table: &Table,
    position: usize,
    old: &RowRef<'_>,
    new: &[Value],
    moved: bool,
    keys: &mut KeySet,
    changes: &mut KeyChanges,
) {
    let Some(index) = table.maintained_index(position) else {
        return;
    };
    // Keys with a NULL part are not unique.
    let unique = |all: Vec<(Vec<u8>, bool)>| -> BTreeSet<Vec<u8>> {
        let unique = all.into_iter().filter(|(_, exclusive)| *exclusive);
        unique.map(|(key, _)| key).collect()
    };
    let before = unique(index.entry_keys(table, position, old, &[]));
    let after = unique(index.entry_keys(table, position, new, &[]));
    let mut add = |key: &[u8]| keys.add(table.space(position, key), key, LockMode::Exclusive);
    for key in &before {
        match (after.contains(key), moved) {
            (false, _) => changes.removed.push(add(key)),
            // The entry's key is unchanged but it refers to another row key.
            (true, true) => {
                add(key);
            }
            (true, false) => {}
        }
    }
    if !index.state.adds_entries() {
        return;
    }
    for key in after.difference(&before) {
        let id = add(key);
        if index.state.refuses_duplicates() {
            changes.created.push((position, id));
        }
    }
}

/// Whether a referenced column of `referrer` changes by value.
pub(crate) fn referenced_change(
    referrer: &Referrer,
    parent: &Table,
    old: &RowRef<'_>,
    new: &[Value],
) -> bool {
    let Some((_, at)) = referrer.parts() else {
        return false;
    };
    let parts = parent.indexes.get(at.index).map_or(&[][..], |i| &i.parts);
    is_key_changed(parts, old, new)
}

/// Adds the referenced key of a row to the keys to lock exclusively.
pub(crate) fn lock_referenced(
    table: &Table,
    referrer: &Referrer,
    primary: &[u8],
    row: &RowRef<'_>,
    keys: &mut KeySet,
) {
    let Some((_, at)) = referrer.parts() else {
        return;
    };
    if at.index == 0 {
        keys.add(table.space(0, primary), primary, LockMode::Exclusive);
        return;
    }
    gather_unique(table, at.index, row, keys);
}
