//! Triggers: how writers of rows fire them.
//!
//! This crate stores a trigger's text and knows when it fires; it does not know SQL. A SQL session
//! passes its own [`FireTriggers`] to [`Txn::firing`], so that bodies share its user variables; for
//! all other writers, memcached among them, the server has one ([`Db::set_trigger_runner`]).
//! [`FiringTxn`] has the writing functions of [`Txn`]. A table without triggers is written as there,
//! in batches; only its foreign key actions may fire triggers of other tables ([`super::cascade`]).
//! Rows of a table with triggers are written one by one, those of an INSERT after all their keys have been
//! locked in one call if the table has only AFTER INSERT triggers and no foreign keys:
//!
//! ```text
//!  INSERT   BEFORE INSERT, write, AFTER INSERT
//!  REPLACE  BEFORE INSERT, (for each row in the way: DELETE as below), write, AFTER INSERT
//!  UPDATE   BEFORE UPDATE, write if a value differs, AFTER UPDATE
//!  DELETE   BEFORE DELETE, delete, AFTER DELETE
//! ```
//!
//! Invariants:
//! 1. A BEFORE trigger runs before the row's keys are locked and its constraints are checked, an
//!    AFTER trigger after the row and its entries are written. Rows of a table with triggers are
//!    written one by one, so that the trigger of a row sees all earlier rows of the statement.
//! 2. What triggers write belongs to the statement that fired them: if it fails, their writes are
//!    rolled back, too.
//! 3. A trigger cannot write to a table that a statement around it is writing (error 1442), so
//!    that nothing changes between the check and the write of a row.
//!
//! Rejected: queueing AFTER triggers until the end of the statement (a trigger's error would be
//! reported for the wrong row, and its effects would come in another order than in MySQL).

use super::delete::DeleteOutcome;
use super::expressions::fetch_overflow_values;
use super::insert::{InsertMode, InsertOutcome, Inserted};
use super::update::{RowChange, UpdateMode, UpdateOutcome};
use super::{Txn, lookup};
use crate::autoinc::GeneratedIds;
use crate::db::Db;
use crate::definition::TableId;
use crate::overflow::OverflowFetch;
use crate::row::RowBuf;
use crate::table::{AccessKind, Table};
use crate::triggers::{Trigger, TriggerEvent, TriggerTime};
use crate::{Error, Result};
use porpoise_kv::{Key, Read};
use porpoise_types::Value;
use std::sync::Arc;

/// One change of a row, for which all triggers of the event and time fire.
#[derive(Debug)]
pub struct Firing<'f> {
    /// The table of the row.
    pub table: &'f Arc<Table>,
    /// When.
    pub time: TriggerTime,
    /// Why.
    pub event: TriggerEvent,
    /// The storage values of the row before the change, in column order; empty for an insertion.
    pub old: &'f [Value],
    /// The storage values of the row after the change; empty for a deletion. Triggers change them
    /// only BEFORE.
    pub new: &'f mut Vec<Value>,
}

impl Firing<'_> {
    /// The triggers that fire, in their order.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        let (time, event) = (self.time, self.event);
        let all = self.table.triggers.iter();
        all.filter(move |t| t.time == time && t.event == event)
    }
}

