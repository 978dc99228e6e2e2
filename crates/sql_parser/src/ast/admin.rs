//! Other statements: SET, SHOW, EXPLAIN, maintenance, stored programs.

use super::{Account, Expr, Ident, Isolation, Limit, Statement, TableName, VarScope};

/// CALL
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// The procedure.
    pub name: TableName<'a>,
    /// Its arguments.
    pub args: &'a [Expr<'a>],
}

/// One item of SET.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetItem<'a> {
    /// `@name = expr`
    User(&'a [u8], Expr<'a>),
    /// `[GLOBAL|SESSION|@@...] name = value`; a bare word as the value is a column node.
    System {
        /// The scope.
        scope: VarScope,
        /// The component, or `NEW` and `OLD` in triggers.
        component: Option<Ident<'a>>,
        /// The variable.
        name: Ident<'a>,
        /// The value; [`super::ExprKind::Default`] for DEFAULT. The words ON, ALL, BINARY, ROW and
        /// SYSTEM are parsed as a column of that name.
        value: Expr<'a>,
    },
    /// `NAMES charset [COLLATE collation]`; None: DEFAULT
    Names {
        /// The character set.
        charset: Option<Ident<'a>>,
        /// The collation.
        collation: Option<Ident<'a>>,
    },
    /// `CHARACTER SET charset`; None: DEFAULT
    Charset(Option<Ident<'a>>),
}

/// SET TRANSACTION
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTransaction {
    /// GLOBAL, SESSION, or only the next transaction.
    pub scope: VarScope,
    /// ISOLATION LEVEL
    pub isolation: Option<Isolation>,
    /// READ ONLY (true), READ WRITE (false)
    pub read_only: Option<bool>,
}

/// `LIKE pattern` or `WHERE expr` of SHOW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShowFilter<'a> {
    /// No filter.
    None,
    /// LIKE
    Like(&'a [u8]),
    /// WHERE
    Where(Expr<'a>),
}

/// SHOW
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Show<'a> {
    /// Subject.
    pub what: ShowWhat<'a>,
    /// LIKE, WHERE
    pub filter: ShowFilter<'a>,
    /// LIMIT
    pub limit: Option<&'a Limit<'a>>,
}

