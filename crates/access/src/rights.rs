//! Grants, and the effective privileges of one account.

use crate::auth_id::AuthId;
use crate::column_grants::{ColumnGrant, ColumnRights};
use crate::pattern;
use crate::privileges::Privileges;
use crate::restrictions::Restrictions;

/// One grant: an account, an object, and the privileges on it.
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
    /// Dynamic privileges that are held WITH GRANT OPTION. GRANT OPTION among
    /// `privileges` is that of the static ones.
    pub grantable: Privileges,
}

impl Grant {
    /// Whether the grant is of this account.
    pub fn is_of(&self, id: &AuthId) -> bool {
        self.user == id.user && self.host.eq_ignore_ascii_case(&id.host)
    }
}

/// Effective privileges of one account.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    version: u64,
    global: Privileges,
    grantable: Privileges,
    restrictions: Restrictions,
    /// Whether names of databases in grants are literal, not patterns (`partial_revokes`).
    literal: bool,
    databases: Vec<(String, Privileges)>,
    tables: Vec<(String, String, Privileges)>,
    columns: Vec<ColumnRights>,
}

impl Rights {
    /// Rights of an account and its active roles.
    pub fn of(version: u64, grants: &[Grant], ids: &[AuthId]) -> Rights {
        let mut rights = Rights {
            version,
            ..Rights::default()
        };
        let own = |g: &&Grant| ids.iter().any(|id| g.is_of(id));
        for grant in grants.iter().filter(own) {
            let (database, table) = (grant.database.clone(), grant.table.clone());
            match (database.is_empty(), table.is_empty()) {
                (true, _) => {
                    rights.global = rights.global.with(grant.privileges);
                    rights.grantable = rights.grantable.with(grant.grantable);
                }
                (false, true) => rights.databases.push((database, grant.privileges)),
                (false, false) => rights.tables.push((database, table, grant.privileges)),
            }
        }
        if rights.global.has(Privileges::SUPER) {
            if rights.global.has(Privileges::GRANT_OPTION) {
                rights.grantable = Privileges::DYNAMIC;
            }
            rights.global = rights.global.with(Privileges::DYNAMIC);
        }
        rights
    }

    /// All privileges on everything.
    pub fn all(version: u64) -> Rights {
        let all = Privileges::ALL.with(Privileges::GRANT_OPTION);
        Rights {
            version,
            global: all.with(Privileges::DYNAMIC),
            grantable: all.with(Privileges::DYNAMIC),
            ..Rights::default()
        }
    }

    /// Applies restrictions to these rights, which are those of several accounts (an account and its
    /// roles) together. A privilege is restricted on a database if each account that holds it on `*.*`
    /// is restricted there.
    pub(crate) fn restricted(
        mut self,
        grants: &[Grant],
        accounts: &[(AuthId, Restrictions)],
    ) -> Rights {
        let global = |id: &AuthId| {
            let own = grants
                .iter()
                .filter(|g| g.database.is_empty() && g.is_of(id));
            own.fold(Privileges::NONE, |all, g| all.with(g.privileges))
        };
        for (database, _) in accounts.iter().flat_map(|(_, own)| own.iter()) {
            let unrestricted = accounts.iter().fold(Privileges::NONE, |all, (id, own)| {
                all.with(global(id).without(own.on(database)))
            });
            let restricted = self.global.without(unrestricted);
            self.restrictions.set(database, restricted);
        }
        self
    }

    /// These rights, with names of databases in grants taken literally instead of as patterns (`partial_revokes`).
    pub(crate) fn with_literal_names(mut self, literal: bool) -> Rights {
        self.literal = literal;
        self
    }

    fn covers(&self, pattern: &str, database: &str) -> bool {
        if self.literal {
            pattern::literal(pattern) == database
        } else {
            pattern::covers(pattern, database)
        }
    }

