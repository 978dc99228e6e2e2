//! Counters and space ids: numbers that are never given out twice.
//!
//! Invariants:
//! 1. `next` never passes `limit`, and a limit is on disk before the first id below it is given out, in
//!    every durability mode (transactions.md, 23). After a crash a counter continues at its limit.
//! 2. Limits are extended ahead of need: when half of what was reserved is used, the next record is
//!    appended, and no caller waits for it. The reserve grows with the counter: a crash costs about a
//!    thirtieth of the ids. A fixed size was rejected: one crash used up a SMALLINT.
//! 3. Records of one counter are in the log in the order of their creation; the last one holds.
//! 4. Latch order: this table, then the sequencer. No thread waits for the disk with the table held.

use crate::log::Log;
use crate::log::format::Record;
use crate::pipeline::CommitPipeline;
use crate::space::Spaces;
use crate::store::RecordStore;
use porpoise_base::sync::{Mutex, MutexGuard};
use porpoise_kv::{CounterId, Error, Resource, Result, SpaceId, SpaceSpec};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of ids that are reserved on disk ahead of need, except for bulk loads.
const MAX_RESERVED_AHEAD: u64 = 1 << 16;

/// Number of ids per call from which the caller counts as a bulk load. Its counter does not serve a
/// column of one or two bytes, so a larger reserve is harmless.
const MIN_BULK_IDS: u64 = 256;

/// Number of ids to reserve on disk beyond `end` for a call that takes `count` ids. A crash loses
/// the reserve, so it is a fraction of the ids already used: a counter for a column of one or two
/// bytes must survive crashes.
fn reserve_size(end: u64, count: u64) -> u64 {
    let least = match count {
        MIN_BULK_IDS.. => count.saturating_mul(4),
        _ => 2,
    };
    (end / 32).min(MAX_RESERVED_AHEAD).max(least)
}

/// One counter.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) next: u64,
    /// Limit that is on disk: no id at or above it was given out.
    limit: u64,
    /// Higher limit that was appended to the log but is not yet on disk, with the position after
    /// its record.
    pending_limit: Option<(u64, u64)>,
}

impl Counter {
    /// Creates a counter from the limit that recovery found on disk.
    pub(crate) fn from_recovered_limit(limit: u64) -> Counter {
        Counter {
            next: limit,
            limit,
            pending_limit: None,
        }
    }

    /// Value at which the counter would continue after a crash now.
    pub(crate) fn reserved(&self) -> u64 {
        self.pending_limit.map_or(self.limit, |(limit, _)| limit)
    }

    fn apply_pending_limit(&mut self, log: &Log) {
        if let Some((limit, position)) = self.pending_limit
            && log.is_synced(position)
        {
            (self.limit, self.pending_limit) = (limit, None);
        }
    }
}

/// Counters and the next space id.
#[derive(Default)]
pub(crate) struct CounterTable {
    pub(crate) counters: BTreeMap<CounterId, Counter>,
    pub(crate) next_space: u64,
    /// Whether the exact counters were written, after which nothing may change.
    pub(crate) frozen: bool,
}

impl CounterTable {
    fn check_open(&self) -> Result<()> {
        if self.frozen {
            return Err(Error::Unavailable("the engine is shut down".to_owned()));
        }
        Ok(())
    }

    fn counter(&mut self, id: CounterId) -> &mut Counter {
        self.counters
            .entry(id)
            .or_insert(Counter::from_recovered_limit(1))
    }
}

/// Counters and space ids of an engine.
pub(crate) struct Counters {
    table: Mutex<CounterTable>,
    store: Arc<RecordStore>,
    pipeline: Arc<CommitPipeline>,
    log: Option<Arc<Log>>,
}

