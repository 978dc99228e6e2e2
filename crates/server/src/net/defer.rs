//! Deferred requests: those that wait because too many sessions wait or compute.
//!
//! Two queues, each in the order of arrival: requests beyond
//! `max_running_statements`, and requests of connections whose last call
//! computed for long while enough such calls run (see `worker`).
//!
//! Invariants:
//! 1. A table entry in one of the queues has `QUEUED` and `DEFERRED` set and is in
//!    no other queue. Both flags are cleared when it leaves the queue.
//! 2. `Group::deferring` is set before the group sleeps with a request in a
//!    queue; the group is woken when a request may run again.
//! 3. KILL and shutdown take a request out of its queue at once.
//! 4. No starvation: a connection counts as one that computes for long for a
//!    second after such a call, and a resumed request runs before its connection
//!    can be deferred for computing again.

use super::Shared;
use super::conn::{Call, Conn};
use super::event_loop::{EventLoop, flag};
use super::serve::NextAction;
use crate::metrics::{self, Counter};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The deferred requests of one group, as indexes into its table.
#[derive(Default)]
pub(super) struct Deferred {
    waiting_requests: VecDeque<u32>,
    long_requests: VecDeque<u32>,
}

/// Wakes the groups in which requests are deferred.
pub(super) fn wake_deferring(shared: &Shared) {
    for group in &shared.groups {
        if group.deferring.load(Ordering::SeqCst) {
            group.wake();
        }
    }
}

impl EventLoop {
    /// Runs a request, or defers it.
    pub(super) fn run_or_defer(&mut self, conn: &mut Conn, index: u32) -> NextAction {
        let workers = &self.shared.workers;
        let full = workers.is_full();
        let long = conn.long_until > self.now && workers.is_busy();
        let exempt = conn.before_login || conn.reserved || conn.holds_locks();
        if !(full || long) || exempt {
            return NextAction::Call(Call::Input);
        }
        conn.has_pending_requests = true;
        metrics::add(Counter::Deferred, 1);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.flags |= flag::QUEUED | flag::DEFERRED;
        }
        if full {
            self.deferred.waiting_requests.push_back(index);
        } else {
            self.deferred.long_requests.push_back(index);
        }
        self.group.deferring.store(true, Ordering::SeqCst);
        NextAction::PutBack
    }

    /// Whether a deferred request may run.
    pub(super) fn can_resume(&self) -> bool {
        let workers = &self.shared.workers;
        (!self.deferred.waiting_requests.is_empty() && !workers.is_full())
            || (!self.deferred.long_requests.is_empty() && !workers.is_busy())
    }

    /// Queues the deferred requests that may run now: all that were deferred because of too many
    /// waiting sessions, and one of those that are expected to compute for long.
    pub(super) fn resume_deferred(&mut self) {
        if !self.can_resume() {
            return;
        }
        if !self.shared.workers.is_full() {
            for index in std::mem::take(&mut self.deferred.waiting_requests) {
                self.resume(index);
            }
        }
        if !self.shared.workers.is_busy()
            && let Some(index) = self.deferred.long_requests.pop_front()
        {
            let slot = self.slots.get_mut(index as usize);
            if let Some(conn) = slot.and_then(|s| s.conn.as_mut()) {
                conn.long_until = 0;
            }
            self.resume(index);
        }
        let left =
            !self.deferred.waiting_requests.is_empty() || !self.deferred.long_requests.is_empty();
        self.group.deferring.store(left, Ordering::SeqCst);
    }

    /// Queues an entry immediately, even if it is deferred.
    pub(super) fn enqueue_now(&mut self, index: u32) {
        let deferred = |s: &super::event_loop::Slot| s.flags & flag::DEFERRED != 0;
        if self.slots.get(index as usize).is_some_and(deferred) {
            self.deferred.waiting_requests.retain(|i| *i != index);
            self.deferred.long_requests.retain(|i| *i != index);
            self.resume(index);
        } else {
            self.enqueue(index);
        }
    }

    fn resume(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.flags &= !(flag::QUEUED | flag::DEFERRED);
        }
        self.enqueue(index);
    }
}
