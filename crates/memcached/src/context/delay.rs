//! Delayed `flush_all`: at most one is scheduled; it deletes the items that exist when it runs.
//!
//! A later `flush_all` replaces the scheduled one, as in memcached. A restart of the server discards
//! the scheduled one. A thread, created when first needed, waits for the time. It ends with the
//! listener, which it does not keep alive while it waits.

use super::Failure;
use crate::context::ListenerState;
use crate::context::identity::Identity;
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Longest wait before the clock is read again.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The client that requested the `flush_all`.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Its address, for the log.
    pub(crate) from: String,
    /// Its account, whose privileges are checked again at execution.
    pub(crate) identity: Identity,
}

/// State shared with the thread.
#[derive(Default)]
struct TimerState {
    /// The scheduled `flush_all`: its time in seconds since 1970, and the client.
    scheduled: Option<(i64, Caller)>,
    has_thread: bool,
    /// Whether the listener has ended.
    ended: bool,
}

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState>,
    changed: Condvar,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Delayed {
    timer: Arc<Timer>,
}

impl Delayed {
    /// Cancels the delayed `flush_all`.
    pub(crate) fn cancel(&self) {
        self.timer.state.lock().scheduled = None;
    }

    /// Schedules `flush` for the time `at`, in seconds since 1970. `from` and `identity` are the
    /// fields of its [`Caller`].
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
        let mut state = self.timer.state.lock();
        if !state.has_thread {
            let (timer, weak) = (self.timer.clone(), Arc::downgrade(shared));
            let work = move || wait(&timer, &weak, flush);
            threads::spawn_restarting(Role::MemcachedFlush, work).map_err(|e| {
                Failure::Refused(format!(
                    "cannot start the thread of the delayed flush_all: {e}"
                ))
            })?;
            state.has_thread = true;
        }
        let from = from.to_owned();
        state.scheduled = Some((at, Caller { from, identity }));
        self.timer.changed.notify_all();
        Ok(())
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.timer.state.lock().ended = true;
        self.timer.changed.notify_all();
    }
}

/// Next action of the thread.
enum TimerAction {
    /// End: the listener has ended.
    End,
    /// Wait for at most this long.
    WaitFor(Duration),
    /// Execute the `flush_all` of this client.
    Flush(Arc<ListenerState>, Caller),
}

/// Executes scheduled `flush_all`s until the listener ends; runs in the thread.
fn wait(timer: &Timer, shared: &Weak<ListenerState>, flush: fn(Arc<ListenerState>, Caller)) {
    loop {
        let (at, caller) = {
            let mut state = timer.state.lock();
            loop {
                if state.ended {
                    return;
                }
                if let Some(scheduled) = state.scheduled.clone() {
                    break scheduled;
                }
                timer.changed.wait(&mut state);
            }
        };
        // `next_action` may drop the last reference to the listener. `Delayed` is then dropped, too,
        // and takes the timer's lock, so this thread must not hold the lock here.
        match next_action(shared, at, caller) {
            TimerAction::End => return,
            TimerAction::WaitFor(time) => {
                let mut state = timer.state.lock();
                let is_same = state
                    .scheduled
                    .as_ref()
                    .is_some_and(|(then, _)| *then == at);
                if !state.ended && is_same {
                    timer.changed.wait_for(&mut state, time);
                }
            }
            TimerAction::Flush(listener, caller) => {
                // Another one may have been scheduled meanwhile.
                let is_same = |(then, _): &mut (i64, Caller)| *then == at;
                let taken = timer.state.lock().scheduled.take_if(is_same);
                if taken.is_some() {
                    flush(listener, caller);
                }
            }
        }
    }
}

fn next_action(shared: &Weak<ListenerState>, at: i64, caller: Caller) -> TimerAction {
    let Some(listener) = shared.upgrade() else {
        return TimerAction::End;
    };
    let now = listener.db.clock().unix_micros();
    let left = at.saturating_mul(1_000_000).saturating_sub(now);
    if left > 0 {
        return TimerAction::WaitFor(Duration::from_micros(left.cast_unsigned()).min(MAX_WAIT));
    }
    TimerAction::Flush(listener, caller)
}
