//! The engine's metrics.

use crate::log::LogMetrics;
use crate::metrics::Count;
use crate::state::EngineState;
use porpoise_base::histogram::SummedHistogram;
use porpoise_kv::{Durations, Stat};

type StatDefinition = (&'static str, &'static str, fn(&EngineState) -> u64);

/// Metrics of type counter.
#[rustfmt::skip]
const COUNTERS: &[StatDefinition] = &[
    ("commits_total", "Transactions committed with writes.", |s| s.metrics.commits.get()),
    ("conflicts_total", "Commits refused because a row was newer than the snapshot.", |s| s.metrics.conflicts.get()),
    ("deadlocks_total", "Transactions ended to break a deadlock.", |s| s.metrics.deadlocks.get()),
    ("lock_waits_total", "Lock requests that waited.", |s| s.metrics.lock_waits.get()),
    ("lock_timeouts_total", "Lock waits that ended at their deadline.", |s| s.metrics.lock_timeouts.get()),
    ("versions_created_total", "Versions of rows written.", |s| s.store.versions_created.get()),
    ("versions_reclaimed_total", "Versions freed.", |s| s.store.versions_reclaimed.get()),
    ("keys_reclaimed_total", "Deleted keys whose memory was reclaimed.", |s| s.store.keys_reclaimed.get()),
    ("log_bytes_total", "Bytes of records written to the log.", |s| log(s, |m| &m.bytes)),
    ("log_groups_total", "Groups of records written to the log (group commits).", |s| log(s, |m| &m.groups)),
    ("log_grouped_commits_total", "Commits in the groups written to the log.", |s| log(s, |m| &m.grouped_commits)),
    ("log_syncs_total", "Syncs of the log.", |s| number_of(s, |m| &m.syncs)),
    ("snapshots_ended_total", "Snapshots ended at the memory limit because they prevented reclamation.", |s| s.reclaimer.snapshots_ended.get()),
    ("views_advanced_total", "Snapshots moved forward instead of reporting a conflict.", |s| s.metrics.snapshots_advanced.get()),
    ("checkpoints_total", "Checkpoints written.", |s| number_of(s, |m| &m.checkpoints)),
];

/// Metrics of type gauge.
#[rustfmt::skip]
const GAUGES: &[StatDefinition] = &[
    ("keys", "Keys in memory, including deleted keys that are not reclaimed yet.", keys),
    ("live_bytes", "Approximate bytes of keys and versions in memory.", |s| s.store.live_bytes() as u64),
    ("index_bytes", "Approximate bytes of the nodes and hash tables of all indexes.", index_bytes),
    ("log_buffer_bytes", "Bytes of the buffers for log records that are not written yet.", |s| s.pipeline.lock().log.buffer_bytes() as u64),
    ("reclaim_pending", "Records queued for reclamation.", |s| (s.reclaimer.backlog() + s.reclaimer.pending()) as u64),
    ("reclaim_held", "Records that cannot be reclaimed because of a snapshot.", |s| s.reclaimer.blocked_by_snapshots() as u64),
    ("reclaim_lag_seconds", "Time since the last pass of the reclaimer began, while records are queued for it; 0 if none is.", |s| s.reclaimer.lag().as_secs()),
    ("oldest_snapshot_seconds", "Age of the oldest active snapshot: the time for which superseded versions may have been kept for it.", |s| s.reclaimer.oldest_snapshot_age().as_secs()),
    ("snapshots", "Distinct timestamps of active snapshots.", |s| s.reclaimer.horizon().active.len() as u64),
    ("snapshot_lag_commits", "Commits since the oldest active snapshot.", lag),
    ("log_waiting_bytes", "Bytes of log records not synced yet.", waiting),
    ("log_full", "1 if the disk has no space for another log segment.", |s| u64::from(s.log.as_ref().is_some_and(|log| log.is_disk_full()))),
    ("prepared_transactions", "Transactions prepared for a two-phase commit that have not ended.", |s| s.pipeline.lock().protected.len() as u64),
    ("read_only", "1 if writes are refused after a failed write or sync of the log.", |s| u64::from(s.pipeline.watermark.failure().is_some())),
];

/// An event counter of the log; 0 without a log.
fn log(state: &EngineState, count: fn(&LogMetrics) -> &Count) -> u64 {
    state
        .log
        .as_ref()
        .map_or(0, |log| count(&log.metrics).get())
}

/// Number of durations that the log has recorded; 0 without a log.
fn number_of(state: &EngineState, durations: fn(&LogMetrics) -> &SummedHistogram) -> u64 {
    let log = state.log.as_ref();
    log.map_or(0, |log| durations(&log.metrics).read().0.total())
}

fn keys(state: &EngineState) -> u64 {
    let keys: usize = state
        .store
        .spaces
        .iter()
        .map(|space| space.index.len())
        .sum();
    keys as u64
}

fn index_bytes(state: &EngineState) -> u64 {
    let spaces = state.store.spaces.iter();
    let bytes: usize = spaces.map(|space| space.index.approximate_bytes()).sum();
    bytes as u64
}

fn lag(state: &EngineState) -> u64 {
    let oldest = state.reclaimer.horizon().oldest();
    state.pipeline.lock().last_ts.saturating_sub(oldest)
}

fn waiting(state: &EngineState) -> u64 {
    let appended = state.pipeline.lock().log.appended;
    let synced = state.log.as_ref().map_or(appended, |log| log.synced_to());
    appended.saturating_sub(synced)
}

/// Returns the durations of syncs and checkpoints; none without a log.
pub(crate) fn durations(state: &EngineState) -> Vec<Durations> {
    let Some(log) = &state.log else {
        return Vec::new();
    };
    let durations = |name, help, recorded: &SummedHistogram| {
        let (counts, nanos) = recorded.read();
        Durations {
            name,
            help,
            counts,
            nanos,
        }
    };
    let LogMetrics {
        syncs, checkpoints, ..
    } = &log.metrics;
    vec![
        durations("log_sync", "Time of a sync of the log.", syncs),
        durations("checkpoint", "Time of a checkpoint.", checkpoints),
    ]
}

/// Returns the present values of all metrics.
pub(crate) fn collect(state: &EngineState) -> Vec<Stat> {
    let stat = |counter: bool| {
        move |(name, help, value): &StatDefinition| Stat {
            name,
            help,
            counter,
            value: value(state),
        }
    };
    let counters = COUNTERS.iter().map(stat(true));
    counters.chain(GAUGES.iter().map(stat(false))).collect()
}
