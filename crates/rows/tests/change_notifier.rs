//! Subscriptions to changes of tables, and row versions by update mode.

use crate::common::{get, ids, model_database};
use porpoise_kv::{LockMode, Read};
use porpoise_rows::catalog::Table;
use porpoise_rows::{BeginOptions, Db, InsertMode, Lookup, RowBuf, RowChange, UpdateMode};
use porpoise_types::Value;
use std::sync::Arc;

/// Tables `a` and `b` of (id, v).
fn open() -> (Arc<Db>, Arc<Table>, Arc<Table>) {
    let of = |name| ids(name).int("v").null();
    let db = model_database(&[of("a"), of("b")]);
    let (a, b) = (get(&db, "a"), get(&db, "b"));
    (db, a, b)
}

fn insert(db: &Arc<Db>, table: &Arc<Table>, id: i64, commit: bool) {
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let row = vec![Value::Int(id), Value::Int(0)];
    txn.insert(table, vec![row], InsertMode::Plain).unwrap();
    if commit {
        txn.commit().unwrap();
    }
}

/// Sets `v` of row 1 and returns the row's version.
fn update(db: &Arc<Db>, table: &Arc<Table>, v: i64, mode: UpdateMode) -> u64 {
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let key = table.primary_key(&[Value::Int(1)]);
    let mut old = RowBuf::default();
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(table, &[&key]),
        LockMode::Update,
        wait,
        &mut |_, found| {
            old = RowBuf::from(found.row.unwrap().bytes().to_vec());
        },
    )
    .unwrap();
    let change = RowChange {
        key: key.clone(),
        old,
        new: vec![Value::Int(1), Value::Int(v)],
    };
    txn.update(table, vec![change], mode).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let mut version = 0;
    txn.look_up(
        &Lookup::primary(table, &[&key]),
        Read::CURRENT,
        &mut |_, row| {
            let row = row.map(|found| found.row);
            version = row.unwrap().version();
        },
    )
    .unwrap();
    version
}

#[test]
fn commits_to_subscribed_tables_are_counted_and_rollbacks_are_not() {
    let (db, a, b) = open();
    let watch = db.subscribe(&[a.id]);
    insert(&db, &b, 1, true);
    insert(&db, &a, 1, false);
    assert_eq!(watch.changes(), 0);
    insert(&db, &a, 1, true);
    assert_eq!(watch.changes(), 1);
    let mut both = db.begin(BeginOptions::default()).unwrap();
    for table in [&b, &a, &b] {
        let id = if Arc::ptr_eq(table, &a) { 2 } else { 3 };
        let row = vec![Value::Int(id), Value::Int(0)];
        both.insert(table, vec![row], InsertMode::Ignore).unwrap();
    }
    both.commit().unwrap();
    assert_eq!(watch.changes(), 2);
    update(&db, &a, 9, UpdateMode::Plain);
    assert_eq!(watch.changes(), 3);
    update(&db, &a, 9, UpdateMode::Plain);
    assert_eq!(watch.changes(), 3, "an update that changes nothing");
}

#[test]
fn update_modes_decide_whether_a_row_gets_a_new_version() {
    let (db, a, _) = open();
    insert(&db, &a, 1, true);
    let first = update(&db, &a, 5, UpdateMode::Plain);
    assert_eq!(update(&db, &a, 5, UpdateMode::Plain), first);
    let second = update(&db, &a, 5, UpdateMode::Rewrite);
    assert_ne!(second, first);
    assert_eq!(update(&db, &a, 6, UpdateMode::KeepVersion), second);
    assert_ne!(update(&db, &a, 7, UpdateMode::Plain), second);
}
