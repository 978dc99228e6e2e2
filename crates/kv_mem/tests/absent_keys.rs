//! Absent keys under contention: keys are inserted, deleted, unlinked and created again while
//! concurrent transactions validate that they are absent.
//!
//! Every transaction reads a key with validation. It inserts a value of its own if the key is
//! absent, and deletes the key otherwise. So the commits to one key, in the order of their
//! positions, insert and delete alternately, and each deletion finds the value inserted before it.
//! Two records in use for one key, or an insertion that validation missed, break this order.
//!
//! `STRESS_SECONDS` sets the duration; the default is a fraction of a second.

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

/// One commit: the key, the position, the value found, and the value that an insertion wrote.
type Event = (u64, u64, Option<u64>, u64);

/// Method by which a transaction reads its key and writes it.
#[derive(Clone, Copy)]
enum AccessKind {
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

/// Reads a key; inserts it if it is absent, deletes it otherwise.
fn insert_or_delete(
    engine: &KvMem,
    space: SpaceId,
    n: u64,
    mine: u64,
    kind: AccessKind,
) -> Result<Event, Error> {
    let name = key_of(n);
    let key = Key::new(space, &name);
    let mut txn = engine.begin(TxnOptions {
        isolation: Isolation::Snapshot,
        ..TxnOptions::default()
    })?;
    let mut found = None;
    let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    match kind {
        AccessKind::Read(mode) => {
            let read = Read {
                mode,
                validate: true,
                mark: StatementMark::ALL,
            };
            txn.get(read, &[key], &mut |_, value| found = value.map(number))?;
        }
        AccessKind::Scan => {
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
                assert!(found.is_none(), "a key is visited twice");
                found = Some(number(value));
                ControlFlow::Continue(())
            })?;
        }
        AccessKind::Lock => {
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
    let check = match kind {
        AccessKind::Lock => Check::Locked,
        _ => Check::Blind,
    };
    match found {
        Some(_) => txn.delete(key, check)?,
        None => txn.put(key, &mine.to_be_bytes(), check)?,
    }
    let position = txn.commit()?.position;
    Ok((n, position.0, found, mine))
}

fn contend(point_lookups: bool, kinds: &[AccessKind]) {
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
                let (engine, next, kind) = (&engine, &next, kinds[thread as usize % kinds.len()]);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread);
                    let mut events: Vec<Event> = Vec::new();
                    while Instant::now() < end || events.len() < 100 {
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        match insert_or_delete(engine, space, rng.u64(..KEYS), mine, kind) {
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
fn validated_reads_of_absent_keys_exclude_insertions() {
    for point_lookups in [true, false] {
        contend(
            point_lookups,
            &[
                AccessKind::Read(ReadMode::Current),
                AccessKind::Read(ReadMode::Snapshot),
            ],
        );
    }
}

#[test]
fn validated_ranges_exclude_insertions() {
    for point_lookups in [true, false] {
        contend(
            point_lookups,
            &[AccessKind::Scan, AccessKind::Read(ReadMode::Current)],
        );
    }
}

#[test]
fn locks_on_absent_keys_exclude_insertions() {
    for point_lookups in [true, false] {
        contend(point_lookups, &[AccessKind::Lock]);
    }
}
