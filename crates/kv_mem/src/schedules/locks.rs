//! Schedules of row locks: hand-over, cancellation, deadlock.

use super::{explore, in_memory, key};
use crate::KvMem;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::sync::atomic::{AtomicUsize, Ordering};
use porpoise_base::sync::thread;
use porpoise_kv::{
    Check, DeadlockListener, Engine, Error, LockMode, LockRequest, LockWait, Read, Txn, TxnOptions,
    Wait,
};
use std::sync::Arc;
use std::time::Duration;

fn lock(txn: &mut dyn Txn, mode: LockMode) -> Result<u64, Error> {
    let until = porpoise_base::sync::now() + Duration::from_secs(3600);
    let mut value = 0;
    let request = LockRequest {
        key: key("hot"),
        mode,
    };
    txn.lock(&[request], Wait::Until(until), &mut |_, locked| {
        let bytes = locked.value.and_then(|v| v.first_chunk::<8>());
        value = bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes));
    })?;
    Ok(value)
}

/// Increments the hot row under its lock.
fn increment(engine: &KvMem) {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let value = lock(&mut *txn, LockMode::Exclusive).unwrap() + 1;
    txn.put(key("hot"), &value.to_be_bytes(), Check::Locked)
        .unwrap();
    txn.commit().unwrap();
}

fn value(engine: &KvMem) -> u64 {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let mut found = 0;
    txn.get(Read::SNAPSHOT, &[key("hot")], &mut |_, value| {
        let bytes = value.and_then(|v| v.first_chunk::<8>());
        found = bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes));
    })
    .unwrap();
    found
}

#[test]
fn every_waiter_gets_the_lock_and_no_update_is_lost() {
    explore(2000, || {
        let engine = in_memory();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let engine = engine.clone();
                thread::spawn(move || {
                    increment(&engine);
                    increment(&engine);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(value(&engine), 6);
    });
}

/// A waiter gives up; the others get the lock, even if it was being granted to that waiter.
#[test]
fn a_waiter_that_gives_up_keeps_no_other_waiting() {
    explore(2000, || {
        let engine = in_memory();
        let cancel = Cancel::new();
        let mut first = engine.begin(TxnOptions::default()).unwrap();
        lock(&mut *first, LockMode::KeyShare).unwrap();
        let gives_up = {
            let (engine, cancel) = (engine.clone(), cancel.clone());
            thread::spawn(move || {
                let options = TxnOptions {
                    cancel,
                    ..TxnOptions::default()
                };
                let mut txn = engine.begin(options).unwrap();
                match lock(&mut *txn, LockMode::Exclusive) {
                    Ok(_) | Err(Error::Cancelled(Reason::Query)) => txn.rollback(),
                    Err(error) => panic!("{error}"),
                }
            })
        };
        // Waits behind the exclusive request if that is queued; otherwise shares the lock with the
        // holder.
        let behind = {
            let engine = engine.clone();
            thread::spawn(move || {
                let mut txn = engine.begin(TxnOptions::default()).unwrap();
                lock(&mut *txn, LockMode::KeyShare).unwrap();
                txn.rollback();
            })
        };
        cancel.cancel(Reason::Query);
        behind.join().unwrap();
        first.rollback();
        gives_up.join().unwrap();
        increment(&engine);
        assert_eq!(value(&engine), 1);
    });
}

/// A wait that only cancellation can end.
#[test]
fn a_cancelled_wait_ends() {
    explore(3000, || {
        let engine = in_memory();
        let mut holder = engine.begin(TxnOptions::default()).unwrap();
        lock(&mut *holder, LockMode::Exclusive).unwrap();
        let cancel = Cancel::new();
        let options = TxnOptions {
            cancel: cancel.clone(),
            ..TxnOptions::default()
        };
        let waiter = thread::spawn(move || {
            let mut txn = engine.begin(options).unwrap();
            lock(&mut *txn, LockMode::Exclusive)
        });
        cancel.cancel(Reason::Query);
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(Error::Cancelled(Reason::Query))));
        holder.rollback();
    });
}

