//! Online schema change by a copy of the table, and of constraints: transactions of adjacent versions at each
//! wait of a change; writers on other threads; swapped unique keys; refusals; interruption.

use crate::common::running::{Running, User, check};
use crate::common::verify::verify;
use crate::common::{
    Def, begin, by_key, database, delete, engines, get, ids, insert, ints, update,
};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_kv::Engine;
use porpoise_rows::catalog::{FkAction, Table};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, DdlCx, FkSpec, IndexSpec, LockLevel, Position};
use porpoise_rows::definition::IndexKind;
use porpoise_rows::{Db, Error};
use porpoise_types::{ColumnType, Kind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// A table with a unique key and an index.
fn parent_table() -> Def {
    ids("t")
        .int("a")
        .int("b")
        .unique("a", &["a"])
        .key("b", &["b"])
}

/// The table, and a child that references it with ON DELETE and ON UPDATE CASCADE.
fn family(engine: Arc<dyn Engine>) -> Arc<Db> {
    let cascade = FkAction::Cascade;
    let child = ids("child").int("t_id").null().key("t_id", &["t_id"]);
    let child = child.fk_with("f", &["t_id"], "t", &["id"], cascade, cascade);
    database(engine, &[parent_table(), child])
}

fn none() -> AlterOp {
    AlterOp::Lock(LockLevel::None)
}

/// MODIFY b to DOUBLE: each row gets other bytes, each entry of `b` another key.
fn to_double() -> Vec<AlterOp> {
    let spec = ColumnSpec::new("b", ColumnType::int(Kind::Double)).not_null();
    vec![
        AlterOp::ChangeColumn("b".to_owned(), spec, Position::Default),
        none(),
    ]
}

/// Another primary key, so that copies have other keys than their rows.
fn to_primary_a() -> Vec<AlterOp> {
    vec![
        AlterOp::AddIndex(IndexSpec::new(IndexKind::Unique, Some("id"), &["id"])),
        AlterOp::DropPrimaryKey,
        AlterOp::AddIndex(IndexSpec::primary(&["a", "id"])),
        none(),
    ]
}

fn partitions() -> Vec<AlterOp> {
    vec![
        AlterOp::DropIndex("a".to_owned()),
        AlterOp::Partition(Some(Box::new(by_key(3)))),
        none(),
    ]
}

fn change_b(db: &Arc<Db>, table: &Arc<Table>, id: i64, b: i64) -> Result<(), Error> {
    let mut txn = begin(db);
    let as_double = table.columns[2].ty.kind == Kind::Double;
    update(&mut txn, table, &[id], |row| {
        row[2] = match as_double {
            true => Value::Double(b as f64),
            false => Value::Int(b),
        };
    })?;
    txn.commit()?;
    Ok(())
}

/// Inserts, changes and deletes rows of its own range, by one version of the table; a row of the child
/// goes with a deleted one.
fn write(db: &Arc<Db>, table: &Arc<Table>, first: i64) {
    let child = get(db, "child");
    let as_double = table.columns[2].ty.kind == Kind::Double;
    let b = |n: i64| match as_double {
        true => Value::Double(n as f64),
        false => Value::Int(n),
    };
    let mut txn = begin(db);
    let rows = (first..first + 6).map(|id| vec![Value::Int(id), Value::Int(id * 10), b(id % 3)]);
    let mode = porpoise_rows::InsertMode::Plain;
    txn.insert(table, rows.collect(), mode).unwrap();
    insert(
        &mut txn,
        &child,
        &[&[first, first], &[first + 1, first + 1]],
    )
    .unwrap();
    txn.commit().unwrap();
    // Two rows exchange a unique key, in three transactions.
    for (id, a) in [(0, 5), (1, first * 10), (0, first * 10 + 10)] {
        let a = if a == 5 { first * 10 + 5 } else { a };
        let mut txn = begin(db);
        update(&mut txn, table, &[first + id], |row| row[1] = Value::Int(a)).unwrap();
        txn.commit().unwrap();
    }
    change_b(db, table, first + 2, first).unwrap();
    // A changed key, which the child follows.
    let mut txn = begin(db);
    let moved = Value::Int(first + 6);
    update(&mut txn, table, &[first + 1], |row| row[0] = moved.clone()).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(db);
    delete(&mut txn, table, &[first, first + 3]).unwrap();
    txn.commit().unwrap();
    // Rolled back: leaves neither rows nor records.
    let mut txn = begin(db);
    let mark = txn.mark();
    delete(&mut txn, table, &[first + 2]).unwrap();
    txn.rollback_to(mark);
    txn.commit().unwrap();
    let mut txn = begin(db);
    delete(&mut txn, table, &[first + 4]).unwrap();
    drop(txn);
}

/// The rows of `t` as integers, in the order of ids.
fn rows_of(db: &Arc<Db>) -> Vec<Vec<i64>> {
    let number = |value: Value| match value {
        Value::Int(n) => n,
        Value::Double(n) => n as i64,
        other => panic!("{other:?}"),
    };
    let rows = crate::common::all(db, "t").into_iter();
    let mut rows: Vec<Vec<i64>> = rows
        .map(|row| row.into_iter().take(3).map(number).collect())
        .collect();
    rows.sort();
    rows
}

fn fill(db: &Arc<Db>, rows: i64) {
    let mut txn = begin(db);
    let table = get(db, "t");
    for id in 1..=rows {
        insert(&mut txn, &table, &[&[id, id * 10, id % 7]]).unwrap();
    }
    txn.commit().unwrap();
}

#[test]
fn a_copy_has_what_was_written_by_adjacent_versions_at_each_of_its_waits() {
    for ops in [to_double(), to_primary_a(), partitions()] {
        for engine in engines() {
            let is_partitioned = matches!(ops.get(1), Some(AlterOp::Partition(_)));
            // A partitioned table cannot be referenced.
            let db = match is_partitioned {
                true => database(engine, &[parent_table()]),
                false => family(engine),
            };
            fill(&db, 300);
            let mut running = Running::start(&db, ops.clone());
            let (mut first, mut waits) = (1_000_000, 0);
            loop {
                waits += 1;
                let new = User::new(&db);
                for table in [&running.user.table, &new.table] {
                    if !is_partitioned {
                        write(&db, table, first);
                    } else {
                        change_b(&db, table, 1 + first % 300, first).unwrap();
                    }
                    first += 10;
                }
                running.user = new;
                if waits > 6 || !running.stop(&db) {
                    break;
                }
            }
            assert!(waits > 2, "{waits}");
            let before = rows_of(&db);
            let old = get(&db, "t").version;
            running.finish().unwrap();
            assert_ne!(get(&db, "t").version, old);
            assert_eq!(rows_of(&db), before);
            assert!(get(&db, "t").unfinished.is_empty());
            verify(&db);
            check(&db);
        }
    }
}

#[test]
fn writers_go_on_during_a_copy_and_lose_nothing() {
    for engine in engines() {
        let db = family(engine);
        fill(&db, 1000);
        let (stop, written) = (AtomicBool::new(false), AtomicI64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (db, stop, written) = (&db, &stop, &written);
                scope.spawn(move || {
                    let mut n = 0;
                    while !stop.load(Ordering::SeqCst) {
                        n += 1;
                        let user = User::new(db);
                        let id = 1 + (n * 37 + writer) % 500 * 2 + writer % 2;
                        if n % 5 == 0 {
                            let mut txn = begin(db);
                            delete(&mut txn, &user.table, &[id]).unwrap();
                            txn.commit().unwrap();
                        } else {
                            change_b(db, &user.table, id, n).unwrap();
                        }
                        written.fetch_add(1, Ordering::SeqCst);
                        drop(user);
                        std::thread::sleep(Duration::from_micros(300));
                    }
                });
            }
            while written.load(Ordering::SeqCst) < 20 {
                std::thread::yield_now();
            }
            let before = written.load(Ordering::SeqCst);
            let done = db.define(|cx| db.alter_table(cx, "d", "t", &to_double()));
            let during = written.load(Ordering::SeqCst) - before;
            stop.store(true, Ordering::SeqCst);
            done.unwrap();
            assert!(during > 0);
        });
        assert_eq!(get(&db, "t").columns[2].ty.kind, Kind::Double);
        verify(&db);
        check(&db);
    }
}

