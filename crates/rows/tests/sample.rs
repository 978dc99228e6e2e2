//! Statistics by sampling, and entries read without their rows.

use crate::common::{N, begin, get, ids, insert, model_database};
use porpoise_kv::Read;
use porpoise_rows::sample::Effort;
use porpoise_rows::{KeyRange, ScanPosition, ScanSpec};
use porpoise_types::ValueRef;
use std::ops::ControlFlow;

fn things() -> crate::common::Def {
    ids("t")
        .int("a")
        .null()
        .int("b")
        .null()
        .key("ab", &["a", "b"])
        .unique("b", &["b"])
}

#[test]
fn small_tables_are_counted_and_large_ones_estimated() {
    let db = model_database(&[things()]);
    let mut txn = begin(&db);
    let rows: Vec<[i64; 3]> = (0..6000).map(|n| [n, n / 100, n]).collect();
    let rows: Vec<&[i64]> = rows.iter().map(|r| r.as_slice()).collect();
    insert(&mut txn, &get(&db, "t"), &rows).unwrap();
    txn.commit().unwrap();
    let t = get(&db, "t");
    let all = db.sample(&t, Effort::THOROUGH).unwrap();
    assert_eq!(all.rows, 6000);
    assert_eq!(all.distinct, [vec![6000], vec![60, 6000], vec![6000]]);
    let quick = db.sample(&t, Effort::QUICK).unwrap();
    assert_eq!(quick.rows, 6000);
    assert_eq!(quick.distinct[0], [6000]);
    let first = quick.distinct[1][0];
    assert!((30..=120).contains(&first), "{first}");
    assert_eq!(db.approximate_rows(&t), Some(6000));
}

#[test]
fn few_distinct_values_of_a_large_table_are_estimated_as_few() {
    let db = model_database(&[things()]);
    let mut txn = begin(&db);
    let rows: Vec<[i64; 3]> = (0..20_000).map(|n| [n, n % 4, n]).collect();
    let rows: Vec<&[i64]> = rows.iter().map(|r| r.as_slice()).collect();
    insert(&mut txn, &get(&db, "t"), &rows).unwrap();
    txn.commit().unwrap();
    let quick = db.sample(&get(&db, "t"), Effort::QUICK).unwrap();
    assert_eq!(quick.distinct[1][0], 4);
    assert_eq!(quick.distinct[1][1], 20_000);
}

#[test]
fn an_empty_table_has_no_rows_and_one_distinct_value() {
    let db = model_database(&[things()]);
    let sample = db.sample(&get(&db, "t"), Effort::QUICK).unwrap();
    assert_eq!(sample.rows, 0);
    assert_eq!(sample.distinct, [vec![1], vec![1, 1], vec![1]]);
}

#[test]
fn entries_have_the_values_of_their_parts_and_the_primary_key() {
    let db = model_database(&[things()]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    insert(&mut txn, &t, &[&[7, 1, 9], &[8, N, N]]).unwrap();
    assert_eq!(t.columns_in_entries(0), [0]);
    assert_eq!(t.columns_in_entries(1), [0, 1, 2]);
    assert_eq!(t.columns_in_entries(2), [0, 2]);
    for (index, expected) in [(1, [[8, N, N], [7, 1, 9]]), (2, [[8, N, N], [7, N, 9]])] {
        let spec = ScanSpec {
            index,
            ranges: vec![KeyRange::ALL],
            reverse: false,
            entries_only: true,
        };
        let mut position = ScanPosition::default();
        let mut found: Vec<[i64; 3]> = Vec::new();
        let at = (&mut position, 10);
        txn.scan_entries(&t, &spec, None, Read::CURRENT, at, &mut |_, key, value| {
            let reader = t.entry_reader(index, &t.columns_in_entries(index)).unwrap();
            let mut values = [ValueRef::Null; 3];
            reader.read(key, value, &mut values, &mut |_| &[]).unwrap();
            found.push(values.map(|v| if let ValueRef::Int(v) = v { v } else { N }));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, expected);
    }
    let reader = t.entry_reader(1, &[0, 1, 2]).unwrap();
    let bad = reader.read(b"x", b"y", &mut [ValueRef::Null; 3], &mut |_| &[]);
    assert!(bad.is_err());
}
