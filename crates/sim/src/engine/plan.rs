//! The parameters of a run, which the seed determines in advance.

use porpoise_kv::Durability;
use std::time::Duration;

/// Faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Power cuts only.
    None,
    /// An operation of the disk fails, possibly after a partial write.
    Errors,
    /// The disk is full for a while.
    Full,
    /// Some syncs are reported as done but are not.
    LyingSyncs,
    /// Bits of files flip while power is off.
    BitFlips,
}

/// A simulated run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of all other decisions.
    pub seed: u64,
    /// Faults.
    pub faults: Faults,
    /// Durability of the store.
    pub durability: Durability,
    /// Number of steps.
    pub steps: usize,
    /// Transactions open at a time.
    pub transactions: usize,
    /// Average number of disk operations between two simulated crashes of a copy, each of which is
    /// checked.
    pub crash_one_in: u32,
    /// The size of a log segment, in bytes.
    pub segment_bytes: u64,
}

impl Plan {
    /// The run of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x05EE_D0F0);
        let faults = match rng.u8(0..10) {
            0..=3 => Faults::None,
            4 | 5 => Faults::Errors,
            6 | 7 => Faults::Full,
            8 => Faults::LyingSyncs,
            _ => Faults::BitFlips,
        };
        Plan {
            seed,
            faults,
            durability: match rng.u8(0..8) {
                0 => Durability::Interval(Duration::from_millis(20)),
                _ => Durability::Sync,
            },
            steps: rng.usize(150..500),
            transactions: rng.usize(2..5),
            crash_one_in: rng.u32(3..12),
            segment_bytes: 1 << rng.u32(13..16),
        }
    }
}
