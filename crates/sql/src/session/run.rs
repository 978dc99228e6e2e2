//! Execution of plans under the transaction rules.
//!
//! 1. REPEATABLE READ and SERIALIZABLE: the first statement of a transaction that reads something
//!    without locking it pins the snapshot before it runs. While none is pinned, a statement that
//!    locks or changes rows runs at the newest snapshot. When it meets a row newer than its
//!    snapshot it is restarted with a newer one, at most [`MAX_RESTARTS`] times, and afterwards pins
//!    its snapshot if it scanned a range (transactions.md, rules 1 and 2). With a pinned snapshot
//!    it is restarted only if the snapshot can be refreshed: what the transaction has read so far
//!    must be the same in the newer one (rule 3). A statement that has slept or taken a named lock
//!    is not restarted.
//! 2. READ COMMITTED takes a new snapshot for each statement, and uses newer rows.
//! 3. In a REPEATABLE READ transaction, ranges scanned for rows to lock or change are validated at
//!    commit; this replaces gap locks (rule 5). There is no validation of an autocommit statement,
//!    because no later statement depends on its result, nor with
//!    `innodb_snapshot_isolation = OFF`, where InnoDB continues with newer rows.
//! 4. Outside of a transaction each statement is a transaction of its own, committed at its end.

use super::host::ProgramHost;
use super::transaction::OpenTxn;
use super::{Outcome, SqlSession};
use crate::results;
use crate::server::Counters;
use crate::statements::phases::Phase;
use crate::timer::ArmedDeadline;
use crate::vars::settings::IsolationLevel;
use porpoise_base::blocking::blocking;
use porpoise_base::interrupt;
use porpoise_kv::StatementMark;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_rows::expressions::RowContext;
use porpoise_sql_exec::exec::state::States;
use porpoise_sql_exec::exec::statement::{self, StatementOutcome};
use porpoise_sql_exec::exec::{self, ConflictPolicy, Exec, ExecError, ResultSink, Shared};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Statement;
use porpoise_sql_plan::plan::planned::{Planned, plan_statement};
use porpoise_sql_plan::plan::scan::{Access, Scan};
use porpoise_sql_plan::plan::select::{NestedReads, PlanCx};
use porpoise_sql_plan::plan::sinks::{Change, Plan};
use porpoise_types::{ColumnType, ValueRef};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of restarts of a statement with newer snapshots (transactions.md, rule 2).
const MAX_RESTARTS: usize = 16;

/// Maximum number of times that a statement is planned again because definitions changed.
const MAX_REPLANS: usize = 100;

/// Parameters that all restarts of a statement share.
struct RunCx {
    /// Start of the statement's writes in the transaction's write set.
    mark: StatementMark,
    conflicts: ConflictPolicy,
    /// Whether the commit validates the scanned ranges.
    validate: bool,
}

/// Whether a plan writes to a table that has triggers, or whose foreign keys lead to such tables.
fn fires_triggers(planned: &Planned, catalog: &Catalog) -> bool {
    let written = planned.tables.iter().filter(|(_, writes)| *writes);
    let mut reached = written.flat_map(|(table, _)| table.write_set.iter());
    reached.any(|id| {
        let table = catalog.table_by_id(*id);
        table.is_some_and(|t| !t.triggers.is_empty())
    })
}

/// Error 1175 under `sql_safe_updates` for an UPDATE or DELETE without LIMIT that scans a target table as a whole.
fn check_safe_update(change: &Change) -> Result<()> {
    let targets = change.targets.all();
    let is_target = |scan: &Scan| targets.iter().any(|target| target.slot == scan.slot);
    let is_full = |scan: &Scan| matches!(scan.access, Access::FullScan { .. }) && is_target(scan);
    if change.input.root.limit().is_none() && change.input.any_scan(is_full) {
        let text = "You are using safe update mode and you tried to update a table without a \
                    WHERE that uses a KEY column. ";
        return Err(SqlError::new(1175, "HY000", text));
    }
    Ok(())
}

