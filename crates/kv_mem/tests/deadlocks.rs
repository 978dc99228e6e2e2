//! A circle of waits, of any length, is broken at once: one is told, the others go on.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::key;
use porpoise_kv::{Engine, Error, LockMode, LockRequest, Result, Txn, Wait};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::sync::Barrier;
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
fn one_of_a_circle_is_told_whatever_its_length() {
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
        let told = outcomes
            .iter()
            .filter(|o| matches!(o, Err(Error::Deadlock)));
        assert_eq!(told.count(), 1, "of {length}: {outcomes:?}");
        let granted = outcomes.iter().filter(|o| o.is_ok()).count();
        assert_eq!(granted, length - 1, "of {length}: {outcomes:?}");
    }
}
