//! Sessions: from the text of a statement to its reply.
//!
//! A [`SqlSession`] belongs to one connection and is driven by one thread at
//! a time. [`dispatch`] sends a parsed statement to the module that knows it;
//! [`run`] executes plans under the rules of transactions; [`transaction`]
//! begins, ends and chains transactions; [`define`] changes definitions;
//! [`prepared`] keeps prepared statements; [`set`] sets variables, [`state`]
//! holds what they mean; [`track`] tells clients of changes.
//!
//! Invariants:
//! 1. Order of a statement: names are resolved on the newest catalog, the
//!    tables are published to the metadata locks, the catalog's version is
//!    looked at again, then comes the plan, then the snapshot
//!    (transactions.md, rule 41). Published tables are held to the end of the
//!    transaction.
//! 2. An error takes back the statement's writes and keeps its locks; only an
//!    error that says so (deadlock, conflict, unknown outcome) ends the
//!    transaction.
//! 3. A reply that tells of rows from current reads, or of a commit, carries
//!    the ticket that it must wait for (rule 19).
//! 4. Passwords reach no log, no error text and no process list.

mod account;
mod create;
pub(crate) mod define;
mod diagnostics;
pub(crate) mod dispatch;
pub(crate) mod evaluate;
mod hint;
mod into;
mod memcached;
mod plan_cache;
mod prepared;
pub mod processes;
pub(crate) mod results;
pub(crate) mod run;
pub mod server;
mod set;
mod state;
mod system;
mod table_locks;
mod temporary;
mod timer;
mod track;
mod transaction;
mod views;

use crate::error::{Result, SqlError};
use crate::exec::ResultSink;
use crate::expr::eval::Env;
use crate::memory::SessionMemory;
use crate::parse::LexMode;
use crate::plan::ResultColumn;
use crate::vars::{Settings, Values};
use bumpalo::Bump;
use diagnostics::Diagnostics;
use plan_cache::PlanCache;
use porpoise_access::{AuthId, Rights};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::interrupt::{self, Scope};
use porpoise_base::memory::ConnectionMemory;
use porpoise_kv::Ticket;
use porpoise_rows::mdl::MdlSession;
use porpoise_types::{Charset, Collation, DateTime, SqlMode};
use prepared::Prepared;
use processes::Process;
use server::{Counters, SqlServer};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use temporary::Temporary;
use track::Tracker;
use transaction::{NextTxn, OpenTxn};

pub use prepared::{Param, PreparedInfo};
pub use track::SessionChange;

/// Capability bit of the handshake: affected rows are those found, not those
/// changed.
pub const CLIENT_FOUND_ROWS: u64 = 2;

/// Capability bit of the handshake: `interactive_timeout` holds for it.
const CLIENT_INTERACTIVE: u64 = 1 << 10;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The connection's number.
    pub connection_id: u64,
    /// The name that the client gave.
    pub user: String,
    /// The host it comes from.
    pub host: String,
    /// The account that it was authenticated as, `user@host`.
    pub account: String,
    /// The capabilities of the handshake.
    pub capabilities: u64,
    /// The collation of the handshake, by MySQL's number.
    pub collation: u16,
    /// The default database asked for.
    pub database: Option<String>,
}

/// What a connection is encrypted with; empty without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// OpenSSL's name of the cipher suite.
    pub cipher: String,
    /// The protocol version, like `TLSv1.3`.
    pub version: String,
}

/// What a statement did, besides the rows it sent.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first id generated.
    pub last_insert_id: u64,
    /// Conditions that SHOW WARNINGS will tell of.
    pub warnings: u16,
    /// "Records: 3  Duplicates: 0  Warnings: 0" and the like.
    pub info: String,
    /// A result set was sent.
    pub had_rows: bool,
    /// Where the next statement of the text begins.
    pub rest: Option<usize>,
    /// The reply may leave when this is durable.
    pub ticket: Ticket,
    /// The connection ends after the reply (COMMIT RELEASE, KILL of itself).
    pub disconnect: bool,
}

