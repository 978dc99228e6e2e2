//! The stores of `porpoise bench native`: the rows, and the engine beneath
//! them, called in this process.
//!
//! Both hold the same rows in an engine of their own, opened as the server
//! opens its. A call that tells of a commit waits for its ticket, as a reply
//! would. Beside them, tables into which posts are inserted with and without
//! foreign keys.

mod posts;

use crate::config::{Config, DurabilityChoice, table};
use crate::{engine, rows};
use porpoise_base::cancel::Cancel;
use porpoise_bench::experiments::native::{Setup, Store, Visitor, Worker};
use porpoise_bench::peers::Durability;
use porpoise_kv::{
    Check, Engine, Key, LockMode, LockRequest, Read, SpaceDurability, SpaceId, SpaceSpec,
    TxnOptions, Wait,
};
use porpoise_rows::catalog::{IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, DdlCx, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, RowBuf, RowChange, Txn, UpdateMode};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATABASE: &str = "bench";
const TABLE: &str = "kv";
/// Rows of one transaction when filling.
const FILL: u64 = 1000;
/// Position of the value's column.
const VALUE: usize = 1;
const LOCK_WAIT: Duration = Duration::from_secs(50);

fn words(error: impl Display) -> String {
    error.to_string()
}

/// Opens and fills both.
///
/// # Errors
/// In words.
pub fn open(setup: &Setup<'_>) -> Result<Vec<Box<dyn Store>>, String> {
    Ok(vec![
        Box::new(Rows::open(setup)?),
        Box::new(Keys::open(setup)?),
        Box::new(posts::Posts::open(setup, 0)?),
        Box::new(posts::Posts::open(setup, 1)?),
        Box::new(posts::Posts::open(setup, 2)?),
    ])
}

fn open_engine(setup: &Setup<'_>, name: &str) -> Result<Arc<dyn Engine>, String> {
    let place: &Path = &setup.directory.join(name);
    std::fs::create_dir_all(place).map_err(words)?;
    let config = Config {
        data_dir: place.to_owned(),
        durability: match setup.durability {
            Durability::Sync => DurabilityChoice::Sync,
            Durability::Interval => DurabilityChoice::Interval,
            Durability::Memory => DurabilityChoice::Memory,
        },
        durability_interval: Duration::from_secs(1),
        ..table::defaults()
    };
    engine::open(&config).map_err(words)
}

/// A table `kv (id INT PRIMARY KEY, value VARCHAR(1024))`.
struct Rows {
    db: Arc<Db>,
    table: Arc<Table>,
}

impl Rows {
    fn open(setup: &Setup<'_>) -> Result<Rows, String> {
        let engine = open_engine(setup, "rows")?;
        let db = rows::open(engine).map_err(words)?;
        make_table(&db).map_err(words)?;
        let table = db.catalog().table(DATABASE, TABLE).cloned();
        let table = table.ok_or("the table that was made is not there")?;
        let rows = Rows { db, table };
        let mut from = 0;
        while from < setup.rows {
            let to = setup.rows.min(from + FILL);
            rows.fill(from..to, setup.value).map_err(words)?;
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
        // The directory goes with it: nothing is left to be lost.
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
    }
}

/// Runs definitions as a session would.
fn definition(
    db: &Db,
    run: impl FnOnce(&DdlCx<'_>) -> Result<(), porpoise_rows::Error>,
) -> Result<(), porpoise_rows::Error> {
    let (mdl, cancel) = (db.mdl().session(), Cancel::default());
    run(&DdlCx {
        mdl: &mdl,
        deadline: db.clock().now() + LOCK_WAIT,
        cancel: &cancel,
        foreign_key_checks: true,
        now: db.clock().unix_micros(),
    })
}

fn options() -> TableOptions {
    TableOptions {
        engine: "InnoDB".to_owned(),
        collation: Collation::UTF8MB4_0900_AI_CI,
        comment: String::new(),
        memory: false,
        other: Vec::new(),
        created: 0,
    }
}

fn make_table(db: &Db) -> Result<(), porpoise_rows::Error> {
    let collation = Collation::UTF8MB4_0900_AI_CI;
    definition(db, |cx| {
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
            using_hash: false,
            comment: String::new(),
            invisible: false,
        }],
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options: options(),
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
            reader: self.db.begin(BeginOptions::default()).map_err(words)?,
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
        self.reader
            .get_rows(table, &encoded, Read::SNAPSHOT, &mut |n, row| {
                let found = row.map(|row| row.get(VALUE));
                visit(
                    n,
                    found.and_then(|value| match value {
                        ValueRef::Bytes(bytes) => Some(bytes),
                        _ => None,
                    }),
                );
            })?;
        Ok(self.of.db.engine().wait_durable(self.reader.seen())?)
    }

    /// False if there is no such row.
    fn try_update(&mut self, key: u64, value: &[u8]) -> Result<bool, porpoise_rows::Error> {
        let primary = self.key(key);
        let table = &self.of.table;
        let mut txn = self.of.db.begin(BeginOptions::default())?;
        let (wait, mut old) = (txn.wait(), None);
        txn.lock_rows(
            table,
            &[&primary],
            LockMode::Update,
            wait,
            &mut |_, locked| old = locked.row.map(|row| row.to_buf()),
        )?;
        let Some(old) = old else {
            return Ok(false);
        };
        let new = vec![Value::Int(key.cast_signed()), Value::Bytes(value.to_vec())];
        let change = RowChange {
            key: primary,
            old: RowBuf::from(old.bytes().to_vec()),
            new,
        };
        txn.update(table, vec![change], UpdateMode::Plain)?;
        let commit = txn.commit()?;
        self.of.db.engine().wait_durable(commit.ticket)?;
        Ok(true)
    }
}

impl Worker for RowWorker<'_> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        self.try_read(keys, visit).map_err(words)
    }

    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        if self.try_update(key, value).map_err(words)? {
            return Ok(());
        }
        Err(format!("there is no row {key} to be updated"))
    }
}

