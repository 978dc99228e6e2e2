//! Users, roles, privileges.

use super::{Ident, ProgramKind, TableName};

/// A user's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account<'a> {
    /// `user@host`; host is `%` if not given.
    Named {
        /// The user.
        user: &'a [u8],
        /// The host, if given.
        host: Option<&'a [u8]>,
    },
    /// `CURRENT_USER`, `USER()`
    Current,
}

/// Authentication of a user.
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
        /// The authentication string that the plugin stores.
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
    /// Clauses on further authentication factors.
    pub factors: &'a [FactorClause<'a>],
}

/// A clause of CREATE USER or ALTER USER on a second or third authentication factor. The numbers are
/// the factors'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorClause<'a> {
    /// `AND IDENTIFIED ...`
    And(Identified<'a>),
    /// `INITIAL AUTHENTICATION IDENTIFIED ...`
    InitialAuthentication(Identified<'a>),
    /// `ADD n FACTOR IDENTIFIED ...`
    Add(u64, Identified<'a>),
    /// `MODIFY n FACTOR IDENTIFIED ...`
    Modify(u64, Identified<'a>),
    /// `DROP n FACTOR`
    Drop(u64),
    /// `n FACTOR INITIATE REGISTRATION`
    InitiateRegistration(u64),
    /// `n FACTOR FINISH REGISTRATION SET CHALLENGE_RESPONSE AS '...'`
    FinishRegistration(u64, &'a [u8]),
    /// `n FACTOR UNREGISTER`
    Unregister(u64),
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
    pub default_roles: Option<Roles<'a>>,
    /// TLS requirements, resource limits, password and lock options.
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
    /// `WITH MAX_QUERIES_PER_HOUR n` and similar limits: the keyword and the number
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
    /// FOR; the session's own account if not given.
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
    /// The privileges, or the roles if `on` is `None`. ALL is a privilege of that name; empty for
    /// `REVOKE ALL PRIVILEGES, GRANT OPTION`.
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
    /// The keywords in upper case, separated by one space, or the role's name as written.
    pub name: &'a str,
    /// The host of a role, if given.
    pub host: Option<&'a [u8]>,
    /// The columns it is limited to.
    pub columns: &'a [Ident<'a>],
}

/// Object of a privilege.
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
    /// Roles.
    pub roles: Roles<'a>,
}

/// A selection of roles.
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
