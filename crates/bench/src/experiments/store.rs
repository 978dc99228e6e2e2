//! The table of keys and values that several experiments use: its creation and filling
//! in each system, and its statements in each dialect.
//!
//! 1. Rows 0 to `rows` - 1 exist from the start and are never deleted; reads and updates
//!    choose from them.
//! 2. Inserts use new keys ([`crate::value::inserted_key`]); deletes use
//!    the same in the same order, so that each finds its row.
//! 3. Protocols to the same rows share one store, and so its counters.
//! 4. A key whose insert was refused, or whose reply was lost, may have no
//!    row. After the first such key, deletes skip all keys used so far, because they
//!    would report missing rows.

use super::load_rows::{LoadRows, Rows};
use crate::connect::{Access, Admin, Endpoint};
use crate::error::{Error, Result};
use crate::load::{self, Plan, Shape};
use crate::sys::SharedCounter;
use crate::url::{System, Target};
use crate::value;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Storage of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A column of text.
    Plain,
    /// PostgreSQL's hstore.
    Hstore,
    /// PostgreSQL's jsonb.
    Jsonb,
    /// A cache's items.
    Items,
}

/// A filled table or cache in one system.
#[derive(Debug)]
pub struct Store {
    /// Storage of values.
    pub layout: Layout,
    /// Number of rows that always exist.
    pub rows: u64,
    /// Length of values in bytes.
    pub length: usize,
    /// Prefix of memcached keys.
    pub prefix: String,
    /// Keys taken for inserts besides, and how many of those for deletes.
    pub inserted: SharedCounter,
    /// See there.
    pub deleted: SharedCounter,
    /// Number of keys taken for inserts that are known to have a row or were skipped.
    pub confirmed: SharedCounter,
    /// Source of versions.
    pub version: SharedCounter,
}

impl Store {
    fn table(&self) -> &'static str {
        match self.layout {
            Layout::Plain | Layout::Items => "kv",
            Layout::Hstore => "kv_hstore",
            Layout::Jsonb => "kv_jsonb",
        }
    }

    /// SELECT by primary key.
    pub fn select(&self) -> String {
        let value = match self.layout {
            Layout::Plain | Layout::Items => "value",
            Layout::Hstore => "doc -> 'value'",
            Layout::Jsonb => "doc ->> 'value'",
        };
        format!("select {value} from {} where id = ?", self.table())
    }

    /// SELECT of this number of keys in one IN list.
    pub fn select_in(&self, keys: usize) -> String {
        let placeholders = vec!["?"; keys].join(", ");
        format!(
            "select id, value from {} where id in ({placeholders})",
            self.table()
        )
    }

    fn document(&self) -> &'static str {
        match self.layout {
            Layout::Plain | Layout::Items => "?",
            Layout::Hstore => "hstore('value', ?::text)",
            Layout::Jsonb => "jsonb_build_object('value', ?::text)",
        }
    }

    fn column(&self) -> &'static str {
        match self.layout {
            Layout::Plain | Layout::Items => "value",
            Layout::Hstore | Layout::Jsonb => "doc",
        }
    }

    /// INSERT of one row: id, value.
    pub fn insert(&self, rows: usize) -> String {
        let row = format!("(?, {})", self.document());
        format!(
            "insert into {} (id, {}) values {}",
            self.table(),
            self.column(),
            vec![row.as_str(); rows].join(", ")
        )
    }

    /// UPDATE by primary key: value, id.
    pub fn update(&self) -> String {
        let (table, column, document) = (self.table(), self.column(), self.document());
        format!("update {table} set {column} = {document} where id = ?")
    }

    /// DELETE by primary key.
    pub fn delete(&self) -> String {
        format!("delete from {} where id = ?", self.table())
    }

    /// A version that no earlier write has.
    pub fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes and fills the table, or fills the cache.
    ///
    /// # Errors
    /// The system failed or refused.
    pub fn fill(&self, target: &Target) -> Result<()> {
        match target.system {
            System::Memcached | System::Noop => {}
            System::Mysql => make_mysql(target)?,
            System::Porpoise => {
                make_mysql(target)?;
                map_prefix(target, &self.prefix)?;
            }
            System::Postgres => self.make_postgres(target)?,
        }
        if target.system == System::Noop {
            return Ok(());
        }
        self.add_rows(target, 0, self.rows, |n| n)
    }

    fn make_postgres(&self, target: &Target) -> Result<()> {
        let mut admin = Admin::connect(target)?;
        let kind = match self.layout {
            Layout::Hstore => {
                admin.run("create extension if not exists hstore")?;
                "doc hstore"
            }
            Layout::Jsonb => "doc jsonb",
            Layout::Plain | Layout::Items => "value varchar(1024)",
        };
        let table = self.table();
        admin.run(&format!("drop table if exists {table}"))?;
        admin.run(&format!(
            "create table {table} (id int primary key, {kind})"
        ))?;
        Ok(())
    }

    /// Adds rows `from` to `to` - 1 of a numbering of keys, by several
    /// connections, many rows in a statement.
    fn add_rows(&self, target: &Target, from: u64, to: u64, key: fn(u64) -> u64) -> Result<()> {
        let endpoint = Endpoint {
            target: target.clone(),
            access: match target.system {
                System::Mysql | System::Porpoise => Access::MysqlText,
                System::Postgres => Access::Postgres,
                System::Memcached | System::Noop => Access::Memcached,
            },
        };
        let rows = LoadRows::new(from..to, StoreRows { store: self, key });
        rows.load(&endpoint)
    }

    /// Inserts rows until this number can be deleted.
    ///
    /// # Errors
    /// The system failed or refused.
    pub fn top_up(&self, target: &Target, wanted: u64) -> Result<()> {
        self.pass_over_holes();
        let deleted = self
            .deleted
            .load(Ordering::Relaxed)
            .min(self.inserted.load(Ordering::Relaxed));
        self.deleted.store(deleted, Ordering::Relaxed);
        let inserted = self.inserted.load(Ordering::Relaxed);
        let there = inserted - deleted;
        if there < wanted {
            let to = inserted + wanted - there;
            // Counted before the attempt, so that keys of a failed one are not used again.
            self.inserted.store(to, Ordering::Relaxed);
            self.add_rows(target, inserted, to, value::inserted_key)?;
            self.confirmed.fetch_add(to - inserted, Ordering::Relaxed);
        }
        Ok(())
    }

    /// See the module's fourth rule.
    fn pass_over_holes(&self) {
        let inserted = self.inserted.load(Ordering::Relaxed);
        if self.confirmed.swap(inserted, Ordering::Relaxed) != inserted {
            self.deleted.store(inserted, Ordering::Relaxed);
        }
    }
}

