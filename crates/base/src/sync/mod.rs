//! Synchronization primitives, replaceable by ones under a test's scheduler.
//!
//! In every ordinary build the names here are those of `parking_lot` and of
//! the standard library, and cost nothing. Built with `--cfg shuttle` they are
//! primitives of the shuttle crate, under which all threads of a test run one
//! at a time and are switched, as a seed decides, at operations on atomics,
//! mutexes and condition variables. So the engine's own code runs under
//! schedules that occur once in a million runs, and a failing schedule is
//! reproduced by its seed. `scripts/schedules.sh` builds this in a separate
//! target directory.
//!
//! Invariants:
//! 1. Code whose schedules are explored takes its mutexes, condition variables
//!    and threads from here, and holds no other mutex while it uses them: a
//!    thread that is out of turn would keep it for ever.
//! 2. Under the scheduler time does not advance: a wait with a deadline ends only
//!    by a wake-up, so that a lost wake-up is a deadlock, which the scheduler
//!    reports.
//!
//! Chosen over loom, which tries every schedule and models weak memory, but
//! only of a few dozen operations: a commit of the engine has hundreds.
//! Rejected: a copy of each protocol made for the test, which verifies the copy only.
//! Reordering by the processor is not explored; tests with real threads are for
//! that, and loom for the index's read protocol (`kv_mem`, `schedules/protocol.rs`).

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

    /// Atomics, and the order of what is done to them.
    pub mod atomic {
        pub use std::sync::atomic::*;
    }

    /// The time by which waits are measured.
    #[inline]
    pub fn now() -> std::time::Instant {
        std::time::Instant::now()
    }

    /// A place where threads may change places under the scheduler, for what
    /// is atomic by other means than [`atomic`].
    #[inline(always)]
    pub fn point() {}
}
#[cfg(not(shuttle))]
pub use plain::*;
