//! Statistics of commands by key prefix: number, rows, errors and latencies.
//!
//! A configured prefix has counters for each command, in one block for each core
//! ([`mod@porpoise_base::counters`]). All commands are counted, except reads and failed commands
//! within a meta transaction. Of the commands that the sampler of hot keys chooses, the time is
//! measured and the key is recorded ([`porpoise_rows::hot_keys`]); gat is not sampled. The counters
//! belong to the process and outlive a change of the mapping.
//!
//! Invariants:
//! 1. Counting touches no cache line of another block.
//! 2. At most [`MAX_PREFIXES`] prefixes have counters; commands on further prefixes are not
//!    counted.

use parking_lot::Mutex;
use porpoise_base::counters::{BLOCKS, current_block};
use porpoise_base::histogram::{Counts, Histogram};
use porpoise_rows::command_summary::CommandSummary;
use porpoise_wire::memcached::command::{Change, Mode, Status};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum number of prefixes.
const MAX_PREFIXES: usize = 1000;

/// Commands that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Verb {
    Get,
    Gat,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
    Incr,
    Decr,
    Delete,
    Touch,
}

/// The names of [`Verb`], in its order.
const VERBS: [&str; 12] = [
    "get", "gat", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "delete",
    "touch",
];

impl Verb {
    /// The verb of a command that changes an item.
    pub(crate) fn of(change: &Change<'_>) -> Verb {
        match change {
            Change::Store(store) if store.compare.is_some() => Verb::Cas,
            Change::Store(store) => match store.mode {
                Mode::Set => Verb::Set,
                Mode::Add => Verb::Add,
                Mode::Replace => Verb::Replace,
                Mode::Append => Verb::Append,
                Mode::Prepend => Verb::Prepend,
            },
            Change::Count(count) if count.decrement => Verb::Decr,
            Change::Count(_) => Verb::Incr,
            Change::Delete(_) => Verb::Delete,
            Change::Touch(_) => Verb::Touch,
        }
    }
}

/// Counters of one command in one block.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Block {
    count: AtomicU64,
    errors: AtomicU64,
    rows_read: AtomicU64,
    rows_changed: AtomicU64,
}

/// Counters of one command on keys of one prefix.
#[derive(Debug, Default)]
struct VerbStatistics {
    blocks: [Block; BLOCKS],
    sampled: AtomicU64,
    sampled_nanos: AtomicU64,
    max_nanos: AtomicU64,
    /// The complement of the minimum, so that 0 means none.
    inverse_min_nanos: AtomicU64,
    latencies: Histogram,
    first_seen: OnceLock<Instant>,
    last_seen: Mutex<Option<Instant>>,
}

/// Effects of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects {
    /// Number of keys.
    pub(crate) keys: u64,
    /// Items sent.
    pub(crate) rows_read: u64,
    /// Items changed.
    pub(crate) rows_changed: u64,
    /// Commands that failed.
    pub(crate) errors: u64,
}

impl Effects {
    /// Effects of a command that changes an item and ended with this status.
    pub(crate) fn of_change(status: Status) -> Effects {
        let changed = matches!(
            status,
            Status::Stored | Status::Deleted | Status::Touched | Status::Counted
        );
        Effects {
            keys: 1,
            rows_changed: u64::from(changed),
            ..Effects::default()
        }
    }

    /// Effects of a command that failed.
    pub(crate) const FAILED: Effects = Effects {
        keys: 1,
        rows_read: 0,
        rows_changed: 0,
        errors: 1,
    };
}

/// Statistics of the commands on keys of one prefix.
#[derive(Debug)]
pub struct PrefixStatistics {
    prefix: Box<[u8]>,
    /// Database of the mapped table; `None` until a mapping has resolved one.
    database: Mutex<Option<String>>,
    verbs: [OnceLock<Box<VerbStatistics>>; VERBS.len()],
}

