//! Privileges: what an account may do, on the server, on databases and on
//! tables (manual, "Privileges Provided by MySQL").
//!
//! Grants are rows of `mysql.grants`, an ordinary, durable table ([`store`]).
//! The server keeps them in memory; each session keeps what its own account
//! may do ([`Rights`]) and takes it anew when the grants' version has grown.
//! GRANT, REVOKE and SHOW GRANTS are [`grant`]'s; which privileges a statement
//! needs is [`needs`]'.
//!
//! Invariants:
//! 1. Every execution of a plan is checked against the rights of that moment,
//!    also of plans that are kept.
//! 2. An account without grants may connect, and nothing else.
//! 3. Who may do everything everywhere costs one comparison a statement.
//!
//! Differs: there are no privileges on columns, no roles, and no dynamic privileges: SUPER
//! stands for these. What a session may know of is [`visible`]'s.

pub mod grant;
pub mod needs;
pub mod store;
mod visible;

use crate::error::{Result, SqlError};
use crate::session::SqlSession;
use porpoise_types::Collation;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(pub u32);

/// Names in the order in which SHOW GRANTS lists them; a privilege is the bit
/// of its position.
pub const NAMES: [&str; 31] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "RELOAD",
    "SHUTDOWN",
    "PROCESS",
    "FILE",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "SHOW DATABASES",
    "SUPER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "REPLICATION SLAVE",
    "REPLICATION CLIENT",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "CREATE USER",
    "EVENT",
    "TRIGGER",
    "CREATE TABLESPACE",
    "CREATE ROLE",
    "DROP ROLE",
    "GRANT OPTION",
];

macro_rules! privileges {
    ($($name:ident = $at:literal),+ $(,)?) => {
        impl Privileges {
            $(
                /// The privilege of that name.
                pub const $name: Privileges = Privileges(1 << $at);
            )+
        }
    };
}

privileges! {
    SELECT = 0, INSERT = 1, UPDATE = 2, DELETE = 3, CREATE = 4, DROP = 5, RELOAD = 6,
    SHUTDOWN = 7, PROCESS = 8, REFERENCES = 10, INDEX = 11, ALTER = 12, SHOW_DATABASES = 13,
    SUPER = 14, CREATE_TEMPORARY_TABLES = 15, LOCK_TABLES = 16, CREATE_VIEW = 20, SHOW_VIEW = 21, CREATE_USER = 24, GRANT_OPTION = 30,
}

impl Privileges {
    /// None.
    pub const NONE: Privileges = Privileges(0);
    /// All that can be granted on `*.*`, without GRANT OPTION.
    pub const ALL: Privileges = Privileges((1 << 30) - 1);
    /// All that can be granted on a database, without GRANT OPTION.
    pub const DATABASE: Privileges = Privileges(
        0b1111
            | 1 << 4
            | 1 << 5
            | 1 << 10
            | 1 << 11
            | 1 << 12
            | 0b111 << 15
            | 0b1111 << 20
            | 0b11 << 25,
    );
    /// All that can be granted on a table, without GRANT OPTION.
    pub const TABLE: Privileges =
        Privileges(0b1111 | 1 << 4 | 1 << 5 | 1 << 10 | 1 << 11 | 1 << 12 | 0b11 << 20 | 1 << 26);

    /// Those that make a table's columns visible.
    pub const COLUMN: Privileges = Privileges(0b111 | 1 << 10);

    /// Whether any of `other` is in it.
    pub fn meets(self, other: Privileges) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in it.
    pub fn has(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    pub fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Without those of `other`.
    pub fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// The names in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .iter()
            .enumerate()
            .filter(move |(at, _)| self.0 >> at & 1 == 1)
            .map(|(_, name)| *name)
    }

    /// The privilege of a name in capitals.
    pub fn named(name: &str) -> Option<Privileges> {
        let at = NAMES.iter().position(|n| *n == name)?;
        Some(Privileges(1 << at))
    }
}