/// Subject of SHOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowWhat<'a> {
    /// DATABASES, SCHEMAS
    Databases,
    /// `[EXTENDED] [FULL] TABLES [FROM db]`
    Tables {
        /// EXTENDED
        extended: bool,
        /// FULL
        full: bool,
        /// The database.
        schema: Option<Ident<'a>>,
    },
    /// `TABLE STATUS [FROM db]`
    TableStatus(Option<Ident<'a>>),
    /// `OPEN TABLES [FROM db]`
    OpenTables(Option<Ident<'a>>),
    /// `[EXTENDED] [FULL] COLUMNS FROM t`
    Columns {
        /// EXTENDED
        extended: bool,
        /// FULL
        full: bool,
        /// The table.
        table: TableName<'a>,
    },
    /// `[EXTENDED] INDEX FROM t`
    Index {
        /// EXTENDED
        extended: bool,
        /// The table.
        table: TableName<'a>,
    },
    /// `[GLOBAL|SESSION] VARIABLES`
    Variables(VarScope),
    /// `[GLOBAL|SESSION] STATUS`
    Status(VarScope),
    /// WARNINGS
    Warnings,
    /// ERRORS
    Errors,
    /// `COUNT(*) WARNINGS`
    CountWarnings,
    /// `COUNT(*) ERRORS`
    CountErrors,
    /// `[FULL] PROCESSLIST`
    Processlist(bool),
    /// ENGINES
    Engines,
    /// `ENGINE name STATUS|MUTEX|LOGS`
    Engine(Ident<'a>, EngineReport),
    /// COLLATION
    Collation,
    /// CHARACTER SET
    Charset,
    /// `GRANTS [FOR account [USING roles]]`
    Grants(Option<Account<'a>>, &'a [Account<'a>]),
    /// PRIVILEGES
    Privileges,
    /// PLUGINS
    Plugins,
    /// `CREATE DATABASE [IF NOT EXISTS] name`
    CreateDatabase {
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// Its name.
        name: Ident<'a>,
    },
    /// `CREATE TABLE t`
    CreateTable(TableName<'a>),
    /// `CREATE VIEW v`
    CreateView(TableName<'a>),
    /// `CREATE PROCEDURE p`, `FUNCTION`, `TRIGGER` and `EVENT`
    CreateProgram(ProgramKind, TableName<'a>),
    /// `CREATE USER account`
    CreateUser(Account<'a>),
    /// `PROCEDURE STATUS`, `FUNCTION STATUS`
    ProgramStatus(ProgramKind),
    /// `PROCEDURE CODE p`, `FUNCTION CODE p`
    ProgramCode(ProgramKind, TableName<'a>),
    /// `TRIGGERS [FROM db]`
    Triggers(Option<Ident<'a>>),
    /// `EVENTS [FROM db]`
    Events(Option<Ident<'a>>),
    /// MASTER STATUS, BINARY LOG STATUS
    BinaryLogStatus,
    /// BINARY LOGS, MASTER LOGS
    BinaryLogs,
    /// `REPLICA STATUS`; true: `SLAVE STATUS`, whose columns have the old names
    ReplicaStatus(bool),
    /// REPLICAS, SLAVE HOSTS
    Replicas,
    /// `BINLOG EVENTS [IN log] [FROM position]`
    BinlogEvents(Option<&'a [u8]>, Option<u64>),
    /// PROFILES
    Profiles,
    /// `PROFILE`
    Profile,
    /// `MEMCACHED KEY 'key'`, an extension of MySQL's grammar
    KeyMapping(&'a [u8]),
    /// `HOT KEYS [FROM t]`, an extension of MySQL's grammar
    HotKeys(Option<TableName<'a>>),
}

/// Report of SHOW ENGINE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineReport {
    /// STATUS
    Status,
    /// MUTEX
    Mutex,
    /// LOGS
    Logs,
}

/// EXPLAIN
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explain<'a> {
    /// ANALYZE
    pub analyze: bool,
    /// FORMAT, as written.
    pub format: Option<Ident<'a>>,
    /// Target.
    pub target: ExplainTarget<'a>,
}

/// Target of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExplainTarget<'a> {
    /// A statement.
    Statement(Statement<'a>),
    /// FOR CONNECTION
    Connection(u64),
}

/// A table of LOCK TABLES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTable<'a> {
    /// The table.
    pub table: TableName<'a>,
    /// Its alias.
    pub alias: Option<Ident<'a>>,
    /// Lock mode.
    pub mode: TableLock,
}

/// A mode of LOCK TABLES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLock {
    /// READ
    Read,
    /// READ LOCAL
    ReadLocal,
    /// WRITE, LOW_PRIORITY WRITE
    Write,
}

/// The text of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareSource<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A user variable, without `@`.
    Var(&'a [u8]),
}

/// Kind of a maintenance statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintainKind {
    /// ANALYZE
    Analyze,
    /// CHECK
    Check,
    /// OPTIMIZE
    Optimize,
    /// REPAIR
    Repair,
    /// CHECKSUM
    Checksum,
}

/// ANALYZE, CHECK, OPTIMIZE, REPAIR and CHECKSUM TABLE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintain<'a> {
    /// Kind.
    pub kind: MaintainKind,
    /// LOCAL, NO_WRITE_TO_BINLOG
    pub local: bool,
    /// The tables.
    pub tables: &'a [TableName<'a>],
    /// The options after them in upper case: QUICK, EXTENDED, FOR UPGRADE, and so on.
    pub options: &'a [&'a str],
    /// UPDATE HISTOGRAM and DROP HISTOGRAM
    pub histogram: Option<HistogramClause<'a>>,
}

/// `{UPDATE | DROP} HISTOGRAM ON a, b ...`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramClause<'a> {
    /// The columns.
    pub columns: &'a [Ident<'a>],
    /// The change of their histograms.
    pub action: HistogramAction<'a>,
}

/// Change of histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramAction<'a> {
    /// `[WITH n BUCKETS] [{AUTO | MANUAL} UPDATE]`
    Build {
        /// Number of buckets.
        buckets: Option<u64>,
        /// AUTO UPDATE (true), MANUAL UPDATE (false)
        auto_update: Option<bool>,
    },
    /// `USING DATA 'json'`
    Load(&'a [u8]),
    /// DROP
    Drop,
}

/// FLUSH
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush<'a> {
    /// LOCAL, NO_WRITE_TO_BINLOG
    pub local: bool,
    /// Subject.
    pub what: FlushWhat<'a>,
}

/// The files that PURGE BINARY LOGS removes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Purge<'a> {
    /// TO: those before this one.
    To(&'a [u8]),
    /// BEFORE: those older than this time.
    Before(Expr<'a>),
}

/// Subject of FLUSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushWhat<'a> {
    /// `TABLES [t, u] [WITH READ LOCK | FOR EXPORT]`
    Tables {
        /// The tables; empty: all.
        tables: &'a [TableName<'a>],
        /// WITH READ LOCK
        read_lock: bool,
        /// FOR EXPORT
        export: bool,
    },
    /// PRIVILEGES, STATUS, LOGS and the like, each in upper case.
    Others(&'a [&'a str]),
}

/// The kinds of stored programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// PROCEDURE
    Procedure,
    /// FUNCTION
    Function,
    /// TRIGGER
    Trigger,
    /// EVENT
    Event,
}

impl ProgramKind {
    /// The keyword.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ProgramKind::Procedure => "PROCEDURE",
            ProgramKind::Function => "FUNCTION",
            ProgramKind::Trigger => "TRIGGER",
            ProgramKind::Event => "EVENT",
        }
    }
}
