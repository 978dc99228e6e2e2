//! At the memory limit the oldest long snapshot is expired, if that frees memory. Its transaction
//! gets an error, and never sees a state that did not exist.

use crate::common::{get, key, set, stat};
use porpoise_base::clock::ManualClock;
use porpoise_kv::{
    Check, Engine, Error, Key, LockMode, LockRequest, Read, Resource, ScanRange, Txn, Wait,
};
use porpoise_kv_mem::{Background, KvMem, KvMemOptions};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: usize = 400;

fn names() -> Vec<String> {
    (0..KEYS).map(|n| format!("k{n:03}")).collect()
}

/// Opens a store with a clock that the test advances, and a memory limit of 1 MiB.
fn store(background: Background) -> (Arc<KvMem>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let engine = KvMem::open(KvMemOptions {
        memory_limit: Some(1 << 20),
        clock: clock.clone(),
        background,
        ..KvMemOptions::default()
    });
    (engine.unwrap(), clock)
}

/// Writes all keys in one transaction, 1,000 bytes each.
fn write_all(engine: &KvMem, letter: &str) -> Result<(), Error> {
    write_some(engine, &names(), letter)
}

fn write_some(engine: &KvMem, names: &[String], letter: &str) -> Result<(), Error> {
    let mut txn = engine.begin(Default::default())?;
    let value = letter.repeat(1_000);
    for name in names {
        txn.put(key(name), value.as_bytes(), Check::FirstCommitter)?;
    }
    txn.commit().map(|_| ())
}

/// Inserts rows until the memory limit refuses one. Returns their number.
fn fill(engine: &KvMem) -> usize {
    let value = "n".repeat(1_000);
    let full = (0..2_000).find(|n| match set(engine, &format!("new{n}"), &value) {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, Error::Full(Resource::Memory)), "{error:?}");
            true
        }
    });
    full.unwrap()
}

/// Opens a store at its memory limit: half of it is old versions that a snapshot needs.
fn full_store() -> (Arc<KvMem>, Arc<ManualClock>, Box<dyn Txn>) {
    let (engine, clock) = store(Background::Callers);
    write_all(&engine, "a").unwrap();
    let mut holder = engine.begin(Default::default()).unwrap();
    holder.pin().unwrap();
    write_all(&engine, "b").unwrap();
    engine.reclaim();
    fill(&engine);
    (engine, clock, holder)
}

fn letter(txn: &mut dyn Txn, name: &str) -> Result<Option<u8>, Error> {
    let mut found = None;
    txn.get(Read::SNAPSHOT, &[key(name)], &mut |_, value| {
        found = value.and_then(|v| v.first().copied());
    })?;
    Ok(found)
}

#[test]
fn the_oldest_snapshot_is_expired_once_it_is_long() {
    let (engine, clock, mut holder) = full_store();
    assert_eq!(letter(&mut *holder, "k007").unwrap(), Some(b'a'));
    // A young snapshot is not expired: it may end at any moment.
    assert!(set(&engine, "more", &"m".repeat(1_000)).is_err());
    assert_eq!(stat(&engine, "snapshots_ended_total"), 0);
    clock.advance(Duration::from_millis(1_100));
    let mut young = engine.begin(Default::default()).unwrap();
    young.pin().unwrap();
    set(&engine, "more", &"m".repeat(1_000)).unwrap();
    assert_eq!(stat(&engine, "snapshots_ended_total"), 1);
    let gone = letter(&mut *holder, "k007").unwrap_err();
    assert!(matches!(gone, Error::SnapshotGone) && gone.ends_transaction());
    assert_eq!(letter(&mut *young, "k007").unwrap(), Some(b'b'));
    assert_eq!(letter(&mut *young, "more").unwrap(), None);
    // The old versions were freed.
    assert!(fill(&engine) > 200);
    drop((holder, young));
    engine.reclaim();
    engine.verify().unwrap();
}

