//! Grants, and the effective privileges of one account.

use crate::pattern;
use crate::privileges::Privileges;
use crate::roles::AuthId;

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
    /// The granted privileges.
    pub privileges: Privileges,
}

/// Effective privileges of one account.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    version: u64,
    global: Privileges,
    databases: Vec<(String, Privileges)>,
    tables: Vec<(String, String, Privileges)>,
}

impl Rights {
    /// Those of an account and its active roles.
    pub fn of(version: u64, grants: &[Grant], ids: &[AuthId]) -> Rights {
        let mut rights = Rights {
            version,
            ..Rights::default()
        };
        let is =
            |id: &AuthId, g: &Grant| g.user == id.user && g.host.eq_ignore_ascii_case(&id.host);
        let own = |g: &&Grant| ids.iter().any(|id| is(id, g));
        for grant in grants.iter().filter(own) {
            let (database, table) = (grant.database.clone(), grant.table.clone());
            match (database.is_empty(), table.is_empty()) {
                (true, _) => rights.global = rights.global.with(grant.privileges),
                (false, true) => rights.databases.push((database, grant.privileges)),
                (false, false) => rights.tables.push((database, table, grant.privileges)),
            }
        }
        if rights.global.has(Privileges::SUPER) {
            rights.global = rights.global.with(Privileges::DYNAMIC);
        }
        rights
    }

    /// The version of the access control data that these were computed from.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Privileges on `*.*`.
    pub fn global(&self) -> Privileges {
        self.global
    }

    /// Privileges on all of a database.
    pub fn on_database(&self, database: &str) -> Privileges {
        let covers = |(p, _): &&(String, Privileges)| pattern::covers(p, database);
        let found = self.databases.iter().filter(covers);
        found.fold(self.global, |all, (_, p)| all.with(*p))
    }

    /// Privileges held on every database that a granted pattern matches: those of `*.*`,
    /// and of each own pattern that contains the granted one.
    pub fn on_pattern(&self, granted: &str) -> Privileges {
        let covers = |(p, _): &&(String, Privileges)| pattern::covers_pattern(p, granted);
        let found = self.databases.iter().filter(covers);
        found.fold(self.global, |all, (_, p)| all.with(*p))
    }

    /// Privileges on a table.
    pub fn on_table(&self, database: &str, table: &str) -> Privileges {
        let found = self
            .tables
            .iter()
            .filter(|(d, t, _)| d == database && t == table);
        found.fold(self.on_database(database), |all, (.., p)| all.with(*p))
    }

    /// Whether anything may be done in a database.
    pub fn sees_database(&self, database: &str) -> bool {
        database.eq_ignore_ascii_case("information_schema")
            || self.on_database(database).meets(Privileges::DATABASE)
            || self.tables.iter().any(|(d, ..)| d == database)
    }

    /// Whether anything may be done on a table or view.
    pub fn sees_table(&self, database: &str, table: &str) -> bool {
        self.on_table(database, table).meets(Privileges::TABLE)
    }

    /// Whether any of a table's columns may be read, written or referred to.
    pub fn sees_columns(&self, database: &str, table: &str) -> bool {
        let rights = self.on_table(database, table);
        rights.meets(Privileges::COLUMN)
    }

    /// Privileges on a table's columns, as COLUMNS.PRIVILEGES lists them.
    pub fn column_privileges(&self, database: &str, table: &str) -> String {
        let all = Privileges::COLUMN.0 & self.on_table(database, table).0;
        let names: Vec<String> = Privileges(all).names().map(str::to_lowercase).collect();
        names.join(",")
    }
}
