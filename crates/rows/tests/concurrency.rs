//! Constraints between transactions on different threads.

use crate::common::verify::verify;
use crate::common::{
    begin, database, delete, delete_locked, engines, get, ids, insert, int, ints, row, update,
};
use porpoise_kv::{Engine, LockMode};
use porpoise_rows::catalog::FkAction;
use porpoise_rows::{BeginOptions, Db, InsertMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

fn family(engine: Arc<dyn Engine>, on_delete: FkAction) -> Arc<Db> {
    database(
        engine,
        &[
            ids("p").int("v"),
            ids("c").int("p").null().key("p", &["p"]).fk_with(
                "c_p",
                &["p"],
                "p",
                &["id"],
                on_delete,
                FkAction::Cascade,
            ),
        ],
    )
}

fn impatient(db: &Arc<Db>) -> porpoise_rows::Txn {
    db.begin(BeginOptions {
        lock_wait: Duration::from_secs(20),
        ..BeginOptions::default()
    })
    .unwrap()
}

#[test]
fn children_inserted_while_their_parent_is_deleted_are_never_orphans() {
    let actions = [FkAction::Restrict, FkAction::Cascade, FkAction::SetNull];
    for (on_delete, engine) in actions
        .iter()
        .flat_map(|a| engines().into_iter().map(move |e| (a, e)))
    {
        let db = family(engine, *on_delete);
        let next = AtomicI64::new(1);
        let (inserted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for n in 0..150 {
                        let mut txn = impatient(&db);
                        let id = next.fetch_add(1, Ordering::SeqCst);
                        match insert(&mut txn, &get(&db, "c"), &[&[id, n % 4]]) {
                            Ok(_) => {
                                txn.commit().unwrap();
                                inserted.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(e) => {
                                assert!([1452, 1213].contains(&e.code()), "{e}");
                                refused.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
            s.spawn(|| {
                for n in 0..150 {
                    let mut txn = impatient(&db);
                    let done = if n % 2 == 0 {
                        insert(&mut txn, &get(&db, "p"), &[&[n / 2 % 4, 0]])
                    } else {
                        delete(&mut txn, &get(&db, "p"), &[n / 2 % 4])
                    };
                    match done {
                        Ok(_) => {
                            txn.commit().unwrap();
                        }
                        Err(e) => assert!([1451, 1213, 1062].contains(&e.code()), "{e}"),
                    }
                }
            });
        });
        assert_eq!(inserted.into_inner() + refused.into_inner(), 450);
        verify(&db);
    }
}

#[test]
fn child_inserts_neither_wait_for_nor_deadlock_with_other_updates_of_the_parent() {
    for engine in engines() {
        let db = family(engine, FkAction::Restrict);
        let mut setup = begin(&db);
        insert(&mut setup, &get(&db, "p"), &[&[1, 0], &[2, 0]]).unwrap();
        setup.commit().unwrap();
        // The parent's update is not committed, and the insertion does not wait for it.
        let mut holder = begin(&db);
        update(&mut holder, &get(&db, "p"), &[1, 2], |r| r[1] = int(1)).unwrap();
        let mut child = db
            .begin(BeginOptions {
                lock_wait: Duration::from_millis(1),
                ..BeginOptions::default()
            })
            .unwrap();
        insert(&mut child, &get(&db, "c"), &[&[-1, 1], &[-2, 2]]).unwrap();
        child.commit().unwrap();
        holder.commit().unwrap();
        let next = AtomicI64::new(1);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..100 {
                        let mut txn = impatient(&db);
                        for parent in [2, 1, 2] {
                            let id = next.fetch_add(1, Ordering::SeqCst);
                            insert(&mut txn, &get(&db, "c"), &[&[id, parent]]).unwrap();
                        }
                        txn.commit().unwrap();
                    }
                });
            }
            s.spawn(|| {
                for _ in 0..100 {
                    let mut txn = impatient(&db);
                    update(&mut txn, &get(&db, "p"), &[1, 2], |r| {
                        r[1] = row(&[7])[0].clone()
                    })
                    .unwrap();
                    update(&mut txn, &get(&db, "p"), &[1, 2], |r| r[1] = int(8)).unwrap();
                    txn.commit().unwrap();
                }
            });
        });
        assert_eq!(ints(&db, "c").len(), 902);
        verify(&db);
    }
}

