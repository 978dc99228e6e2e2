//! The SQL server: state shared by all sessions.

use crate::audit::{AuditSink, AuditedLogin};
use crate::binary_log::{AckSettings, BinaryLogs};
use crate::deadlocks::DeadlockLog;
use crate::event_runs::EventRuns;
use crate::processes::{Process, Processes};
use crate::replica::{Group, GroupProvider, ReplicaControl, ReplicaStatus};
use crate::statements::digests::{Digests, Summary};
use crate::statements::latency::ClassLatency;
use crate::statements::phases::Phases;
use crate::statements::slow_log::SlowLog;
use crate::status::Counter;
use crate::table_expressions::ExpressionCompiler;
use crate::timer::Timer;
use crate::trace::TraceSink;
use crate::vars::{Settings, Values, VarValue};
use crate::xa::Branches;
use parking_lot::RwLock;
use porpoise_access::persisted;
use porpoise_access::{AccessControl, Account, Rights};
use porpoise_base::cancel::Cancel;
use porpoise_base::histogram::Counts;
use porpoise_base::memory::MemoryBudget;
use porpoise_kv::Stat;
use porpoise_rows::catalog::Table;
use porpoise_rows::command_summary::CommandSummary;
use porpoise_rows::prepared::{PreparedTxn, Xid};
use porpoise_rows::sample::TableBytes;
use porpoise_rows::{Db, ReadOnly};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::named_locks::NamedLocks;
use porpoise_sql_plan::statistics::Statistics;
use porpoise_types::Value;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Source of the rows that describe a memcached key
/// ([`porpoise_access::ndbmemcache::key_columns`]), as visible to an account with these rights.
pub type KeyProvider = Box<dyn Fn(&[u8], &Rights) -> Vec<Vec<Value>> + Send + Sync>;
/// Source of the rows of a virtual table outside of SQL, as visible to an account with these
/// rights.
pub type RowsProvider = Box<dyn Fn(&Rights) -> Vec<Vec<Value>> + Send + Sync>;
/// Status variables from outside of SQL, for SHOW STATUS: name and value.
pub type StatusProvider = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// Source of statistics of commands that are not SQL, which are shown beside those of statements.
pub struct CommandStatistics {
    /// The statistics since the last reset.
    pub summaries: fn() -> Vec<CommandSummary>,
    /// Sets them to zero.
    pub reset: fn(),
}

/// Request of a BACKUP DATABASE statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRequest {
    /// The directory or the URL.
    pub destination: String,
    /// Limit of the rate in bytes a second; `None` for the server's default.
    pub rate: Option<u64>,
}

/// Result of a BACKUP DATABASE statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of the backup in its repository.
    pub number: u64,
    /// Bytes that a restore reads, uncompressed.
    pub bytes: u64,
    /// Bytes that were stored.
    pub stored: u64,
    /// Position in the log of the state that was backed up.
    pub position: u64,
    /// Time of the last commit in the backup, in microseconds since 1970 UTC.
    pub time: u64,
}

/// Makes backups; returns when the backup is durable, or when the statement is cancelled.
pub type BackupProvider =
    Box<dyn Fn(&BackupRequest, &Cancel) -> Result<BackupReport> + Send + Sync>;

/// Configuration of SQL.
#[derive(Clone, Debug, Default)]
pub struct SqlConfig {
    /// Initial values of system variables, by name.
    pub variables: Vec<(String, String)>,
    /// The password of `root` when the accounts are created; `None` for an empty one.
    pub root_password: Option<String>,
    /// Memory budget of connections; `global_connection_memory_limit` sets its limit.
    pub memory: Arc<MemoryBudget>,
}

/// Counters over all sessions, beside those of [`crate::status`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Transactions that failed because a row was newer than their snapshot.
    pub conflicts: AtomicU64,
    /// Statements restarted at a newer snapshot.
    pub restarts: AtomicU64,
    /// Sessions since the start.
    pub connections: AtomicU64,
}

