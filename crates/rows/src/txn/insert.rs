//! INSERT, INSERT IGNORE, REPLACE, and the insert half of upserts (ON DUPLICATE
//! KEY UPDATE and memcached's commands).
//!
//! A statement's keys are gathered first: each row's primary key and unique entries (exclusive),
//! and the parents it references (key-share). They are locked in **one** engine call, in the
//! engine's (space, key) order, whatever the number of rows, keys and constraints. Then rows are
//! checked and written one by one, in the statement's order, against the result of the lock call and
//! the writes of earlier rows (transactions.md, rule 13).
//!
//! Invariants:
//! 1. A duplicate key (1062) takes precedence over a missing parent (1452) of the same row;
//!    indexes are checked in their order.
//! 2. A row may reference itself. A row sees earlier rows of the same statement as parents and
//!    duplicates, but not later ones.
//! 3. Parents written by this transaction are locked in the same batch: the engine grants locks
//!    that the transaction already has, and returns its own write.
//! 4. With IGNORE a generated id whose row is skipped goes to the next row that needs one, so that
//!    inserted rows have consecutive ids.
//! 5. An upsert that finds a row has locked it exclusively and written nothing; it checks parents
//!    only for a new row.
//!
//! Rejected: own keys in one call, then the parents in another. It costs another round trip, and
//! locks child before parent, whereas a parent's delete locks parent before child: a deadlock.

use super::Statement;
use super::expired::parents_expire;
use super::expressions::{Refused, refusal};
use super::gather::{
    Constraint, NO_KEY, Plan, check_keys, check_not_null, constraints, gather_own, taken_keys,
};
use super::keyset::{KeyId, KeySet};
use super::lookup::{Lookup, complete_rows};
use crate::autoinc::GeneratedIds;
use crate::overflow::OverflowFetch;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use crate::{Error, Result};
use porpoise_base::interrupt::Pacer;
use porpoise_kv::{Key, LockMode, Read};
use porpoise_types::Value;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Treatment of a row whose key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertMode {
    /// Fail.
    Plain,
    /// Skip rows that violate a constraint.
    Ignore,
    /// Delete the conflicting rows first; an equal row stays as it is.
    Replace,
}

/// Result of an INSERT.
#[derive(Clone, Debug, Default)]
pub struct InsertOutcome {
    /// Rows inserted.
    pub inserted: u64,
    /// Rows that REPLACE deleted.
    pub replaced: u64,
    /// Rows skipped by IGNORE: position in the call, and error.
    pub skipped: Vec<(usize, Error)>,
}

/// Outcome of [`super::Txn::insert_or_find`].
#[derive(Clone, Debug)]
pub enum Inserted {
    /// The row was inserted.
    New,
    /// There is a conflicting row, which is locked exclusively. Nothing was written.
    Duplicate {
        /// Position of the first index that has the value.
        index: usize,
        /// Primary key of the conflicting row.
        primary: Vec<u8>,
        /// The conflicting row's newest version.
        row: RowBuf,
        /// Whether it is newer than the transaction's snapshot.
        newer: bool,
    },
}

