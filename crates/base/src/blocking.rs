//! Announcing that the current thread may stand still.
//!
//! A worker of the server serves many connections. Before it does something
//! that may truly wait (a row lock, a metadata lock, TiKV, a slow socket, a
//! sleep) it says so through [`blocking`], and the hook that the server
//! installed on this thread hands the worker's other connections to a spare
//! worker first, as the thread pools of MariaDB and Percona do. On threads
//! without a hook (tests, background work) `blocking` just calls its closure.
//!
//! Invariants:
//! 1. The hook runs at most once per outermost `blocking` call; nested calls
//!    are free.
//! 2. Nothing that other sessions need is held when `blocking` is entered: no
//!    latch, no epoch pin.

use std::cell::{Cell, RefCell};

/// What the owner of a thread wants to know about its waits.
pub trait Hook {
    /// The thread is about to wait.
    fn enter(&self);
    /// The thread goes on.
    fn leave(&self);
}

thread_local! {
    static HOOK: RefCell<Option<Box<dyn Hook>>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Installs the hook of the current thread; `None` takes it back.
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

/// Runs `wait`, which may stand still, after telling the owner of the thread.
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
