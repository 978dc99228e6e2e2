//! Sets of static and dynamic privileges (manual, "Privileges Provided by MySQL").

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(pub u64);

/// Names in the order in which SHOW GRANTS lists them; a privilege is the bit
/// of its position.
pub const NAMES: [&str; 50] = [
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
    "MEMCACHED_ADMIN",
    "APPLICATION_PASSWORD_ADMIN",
    "BACKUP_ADMIN",
    "BINLOG_ADMIN",
    "CONNECTION_ADMIN",
    "FLUSH_OPTIMIZER_COSTS",
    "FLUSH_STATUS",
    "FLUSH_TABLES",
    "FLUSH_USER_RESOURCES",
    "PERSIST_RO_VARIABLES_ADMIN",
    "ROLE_ADMIN",
    "SESSION_VARIABLES_ADMIN",
    "SET_ANY_DEFINER",
    "SET_USER_ID",
    "SHOW_ROUTINE",
    "SYSTEM_USER",
    "SYSTEM_VARIABLES_ADMIN",
    "XA_RECOVER_ADMIN",
    "REPLICATION_SLAVE_ADMIN",
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
    SHUTDOWN = 7, PROCESS = 8, FILE = 9, REFERENCES = 10, INDEX = 11, ALTER = 12, SHOW_DATABASES = 13,
    SUPER = 14, CREATE_TEMPORARY_TABLES = 15, LOCK_TABLES = 16, EXECUTE = 17, REPLICATION_SLAVE = 18, REPLICATION_CLIENT = 19,
    CREATE_VIEW = 20, SHOW_VIEW = 21, CREATE_ROUTINE = 22, ALTER_ROUTINE = 23, CREATE_USER = 24,
    EVENT = 25, TRIGGER = 26, CREATE_ROLE = 28, DROP_ROLE = 29, GRANT_OPTION = 30,
    MEMCACHED_ADMIN = 31, APPLICATION_PASSWORD_ADMIN = 32, BACKUP_ADMIN = 33, BINLOG_ADMIN = 34, CONNECTION_ADMIN = 35, FLUSH_OPTIMIZER_COSTS = 36, FLUSH_STATUS = 37, FLUSH_TABLES = 38, FLUSH_USER_RESOURCES = 39, PERSIST_RO_VARIABLES_ADMIN = 40, ROLE_ADMIN = 41, SESSION_VARIABLES_ADMIN = 42, SET_ANY_DEFINER = 43, SET_USER_ID = 44, SHOW_ROUTINE = 45, SYSTEM_USER = 46, SYSTEM_VARIABLES_ADMIN = 47, XA_RECOVER_ADMIN = 48,
    REPLICATION_SLAVE_ADMIN = 49,
}

impl Privileges {
    /// None.
    pub const NONE: Privileges = Privileges(0);
    /// All dynamic privileges. They are granted on `*.*` only; SUPER includes them.
    pub const DYNAMIC: Privileges = Privileges(((1 << 19) - 1) << 31);
    /// All static privileges that can be granted on `*.*`, without GRANT OPTION.
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

    /// All that can be granted on a column; each of them makes the column visible.
    pub const COLUMN: Privileges = Privileges(0b111 | 1 << 10);

    /// Whether the sets intersect.
    pub const fn intersects(self, other: Privileges) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it contains all of `other`.
    pub const fn has(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    pub const fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// The privileges in both sets.
    pub const fn intersection(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// The set difference.
    pub const fn without(self, other: Privileges) -> Privileges {
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

    /// The privilege with this upper-case name, if it exists.
    pub fn named(name: &str) -> Option<Privileges> {
        let at = NAMES.iter().position(|n| *n == name)?;
        Some(Privileges(1 << at))
    }
}
