//! `max_execution_time`: cancels statements that take too long.
//!
//! One thread waits for the earliest deadline. It is started with the first statement that has one,
//! and ends when none is left: sessions without a limit pay nothing.
//!
//! Invariant: a statement is never cancelled after its [`ArmedDeadline`] was dropped, because
//! firing and disarming hold the same mutex.

use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::threads::{self, Role};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
struct State {
    /// Armed deadlines, each with a number that makes its key unique.
    pending: BTreeMap<(Instant, u64), Cancel>,
    next: u64,
    running: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

/// Deadlines of all sessions.
#[derive(Default)]
pub struct Timer(Arc<Inner>);

/// A statement's deadline, which is disarmed when this is dropped.
pub struct ArmedDeadline {
    inner: Arc<Inner>,
    key: (Instant, u64),
}

impl Timer {
    /// Fires `cancel` at `deadline`. Returns `None` if no thread can be started.
    pub fn arm(&self, deadline: Instant, cancel: Cancel) -> Option<ArmedDeadline> {
        let mut state = self.0.state.lock();
        let key = (deadline, state.next);
        state.next += 1;
        if !state.running {
            let inner = self.0.clone();
            threads::spawn_restarting(Role::SqlTimer, move || inner.run()).ok()?;
            state.running = true;
        }
        state.pending.insert(key, cancel);
        self.0.changed.notify_one();
        Some(ArmedDeadline {
            inner: self.0.clone(),
            key,
        })
    }
}

impl Inner {
    fn run(&self) {
        let mut state = self.state.lock();
        while let Some((&(deadline, _), _)) = state.pending.first_key_value() {
            if Instant::now() >= deadline {
                if let Some((_, cancel)) = state.pending.pop_first() {
                    cancel.cancel(Reason::Timeout);
                }
            } else {
                self.changed.wait_until(&mut state, deadline);
            }
        }
        state.running = false;
    }
}

impl Drop for ArmedDeadline {
    fn drop(&mut self) {
        self.inner.state.lock().pending.remove(&self.key);
        self.inner.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn deadlines_are_kept_after_a_panic_in_the_thread() {
        let timer = Timer::default();
        let bad = Cancel::new();
        let _wakes = bad.register(Arc::new(|| panic!("planted")));
        let good = Cancel::new();
        let now = Instant::now();
        let _bad = timer.arm(now + Duration::from_millis(5), bad.clone());
        let _good = timer.arm(now + Duration::from_millis(10), good.clone());
        let limit = now + Duration::from_secs(10);
        while good.reason().is_none() {
            assert!(Instant::now() < limit, "the thread was not restarted");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(threads::restarts() > 0);
    }

    #[test]
    fn a_deadline_ends_its_own_statement_only() {
        let timer = Timer::default();
        let (soon, late, gone) = (Cancel::new(), Cancel::new(), Cancel::new());
        let now = Instant::now();
        let short = Duration::from_millis(20);
        let _late = timer.arm(now + Duration::from_secs(60), late.clone());
        let _soon = timer.arm(now + short, soon.clone());
        drop(timer.arm(now + short, gone.clone()));
        while soon.reason().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(soon.reason(), Some(Reason::Timeout));
        std::thread::sleep(short);
        assert_eq!((late.reason(), gone.reason()), (None, None));
    }
}
