//! Reading and locking rows.

use crate::common::counting::Counting;
use crate::common::{
    N, begin, database, get, insert, int, ints, model_database, row, table, text, update,
};
use porpoise_kv::model::Model;
use porpoise_kv::{LockMode, Read, Wait};
use porpoise_rows::catalog::Table;
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, Lookup, ScanPosition, ScanSpec, Txn};
use porpoise_types::{Collation, Value, ValueRef};
use std::sync::Arc;
use std::time::Duration;

fn things() -> crate::common::Def {
    table("t")
        .int("id")
        .primary(&["id"])
        .int("u")
        .null()
        .unique("u", &["u"])
        .int("k")
        .null()
        .key("k", &["k"])
}

fn filled() -> Arc<Db> {
    let db = model_database(&[things()]);
    let mut txn = begin(&db);
    insert(
        &mut txn,
        &get(&db, "t"),
        &[
            &[1, 50, 2],
            &[2, N, 1],
            &[3, 30, 2],
            &[4, N, N],
            &[5, 10, 2],
        ],
    )
    .unwrap();
    txn.commit().unwrap();
    db
}

fn ids(txn: &mut Txn, t: &Table, spec: &ScanSpec, batch: usize) -> Vec<i64> {
    let mut position = ScanPosition::default();
    let mut found = Vec::new();
    loop {
        let before = found.len();
        let more = txn
            .scan(
                t,
                spec,
                Read::SNAPSHOT,
                &mut position,
                batch,
                &mut |_, r| match r.get(0) {
                    ValueRef::Int(v) => found.push(v),
                    other => panic!("{other:?}"),
                },
            )
            .unwrap();
        assert!(found.len() - before <= batch);
        if !more {
            assert!(position.done());
            return found;
        }
    }
}

#[test]
fn scans_in_batches_read_any_index_in_both_directions() {
    let db = filled();
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let two = KeyRange::prefix(t.key_prefix(2, &[ValueRef::Int(2)]));
    let null = KeyRange::prefix(t.key_prefix(2, &[ValueRef::Null]));
    let cases = [
        (0, vec![KeyRange::ALL], vec![1, 2, 3, 4, 5]),
        (1, vec![KeyRange::ALL], vec![2, 4, 5, 3, 1]),
        (2, vec![KeyRange::ALL], vec![4, 2, 1, 3, 5]),
        (2, vec![two.clone()], vec![1, 3, 5]),
        (2, vec![null.clone(), two.clone()], vec![4, 1, 3, 5]),
    ];
    for batch in [1, 2, 3, 100] {
        for (index, ranges, expected) in &cases {
            let mut spec = ScanSpec {
                index: *index,
                ranges: ranges.clone(),
                reverse: false,
                entries_only: false,
            };
            assert_eq!(&ids(&mut txn, &t, &spec, batch), expected);
            spec.reverse = true;
            spec.ranges.reverse();
            let mut backwards = expected.clone();
            backwards.reverse();
            assert_eq!(ids(&mut txn, &t, &spec, batch), backwards);
        }
    }
}

