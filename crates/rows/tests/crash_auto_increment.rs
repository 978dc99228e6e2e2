//! Power failures at any operation of the disk while ids are generated: no id is generated twice,
//! whether or not its row survived, with the log synced at every commit and at intervals.

use crate::common::{begin, get};
use porpoise_base::disk::MemDisk;
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{AutoIncOptions, Db, InsertMode};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn open(disk: &MemDisk, durability: Durability) -> Arc<Db> {
    let engine = KvMem::open(KvMemOptions {
        dir: Some(PathBuf::from("/store")),
        disk: Arc::new(disk.clone()),
        durability,
        segment_bytes: 1 << 16,
        ..KvMemOptions::default()
    });
    crate::common::open(engine.unwrap())
}

/// A disk with the table, whose ids have a type.
fn created(durability: Durability, kind: Kind) -> MemDisk {
    let disk = MemDisk::new();
    let db = open(&disk, durability);
    let id = ColumnSpec {
        auto_increment: true,
        ..ColumnSpec::new("id", ColumnType::int(kind))
    };
    let columns = vec![id, ColumnSpec::new("n", ColumnType::int(Kind::Int))];
    let general = Collation::UTF8MB4_GENERAL_CI;
    let key = vec![IndexSpec::primary(&["id"])];
    let spec = TableSpec::new("d", "posts", columns, key, TableOptions::new(general));
    let done = db.define(|cx| {
        db.create_database(cx, "d", general, false).unwrap();
        db.create_table(cx, &spec).unwrap()
    });
    db.engine().wait_durable(done.position).unwrap();
    disk.after_power_cut(0)
}

/// Inserts rows until the disk fails, and adds every id that was generated to `used`.
fn hand_out(db: &Arc<Db>, prefetch: u64, used: &mut BTreeSet<u64>) {
    let posts = get(db, "posts");
    let options = AutoIncOptions {
        prefetch,
        ..AutoIncOptions::default()
    };
    for n in 0..12 {
        let mut rows = vec![vec![Value::Null, Value::Int(n)]; 3];
        let mut txn = begin(db);
        let Ok(first) = txn.assign_auto_increment(&posts, &mut rows, options) else {
            return;
        };
        let first = first.unwrap();
        for id in first..first + 3 {
            assert!(used.insert(id), "{id} was handed out before");
        }
        let _ = txn.insert(&posts, rows, InsertMode::Plain);
        let _ = txn.commit();
    }
}

#[test]
fn no_id_is_generated_again_after_a_power_failure() {
    let interval = Durability::Interval(Duration::from_secs(60));
    for durability in [Durability::Sync, interval] {
        for prefetch in [1, 5, 256] {
            let mut most = 0;
            for cut in 0..40 {
                let mut disk = created(durability, Kind::Int);
                let mut used = BTreeSet::new();
                for life in 0..3 {
                    let db = open(&disk, durability);
                    disk.stop_after(Some(disk.operations() + cut));
                    hand_out(&db, prefetch, &mut used);
                    disk = disk.after_power_cut(cut * 3 + life);
                }
                most = most.max(used.len());
            }
            assert!(most >= 36, "all rows of some life were inserted: {most}");
        }
    }
}

#[test]
fn small_ids_outlive_crashes() {
    for (kind, lives) in [(Kind::TinyInt, 5), (Kind::SmallInt, 40)] {
        let mut disk = created(Durability::Sync, kind);
        for life in 0..lives {
            let db = open(&disk, Durability::Sync);
            let posts = get(&db, "posts");
            let mut rows = vec![vec![Value::Null, Value::Int(life)]; 3];
            let mut txn = begin(&db);
            let ids = AutoIncOptions {
                prefetch: 256,
                ..AutoIncOptions::default()
            };
            let first = txn.assign_auto_increment(&posts, &mut rows, ids);
            assert!(first.is_ok(), "{kind:?}, life {life}: {first:?}");
            txn.insert(&posts, rows, InsertMode::Plain).unwrap();
            let done = txn.commit().unwrap();
            db.engine().wait_durable(done.position).unwrap();
            disk = disk.after_power_cut(0);
        }
    }
}
