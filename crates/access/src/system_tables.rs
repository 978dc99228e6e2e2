//! Names of the tables that belong to the server: accounts and grants, and the configuration
//! of the memcached protocol. They cannot be mapped to memcached keys.

use crate::Privileges;
use crate::pattern::is_system_schema;

/// The database that holds the configuration of the memcached protocol.
pub const MEMCACHED_DATABASE: &str = "ndbmemcache";

/// Tables of [`MEMCACHED_DATABASE`] that define the mapping of keys to tables. Changing them
/// needs the privilege SUPER or MEMCACHED_ADMIN.
pub const MEMCACHED_CONFIGURATION: &[&str] = &[
    "memcache_server_roles",
    "cache_policies",
    "containers",
    "container_options",
    "key_prefixes",
    "ndb_clusters",
];

/// Tables of [`MEMCACHED_DATABASE`] that the server itself writes.
const MEMCACHED_RECORDS: &[&str] = &["meta", "last_memcached_signon"];

/// Tables of `mysql` that hold accounts, roles and privileges.
const ACCOUNT_TABLES: &[&str] = &[
    "column_grants",
    "default_roles",
    "grants",
    "password_history",
    "role_edges",
    "user",
];

/// A privilege on `*.*` that changing a table needs beside the privileges on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Administration {
    /// The privilege.
    pub privilege: Privileges,
    /// The privileges that include it, as errors name them.
    pub shown: &'static str,
}

/// Privilege required for changing the mapping of any table to memcached keys.
pub const MAPPING_ADMINISTRATION: Administration = Administration {
    privilege: Privileges::MEMCACHED_ADMIN,
    shown: "SUPER or MEMCACHED_ADMIN",
};

/// Privileges that allow changing a table or its rows.
const CHANGES: Privileges = Privileges::INSERT
    .with(Privileges::UPDATE)
    .with(Privileges::DELETE)
    .with(Privileges::CREATE)
    .with(Privileges::DROP)
    .with(Privileges::ALTER)
    .with(Privileges::INDEX);

/// Returns the privilege that using a table requires in addition to `wanted`; `None` for most
/// tables. A change of [`MEMCACHED_CONFIGURATION`] can map any table, so privileges on the
/// configuration alone are not sufficient.
pub fn administration(wanted: Privileges, database: &str, table: &str) -> Option<Administration> {
    let is_configuration = wanted.intersects(CHANGES)
        && database.eq_ignore_ascii_case(MEMCACHED_DATABASE)
        && MEMCACHED_CONFIGURATION.contains(&table);
    is_configuration.then_some(MAPPING_ADMINISTRATION)
}

/// Whether a stored table holds accounts, roles or privileges.
pub fn is_account_table(database: &str, table: &str) -> bool {
    database == "mysql" && ACCOUNT_TABLES.contains(&table)
}

/// Whether a stored table is left out where tables are listed: dumps do not contain it.
pub fn is_unlisted_table(database: &str, table: &str) -> bool {
    let runs = &crate::event_runs::EVENT_RUNS;
    is_account_table(database, table) || (runs.database, runs.name) == (database, table)
}

/// Whether a table belongs to the server. Data tables in [`MEMCACHED_DATABASE`] do not.
pub fn is_system_table(database: &str, table: &str) -> bool {
    if database.eq_ignore_ascii_case(MEMCACHED_DATABASE) {
        return MEMCACHED_CONFIGURATION.contains(&table) || MEMCACHED_RECORDS.contains(&table);
    }
    is_system_schema(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_tables_of_the_configuration_database_are_ordinary() {
        assert!(!is_system_table("ndbmemcache", "kv"));
        assert!(is_system_table("ndbmemcache", "containers"));
        assert!(is_system_table("MySQL", "anything"));
        assert!(!is_system_table("app", "containers"));
    }

    #[test]
    fn all_stored_tables_of_accounts_are_account_tables() {
        for table in [
            &crate::account_table::USERS,
            &crate::column_grants::COLUMN_GRANTS,
            &crate::grant_table::GRANTS,
            &crate::history::HISTORY,
            &crate::roles::DEFAULT_ROLES,
            &crate::roles::EDGES,
        ] {
            assert!(
                is_account_table(table.database, table.name),
                "{}",
                table.name
            );
        }
        assert!(!is_account_table("mysql", "mine"));
    }
}
