//! Steps of a transaction, and their results as text.

use porpoise_kv::{
    Check, Error, Key, LockMode, LockRequest, Read, ReadMode, Result, ScanRange, SpaceId,
    StatementMark, Txn, Wait,
};
use std::ops::ControlFlow;

/// One step of one transaction; spaces are given by index.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Get(Read, usize, Vec<Vec<u8>>),
    Scan(Read, usize, Vec<u8>, Option<Vec<u8>>, bool, usize),
    Lock(usize, Vec<u8>, LockMode, bool),
    Put(usize, Vec<u8>, Vec<u8>),
    /// Space, number of rows, and bytes of each row.
    PutMany(usize, u32, usize),
    Delete(usize, Vec<u8>),
    LockedPut(usize, Vec<u8>, Vec<u8>),
    Refresh,
    Pin,
    Advance,
    RollbackTo(u64),
    Prepare,
    Commit,
    Rollback,
}

impl Step {
    /// The index of the space it concerns.
    pub(super) fn space(&self) -> Option<usize> {
        match self {
            Step::Get(_, space, _)
            | Step::Scan(_, space, ..)
            | Step::Lock(space, ..)
            | Step::Put(space, ..)
            | Step::PutMany(space, ..)
            | Step::Delete(space, _)
            | Step::LockedPut(space, ..) => Some(*space),
            _ => None,
        }
    }
}

fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    vec![b'a' + rng.u8(0..6); rng.usize(1..3)]
}

fn value(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = match rng.u8(0..12) {
        0 => rng.usize(500..3000),
        1..=3 => rng.usize(20..200),
        _ => rng.usize(0..6),
    };
    vec![rng.u8(..); len]
}

fn read(rng: &mut fastrand::Rng, mark: u64) -> Read {
    Read {
        mode: if rng.bool() {
            ReadMode::Snapshot
        } else {
            ReadMode::Current
        },
        mark: match rng.u8(0..4) {
            0 => StatementMark(rng.u64(0..=mark)),
            _ => StatementMark::ALL,
        },
        validate: rng.u8(0..10) == 0,
    }
}

/// Returns a random step for a transaction whose write set ends at `mark`.
pub(super) fn random(rng: &mut fastrand::Rng, mark: u64, spaces: usize) -> Step {
    let space = rng.usize(0..spaces);
    match rng.u8(0..23) {
        0..=3 => Step::Get(read(rng, mark), space, (0..3).map(|_| key(rng)).collect()),
        4..=6 => {
            let end = rng.bool().then(|| key(rng));
            let (start, reverse) = (key(rng), rng.bool());
            Step::Scan(read(rng, mark), space, start, end, reverse, rng.usize(1..6))
        }
        7 | 8 => {
            let mode = match rng.u8(0..4) {
                0 => LockMode::KeyShare,
                1 => LockMode::Share,
                2 => LockMode::Update,
                _ => LockMode::Exclusive,
            };
            Step::Lock(space, key(rng), mode, rng.bool())
        }
        9..=11 => Step::Put(space, key(rng), value(rng)),
        12 => Step::Delete(space, key(rng)),
        13 | 14 => Step::LockedPut(space, key(rng), value(rng)),
        15 => Step::Refresh,
        16 => Step::Pin,
        22 => Step::Advance,
        17 => Step::RollbackTo(rng.u64(0..=mark)),
        18 => Step::Rollback,
        19 if rng.u8(0..16) == 0 => Step::PutMany(space, rng.u32(3..40), rng.usize(1..60_000)),
        20 if rng.u8(0..3) == 0 => Step::Prepare,
        _ => Step::Commit,
    }
}

fn show(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes.len() <= 8 => format!("{bytes:?}"),
        Some(bytes) => format!("{}*{}", bytes.len(), bytes.first().copied().unwrap_or(0)),
    }
}

/// Performs a step that does not end the transaction, and returns its result. `space` maps an index
/// to the store's own space id.
pub(super) fn perform(
    txn: &mut dyn Txn,
    step: &Step,
    space: impl Fn(usize) -> SpaceId,
) -> Result<String> {
    let mut out = String::new();
    match step {
        Step::Get(read, of, keys) => {
            let keys: Vec<Key<'_>> = keys.iter().map(|k| Key::new(space(*of), k)).collect();
            let mut found = vec![String::new(); keys.len()];
            txn.get(*read, &keys, &mut |n, value| {
                if let Some(place) = found.get_mut(n) {
                    *place = show(value);
                }
            })?;
            out = found.join(",");
        }
        Step::Scan(read, of, start, end, reverse, limit) => {
            let range = ScanRange {
                space: space(*of),
                start,
                end: end.as_deref(),
                reverse: *reverse,
            };
            let stopped = txn.scan(*read, &[range], *limit, &mut |_, key, value| {
                out += &format!("{key:?}={};", show(Some(value)));
                ControlFlow::Continue(())
            })?;
            out += &format!("{stopped:?}");
        }
        Step::Lock(of, key, mode, skip) => {
            let request = LockRequest {
                key: Key::new(space(*of), key),
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
        Step::Put(of, key, value) => {
            txn.put(Key::new(space(*of), key), value, Check::FirstCommitter)?;
        }
        Step::PutMany(of, rows, len) => {
            for row in 0..*rows {
                let (key, value) = (format!("many{row}"), vec![row as u8; *len]);
                let key = Key::new(space(*of), key.as_bytes());
                txn.put(key, &value, Check::FirstCommitter)?;
            }
        }
        Step::Delete(of, key) => txn.delete(Key::new(space(*of), key), Check::FirstCommitter)?,
        Step::LockedPut(of, key, value) => {
            let key = Key::new(space(*of), key);
            let mode = LockMode::Update;
            txn.lock(&[LockRequest { key, mode }], Wait::NoWait, &mut |_, _| {})?;
            txn.put(key, value, Check::Locked)?;
        }
        Step::Refresh => txn.refresh()?,
        Step::Pin => txn.pin()?,
        Step::Advance => out = txn.advance()?.to_string(),
        Step::RollbackTo(mark) => txn.rollback_to(StatementMark(*mark)),
        Step::Prepare | Step::Commit | Step::Rollback => {}
    }
    Ok(out)
}

/// Converts a result to text, which must be the same for both stores.
pub(super) fn text(outcome: Result<String>) -> String {
    match outcome {
        Ok(text) => text,
        Err(Error::NoSuchSpace(_)) => "error: no such space".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

/// Whether an error is one of the disk, which the model does not have.
pub(super) fn is_disk_error(error: &Error) -> bool {
    matches!(
        error,
        Error::Full(_)
            | Error::Io(_)
            | Error::ReadOnly(_)
            | Error::UnknownOutcome(_)
            | Error::Unavailable(_)
    )
}
