//! XA transactions (manual, "XA Transactions"): the states of a session's branch, and the statements.
//!
//! ```text
//!              XA END             XA PREPARE
//! ACTIVE  --------------->  IDLE  ----------->  PREPARED: outside of the session
//!    |    <---------------   |                      |
//!    |  XA START ... RESUME  | COMMIT ONE PHASE     | XA COMMIT, XA ROLLBACK by any session
//!    | error that rolls back | ROLLBACK             |
//!    v                       v                      v
//! ROLLBACK ONLY -------->  no branch             no branch
//!  (at XA END)  XA ROLLBACK
//! ```
//!
//! A branch is the session's open transaction until it is prepared. With `xa_detach_on_prepare`, which is
//! ON by default, it then leaves the session; otherwise it stays until the session ends it or ends
//! itself.
//!
//! Invariants:
//! 1. While the session has a branch, nothing but XA statements commits or rolls back its transaction,
//!    but for an error that ends it; then no statement uses tables before the branch has ended.
//! 2. A branch in the state ACTIVE or IDLE that was not rolled back has an open transaction.

use super::transaction::ExplicitStart;
use super::{Outcome, SqlSession};
use crate::results::table::{Rows, typed_column};
use crate::status::Counter;
use crate::xa::{PreparedBranch, duplicate_xid, xid_of};
use porpoise_base::blocking::blocking;
use porpoise_kv::CommitPosition;
use porpoise_rows::metadata_lock::Activity;
use porpoise_rows::prepared::{PreparedTxn, Xid};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{self, Xa, XaEnd, XaStart};
use porpoise_types::{ColumnType, Level, Value, Warning};

/// formatID of an XID that names none.
const DEFAULT_FORMAT: u64 = 1;

/// State of a session's branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Idle,
    Prepared,
    RollbackOnly,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Active => "ACTIVE",
            State::Idle => "IDLE",
            State::Prepared => "PREPARED",
            State::RollbackOnly => "ROLLBACK ONLY",
        }
    }
}

/// Reason why a branch was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RollbackReason {
    Other,
    Timeout,
    Deadlock,
}

impl RollbackReason {
    fn of_code(code: u16) -> RollbackReason {
        match code {
            1205 => RollbackReason::Timeout,
            1213 => RollbackReason::Deadlock,
            _ => RollbackReason::Other,
        }
    }

    fn error(self) -> SqlError {
        let (code, state, text) = match self {
            RollbackReason::Other => (
                1402,
                "XA100",
                "XA_RBROLLBACK: Transaction branch was rolled back",
            ),
            RollbackReason::Timeout => (
                1613,
                "XA106",
                "XA_RBTIMEOUT: Transaction branch was rolled back: took too long",
            ),
            RollbackReason::Deadlock => (
                1614,
                "XA102",
                "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected",
            ),
        };
        SqlError::new(code, state, text)
    }
}

/// A session's branch.
pub(super) struct Branch {
    xid: Xid,
    state: State,
    /// Set when an error has rolled it back.
    rolled_back: Option<RollbackReason>,
}

fn unknown_xid() -> SqlError {
    SqlError::new(1397, "XAE04", "XAER_NOTA: Unknown XID")
}

fn invalid() -> SqlError {
    let text = "XAER_INVAL: Invalid arguments (or unsupported command)";
    SqlError::new(1398, "XAE05", text)
}

/// Error 1399. The two spaces are MySQL's.
fn wrong_state(name: &str) -> SqlError {
    let text = format!(
        "XAER_RMFAIL: The command cannot be executed when global transaction is in the  {name} state"
    );
    SqlError::new(1399, "XAE07", text)
}

fn outside() -> SqlError {
    let text = "XAER_OUTSIDE: Some work is done outside global transaction";
    SqlError::new(1400, "XAE09", text)
}

fn fatal_in_branch() -> SqlError {
    let text = "XAER_RMERR: Fatal error occurred in the transaction branch - check your data for \
                consistency";
    SqlError::new(1401, "XAE03", text)
}

/// Error for a prepared branch whose end failed but may be tried again.
fn retry() -> SqlError {
    let text = "The resource manager is not able to commit the transaction branch at this time. \
                Please retry later.";
    SqlError::new(3197, "HY000", text)
}

/// Whether the outcome of a commit is unknown.
fn is_unknown(error: &SqlError) -> bool {
    error.code == 1180
}

