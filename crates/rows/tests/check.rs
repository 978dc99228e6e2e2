//! CHECK TABLE finds rows, entries and parents that were added or deleted past the constraints.

use crate::common::{begin, get, ids, insert, model_database};
use porpoise_kv::{Check, Key, TxnOptions};
use porpoise_rows::Db;
use porpoise_types::ValueRef;
use std::sync::Arc;

fn family() -> Arc<Db> {
    let db = model_database(&[
        ids("p"),
        ids("c")
            .int("p")
            .null()
            .key("p", &["p"])
            .fk("cp", &["p"], "p", &["id"]),
    ]);
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "p"), &[&[1], &[2]]).unwrap();
    insert(
        &mut txn,
        &get(&db, "c"),
        &[&[1, 1], &[2, 2], &[3, crate::common::N]],
    )
    .unwrap();
    txn.commit().unwrap();
    db
}

fn problems(db: &Arc<Db>, name: &str) -> Vec<String> {
    let table = get(db, name);
    let (_, found) = db.define(|cx| db.check_table(cx, &table)).unwrap();
    found.into_iter().map(|p| p.description).collect()
}

/// Deletes a key of an index in the engine, or writes it if there is a value.
fn write_in_engine(db: &Arc<Db>, name: &str, index: usize, key: &[u8], value: Option<&[u8]>) {
    let space = get(db, name).space(index, key);
    let mut txn = db.engine().begin(TxnOptions::default()).unwrap();
    match value {
        Some(value) => txn.put(Key::new(space, key), value, Check::Blind).unwrap(),
        None => txn.delete(Key::new(space, key), Check::Blind).unwrap(),
    }
    txn.commit().unwrap();
}

fn one(n: i64) -> Vec<ValueRef<'static>> {
    vec![ValueRef::Int(n)]
}

#[test]
fn a_consistent_database_has_no_problems() {
    let db = family();
    assert_eq!(problems(&db, "p"), Vec::<String>::new());
    assert_eq!(problems(&db, "c"), Vec::<String>::new());
}

#[test]
fn a_child_without_its_parent_is_found() {
    let db = family();
    let key = get(&db, "p").key_prefix(0, &one(2));
    write_in_engine(&db, "p", 0, &key, None);
    assert_eq!(
        problems(&db, "c"),
        ["row 80000002 has no parent under `cp`"]
    );
}

#[test]
fn missing_and_left_over_entries_are_found() {
    let db = family();
    let c = get(&db, "c");
    let mut entry = c.key_prefix(1, &one(1));
    entry.extend(c.key_prefix(0, &one(1)));
    write_in_engine(&db, "c", 1, &entry, None);
    let found = problems(&db, "c");
    assert!(
        found.contains(&"row 80000001 has no entry in `p`".to_owned()),
        "{found:?}"
    );
    let mut other = c.key_prefix(1, &one(9));
    other.extend(c.key_prefix(0, &one(1)));
    write_in_engine(&db, "c", 1, &entry, Some(&[4]));
    write_in_engine(&db, "c", 1, &other, Some(&[4]));
    let found = problems(&db, "c");
    assert_eq!(found, ["index `p` has 4 entries for 3 rows"]);
}

#[test]
fn unreadable_and_misplaced_rows_are_found() {
    let db = family();
    let p = get(&db, "p");
    write_in_engine(&db, "p", 0, &p.key_prefix(0, &one(7)), Some(b"nonsense"));
    let found = problems(&db, "p");
    assert!(
        found[0].starts_with("row 80000007 cannot be read"),
        "{found:?}"
    );
}
