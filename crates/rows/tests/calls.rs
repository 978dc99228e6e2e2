//! Number of engine calls of statements: it does not depend on the number of rows, keys and
//! constraints.

use crate::common::counting::{Counting, Taken};
use crate::common::{N, begin, database, delete, get, ids, insert, update};
use porpoise_kv::model::Model;
use porpoise_rows::catalog::FkAction;
use std::sync::Arc;

#[test]
fn an_insert_costs_one_lock_call_for_any_number_of_rows_and_foreign_keys() {
    let counting = Counting::new(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let db = database(
        Arc::new(counting),
        &[
            ids("p"),
            ids("q"),
            ids("none").int("a").null(),
            ids("one")
                .int("a")
                .null()
                .key("a", &["a"])
                .fk("one_p", &["a"], "p", &["id"]),
            ids("two")
                .int("a")
                .null()
                .int("b")
                .null()
                .unique("ab", &["a", "b"])
                .key("b", &["b"])
                .fk("two_p", &["a"], "p", &["id"])
                .fk("two_q", &["b"], "q", &["id"]),
        ],
    );
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "p"), &[&[1], &[2]]).unwrap();
    insert(&mut txn, &get(&db, "q"), &[&[1], &[2]]).unwrap();
    let one_lock = Taken {
        gets: 0,
        scans: 0,
        locks: 1,
        reserves: 0,
    };
    let no_call = Taken {
        locks: 0,
        ..one_lock
    };
    calls.take();
    let cases: [(&str, Vec<Vec<i64>>); 6] = [
        ("none", vec![vec![1, 1]]),
        ("one", vec![vec![1, 1]]),
        ("two", vec![vec![1, 1, 1]]),
        ("none", (10..60).map(|n| vec![n, 1]).collect()),
        (
            "one",
            (10..60)
                .map(|n| vec![n, n % 3 + 1])
                .map(|mut r| {
                    if r[1] == 3 {
                        r[1] = N;
                    }
                    r
                })
                .collect(),
        ),
        (
            "two",
            vec![vec![2, 1, 2], vec![3, 2, 1], vec![4, 2, N], vec![5, N, N]],
        ),
    ];
    for (name, rows) in &cases {
        let rows: Vec<&[i64]> = rows.iter().map(Vec::as_slice).collect();
        insert(&mut txn, &get(&db, name), &rows).unwrap();
        assert_eq!(calls.take(), one_lock, "{name}, {} rows", rows.len());
    }
    // An UPDATE of other columns needs only the caller's lock.
    update(&mut txn, &get(&db, "none"), &[1, 10, 11], |r| {
        r[1] = crate::common::int(7)
    })
    .unwrap();
    assert_eq!(calls.take(), one_lock);
    update(&mut txn, &get(&db, "none"), &[], |_| ()).unwrap();
    calls.take();
    // Rows without references: the caller's lock, the statement's, one scan.
    txn.rollback();
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "p"), &[&[1], &[2], &[3]]).unwrap();
    calls.take();
    delete(&mut txn, &get(&db, "p"), &[1, 2, 3]).unwrap();
    let found = calls.take();
    assert_eq!((found.scans, found.gets), (1, 0));
    assert_eq!(found.locks, 2);
    assert_eq!(calls.take(), no_call);
    // No table references this one: only the caller's lock.
    insert(&mut txn, &get(&db, "none"), &[&[1, 1], &[2, 1]]).unwrap();
    calls.take();
    delete(&mut txn, &get(&db, "none"), &[1, 2]).unwrap();
    assert_eq!(calls.take(), one_lock);
}

#[test]
fn a_cascade_costs_three_calls_a_level_for_any_number_of_rows() {
    let counting = Counting::new(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let level = |name: &str, parent: &str| {
        ids(name).int("p").unique("u", &["p", "id"]).fk_with(
            &format!("{name}_fk"),
            &["p"],
            parent,
            &["id"],
            FkAction::Cascade,
            FkAction::NoAction,
        )
    };
    let db = database(
        Arc::new(counting),
        &[ids("a"), level("b", "a"), level("c", "b")],
    );
    let mut counts = Vec::new();
    for width in [1i64, 40] {
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "a"), &[&[1]]).unwrap();
        for n in 0..width {
            insert(&mut txn, &get(&db, "b"), &[&[n, 1]]).unwrap();
            insert(&mut txn, &get(&db, "c"), &[&[n, n], &[n + 100, n]]).unwrap();
        }
        calls.take();
        delete(&mut txn, &get(&db, "a"), &[1]).unwrap();
        counts.push(calls.take());
        txn.commit().unwrap();
        for name in ["a", "b", "c"] {
            assert!(crate::common::all(&db, name).is_empty(), "{name}");
        }
    }
    assert_eq!(counts[0], counts[1]);
    // Own lock, the statement's lock; two levels of scan, lock, lock; the
    // lowest table has no children to scan for.
    assert_eq!((counts[0].locks, counts[0].scans), (2 + 2 * 2, 2));
}
