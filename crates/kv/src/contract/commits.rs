//! Guarantees 1, 5 and 13: commits are atomic, no update is lost, rollbacks leave no trace.

use super::{Fixture, New, PAUSE, dump, lock_one};
use crate::{Check, CommitPosition, Error, Key, LockMode, Read, Txn};
use std::sync::mpsc;

fn write(bed: &Fixture, txn: &mut dyn Txn, key: &str, value: &str) {
    txn.put(bed.key(key), value.as_bytes(), Check::FirstCommitter)
        .unwrap();
}

/// One conflicting key fails the whole commit.
pub fn guarantee_1_a_refused_commit_changes_nothing(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("b", "0");
    let mut txn = bed.begin();
    txn.pin().unwrap();
    for key in ["a", "b", "c"] {
        write(&bed, &mut *txn, key, "mine");
    }
    bed.set("b", "theirs");
    assert!(matches!(txn.commit(), Err(Error::Conflict)));
    assert_eq!(bed.get("a"), None);
    assert_eq!(bed.get("b").as_deref(), Some("theirs"));
    assert_eq!(bed.get("c"), None);
    bed.set("a", "free again");
}

/// Several writes to one key in one transaction leave the last.
pub fn guarantee_1_the_last_write_of_a_key_wins(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("gone", "x");
    let mut txn = bed.begin();
    for key in ["a", "b", "gone"] {
        lock_one(&mut *txn, bed.key(key), LockMode::Exclusive).unwrap();
        txn.put(bed.key(key), b"1", Check::Locked).unwrap();
        txn.delete(bed.key(key), Check::Locked).unwrap();
    }
    txn.put(bed.key("a"), b"2", Check::Locked).unwrap();
    txn.put(bed.key("a"), b"3", Check::Locked).unwrap();
    bed.commit(txn);
    assert_eq!(bed.get("a").as_deref(), Some("3"));
    assert_eq!(bed.get("b"), None);
    assert_eq!(bed.get("gone"), None);
}

/// Some thousand keys become visible in one step.
pub fn guarantee_1_large_transactions_are_whole(new: New<'_>) {
    let bed = Fixture::new(new);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let bed = &bed;
        scope.spawn(move || {
            for round in 0..3 {
                let mut txn = bed.begin();
                for n in 0..2000 {
                    let key = format!("{n:05}");
                    txn.put(bed.key(&key), format!("{round}").as_bytes(), Check::Blind)
                        .unwrap();
                }
                bed.commit(txn);
            }
            send.send(()).unwrap();
        });
        loop {
            let over = receive.try_recv().is_ok();
            let mut txn = bed.begin();
            let all = dump(&mut *txn, Read::SNAPSHOT, bed.space);
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
pub fn guarantee_5_no_lost_update(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    let mut one = bed.begin();
    let mut two = bed.begin();
    one.pin().unwrap();
    two.pin().unwrap();
    assert_eq!(bed.at_snapshot(&mut *one, "a").as_deref(), Some("0"));
    assert_eq!(bed.at_snapshot(&mut *two, "a").as_deref(), Some("0"));
    write(&bed, &mut *one, "a", "one");
    write(&bed, &mut *two, "a", "two");
    bed.commit(one);
    assert!(matches!(two.commit(), Err(Error::Conflict)));
    assert_eq!(bed.get("a").as_deref(), Some("one"));
}

/// A key that was inserted or deleted since the snapshot has changed.
pub fn guarantee_5_inserts_and_deletions_conflict_too(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("gone", "0");
    for key in ["came", "gone"] {
        let mut txn = bed.begin();
        txn.pin().unwrap();
        if key == "came" {
            bed.set(key, "1");
        } else {
            bed.delete(key);
        }
        txn.delete(bed.key(key), Check::FirstCommitter).unwrap();
        assert!(matches!(txn.commit(), Err(Error::Conflict)), "{key}");
    }
    assert_eq!(bed.get("came").as_deref(), Some("1"));
}

/// After a refresh, the newer version counts as read.
pub fn guarantee_5_a_refreshed_snapshot_does_not_conflict(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    let mut txn = bed.begin();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("0"));
    bed.set("a", "1");
    txn.refresh().unwrap();
    write(&bed, &mut *txn, "a", "2");
    bed.commit(txn);
    assert_eq!(bed.get("a").as_deref(), Some("2"));
}

/// A transaction that never took a snapshot is not refused.
pub fn guarantee_5_without_a_snapshot_there_is_nothing_to_compare(new: New<'_>) {
    let bed = Fixture::new(new);
    let mut txn = bed.begin();
    bed.set("a", "0");
    write(&bed, &mut *txn, "a", "1");
    bed.commit(txn);
    assert_eq!(bed.get("a").as_deref(), Some("1"));
}

/// The commit of an unlocked write waits for another transaction's lock, and checks after the wait.
pub fn guarantee_5_a_commit_waits_for_the_holder_of_a_lock(new: New<'_>) {
    let bed = Fixture::new(new);
    for commits in [true, false] {
        bed.set("a", "0");
        let mut holder = bed.begin();
        lock_one(&mut *holder, bed.key("a"), LockMode::Exclusive).unwrap();
        holder.put(bed.key("a"), b"holder", Check::Locked).unwrap();
        let mut txn = bed.begin();
        txn.pin().unwrap();
        write(&bed, &mut *txn, "a", "second");
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || send.send(txn.commit()).unwrap());
            assert!(
                receive.recv_timeout(PAUSE).is_err(),
                "committed under another's lock"
            );
            if commits {
                bed.commit(holder);
                let outcome = receive.recv().unwrap();
                assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
                assert_eq!(bed.get("a").as_deref(), Some("holder"));
            } else {
                holder.rollback();
                let position = receive.recv().unwrap().unwrap().position;
                bed.engine.wait_durable(position).unwrap();
                assert_eq!(bed.get("a").as_deref(), Some("second"));
            }
        });
    }
}

