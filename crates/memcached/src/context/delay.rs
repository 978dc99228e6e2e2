//! Delayed `flush_all`: at most one is scheduled; it deletes the items that exist when it runs.
//!
//! A later `flush_all` replaces the scheduled one, as in memcached. A restart discards it. One
//! thread waits, created when first needed; it does not keep the listener alive while it waits, and
//! ends with it.

use super::Failure;
use crate::context::ListenerState;
use crate::context::identity::Identity;
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Longest wait before the clock is read again.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The client that requested it: its address for the log, and its account, whose privileges are
/// checked again at execution.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) from: String,
    pub(crate) identity: Identity,
}

/// The delayed `flush_all`.
#[derive(Default)]
struct DelayedFlush {
    /// Seconds since 1970, and the client.
    at: Option<(i64, Caller)>,
    has_thread: bool,
    ended: bool,
}

#[derive(Default)]
struct Timer {
    due: Mutex<DelayedFlush>,
    changed: Condvar,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Delayed {
    timer: Arc<Timer>,
}

impl Delayed {
    /// Cancels the delayed `flush_all`.
    pub(crate) fn forget(&self) {
        self.timer.due.lock().at = None;
    }

    /// Schedules `flush` with this client at `at`, in seconds since 1970.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn set(
        &self,
        shared: &Arc<ListenerState>,
        at: i64,
        from: &str,
        identity: Identity,
        flush: fn(Arc<ListenerState>, Caller),
    ) -> Result<(), Failure> {
        let mut due = self.timer.due.lock();
        if !due.has_thread {
            let (timer, weak) = (self.timer.clone(), Arc::downgrade(shared));
            let work = move || wait(&timer, &weak, flush);
            let made = threads::spawn_restarting(Role::MemcachedFlush, work);
            made.map_err(|e| {
                Failure::Refused(format!(
                    "cannot start the thread of the delayed flush_all: {e}"
                ))
            })?;
            due.has_thread = true;
        }
        let from = from.to_owned();
        due.at = Some((at, Caller { from, identity }));
        self.timer.changed.notify_all();
        Ok(())
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.timer.due.lock().ended = true;
        self.timer.changed.notify_all();
    }
}

/// Next action of the thread.
enum TimerAction {
    Nothing,
    /// Wait.
    WaitFor(Duration),
    Now(Arc<ListenerState>, Caller),
}

fn wait(timer: &Timer, shared: &Weak<ListenerState>, flush: fn(Arc<ListenerState>, Caller)) {
    loop {
        let (at, caller) = {
            let mut due = timer.due.lock();
            loop {
                if due.ended {
                    return;
                }
                if let Some(due) = due.at.clone() {
                    break due;
                }
                timer.changed.wait(&mut due);
            }
        };
        // This may drop the last reference to the listener, and with it the timer, whose lock must
        // not be locked then.
        match next_action(shared, at, caller) {
            TimerAction::Nothing => return,
            TimerAction::WaitFor(nap) => {
                let mut due = timer.due.lock();
                if !due.ended && due.at.as_ref().is_some_and(|(then, _)| *then == at) {
                    timer.changed.wait_for(&mut due, nap);
                }
            }
            TimerAction::Now(protocol, caller) => {
                let mine = timer.due.lock().at.take_if(|(then, _)| *then == at);
                if mine.is_some() {
                    flush(protocol, caller);
                }
            }
        }
    }
}

fn next_action(shared: &Weak<ListenerState>, at: i64, caller: Caller) -> TimerAction {
    let Some(protocol) = shared.upgrade() else {
        return TimerAction::Nothing;
    };
    let now = protocol.db.clock().unix_micros();
    let left = at.saturating_mul(1_000_000).saturating_sub(now);
    if left > 0 {
        return TimerAction::WaitFor(Duration::from_micros(left.cast_unsigned()).min(MAX_WAIT));
    }
    TimerAction::Now(protocol, caller)
}
