//! Sessions: from the text of a statement to its reply.
//!
//! A [`SqlSession`] belongs to one connection and is used by one thread at a time. Its
//! [`StatementContext`] is the state that statements read. [`dispatch`] passes a parsed statement
//! to the module that executes it; [`run`] executes plans under the transaction rules;
//! [`transaction`] begins, ends and chains transactions; [`define`] executes data definition;
//! [`prepared`] manages prepared statements; [`set`] sets variables, and [`state`] applies them;
//! [`track`] reports changes to clients.
//!
//! Invariants:
//! 1. Order of a statement: names are resolved in the newest catalog, the tables are published to
//!    the metadata locks, the catalog's version is checked again, and then come the plan and the
//!    snapshot (transactions.md, rule 41). Published tables stay locked to the end of the
//!    transaction.
//! 2. An error rolls the statement's writes back and keeps its locks; only an error that says so
//!    (deadlock, conflict, unknown outcome) ends the transaction.
//! 3. A reply that reveals rows of current reads, or a commit, has the commit position that it must
//!    wait for (rule 19).
//! 4. Passwords never appear in logs, error messages or the process list.

mod account;
mod attributes;
mod backup;
mod batched_triggers;
mod built_in_functions;
mod change_log;
mod checksum;
mod conditions;
mod create;
mod define;
mod dispatch;
mod duplicate_indexes;
mod evaluate;
mod events;
mod explain;
mod finish;
mod global_locks;
mod handler_statement;
mod hint;
mod histogram;
mod host;
mod into;
mod key_prefix;
mod load;
mod maintenance;
mod outfile;
mod plan_cache;
mod prepared;
mod programs;
mod replica;
mod routines;
mod run;
mod server_triggers;
mod set;
mod state;
mod statistics;
mod table_locks;
mod temporary;
mod track;
mod transaction;
mod triggers;
mod views;
mod xa;

pub(crate) use crate::context::lex_mode;
use crate::context::{Diagnostics, Planning, StatementContext, Temporary};
use crate::processes::Process;
use crate::results;
use crate::server::{Counters, SqlServer};
use crate::statements::phases;
use crate::status::{Counter, SessionCounters};
use crate::vars::Settings;
use bumpalo::Bump;
use global_locks::ServerLocks;
use plan_cache::PlanCache;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::interrupt::{self, Scope};
use porpoise_base::memory::ConnectionMemory;
use porpoise_base::sampling::Countdown;
use porpoise_kv::CommitPosition;
use porpoise_rows::changes::{LoggedStatement, Origin};
use porpoise_rows::metadata_lock::MetadataLockSession;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{Charset, Collation, DateTime, SqlMode};
use prepared::Prepared;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use track::Tracker;
use transaction::{OpenTxn, TxnCharacteristics};

pub use crate::client::{ClientInfo, Encryption};
pub use crate::results::Outcome;
pub use prepared::{Param, PreparedInfo};
pub use server_triggers::TriggerSessions;
pub(crate) use set::set_global_variable;
pub use track::SessionChange;

/// Capability bit of the handshake: affected rows are the rows found, not the rows changed.
pub const CLIENT_FOUND_ROWS: u64 = 2;

/// Capability bit of the handshake: the client sends files on request.
const CLIENT_LOCAL_FILES: u64 = 1 << 7;

/// Capability bit of the handshake: the client is subject to `interactive_timeout`.
const CLIENT_INTERACTIVE: u64 = 1 << 10;