/// One connection's state.
pub struct SqlSession {
    pub(crate) server: Arc<SqlServer>,
    pub(crate) client: ClientInfo,
    pub(crate) encryption: Encryption,
    /// The version of access control at which the account had the name in `client`.
    pub(super) named_at: u64,
    pub(crate) env: Env,
    pub(crate) values: Values,
    pub(crate) settings: Settings,
    /// What the account may do, as of the grants' version.
    pub(crate) rights: RefCell<Arc<Rights>>,
    /// The password has expired: only statements that change it are allowed.
    pub(crate) password_expired: bool,
    /// Roles activated by the login or by SET ROLE.
    pub(crate) roles: Vec<AuthId>,
    /// Usage of the account's resources, if it has limits.
    limited: Option<account::LimitedUsage>,
    pub(crate) open: Option<OpenTxn>,
    pub(crate) next: NextTxn,
    pub(crate) mdl: MdlSession,
    pub(crate) diagnostics: Diagnostics,
    statements: HashMap<u32, Prepared>,
    named: HashMap<String, Prepared>,
    next_statement: u32,
    process: Arc<Process>,
    arena: Bump,
    /// Plans of statements sent as text.
    plans: PlanCache,
    /// A plan made since this was cleared holds the value of a variable.
    pub(crate) volatile: Cell<bool>,
    /// More statements of the same text follow the one that has ended.
    continues: bool,
    pub(crate) notes: hint::Notes,
    /// Tables of this session only.
    pub(crate) temporary: Temporary,
    /// LOCK TABLES.
    pub(crate) table_locks: Option<table_locks::TableLocks>,
    /// What the client is to be told of.
    pub(crate) tracker: Tracker,
    pub(crate) last_insert_id: u64,
    /// The newest commit that a reply of this session told of, sent or not.
    pub(crate) told: Ticket,
}

/// The flags of sql_mode that the parser needs.
pub(crate) fn lex_mode(mode: SqlMode) -> LexMode {
    LexMode {
        ansi_quotes: mode.contains(SqlMode::ANSI_QUOTES),
        no_backslash_escapes: mode.contains(SqlMode::NO_BACKSLASH_ESCAPES),
        pipes_as_concat: mode.contains(SqlMode::PIPES_AS_CONCAT),
        high_not_precedence: mode.contains(SqlMode::HIGH_NOT_PRECEDENCE),
        ignore_space: mode.contains(SqlMode::IGNORE_SPACE),
    }
}

impl SqlSession {
    pub(crate) fn open(
        server: Arc<SqlServer>,
        client: ClientInfo,
        cancel: Cancel,
        memory: &Arc<ConnectionMemory>,
    ) -> Result<SqlSession> {
        let values = server.globals.read().clone();
        let settings = Settings::new(&values)?;
        let now = server.db.clock().now();
        let mdl = server.db.mdl().session();
        let process = Arc::new(Process::new(
            client.connection_id,
            &client.user,
            &client.host,
            None,
            now,
            cancel.clone(),
            mdl.progress().clone(),
        ));
        let mut session = SqlSession {
            env: state::fresh_env(&client, &settings, &server.locks, cancel),
            mdl,
            values,
            settings,
            named_at: server.access.version(),
            rights: RefCell::default(),
            password_expired: false,
            roles: Vec::new(),
            limited: account::LimitedUsage::connect(&server, &client)?,
            open: None,
            next: NextTxn::default(),
            diagnostics: Diagnostics::default(),
            statements: HashMap::new(),
            named: HashMap::new(),
            next_statement: 1,
            process,
            arena: Bump::new(),
            plans: PlanCache::default(),
            volatile: Cell::new(false),
            continues: false,
            notes: hint::Notes::default(),
            temporary: Temporary::default(),
            table_locks: None,
            tracker: Tracker::new(client.capabilities),
            last_insert_id: 0,
            told: Ticket::NONE,
            server,
            client,
            encryption: Encryption::default(),
        };
        session.env.memory = SessionMemory::new(memory);
        session.limit_memory();
        session.activate_login_roles();
        session.apply_handshake()?;
        session.tracker = Tracker::new(session.client.capabilities);
        session.server.processes.add(session.process.clone());
        Ok(session)
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.client.connection_id
    }

