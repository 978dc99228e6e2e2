//! Executing plans against a transaction on rows.
//!
//! A plan is a tree of operators ([`crate::plan::physical`]); each is run by the module of its
//! name. Execution is push-based: an operator calls its consumer for each row, and the consumer
//! returns whether it wants more. Scans and joins work on batches: the driving scan yields a batch,
//! and each join looks up the matches of the whole batch in one call. A batch lives in an arena
//! that is reset before the next one.
//!
//! ```text
//! statement         the sink: the client, or
//!  insert             rows given to INSERT, upsert row by row
//!  dml, multi         rows of one table, or of a join, that change
//!  query            result operators: LIMIT, and which of these runs
//!    point_lookup     rows by whole keys, straight into the sink
//!    project          rows as they are found
//!    collect          rows buffered, deduplicated, sorted (sort_buffer)
//!      rows         row operators: calls its consumer for each joined row
//!        aggregate    groups
//!        window       window functions
//!        top_n_per_group  the first rows of each partition
//!        fused_scan   rows of one table, in place
//!        join         driving_scan -> index_lookup | materialized, join_hash_table | partitioned_join -> ...
//! ```
//!
//! Invariants:
//! 1. Keys known in advance are fetched in one engine call.
//! 2. Conditions on a locked row are checked on its newest version; the version that a scan
//!    returned only made it a candidate (transactions.md, rules 1 to 4).
//! 3. Nothing is sent to the client while the statement can still be restarted: only plain reads
//!    stream.

mod aggregate;
mod assign;
mod collect;
mod conditions;
mod derived;
mod dml;
mod driving_scan;
mod fetch;
mod found_rows;
mod fused_scan;
mod index_lookup;
mod index_merge;
mod insert;
mod join;
mod join_hash_table;
mod json_table;
mod key_list;
mod keys;
mod load;
mod lock_rows;
mod loose_scan;
mod materialized;
mod multi;
mod partitioned_join;
mod point_lookup;
pub mod profile;
mod project;
pub mod pruning;
mod query;
mod record_sort;
pub mod row_batch;
pub mod row_queue;
mod row_set;
mod rows;
mod rowstore;
mod scan;
mod slot_codec;
mod sort;
mod sort_buffer;
mod spill;
mod spilled_build;
pub mod state;
pub mod statement;
mod subquery;
mod text_search;
mod top_n_per_group;
mod triggers;
mod upsert;
mod visit;
mod window;

use crate::error::SqlError;
use crate::expr::eval::Env;
use crate::expr::query::Frame;
use crate::expr::stored::SessionFunction;
use crate::plan::ResultColumn;
use porpoise_base::blocking::blocking;
use porpoise_kv::{CommitPosition, Read, ReadMode, StatementMark};
use porpoise_rows::Firing;
use porpoise_rows::Txn;
use porpoise_types::{ColumnType, Value, ValueRef};
use profile::{Profile, Role, SpillSize};
use state::States;
use std::cell::{Cell, RefCell, RefMut};
use std::time::{Duration, Instant};

/// Reasons why execution stopped.
#[derive(Debug)]
pub enum ExecError {
    /// An error.
    Error(SqlError),
    /// A locked row is newer than the statement's snapshot: the statement must run again with a new
    /// one (transactions.md, rule 2).
    Restart,
}

impl<E: Into<SqlError>> From<E> for ExecError {
    fn from(e: E) -> ExecError {
        ExecError::Error(e.into())
    }
}

/// The result of execution.
pub type ExecResult<T> = std::result::Result<T, ExecError>;

/// The end of one of several results of a statement.
#[derive(Clone, Copy, Debug)]
pub struct ResultEnd {
    /// Status flags of the session.
    pub status: u16,
    /// Number of conditions.
    pub warnings: u16,
    /// Commit position at which the result may be sent.
    pub position: CommitPosition,
    /// Whether the result is the values of OUT parameters.
    pub is_out_parameters: bool,
}

