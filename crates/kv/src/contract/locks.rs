//! Guarantees 6 and 7: locks exclude, grants return correct values, deadlocks end.

use super::{EngineFactory, Fixture, Found, PATIENCE, PAUSE, Rng, lock_one, lock_until};
use crate::{Check, Error, LockMode, LockRequest, TxnOptions, Wait};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const MODES: [LockMode; 4] = [
    LockMode::KeyShare,
    LockMode::Share,
    LockMode::Update,
    LockMode::Exclusive,
];

/// All sixteen pairs, on a present key.
pub fn guarantee_6_modes_exclude_as_stated(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    let share_locks = fixture.engine.capabilities().share_locks;
    for held in MODES {
        for asked in MODES {
            let mut holder = fixture.begin();
            lock_one(&mut *holder, fixture.key("a"), held).unwrap();
            let mut other = fixture.begin();
            let granted = fixture.try_lock(&mut *other, "a", asked);
            if !held.compatible(asked) {
                assert!(!granted, "{asked:?} beside {held:?}");
            } else if share_locks {
                assert!(granted, "{asked:?} beside {held:?}");
            }
        }
    }
}

/// A lock of an absent key prevents others from creating it.
pub fn guarantee_6_absent_keys_are_locked(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut one = fixture.begin();
    let found = lock_one(&mut *one, fixture.key("a"), LockMode::Exclusive).unwrap();
    assert_eq!((found.granted, found.value), (true, None));
    let mut two = fixture.begin();
    assert!(!fixture.try_lock(&mut *two, "a", LockMode::Exclusive));
    assert!(fixture.try_lock(&mut *two, "b", LockMode::Exclusive));
    drop(one);
    assert!(fixture.try_lock(&mut *two, "a", LockMode::Exclusive));
    drop(two);
    assert_eq!(fixture.get("a"), None);
    let mut reader = fixture.begin();
    assert!(super::dump(&mut *reader, crate::Read::CURRENT, fixture.space).is_empty());
}

/// Weaker, equal and stronger modes on a key already held.
pub fn guarantee_6_locks_are_reentrant_and_upgrade(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    for first in MODES {
        for second in MODES {
            let mut txn = fixture.begin();
            lock_one(&mut *txn, fixture.key("a"), first).unwrap();
            lock_one(&mut *txn, fixture.key("a"), second).unwrap();
            lock_one(&mut *txn, fixture.key("a"), first).unwrap();
            let mut other = fixture.begin();
            for asked in MODES {
                if !asked.compatible(first) || !asked.compatible(second) {
                    assert!(
                        !fixture.try_lock(&mut *other, "a", asked),
                        "{asked:?} beside {first:?} and {second:?}"
                    );
                    break;
                }
            }
            drop(txn);
            assert!(fixture.try_lock(&mut *other, "a", LockMode::Exclusive));
        }
    }
}

/// A grant returns the value at the time of the grant, not of the call, or the own write.
pub fn guarantee_6_a_grant_shows_the_newest_value(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "old");
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Update).unwrap();
    holder.put(fixture.key("a"), b"new", Check::Locked).unwrap();
    let own = lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    assert_eq!((own.value.as_deref(), own.own), (Some("new"), true));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            let mut txn = fixture.begin();
            send.send(lock_one(&mut *txn, fixture.key("a"), LockMode::Update))
                .unwrap();
        });
        assert!(receive.recv_timeout(PAUSE).is_err());
        fixture.commit(holder);
        let found = receive.recv().unwrap().unwrap();
        assert_eq!((found.value.as_deref(), found.own), (Some("new"), false));
    });
    let mut txn = fixture.begin();
    lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
    txn.delete(fixture.key("a"), Check::Locked).unwrap();
    let own = lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
    assert_eq!((own.value, own.own), (None, true));
}

