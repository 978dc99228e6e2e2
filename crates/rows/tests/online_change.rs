//! Online schema change: transactions of adjacent versions of a table, all interleavings of two of
//! them with each step of a change; writers on other threads; duplicates; cancellation.

use crate::common::counting::Counting;
use crate::common::running::{Running, User, check};
use crate::common::verify::verify;
use crate::common::{begin, by_key, database, delete, engines, get, ids, insert, table, update};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_kv::Engine;
use porpoise_kv::model::Model;
use porpoise_rows::Db;
use porpoise_rows::catalog::{FkAction, IndexKind, IndexState, Table};
use porpoise_rows::ddl::{AlterOp, IndexSpec, LockLevel};
use porpoise_rows::metadata_lock::Access;
use porpoise_types::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn family(engine: Arc<dyn Engine>) -> Arc<Db> {
    let t = ids("t").int("a").int("b").null().int("c").key("c", &["c"]);
    database(engine, &[t])
}

fn add(kind: IndexKind, name: &str, columns: &[&str]) -> AlterOp {
    AlterOp::AddIndex(IndexSpec::new(kind, Some(name), columns))
}

fn clauses() -> Vec<AlterOp> {
    vec![
        add(IndexKind::Unique, "a", &["a"]),
        add(IndexKind::Plain, "b", &["b"]),
        AlterOp::DropIndex("c".to_owned()),
        AlterOp::Lock(LockLevel::None),
    ]
}

/// One statement on the row of a sequence.
#[derive(Clone, Copy)]
enum Op {
    Insert,
    Change,
    Move,
    Delete,
}

const OPS: [Op; 4] = [Op::Insert, Op::Change, Op::Move, Op::Delete];

/// Distance of the ids that a row moves to.
const MOVED: i64 = 1 << 28;

fn run(db: &Arc<Db>, table: &Arc<Table>, op: Op, id: i64, step: i64) {
    let mut txn = begin(db);
    // Values are unique to the sequence and the step.
    let value = id * 8 + step;
    let done = match op {
        Op::Insert => insert(&mut txn, table, &[&[id, value, value % 7, value % 5]]),
        Op::Change => update(&mut txn, table, &[id, id + MOVED], |row| {
            // The row that has moved and the one inserted after it get different values.
            let moved = row[0] == Value::Int(id + MOVED);
            row[1] = Value::Int(value + if moved { 4 } else { 0 });
            row[2] = Value::Int(value % 11);
            row[3] = Value::Int(value % 13);
        })
        .map(|done| done.changed),
        Op::Move => update(&mut txn, table, &[id], |row| {
            row[0] = Value::Int(id + MOVED)
        })
        .map(|done| done.changed),
        Op::Delete => delete(&mut txn, table, &[id, id + MOVED]),
    };
    match done {
        Ok(_) => {
            txn.commit().unwrap();
        }
        Err(error) => assert_eq!(error.code(), 1062, "{error}"),
    }
}

/// All sequences of three statements by an old and a new version of the table, each on a row of its
/// own that exists or does not.
fn run_all_sequences(db: &Arc<Db>, old: &Arc<Table>, new: &Arc<Table>, first: i64) -> i64 {
    let mut id = first;
    for sequence in 0..8 * 8 * 8 {
        for exists in [false, true] {
            if exists {
                run(db, old, Op::Insert, id, 0);
            }
            let mut rest = sequence;
            for step in 1..=3 {
                let table = if rest % 2 == 0 { old } else { new };
                run(db, table, OPS[rest / 2 % 4], id, step);
                rest /= 8;
            }
            id += 1;
        }
    }
    id
}

#[test]
fn transactions_of_adjacent_versions_leave_rows_and_entries_consistent() {
    for engine in engines() {
        let db = family(engine);
        let table = get(&db, "t");
        let mut id = 1;
        // Rows for the backfill.
        let mut txn = begin(&db);
        for _ in 0..500 {
            let row = [id, id * 8, id % 3, id % 4];
            insert(&mut txn, &table, &[row.as_slice()]).unwrap();
            id += 1;
        }
        txn.commit().unwrap();
        let mut running = Running::start(&db, clauses());
        let mut seen = Vec::new();
        loop {
            let new = User::new(&db);
            seen.push((new.state("a"), new.state("c")));
            id = run_all_sequences(&db, &running.user.table, &new.table, id);
            running.user = new;
            if !running.stop(&db) {
                break;
            }
        }
        running.finish().unwrap();
        use IndexState::{Building, DeleteOnly, Enforced, Public};
        let states = [
            (None, Some(Public)),
            (Some(DeleteOnly), Some(Public)),
            (Some(Building), Some(Public)),
            (Some(Enforced), Some(Public)),
            (Some(Public), Some(Enforced)),
            (Some(Public), Some(DeleteOnly)),
            (Some(Public), None),
        ];
        seen.dedup();
        assert_eq!(seen, states);
        let after = get(&db, "t");
        assert!(after.changing.is_empty() && after.duplicates.is_none());
        let names: Vec<&str> = after.indexes.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["PRIMARY", "a", "b"]);
        verify(&db);
        check(&db);
    }
}

