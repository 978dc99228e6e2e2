//! The embedded engine: rows in memory under multi-version concurrency control.
//!
//! A space is an index from keys to records; a record is a key, a chain of versions, and a lock word.
//! Readers walk chains under an epoch pin. Writers contend for the records that they share, and for a
//! moment for the sequencer, which orders commits. Commits are durable by a log with group commit, and
//! by checkpoints.
//!
//! docs/internals/storage.md describes the parts and draws them; the module headers have the algorithms
//! and invariants. A reading order: `record`, `index`, `lock`, `txn`, `pipeline`, `log`, `reclaim`,
//! `checkpoint`, `recovery`.
//!
//! Rules cited by number are those of transactions.md.

mod checkpoint;
mod chunked_list;
mod codec;
mod count;
mod counters;
mod deadlock;
mod durability;
mod engine;
mod group_commit;
mod heartbeat;
mod hot_copy;
mod image;
mod index;
mod key_order;
mod lock;
mod log;
mod manifest;
mod memory;
mod metrics;
mod pipeline;
mod prefetch;
mod protected;
mod range_walk;
mod rebuild;
mod reclaim;
mod record;
mod recovery;
mod salvage;
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
pub use hot_copy::{CopiedFile, HotCopy};
pub use log::{AnnotationScanner, LogCopy, LogCursor, LogGroup};
pub use memory::MemoryUse;
pub use rebuild::{CommitCut, StoreBuilder, records_until};
pub use salvage::{Salvaged, dump, salvage};
