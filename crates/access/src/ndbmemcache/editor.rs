//! Adds and drops mappings of key prefixes to tables.
//!
//! A mapping consists of a container named after table and prefix, its options, and a row of
//! `key_prefixes`, written in one transaction; listeners use it from their next command on.
//!
//! Invariants:
//! 1. A prefix that is mapped to another table is refused (1062); a mapping of the same table is
//!    replaced.
//! 2. Columns are checked here, so that a mapping that was accepted is served.
//! 3. A container is deleted with the last prefix that refers to it.
//! 4. A deletion locks the row and deletes its locked version, not the version read before.
//! 5. An account without MEMCACHED_ADMIN needs [`KEY_PRIVILEGES`] on the table, and on each table
//!    with a prefix that the new prefix would hide or be hidden by.

use super::stored_rows::{Cell, StoredRow, new_row, stored_rows};
use crate::system_tables::{
    MAPPING_ADMINISTRATION, MEMCACHED_DATABASE as DATABASE, is_system_table,
};
use crate::{Administration, Privileges, Rights};
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::catalog::Table;
use porpoise_rows::{BeginOptions, Db, Error, InsertMode, Txn};
use porpoise_types::DateTime;
use std::sync::Arc;

/// Privileges on a table that memcached commands on its keys can require.
pub const KEY_PRIVILEGES: Privileges = Privileges::SELECT
    .with(Privileges::INSERT)
    .with(Privileges::UPDATE)
    .with(Privileges::DELETE);

/// A prefix of keys and the table that it is mapped to.
#[derive(Clone, Copy, Debug)]
pub struct PrefixMapping<'a> {
    /// Database of the table.
    pub database: &'a str,
    /// Name of the table.
    pub table: &'a str,
    /// The prefix.
    pub prefix: &'a [u8],
    /// The server role; `default_role` if not given.
    pub role: Option<&'a [u8]>,
    /// Key columns; the primary key if empty.
    pub key: &'a [&'a str],
    /// Value columns; all other columns if empty.
    pub value: &'a [&'a str],
    /// Column for the client's flags.
    pub flags: Option<&'a str>,
    /// Column that is set to the row's version (CAS value).
    pub cas: Option<&'a str>,
    /// Column for the expiry time.
    pub expires: Option<&'a str>,
    /// The policy; `ndb-only` if not given.
    pub policy: Option<&'a [u8]>,
    /// Separator between columns.
    pub separator: Option<&'a [u8]>,
    /// Escape byte, which precedes separators within values.
    pub escape: Option<&'a [u8]>,
    /// Text that represents NULL.
    pub null_token: Option<&'a [u8]>,
    /// Whether values are JSON objects.
    pub json: bool,
}

/// Error of a change of a mapping.
#[derive(Clone, Debug)]
pub enum MappingError {
    /// An error with MySQL's number, SQLSTATE and text.
    Refused(u16, &'static str, String),
    /// The table does not exist.
    NoTable(String, String),
    /// The account lacks a privilege of [`KEY_PRIVILEGES`] on the table.
    NeedsKeyPrivileges,
    /// The account may not administer mappings.
    NeedsAdministration(Administration),
    /// Reading or writing rows failed.
    Rows(Error),
}

impl From<Error> for MappingError {
    fn from(error: Error) -> MappingError {
        MappingError::Rows(error)
    }
}

type Result<T> = std::result::Result<T, MappingError>;

fn refused(code: u16, sqlstate: &'static str, text: impl Into<String>) -> MappingError {
    MappingError::Refused(code, sqlstate, text.into())
}

/// Changes mappings on behalf of an account.
pub struct MappingEditor<'a> {
    /// The row layer.
    pub db: &'a Arc<Db>,
    /// Rights of the account.
    pub rights: &'a Rights,
    /// Whether the account has [`KEY_PRIVILEGES`] on a table.
    pub may_use: &'a dyn Fn(&str, &str) -> bool,
    /// Time of the statement, UTC.
    pub now: DateTime,
}