impl SqlSession {
    /// Executes an XA statement.
    pub(super) fn xa(&mut self, statement: &Xa<'_>, sink: &mut dyn ResultSink) -> Result<Outcome> {
        match statement {
            Xa::Start(xid, how) => self.xa_start(&xid_of(xid), *how),
            Xa::End(xid, how) => self.xa_end(&xid_of(xid), *how),
            Xa::Prepare(xid) => self.xa_prepare(&xid_of(xid)),
            Xa::Commit(xid, one_phase) => self.xa_commit(xid, *one_phase),
            Xa::Rollback(xid) => self.xa_rollback(&xid_of(xid)),
            Xa::Recover(convert) => self.xa_recover(*convert, sink),
        }
    }

    /// Fails if the account lacks a privilege. For XA RECOVER the error is 1401, as in MySQL, with the
    /// missing privilege in a warning.
    pub(super) fn check_requirements(&self, statement: &ast::Statement<'_>) -> Result<()> {
        let checked = self.cx.check_statement(statement);
        if let (Err(cause), ast::Statement::Xa(_)) = (&checked, statement) {
            self.warn_of_cause(cause);
            return Err(fatal_in_branch());
        }
        checked
    }

    fn xa_state_name(&self) -> &'static str {
        self.xa.as_ref().map_or("NON-EXISTING", |b| b.state.name())
    }

    /// Whether the session's branch has this identifier.
    fn has_branch(&self, xid: &Xid) -> bool {
        self.xa.as_ref().is_some_and(|branch| branch.xid == *xid)
    }

    /// Error 1399 if the session has a branch: what ends or begins transactions is refused.
    pub(super) fn check_no_branch(&self) -> Result<()> {
        match &self.xa {
            None => Ok(()),
            Some(branch) => Err(wrong_state(branch.state.name())),
        }
    }

    /// Fails if the session has a branch in which no more work can be done: error 1399 unless it is
    /// active, or that of the rollback.
    pub(super) fn check_branch_accepts_work(&self) -> Result<()> {
        match &self.xa {
            None => Ok(()),
            Some(branch) if branch.state != State::Active => Err(wrong_state(branch.state.name())),
            Some(branch) => branch
                .rolled_back
                .map_or(Ok(()), |reason| Err(reason.error())),
        }
    }

    /// Error 4091: a temporary table would be gone before its branch ends.
    pub(super) fn check_no_branch_for_temporary(&self) -> Result<()> {
        if self.xa.is_none() {
            return Ok(());
        }
        let text = "Temporary tables cannot be accessed inside XA transactions when \
                    xa_detach_on_prepare=ON";
        Err(SqlError::new(4091, "HY000", text))
    }

    /// Whether the session has a branch.
    pub(super) fn is_in_branch(&self) -> bool {
        self.xa.is_some()
    }

    /// The statement that began the session's branch, as session tracking reports it.
    pub(super) fn branch_start(&self) -> Option<String> {
        let xid = &self.xa.as_ref()?.xid;
        let part = |bytes: &[u8]| format!("'{}'", String::from_utf8_lossy(bytes));
        let mut text = format!("XA START {}", part(&xid.global));
        if !xid.branch.is_empty() {
            text.push(',');
            text.push_str(&part(&xid.branch));
        }
        if xid.format != DEFAULT_FORMAT {
            if xid.branch.is_empty() {
                text.push_str(",''");
            }
            text.push_str(&format!(",{}", xid.format));
        }
        text.push(';');
        Some(text)
    }

    /// Records that an error has rolled the branch's transaction back.
    pub(super) fn note_branch_rolled_back(&mut self, code: u16) {
        if let Some(branch) = &mut self.xa
            && self.open.is_some()
        {
            branch.rolled_back = Some(RollbackReason::of_code(code));
        }
    }

    /// Ends the session's part in its branch, when the session ends or is reset: a prepared branch
    /// stays, another one was rolled back with the transaction.
    pub(super) fn leave_branch(&mut self) {
        if let Some(branch) = self.xa.take() {
            let branches = &self.cx.server.branches;
            if branch.state == State::Prepared {
                branches.detach(&branch.xid);
            } else {
                branches.remove(&branch.xid);
            }
        }
    }

    fn xa_start(&mut self, xid: &Xid, how: XaStart) -> Result<Outcome> {
        if let Some(branch) = &mut self.xa
            && branch.state == State::Idle
            && how == XaStart::Resume
        {
            if branch.xid != *xid {
                return Err(unknown_xid());
            }
            branch.state = State::Active;
            return Ok(Outcome::default());
        }
        if how != XaStart::New {
            return Err(invalid());
        }
        self.check_no_branch()?;
        if self.open.is_some() || self.table_locks.is_some() {
            return Err(outside());
        }
        if !self.cx.server.branches.begin(xid) {
            return Err(duplicate_xid());
        }
        match self.begin_txn() {
            Ok(mut open) => {
                open.started = Some(ExplicitStart { snapshot: false });
                self.open = Some(open);
            }
            Err(error) => {
                self.cx.server.branches.remove(xid);
                return Err(error);
            }
        }
        self.xa = Some(Branch {
            xid: xid.clone(),
            state: State::Active,
            rolled_back: None,
        });
        Ok(Outcome::default())
    }

    fn xa_end(&mut self, xid: &Xid, how: XaEnd) -> Result<Outcome> {
        if how != XaEnd::Plain {
            return Err(invalid());
        }
        match &mut self.xa {
            Some(branch) if branch.state == State::Active => {
                if branch.xid != *xid {
                    return Err(unknown_xid());
                }
                if let Some(reason) = branch.rolled_back {
                    branch.state = State::RollbackOnly;
                    return Err(reason.error());
                }
                branch.state = State::Idle;
                Ok(Outcome::default())
            }
            _ => Err(wrong_state(self.xa_state_name())),
        }
    }

    fn xa_prepare(&mut self, xid: &Xid) -> Result<Outcome> {
        let Some(branch) = self.xa.as_ref().filter(|b| b.state == State::Idle) else {
            return Err(wrong_state(self.xa_state_name()));
        };
        if branch.xid != *xid {
            return Err(unknown_xid());
        }
        let engine = self.cx.server.db.engine();
        if !engine.capabilities().prepare {
            let text = format!(
                "XA PREPARE is not available on the {} engine; use XA COMMIT ... ONE PHASE",
                engine.name()
            );
            return Err(SqlError::new(1235, "42000", text));
        }
        // If it waits too long for the end of FLUSH TABLES WITH READ LOCK, the branch stays idle.
        self.begin_commit()?;
        let Some(open) = self.open.take() else {
            return Err(SqlError::internal("an idle branch without a transaction"));
        };
        let prepared = open
            .txn
            .into_inner()
            .prepare(&xid.to_name(), &self.metadata_locks)
            .map_err(SqlError::from);
        self.metadata_locks.finish(Activity::Commit);
        self.metadata_locks.release();
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.leave_branch();
                self.cx.counters.add(Counter::HandlerRollback, 1);
                return Err(self.branch_error(&error));
            }
        };
        self.cx.counters.add(Counter::HandlerPrepare, 1);
        let position = prepared.position();
        let detaches = self.cx.settings.xa_detach;
        self.cx
            .server
            .branches
            .add_prepared(xid, prepared, !detaches);
        if detaches {
            self.xa = None;
        } else if let Some(branch) = &mut self.xa {
            branch.state = State::Prepared;
        }
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    fn xa_commit(&mut self, xid: &ast::Xid<'_>, one_phase: bool) -> Result<Outcome> {
        let xid = &xid_of(xid);
        if !self.has_branch(xid) {
            return self.end_detached(xid, true);
        }
        let Some(branch) = &self.xa else {
            return Err(unknown_xid());
        };
        let state = branch.state;
        match state {
            _ if branch.rolled_back.is_some() => {
                self.end_branch();
                Err(RollbackReason::Other.error())
            }
            State::Idle if one_phase => {
                let done = self.commit_open();
                self.leave_branch();
                let position = done.map_err(|error| self.branch_error(&error))?;
                Ok(Outcome {
                    position,
                    ..Outcome::default()
                })
            }
            State::Prepared if !one_phase => {
                let found = self.cx.server.branches.prepared(xid, true);
                let done = self.end_prepared(xid, found, true)?;
                self.xa = None;
                Ok(done)
            }
            _ => Err(wrong_state(state.name())),
        }
    }

    fn xa_rollback(&mut self, xid: &Xid) -> Result<Outcome> {
        if !self.has_branch(xid) {
            return self.end_detached(xid, false);
        }
        match self.xa.as_ref().map(|branch| branch.state) {
            Some(State::Idle | State::RollbackOnly) => {
                self.end_branch();
                Ok(Outcome::default())
            }
            Some(State::Prepared) => {
                let found = self.cx.server.branches.prepared(xid, true);
                let done = self.end_prepared(xid, found, false)?;
                self.xa = None;
                Ok(done)
            }
            _ => Err(wrong_state(self.xa_state_name())),
        }
    }

    /// Rolls back the session's branch, which is not prepared.
    fn end_branch(&mut self) {
        self.leave_branch();
        self.roll_back();
    }

    /// Commits or rolls back a prepared branch that belongs to no session.
    fn end_detached(&mut self, xid: &Xid, commits: bool) -> Result<Outcome> {
        self.check_no_branch()?;
        let found = self.cx.server.branches.prepared(xid, false);
        let found = found.ok_or_else(unknown_xid)?;
        if self.open.is_some() {
            return Err(wrong_state("NON-EXISTING"));
        }
        self.end_prepared(xid, Some(found), commits)
    }

    /// Commits or rolls back a prepared branch. Waits for a session that is doing so, and for the end of
    /// FLUSH TABLES WITH READ LOCK.
    fn end_prepared(
        &mut self,
        xid: &Xid,
        found: Option<PreparedBranch>,
        commits: bool,
    ) -> Result<Outcome> {
        let found = found.ok_or_else(unknown_xid)?;
        if let Err(cause) = self.begin_commit() {
            self.warn_of_cause(&cause.into());
            return Err(retry());
        }
        let done = self.end_locked(xid, &found, commits);
        self.metadata_locks.finish(Activity::Commit);
        done
    }

    fn end_locked(&mut self, xid: &Xid, found: &PreparedBranch, commits: bool) -> Result<Outcome> {
        let mut prepared = match found.try_lock() {
            Some(prepared) => prepared,
            None => blocking(|| found.lock()),
        };
        let txn: &mut PreparedTxn = prepared.as_mut().ok_or_else(unknown_xid)?;
        let (done, counter) = if commits {
            (txn.commit(&self.cx.server.db), Counter::HandlerCommit)
        } else {
            (txn.rollback(), Counter::HandlerRollback)
        };
        let done = done.map_err(SqlError::from);
        if let Err(cause) = &done
            && !is_unknown(cause)
        {
            self.warn_of_cause(cause);
            return Err(retry());
        }
        self.cx.counters.add(counter, 1);
        *prepared = None;
        self.cx.server.branches.remove(xid);
        let position = done.map_err(|error| self.branch_error(&error))?;
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// The error of a branch whose preparation or end failed: it was rolled back, or the outcome is
    /// unknown.
    fn branch_error(&self, cause: &SqlError) -> SqlError {
        self.warn_of_cause(cause);
        if is_unknown(cause) {
            return fatal_in_branch();
        }
        RollbackReason::of_code(cause.code).error()
    }

    /// Shows the cause of an XA error in SHOW WARNINGS.
    fn warn_of_cause(&self, cause: &SqlError) {
        self.cx.env.warn(Warning {
            level: Level::Warning,
            code: cause.code,
            message: cause.message.clone(),
        });
    }

    fn xa_recover(&mut self, convert: bool, sink: &mut dyn ResultSink) -> Result<Outcome> {
        let number = |name| typed_column(name, ColumnType::bigint());
        let mut rows = Rows::new(vec![
            number("formatID"),
            number("gtrid_length"),
            number("bqual_length"),
            typed_column("data", ColumnType::varbinary(258)),
        ]);
        let mut position = CommitPosition::NONE;
        for (xid, prepared) in self.cx.server.branches.all_prepared() {
            // One that is being ended is prepared until it has ended.
            if let Some(prepared) = prepared.try_lock() {
                let Some(txn) = prepared.as_ref() else {
                    continue;
                };
                position = position.max(txn.position());
            }
            let mut data = [xid.global.as_slice(), xid.branch.as_slice()].concat();
            if convert {
                let digits = data
                    .iter()
                    .flat_map(|byte| format!("{byte:02x}").into_bytes());
                data = b"0x".iter().copied().chain(digits).collect();
            }
            rows.push(vec![
                Value::Int(xid.format as i64),
                Value::Int(xid.global.len() as i64),
                Value::Int(xid.branch.len() as i64),
                Value::Bytes(data),
            ]);
        }
        let mut outcome = rows.send(&mut self.cx, sink)?;
        outcome.position = outcome.position.max(position);
        Ok(outcome)
    }
}