impl SqlSession {
    /// Plans a statement that reads or changes rows; `None` for other statements.
    pub(crate) fn plan(
        &self,
        statement: &Statement<'_>,
        text: &[u8],
        params: &[ColumnType],
        catalog: &Catalog,
    ) -> Result<Option<Planned>> {
        let env = self.cx.bind_env(params.to_vec());
        let reads = NestedReads::default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        let cx = PlanCx::new(catalog, &env, &*self.cx, text, &reads);
        self.cx.planning.calls_functions.set(false);
        self.cx.planning.partial_plans.set(0);
        let planning = self.begin_phase();
        let made = self.plan_kind(statement, &cx);
        self.end_phase(Phase::Plan, planning);
        let Some(plan) = made.map_err(|e| self.cx.hide_unauthorized(e, &reads.uses.names()))?
        else {
            return Ok(None);
        };
        let mut planned = Planned::new(plan, reads.uses.take());
        planned.date_literals = reads.date_literals.take();
        planned.runs_programs =
            self.cx.planning.calls_functions.get() || fires_triggers(&planned, catalog);
        Ok(Some(planned))
    }

    /// Plans a statement under `sql_safe_updates` and `sql_select_limit`; `None` if it has no plan.
    fn plan_kind(&self, statement: &Statement<'_>, cx: &PlanCx<'_>) -> Result<Option<Plan>> {
        let mut plan = plan_statement(statement, cx)?;
        if let (true, Some(Plan::Change(change))) = (self.cx.settings.safe_updates, &plan) {
            check_safe_update(change)?;
        }
        if let (Some(Plan::Select(query)), Some(limit)) = (&mut plan, self.cx.settings.select_limit)
        {
            query.limit_to(porpoise_sql_plan::bind::literal::integer(limit));
        }
        // If planning was interrupted, its result must not be used.
        interrupt::outcome()?;
        Ok(plan)
    }

    /// Publishes the tables of a plan to the metadata locks, and plans again if their definitions
    /// have changed.
    pub(crate) fn plan_and_lock(
        &mut self,
        mut make: impl FnMut(&SqlSession, &Catalog) -> Result<Arc<Planned>>,
    ) -> Result<Arc<Planned>> {
        for _ in 0..MAX_REPLANS {
            let catalog = self.cx.catalog();
            let plan = make(self, &catalog)?;
            self.publish(&plan)?;
            if self.cx.server.db.catalog_version() == catalog.version {
                return Ok(plan);
            }
        }
        Err(SqlError::from(porpoise_rows::Error::DefinitionChanged))
    }

    /// Deadline for metadata locks.
    pub(crate) fn definition_deadline(&self) -> Instant {
        let now = self.cx.server.db.clock().now();
        let day = std::time::Duration::from_secs(86_400);
        now.checked_add(self.cx.settings.definition_wait)
            .unwrap_or_else(|| now + day)
    }

    /// Publishes the tables of a plan as in use, and that it writes.
    pub(crate) fn publish(&self, plan: &Planned) -> Result<()> {
        if plan.used_tables.is_empty() {
            return Ok(());
        }
        self.begin_writes(plan)?;
        let deadline = || self.definition_deadline();
        let shared =
            self.metadata_locks
                .share_until(&plan.used_tables, deadline, &self.cx.env.cancel);
        shared.map_err(|e| SqlError::from(porpoise_rows::ddl::metadata_lock_error(e)))
    }