#[test]
fn a_copy_that_is_refused_or_killed_leaves_the_table_as_it_was() {
    for engine in engines() {
        let db = family(engine);
        fill(&db, 50);
        let narrow = ColumnSpec::new("a", ColumnType::int(Kind::TinyInt)).not_null();
        let narrow = [
            AlterOp::ChangeColumn("a".to_owned(), narrow, Position::Default),
            none(),
        ];
        let before = (rows_of(&db), get(&db, "t").columns.clone());
        let refused = db.define(|cx| db.alter_table(cx, "d", "t", &narrow));
        assert_eq!(refused.unwrap_err().code(), 1264);
        let running = Running::start(&db, to_double());
        running.cancel.cancel(Reason::Query);
        let killed = running.finish().unwrap_err();
        assert_eq!(killed.code(), 1317, "{killed}");
        assert_eq!((rows_of(&db), get(&db, "t").columns.clone()), before);
        assert!(get(&db, "t").unfinished.is_empty());
        check(&db);
    }
}

/// A foreign key of `t` to a parent, with a cascade, and no index for it.
fn fk() -> Vec<AlterOp> {
    let mut spec = FkSpec::new(&["a"], "parent", &["id"]);
    spec.on_delete = FkAction::Cascade;
    vec![AlterOp::AddForeignKey(spec), none()]
}

