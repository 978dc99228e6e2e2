//! Several generator processes: forked children that serve a share of a run's connections.
//!
//! A child has a copy of everything that the experiment prepared, so that any workload can be
//! divided; counters that all connections draw from are in shared memory
//! ([`crate::sys::SharedCounter`]). The n-th connection belongs to process n modulo the number of
//! processes. Children open their connections, report that they are ready, and wait for the first
//! phase, which begins for all at the same time; at the end each sends its counters through a pipe.

use super::{Plan, Share, Stage, Tally, Workload, run_threads_of, share_work};
use crate::error::{Error, Result};
use crate::sys::Forked;
use std::time::{Duration, Instant};

/// Time within which a child must have opened its connections.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts all generator processes but this one, which is number 0.
///
/// # Errors
/// A process cannot be started.
pub(super) fn start(
    plan: &Plan<'_>,
    workload: &dyn Workload,
    stage: &mut Stage,
) -> Result<Vec<Forked>> {
    let processes = plan.pace.generators.clamp(1, plan.connections.max(1));
    let mut children: Vec<Forked> = Vec::new();
    for number in 1..processes {
        let child = {
            let stage = &*stage;
            let share = Share {
                first: number,
                step: processes,
            };
            let work = move || work(plan, workload, stage, share).to_bytes();
            Forked::start(work).map_err(|e| Error::from(e).during("a generator process"))?
        };
        children.push(child);
    }
    stage.set_generators(children.iter().map(Forked::id).collect());
    Ok(children)
}

/// A child's work.
fn work(plan: &Plan<'_>, workload: &dyn Workload, stage: &Stage, share: Share) -> Tally {
    let mut all = Tally::new();
    let driven = share_work(plan, workload, share).and_then(|works| {
        stage.join(works.len());
        stage.ready();
        stage.wait_until_open();
        run_threads_of(stage, works, |_| ())
    });
    match driven {
        Ok((tallies, ())) => tallies.into_iter().for_each(|tally| all.add(tally)),
        Err(error) => {
            stage.abort();
            stage.ready();
            all.failure = Some(error);
        }
    }
    all
}

/// Waits until all children have opened their connections, or one of them has ended.
///
/// # Errors
/// One of them takes too long.
pub(super) fn wait_ready(stage: &Stage, children: &mut [Forked]) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while stage.count_ready() < children.len() as u64 {
        if children.iter_mut().any(Forked::has_ended) {
            stage.abort();
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Error::failed("a generator process was not ready in time"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The counters of all children.
pub(super) fn finish(children: Vec<Forked>) -> Vec<Tally> {
    let of = |child: Forked| {
        let sent = child.finish().map_err(Error::from);
        sent.and_then(|bytes| Tally::from_bytes(&bytes))
    };
    let failed = |error| Tally {
        failure: Some(error),
        ..Tally::new()
    };
    let tallies = children.into_iter().map(of);
    tallies.map(|t| t.unwrap_or_else(failed)).collect()
}