impl Counters {
    pub(crate) fn new(
        mut table: CounterTable,
        store: Arc<RecordStore>,
        pipeline: Arc<CommitPipeline>,
        log: Option<Arc<Log>>,
    ) -> Counters {
        table.next_space = table.next_space.max(SpaceId::FIRST_FREE.0);
        Counters {
            table: Mutex::new(table),
            store,
            pipeline,
            log,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CounterTable> {
        self.table.lock()
    }

    /// Appends the record of a new limit.
    fn extend(log: &Log, id: CounterId, counter: &mut Counter, limit: u64) -> u64 {
        let record = Record::Counter { id: id.0, limit };
        let position = log.append_record(&mut log.pipeline.lock(), &record);
        counter.pending_limit = Some((limit, position));
        position
    }

    pub(crate) fn reserve(&self, id: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        loop {
            let mut table = self.lock();
            table.check_open()?;
            let counter = table.counter(id);
            let start = counter.next.max(at_least);
            let end = start
                .checked_add(count.max(1))
                .ok_or(Error::Full(Resource::Ids))?;
            let Some(log) = &self.log else {
                counter.next = end;
                return Ok(start..end);
            };
            counter.apply_pending_limit(log);
            let ahead = reserve_size(end, count);
            if end <= counter.limit {
                counter.next = end;
                if counter.limit - end < ahead / 2
                    && counter.pending_limit.is_none()
                    && log.check_writable().is_ok()
                {
                    let limit = counter.limit.saturating_add(ahead);
                    Counters::extend(log, id, counter, limit);
                }
                return Ok(start..end);
            }
            log.check_writable()?;
            let position = match counter.pending_limit {
                Some((limit, position)) if limit >= end => position,
                _ => Counters::extend(log, id, counter, end.saturating_add(ahead)),
            };
            drop(table);
            log.wait_synced(position)?;
        }
    }

    pub(crate) fn give_back(&self, id: CounterId, unused: &Range<u64>) -> Result<bool> {
        let mut table = self.lock();
        table.check_open()?;
        let counter = table.counter(id);
        let last = counter.next == unused.end && !unused.is_empty();
        if last {
            counter.next = unused.start;
        }
        Ok(last)
    }

    /// Appends the exact counters to the log; no id is given out afterwards. Returns the log
    /// position after the last record.
    pub(crate) fn freeze(&self, log: &Log) -> u64 {
        let mut table = self.lock();
        table.frozen = true;
        let mut position = 0;
        for (id, counter) in &mut table.counters {
            let exact = counter.next;
            position = Counters::extend(log, *id, counter, exact);
        }
        position
    }

    pub(crate) fn next(&self, id: CounterId) -> u64 {
        self.lock().counters.get(&id).map_or(1, |c| c.next)
    }

    pub(crate) fn set(&self, id: CounterId, next: u64) -> Result<()> {
        let next = next.max(1);
        let mut table = self.lock();
        table.check_open()?;
        let counter = table.counter(id);
        let Some(log) = &self.log else {
            *counter = Counter::from_recovered_limit(next);
            return Ok(());
        };
        log.check_writable()?;
        *counter = Counter::from_recovered_limit(next);
        let limit = next.saturating_add(reserve_size(next, 1));
        let position = Counters::extend(log, id, counter, limit);
        drop(table);
        log.wait_synced(position)
    }

    /// Creates spaces; they are on disk when this returns.
    pub(crate) fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        let mut table = self.lock();
        table.check_open()?;
        if let Some(log) = &self.log {
            log.check_writable()?;
        }
        if table.next_space + specs.len() as u64 > Spaces::max_id() {
            return Err(Error::Full(Resource::Ids));
        }
        let mut seq = self.pipeline.lock();
        let mut ids = Vec::with_capacity(specs.len());
        let mut position = 0;
        if let Some(log) = &self.log {
            log.check_admission(&seq, specs.len() * 64)?;
        }
        for spec in specs {
            let id = SpaceId(table.next_space);
            table.next_space += 1;
            if let Some(log) = &self.log {
                let spec = spec.clone();
                position = log.append_record(&mut seq, &Record::CreateSpace { id, spec });
            }
            self.store.spaces.add(id, spec.clone());
            ids.push(id);
        }
        drop(seq);
        drop(table);
        if let Some(log) = &self.log {
            log.wait_synced(position)?;
        }
        Ok(ids)
    }

    /// Drops spaces; they are gone from disk when this returns.
    pub(crate) fn drop_spaces(&self, ids: &[SpaceId]) -> Result<()> {
        self.lock().check_open()?;
        if let Some(log) = &self.log {
            log.check_writable()?;
        }
        // Waits until no commit that may write to one of the spaces is in flight.
        let mut seq = self.pipeline.wait_installed(self.pipeline.lock());
        let mut position = 0;
        let mut gone = Vec::new();
        for id in ids {
            if let Some(space) = self.store.spaces.find(*id)
                && space.mark_dropped()
            {
                gone.push(space);
                if let Some(log) = &self.log {
                    position = log.append_record(&mut seq, &Record::DropSpace { id: *id });
                }
            }
        }
        drop(seq);
        for space in gone {
            for record in space.index.clear() {
                // The record may also be in the reclaimer's queue; the reclaimer skips dead
                // records.
                record.latch().dead = true;
                self.store.subtract_record(space, &record);
            }
        }
        match &self.log {
            Some(log) => log.wait_synced(position),
            None => Ok(()),
        }
    }
}
