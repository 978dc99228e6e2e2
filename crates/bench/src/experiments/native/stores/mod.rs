//! The stores of `bench native`: the rows, and the engine beneath them, called
//! in this process.
//!
//! Both hold the same rows in an engine of their own, opened by the server's
//! own functions. A call that commits waits until the commit is durable, as a
//! reply would. The engine alone ([`keys`]) also reports the parts of its memory,
//! and the duration of a start. A third store ([`posts`]) has tables into which posts are
//! inserted with and without foreign keys.

mod keys;
mod posts;

use super::{ScanVisitor, Setup, Store, Visitor, Work, Worker};
use crate::peers::Durability;
use porpoise_base::cancel::Cancel;
use porpoise_base::disk;
use porpoise_kv::{Engine, LockMode, Read};
use porpoise_rows::catalog::{IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, DdlCx, IndexSpec, TableSpec};
use porpoise_rows::{
    BeginOptions, Db, InsertMode, KeyRange, Lookup, RowChange, ScanPosition, ScanSpec, Txn,
    UpdateMode,
};
use porpoise_server::config::{Config, DurabilityChoice, table};
use porpoise_server::{engine, rows};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DATABASE: &str = "bench";
const TABLE: &str = "kv";
/// Rows of one transaction when filling.
const FILL: u64 = 1000;
/// Position of the key's column.
const ID: usize = 0;
/// Position of the value's column.
const VALUE: usize = 1;
const LOCK_WAIT: Duration = Duration::from_secs(50);

fn error_text(error: impl Display) -> String {
    error.to_string()
}

/// Names by which stores are chosen.
const STORES: [&str; 3] = ["rows", "engine", "posts"];

/// Opens and fills the chosen stores.
///
/// # Errors
/// A message that says what failed.
pub fn open(setup: &Setup<'_>) -> Result<Vec<Box<dyn Store>>, String> {
    let options = setup.options;
    if let Some(word) = options
        .stores
        .iter()
        .find(|s| !STORES.contains(&s.as_str()))
    {
        let known = STORES.join(", ");
        return Err(format!("--stores {word:?}: there are {known}"));
    }
    let mut stores: Vec<Box<dyn Store>> = Vec::new();
    let reads = Work::ALL.into_iter().filter(|work| *work != Work::Insert);
    if options.has_store("rows") && reads.into_iter().any(|work| options.has(work)) {
        stores.push(Box::new(Rows::open(setup)?));
    }
    if options.has_store("engine") {
        stores.push(Box::new(keys::Keys::open(setup)?));
    }
    if options.has_store("posts") && options.has(Work::Insert) {
        for keys in 0..=2 {
            stores.push(Box::new(posts::Posts::open(setup, keys)?));
        }
    }
    Ok(stores)
}

/// Configuration of such an engine.
fn config(setup: &Setup<'_>, name: &str) -> Result<Config, String> {
    let place: &Path = &setup.directory.join(name);
    std::fs::create_dir_all(place).map_err(error_text)?;
    let mut config = table::defaults();
    place.clone_into(&mut config.data_dir);
    config.durability = match setup.durability {
        Durability::Sync => DurabilityChoice::Sync,
        Durability::Interval => DurabilityChoice::Interval,
        Durability::Memory => DurabilityChoice::Memory,
    };
    config.durability_interval = Duration::from_secs(1);
    Ok(config)
}

fn open_engine(setup: &Setup<'_>, name: &str) -> Result<Arc<dyn Engine>, String> {
    engine::open(&config(setup, name)?, disk::real()).map_err(error_text)
}

/// A table `kv (id INT PRIMARY KEY, value VARCHAR(1024))`.
struct Rows {
    db: Arc<Db>,
    table: Arc<Table>,
}

impl Rows {
    fn open(setup: &Setup<'_>) -> Result<Rows, String> {
        let engine = open_engine(setup, "rows")?;
        let db = rows::open(engine).map_err(error_text)?;
        make_table(&db).map_err(error_text)?;
        let table = db.catalog().table(DATABASE, TABLE).cloned();
        let table = table.ok_or("the table that was made is not there")?;
        let rows = Rows { db, table };
        let mut from = 0;
        while from < setup.rows {
            let to = setup.rows.min(from + FILL);
            rows.fill(from..to, setup.value).map_err(error_text)?;
            from = to;
        }
        Ok(rows)
    }

