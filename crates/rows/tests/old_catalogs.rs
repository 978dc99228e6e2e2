//! Catalogs of older format versions: they are read and changed, and survive a power failure during
//! the change that rewrites them in the present version. Later versions are refused.

use crate::common::{StoredRows, store_of, store_on, stored_rows};
use porpoise_base::cancel::Cancel;
use porpoise_base::disk::MemDisk;
use porpoise_kv::{CommitPosition, Engine, Key, Read, ScanRange, SpaceId};
use porpoise_kv_mem::KvMem;
use porpoise_rows::catalog::{
    ColumnDefault, Event, EventSchedule, EventState, Expression, Table, TableDef,
};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, DdlCx, Position};
use porpoise_rows::expressions::{CompileExpressions, KeyPartType, RowContext, RowExpressions};
use porpoise_rows::triggers::{TriggerEvent, TriggerTime};
use porpoise_rows::{BeginOptions, Db, DbOptions, Error, InsertMode, show};
use porpoise_types::{ColumnType, Kind, Value};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CATALOG: SpaceId = SpaceId(1);
/// The present version, and the only one that is written.
const PRESENT: u8 = 11;

/// Lets every row through: the rows of the stores obey their CHECK constraints.
#[derive(Debug)]
struct NoExpressions;

impl RowExpressions for NoExpressions {
    fn generate(&self, _: &mut [Value], _: u64, _: &RowContext) -> porpoise_rows::Result<()> {
        Ok(())
    }

    fn check(&self, _: &[Value], _: &RowContext) -> porpoise_rows::Result<()> {
        Ok(())
    }

    fn default(&self, _: usize, _: &[Value], _: &RowContext) -> porpoise_rows::Result<Value> {
        Ok(Value::Null)
    }
}

impl CompileExpressions for NoExpressions {
    fn compile(&self, _: &TableDef) -> porpoise_rows::Result<Arc<dyn RowExpressions>> {
        Ok(Arc::new(NoExpressions))
    }

    fn key_part_type(
        &self,
        _: &TableDef,
        _: &str,
        _: &Expression,
    ) -> porpoise_rows::Result<KeyPartType> {
        Ok(KeyPartType {
            ty: ColumnType::bigint(),
            array: false,
        })
    }
}

fn try_open(engine: Arc<KvMem>) -> porpoise_rows::Result<Arc<Db>> {
    let db = Db::open(engine, porpoise_base::clock::system(), DbOptions::default())?;
    db.set_compiler(Arc::new(NoExpressions));
    Ok(db)
}

