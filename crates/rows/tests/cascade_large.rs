//! Cascades over many rows: they finish, or are killed and leave no change.
//! `PORPOISE_CASCADE_ROWS` sets the number of rows.

use crate::common::{begin, delete, get, ids, insert, ints, update};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::FkAction::Cascade;
use porpoise_rows::{BeginOptions, Db, InsertMode};
use porpoise_types::Value;
use std::sync::Arc;
use std::time::Duration;

fn rows() -> i64 {
    let given = std::env::var("PORPOISE_CASCADE_ROWS");
    given.map_or(50_000, |n| n.parse().unwrap())
}

/// One parent, many children, as many grandchildren.
fn family(count: i64) -> Arc<Db> {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let child = |name: &str, parent: &str| {
        ids(name).int("p").key("p", &["p"]).fk_with(
            &format!("{name}_p"),
            &["p"],
            parent,
            &["id"],
            Cascade,
            Cascade,
        )
    };
    let root = ids("a");
    let db = crate::common::database(engine, &[root, child("b", "a"), child("c", "b")]);
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "a"), &[&[1]]).unwrap();
    for (name, parent) in [("b", None), ("c", Some(()))] {
        let made = (1..=count).map(|n| {
            let up = parent.map_or(1, |()| n);
            vec![Value::Int(n), Value::Int(up)]
        });
        let done = txn.insert(&get(&db, name), made.collect(), InsertMode::Plain);
        assert_eq!(done.unwrap().inserted, count.cast_unsigned());
    }
    txn.commit().unwrap();
    db
}

fn check_consistency(db: &Arc<Db>) {
    for name in ["a", "b", "c"] {
        let table = get(db, name);
        let (_, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
        assert_eq!(problems, Vec::new());
    }
}

#[test]
fn a_large_cascade_finishes_and_its_rollback_leaves_no_change() {
    let count = rows();
    let db = family(count);
    let mut txn = begin(&db);
    let done = update(&mut txn, &get(&db, "a"), &[1], |r| r[0] = Value::Int(2)).unwrap();
    assert_eq!((done.changed, done.cascaded), (1, count.cast_unsigned()));
    txn.rollback();
    assert_eq!(ints(&db, "b")[0], [1, 1]);
    check_consistency(&db);
    let mut txn = begin(&db);
    assert_eq!(delete(&mut txn, &get(&db, "a"), &[1]).unwrap(), 1);
    txn.commit().unwrap();
    for name in ["a", "b", "c"] {
        assert!(ints(&db, name).is_empty());
    }
    check_consistency(&db);
    assert_eq!(db.fk_counters().deleted(), 2 * count.cast_unsigned());
}

#[test]
fn a_killed_large_cascade_leaves_no_change() {
    let count = rows();
    let db = family(count);
    let mut refused = 0;
    // At several moments: while children are found, locked, and written.
    for delay in [1u64, 5, 20, 60] {
        let cancel = Cancel::new();
        let options = BeginOptions {
            cancel: cancel.clone(),
            ..BeginOptions::default()
        };
        let mut txn = db.begin(options).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(delay));
            cancel.cancel(Reason::Query);
        });
        let done = delete(&mut txn, &get(&db, "a"), &[1]);
        killer.join().unwrap();
        if let Err(error) = done {
            assert_eq!(error.code(), 1317, "{error}");
            refused += 1;
        }
        txn.rollback();
    }
    assert!(refused > 0, "no cascade was slow enough to be killed");
    for name in ["b", "c"] {
        assert_eq!(ints(&db, name).len() as i64, count);
    }
    check_consistency(&db);
}