/// Receives the rows of a result.
pub trait ResultSink {
    /// Announces a result set.
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError>;
    /// Adds a row; values have the SQL types of the columns.
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError>;
    /// Called before the columns: the result must be buffered until the statement has ended,
    /// because its rows are newer than what is durable, or because the statement may restart (and
    /// call [`ResultSink::columns`] again).
    fn buffer_until_end(&mut self) {}
    /// Whether text is converted to `character_set_results`: the rows go to a client.
    fn is_for_client(&self) -> bool {
        true
    }
    /// Whether conditions such as a division by zero in the select list are errors: the values are assigned
    /// to variables in strict mode.
    fn is_strict(&self) -> bool {
        false
    }
    /// Called when the statement has found all rows, before it commits; an error undoes its changes.
    ///
    /// # Errors
    /// Values do not fit where they are assigned.
    fn complete(&mut self, _env: &Env) -> Result<(), SqlError> {
        Ok(())
    }
    /// Ends a result that is not the statement's last: that of a statement in a procedure.
    ///
    /// # Errors
    /// 1312 if the client does not take several results; the client has gone away.
    fn end_result(&mut self, _end: &ResultEnd) -> Result<(), SqlError> {
        Ok(())
    }
    /// Discards what has been added of a result whose statement failed, if the program that runs it
    /// goes on. Returns false if some of it has been sent.
    fn discard_result(&mut self) -> bool {
        true
    }
    /// Opens the file of LOAD DATA: requests it from the client.
    ///
    /// # Errors
    /// 3948 if the client cannot send files.
    fn open_file(&mut self, _name: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::local_files_disabled())
    }
    /// Appends the next bytes of that file, if there are any for now. Returns false at the end of the
    /// file.
    ///
    /// # Errors
    /// The client has gone away, or the file cannot be read.
    fn read_file(&mut self, _out: &mut Vec<u8>) -> Result<bool, SqlError> {
        Ok(false)
    }
}

/// Runs stored functions and triggers from within a statement.
pub trait RunPrograms {
    /// Calls a function. Its statements use the transaction of the calling statement, which nothing
    /// else borrows meanwhile.
    ///
    /// # Errors
    /// Errors that its body does not handle.
    fn call(
        &self,
        function: &SessionFunction,
        args: Vec<(Value, ColumnType)>,
        txn: &RefCell<Txn>,
        env: &Env,
    ) -> Result<Value, SqlError>;

    /// Runs the triggers of a row, in their order, within the transaction of the statement that
    /// writes the row.
    ///
    /// # Errors
    /// The first error that a body does not handle.
    fn fire(&self, firing: &mut Firing<'_>, txn: &mut Txn, env: &Env) -> Result<(), SqlError>;

    /// As [`RunPrograms::fire`], for AFTER triggers whose rows may be kept until
    /// [`RunPrograms::write_batch`].
    ///
    /// # Errors
    /// As [`RunPrograms::fire`].
    fn fire_in_batch(
        &self,
        firing: &mut Firing<'_>,
        txn: &mut Txn,
        env: &Env,
    ) -> Result<(), SqlError> {
        self.fire(firing, txn, env)
    }

    /// Writes the rows that [`RunPrograms::fire_in_batch`] has kept.
    ///
    /// # Errors
    /// A row cannot be inserted.
    fn write_batch(&self, _txn: &mut Txn) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Treatment of rows newer than the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Snapshot isolation with a pinned snapshot: the statement is run again if the snapshot can be
    /// moved forward; otherwise the row is a conflict.
    Advance,
    /// No snapshot is pinned: the statement is run again with a new one.
    Restart,
    /// READ COMMITTED, or `innodb_snapshot_isolation = OFF`: the newest version is used.
    UseNewest,
}

/// State shared by all queries of one execution.
pub struct Shared<'x> {
    /// The transaction, borrowed for one call of `rows` at a time; no expression is evaluated
    /// meanwhile.
    pub txn: &'x RefCell<Txn>,
    /// The session and the statement.
    pub env: &'x Env,
    /// Parameters and extracted literals.
    pub params: &'x [ValueRef<'x>],
    /// The statement sees own writes before this position (rule 7).
    pub mark: StatementMark,
    /// Treatment of newer rows.
    pub conflicts: ConflictPolicy,
    /// Ranges that are scanned for rows to lock must not have changed when the
    /// transaction commits (transactions.md, rule 5).
    pub validate: bool,
    /// Locks of unique keys without a row are kept, so that no other transaction creates
    /// such a row. READ COMMITTED has no gap locks.
    pub lock_gaps: bool,
    /// `innodb_lock_wait_timeout`.
    pub lock_wait: Duration,
    /// Contents of virtual tables.
    pub server: &'x dyn crate::virtual_tables::VirtualRows,
    /// Stored functions, if the statement calls any.
    pub programs: Option<&'x dyn RunPrograms>,
    /// Number of batches so far.
    pub batches: Cell<u32>,
    /// Results that are cached between rows.
    pub states: &'x States,
    /// `cte_max_recursion_depth`.
    pub recursion: u64,
    /// Counters of the plan's operators, for EXPLAIN ANALYZE.
    pub profile: Option<&'x Profile>,
}

