//! Guarantees 1, 5 and 13: commits are atomic, no update is lost, rollbacks leave no trace.

use super::{EngineFactory, Fixture, PAUSE, dump, lock_one};
use crate::{Check, CommitPosition, Error, Key, LockMode, Read, Txn};
use std::sync::mpsc;

fn write(fixture: &Fixture, txn: &mut dyn Txn, key: &str, value: &str) {
    txn.put(fixture.key(key), value.as_bytes(), Check::FirstCommitter)
        .unwrap();
}

/// One conflicting key fails the whole commit.
pub fn guarantee_1_a_refused_commit_changes_nothing(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("b", "0");
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    for key in ["a", "b", "c"] {
        write(&fixture, &mut *txn, key, "mine");
    }
    fixture.set("b", "theirs");
    assert!(matches!(txn.commit(), Err(Error::Conflict)));
    assert_eq!(fixture.get("a"), None);
    assert_eq!(fixture.get("b").as_deref(), Some("theirs"));
    assert_eq!(fixture.get("c"), None);
    fixture.set("a", "free again");
}

/// Several writes to one key in one transaction leave the last.
pub fn guarantee_1_the_last_write_of_a_key_wins(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("gone", "x");
    let mut txn = fixture.begin();
    for key in ["a", "b", "gone"] {
        lock_one(&mut *txn, fixture.key(key), LockMode::Exclusive).unwrap();
        txn.put(fixture.key(key), b"1", Check::Locked).unwrap();
        txn.delete(fixture.key(key), Check::Locked).unwrap();
    }
    txn.put(fixture.key("a"), b"2", Check::Locked).unwrap();
    txn.put(fixture.key("a"), b"3", Check::Locked).unwrap();
    fixture.commit(txn);
    assert_eq!(fixture.get("a").as_deref(), Some("3"));
    assert_eq!(fixture.get("b"), None);
    assert_eq!(fixture.get("gone"), None);
}

/// Some thousand keys become visible in one step.
pub fn guarantee_1_large_transactions_are_whole(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            for round in 0..3 {
                let mut txn = fixture.begin();
                for n in 0..2000 {
                    let key = format!("{n:05}");
                    txn.put(
                        fixture.key(&key),
                        format!("{round}").as_bytes(),
                        Check::Blind,
                    )
                    .unwrap();
                }
                fixture.commit(txn);
            }
            send.send(()).unwrap();
        });
        loop {
            let over = receive.try_recv().is_ok();
            let mut txn = fixture.begin();
            let all = dump(&mut *txn, Read::SNAPSHOT, fixture.space);
            assert!(all.is_empty() || all.len() == 2000, "{} keys", all.len());
            assert!(all.windows(2).all(|w| w[0].1 == w[1].1), "torn");
            if over {
                assert_eq!(all[0].1, "2");
                break;
            }
        }
    });
}

/// Two transactions read the same version and write it: one is refused.
pub fn guarantee_5_no_lost_update(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut one = fixture.begin();
    let mut two = fixture.begin();
    one.pin().unwrap();
    two.pin().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *one, "a").as_deref(), Some("0"));
    assert_eq!(fixture.at_snapshot(&mut *two, "a").as_deref(), Some("0"));
    write(&fixture, &mut *one, "a", "one");
    write(&fixture, &mut *two, "a", "two");
    fixture.commit(one);
    assert!(matches!(two.commit(), Err(Error::Conflict)));
    assert_eq!(fixture.get("a").as_deref(), Some("one"));
}

/// A key that was inserted or deleted since the snapshot has changed.
pub fn guarantee_5_inserts_and_deletions_conflict_too(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("gone", "0");
    for key in ["came", "gone"] {
        let mut txn = fixture.begin();
        txn.pin().unwrap();
        if key == "came" {
            fixture.set(key, "1");
        } else {
            fixture.delete(key);
        }
        txn.delete(fixture.key(key), Check::FirstCommitter).unwrap();
        assert!(matches!(txn.commit(), Err(Error::Conflict)), "{key}");
    }
    assert_eq!(fixture.get("came").as_deref(), Some("1"));
}

/// After a refresh, the newer version counts as read.
pub fn guarantee_5_a_refreshed_snapshot_does_not_conflict(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut txn = fixture.begin();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("0"));
    fixture.set("a", "1");
    txn.refresh().unwrap();
    write(&fixture, &mut *txn, "a", "2");
    fixture.commit(txn);
    assert_eq!(fixture.get("a").as_deref(), Some("2"));
}

/// A transaction that never took a snapshot is not refused.
pub fn guarantee_5_without_a_snapshot_there_is_nothing_to_compare(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut txn = fixture.begin();
    fixture.set("a", "0");
    write(&fixture, &mut *txn, "a", "1");
    fixture.commit(txn);
    assert_eq!(fixture.get("a").as_deref(), Some("1"));
}

