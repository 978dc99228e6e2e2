//! Transactions are prepared, committed and rolled back while the power is cut at every operation of
//! the disk. After each cut a prepared transaction is there with its locks, one that was ended is ended,
//! and none is there in part.

use crate::common::{all, key, options, set};
use porpoise_base::disk::MemDisk;
use porpoise_kv::{Check, Durability, Engine, Error, LockMode, LockRequest, Read, Txn, Wait};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const BRANCHES: usize = 15;

/// Stage that a branch has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Preparing,
    Prepared,
    /// The end was tried.
    Ending,
    Ended,
}

/// Verifies the engine. While superseded versions are being freed, counts and chains may differ for a moment.
fn verify_at_rest(engine: &KvMem) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = engine.verify() {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether branch `n` is committed (true) or rolled back, or stays prepared.
fn end_of(n: usize) -> Option<bool> {
    match n % 3 {
        0 => None,
        1 => Some(true),
        _ => Some(false),
    }
}

fn lock(txn: &mut dyn Txn, name: &str, wait: Wait) -> Result<(), Error> {
    let request = LockRequest {
        key: key(name),
        mode: LockMode::Exclusive,
    };
    txn.lock(&[request], wait, &mut |_, _| {})
}

/// Begins branch `n`: a locked key and one without a lock; branch 7 is large.
fn branch(engine: &KvMem, n: usize) -> Result<Box<dyn Txn>, Error> {
    let mut txn = engine.begin(Default::default())?;
    let locked = format!("locked{n}");
    lock(&mut *txn, &locked, Wait::NoWait)?;
    let size = if n == 7 { 1_500_000 } else { n * 300 };
    txn.put(key(&locked), "x".repeat(size).as_bytes(), Check::Locked)?;
    txn.put(key(&format!("blind{n}")), b"y", Check::Blind)?;
    Ok(txn)
}

/// Runs the script until it ends or the disk does.
fn run(options: KvMemOptions, progress: &mut BTreeMap<usize, Progress>) -> Result<(), Error> {
    let engine = KvMem::open(options)?;
    let mut kept = Vec::new();
    for n in 1..=BRANCHES {
        set(&engine, "other", &n.to_string())?;
        let txn = branch(&engine, n)?;
        progress.insert(n, Progress::Preparing);
        let mut prepared = txn.prepare(n.to_string().as_bytes(), b"note")?;
        engine.wait_durable(prepared.position())?;
        progress.insert(n, Progress::Prepared);
        if n % 5 == 0 {
            engine.checkpoint()?;
        }
        let Some(commits) = end_of(n) else {
            kept.push(prepared);
            continue;
        };
        progress.insert(n, Progress::Ending);
        let done = if commits {
            prepared.commit()?
        } else {
            prepared.rollback()?
        };
        engine.wait_durable(done.position)?;
        progress.insert(n, Progress::Ended);
    }
    engine.shutdown()
}

fn check(options: KvMemOptions, progress: &BTreeMap<usize, Progress>, at: &str) {
    let engine = KvMem::open(options.clone()).unwrap_or_else(|e| panic!("{at}: {e}"));
    engine.verify().unwrap();
    let restored = engine.take_restored().unwrap();
    let names: BTreeSet<usize> = restored
        .iter()
        .map(|prepared| String::from_utf8_lossy(prepared.name()).parse().unwrap())
        .collect();
    let rows = all(&engine);
    for n in 1..=BRANCHES {
        let at = format!("{at}, branch {n}");
        let applied = rows.contains_key(&format!("locked{n}"));
        assert_eq!(applied, rows.contains_key(&format!("blind{n}")), "{at}");
        let prepared = names.contains(&n);
        assert!(!(applied && prepared), "{at}");
        match progress.get(&n) {
            None => assert!(!applied && !prepared, "{at}"),
            Some(Progress::Preparing) => assert!(!applied, "{at}"),
            Some(Progress::Prepared) => assert!(prepared, "{at}"),
            Some(Progress::Ending) if end_of(n) == Some(true) => {
                assert!(applied || prepared, "{at}");
            }
            Some(Progress::Ending) => assert!(!applied, "{at}"),
            Some(Progress::Ended) => {
                assert!(!prepared, "{at}");
                assert_eq!(Some(applied), end_of(n), "{at}");
            }
        }
        let mut txn = engine.begin(Default::default()).unwrap();
        let locked = lock(&mut *txn, &format!("locked{n}"), Wait::NoWait);
        assert_eq!(matches!(locked, Err(Error::LockBusy)), prepared, "{at}");
    }
    for mut prepared in restored {
        let done = prepared.commit().unwrap();
        engine.wait_durable(done.position).unwrap();
    }
    let rows = all(&engine);
    for n in &names {
        assert!(rows.contains_key(&format!("locked{n}")), "{at}, branch {n}");
    }
    verify_at_rest(&engine);
    engine.shutdown().unwrap();
    drop(engine);
    let engine = KvMem::open(options).unwrap_or_else(|e| panic!("{at}, again: {e}"));
    assert!(engine.take_restored().unwrap().is_empty(), "{at}");
    assert_eq!(all(&engine), rows, "{at}");
}

fn every_cut(with: impl Fn(&MemDisk) -> KvMemOptions, step: usize) {
    let whole = MemDisk::new();
    let mut progress = BTreeMap::new();
    run(with(&whole), &mut progress).unwrap();
    let operations = whole.operations();
    assert!(operations > 100, "{operations}");
    for cut in (1..=operations).step_by(step) {
        let disk = MemDisk::new();
        disk.stop_after(Some(cut));
        let mut progress = BTreeMap::new();
        let _ = run(with(&disk), &mut progress);
        let after = disk.after_power_cut(cut * 7);
        check(with(&after), &progress, &format!("cut at {cut}"));
    }
    // Not cut off at all.
    check(with(&whole.after_power_cut(1)), &progress, "no cut");
}

#[test]
fn prepared_transactions_survive_every_crash() {
    every_cut(options, 1);
}

#[test]
fn preparation_and_end_are_synced_in_interval_mode() {
    every_cut(
        |disk| KvMemOptions {
            durability: Durability::Interval(Duration::from_secs(3600)),
            ..options(disk)
        },
        3,
    );
}

/// A store of `memory` durability stores no rows, and so no prepared transactions.
#[test]
fn in_memory_mode_a_prepared_transaction_ends_with_the_engine() {
    let disk = MemDisk::new();
    let with = || KvMemOptions {
        durability: Durability::Memory,
        ..options(&disk)
    };
    let engine = KvMem::open(with()).unwrap();
    let prepared = branch(&engine, 1).unwrap().prepare(b"1", b"").unwrap();
    engine.shutdown().unwrap();
    drop(prepared);
    drop(engine);
    let engine = KvMem::open(with()).unwrap();
    assert!(engine.take_restored().unwrap().is_empty());
}

/// Writes to spaces that are not logged are applied by a commit without a restart, and are gone with
/// their space after one.
#[test]
fn spaces_that_are_not_logged_take_no_part_in_an_image() {
    let disk = MemDisk::new();
    let space = porpoise_kv::SpaceSpec {
        durability: porpoise_kv::SpaceDurability::Memory,
        ..Default::default()
    };
    for restarts in [false, true] {
        let mut engine = KvMem::open(options(&disk)).unwrap();
        let volatile = engine.create_spaces(std::slice::from_ref(&space)).unwrap()[0];
        let name = porpoise_kv::Key::new(volatile, b"v");
        let mut txn = branch(&engine, 2).unwrap();
        txn.put(name, b"1", Check::Blind).unwrap();
        let mut prepared = txn.prepare(b"2", b"").unwrap();
        if restarts {
            engine.shutdown().unwrap();
            drop(prepared);
            drop(engine);
            engine = KvMem::open(options(&disk)).unwrap();
            prepared = engine.take_restored().unwrap().remove(0);
        }
        let done = prepared.commit().unwrap();
        engine.wait_durable(done.position).unwrap();
        let mut found = None;
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.get(porpoise_kv::Read::SNAPSHOT, &[name], &mut |_, value| {
            found = value.map(<[u8]>::to_vec);
        })
        .unwrap();
        assert_eq!(found.is_some(), !restarts);
        assert!(all(&engine).contains_key("blind2"));
        drop(txn);
        crate::common::write(&engine, &[("locked2", None), ("blind2", None)]).unwrap();
        engine.shutdown().unwrap();
    }
}

/// An image of a newer format is refused by name.
#[test]
fn a_newer_format_is_refused() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let mut txn = engine.begin(Default::default()).unwrap();
    let chunk = porpoise_kv::Key::new(porpoise_kv::SpaceId::PREPARED, b"\0\x01n\0\0\0\0");
    txn.put(chunk, b"\x02\0", Check::Blind).unwrap();
    let done = txn.commit().unwrap();
    engine.wait_durable(done.position).unwrap();
    drop(engine);
    let refused = KvMem::open(options(&disk)).err().unwrap().to_string();
    assert_eq!(
        refused,
        "corrupt data: prepared transaction \"n\": format 2; this server reads 1"
    );
}

