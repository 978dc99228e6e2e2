//! The server as a replica of another one, as SQL sees it. What connects and applies lies outside of SQL
//! ([`ReplicaControl`]).

use porpoise_sql_expr::error::Result;

/// Changes of the source's settings; `None` leaves one as it is.
#[derive(Clone, Default, PartialEq)]
pub struct SourceChange {
    /// Host.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// User.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// File of the source's log.
    pub log_file: Option<String>,
    /// Position in it.
    pub log_position: Option<u64>,
    /// Whether the source is asked by GTIDs.
    pub auto_position: Option<bool>,
    /// GTIDs that are taken as applied.
    pub gtids: Option<String>,
    /// Seconds between attempts to connect.
    pub connect_retry: Option<u64>,
    /// Number of attempts; 0: no limit.
    pub retry_count: Option<u64>,
    /// Period of heartbeats in milliseconds.
    pub heartbeat_millis: Option<u64>,
    /// Delay in seconds.
    pub delay: Option<u64>,
    /// Whether TLS is required.
    pub ssl: Option<bool>,
    /// Whether the source's certificate must name its host.
    pub ssl_verify: Option<bool>,
    /// File of certificates of authorities.
    pub ssl_ca: Option<String>,
    /// File of the replica's certificate.
    pub ssl_cert: Option<String>,
    /// File of its key.
    pub ssl_key: Option<String>,
}

/// Kind of a filter rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// REPLICATE_DO_DB
    DoDb,
    /// REPLICATE_IGNORE_DB
    IgnoreDb,
    /// REPLICATE_DO_TABLE
    DoTable,
    /// REPLICATE_IGNORE_TABLE
    IgnoreTable,
    /// REPLICATE_WILD_DO_TABLE
    WildDoTable,
    /// REPLICATE_WILD_IGNORE_TABLE
    WildIgnoreTable,
    /// REPLICATE_REWRITE_DB
    RewriteDb,
}

/// An item of a rule: a database, `database.table` or a pattern; of REWRITE_DB the name at the source and here.
pub type FilterItem = (String, String);

/// An error as SHOW REPLICA STATUS has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaFailure {
    /// MySQL's number; 0: none.
    pub number: u16,
    /// Text.
    pub message: String,
    /// Time in microseconds since 1970.
    pub time: i64,
}

/// State of the replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaStatus {
    /// Description of what it does; empty if it is stopped.
    pub activity: &'static str,
    /// Whether events are read: `Yes`, `No` or `Connecting`.
    pub receiving: &'static str,
    /// Whether events are applied: `Yes` or `No`.
    pub applying: &'static str,
    /// Host of the source.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Seconds between attempts to connect.
    pub connect_retry: u64,
    /// Number of attempts.
    pub retry_count: u64,
    /// Period of heartbeats in milliseconds.
    pub heartbeat_millis: u64,
    /// Whether the source is asked by GTIDs.
    pub auto_position: bool,
    /// File and position of the last event read.
    pub read: (String, u64),
    /// File and position of the end of the last transaction applied.
    pub applied: (String, u64),
    /// GTIDs of the transactions applied.
    pub gtids: String,
    /// Filter rules as SHOW prints them, in the order of [`FilterKind`].
    pub filters: [String; 7],
    /// Transactions to be skipped.
    pub to_skip: u64,
    /// File and position at which the replica stops (START REPLICA UNTIL).
    pub until: Option<(String, u64)>,
    /// TLS: required, CA file, certificate, key, verification.
    pub ssl: bool,
    /// File of authorities.
    pub ssl_ca: String,
    /// File of the certificate.
    pub ssl_cert: String,
    /// File of the key.
    pub ssl_key: String,
    /// Whether the source's certificate must name its host.
    pub ssl_verify: bool,
    /// Seconds behind the source; `None` while not connected.
    pub seconds_behind: Option<u64>,
    /// Last error of the connection.
    pub connection_error: ReplicaFailure,
    /// Last error of applying.
    pub apply_error: ReplicaFailure,
    /// Id of the source; 0: unknown.
    pub source_id: u32,
    /// UUID of the source.
    pub source_uuid: String,
    /// Delay in seconds.
    pub delay: u64,
    /// Number of heartbeats, and the time of the last in microseconds since 1970.
    pub heartbeats: (u64, i64),
    /// Transactions repeated because of conflicts.
    pub repeated: u64,
    /// The threads that apply transactions; none if the replica's thread does.
    pub workers: Vec<ReplicaWorker>,
}