/// The state of one connection.
pub struct SqlSession {
    /// State that statements read. Boxed, because a statement that runs programs takes it out for its
    /// duration.
    pub(crate) cx: Box<StatementContext>,
    /// Usage of the account's resources, if it has limits.
    limited_usage: Option<account::LimitedUsage>,
    /// The open transaction.
    open: Option<Box<OpenTxn>>,
    /// The next transaction, in place of one that has ended, if its isolation is the same.
    restarted: Option<Box<OpenTxn>>,
    /// The XA transaction branch.
    xa: Option<xa::Branch>,
    /// Characteristics of the next transaction only, from SET TRANSACTION.
    next: TxnCharacteristics,
    metadata_locks: MetadataLockSession,
    /// Prepared statements of the protocol, by id.
    statements: HashMap<u32, Prepared>,
    /// Prepared statements of PREPARE, by name in lower case.
    named: HashMap<String, Prepared>,
    /// Start of the search for a free statement id.
    next_statement: u32,
    /// Entry of the process list.
    process: Arc<Process>,
    /// Arena of the next statement's syntax tree.
    arena: Bump,
    /// Plan cache for statements sent as text.
    plans: PlanCache,
    /// Whether more statements of the same text follow.
    has_more_statements: bool,
    /// State of the current statement.
    current_statement: hint::CurrentStatement,
    /// Counters of the current statement so far.
    work: statistics::StatementWork,
    /// Chooses the statements whose phases are measured.
    phase_countdown: Countdown,
    /// Digests of texts without a cached plan.
    known_digests: statistics::KnownDigests,
    /// Tables locked by LOCK TABLES.
    table_locks: Option<table_locks::TableLocks>,
    /// Tables opened by HANDLER.
    handlers: Vec<handler_statement::OpenHandler>,
    /// Locks of the whole server.
    server_locks: ServerLocks,
    /// Changes to report to the client.
    tracker: Tracker,
    /// Start of the current statement.
    statement_start: std::time::Instant,
    /// Stored programs.
    pub(crate) programs: programs::Programs,
    /// The present statement for the change log, if it is logged as text.
    logged_statement: Option<LoggedStatement>,
    /// Start and end of the present statement in its text, if others follow it there.
    statement_end: Option<(usize, usize)>,
    /// Origin of what this session runs, if it applies what another server ran.
    origin: Option<Origin>,
    /// Newest commit that a reply of this session has revealed, sent or not.
    revealed_position: CommitPosition,
}

impl SqlServer {
    /// Opens a session for an authenticated client.
    ///
    /// # Errors
    /// 1049 if the login's default database does not exist.
    pub fn connect(self: &Arc<Self>, info: ClientInfo, cancel: Cancel) -> Result<SqlSession> {
        let memory = Arc::new(ConnectionMemory::new(self.memory.clone()));
        self.connect_with(info, cancel, &memory)
    }

    /// Opens a session of the server itself, which has all privileges: for the definitions of a source.
    ///
    /// # Errors
    /// None that a client could cause.
    pub fn connect_system(
        self: &Arc<Self>,
        connection_id: u64,
        cancel: Cancel,
    ) -> Result<SqlSession> {
        let info = ClientInfo {
            connection_id,
            user: "system user".to_owned(),
            host: String::new(),
            account: String::new(),
            capabilities: 0,
            collation: Collation::UTF8MB4_0900_AI_CI.0,
            database: None,
        };
        let mut session = self.connect(info, cancel)?;
        session.cx.is_system = true;
        *session.cx.rights.get_mut() = session.cx.current_rights();
        Ok(session)
    }

    /// Opens a session whose memory is charged to this connection.
    ///
    /// # Errors
    /// As [`SqlServer::connect`].
    pub fn connect_with(
        self: &Arc<Self>,
        info: ClientInfo,
        cancel: Cancel,
        memory: &Arc<ConnectionMemory>,
    ) -> Result<SqlSession> {
        Counters::add(&self.counters.connections);
        SqlSession::open(self.clone(), info, cancel, memory)
    }
}