/// A full disk refuses the end; the transaction is still prepared, and ends when there is room.
#[test]
fn a_full_disk_leaves_a_transaction_prepared() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let mut prepared = branch(&engine, 7).unwrap().prepare(b"7", b"").unwrap();
    engine.wait_durable(prepared.position()).unwrap();
    disk.set_capacity(Some(disk.used() + (1 << 14)));
    let mut filled = Ok(());
    for n in 0..10_000 {
        filled = set(&engine, &format!("fill{n}"), &"x".repeat(500));
        if filled.is_err() {
            break;
        }
    }
    assert!(matches!(filled, Err(Error::Full(_))), "{filled:?}");
    let refused = prepared.commit();
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let mut txn = engine.begin(Default::default()).unwrap();
    assert!(matches!(
        lock(&mut *txn, "locked7", Wait::NoWait),
        Err(Error::LockBusy)
    ));
    disk.set_capacity(None);
    let mut done = Err(Error::Ended);
    for _ in 0..200 {
        done = prepared.commit();
        if done.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    engine.wait_durable(done.unwrap().position).unwrap();
    assert!(all(&engine).contains_key("blind7"));
}

/// The bytes that the engine counts against its memory limit.
fn live_bytes(engine: &KvMem) -> u64 {
    let stats = engine.stats();
    stats
        .iter()
        .find(|stat| stat.name == "live_bytes")
        .unwrap()
        .value
}