/// Locks the keys one after the other and rolls back.
fn lock_in_turn(engine: &KvMem, names: &[&str], cancel: Cancel) -> Result<(), Error> {
    let options = TxnOptions {
        cancel,
        ..TxnOptions::default()
    };
    let mut txn = engine.begin(options)?;
    for name in names {
        let until = porpoise_base::sync::now() + Duration::from_secs(3600);
        let request = LockRequest {
            key: key(name),
            mode: LockMode::Exclusive,
        };
        txn.lock(&[request], Wait::Until(until), &mut |_, _| ())?;
    }
    txn.rollback();
    Ok(())
}

/// A deadlock listener that counts its calls.
#[derive(Default)]
struct Deadlocks(AtomicUsize);

impl DeadlockListener for Deadlocks {
    fn deadlock(&self, cycle: &[LockWait]) {
        assert_eq!(cycle.len(), 2);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two transactions in a cycle: the one with less work is the victim, whichever closes the cycle,
/// and the other is granted its lock. A third transaction wants the victim's key, and the victim's
/// wait is cancelled: the victim fails once, with the deadlock or the cancellation.
#[test]
fn the_transaction_with_less_work_is_the_victim() {
    explore(2000, || {
        let engine = in_memory();
        let deadlocks = Arc::new(Deadlocks::default());
        engine.subscribe_deadlocks(deadlocks.clone());
        let cancel = Cancel::new();
        let run = |names: &'static [&'static str], cancel: Cancel| {
            let engine = engine.clone();
            thread::spawn(move || lock_in_turn(&engine, names, cancel))
        };
        let heavy = run(&["c", "a", "b"], Cancel::new());
        let light = run(&["b", "a"], cancel.clone());
        let third = run(&["b"], Cancel::new());
        cancel.cancel(Reason::Query);
        let ended = light.join().unwrap();
        heavy.join().unwrap().unwrap();
        third.join().unwrap().unwrap();
        let reported = deadlocks.0.load(Ordering::SeqCst);
        match ended {
            Ok(()) | Err(Error::Cancelled(Reason::Query)) => assert_eq!(reported, 0),
            Err(Error::Deadlock) => assert_eq!(reported, 1),
            Err(error) => panic!("{error}"),
        }
        assert!(engine.lock_waits().is_empty());
    });
}

/// A cycle of three: the two that hold one key each may be victims, the one that holds two never
/// is.
#[test]
fn in_a_cycle_of_three_the_one_with_most_work_survives() {
    explore(2000, || {
        let engine = in_memory();
        let run = |names: &'static [&'static str]| {
            let engine = engine.clone();
            thread::spawn(move || lock_in_turn(&engine, names, Cancel::new()))
        };
        let ring = [run(&["d", "a", "b"]), run(&["b", "c"]), run(&["c", "a"])];
        let [heavy, one, two] = ring.map(|thread| thread.join().unwrap());
        heavy.unwrap();
        let ends = [one, two];
        for end in &ends {
            assert!(matches!(end, Ok(()) | Err(Error::Deadlock)), "{end:?}");
        }
        assert!(ends.iter().any(Result::is_ok), "{ends:?}");
    });
}

/// Two transactions that each hold one key and want the other's: one of them is the victim, and the
/// other continues.
#[test]
fn a_cycle_of_two_has_one_victim_and_one_winner() {
    explore(2000, || {
        let engine = in_memory();
        let both = |engine: Arc<KvMem>, names: [&'static str; 2]| {
            thread::spawn(move || {
                let mut txn = engine.begin(TxnOptions::default()).unwrap();
                for name in names {
                    let until = porpoise_base::sync::now() + Duration::from_secs(3600);
                    let request = LockRequest {
                        key: key(name),
                        mode: LockMode::Exclusive,
                    };
                    let wait = Wait::Until(until);
                    match txn.lock(&[request], wait, &mut |_, _| ()) {
                        Ok(()) => {}
                        Err(Error::Deadlock) => return false,
                        Err(error) => panic!("{error}"),
                    }
                }
                txn.rollback();
                true
            })
        };
        let one = both(engine.clone(), ["a", "b"]);
        let two = both(engine.clone(), ["b", "a"]);
        let ends = [one.join().unwrap(), two.join().unwrap()];
        assert!(ends.contains(&true), "both were victims");
    });
}
