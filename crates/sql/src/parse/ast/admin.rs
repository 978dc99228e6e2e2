//! Everything else: SET, SHOW, EXPLAIN, users, maintenance, stored programs.

use super::super::token::Span;
use super::{Expr, Ident, Isolation, Limit, Statement, TableName, VarScope};

/// A user's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account<'a> {
    /// `user@host`; host is `%` if not given.
    Named {
        /// The user.
        user: &'a [u8],
        /// The host, where given.
        host: Option<&'a [u8]>,
    },
    /// `CURRENT_USER`, `USER()`
    Current,
}

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
        /// Which value.
        scope: VarScope,
        /// The component, or `NEW` and `OLD` in triggers.
        component: Option<Ident<'a>>,
        /// The variable.
        name: Ident<'a>,
        /// The value; [`super::ExprKind::Default`] for DEFAULT. The words ON, ALL, BINARY, ROW,
        /// SYSTEM come as a column node of that name.
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
    /// None.
    None,
    /// LIKE
    Like(&'a [u8]),
    /// WHERE
    Where(Expr<'a>),
}

/// SHOW
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Show<'a> {
    /// What is shown.
    pub what: ShowWhat<'a>,
    /// LIKE, WHERE
    pub filter: ShowFilter<'a>,
    /// LIMIT
    pub limit: Option<&'a Limit<'a>>,
}

/// What SHOW shows.
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
    /// `GRANTS [FOR account]`
    Grants(Option<Account<'a>>),
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
    /// `CREATE PROCEDURE p` and the like
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
    /// REPLICA STATUS, SLAVE STATUS
    ReplicaStatus,
    /// REPLICAS, SLAVE HOSTS
    Replicas,
    /// `BINLOG EVENTS [IN log] [FROM position]`
    BinlogEvents(Option<&'a [u8]>, Option<u64>),
    /// PROFILES
    Profiles,
    /// `PROFILE`
    Profile,
}

/// What SHOW ENGINE reports.
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
    /// What is explained.
    pub target: ExplainTarget<'a>,
}

/// What EXPLAIN explains.
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
    /// How it is locked.
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

/// How a user proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified<'a> {
    /// Not stated.
    None,
    /// `BY 'password'`, perhaps WITH a plugin
    Password {
        /// The plugin.
        plugin: Option<&'a [u8]>,
        /// The password.
        password: &'a [u8],
    },
    /// BY RANDOM PASSWORD
    RandomPassword {
        /// The plugin.
        plugin: Option<&'a [u8]>,
    },
    /// `WITH plugin [AS 'hash']`
    Plugin {
        /// The plugin.
        plugin: &'a [u8],
        /// What the plugin stores.
        hash: Option<&'a [u8]>,
    },
}

/// A user in CREATE USER and ALTER USER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserSpec<'a> {
    /// The account.
    pub account: Account<'a>,
    /// IDENTIFIED
    pub identified: Identified<'a>,
    /// `REPLACE 'current password'`
    pub current: Option<&'a [u8]>,
    /// RETAIN CURRENT PASSWORD
    pub retain: bool,
    /// DISCARD OLD PASSWORD
    pub discard_old: bool,
}

/// CREATE USER, ALTER USER
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStatement<'a> {
    /// ALTER USER; otherwise CREATE USER.
    pub alter: bool,
    /// IF NOT EXISTS, or IF EXISTS for ALTER USER
    pub if_clause: bool,
    /// The users.
    pub users: &'a [UserSpec<'a>],
    /// DEFAULT ROLE
    pub default_roles: &'a [Account<'a>],
    /// Requirements, limits and states.
    pub options: &'a [UserOption<'a>],
}

