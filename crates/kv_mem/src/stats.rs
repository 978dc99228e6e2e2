//! The engine's figures for the metrics page.

use crate::shared::Shared;
use porpoise_kv::Stat;

type Figure = (&'static str, &'static str, fn(&Shared) -> u64);

/// Figures that only grow.
#[rustfmt::skip]
const COUNTERS: &[Figure] = &[
    ("commits_total", "Transactions committed with writes.", |s| s.counts.commits.get()),
    ("conflicts_total", "Commits refused because a row was newer than the snapshot.", |s| s.counts.conflicts.get()),
    ("deadlocks_total", "Transactions ended to break a deadlock.", |s| s.counts.deadlocks.get()),
    ("lock_waits_total", "Locks that had to be waited for.", |s| s.counts.lock_waits.get()),
    ("lock_timeouts_total", "Lock waits that ended at their deadline.", |s| s.counts.lock_timeouts.get()),
    ("versions_created_total", "Versions of rows written.", |s| s.counts.versions.get()),
    ("versions_reclaimed_total", "Versions freed.", |s| s.reclaimer.versions.get()),
    ("keys_reclaimed_total", "Keys that held nothing any more, freed.", |s| s.reclaimer.keys.get()),
    ("log_bytes_total", "Bytes of records written to the log.", |s| s.counts.log_bytes.get()),
    ("log_groups_total", "Groups written to the log.", |s| s.counts.groups.get()),
    ("log_grouped_commits_total", "Commits in those groups.", |s| s.counts.grouped_commits.get()),
    ("log_syncs_total", "Syncs of the log.", |s| s.counts.syncs.get()),
    ("log_sync_micros_total", "Microseconds spent in them.", |s| s.counts.sync_micros.get()),
    ("snapshots_ended_total", "Snapshots ended because they held back memory at its limit.", |s| s.counts.snapshots_ended.get()),
    ("views_advanced_total", "Snapshots of transactions moved forward in place of a conflict.", |s| s.counts.views_advanced.get()),
    ("checkpoints_total", "Checkpoints written.", |s| s.counts.checkpoints.get()),
];

/// Figures that go up and down.
#[rustfmt::skip]
const GAUGES: &[Figure] = &[
    ("keys", "Keys in memory, deleted ones not yet freed included.", keys),
    ("live_bytes", "Bytes of keys and versions in memory, about.", |s| s.live_bytes() as u64),
    ("reclaim_pending", "Records that wait for the reclaimer.", |s| (s.reclaimer.backlog() + s.reclaimer.waiting().0) as u64),
    ("reclaim_held", "Records held back by a snapshot.", |s| s.reclaimer.waiting().1 as u64),
    ("snapshots", "Different active snapshots.", |s| s.snapshots.horizon(&s.mark).active.len() as u64),
    ("snapshot_lag_commits", "Commits since the oldest active snapshot.", lag),
    ("log_waiting_bytes", "Bytes of records not yet on disk.", waiting),
    ("log_full", "1 when the disk has no room for another log segment.", |s| u64::from(s.log.as_ref().is_some_and(|log| log.is_short(s)))),
    ("read_only", "1 when writes are refused after a failed write or sync.", |s| u64::from(s.failed.get().is_some())),
];

fn keys(shared: &Shared) -> u64 {
    let keys: usize = shared.spaces.iter().map(|space| space.index.len()).sum();
    keys as u64
}

fn lag(shared: &Shared) -> u64 {
    let oldest = shared.snapshots.horizon(&shared.mark).oldest();
    shared.seq.lock().last_ts.saturating_sub(oldest)
}

fn waiting(shared: &Shared) -> u64 {
    let appended = shared.seq.lock().log.appended;
    let synced = shared.log.as_ref().map_or(appended, |log| log.synced_to());
    appended.saturating_sub(synced)
}

/// All figures, now.
pub(crate) fn collect(shared: &Shared) -> Vec<Stat> {
    let stat = |counter: bool| {
        move |(name, help, value): &Figure| Stat {
            name,
            help,
            counter,
            value: value(shared),
        }
    };
    let counters = COUNTERS.iter().map(stat(true));
    counters.chain(GAUGES.iter().map(stat(false))).collect()
}
