//! The replica of this server: `porpoise-replication` follows the source, SQL controls it and runs the definitions
//! that arrive.

use crate::config::{Config, StartError};
use crate::failover::node::{MemberRole, Node};
use crate::failover::server::Incarnation;
use crate::standby::epoch::Epochs;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_binlog::BinaryLog;
use porpoise_replication::election::Input;
use porpoise_replication::epoch::EpochKeeper;
use porpoise_replication::event::QueryEvent;
use porpoise_replication::filter::Filters;
use porpoise_replication::follow::{
    StatementError, StatementRunner, WorkerStatus, WorkerTransaction,
};
use porpoise_replication::gtid::GtidSet;
use porpoise_replication::position::GtidPosition;
use porpoise_replication::replica::{
    Activity, LastError, NewPosition, Replica, ReplicaError, ReplicaHost, ReplicaState,
    SourceSettings,
};
use porpoise_rows::Db;
use porpoise_rows::changes::Origin;
use porpoise_rows::prepared::{PreparedTxn, Xid};
use porpoise_sql::replica::{
    FilterItem, FilterKind, ReplicaControl, ReplicaFailure, ReplicaStatus, ReplicaWorker,
    SourceChange, WorkerActivity,
};
use porpoise_sql::{ResultColumn, ResultSink, SqlError, SqlServer};
use porpoise_types::{Collation, ValueRef};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, SqlError>;

/// Connection id of the first session that runs a source's definitions; those of clients and of triggers are smaller.
const FIRST_ID: u64 = 1 << 42;

/// Longest wait for an election that an operator has requested.
const FORCED_ELECTION: Duration = Duration::from_secs(30);

/// The replica of a server, and the parts that a group with automatic failover uses.
pub struct ReplicaParts {
    /// The replica.
    pub replica: Arc<Replica>,
    /// The epoch.
    pub epochs: Arc<Epochs>,
    /// Number of the data, which the group sets.
    pub incarnation: Incarnation,
    /// The group, which is set when it is started.
    pub group: Arc<OnceLock<Arc<Node>>>,
}

/// Opens the replica, registers it with SQL, and starts it if it was running when the server ended and the server is not a
/// member of a group.
///
/// # Errors
/// The stored position cannot be read.
pub fn start(
    config: &Config,
    db: &Arc<Db>,
    sql: &Arc<SqlServer>,
    binlog: Option<Arc<BinaryLog>>,
) -> std::result::Result<ReplicaParts, StartError> {
    let is_member = config.failover_members.is_some();
    let epochs = Epochs::open(&config.data_dir)
        .map_err(|error| StartError::failure(format!("the epoch of replication: {error}")))?;
    epochs.provide(sql);
    if is_member {
        // A member refuses writes until it is elected, whatever variables were persisted.
        epochs.refuse_writes();
    }
    if let Some(log) = &binlog {
        log.provide_epochs(epochs.clone());
    }
    let (server, ids) = (Arc::downgrade(sql), AtomicU64::new(FIRST_ID));
    let runner = move |cancel: &Cancel| -> Box<dyn StatementRunner> {
        Box::new(DefinitionRunner {
            server: server.clone(),
            id: ids.fetch_add(1, Ordering::Relaxed),
            cancel: cancel.clone(),
        })
    };
    let acknowledges = number_of(sql, "rpl_semi_sync_replica_enabled");
    let workers = number_of(sql, "replica_parallel_workers");
    let incarnation = Incarnation::default();
    let announced = incarnation.clone();
    let host = ReplicaHost {
        runner: Box::new(runner),
        server_id: Box::new(number_of(sql, "server_id")),
        semi_sync: Box::new(move || is_member || acknowledges() == 1),
        incarnation: Box::new(move || {
            Some(announced.load(Ordering::SeqCst)).filter(|number| *number > 0)
        }),
        workers: Box::new(move || usize::try_from(workers()).unwrap_or(0)),
        epochs: epochs.clone(),
        executed: Box::new(move || {
            let status = binlog.as_ref().map(|log| log.status());
            status.map_or_else(GtidSet::new, |status| status.executed)
        }),
        port: config.mysql_listen.map_or(0, |address| address.port()),
        report: Box::new(|message| tracing::warn!("{message}")),
    };
    let replica = Replica::open(db.clone(), host)
        .map_err(|error| StartError::failure(format!("the replica's position: {error}")))?;
    let replica = Arc::new(replica);
    let group = Arc::<OnceLock<Arc<Node>>>::default();
    sql.provide_replica(Arc::new(Control {
        replica: replica.clone(),
        epochs: epochs.clone(),
        is_member,
        group: group.clone(),
    }));
    if !is_member && let Err(error) = replica.resume() {
        tracing::warn!("the replica does not start: {error}");
    }
    Ok(ReplicaParts {
        replica,
        epochs,
        incarnation,
        group,
    })
}

