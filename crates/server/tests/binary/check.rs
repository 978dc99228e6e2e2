//! `porpoise check`: no output for a consistent store, a line for each problem, and no byte of the
//! store is changed.

use porpoise_base::{cancel::Cancel, clock};
use porpoise_kv::{Check, Engine, Key, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{Expression, TableDef};
use porpoise_rows::expressions::{CompileExpressions, KeyPartType, RowContext, RowExpressions};
use porpoise_rows::{BeginOptions, Db, DbOptions, InsertMode};
use porpoise_sql::{ClientInfo, ResultColumn, ResultSink, SqlConfig, SqlError, SqlServer};
use porpoise_types::{ColumnType, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Takes no rows.
struct Nothing;

impl ResultSink for Nothing {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[porpoise_types::ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
}

fn client() -> ClientInfo {
    ClientInfo {
        connection_id: 1,
        user: "root".to_owned(),
        host: "localhost".to_owned(),
        account: "root@localhost".to_owned(),
        capabilities: 0,
        collation: 45,
        database: None,
    }
}

fn store(dir: &Path) -> Arc<KvMem> {
    KvMem::open(KvMemOptions {
        dir: Some(dir.join("store")),
        ..KvMemOptions::default()
    })
    .unwrap()
}

/// Runs statements on a directory of its own, and closes it again.
fn make(dir: &Path, statements: &[&str]) {
    let engine = store(dir);
    let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
    let sql = SqlServer::new(db, SqlConfig::default()).unwrap();
    let mut session = sql.connect(client(), Cancel::new()).unwrap();
    for statement in statements {
        session
            .query(statement.as_bytes(), false, &mut Nothing)
            .unwrap();
    }
    drop(session);
    engine.shutdown().unwrap();
}

fn check(dir: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["check", "--data-dir"])
        .arg(dir)
        .output()
        .unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir.join("store")).unwrap();
    entries
        .map(|e| e.unwrap())
        .map(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(e.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_planted_orphan_is_found_without_a_change() {
    let dir = tempfile::tempdir().unwrap();
    make(
        dir.path(),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.p (id INT PRIMARY KEY)",
            "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, CONSTRAINT cp FOREIGN KEY (p) REFERENCES d.p (id))",
            "INSERT INTO d.p VALUES (1), (2)",
            "INSERT INTO d.c VALUES (1, 1), (2, 2)",
        ],
    );
    let before = files(dir.path());
    let (status, said) = check(dir.path());
    assert_eq!(status, Some(0), "{said}");
    assert!(said.ends_with(": no problems\n"), "{said}");
    assert_eq!(files(dir.path()), before);

    let engine = store(dir.path());
    let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
    let parent = db.catalog().table("d", "p").unwrap().clone();
    drop(db);
    let key = parent.key_prefix(0, &[porpoise_types::ValueRef::Int(2)]);
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let place = Key::new(parent.space(0, &key), &key);
    txn.delete(place, Check::Blind).unwrap();
    txn.commit().unwrap();
    engine.shutdown().unwrap();
    drop(engine);
    let (status, said) = check(dir.path());
    assert_eq!(status, Some(1), "{said}");
    let line = "`d`.`c`: row 80000002 has no parent under `cp`";
    assert!(said.lines().any(|l| l == line), "{said}");
}

/// Lets everything through, as a program with a mistake would.
#[derive(Debug)]
struct Lax;

impl RowExpressions for Lax {
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

impl CompileExpressions for Lax {
    fn compile(&self, _: &TableDef) -> porpoise_rows::Result<Arc<dyn RowExpressions>> {
        Ok(Arc::new(Lax))
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

#[test]
fn rows_that_definitions_forbid_are_found() {
    let dir = tempfile::tempdir().unwrap();
    make(
        dir.path(),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, g INT AS (n + 1) STORED, at TIMESTAMP, \
         CONSTRAINT small CHECK (n < 100))",
            "INSERT INTO d.t (id, n) VALUES (1, 1)",
        ],
    );
    let (status, said) = check(dir.path());
    assert_eq!(status, Some(0), "{said}");

    let engine = store(dir.path());
    let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
    db.set_compiler(Arc::new(Lax));
    let table = db.catalog().table("d", "t").unwrap().clone();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let row = vec![Value::Int(2), Value::Int(100), Value::Int(5), Value::Null];
    txn.insert(&table, vec![row], InsertMode::Plain).unwrap();
    txn.commit().unwrap();
    engine.shutdown().unwrap();
    drop((table, db, engine));
    let (status, said) = check(dir.path());
    assert_eq!(status, Some(1), "{said}");
    for line in [
        "`d`.`t`: row 80000002 differs in column `g` from its generation expression",
        "`d`.`t`: row 80000002 is refused: Check constraint 'small' is violated.",
    ] {
        assert!(said.lines().any(|l| l == line), "{said}");
    }
}

#[test]
fn a_directory_without_a_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (status, said) = check(dir.path());
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("contains no store"), "{said}");
}
