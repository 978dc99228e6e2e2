//! Transactions of a session: begin, commit, savepoints, isolation levels.

use super::track::TxnActivity;
use super::{Outcome, SqlSession};
use crate::server::Counters;
use crate::status::Counter;
use crate::vars::settings::{self, IsolationLevel};
use porpoise_kv::{Commit, CommitPosition, Isolation, StatementMark};
use porpoise_rows::catalog::Table;
use porpoise_rows::hot_keys::Interface;
use porpoise_rows::metadata_lock::Activity;
use porpoise_rows::{BeginOptions, Txn};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    Completion, Isolation as AstIsolation, SetTransaction, StartTransaction, VarScope,
};
use porpoise_sql_plan::plan::sinks::Plan;
use std::cell::RefCell;
use std::sync::Arc;

/// A transaction of a session. It ends with the statement that began it, or stays open in
/// [`SqlSession`].
pub struct OpenTxn {
    /// The transaction on rows.
    pub txn: RefCell<Txn>,
    /// Its isolation.
    pub isolation: IsolationLevel,
    /// Whether changes are rejected (1792).
    pub read_only: bool,
    /// Version of the catalog when the snapshot was taken.
    pub snapshot_version: u64,
    pub(super) savepoints: Vec<(String, StatementMark)>,
    /// Set if START TRANSACTION or BEGIN began it; `None` if another statement did.
    pub(super) started: Option<ExplicitStart>,
    /// Characteristics of SET TRANSACTION and START TRANSACTION.
    pub(super) requested: TxnCharacteristics,
    /// Its activity so far.
    pub(super) activity: TxnActivity,
}

impl OpenTxn {
    /// A transaction that was just begun.
    pub(super) fn new(txn: Txn, isolation: IsolationLevel) -> OpenTxn {
        OpenTxn {
            txn: RefCell::new(txn),
            isolation,
            read_only: false,
            snapshot_version: 0,
            savepoints: Vec::new(),
            started: None,
            requested: TxnCharacteristics::default(),
            activity: TxnActivity::default(),
        }
    }

    /// Begins a transaction of the same isolation in place of one that [`Txn::restart`] has ended.
    fn restart(&mut self, options: &BeginOptions) {
        self.txn.get_mut().set_options(options);
        self.snapshot_version = 0;
        self.savepoints.clear();
        self.started = None;
        self.activity = TxnActivity::default();
    }

    /// Checks a plan on these tables before it is executed.
    ///
    /// # Errors
    /// 1792 in a read-only transaction, 1412 if a definition is newer than the snapshot.
    pub(super) fn check(&self, plan: &Plan, tables: &[(Arc<Table>, bool)]) -> Result<()> {
        if self.read_only && plan.writes() {
            return Err(SqlError::read_only_transaction());
        }
        let newer = |t: &Arc<Table>| t.incompatible_since > self.snapshot_version;
        if self.txn.borrow().pinned() && tables.iter().any(|(t, _)| newer(t)) {
            return Err(SqlError::from(porpoise_rows::Error::DefinitionChanged));
        }
        Ok(())
    }
}

/// The START TRANSACTION that began a transaction.
#[derive(Clone, Copy, Debug)]
pub struct ExplicitStart {
    /// WITH CONSISTENT SNAPSHOT.
    pub(super) snapshot: bool,
}

/// Transaction characteristics of SET TRANSACTION without a scope.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxnCharacteristics {
    pub(super) isolation: Option<IsolationLevel>,
    pub(super) read_only: Option<bool>,
}

/// The name of an isolation level, as in `transaction_isolation`.
fn level_name(level: AstIsolation) -> &'static str {
    match level {
        AstIsolation::ReadUncommitted => "READ-UNCOMMITTED",
        AstIsolation::ReadCommitted => "READ-COMMITTED",
        AstIsolation::RepeatableRead => "REPEATABLE-READ",
        AstIsolation::Serializable => "SERIALIZABLE",
    }
}

impl SqlSession {
    /// Error if the engine does not support `SERIALIZABLE`.
    pub(crate) fn check_isolation(&self, level: IsolationLevel) -> Result<()> {
        let engine = self.cx.server.db.engine();
        if level == IsolationLevel::Serializable && !engine.capabilities().serializable {
            let text = format!(
                "The isolation level SERIALIZABLE is not available on the {} engine, which gives \
                 snapshot isolation",
                engine.name()
            );
            return Err(SqlError::new(1235, "42000", text));
        }
        Ok(())
    }

