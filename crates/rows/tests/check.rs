//! The check of a table finds what does not fit: rows, entries, parents
//! planted or taken away behind the back of the constraints.

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

/// Deletes a key of an index straight from the engine, or puts it.
fn plant(db: &Arc<Db>, name: &str, index: usize, key: &[u8], value: Option<&[u8]>) {
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
fn nothing_is_found_where_all_is_well() {
    let db = family();
    assert_eq!(problems(&db, "p"), Vec::<String>::new());
    assert_eq!(problems(&db, "c"), Vec::<String>::new());
}

#[test]
fn a_child_without_its_parent_is_found() {
    let db = family();
    let key = get(&db, "p").key_prefix(0, &one(2));
    plant(&db, "p", 0, &key, None);
    assert_eq!(
        problems(&db, "c"),
        ["row 80000002 has no parent under `cp`"]
    );
}

#[test]
fn a_missing_entry_and_a_left_over_one_are_found() {
    let db = family();
    let c = get(&db, "c");
    let mut entry = c.key_prefix(1, &one(1));
    entry.extend(c.key_prefix(0, &one(1)));
    plant(&db, "c", 1, &entry, None);
    let found = problems(&db, "c");
    assert!(
        found.contains(&"row 80000001 has no entry in `p`".to_owned()),
        "{found:?}"
    );
    let mut other = c.key_prefix(1, &one(9));
    other.extend(c.key_prefix(0, &one(1)));
    plant(&db, "c", 1, &entry, Some(&[4]));
    plant(&db, "c", 1, &other, Some(&[4]));
    let found = problems(&db, "c");
    assert_eq!(found, ["index `p` has 4 entries for 3 rows"]);
}

#[test]
fn a_row_that_cannot_be_read_or_stands_elsewhere_is_found() {
    let db = family();
    let p = get(&db, "p");
    plant(&db, "p", 0, &p.key_prefix(0, &one(7)), Some(b"nonsense"));
    let found = problems(&db, "p");
    assert!(
        found[0].starts_with("row 80000007 cannot be read"),
        "{found:?}"
    );
}
