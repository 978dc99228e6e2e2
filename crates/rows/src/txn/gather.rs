//! Gathers the keys of a statement's rows, to be locked in one engine call, and checks new rows by
//! the result of the lock call.

use super::keyset::{KeyId, KeySet};
use crate::catalog::Catalog;
use crate::definition::{FkParent, ForeignKey};
use crate::fk;
use crate::keys::Columns;
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::LockMode;
use porpoise_types::Value;
use smallvec::SmallVec;
use std::sync::Arc;

/// In place of a key with a NULL part, which needs no check.
pub(crate) const NO_KEY: KeyId = usize::MAX;
/// In place of a parent's key: the parent table does not exist.
pub(crate) const NO_PARENT: KeyId = usize::MAX - 1;

/// A constraint of the table written, with its parent.
pub(crate) struct Constraint<'a> {
    pub(crate) fk: &'a ForeignKey,
    pub(crate) parent: Option<(&'a Arc<Table>, &'a FkParent)>,
}

/// Returns the foreign keys of a table.
pub(crate) fn constraints<'a>(
    catalog: &'a Catalog,
    table: &'a Arc<Table>,
) -> SmallVec<[Constraint<'a>; 4]> {
    table
        .foreign_keys
        .iter()
        .map(|fk| Constraint {
            fk,
            parent: fk
                .parent
                .as_ref()
                .and_then(|at| Some((fk::parent_table(catalog, table, at)?, at))),
        })
        .collect()
}

impl Constraint<'_> {
    /// Adds the parent that a row references to the keys to lock.
    pub(crate) fn gather(&self, row: &[Value], keys: &mut KeySet) -> KeyId {
        let Some((parent, at)) = self.parent else {
            let null = |c: &usize| row.get(*c).is_none_or(Value::is_null);
            return if self.fk.columns.iter().any(null) {
                NO_KEY
            } else {
                NO_PARENT
            };
        };
        keys.add_with(LockMode::KeyShare, |out| {
            let start = out.len();
            if fk::append_parent_key(parent, self.fk, at, row, out) {
                return None;
            }
            Some(parent.space(at.index, out.get(start..).unwrap_or(&[])))
        })
        .unwrap_or(NO_KEY)
    }
}

/// Ids of the keys of a statement's rows: for each row the primary key, the unique entries, the
/// parents.
pub(super) struct Plan {
    pub(super) ids: Vec<KeyId>,
    pub(super) stride: usize,
    uniques: usize,
}

impl Plan {
    /// Creates an empty plan with capacity for `rows` rows, with the number of unique keys and
    /// parents of each.
    pub(super) fn new(rows: usize, uniques: usize, parents: usize) -> Plan {
        let stride = 1 + uniques + parents;
        Plan {
            ids: Vec::with_capacity(rows * stride),
            stride,
            uniques,
        }
    }

    fn of(&self, row: usize) -> &[KeyId] {
        self.ids
            .get(row * self.stride..(row + 1) * self.stride)
            .unwrap_or(&[])
    }

    /// Primary key and unique entries of a row.
    pub(super) fn own(&self, row: usize) -> &[KeyId] {
        self.of(row).get(..=self.uniques).unwrap_or(&[])
    }

    /// The keys of a row's parents.
    fn parents(&self, row: usize) -> &[KeyId] {
        self.of(row).get(self.uniques + 1..).unwrap_or(&[])
    }

    /// The keys of all rows' parents, with the positions of their constraints.
    pub(super) fn all_parents(&self) -> Vec<(usize, KeyId)> {
        let rows = self.ids.chunks(self.stride.max(1));
        rows.flat_map(|ids| ids.iter().copied().skip(self.uniques + 1).enumerate())
            .collect()
    }

    /// The primary key of a row.
    pub(super) fn primary(&self, row: usize, keys: &KeySet) -> SmallVec<[u8; 64]> {
        let id = self.own(row).first().copied().unwrap_or(NO_KEY);
        SmallVec::from_slice(keys.key(id))
    }

    /// Replaces the keys of a row.
    pub(super) fn set(&mut self, row: usize, ids: &[KeyId]) {
        let places = self.ids.iter_mut().skip(row * self.stride);
        for (place, id) in places.zip(ids) {
            *place = *id;
        }
    }
}

/// Fails for the first NOT NULL column that is NULL.
pub(crate) fn check_not_null(table: &Table, row: &[Value]) -> Result<()> {
    for position in &table.derived().not_null {
        if row.get(*position).is_none_or(Value::is_null) {
            let column = table.columns.get(*position);
            return Err(Error::NotNull {
                column: column.map(|c| c.name.clone()).unwrap_or_default(),
            });
        }
    }
    Ok(())
}

/// Adds the entries of a row in a unique index to the keys to lock exclusively. Returns the entry's
/// key, or [`NO_KEY`] if a part is NULL, or if the index has a multi-valued part: those keys are
/// found again by [`taken_entry`].
#[inline]
pub(crate) fn gather_unique<C: Columns + ?Sized>(
    table: &Table,
    position: usize,
    row: &C,
    keys: &mut KeySet,
) -> KeyId {
    let Some(index) = table.maintained_index(position) else {
        return NO_KEY;
    };
    let mut added = NO_KEY;
    for entry in table.entries(position, row) {
        let id = keys.add_with(LockMode::Exclusive, |out| {
            let start = out.len();
            if index.append_parts(table, &entry, out) {
                return None;
            }
            Some(table.space(position, out.get(start..).unwrap_or(&[])))
        });
        added = id.unwrap_or(NO_KEY);
    }
    match table.array_column_of(position) {
        None => added,
        Some(_) => NO_KEY,
    }
}

