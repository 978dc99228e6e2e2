//! CHECK TABLE finds rows, entries and parents that were added or deleted past the constraints.

use crate::common::{begin, get, ids, insert, int, model_database, text};
use porpoise_kv::{Check, Key, TxnOptions};
use porpoise_rows::{Db, InsertMode};
use porpoise_types::{Collation, Value, ValueRef};
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

fn extended(db: &Arc<Db>, name: &str) -> Vec<String> {
    let table = get(db, name);
    let checked = db.define(|cx| db.check_table_extended(cx, &table));
    let (_, found) = checked.unwrap();
    found.into_iter().map(|p| p.description).collect()
}

#[test]
fn extended_finds_children_and_values_that_the_plain_form_does_not() {
    let db = family();
    assert_eq!(extended(&db, "p"), Vec::<String>::new());
    assert_eq!(extended(&db, "c"), Vec::<String>::new());
    let key = get(&db, "p").key_prefix(0, &one(2));
    write_in_engine(&db, "p", 0, &key, None);
    assert_eq!(problems(&db, "p"), Vec::<String>::new());
    let name = get(&db, "c").quoted_name();
    let expected = format!("row 80000002 of {name} has no parent under `cp`");
    assert_eq!(extended(&db, "p"), [expected]);
}

#[test]
fn extended_finds_values_that_their_columns_cannot_store() {
    let db = model_database(&[ids("t").text("v", 3, Collation::UTF8MB4_BIN).null()]);
    let table = get(&db, "t");
    let mut txn = begin(&db);
    // Lengths are checked by the callers of rows.
    let rows = vec![
        vec![int(1), text("abcdef")],
        vec![int(2), text("abc")],
        vec![int(3), Value::Bytes(vec![0xff])],
        vec![int(4), Value::Null],
    ];
    txn.insert(&table, rows, InsertMode::Plain).unwrap();
    txn.commit().unwrap();
    assert_eq!(problems(&db, "t"), Vec::<String>::new());
    let expected = ["80000001", "80000003"]
        .map(|row| format!("row {row}: column `v` has a value that varchar(3) cannot store"));
    assert_eq!(extended(&db, "t"), expected);
}
