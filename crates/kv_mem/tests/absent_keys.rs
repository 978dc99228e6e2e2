//! Absent keys under contention: rows that come and go while others validate
//! that they are absent, and keys are unlinked and made anew all the time.
//!
//! Every transaction reads a key for validation and puts a value of its own
//! when it finds none, or deletes what it finds. So the commits on a key, in
//! the order of their positions, put and delete in turns, and each deletes what
//! the one before it put: a key of which two records were in use, or an
//! absence that was validated beside an insert, breaks the chain.
//!
//! `STRESS_SECONDS` makes it last longer than a fraction of a second.

use porpoise_kv::{
    Check, Engine, Error, Isolation, Key, LockMode, LockRequest, Read, ReadMode, ScanRange,
    SpaceId, SpaceSpec, StatementMark, TxnOptions, Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 12;
const THREADS: u64 = 4;

/// One commit: its position, the key, what was put or deleted.
type Event = (u64, u64, Option<u64>, u64);

/// How a transaction looks at its key.
#[derive(Clone, Copy)]
enum Way {
    /// A read that is validated, and a blind write.
    Read(ReadMode),
    /// A range around the key, and a blind write.
    Scan,
    /// A lock on the key, and a write under it.
    Lock,
}

fn key_of(n: u64) -> Vec<u8> {
    let mut key = b"key/".to_vec();
    key.extend_from_slice(&n.to_be_bytes());
    key
}

/// Reads a key in its way; puts when it is absent, deletes when not.
fn turn(engine: &KvMem, space: SpaceId, n: u64, mine: u64, way: Way) -> Result<Event, Error> {
    let name = key_of(n);
    let key = Key::new(space, &name);
    let mut txn = engine.begin(TxnOptions {
        isolation: Isolation::Snapshot,
        ..TxnOptions::default()
    })?;
    let mut found = None;
    let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    match way {
        Way::Read(mode) => {
            let read = Read {
                mode,
                validate: true,
                mark: StatementMark::ALL,
            };
            txn.get(read, &[key], &mut |_, value| found = value.map(number))?;
        }
        Way::Scan => {
            let end = key_of(n + 1);
            let range = ScanRange {
                space,
                start: &name,
                end: Some(&end),
                reverse: mine.is_multiple_of(2),
            };
            let read = Read {
                mode: ReadMode::Current,
                validate: true,
                mark: StatementMark::ALL,
            };
            txn.scan(read, &[range], usize::MAX, &mut |_, k, value| {
                assert_eq!(k, name);
                assert!(found.is_none(), "a key is shown twice");
                found = Some(number(value));
                ControlFlow::Continue(())
            })?;
        }
        Way::Lock => {
            let request = LockRequest {
                key,
                mode: LockMode::Exclusive,
            };
            let wait = Wait::Until(Instant::now() + Duration::from_secs(20));
            txn.lock(&[request], wait, &mut |_, locked| {
                found = locked.value.map(number);
            })?;
        }
    }
    let check = match way {
        Way::Lock => Check::Locked,
        _ => Check::Blind,
    };
    match found {
        Some(_) => txn.delete(key, check)?,
        None => txn.put(key, &mine.to_be_bytes(), check)?,
    }
    let position = txn.commit()?.position;
    Ok((n, position.0, found, mine))
}

fn contend(point_lookups: bool, ways: &[Way]) {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let spec = SpaceSpec {
        point_lookups,
        ..SpaceSpec::default()
    };
    let space = engine.create_spaces(&[spec]).unwrap()[0];
    let asked = std::env::var("STRESS_SECONDS").ok();
    let seconds = asked.and_then(|s| s.parse().ok()).unwrap_or(0.3);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (over, next) = (AtomicBool::new(false), AtomicU64::new(1));
    let mut events = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (engine, next, way) = (&engine, &next, ways[thread as usize % ways.len()]);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread);
                    let mut events: Vec<Event> = Vec::new();
                    while Instant::now() < end || events.len() < 100 {
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        match turn(engine, space, rng.u64(..KEYS), mine, way) {
                            Ok(event) => events.push(event),
                            Err(Error::Conflict) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    events
                })
            })
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                engine.reclaim();
                std::thread::yield_now();
            }
        });
        let events: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        over.store(true, Ordering::Relaxed);
        let events = events.into_iter().flat_map(|events| events.unwrap());
        events.collect::<Vec<Event>>()
    });
    events.sort_unstable();
    let mut deletions = 0;
    for of_key in events.chunk_by(|a, b| a.0 == b.0) {
        let mut there = None;
        for (n, position, found, mine) in of_key {
            assert_eq!(*found, there, "key {n}, commit {position}");
            deletions += u64::from(found.is_some());
            there = match found {
                Some(_) => None,
                None => Some(*mine),
            };
        }
    }
    assert!(deletions > 0);
    engine.reclaim();
    engine.reclaim();
    engine.verify().unwrap();
}

#[test]
fn by_hash_and_by_order_with_reads_that_are_validated() {
    for point_lookups in [true, false] {
        contend(
            point_lookups,
            &[Way::Read(ReadMode::Current), Way::Read(ReadMode::Snapshot)],
        );
    }
}

#[test]
fn with_ranges_beside_keys() {
    for point_lookups in [true, false] {
        contend(point_lookups, &[Way::Scan, Way::Read(ReadMode::Current)]);
    }
}

#[test]
fn with_locks_alone() {
    for point_lookups in [true, false] {
        contend(point_lookups, &[Way::Lock]);
    }
}