    fn fill(
        &self,
        keys: std::ops::Range<u64>,
        value: &dyn Fn(u64) -> Vec<u8>,
    ) -> Result<(), porpoise_rows::Error> {
        let rows = keys.map(|n| vec![Value::Int(n.cast_signed()), Value::Bytes(value(n))]);
        let mut txn = self.db.begin(BeginOptions::default())?;
        txn.insert(&self.table, rows.collect(), InsertMode::Plain)?;
        txn.commit()?;
        Ok(())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // The directory is removed with it, so that a failure to close loses nothing.
        let _ = self.db.engine().shutdown();
    }
}

fn column(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        name: name.to_owned(),
        ty,
        nullable: Some(false),
        default: None,
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
        invisible: false,
    }
}

/// Executes statements that define databases and tables, as a session would.
fn define(
    db: &Db,
    run: impl FnOnce(&DdlCx<'_>) -> Result<(), porpoise_rows::Error>,
) -> Result<(), porpoise_rows::Error> {
    let (metadata_locks, cancel) = (db.metadata_locks().session(), Cancel::default());
    run(&DdlCx {
        metadata_locks: &metadata_locks,
        deadline: db.clock().now() + LOCK_WAIT,
        cancel: &cancel,
        foreign_key_checks: true,
        now: db.clock().unix_micros(),
        statement: None,
        memory: None,
    })
}

fn make_table(db: &Db) -> Result<(), porpoise_rows::Error> {
    let collation = Collation::UTF8MB4_0900_AI_CI;
    define(db, |cx| {
        db.create_database(cx, DATABASE, collation, true)?;
        db.create_table(cx, &kv_table(collation))?;
        Ok(())
    })
}

fn kv_table(collation: Collation) -> TableSpec {
    TableSpec {
        database: DATABASE.to_owned(),
        name: TABLE.to_owned(),
        placement: Default::default(),
        if_not_exists: true,
        columns: vec![
            column("id", ColumnType::int(Kind::Int)),
            column("value", ColumnType::varchar(1024, collation)),
        ],
        indexes: vec![IndexSpec {
            name: None,
            kind: IndexKind::Primary,
            parts: vec![("id".to_owned(), None, false)],
            expressions: Vec::new(),
            using_hash: false,
            comment: String::new(),
            invisible: false,
            full_text: None,
        }],
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options: TableOptions::new(Collation::UTF8MB4_0900_AI_CI),
        auto_increment: None,
    }
}

impl Store for Rows {
    fn name(&self) -> &str {
        "Porpoise rows"
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(RowWorker {
            of: self,
            reader: self.db.begin(BeginOptions::default()).map_err(error_text)?,
        }))
    }
}

struct RowWorker<'a> {
    of: &'a Rows,
    reader: Txn,
}

impl RowWorker<'_> {
    fn key(&self, key: u64) -> Vec<u8> {
        let id = ValueRef::Int(key.cast_signed());
        self.of.table.key_prefix(0, &[id])
    }

    fn try_read(
        &mut self,
        keys: &[u64],
        visit: &mut Visitor<'_>,
    ) -> Result<(), porpoise_rows::Error> {
        let encoded: Vec<Vec<u8>> = keys.iter().map(|key| self.key(*key)).collect();
        let encoded: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        self.reader.refresh()?;
        let table = &self.of.table;
        self.reader.look_up(
            &Lookup::primary(table, &encoded),
            Read::SNAPSHOT,
            &mut |n, row| {
                let row = row.map(|found| found.row);
                let found = row.map(|row| row.get(VALUE));
                visit(
                    n,
                    found.and_then(|value| match value {
                        ValueRef::Bytes(bytes) => Some(bytes),
                        _ => None,
                    }),
                );
            },
        )?;
        Ok(self.of.db.engine().wait_durable(self.reader.seen())?)
    }

    fn try_scan(
        &mut self,
        from: u64,
        count: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<(), porpoise_rows::Error> {
        let range = KeyRange {
            start: self.key(from),
            end: None,
        };
        let spec = ScanSpec {
            index: 0,
            ranges: vec![range],
            reverse: false,
            entries_only: false,
        };
        self.reader.refresh()?;
        let (read, mut position) = (Read::SNAPSHOT, ScanPosition::default());
        self.reader.scan(
            &self.of.table,
            &spec,
            read,
            &mut position,
            count,
            &mut |_, row| {
                if let (ValueRef::Int(key), ValueRef::Bytes(value)) = (row.get(ID), row.get(VALUE))
                {
                    visit(key.cast_unsigned(), value);
                }
            },
        )?;
        Ok(self.of.db.engine().wait_durable(self.reader.seen())?)
    }

    /// Locks a row and replaces its value. Returns false if there is no such
    /// row.
    fn try_change(
        &mut self,
        key: u64,
        change: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<bool, porpoise_rows::Error> {
        let primary = self.key(key);
        let table = &self.of.table;
        let mut txn = self.of.db.begin(BeginOptions::default())?;
        let (wait, mut old) = (txn.wait(), None);
        txn.lock(
            &Lookup::primary(table, &[&primary]),
            LockMode::Update,
            wait,
            &mut |_, locked| {
                let value = |row: &porpoise_rows::RowRef<'_>| match row.get(VALUE) {
                    ValueRef::Bytes(bytes) => bytes.to_vec(),
                    _ => Vec::new(),
                };
                old = locked.row.map(|row| (row.to_buf(), value(&row)));
            },
        )?;
        let Some((old, value)) = old else {
            return Ok(false);
        };
        let new = vec![Value::Int(key.cast_signed()), Value::Bytes(change(&value))];
        let change = RowChange {
            key: primary,
            old,
            new,
        };
        txn.update(table, vec![change], UpdateMode::Plain)?;
        let commit = txn.commit()?;
        self.of.db.engine().wait_durable(commit.position)?;
        Ok(true)
    }
}

