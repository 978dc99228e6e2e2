//! The engine's figures for the metrics page.

use crate::shared::Shared;
use porpoise_kv::Stat;

/// All figures, now.
pub(crate) fn collect(shared: &Shared) -> Vec<Stat> {
    let counts = &shared.counts;
    let counter = |name, help, value| Stat {
        name,
        help,
        counter: true,
        value,
    };
    let gauge = |name, help, value| Stat {
        name,
        help,
        counter: false,
        value,
    };
    let keys: usize = shared.spaces.iter().map(|space| space.index.len()).sum();
    let horizon = shared.snapshots.horizon(&shared.mark);
    let reclaimer = &shared.reclaimer;
    let (pending, held) = reclaimer.waiting();
    let seq = shared.seq.lock();
    let last_ts = seq.last_ts;
    drop(seq);
    vec![
        counter(
            "commits_total",
            "Transactions committed with writes.",
            counts.commits.get(),
        ),
        counter(
            "conflicts_total",
            "Commits refused because a row was newer than the snapshot.",
            counts.conflicts.get(),
        ),
        counter(
            "deadlocks_total",
            "Transactions ended to break a deadlock.",
            counts.deadlocks.get(),
        ),
        counter(
            "lock_waits_total",
            "Locks that had to be waited for.",
            counts.lock_waits.get(),
        ),
        counter(
            "lock_timeouts_total",
            "Lock waits that ended at their deadline.",
            counts.lock_timeouts.get(),
        ),
        counter(
            "versions_created_total",
            "Versions of rows written.",
            counts.versions.get(),
        ),
        counter(
            "versions_reclaimed_total",
            "Versions freed.",
            reclaimer.versions.get(),
        ),
        counter(
            "keys_reclaimed_total",
            "Keys that held nothing any more, freed.",
            reclaimer.keys.get(),
        ),
        counter(
            "log_bytes_total",
            "Bytes written to the log.",
            counts.log_bytes.get(),
        ),
        counter(
            "log_groups_total",
            "Groups written to the log.",
            counts.groups.get(),
        ),
        counter(
            "log_grouped_commits_total",
            "Commits in those groups.",
            counts.grouped_commits.get(),
        ),
        counter("log_syncs_total", "Syncs of the log.", counts.syncs.get()),
        counter(
            "log_sync_micros_total",
            "Microseconds spent in them.",
            counts.sync_micros.get(),
        ),
        counter(
            "checkpoints_total",
            "Checkpoints written.",
            counts.checkpoints.get(),
        ),
        gauge(
            "keys",
            "Keys in memory, deleted ones not yet freed included.",
            keys as u64,
        ),
        gauge(
            "live_bytes",
            "Bytes of keys and versions in memory, about.",
            shared.live_bytes() as u64,
        ),
        gauge(
            "reclaim_pending",
            "Records that wait for the reclaimer.",
            (reclaimer.backlog() + pending) as u64,
        ),
        gauge(
            "reclaim_held",
            "Records held back by a snapshot.",
            held as u64,
        ),
        gauge(
            "snapshots",
            "Different active snapshots.",
            horizon.active.len() as u64,
        ),
        gauge(
            "snapshot_lag_commits",
            "Commits since the oldest active snapshot.",
            last_ts.saturating_sub(horizon.oldest()),
        ),
    ]
}
