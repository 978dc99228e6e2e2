//! Power failures at every operation of the disk while a definition changes: after the restart the
//! table is as before or as after, with all its index entries and parents, and no space is left
//! over.

use porpoise_base::disk::MemDisk;
use porpoise_kv::{CommitPosition, Durability, Engine};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{ColumnDefault, FkAction, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::partition::Exchange;
use porpoise_rows::ddl::{AlterOp, ColumnSpec, FkSpec, IndexSpec, LockLevel, Position, TableSpec};
use porpoise_rows::partition::{Method, Partition, PartitionBound, Partitioning};
use porpoise_rows::{BeginOptions, Db, InsertMode, show};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: i64 = 40;

fn engine(disk: &MemDisk) -> Option<Arc<KvMem>> {
    KvMem::open(KvMemOptions {
        dir: Some(PathBuf::from("/store")),
        disk: Arc::new(disk.clone()),
        durability: Durability::Sync,
        segment_bytes: 1 << 16,
        ..KvMemOptions::default()
    })
    .ok()
}

fn column(name: &str) -> ColumnSpec {
    ColumnSpec::new(name, ColumnType::int(Kind::Int))
}

fn create(db: &Arc<Db>, name: &str) {
    let columns = vec![column("id"), column("a")];
    let key = vec![IndexSpec::primary(&["id"])];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    let spec = TableSpec::new("d", name, columns, key, options);
    db.define(|cx| db.create_table(cx, &spec)).unwrap();
    let table = get(db, name).unwrap();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let rows = (1..=ROWS).map(|n| vec![Value::Int(n), Value::Int(1 + n / 2)]);
    txn.insert(&table, rows.collect(), InsertMode::Plain)
        .unwrap();
    let done = txn.commit().unwrap();
    db.engine().wait_durable(done.position).unwrap();
}

fn get(db: &Db, name: &str) -> Option<Arc<Table>> {
    db.catalog().table("d", name).cloned()
}

fn family(disk: &MemDisk) -> Arc<KvMem> {
    let engine = engine(disk).unwrap();
    let db = crate::common::open(engine.clone());
    let general = Collation::UTF8MB4_GENERAL_CI;
    db.define(|cx| db.create_database(cx, "d", general, false))
        .unwrap();
    create(&db, "parent");
    create(&db, "t");
    engine
}

/// A definition statement of the table `t`.
type Change = fn(&Arc<Db>) -> porpoise_rows::Result<CommitPosition>;

fn alter(db: &Arc<Db>, ops: &[AlterOp]) -> porpoise_rows::Result<CommitPosition> {
    db.define(|cx| db.alter_table(cx, "d", "t", ops))
        .map(|done| done.position)
}

/// A table that gets its name when its rows are committed.
fn filled(db: &Arc<Db>) -> porpoise_rows::Result<CommitPosition> {
    let columns = vec![column("id"), column("a")];
    let key = vec![IndexSpec::primary(&["id"])];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    let mut spec = TableSpec::new("d", "filled", columns, key, options);
    spec.foreign_keys
        .push(FkSpec::new(&["a"], "parent", &["id"]));
    let table = db.define(|cx| db.begin_table(cx, &spec))?.unwrap();
    let mut txn = db.begin(BeginOptions::default())?;
    let rows = (1..=ROWS).map(|n| vec![Value::Int(n), Value::Int(n)]);
    txn.insert(&table, rows.collect(), InsertMode::Plain)?;
    txn.commit()?;
    db.define(|cx| db.name_table(cx, &spec, &table))
        .map(|done| done.position)
}

const CHANGES: &[(&str, Change)] = &[
    ("index", |db| {
        let plain = IndexSpec::new(IndexKind::Plain, Some("k"), &["a"]);
        alter(db, &[AlterOp::AddIndex(plain)])
    }),
    ("online indexes", |db| {
        let plain = IndexSpec::new(IndexKind::Plain, Some("k"), &["a"]);
        let unique = IndexSpec::new(IndexKind::Unique, Some("u"), &["a", "id"]);
        let online = AlterOp::Lock(LockLevel::None);
        let ops = [AlterOp::AddIndex(plain), AlterOp::AddIndex(unique), online];
        alter(db, &ops)
    }),
    ("foreign key", |db| {
        let key = FkSpec {
            name: Some("f".to_owned()),
            on_delete: FkAction::Cascade,
            ..FkSpec::new(&["a"], "parent", &["id"])
        };
        alter(db, &[AlterOp::AddForeignKey(key)])
    }),
    ("online foreign key", |db| {
        let key = FkSpec {
            name: Some("f".to_owned()),
            ..FkSpec::new(&["a"], "parent", &["id"])
        };
        let ops = [AlterOp::AddForeignKey(key), AlterOp::Lock(LockLevel::None)];
        alter(db, &ops)
    }),
    ("online copy", |db| {
        let mut wide = column("a");
        wide.ty = ColumnType::int(Kind::BigInt);
        let ops = [
            AlterOp::ChangeColumn("a".to_owned(), wide, Position::Default),
            AlterOp::Lock(LockLevel::None),
        ];
        alter(db, &ops)
    }),
    ("columns", |db| {
        let mut added = column("b");
        added.default = Some(ColumnDefault::Literal(Value::Int(3)));
        let ops = [
            AlterOp::DropColumn("a".to_owned()),
            AlterOp::AddColumn(added, Position::First),
        ];
        alter(db, &ops)
    }),
    ("type", |db| {
        let mut wide = column("a");
        wide.ty = ColumnType::int(Kind::BigInt);
        let ops = [
            AlterOp::ChangeColumn("a".to_owned(), wide, Position::Default),
            AlterOp::AddIndex(IndexSpec::new(IndexKind::Unique, Some("u"), &["a", "id"])),
        ];
        alter(db, &ops)
    }),
    ("primary key", |db| alter(db, &[AlterOp::DropPrimaryKey])),
    ("table with rows", filled),
    ("rename", |db| {
        alter(db, &[AlterOp::RenameTo("d".to_owned(), "u".to_owned())])
    }),
    ("truncate", |db| {
        db.define(|cx| db.truncate(cx, "d", "t"))
            .map(|done| done.position)
    }),
    ("drop", |db| {
        let names = [("d".to_owned(), "t".to_owned())];
        db.define(|cx| db.drop_tables(cx, &names, false))
            .map(|done| done.position)
    }),
];

/// The definition and the rows of the table that was `t`, as text.
fn picture(db: &Arc<Db>) -> String {
    let Some(table) = get(db, "t").or_else(|| get(db, "u")) else {
        return "none".to_owned();
    };
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let rows = crate::common::all_in(&mut txn, &table);
    txn.rollback();
    let more = get(db, "filled").map(|filled| {
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        let rows = crate::common::all_in(&mut txn, &filled);
        txn.rollback();
        format!("{} {rows:?}", show::create_table(&filled, None))
    });
    format!("{} {rows:?} {more:?}", show::create_table(&table, None))
}

/// Checks that rows, entries and constraints match, and that only referenced spaces exist.
fn check_consistency(db: &Arc<Db>, what: &str) {
    let mut named = 0;
    for table in db.catalog().tables.values() {
        let (_, problems) = db.define(|cx| db.check_table(cx, table)).unwrap();
        assert_eq!(problems, Vec::new(), "{what}");
        named += table.all_spaces().count();
    }
    assert_eq!(db.engine().spaces().unwrap().len(), named, "{what}");
}

/// Cuts the power at every operation of the disk while `change` runs.
fn fail_at_every_operation(
    name: &str,
    family: &dyn Fn(&MemDisk) -> Arc<KvMem>,
    change: &dyn Fn(&Arc<Db>) -> porpoise_rows::Result<CommitPosition>,
    picture: &dyn Fn(&Arc<Db>) -> String,
) {
    let disk = MemDisk::new();
    let whole = family(&disk);
    let db = crate::common::open(whole.clone());
    let before = picture(&db);
    let start = disk.operations();
    let position = change(&db).unwrap();
    whole.wait_durable(position).unwrap();
    let after = picture(&db);
    whole.shutdown().unwrap();
    let operations = disk.operations() - start;
    drop((db, whole));
    assert_ne!(before, after);
    let (mut old, mut new) = (0, 0);
    for cut in 0..=operations {
        let disk = MemDisk::new();
        let engine = family(&disk);
        let db = crate::common::open(engine);
        disk.stop_after(Some(disk.operations() + cut));
        let result = change(&db).and_then(|position| Ok(db.engine().wait_durable(position)?));
        let acknowledged = result.is_ok();
        let found = disk.after_power_cut(cut * 31);
        drop(db);
        let what = format!("{name}, cut at {cut} of {operations}");
        let engine = self::engine(&found).expect(&what);
        let db = crate::common::open(engine);
        let now = picture(&db);
        assert!(now == before || now == after, "{what}: {now}");
        assert!(now == after || !acknowledged, "{what} was lost");
        check_consistency(&db, &what);
        old += usize::from(now == before);
        new += usize::from(now == after);
    }
    assert!(old > 0 && new > 0, "{name}: {old} and {new}");
}

#[test]
fn a_power_failure_leaves_a_definition_as_before_or_as_after() {
    for (name, change) in CHANGES {
        fail_at_every_operation(name, &family, change, &picture);
    }
}

/// A table with two partitions and one without, with or without a primary key.
fn exchangeable(disk: &MemDisk, has_key: bool) -> Arc<KvMem> {
    let engine = engine(disk).unwrap();
    let db = crate::common::open(engine.clone());
    let general = Collation::UTF8MB4_GENERAL_CI;
    db.define(|cx| db.create_database(cx, "d", general, false))
        .unwrap();
    let bound = |n: i64| PartitionBound::LessThan(vec![Some(Value::Int(n))]);
    let partition = |(id, bound)| Partition {
        id,
        name: format!("p{id}"),
        bound,
        comment: String::new(),
        subpartitions: Vec::new(),
    };
    let by = Partitioning {
        method: Method::RangeColumns,
        columns: vec![0],
        expr: None,
        algorithm: None,
        by_number: false,
        partitions: [(0, bound(100)), (1, bound(200))].map(partition).to_vec(),
        next_id: 2,
        sub: None,
    };
    for (name, partitioning, first) in [("t", Some(by), 90), ("other", None, 150)] {
        let mut columns = vec![column("id"), column("a")];
        columns.push(ColumnSpec::new(
            "body",
            ColumnType::text(Kind::LongText, general),
        ));
        let mut keys = vec![IndexSpec::new(IndexKind::Plain, Some("a"), &["a"])];
        if has_key {
            keys.push(IndexSpec::primary(&["id"]));
        }
        let mut spec = TableSpec::new("d", name, columns, keys, TableOptions::new(general));
        spec.placement.partitioning = partitioning;
        db.define(|cx| db.create_table(cx, &spec)).unwrap();
        let table = get(&db, name).unwrap();
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        let body = Value::Bytes(vec![b'x'; 20_000]);
        let row = |n| vec![Value::Int(n), Value::Int(n % 7), body.clone()];
        txn.insert(
            &table,
            (first..first + 20).map(row).collect(),
            InsertMode::Plain,
        )
        .unwrap();
        let done = txn.commit().unwrap();
        db.engine().wait_durable(done.position).unwrap();
    }
    engine
}

#[test]
fn a_power_failure_leaves_a_partition_exchange_as_before_or_as_after() {
    let named = |name: &str| ("d".to_owned(), name.to_owned());
    let change = |db: &Arc<Db>| {
        let exchange = Exchange {
            table: named("t"),
            partition: "p1".to_owned(),
            with: named("other"),
        };
        db.define(|cx| db.exchange_partition(cx, &exchange))
            .map(|done| done.position)
    };
    let rows = |db: &Arc<Db>, name: &str| {
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        let rows = crate::common::all_in(&mut txn, &get(db, name).unwrap());
        txn.rollback();
        let ids = rows.into_iter().map(|row| format!("{:?}", &row[..2]));
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids.join(" ")
    };
    let picture = |db: &Arc<Db>| format!("{} / {}", rows(db, "t"), rows(db, "other"));
    // With keys the spaces change owners, without them the rows are copied.
    for (name, has_key) in [("exchange", true), ("exchange by copies", false)] {
        let family = |disk: &MemDisk| exchangeable(disk, has_key);
        fail_at_every_operation(name, &family, &change, &picture);
    }
}
