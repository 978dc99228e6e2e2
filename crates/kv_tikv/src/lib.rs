//! The distributed engine: the contract of `porpoise-kv` on a TiKV cluster.
//!
//! Stands on porpoise-tikv-client, the only crate that uses gRPC. This crate implements the write buffer with
//! statement marks, the read snapshot, the set of held keys with their values, and the spaces.
//!
//! Invariants:
//! 1. A key that the transaction holds is not locked again, nor read: its value is that of the lock call.
//! 2. Keys locked and not written are committed as lock-only mutations, so that the commit detects the loss of
//!    their locks (on a leader change). The store accepts a lost lock only on a key without a version since
//!    the transaction began.
//! 3. "Changed since the snapshot" means: the bytes at the snapshot differ from the
//!    bytes under the lock, where a lock had to be taken; and a version above the snapshot, where a commit takes none.
//! 4. After a request that may commit was sent, every failure whose outcome cannot be established
//!    is [`porpoise_kv::Error::UnknownOutcome`].
//!
//! Locks are exclusive whatever mode is requested; the contract allows it. Locks are taken in the
//! order of encoded keys, which is (group, partition, space, key) for all transactions.
//!
//! # Threads
//!
//! The contract is synchronous. The client owns a small tokio runtime; each call blocks the calling
//! thread, announced through [`porpoise_base::blocking`]. **No method may be called from a thread
//! that runs tokio tasks**: tokio panics when such a thread blocks. Dropping a transaction or the
//! engine is allowed anywhere.
//!
//! # Missing features
//!
//! SERIALIZABLE, range validation, share locks, SKIP LOCKED.
//! Everything committed is durable when it is acknowledged, so commit positions are
//! always [`porpoise_kv::CommitPosition::NONE`]. A space created with
//! [`porpoise_kv::SpaceDurability::Memory`] is as durable as any other.
//! A space that another server drops is noticed when this server has not
//! used it yet, not by transactions already under way.
//!
//! # Modules
//!
//! * `keys`: the encoding of keys and of the frame around values.
//! * `fault`: the meaning of the client's errors.
//! * `writes`: the write buffer with statement marks.
//! * `scan`: range scans that merge pages and `writes`.
//! * `locks`: the set of held keys and their values.
//! * `commit`: commit of the write buffer.
//! * `cluster`: the connection that engine and transactions share.
//! * `txn`, `engine`, `meta`: the contract's two traits; spaces and counters.
//! * `snapshots`: the timestamps at which this server reads. `gc`: garbage collection of versions that are older than
//!   the oldest such timestamp of all servers.
//! * `coordination`: records and leases of servers.

#![forbid(unsafe_code)]

mod cluster;
mod commit;
mod coordination;
mod engine;
mod fault;
mod gc;
mod guards;
mod keys;
mod locks;
mod meta;
mod scan;
mod snapshots;
mod txn;
mod writes;

pub use engine::{KvTikv, KvTikvOptions};
pub use keys::KEY_FORMAT_VERSION;
pub use meta::LeaseOfRecord;
pub use porpoise_tikv_client::{RequestCounts, RequestKind, TlsOptions};
