//! A deadlock cycle of any length is broken at once: the transaction with the least work is rolled
//! back, the others continue.

use crate::common::key;
use porpoise_kv::{
    Check, DeadlockListener, Engine, Error, LockMode, LockRequest, LockWait, Locked, Result, Txn,
    Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

fn lock(txn: &mut dyn Txn, name: &str) -> Result<()> {
    let request = LockRequest {
        key: key(name),
        mode: LockMode::Exclusive,
    };
    let wait = Wait::Until(Instant::now() + Duration::from_secs(30));
    txn.lock(&[request], wait, &mut |_, _| ())
}

#[test]
fn a_cycle_of_any_length_has_one_victim() {
    for length in 2..=5 {
        let engine = KvMem::open(KvMemOptions::default()).unwrap();
        let holding = Barrier::new(length);
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..length)
                .map(|n| {
                    let (engine, holding) = (&engine, &holding);
                    scope.spawn(move || {
                        let mut txn = engine.begin(Default::default()).unwrap();
                        lock(&mut *txn, &format!("k{n}")).unwrap();
                        holding.wait();
                        lock(&mut *txn, &format!("k{}", (n + 1) % length))
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let reports = outcomes
            .iter()
            .filter(|o| matches!(o, Err(Error::Deadlock)));
        assert_eq!(reports.count(), 1, "of {length}: {outcomes:?}");
        let granted = outcomes.iter().filter(|o| o.is_ok()).count();
        assert_eq!(granted, length - 1, "of {length}: {outcomes:?}");
    }
}

/// Waits until `count` transactions wait for locks.
fn await_waits(engine: &KvMem, count: usize) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let mut waiting: Vec<u64> = engine.lock_waits().iter().map(|wait| wait.txn).collect();
        waiting.sort_unstable();
        waiting.dedup();
        if waiting.len() == count {
            return;
        }
        assert!(Instant::now() < end, "{} of {count} wait", waiting.len());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A transaction that holds exclusive locks on these keys.
fn holding(engine: &KvMem, names: &[&str]) -> Box<dyn Txn> {
    let mut txn = engine.begin(Default::default()).unwrap();
    for name in names {
        lock(&mut *txn, name).unwrap();
    }
    txn
}

/// The keys of a batch are locked in order, whether they exist or not: a transaction that waits for a key holds none
/// behind it. A key that nothing has written is locked as soon as the keys before it are.
#[test]
fn a_batch_holds_no_key_behind_the_one_that_it_waits_for() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let mut first = holding(&engine, &["b"]);
    let batch = ["a", "b", "c", "d"].map(|name| LockRequest {
        key: key(name),
        mode: LockMode::Exclusive,
    });
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut txn = engine.begin(Default::default()).unwrap();
            let wait = Wait::Until(Instant::now() + Duration::from_secs(30));
            let mut granted = Vec::new();
            let visit = &mut |n, locked: Locked<'_>| granted.push((n, locked.granted));
            txn.lock(&batch, wait, visit).unwrap();
            assert_eq!(granted, [0, 1, 2, 3].map(|n| (n, true)));
            txn
        });
        await_waits(&engine, 1);
        let mut third = engine.begin(Default::default()).unwrap();
        let skipped = |txn: &mut dyn Txn| {
            let mut granted = Vec::new();
            let visit = &mut |_, locked: Locked<'_>| granted.push(locked.granted);
            txn.lock(&batch, Wait::Skip, visit).unwrap();
            granted
        };
        assert_eq!(skipped(&mut *third), [false, false, true, true]);
        drop(third);
        lock(&mut *first, "c").unwrap();
        first.rollback();
        let second = second.join().unwrap();
        let mut fourth = engine.begin(Default::default()).unwrap();
        assert_eq!(skipped(&mut *fourth), [false; 4]);
        second.rollback();
        assert_eq!(skipped(&mut *fourth), [true; 4]);
    });
}

/// The reported deadlocks.
#[derive(Default)]
struct Reports(Mutex<Vec<Vec<LockWait>>>);

impl DeadlockListener for Reports {
    fn deadlock(&self, cycle: &[LockWait]) {
        self.0.lock().unwrap().push(cycle.to_vec());
    }
}

fn engine_with_listener() -> (Arc<KvMem>, Arc<Reports>) {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let reports = Arc::new(Reports::default());
    engine.subscribe_deadlocks(reports.clone());
    (engine, reports)
}