fn run<T>(db: &Arc<Db>, f: impl FnOnce(&DdlCx<'_>) -> T) -> T {
    let (metadata_locks, cancel) = (db.metadata_locks().session(), Cancel::new());
    f(&DdlCx {
        metadata_locks: &metadata_locks,
        deadline: Instant::now() + Duration::from_secs(5),
        cancel: &cancel,
        foreign_key_checks: true,
        now: 0,
        statement: None,
        memory: None,
    })
}

fn fixture(version: u8) -> StoredRows {
    stored_rows(&format!("catalog-{version}"))
}

/// The versions that rows of the catalog carry, by key.
fn versions(engine: &KvMem) -> Vec<(Vec<u8>, u8)> {
    let mut found = Vec::new();
    let range = ScanRange {
        space: CATALOG,
        start: b"",
        end: None,
        reverse: false,
    };
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.scan(Read::CURRENT, &[range], usize::MAX, &mut |_, key, value| {
        found.push((key.to_vec(), value[0]));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn get(db: &Db, name: &str) -> Arc<Table> {
    db.catalog().table("d", name).cloned().unwrap()
}

/// Definitions and rows of all tables, as text.
fn picture(db: &Arc<Db>) -> String {
    let mut text = String::new();
    for table in db.catalog().tables.values() {
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        let rows = crate::common::all_in(&mut txn, table);
        txn.rollback();
        text += &format!("{} {rows:?}\n", show::create_table(table, None));
    }
    text
}

/// Checks that rows, entries and constraints match, and that only referenced spaces exist.
fn check_consistency(db: &Arc<Db>, what: &str) {
    let mut named = 0;
    for table in db.catalog().tables.values() {
        let (_, problems) = run(db, |cx| db.check_table(cx, table)).unwrap();
        assert_eq!(problems, Vec::new(), "{what}");
        named += table.all_spaces().count();
    }
    assert_eq!(db.engine().spaces().unwrap().len(), named, "{what}");
}

fn insert(db: &Arc<Db>, name: &str, row: [i64; 2]) -> porpoise_rows::Result<()> {
    let table = get(db, name);
    let mut txn = db.begin(BeginOptions::default())?;
    let row = row.map(Value::Int).to_vec();
    txn.insert(&table, vec![row], InsertMode::Plain)?;
    let done = txn.commit()?;
    Ok(db.engine().wait_durable(done.position)?)
}

/// Adds a column, which rewrites the table's record in the present version.
fn change(db: &Arc<Db>) -> porpoise_rows::Result<CommitPosition> {
    let added = ColumnSpec {
        name: "b".to_owned(),
        ty: ColumnType::int(Kind::Int),
        nullable: None,
        default: Some(ColumnDefault::Literal(Value::Int(3))),
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
        invisible: false,
    };
    let ops = [AlterOp::AddColumn(added, Position::Default)];
    run(db, |cx| db.alter_table(cx, "d", "t", &ops)).map(|done| done.position)
}

#[test]
fn every_older_catalog_is_read_and_its_constraints_hold() {
    for version in 1..=PRESENT {
        let rows = fixture(version);
        let engine = store_of(&MemDisk::new(), &rows);
        let catalog: Vec<_> = versions(&engine).into_iter().map(|(_, v)| v).collect();
        assert!(catalog.iter().all(|v| *v == version) && catalog.len() >= 4);
        let db = try_open(engine).unwrap();
        let shown = picture(&db);
        assert!(shown.contains("CREATE TABLE `t`") && shown.contains("CONSTRAINT `f` FOREIGN KEY"));
        assert_eq!(shown.contains("PARTITION BY"), version > 1, "{shown}");
        assert_eq!(
            shown.contains("CONSTRAINT `few` CHECK"),
            version > 2,
            "{shown}"
        );
        assert_eq!(shown.contains("INVISIBLE"), version > 7, "{shown}");
        let ttl = "TTL=`a` + INTERVAL 7 DAY */ /*T![ttl] TTL_ENABLE='OFF' */ /*T![ttl] TTL_JOB_INTERVAL='1h' */";
        assert_eq!(shown.contains(ttl), version > 8, "{shown}");
        insert(&db, "parent", [50, 1]).unwrap();
        insert(&db, "t", [50, 50]).unwrap();
        let orphan = insert(&db, "t", [51, 51]).unwrap_err();
        assert_eq!(orphan.code(), 1452, "{orphan}");
        check_consistency(&db, &format!("version {version}"));
    }
}

/// The event of the file `programs-7`.
fn hourly() -> Event {
    const CREATED: i64 = 1_700_000_000_000_000;
    Event {
        database: "d".to_owned(),
        name: "Hourly".to_owned(),
        body: "DO 1".to_owned(),
        definer: "root@localhost".to_owned(),
        schedule: EventSchedule::Every {
            amount: "1".to_owned(),
            unit: "HOUR".to_owned(),
            interval: [0, 0, 3_600_000_000],
            starts: CREATED,
            ends: Some(CREATED + 1_000_000_000_000),
        },
        preserve: true,
        state: EventState::Disabled,
        comment: "a comment".to_owned(),
        time_zone: "+02:00".to_owned(),
        sql_mode: 0x4000_0000,
        charset: "utf8mb4".to_owned(),
        collation: "utf8mb4_0900_ai_ci".to_owned(),
        database_collation: "utf8mb4_general_ci".to_owned(),
        created: CREATED,
        modified: CREATED + 5,
    }
}

#[test]
fn triggers_and_events_are_read_and_written_as_before() {
    let programs = stored_rows("programs-7");
    let mut rows = fixture(7);
    rows.extend(programs.clone());
    let engine = store_of(&MemDisk::new(), &rows);
    let db = try_open(engine.clone()).unwrap();
    let triggers = get(&db, "t").triggers.clone();
    let [first, second] = &*triggers else {
        panic!("{triggers:?}");
    };
    assert_eq!(
        (
            first.name.as_str(),
            first.body.as_str(),
            first.definer.as_str()
        ),
        ("First", "SET NEW.a = 1", "root@localhost")
    );
    assert_eq!(
        (first.time, first.event),
        (TriggerTime::Before, TriggerEvent::Insert)
    );
    assert_eq!(
        (second.time, second.event),
        (TriggerTime::After, TriggerEvent::Delete)
    );
    assert_eq!(second.collation, "utf8mb4_0900_ai_ci");
    let event = db.catalog().event("d", "HOURLY").cloned().unwrap();
    assert_eq!(*event, hourly());
    // Written again, both are the same bytes after the version.
    run(&db, |cx| db.drop_event(cx, &event.key())).unwrap();
    run(&db, |cx| db.put_event(cx, None, &event)).unwrap();
    change(&db).unwrap();
    let mut txn = engine.begin(Default::default()).unwrap();
    for (space, key, value) in &programs {
        let mut found = None;
        let key = [Key::new(*space, key)];
        txn.get(Read::CURRENT, &key, &mut |_, bytes| {
            found = bytes.map(<[u8]>::to_vec)
        })
        .unwrap();
        let found = found.unwrap();
        assert!(found[0] == value[0] || found[0] == PRESENT, "{found:?}");
        assert_eq!(found[1..], value[1..]);
    }
}

#[test]
fn a_power_failure_leaves_an_old_catalog_as_before_or_as_after_the_change() {
    for version in 1..PRESENT {
        let rows = fixture(version);
        let disk = MemDisk::new();
        let whole = store_of(&disk, &rows);
        let start = disk.operations();
        let db = try_open(whole.clone()).unwrap();
        let before = picture(&db);
        let position = change(&db).unwrap();
        whole.wait_durable(position).unwrap();
        let after = picture(&db);
        let table = get(&db, "t").id.0.to_be_bytes();
        // Only changed records have the present version now.
        for (key, found) in versions(&whole) {
            let changed = key == [0] || key[1..] == table;
            let expected = if changed { PRESENT } else { version };
            assert_eq!(found, expected, "{key:?}");
        }
        whole.shutdown().unwrap();
        let operations = disk.operations() - start;
        drop((db, whole));
        assert_ne!(before, after);
        let (mut old, mut new) = (0, 0);
        for cut in 0..=operations {
            let disk = MemDisk::new();
            let engine = store_of(&disk, &rows);
            disk.stop_after(Some(disk.operations() + cut));
            let result = try_open(engine).and_then(|db| {
                let position = change(&db)?;
                Ok(db.engine().wait_durable(position)?)
            });
            let found = disk.after_power_cut(cut * 31);
            let what = format!("version {version}, cut at {cut} of {operations}");
            let engine = store_on(&found).expect(&what);
            let db = try_open(engine).expect(&what);
            let now = picture(&db);
            assert!(now == before || now == after, "{what}: {now}");
            assert!(now == after || result.is_err(), "{what} was lost");
            check_consistency(&db, &what);
            if now == before {
                old += 1;
                let position = change(&db).expect(&what);
                db.engine().wait_durable(position).unwrap();
                assert_eq!(picture(&db), after, "{what}");
            } else {
                new += 1;
            }
        }
        assert!(old > 0 && new > 0, "version {version}: {old} and {new}");
    }
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    for at in 0..4 {
        let mut rows = fixture(PRESENT);
        let catalog = rows.iter_mut().filter(|(space, _, _)| *space == CATALOG);
        let (_, _, value) = catalog.into_iter().nth(at).unwrap();
        value[0] = PRESENT + 1;
        let Err(refused) = try_open(store_of(&MemDisk::new(), &rows)) else {
            panic!("row {at} was read");
        };
        let text = refused.to_string();
        assert!(text.contains("catalog format version 12"), "{text}");
        assert!(!matches!(refused, Error::DefinitionChanged));
    }
}