impl PrefixStatistics {
    fn new(prefix: &[u8]) -> PrefixStatistics {
        PrefixStatistics {
            prefix: prefix.into(),
            database: Mutex::new(None),
            verbs: [const { OnceLock::new() }; VERBS.len()],
        }
    }

    #[inline]
    fn verb(&self, verb: Verb) -> Option<&VerbStatistics> {
        let verb = self.verbs.get(verb as usize)?;
        Some(verb.get_or_init(Box::default))
    }

    /// Counts commands.
    #[inline]
    pub(crate) fn count(&self, verb: Verb, effects: Effects) {
        let verb = self.verb(verb);
        if let Some(block) = verb.and_then(|verb| verb.blocks.get(current_block())) {
            let add = |counter: &AtomicU64, n: u64| {
                if n > 0 {
                    counter.fetch_add(n, Ordering::Relaxed);
                }
            };
            add(&block.count, effects.keys);
            add(&block.rows_read, effects.rows_read);
            add(&block.rows_changed, effects.rows_changed);
            add(&block.errors, effects.errors);
        }
    }

    /// Records the time of a sampled command, which is a share of the time that so many `commands`
    /// took together.
    pub(crate) fn time(&self, verb: Verb, began: Instant, ended: Instant, commands: u32) {
        let Some(verb) = self.verb(verb) else {
            return;
        };
        let elapsed = ended.saturating_duration_since(began) / commands.max(1);
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        verb.sampled.fetch_add(1, Ordering::Relaxed);
        verb.sampled_nanos.fetch_add(nanos, Ordering::Relaxed);
        verb.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        verb.inverse_min_nanos.fetch_max(!nanos, Ordering::Relaxed);
        verb.latencies.record_nanos(nanos);
        verb.first_seen.get_or_init(|| ended);
        *verb.last_seen.lock() = Some(ended);
    }
}

/// Counts and times of the commands of one verb on keys of one prefix.
#[derive(Clone, Debug)]
pub struct VerbSummary {
    /// The verb.
    pub verb: &'static str,
    /// Total of the sampled times, in nanoseconds.
    pub sampled_nanos: u64,
    /// Counts and times; its text is the verb and the prefix: `get user:*`.
    pub summary: CommandSummary,
}

/// Statistics of all prefixes. A prefix that leaves the configuration keeps its counters.
#[derive(Debug)]
struct Registry {
    enabled: AtomicBool,
    prefixes: Mutex<BTreeMap<Box<[u8]>, Arc<PrefixStatistics>>>,
}

static REGISTRY: Registry = Registry {
    enabled: AtomicBool::new(true),
    prefixes: Mutex::new(BTreeMap::new()),
};

/// Switches statistics on or off for mappings that are read later.
pub fn enable(on: bool) {
    REGISTRY.enabled.store(on, Ordering::Relaxed);
}

/// The statistics of a prefix; `None` if they are off or there are too many.
pub(crate) fn of_prefix(prefix: &[u8], database: Option<&str>) -> Option<Arc<PrefixStatistics>> {
    if !REGISTRY.enabled.load(Ordering::Relaxed) {
        return None;
    }
    let mut prefixes = REGISTRY.prefixes.lock();
    if !prefixes.contains_key(prefix) && prefixes.len() >= MAX_PREFIXES {
        return None;
    }
    let entry = prefixes.entry(prefix.into());
    let found = entry.or_insert_with(|| Arc::new(PrefixStatistics::new(prefix)));
    if let Some(database) = database {
        *found.database.lock() = Some(database.to_owned());
    }
    Some(found.clone())
}

