//! Synchronization primitives, replaced by those of a scheduler in model tests.
//!
//! In every ordinary build the names here are those of `parking_lot` and of
//! the standard library, and cost nothing. Built with `--cfg shuttle` they are
//! primitives of the shuttle crate, under which all threads of a test run one
//! at a time and are switched, as a seed decides, at operations on atomics,
//! mutexes and condition variables. So the engine's own code runs under
//! schedules that occur once in a million runs, and a failing schedule is
//! reproduced by its seed. `scripts/schedules.sh` builds this.
//!
//! Invariants:
//! 1. Code under exploration takes its mutexes, condition variables and threads from here, and
//!    holds no other mutex while it uses them: a descheduled thread would hold it for ever.
//! 2. Under the scheduler time does not advance: a wait with a deadline ends only
//!    by a wake-up, so that a lost wake-up is a deadlock, which the scheduler
//!    reports.
//!
//! Chosen over loom, which explores every schedule and models weak memory, but only for a few dozen
//! operations: a commit of the engine has hundreds. Rejected: a copy of each protocol for the test,
//! which verifies only the copy.
//! Weak memory orders are not explored; tests with real threads cover them, and loom covers the
//! index's read protocol (`kv_mem`, `schedules/protocol.rs`).

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub use scheduled::*;

#[cfg(not(shuttle))]
mod plain {
    pub use parking_lot::lock_api::RawMutex as RawLatch;
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RawMutex, RwLock};
    pub use std::hint::spin_loop;
    pub use std::thread;

    /// Atomics and memory orderings.
    pub mod atomic {
        pub use std::sync::atomic::*;
    }

    /// The clock for deadlines of waits.
    #[inline]
    pub fn now() -> std::time::Instant {
        std::time::Instant::now()
    }

    /// A scheduling point, for operations that are atomic by means other than [`atomic`].
    #[inline(always)]
    pub fn scheduling_point() {}
}
#[cfg(not(shuttle))]
pub use plain::*;