/// One grant: an account, where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The account's user.
    pub user: String,
    /// The account's host.
    pub host: String,
    /// The database, a pattern of LIKE; empty: `*.*`.
    pub database: String,
    /// The table; empty: the whole database.
    pub table: String,
    /// What.
    pub privileges: Privileges,
}

/// All grants, as of a version.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Grows with every change.
    pub version: u64,
    /// All of them.
    pub list: Vec<Grant>,
}

/// What one account may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    version: u64,
    global: Privileges,
    databases: Vec<(String, Privileges)>,
    tables: Vec<(String, String, Privileges)>,
}

impl Rights {
    /// Those of an account, `user@host`.
    pub fn of(grants: &Grants, account: &str) -> Rights {
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        let mut rights = Rights {
            version: grants.version,
            ..Rights::default()
        };
        let own = |g: &&Grant| g.user == user && g.host.eq_ignore_ascii_case(host);
        for grant in grants.list.iter().filter(own) {
            let (database, table) = (grant.database.clone(), grant.table.clone());
            match (database.is_empty(), table.is_empty()) {
                (true, _) => rights.global = rights.global.with(grant.privileges),
                (false, true) => rights.databases.push((database, grant.privileges)),
                (false, false) => rights.tables.push((database, table, grant.privileges)),
            }
        }
        rights
    }

    /// What may be done everywhere.
    pub fn global(&self) -> Privileges {
        self.global
    }

    /// What may be done on all of a database.
    pub fn on_database(&self, database: &str) -> Privileges {
        let fits = |pattern: &str| {
            Collation::UTF8MB4_BIN.like(database.as_bytes(), pattern.as_bytes(), Some('\\'))
        };
        let found = self.databases.iter().filter(|(pattern, _)| fits(pattern));
        found.fold(self.global, |all, (_, p)| all.with(*p))
    }

    /// What may be done on a table.
    pub fn on_table(&self, database: &str, table: &str) -> Privileges {
        let found = self
            .tables
            .iter()
            .filter(|(d, t, _)| d == database && t == table);
        found.fold(self.on_database(database), |all, (.., p)| all.with(*p))
    }
}

impl SqlSession {
    /// What this session's account may do now.
    pub(crate) fn rights(&self) -> Arc<Rights> {
        let mut own = self.rights.borrow_mut();
        if own.version != self.server.grants_version.load(Ordering::Acquire) {
            let grants = self.server.grants.read();
            *own = Arc::new(Rights::of(&grants, &self.client.account));
        }
        own.clone()
    }

    /// `'user'@'host'`, as errors name the client.
    pub(crate) fn client_name(&self) -> String {
        format!("'{}'@'{}'", self.client.user, self.client.host)
    }

    /// 1142 unless the table may be used so.
    pub(crate) fn need_table(&self, wanted: Privileges, database: &str, table: &str) -> Result<()> {
        let rights = self.rights();
        if rights.global().has(wanted) || crate::virtual_tables::find(database, table).is_some() {
            return Ok(());
        }
        let missing = wanted.without(rights.on_table(database, table));
        match missing.names().next() {
            None => Ok(()),
            Some(name) => {
                let text = format!(
                    "{name} command denied to user {} for table '{table}'",
                    self.client_name()
                );
                Err(SqlError::new(1142, "42000", text))
            }
        }
    }

    /// 1044 unless the database may be used so.
    pub(crate) fn need_database(&self, wanted: Privileges, database: &str) -> Result<()> {
        match self.rights().on_database(database).has(wanted) {
            true => Ok(()),
            false => Err(self.database_denied(database)),
        }
    }

    /// 1044.
    pub(crate) fn database_denied(&self, database: &str) -> SqlError {
        let text = format!(
            "Access denied for user {} to database '{database}'",
            self.client_name()
        );
        SqlError::new(1044, "42000", text)
    }

    /// 1227 unless one of these may be done everywhere.
    pub(crate) fn need_global(&self, wanted: Privileges, shown: &str) -> Result<()> {
        if self.rights().global().has(wanted) {
            return Ok(());
        }
        let text = format!(
            "Access denied; you need (at least one of) the {shown} privilege(s) for this operation"
        );
        Err(SqlError::new(1227, "42000", text))
    }
}
