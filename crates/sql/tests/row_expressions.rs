//! CHECK constraints, generated columns and default expressions for callers of
//! `rows` that execute no SQL statement; and databases that were opened without
//! a compiler of expressions.

use crate::common::Nothing;
use porpoise_base::clock;
use porpoise_kv::{Engine, LockMode, model::Model};
use porpoise_rows::catalog::Table;
use porpoise_rows::{
    BeginOptions, Db, DbOptions, Error, InsertMode, Lookup, RowBuf, RowChange, Txn, UpdateMode,
};
use porpoise_sql::{SqlConfig, SqlServer};
use porpoise_types::{Value, ValueRef};
use std::sync::Arc;

const TABLE: &str = "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, s VARCHAR(20) DEFAULT (CONCAT('d', id)), \
     g INT AS (n * 2) STORED, v VARCHAR(30) AS (CONCAT(s, n)) VIRTUAL, UNIQUE (g), \
     CONSTRAINT small CHECK (n < 100), CONSTRAINT even CHECK (n % 2 = 0) NOT ENFORCED)";

fn database() -> (Arc<Db>, Arc<dyn Engine>) {
    let engine: Arc<dyn Engine> = Arc::new(Model::new());
    let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
    let server = SqlServer::new(db.clone(), SqlConfig::default()).unwrap();
    let mut session = crate::common::connect(&server, 1);
    for text in ["CREATE DATABASE d", TABLE] {
        session.query(text.as_bytes(), false, &mut Nothing).unwrap();
    }
    (db, engine)
}

fn table(db: &Db) -> Arc<Table> {
    db.catalog().table("d", "t").unwrap().clone()
}

/// A row whose generated columns have a wrong value and NULL.
fn row(id: i64, n: i64, s: &str) -> Vec<Value> {
    let wrong = Value::Int(-1);
    let s = Value::Bytes(s.into());
    vec![Value::Int(id), Value::Int(n), s, wrong, Value::Null]
}

fn insert(db: &Arc<Db>, rows: Vec<Vec<Value>>) -> Result<(), Error> {
    let mut txn = db.begin(BeginOptions::default())?;
    txn.insert(&table(db), rows, InsertMode::Plain)?;
    txn.commit().map(drop)
}

fn read(txn: &mut Txn, table: &Arc<Table>, id: i64) -> (Vec<u8>, Option<RowBuf>) {
    let key = table.key_prefix(0, &[ValueRef::Int(id)]);
    let mut found = None;
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(table, &[&key]),
        LockMode::Update,
        wait,
        &mut |_, locked| {
            found = locked.row.map(|row| row.to_buf());
        },
    )
    .unwrap();
    (key, found)
}

fn values(db: &Arc<Db>, id: i64) -> Option<Vec<Value>> {
    let table = table(db);
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let (_, row) = read(&mut txn, &table, id);
    row.map(|row| row.row(&table).unwrap().values())
}

fn update(db: &Arc<Db>, id: i64, n: i64) -> Result<(), Error> {
    let table = table(db);
    let mut txn = db.begin(BeginOptions::default())?;
    let (key, old) = read(&mut txn, &table, id);
    let old = old.unwrap();
    let mut new = old.row(&table)?.values();
    new[1] = Value::Int(n);
    new[3] = Value::Int(77);
    txn.update(&table, vec![RowChange { key, old, new }], UpdateMode::Plain)?;
    txn.commit().map(drop)
}

/// The name of the constraint that a write violates.
fn violated_check(result: Result<(), Error>) -> String {
    match result {
        Err(Error::CheckViolated { check }) => check,
        other => panic!("{other:?}"),
    }
}

#[test]
fn batches_are_computed_and_checked_row_by_row() {
    let (db, _) = database();
    insert(&db, vec![row(1, 5, "a"), row(2, 7, "b")]).unwrap();
    let text = |s: &str| Value::Bytes(s.into());
    let first = vec![
        Value::Int(1),
        Value::Int(5),
        text("a"),
        Value::Int(10),
        text("a5"),
    ];
    assert_eq!(values(&db, 1).unwrap(), first);
    // One invalid row fails the whole batch.
    assert_eq!(
        violated_check(insert(&db, vec![row(3, 1, "c"), row(4, 100, "d")])),
        "small"
    );
    assert_eq!(values(&db, 3), None);
    update(&db, 1, 9).unwrap();
    assert_eq!(values(&db, 1).unwrap()[3..], [Value::Int(18), text("a9")]);
    assert_eq!(violated_check(update(&db, 1, 1000)), "small");
    // Unique keys are checked with the computed values.
    assert!(matches!(update(&db, 1, 7), Err(Error::Duplicate { .. })));
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let upsert = txn.insert_or_find(&table(&db), &row(9, 100, "x"));
    assert!(matches!(upsert, Err(Error::CheckViolated { .. })));
}

