//! The mapping: the configuration of a server role, resolved to containers and policies.
//!
//! A [`Mapping`] is built from one snapshot of the tables of `ndbmemcache` and one catalog, and is
//! immutable. The longest matching prefix of a key selects its rule; a key without any is stored in
//! `ndbmemcache.kv`.
//!
//! Invariants:
//! 1. An invalid row disables the keys of its own prefix and nothing else. They do not fall back to
//!    a shorter prefix, which would store data in an unexpected place.
//! 2. Every row of `key_prefixes`, of all roles, has its line in the status.
//! 3. Missing tables of the configuration count as empty.

pub mod mapping_cache;
mod resolve;

use self::resolve::Row;
use crate::command_statistics::{self, PrefixStatistics};
use crate::container::Container;
use porpoise_access::ndbmemcache::{CONFIGURATION, DATABASE, StoredRow, stored_rows};
use porpoise_access::{Privileges, Rights};
use porpoise_kv::Read;
use porpoise_rows::catalog::{Catalog, Table, TableId};
use porpoise_rows::{BeginOptions, Db, Result, Txn};
use porpoise_types::Value;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// [`Mapping::serial`] of the next mapping; 0 means no mapping.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// Operation of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads: `get`, `gets`, `gat`, `gats` and their equivalents in other dialects.
    Get,
    /// Storage and counting commands.
    Set,
    /// `delete`.
    Delete,
}

/// Storage on which a policy executes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// On the table.
    Table,
    /// In the memory cache of [`crate::cache`], and nowhere else.
    CacheOnly,
    /// The operation is refused.
    Disabled,
}

/// A row of `cache_policies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Access of reads.
    pub get: Access,
    /// Access of storage and counting commands.
    pub set: Access,
    /// Access of `delete`.
    pub delete: Access,
    /// Whether `flush_all` deletes the rows.
    pub flush: bool,
}

/// Policy and container of the keys of one prefix.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The prefix.
    pub prefix: Box<[u8]>,
    /// Policy of the keys.
    pub policy: Policy,
    /// The policy's name.
    pub policy_name: String,
    /// Position of the container in [`Mapping::containers`], or the reason why the keys are not
    /// served.
    pub target: std::result::Result<usize, String>,
    /// Statistics of the commands on keys with the prefix; `None` if they are off, or if there are
    /// too many prefixes.
    pub statistics: Option<Arc<PrefixStatistics>>,
}

/// Storage on which an operation on a key is executed.
#[derive(Clone, Copy, Debug)]
pub enum Target<'m, 'k> {
    /// A row: position of the container, the container, and the key without its prefix.
    Row(usize, &'m Container, &'k [u8]),
    /// The memory cache, under the whole key.
    Cache,
}

/// A line of `ndbmemcache.status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The role.
    pub role: i64,
    /// The prefix.
    pub prefix: String,
    /// Name of the container.
    pub container: Option<String>,
    /// Database and table of the container.
    pub table: Option<(String, String)>,
    /// Name of the policy.
    pub policy: String,
    /// Whether keys with the prefix are served.
    pub active: bool,
    /// Reason why the prefix is disabled, or a remark.
    pub reason: String,
}

/// The resolved configuration; see the module.
#[derive(Debug, Default)]
pub struct Mapping {
    /// Number of this mapping, unique in the process. Caches derived from a mapping compare it to
    /// detect that they are out of date.
    pub serial: u64,
    /// [`Catalog::version`] from which the mapping was built.
    pub catalog_version: u64,
    /// Containers in use.
    pub containers: Vec<Container>,
    rules: Vec<Rule>,
    /// Position in `rules`, by prefix.
    rule_by_prefix: HashMap<Box<[u8]>, usize, foldhash::fast::RandomState>,
    /// Lengths of the prefixes that are not empty, longest first.
    prefix_lengths: Vec<usize>,
    /// Position of the rule of keys without a configured prefix.
    default_rule: usize,
    /// Whether a rule uses the memory cache.
    uses_cache: bool,
    /// Hash of all rows of the configuration, to detect changes.
    pub fingerprint: u64,
    /// One line for every configured prefix.
    pub status: Vec<Status>,
    /// Numbers of all roles, by name.
    pub roles: HashMap<String, i64>,
}

