//! `flush_all` with a delay: one moment for the whole protocol, at which what is
//! there then goes.
//!
//! A later `flush_all` takes the place of one that is still to come, as in
//! memcached. A restart forgets it. One thread waits, made when it is first
//! needed; it holds nothing of the listener while it waits, and ends with it.

use super::Failure;
use crate::context::ListenerState;
use crate::context::identity::Identity;
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Longest wait before the clock is looked at again.
const NAP: Duration = Duration::from_secs(60);

/// The client that asked: its address for the log, and its account, whose privileges are
/// checked once more when the time has come.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) from: String,
    pub(crate) identity: Identity,
}

/// The delayed `flush_all`.
#[derive(Default)]
struct Due {
    /// Seconds since 1970, and the client.
    at: Option<(i64, Caller)>,
    has_thread: bool,
    ended: bool,
}

#[derive(Default)]
struct Timer {
    due: Mutex<Due>,
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

    /// Everything goes at `at`, in seconds since 1970, by `flush` with the same client.
    ///
    /// # Errors
    /// No thread can be made.
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
enum Todo {
    Nothing,
    /// Wait.
    Later(Duration),
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
        // The last hold on the listener may end here, and with it the timer: its
        // lock must not be held.
        match look(shared, at, caller) {
            Todo::Nothing => return,
            Todo::Later(nap) => {
                let mut due = timer.due.lock();
                if !due.ended && due.at.as_ref().is_some_and(|(then, _)| *then == at) {
                    timer.changed.wait_for(&mut due, nap);
                }
            }
            Todo::Now(protocol, caller) => {
                let mine = timer.due.lock().at.take_if(|(then, _)| *then == at);
                if mine.is_some() {
                    flush(protocol, caller);
                }
            }
        }
    }
}

fn look(shared: &Weak<ListenerState>, at: i64, caller: Caller) -> Todo {
    let Some(protocol) = shared.upgrade() else {
        return Todo::Nothing;
    };
    let now = protocol.db.clock().unix_micros();
    let left = at.saturating_mul(1_000_000).saturating_sub(now);
    if left > 0 {
        return Todo::Later(Duration::from_micros(left.cast_unsigned()).min(NAP));
    }
    Todo::Now(protocol, caller)
}