/// Metrics that are sums of status variables: name, help and the counters.
const STATEMENT_METRICS: &[(&str, &str, &[Counter])] = &[
    (
        "sql_statements_total",
        "SQL statements run.",
        &[Counter::Queries],
    ),
    (
        "sql_selects_total",
        "SELECT statements run.",
        &[Counter::Select],
    ),
    (
        "sql_inserts_total",
        "INSERT and REPLACE statements run.",
        &[
            Counter::Insert,
            Counter::InsertSelect,
            Counter::Replace,
            Counter::ReplaceSelect,
        ],
    ),
    (
        "sql_updates_total",
        "UPDATE statements run.",
        &[Counter::Update, Counter::UpdateMulti],
    ),
    (
        "sql_deletes_total",
        "DELETE statements run.",
        &[Counter::Delete, Counter::DeleteMulti],
    ),
    (
        "sql_commits_total",
        "Transactions committed by SQL.",
        &[Counter::HandlerCommit],
    ),
    (
        "sql_rollbacks_total",
        "Transactions rolled back by SQL.",
        &[Counter::HandlerRollback],
    ),
];

impl Counters {
    /// Adds one.
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Size of a table, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Approximate number of rows; `None` if only counting could tell.
    pub rows: Option<u64>,
    /// Bytes; `None` if the engine does not count them.
    pub bytes: Option<TableBytes>,
}

/// State shared by all sessions.
pub struct SqlServer {
    pub(crate) db: Arc<Db>,
    pub(crate) globals: RwLock<Values>,
    /// The global values after the start.
    pub(crate) initial_values: Values,
    pub(crate) processes: Arc<Processes>,
    pub(crate) counters: Counters,
    /// Named locks of GET_LOCK.
    pub(crate) locks: Arc<NamedLocks>,
    /// Accounts and their privileges.
    pub(crate) access: Arc<AccessControl>,
    /// Recent deadlocks.
    pub(crate) deadlocks: Arc<DeadlockLog>,
    pub(crate) started: Instant,
    pub(crate) timer: Timer,
    /// The last runs of events.
    pub(crate) event_runs: EventRuns,
    /// Statistics of tables.
    pub(crate) statistics: Statistics,
    /// Memory budget of connections.
    pub(crate) memory: Arc<MemoryBudget>,
    /// Number of prepared statements of all sessions.
    pub(crate) prepared: Arc<AtomicU64>,
    /// XA transaction branches.
    pub(crate) branches: Branches,
    /// Whether statistics of statements are kept (`performance_schema`).
    pub(crate) keeps_statistics: bool,
    /// Statistics of statements.
    pub(crate) digests: Digests,
    /// Times of the phases of statements.
    pub(crate) phases: Phases,
    /// The slow query log.
    pub(crate) slow_log: SlowLog,
    /// Database, table and source of rows of virtual tables outside of SQL.
    row_providers: RwLock<Vec<(String, String, RowsProvider)>>,
    key_provider: RwLock<Option<KeyProvider>>,
    command_statistics: RwLock<Option<CommandStatistics>>,
    audit: OnceLock<Arc<dyn AuditSink>>,
    /// The binary log, if it is on.
    pub(crate) binary_log: OnceLock<Arc<dyn BinaryLogs>>,
    traces: OnceLock<Arc<dyn TraceSink>>,
    status_providers: RwLock<Vec<StatusProvider>>,
    shutdown: RwLock<Option<Box<dyn Fn() + Send + Sync>>>,
    backup_provider: RwLock<Option<Arc<BackupProvider>>>,
    replica: RwLock<Option<Arc<dyn ReplicaControl>>>,
    group: OnceLock<GroupProvider>,
}

