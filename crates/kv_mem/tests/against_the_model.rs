//! Random interleavings of several transactions, run on the engine and on the
//! reference model: every result must be the same.

use porpoise_kv::model::Model;
use porpoise_kv::{
    Check, Engine, Error, Isolation, Key, LockMode, LockRequest, Read, ReadMode, ScanRange,
    SpaceId, StatementMark, Txn, TxnOptions, Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::ops::ControlFlow;

const SPACES: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];

/// Formats a result as text, so that two can be compared and printed.
fn name(outcome: Result<String, Error>) -> String {
    match outcome {
        Ok(text) => text,
        Err(Error::LockBusy) => "busy".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Get(Read, SpaceId, Vec<Vec<u8>>),
    Scan(Read, SpaceId, Vec<u8>, Option<Vec<u8>>, bool, usize),
    Lock(SpaceId, Vec<u8>, LockMode, bool),
    Put(SpaceId, Vec<u8>, Vec<u8>),
    Delete(SpaceId, Vec<u8>),
    LockedPut(SpaceId, Vec<u8>, Vec<u8>),
    Refresh,
    Pin,
    Advance,
    RollbackTo(u64),
    Commit,
    Rollback,
}

fn random(rng: &mut fastrand::Rng, mark: u64) -> Step {
    let key = |rng: &mut fastrand::Rng| vec![b'a' + rng.u8(0..6); rng.usize(1..3)];
    let space = SPACES[rng.usize(0..2)];
    let read = Read {
        mode: if rng.bool() {
            ReadMode::Snapshot
        } else {
            ReadMode::Current
        },
        mark: if rng.u8(0..4) == 0 {
            StatementMark(rng.u64(0..=mark))
        } else {
            StatementMark::ALL
        },
        validate: rng.u8(0..10) == 0,
    };
    match rng.u8(0..22) {
        0..=3 => Step::Get(read, space, (0..3).map(|_| key(rng)).collect()),
        4..=6 => {
            let end = rng.bool().then(|| key(rng));
            Step::Scan(read, space, key(rng), end, rng.bool(), rng.usize(1..6))
        }
        7 | 8 => {
            let mode = [
                LockMode::KeyShare,
                LockMode::Share,
                LockMode::Update,
                LockMode::Exclusive,
            ];
            Step::Lock(space, key(rng), mode[rng.usize(0..4)], rng.bool())
        }
        9..=11 => Step::Put(space, key(rng), vec![rng.u8(..)]),
        12 => Step::Delete(space, key(rng)),
        13 | 14 => Step::LockedPut(space, key(rng), vec![rng.u8(..)]),
        15 => Step::Refresh,
        16 => Step::Pin,
        17 => Step::RollbackTo(rng.u64(0..=mark)),
        18 => Step::Rollback,
        19 | 20 => Step::Advance,
        _ => Step::Commit,
    }
}

fn show(bytes: Option<&[u8]>) -> String {
    bytes.map_or("-".to_owned(), |b| format!("{b:?}"))
}

fn perform(txn: &mut dyn Txn, step: &Step) -> Result<String, Error> {
    let mut out = String::new();
    match step {
        Step::Get(read, space, keys) => {
            let keys: Vec<Key<'_>> = keys.iter().map(|k| Key::new(*space, k)).collect();
            let mut found = vec![String::new(); keys.len()];
            txn.get(*read, &keys, &mut |n, value| found[n] = show(value))?;
            out = found.join(",");
        }
        Step::Scan(read, space, start, end, reverse, limit) => {
            let range = ScanRange {
                space: *space,
                start,
                end: end.as_deref(),
                reverse: *reverse,
            };
            txn.scan(*read, &[range], *limit, &mut |_, key, value| {
                out += &format!("{key:?}={value:?};");
                ControlFlow::Continue(())
            })?;
        }
        Step::Lock(space, key, mode, skip) => {
            let request = LockRequest {
                key: Key::new(*space, key),
                mode: *mode,
            };
            let wait = if *skip { Wait::Skip } else { Wait::NoWait };
            txn.lock(&[request], wait, &mut |_, found| {
                out = if found.granted {
                    format!("{} {} {}", show(found.value), found.newer, found.own)
                } else {
                    "skipped".to_owned()
                };
            })?;
        }
        Step::Put(space, key, value) => {
            txn.put(Key::new(*space, key), value, Check::FirstCommitter)?;
        }
        Step::Delete(space, key) => txn.delete(Key::new(*space, key), Check::FirstCommitter)?,
        Step::LockedPut(space, key, value) => {
            let key = Key::new(*space, key);
            let mode = LockMode::Update;
            txn.lock(&[LockRequest { key, mode }], Wait::NoWait, &mut |_, _| {})?;
            txn.put(key, value, Check::Locked)?;
        }
        Step::Refresh => txn.refresh()?,
        Step::Pin => txn.pin()?,
        Step::Advance => out = txn.advance()?.to_string(),
        Step::RollbackTo(mark) => txn.rollback_to(StatementMark(*mark)),
        Step::Commit | Step::Rollback => unreachable!("ends the transaction"),
    }
    Ok(out)
}

/// A transaction on both, and the keys it would lock at its commit.
struct Pair {
    engine: Box<dyn Txn>,
    model: Box<dyn Txn>,
}

fn begin(engine: &KvMem, model: &Model, rng: &mut fastrand::Rng) -> Pair {
    let options = TxnOptions {
        isolation: match rng.u8(0..6) {
            0 => Isolation::Serializable,
            _ => Isolation::Snapshot,
        },
        ..TxnOptions::default()
    };
    let mut pair = Pair {
        engine: engine.begin(options.clone()).unwrap(),
        model: model.begin(options).unwrap(),
    };
    if rng.bool() {
        pair.engine.track_reads();
        pair.model.track_reads();
    }
    pair
}

fn run(seed: u64) {
    let engine = KvMem::open(KvMemOptions {
        // A commit that would wait for a lock ends at once instead.
        lock_wait: std::time::Duration::ZERO,
        ..KvMemOptions::default()
    })
    .unwrap();
    let model = Model::new().with_commit_wait(std::time::Duration::ZERO);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut open: Vec<Pair> = (0..3).map(|_| begin(&engine, &model, &mut rng)).collect();
    let mut trace = Vec::new();
    for n in 0..400 {
        let at = rng.usize(0..open.len());
        let mark = open[at].model.mark();
        assert_eq!(open[at].engine.mark(), mark);
        let step = random(&mut rng, mark.0);
        trace.push((at, step.clone()));
        let at_step = || {
            let mut lines = format!("seed {seed}, step {n}\n");
            for (txn, step) in trace.iter().rev().take(60).rev() {
                lines += &format!("{txn}: {step:?}\n");
            }
            lines
        };
        match step {
            Step::Commit | Step::Rollback => {
                let fresh = begin(&engine, &model, &mut rng);
                let old = std::mem::replace(&mut open[at], fresh);
                if matches!(step, Step::Rollback) {
                    old.engine.rollback();
                    old.model.rollback();
                    continue;
                }
                let left = name(old.engine.commit().map(|_| String::new()));
                let right = name(old.model.commit().map(|_| String::new()));
                assert_eq!(left, right, "{}", at_step());
            }
            step => {
                let left = name(perform(&mut *open[at].engine, &step));
                let right = name(perform(&mut *open[at].model, &step));
                assert_eq!(left, right, "{}", at_step());
            }
        }
        if n % 50 == 0 {
            engine.reclaim();
        }
    }
    drop(open);
    engine.reclaim();
    engine.verify().unwrap();
}

#[test]
fn the_engine_agrees_with_the_model() {
    for seed in 0..600 {
        run(seed);
    }
}
