//! Grants, and the effective privileges of one account.

use crate::column_grants::{ColumnGrant, ColumnRights};
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
    columns: Vec<ColumnRights>,
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

    /// These with the grants on columns of the same accounts.
    pub(crate) fn with_columns(self, grants: &[ColumnGrant], ids: &[AuthId]) -> Rights {
        let columns = ColumnRights::of(grants, ids);
        Rights { columns, ..self }
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
            || self.columns.iter().any(|c| c.is_in(database))
    }

    /// Whether anything may be done on a table or view, or with one of its columns.
    pub fn sees_table(&self, database: &str, table: &str) -> bool {
        self.on_table(database, table).meets(Privileges::TABLE)
            || self.on_columns(database, table).is_some()
    }

    /// Privileges that are granted on single columns of a table, if there are any.
    pub fn on_columns(&self, database: &str, table: &str) -> Option<&ColumnRights> {
        let mut columns = self.columns.iter();
        columns.find(|c| c.is_on(database, table))
    }

    /// Privileges on a table or on one of its columns.
    pub fn on_any_column(&self, database: &str, table: &str) -> Privileges {
        let columns = self.on_columns(database, table);
        let any = columns.map_or(Privileges::NONE, ColumnRights::any);
        self.on_table(database, table).with(any)
    }

    /// Privileges on a column: those on its table and its own.
    pub fn on_column(&self, database: &str, table: &str, column: &str) -> Privileges {
        let columns = self.on_columns(database, table);
        let own = columns.map_or(Privileges::NONE, |c| c.on(column));
        self.on_table(database, table).with(own)
    }

    /// Whether a column may be read, written or referred to.
    pub fn sees_column(&self, database: &str, table: &str, column: &str) -> bool {
        self.on_column(database, table, column)
            .meets(Privileges::COLUMN)
    }

    /// Privileges on a column, as COLUMNS.PRIVILEGES lists them.
    pub fn column_privileges(&self, database: &str, table: &str, column: &str) -> String {
        let held = self.on_column(database, table, column);
        let held = held.intersection(Privileges::COLUMN);
        let names: Vec<String> = held.names().map(str::to_lowercase).collect();
        names.join(",")
    }
}