impl SqlServer {
    /// Creates the SQL server of a database; creates the accounts at the first start.
    ///
    /// # Errors
    /// An unknown variable or invalid value in the configuration; errors of creating the accounts.
    pub fn new(db: Arc<Db>, config: SqlConfig) -> Result<Arc<SqlServer>> {
        let mut globals = Values::new(&config.variables)?;
        // Before tables are used.
        let branches = Branches::restore(&db)?;
        globals.set_persisted(&persisted::load(&db)?);
        let settings = Settings::new(&globals)?;
        db.set_expiry_zone(settings.time_zone);
        db.set_read_staleness(settings.read_staleness.unwrap_or_default());
        let memory = config.memory;
        memory.set_limit(globals.int("global_connection_memory_limit"));
        db.set_compiler(Arc::new(ExpressionCompiler::default()));
        let access = AccessControl::open(db.clone(), config.root_password.as_deref())?;
        if globals.bool("partial_revokes") {
            access.set_partial_revokes(true)?;
        } else if access.data().partial_revokes {
            // Restrictions exist, so the variable is ON, as in MySQL.
            let (at, _) = crate::vars::entry("partial_revokes")?;
            globals.set(at, VarValue::Bool(true));
        }
        let processes = Arc::<Processes>::default();
        let deadlocks = Arc::new(DeadlockLog::new(&db, processes.clone()));
        db.engine().subscribe_deadlocks(deadlocks.clone());
        let started = db.clock().now();
        let capacity = globals.int("performance_schema_digests_size");
        let digests = Digests::new(started, usize::try_from(capacity).unwrap_or(usize::MAX));
        digests.set_sample_values(globals.bool("statement_sample_values"));
        let event_runs = EventRuns::restore(porpoise_access::event_runs::load(&db)?);
        let slow_log = SlowLog::default();
        slow_log.configure(&globals);
        let sampled = match globals.bool("performance_schema") {
            true => u32::try_from(globals.int("hot_key_sample_interval")).unwrap_or(u32::MAX),
            false => 0,
        };
        db.hot_keys().sampler().set_interval(sampled);
        Ok(Arc::new(SqlServer {
            deadlocks,
            keeps_statistics: globals.bool("performance_schema"),
            digests,
            phases: Phases::default(),
            slow_log,
            started,
            db,
            initial_values: globals.clone(),
            globals: RwLock::new(globals),
            processes,
            timer: Timer::default(),
            event_runs,
            statistics: Statistics::default(),
            counters: Counters::default(),
            locks: Arc::default(),
            access,
            memory,
            prepared: Arc::default(),
            branches,
            row_providers: RwLock::new(Vec::new()),
            key_provider: RwLock::new(None),
            command_statistics: RwLock::new(None),
            audit: OnceLock::new(),
            binary_log: OnceLock::new(),
            traces: OnceLock::new(),
            status_providers: RwLock::new(Vec::new()),
            shutdown: RwLock::new(None),
            backup_provider: RwLock::new(None),
            replica: RwLock::new(None),
            group: OnceLock::new(),
        }))
    }

    /// The database.
    pub fn db(&self) -> &Arc<Db> {
        &self.db
    }

    /// Accounts and their privileges.
    pub fn access(&self) -> &Arc<AccessControl> {
        &self.access
    }

    /// The account that a client of this name and host may log in as, with its plugin and
    /// authentication data. `None` if there is none or it is locked.
    ///
    /// # Errors
    /// If the accounts cannot be read.
    pub fn account(&self, user: &str, host: &str) -> Result<Option<Account>> {
        Ok(self.access.find(user, host)?)
    }

    /// Sets the source of rows of a virtual table in [`porpoise_sql_plan::virtual_tables::all`].
    pub fn provide_rows(&self, database: &str, table: &str, rows: RowsProvider) {
        let entry = (database.to_owned(), table.to_owned(), rows);
        self.row_providers.write().push(entry);
    }

    /// Sets the receiver of messages for the server's log.
    pub fn set_report(&self, report: impl Fn(&str) + Send + Sync + 'static) {
        self.slow_log.set_report(Box::new(report));
    }

    /// Sets what SHUTDOWN calls: a function that begins a regular shutdown and does not wait for it.
    pub fn provide_shutdown(&self, begin: impl Fn() + Send + Sync + 'static) {
        *self.shutdown.write() = Some(Box::new(begin));
    }

    /// Begins a regular shutdown; returns false if nothing provides it.
    pub fn begin_shutdown(&self) -> bool {
        let provided = self.shutdown.read();
        if let Some(begin) = provided.as_ref() {
            begin();
        }
        provided.is_some()
    }