impl Mapping {
    /// Returns the rule of a key: that of its longest matching prefix.
    #[inline(always)]
    pub fn rule(&self, key: &[u8]) -> Option<&Rule> {
        for length in &self.prefix_lengths {
            if let Some(prefix) = key.get(..*length)
                && let Some(at) = self.rule_by_prefix.get(prefix)
            {
                return self.rules.get(*at);
            }
        }
        self.rules.get(self.default_rule)
    }

    /// Resolves a key: returns the storage on which the operation is executed.
    ///
    /// # Errors
    /// The reason for which the operation is refused.
    #[inline(always)]
    pub fn target<'m, 'k>(
        &'m self,
        key: &'k [u8],
        operation: Operation,
    ) -> std::result::Result<Target<'m, 'k>, String> {
        let rule = self.rule(key).ok_or("no container is configured")?;
        let access = rule.access(operation);
        if access != Access::Table {
            return match access {
                Access::CacheOnly => Ok(Target::Cache),
                _ => Err(rule.refusal(operation)),
            };
        }
        let at = *rule.target.as_ref().map_err(|why| rule.disabled(why))?;
        let container = self.containers.get(at).ok_or("no such container")?;
        let rest = key.get(rule.prefix.len()..).unwrap_or(&[]);
        Ok(Target::Row(at, container, rest))
    }

    /// As [`Mapping::target`], for commands that work on rows only.
    ///
    /// # Errors
    /// The reason for which the operation is refused.
    #[inline]
    pub fn find<'m, 'k>(
        &'m self,
        key: &'k [u8],
        operation: Operation,
    ) -> std::result::Result<(usize, &'m Container, &'k [u8]), String> {
        match self.target(key, operation)? {
            Target::Row(at, container, rest) => Ok((at, container, rest)),
            Target::Cache => Err("the key has no row: its policy is cache_only".to_owned()),
        }
    }

    /// Whether an operation on a key takes place in the memory cache.
    #[inline]
    pub(crate) fn is_cached(&self, key: &[u8], operation: Operation) -> bool {
        self.uses_cache
            && self
                .rule(key)
                .is_some_and(|r| r.access(operation) == Access::CacheOnly)
    }

    /// Returns the container with this name, and its position, if a prefix of the role uses it. An
    /// error if the policy of that prefix does not execute the operation on the table.
    pub(crate) fn container_by_name(
        &self,
        name: &[u8],
        operation: Operation,
    ) -> Option<std::result::Result<(usize, &Container), String>> {
        let has_name = |c: &Container| c.name.as_bytes() == name;
        let at = self.containers.iter().position(has_name)?;
        let uses_container = |r: &&Rule| r.target.as_ref().ok() == Some(&at);
        let rule = self.rules.iter().find(uses_container)?;
        if rule.access(operation) != Access::Table {
            return Some(Err(rule.refusal(operation)));
        }
        Some(Ok((at, self.containers.get(at)?)))
    }

    /// Whether some prefix of the role uses the memory cache.
    pub(crate) fn uses_cache(&self) -> bool {
        self.uses_cache
    }

    /// Positions of the containers whose rows `flush_all` deletes.
    pub(crate) fn flushed_containers(&self) -> Vec<usize> {
        let targets: BTreeSet<usize> = self
            .rules
            .iter()
            .filter(|r| r.policy.flush)
            .filter_map(|r| r.target.as_ref().ok().copied())
            .collect();
        targets.into_iter().collect()
    }