    /// Executes a plan as [`Self::run_plan`] does, and publishes it meanwhile for EXPLAIN FOR
    /// CONNECTION. A plan that only looks up whole keys is not published: it ends too soon to be
    /// seen. Neither is an INSERT of given rows in a function or a trigger, which may run for each
    /// row of the statement: that statement's plan is shown.
    pub(crate) fn run_shown_plan(
        &mut self,
        planned: &Arc<Planned>,
        params: &[ValueRef<'_>],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let is_outermost = self.programs.nested == 0;
        let is_shown = planned.scans_ranges
            || planned.tables.is_empty()
            || is_outermost && planned.plan.writes();
        if !is_shown {
            return self.run_plan(planned, params, sink);
        }
        let outer = self.process.replace_plan(Some(planned.clone()));
        let result = self.run_plan(planned, params, sink);
        // Elsewhere the end of the statement removes it, with a lock that it takes anyway.
        if !is_outermost {
            self.process.replace_plan(outer);
        }
        result
    }

    /// Executes a plan whose tables are published.
    pub(crate) fn run_plan(
        &mut self,
        planned: &Planned,
        params: &[ValueRef<'_>],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        self.cx.check_plan(planned)?;
        self.check_date_literals(planned, params)?;
        if !matches!(planned.plan, Plan::Select(_)) {
            self.count_update()?;
        }
        self.check_locked(planned)?;
        self.check_outer_tables(planned)?;
        if planned.scans_ranges {
            self.cx.server.statistics.drop_outdated(&self.cx.server.db);
        }
        let (plan, tables) = (&planned.plan, &planned.tables);
        let inside = self.open.is_some();
        let has_effect = !tables.is_empty() || planned.runs_programs;
        if has_effect {
            self.check_branch(tables)?;
        }
        let keep = inside || (!self.cx.settings.autocommit && has_effect);
        let mut open = match self.open.take() {
            Some(open) => open,
            None if !has_effect => self.scratch_txn()?,
            None => self.begin_txn()?,
        };
        if !open.txn.get_mut().pinned() && (planned.reads_unlocked || planned.scans_ranges) {
            self.await_own_commits()?;
        }
        let mark = open.txn.get_mut().mark();
        let checked = open.check(plan, tables);
        let ran = checked
            .and_then(|()| self.run_with_restarts(planned, params, &mut open, mark, keep, sink));
        let ran = ran.and_then(|done| Ok(interrupt::outcome().map(|()| done)?));
        let ran = ran.and_then(|done| sink.complete(&self.cx.env).map(|()| done));
        if self.programs.nested == 0 || self.programs.of_commands {
            // Statements of functions and triggers are counted with the statement that runs them.
            let accesses = open.txn.get_mut().take_accesses();
            self.work.add_accesses(&accesses);
            self.cx.counters.add_accesses(accesses);
        }
        match ran {
            Ok(done) => {
                if let (StatementOutcome::Rows(rows), true) = (&done, sink.is_for_client()) {
                    self.work.rows_sent += rows;
                }
                self.keep_plan_if_slow(plan, params);
                open.activity.read |= tables.iter().any(|(_, writes)| !writes);
                open.activity.written |= tables.iter().any(|(_, writes)| *writes);
                self.succeed(planned, done, open, keep)
            }
            Err(mut error) => {
                // The message may reveal a row that is not durable yet.
                error.position = error.position.max(open.txn.get_mut().seen());
                if keep && !error.rolled_back {
                    open.txn.get_mut().rollback_to(mark);
                }
                if keep {
                    // An error that ends the transaction is handled by `end_transaction_on_error`.
                    self.open = Some(open);
                } else {
                    open.txn.into_inner().rollback();
                }
                Err(error)
            }
        }
    }

    /// Warns of literals of a plan that are not valid dates, or fails.
    fn check_date_literals(&mut self, planned: &Planned, params: &[ValueRef<'_>]) -> Result<()> {
        for literal in &planned.date_literals {
            if let Some(warning) = literal.check(params, self.cx.env.mode)? {
                self.cx.env.warn(warning);
            }
        }
        Ok(())
    }

    /// Fails if the session's XA transaction branch does not allow a statement on these tables.
    fn check_branch(&self, tables: &[(Arc<Table>, bool)]) -> Result<()> {
        self.check_branch_accepts_work()?;
        let mut tables = tables.iter();
        if tables.any(|(table, _)| self.cx.temporary.contains_id(table.id)) {
            self.check_no_branch_for_temporary()?;
        }
        Ok(())
    }

    /// Waits for the session's own commits. A snapshot shows only what is durable, but a client
    /// that sends statements before it has read the replies must still see its own commits in the
    /// next statement that reads from a snapshot.
    pub(crate) fn await_own_commits(&self) -> Result<()> {
        let engine = self.cx.server.db.engine();
        if self.revealed_position > engine.durable_position() {
            blocking(|| engine.wait_durable(self.revealed_position))?;
        }
        Ok(())
    }

    /// A transaction for a statement that uses no table. It does not consume the characteristics of
    /// SET TRANSACTION.
    fn scratch_txn(&mut self) -> Result<Box<OpenTxn>> {
        let next = self.next;
        let open = self.begin_txn();
        self.next = next;
        open
    }

    fn run_with_restarts(
        &mut self,
        planned: &Planned,
        params: &[ValueRef<'_>],
        open: &mut OpenTxn,
        mark: StatementMark,
        keep: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<StatementOutcome> {
        let pinned = open.txn.get_mut().pinned();
        let read_committed = open.isolation == IsolationLevel::ReadCommitted;
        let conflicts = self.conflict_policy(read_committed, pinned);
        if keep && conflicts != ConflictPolicy::UseNewest && !open.read_only {
            open.txn.get_mut().track_reads();
        }
        self.set_expiry_time(open, pinned);
        if !pinned {
            self.take_snapshot(planned, open, keep)?;
        }
        let conflicts = match conflicts {
            ConflictPolicy::Restart if open.txn.get_mut().pinned() => ConflictPolicy::Advance,
            other => other,
        };
        if planned.runs_programs || matches!(&planned.plan, Plan::Select(p) if p.locks()) {
            sink.buffer_until_end();
        }
        let _deadline = self.arm_deadline(&planned.plan)?;
        self.cx.env.seeded.get_mut().clear();
        self.cx.env.joined_rows.get_mut().clear();
        self.cx.env.warned_literals.get_mut().clear();
        self.cx.env.has_side_effect.set(false);
        if planned.writes_expressions {
            open.txn.get_mut().set_row_context(self.row_cx(planned));
        }
        let random = self.cx.env.random.get();
        let reads = open.txn.get_mut().tracked_reads();
        let run = RunCx {
            mark,
            conflicts,
            validate: keep && conflicts != ConflictPolicy::UseNewest && self.validates_ranges(),
        };
        let pins = keep && planned.scans_ranges && !read_committed;
        for _ in 0..=MAX_RESTARTS {
            match self.attempt(planned, params, open, &run, sink) {
                Ok(done) => {
                    for warning in open.txn.get_mut().take_row_warnings() {
                        self.cx.env.warn(warning);
                    }
                    if pins && !open.txn.get_mut().pinned() {
                        open.txn.get_mut().pin()?;
                    }
                    return Ok(done);
                }
                Err(ExecError::Error(error)) => return Err(error),
                Err(ExecError::Restart) if self.cx.env.has_side_effect.get() => break,
                Err(ExecError::Restart) if self.programs.nested > 0 => {
                    self.programs.restart = true;
                    return Err(SqlError::from(porpoise_rows::Error::SnapshotConflict));
                }
                Err(ExecError::Restart) => {
                    open.txn.get_mut().untrack_reads(reads);
                    if !self.undo_and_refresh(open, mark)? {
                        break;
                    }
                    self.cx.env.random.set(random);
                }
            }
        }
        Err(SqlError::from(porpoise_rows::Error::SnapshotConflict))
    }

    /// Sets the time at which expiry is evaluated in a statement: that of the pinned snapshot or of
    /// the enclosing statement, otherwise the present time.
    fn set_expiry_time(&self, open: &mut OpenTxn, pinned: bool) {
        let db = &self.cx.server.db;
        if !db.has_ttl() {
            return;
        }
        let txn = open.txn.get_mut();
        let kept = txn.given_expiry_time();
        let kept = kept.filter(|_| pinned || self.programs.nested > 0);
        let time = kept.unwrap_or_else(|| db.expiry_time());
        txn.set_expiry_time(time);
        self.cx.env.expiry_time.set(Some(time));
    }

    /// Takes a new snapshot for a statement that uses tables, and pins it if later statements of its
    /// transaction must see the same.
    fn take_snapshot(&self, planned: &Planned, open: &mut OpenTxn, keep: bool) -> Result<()> {
        // Within a function the statement that calls it has taken the snapshot.
        let has_effect = !planned.tables.is_empty() || planned.runs_programs;
        if !has_effect || self.programs.nested > 0 {
            return Ok(());
        }
        open.snapshot_version = self.cx.server.db.catalog_version();
        let only_reads = !keep
            && !planned.runs_programs
            && matches!(&planned.plan, Plan::Select(query) if !query.locks());
        match self.cx.settings.read_staleness {
            Some(staleness) if only_reads => open.txn.get_mut().refresh_within(staleness)?,
            _ => open.txn.get_mut().refresh()?,
        }
        let committed = open.isolation == IsolationLevel::ReadCommitted;
        if keep && !committed && (planned.reads_unlocked || planned.runs_programs) {
            open.txn.get_mut().pin()?;
        }
        Ok(())
    }

    fn conflict_policy(&self, read_committed: bool, pinned: bool) -> ConflictPolicy {
        if read_committed || !self.cx.settings.snapshot_isolation {
            ConflictPolicy::UseNewest
        } else if pinned {
            ConflictPolicy::Advance
        } else {
            ConflictPolicy::Restart
        }
    }

    /// Rolls an execution of the statement back and moves the snapshot forward. Returns false if a
    /// pinned snapshot cannot be moved.
    fn undo_and_refresh(&mut self, open: &mut OpenTxn, mark: StatementMark) -> Result<bool> {
        Counters::add(&self.cx.server.counters.restarts);
        let txn = open.txn.get_mut();
        txn.rollback_to(mark);
        // A snapshot shows only what is durable: taken at once, it would still lack the row.
        let (engine, seen) = (self.cx.server.db.engine(), txn.seen());
        blocking(|| engine.wait_durable(seen))?;
        if txn.pinned() {
            // Metadata is still checked against the older snapshot.
            if !txn.advance()? {
                return Ok(false);
            }
        } else {
            open.snapshot_version = self.cx.server.db.catalog_version();
            txn.refresh()?;
        }
        self.cx.env.warnings.get_mut().clear();
        self.cx.env.seeded.get_mut().clear();
        self.cx.env.joined_rows.get_mut().clear();
        self.cx.env.warned_literals.get_mut().clear();
        self.cx.env.last_insert_id.set(self.cx.last_insert_id);
        Ok(true)
    }

    /// Whether the engine can validate ranges at commit.
    fn validates_ranges(&self) -> bool {
        let engine = self.cx.server.db.engine();
        engine.capabilities().range_validation
    }

    /// Evaluation context of table expressions.
    pub(crate) fn row_cx(&self, planned: &Planned) -> RowContext {
        // RAND() in table expressions has its own sequence, seeded by one step of a linear
        // congruential generator (Knuth's multiplier).
        let seed = self.cx.env.random.get();
        let next = seed.wrapping_mul(6_364_136_223_846_793_005);
        self.cx.env.random.set(next.wrapping_add(1));
        RowContext {
            now_utc: self.cx.env.now_utc,
            time_zone: self.cx.env.time_zone.clone(),
            mode: self.cx.settings.mode,
            strict: self.cx.settings.mode.is_strict() && !planned.plan.ignores_errors(),
            user: self.cx.env.account.clone(),
            seed: Cell::new(seed.rotate_left(32)),
            warnings: RefCell::default(),
        }
    }

    /// Arms `max_execution_time`, which applies only to SELECT.
    fn arm_deadline(&self, plan: &Plan) -> Result<Option<ArmedDeadline>> {
        match plan {
            Plan::Select(_) => self.arm_execution_limit(),
            _ => Ok(None),
        }
    }

    /// As [`Self::arm_deadline`], for the planning of a SELECT.
    pub(super) fn arm_planning(&self, statement: &Statement<'_>) -> Result<Option<ArmedDeadline>> {
        match statement {
            Statement::Query(_) => self.arm_execution_limit(),
            _ => Ok(None),
        }
    }

    fn arm_execution_limit(&self) -> Result<Option<ArmedDeadline>> {
        let Some(limit) = self
            .current_statement
            .hinted_limit
            .or(self.cx.settings.max_execution)
        else {
            return Ok(None);
        };
        let deadline = Instant::now() + limit;
        let armed = self
            .cx
            .server
            .timer
            .arm(deadline, self.cx.env.cancel.clone());
        let text = "Can't create a new thread for max_execution_time";
        let armed = armed.ok_or_else(|| SqlError::new(1135, "HY000", text))?;
        Ok(Some(armed))
    }

    /// As [`Self::attempt_plain`], for a statement that runs stored programs.
    fn attempt_with_programs(
        &mut self,
        plan: &Plan,
        params: &[ValueRef<'_>],
        open: &mut OpenTxn,
        run: &RunCx,
        sink: &mut dyn ResultSink,
    ) -> exec::ExecResult<StatementOutcome> {
        let profile = self.current_statement.profile.take();
        let cx = self.fork_context();
        let states = States::new(cx.env.memory.statement());
        let host = ProgramHost::new(self, open)?;
        let shared = Shared {
            txn: &open.txn,
            env: &cx.env,
            params,
            mark: run.mark,
            conflicts: run.conflicts,
            validate: run.validate,
            lock_gaps: open.isolation != IsolationLevel::ReadCommitted,
            lock_wait: cx.settings.lock_wait,
            server: &*cx,
            programs: Some(&host),
            batches: Cell::new(0),
            states: &states,
            recursion: cx.settings.recursion,
            profile: profile.as_ref(),
        };
        let mut exec = Exec::new(&shared, None);
        exec.env.counted_rows.set(None);
        let ids = cx.settings.auto_increment;
        let done = {
            let _sets = cx.env.keep_sets();
            if sink.is_for_client() {
                let mut sink = results::RecodingSink::new(sink, &cx.settings);
                statement::run(plan, &mut exec, ids, &mut sink)
            } else {
                statement::run(plan, &mut exec, ids, sink)
            }
        };
        let restart = states.restart.get() || host.is_restart_wanted();
        drop(host);
        drop(states);
        self.join_context(cx);
        self.current_statement.profile = profile;
        match done {
            Err(ExecError::Error(_)) if restart => Err(ExecError::Restart),
            done => done,
        }
    }

    /// Executes a plan without restarting it.
    fn attempt(
        &mut self,
        planned: &Planned,
        params: &[ValueRef<'_>],
        open: &mut OpenTxn,
        run: &RunCx,
        sink: &mut dyn ResultSink,
    ) -> exec::ExecResult<StatementOutcome> {
        if planned.runs_programs {
            let outer = self.programs.outer_tables.len();
            let used = planned.tables.iter().map(|(table, _)| table.id);
            self.programs.outer_tables.extend(used);
            let done = self.attempt_with_programs(&planned.plan, params, open, run, sink);
            self.programs.outer_tables.truncate(outer);
            done
        } else {
            self.attempt_plain(&planned.plan, params, open, run, sink)
        }
    }

    /// Executes a plan that runs no stored programs.
    fn attempt_plain(
        &self,
        plan: &Plan,
        params: &[ValueRef<'_>],
        open: &mut OpenTxn,
        run: &RunCx,
        sink: &mut dyn ResultSink,
    ) -> exec::ExecResult<StatementOutcome> {
        let _sets = self.cx.env.keep_sets();
        let states = States::new(self.cx.env.memory.statement());
        let shared = Shared {
            txn: &open.txn,
            env: &self.cx.env,
            params,
            mark: run.mark,
            conflicts: run.conflicts,
            validate: run.validate,
            lock_gaps: open.isolation != IsolationLevel::ReadCommitted,
            lock_wait: self.cx.settings.lock_wait,
            server: &*self.cx,
            programs: None,
            batches: Cell::new(0),
            states: &states,
            recursion: self.cx.settings.recursion,
            profile: self.current_statement.profile.as_ref(),
        };
        let mut exec = Exec::new(&shared, None);
        exec.env.counted_rows.set(None);
        let ids = self.cx.settings.auto_increment;
        let done = if sink.is_for_client() {
            let mut sink = results::RecodingSink::new(sink, &self.cx.settings);
            statement::run(plan, &mut exec, ids, &mut sink)
        } else {
            statement::run(plan, &mut exec, ids, sink)
        };
        match done {
            Err(ExecError::Error(_)) if states.restart.get() => Err(ExecError::Restart),
            done => done,
        }
    }
}
