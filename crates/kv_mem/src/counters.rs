//! Counters: ids that are never given out twice.
//!
//! Invariants:
//! 1. `next` never passes `limit`, and a limit is on disk before the first id
//!    below it is given out (transactions.md, 23).

use parking_lot::Mutex;
use porpoise_kv::{CounterId, Error, Full, Result};
use std::collections::HashMap;
use std::ops::Range;

/// All counters of an engine without a disk.
#[derive(Default)]
pub(crate) struct Counters {
    table: Mutex<HashMap<CounterId, u64>>,
}

impl Counters {
    pub(crate) fn reserve(&self, id: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        let mut table = self.table.lock();
        let next = table.entry(id).or_insert(1);
        let start = (*next).max(at_least);
        let end = start
            .checked_add(count.max(1))
            .ok_or(Error::Full(Full::Ids))?;
        *next = end;
        Ok(start..end)
    }

    pub(crate) fn give_back(&self, id: CounterId, unused: Range<u64>) -> bool {
        let mut table = self.table.lock();
        let next = table.entry(id).or_insert(1);
        let last = *next == unused.end && !unused.is_empty();
        if last {
            *next = unused.start;
        }
        last
    }

    pub(crate) fn next(&self, id: CounterId) -> u64 {
        self.table.lock().get(&id).copied().unwrap_or(1)
    }

    pub(crate) fn set(&self, id: CounterId, next: u64) {
        self.table.lock().insert(id, next.max(1));
    }
}