#[test]
fn one_of_several_concurrent_inserts_of_a_unique_value_succeeds() {
    for engine in engines() {
        let db = database(engine, &[ids("t").int("u").unique("u", &["u"])]);
        let wins = AtomicU64::new(0);
        std::thread::scope(|s| {
            for thread in 0..4i64 {
                let (db, wins) = (&db, &wins);
                s.spawn(move || {
                    for n in 0..60 {
                        let mut txn = impatient(db);
                        let new = vec![row(&[thread * 1000 + n, n])];
                        match txn.insert(&get(db, "t"), new, InsertMode::Plain) {
                            Ok(_) => {
                                txn.commit().unwrap();
                                wins.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(e) => assert_eq!(e.code(), 1062, "{e}"),
                        }
                    }
                });
            }
        });
        assert_eq!(wins.into_inner(), 60);
        verify(&db);
    }
}

#[test]
fn a_parents_key_cannot_change_while_a_child_is_uncommitted() {
    for engine in engines() {
        let db = family(engine, FkAction::Restrict);
        let mut setup = begin(&db);
        insert(&mut setup, &get(&db, "p"), &[&[1, 0]]).unwrap();
        setup.commit().unwrap();
        let mut child = begin(&db);
        insert(&mut child, &get(&db, "c"), &[&[1, 1]]).unwrap();
        std::thread::scope(|s| {
            let mover = s.spawn(|| {
                let mut txn = impatient(&db);
                let done = update(&mut txn, &get(&db, "p"), &[1], |r| r[0] = int(5));
                txn.commit().unwrap();
                done.map(|d| (d.changed, d.cascaded))
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!mover.is_finished());
            child.commit().unwrap();
            assert_eq!(mover.join().unwrap().unwrap(), (1, 1));
        });
        assert_eq!(ints(&db, "c"), [[1, 5]]);
        verify(&db);
    }
}

/// A child whose primary key changes has a new index entry; a concurrent deletion of the parent must
/// find that entry.
#[test]
fn the_delete_of_a_parent_finds_a_child_whose_key_changes() {
    for engine in engines() {
        for on_delete in [FkAction::Restrict, FkAction::Cascade, FkAction::SetNull] {
            let db = family(engine.clone(), on_delete);
            let mut setup = begin(&db);
            insert(&mut setup, &get(&db, "p"), &[&[1, 0]]).unwrap();
            insert(&mut setup, &get(&db, "c"), &[&[5, 1]]).unwrap();
            setup.commit().unwrap();
            let mut mover = impatient(&db);
            update(&mut mover, &get(&db, "c"), &[5], |r| r[0] = int(6)).unwrap();
            std::thread::scope(|s| {
                let deleter = s.spawn(|| {
                    let mut txn = impatient(&db);
                    let done = delete(&mut txn, &get(&db, "p"), &[1]);
                    txn.commit().unwrap();
                    done.is_ok()
                });
                std::thread::sleep(Duration::from_millis(100));
                mover.commit().unwrap();
                let deleted = deleter.join().unwrap();
                assert_eq!(deleted, on_delete != FkAction::Restrict);
            });
            verify(&db);
        }
    }
}

/// The scan for children does not read a snapshot: the parent's lock keeps entries from moving from
/// after the scan's position to before it.
#[test]
fn a_childs_entry_cannot_move_while_its_parent_is_being_deleted() {
    for engine in engines() {
        let child = ids("c").int("p").int("x");
        let child = child.int("v").key("p", &["p", "x"]);
        let db = database(engine, &[ids("p"), child.fk("c_p", &["p"], "p", &["id"])]);
        let mut setup = begin(&db);
        insert(&mut setup, &get(&db, "p"), &[&[1]]).unwrap();
        insert(&mut setup, &get(&db, "c"), &[&[5, 1, 9, 0]]).unwrap();
        setup.commit().unwrap();
        let mut deleter = begin(&db);
        delete(&mut deleter, &get(&db, "p"), &[1]).unwrap_err();
        let change = |column: usize| {
            let mut txn = db
                .begin(BeginOptions {
                    lock_wait: Duration::from_millis(20),
                    ..BeginOptions::default()
                })
                .unwrap();
            let done = update(&mut txn, &get(&db, "c"), &[5], |r| r[column] = int(3));
            done.map_err(|e| e.code()).map(|done| done.changed)
        };
        assert_eq!(change(2), Err(1205), "x is in the index");
        assert_eq!(change(0), Err(1205), "and so is the primary key");
        assert_eq!(change(3), Ok(1), "v is not");
    }
}

/// Rows may be locked in any mode: the deletion itself locks the keys that a child's check needs.
#[test]
fn a_deletion_waits_for_the_parent_checks_of_children() {
    for engine in engines() {
        let db = family(engine, FkAction::Restrict);
        let mut setup = begin(&db);
        insert(&mut setup, &get(&db, "p"), &[&[1, 0]]).unwrap();
        setup.commit().unwrap();
        let mut child = begin(&db);
        insert(&mut child, &get(&db, "c"), &[&[1, 1]]).unwrap();
        let deletion = |mode: LockMode| {
            let options = BeginOptions {
                lock_wait: Duration::from_millis(20),
                ..BeginOptions::default()
            };
            let mut txn = db.begin(options).unwrap();
            let done = delete_locked(&mut txn, &get(&db, "p"), &[1], mode);
            done.map_err(|e| e.code())
        };
        assert_eq!(deletion(LockMode::Update), Err(1205));
        assert_eq!(deletion(LockMode::Exclusive), Err(1205));
        child.commit().unwrap();
        assert_eq!(deletion(LockMode::Update), Err(1451));
        verify(&db);
    }
}
