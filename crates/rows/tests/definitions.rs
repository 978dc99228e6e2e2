//! Definitions: they survive a restart, refused ones leave no spaces, and indexes and constraints
//! added later are built from the existing rows.

use crate::common::{counting, open};
use porpoise_kv::model::Model;
use porpoise_kv::{Engine, Read};
use porpoise_rows::catalog::{FkAction, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, FkSpec, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, Error, InsertMode, Lookup, show};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn index(kind: IndexKind, name: &str, columns: &[&str]) -> AlterOp {
    AlterOp::AddIndex(IndexSpec::new(kind, Some(name), columns))
}

fn reference(name: Option<&str>, column: &str) -> FkSpec {
    FkSpec {
        name: name.map(str::to_owned),
        on_delete: FkAction::Cascade,
        ..FkSpec::new(&[column], "parent", &["id"])
    }
}

fn table(name: &str, columns: &[&str], keys: Vec<FkSpec>) -> TableSpec {
    let column = |name: &&str| ColumnSpec::new(name, ColumnType::int(Kind::Int));
    let columns = columns.iter().map(column).collect();
    let key = vec![IndexSpec::primary(&["id"])];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    TableSpec {
        foreign_keys: keys,
        ..TableSpec::new("test", name, columns, key, options)
    }
}

fn create(db: &Db, spec: &TableSpec) -> Result<(), Error> {
    db.define(|cx| db.create_table(cx, spec)).map(|_| ())
}

fn alter(db: &Db, name: &str, op: AlterOp) -> Result<(), Error> {
    db.define(|cx| db.alter_table(cx, "test", name, &[op]))
        .map(|_| ())
}

fn truncate(db: &Db, name: &str) -> Result<(), Error> {
    db.define(|cx| db.truncate(cx, "test", name)).map(|_| ())
}

