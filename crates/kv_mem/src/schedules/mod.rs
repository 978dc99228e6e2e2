//! Model tests of the engine: its code under seeded thread schedules (shuttle), and its read
//! protocol under loom.
//!
//! Compiled with `--cfg shuttle` only, where `porpoise_base::sync` stands for the primitives of a
//! scheduler; `scripts/schedules.sh` runs them, and `porpoise_base::sync::explore` says how they are
//! chosen. `protocol` takes its primitives from loom instead.

mod commits;
mod leaves;
mod locks;
mod protocol;

use crate::{KvMem, KvMemOptions};
use porpoise_base::disk::MemDisk;
use porpoise_kv::{Durability, Key, SpaceId};
use std::sync::Arc;

/// The space that the models use.
const SPACE: SpaceId = SpaceId(7);

/// Number of priority changes in the second half of the schedules (probabilistic concurrency
/// testing).
const CHANGES: usize = 4;

fn explore(usual: usize, model: fn()) {
    porpoise_base::sync::explore(usual, CHANGES, model);
}

/// Opens an engine without persistence.
fn in_memory() -> Arc<KvMem> {
    KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    })
    .unwrap()
}

/// Opens an engine with `sync` durability.
fn on_disk(disk: &MemDisk) -> Arc<KvMem> {
    KvMem::open(KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        durability: Durability::Sync,
        segment_bytes: 1 << 14,
        ..KvMemOptions::default()
    })
    .unwrap()
}

fn key(name: &str) -> Key<'_> {
    Key::new(SPACE, name.as_bytes())
}