fn with_parent(engine: Arc<dyn Engine>) -> Arc<Db> {
    let db = database(engine, &[ids("parent"), ids("t").int("a")]);
    let mut txn = begin(&db);
    let ids: Vec<Vec<i64>> = (1..=40).map(|id| vec![id]).collect();
    let ids: Vec<&[i64]> = ids.iter().map(Vec::as_slice).collect();
    insert(&mut txn, &get(&db, "parent"), &ids).unwrap();
    insert(&mut txn, &get(&db, "t"), &[&[1, 1], &[2, 2]]).unwrap();
    txn.commit().unwrap();
    db
}

#[test]
fn a_foreign_key_is_enforced_for_new_rows_before_old_ones_are_validated() {
    for engine in engines() {
        let db = with_parent(engine);
        let mut running = Running::start(&db, fk());
        let (mut id, mut seen) = (100, Vec::new());
        loop {
            let new = User::new(&db);
            seen.push(new.table.foreign_keys.len());
            // By the older and the newer version: children of present parents are written, parents of
            // children deleted; the newer version cascades where it knows the constraint.
            for table in [&running.user.table, &new.table] {
                let knows = !table.foreign_keys.is_empty();
                let parent = id % 40 + 1;
                let mut txn = begin(&db);
                let there = insert(&mut txn, &get(&db, "parent"), &[&[parent]]);
                assert!(there.is_ok() || there.unwrap_err().code() == 1062);
                insert(&mut txn, table, &[&[id, parent]]).unwrap();
                txn.commit().unwrap();
                let mut txn = begin(&db);
                let orphan = insert(&mut txn, table, &[&[id + 1, 1000]]);
                assert_eq!(orphan.is_err(), knows, "{orphan:?}");
                drop(txn);
                if knows {
                    let mut txn = begin(&db);
                    delete(&mut txn, &get(&db, "parent"), &[parent]).unwrap();
                    txn.commit().unwrap();
                    assert!(!ints(&db, "t").iter().any(|row| row[1] == parent));
                }
                id += 2;
            }
            running.user = new;
            if !running.stop(&db) {
                break;
            }
        }
        running.finish().unwrap();
        seen.dedup();
        assert_eq!(seen, [0, 1]);
        let table = get(&db, "t");
        assert!(table.unfinished.is_empty() && table.indexes.len() == 2);
        verify(&db);
        check(&db);
    }
}

#[test]
fn a_row_without_a_parent_ends_the_change_and_its_index_is_dropped() {
    for engine in engines() {
        let db = with_parent(engine);
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "t"), &[&[7, 700]]).unwrap();
        txn.commit().unwrap();
        let refused = db.define(|cx| db.alter_table(cx, "d", "t", &fk()));
        assert_eq!(refused.unwrap_err().code(), 1452);
        let table = get(&db, "t");
        assert!(table.foreign_keys.is_empty() && table.unfinished.is_empty());
        assert_eq!(table.indexes.len(), 1);
        assert!(get(&db, "parent").referenced_by.is_empty());
        check(&db);
    }
}

#[test]
fn nobody_waits_for_long_behind_a_change_that_waits_for_a_transaction() {
    let engine = engines().into_iter().next().unwrap();
    let db = family(engine);
    fill(&db, 10);
    // In use until the end, so that the copy cannot become the table.
    let user = User::new(&db);
    let cancel = Cancel::new();
    let longest = std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let session = db.metadata_locks().session();
            let cx = DdlCx {
                metadata_locks: &session,
                deadline: Instant::now() + Duration::from_millis(700),
                cancel: &cancel,
                foreign_key_checks: true,
                now: 0,
                statement: None,
                memory: None,
            };
            db.alter_table(&cx, "d", "t", &to_double())
        });
        let mut served = 0;
        while !change.is_finished() {
            let other = User::new(&db);
            change_b(&db, &other.table, 1 + served % 10, served).unwrap();
            served += 1;
        }
        let refused = change.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), 1205, "{refused}");
        served
    });
    assert!(longest > 2, "{longest}");
    drop(user);
    assert!(get(&db, "t").unfinished.is_empty());
    check(&db);
}