impl MappingEditor<'_> {
    /// Maps a prefix to a table. Returns the commit position that the reply waits for.
    ///
    /// # Errors
    /// The mapping is refused, or writing failed.
    pub fn add(&self, def: &PrefixMapping<'_>) -> Result<CommitPosition> {
        let (database, name) = (def.database, def.table);
        let catalog = self.db.catalog();
        let table = catalog.table(database, name);
        let table =
            table.ok_or_else(|| MappingError::NoTable(database.to_owned(), name.to_owned()))?;
        let (key, value) = columns(table, def)?;
        let mut txn = self.begin_synced()?;
        let role = self.lock_role(&mut txn, def)?;
        self.check_may_map(database, name, &role, def.prefix)?;
        let policy = self.policy_name(def)?;
        let container = container_name(database, name, def.prefix);
        let prefixes = configuration_table(self.db, "key_prefixes")?;
        let wanted = [
            ("server_role_id", role.as_slice()),
            ("key_prefix", def.prefix),
        ];
        if let Some(row) = find(&mut txn, &prefixes, &wanted)? {
            let current = row.text(&prefixes, "container").unwrap_or_default();
            if !self.is_container_of(&mut txn, current, database, name)? {
                return Err(prefix_taken_error(&role, def.prefix));
            }
        }
        let column = |c: Option<&str>| c.map(|c| c.as_bytes().to_vec());
        let (flags, cas, expires) = (column(def.flags), column(def.cas), column(def.expires));
        self.write_row(
            &mut txn,
            "containers",
            &[
                ("name", Some(&container)),
                ("db_schema", Some(database.as_bytes())),
                ("db_table", Some(name.as_bytes())),
                ("key_columns", Some(key.as_bytes())),
                ("value_columns", value.as_deref().map(str::as_bytes)),
                ("flags", Some(flags.as_deref().unwrap_or(b"0"))),
                ("cas_column", cas.as_deref()),
                ("expire_time_column", expires.as_deref()),
            ],
        )?;
        let format: &[u8] = if def.json { b"json" } else { b"text" };
        self.write_row(
            &mut txn,
            "container_options",
            &[
                ("name", Some(&container)),
                ("value_format", Some(format)),
                ("separator", def.separator),
                ("escape", def.escape),
                ("null_token", def.null_token),
            ],
        )?;
        self.write_row(
            &mut txn,
            "key_prefixes",
            &[
                ("server_role_id", Some(&role)),
                ("key_prefix", Some(def.prefix)),
                ("cluster_id", Some(b"0")),
                ("policy", Some(policy)),
                ("container", Some(&container)),
            ],
        )?;
        Ok(txn.commit()?.position)
    }

    /// Drops the mapping of a prefix to a table. Returns the commit position that the reply waits
    /// for.
    ///
    /// # Errors
    /// The table has no such prefix, or writing failed.
    pub fn drop(&self, def: &PrefixMapping<'_>) -> Result<CommitPosition> {
        let (database, name) = (def.database, def.table);
        self.check_may_drop(database, name)?;
        let prefixes = configuration_table(self.db, "key_prefixes")?;
        let mut txn = self.begin_synced()?;
        let role = self.lock_role(&mut txn, def)?;
        let wanted = [
            ("server_role_id", role.as_slice()),
            ("key_prefix", def.prefix),
        ];
        let found = find(&mut txn, &prefixes, &wanted)?;
        let container = found
            .as_ref()
            .and_then(|row| row.text(&prefixes, "container"))
            .unwrap_or_default()
            .to_vec();
        let own = self.is_container_of(&mut txn, &container, database, name)?;
        let Some(row) = found.filter(|_| own) else {
            let prefix = String::from_utf8_lossy(def.prefix);
            let text = format!("Can't DROP '{prefix}'; check that column/key exists");
            return Err(refused(1091, "42000", text));
        };
        remove(&mut txn, &prefixes, &row.key)?;
        if find(&mut txn, &prefixes, &[("container", &container)])?.is_none() {
            for name in ["containers", "container_options"] {
                let table = configuration_table(self.db, name)?;
                if let Some(row) = find(&mut txn, &table, &[("name", &container)])? {
                    remove(&mut txn, &table, &row.key)?;
                }
            }
        }
        Ok(txn.commit()?.position)
    }

    /// Whether the account may change all mappings.
    fn administers_memcached(&self) -> bool {
        self.rights.global().has(MAPPING_ADMINISTRATION.privilege)
    }

    /// Checks the privileges for dropping a mapping of a table: MEMCACHED_ADMIN, or
    /// [`KEY_PRIVILEGES`] on the table.
    fn check_may_drop(&self, database: &str, name: &str) -> Result<()> {
        if self.administers_memcached() {
            return Ok(());
        }
        self.check_key_privileges(database, name)
    }

    fn check_key_privileges(&self, database: &str, name: &str) -> Result<()> {
        if (self.may_use)(database, name) {
            Ok(())
        } else {
            Err(MappingError::NeedsKeyPrivileges)
        }
    }

    /// Checks whether the account may map keys of `prefix` to a table. A prefix that hides
    /// keys of another mapping, or is hidden by one, also needs the privileges on that
    /// mapping's table.
    fn check_may_map(&self, database: &str, name: &str, role: &[u8], prefix: &[u8]) -> Result<()> {
        if is_system_table(database, name) {
            let text = format!("Access to system table '{database}.{name}' is rejected.");
            return Err(refused(3554, "HY000", text));
        }
        if self.administers_memcached() {
            return Ok(());
        }
        self.check_key_privileges(database, name)?;
        let (prefixes, containers) = (
            configuration_table(self.db, "key_prefixes")?,
            configuration_table(self.db, "containers")?,
        );
        let mut txn = self.db.begin(BeginOptions::default())?;
        for row in stored_rows(&mut txn, &prefixes, Read::CURRENT)? {
            let of = |column| row.text(&prefixes, column).unwrap_or_default();
            let other = of("key_prefix");
            let overlaps = other.starts_with(prefix) || prefix.starts_with(other);
            if of("server_role_id") != role || !overlaps {
                continue;
            }
            let found = find(&mut txn, &containers, &[("name", of("container"))])?;
            let names = found.as_ref().and_then(|row| {
                let name = |column| row.text(&containers, column).map(String::from_utf8_lossy);
                Some((name("db_schema")?, name("db_table")?))
            });
            if names.is_none_or(|(d, t)| !self.rights.on_table(&d, &t).has(KEY_PRIVILEGES)) {
                return Err(MappingError::NeedsAdministration(MAPPING_ADMINISTRATION));
            }
        }
        Ok(())
    }

    fn begin_synced(&self) -> Result<Txn> {
        let options = BeginOptions {
            sync: true,
            ..BeginOptions::default()
        };
        Ok(self.db.begin(options)?)
    }

    /// Locks the named role's row and returns its number as text. The lock is held until the end
    /// of the transaction, so that the checks of one change of a role's prefixes see every other
    /// change.
    fn lock_role(&self, txn: &mut Txn, def: &PrefixMapping<'_>) -> Result<Vec<u8>> {
        let name = def.role.unwrap_or(b"default_role");
        let table = configuration_table(self.db, "memcache_server_roles")?;
        let mut number = None;
        if let Some(row) = find(txn, &table, &[("role_name", name)])? {
            let locked = txn.lock_present(&table, &[&row.key], |_| true)?;
            if !locked.is_empty() {
                number = row.text(&table, "role_id").map(<[u8]>::to_vec);
            }
        }
        number.ok_or_else(|| unknown_name_error("role", name, "memcache_server_roles"))
    }

    /// Returns the name of the given policy, after checking that the policy exists.
    fn policy_name<'d>(&self, def: &PrefixMapping<'d>) -> Result<&'d [u8]> {
        let name = def.policy.unwrap_or(b"ndb-only");
        let table = configuration_table(self.db, "cache_policies")?;
        let mut txn = self.db.begin(BeginOptions::default())?;
        match find(&mut txn, &table, &[("policy_name", name)])? {
            Some(_) => Ok(name),
            None => Err(unknown_name_error("policy", name, "cache_policies")),
        }
    }

    /// Whether a container belongs to this table.
    fn is_container_of(
        &self,
        txn: &mut Txn,
        container: &[u8],
        database: &str,
        name: &str,
    ) -> Result<bool> {
        let table = configuration_table(self.db, "containers")?;
        let wanted = [
            ("name", container),
            ("db_schema", database.as_bytes()),
            ("db_table", name.as_bytes()),
        ];
        Ok(find(txn, &table, &wanted)?.is_some())
    }

    /// Inserts or replaces a row of the configuration. Columns without a cell get their defaults.
    fn write_row(&self, txn: &mut Txn, name: &str, cells: &[Cell<'_>]) -> Result<()> {
        let table = configuration_table(self.db, name)?;
        let row = new_row(&table, cells, self.now)?;
        txn.insert(&table, vec![row], InsertMode::Replace)?;
        Ok(())
    }
}