#[test]
fn defaults_are_filled_in_where_nothing_is_given() {
    let (db, _) = database();
    let table = table(&db);
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let mut row = vec![
        Value::Int(4),
        Value::Int(2),
        Value::Null,
        Value::Null,
        Value::Null,
    ];
    txn.fill_default_expressions(&table, &mut row, &|column| column < 2)
        .unwrap();
    txn.insert(&table, vec![row], InsertMode::Plain).unwrap();
    txn.commit().unwrap();
    assert_eq!(values(&db, 4).unwrap()[2], Value::Bytes(b"d4".to_vec()));
    assert_eq!(values(&db, 4).unwrap()[4], Value::Bytes(b"d42".to_vec()));
}

#[test]
fn without_a_compiler_rows_are_read_and_not_written() {
    let (db, engine) = database();
    insert(&db, vec![row(1, 5, "a")]).unwrap();
    drop(db);
    let plain = Db::open(engine, clock::system(), DbOptions::default()).unwrap();
    assert_eq!(values(&plain, 1).unwrap()[3], Value::Int(10));
    for result in [insert(&plain, vec![row(2, 5, "b")]), update(&plain, 1, 6)] {
        match result {
            Err(Error::Refused { code, .. }) => assert_eq!(code, 1105),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(values(&plain, 2), None);
    // A check says that the expressions cannot be asked.
    let checked = plain.define(|cx| plain.check_table(cx, &table(&plain)));
    let (rows, problems) = checked.unwrap();
    assert_eq!((rows, problems.len()), (1, 1));
    assert!(
        problems[0].description.contains("No compiler"),
        "{problems:?}"
    );
}

/// The only cell of a result, as a number.
struct Number(i64);

impl porpoise_sql::ResultSink for Number {
    fn columns(&mut self, _: &[porpoise_sql::ResultColumn]) -> Result<(), porpoise_sql::SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), porpoise_sql::SqlError> {
        if let [ValueRef::Int(value)] = values {
            self.0 = *value;
        }
        Ok(())
    }
}

#[test]
fn functional_indexes_outlive_a_restart() {
    let engine: Arc<dyn Engine> = Arc::new(Model::new());
    let connect = || {
        let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
        let server = SqlServer::new(db, SqlConfig::default()).unwrap();
        crate::common::connect(&server, 1)
    };
    let mut session = connect();
    for text in [
        "CREATE DATABASE d",
        "CREATE TABLE d.f (a INT, INDEX i ((a * 2)))",
        "INSERT INTO d.f VALUES (1), (2)",
        "CREATE TABLE d.m (a INT, j JSON, UNIQUE INDEX i ((CAST(j AS SIGNED ARRAY))))",
        "INSERT INTO d.m VALUES (1, '[1, 2]'), (2, '[3, 4]')",
    ] {
        session.query(text.as_bytes(), false, &mut Nothing).unwrap();
    }
    drop(session);
    let mut session = connect();
    for text in [
        "INSERT INTO d.f VALUES (3)",
        "DELETE FROM d.f WHERE a = 1",
        "INSERT INTO d.m VALUES (4, '[1, 5]') ON DUPLICATE KEY UPDATE j = '[1, 7, 8]'",
        "DELETE FROM d.m WHERE 4 MEMBER OF (j)",
        "INSERT INTO d.m VALUES (8, '[2, 3, 4]')",
    ] {
        session.query(text.as_bytes(), false, &mut Nothing).unwrap();
    }
    let sum = b"SELECT CAST(sum(a) AS SIGNED) FROM d.f FORCE INDEX (i) WHERE a * 2 IN (2, 4, 6)";
    let mut found = Number(0);
    session.query(sum, false, &mut found).unwrap();
    assert_eq!(found.0, 5);
    let sum = b"SELECT CAST(sum(a) AS SIGNED) FROM d.m WHERE JSON_OVERLAPS(j, '[1, 2, 4, 8]')";
    session.query(sum, false, &mut found).unwrap();
    assert_eq!(found.0, 9);
}