    /// Adds a source of status variables.
    pub fn provide_status(&self, status: StatusProvider) {
        self.status_providers.write().push(status);
    }

    /// Sets the source of descriptions of keys.
    pub fn provide_keys(&self, keys: KeyProvider) {
        *self.key_provider.write() = Some(keys);
    }

    /// Sets the source of statistics of commands that are not SQL.
    pub fn provide_command_statistics(&self, statistics: CommandStatistics) {
        *self.command_statistics.write() = Some(statistics);
    }

    /// Sets the binary log, once.
    pub fn provide_binary_log(&self, log: Arc<dyn BinaryLogs>) {
        let _first = self.binary_log.set(log);
    }

    /// The binary log, if it is on.
    pub fn binary_log(&self) -> Option<&Arc<dyn BinaryLogs>> {
        self.binary_log.get()
    }

    /// Makes commits wait for replicas according to the variables rpl_semi_sync_source_*.
    ///
    /// # Errors
    /// The engine cannot withhold commits.
    pub fn apply_acknowledgement(&self) -> Result<()> {
        let Some(log) = self.binary_log() else {
            return Ok(());
        };
        let timeout = self.number("rpl_semi_sync_source_timeout");
        log.set_acknowledgement(AckSettings {
            is_on: self.number("rpl_semi_sync_source_enabled") == 1,
            replicas: self.number("rpl_semi_sync_source_wait_for_replica_count"),
            timeout: (timeout < u32::MAX).then(|| Duration::from_millis(timeout.into())),
        })
    }

    /// Sets the variable of the epoch of replication, and refuses or permits the writes of clients.
    pub fn record_epoch(&self, epoch: u64, is_read_only: bool) {
        let mut globals = self.globals.write();
        for (name, value) in [
            ("replication_epoch", VarValue::Int(epoch)),
            ("read_only", VarValue::Bool(is_read_only)),
            ("super_read_only", VarValue::Bool(is_read_only)),
        ] {
            if let Some(at) = crate::vars::find(name) {
                globals.set(at, value);
            }
        }
        drop(globals);
        self.apply_read_only();
    }

    /// Refuses or permits the writes of clients according to read_only and super_read_only.
    pub fn apply_read_only(&self) {
        let is_on = |name| self.number(name) == 1;
        self.db
            .set_read_only(match (is_on("read_only"), is_on("super_read_only")) {
                (_, true) => ReadOnly::Super,
                (true, false) => ReadOnly::Clients,
                (false, false) => ReadOnly::Off,
            });
    }