    /// Reads the configuration and resolves it for the role named `role`. `last` is the role's last
    /// known number, which is used if the role's row has been deleted.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn read(db: &Arc<Db>, role: &str, last: Option<i64>) -> Result<Mapping> {
        let catalog = db.catalog();
        let mut txn = db.begin(BeginOptions::default())?;
        txn.pin()?;
        let mut tables: HashMap<&str, Vec<Row>> = HashMap::new();
        for name in CONFIGURATION {
            let rows = match catalog.table(DATABASE, name) {
                Some(table) => read_table(&mut txn, table)?,
                None => Vec::new(),
            };
            tables.insert(name, rows);
        }
        let rows_of = |name: &str| tables.get(name).map_or(&[][..], Vec::as_slice);
        let hash = foldhash::fast::FixedState::default();
        let all_rows: Vec<&[Row]> = CONFIGURATION.iter().map(|name| rows_of(name)).collect();
        let mut mapping = Mapping {
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            catalog_version: catalog.version,
            fingerprint: hash.hash_one(all_rows),
            ..Mapping::default()
        };
        for row in rows_of("memcache_server_roles") {
            if let (Some(name), Some(id)) = (row.text("role_name"), row.number("role_id")) {
                mapping.roles.insert(name.to_owned(), id);
            }
        }
        let role_number = mapping.roles.get(role).copied().or(last).unwrap_or(0);
        let policies = resolve::policies(rows_of("cache_policies"));
        mapping.add_prefixes(&catalog, &tables, &policies, role_number);
        mapping.finish(&catalog);
        for container in &mut mapping.containers {
            container.expiry_zone = db.expiry_zone().clone();
        }
        Ok(mapping)
    }

    /// Adds the rules of the role with this number, and the status lines of all roles, from the
    /// rows of the configuration `tables`.
    fn add_prefixes(
        &mut self,
        catalog: &Catalog,
        tables: &HashMap<&str, Vec<Row>>,
        policies: &HashMap<String, std::result::Result<Policy, String>>,
        role: i64,
    ) {
        let rows_of = |name: &str| tables.get(name).map_or(&[][..], Vec::as_slice);
        for row in rows_of("key_prefixes") {
            let prefix = row.text("key_prefix").unwrap_or_default().to_owned();
            let policy_name = row.text("policy").unwrap_or_default().to_owned();
            let container = row.text("container").map(str::to_owned);
            let (containers, options) = (rows_of("containers"), rows_of("container_options"));
            let resolved = resolve::prefix(row, policies, containers, options, catalog);
            let row_role = row.number("server_role_id").unwrap_or(-1);
            // A listener keeps the number of its role even if the role's row is deleted.
            let role_exists = row_role == role || self.roles.values().any(|id| *id == row_role);
            let (policy, target, reason) = match resolved {
                Ok((policy, Some((container, note)))) => (policy, Ok(container), note),
                Ok((policy, None)) => {
                    let why = "no operation of the policy uses a table".to_owned();
                    (policy, Err(why.clone()), why)
                }
                Err(why) => (Policy::TABLE, Err(why.clone()), why),
            };
            let active = role_exists && (target.is_ok() || policy.uses_cache());
            let reason = match (&target, policy.uses_cache()) {
                _ if !role_exists => format!("role {row_role} is not in memcache_server_roles"),
                (Err(_), true) => "in memory only".to_owned(),
                _ => reason,
            };
            if row_role == role {
                let target = target.map(|c| self.add_or_share(c));
                self.rules.push(Rule {
                    prefix: prefix.as_bytes().into(),
                    policy,
                    policy_name: policy_name.clone(),
                    target,
                    statistics: None,
                });
            }
            let is_container =
                |c: &&Row| c.text("name").is_some() && c.text("name") == container.as_deref();
            let table = containers.iter().find(is_container).and_then(|c| {
                let name = |column| Some(c.text(column)?.trim().to_owned());
                Some((name("db_schema")?, name("db_table")?))
            });
            self.status.push(Status {
                role: row_role,
                prefix,
                container,
                table,
                policy: policy_name,
                active,
                reason,
            });
        }
    }

    /// Returns the position of a container, which is added if none of the same name exists.
    fn add_or_share(&mut self, container: Container) -> usize {
        let existing = self
            .containers
            .iter()
            .position(|c| c.name == container.name);
        existing.unwrap_or_else(|| {
            self.containers.push(container);
            self.containers.len() - 1
        })
    }

    /// Adds the rule of keys without a configured prefix, and builds the index of prefixes.
    fn finish(&mut self, catalog: &Catalog) {
        if !self.rules.iter().any(|r| r.prefix.is_empty()) {
            let target = resolve::default_container(catalog).map(|c| self.add_or_share(c));
            self.rules.push(Rule {
                prefix: Box::default(),
                policy: Policy {
                    flush: true,
                    ..Policy::TABLE
                },
                policy_name: "none: no row of key_prefixes".to_owned(),
                target,
                statistics: None,
            });
        }
        self.uses_cache = self.rules.iter().any(|r| r.policy.uses_cache());
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.prefix.is_empty() {
                self.default_rule = at;
            } else {
                self.rule_by_prefix.insert(rule.prefix.clone(), at);
                self.prefix_lengths.push(rule.prefix.len());
            }
        }
        self.attach_statistics();
        self.prefix_lengths.sort_unstable_by(|a, b| b.cmp(a));
        self.prefix_lengths.dedup();
        self.status
            .sort_by(|a, b| (a.role, &a.prefix).cmp(&(b.role, &b.prefix)));
    }

    /// Attaches the statistics of the prefixes to their rules and containers.
    fn attach_statistics(&mut self) {
        for rule in &mut self.rules {
            let target = rule.target.as_ref().ok();
            let container = target.and_then(|at| self.containers.get_mut(*at));
            let database = container.as_ref().map(|c| c.table.database.as_str());
            rule.statistics = command_statistics::of_prefix(&rule.prefix, database);
            if let (Some(container), Some(statistics)) = (container, &rule.statistics) {
                container.statistics.push(statistics.clone());
            }
        }
    }

    /// Returns the rows of `ndbmemcache.status`
    /// ([`status_columns`](porpoise_access::ndbmemcache::status_columns)) that concern tables which
    /// an account with these rights may see.
    pub fn status_rows(&self, rights: &Rights) -> Vec<Vec<Value>> {
        let has_all = rights.everywhere().has(Privileges::ALL);
        let is_visible = |s: &&Status| {
            let (database, table) = s.table.as_ref().map_or(("", ""), |(d, t)| (d, t));
            has_all || rights.sees_table(database, table)
        };
        let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
        let row = |s: &Status| {
            vec![
                Value::Int(s.role),
                text(&s.prefix),
                s.container.as_deref().map_or(Value::Null, text),
                text(&s.policy),
                text(if s.active { "active" } else { "disabled" }),
                text(&s.reason),
            ]
        };
        self.status.iter().filter(is_visible).map(row).collect()
    }

    /// Ids of the configuration tables, for change notification.
    pub fn configuration_tables(catalog: &Catalog) -> Vec<TableId> {
        CONFIGURATION
            .iter()
            .filter_map(|name| Some(catalog.table(DATABASE, name)?.id))
            .collect()
    }
}

