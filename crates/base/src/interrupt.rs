//! Interrupt checkpoints: running code observes KILL, deadlines and shutdown.
//!
//! A session enters a [`Scope`] with its [`Cancel`] for one statement. Code at
//! any call depth polls the state through a thread-local variable, so that no
//! function signature carries it. [`Cancel::register`] ends a statement's waits;
//! this module ends its computation.
//!
//! ```text
//! session      Scope::enter(cancel) ── parse ── bind ── plan ── run ── outcome() ── commit
//!                                        │       │       │       │        ▲
//! loops                               Pacer::tick: every STRIDE units one load of the state
//!                                        │ pending                        │
//!                                        └─ Err(Interrupted), or should_abandon() = true
//! ```
//!
//! Invariants:
//! 1. A loop whose length depends on input passes a checkpoint at least every
//!    millisecond of CPU: [`check`] once per iteration that costs
//!    microseconds, a [`Pacer`] in loops of nanoseconds.
//! 2. A loop that cannot return an error ends when [`should_abandon`] is true, with
//!    any value. That value is never used: the scope records that a loop was
//!    abandoned, and [`outcome`] fails before the statement's result is final.
//! 3. A reason to stop is not cleared while the statement's scope is open
//!    ([`Cancel::clear_query`] runs between statements), so that a checkpoint
//!    after an abandoned loop sees the same reason.
//! 4. Without a scope (other protocols, background threads, recovery) every
//!    checkpoint passes.
//! 5. No loop is abandoned inside a sort of the standard library ([`hold`]): the
//!    sort may panic when its comparisons are inconsistent.
//! 6. Code that must complete once it has begun (applying a commit, rolling
//!    back, publishing a definition) has no checkpoint.
//!
//! Rejected: an argument in every function that loops (comparison, LIKE and
//! JSON are called from places that have no statement); a signal to the
//! thread (no safe place to unwind to).

use crate::cancel::{Cancel, Reason};
use std::cell::{Cell, RefCell};

/// Units of work between two loads of the state by a [`Pacer`]: a unit of
/// 100 ns makes that 50 microseconds.
pub const STRIDE: u32 = 512;

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    static ABANDONED: Cell<bool> = const { Cell::new(false) };
    static WORK: Cell<u32> = const { Cell::new(0) };
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Error of a statement that KILL, a deadline, a hang-up or shutdown has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub Reason);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Query execution was interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// A guard for the duration of one statement on this thread. Dropping it
/// restores the enclosing scope, if there is one.
#[must_use = "checkpoints pass once it is dropped"]
#[derive(Debug)]
pub struct Scope {
    /// State of the enclosing scope.
    enclosing: Option<Cancel>,
    abandoned: bool,
    /// Makes the guard `!Send`: it restores its own thread's state.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Scope {
    /// Lets the checkpoints of this thread observe `cancel`.
    pub fn enter(cancel: &Cancel) -> Scope {
        Scope {
            enclosing: CURRENT.with(|c| c.replace(Some(cancel.clone()))),
            abandoned: ABANDONED.replace(false),
            _thread: std::marker::PhantomData,
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let around = self.enclosing.take();
        let _ = CURRENT.try_with(|c| c.replace(around));
        ABANDONED.set(self.abandoned);
    }
}

/// The reason to stop, if there is one.
pub fn reason() -> Option<Reason> {
    CURRENT.with(|c| c.borrow().as_ref().and_then(Cancel::reason))
}

/// An interrupt checkpoint.
///
/// # Errors
/// [`Interrupted`] when there is a reason to stop.
pub fn check() -> Result<(), Interrupted> {
    match reason() {
        None => Ok(()),
        Some(reason) => Err(Interrupted(reason)),
    }
}

/// A checkpoint for code that returns no error. When true, the caller returns
/// at once with any value.
pub fn should_abandon() -> bool {
    let pending = HELD.get() == 0 && reason().is_some();
    if pending {
        ABANDONED.set(true);
    }
    pending
}

/// A guard under which [`should_abandon`] is false on this thread.
#[must_use = "loops are abandoned again once it is dropped"]
#[derive(Debug)]
pub struct Hold(std::marker::PhantomData<*const ()>);

/// Prevents loops from being abandoned until the guard is dropped: for bounded
/// work that needs consistent values, as a sort needs consistent comparisons.
pub fn hold() -> Hold {
    HELD.set(HELD.get() + 1);
    Hold(std::marker::PhantomData)
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(1));
    }
}