    /// Begins a transaction with the session's settings and the characteristics of SET TRANSACTION,
    /// which are consumed.
    pub(crate) fn begin_txn(&mut self) -> Result<Box<OpenTxn>> {
        let next = std::mem::take(&mut self.next);
        let isolation = next.isolation.unwrap_or(self.cx.settings.isolation);
        self.check_isolation(isolation)?;
        let options = BeginOptions {
            isolation: match isolation {
                IsolationLevel::Serializable => Isolation::Serializable,
                _ => Isolation::Snapshot,
            },
            sync: false,
            cancel: self.cx.env.cancel.clone(),
            lock_wait: self.cx.settings.lock_wait,
            foreign_key_checks: self.cx.settings.foreign_key_checks,
            fires_triggers: true,
            cascades_fire: self.cx.settings.cascades_fire,
            snapshot_conflicts: self.cx.settings.snapshot_isolation
                && isolation != IsolationLevel::ReadCommitted,
            interface: Interface::Sql,
            logged: self.logs_changes(),
            replicates: self.origin.is_some(),
            is_privileged: self.cx.server.db.is_read_only() && self.ignores_read_only(),
        };
        let mut open = match self.restarted.take_if(|open| open.isolation == isolation) {
            Some(mut open) => {
                open.restart(&options);
                open
            }
            None => Box::new(OpenTxn::new(self.cx.server.db.begin(options)?, isolation)),
        };
        if let Some(origin) = self.origin {
            open.txn.get_mut().set_origin(origin);
        }
        open.read_only = next.read_only.unwrap_or(self.cx.settings.read_only);
        open.requested = next;
        Ok(open)
    }

    /// Commits a transaction. It is kept for the next one.
    fn commit_txn(&mut self, mut open: Box<OpenTxn>) -> porpoise_rows::Result<Commit> {
        if !open.txn.get_mut().restarts() {
            return open.txn.into_inner().commit();
        }
        let done = open.txn.get_mut().commit_and_restart();
        if done.is_ok() {
            self.restarted = Some(open);
        }
        done
    }

    /// Ends a transaction that has only read. It is kept for the next one.
    pub(super) fn end_reads(&mut self, mut open: Box<OpenTxn>) {
        if open.txn.get_mut().restart() {
            self.restarted = Some(open);
        } else {
            open.txn.into_inner().rollback();
        }
        self.metadata_locks.release();
    }

    /// START TRANSACTION, BEGIN.
    pub(crate) fn start_transaction(&mut self, start: &StartTransaction) -> Result<Outcome> {
        let position = self.commit()?;
        if let Some(read_only) = start.read_only {
            self.next.read_only = Some(read_only);
        }
        let mut open = self.begin_txn()?;
        if start.snapshot && open.isolation != IsolationLevel::ReadCommitted {
            open.snapshot_version = self.cx.server.db.catalog_version();
            open.txn.get_mut().refresh()?;
            open.txn.get_mut().pin()?;
        }
        open.started = Some(ExplicitStart {
            snapshot: start.snapshot,
        });
        self.open = Some(open);
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// The implicit commit before data definition.
    ///
    /// # Errors
    /// 1792 in a read-only transaction, 1180 and others if the commit fails.
    pub(super) fn commit_implicitly(&mut self) -> Result<CommitPosition> {
        self.check_no_branch()?;
        let default = self.next.read_only.unwrap_or(self.cx.settings.read_only);
        if self.open.as_ref().map_or(default, |open| open.read_only) {
            return Err(SqlError::read_only_transaction());
        }
        self.commit()
    }

    /// Commits the open transaction.
    ///
    /// # Errors
    /// 1399 if it is an XA transaction branch; errors of the commit.
    pub(crate) fn commit(&mut self) -> Result<CommitPosition> {
        self.check_no_branch()?;
        self.commit_open().map_err(|mut error| {
            error.rolled_back = true;
            error
        })
    }

    /// Commits the open transaction, also that of an XA transaction branch.
    pub(super) fn commit_open(&mut self) -> Result<CommitPosition> {
        let Some(mut open) = self.open.take() else {
            self.metadata_locks.release();
            return Ok(CommitPosition::NONE);
        };
        let writes = open.txn.get_mut().has_writes();
        if writes && let Err(error) = self.begin_commit() {
            self.cx.counters.add(Counter::HandlerRollback, 1);
            open.txn.into_inner().rollback();
            self.metadata_locks.release();
            return Err(error.into());
        }
        let done = self.commit_txn(open);
        if writes {
            self.metadata_locks.finish(Activity::Commit);
        }
        self.metadata_locks.release();
        let counter = match &done {
            Ok(_) => Counter::HandlerCommit,
            Err(_) => Counter::HandlerRollback,
        };
        self.cx.counters.add(counter, 1);
        Ok(done?.position)
    }

    /// Rolls the open transaction back.
    pub(crate) fn roll_back(&mut self) {
        if let Some(open) = self.open.take() {
            self.cx.counters.add(Counter::HandlerRollback, 1);
            open.txn.into_inner().rollback();
        }
        self.metadata_locks.release();
    }

    /// COMMIT.
    pub(crate) fn commit_statement(&mut self, completion: &Completion) -> Result<Outcome> {
        let ended = self.open_characteristics();
        let position = self.commit()?;
        self.complete(completion, ended, position)
    }

    /// ROLLBACK.
    pub(crate) fn rollback_statement(&mut self, completion: &Completion) -> Result<Outcome> {
        self.check_no_branch()?;
        let ended = self.open_characteristics();
        self.roll_back();
        self.complete(completion, ended, CommitPosition::NONE)
    }

    /// The characteristics of the open transaction.
    fn open_characteristics(&self) -> Option<TxnCharacteristics> {
        let open = self.open.as_ref()?;
        Some(TxnCharacteristics {
            isolation: Some(open.isolation),
            read_only: Some(open.read_only),
        })
    }

    /// AND CHAIN and RELEASE of COMMIT and ROLLBACK; AND CHAIN begins a transaction with the
    /// characteristics of the one that has `ended`.
    fn complete(
        &mut self,
        completion: &Completion,
        ended: Option<TxnCharacteristics>,
        position: CommitPosition,
    ) -> Result<Outcome> {
        let default = self.cx.settings.completion;
        let chain = completion
            .chain
            .unwrap_or(default == settings::Completion::Chain);
        let release = completion
            .release
            .unwrap_or(default == settings::Completion::Release);
        if chain {
            if let Some(characteristics) = ended {
                self.next = characteristics;
            }
            let mut open = self.begin_txn()?;
            open.started = Some(ExplicitStart { snapshot: false });
            self.open = Some(open);
        }
        Ok(Outcome {
            position,
            disconnect: release && !chain,
            ..Outcome::default()
        })
    }

    /// SAVEPOINT; replaces a savepoint of the same name.
    pub(crate) fn savepoint(&mut self, name: &str) -> Result<Outcome> {
        self.check_branch_accepts_work()?;
        if self.open.is_none() {
            if self.cx.settings.autocommit {
                return Ok(Outcome::default());
            }
            self.open = Some(self.begin_txn()?);
        }
        if let Some(open) = &mut self.open {
            let mark = open.txn.get_mut().mark();
            open.savepoints
                .retain(|(n, _)| !n.eq_ignore_ascii_case(name));
            open.savepoints.push((name.to_owned(), mark));
            self.cx.counters.add(Counter::HandlerSavepoint, 1);
        }
        Ok(Outcome::default())
    }

    /// ROLLBACK TO SAVEPOINT; removes later savepoints, and keeps locks.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<Outcome> {
        self.check_branch_accepts_work()?;
        let (open, at) = self.find_savepoint(name)?;
        if let Some((_, mark)) = open.savepoints.get(at) {
            open.txn.get_mut().rollback_to(*mark);
        }
        open.savepoints.truncate(at + 1);
        self.cx.counters.add(Counter::HandlerSavepointRollback, 1);
        Ok(Outcome::default())
    }