impl Statement<'_> {
    /// Inserts the rows. `first` is the number of the first row in `ids`.
    pub(super) fn insert_rows(
        &mut self,
        table: &Arc<Table>,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
        refused: Refused,
        ids: &mut GeneratedIds,
        first: usize,
    ) -> Result<InsertOutcome> {
        let has_relatives = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
        let catalog = has_relatives.then(|| self.txn.db.catalog_of(table));
        let catalog = catalog.transpose()?;
        let constraints = match &catalog {
            Some(catalog) if self.txn.settings.foreign_key_checks => constraints(catalog, table),
            _ => SmallVec::new(),
        };
        let uniques = table.derived().unique_indexes.len();
        let mut new = NewRows {
            table,
            mode,
            hidden: self.txn.hidden_ids(table, rows.len())?,
            constraints: &constraints,
            plan: Plan::new(rows.len(), uniques, constraints.len()),
        };
        self.keys.keep_values = mode == InsertMode::Replace;
        self.keys.reserve(rows.len() * new.plan.stride);
        let (mut unfit, usable) = new.gather(rows, refused, &mut self.keys);
        self.lock_with_parents(&constraints, &new.plan)?;
        if mode == InsertMode::Replace {
            self.lock_replaced(table, &new.plan, rows.get(..usable).unwrap_or(rows))?;
        }
        if table.has_text_index() {
            self.read_removals_of_new(table, &new.plan, rows.get(..usable).unwrap_or(rows))?;
        }
        let indexes = table.maintained_indexes().count();
        self.txn.kv.reserve_writes(usable * indexes);
        let mut done = InsertOutcome::default();
        for (n, row) in rows.iter_mut().enumerate().take(usable) {
            let mut refusal = unfit.get_mut(n).and_then(Option::take);
            if let Some((position, id)) = ids.reassigned_id(table, first + n, row)
                && let Some(value) = row.get_mut(position)
            {
                *value = id;
                refusal = refusal.or_else(|| table.partition_of_row(row).err());
                if refusal.is_none() {
                    self.regather(row, n, &mut new)?;
                }
            }
            let checked = match refusal {
                Some(e) => Err(e),
                None => self.check_new_row(row, n, &mut new, ids.is_generated(first + n)),
            };
            match checked {
                Ok(replaced) => {
                    done.replaced += self.write_checked(table, &new.plan, n, row, replaced)?;
                    ids.note_inserted(first + n, row);
                    done.inserted += 1;
                    self.fire_after_insert(table, row)?;
                }
                Err(e) if mode == InsertMode::Ignore && e.ignorable() => done.skipped.push((n, e)),
                Err(e) => return Err(e),
            }
        }
        match unfit.pop().flatten().filter(|_| usable < rows.len()) {
            Some(e) => Err(e),
            None => Ok(done),
        }
    }

    /// Reads the removals of the documents of new rows, except of rows that REPLACE leaves as they are.
    fn read_removals_of_new(
        &mut self,
        table: &Table,
        plan: &Plan,
        rows: &[Vec<Value>],
    ) -> Result<()> {
        let mut written = Vec::with_capacity(rows.len());
        for (n, row) in rows.iter().enumerate() {
            if !self.is_locked_row_equal(table, row, plan.own(n))? {
                written.push(plan.primary(n, &self.keys));
            }
        }
        self.read_removals(table, &written)
    }

    /// Whether the row that the lock call returned for the primary key of a new row is equal to it. False if
    /// the transaction has written that key, and for tables that foreign keys refer to.
    fn is_locked_row_equal(&self, table: &Table, row: &[Value], own: &[KeyId]) -> Result<bool> {
        let Some(id) = own.first().copied().filter(|id| *id != NO_KEY) else {
            return Ok(false);
        };
        let is_known = self.keys.present(id) && self.keys.is_unwritten(id);
        let value = self.keys.value(id).filter(|_| is_known);
        let Some(value) = value.filter(|_| table.referenced_by.is_empty()) else {
            return Ok(false);
        };
        let old = RowRef::new(table, value)?;
        Ok(!old.has_overflow() && is_equal(row, &old))
    }

    /// Locks the keys gathered since the last call, and marks expired parents among them as absent.
    fn lock_with_parents(&mut self, constraints: &[Constraint<'_>], plan: &Plan) -> Result<()> {
        self.lock_keys()?;
        if parents_expire(constraints) {
            self.hide_expired_parents(constraints, &plan.all_parents())?;
        }
        Ok(())
    }

    /// Gathers and locks the keys of a row whose id has changed. If the id alone is the primary
    /// key, its keys are locked already, for the row that did not use it.
    fn regather(&mut self, row: &[Value], n: usize, new: &mut NewRows<'_>) -> Result<()> {
        let mut ids = Vec::with_capacity(new.plan.stride);
        new.gather_row(row, n, &mut self.keys, &mut ids);
        new.plan.set(n, &ids);
        self.lock_keys()
    }

    /// Replaces the generated id of a row if another server has stored a row with it meanwhile.
    fn renew_taken_id(&mut self, row: &mut [Value], n: usize, new: &mut NewRows<'_>) -> Result<()> {
        for attempt in 0..MAX_RENEWALS {
            let mut taken = taken_keys(new.table, row, new.plan.own(n), &self.keys);
            if !taken.any(|(index, _)| is_of_id_alone(new.table, index)) {
                break;
            }
            drop(taken);
            let (db, engine) = (self.txn.db.clone(), self.txn.db.engine().clone());
            let Some((at, id)) = db.counters.renew(engine.as_ref(), new.table, attempt)? else {
                break;
            };
            if let Some(value) = row.get_mut(at) {
                *value = id;
            }
            new.table.partition_of_row(row)?;
            self.regather(row, n, new)?;
        }
        Ok(())
    }

    /// Checks a row; with REPLACE, deletes the conflicting rows first.
    fn check_new_row(
        &mut self,
        row: &mut [Value],
        n: usize,
        new: &mut NewRows<'_>,
        has_generated_id: bool,
    ) -> Result<Replaced> {
        if has_generated_id && self.txn.db.is_clustered() {
            self.renew_taken_id(row, n, new)?;
        }
        let replaced = match new.mode {
            InsertMode::Replace => self.delete_conflicting(new.table, row, new.plan.own(n))?,
            InsertMode::Plain | InsertMode::Ignore => Replaced::Rows(0),
        };
        if matches!(replaced, Replaced::Rows(_)) {
            check_keys(new.table, row, &new.plan, n, new.constraints, &self.keys)?;
        }
        Ok(replaced)
    }

    /// Writes a checked row, unless an equal row exists. Returns the number of rows it replaces.
    fn write_checked(
        &mut self,
        table: &Table,
        plan: &Plan,
        n: usize,
        row: &[Value],
        replaced: Replaced,
    ) -> Result<u64> {
        match replaced {
            Replaced::Same => Ok(0),
            Replaced::Rows(deleted) => {
                self.write_new(table, plan, n, row)?;
                Ok(deleted)
            }
        }
    }

    /// Locks, in one call, the rows that REPLACE will delete, found by the entries that were just
    /// locked.
    fn lock_replaced(&mut self, table: &Table, plan: &Plan, rows: &[Vec<Value>]) -> Result<()> {
        for (n, row) in rows.iter().enumerate() {
            let taken = taken_keys(table, row, plan.own(n), &self.keys);
            let taken: SmallVec<[(usize, KeyId); 4]> = taken.collect();
            for (index, id) in taken {
                self.txn.check_newer(self.keys.newer(id))?;
                if index > 0
                    && let Some(primary) = self.keys.value(id).map(<[u8]>::to_vec)
                {
                    self.keys
                        .add(table.space(0, &primary), &primary, LockMode::Exclusive);
                }
            }
        }
        self.lock_keys()
    }

    /// Deletes the rows that conflict with `row`, unless there is only one and it is equal. As in
    /// InnoDB, a row that foreign keys may reference is always deleted.
    fn delete_conflicting(
        &mut self,
        table: &Arc<Table>,
        row: &[Value],
        own: &[KeyId],
    ) -> Result<Replaced> {
        if self.is_locked_row_equal(table, row, own)? {
            return Ok(Replaced::Same);
        }
        let mut primaries: Vec<Vec<u8>> = Vec::new();
        // The entries as they are now, own writes of this statement included.
        let mut entries: SmallVec<[Key<'_>; 4]> = SmallVec::new();
        for (index, id) in taken_keys(table, row, own, &self.keys) {
            let key = self.keys.key(id);
            match index {
                0 => primaries.push(key.to_vec()),
                _ => entries.push(Key::new(table.space(index, key), key)),
            }
        }
        if !entries.is_empty() {
            let mut found: SmallVec<[Option<Vec<u8>>; 4]> = smallvec![None; entries.len()];
            self.txn.kv.get(Read::CURRENT, &entries, &mut |n, value| {
                if let Some(place) = found.get_mut(n) {
                    *place = value.map(<[u8]>::to_vec);
                }
            })?;
            primaries.extend(found.into_iter().flatten());
        }
        drop(entries);
        if primaries.is_empty() {
            return Ok(Replaced::Rows(0));
        }
        // In the order of the indexes, as MySQL deletes them, each once.
        let mut wanted: SmallVec<[&[u8]; 4]> = SmallVec::new();
        for primary in &primaries {
            if !wanted.contains(&primary.as_slice()) {
                wanted.push(primary);
            }
        }
        let mut rows = Vec::new();
        let lookup = Lookup::primary(table, &wanted).in_order();
        lookup.read(self.txn.kv.as_mut(), Read::CURRENT, &mut |_, found| {
            if let Some(found) = found {
                rows.push((found.primary.to_vec(), found.row.to_buf()));
            }
        })?;
        if table.referenced_by.is_empty()
            && let [(_, old)] = rows.as_slice()
            && is_equal(row, &old.row(table)?)
        {
            return Ok(Replaced::Same);
        }
        Ok(Replaced::Rows(self.delete_rows(table, rows)?.deleted))
    }

    /// Inserts a row, unless one with an equal key exists.
    pub(super) fn insert_one(&mut self, table: &Arc<Table>, row: &[Value]) -> Result<Inserted> {
        check_not_null(table, row)?;
        table.partition_of_row(row)?;
        let hidden = self.txn.hidden_ids(table, 1)?;
        let uniques = table.derived().unique_indexes.len();
        let mut plan = Plan::new(1, uniques, 0);
        gather_own(table, row, hidden, &mut self.keys, &mut plan.ids);
        self.keys.keep_values = true;
        self.lock_keys()?;
        let taken = taken_keys(table, row, plan.own(0), &self.keys).next();
        if let Some((index, id)) = taken {
            return self.find_duplicate_row(table, index, id);
        }
        if self.txn.settings.foreign_key_checks && !table.foreign_keys.is_empty() {
            let catalog = self.txn.db.catalog_of(table)?;
            let constraints = constraints(&catalog, table);
            for constraint in &constraints {
                plan.ids.push(constraint.gather(row, &mut self.keys));
            }
            plan.stride = plan.ids.len();
            self.lock_with_parents(&constraints, &plan)?;
            check_keys(table, row, &plan, 0, &constraints, &self.keys)?;
        }
        self.write_new(table, &plan, 0, row)?;
        Ok(Inserted::New)
    }

    /// Returns the row that has a duplicate key.
    fn find_duplicate_row(&mut self, table: &Table, index: usize, id: KeyId) -> Result<Inserted> {
        let row_id = if index == 0 {
            id
        } else {
            let primary = self.keys.value(id).unwrap_or(&[]).to_vec();
            let space = table.space(0, &primary);
            let row_id = self.keys.add(space, &primary, LockMode::Exclusive);
            self.lock_keys()?;
            row_id
        };
        let Some(row) = self.keys.value(row_id) else {
            return Err(Error::Corrupt(format!(
                "index {index} of {} names a row that does not exist",
                table.quoted_name()
            )));
        };
        let newer = self.keys.newer(id) || self.keys.newer(row_id);
        let mut rows = [(self.keys.key(row_id).to_vec(), RowBuf::from(row.to_vec()))];
        complete_rows(
            self.txn.kv.as_mut(),
            table,
            &mut rows,
            OverflowFetch::All,
            Read::CURRENT,
        )?;
        let [(primary, row)] = rows;
        Ok(Inserted::Duplicate {
            index,
            primary,
            row,
            newer,
        })
    }
}

/// Number of ids tried for one row before it is refused as a duplicate.
const MAX_RENEWALS: usize = 64;

/// Whether an index consists of the auto-increment column.
fn is_of_id_alone(table: &Table, index: usize) -> bool {
    let parts = table.indexes.get(index).map(|index| index.parts.as_slice());
    matches!(parts, Some([part]) if Some(part.column) == table.auto_increment())
}

impl super::Txn {
    /// Replaces the generated id of a row that [`super::Txn::insert_or_find`] did not insert, because
    /// another server has stored a row with that id in index `index`. Returns false if the index has
    /// other columns, or the engine is one server's own. `attempt` counts from 0.
    ///
    /// # Errors
    /// As [`super::Txn::assign_auto_increment`].
    pub fn renew_generated_id(
        &self,
        table: &Table,
        row: &mut [Value],
        index: usize,
        attempt: usize,
    ) -> Result<bool> {
        let is_taken = self.db.is_clustered() && is_of_id_alone(table, index);
        if !is_taken || attempt >= MAX_RENEWALS {
            return Ok(false);
        }
        let engine = self.db.engine().as_ref();
        let Some((at, id)) = self.db.counters.renew(engine, table, attempt)? else {
            return Ok(false);
        };
        if let Some(value) = row.get_mut(at) {
            *value = id;
        }
        Ok(true)
    }
}

/// Effect of a new row of REPLACE on the rows that it conflicts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    /// This number of rows was deleted.
    Rows(u64),
    /// The only conflicting row is equal, and stays as it is.
    Same,
}