/// Runs the bodies of triggers.
pub trait FireTriggers {
    /// Runs all triggers of a firing within the transaction.
    ///
    /// # Errors
    /// The first error of a body; the statement that fired it fails.
    fn fire(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<()>;

    /// As [`FireTriggers::fire`], for the AFTER triggers of a statement that writes no other table and checks
    /// none: rows that the bodies insert into other tables may be kept until [`FireTriggers::write_batch`].
    ///
    /// # Errors
    /// As [`FireTriggers::fire`].
    fn fire_in_batch(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<()> {
        self.fire(txn, firing)
    }

    /// Writes the rows that [`FireTriggers::fire_in_batch`] has kept.
    ///
    /// # Errors
    /// A row cannot be inserted.
    fn write_batch(&self, _txn: &mut Txn) -> Result<()> {
        Ok(())
    }
}

/// Whether a table has triggers of this time and event.
pub(crate) fn has_triggers(table: &Table, time: TriggerTime, event: TriggerEvent) -> bool {
    let mut all = table.triggers.iter();
    all.any(|t| t.time == time && t.event == event)
}

/// A runner of triggers that all threads share.
pub type SharedRunner = Arc<dyn FireTriggers + Send + Sync>;

impl Db {
    /// Sets the runner of triggers for writers that pass none of their own; called once, before rows
    /// are written.
    pub fn set_trigger_runner(&self, runner: SharedRunner) {
        let _ = self.trigger_runner.set(Box::new(runner));
    }

    /// The runner of triggers for writers that pass none of their own.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn shared_runner(&self) -> Result<SharedRunner> {
        let runner = self.trigger_runner.get();
        let runner = runner.and_then(|runner| runner.downcast_ref::<SharedRunner>());
        let none = || Error::refused(1815, "HY000", "Internal error: nothing can run triggers");
        runner.cloned().ok_or_else(none)
    }
}

/// A transaction whose writes fire triggers.
pub struct FiringTxn<'t> {
    txn: &'t mut Txn,
    runner: &'t dyn FireTriggers,
}

impl Txn {
    /// Writes rows through the functions of [`FiringTxn`], which fire triggers.
    pub fn firing<'t>(&'t mut self, runner: &'t dyn FireTriggers) -> FiringTxn<'t> {
        FiringTxn { txn: self, runner }
    }

    /// Sets whether foreign key actions fire the triggers of the rows they change.
    pub fn set_cascades_fire(&mut self, on: bool) {
        self.settings.cascades_fire = on;
    }

    /// Fires the triggers of one row. While they run, they cannot write the given tables.
    pub(super) fn fire(
        &mut self,
        runner: &dyn FireTriggers,
        busy: &[TableId],
        firing: &mut Firing<'_>,
    ) -> Result<()> {
        if !has_triggers(firing.table, firing.time, firing.event) {
            return Ok(());
        }
        self.check_cancel()?;
        self.while_busy(busy, |txn| runner.fire(txn, firing))
    }

    /// As [`Txn::fire`], for a statement at whose end [`Txn::write_batch`] is called.
    pub(super) fn fire_in_batch(
        &mut self,
        runner: &dyn FireTriggers,
        firing: &mut Firing<'_>,
    ) -> Result<()> {
        if !has_triggers(firing.table, firing.time, firing.event) {
            return Ok(());
        }
        self.check_cancel()?;
        let busy = [firing.table.id];
        self.while_busy(&busy, |txn| runner.fire_in_batch(txn, firing))
    }

    /// Writes the rows that triggers have inserted in a batch. If a later row has failed, an error of those rows
    /// comes first, as it does when each is written at once.
    pub(super) fn write_batch<T>(
        &mut self,
        runner: &dyn FireTriggers,
        table: &Table,
        done: Result<T>,
    ) -> Result<T> {
        let is_of_row = |e: &Error| e.ignorable() || matches!(e, Error::Trigger { .. });
        if done.as_ref().err().is_none_or(is_of_row) {
            self.while_busy(&[table.id], |txn| runner.write_batch(txn))?;
        }
        done
    }

    /// Runs a part of a statement during which the given tables cannot be written.
    pub(super) fn while_busy<T>(
        &mut self,
        busy: &[TableId],
        run: impl FnOnce(&mut Txn) -> Result<T>,
    ) -> Result<T> {
        let before = self.busy.len();
        self.busy.extend_from_slice(busy);
        let done = run(self);
        self.busy.truncate(before);
        done
    }

    /// Error 1442 if a statement around the present one is writing the table.
    #[inline]
    pub(super) fn check_not_busy(&self, table: &Table) -> Result<()> {
        if self.busy.is_empty() || !self.busy.contains(&table.id) {
            return Ok(());
        }
        Err(Error::TableInUse {
            table: table.name.clone(),
        })
    }
}