/// Error 1062: the prefix is mapped to another table.
fn prefix_taken_error(role: &[u8], prefix: &[u8]) -> MappingError {
    let role = String::from_utf8_lossy(role);
    let prefix = String::from_utf8_lossy(prefix);
    let text = format!("Duplicate entry '{role}-{prefix}' for key 'key_prefixes.PRIMARY'");
    refused(1062, "23000", text)
}

fn unknown_name_error(what: &str, name: &[u8], table: &str) -> MappingError {
    let name = String::from_utf8_lossy(name);
    let text = format!("Unknown {what} '{name}': it is not in {DATABASE}.{table}");
    refused(1210, "HY000", text)
}

/// Returns a table of the configuration.
fn configuration_table(db: &Db, name: &str) -> Result<Arc<Table>> {
    let catalog = db.catalog();
    let table = catalog.table(DATABASE, name).cloned();
    table.ok_or_else(|| MappingError::NoTable(DATABASE.to_owned(), name.to_owned()))
}

/// Returns the container name for a table and prefix: both as text. If that is longer than the
/// column's 50 characters, it is truncated and made unique by a hash.
fn container_name(database: &str, table: &str, prefix: &[u8]) -> Vec<u8> {
    let prefix = String::from_utf8_lossy(prefix);
    let full = format!("{database}/{table}/{prefix}");
    // Clients can select a container only by a name without white space.
    if full.len() <= 50 && full.bytes().all(|b| b.is_ascii_graphic()) {
        return full.into_bytes();
    }
    let sum = full.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start: String = full
        .chars()
        .filter(char::is_ascii_graphic)
        .take(33)
        .collect();
    format!("{start}#{sum:016x}").into_bytes()
}