/// `newer` refers to the snapshot: false without one, true for deletions.
pub fn guarantee_6_a_grant_shows_what_is_newer_than_the_snapshot(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for key in ["same", "changed", "gone"] {
        fixture.set(key, "0");
    }
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    fixture.set("changed", "1");
    fixture.set("came", "1");
    fixture.delete("gone");
    let mut newer = |key: &str| {
        let found = lock_one(&mut *txn, fixture.key(key), LockMode::Exclusive).unwrap();
        (found.value, found.newer)
    };
    assert_eq!(newer("same"), (Some("0".to_owned()), false));
    assert_eq!(newer("changed"), (Some("1".to_owned()), true));
    assert_eq!(newer("came"), (Some("1".to_owned()), true));
    assert_eq!(newer("gone"), (None, true));
    assert_eq!(newer("absent"), (None, false));
    drop(txn);
    let mut fresh = fixture.begin();
    fixture.set("changed", "2");
    let found = lock_one(&mut *fresh, fixture.key("changed"), LockMode::Update).unwrap();
    assert_eq!((found.value.as_deref(), found.newer), (Some("2"), false));
}

/// Every end of a transaction releases its locks.
pub fn guarantee_6_released_by_commit_rollback_and_drop(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for end in 0..3 {
        let mut txn = fixture.begin();
        lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
        match end {
            0 => {
                txn.commit().unwrap();
            }
            1 => txn.rollback(),
            _ => drop(txn),
        }
        let mut other = fixture.begin();
        assert!(
            fixture.try_lock(&mut *other, "a", LockMode::Exclusive),
            "{end}"
        );
    }
}

/// No waiter is passed over: waiters are served in the order of their arrival.
pub fn guarantee_6_waiters_get_the_lock_one_after_the_other(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    let inside = AtomicU32::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (fixture, inside, send) = (&fixture, &inside, send.clone());
            scope.spawn(move || {
                let mut txn = fixture.begin();
                lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                send.send(n).unwrap();
                std::thread::sleep(Duration::from_millis(5));
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            std::thread::sleep(PAUSE);
        }
        assert!(receive.try_recv().is_err());
        drop(holder);
        let order: Vec<i32> = receive.iter().take(4).collect();
        if fixture.engine.capabilities().share_locks {
            assert_eq!(order, [0, 1, 2, 3]);
        }
    });
}

/// A waiting exclusive request precedes later key-share requests; otherwise a stream of foreign-key
/// checks would starve a delete.
pub fn guarantee_6_a_waiting_exclusive_holds_off_later_key_shares(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !fixture.engine.capabilities().share_locks {
        return guarantee_6_waiters_get_the_lock_one_after_the_other(new);
    }
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::KeyShare).unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let (fixture, late) = (&fixture, send.clone());
        scope.spawn(move || {
            let mut txn = fixture.begin();
            lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
            send.send("exclusive").unwrap();
            std::thread::sleep(PAUSE);
        });
        std::thread::sleep(PAUSE);
        scope.spawn(move || {
            let mut txn = fixture.begin();
            lock_one(&mut *txn, fixture.key("a"), LockMode::KeyShare).unwrap();
            late.send("key share").unwrap();
        });
        assert!(receive.recv_timeout(PAUSE).is_err());
        drop(holder);
        assert_eq!(receive.recv().unwrap(), "exclusive");
        assert_eq!(receive.recv().unwrap(), "key share");
    });
}

/// SKIP LOCKED and NOWAIT, or the documented error of engines without them.
pub fn guarantee_6_skip_and_nowait(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    fixture.set("b", "2");
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    let mut txn = fixture.begin();
    let requests = ["a", "b"].map(|key| LockRequest {
        key: fixture.key(key),
        mode: LockMode::Exclusive,
    });
    let capabilities = fixture.engine.capabilities();
    let mut found = vec![Found::default(); 2];
    let outcome = txn.lock(&requests, Wait::Skip, &mut |index, locked| {
        found[index] = Found::of(locked);
    });
    if capabilities.skip_locked {
        outcome.unwrap();
        assert!(!found[0].granted);
        assert_eq!(
            (found[1].granted, found[1].value.as_deref()),
            (true, Some("2"))
        );
    } else {
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    }
    let outcome = txn.lock(&requests, Wait::NoWait, &mut |_, _| {});
    if capabilities.nowait {
        assert!(matches!(outcome, Err(Error::LockBusy)), "{outcome:?}");
    } else {
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    }
    drop(holder);
    lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
}