/// Context of the execution of one query.
pub struct Exec<'x> {
    /// State shared with the other queries of the statement.
    pub shared: &'x Shared<'x>,
    /// The session and the statement.
    pub env: &'x Env,
    /// Parameters and extracted literals.
    pub params: &'x [ValueRef<'x>],
    /// The current rows of the enclosing queries.
    pub outer: Option<&'x Frame<'x>>,
    /// Treatment of newer rows.
    pub conflicts: ConflictPolicy,
    /// `innodb_lock_wait_timeout`.
    pub lock_wait: Duration,
    /// Contents of virtual tables.
    pub server: &'x dyn crate::virtual_tables::VirtualRows,
}

impl<'x> Exec<'x> {
    /// Creates the context of a query with these enclosing rows.
    pub fn new(shared: &'x Shared<'x>, outer: Option<&'x Frame<'x>>) -> Exec<'x> {
        Exec {
            shared,
            env: shared.env,
            params: shared.params,
            outer,
            conflicts: shared.conflicts,
            lock_wait: shared.lock_wait,
            server: shared.server,
        }
    }

    /// Number of rows that a statement that reads many rows fetches with one call: more on a cluster, where a call may
    /// cost a round trip.
    pub(super) fn rows_per_call(&self) -> usize {
        if self.txn().db().is_clustered() {
            1024
        } else {
            join::BATCH
        }
    }

    /// The transaction, for one call.
    pub fn txn(&self) -> RefMut<'x, Txn> {
        self.shared.txn.borrow_mut()
    }
}

/// Number of batches after which a statement counts as long and its worker hands the event loop
/// over.
const LONG_STATEMENT_BATCHES: u32 = 16;

impl Exec<'_> {
    /// Parameters of a read at the statement's snapshot.
    pub fn read(&self) -> Read {
        Read {
            mode: ReadMode::Snapshot,
            mark: self.shared.mark,
            validate: false,
        }
    }

    /// Whether the query runs once in its statement: no enclosing query is at a row.
    pub(in crate::exec) fn runs_once(&self) -> bool {
        let mut frame = self.outer;
        while let Some(outer) = frame {
            if !outer.row.is_empty() || !outer.aggregates.is_empty() {
                return false;
            }
            frame = outer.outer;
        }
        true
    }

    /// The current time, if a profile is recorded.
    pub fn begin_part(&self) -> Option<Instant> {
        self.shared.profile.map(|_| Instant::now())
    }

    /// Adds loops and rows to the counters of an operator.
    pub fn end_part<T>(&self, part: &T, role: Role, loops: u64, rows: u64, since: Option<Instant>) {
        if let (Some(profile), Some(since)) = (self.shared.profile, since) {
            profile.add(part, role, loops, rows, since);
        }
    }

    /// Adds what an operator has written to temporary files.
    pub(in crate::exec) fn note_spilled<T>(&self, part: &T, role: Role, size: SpillSize) {
        if let Some(profile) = self.shared.profile.filter(|_| size.runs > 0) {
            profile.add_spilled(part, role, size);
        }
    }

    /// Called before each batch of rows: returns an error if the statement was cancelled. A long
    /// statement hands the event loop over.
    pub fn check_cancelled(&self) -> Result<(), SqlError> {
        let batches = self.shared.batches.get().saturating_add(1);
        self.shared.batches.set(batches);
        if batches == LONG_STATEMENT_BATCHES {
            blocking(|| ());
        }
        match self.env.cancel.reason() {
            None => Ok(()),
            Some(reason) => Err(crate::error::cancelled(reason)),
        }
    }
}

/// Effects of a data-changing statement.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Rows that the WHERE matched; for INSERT, existing rows that already had the new values.
    pub matched: u64,
    /// Rows changed; REPLACE and ON DUPLICATE KEY count as MySQL does.
    pub affected: u64,
    /// Rows given to INSERT.
    pub records: u64,
    /// Rows that met a duplicate.
    pub duplicates: u64,
    /// The id generated for the first row inserted.
    pub insert_id: Option<u64>,
    /// The id of the last row inserted, generated or given, or changed in the place of one.
    pub row_id: Option<u64>,
    /// The commit position that the reply must wait for.
    pub seen: CommitPosition,
}