impl SqlSession {
    fn open(
        server: Arc<SqlServer>,
        client: ClientInfo,
        cancel: Cancel,
        memory: &Arc<ConnectionMemory>,
    ) -> Result<SqlSession> {
        let now = server.db.clock().now();
        let metadata_locks = server.db.metadata_locks().session();
        let named_at = server.access.version();
        let process = Arc::new(Process::new(
            &client,
            named_at,
            now,
            cancel.clone(),
            &metadata_locks,
        ));
        let limited_usage = account::LimitedUsage::connect(&server, &client)?;
        let counters = process.counters.clone();
        let cx = new_context(server, client, cancel, named_at, counters)?;
        let mut session = SqlSession {
            metadata_locks,
            limited_usage,
            open: None,
            restarted: None,
            xa: None,
            next: TxnCharacteristics::default(),
            statements: HashMap::new(),
            named: HashMap::new(),
            logged_statement: None,
            statement_end: None,
            origin: None,
            next_statement: 1,
            arena: Bump::new(),
            plans: PlanCache::default(),
            has_more_statements: false,
            current_statement: hint::CurrentStatement::default(),
            work: statistics::StatementWork::default(),
            phase_countdown: Countdown::new(phases::INTERVAL),
            known_digests: statistics::KnownDigests::default(),
            table_locks: None,
            server_locks: ServerLocks::default(),
            handlers: Vec::new(),
            tracker: Tracker::new(cx.client.capabilities),
            statement_start: now,
            revealed_position: CommitPosition::NONE,
            programs: programs::Programs::default(),
            cx: Box::new(cx),
            process,
        };
        session.cx.env.memory = SessionMemory::new(memory);
        session.limit_memory();
        session.cx.activate_login_roles();
        session.apply_handshake()?;
        session.tracker = Tracker::new(session.cx.client.capabilities);
        session.cx.server.processes.add(session.process.clone());
        Ok(session)
    }

    /// Connection id.
    pub fn id(&self) -> u64 {
        self.cx.client.connection_id
    }

    /// The default database.
    pub fn database(&self) -> Option<&str> {
        self.cx.env.database.as_deref()
    }

    /// Maximum idle time of the connection: `wait_timeout`, or `interactive_timeout` for a client
    /// with CLIENT_INTERACTIVE.
    pub fn idle_timeout(&self) -> Duration {
        if self.cx.client.capabilities & CLIENT_INTERACTIVE != 0 {
            self.cx.settings.interactive_timeout
        } else {
            self.cx.settings.wait_timeout
        }
    }

    /// Whether other sessions may wait for this one: a transaction is open, or tables or the server
    /// are locked.
    pub fn holds_locks(&self) -> bool {
        self.open.is_some()
            || self.is_in_branch()
            || self.table_locks.is_some()
            || self.server_locks.are_held()
    }

    /// The collation of the connection.
    pub fn collation(&self) -> Collation {
        self.cx.settings.collation
    }

    /// Whether results have column definitions (`resultset_metadata`).
    pub fn sends_metadata(&self) -> bool {
        self.cx.settings.metadata
    }

    /// Whether text results are answered by a checksum (`result_checksum`).
    pub fn sends_checksums(&self) -> bool {
        self.cx.settings.result_checksum
    }

    /// Server status flags of the protocol: in transaction (1), autocommit
    /// (2), no backslash escapes (512), in a read-only transaction (8192).
    pub fn status_flags(&self) -> u16 {
        let mut flags = 0;
        if let Some(open) = &self.open {
            flags |= 1;
            if open.read_only {
                flags |= 8192;
            }
        } else if self.is_in_branch() {
            flags |= 1;
        }
        if self.cx.settings.autocommit {
            flags |= 2;
        }
        if self
            .cx
            .settings
            .mode
            .contains(SqlMode::NO_BACKSLASH_ESCAPES)
        {
            flags |= 512;
        }
        flags
    }

