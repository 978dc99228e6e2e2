//! Times of the phases of statements, for metrics: parsing, planning, waits for locks, and the rest.
//!
//! One statement in [`INTERVAL`] is measured, at random distances; all others read no clock for it.
//! A session counts down to its next measured statement by itself, so that the sampling of hot keys
//! does not change how often statements are measured.
//!
//! ```text
//! receipt                                                          reply ready     reply sent
//!    |-- parse --|-- plan --|------------- execute -------------------|-- durability wait --|
//!                                   |- lock wait -| (not part of execute)
//! ```
//!
//! The wait for durability is measured where replies are deferred, by the server, for all protocols.
//! The time of statements of stored programs belongs to the statement that called them; their
//! planning counts as planning.
//!
//! Rejected: measuring each statement (three more clock reads cost 2 % of a SELECT by key); one
//! countdown for all samplers of a thread (the intervals of the samplers would mix).

use super::latency::ClassLatency;
use porpoise_base::histogram::SummedHistogram;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Mean distance of measured statements.
pub(crate) const INTERVAL: u32 = 64;

/// A phase of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Phase {
    /// From text to a syntax tree, or to the key of a cached plan.
    Parse,
    /// From a syntax tree to a plan.
    Plan,
    /// Waits for row locks and metadata locks.
    LockWait,
    /// All other time until the reply is ready.
    Execute,
}

/// The values of the label `phase`, in the order of [`Phase`].
const NAMES: [&str; 4] = ["parse", "plan", "lock_wait", "execute"];

/// Times of one measured statement so far, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct PhaseTimes {
    parse: Cell<u64>,
    plan: Cell<u64>,
}

impl PhaseTimes {
    /// The nanoseconds of parsing and of planning.
    pub(crate) fn parse_and_plan(&self) -> (u64, u64) {
        (self.parse.get(), self.plan.get())
    }

    /// Adds the time from `begun` to `ended` to a phase.
    pub(crate) fn add(&self, phase: Phase, begun: Instant, ended: Instant) {
        let nanos = nanos(ended.saturating_duration_since(begun));
        let sum = match phase {
            Phase::Parse => &self.parse,
            Phase::Plan => &self.plan,
            Phase::LockWait | Phase::Execute => return,
        };
        sum.set(sum.get().saturating_add(nanos));
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The times of the phases of all measured statements.
#[derive(Debug, Default)]
pub(crate) struct Phases([SummedHistogram; NAMES.len()]);

impl Phases {
    fn record(&self, phase: Phase, nanos: u64) {
        if let Some(histogram) = self.0.get(phase as usize) {
            histogram.record_nanos(nanos);
        }
    }

    /// Records a statement that took `nanos` nanoseconds, of which it waited `lock_nanos` for locks.
    /// A phase that the statement did not have is not recorded.
    pub(crate) fn record_statement(&self, times: &PhaseTimes, nanos: u64, lock_nanos: u64) {
        let (parse, plan) = (times.parse.get(), times.plan.get());
        let parts = [
            (Phase::Parse, parse),
            (Phase::Plan, plan),
            (Phase::LockWait, lock_nanos),
        ];
        for (phase, part) in parts {
            if part > 0 {
                self.record(phase, part);
            }
        }
        let before = parse.saturating_add(plan).saturating_add(lock_nanos);
        self.record(Phase::Execute, nanos.saturating_sub(before));
    }

    /// The histograms by phase.
    pub(crate) fn latencies(&self) -> Vec<ClassLatency> {
        let named = NAMES.iter().zip(&self.0);
        named
            .map(|(name, phase)| {
                let (counts, nanos) = phase.read();
                let mut latency = ClassLatency::of_phase(name);
                latency.add_counts(&counts, nanos);
                latency
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_statement_add_up_to_its_time() {
        let (phases, times, begun) = (Phases::default(), PhaseTimes::default(), Instant::now());
        let after = |micros| begun + Duration::from_micros(micros);
        times.add(Phase::Parse, begun, after(3));
        times.add(Phase::Plan, after(3), after(23));
        times.add(Phase::Plan, after(50), after(60));
        phases.record_statement(&times, 1_000_000, 500_000);
        phases.record_statement(&PhaseTimes::default(), 2_000, 0);
        let totals: Vec<_> = phases
            .latencies()
            .iter()
            .map(|phase| (phase.class, phase.total, (phase.seconds * 1e6).round()))
            .collect();
        let expected = [
            ("parse", 1, 3.0),
            ("plan", 1, 30.0),
            ("lock_wait", 1, 500.0),
            ("execute", 2, 469.0),
        ];
        assert_eq!(totals, expected);
    }
}