/// The commit of an unlocked write waits for another transaction's lock, and checks after the wait.
pub fn guarantee_5_a_commit_waits_for_the_holder_of_a_lock(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for commits in [true, false] {
        fixture.set("a", "0");
        let mut holder = fixture.begin();
        lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
        holder
            .put(fixture.key("a"), b"holder", Check::Locked)
            .unwrap();
        let mut txn = fixture.begin();
        txn.pin().unwrap();
        // A snapshot that has read nothing yet may come after a commit that has no timestamp of its own.
        assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("0"));
        write(&fixture, &mut *txn, "a", "second");
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || send.send(txn.commit()).unwrap());
            assert!(
                receive.recv_timeout(PAUSE).is_err(),
                "committed under another's lock"
            );
            if commits {
                fixture.commit(holder);
                let outcome = receive.recv().unwrap();
                assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
                assert_eq!(fixture.get("a").as_deref(), Some("holder"));
            } else {
                holder.rollback();
                let position = receive.recv().unwrap().unwrap().position;
                fixture.engine.wait_durable(position).unwrap();
                assert_eq!(fixture.get("a").as_deref(), Some("second"));
            }
        });
    }
}

/// Read at the snapshot, increment, commit, and retry on conflict.
pub fn guarantee_5_counting_with_retries_loses_nothing(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("n", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    loop {
                        let mut txn = fixture.begin();
                        txn.pin().unwrap();
                        let n: u32 = fixture
                            .at_snapshot(&mut *txn, "n")
                            .unwrap()
                            .parse()
                            .unwrap();
                        write(&fixture, &mut *txn, "n", &(n + 1).to_string());
                        match txn.commit() {
                            Ok(done) => {
                                fixture.engine.wait_durable(done.position).unwrap();
                                break;
                            }
                            Err(Error::Conflict | Error::Deadlock) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(fixture.get("n").as_deref(), Some("100"));
}

/// Lock, increment the value returned by the grant, commit: never refused.
pub fn guarantee_5_counting_under_locks_loses_nothing(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("n", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut txn = fixture.begin();
                    let found = lock_one(&mut *txn, fixture.key("n"), LockMode::Update).unwrap();
                    let n: u32 = found.value.unwrap().parse().unwrap();
                    txn.put(
                        fixture.key("n"),
                        (n + 1).to_string().as_bytes(),
                        Check::Locked,
                    )
                    .unwrap();
                    fixture.commit(txn);
                }
            });
        }
    });
    assert_eq!(fixture.get("n").as_deref(), Some("100"));
}

/// Sum of all values that a new snapshot sees.
fn sum_of_values(fixture: &Fixture) -> i64 {
    let mut txn = fixture.begin();
    let rows = dump(&mut *txn, Read::SNAPSHOT, fixture.space);
    rows.iter().map(|(_, v)| v.parse::<i64>().unwrap()).sum()
}