/// A space of the engine alone: eight bytes of key, the value's bytes.
struct Keys {
    engine: Arc<dyn Engine>,
    space: SpaceId,
}

impl Keys {
    fn open(setup: &Setup<'_>) -> Result<Keys, String> {
        let engine = open_engine(setup, "engine")?;
        let spec = SpaceSpec {
            group: 1,
            partition: 0,
            durability: SpaceDurability::Server,
            point_lookups: true,
        };
        let spaces = engine.create_spaces(&[spec]).map_err(words)?;
        let space = *spaces.first().ok_or("no space was made")?;
        let keys = Keys { engine, space };
        let mut from = 0;
        while from < setup.rows {
            let to = setup.rows.min(from + FILL);
            keys.fill(from..to, setup.value).map_err(words)?;
            from = to;
        }
        Ok(keys)
    }

    fn fill(
        &self,
        keys: std::ops::Range<u64>,
        value: &dyn Fn(u64) -> Vec<u8>,
    ) -> Result<(), porpoise_kv::Error> {
        let mut txn = self.engine.begin(TxnOptions::default())?;
        for n in keys {
            let key = n.to_be_bytes();
            txn.put(Key::new(self.space, &key), &value(n), Check::FirstCommitter)?;
        }
        txn.commit()?;
        Ok(())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The directory goes with it: nothing is left to be lost.
        let _ = self.engine.shutdown();
    }
}

impl Store for Keys {
    fn name(&self) -> &str {
        "the engine alone"
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(KeyWorker {
            of: self,
            reader: self.engine.begin(TxnOptions::default()).map_err(words)?,
        }))
    }
}

struct KeyWorker<'a> {
    of: &'a Keys,
    reader: Box<dyn porpoise_kv::Txn>,
}

impl KeyWorker<'_> {
    fn try_read(
        &mut self,
        keys: &[u64],
        visit: &mut Visitor<'_>,
    ) -> Result<(), porpoise_kv::Error> {
        let encoded: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let encoded: Vec<Key<'_>> = encoded
            .iter()
            .map(|key| Key::new(self.of.space, key))
            .collect();
        self.reader.refresh()?;
        self.reader.get(Read::SNAPSHOT, &encoded, visit)?;
        self.of.engine.wait_durable(self.reader.seen())
    }

    /// False if there is no such row.
    fn try_update(&mut self, key: u64, value: &[u8]) -> Result<bool, porpoise_kv::Error> {
        let bytes = key.to_be_bytes();
        let key = Key::new(self.of.space, &bytes);
        let mut txn = self.of.engine.begin(TxnOptions::default())?;
        let request = LockRequest {
            key,
            mode: LockMode::Update,
        };
        let wait = Wait::Until(Instant::now() + LOCK_WAIT);
        let mut is_there = false;
        txn.lock(&[request], wait, &mut |_, found| {
            is_there = found.value.is_some();
        })?;
        if !is_there {
            return Ok(false);
        }
        txn.put(key, value, Check::Locked)?;
        let commit = txn.commit()?;
        self.of.engine.wait_durable(commit.ticket)?;
        Ok(true)
    }
}

impl Worker for KeyWorker<'_> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        self.try_read(keys, visit).map_err(words)
    }

    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        if self.try_update(key, value).map_err(words)? {
            return Ok(());
        }
        Err(format!("there is no row {key} to be updated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_updated_is_read_in_both() {
        let home = tempfile::tempdir().unwrap();
        let setup = Setup {
            rows: 2345,
            durability: Durability::Sync,
            directory: home.path(),
            value: &|key| format!("row {key}").into_bytes(),
        };
        for store in open(&setup).unwrap() {
            if store.takes_inserts() {
                continue;
            }
            let mut worker = store.worker().unwrap();
            worker.update(7, b"another").unwrap();
            assert!(worker.update(2345, b"of no row").is_err());
            let mut found = Vec::new();
            worker
                .read(&[7, 2344, 2345], &mut |n, value| {
                    found.push((n, value.map(<[u8]>::to_vec)));
                })
                .unwrap();
            found.sort();
            let expected = [
                (0, Some(b"another".to_vec())),
                (1, Some(b"row 2344".to_vec())),
                (2, None),
            ];
            assert_eq!(found, expected, "{}", store.name());
        }
    }
}
