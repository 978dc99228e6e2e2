//! Power goes off at any operation of the disk while ids are handed out: no
//! id is handed out a second time, whether or not its row survived, with the
//! log synced at every commit and with an interval between syncs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod common;

use common::{begin, get};
use porpoise_base::cancel::Cancel;
use porpoise_base::disk::MemDisk;
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{IndexKind, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, DdlCx, IndexSpec, Placement, TableSpec};
use porpoise_rows::{AutoIncOptions, Db, DbOptions, InsertMode};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open(disk: &MemDisk, durability: Durability) -> Arc<Db> {
    let engine = KvMem::open(KvMemOptions {
        dir: Some(PathBuf::from("/store")),
        disk: Arc::new(disk.clone()),
        durability,
        segment_bytes: 1 << 16,
        ..KvMemOptions::default()
    });
    let clock = porpoise_base::clock::system();
    Db::open(engine.unwrap(), clock, DbOptions::default()).unwrap()
}

/// A disk with the table on it, its ids of a kind.
fn created(durability: Durability, kind: Kind) -> MemDisk {
    let disk = MemDisk::new();
    let db = open(&disk, durability);
    let (mdl, cancel) = (db.mdl().session(), Cancel::new());
    let cx = DdlCx {
        mdl: &mdl,
        deadline: Instant::now() + Duration::from_secs(5),
        cancel: &cancel,
        foreign_key_checks: true,
        now: 0,
    };
    let column = |name: &str, auto_increment: bool| ColumnSpec {
        name: name.to_owned(),
        ty: ColumnType::int(if auto_increment { kind } else { Kind::Int }),
        nullable: None,
        default: None,
        on_update_now: false,
        auto_increment,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
    };
    let general = Collation::UTF8MB4_GENERAL_CI;
    db.create_database(&cx, "d", general, false).unwrap();
    let spec = TableSpec {
        database: "d".to_owned(),
        name: "posts".to_owned(),
        if_not_exists: false,
        columns: vec![column("id", true), column("n", false)],
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
        options: TableOptions {
            engine: "InnoDB".to_owned(),
            collation: general,
            comment: String::new(),
            memory: false,
            other: Vec::new(),
            created: 0,
        },
        auto_increment: None,
        placement: Placement::default(),
    };
    let done = db.create_table(&cx, &spec).unwrap();
    db.engine().wait_durable(done.ticket).unwrap();
    disk.after_power_cut(0)
}

/// Inserts rows until the disk stops; every id that was handed out.
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
fn no_id_is_handed_out_again_after_a_power_cut() {
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
            db.engine().wait_durable(done.ticket).unwrap();
            disk = disk.after_power_cut(0);
        }
    }
}
