//! Writing statements: the state of one besides its transaction, and its atomicity.

use super::Txn;
use super::documents::ReadRemovals;
use super::firing::{FireTriggers, Firing};
use super::keyset::KeySet;
use crate::table::Table;
use crate::triggers::{TriggerEvent, TriggerTime};
use crate::{Error, Result};
use porpoise_kv as kv;
use porpoise_types::Value;
use std::sync::Arc;

/// A writing statement: its transaction, and the keys that it locks and checks.
pub(super) struct Statement<'t> {
    pub(super) txn: &'t mut Txn,
    /// Boxed, because it is taken from the transaction's buffers and returned to them.
    pub(super) keys: Box<KeySet>,
    /// Whether replaced rows keep their version.
    pub(super) keep_version: bool,
    /// Runs the triggers of rows that foreign key actions change; `None` for the server's own
    /// runner.
    pub(super) runner: Option<&'t dyn FireTriggers>,
    /// Firing of AFTER INSERT triggers by the statement itself.
    pub(super) after_insert: AfterInsert,
    /// Removals of FULLTEXT indexes that were read ahead.
    pub(super) removals: ReadRemovals,
}

/// Firing of AFTER INSERT triggers for the rows that a statement inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterInsert {
    /// The caller fires them, if there are any.
    ByCaller,
    /// After each row, before the next one is written.
    EachRow,
    /// As `EachRow`, but rows that the triggers insert may be written together at the end of the statement.
    InBatch,
}

impl Statement<'_> {
    /// Locks the keys gathered since the last call.
    pub(super) fn lock_keys(&mut self) -> Result<()> {
        if !self.keys.has_unlocked() {
            return Ok(());
        }
        let wait = self.txn.wait();
        Ok(self.keys.lock(self.txn.kv.as_mut(), wait)?)
    }

    /// Fires the AFTER INSERT triggers of a row that was just written, if they fire row by row.
    pub(super) fn fire_after_insert(
        &mut self,
        table: &Arc<Table>,
        row: &mut Vec<Value>,
    ) -> Result<()> {
        let fires = self.after_insert != AfterInsert::ByCaller;
        let Some(runner) = self.runner.filter(|_| fires) else {
            return Ok(());
        };
        let mut firing = Firing {
            table,
            time: TriggerTime::After,
            event: TriggerEvent::Insert,
            old: &[],
            new: row,
        };
        if self.after_insert == AfterInsert::EachRow {
            return self.txn.fire(runner, &[table.id], &mut firing);
        }
        self.txn.fire_in_batch(runner, &mut firing)
    }
}

impl Txn {
    /// Runs a writing statement with an empty key set. If it fails, its writes are rolled back.
    pub(super) fn statement<T>(
        &mut self,
        table: &Table,
        runner: Option<&dyn FireTriggers>,
        run: impl FnOnce(&mut Statement<'_>) -> Result<T>,
    ) -> Result<T> {
        let mark = self.kv.mark();
        let keys = self.scratch.buffers().keys.take();
        let keys = keys.unwrap_or_default();
        let mut statement = Statement {
            txn: self,
            keys,
            keep_version: false,
            runner,
            after_insert: AfterInsert::ByCaller,
            removals: ReadRemovals::new(),
        };
        let done = run(&mut statement);
        let mut keys = statement.keys;
        keys.clear();
        self.scratch.buffers().keys = Some(keys);
        if done.is_err() {
            self.rollback_to(mark);
        }
        done.map_err(|e| match e {
            Error::Kv(kv::Error::Full(kv::Resource::Memory | kv::Resource::Disk)) => Error::Full {
                table: table.name.clone(),
            },
            e => e,
        })
    }
}
