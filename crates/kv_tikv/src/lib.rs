//! The distributed engine: the contract of `porpoise-kv` on a TiKV cluster.
//!
//! The only crate that uses gRPC. It is based on `tikv-client` 0.4.0, but uses only a small part of
//! that library, which loses locks and lacks features that the contract requires: its `Snapshot` at
//! a given timestamp for all reads, and its pessimistic `Transaction` for locks and commit. This
//! crate implements the write buffer with statement marks, the read snapshot, the set of held keys,
//! heartbeats, and the classification of errors.
//!
//! Invariants:
//! 1. A key that the transaction holds is not passed to the library's lock call again before
//!    commit, because a failing call rolls back keys of the call that were held before. At commit
//!    all written keys are locked once more (the library's buffer cannot be filled otherwise), and
//!    a failure then ends the transaction.
//! 2. At commit, after locking, each value that the transaction saw under a lock is compared with
//!    the present one: so the loss of a lock (on a leader change) is detected even if the key could
//!    be locked again. Keys locked and not written are committed as lock-only mutations, and
//!    prewrite detects the loss of their locks.
//! 3. "Changed since the snapshot" means: the bytes at the snapshot differ from the
//!    bytes under the lock.
//! 4. After the commit of the primary key may have been sent, every failure
//!    that is not the store's definite refusal is [`porpoise_kv::Error::UnknownOutcome`].
//!    No async commit and no one-phase commit: the library's are unsound.
//! 5. A lock request is never abandoned: after its deadline it ends in the background, and its
//!    outcome is recorded before the next request.
//!
//! Locks are exclusive whatever mode is requested; the contract allows it. Locks are taken in the
//! order of encoded keys, which is (group, partition, space, key) for all transactions.
//!
//! # Threads
//!
//! The contract is synchronous. The engine owns a small tokio runtime; each call blocks the calling
//! thread, announced through [`porpoise_base::blocking`]. **No method may be called from a thread
//! that runs tokio tasks**: tokio panics when such a thread blocks. Dropping a transaction or the
//! engine is allowed anywhere.
//!
//! # Missing features
//!
//! SERIALIZABLE, range validation, share locks, NOWAIT, SKIP LOCKED: the
//! library's lock call always waits in the store and knows one strength.
//! Everything committed is durable when it is acknowledged, so commit positions are
//! always [`porpoise_kv::CommitPosition::NONE`]. A space created with
//! [`porpoise_kv::SpaceDurability::Memory`] is as durable as any other.
//! A space that another server drops is noticed when this server has not
//! used it yet, not by transactions already under way. The safe
//! point of garbage collection is not moved. No heartbeat is sent during the commit itself,
//! which therefore has to get its primary key committed within about 20 s.
//!
//! # Modules
//!
//! * `keys`: the encoding of keys and of the frame around values.
//! * `io`: the runtime, and waits with deadlines.
//! * `fault`: classification of the library's errors.
//! * `reads`: batched reads at a timestamp.
//! * `writes`: the write buffer with statement marks.
//! * `scan`: range scans that merge `reads` and `writes`.
//! * `holder`: one transaction of the library: locks, heartbeats, release.
//! * `orphans`: removing orphaned locks.
//! * `locks`: the set of held keys, and waiting for more.
//! * `commit`: commit of the write buffer.
//! * `cluster`: the connection that engine and transactions share.
//! * `txn`, `engine`, `meta`: the contract's two traits; spaces and counters.
//! * `coordination`: records and leases of servers.
//!
//! Rejected: reading through the library's `Transaction` (its buffer asserts that a key never
//! changes and has no statement marks), one library transaction per statement (its locks end with
//! it), the library's own heartbeat (its failure is only logged).

#![forbid(unsafe_code)]

mod cluster;
mod commit;
mod coordination;
mod engine;
mod fault;
mod holder;
mod io;
mod keys;
mod locks;
mod meta;
mod orphans;
mod reads;
mod scan;
mod txn;
mod writes;

pub use engine::{KvTikv, KvTikvOptions};
pub use keys::KEY_FORMAT_VERSION;
