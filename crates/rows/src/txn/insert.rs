//! INSERT, INSERT IGNORE, REPLACE, and the insert half of upserts.
//!
//! A statement's keys are gathered first: of each row its primary key and
//! unique entries (exclusive), and the parents it names (key-share). They are
//! locked in **one** engine call, in the engine's (space, key) order, whatever
//! the number of rows, keys and constraints. Then rows are judged and written
//! one by one, in the statement's order, against what the lock call showed and
//! what the rows before wrote (transactions.md, rule 13).
//!
//! Invariants:
//! 1. A duplicate key (1062) wins over a missing parent (1452) in one row, and
//!    indexes are judged in their order.
//! 2. A row may name itself as parent; rows see those before them in the same
//!    statement as parents and as duplicates, not those after.
//! 3. Parents written by this transaction are in the same batch: the engine
//!    grants what is held already and shows the own write.
//! 4. With IGNORE a generated id whose row is skipped goes to the next row that
//!    asked for one, so that the rows inserted have consecutive ids.
//!
//! Rejected: own keys in one call, then the parents in another. It costs a
//! round trip more, and locks child before parent where a parent's delete
//! locks parent before child, which deadlocks.

use super::Txn;
use super::keyset::{KeyId, KeySet};
use crate::autoinc::GeneratedIds;
use crate::catalog::{Catalog, FkParent, ForeignKey, Table};
use crate::fk;
use crate::program::{Refused, refusal};
use crate::row::RowBuf;
use crate::{Error, Result};
use porpoise_kv::{Key, LockMode, Read};
use porpoise_types::Value;
use smallvec::SmallVec;
use std::sync::Arc;

/// What to do with a row whose key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertMode {
    /// Fail.
    Plain,
    /// Skip rows that violate a constraint.
    Ignore,
    /// Delete the rows that are in the way first.
    Replace,
}

/// What an INSERT did.
#[derive(Clone, Debug, Default)]
pub struct InsertDone {
    /// Rows inserted.
    pub inserted: u64,
    /// Rows that REPLACE deleted for them.
    pub replaced: u64,
    /// Rows skipped by IGNORE, by position in the call, and why.
    pub skipped: Vec<(usize, Error)>,
}

/// What [`Txn::insert_or_find`] found.
#[derive(Clone, Debug)]
pub enum Inserted {
    /// The row was inserted.
    New,
    /// A row is in the way; it is locked exclusively. Nothing was written.
    Duplicate {
        /// Position of the first index that has the value.
        index: usize,
        /// Primary key of the row in the way.
        primary: Vec<u8>,
        /// That row, newest version.
        row: RowBuf,
        /// It is newer than the transaction's view.
        newer: bool,
    },
}

/// In place of a key: a NULL in it; nothing to look at.
pub(crate) const NO_KEY: KeyId = usize::MAX;
/// In place of a parent's key: the parent table does not exist.
pub(crate) const NO_PARENT: KeyId = usize::MAX - 1;

/// A constraint of the table written, with its parent.
pub(crate) struct Constraint<'a> {
    pub(crate) fk: &'a ForeignKey,
    pub(crate) parent: Option<(&'a Arc<Table>, &'a FkParent)>,
}

/// The constraints whose child a table is.
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
    /// Adds the parent that a row names to the keys to lock.
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

/// The numbers of the keys of a statement's rows: for each row the primary
/// key, the unique entries, the parents.
pub(super) struct Plan {
    pub(super) ids: Vec<KeyId>,
    pub(super) stride: usize,
    uniques: usize,
}

impl Plan {
    /// An empty one for so many rows, unique keys and parents of each.
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

    fn parents(&self, row: usize) -> &[KeyId] {
        self.of(row).get(self.uniques + 1..).unwrap_or(&[])
    }
}

/// The first NOT NULL column that is NULL.
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

impl Txn {
    /// Adds a row's primary key and unique entries to the keys to lock.
    pub(super) fn gather_own(
        &mut self,
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
        for position in &table.derived().uniques {
            let id = table.indexes.get(*position).and_then(|index| {
                keys.add_with(LockMode::Exclusive, |out| {
                    let start = out.len();
                    if index.append_parts(table, row, out) {
                        return None;
                    }
                    Some(table.space(*position, out.get(start..).unwrap_or(&[])))
                })
            });
            ids.push(id.unwrap_or(NO_KEY));
        }
    }

    /// Inserts rows of storage values in column order, in order.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::NoReferencedRow`], [`Error::NotNull`] of
    /// the first row that fails (with [`InsertMode::Ignore`] such rows are
    /// skipped); with [`InsertMode::Replace`] also [`Error::RowIsReferenced`]
    /// and [`Error::SnapshotConflict`]; the engine's. Nothing is written then.
    pub fn insert(
        &mut self,
        table: &Arc<Table>,
        mut rows: Vec<Vec<Value>>,
        mode: InsertMode,
    ) -> Result<InsertDone> {
        let refused = self.prepared(table, &mut rows, mode);
        self.statement(table, |txn, keys| {
            let ids = &mut GeneratedIds::default();
            txn.insert_rows(table, rows, mode, (refused, ids), keys)
        })
    }

