//! Auto-increment ids.

use crate::common::counting::Counting;
use crate::common::{begin, database, get, model_database, table};
use porpoise_kv::Engine;
use porpoise_kv::model::Model;
use porpoise_rows::{AutoIncOptions, Db, Error, InsertMode};
use porpoise_types::{ColumnType, Kind, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The published forum table: the counter's column is last in the key.
fn posts() -> crate::common::Def {
    table("posts")
        .int("uid")
        .int("fid")
        .int("pid")
        .auto()
        .primary(&["uid", "fid", "pid"])
}

fn assign(
    db: &Arc<Db>,
    name: &str,
    given: &[Value],
    o: AutoIncOptions,
) -> (Option<u64>, Vec<Value>) {
    let t = get(db, name);
    let at = t.auto_increment().unwrap();
    let mut rows: Vec<Vec<Value>> = given
        .iter()
        .map(|v| {
            let mut row = vec![Value::Int(1); t.columns.len()];
            row[at] = v.clone();
            row
        })
        .collect();
    let first = begin(db).assign_auto_increment(&t, &mut rows, o).unwrap();
    (first, rows.into_iter().map(|r| r[at].clone()).collect())
}

fn numbers(values: &[i64]) -> Vec<Value> {
    values.iter().map(|v| Value::Int(*v)).collect()
}

#[test]
fn null_and_zero_generate_ids_and_explicit_values_raise_the_counter() {
    let db = model_database(&[posts()]);
    let o = AutoIncOptions::default();
    let (first, ids) = assign(&db, "posts", &[Value::Null, Value::Int(0)], o);
    assert_eq!((first, ids), (Some(1), numbers(&[1, 2])));
    // Mixed: as in MySQL, ids after an explicit value continue above it.
    let given = [
        Value::Null,
        Value::Int(100),
        Value::Null,
        Value::Int(-5),
        Value::Null,
    ];
    let (first, ids) = assign(&db, "posts", &given, o);
    assert_eq!((first, ids), (Some(3), numbers(&[3, 100, 101, -5, 102])));
    let (first, _) = assign(&db, "posts", &[Value::Int(5000)], o);
    assert_eq!(first, None);
    let (_, ids) = assign(&db, "posts", &[Value::Null], o);
    assert_eq!(ids, numbers(&[5001]));
    let zero = AutoIncOptions {
        no_auto_value_on_zero: true,
        ..o
    };
    let (first, ids) = assign(&db, "posts", &[Value::Int(0), Value::Null], zero);
    assert_eq!((first, ids), (Some(5002), numbers(&[0, 5002])));
}

#[test]
fn ids_of_one_statement_are_consecutive_across_reserved_ranges() {
    let db = model_database(&[posts()]);
    let o = AutoIncOptions {
        prefetch: 4,
        ..AutoIncOptions::default()
    };
    let mut last = 0;
    for count in [3usize, 3, 10, 1, 5] {
        let (first, ids) = assign(&db, "posts", &vec![Value::Null; count], o);
        let first = i64::try_from(first.unwrap()).unwrap();
        assert!(first > last);
        last = first + count as i64 - 1;
        assert_eq!(ids, numbers(&(first..=last).collect::<Vec<_>>()));
    }
    let tens = AutoIncOptions {
        increment: 10,
        offset: 3,
        prefetch: 1,
        ..AutoIncOptions::default()
    };
    let (_, ids) = assign(&db, "posts", &vec![Value::Null; 3], tens);
    let start = (last - 3 + 10) / 10 * 10 + 3;
    assert_eq!(ids, numbers(&[start, start + 10, start + 20]));
}

#[test]
fn ids_cost_no_engine_call_until_the_range_is_used_up() {
    let counting = Counting::new(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let db = database(Arc::new(counting), &[posts()]);
    let o = AutoIncOptions {
        prefetch: 100,
        ..AutoIncOptions::default()
    };
    calls.take();
    for _ in 0..200 {
        assign(&db, "posts", &[Value::Null], o);
    }
    assert_eq!(calls.take().reserves, 2);
}

#[test]
fn a_clean_shutdown_loses_no_id_and_a_crash_repeats_none() {
    let model = Model::new();
    let engine: Arc<dyn Engine> = Arc::new(model.reopen());
    let db = database(engine.clone(), &[posts()]);
    let o = AutoIncOptions::default();
    assign(&db, "posts", &vec![Value::Null; 3], o);
    db.return_ids();
    let again = Db::with_catalog(
        engine.clone(),
        porpoise_base::clock::system(),
        Default::default(),
        (*db.catalog()).clone(),
    );
    assert_eq!(again.next_auto_increment(&get(&again, "posts")).unwrap(), 4);
    let (first, _) = assign(&again, "posts", &[Value::Null], o);
    assert_eq!(first, Some(4));
    // This one is not shut down.
    let third = Db::with_catalog(
        engine,
        porpoise_base::clock::system(),
        Default::default(),
        (*db.catalog()).clone(),
    );
    let (first, _) = assign(&third, "posts", &[Value::Null], o);
    assert!(first.unwrap() > 4);
}

#[test]
fn ids_beyond_the_columns_range_are_1062_and_beyond_the_counters_1467() {
    let db = model_database(&[table("t")
        .column("id", ColumnType::int(Kind::TinyInt))
        .auto()
        .primary(&["id"])]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let mut rows = vec![vec![Value::Int(126)], vec![Value::Null]];
    txn.assign_auto_increment(&t, &mut rows, AutoIncOptions::default())
        .unwrap();
    assert_eq!(rows[1][0], Value::Int(127));
    txn.insert(&t, rows, InsertMode::Plain).unwrap();
    let e = txn
        .assign_auto_increment(&t, &mut [vec![Value::Null]], AutoIncOptions::default())
        .unwrap_err();
    assert_eq!(e.code(), 1062);
    assert_eq!(e.to_string(), "Duplicate entry '127' for key 't.PRIMARY'");
    let big = model_database(&[table("t")
        .column("id", ColumnType::bigint_unsigned())
        .auto()
        .primary(&["id"])]);
    let t = get(&big, "t");
    let mut txn = begin(&big);
    // Fewer ids are left than are reserved at a time: they are handed out.
    let mut rows = vec![vec![Value::UInt(u64::MAX - 4)], vec![Value::Null]];
    let o = AutoIncOptions::default();
    txn.assign_auto_increment(&t, &mut rows, o).unwrap();
    assert_eq!(rows[1][0], Value::UInt(u64::MAX - 3));
    let mut rows = vec![vec![Value::Null], vec![Value::Null]];
    txn.assign_auto_increment(&t, &mut rows, o).unwrap();
    let last = [Value::UInt(u64::MAX - 2), Value::UInt(u64::MAX - 1)];
    assert_eq!(rows.concat(), last);
    let e = txn
        .assign_auto_increment(&t, &mut [vec![Value::Null]], o)
        .unwrap_err();
    assert!(matches!(e, Error::AutoIncrementExhausted), "{e:?}");
    assert_eq!(
        e.to_string(),
        "Failed to read auto-increment value from storage engine"
    );
}

#[test]
fn threads_never_get_the_same_id_and_an_update_raises_the_counter() {
    let db = model_database(&[posts()]);
    let o = AutoIncOptions {
        prefetch: 8,
        ..AutoIncOptions::default()
    };
    let all: Vec<u64> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(|| {
                    (0..300)
                        .map(|_| assign(&db, "posts", &[Value::Null], o).0.unwrap())
                        .collect::<Vec<u64>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1200);
    let one = model_database(&[table("t").int("id").auto().primary(&["id"])]);
    let t = get(&one, "t");
    let mut txn = begin(&one);
    txn.insert(&t, vec![vec![Value::Int(1)]], InsertMode::Plain)
        .unwrap();
    crate::common::update(&mut txn, &t, &[1], |r| r[0] = Value::Int(70_000)).unwrap();
    let mut rows = [vec![Value::Null]];
    txn.assign_auto_increment(&t, &mut rows, o).unwrap();
    assert_eq!(rows[0][0], Value::Int(70_001));
}

#[test]
fn explicit_values_at_the_end_of_the_range_are_stored_and_no_id_follows() {
    let mut ty = ColumnType::int(Kind::BigInt);
    ty.unsigned = true;
    for explicit in [u64::MAX - 1, u64::MAX] {
        let db = model_database(&[table("t").column("id", ty.clone()).auto().primary(&["id"])]);
        let o = AutoIncOptions::default();
        let (first, ids) = assign(&db, "t", &[Value::UInt(explicit)], o);
        assert_eq!((first, ids), (None, vec![Value::UInt(explicit)]));
        let (_, ids) = assign(&db, "t", &[Value::UInt(7)], o);
        assert_eq!(ids, [Value::UInt(7)]);
        let mut rows = vec![vec![Value::Null]];
        let next = begin(&db).assign_auto_increment(&get(&db, "t"), &mut rows, o);
        if explicit == u64::MAX {
            assert_eq!(next.unwrap(), Some(8), "it pushes nothing");
        } else {
            assert!(matches!(next, Err(Error::AutoIncrementExhausted)));
        }
    }
}
