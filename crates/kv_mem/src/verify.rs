//! Consistency checks of the engine's structures.

use crate::engine::KvMem;
use crate::record::{Pinned, RECORD_BYTES};
use crate::space::Space;
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering;
use std::ops::{Bound, ControlFlow};

/// Sums over all records.
#[derive(Default)]
struct RecordTotals {
    bytes: usize,
    versions: u64,
}

impl KvMem {
    /// Checks the invariants of all structures: the ordered and hash index of each space; the
    /// versions, locks and flags of each record; the recorded state of spaces; and the counts. Used
    /// by tests and `porpoise check`, on stores at rest: concurrent commits may show intermediate
    /// states.
    ///
    /// # Errors
    /// A description of the first violated invariant.
    pub fn verify(&self) -> Result<(), String> {
        let (store, pipeline) = (&self.state.store, &self.state.pipeline);
        let guard = crossbeam_epoch::pin();
        let mut sums = RecordTotals::default();
        let installed = pipeline.installed();
        for space in store.spaces.iter() {
            let at = |e: String| format!("space {}: {e}", space.id.0);
            let last = space.last_commit.load(Ordering::SeqCst);
            if last > installed {
                let e = format!(
                    "its last commit {last} is newer than the last installed one, {installed}"
                );
                return Err(at(e));
            }
            space.index.check().map_err(at)?;
            let before = sums.bytes;
            records(space, last, &guard, &mut sums).map_err(at)?;
            let (bytes, counted) = (sums.bytes - before, space.live_bytes());
            if bytes != counted {
                return Err(at(format!(
                    "{bytes} bytes are allocated, {counted} were counted"
                )));
            }
        }
        let counted = store.live_bytes();
        let bytes = sums.bytes + pipeline.lock().protected.bytes();
        if bytes != counted {
            return Err(format!(
                "{bytes} bytes are allocated, {counted} were counted"
            ));
        }
        let (made, freed) = (&store.versions_created, &store.versions_reclaimed);
        let (made, freed, live) = (made.get(), freed.get(), sums.versions);
        if made.checked_sub(freed) != Some(live) {
            return Err(format!(
                "{live} versions exist, but {made} were created and {freed} freed"
            ));
        }
        Ok(())
    }
}

fn records(space: &Space, last: u64, guard: &Guard, sums: &mut RecordTotals) -> Result<(), String> {
    let mut outcome = Ok(());
    let all = Bound::Unbounded;
    space
        .index
        .walk(all, all, false, usize::MAX, guard, |record| {
            match check(record, last, guard, sums) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    outcome = Err(format!("key {:?}: {e}", record.key()));
                    ControlFlow::Break(())
                }
            }
        });
    outcome
}

fn check(
    record: Pinned<'_>,
    last: u64,
    guard: &Guard,
    sums: &mut RecordTotals,
) -> Result<(), String> {
    let latch = record.latch();
    latch.lock.check()?;
    let (count, bytes) = record.check(guard)?;
    if latch.dead {
        return Err("the record is marked dead, but is in the index".to_owned());
    }
    let newest = record.newest(guard);
    let ts = newest.map_or(0, |version| version.ts());
    if ts > last {
        return Err(format!("version {ts} is newer than its space's {last}"));
    }
    let is_over = count > 1 || newest.is_some_and(|version| version.value().is_none());
    if is_over && !latch.queued && !latch.held_back {
        return Err(format!(
            "{count} versions, and the record is not queued for reclamation"
        ));
    }
    if newest.is_none() && latch.lock.is_free() {
        return Err("the record has neither a version nor a lock".to_owned());
    }
    sums.bytes += RECORD_BYTES + record.key().len() + bytes;
    sums.versions += count as u64;
    Ok(())
}