/// Read at the snapshot, increment, commit, and retry on conflict.
pub fn guarantee_5_counting_with_retries_loses_nothing(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("n", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    loop {
                        let mut txn = bed.begin();
                        txn.pin().unwrap();
                        let n: u32 = bed.at_snapshot(&mut *txn, "n").unwrap().parse().unwrap();
                        write(&bed, &mut *txn, "n", &(n + 1).to_string());
                        match txn.commit() {
                            Ok(done) => {
                                bed.engine.wait_durable(done.position).unwrap();
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
    assert_eq!(bed.get("n").as_deref(), Some("100"));
}

/// Lock, increment the value returned by the grant, commit: never refused.
pub fn guarantee_5_counting_under_locks_loses_nothing(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("n", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut txn = bed.begin();
                    let found = lock_one(&mut *txn, bed.key("n"), LockMode::Update).unwrap();
                    let n: u32 = found.value.unwrap().parse().unwrap();
                    txn.put(bed.key("n"), (n + 1).to_string().as_bytes(), Check::Locked)
                        .unwrap();
                    bed.commit(txn);
                }
            });
        }
    });
    assert_eq!(bed.get("n").as_deref(), Some("100"));
}

/// Transfers between accounts, by locks and by retries, with concurrent readers.
pub fn guarantee_5_transfers_keep_the_sum(new: New<'_>) {
    let bed = Fixture::new(new);
    let account = |n: u64| format!("account{n}");
    for n in 0..5 {
        bed.set(&account(n), "100");
    }
    let locked = |seed: u64| {
        let mut rng = super::Rng::new(seed);
        for _ in 0..40 {
            let (from, to) = (account(rng.below(5)), account(rng.below(5)));
            if from == to {
                continue;
            }
            let mut txn = bed.begin();
            let mut values = [0i64; 2];
            let requests = [&from, &to].map(|key| crate::LockRequest {
                key: bed.key(key),
                mode: LockMode::Update,
            });
            let wait = crate::Wait::Until(std::time::Instant::now() + super::PATIENCE);
            txn.lock(&requests, wait, &mut |index, locked| {
                values[index] = super::text(locked.value.unwrap()).parse().unwrap();
            })
            .unwrap();
            for (key, value) in [(&from, values[0] - 1), (&to, values[1] + 1)] {
                txn.put(bed.key(key), value.to_string().as_bytes(), Check::Locked)
                    .unwrap();
            }
            bed.commit(txn);
        }
    };
    let optimistic = |seed: u64| {
        let mut rng = super::Rng::new(seed);
        for _ in 0..40 {
            let (from, to) = (account(rng.below(5)), account(rng.below(5)));
            if from == to {
                continue;
            }
            let mut txn = bed.begin();
            txn.pin().unwrap();
            for (key, change) in [(&from, -1), (&to, 1)] {
                let value: i64 = bed.at_snapshot(&mut *txn, key).unwrap().parse().unwrap();
                write(&bed, &mut *txn, key, &(value + change).to_string());
            }
            match txn.commit() {
                Ok(done) => bed.engine.wait_durable(done.position).unwrap(),
                Err(Error::Conflict | Error::Deadlock) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    let sum = || {
        let mut txn = bed.begin();
        dump(&mut *txn, Read::SNAPSHOT, bed.space)
            .iter()
            .map(|(_, v)| v.parse::<i64>().unwrap())
            .sum::<i64>()
    };
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
pub fn guarantee_5_blind_writes_are_not_checked(new: New<'_>) {
    let bed = Fixture::new(new);
    let mut txn = bed.begin();
    txn.pin().unwrap();
    lock_one(&mut *txn, bed.key("row"), LockMode::Update).unwrap();
    bed.set("entry", "0");
    txn.put(bed.key("entry"), b"1", Check::Blind).unwrap();
    bed.commit(txn);
    assert_eq!(bed.get("entry").as_deref(), Some("1"));
}

fn leave_no_trace(new: New<'_>, end: impl Fn(Box<dyn Txn>)) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    let mut txn = bed.begin();
    txn.pin().unwrap();
    lock_one(&mut *txn, bed.key("a"), LockMode::Exclusive).unwrap();
    lock_one(&mut *txn, bed.key("b"), LockMode::Exclusive).unwrap();
    txn.put(bed.key("a"), b"1", Check::Locked).unwrap();
    txn.put(bed.key("b"), b"1", Check::Locked).unwrap();
    end(txn);
    assert_eq!(bed.get("a").as_deref(), Some("0"));
    assert_eq!(bed.get("b"), None);
    let mut other = bed.begin();
    assert!(bed.try_lock(&mut *other, "a", LockMode::Exclusive));
    assert!(bed.try_lock(&mut *other, "b", LockMode::Exclusive));
}

/// Dropping a transaction rolls it back.
pub fn guarantee_13_a_dropped_transaction_leaves_no_trace(new: New<'_>) {
    leave_no_trace(new, drop);
}

/// An explicit rollback leaves no trace.
pub fn guarantee_13_rollback_leaves_no_trace(new: New<'_>) {
    leave_no_trace(new, |txn| txn.rollback());
}

/// An empty commit does not wait, and oversized writes fail with the documented error.
pub fn empty_commits_and_sizes_beyond_the_limits(new: New<'_>) {
    let bed = Fixture::new(new);
    let empty = bed.begin();
    assert!(!empty.has_writes());
    assert_eq!(empty.seen(), CommitPosition::NONE);
    bed.commit(empty);
    let limits = bed.engine.limits();
    assert!(limits.key >= 3072 && limits.value >= 1 << 20);
    if limits.key < 1 << 20 {
        let mut txn = bed.begin();
        let long = vec![b'k'; limits.key + 1];
        let refused = txn.put(Key::new(bed.space, &long), b"", Check::Blind);
        assert!(
            matches!(refused, Err(Error::TooLarge { what: "key", .. })),
            "{refused:?}"
        );
        let longest = vec![b'k'; limits.key];
        txn.put(Key::new(bed.space, &longest), b"v", Check::Blind)
            .unwrap();
        bed.commit(txn);
    }
}
