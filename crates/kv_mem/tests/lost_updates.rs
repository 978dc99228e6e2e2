//! Many threads increment the same rows under locks: no update is lost.

use porpoise_kv::{Check, Engine, Error, Key, LockMode, LockRequest, Read, SpaceId, Txn, Wait};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const ROUNDS: u64 = 3_000;

fn key(row: u64) -> [u8; 1] {
    [b'a' + (row % 2) as u8]
}

fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()))
}

/// Adds one to a row, locked first.
fn add(engine: &KvMem, row: u64) -> Result<(), Error> {
    let bytes = key(row);
    let key = Key::new(SpaceId(1), &bytes);
    let mut txn: Box<dyn Txn> = engine.begin(Default::default())?;
    let request = LockRequest {
        key,
        mode: LockMode::Update,
    };
    let mut value = 0;
    let wait = Wait::Until(Instant::now() + Duration::from_secs(20));
    txn.lock(&[request], wait, &mut |_, found| {
        value = number(found.value)
    })?;
    txn.put(key, &(value + 1).to_le_bytes(), Check::Locked)?;
    txn.commit().map(|_| ())
}

#[test]
fn no_increment_under_a_lock_is_lost() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    add(engine, thread + round).unwrap();
                }
            });
        }
    });
    let mut total = 0;
    let mut txn = engine.begin(Default::default()).unwrap();
    for row in 0..2 {
        let bytes = key(row);
        let keys = [Key::new(SpaceId(1), &bytes)];
        txn.get(Read::CURRENT, &keys, &mut |_, value| total += number(value))
            .unwrap();
    }
    assert_eq!(total, THREADS * ROUNDS);
    drop(txn);
    engine.reclaim();
    engine.verify().unwrap();
}
