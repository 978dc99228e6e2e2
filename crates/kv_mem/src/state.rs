//! The shared state of an engine.
//!
//! Each component has handles only to the components below it; this struct combines them.

use crate::deadlock::DeadlockDetector;
use crate::heartbeat::Heartbeats;
use crate::log::Log;
use crate::metrics::TxnMetrics;
use crate::pipeline::CommitPipeline;
use crate::reclaim::Reclaimer;
use crate::snapshots::{Slot, Snapshots};
use crate::store::RecordStore;
use porpoise_base::clock::Clock;
use porpoise_base::sync::atomic::{AtomicBool, Ordering};
use porpoise_kv::{Error, Limits, Result};
use std::sync::Arc;
use std::time::Duration;

/// The parts of an engine.
pub(crate) struct EngineState {
    pub(crate) store: Arc<RecordStore>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) pipeline: Arc<CommitPipeline>,
    pub(crate) deadlocks: DeadlockDetector,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) heartbeats: Arc<Heartbeats>,
    /// `None` if nothing is persisted.
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) metrics: TxnMetrics,
    pub(crate) limits: Limits,
    pub(crate) lock_wait: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) closed: AtomicBool,
}

impl EngineState {
    /// Fails after the engine was shut down.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("the engine is shut down".to_owned()));
        }
        Ok(())
    }

    /// Fails when writes are refused: after a failed write or sync, or because the disk had no
    /// room for a log at the start.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match &self.log {
            Some(log) => log.check_writable(),
            None => Ok(()),
        }
    }

    /// Takes a snapshot at the durability watermark. Returns its timestamp and its slot.
    #[inline]
    pub(crate) fn take_snapshot(&self) -> (u64, Slot) {
        self.snapshots.take(&self.pipeline.watermark)
    }

    /// Waits until a commit is durable.
    pub(crate) fn wait_durable(&self, position: u64) -> Result<()> {
        let watermark = &self.pipeline.watermark;
        let done = || watermark.outcome(watermark.position() >= position);
        match &self.log {
            Some(log) => log.wait_until(done),
            None => watermark.wait_until(done),
        }
    }
}