    /// Executes the first statement of `text`. Unless multiple statements are allowed (`multi`), a
    /// second one is a syntax error before the first is executed.
    ///
    /// # Errors
    /// Errors of the statement; [`SqlError::rolled_back`] tells the state of the transaction.
    pub fn query(
        &mut self,
        text: &[u8],
        multi: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let _scope = Scope::enter(&self.cx.env.cancel);
        // A KILL QUERY that arrived between two statements ends the rest of the text.
        let killed = self.has_more_statements && self.cx.env.cancel.reason() == Some(Reason::Query);
        let now = self.begin_statement("Query", None);
        self.cx.counters.add(Counter::Questions, 1);
        if killed {
            return self.end_statement(Err(porpoise_sql_expr::error::cancelled(Reason::Query)));
        }
        let sent = text;
        let text = self.decode(sent);
        self.process.begin("Query", Some(&text), now);
        self.begin_trace(&text);
        let hinted = hint::hinted(&text);
        self.current_statement.hinted_limit = hinted.and_then(hint::execution_limit);
        if let Err(error) = self.check_alive() {
            return self.end_statement(Err(error));
        }
        let arena = std::mem::take(&mut self.arena);
        let client = self.cx.settings.client;
        let variables = hinted.and_then(|hinted| self.set_hinted_variables(hinted));
        let mut result = self.query_in(&arena, &text, multi, sink);
        if let Err(error) = self.restore_variables(variables) {
            result = result.and(Err(error));
        }
        if let (Cow::Owned(text), Ok(outcome)) = (&text, &mut result) {
            // The rest starts at this offset of the original text.
            let rest = outcome.rest.and_then(|at| text.get(at..));
            let length_at_client = |rest| {
                client
                    .encoded(&Charset::Utf8mb4.convert(client, rest).0)
                    .len()
            };
            let rest = rest.map(length_at_client);
            outcome.rest = rest.map(|length| sent.len().saturating_sub(length));
        }
        self.find_digest(&text, result.as_ref().map_or(None, |outcome| outcome.rest));
        self.arena = recycle_arena(arena);
        self.has_more_statements = result.as_ref().is_ok_and(|outcome| outcome.rest.is_some());
        self.end_statement(result)
    }

    /// Shows the session in the process list as one that sends the binary log, until [`Self::end_dump`].
    pub fn begin_dump(&self, has_gtids: bool) {
        let command = if has_gtids {
            "Binlog Dump GTID"
        } else {
            "Binlog Dump"
        };
        let now = self.cx.server.db.clock().now();
        self.process.begin(command, None, now);
    }

    /// Ends [`Self::begin_dump`]: the binary log is no longer sent.
    pub fn end_dump(&self) {
        self.process.end(self.cx.server.db.clock().now());
    }

    /// Error if the session was killed between two statements, or its account has reached a limit.
    fn check_alive(&self) -> Result<()> {
        match self.cx.env.cancel.reason() {
            None => self.count_query(),
            Some(reason) => Err(porpoise_sql_expr::error::cancelled(reason)),
        }
    }