#[test]
fn entries_give_primary_keys_in_one_call() {
    let counting = Counting::new(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let db = database(Arc::new(counting), &[things()]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    insert(&mut txn, &t, &[&[7, 1, 9], &[8, N, 9]]).unwrap();
    let mut spec = ScanSpec {
        index: 2,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: true,
    };
    calls.take();
    let mut keys = Vec::new();
    let mut position = ScanPosition::default();
    txn.scan(
        &t,
        &spec,
        Read::CURRENT,
        &mut position,
        10,
        &mut |key, r| {
            assert_eq!(r.get(0), ValueRef::Null);
            keys.push(key.to_vec());
        },
    )
    .unwrap();
    let counts = calls.take();
    assert_eq!((counts.scans, counts.gets), (1, 0));
    assert_eq!(keys, [7, 8].map(|id| t.primary_key(&row(&[id]))));
    spec.entries_only = false;
    let mut position = ScanPosition::default();
    txn.scan(&t, &spec, Read::CURRENT, &mut position, 10, &mut |_, _| ())
        .unwrap();
    let counts = calls.take();
    assert_eq!((counts.scans, counts.gets), (1, 1));
}

#[test]
fn unique_lookups_report_present_and_absent_keys_by_position() {
    let db = filled();
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let keys: Vec<Vec<u8>> = [10, 11, 50, 30]
        .iter()
        .map(|v| t.key_prefix(1, &[ValueRef::Int(*v)]))
        .collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; 4];
    txn.look_up(
        &Lookup::unique(&t, 1, &refs),
        Read::SNAPSHOT,
        &mut |n, r| {
            let r = r.map(|found| (found.primary, found.row));
            found[n] = Some(r.map(|(key, r)| (key.to_vec(), r.get(0).to_owned())));
        },
    )
    .unwrap();
    let hit = |id: i64| Some(Some((t.primary_key(&row(&[id])), int(id))));
    assert_eq!(found, [hit(5), Some(None), hit(1), hit(3)]);
    let mut locked = vec![None; 4];
    let wait = txn.wait();
    txn.lock(
        &Lookup::unique(&t, 1, &refs),
        LockMode::Update,
        wait,
        &mut |n, r| {
            let key = r.primary;
            assert!(r.granted);
            locked[n] = Some((key.map(<[u8]>::to_vec), r.row.map(|r| r.get(0).to_owned())));
        },
    )
    .unwrap();
    assert_eq!(locked[1], Some((None, None)));
    assert_eq!(
        locked[3],
        Some((Some(t.primary_key(&row(&[3]))), Some(int(3))))
    );
    // The absent value is locked, too.
    let mut other = db
        .begin(BeginOptions {
            lock_wait: Duration::from_millis(20),
            ..BeginOptions::default()
        })
        .unwrap();
    let e = insert(&mut other, &t, &[&[9, 11, N]]).unwrap_err();
    assert_eq!(e.code(), 1205);
    assert!(!e.ends_transaction());
    insert(&mut other, &t, &[&[9, 12, N]]).unwrap();
}

#[test]
fn a_locked_row_is_the_newest_version_and_reported_as_newer() {
    let db = filled();
    let t = get(&db, "t");
    let mut reader = begin(&db);
    reader.pin().unwrap();
    let mut writer = begin(&db);
    update(&mut writer, &t, &[1], |r| r[2] = int(77)).unwrap();
    writer.commit().unwrap();
    let keys = [1, 2].map(|id| t.primary_key(&row(&[id])));
    let refs = [keys[0].as_slice(), keys[1].as_slice()];
    let mut seen = Vec::new();
    reader
        .look_up(
            &Lookup::primary(&t, &refs).in_order(),
            Read::SNAPSHOT,
            &mut |_, r| {
                let r = r.map(|found| found.row);
                seen.push(r.unwrap().get(2).to_owned());
            },
        )
        .unwrap();
    assert_eq!(seen, [int(2), int(1)]);
    let mut found = vec![None; 2];
    let wait = reader.wait();
    reader
        .lock(
            &Lookup::primary(&t, &refs),
            LockMode::Update,
            wait,
            &mut |n, r| {
                found[n] = Some((r.newer, r.own, r.row.unwrap().get(2).to_owned()));
            },
        )
        .unwrap();
    assert_eq!(
        found,
        [Some((true, false, int(77))), Some((false, false, int(1)))]
    );
    assert_eq!(reader.check_newer(true).unwrap_err().code(), 1213);
    // SKIP LOCKED skips them.
    let mut other = begin(&db);
    let mut granted = vec![true; 2];
    other
        .lock(
            &Lookup::primary(&t, &refs),
            LockMode::Update,
            Wait::Skip,
            &mut |n, r| {
                granted[n] = r.granted;
            },
        )
        .unwrap();
    assert_eq!(granted, [false, false]);
    let e = other
        .lock(
            &Lookup::primary(&t, &refs),
            LockMode::Update,
            Wait::NoWait,
            &mut |_, _| (),
        )
        .unwrap_err();
    assert_eq!(e.code(), 3572);
}

#[test]
fn tables_without_a_primary_key_return_equal_rows_in_insertion_order() {
    let db = model_database(&[table("h")
        .int("a")
        .null()
        .int("u")
        .null()
        .unique("u", &["u"])]);
    let h = get(&db, "h");
    let mut txn = begin(&db);
    insert(&mut txn, &h, &[&[5, N], &[5, N], &[4, 1]]).unwrap();
    insert(&mut txn, &h, &[&[5, N]]).unwrap();
    let e = insert(&mut txn, &h, &[&[5, 1]]).unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry '1' for key 'h.u'");
    txn.commit().unwrap();
    assert_eq!(ints(&db, "h"), [[5, N], [5, N], [4, 1], [5, N]]);
    crate::common::verify::verify(&db);
}

#[test]
fn keys_compare_by_collation_and_messages_show_the_given_text() {
    let db = model_database(&[table("t")
        .text("name", 20, Collation::UTF8MB4_GENERAL_CI)
        .int("n")
        .primary(&["name", "n"])]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let mut put = |name: &str| {
        txn.insert(&t, vec![vec![text(name), int(1)]], InsertMode::Plain)
            .map(|_| ())
    };
    put("Ada").unwrap();
    let e = put("ADA").unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry 'ADA-1' for key 't.PRIMARY'");
    put("Adam").unwrap();
    // A change of case changes the row but not its key.
    let key = t.primary_key(&[text("ada"), int(1)]);
    let mut old = None;
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(&t, &[&key]),
        LockMode::Update,
        wait,
        &mut |_, r| {
            old = r.row.map(|r| r.to_buf());
        },
    )
    .unwrap();
    let change = porpoise_rows::RowChange {
        key,
        old: old.unwrap(),
        new: vec![text("aDA"), int(1)],
    };
    let mode = porpoise_rows::UpdateMode::Plain;
    assert_eq!(txn.update(&t, vec![change], mode).unwrap().changed, 1);
    let rows: Vec<Value> = crate::common::all_in(&mut txn, &t)
        .into_iter()
        .map(|mut r| r.remove(0))
        .collect();
    assert_eq!(rows, [text("aDA"), text("Adam")]);
}
