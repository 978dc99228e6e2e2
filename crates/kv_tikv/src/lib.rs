//! The distributed engine: the contract of `porpoise-kv` on a TiKV cluster.
//!
//! The only crate that uses gRPC. It stands on `tikv-client`
//! 0.4.0 and uses little of it, because that library loses locks and lacks
//! what the contract asks for: its `Snapshot` at a timestamp of our choice for
//! all reads, its pessimistic `Transaction` for locks and commit only. Own are
//! the write buffer with its marks, the read snapshot, the set of held keys, the
//! heartbeats, the judgement of errors.
//!
//! Invariants:
//! 1. A key that the transaction holds is not passed to the library's lock
//!    call again before commit: a failing call rolls back keys of the call
//!    that were held before it. At commit all written keys are locked once
//!    more (the library's buffer cannot be filled otherwise), and a failure of
//!    that ends the transaction.
//! 2. What a transaction was shown under a lock is compared with what is there
//!    after the locking at commit, so that a lock that vanished meanwhile (a
//!    leader change drops them) is noticed although it could be taken again.
//!    Keys locked and not written go into the commit as lock-only mutations,
//!    and prewrite notices if their locks have vanished.
//! 3. "Changed since the snapshot" means: the bytes at the snapshot differ from the
//!    bytes under the lock.
//! 4. After the commit of the primary key may have been sent, every failure
//!    that is not the store's definite refusal is [`porpoise_kv::Error::Unknown`].
//!    No async commit and no one-phase commit: the library's are unsound.
//! 5. A lock request is never abandoned: when its deadline passes it ends in
//!    the background, and its outcome is taken in before the next one is made.
//!
//! Locks are exclusive whatever mode is asked for; the contract allows it.
//! Locks are taken in the order of encoded keys, the same for all
//! transactions, which is (group, partition, space, key).
//!
//! # Threads
//!
//! The contract is synchronous. The engine owns a small tokio runtime; each
//! call waits on the calling thread, announced through
//! [`porpoise_base::blocking`]. **No method may be called from a thread that
//! runs tokio tasks**: tokio forbids waiting there and panics. Dropping a
//! transaction or the engine is allowed anywhere.
//!
//! # What this engine does not have
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
//! * `keys`: every byte of a key, and of what stands around a value.
//! * `io`: the runtime and waits that end.
//! * `fault`: what a failure of the library means.
//! * `reads`: batched reads at a timestamp.
//! * `writes`: the write buffer with marks.
//! * `scan`: merging the two.
//! * `holder`: one transaction of the library, owned: locks, heartbeat, release.
//! * `orphans`: removing orphaned locks.
//! * `locks`: the set of held keys, and waiting for more.
//! * `commit`: from write buffer to outcome.
//! * `cluster`: the connection that engine and transactions share.
//! * `txn`, `engine`, `meta`: the contract's two traits; spaces and counters.
//!
//! Rejected: reading through the library's `Transaction` (its buffer asserts
//! that a key never changes under it and knows no marks), one library
//! transaction per statement (its locks end with it), the library's own
//! heartbeat (its failure is only logged).

#![forbid(unsafe_code)]

mod cluster;
mod commit;
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
