//! Brief barriers: sessions are blocked from a table for a moment only.

use super::throttle::{check_cancel, pause};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::ddl::cluster::DdlBarrier;
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::metadata_lock::Exclusion;
use crate::progress::Stage;
use porpoise_kv as kv;
use std::time::{Duration, Instant};

/// Longest wait for the sessions that use a table; new ones are blocked meanwhile.
const WAIT: Duration = Duration::from_millis(40);
/// As [`WAIT`], on a cluster: its servers learn of the barrier by polling the catalog, which they do more often while an
/// online change is announced.
const WAIT_ON_CLUSTER: Duration = Duration::from_millis(500);
/// Pause between two attempts, in multiples of the wait.
const PAUSE_FACTOR: u32 = 4;

impl Db {
    /// Raises a barrier over the tables that `choose` returns. If the sessions that use them do not end their
    /// transactions soon, lowers it to let new ones in, and tries again, until the deadline.
    pub(in crate::ddl) fn brief_barrier_over(
        &self,
        cx: &DdlCx<'_>,
        choose: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<DdlBarrier> {
        loop {
            if let Some(barrier) = self.try_barrier_over(cx, choose)? {
                return Ok(barrier);
            }
            self.pause_before_barrier(cx)?;
        }
    }

    /// One attempt of [`Db::brief_barrier_over`]; `None` if sessions still use the tables.
    pub(in crate::ddl) fn try_barrier_over(
        &self,
        cx: &DdlCx<'_>,
        choose: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<Option<DdlBarrier>> {
        let attempt = DdlCx {
            deadline: cx.deadline.min(Instant::now() + self.brief_wait()),
            ..*cx
        };
        match self.raise_barrier(&attempt, Exclusion::Everyone, choose) {
            Ok((barrier, _)) => Ok(Some(barrier)),
            Err(Error::Kv(kv::Error::LockTimeout)) if Instant::now() < cx.deadline => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets sessions use the tables for a while between two attempts.
    pub(in crate::ddl) fn pause_before_barrier(&self, cx: &DdlCx<'_>) -> Result<()> {
        check_cancel(cx)?;
        cx.metadata_locks
            .progress()
            .begin(Stage::WaitingForTable, "");
        let left = cx.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Kv(kv::Error::LockTimeout));
        }
        pause((self.brief_wait() * PAUSE_FACTOR).min(left));
        Ok(())
    }

    fn brief_wait(&self) -> Duration {
        if self.is_clustered() {
            WAIT_ON_CLUSTER
        } else {
            WAIT
        }
    }
}