fn unique_on_a() -> Vec<AlterOp> {
    vec![
        add(IndexKind::Unique, "a", &["a"]),
        AlterOp::Lock(LockLevel::None),
    ]
}

#[test]
fn a_duplicate_that_arrives_during_the_build_ends_the_build_and_not_the_writer() {
    for engine in engines() {
        let db = family(engine);
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "t"), &[&[1, 10, 0, 0], &[2, 20, 0, 0]]).unwrap();
        txn.commit().unwrap();
        let mut running = Running::start(&db, unique_on_a());
        let user = running.until(&db, "a", IndexState::Building);
        let mut txn = begin(&db);
        insert(&mut txn, &user.table, &[&[3, 20, 0, 0], &[4, 30, 0, 0]]).unwrap();
        txn.commit().unwrap();
        drop(user);
        let error = running.finish().unwrap_err();
        assert_eq!(error.code(), 1062);
        assert_eq!(error.to_string(), "Duplicate entry '20' for key 't.a'");
        assert_eq!(get(&db, "t").indexes.len(), 2);
        verify(&db);
        check(&db);
    }
}

#[test]
fn a_duplicate_that_is_rolled_back_does_not_end_the_build() {
    for engine in engines() {
        let db = family(engine);
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "t"), &[&[1, 10, 0, 0], &[2, 20, 0, 0]]).unwrap();
        txn.commit().unwrap();
        let mut running = Running::start(&db, unique_on_a());
        let user = running.until(&db, "a", IndexState::Building);
        let mut txn = begin(&db);
        insert(&mut txn, &user.table, &[&[3, 20, 0, 0]]).unwrap();
        txn.rollback();
        drop(user);
        let user = running.until(&db, "a", IndexState::Enforced);
        let mut txn = begin(&db);
        let error = insert(&mut txn, &user.table, &[&[3, 20, 0, 0]]).unwrap_err();
        assert_eq!(error.code(), 1062);
        drop((txn, user));
        running.finish().unwrap();
        verify(&db);
        check(&db);
    }
}

#[test]
fn existing_duplicates_end_the_build() {
    for engine in engines() {
        let db = family(engine);
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "t"), &[&[1, 10, 0, 0], &[2, 10, 0, 0]]).unwrap();
        txn.commit().unwrap();
        let ops = unique_on_a();
        let error = db
            .define(|cx| db.alter_table(cx, "d", "t", &ops))
            .unwrap_err();
        assert_eq!(error.to_string(), "Duplicate entry '10' for key 't.a'");
        check(&db);
    }
}

/// An engine that cannot skip locked rows refuses a whole batch for one of them. The other rows must be indexed in few
/// transactions nevertheless.
#[test]
fn a_locked_row_does_not_make_the_backfill_index_its_batch_row_by_row() {
    let counting = Counting::without_skip(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let db = family(Arc::new(counting));
    let rows: Vec<[i64; 4]> = (1..=900).map(|id| [id, id, 0, 0]).collect();
    let rows: Vec<&[i64]> = rows.iter().map(<[i64; 4]>::as_slice).collect();
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "t"), &rows).unwrap();
    txn.commit().unwrap();
    let mut writer = begin(&db);
    update(&mut writer, &get(&db, "t"), &[700], |row| {
        row[2] = Value::Int(1)
    })
    .unwrap();
    calls.take();
    std::thread::scope(|scope| {
        let ops = [
            add(IndexKind::Plain, "b", &["b"]),
            AlterOp::Lock(LockLevel::None),
        ];
        let change = db.clone();
        let change =
            scope.spawn(move || change.define(|cx| change.alter_table(cx, "d", "t", &ops)));
        // The locked row is tried again and again.
        while calls.locks() < 60 && !change.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.commit().unwrap();
        change.join().unwrap().unwrap();
    });
    let locks = calls.take().locks;
    assert!((60..200).contains(&locks), "{locks} lock calls");
    verify(&db);
    check(&db);
}

#[test]
fn a_change_that_is_cancelled_in_any_state_leaves_the_table_as_it_was() {
    for stop in 0..6 {
        let db = family(engines().pop().unwrap());
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "t"), &[&[1, 10, 0, 0]]).unwrap();
        txn.commit().unwrap();
        let mut running = Running::start(&db, clauses());
        for _ in 0..stop {
            running.step(&db);
        }
        running.cancel.cancel(Reason::Query);
        let took_effect = get(&db, "t").index("a").is_some();
        let user = std::mem::replace(&mut running.user, User::new(&db));
        drop(user);
        let done = running.finish();
        assert_eq!(done.is_ok(), took_effect, "{stop}: {done:?}");
        assert_eq!(get(&db, "t").index("a").is_some(), took_effect);
        // What was left over is removed by the next change.
        let comment = AlterOp::SetComment("x".to_owned());
        db.define(|cx| db.alter_table(cx, "d", "t", &[comment]))
            .unwrap();
        verify(&db);
        check(&db);
    }
}

