//! Memory use of an engine, counted row by row.
//!
//! The memory limit uses an estimate that is cheap to maintain (`live_bytes` among the metrics).
//! These figures are exact, for measurements: bytes requested from the allocator, without its
//! overhead.

use crate::engine::KvMem;
use crate::index::WalkOutcome;
use crate::record::InlineKey;
use crate::space::Space;
use std::ops::{Bound, ControlFlow};

/// Number of records processed under one epoch pin.
const RECORDS_PER_PIN: usize = 1024;

/// Bytes by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of keys.
    pub keys: u64,
    /// Bytes of values, old versions included.
    pub values: u64,
    /// Bytes of records without their keys: chain, lock, count, padding.
    pub record_heads: u64,
    /// Bytes of versions without their values: timestamp, link, padding.
    pub version_heads: u64,
    /// Bytes of the ordered index's nodes and separators, and of hash tables.
    pub index: u64,
}

impl MemoryUse {
    fn add(&mut self, space: &Space) {
        let mut behind: Option<InlineKey> = None;
        loop {
            let guard = crossbeam_epoch::pin();
            let lower = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let index = &space.index;
            let walk = index.walk(
                lower,
                Bound::Unbounded,
                false,
                RECORDS_PER_PIN,
                &guard,
                |record| {
                    let key = record.key().len();
                    let (versions, values) = record.version_bytes(&guard);
                    self.keys += key as u64;
                    self.values += values as u64;
                    self.record_heads += (record.bytes() - key) as u64;
                    self.version_heads += (versions - values) as u64;
                    ControlFlow::Continue(())
                },
            );
            match walk {
                WalkOutcome::Paused(key) => behind = Some(key),
                WalkOutcome::Stopped | WalkOutcome::Done => break,
            }
        }
        self.index += space.index.bytes() as u64;
    }
}

impl KvMem {
    /// Memory use of all spaces. Reads every row.
    pub fn memory(&self) -> MemoryUse {
        let mut found = MemoryUse::default();
        for space in self.state.store.spaces.iter() {
            found.add(space);
        }
        found
    }
}