/// Sums of all prefixes and verbs with at least one command since the last reset.
pub fn summaries() -> Vec<VerbSummary> {
    let prefixes: Vec<_> = REGISTRY.prefixes.lock().values().cloned().collect();
    let mut summaries = Vec::new();
    for prefix in prefixes {
        let shown = String::from_utf8_lossy(&prefix.prefix);
        for (name, verb) in VERBS.iter().zip(&prefix.verbs) {
            let Some(verb) = verb.get() else {
                continue;
            };
            let sum = |counter: fn(&Block) -> &AtomicU64| -> u64 {
                let blocks = verb.blocks.iter();
                blocks
                    .map(|block| counter(block).load(Ordering::Relaxed))
                    .sum()
            };
            let count = sum(|block| &block.count);
            if count == 0 {
                continue;
            }
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (sampled, nanos) = (read(&verb.sampled), read(&verb.sampled_nanos));
            let inverse_min = read(&verb.inverse_min_nanos);
            let mut latencies = Counts::default();
            latencies.add(&verb.latencies);
            let last_seen = *verb.last_seen.lock();
            let summary = CommandSummary {
                text: format!("{name} {shown}*"),
                database: prefix.database.lock().clone(),
                count,
                errors: sum(|block| &block.errors),
                rows_read: sum(|block| &block.rows_read),
                rows_changed: sum(|block| &block.rows_changed),
                nanos: (nanos / sampled.max(1)).saturating_mul(count),
                min_nanos: if inverse_min == 0 { 0 } else { !inverse_min },
                max_nanos: read(&verb.max_nanos),
                latencies,
                seen: verb.first_seen.get().copied().zip(last_seen),
            };
            summaries.push(VerbSummary {
                verb: name,
                sampled_nanos: nanos,
                summary,
            });
        }
    }
    summaries
}

/// Distribution of the sampled times of all commands since the last reset.
pub fn latency_counts() -> Counts {
    let mut counts = Counts::default();
    for prefix in REGISTRY.prefixes.lock().values() {
        for verb in prefix.verbs.iter().filter_map(OnceLock::get) {
            counts.add(&verb.latencies);
        }
    }
    counts
}

/// Sets all counters to zero. The times of the first and the last sampled command stay.
pub fn reset() {
    for prefix in REGISTRY.prefixes.lock().values() {
        for verb in prefix.verbs.iter().filter_map(OnceLock::get) {
            for block in &verb.blocks {
                let counters = [&block.count, &block.errors, &block.rows_read];
                for counter in counters.into_iter().chain([&block.rows_changed]) {
                    counter.store(0, Ordering::Relaxed);
                }
            }
            let sampled = [&verb.sampled, &verb.sampled_nanos, &verb.max_nanos];
            for counter in sampled.into_iter().chain([&verb.inverse_min_nanos]) {
                counter.store(0, Ordering::Relaxed);
            }
            verb.latencies.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn commands_are_summed_by_prefix_and_verb() {
        let prefix = b"command_statistics:";
        let statistics = of_prefix(prefix, Some("d")).unwrap();
        let effects = Effects {
            keys: 3,
            rows_read: 2,
            ..Effects::default()
        };
        statistics.count(Verb::Get, effects);
        statistics.count(Verb::Get, Effects::FAILED);
        statistics.count(Verb::Delete, Effects::of_change(Status::NotFound));
        let now = Instant::now();
        statistics.time(Verb::Get, now, now + Duration::from_micros(40), 2);
        let mine = || {
            let all = summaries().into_iter().map(|verb| verb.summary);
            let mine = all.filter(|s| s.text.ends_with("command_statistics:*"));
            mine.collect::<Vec<_>>()
        };
        let found = mine();
        let [get, delete] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(get.text, "get command_statistics:*");
        assert_eq!((get.count, get.errors, get.rows_read), (4, 1, 2));
        assert_eq!(
            (get.nanos, get.min_nanos, get.max_nanos),
            (80_000, 20_000, 20_000)
        );
        assert_eq!(get.latencies.total(), 1);
        assert!(latency_counts().total() >= 1);
        assert_eq!((delete.count, delete.rows_changed), (1, 0));
        assert_eq!(get.database.as_deref(), Some("d"));
        reset();
        assert!(mine().is_empty());
    }
}
