//! List-append histories of concurrent clients of the embedded engine, checked for the anomalies
//! that each isolation level excludes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use porpoise_base::disk::MemDisk;
use porpoise_kv::{Check, Engine, Error, Isolation, Key, Read, SpaceId, Txn, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_sim::history::{Allowed, Op, Outcome, Transaction, check_history};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 4;
const LISTS: u64 = 5;

struct Run {
    engine: Arc<KvMem>,
    time: AtomicU64,
    numbers: AtomicU64,
    isolation: Isolation,
}

impl Run {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn read(txn: &mut dyn Txn, list: u64) -> Result<Vec<u64>, Error> {
        let bytes = list.to_be_bytes();
        let mut found = Vec::new();
        txn.get(
            Read::SNAPSHOT,
            &[Key::new(SpaceId(1), &bytes)],
            &mut |_, value| {
                let numbers = value.unwrap_or_default().chunks(8);
                found = numbers
                    .map(|n| u64::from_be_bytes(n.try_into().unwrap()))
                    .collect();
            },
        )?;
        Ok(found)
    }

    fn append(txn: &mut dyn Txn, list: u64, number: u64) -> Result<(), Error> {
        let mut all = Run::read(txn, list)?;
        all.push(number);
        let value: Vec<u8> = all.iter().flat_map(|n| n.to_be_bytes()).collect();
        let bytes = list.to_be_bytes();
        txn.put(Key::new(SpaceId(1), &bytes), &value, Check::FirstCommitter)
    }

    fn transaction(&self, rng: &mut fastrand::Rng) -> Transaction {
        let mut done = Transaction {
            began: self.now(),
            ended: 0,
            ops: Vec::new(),
            outcome: Outcome::Aborted,
        };
        if self.work(rng, &mut done.ops).is_ok() {
            done.outcome = Outcome::Committed;
        }
        done.ended = self.now();
        done
    }

    fn work(&self, rng: &mut fastrand::Rng, ops: &mut Vec<Op>) -> Result<(), Error> {
        let options = TxnOptions {
            isolation: self.isolation,
            ..TxnOptions::default()
        };
        let mut txn = self.engine.begin(options)?;
        txn.pin()?;
        for _ in 0..rng.usize(1..5) {
            let list = rng.u64(0..LISTS);
            if rng.bool() {
                let numbers = Run::read(&mut *txn, list)?;
                ops.push(Op::Read(list, numbers));
            } else {
                let number = self.numbers.fetch_add(1, Ordering::SeqCst);
                ops.push(Op::Append(list, number));
                Run::append(&mut *txn, list, number)?;
            }
            if rng.u8(0..8) == 0 {
                std::thread::yield_now();
            }
        }
        let position = txn.commit()?.position;
        self.engine.wait_durable(position)
    }
}

fn history(isolation: Isolation, transactions: u64) -> Vec<Transaction> {
    let engine = KvMem::open(KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(MemDisk::new()),
        segment_bytes: 1 << 18,
        checkpoint_bytes: 1 << 18,
        ..KvMemOptions::default()
    });
    let run = Run {
        engine: engine.unwrap(),
        time: AtomicU64::new(1),
        numbers: AtomicU64::new(1),
        isolation,
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..THREADS)
            .map(|thread| {
                let run = &run;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread);
                    (0..transactions)
                        .map(|_| run.transaction(&mut rng))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let all = clients.into_iter().flat_map(|c| c.join().unwrap());
        all.collect()
    })
}

fn expect(isolation: Isolation, allowed: Allowed) {
    let history = history(isolation, 250);
    let committed = |t: &&Transaction| t.outcome == Outcome::Committed;
    let committed = history.iter().filter(committed).count();
    assert!(
        committed > 300,
        "{committed} of {} committed",
        history.len()
    );
    let anomalies = check_history(&history, allowed);
    assert!(anomalies.is_empty(), "{}", anomalies.join("\n"));
}

#[test]
fn snapshots_allow_write_skew_and_nothing_else() {
    expect(Isolation::Snapshot, Allowed::SNAPSHOT);
}

#[test]
fn serializable_transactions_have_an_order() {
    expect(Isolation::Serializable, Allowed::SERIALIZABLE);
}
