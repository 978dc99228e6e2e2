//! Announces blocking waits of the current thread, so that its other work can be handed over.
//!
//! A worker of the server serves many connections. Before it does something
//! that may wait (a row lock, a metadata lock, TiKV, a slow socket, a sleep)
//! it wraps the wait in [`blocking`], and the hook that the server
//! installed on this thread hands the worker's other connections to a spare
//! worker first, as the thread pools of MariaDB and Percona do. On threads
//! without a hook (tests, background work) `blocking` just calls its closure.
//!
//! Invariants:
//! 1. The hook's callbacks run once per outermost `blocking` call; nested calls do not
//!    run them.
//! 2. A caller of `blocking` holds nothing that stops other threads: no latch and no epoch
//!    pin. Row locks and metadata locks may be held.

use std::cell::{Cell, RefCell};
use std::time::Instant;

/// Callbacks of a thread's owner around the thread's waits.
pub trait Hook {
    /// The thread is about to wait.
    fn enter(&self);
    /// The wait is over.
    fn leave(&self);
}

thread_local! {
    static HOOK: RefCell<Option<Box<dyn Hook>>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LOCK_WAIT: Cell<u64> = const { Cell::new(0) };
}

/// Installs the hook of the current thread; `None` removes it.
pub fn install(hook: Option<Box<dyn Hook>>) {
    HOOK.with(|h| *h.borrow_mut() = hook);
}

struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let depth = DEPTH.with(|d| {
            d.set(d.get() - 1);
            d.get()
        });
        if depth == 0 {
            HOOK.with(|h| {
                if let Some(hook) = h.borrow().as_ref() {
                    hook.leave();
                }
            });
        }
    }
}

/// Runs `wait`, which may block, between the hook's callbacks.
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    let depth = DEPTH.with(|d| {
        d.set(d.get() + 1);
        d.get()
    });
    let _leave = Leave;
    if depth == 1 {
        HOOK.with(|h| {
            if let Some(hook) = h.borrow().as_ref() {
                hook.enter();
            }
        });
    }
    wait()
}

/// As [`blocking`], for a wait for a lock, whose time is added to [`lock_wait`].
pub fn wait_for_lock<T>(wait: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = blocking(wait);
    let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    LOCK_WAIT.with(|total| total.set(total.get().saturating_add(nanos)));
    result
}

/// The time for which this thread has waited for locks, in nanoseconds.
#[inline]
pub fn lock_wait() -> u64 {
    LOCK_WAIT.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    struct Count(Rc<Cell<(u32, u32)>>);

    impl Hook for Count {
        fn enter(&self) {
            let (a, b) = self.0.get();
            self.0.set((a + 1, b));
        }
        fn leave(&self) {
            let (a, b) = self.0.get();
            self.0.set((a, b + 1));
        }
    }

    #[test]
    fn the_hook_runs_once_around_nested_waits() {
        let seen = Rc::new(Cell::new((0, 0)));
        install(Some(Box::new(Count(seen.clone()))));
        let v = blocking(|| blocking(|| 7));
        install(None);
        assert_eq!((v, seen.get()), (7, (1, 1)));
        blocking(|| ());
        assert_eq!(seen.get(), (1, 1));
    }
}