    /// Converts the text to UTF-8.
    fn decode<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match self.cx.settings.client {
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Ascii | Charset::Binary => {
                Cow::Borrowed(text)
            }
            other => match other.decoded(text).0 {
                Cow::Borrowed(text) => other.convert(Charset::Utf8mb4, text).0,
                converted => converted,
            },
        }
    }

    /// Resets the state of the current statement.
    fn begin_statement(
        &mut self,
        command: &'static str,
        text: Option<&[u8]>,
    ) -> std::time::Instant {
        let clock = self.cx.server.db.clock();
        let now = clock.now();
        let micros = self
            .cx
            .settings
            .timestamp
            .unwrap_or_else(|| clock.unix_micros());
        if let Some(at) = DateTime::from_unix_micros(micros) {
            self.cx.env.now_utc = at;
        }
        self.has_more_statements = false;
        self.cx.follow_renames();
        self.cx.env.cancel.clear_query();
        self.cx.env.strict.set(false);
        self.cx.env.warnings.get_mut().clear();
        self.cx.env.warnings_dropped.set(0);
        self.cx.env.last_insert_id.set(self.cx.last_insert_id);
        self.cx.diagnostics.begin();
        self.cx.counters.add(Counter::Queries, 1);
        self.statement_start = now;
        let is_sampled =
            self.cx.server.keeps_statistics && self.phase_countdown.is_sampled(phases::INTERVAL);
        self.work = statistics::StatementWork::begin(is_sampled);
        if text.is_some() {
            self.process.begin(command, text, now);
        }
        now
    }

    /// Stores the statement's conditions, and ends the transaction if the error requires it.
    fn end_statement(&mut self, result: Result<Outcome>) -> Result<Outcome> {
        // An interrupted loop has no result.
        let result = match interrupt::outcome() {
            Ok(()) => result,
            Err(ended) => Err(match result {
                Ok(outcome) => SqlError {
                    position: outcome.position,
                    ..SqlError::from(ended)
                },
                Err(error) => error.because(ended),
            }),
        };
        self.cx.env.memory.end_statement();
        let result = result.map_err(|error| self.end_transaction_on_error(error));
        self.metadata_locks.end_statement();
        let position = match &result {
            Ok(outcome) => outcome.position,
            Err(error) => error.position,
        };
        self.revealed_position = self.revealed_position.max(position);
        self.cx.last_insert_id = self.cx.env.last_insert_id.get();
        let warnings = std::mem::take(self.cx.env.warnings.get_mut());
        let dropped = self.cx.env.warnings_dropped.get();
        self.cx.diagnostics.end(
            warnings,
            dropped,
            result.as_ref().err(),
            self.cx.settings.notes,
        );
        let result = result.map(|mut outcome| {
            outcome.warnings = self.cx.diagnostics.reported();
            self.cx.env.row_count = if outcome.had_rows {
                -1
            } else {
                i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX)
            };
            outcome
        });
        if result.is_err() {
            self.cx.env.row_count = -1;
        }
        let now = self.cx.server.db.clock().now();
        self.process
            .note_transaction(self.open.is_some(), self.statement_start);
        let elapsed = now.saturating_duration_since(self.statement_start);
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.cx.settings.long_query_nanos {
            self.cx.counters.add(Counter::SlowQueries, 1);
        }
        self.record_statement(&result, now, nanos);
        result
    }

    /// Adds to a status variable, for commands of the protocol.
    pub fn count(&self, counter: Counter, n: u64) {
        self.cx.counters.add(counter, n);
    }

    /// Columns of a table, for COM_FIELD_LIST.
    ///
    /// # Errors
    /// 1046 without a default database, 1146 if there is no such table.
    pub fn field_list(&mut self, table: &str) -> Result<Vec<ResultColumn>> {
        self.check_password()?;
        let Some(database) = self.cx.env.database.clone() else {
            return Err(SqlError::no_database_selected());
        };
        let catalog = self.cx.catalog();
        let found = catalog.table(&database, table);
        let table = found.ok_or_else(|| SqlError::no_table(&database, table))?;
        Ok(results::table_columns(table))
    }
}

/// The context of a session that opens now; `named_at` is the version of access control at its login.
fn new_context(
    server: Arc<SqlServer>,
    client: ClientInfo,
    cancel: Cancel,
    named_at: u64,
    counters: Arc<SessionCounters>,
) -> Result<StatementContext> {
    let values = server.globals.read().clone();
    let settings = Settings::new(&values)?;
    Ok(StatementContext {
        env: state::fresh_env(&client, &settings, &server.locks, cancel),
        values,
        settings,
        named_at,
        is_system: false,
        rights: RefCell::default(),
        password_expired: false,
        roles: Vec::new(),
        diagnostics: Diagnostics::default(),
        planning: Planning::default(),
        temporary: Temporary::default(),
        last_insert_id: 0,
        counters,
        account_statement: None,
        server,
        client,
        encryption: Encryption::default(),
        compression: crate::client::Compression::default(),
    })
}

/// Capacity of the arena that a session keeps between statements.
const MAX_IDLE_ARENA: usize = 64 * 1024;

/// Returns an arena for the next statement: this one, unless it has become large.
fn recycle_arena(mut arena: Bump) -> Bump {
    if arena.allocated_bytes() > MAX_IDLE_ARENA {
        return Bump::new();
    }
    arena.reset();
    arena
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        self.roll_back();
        self.leave_branch();
        self.drop_all_temporary();
        self.cx
            .server
            .locks
            .release_all(self.cx.client.connection_id);
        self.process.count_statements(&self.cx.server.digests);
        self.cx.server.processes.remove(&self.process);
    }
}