/// Whether a new row is equal to a stored one. A stored row with an expiry time is equal to none.
fn is_equal(new: &[Value], old: &RowRef<'_>) -> bool {
    let mut values = new.iter().enumerate();
    old.expiry() == 0 && values.all(|(n, value)| value.as_ref() == old.get(n))
}

/// The rows of one statement, and their keys.
struct NewRows<'a> {
    table: &'a Arc<Table>,
    mode: InsertMode,
    /// The hidden id of the first row.
    hidden: u64,
    constraints: &'a [Constraint<'a>],
    plan: Plan,
}

impl NewRows<'_> {
    /// Gathers the keys of all rows. Returns the errors of rows that do not fit the table, and how
    /// many rows can be checked before one of them ends the statement.
    fn gather(
        &mut self,
        rows: &[Vec<Value>],
        mut refused: Refused,
        keys: &mut KeySet,
    ) -> (Vec<Option<Error>>, usize) {
        let mut unfit: Vec<Option<Error>> = Vec::new();
        let mut ids = std::mem::take(&mut self.plan.ids);
        let mut usable = rows.len();
        let mut pacer = Pacer::new();
        for (n, row) in rows.iter().enumerate() {
            if pacer.leaves() {
                usable = n;
                break;
            }
            let fits = match refusal(&mut refused, n) {
                None => check_not_null(self.table, row),
                Some(error) => Err(error),
            };
            let fits = fits.and_then(|()| self.table.partition_of_row(row).map(|_| ()));
            let Err(e) = fits else {
                self.gather_row(row, n, keys, &mut ids);
                continue;
            };
            unfit.resize_with(n + 1, || None);
            if let Some(place) = unfit.last_mut() {
                *place = Some(e);
            }
            if self.mode != InsertMode::Ignore {
                // Earlier rows are checked first.
                usable = n;
                break;
            }
            ids.extend(std::iter::repeat_n(NO_KEY, self.plan.stride));
        }
        self.plan.ids = ids;
        (unfit, usable)
    }

    /// Adds the keys of one row to those to lock.
    #[inline]
    fn gather_row(&self, row: &[Value], n: usize, keys: &mut KeySet, ids: &mut Vec<KeyId>) {
        gather_own(self.table, row, self.hidden + n as u64, keys, ids);
        for constraint in self.constraints {
            ids.push(constraint.gather(row, keys));
        }
    }
}
