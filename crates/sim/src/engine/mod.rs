//! A simulated life of a store: transactions, checkpoints, faults, crashes.
//!
//! One thread does everything: it makes a step of one of several open
//! transactions, a turn of the log, a checkpoint, a pass of the reclaimer, as
//! the seed says. The engine has no threads of its own (`Background::Callers`)
//! and its clock stands still, so that a seed always leads to the same life.
//! The disk calls back before each of its operations: there the store is
//! sometimes brought up from what a power cut at that moment would leave (and
//! judged), and, amid checkpoints and log turns, other transactions make steps.
//!
//! What is held against the engine:
//! 1. Every answer of every step is the one that the reference model gives.
//! 2. After a crash the rows are those after some commit, none of them torn,
//!    and no older one than the newest that anybody could have been told of.
//! 3. Ids and spaces that were given out are never given out again; spaces
//!    that were made are there.
//! 4. `verify` finds nothing, before and after.
//! 5. On a disk that lies about its syncs or flips bits, a store comes up
//!    after some commit, or its start is refused; it is never wrong.
//!
//! Rejected: threads with a random scheduler (a seed would not replay); a
//! crash only at the end of a life (it finds less per second than judging a
//! copy at many operations of one life).

mod judge;
mod plan;
mod report;
mod steps;
mod transactions;
mod world;

pub use plan::{Faults, Plan};
pub use report::Report;
pub use world::simulate;