impl FiringTxn<'_> {
    /// As [`Txn::insert_with_ids`].
    ///
    /// # Errors
    /// As there; those of triggers.
    pub fn insert_with_ids(
        &mut self,
        table: &Arc<Table>,
        mut rows: Vec<Vec<Value>>,
        mode: InsertMode,
        ids: &mut GeneratedIds,
    ) -> Result<InsertOutcome> {
        if table.triggers.is_empty() {
            let runner = Some(self.runner);
            return self.txn.insert_all(table, &mut rows, mode, ids, 0, runner);
        }
        if self.locks_rows_together(table, mode) {
            return self
                .txn
                .insert_and_fire(table, &mut rows, mode, ids, self.runner);
        }
        self.atomic(|this| {
            let mut done = InsertOutcome::default();
            for (n, row) in rows.into_iter().enumerate() {
                this.insert_row(table, row, mode, ids, n, &mut done)?;
            }
            Ok(done)
        })
    }

    /// Whether the keys of all new rows can be locked before the first row's triggers run: no trigger can change the
    /// rows or their keys' state. BEFORE triggers may change the rows, and any trigger may delete the parents of later
    /// rows; but no trigger changes the table itself.
    fn locks_rows_together(&self, table: &Table, mode: InsertMode) -> bool {
        let references = self.txn.settings.foreign_key_checks && !table.foreign_keys.is_empty();
        mode != InsertMode::Replace
            && !references
            && !has_triggers(table, TriggerTime::Before, TriggerEvent::Insert)
    }

    /// Inserts one row, and fires its triggers.
    fn insert_row(
        &mut self,
        table: &Arc<Table>,
        mut row: Vec<Value>,
        mode: InsertMode,
        ids: &mut GeneratedIds,
        n: usize,
        done: &mut InsertOutcome,
    ) -> Result<()> {
        self.before_insert(table, &mut row, ids.is_generated(n))?;
        if mode == InsertMode::Replace {
            done.replaced += self.delete_conflicting(table, &row, n)?;
        }
        let mut rows = [row];
        let runner = Some(self.runner);
        let written = self
            .txn
            .insert_all(table, &mut rows, mode, ids, n, runner)?;
        done.inserted += written.inserted;
        done.replaced += written.replaced;
        if let Some((_, error)) = written.skipped.into_iter().next() {
            done.skipped.push((n, error));
            return Ok(());
        }
        let [mut row] = rows;
        self.fire(
            table,
            TriggerTime::After,
            TriggerEvent::Insert,
            &[],
            &mut row,
        )
    }

    /// Fires BEFORE INSERT. As in MySQL, triggers see 0 in place of an id that is generated.
    fn before_insert(
        &mut self,
        table: &Arc<Table>,
        row: &mut Vec<Value>,
        generated: bool,
    ) -> Result<()> {
        let (time, event) = (TriggerTime::Before, TriggerEvent::Insert);
        if !has_triggers(table, time, event) {
            return Ok(());
        }
        // Triggers see the generated columns of the given values. They are computed again, and their
        // errors reported, when the row is written.
        let _ = self.txn.evaluator().generate(table, row, 1);
        let position = table.auto_increment().filter(|_| generated);
        let zero = Value::Int(0);
        let mut id = None;
        if let Some(place) = position.and_then(|at| row.get_mut(at)) {
            let shown = match place {
                Value::UInt(_) => Value::UInt(0),
                Value::Double(_) => Value::Double(0.0),
                _ => zero,
            };
            id = Some(std::mem::replace(place, shown.clone())).map(|id| (id, shown));
        }
        self.fire(table, time, event, &[], row)?;
        if let (Some((id, shown)), Some(place)) = (id, position.and_then(|at| row.get_mut(at))) {
            if *place == shown || *place == Value::Null {
                *place = id;
            } else {
                let engine = self.txn.db.engine().as_ref();
                self.txn.db.counters.raise_above(engine, table, place)?;
            }
        }
        Ok(())
    }

    /// Deletes the rows that a REPLACE of a row has to remove, and fires their triggers. Returns
    /// their number.
    fn delete_conflicting(&mut self, table: &Arc<Table>, row: &[Value], n: usize) -> Result<u64> {
        let mut replaced = 0;
        let mut row = row.to_vec();
        if table.evaluates_expressions() {
            self.txn
                .evaluator()
                .evaluate(table, &mut row, n as u64 + 1)?;
        }
        loop {
            let mark = self.txn.kv.mark();
            let found = self.txn.statement(table, Some(self.runner), |statement| {
                statement.insert_one(table, &row)
            })?;
            match found {
                Inserted::New => {
                    // Written again by the caller, as any row.
                    self.txn.rollback_to(mark);
                    return Ok(replaced);
                }
                Inserted::Duplicate {
                    primary,
                    row: old,
                    newer,
                    ..
                } => {
                    self.txn.check_newer(newer)?;
                    replaced += self.delete(table, vec![(primary, old)])?.deleted;
                }
            }
        }
    }

    /// As [`Txn::insert_or_find`]; BEFORE triggers change the row.
    ///
    /// # Errors
    /// As there; those of triggers.
    pub fn insert_or_find(&mut self, table: &Arc<Table>, given: &mut [Value]) -> Result<Inserted> {
        if table.triggers.is_empty() {
            return self.txn.insert_or_find(table, given);
        }
        self.atomic(|this| {
            let mut row = given.to_vec();
            this.txn.accesses.inserted += 1;
            table.accesses().add(AccessKind::Insert, 1);
            this.before_insert(table, &mut row, false)?;
            if table.evaluates_expressions() {
                this.txn.evaluator().evaluate(table, &mut row, 1)?;
            }
            given.clone_from_slice(&row);
            let runner = Some(this.runner);
            let new = std::iter::once((None, row.as_slice()));
            this.txn.remove_expired(table, new, runner)?;
            let found = this
                .txn
                .statement(table, runner, |statement| statement.insert_one(table, &row))?;
            if matches!(found, Inserted::New) {
                this.fire(
                    table,
                    TriggerTime::After,
                    TriggerEvent::Insert,
                    &[],
                    &mut row,
                )?;
            }
            Ok(found)
        })
    }

    /// As [`Txn::update`].
    ///
    /// # Errors
    /// As there; those of triggers.
    pub fn update(
        &mut self,
        table: &Arc<Table>,
        mut changes: Vec<RowChange>,
        mode: UpdateMode,
    ) -> Result<UpdateOutcome> {
        if table.triggers.is_empty() {
            return self
                .txn
                .update_all(table, &mut changes, mode, Some(self.runner));
        }
        let several = mode != UpdateMode::Ignore && changes.len() > 1;
        let in_batch = several && self.writes_alone(table);
        self.atomic(|this| {
            let done = this.update_rows(table, changes, mode, in_batch);
            if in_batch {
                this.txn.write_batch(this.runner, table, done)
            } else {
                done
            }
        })
    }

    /// Whether a change or a deletion of rows neither writes nor checks other tables, so that what the
    /// triggers of a row insert there may be written after the other rows.
    fn writes_alone(&self, table: &Table) -> bool {
        let references = self.txn.foreign_key_checks() && !table.foreign_keys.is_empty();
        !references && table.referenced_by.is_empty()
    }

    fn update_rows(
        &mut self,
        table: &Arc<Table>,
        changes: Vec<RowChange>,
        mode: UpdateMode,
        in_batch: bool,
    ) -> Result<UpdateOutcome> {
        let mut done = UpdateOutcome::default();
        for (n, change) in changes.into_iter().enumerate() {
            let change = match n {
                0 => Some(change),
                _ => self.rebased(table, change)?,
            };
            if let Some(change) = change {
                self.update_row(table, change, (mode, in_batch), n, &mut done)?;
            }
        }
        Ok(done)
    }

    /// Changes one row, and fires its triggers.
    fn update_row(
        &mut self,
        table: &Arc<Table>,
        mut change: RowChange,
        (mode, in_batch): (UpdateMode, bool),
        n: usize,
        done: &mut UpdateOutcome,
    ) -> Result<()> {
        let kv = self.txn.kv.as_mut();
        fetch_overflow_values(kv, table, &change.key, &mut change.old, &mut change.new)?;
        let old = change.old.row(table)?.values();
        let number = n as u64 + 1;
        if table.evaluates_expressions() {
            self.txn
                .evaluator()
                .generate(table, &mut change.new, number)?;
        }
        let event = TriggerEvent::Update;
        self.fire(table, TriggerTime::Before, event, &old, &mut change.new)?;
        let mut changes = [change];
        let runner = Some(self.runner);
        let written = self.txn.update_all(table, &mut changes, mode, runner)?;
        done.changed += written.changed;
        done.cascaded += written.cascaded;
        if let Some((_, error)) = written.skipped.into_iter().next() {
            done.skipped.push((n, error));
            return Ok(());
        }
        let [mut change] = changes;
        self.fire_after(table, event, &old, &mut change.new, in_batch)
    }

    /// The change of a row that an earlier row's foreign key actions may have changed, on its
    /// present values; `None` if it was deleted.
    fn rebased(&mut self, table: &Arc<Table>, change: RowChange) -> Result<Option<RowChange>> {
        if !table
            .referenced_by
            .iter()
            .any(|(child, _)| *child == table.id)
        {
            return Ok(Some(change));
        }
        super::reapply::rebase(self.txn.kv.as_mut(), table, &change, &change.key)
    }

    /// As [`Txn::delete`].
    ///
    /// # Errors
    /// As there; those of triggers.
    pub fn delete(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
    ) -> Result<DeleteOutcome> {
        if table.triggers.is_empty() {
            return self.txn.delete_all(table, rows, Some(self.runner));
        }
        let in_batch = rows.len() > 1 && self.writes_alone(table);
        self.atomic(|this| {
            let done = this.delete_rows(table, rows, in_batch);
            if in_batch {
                this.txn.write_batch(this.runner, table, done)
            } else {
                done
            }
        })
    }

    fn delete_rows(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
        in_batch: bool,
    ) -> Result<DeleteOutcome> {
        let mut done = DeleteOutcome::default();
        for (n, row) in rows.into_iter().enumerate() {
            if n > 0 && !self.is_present(table, &row.0)? {
                continue;
            }
            let one = self.delete_row(table, row, in_batch)?;
            done.deleted += one.deleted;
            done.cascaded += one.cascaded;
        }
        Ok(done)
    }

    /// Deletes one row, and fires its triggers.
    fn delete_row(
        &mut self,
        table: &Arc<Table>,
        row: (Vec<u8>, RowBuf),
        in_batch: bool,
    ) -> Result<DeleteOutcome> {
        let mut rows = [row];
        let kv = self.txn.kv.as_mut();
        lookup::complete_rows(kv, table, &mut rows, OverflowFetch::All, Read::CURRENT)?;
        let [row] = rows;
        let old = row.1.row(table)?.values();
        let event = TriggerEvent::Delete;
        self.fire(table, TriggerTime::Before, event, &old, &mut Vec::new())?;
        let done = self.txn.delete_all(table, vec![row], Some(self.runner))?;
        self.fire_after(table, event, &old, &mut Vec::new(), in_batch)?;
        Ok(done)
    }

    /// Whether a row exists now, own writes included.
    fn is_present(&mut self, table: &Arc<Table>, primary: &[u8]) -> Result<bool> {
        let key = Key::new(table.space(0, primary), primary);
        let mut found = false;
        let kv = self.txn.kv.as_mut();
        kv.get(Read::CURRENT, &[key], &mut |_, value| {
            found = value.is_some()
        })?;
        Ok(found)
    }

    fn fire(
        &mut self,
        table: &Arc<Table>,
        time: TriggerTime,
        event: TriggerEvent,
        old: &[Value],
        new: &mut Vec<Value>,
    ) -> Result<()> {
        let mut firing = Firing {
            table,
            time,
            event,
            old,
            new,
        };
        self.txn.fire(self.runner, &[table.id], &mut firing)
    }

    /// Fires the AFTER triggers of a row.
    fn fire_after(
        &mut self,
        table: &Arc<Table>,
        event: TriggerEvent,
        old: &[Value],
        new: &mut Vec<Value>,
        in_batch: bool,
    ) -> Result<()> {
        let time = TriggerTime::After;
        if !in_batch {
            return self.fire(table, time, event, old, new);
        }
        let mut firing = Firing {
            table,
            time,
            event,
            old,
            new,
        };
        self.txn.fire_in_batch(self.runner, &mut firing)
    }

    /// Runs a writing call; if it fails, its writes and those of its triggers are rolled back.
    fn atomic<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let mark = self.txn.kv.mark();
        let done = run(self);
        if done.is_err() {
            self.txn.rollback_to(mark);
        }
        done
    }
}