/// A database with `parent` and `child` in it.
fn family(engine: Arc<dyn Engine>) -> Arc<Db> {
    let db = open(engine);
    let general = Collation::UTF8MB4_GENERAL_CI;
    db.define(|cx| db.create_database(cx, "test", general, false))
        .unwrap();
    create(&db, &table("parent", &["id", "a"], Vec::new())).unwrap();
    create(
        &db,
        &table("child", &["id", "p"], vec![reference(None, "p")]),
    )
    .unwrap();
    db
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

fn check(db: &Db, name: &str) -> u64 {
    let table = get(db, name);
    let (rows, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
    assert_eq!(problems, Vec::new());
    rows
}

#[test]
fn definitions_and_rows_survive_a_restart() {
    let engine = Model::new();
    let db = family(Arc::new(engine.reopen()));
    add(&db, "parent", &[(1, 10), (2, 20)]).unwrap();
    add(&db, "child", &[(1, 1), (2, 2)]).unwrap();
    let before = show::create_table(&get(&db, "child"), None);
    drop(db);
    let db = open(Arc::new(engine.reopen()));
    let child = get(&db, "child");
    assert_eq!(show::create_table(&child, None), before);
    assert!(child.foreign_keys[0].parent.is_some());
    assert_eq!(get(&db, "parent").referenced_by, vec![(child.id, 0)]);
    assert_eq!(add(&db, "child", &[(3, 9)]), Err(1452));
    assert_eq!(check(&db, "child"), 2);
}

/// The columns of `parent` that have histograms, by name.
fn histograms(db: &Db) -> Vec<String> {
    let table = get(db, "parent");
    let name = |(at, _): &(usize, _)| table.columns[*at].name.clone();
    table.histograms.iter().map(name).collect()
}

fn set_histogram(db: &Arc<Db>, column: &str) {
    let table = get(db, "parent");
    let at = table.column(column).unwrap();
    let histogram = db.build_histograms(&table, &[at], 10).unwrap().remove(0);
    let change = vec![(table.columns[at].id, Some(histogram))];
    db.define(|cx| db.set_histograms(cx, table.id, change))
        .unwrap();
}

#[test]
fn histograms_are_dropped_with_their_columns() {
    let engine = Model::new();
    let db = family(Arc::new(engine.reopen()));
    add(&db, "parent", &[(1, 10), (2, 20), (3, 20)]).unwrap();
    set_histogram(&db, "a");
    let shown = get(&db, "parent").histogram(1).unwrap().to_document();
    drop(db);
    let db = open(Arc::new(engine.reopen()));
    let kept = get(&db, "parent").histogram(1).cloned().unwrap();
    assert_eq!(kept.to_document(), shown);
    assert!((kept.equal_to(Value::Int(20).as_ref()) - 2.0 / 3.0).abs() < 1e-9);
    alter(&db, "parent", AlterOp::RenameColumn("a".into(), "b".into())).unwrap();
    alter(&db, "parent", AlterOp::SetComment("x".into())).unwrap();
    assert_eq!(histograms(&db), ["b"]);
    truncate(&db, "parent").unwrap_err();
    let wide = ColumnSpec::new("b", ColumnType::int(Kind::BigInt));
    let change = AlterOp::ChangeColumn("b".into(), wide, porpoise_rows::ddl::Position::Default);
    alter(&db, "parent", change).unwrap();
    assert_eq!(histograms(&db), [""; 0]);
    set_histogram(&db, "b");
    alter(&db, "parent", AlterOp::DropColumn("b".into())).unwrap();
    assert_eq!(histograms(&db), [""; 0]);
    set_histogram(&db, "id");
    for name in ["child", "parent"] {
        let name = [("test".to_owned(), name.to_owned())];
        db.define(|cx| db.drop_tables(cx, &name, false)).unwrap();
    }
    drop(db);
    // A start finds no dropped histogram.
    let db = open(Arc::new(engine.reopen()));
    assert!(db.catalog().histograms.is_empty());
}

#[test]
fn show_create_table_prints_what_mysql_prints() {
    let db = family(Arc::new(Model::new()));
    let text = show::create_table(&get(&db, "child"), None);
    let wanted = "CREATE TABLE `child` (\n  `id` int NOT NULL,\n  `p` int DEFAULT NULL,\n  \
                  PRIMARY KEY (`id`),\n  KEY `p` (`p`),\n  CONSTRAINT `child_ibfk_1` FOREIGN KEY \
                  (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE\n) ENGINE=InnoDB DEFAULT \
                  CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci";
    assert_eq!(text, wanted);
}

#[test]
fn refused_definitions_have_mysql_error_numbers_and_leave_no_spaces() {
    let engine = Model::new();
    let db = family(Arc::new(engine.reopen()));
    let spaces = db.engine().spaces().unwrap().len();
    let code = |spec: &TableSpec| create(&db, spec).unwrap_err().code();
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
    let drop_parent = db.define(|cx| db.drop_tables(cx, &parent, false));
    assert_eq!(drop_parent.unwrap_err().code(), 3730);
    assert_eq!(truncate(&db, "parent").unwrap_err().code(), 1701);
    assert_eq!(db.engine().spaces().unwrap().len(), spaces);
}

#[test]
fn an_index_added_later_has_the_existing_rows() {
    let db = family(Arc::new(Model::new()));
    let rows: Vec<(i64, i64)> = (0..2500).map(|n| (n, n / 2)).collect();
    add(&db, "parent", &rows).unwrap();
    alter(&db, "parent", index(IndexKind::Plain, "a", &["a"])).unwrap();
    assert_eq!(check(&db, "parent"), 2500);
    let refused = alter(&db, "parent", index(IndexKind::Unique, "u", &["a"]));
    assert_eq!(refused.unwrap_err().code(), 1062);
    assert_eq!(get(&db, "parent").indexes.len(), 2);
    alter(&db, "parent", AlterOp::DropIndex("a".to_owned())).unwrap();
    assert_eq!(get(&db, "parent").indexes.len(), 1);
}

#[test]
fn a_foreign_key_added_later_is_validated_and_keeps_its_index() {
    let db = family(Arc::new(Model::new()));
    add(&db, "parent", &[(1, 1)]).unwrap();
    create(&db, &table("late", &["id", "p"], Vec::new())).unwrap();
    add(&db, "late", &[(1, 1), (2, 7)]).unwrap();
    let key = AlterOp::AddForeignKey(reference(Some("late_fk"), "p"));
    let refused = alter(&db, "late", key.clone());
    assert_eq!(refused.unwrap_err().code(), 1452);
    assert!(get(&db, "late").foreign_keys.is_empty());
    add(&db, "parent", &[(7, 1)]).unwrap();
    alter(&db, "late", key).unwrap();
    assert_eq!(add(&db, "late", &[(3, 9)]), Err(1452));
    let refused = alter(&db, "late", AlterOp::DropIndex("late_fk".to_owned()));
    assert_eq!(refused.unwrap_err().code(), 1553);
    alter(&db, "late", AlterOp::DropForeignKey("late_fk".to_owned())).unwrap();
    add(&db, "late", &[(3, 9)]).unwrap();
    assert_eq!(check(&db, "late"), 3);
}

#[test]
fn truncate_deletes_all_rows_and_resets_ids() {
    let db = family(Arc::new(Model::new()));
    add(&db, "parent", &[(1, 1)]).unwrap();
    add(&db, "child", &[(1, 1)]).unwrap();
    truncate(&db, "child").unwrap();
    assert_eq!(check(&db, "child"), 0);
    let child = get(&db, "child");
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    txn.look_up(
        &Lookup::primary(&child, &[b"x"]),
        Read::CURRENT,
        &mut |_, row| {
            let row = row.map(|found| found.row);
            assert!(row.is_none())
        },
    )
    .unwrap();
}

#[test]
fn a_definition_of_unknown_outcome_keeps_its_spaces() {
    let model = Arc::new(Model::new());
    let engine = Arc::new(counting::Counting::new(model.clone()));
    let db = family(engine.clone());
    add(&db, "parent", &[(1, 1)]).unwrap();
    engine.lose_outcomes.store(true, Ordering::SeqCst);
    create(&db, &table("late", &["id", "p"], Vec::new())).unwrap_err();
    truncate(&db, "child").unwrap_err();
    alter(&db, "parent", index(IndexKind::Unique, "a", &["a"])).unwrap_err();
    let db = open(model);
    for name in ["late", "child", "parent"] {
        add(&db, name, &[(7, 1)]).unwrap_or_else(|code| panic!("{name}: {code}"));
        check(&db, name);
    }
}