    /// [`Txn::insert`] of rows with generated ids: those of rows that are
    /// skipped go to the rows after them, and `ids` tells which were used.
    ///
    /// # Errors
    /// As `insert`.
    pub fn insert_with_ids(
        &mut self,
        table: &Arc<Table>,
        mut rows: Vec<Vec<Value>>,
        mode: InsertMode,
        ids: &mut GeneratedIds,
    ) -> Result<InsertDone> {
        let refused = self.prepared(table, &mut rows, mode);
        self.statement(table, |txn, keys| {
            txn.insert_rows(table, rows, mode, (refused, ids), keys)
        })
    }

    /// What the table's program makes of new rows, if it has one.
    fn prepared(&self, table: &Table, rows: &mut [Vec<Value>], mode: InsertMode) -> Refused {
        if table.has_program() {
            self.prepare_new(table, rows, mode)
        } else {
            Refused::new()
        }
    }

    fn insert_rows(
        &mut self,
        table: &Arc<Table>,
        mut rows: Vec<Vec<Value>>,
        mode: InsertMode,
        (refused, ids): (Refused, &mut GeneratedIds),
        keys: &mut KeySet,
    ) -> Result<InsertDone> {
        let catalog = self.db.catalog_guard();
        let constraints = if self.foreign_key_checks {
            constraints(&catalog, table)
        } else {
            SmallVec::new()
        };
        let hidden = if table.hidden_key {
            let engine = self.db.engine().as_ref();
            self.db.counters.hidden(engine, table, rows.len() as u64)?
        } else {
            0
        };
        let uniques = table.derived().uniques.len();
        let mut plan = Plan::new(rows.len(), uniques, constraints.len());
        keys.keep_values = mode == InsertMode::Replace;
        let made = (mode, hidden, refused);
        let (mut nulls, usable) =
            self.gather_rows(table, &rows, made, &constraints, &mut plan, keys);
        let wait = self.wait();
        keys.lock(self.kv.as_mut(), wait)?;
        if mode == InsertMode::Replace {
            self.lock_replaced(table, &plan, usable, keys)?;
        }
        let mut done = InsertDone::default();
        for (n, row) in rows.iter_mut().enumerate().take(usable) {
            let mut unfit = nulls.get_mut(n).and_then(Option::take);
            if let Some((position, id)) = ids.left_over(table, n, row)
                && let Some(value) = row.get_mut(position)
            {
                *value = id;
                let moved = (n, hidden, unfit);
                unfit = self.gather_again(table, row, moved, &constraints, &mut plan, keys)?;
            }
            let judged = match unfit {
                Some(e) => Err(e),
                None if mode == InsertMode::Replace => self
                    .clear_the_way(table, plan.own(n), keys)
                    .map(|replaced| done.replaced += replaced)
                    .and_then(|()| judge(table, row, &plan, n, &constraints, keys)),
                None => judge(table, row, &plan, n, &constraints, keys),
            };
            match judged {
                Ok(()) => {
                    let primary: SmallVec<[u8; 64]> = SmallVec::from_slice(
                        keys.key(plan.own(n).first().copied().unwrap_or(NO_KEY)),
                    );
                    self.write_new(table, &primary, row, keys)?;
                    ids.used(n, row);
                    done.inserted += 1;
                }
                Err(e) if mode == InsertMode::Ignore && e.ignorable() => done.skipped.push((n, e)),
                Err(e) => return Err(e),
            }
        }
        if usable < rows.len()
            && let Some(Some(e)) = nulls.pop()
        {
            return Err(e);
        }
        Ok(done)
    }