/// A call that reads versions.
type ReadCall = fn(&mut dyn Txn, &ScanRange<'_>) -> Result<(), Error>;

#[test]
fn every_use_of_an_expired_snapshot_is_refused() {
    let validated = Read {
        validate: true,
        ..Read::SNAPSHOT
    };
    let all = ScanRange {
        space: crate::common::SPACE,
        start: b"",
        end: None,
        reverse: false,
    };
    let kinds: [ReadCall; 3] = [
        |txn, _| letter(txn, "k001").map(|_| ()),
        |txn, all| {
            let visit = &mut |_: usize, _: &[u8], _: &[u8]| ControlFlow::Continue(());
            txn.scan(Read::SNAPSHOT, &[*all], 10, visit).map(|_| ())
        },
        |txn, _| {
            let request = LockRequest {
                key: key("k001"),
                mode: LockMode::Update,
            };
            txn.lock(&[request], Wait::NoWait, &mut |_, _| ())
        },
    ];
    for kind in kinds {
        let (engine, clock, mut holder) = full_store();
        clock.advance(Duration::from_secs(2));
        set(&engine, "more", "m").unwrap();
        set(&engine, "more2", &"m".repeat(1_000)).unwrap();
        let refused = kind(&mut *holder, &all);
        assert!(matches!(refused, Err(Error::SnapshotGone)), "{refused:?}");
    }
    // A deletion that validation had to find may be unlinked by now.
    let (engine, clock) = store(Background::Callers);
    write_all(&engine, "a").unwrap();
    let mut reader = engine.begin(Default::default()).unwrap();
    reader
        .get(validated, &[key("k000")], &mut |_, _| ())
        .unwrap();
    reader.put(key("own"), b"1", Check::Blind).unwrap();
    let mut other = engine.begin(Default::default()).unwrap();
    other.delete(key("k000"), Check::FirstCommitter).unwrap();
    other.commit().unwrap();
    write_some(&engine, &names()[1..], "b").unwrap();
    engine.reclaim();
    fill(&engine);
    clock.advance(Duration::from_secs(2));
    let mut grow = engine.begin(Default::default()).unwrap();
    let value = "g".repeat(1_000);
    grow.put(key("grow"), value.as_bytes(), Check::Blind)
        .unwrap();
    let refused = reader.commit();
    assert!(matches!(refused, Err(Error::SnapshotGone)), "{refused:?}");
}

#[test]
fn a_transaction_does_not_expire_its_own_snapshot() {
    let (engine, clock, mut holder) = full_store();
    clock.advance(Duration::from_secs(2));
    let refused = holder.put(key("more"), &[b'm'; 1_000], Check::Blind);
    assert!(matches!(refused, Err(Error::Full(Resource::Memory))));
    assert_eq!(letter(&mut *holder, "k007").unwrap(), Some(b'a'));
    assert_eq!(stat(&engine, "snapshots_ended_total"), 0);
}

/// A snapshot that holds back no version is kept, however old it is.
#[test]
fn a_snapshot_that_holds_nothing_back_is_not_expired() {
    let (engine, clock) = store(Background::Callers);
    write_all(&engine, "a").unwrap();
    let mut old = engine.begin(Default::default()).unwrap();
    old.pin().unwrap();
    engine.reclaim();
    fill(&engine);
    clock.advance(Duration::from_secs(10));
    assert!(set(&engine, "more", &"m".repeat(1_000)).is_err());
    assert_eq!(letter(&mut *old, "k007").unwrap(), Some(b'a'));
    assert_eq!(get(&engine, "k007").map(|v| v.len()), Some(1_000));
}

/// Readers see one letter in all keys, or get [`Error::SnapshotGone`].
#[test]
fn readers_see_one_state_or_an_error_while_snapshots_expire() {
    let (engine, clock) = store(Background::Threads);
    write_all(&engine, "a").unwrap();
    let (over, gone) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // At least 400 rounds; more if no snapshot was ended while a reader used it.
            let deadline = Instant::now() + Duration::from_secs(30);
            for round in 0_u32.. {
                let met = gone.load(Ordering::Relaxed);
                if round >= 400 && (met > 0 || Instant::now() > deadline) {
                    break;
                }
                let letter = char::from(b'a' + (round % 26) as u8).to_string();
                match write_all(&engine, &letter) {
                    Ok(()) | Err(Error::Full(Resource::Memory)) => {}
                    Err(error) => panic!("{error}"),
                }
                clock.advance(Duration::from_millis(300));
                if round > 100 && met > 20 {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let names = names();
                while !over.load(Ordering::Relaxed) {
                    match read_slowly(&engine, &names) {
                        Ok(()) => {}
                        Err(Error::SnapshotGone) => {
                            gone.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(gone.load(Ordering::Relaxed) > 0, "no snapshot was expired");
    engine.reclaim();
    engine.verify().unwrap();
}

fn read_slowly(engine: &KvMem, names: &[String]) -> Result<(), Error> {
    let mut txn = engine.begin(Default::default())?;
    txn.pin()?;
    let mut first = None;
    for some in names.chunks(20) {
        let keys: Vec<Key<'_>> = some.iter().map(|name| key(name)).collect();
        let mut seen = Vec::new();
        txn.get(Read::SNAPSHOT, &keys, &mut |_, value| {
            seen.push(value.and_then(|v| v.first().copied()));
        })?;
        for letter in seen {
            assert!(letter.is_some(), "a key is missing");
            assert_eq!(
                *first.get_or_insert(letter),
                letter,
                "a read mixed two states"
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