/// Returns the lists of key and value columns, separated by commas; checks that they exist and that
/// the key is unique.
fn columns(table: &Table, def: &PrefixMapping<'_>) -> Result<(String, Option<String>)> {
    let position = |name: &&str| {
        table.column(name).ok_or_else(|| {
            let text = format!("Key column '{name}' doesn't exist in table");
            refused(1072, "42000", text)
        })
    };
    let key: Vec<usize> = def.key.iter().map(position).collect::<Result<_>>()?;
    let primary = table.indexes.first().filter(|_| !table.hidden_key);
    let key = match (key.is_empty(), primary) {
        (true, Some(primary)) => primary.parts.iter().map(|p| p.column).collect(),
        (true, None) => {
            let text = "This table type requires a primary key";
            return Err(refused(1173, "42000", text.to_owned()));
        }
        (false, _) => key,
    };
    let fits = |index: &porpoise_rows::catalog::Index| {
        index.kind.is_unique()
            && index.parts.len() == key.len()
            && index
                .parts
                .iter()
                .all(|p| p.prefix.is_none() && key.contains(&p.column))
    };
    if !table.indexes.iter().any(fits) {
        let text = format!(
            "Incorrect arguments to MEMCACHED: KEY is neither the primary key of {} nor a unique key",
            table.quoted_name()
        );
        return Err(refused(1210, "HY000", text));
    }
    let metadata_columns: Vec<usize> = [def.flags, def.cas, def.expires]
        .iter()
        .flatten()
        .map(position)
        .collect::<Result<_>>()?;
    let value: Vec<usize> = def.value.iter().map(position).collect::<Result<_>>()?;
    let all = value.is_empty();
    let value: Vec<usize> = if all {
        (0..table.columns.len())
            .filter(|n| !key.contains(n) && !metadata_columns.contains(n))
            .collect()
    } else {
        value
    };
    let names = |list: &[usize]| {
        let names = list.iter().filter_map(|n| table.columns.get(*n));
        let names: Vec<&str> = names.map(|c| c.name.as_str()).collect();
        names.join(",")
    };
    // A JSON container without a list has all columns, including those added later.
    let list = (!(all && def.json)).then(|| names(&value));
    Ok((names(&key), list))
}

/// Returns the first row with these texts in its newest committed state, own writes included.
fn find(txn: &mut Txn, table: &Arc<Table>, wanted: &[(&str, &[u8])]) -> Result<Option<StoredRow>> {
    let rows = stored_rows(txn, table, Read::CURRENT)?;
    Ok(rows.into_iter().find(|row| row.matches(table, wanted)))
}

/// Locks the row with this primary key and deletes it, if it still exists.
fn remove(txn: &mut Txn, table: &Arc<Table>, key: &[u8]) -> Result<()> {
    let locked = txn.lock_present(table, &[key], |_| true)?;
    txn.delete(table, locked)?;
    Ok(())
}
