//! The engine's own code under schedules that a seed chooses.
//!
//! Compiled with `--cfg shuttle` only, where `porpoise_base::sync` stands for
//! the primitives of a scheduler; `scripts/schedules.sh` runs them. Half of the
//! schedules change places at random, half keep a thread running but for a few
//! chosen moments, which finds what needs one thread to stand still for long.
//! `SCHEDULES` says how many schedules of each, `SCHEDULE_SEED` where to begin.
//! A thread that waits for ever, a panic and a run that does not end are each
//! reported with the seed.

mod commits;
mod leaves;
mod locks;

use crate::{KvMem, KvMemOptions};
use porpoise_base::disk::MemDisk;
use porpoise_kv::{Durability, Key, SpaceId};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::sync::Arc;

/// The space that the models use.
const SPACE: SpaceId = SpaceId(7);

/// Moments at which the second half of the schedules changes places.
const CHANGES: usize = 4;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a model under many schedules: `usual` of each kind unless asked for
/// another number.
fn explore(usual: usize, model: fn()) {
    let asked = number("SCHEDULES").and_then(|n| usize::try_from(n).ok());
    let times = asked.unwrap_or(usual);
    let seed = number("SCHEDULE_SEED").unwrap_or(1);
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(3_000_000);
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    let random = RandomScheduler::new_from_seed(seed, times);
    assert_eq!(Runner::new(random, config.clone()).run(model), times);
    let steady = PctScheduler::new_from_seed(seed, CHANGES, times);
    assert_eq!(Runner::new(steady, config).run(model), times);
}

/// An engine that keeps nothing.
fn in_memory() -> Arc<KvMem> {
    KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    })
    .unwrap()
}

/// An engine whose commits are to be on the disk.
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