/// The first key of a row in a unique index with a multi-valued part that exists now; the row's
/// keys were gathered. `None` for other indexes.
pub(super) fn taken_entry<C: Columns + ?Sized>(
    table: &Table,
    position: usize,
    row: &C,
    keys: &KeySet,
) -> Option<KeyId> {
    table.array_column_of(position)?;
    taken_entries(table, position, row, keys).next()
}

/// As [`taken_entry`], all of them.
pub(super) fn taken_entries<'a, C: Columns + ?Sized>(
    table: &'a Table,
    position: usize,
    row: &'a C,
    keys: &'a KeySet,
) -> impl Iterator<Item = KeyId> + 'a {
    let array = table.array_column_of(position);
    let index = table.maintained_index(position);
    let index = index.filter(|_| array.is_some());
    let mut key = Vec::new();
    index.into_iter().flat_map(move |index| {
        let mut found = SmallVec::<[KeyId; 4]>::new();
        for entry in table.entries(position, row) {
            key.clear();
            if index.append_parts(table, &entry, &mut key) {
                continue;
            }
            let id = keys.find(table.space(position, &key), &key);
            found.extend(id.filter(|id| keys.present(*id)));
        }
        found
    })
}

/// Adds a new row's primary key and unique entries to the keys to lock.
pub(super) fn gather_own(
    table: &Table,
    row: &[Value],
    hidden: u64,
    keys: &mut KeySet,
    ids: &mut Vec<KeyId>,
) {
    let primary = keys.add_with(LockMode::Exclusive, |out| {
        let start = out.len();
        if table.hidden_key {
            out.extend_from_slice(&hidden.to_be_bytes());
            table.append_hidden_partition(row, out);
        } else {
            table.append_primary_key(row, out);
        }
        Some(table.space(0, out.get(start..).unwrap_or(&[])))
    });
    ids.push(primary.unwrap_or(NO_KEY));
    for position in &table.derived().unique_indexes {
        ids.push(if adds_entries(table, *position) {
            gather_unique(table, *position, row, keys)
        } else {
            NO_KEY
        });
    }
}

/// Whether new rows get entries in the index at a position.
#[inline]
pub(crate) fn adds_entries(table: &Table, position: usize) -> bool {
    let index = table.maintained_index(position);
    index.is_some_and(|index| index.state.adds_entries())
}

/// Whether a duplicate in the unique index at a position is refused.
#[inline]
pub(crate) fn refuses_duplicates(table: &Table, position: usize) -> bool {
    let index = table.maintained_index(position);
    index.is_some_and(|index| index.state.refuses_duplicates())
}

/// Position of the index of a row's own key at this place.
pub(super) fn index_at(table: &Table, place: usize) -> usize {
    match place.checked_sub(1) {
        None => 0,
        Some(u) => table.derived().unique_indexes.get(u).copied().unwrap_or(0),
    }
}

/// The own keys of a new row that exist now, in order of the indexes, with the positions of these.
pub(super) fn taken_keys<'a>(
    table: &'a Table,
    row: &'a [Value],
    own: &'a [KeyId],
    keys: &'a KeySet,
) -> impl Iterator<Item = (usize, KeyId)> + 'a {
    let places = own.iter().enumerate();
    let refusing = places.filter(|(place, _)| refuses_duplicates(table, index_at(table, *place)));
    refusing.flat_map(move |(place, id)| {
        let index = index_at(table, place);
        let single = Some(*id).filter(|id| *id != NO_KEY && keys.present(*id));
        let several = Some(index).filter(|_| *id == NO_KEY && place > 0);
        let several = several.map(|index| taken_entries(table, index, row, keys));
        let all = single.into_iter().chain(several.into_iter().flatten());
        all.map(move |id| (index, id))
    })
}

/// Checks a row against the present state: unique keys, then parents.
pub(super) fn check_keys(
    table: &Table,
    row: &[Value],
    plan: &Plan,
    n: usize,
    constraints: &[Constraint<'_>],
    keys: &KeySet,
) -> Result<()> {
    let own = plan.own(n);
    for (place, id) in own.iter().enumerate() {
        if !refuses_duplicates(table, index_at(table, place)) {
            continue;
        }
        if *id != NO_KEY && keys.present(*id) {
            return Err(table.duplicate(index_at(table, place), row));
        }
        if *id == NO_KEY
            && place > 0
            && let Some(id) = taken_entry(table, index_at(table, place), row, keys)
        {
            return Err(table.duplicate_of_key(index_at(table, place), row, keys.key(id)));
        }
    }
    for (constraint, id) in constraints.iter().zip(plan.parents(n)) {
        if *id == NO_KEY || keys.present(*id) || own.contains(id) {
            continue;
        }
        return Err(Error::NoReferencedRow {
            constraint: fk::constraint_text(table, constraint.fk),
        });
    }
    Ok(())
}