/// The last interrupt checkpoint of a statement, before its result becomes final.
///
/// # Errors
/// [`Interrupted`] when a loop was abandoned: its value must not be used.
pub fn outcome() -> Result<(), Interrupted> {
    if ABANDONED.get() { check() } else { Ok(()) }
}

/// Counts one unit of work of recursive code, which has no place for a
/// [`Pacer`]: like [`Pacer::leaves`], with a counter of the thread. When true,
/// the caller leaves at once ([`should_abandon`]).
#[inline]
pub fn leaves() -> bool {
    let work = WORK.get().wrapping_add(1);
    WORK.set(work);
    work.is_multiple_of(STRIDE) && should_abandon()
}

/// Counts units of work and passes a checkpoint every [`STRIDE`] of them.
#[derive(Clone, Debug, Default)]
pub struct Pacer(u32);

impl Pacer {
    /// A pacer at the start of its stride.
    pub const fn new() -> Pacer {
        Pacer(0)
    }

    /// Counts one unit of work.
    ///
    /// # Errors
    /// [`Interrupted`] when there is a reason to stop.
    #[inline]
    pub fn tick(&mut self) -> Result<(), Interrupted> {
        self.tick_by(1)
    }

    /// Counts several units of work, done or about to be done.
    ///
    /// # Errors
    /// [`Interrupted`] when there is a reason to stop.
    #[inline]
    pub fn tick_by(&mut self, units: usize) -> Result<(), Interrupted> {
        if self.is_due(units) { check() } else { Ok(()) }
    }

    /// Counts one unit of work of code that returns no error. When true, the caller leaves at once
    /// ([`should_abandon`]).
    #[inline]
    pub fn leaves(&mut self) -> bool {
        self.leaves_by(1)
    }

    /// Counts several units of work of code that returns no error.
    #[inline]
    pub fn leaves_by(&mut self, units: usize) -> bool {
        self.is_due(units) && should_abandon()
    }

    #[inline]
    fn is_due(&mut self, units: usize) -> bool {
        let units = u32::try_from(units).unwrap_or(STRIDE);
        self.0 = self.0.saturating_add(units);
        let due = self.0 >= STRIDE;
        if due {
            self.0 = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_observe_the_innermost_scope_only() {
        assert_eq!(check(), Ok(()));
        let (outer, inner) = (Cancel::new(), Cancel::new());
        outer.cancel(Reason::Query);
        assert_eq!(check(), Ok(()), "no scope");
        let around = Scope::enter(&outer);
        assert_eq!(check(), Err(Interrupted(Reason::Query)));
        let within = Scope::enter(&inner);
        assert_eq!(check(), Ok(()));
        inner.cancel(Reason::Shutdown);
        assert_eq!(check(), Err(Interrupted(Reason::Shutdown)));
        drop(within);
        assert_eq!(check(), Err(Interrupted(Reason::Query)));
        drop(around);
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn an_abandoned_loop_fails_the_outcome_of_its_own_scope() {
        let (outer, inner) = (Cancel::new(), Cancel::new());
        let _around = Scope::enter(&outer);
        let within = Scope::enter(&inner);
        inner.cancel(Reason::Timeout);
        assert_eq!(outcome(), Ok(()), "nothing was abandoned");
        assert!(should_abandon());
        assert_eq!(outcome(), Err(Interrupted(Reason::Timeout)));
        drop(within);
        assert_eq!(outcome(), Ok(()));
        assert!(!should_abandon());
    }

    #[test]
    fn no_loop_is_abandoned_under_a_hold() {
        let cancel = Cancel::new();
        let _scope = Scope::enter(&cancel);
        cancel.cancel(Reason::Query);
        let held = hold();
        assert!(!should_abandon());
        assert!(check().is_err(), "`check` still fails");
        drop(held);
        assert!(should_abandon());
    }

    #[test]
    fn a_pacer_checks_once_per_stride() {
        let cancel = Cancel::new();
        let _scope = Scope::enter(&cancel);
        cancel.cancel(Reason::Query);
        let mut pacer = Pacer::new();
        let passed = (0..).take_while(|_| pacer.tick().is_ok()).count();
        assert_eq!(passed, STRIDE as usize - 1);
        assert!(pacer.tick_by(STRIDE as usize).is_err());
        assert!(pacer.tick_by(usize::MAX).is_err());
        assert!(pacer.leaves_by(STRIDE as usize));
    }
}
