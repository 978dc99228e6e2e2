//! A simulated run of a store: transactions, checkpoints, faults, crashes.
//!
//! One thread does everything: a step of one of several open transactions, a write of
//! the log, a checkpoint, or a pass of the reclaimer, as the seed decides. The engine
//! has no threads of its own (`Background::Callers`) and its clock does not advance,
//! so that a seed always leads to the same run. The disk calls back before each of its
//! operations: there the store is sometimes recovered from the state that a power cut
//! at that moment would leave (and checked), and, during checkpoints and log writes,
//! other transactions make steps.
//!
//! Checks:
//! 1. Every result of every step equals that of the reference model.
//! 2. After a crash the rows are those after some commit, none of them torn, and that
//!    commit is not older than the newest one that a client could know.
//!    So are the transactions that are prepared: each is found again, with its locks, until its commit or rollback,
//!    which happens once.
//! 3. Ids and spaces are never assigned twice; created spaces exist.
//! 4. `verify` finds nothing, before and after.
//! 5. On a disk that lies about its syncs or flips bits, a store recovers to the state
//!    after some commit, or its start is refused; it is never wrong.
//!
//! Rejected: threads with a random scheduler (a seed would not replay); a
//! crash only at the end of a run (it finds less per second than checking a
//! copy at many operations of one run).

mod oracle;
mod plan;
mod report;
mod simulation;
mod steps;
mod transactions;

pub use plan::{Faults, Plan};
pub use report::Report;
pub use simulation::simulate;