    /// Sets the audit log, once.
    pub fn provide_audit(&self, log: Arc<dyn AuditSink>) {
        let _first = self.audit.set(log);
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<&Arc<dyn AuditSink>> {
        self.audit.get()
    }

    /// Reports a login to the audit log, if there is one.
    ///
    /// # Errors
    /// 3164 if the login must be refused, because the log is mandatory and cannot be written.
    pub fn report_login(&self, login: &AuditedLogin<'_>) -> Result<()> {
        self.audit().map_or(Ok(()), |audit| audit.login(login))
    }

    /// Sets the receiver of traced statements, once.
    pub fn provide_traces(&self, sink: Arc<dyn TraceSink>) {
        let _first = self.traces.set(sink);
    }

    /// The receiver of traced statements, if there is one.
    #[inline]
    pub(crate) fn traces(&self) -> Option<&Arc<dyn TraceSink>> {
        self.traces.get()
    }

    /// Reopens the log files (FLUSH LOGS).
    pub fn reopen_logs(&self) {
        self.slow_log.reopen();
        if let Some(audit) = self.audit() {
            audit.reopen();
        }
    }

    /// Sets what BACKUP DATABASE runs.
    pub fn provide_backups(&self, backups: BackupProvider) {
        *self.backup_provider.write() = Some(Arc::new(backups));
    }

    /// Lets BACKUP DATABASE fail with error 1235 for a reason.
    pub fn refuse_backups(&self, what: &'static str) {
        self.provide_backups(Box::new(move |_, _| Err(SqlError::not_supported(what))));
    }

    /// Sets what runs the replica.
    pub fn provide_replica(&self, replica: Arc<dyn ReplicaControl>) {
        *self.replica.write() = Some(replica);
    }

    /// Whether an XA transaction branch is prepared.
    pub fn is_branch_prepared(&self, xid: &Xid) -> bool {
        self.branches.is_prepared(xid)
    }

    /// Adds a branch that a replica's source has prepared and that `prepare` prepares here. Any session may end it.
    ///
    /// # Errors
    /// 1440 if there is a branch with its identifier; that of `prepare`.
    pub fn prepare_branch(
        &self,
        xid: &Xid,
        prepare: &mut dyn FnMut() -> porpoise_rows::Result<PreparedTxn>,
    ) -> Result<()> {
        self.branches.prepare(xid, prepare)
    }

    /// The control of the replica.
    ///
    /// # Errors
    /// 1235 if the server has none.
    pub(crate) fn replica(&self) -> Result<Arc<dyn ReplicaControl>> {
        let replica = self.replica.read().clone();
        replica.ok_or_else(|| SqlError::not_supported("replication in this server"))
    }

    /// Fails if another server of the group is the leader: this one must not accept writes of clients.
    pub(crate) fn check_may_permit_writes(&self) -> Result<()> {
        match self.replica.read().as_ref() {
            Some(replica) => replica.check_may_permit_writes(),
            None => Ok(()),
        }
    }

    /// Sets the source of the state of the group with automatic failover, once.
    pub fn provide_group(&self, group: GroupProvider) {
        let _first = self.group.set(group);
    }

    /// The group with automatic failover, if this server is a member of one.
    pub(crate) fn group(&self) -> Option<Group> {
        self.group.get().and_then(|group| group())
    }

    /// State of the replica; `None` without a source.
    pub(crate) fn replica_status(&self) -> Option<ReplicaStatus> {
        self.replica.read().as_ref()?.status()
    }

    /// Makes a backup.
    ///
    /// # Errors
    /// 1235 if nothing makes backups; those of the provider.
    pub(crate) fn backup(&self, request: &BackupRequest, cancel: &Cancel) -> Result<BackupReport> {
        let provider = self.backup_provider.read().clone();
        let Some(provider) = provider else {
            return Err(SqlError::not_supported(
                "BACKUP DATABASE without a store on disk",
            ));
        };
        provider(request, cancel)
    }

    /// Rows that describe a key.
    pub(crate) fn key_mappings(&self, key: &[u8], rights: &Rights) -> Vec<Vec<Value>> {
        self.key_provider
            .read()
            .as_ref()
            .map_or(Vec::new(), |keys| keys(key, rights))
    }

    /// Rows of a virtual table outside of SQL; none if nothing provides the table.
    pub(crate) fn provided_rows(
        &self,
        database: &str,
        table: &str,
        rights: &Rights,
    ) -> Vec<Vec<Value>> {
        let providers = self.row_providers.read();
        let mut found = providers
            .iter()
            .filter(|(d, t, _)| d == database && t == table);
        found
            .next()
            .map(|(_, _, rows)| rows(rights))
            .unwrap_or_default()
    }

    /// Names and values of the status variables of all [`StatusProvider`]s.
    pub(crate) fn provided_status(&self) -> Vec<(String, String)> {
        let providers = self.status_providers.read();
        providers.iter().flat_map(|provider| provider()).collect()
    }

    /// The global value of a system variable, as SHOW prints it.
    pub fn variable(&self, name: &str) -> Option<String> {
        crate::vars::find(name).map(|at| self.globals.read().value_at(at).text())
    }

    /// Changes the global value of a variable that displays a setting of the configuration.
    ///
    /// # Errors
    /// As [`Values::set_text`].
    pub fn show_setting(&self, name: &str, text: &str) -> Result<()> {
        self.globals.write().set_text(name, text)
    }

    /// The global value of a numeric system variable, at most `u32::MAX`; 1 for a switch that is on. Reads
    /// it again at each call, so that SET GLOBAL is in force at once.
    pub fn number(&self, name: &str) -> u32 {
        let at = crate::vars::find(name);
        debug_assert!(at.is_some(), "no variable {name}");
        let value = at.map(|at| self.globals.read().value_at(at).clone());
        match value {
            Some(VarValue::Int(value)) => u32::try_from(value).unwrap_or(u32::MAX),
            Some(VarValue::Bool(is_on)) => u32::from(is_on),
            _ => 0,
        }
    }

    /// Metrics of the SQL server.
    pub fn stats(&self) -> Vec<Stat> {
        let c = &self.counters;
        let counter = |name, help, value: &AtomicU64| Stat {
            name,
            help,
            counter: true,
            value: value.load(Ordering::Relaxed),
        };
        let mut stats: Vec<Stat> = STATEMENT_METRICS
            .iter()
            .map(|(name, help, counters)| Stat {
                name,
                help,
                counter: true,
                value: counters.iter().map(|c| self.processes.sum(*c)).sum(),
            })
            .collect();
        stats.extend([
            counter(
                "sql_snapshot_conflicts_total",
                "Transactions ended because a row was newer than their snapshot.",
                &c.conflicts,
            ),
            counter(
                "sql_restarts_total",
                "Statements restarted at a newer snapshot.",
                &c.restarts,
            ),
            counter("sql_sessions_total", "SQL sessions opened.", &c.connections),
            Stat {
                name: "sql_slow_log_write_errors_total",
                help: "Statements that could not be written to the slow query log.",
                counter: true,
                value: self.slow_log.write_errors(),
            },
            Stat {
                name: "foreign_key_deleted_rows_total",
                help: "Rows deleted by ON DELETE CASCADE.",
                counter: true,
                value: self.db.fk_counters().deleted(),
            },
            Stat {
                name: "foreign_key_updated_rows_total",
                help: "Rows changed by ON UPDATE CASCADE and SET NULL.",
                counter: true,
                value: self.db.fk_counters().updated(),
            },
            Stat {
                name: "sql_sessions",
                help: "Open SQL sessions.",
                counter: false,
                value: self.processes.count() as u64,
            },
            Stat {
                name: "sql_oldest_transaction_seconds",
                help: "Time since the oldest open transaction of an SQL session began.",
                counter: false,
                value: self.oldest_transaction().as_secs(),
            },
            Stat {
                name: "prepared_statements",
                help: "Prepared statements of all sessions.",
                counter: false,
                value: self.prepared_statements(),
            },
        ]);
        stats.extend(self.ttl_stats());
        stats.extend(self.memory_stats());
        stats
    }

    /// Metrics of memory: of connections, and of hot keys.
    fn memory_stats(&self) -> Vec<Stat> {
        let mut stats = porpoise_sql_expr::memory::stats(&self.memory);
        stats.push(Stat {
            name: "hot_keys_bytes",
            help: "Memory of the sampled keys of SHOW HOT KEYS.",
            counter: false,
            value: self.db.hot_keys().bytes(),
        });
        stats
    }

    /// Metrics of expired rows.
    fn ttl_stats(&self) -> [Stat; 3] {
        [
            Stat {
                name: "ttl_deleted_rows_total",
                help: "Expired rows of tables with TTL deleted.",
                counter: true,
                value: self.db.ttl_counters().deleted(),
            },
            Stat {
                name: "ttl_kept_rows_total",
                help: "Expired rows that a pass left because they are referenced or locked.",
                counter: true,
                value: self.db.ttl_counters().kept(),
            },
            Stat {
                name: "ttl_passes_total",
                help: "Passes over tables with TTL.",
                counter: true,
                value: self.db.ttl_counters().passes(),
            },
        ]
    }

    /// Time since the oldest open transaction of a session began; zero without one.
    fn oldest_transaction(&self) -> Duration {
        let now = self.db.clock().now();
        let sessions = self.processes.list();
        let ages = sessions
            .iter()
            .filter_map(|process| process.transaction_age(now));
        ages.max().unwrap_or_default()
    }

    /// The largest tables by bytes, or by rows where the engine does not count bytes.
    pub fn largest_tables(&self, count: usize) -> Vec<TableSize> {
        let catalog = self.db.catalog();
        let sized = |table: &Arc<Table>| TableSize {
            database: table.database.clone(),
            name: table.name.clone(),
            rows: self.db.approximate_rows(table),
            bytes: self.db.table_bytes(table),
        };
        let mut tables: Vec<_> = catalog.tables.values().map(sized).collect();
        tables.retain(|table| table.rows.is_some() || table.bytes.is_some());
        tables.sort_by_cached_key(|table| {
            let bytes = table.bytes.map(|bytes| bytes.data + bytes.indexes);
            let name = (table.database.clone(), table.name.clone());
            (Reverse(bytes), Reverse(table.rows), name)
        });
        tables.truncate(count);
        tables
    }

    /// Times of statements by class, for metrics.
    pub fn latencies(&self) -> Vec<ClassLatency> {
        self.processes.count_statements(&self.digests);
        self.digests.latencies()
    }

    /// Times of the phases of sampled statements, for metrics.
    pub fn phase_latencies(&self) -> Vec<ClassLatency> {
        self.phases.latencies()
    }

    /// The sums of all digests with at least one statement since the last reset.
    pub(crate) fn statement_summaries(&self) -> Vec<Summary> {
        self.processes.count_statements(&self.digests);
        let mut summaries = self.digests.summaries();
        if let Some(commands) = self.command_statistics.read().as_ref() {
            let commands = (commands.summaries)().into_iter();
            summaries.extend(commands.map(|command| self.digests.summary_of(command)));
        }
        summaries
    }

    /// Sets the sampling interval of hot keys: one look-up of each `interval` is sampled.
    pub(crate) fn sample_hot_keys(&self, interval: &VarValue) {
        if let (true, VarValue::Int(interval)) = (self.keeps_statistics, interval) {
            let interval = u32::try_from(*interval).unwrap_or(u32::MAX);
            self.db.hot_keys().sampler().set_interval(interval);
        }
    }

    /// Sets the statistics of statements to zero.
    pub(crate) fn reset_statement_summaries(&self) {
        self.processes.count_statements(&self.digests);
        self.digests.reset();
        if let Some(commands) = self.command_statistics.read().as_ref() {
            (commands.reset)();
        }
    }

    /// Number of prepared statements of all sessions.
    pub(crate) fn prepared_statements(&self) -> u64 {
        self.prepared.load(Ordering::Relaxed)
    }

    /// The distribution of the times of all statements since the start or the last reset.
    pub fn latency_counts(&self) -> Counts {
        self.digests.latency_counts()
    }

    /// The text of COM_STATISTICS.
    pub fn statistics_line(&self) -> String {
        let uptime = self.uptime();
        let questions = self.processes.sum(Counter::Questions);
        let slow = self.processes.sum(Counter::SlowQueries);
        let rate = questions as f64 / uptime.max(1) as f64;
        format!(
            "Uptime: {uptime}  Threads: {}  Questions: {questions}  Slow queries: {slow}  Opens: 0  \
             Flush tables: 0  Open tables: {}  Queries per second avg: {rate:.3}",
            self.processes.count(),
            self.db.catalog().tables.len(),
        )
    }

    /// Seconds since the start.
    pub fn uptime(&self) -> u64 {
        let now = self.db.clock().now();
        now.saturating_duration_since(self.started).as_secs()
    }

    /// Kills a session, or only its statement.
    ///
    /// # Errors
    /// 1094 if there is no such session.
    pub fn kill(&self, id: u64, query_only: bool) -> Result<()> {
        if self.processes.kill(id, query_only) {
            return Ok(());
        }
        let text = format!("Unknown thread id: {id}");
        Err(SqlError::new(1094, "HY000", text))
    }

    /// Current sessions.
    pub fn sessions(&self) -> Vec<Arc<Process>> {
        self.processes.list()
    }
}