    /// Gathers the keys of all rows; the errors of rows with a NULL where none
    /// may be, by row, and how many rows can be judged before one of them ends
    /// the statement.
    fn gather_rows(
        &mut self,
        table: &Table,
        rows: &[Vec<Value>],
        (mode, hidden, mut refused): (InsertMode, u64, Refused),
        constraints: &[Constraint<'_>],
        plan: &mut Plan,
        keys: &mut KeySet,
    ) -> (Vec<Option<Error>>, usize) {
        let mut nulls: Vec<Option<Error>> = Vec::new();
        let mut usable = rows.len();
        for (n, row) in rows.iter().enumerate() {
            let fits = match refusal(&mut refused, n) {
                None => check_not_null(table, row),
                Some(error) => Err(error),
            };
            let fits = fits.and_then(|()| table.partition_of_row(row).map(|_| ()));
            if let Err(e) = fits {
                nulls.resize_with(n + 1, || None);
                if let Some(place) = nulls.last_mut() {
                    *place = Some(e);
                }
                if mode != InsertMode::Ignore {
                    // The rows before are judged first.
                    usable = n;
                    break;
                }
                plan.ids.extend(std::iter::repeat_n(NO_KEY, plan.stride));
                continue;
            }
            self.gather_own(table, row, hidden + n as u64, keys, &mut plan.ids);
            for constraint in constraints {
                plan.ids.push(constraint.gather(row, keys));
            }
        }
        (nulls, usable)
    }

    /// Gathers and locks the keys of a row whose id has changed, unless it does
    /// not fit the table anyway or now. Where the id alone is the primary key
    /// they are locked already, as those of the row that did not take it.
    fn gather_again(
        &mut self,
        table: &Table,
        row: &[Value],
        (n, hidden, unfit): (usize, u64, Option<Error>),
        constraints: &[Constraint<'_>],
        plan: &mut Plan,
        keys: &mut KeySet,
    ) -> Result<Option<Error>> {
        let unfit = unfit.or_else(|| table.partition_of_row(row).err());
        if unfit.is_some() {
            return Ok(unfit);
        }
        let mut ids = Vec::with_capacity(plan.stride);
        self.gather_own(table, row, hidden + n as u64, keys, &mut ids);
        for constraint in constraints {
            ids.push(constraint.gather(row, keys));
        }
        let start = n * plan.stride;
        for (place, id) in plan.ids.iter_mut().skip(start).zip(ids) {
            *place = id;
        }
        let wait = self.wait();
        keys.lock(self.kv.as_mut(), wait)?;
        Ok(None)
    }

    /// Locks, in one call, the rows that REPLACE will find in its way by the
    /// entries just locked.
    fn lock_replaced(
        &mut self,
        table: &Table,
        plan: &Plan,
        rows: usize,
        keys: &mut KeySet,
    ) -> Result<()> {
        for n in 0..rows {
            for (place, id) in plan.own(n).iter().enumerate() {
                if *id == NO_KEY || !keys.present(*id) {
                    continue;
                }
                self.check_newer(keys.newer(*id))?;
                if place > 0
                    && let Some(primary) = keys.value(*id).map(<[u8]>::to_vec)
                {
                    keys.add(table.space(0, &primary), &primary, LockMode::Exclusive);
                }
            }
        }
        let wait = self.wait();
        keys.lock(self.kv.as_mut(), wait)?;
        Ok(())
    }

    /// Deletes the rows that are in the way of one; how many.
    fn clear_the_way(
        &mut self,
        table: &Arc<Table>,
        own: &[KeyId],
        keys: &mut KeySet,
    ) -> Result<u64> {
        let mut primaries: Vec<Vec<u8>> = Vec::new();
        for (place, id) in own.iter().enumerate() {
            if *id == NO_KEY || !keys.present(*id) {
                continue;
            }
            if place == 0 {
                primaries.push(keys.key(*id).to_vec());
                continue;
            }
            // The entry as it is now, own writes of this statement included.
            let position = table.derived().uniques.get(place - 1).copied().unwrap_or(0);
            let key = keys.key(*id);
            let request = [Key::new(table.space(position, key), key)];
            self.kv.get(Read::CURRENT, &request, &mut |_, value| {
                primaries.extend(value.map(<[u8]>::to_vec));
            })?;
        }
        if primaries.is_empty() {
            return Ok(0);
        }
        // In the order of the indexes, as MySQL deletes them, each once.
        let mut wanted: SmallVec<[&[u8]; 4]> = SmallVec::new();
        for primary in &primaries {
            if !wanted.contains(&primary.as_slice()) {
                wanted.push(primary);
            }
        }
        let mut rows = Vec::new();
        self.get_rows_in_order(table, &wanted, Read::CURRENT, &mut |n, row| {
            if let (Some(row), Some(primary)) = (row, wanted.get(n)) {
                rows.push((primary.to_vec(), row.to_buf()));
            }
        })?;
        Ok(self.delete_rows(table, rows, keys)?.deleted)
    }
}

/// Judges a row against the present state: unique keys, then parents.
pub(super) fn judge(
    table: &Table,
    row: &[Value],
    plan: &Plan,
    n: usize,
    constraints: &[Constraint<'_>],
    keys: &KeySet,
) -> Result<()> {
    let own = plan.own(n);
    for (place, id) in own.iter().enumerate() {
        if *id != NO_KEY && keys.present(*id) {
            let index = match place.checked_sub(1) {
                None => 0,
                Some(u) => table.derived().uniques.get(u).copied().unwrap_or(0),
            };
            return Err(table.duplicate(index, row));
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