/// Batches with keys in opposite orders do not deadlock.
pub fn guarantee_6_a_batch_is_locked_in_key_order(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    std::thread::scope(|scope| {
        for n in 0..3usize {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut keys = ["a", "b", "c", "d"];
                keys.rotate_left(n);
                if n == 1 {
                    keys.reverse();
                }
                for _ in 0..30 {
                    let mut txn = fixture.begin();
                    let requests = keys.map(|key| LockRequest {
                        key: fixture.key(key),
                        mode: LockMode::Exclusive,
                    });
                    let mut shown = [0; 4];
                    let wait = Wait::Until(Instant::now() + PATIENCE);
                    txn.lock(&requests, wait, &mut |index, _| shown[index] += 1)
                        .unwrap();
                    assert_eq!(shown, [1; 4]);
                }
            });
        }
    });
}

/// Makes two transactions lock two keys in opposite orders: either may be the victim, and one must
/// be.
fn crosswise(fixture: &Fixture, first: LockMode, keys: [&str; 2]) {
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut one = fixture.begin();
    let mut two = fixture.begin();
    lock_one(&mut *one, fixture.key(keys[0]), first).unwrap();
    lock_one(&mut *two, fixture.key(keys[1]), first).unwrap();
    let (left, right) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let outcome = lock_until(
                &mut *two,
                fixture.key(keys[0]),
                LockMode::Exclusive,
                deadline,
            );
            drop(two);
            outcome
        });
        let mine = lock_until(
            &mut *one,
            fixture.key(keys[1]),
            LockMode::Exclusive,
            deadline,
        );
        drop(one);
        (mine, other.join().unwrap())
    });
    let ended = |outcome: &Result<Found, Error>| {
        matches!(outcome, Err(Error::Deadlock | Error::LockTimeout))
    };
    assert!(ended(&left) || ended(&right), "{left:?} {right:?}");
    assert!(!matches!(
        (&left, &right),
        (Err(Error::Deadlock), Err(Error::Deadlock))
    ));
    let mut after = fixture.begin();
    for key in keys {
        assert!(fixture.try_lock(&mut *after, key, LockMode::Exclusive));
    }
}

/// Two transactions lock two keys in opposite orders.
pub fn guarantee_7_two_transactions_crosswise(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    crosswise(&fixture, LockMode::Exclusive, ["a", "b"]);
    crosswise(&fixture, LockMode::Update, ["c", "d"]);
}

/// Two holders of a weak lock that both want the strong one.
pub fn guarantee_7_two_upgrades_of_one_key(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if fixture.engine.capabilities().share_locks {
        crosswise(&fixture, LockMode::KeyShare, ["a", "a"]);
        crosswise(&fixture, LockMode::Share, ["b", "b"]);
    } else {
        crosswise(&fixture, LockMode::KeyShare, ["a", "b"]);
    }
}

/// Random modes in random order: every transaction ends, and every lock is free afterwards.
pub fn guarantee_7_many_random_lockers_all_end(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let names = ["a", "b", "c", "d", "e"];
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut rng = Rng::new(seed + 11);
                for _ in 0..30 {
                    let mut txn = fixture.engine.begin(TxnOptions::default()).unwrap();
                    for _ in 0..3 {
                        let key = fixture.key(names[rng.below(5) as usize]);
                        let mode = MODES[rng.below(4) as usize];
                        let deadline = Instant::now() + Duration::from_secs(2);
                        match lock_until(&mut *txn, key, mode, deadline) {
                            Ok(_) | Err(Error::LockTimeout) => {}
                            Err(Error::Deadlock) => break,
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    let mut after = fixture.begin();
    for key in names {
        assert!(fixture.try_lock(&mut *after, key, LockMode::Exclusive));
    }
}