    /// The default database.
    pub fn database(&self) -> Option<&str> {
        self.env.database.as_deref()
    }

    /// How long the connection may be idle: `wait_timeout`, or for the people
    /// who said that they are some, `interactive_timeout`.
    pub fn idle_timeout(&self) -> Duration {
        if self.client.capabilities & CLIENT_INTERACTIVE != 0 {
            self.settings.interactive_timeout
        } else {
            self.settings.wait_timeout
        }
    }

    /// Whether others may wait for this session: a transaction or LOCK TABLES.
    pub fn holds_locks(&self) -> bool {
        self.open.is_some() || self.table_locks.is_some()
    }

    /// The collation of the connection.
    pub fn collation(&self) -> Collation {
        self.settings.collation
    }

    /// Whether results begin with the definitions of their columns
    /// (`resultset_metadata`).
    pub fn sends_metadata(&self) -> bool {
        self.settings.metadata
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
        }
        if self.settings.autocommit {
            flags |= 2;
        }
        if self.settings.mode.contains(SqlMode::NO_BACKSLASH_ESCAPES) {
            flags |= 512;
        }
        flags
    }

    /// Runs the first statement of `text`. Unless several statements in a text
    /// are allowed (`multi`), a second one is a syntax error before the first
    /// has run.
    ///
    /// # Errors
    /// The statement's; the transaction is as [`SqlError::rolled_back`] says.
    pub fn query(
        &mut self,
        text: &[u8],
        multi: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let _scope = Scope::enter(&self.env.cancel);
        // KILL QUERY that came too late for a statement ends the rest of its text.
        let killed = self.continues && self.env.cancel.reason() == Some(Reason::Query);
        let now = self.begin_statement("Query", None);
        if killed {
            return self.end_statement(Err(crate::error::cancelled(Reason::Query)));
        }
        let sent = text;
        let text = self.decode(sent);
        self.process.begin("Query", Some(&shown(&text)), now);
        self.notes.hinted_limit = hint::execution_limit(&text);
        if let Err(error) = self.check_alive() {
            return self.end_statement(Err(error));
        }
        let arena = std::mem::take(&mut self.arena);
        let client = self.settings.client;
        let mut result = self.query_in(&arena, &text, multi, sink);
        if let (Cow::Owned(text), Ok(outcome)) = (&text, &mut result) {
            // The rest begins where it does in what was sent.
            let rest = outcome.rest.and_then(|at| text.get(at..));
            let rest = rest.map(|rest| Charset::Utf8mb4.convert(client, rest).0.len());
            outcome.rest = rest.map(|length| sent.len().saturating_sub(length));
        }
        self.arena = reusable(arena);
        self.continues = result.as_ref().is_ok_and(|outcome| outcome.rest.is_some());
        self.end_statement(result)
    }

    /// Fails when the session was killed between two statements, or has used up what its
    /// account may use.
    fn check_alive(&self) -> Result<()> {
        match self.env.cancel.reason() {
            None => self.count_query(),
            Some(reason) => Err(crate::error::cancelled(reason)),
        }
    }

    /// The text in UTF-8.
    fn decode<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match self.settings.client {
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Ascii | Charset::Binary => {
                Cow::Borrowed(text)
            }
            other => other.convert(Charset::Utf8mb4, text).0,
        }
    }

    /// Resets what belongs to one statement.
    fn begin_statement(
        &mut self,
        command: &'static str,
        text: Option<&[u8]>,
    ) -> std::time::Instant {
        let clock = self.server.db.clock();
        let now = clock.now();
        let micros = self
            .settings
            .timestamp
            .unwrap_or_else(|| clock.unix_micros());
        if let Some(at) = DateTime::from_unix_micros(micros) {
            self.env.now_utc = at;
        }
        self.continues = false;
        self.follow_renames();
        self.env.cancel.clear_query();
        self.env.strict.set(false);
        self.env.warnings.get_mut().clear();
        self.env.warnings_dropped.set(0);
        self.env.last_insert_id.set(self.last_insert_id);
        self.diagnostics.begin();
        Counters::add(&self.server.counters.questions);
        if text.is_some() {
            self.process.begin(command, text, now);
        }
        now
    }

    /// Files the statement's conditions, and the transaction of an error that
    /// ended it.
    fn end_statement(&mut self, result: Result<Outcome>) -> Result<Outcome> {
        // What a loop that was left early made of it is no result.
        let result = match interrupt::outcome() {
            Ok(()) => result,
            Err(ended) => Err(match result {
                Ok(outcome) => SqlError {
                    ticket: outcome.ticket,
                    ..SqlError::from(ended)
                },
                Err(error) => error.because(ended),
            }),
        };
        self.env.memory.end_statement();
        let result = result.map_err(|error| self.settle_error(error));
        let ticket = match &result {
            Ok(outcome) => outcome.ticket,
            Err(error) => error.ticket,
        };
        self.told = self.told.max(ticket);
        self.last_insert_id = self.env.last_insert_id.get();
        let warnings = std::mem::take(self.env.warnings.get_mut());
        let dropped = self.env.warnings_dropped.get();
        self.diagnostics.end(
            warnings,
            dropped,
            result.as_ref().err(),
            self.settings.notes,
        );
        let result = result.map(|mut outcome| {
            outcome.warnings = self.diagnostics.reported();
            self.env.row_count = match outcome.had_rows {
                true => -1,
                false => i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX),
            };
            outcome
        });
        if result.is_err() {
            self.env.row_count = -1;
        }
        let now = self.server.db.clock().now();
        // Between two statements of a text the session is not idle: KILL QUERY finds it.
        if !self.continues {
            self.process.end(now);
        }
        result
    }

    /// Columns of a table, for COM_FIELD_LIST.
    ///
    /// # Errors
    /// 1046 without a default database, 1146 without the table.
    pub fn field_list(&mut self, table: &str) -> Result<Vec<ResultColumn>> {
        self.check_password()?;
        let Some(database) = self.env.database.clone() else {
            return Err(SqlError::no_database_selected());
        };
        let catalog = self.catalog();
        let found = catalog.table(&database, table);
        let table = found.ok_or_else(|| SqlError::no_table(&database, table))?;
        Ok(results::columns_of(table))
    }
}

/// Bytes of a parsed statement's arena that a session keeps for the next one.
const ARENA_KEPT: usize = 64 * 1024;

/// The arena for the next statement: this one, unless it has become large.
fn reusable(mut arena: Bump) -> Bump {
    if arena.allocated_bytes() > ARENA_KEPT {
        return Bump::new();
    }
    arena.reset();
    arena
}

/// The part of the statement's text that the process list keeps, as it may show it. What follows
/// is not looked at: a text of many statements comes here once for each of them. A password
/// stands behind the words that tell of it.
fn shown(text: &[u8]) -> Cow<'_, [u8]> {
    let text = text.get(..processes::KEPT).unwrap_or(text);
    match crate::users::mentions_password(text) {
        true => Cow::Borrowed(b"(a statement with a password)"),
        false => Cow::Borrowed(text),
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        self.roll_back();
        self.end_temporary();
        self.server.locks.release_all(self.client.connection_id);
        self.server.processes.remove(&self.process);
    }
}
