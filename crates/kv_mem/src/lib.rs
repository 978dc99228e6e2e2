//! The embedded engine: rows in memory under multi-version concurrency
//! control.
//!
//! A space is an index from keys to records; a record is a key, a chain of
//! versions, and a lock word. Readers walk chains under an epoch pin; writers
//! contend on the records they share, and for a moment on the sequencer, which
//! orders commits. What the modules do stands at their heads; read them in the
//! order `record`, `index`, `lock`, `txn`, `commit`, `reclaim`.
//!
//! The rules behind it are the numbered ones of transactions.md.

mod checkpoint;
mod codec;
mod counters;
mod deadlock;
mod durability;
mod engine;
mod heartbeat;
mod index;
mod lock;
mod log;
mod manifest;
mod memory;
mod metrics;
mod pipeline;
mod prefetch;
mod reclaim;
mod record;
mod recovery;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
mod snapshots;
mod space;
mod state;
mod stats;
mod store;
mod txn;
mod validate;
mod verify;
mod writes;

pub use engine::{Background, KvMem, KvMemOptions};
pub use memory::MemoryUse;