/// The victim is the transaction with the least work, wherever it is in the cycle; all others
/// get their locks.
#[test]
fn of_three_the_one_with_least_work_is_the_victim() {
    // Keys held and keys written by the transaction that began to wait first.
    for (held, written, is_first) in [(1, 0, true), (2, 9, false)] {
        let (engine, reports) = engine_with_listener();
        let names: Vec<String> = (0..held).map(|n| format!("a{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut first = holding(&engine, &names);
        for _ in 0..written {
            first.put(key("a0"), b"x", Check::Locked).unwrap();
        }
        let mut second = holding(&engine, &["b0", "b1"]);
        let mut third = holding(&engine, &["c0", "c1", "c2"]);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || (lock(&mut *first, "b0"), first));
            await_waits(&engine, 1);
            let second = scope.spawn(move || (lock(&mut *second, "c0"), second));
            await_waits(&engine, 2);
            let third = scope.spawn(move || (lock(&mut *third, "a0"), third));
            // The victim ends; the transaction that waits for it gets its lock, and so on.
            let (victim, next, last) = if is_first {
                (first, third, second)
            } else {
                (second, first, third)
            };
            let (ended, victim) = victim.join().unwrap();
            assert!(matches!(ended, Err(Error::Deadlock)), "{ended:?}");
            let (granted, next) = next.join().unwrap();
            granted.unwrap();
            next.rollback();
            let (granted, last) = last.join().unwrap();
            granted.unwrap();
            last.rollback();
            drop(victim);
        });
        let reports = reports.0.lock().unwrap();
        assert_eq!(reports.len(), 1, "{reports:?}");
        let keys: Vec<&[u8]> = reports[0].iter().map(|wait| wait.key.as_slice()).collect();
        let expected = if is_first {
            [b"b0", b"c0", b"a0"]
        } else {
            [b"c0", b"a0", b"b0"]
        };
        assert_eq!(keys, expected, "the victim's wait is first");
        for (n, wait) in reports[0].iter().enumerate() {
            assert_eq!(wait.blocker, reports[0][(n + 1) % reports[0].len()].txn);
        }
    }
}

/// Among transactions with equal work, the one that closes the cycle is the victim.
#[test]
fn with_equal_work_the_searching_transaction_is_the_victim() {
    let (engine, reports) = engine_with_listener();
    let mut first = holding(&engine, &["a"]);
    let mut second = holding(&engine, &["b"]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || lock(&mut *first, "b"));
        await_waits(&engine, 1);
        assert!(matches!(lock(&mut *second, "a"), Err(Error::Deadlock)));
        waits.join().unwrap().unwrap();
    });
    assert_eq!(reports.0.lock().unwrap().len(), 1);
}

/// Two transactions share a lock and wait for a third one, which requests the lock exclusively:
/// two cycles. In each the transaction with less work is the victim.
#[test]
fn one_request_may_close_two_cycles() {
    let (engine, reports) = engine_with_listener();
    let mut heavy = holding(&engine, &["a", "b", "c"]);
    std::thread::scope(|scope| {
        let mut lighter = Vec::new();
        for (n, name) in [(1, "a"), (2, "b")] {
            let mut txn = engine.begin(Default::default()).unwrap();
            let request = LockRequest {
                key: key("shared"),
                mode: LockMode::Share,
            };
            let wait = Wait::Until(Instant::now() + Duration::from_secs(30));
            txn.lock(&[request], wait, &mut |_, _| ()).unwrap();
            lighter.push(scope.spawn(move || lock(&mut *txn, name)));
            await_waits(&engine, n);
        }
        lock(&mut *heavy, "shared").unwrap();
        for txn in lighter {
            assert!(matches!(txn.join().unwrap(), Err(Error::Deadlock)));
        }
    });
    assert_eq!(reports.0.lock().unwrap().len(), 2);
}

/// Two holders of a share lock that both request an upgrade: one is the victim, and the other's
/// upgrade is granted.
#[test]
fn one_of_two_upgrades_is_granted() {
    let (engine, reports) = engine_with_listener();
    let share = |txn: &mut dyn Txn| {
        let request = LockRequest {
            key: key("row"),
            mode: LockMode::Share,
        };
        txn.lock(&[request], Wait::NoWait, &mut |_, _| ())
    };
    let [mut one, mut two] = [(); 2].map(|()| engine.begin(Default::default()).unwrap());
    share(&mut *one).unwrap();
    share(&mut *two).unwrap();
    lock(&mut *two, "more work").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || lock(&mut *one, "row"));
        await_waits(&engine, 1);
        lock(&mut *two, "row").unwrap();
        assert!(matches!(waits.join().unwrap(), Err(Error::Deadlock)));
    });
    assert_eq!(reports.0.lock().unwrap().len(), 1);
}
