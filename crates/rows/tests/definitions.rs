//! Definitions: what is created is there after a restart, what is refused
//! leaves nothing, and indexes and constraints added later are built from the
//! rows that are there.
#![expect(clippy::unwrap_used, reason = "tests")]

use porpoise_base::cancel::Cancel;
use porpoise_kv::model::Model;
use porpoise_kv::{Engine, Read};
use porpoise_rows::catalog::{FkAction, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, DdlCx, FkSpec, IndexSpec, TableSpec};
use porpoise_rows::mdl::MdlSession;
use porpoise_rows::{BeginOptions, Db, DbOptions, InsertMode, show};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[path = "common/counting.rs"]
#[allow(dead_code, reason = "calls are counted by other tests")]
mod counting;

struct Ddl {
    mdl: MdlSession,
    cancel: Cancel,
}

impl Ddl {
    fn cx(&self) -> DdlCx<'_> {
        DdlCx {
            mdl: &self.mdl,
            deadline: Instant::now() + Duration::from_secs(5),
            cancel: &self.cancel,
            foreign_key_checks: true,
            now: 0,
        }
    }
}

fn open(engine: Arc<dyn Engine>) -> (Arc<Db>, Ddl) {
    let clock = porpoise_base::clock::system();
    let db = Db::open(engine, clock, DbOptions::default()).unwrap();
    let ddl = Ddl {
        mdl: db.mdl().session(),
        cancel: Cancel::new(),
    };
    (db, ddl)
}

fn int(name: &str) -> ColumnSpec {
    ColumnSpec {
        name: name.to_owned(),
        ty: ColumnType::int(Kind::Int),
        nullable: None,
        default: None,
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
    }
}

