//! Sets of static privileges (manual, "Privileges Provided by MySQL").

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
    SUPER = 14, CREATE_TEMPORARY_TABLES = 15, LOCK_TABLES = 16, CREATE_VIEW = 20, SHOW_VIEW = 21, CREATE_USER = 24, CREATE_ROLE = 28, DROP_ROLE = 29, GRANT_OPTION = 30,
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
    pub const fn meets(self, other: Privileges) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    pub const fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Those that are in both sets.
    pub const fn intersection(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Without those of `other`.
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

    /// The privilege of a name in capitals.
    pub fn named(name: &str) -> Option<Privileges> {
        let at = NAMES.iter().position(|n| *n == name)?;
        Some(Privileges(1 << at))
    }
}