#[test]
fn the_written_keys_of_a_prepared_transaction_are_counted() {
    const KEYS: u64 = 500;
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let empty = live_bytes(&engine);
    let mut txn = engine.begin(Default::default()).unwrap();
    for n in 0..KEYS {
        let name = format!("{n:0>1000}");
        txn.put(key(&name), b"v", Check::Blind).unwrap();
    }
    let mut prepared = txn.prepare(b"name", b"note").unwrap();
    engine.wait_durable(prepared.position()).unwrap();
    // Once in the image, and once in the list of keys that other prepared transactions are checked against.
    let counted = live_bytes(&engine) - empty;
    assert!(counted > 2 * KEYS * 1000, "{counted}");
    engine.verify().unwrap();
    let done = prepared.rollback().unwrap();
    engine.wait_durable(done.position).unwrap();
    drop(prepared);
    engine.verify().unwrap();
    engine.reclaim();
    let left = live_bytes(&engine) - empty;
    assert!(left < KEYS * 1000, "{left}");
    engine.verify().unwrap();
}

/// A prepared transaction may stay for days: it keeps its locks, but neither a snapshot, which would keep old
/// versions, nor, if it writes nothing, what it has read.
#[test]
fn a_prepared_transaction_holds_no_snapshot_and_no_reads_without_writes() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    set(&engine, "row", "1").unwrap();
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.pin().unwrap();
    let read = Read {
        validate: true,
        ..Read::SNAPSHOT
    };
    txn.get(read, &[key("row")], &mut |_, _| {}).unwrap();
    let prepared = txn.prepare(b"name", b"note").unwrap();
    engine.wait_durable(prepared.position()).unwrap();
    let stats = engine.stats();
    let snapshots = stats.iter().find(|stat| stat.name == "snapshots").unwrap();
    assert_eq!(snapshots.value, 0);
    set(&engine, "row", "2").unwrap();
}

/// After a restart, too, no transaction is prepared that has read what a prepared one will change: each would
/// refuse the other's commit.
#[test]
fn restored_writes_refuse_transactions_that_depend_on_them() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.put(key("row"), b"1", Check::Blind).unwrap();
    let prepared = txn.prepare(b"writer", b"").unwrap();
    engine.wait_durable(prepared.position()).unwrap();
    drop((prepared, engine));
    let engine = KvMem::open(options(&disk)).unwrap();
    let restored = engine.take_restored().unwrap();
    assert_eq!(restored.len(), 1);
    let mut reader = engine.begin(Default::default()).unwrap();
    let read = Read {
        validate: true,
        ..Read::SNAPSHOT
    };
    reader.get(read, &[key("row")], &mut |_, _| {}).unwrap();
    reader.put(key("other"), b"1", Check::Blind).unwrap();
    let refused = reader.prepare(b"reader", b"").err();
    assert!(matches!(refused, Some(Error::Conflict)), "{refused:?}");
}