/// The present value of a global variable; 0 once the server has ended.
fn number_of(
    sql: &Arc<SqlServer>,
    variable: &'static str,
) -> impl Fn() -> u32 + Send + Sync + 'static {
    let sql = Arc::downgrade(sql);
    move || sql.upgrade().map_or(0, |sql| sql.number(variable))
}

/// Control by SQL statements.
struct Control {
    replica: Arc<Replica>,
    epochs: Arc<Epochs>,
    /// Whether the server is a member of a group, and the group once it is started.
    is_member: bool,
    group: Arc<OnceLock<Arc<Node>>>,
}

impl Control {
    /// Refuses a statement on a member of a group, because the group decides which server is the source.
    fn check_free(&self, statement: &str) -> Result<()> {
        if !self.is_member {
            return Ok(());
        }
        let text = format!(
            "{statement} cannot be performed: the group (--failover-members) decides which server this one follows"
        );
        Err(SqlError::new(3139, "HY000", text))
    }

    /// Lets this member lead with the data that it has. Returns false if the epoch is not greater than that of the group.
    fn force(&self, group: &Node, epoch: u64) -> Result<bool> {
        if epoch <= self.epochs.epoch() {
            return Ok(false);
        }
        // Epochs without a leader are not shown.
        let epoch = epoch.max(group.status().epoch + 1);
        group.input(Input::Force(epoch));
        if blocking(|| self.waits_for_election(group, epoch)) {
            return Ok(true);
        }
        let text = "no majority of the members has elected this server: are they reachable, and is the leader stopped?";
        Err(SqlError::new(1105, "HY000", text.to_owned()))
    }

