//! Power failures at every operation of the disk while overflow values and partitions change:
//! afterwards every acknowledged commit exists, rows are in their partitions, and no chunk is missing
//! or left over.

use crate::common::by_key;
use porpoise_base::clock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::{Engine, LockMode, Read};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{Table, TableOptions};
use porpoise_rows::ddl::partition::PartitionChange;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, Placement, TableSpec};
use porpoise_rows::{
    BeginOptions, Db, DbOptions, InsertMode, KeyRange, Lookup, RowChange, ScanPosition, ScanSpec,
    UpdateMode,
};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;

const STEPS: i64 = 24;

type Rows = BTreeMap<i64, Vec<u8>>;

fn options(disk: &MemDisk) -> KvMemOptions {
    KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        segment_bytes: 1 << 20,
        checkpoint_bytes: 1 << 21,
        ..KvMemOptions::default()
    }
}

fn open(disk: &MemDisk) -> Option<(Arc<KvMem>, Arc<Db>)> {
    let engine = KvMem::open(options(disk)).ok()?;
    let shared: Arc<dyn Engine> = engine.clone();
    let db = Db::open(shared, clock::system(), DbOptions::default()).ok()?;
    Some((engine, db))
}

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", ColumnType::int(Kind::Int)).not_null(),
        ColumnSpec::new("v", ColumnType::blob(Kind::LongBlob)).not_null(),
    ];
    let key = vec![IndexSpec::primary(&["id"])];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    TableSpec {
        placement: Placement {
            partitioning: Some(by_key(2)),
            colocate: None,
        },
        ..TableSpec::new("d", "t", columns, key, options)
    }
}

/// The value that step `n` stores.
fn value(n: i64) -> Vec<u8> {
    let sizes = [100, 9_000, 300_000, 40_000];
    let size = sizes[usize::try_from(n).unwrap() % sizes.len()];
    let mut bytes = vec![0; size];
    fastrand::Rng::with_seed(n.unsigned_abs()).fill(&mut bytes);
    bytes
}

/// Applies step `n` to the rows.
fn apply(n: i64, rows: &mut Rows) {
    match n % 4 {
        0 | 1 => {
            rows.insert(n, value(n));
        }
        2 => {
            rows.insert(n - 2, value(n));
        }
        _ => {
            rows.remove(&(n - 2));
        }
    }
}

fn state(steps: i64) -> Rows {
    let mut rows = Rows::new();
    (0..steps).for_each(|n| apply(n, &mut rows));
    rows
}

fn table(db: &Db) -> Option<Arc<Table>> {
    db.catalog().table("d", "t").cloned()
}

/// Runs one step; `None` if the disk failed.
fn step(engine: &KvMem, db: &Arc<Db>, n: i64) -> Option<()> {
    let table = table(db)?;
    let key = |id: i64| table.key_prefix(0, &[ValueRef::Int(id)]);
    let mut txn = db.begin(BeginOptions::default()).ok()?;
    let row = |id: i64| vec![Value::Int(id), Value::Bytes(value(n))];
    if n % 4 < 2 {
        txn.insert(&table, vec![row(n)], InsertMode::Plain).ok()?;
    } else {
        let key = key(n - 2);
        let mut old = None;
        let wait = txn.wait();
        txn.lock(
            &Lookup::primary(&table, &[&key]),
            LockMode::Exclusive,
            wait,
            &mut |_, found| {
                old = found.row.map(|r| r.to_buf());
            },
        )
        .ok()?;
        let old = old.expect("the row of the step before");
        if n % 4 == 2 {
            let new = row(n - 2);
            let change = RowChange { key, old, new };
            txn.update(&table, vec![change], UpdateMode::Plain).ok()?;
        } else {
            txn.delete(&table, vec![(key, old)]).ok()?;
        }
    }
    let position = txn.commit().ok()?.position;
    engine.wait_durable(position).ok()?;
    if n % 8 == 5 {
        // All rows are redistributed, with their chunks.
        let count = u32::try_from(n % 5 + 2).unwrap();
        let change = PartitionChange::By(by_key(count));
        db.define(|cx| db.change_partitions(cx, "d", "t", &change))
            .ok()?;
    }
    Some(())
}

/// Runs all steps. Returns whether the table was created, and the number of acknowledged steps.
fn run(disk: &MemDisk) -> (bool, i64) {
    let Some((engine, db)) = open(disk) else {
        return (false, 0);
    };
    let collation = Collation::UTF8MB4_GENERAL_CI;
    let made = db.define(|cx| {
        db.create_database(cx, "d", collation, false).is_ok()
            && db.create_table(cx, &spec()).is_ok()
    });
    if !made {
        return (false, 0);
    }
    for n in 0..STEPS {
        if step(&engine, &db, n).is_none() {
            return (true, n);
        }
    }
    (true, STEPS)
}

fn rows_of(db: &Arc<Db>, table: &Table) -> Rows {
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut rows = Rows::new();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let mut position = ScanPosition::default();
    while txn
        .scan(
            table,
            &spec,
            Read::SNAPSHOT,
            &mut position,
            5,
            &mut |_, row| {
                let (ValueRef::Int(id), ValueRef::Bytes(v)) = (row.get(0), row.get(1)) else {
                    panic!("{row:?}");
                };
                rows.insert(id, v.to_vec());
            },
        )
        .unwrap()
    {}
    rows
}

fn check(disk: &MemDisk, acknowledged: (bool, i64), at: &str) {
    let (_engine, db) = open(disk).unwrap_or_else(|| panic!("{at}: does not open"));
    let Some(table) = table(&db) else {
        assert!(!acknowledged.0, "{at}: the table is gone");
        return;
    };
    let rows = rows_of(&db, &table);
    // The interrupted step is complete, or has no effect.
    let found = (acknowledged.1..=acknowledged.1 + 1).find(|n| rows == state(*n));
    assert!(found.is_some(), "{at}: {:?}", rows.keys());
    let problems = db.define(|cx| db.check_table(cx, &table)).unwrap().1;
    assert!(problems.is_empty(), "{at}: {problems:?}");
    let known: Vec<_> = db
        .catalog()
        .tables
        .values()
        .flat_map(|t| t.all_spaces().collect::<Vec<_>>())
        .collect();
    let spaces = db.engine().spaces().unwrap();
    assert_eq!(spaces.len(), known.len(), "{at}: unreferenced spaces");
}

#[test]
fn a_power_failure_leaves_overflow_values_and_partitions_consistent() {
    let whole = MemDisk::new();
    assert_eq!(run(&whole), (true, STEPS));
    let operations = whole.operations();
    // Every seventh operation, from another start for each of three disks.
    for seed in 0..3u64 {
        let mut stop = 1 + seed * 3;
        while stop < operations {
            let disk = MemDisk::new();
            disk.stop_after(Some(stop));
            let acknowledged = run(&disk);
            let after = disk.after_power_cut(seed * 1000 + stop);
            check(
                &after,
                acknowledged,
                &format!("operation {stop}, seed {seed}"),
            );
            stop += 7;
        }
    }
    check(&whole.after_power_cut(1), (true, STEPS), "the end");
}