fn index(kind: IndexKind, name: Option<&str>, columns: &[&str]) -> IndexSpec {
    IndexSpec {
        name: name.map(str::to_owned),
        kind,
        parts: columns
            .iter()
            .map(|c| ((*c).to_owned(), None, false))
            .collect(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
    }
}

fn reference(name: Option<&str>, column: &str) -> FkSpec {
    FkSpec {
        name: name.map(str::to_owned),
        index_name: None,
        columns: vec![column.to_owned()],
        parent_database: None,
        parent_table: "parent".to_owned(),
        parent_columns: vec!["id".to_owned()],
        on_delete: FkAction::Cascade,
        on_update: FkAction::NoAction,
    }
}

fn table(name: &str, columns: &[&str], keys: Vec<FkSpec>) -> TableSpec {
    TableSpec {
        database: "test".to_owned(),
        name: name.to_owned(),
        if_not_exists: false,
        columns: columns.iter().map(|c| int(c)).collect(),
        indexes: vec![index(IndexKind::Primary, None, &["id"])],
        foreign_keys: keys,
        checks: Vec::new(),
        options: TableOptions {
            engine: "InnoDB".to_owned(),
            collation: Collation::UTF8MB4_GENERAL_CI,
            comment: String::new(),
            memory: false,
            other: Vec::new(),
            created: 0,
        },
        auto_increment: None,
        placement: Default::default(),
    }
}

fn family(db: &Db, ddl: &Ddl) {
    let general = Collation::UTF8MB4_GENERAL_CI;
    db.create_database(&ddl.cx(), "test", general, false)
        .unwrap();
    db.create_table(&ddl.cx(), &table("parent", &["id", "a"], Vec::new()))
        .unwrap();
    let child = table("child", &["id", "p"], vec![reference(None, "p")]);
    db.create_table(&ddl.cx(), &child).unwrap();
}

fn get(db: &Db, name: &str) -> Arc<Table> {
    db.catalog().table("test", name).unwrap().clone()
}

fn add(db: &Arc<Db>, name: &str, rows: &[(i64, i64)]) -> Result<(), u16> {
    let table = get(db, name);
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let rows = rows
        .iter()
        .map(|(a, b)| vec![Value::Int(*a), Value::Int(*b)]);
    txn.insert(&table, rows.collect(), InsertMode::Plain)
        .map_err(|e| e.code())?;
    txn.commit().map_err(|e| e.code())?;
    Ok(())
}

fn check(db: &Db, ddl: &Ddl, name: &str) -> u64 {
    let (rows, problems) = db.check_table(&ddl.cx(), &get(db, name)).unwrap();
    assert_eq!(problems, Vec::new());
    rows
}

#[test]
fn definitions_and_rows_are_there_after_a_restart() {
    let engine = Model::new();
    let (db, ddl) = open(Arc::new(engine.reopen()));
    family(&db, &ddl);
    add(&db, "parent", &[(1, 10), (2, 20)]).unwrap();
    add(&db, "child", &[(1, 1), (2, 2)]).unwrap();
    let before = show::create_table(&get(&db, "child"), None);
    drop((db, ddl));
    let (db, ddl) = open(Arc::new(engine.reopen()));
    let child = get(&db, "child");
    assert_eq!(show::create_table(&child, None), before);
    assert!(child.foreign_keys[0].parent.is_some());
    assert_eq!(get(&db, "parent").referenced_by, vec![(child.id, 0)]);
    assert_eq!(add(&db, "child", &[(3, 9)]), Err(1452));
    assert_eq!(check(&db, &ddl, "child"), 2);
}

#[test]
fn show_create_table_prints_what_mysql_prints() {
    let (db, ddl) = open(Arc::new(Model::new()));
    family(&db, &ddl);
    let text = show::create_table(&get(&db, "child"), None);
    let wanted = "CREATE TABLE `child` (\n  `id` int NOT NULL,\n  `p` int DEFAULT NULL,\n  \
                  PRIMARY KEY (`id`),\n  KEY `p` (`p`),\n  CONSTRAINT `child_ibfk_1` FOREIGN KEY \
                  (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE\n) ENGINE=InnoDB DEFAULT \
                  CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci";
    assert_eq!(text, wanted);
}

#[test]
fn refusals_have_mysql_numbers_and_leave_nothing() {
    let engine = Model::new();
    let (db, ddl) = open(Arc::new(engine.reopen()));
    family(&db, &ddl);
    let spaces = db.engine().spaces().unwrap().len();
    let code = |spec: &TableSpec| db.create_table(&ddl.cx(), spec).unwrap_err().code();
    assert_eq!(code(&table("child", &["id"], Vec::new())), 1050);
    assert_eq!(code(&table("x", &["id", "ID"], Vec::new())), 1060);
    assert_eq!(code(&table("x", &["a"], Vec::new())), 1072);
    let mut orphan = reference(None, "id");
    orphan.parent_table = "nobody".to_owned();
    assert_eq!(code(&table("x", &["id"], vec![orphan])), 1824);
    let mut plain = reference(Some("c"), "id");
    plain.parent_columns = vec!["a".to_owned()];
    assert_eq!(code(&table("x", &["id"], vec![plain])), 1822);
    let taken = reference(Some("child_ibfk_1"), "id");
    assert_eq!(code(&table("x", &["id"], vec![taken])), 1826);
    let mut null = reference(None, "id");
    null.on_delete = FkAction::SetNull;
    assert_eq!(code(&table("x", &["id"], vec![null])), 1830);
    let mut other_type = table("x", &["id", "p"], vec![reference(None, "p")]);
    other_type.columns[1].ty = ColumnType::int(Kind::BigInt);
    assert_eq!(code(&other_type), 3780);
    let parent = [("test".to_owned(), "parent".to_owned())];
    let drop_parent = db.drop_tables(&ddl.cx(), &parent, false);
    assert_eq!(drop_parent.unwrap_err().code(), 3730);
    assert_eq!(
        db.truncate(&ddl.cx(), "test", "parent").unwrap_err().code(),
        1701
    );
    assert_eq!(db.engine().spaces().unwrap().len(), spaces);
}

#[test]
fn an_index_added_later_holds_the_rows_that_are_there() {
    let (db, ddl) = open(Arc::new(Model::new()));
    family(&db, &ddl);
    let rows: Vec<(i64, i64)> = (0..2500).map(|n| (n, n / 2)).collect();
    add(&db, "parent", &rows).unwrap();
    let plain = AlterOp::AddIndex(index(IndexKind::Plain, Some("a"), &["a"]));
    db.alter_table(&ddl.cx(), "test", "parent", &[plain])
        .unwrap();
    assert_eq!(check(&db, &ddl, "parent"), 2500);
    let unique = AlterOp::AddIndex(index(IndexKind::Unique, Some("u"), &["a"]));
    let refused = db.alter_table(&ddl.cx(), "test", "parent", &[unique]);
    assert_eq!(refused.unwrap_err().code(), 1062);
    assert_eq!(get(&db, "parent").indexes.len(), 2);
    let drop = AlterOp::DropIndex("a".to_owned());
    db.alter_table(&ddl.cx(), "test", "parent", &[drop])
        .unwrap();
    assert_eq!(get(&db, "parent").indexes.len(), 1);
}

#[test]
fn a_foreign_key_added_later_is_validated_and_an_index_it_needs_stays() {
    let (db, ddl) = open(Arc::new(Model::new()));
    family(&db, &ddl);
    add(&db, "parent", &[(1, 1)]).unwrap();
    db.create_table(&ddl.cx(), &table("late", &["id", "p"], Vec::new()))
        .unwrap();
    add(&db, "late", &[(1, 1), (2, 7)]).unwrap();
    let key = [AlterOp::AddForeignKey(reference(Some("late_fk"), "p"))];
    let refused = db.alter_table(&ddl.cx(), "test", "late", &key);
    assert_eq!(refused.unwrap_err().code(), 1452);
    assert!(get(&db, "late").foreign_keys.is_empty());
    add(&db, "parent", &[(7, 1)]).unwrap();
    db.alter_table(&ddl.cx(), "test", "late", &key).unwrap();
    assert_eq!(add(&db, "late", &[(3, 9)]), Err(1452));
    let drop = [AlterOp::DropIndex("late_fk".to_owned())];
    let refused = db.alter_table(&ddl.cx(), "test", "late", &drop);
    assert_eq!(refused.unwrap_err().code(), 1553);
    let drop = [AlterOp::DropForeignKey("late_fk".to_owned())];
    db.alter_table(&ddl.cx(), "test", "late", &drop).unwrap();
    add(&db, "late", &[(3, 9)]).unwrap();
    assert_eq!(check(&db, &ddl, "late"), 3);
}

#[test]
fn truncate_empties_and_starts_ids_anew() {
    let (db, ddl) = open(Arc::new(Model::new()));
    family(&db, &ddl);
    add(&db, "parent", &[(1, 1)]).unwrap();
    add(&db, "child", &[(1, 1)]).unwrap();
    db.truncate(&ddl.cx(), "test", "child").unwrap();
    assert_eq!(check(&db, &ddl, "child"), 0);
    let child = get(&db, "child");
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    txn.get_rows(&child, &[b"x"], Read::CURRENT, &mut |_, row| {
        assert!(row.is_none())
    })
    .unwrap();
}

#[test]
fn a_definition_of_unknown_outcome_keeps_its_spaces() {
    let model = Arc::new(Model::new());
    let engine = Arc::new(counting::Counting::new(model.clone()));
    let (db, ddl) = open(engine.clone());
    family(&db, &ddl);
    add(&db, "parent", &[(1, 1)]).unwrap();
    engine.lose_answers.store(true, Ordering::SeqCst);
    let made = table("late", &["id", "p"], Vec::new());
    db.create_table(&ddl.cx(), &made).unwrap_err();
    db.truncate(&ddl.cx(), "test", "child").unwrap_err();
    let parts = index(IndexKind::Unique, Some("a"), &["a"]);
    let add_index = [AlterOp::AddIndex(parts)];
    db.alter_table(&ddl.cx(), "test", "parent", &add_index)
        .unwrap_err();
    let (db, ddl) = open(model);
    for name in ["late", "child", "parent"] {
        add(&db, name, &[(7, 1)]).unwrap_or_else(|code| panic!("{name}: {code}"));
        check(&db, &ddl, name);
    }
}