    /// Waits until this member leads. Returns false if that takes too long.
    fn waits_for_election(&self, group: &Node, epoch: u64) -> bool {
        let deadline = Instant::now() + FORCED_ELECTION;
        while Instant::now() < deadline {
            let status = group.status();
            if status.epoch >= epoch
                && status.role == MemberRole::Leader
                && self.epochs.is_writable()
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

fn reported(error: ReplicaError) -> SqlError {
    SqlError::new(error.number(), "HY000", error.to_string())
}

/// Sets a value if the statement gives one.
fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn change(settings: &mut SourceSettings, change: SourceChange) {
    set(&mut settings.host, change.host);
    set(&mut settings.port, change.port);
    set(&mut settings.user, change.user);
    set(&mut settings.password, change.password);
    set(&mut settings.auto_position, change.auto_position);
    set(&mut settings.connect_retry, change.connect_retry);
    set(&mut settings.retry_count, change.retry_count);
    set(&mut settings.heartbeat_millis, change.heartbeat_millis);
    set(&mut settings.delay, change.delay);
    set(&mut settings.ssl, change.ssl);
    set(&mut settings.ssl_verify, change.ssl_verify);
    set(&mut settings.ssl_ca, change.ssl_ca);
    set(&mut settings.ssl_cert, change.ssl_cert);
    set(&mut settings.ssl_key, change.ssl_key);
}

impl ReplicaControl for Control {
    fn change_source(&self, changes: SourceChange) -> Result<()> {
        let mut settings_only = changes.clone();
        for ssl in [
            &mut settings_only.ssl_ca,
            &mut settings_only.ssl_cert,
            &mut settings_only.ssl_key,
        ] {
            *ssl = None;
        }
        (settings_only.ssl, settings_only.ssl_verify) = (None, None);
        if settings_only != SourceChange::default() {
            self.check_free("CHANGE REPLICATION SOURCE")?;
        }
        let has_file = changes.log_file.is_some() || changes.log_position.is_some();
        let position = match &changes.gtids {
            Some(_) if has_file => {
                return Err(SqlError::wrong_arguments("CHANGE REPLICATION SOURCE TO"));
            }
            Some(gtids) => {
                let gtids = GtidPosition::parse(gtids)
                    .map_err(|error| SqlError::new(1772, "HY000", error.to_string()))?;
                Some(NewPosition::Gtids(gtids))
            }
            None => {
                has_file.then(|| NewPosition::File(changes.log_file.clone(), changes.log_position))
            }
        };
        self.replica
            .change(|settings| change(settings, changes), position)
            .map_err(reported)
    }

    fn change_filters(&self, rules: Vec<(FilterKind, Vec<FilterItem>)>) -> Result<()> {
        let apply = |filters: &mut Filters| {
            for (kind, items) in rules {
                if kind == FilterKind::RewriteDb {
                    filters.rewrite_db = items;
                    continue;
                }
                let names = items.into_iter().map(|(name, _)| name).collect();
                let place = match kind {
                    FilterKind::DoDb => &mut filters.do_db,
                    FilterKind::IgnoreDb => &mut filters.ignore_db,
                    FilterKind::DoTable => &mut filters.do_table,
                    FilterKind::IgnoreTable => &mut filters.ignore_table,
                    FilterKind::WildDoTable => &mut filters.wild_do_table,
                    FilterKind::WildIgnoreTable | FilterKind::RewriteDb => {
                        &mut filters.wild_ignore_table
                    }
                };
                *place = names;
            }
        };
        self.replica
            .change(|settings| apply(&mut settings.filters), None)
            .map_err(reported)
    }

    fn start(&self, skip: u64, until: Option<(String, u64)>) -> Result<bool> {
        if skip > 0 {
            self.replica.set_skip(skip).map_err(reported)?;
        }
        self.replica.start(until).map_err(reported)
    }

    fn stop(&self) -> Result<bool> {
        self.check_free("STOP REPLICA")?;
        self.replica.stop().map_err(reported)
    }

    fn reset(&self, all: bool) -> Result<()> {
        self.check_free("RESET REPLICA")?;
        self.replica.reset(all).map_err(reported)
    }

    fn take_over(&self, epoch: u64) -> Result<bool> {
        if let Some(group) = self.group.get() {
            return self.force(group, epoch);
        }
        if self.replica.follows() {
            return Err(reported(ReplicaError::Running));
        }
        let done = self.epochs.take_over(epoch).map_err(|error| {
            SqlError::new(
                1105,
                "HY000",
                format!("the epoch cannot be recorded: {error}"),
            )
        })?;
        if done {
            tracing::info!(epoch, "this server has taken over: clients may write");
            self.replica.announce_takeover().map_err(reported)?;
        }
        Ok(done)
    }

    fn check_may_permit_writes(&self) -> Result<()> {
        if !self.is_member || self.epochs.is_writable() {
            return Ok(());
        }
        let text = "The MySQL server is running with the --failover-members option so it cannot execute this statement: the group decides \
                    which server takes writes";
        Err(SqlError::new(1290, "HY000", text.to_owned()))
    }

    fn status(&self) -> Option<ReplicaStatus> {
        let now = porpoise_base::clock::system().unix_micros();
        self.replica.state().map(|state| status(state, now))
    }
}

fn status(state: ReplicaState, now: i64) -> ReplicaStatus {
    let seconds_behind = state.seconds_behind(now);
    let (activity, receiving, applying) = match state.activity {
        Activity::Stopped => ("", "No", "No"),
        Activity::Connecting => ("Connecting to source", "Connecting", "Yes"),
        Activity::Applying => ("Applying events of the source", "Yes", "Yes"),
        Activity::Waiting => ("Waiting for source to send event", "Yes", "Yes"),
    };
    let failure = |error: LastError| ReplicaFailure {
        number: error.number,
        message: error.message,
        time: error.time,
    };
    let settings = state.settings;
    let filters = &settings.filters;
    let source = state
        .source
        .unwrap_or(porpoise_replication::source::SourceIdentity {
            version: String::new(),
            server_id: 0,
            uuid: String::new(),
        });
    ReplicaStatus {
        activity,
        receiving,
        applying,
        filters: filter_texts(filters),
        host: settings.host,
        port: settings.port,
        user: settings.user,
        connect_retry: settings.connect_retry,
        retry_count: settings.retry_count,
        heartbeat_millis: settings.heartbeat_millis,
        auto_position: settings.auto_position,
        read: (state.read.file, state.read.position),
        applied: (state.applied.file, state.applied.position),
        gtids: state.gtids.to_string(),
        to_skip: state.to_skip,
        until: settings.until,
        ssl: settings.ssl,
        ssl_ca: settings.ssl_ca,
        ssl_cert: settings.ssl_cert,
        ssl_key: settings.ssl_key,
        ssl_verify: settings.ssl_verify,
        seconds_behind,
        connection_error: failure(state.connection_error),
        apply_error: failure(state.apply_error),
        source_id: source.server_id,
        source_uuid: source.uuid,
        delay: settings.delay,
        heartbeats: state.heartbeats,
        repeated: state.repeated,
        workers: state.workers.into_iter().map(worker).collect(),
    }
}

fn worker(status: WorkerStatus) -> ReplicaWorker {
    let transaction = |transaction: Option<WorkerTransaction>| {
        transaction.map(|transaction| WorkerActivity {
            gtid: transaction
                .gtid
                .map_or("ANONYMOUS".to_owned(), |gtid| gtid.to_string()),
            original_commit: i64::try_from(transaction.original_commit).unwrap_or(i64::MAX),
            at: transaction.at,
        })
    };
    ReplicaWorker {
        applying: transaction(status.applying),
        applied: transaction(status.applied),
        failed: status.error.is_some(),
    }
}

/// The rules as SHOW REPLICA STATUS prints them, in the order of [`FilterKind`].
fn filter_texts(filters: &Filters) -> [String; 7] {
    let rewrites: Vec<String> = filters
        .rewrite_db
        .iter()
        .map(|(from, to)| format!("({from},{to})"))
        .collect();
    [
        filters.do_db.join(","),
        filters.ignore_db.join(","),
        filters.do_table.join(","),
        filters.ignore_table.join(","),
        filters.wild_do_table.join(","),
        filters.wild_ignore_table.join(","),
        rewrites.join(","),
    ]
}

/// Runs the definitions of a source, each in a session of the server itself, so that none inherits settings or the
/// default database of another.
struct DefinitionRunner {
    server: Weak<SqlServer>,
    id: u64,
    cancel: Cancel,
}

impl StatementRunner for DefinitionRunner {
    fn run(
        &mut self,
        query: &QueryEvent,
        is_mariadb: bool,
        origin: Origin,
    ) -> std::result::Result<(), StatementError> {
        self.execute(query, is_mariadb, origin)
            .map_err(statement_error)
    }

    fn is_prepared(&self, xid: &Xid) -> bool {
        let server = self.server.upgrade();
        server.is_some_and(|server| server.is_branch_prepared(xid))
    }

    fn prepare(
        &mut self,
        xid: &Xid,
        prepare: &mut dyn FnMut() -> porpoise_rows::Result<PreparedTxn>,
    ) -> std::result::Result<(), StatementError> {
        let prepared = self.server().and_then(|s| s.prepare_branch(xid, prepare));
        prepared.map_err(statement_error)
    }
}

/// 3197: the branch is still prepared.
fn statement_error(error: SqlError) -> StatementError {
    StatementError {
        number: error.code,
        is_transient: matches!(error.code, 1205 | 1213 | 3197),
        message: error.message,
    }
}

impl DefinitionRunner {
    fn server(&self) -> Result<Arc<SqlServer>> {
        let server = self.server.upgrade();
        server.ok_or_else(|| SqlError::internal("the server is stopping"))
    }

    fn execute(&self, query: &QueryEvent, is_mariadb: bool, origin: Origin) -> Result<()> {
        let server = self.server()?;
        let mut session = server.connect_system(self.id, self.cancel.clone())?;
        session.set_origin(Some(origin));
        for statement in settings(query, is_mariadb) {
            session.query(statement.as_bytes(), false, &mut Discard)?;
        }
        let database = String::from_utf8_lossy(&query.database);
        if !database.is_empty() {
            let statement = format!("USE `{}`", database.replace('`', "``"));
            let used = session.query(statement.as_bytes(), false, &mut Discard);
            // The default database of CREATE DATABASE is the one that it creates.
            used.map(drop).or_else(|error| {
                if error.code == 1049 {
                    Ok(())
                } else {
                    Err(error)
                }
            })?;
        }
        session.query(&query.text, false, &mut Discard)?;
        Ok(())
    }
}

/// Statements that set what a definition of the source depends on.
fn settings(query: &QueryEvent, is_mariadb: bool) -> Vec<String> {
    let variables = &query.variables;
    let mode = modes(variables.sql_mode.unwrap_or(0));
    let mut list = vec![format!("SET sql_mode = '{mode}'")];
    let collation = |number: u16| Collation::from_id(number).map(Collation::name);
    if let Some((client, connection, server)) = variables.charset {
        let client = Collation::from_id(client).map(|client| client.charset());
        if let Some(client) = client.filter(|charset| charset.is_for_clients()) {
            list.push(format!("SET character_set_client = {}", client.name()));
        }
        if let Some(name) = collation(connection) {
            list.push(format!("SET collation_connection = {name}"));
        }
        if let Some(name) = collation(server) {
            list.push(format!("SET collation_server = {name}"));
        }
    }
    let utf8mb4 = match (is_mariadb, variables.utf8mb4_collation.and_then(collation)) {
        (true, _) => "utf8mb4_general_ci",
        (false, name) => name.unwrap_or("utf8mb4_0900_ai_ci"),
    };
    list.push(format!("SET default_collation_for_utf8mb4 = {utf8mb4}"));
    let checks = variables.flags2.is_none_or(|flags| {
        flags & porpoise_replication::event::query::flags2::NO_FOREIGN_KEY_CHECKS == 0
    });
    list.push(format!("SET foreign_key_checks = {}", u8::from(checks)));
    let zone = variables
        .time_zone
        .as_deref()
        .and_then(|zone| std::str::from_utf8(zone).ok());
    let is_plain = |zone: &&str| {
        zone.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | ':' | '/' | '_'))
    };
    if let Some(zone) = zone.filter(is_plain) {
        list.push(format!("SET time_zone = '{zone}'"));
    }
    list
}

/// Names of the SQL modes that change how a statement is read or what it defines. Others of the source are left out:
/// they would refuse what the source has accepted, or are unknown here. MySQL and MariaDB agree on these numbers.
fn modes(bits: u64) -> String {
    const BITS: [(u64, &str); 7] = [
        (0x0000_0001, "REAL_AS_FLOAT"),
        (0x0000_0002, "PIPES_AS_CONCAT"),
        (0x0000_0004, "ANSI_QUOTES"),
        (0x0000_0008, "IGNORE_SPACE"),
        (0x0008_0000, "NO_AUTO_VALUE_ON_ZERO"),
        (0x0010_0000, "NO_BACKSLASH_ESCAPES"),
        (0x2000_0000, "HIGH_NOT_PRECEDENCE"),
    ];
    let names: Vec<&str> = BITS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    names.join(",")
}

/// Drops results.
struct Discard;

impl ResultSink for Discard {
    fn columns(&mut self, _columns: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _values: &[ValueRef<'_>]) -> Result<()> {
        Ok(())
    }

    fn is_for_client(&self) -> bool {
        false
    }
}
