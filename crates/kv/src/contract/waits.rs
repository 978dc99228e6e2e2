//! Guarantee 12: waits end at their deadline and on cancellation.

use super::{EngineFactory, Fixture, PATIENCE, PAUSE, lock_one, lock_until};
use crate::{Error, LockMode, TxnOptions};
use porpoise_base::cancel::{Cancel, Reason};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Neither before it nor long after it; the transaction keeps its locks and continues.
pub fn guarantee_12_a_wait_ends_at_its_deadline(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    let mut txn = fixture.begin();
    lock_one(&mut *txn, fixture.key("mine"), LockMode::Exclusive).unwrap();
    let began = Instant::now();
    let deadline = began + Duration::from_millis(200);
    let outcome = lock_until(&mut *txn, fixture.key("a"), LockMode::Exclusive, deadline);
    assert!(matches!(outcome, Err(Error::LockTimeout)), "{outcome:?}");
    assert!(Instant::now() >= deadline);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(!fixture.try_lock(&mut *holder, "mine", LockMode::Exclusive));
    lock_one(&mut *txn, fixture.key("b"), LockMode::Exclusive).unwrap();
    txn.put(fixture.key("b"), b"1", crate::Check::Locked)
        .unwrap();
    fixture.commit(txn);
    assert_eq!(fixture.get("b").as_deref(), Some("1"));
}

/// A cancellation before the wait, and one during it.
pub fn guarantee_12_a_wait_ends_on_cancel(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    for early in [true, false] {
        let cancel = Cancel::new();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            let (fixture, cancel) = (&fixture, &cancel);
            if early {
                cancel.cancel(Reason::Query);
            }
            scope.spawn(move || {
                let options = TxnOptions {
                    cancel: cancel.clone(),
                    ..TxnOptions::default()
                };
                let mut txn = fixture.engine.begin(options).unwrap();
                let deadline = Instant::now() + PATIENCE;
                send.send(lock_until(
                    &mut *txn,
                    fixture.key("a"),
                    LockMode::Update,
                    deadline,
                ))
                .unwrap();
            });
            if !early {
                assert!(receive.recv_timeout(PAUSE).is_err());
                cancel.cancel(Reason::Query);
            }
            let outcome = receive.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(
                matches!(outcome, Err(Error::Cancelled(Reason::Query))),
                "{outcome:?}"
            );
        });
    }
}

/// A waiter that gave up does not block the waiters behind it.
pub fn guarantee_12_a_timed_out_waiter_leaves_the_queue(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::KeyShare).unwrap();
    let mut impatient = fixture.begin();
    let deadline = Instant::now() + Duration::from_millis(300);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            std::thread::sleep(PAUSE);
            let mut txn = fixture.begin();
            let outcome = lock_one(&mut *txn, fixture.key("a"), LockMode::KeyShare);
            drop(txn);
            send.send(outcome).unwrap();
        });
        let outcome = lock_until(
            &mut *impatient,
            fixture.key("a"),
            LockMode::Exclusive,
            deadline,
        );
        assert!(matches!(outcome, Err(Error::LockTimeout)), "{outcome:?}");
        if fixture.engine.capabilities().share_locks {
            receive.recv_timeout(PATIENCE).unwrap().unwrap();
            drop(holder);
        } else {
            drop(holder);
            receive.recv_timeout(PATIENCE).unwrap().unwrap();
        }
    });
    let mut after = fixture.begin();
    assert!(fixture.try_lock(&mut *after, "a", LockMode::Exclusive));
}

/// Reads, other locks and commits continue while a transaction waits.
pub fn guarantee_12_waiting_does_not_stop_others(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut holder = fixture.begin();
    lock_one(&mut *holder, fixture.key("a"), LockMode::Exclusive).unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            let mut txn = fixture.begin();
            let outcome = lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive);
            send.send(outcome.map(|_| ())).unwrap();
        });
        std::thread::sleep(PAUSE);
        for n in 0..20 {
            let key = format!("k{n}");
            fixture.set(&key, "1");
            assert_eq!(fixture.get(&key).as_deref(), Some("1"));
            assert_eq!(fixture.get("a").as_deref(), Some("0"));
        }
        assert!(receive.try_recv().is_err());
        drop(holder);
        receive.recv().unwrap().unwrap();
    });
}