struct StoreRows<'a> {
    store: &'a Store,
    key: fn(u64) -> u64,
}

impl Rows for StoreRows<'_> {
    fn statement(&self, rows: usize) -> String {
        self.store.insert(rows)
    }

    fn add(&self, n: u64, call: &mut crate::proto::Call) {
        let key = (self.key)(n);
        let version = self.store.next_version();
        call.int(i64::try_from(key).unwrap_or(i64::MAX));
        call.bytes_by(|out| value::append(out, key, version, self.store.length));
    }

    fn item(&self, n: u64, call: &mut crate::proto::Call) {
        let key = (self.key)(n);
        let version = self.store.next_version();
        put_key(call, &self.store.prefix, key);
        call.bytes_by(|out| value::append(out, key, version, self.store.length));
    }
}

/// Adds a memcached key to a call.
pub fn put_key(call: &mut crate::proto::Call, prefix: &str, key: u64) {
    call.bytes_by(|out| {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(key).as_bytes());
    });
}

fn make_mysql(target: &Target) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    admin.run("drop table if exists kv")?;
    admin
        .run("create table kv (id int not null primary key, value varchar(1024)) engine=InnoDB")?;
    Ok(())
}

/// Maps keys with this prefix to rows of the table.
fn map_prefix(target: &Target, prefix: &str) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    let database = target.database.replace('\'', "''");
    for statement in [
        "delete from ndbmemcache.key_prefixes where container = 'bench_kv'".to_owned(),
        "delete from ndbmemcache.containers where name = 'bench_kv'".to_owned(),
        format!(
            "insert into ndbmemcache.containers (name, db_schema, db_table, key_columns, \
             value_columns) values ('bench_kv', '{database}', 'kv', 'id', 'value')"
        ),
        format!(
            "insert into ndbmemcache.key_prefixes (server_role_id, key_prefix, cluster_id, \
             policy, container) values (0, '{prefix}', 0, 'ndb-only', 'bench_kv')"
        ),
    ] {
        admin.run(&statement)?;
    }
    Ok(())
}

/// Reads a few rows back by an endpoint, so that an experiment does not begin
/// on a store that is not reachable by it.
///
/// # Errors
/// A row is missing or wrong.
pub fn check_reachable(store: &Store, endpoint: &Endpoint) -> Result<()> {
    let workload =
        super::kv::KvWorkload::new(store, endpoint.access, super::kv::Operation::Select, 1, 1);
    let plan = Plan {
        endpoint,
        connections: 1,
        shape: Shape::ThreadEach,
        warm_up: Duration::ZERO,
        time: Duration::from_millis(200),
        pace: load::Pace::default(),
    };
    let outcome = load::run(&plan, &workload)?;
    match outcome.failure {
        Some(failure) => Err(failure),
        None if outcome.requests == 0 => Err(Error::failed("no answer to the first reads")),
        None => Ok(()),
    }
}