impl Policy {
    /// All operations on the table; `flush_all` deletes nothing.
    pub const TABLE: Policy = Policy {
        get: Access::Table,
        set: Access::Table,
        delete: Access::Table,
        flush: false,
    };

    /// Whether an operation uses the memory cache.
    pub(crate) fn uses_cache(&self) -> bool {
        [self.get, self.set, self.delete].contains(&Access::CacheOnly)
    }
}

impl Rule {
    /// Returns the storage on which the policy executes an operation.
    #[inline]
    pub fn access(&self, operation: Operation) -> Access {
        match operation {
            Operation::Get => self.policy.get,
            Operation::Set => self.policy.set,
            Operation::Delete => self.policy.delete,
        }
    }

    fn disabled(&self, why: &str) -> String {
        format!(
            "keys of prefix '{}' are disabled: {why}",
            self.prefix_text()
        )
    }

    #[cold]
    fn refusal(&self, operation: Operation) -> String {
        let operation = match operation {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::Delete => "delete",
        };
        let prefix = self.prefix_text();
        format!("{operation}_policy of the keys of prefix '{prefix}' is disabled")
    }

    fn prefix_text(&self) -> String {
        String::from_utf8_lossy(&self.prefix).into_owned()
    }
}

/// Reads all rows of a table, as texts by column name.
fn read_table(txn: &mut Txn, table: &Arc<Table>) -> Result<Vec<Row>> {
    let rows = stored_rows(txn, table, Read::SNAPSHOT)?;
    let row = |row: StoredRow| {
        let texts = table.columns.iter().zip(row.texts).map(|(column, text)| {
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            (column.name.to_ascii_lowercase(), text)
        });
        Row::new(texts.collect())
    };
    Ok(rows.into_iter().map(row).collect())
}