struct EndsWriters<'a>(&'a AtomicBool);

impl Drop for EndsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn writers_and_cascades_go_on_while_indexes_are_added_and_dropped() {
    let t = ids("t").int("p").null().int("a").key("p", &["p"]).fk_with(
        "t_p",
        &["p"],
        "p",
        &["id"],
        FkAction::Cascade,
        FkAction::Cascade,
    );
    let keyed = table("t")
        .int("id")
        .int("p")
        .null()
        .int("a")
        .primary(&["id"])
        .by(by_key(3));
    for (with_parent, defs) in [(true, vec![ids("p").int("v"), t]), (false, vec![keyed])] {
        let db = database(engines().pop().unwrap(), &defs);
        let over = AtomicBool::new(false);
        let next = AtomicU64::new(1);
        let (written, longest) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..3i64 {
                let (db, over, next) = (&db, &over, &next);
                let (written, longest) = (&written, &longest);
                scope.spawn(move || {
                    let session = db.metadata_locks().session();
                    let mut n = 0i64;
                    while !over.load(Ordering::SeqCst) {
                        n += 1;
                        let began = Instant::now();
                        let uses: Vec<_> = get(db, "t")
                            .write_set
                            .iter()
                            .map(|t| (*t, Access::Write))
                            .collect();
                        let deadline = Instant::now() + Duration::from_secs(20);
                        session.share(&uses, deadline, &Cancel::new()).unwrap();
                        let table = get(db, "t");
                        let mut txn = begin(db);
                        let fresh = next.fetch_add(1, Ordering::SeqCst) as i64;
                        let parent = n % 5;
                        let done = match (n % 7, with_parent) {
                            (0, true) => delete(&mut txn, &get(db, "p"), &[parent]),
                            (1, true) => insert(&mut txn, &get(db, "p"), &[&[parent, 0]]),
                            (2, _) => delete(&mut txn, &table, &[fresh / 2]),
                            (3, _) => {
                                update(&mut txn, &table, &[fresh / 3, fresh / 3 + 1], |row| {
                                    row[2] = Value::Int(-fresh * 4 - thread);
                                })
                                .map(|done| done.changed)
                            }
                            _ => {
                                let parent = if with_parent {
                                    crate::common::N
                                } else {
                                    parent
                                };
                                insert(&mut txn, &table, &[&[fresh, parent, fresh]])
                            }
                        };
                        match done {
                            Ok(_) => {
                                txn.commit().unwrap();
                                written.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(error) => {
                                assert!(
                                    [1062, 1213, 1451, 1452].contains(&error.code()),
                                    "{error}"
                                );
                            }
                        }
                        session.end();
                        std::thread::sleep(Duration::from_millis(1));
                        longest.fetch_max(began.elapsed().as_millis() as u64, Ordering::SeqCst);
                    }
                });
            }
            // Ends the writers also when the test fails.
            let _ends = EndsWriters(&over);
            for round in 0..4 {
                std::thread::sleep(Duration::from_millis(60));
                let kind = if round % 2 == 0 {
                    IndexKind::Plain
                } else {
                    IndexKind::Unique
                };
                let ops = [
                    add(kind, "x", &["a", "id"]),
                    add(IndexKind::Plain, "y", &["p", "a"]),
                    AlterOp::Lock(LockLevel::None),
                ];
                db.define(|cx| db.alter_table(cx, "d", "t", &ops)).unwrap();
                let ops = [
                    AlterOp::DropIndex("x".to_owned()),
                    AlterOp::DropIndex("y".to_owned()),
                    AlterOp::Lock(LockLevel::None),
                ];
                if round == 3 {
                    break;
                }
                db.define(|cx| db.alter_table(cx, "d", "t", &ops)).unwrap();
            }
        });
        assert!(written.load(Ordering::SeqCst) > 100);
        // Generous: the machine of a test may be busy.
        let longest = longest.load(Ordering::SeqCst);
        assert!(longest < 2000, "a statement took {longest} ms");
        verify(&db);
        check(&db);
    }
}

#[test]
fn two_changes_of_one_table_run_one_after_the_other() {
    let db = family(engines().pop().unwrap());
    let first = Running::start(&db, unique_on_a());
    let second = {
        let db = db.clone();
        std::thread::spawn(move || {
            let ops = [
                add(IndexKind::Plain, "b", &["b"]),
                AlterOp::Lock(LockLevel::None),
            ];
            db.define(|cx| db.alter_table(cx, "d", "t", &ops))
        })
    };
    std::thread::sleep(Duration::from_millis(50));
    assert!(!second.is_finished());
    first.finish().unwrap();
    second.join().unwrap().unwrap();
    let names: Vec<String> = get(&db, "t")
        .indexes
        .iter()
        .map(|i| i.name.clone())
        .collect();
    assert_eq!(names, ["PRIMARY", "a", "c", "b"]);
}