fn no_row(key: u64) -> String {
    format!("there is no row {key} to be updated")
}

impl Worker for RowWorker<'_> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        self.try_read(keys, visit).map_err(error_text)
    }

    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        let done = self
            .try_change(key, |_| value.to_vec())
            .map_err(error_text)?;
        done.then_some(()).ok_or_else(|| no_row(key))
    }

    fn scan(&mut self, from: u64, count: usize, visit: &mut ScanVisitor<'_>) -> Result<(), String> {
        self.try_scan(from, count, visit).map_err(error_text)
    }

    fn modify(&mut self, key: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), String> {
        let changed = self.try_change(key, |old| {
            let mut value = old.to_vec();
            change(&mut value);
            value
        });
        changed
            .map_err(error_text)?
            .then_some(())
            .ok_or_else(|| no_row(key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::NativeOptions;
    use super::*;

    #[test]
    fn updated_rows_are_read_in_every_store() {
        let home = tempfile::tempdir().unwrap();
        let setup = Setup {
            rows: 2345,
            durability: Durability::Sync,
            directory: home.path(),
            value: &|key| format!("row {key}").into_bytes(),
            options: &NativeOptions::default(),
        };
        let stores = open(&setup).unwrap();
        assert_eq!(stores.len(), 5);
        for store in stores {
            if !store.offers(Work::Update) {
                continue;
            }
            let mut worker = store.worker().unwrap();
            worker.update(7, b"another").unwrap();
            assert!(worker.update(2345, b"of no row").is_err());
            let changed = worker.modify(7, &mut |value| value.extend_from_slice(b" row"));
            changed.unwrap();
            let mut found = Vec::new();
            worker
                .read(&[7, 2344, 2345], &mut |n, value| {
                    found.push((n, value.map(<[u8]>::to_vec)));
                })
                .unwrap();
            found.sort();
            let expected = [
                (0, Some(b"another row".to_vec())),
                (1, Some(b"row 2344".to_vec())),
                (2, None),
            ];
            assert_eq!(found, expected, "{}", store.name());
            let mut scanned = Vec::new();
            worker
                .scan(6, 3, &mut |key, value| {
                    scanned.push((key, String::from_utf8_lossy(value).into_owned()));
                })
                .unwrap();
            let expected = [(6, "row 6"), (7, "another row"), (8, "row 8")];
            let expected = expected.map(|(key, value)| (key, value.to_owned()));
            assert_eq!(scanned, expected, "{}", store.name());
        }
    }

    #[test]
    fn only_what_is_wanted_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let opened = |works: &[Work], stores: &[&str]| {
            let options = NativeOptions {
                works: works.to_vec(),
                stores: stores.iter().map(|&s| s.to_owned()).collect(),
                ..NativeOptions::default()
            };
            open(&Setup {
                rows: 10,
                durability: Durability::Memory,
                directory: home.path(),
                value: &|_| Vec::new(),
                options: &options,
            })
            .map(|stores| stores.len())
        };
        assert_eq!(opened(&[Work::ReadOne], &[]), Ok(2));
        assert_eq!(opened(&[Work::Insert], &[]), Ok(4));
        assert_eq!(opened(&[], &["engine"]), Ok(1));
        assert!(opened(&[], &["shop"]).unwrap_err().contains("shop"));
    }
}