/// An option of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserOption<'a> {
    /// REQUIRE NONE
    RequireNone,
    /// REQUIRE SSL
    RequireSsl,
    /// REQUIRE X509
    RequireX509,
    /// `REQUIRE SUBJECT '...'` and CIPHER, ISSUER: the word and the value
    Require(&'a str, &'a [u8]),
    /// `WITH MAX_QUERIES_PER_HOUR n` and its kin: the word and the number
    Limit(&'a str, u64),
    /// ACCOUNT LOCK (true), UNLOCK (false)
    AccountLock(bool),
    /// PASSWORD EXPIRE
    PasswordExpire,
    /// PASSWORD EXPIRE DEFAULT
    PasswordExpireDefault,
    /// PASSWORD EXPIRE NEVER
    PasswordExpireNever,
    /// PASSWORD EXPIRE INTERVAL n DAY
    PasswordExpireDays(u64),
    /// PASSWORD HISTORY; None: DEFAULT
    PasswordHistory(Option<u64>),
    /// PASSWORD REUSE INTERVAL n DAY; None: DEFAULT
    PasswordReuse(Option<u64>),
    /// PASSWORD REQUIRE CURRENT; Some(false): OPTIONAL, None: DEFAULT
    PasswordRequireCurrent(Option<bool>),
    /// FAILED_LOGIN_ATTEMPTS
    FailedLogins(u64),
    /// PASSWORD_LOCK_TIME; None: UNBOUNDED
    PasswordLockTime(Option<u64>),
    /// COMMENT
    Comment(&'a [u8]),
    /// ATTRIBUTE
    Attribute(&'a [u8]),
}

/// SET PASSWORD
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPassword<'a> {
    /// FOR; the own account if not given.
    pub account: Option<Account<'a>>,
    /// The password; None: TO RANDOM.
    pub password: Option<&'a [u8]>,
    /// `REPLACE 'current password'`
    pub current: Option<&'a [u8]>,
    /// RETAIN CURRENT PASSWORD
    pub retain: bool,
}

/// GRANT, REVOKE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// REVOKE; otherwise GRANT.
    pub revoke: bool,
    /// REVOKE IF EXISTS
    pub if_exists: bool,
    /// IGNORE UNKNOWN USER
    pub ignore_unknown: bool,
    /// The privileges, or roles when `on` is None. ALL is a privilege of that name; empty, when
    /// it is `REVOKE ALL PRIVILEGES, GRANT OPTION`.
    pub privileges: &'a [Privilege<'a>],
    /// ON; None: roles are granted.
    pub on: Option<GrantOn<'a>>,
    /// TO, FROM
    pub accounts: &'a [Account<'a>],
    /// WITH GRANT OPTION, WITH ADMIN OPTION
    pub grant_option: bool,
}

/// A privilege or a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege<'a> {
    /// Its words in upper case with one space between them, or the role's name as written.
    pub name: &'a str,
    /// The host of a role, where given.
    pub host: Option<&'a [u8]>,
    /// The columns it is limited to.
    pub columns: &'a [Ident<'a>],
}

/// What a privilege is granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOn<'a> {
    /// `*.*`
    Global,
    /// `db.*`
    Schema(Ident<'a>),
    /// `*`: the default database
    DefaultSchema,
    /// `[TABLE] t`
    Table(TableName<'a>),
    /// `PROCEDURE p`, `FUNCTION f`
    Program(ProgramKind, TableName<'a>),
}

/// SET ROLE, SET DEFAULT ROLE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetRole<'a> {
    /// SET DEFAULT ROLE ... TO these accounts; empty: SET ROLE.
    pub default_to: &'a [Account<'a>],
    /// Which roles.
    pub roles: Roles<'a>,
}

/// A choice of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles<'a> {
    /// NONE
    None,
    /// DEFAULT
    Default,
    /// ALL, EXCEPT these
    AllExcept(&'a [Account<'a>]),
    /// These.
    List(&'a [Account<'a>]),
}

/// The text of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareSource<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A user variable, without its sign.
    Var(&'a [u8]),
}

/// Which maintenance statement.
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

/// ANALYZE TABLE and its kin
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintain<'a> {
    /// Which one.
    pub kind: MaintainKind,
    /// LOCAL, NO_WRITE_TO_BINLOG
    pub local: bool,
    /// The tables.
    pub tables: &'a [TableName<'a>],
    /// Words after them: QUICK, EXTENDED, FOR UPGRADE, and so on, in upper case.
    pub options: &'a [&'a str],
    /// UPDATE HISTOGRAM ON (true), DROP HISTOGRAM ON (false), with columns and buckets
    pub histogram: Option<(bool, &'a [Ident<'a>], Option<u64>)>,
}

/// FLUSH
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush<'a> {
    /// LOCAL, NO_WRITE_TO_BINLOG
    pub local: bool,
    /// What is flushed.
    pub what: FlushWhat<'a>,
}

/// What FLUSH flushes.
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

/// CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT: the head is read, the rest stays text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateProgram<'a> {
    /// Which kind.
    pub kind: ProgramKind,
    /// DEFINER
    pub definer: Option<Account<'a>>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// Everything after the name: parameters, characteristics and the body.
    pub rest: &'a [u8],
    /// Where that stands.
    pub span: Span,
}