/// Transfers between accounts, by locks and by retries, with concurrent readers.
pub fn guarantee_5_transfers_keep_the_sum(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let account = |n: u64| format!("account{n}");
    for n in 0..5 {
        fixture.set(&account(n), "100");
    }
    let locked = |seed: u64| {
        let mut rng = super::Rng::new(seed);
        for _ in 0..40 {
            let (from, to) = (account(rng.below(5)), account(rng.below(5)));
            if from == to {
                continue;
            }
            let mut txn = fixture.begin();
            let mut values = [0i64; 2];
            let requests = [&from, &to].map(|key| crate::LockRequest {
                key: fixture.key(key),
                mode: LockMode::Update,
            });
            let wait = crate::Wait::Until(std::time::Instant::now() + super::PATIENCE);
            txn.lock(&requests, wait, &mut |index, locked| {
                values[index] = super::text(locked.value.unwrap()).parse().unwrap();
            })
            .unwrap();
            for (key, value) in [(&from, values[0] - 1), (&to, values[1] + 1)] {
                let value = value.to_string();
                txn.put(fixture.key(key), value.as_bytes(), Check::Locked)
                    .unwrap();
            }
            fixture.commit(txn);
        }
    };
    let optimistic = |seed: u64| {
        let mut rng = super::Rng::new(seed);
        for _ in 0..40 {
            let (from, to) = (account(rng.below(5)), account(rng.below(5)));
            if from == to {
                continue;
            }
            let mut txn = fixture.begin();
            txn.pin().unwrap();
            for (key, change) in [(&from, -1), (&to, 1)] {
                let text = fixture.at_snapshot(&mut *txn, key).unwrap();
                let value: i64 = text.parse().unwrap();
                write(&fixture, &mut *txn, key, &(value + change).to_string());
            }
            match txn.commit() {
                Ok(done) => fixture.engine.wait_durable(done.position).unwrap(),
                Err(Error::Conflict | Error::Deadlock) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    let sum = || sum_of_values(&fixture);
    std::thread::scope(|scope| {
        scope.spawn(|| locked(1));
        scope.spawn(|| locked(2));
        scope.spawn(|| optimistic(3));
        scope.spawn(|| {
            for _ in 0..50 {
                assert_eq!(sum(), 500);
            }
        });
    });
    assert_eq!(sum(), 500);
}

/// A blind write is covered by another key's lock.
pub fn guarantee_5_blind_writes_are_not_checked(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    lock_one(&mut *txn, fixture.key("row"), LockMode::Update).unwrap();
    fixture.set("entry", "0");
    txn.put(fixture.key("entry"), b"1", Check::Blind).unwrap();
    fixture.commit(txn);
    assert_eq!(fixture.get("entry").as_deref(), Some("1"));
}

fn leave_no_trace(new: EngineFactory<'_>, end: impl Fn(Box<dyn Txn>)) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
    lock_one(&mut *txn, fixture.key("b"), LockMode::Exclusive).unwrap();
    txn.put(fixture.key("a"), b"1", Check::Locked).unwrap();
    txn.put(fixture.key("b"), b"1", Check::Locked).unwrap();
    end(txn);
    assert_eq!(fixture.get("a").as_deref(), Some("0"));
    assert_eq!(fixture.get("b"), None);
    let mut other = fixture.begin();
    assert!(fixture.try_lock(&mut *other, "a", LockMode::Exclusive));
    assert!(fixture.try_lock(&mut *other, "b", LockMode::Exclusive));
}

/// Dropping a transaction rolls it back.
pub fn guarantee_13_a_dropped_transaction_leaves_no_trace(new: EngineFactory<'_>) {
    leave_no_trace(new, drop);
}

/// An explicit rollback leaves no trace.
pub fn guarantee_13_rollback_leaves_no_trace(new: EngineFactory<'_>) {
    leave_no_trace(new, |txn| txn.rollback());
}

/// A transaction that has only read can be restarted, on engines that do this; one with locks or writes goes on.
pub fn guarantee_13_a_restarted_transaction_is_a_new_one(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    let mut txn = fixture.begin();
    txn.track_reads();
    txn.pin().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    fixture.set("a", "2");
    if txn.restart() {
        assert!(!txn.pinned());
        assert_eq!(txn.tracked_reads(), 0);
        assert_eq!(txn.seen(), CommitPosition::NONE);
        assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("2"));
    } else {
        // It has gone on.
        assert!(txn.pinned());
        assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
        txn.rollback();
        txn = fixture.begin();
    }
    lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
    assert!(!txn.restart(), "a lock was lost");
    txn.put(fixture.key("a"), b"3", Check::Locked).unwrap();
    txn.put(fixture.key("b"), b"4", Check::Blind).unwrap();
    assert!(!txn.restart(), "writes were lost");
    if !txn.restarts() {
        fixture.commit(txn);
    } else {
        let position = txn.commit_and_restart().unwrap().position;
        fixture.engine.wait_durable(position).unwrap();
        assert!(!txn.has_writes() && !txn.pinned());
        assert!(fixture.try_lock(&mut *fixture.begin(), "a", LockMode::Exclusive));
        fixture.set("a", "5");
        // The first write of the new transaction conflicts with a commit after its snapshot, as that of any other.
        assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("5"));
        txn.pin().unwrap();
        fixture.set("a", "3");
        write(&fixture, &mut *txn, "a", "lost");
        assert!(matches!(txn.commit_and_restart(), Err(Error::Conflict)));
        write(&fixture, &mut *txn, "c", "6");
        fixture.commit(txn);
        assert_eq!(fixture.get("c").as_deref(), Some("6"));
    }
    assert_eq!(fixture.get("a").as_deref(), Some("3"));
    assert_eq!(fixture.get("b").as_deref(), Some("4"));
}

/// An empty commit does not wait, and oversized writes fail with the documented error.
pub fn empty_commits_and_sizes_beyond_the_limits(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let empty = fixture.begin();
    assert!(!empty.has_writes());
    assert_eq!(empty.seen(), CommitPosition::NONE);
    fixture.commit(empty);
    let limits = fixture.engine.limits();
    assert!(limits.key >= 3072 && limits.value >= 1 << 20);
    if limits.key < 1 << 20 {
        let mut txn = fixture.begin();
        let long = vec![b'k'; limits.key + 1];
        let refused = txn.put(Key::new(fixture.space, &long), b"", Check::Blind);
        assert!(
            matches!(refused, Err(Error::TooLarge { what: "key", .. })),
            "{refused:?}"
        );
        let longest = vec![b'k'; limits.key];
        txn.put(Key::new(fixture.space, &longest), b"v", Check::Blind)
            .unwrap();
        fixture.commit(txn);
    }
}