/// A transaction that a worker of the replica applies, or has applied last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerActivity {
    /// Its GTID, or `ANONYMOUS`.
    pub gtid: String,
    /// Time of its commit at the source, in microseconds since 1970.
    pub original_commit: i64,
    /// Time of its begin (of the present one) or commit (of the last one) here, in microseconds since 1970.
    pub at: i64,
}

/// A thread that applies transactions of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaWorker {
    /// The present transaction.
    pub applying: Option<WorkerActivity>,
    /// The last committed transaction.
    pub applied: Option<WorkerActivity>,
    /// Whether the error that stopped the replica is this worker's.
    pub failed: bool,
}

/// Control of the replica.
pub trait ReplicaControl: Send + Sync {
    /// Changes the source.
    ///
    /// # Errors
    /// 1198 while the replica runs; a setting is wrong.
    fn change_source(&self, change: SourceChange) -> Result<()>;

    /// Replaces rules of the filters.
    ///
    /// # Errors
    /// 1198 while the replica runs.
    fn change_filters(&self, rules: Vec<(FilterKind, Vec<FilterItem>)>) -> Result<()>;

    /// Starts the replica. It skips the first `skip` transactions, and stops after the first transaction
    /// that ends at or after `until`, a file and a position. Returns false if it was running.
    ///
    /// # Errors
    /// 1200 without a source.
    fn start(&self, skip: u64, until: Option<(String, u64)>) -> Result<bool>;

    /// Stops the replica. Returns false if it was not running.
    ///
    /// # Errors
    /// The state cannot be stored.
    fn stop(&self) -> Result<bool>;

    /// Forgets the position, and with `all` the source.
    ///
    /// # Errors
    /// 1198 while the replica runs.
    fn reset(&self, all: bool) -> Result<()>;

    /// Begins an epoch, in which this server is the source; clients may write. Returns false if the number is not greater
    /// than every epoch known.
    ///
    /// # Errors
    /// 1198 while the replica runs; the epoch cannot be recorded.
    fn take_over(&self, epoch: u64) -> Result<bool>;

    /// Fails if another server of the group is the leader: this one must not accept writes of clients.
    ///
    /// # Errors
    /// 1290.
    fn check_may_permit_writes(&self) -> Result<()>;

    /// The state; `None` without a source.
    fn status(&self) -> Option<ReplicaStatus>;
}

/// State of a member of a group with automatic failover, as MySQL's group replication names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMemberState {
    /// It has every acknowledged commit, or is a witness.
    Online,
    /// It lacks commits, or has no leader.
    Recovering,
    /// It has not been heard within the timeout.
    Unreachable,
}

impl GroupMemberState {
    /// Name in `MEMBER_STATE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupMemberState::Online => "ONLINE",
            GroupMemberState::Recovering => "RECOVERING",
            GroupMemberState::Unreachable => "UNREACHABLE",
        }
    }
}

/// Role of a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMemberRole {
    /// It leads.
    Primary,
    /// It follows.
    Secondary,
    /// It only votes.
    Witness,
}

impl GroupMemberRole {
    /// Name in `MEMBER_ROLE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupMemberRole::Primary => "PRIMARY",
            GroupMemberRole::Secondary => "SECONDARY",
            GroupMemberRole::Witness => "WITNESS",
        }
    }
}

/// A member of a group.
#[derive(Clone, Debug)]
pub struct GroupMember {
    /// Its `server_uuid`; empty if it is not known, and of a witness.
    pub uuid: String,
    /// Host.
    pub host: String,
    /// Port of its MySQL listener; of a witness that of its messages.
    pub port: u16,
    /// State, as this server sees it.
    pub state: GroupMemberState,
    /// Role.
    pub role: GroupMemberRole,
    /// Its version; empty if it is not known.
    pub version: String,
    /// Whether it is this server.
    pub is_own: bool,
    /// Transactions that it has not acknowledged, about; `None` if this server does not lead, or the member does not follow it.
    pub behind: Option<u64>,
}

/// A group with automatic failover, as this server sees it.
#[derive(Clone, Debug)]
pub struct Group {
    /// Identifier of the newest view.
    pub view: String,
    /// All members.
    pub members: Vec<GroupMember>,
}

/// Source of the present state of the group.
pub type GroupProvider = Box<dyn Fn() -> Option<Group> + Send + Sync>;