    /// RELEASE SAVEPOINT; removes it and later ones.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> Result<Outcome> {
        self.check_branch_accepts_work()?;
        let (open, at) = self.find_savepoint(name)?;
        open.savepoints.truncate(at);
        Ok(Outcome::default())
    }

    /// The open transaction, and the position of the savepoint in its list. Error 1305 if there is
    /// none of this name.
    fn find_savepoint(&mut self, name: &str) -> Result<(&mut OpenTxn, usize)> {
        let missing = || {
            let text = format!("SAVEPOINT {name} does not exist");
            SqlError::new(1305, "42000", text)
        };
        let open = self.open.as_mut().ok_or_else(missing)?;
        let at = open
            .savepoints
            .iter()
            .position(|(n, _)| n.eq_ignore_ascii_case(name))
            .ok_or_else(missing)?;
        Ok((open, at))
    }

    /// SET TRANSACTION.
    pub(crate) fn set_transaction(&mut self, set: &SetTransaction) -> Result<Outcome> {
        if let Some(level) = set.isolation {
            self.check_isolation(IsolationLevel::named(level_name(level)))?;
        }
        if set.scope == VarScope::Default {
            if self.open.is_some() {
                let text = "Transaction characteristics can't be changed while a transaction is \
                            in progress";
                return Err(SqlError::new(1568, "25001", text));
            }
            if let Some(level) = set.isolation {
                self.next.isolation = Some(IsolationLevel::named(level_name(level)));
            }
            if set.read_only.is_some() {
                self.next.read_only = set.read_only;
            }
            return Ok(Outcome::default());
        }
        let global = set.scope == VarScope::Global;
        if let Some(level) = set.isolation {
            self.assign("transaction_isolation", global, level_name(level))?;
        }
        if let Some(read_only) = set.read_only {
            let word = if read_only { "ON" } else { "OFF" };
            self.assign("transaction_read_only", global, word)?;
        }
        self.apply_settings()?;
        Ok(Outcome::default())
    }

    /// Ends the transaction if the error requires it.
    pub(crate) fn end_transaction_on_error(&mut self, error: SqlError) -> SqlError {
        if error.rolled_back || error.fatal {
            if error.message.contains("(snapshot conflict)") {
                Counters::add(&self.cx.server.counters.conflicts);
            }
            self.note_branch_rolled_back(error.code);
            self.roll_back();
        } else if self.open.is_none() {
            self.metadata_locks.release();
        }
        error
    }
}
