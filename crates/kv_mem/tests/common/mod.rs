//! Helpers shared by the engine's tests.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod controlled_disk;

use porpoise_base::disk::MemDisk;
use porpoise_kv::{
    Check, CommitPosition, Durability, Engine, Error, Key, Read, ScanRange, SpaceId,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

pub const SPACE: SpaceId = SpaceId(7);

pub fn options(disk: &MemDisk) -> KvMemOptions {
    KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        durability: Durability::Sync,
        segment_bytes: 1 << 14,
        checkpoint_bytes: 1 << 15,
        ..KvMemOptions::default()
    }
}

pub fn key(name: &str) -> Key<'_> {
    Key::new(SPACE, name.as_bytes())
}

/// Commits writes (`None` deletes) in one transaction.
pub fn write(engine: &KvMem, writes: &[(&str, Option<&str>)]) -> Result<CommitPosition, Error> {
    let mut txn = engine.begin(Default::default())?;
    for (name, value) in writes {
        match value {
            Some(value) => txn.put(key(name), value.as_bytes(), Check::FirstCommitter)?,
            None => txn.delete(key(name), Check::FirstCommitter)?,
        }
    }
    Ok(txn.commit()?.position)
}

pub fn set(engine: &KvMem, name: &str, value: &str) -> Result<(), Error> {
    let position = write(engine, &[(name, Some(value))])?;
    engine.wait_durable(position)
}

pub fn get(engine: &KvMem, name: &str) -> Option<String> {
    let mut found = None;
    let mut txn = engine.begin(Default::default()).ok()?;
    txn.get(Read::SNAPSHOT, &[key(name)], &mut |_, value| {
        found = value.map(|v| String::from_utf8_lossy(v).into_owned());
    })
    .ok()?;
    found
}

/// All rows of the space.
pub fn all(engine: &KvMem) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(mut txn) = engine.begin(Default::default()) else {
        return found;
    };
    let range = ScanRange {
        space: SPACE,
        start: b"",
        end: None,
        reverse: false,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let _ = txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, k, v| {
        found.insert(text(k), text(v));
        ControlFlow::Continue(())
    });
    found
}

pub fn stat(engine: &KvMem, name: &str) -> u64 {
    let stats = engine.stats();
    stats.iter().find(|s| s.name == name).map_or(0, |s| s.value)
}