    fn covers_pattern(&self, own: &str, granted: &str) -> bool {
        if self.literal {
            pattern::literal(own) == pattern::literal(granted)
        } else {
            pattern::covers_pattern(own, granted)
        }
    }

    /// Adds the grants on columns of the same accounts.
    pub(crate) fn with_columns(self, grants: &[ColumnGrant], ids: &[AuthId]) -> Rights {
        let columns = ColumnRights::of_accounts(grants, ids);
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

    /// Privileges on `*.*` that hold on every database.
    pub fn everywhere(&self) -> Privileges {
        self.global.without(self.restrictions.anywhere())
    }

    /// Dynamic privileges that may be granted to others.
    pub fn grantable(&self) -> Privileges {
        self.grantable
    }

    /// Databases on which privileges of `*.*` do not hold.
    pub fn restrictions(&self) -> &Restrictions {
        &self.restrictions
    }

    /// Privileges on all of a database.
    pub fn on_database(&self, database: &str) -> Privileges {
        let covers = |(p, _): &&(String, Privileges)| self.covers(p, database);
        let found = self.databases.iter().filter(covers);
        let global = self.global.without(self.restrictions.on(database));
        found.fold(global, |all, (_, p)| all.with(*p))
    }

    /// Privileges held on every database that a granted pattern matches: those of `*.*`,
    /// and of each own pattern that contains the granted one.
    pub fn on_pattern(&self, granted: &str) -> Privileges {
        let covers = |(p, _): &&(String, Privileges)| self.covers_pattern(p, granted);
        let found = self.databases.iter().filter(covers);
        let restrictions = self.restrictions.iter();
        let restrictions = restrictions.filter(|(database, _)| self.covers(granted, database));
        let global = restrictions.fold(self.global, |all, (_, p)| all.without(p));
        found.fold(global, |all, (_, p)| all.with(*p))
    }

    /// Privileges on a table.
    pub fn on_table(&self, database: &str, table: &str) -> Privileges {
        let found = self
            .tables
            .iter()
            .filter(|(d, t, _)| d == database && t == table);
        found.fold(self.on_database(database), |all, (.., p)| all.with(*p))
    }

    /// Whether the account has any privilege in a database.
    pub fn sees_database(&self, database: &str) -> bool {
        database.eq_ignore_ascii_case("information_schema")
            || self.on_database(database).intersects(Privileges::DATABASE)
            || self.tables.iter().any(|(d, ..)| d == database)
            || self.columns.iter().any(|c| c.is_in(database))
    }

    /// Whether the account has any privilege on a table or view, or on one of its columns.
    pub fn sees_table(&self, database: &str, table: &str) -> bool {
        self.on_table(database, table).intersects(Privileges::TABLE)
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
        let any = columns.map_or(Privileges::NONE, ColumnRights::on_any_column);
        self.on_table(database, table).with(any)
    }

    /// Privileges on a column: those on its table and its own.
    pub fn on_column(&self, database: &str, table: &str, column: &str) -> Privileges {
        let columns = self.on_columns(database, table);
        let own = columns.map_or(Privileges::NONE, |c| c.on(column));
        self.on_table(database, table).with(own)
    }

    /// Privileges on a column, as COLUMNS.PRIVILEGES lists them.
    pub fn column_privileges(&self, database: &str, table: &str, column: &str) -> String {
        let held = self.on_column(database, table, column);
        let held = held.intersection(Privileges::COLUMN);
        let names: Vec<String> = held.names().map(str::to_lowercase).collect();
        names.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECT: Privileges = Privileges::SELECT;
    const INSERT: Privileges = Privileges::INSERT;
    const BOTH: Privileges = SELECT.with(INSERT);

    fn grant(user: &str, database: &str, privileges: Privileges) -> Grant {
        Grant {
            user: user.to_owned(),
            host: "%".to_owned(),
            database: database.to_owned(),
            table: String::new(),
            privileges,
            grantable: Privileges::NONE,
        }
    }

    fn restricted(user: &str, list: &[(&str, Privileges)]) -> (AuthId, Restrictions) {
        let mut all = Restrictions::default();
        for (database, privileges) in list {
            all.add(database, *privileges);
        }
        (AuthId::new(user, "%"), all)
    }

    fn rights(grants: &[Grant], accounts: &[(AuthId, Restrictions)]) -> Rights {
        let ids: Vec<AuthId> = accounts.iter().map(|(id, _)| id.clone()).collect();
        let rights = Rights::of(1, grants, &ids).restricted(grants, accounts);
        rights.with_literal_names(true)
    }

    #[test]
    fn restrictions_limit_global_privileges_only() {
        let mut on_table = grant("u", "d", INSERT);
        "t".clone_into(&mut on_table.table);
        let grants = [
            grant("u", "", BOTH.with(Privileges::FILE)),
            on_table,
            grant("u", "e", INSERT),
        ];
        let own = restricted("u", &[("d", INSERT), ("e", INSERT)]);
        let rights = rights(&grants, &[own]);
        assert_eq!(rights.on_database("other"), BOTH.with(Privileges::FILE));
        assert!(!rights.on_database("d").has(INSERT));
        assert!(!rights.on_pattern("d").has(INSERT));
        assert!(rights.on_pattern("d_").has(INSERT));
        assert!(!rights.on_table("d", "other").has(INSERT));
        assert!(rights.on_table("d", "t").has(BOTH));
        assert!(rights.on_database("e").has(BOTH));
        assert_eq!(rights.everywhere(), SELECT.with(Privileges::FILE));
    }

    #[test]
    fn a_role_without_the_restriction_lifts_it() {
        let grants = [grant("u", "", BOTH), grant("r", "", INSERT)];
        let own = restricted("u", &[("d", BOTH)]);
        let role = restricted("r", &[("e", INSERT)]);
        let both = rights(&grants, &[own.clone(), role]);
        assert_eq!(both.on_database("d"), INSERT);
        assert_eq!(both.on_database("e"), BOTH);
        let same = restricted("r", &[("d", INSERT)]);
        let both = rights(&grants, &[own, same]);
        assert_eq!(both.on_database("d"), Privileges::NONE);
    }

    #[test]
    fn names_are_patterns_or_literal() {
        let grants = [grant("u", "a_b", SELECT), grant("u", "c\\_d", SELECT)];
        let id = AuthId::new("u", "%");
        let patterns = Rights::of(1, &grants, std::slice::from_ref(&id));
        let literal = patterns.clone().with_literal_names(true);
        assert!(patterns.on_database("axb").has(SELECT));
        assert!(!literal.on_database("axb").has(SELECT));
        assert!(!literal.on_pattern("axb").has(SELECT));
        for rights in [patterns, literal] {
            assert!(rights.on_database("a_b").has(SELECT));
            assert!(rights.on_database("c_d").has(SELECT));
            assert!(rights.on_pattern("c\\_d").has(SELECT));
        }
    }

    #[test]
    fn each_dynamic_privilege_is_grantable_by_itself() {
        let (backup, user) = (Privileges::BACKUP_ADMIN, Privileges::SYSTEM_USER);
        let mut some = grant("u", "", backup.with(user));
        some.grantable = backup;
        let id = AuthId::new("u", "%");
        let of =
            |grant: &Grant| Rights::of(1, std::slice::from_ref(grant), std::slice::from_ref(&id));
        assert_eq!(of(&some).grantable(), backup);
        some.privileges = Privileges::SUPER;
        some.grantable = Privileges::NONE;
        assert_eq!(of(&some).grantable(), Privileges::NONE);
        some.privileges = Privileges::SUPER.with(Privileges::GRANT_OPTION);
        assert_eq!(of(&some).grantable(), Privileges::DYNAMIC);
    }
}
