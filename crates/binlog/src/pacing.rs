//! Flow control as the writer, settings and metrics use it. The rules are in [`crate::flow_control`].

use crate::acknowledge::{Acknowledgements, GroupPolicy};
use crate::flow_control::{FlowSettings, PERIOD};
use crate::log::{BinaryLog, State};
use porpoise_kv::Stat;
use porpoise_replication::election::following::Place;
use porpoise_rows::commit_pacing::CommitPacing;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes of the log after a place.
fn bytes_after(state: &State, place: Place) -> u64 {
    let last = state.files.last().map_or(0, |file| file.number);
    let files = state.files.iter().filter(|file| file.number >= place.0);
    let bytes = files.map(|file| {
        let end = if file.number == last {
            state.end
        } else {
            file.bytes
        };
        let begin = if file.number == place.0 { place.1 } else { 0 };
        end.saturating_sub(begin)
    });
    bytes.sum()
}

/// The connected replicas whose acknowledgements commits are to wait for once they have caught up: members of the group that
/// are not in its view, and, after a timeout, all.
fn catching_up(acks: &Acknowledgements) -> Vec<(u32, Place)> {
    let required = match &acks.group {
        Some(GroupPolicy::All(required)) => Some(required),
        None if acks.policy.is_on && acks.is_degraded => None,
        _ => return Vec::new(),
    };
    let connected = acks.replicas.iter().filter(|(id, replica)| {
        let waits = required.is_none_or(|ids| !ids.contains(id) && replica.incarnation > 0);
        replica.connection.is_some() && waits
    });
    connected
        .map(|(id, replica)| (*id, replica.place))
        .collect()
}

impl BinaryLog {
    /// Lets the log slow down commits while a replica catches up. Only the first call has an effect.
    pub fn provide_pacing(&self, pacing: Arc<CommitPacing>, settings: FlowSettings) {
        let _first = self.pacing.set((pacing, settings));
    }

    /// A step of flow control, if the last one was long enough ago. The writer calls it between its passes.
    pub(crate) fn control_flow(&self, last: &mut Instant) {
        let now = Instant::now();
        if now.saturating_duration_since(*last) < PERIOD {
            return;
        }
        *last = now;
        let Some((pacing, settings)) = self.pacing.get() else {
            return;
        };
        if settings.max_pause.is_zero() {
            return;
        }
        let interval = {
            let mut state = self.state.lock();
            let lags: Vec<(u32, u64)> = catching_up(&state.acks)
                .into_iter()
                .map(|(id, place)| (id, bytes_after(&state, place)))
                .collect();
            let written = (
                self.bytes.load(Ordering::Relaxed),
                self.transactions.load(Ordering::Relaxed),
            );
            state.flow.step(settings, now, written, &lags)
        };
        let interval = interval.unwrap_or_default();
        if interval.is_zero() != pacing.interval().is_zero() {
            if interval.is_zero() {
                tracing::info!("flow control ends: commits no longer pause for a replica");
            } else {
                tracing::info!("flow control begins: commits pause so that a replica catches up");
            }
        }
        pacing.set(interval, settings.max_pause);
    }

    /// Transactions that an acknowledging replica lacks, about; `None` if it is not connected.
    pub fn transactions_behind(&self, replica: u32) -> Option<u64> {
        let state = self.state.lock();
        let found = state.acks.replicas.get(&replica)?;
        found.connection?;
        let bytes = bytes_after(&state, found.place);
        let transactions = self.transactions.load(Ordering::Relaxed).max(1);
        let average = self.bytes.load(Ordering::Relaxed) / transactions;
        Some(bytes.div_ceil(average.max(1)))
    }

    /// Variables of SHOW STATUS about flow control.
    pub fn flow_variables(&self) -> Vec<(String, String)> {
        let stats = self.flow_stats().into_iter();
        let shown = stats.map(|stat| {
            let name = stat.name.trim_end_matches("_total");
            let name = name.replacen('r', "R", 1);
            (name, stat.value.to_string())
        });
        shown.collect()
    }

    /// Metrics of flow control.
    pub(crate) fn flow_stats(&self) -> Vec<Stat> {
        let Some((pacing, _)) = self.pacing.get() else {
            return Vec::new();
        };
        let interval = pacing.interval().as_secs_f64();
        let counts = pacing.counts();
        let stat = |name, help, counter, value| Stat {
            name,
            help,
            counter,
            value,
        };
        vec![
            stat(
                "replication_flow_control_commits_per_second",
                "Rate to which flow control limits commits while a replica catches up; 0: no limit.",
                false,
                if interval > 0.0 {
                    (1.0 / interval).ceil() as u64
                } else {
                    0
                },
            ),
            stat(
                "replication_flow_control_paused_commits_total",
                "Commits that flow control has paused.",
                true,
                counts.commits,
            ),
            stat(
                "replication_flow_control_pause_microseconds_total",
                "Total time for which flow control has paused commits.",
                true,
                counts.micros,
            ),
        ]
    }
}
