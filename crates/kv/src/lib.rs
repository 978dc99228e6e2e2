//! The engine contract: the interface between `rows` and a storage engine.
//!
//! An engine holds *spaces*; a space is an ordered set of byte keys with byte
//! values. Each partition of a table's rows is a space, and so is each
//! partition of an index. The contract is object-safe, synchronous and
//! batch-shaped: everything that may cost a round trip takes many keys and
//! costs one round trip per engine partition at most.
//!
//! # Core guarantees
//!
//! Every engine provides all of these. Each has tests in [`contract`], which every engine runs
//! unchanged.
//!
//! 1. **Atomic commit.** All writes of a transaction become visible at once, or none does. There
//!    are three outcomes: committed; failed with a reason, and nothing has changed; unknown
//!    ([`Error::UnknownOutcome`]).
//! 2. **Snapshot reads.** Reads at the snapshot see one committed state plus the
//!    transaction's own writes below the given [`StatementMark`].
//! 3. **Current reads** ([`ReadMode::Current`], [`Txn::lock`]) see the newest committed state plus
//!    own writes, never an uncommitted write of others. Each key is newest at the moment it is
//!    read: several keys are consistent with each other only as far as held locks prevent changes.
//! 4. **Linearizable begin.** A snapshot taken after a commit was reported (its
//!    commit position durable) sees it.
//! 5. **No lost update.** A write with [`Check::FirstCommitter`] to a key
//!    whose newest committed version is newer than the snapshot is refused at
//!    commit with [`Error::Conflict`]; a write under a held lock cannot
//!    collide, because the lock keeps others out until the commit point. A
//!    transaction without a snapshot has read nothing that could be lost: its
//!    writes are not compared.
//! 6. **Locks** exclude as [`LockMode::compatible`] says (an engine may grant
//!    a stronger one), work on absent keys as on present ones, are reentrant,
//!    upgrade, and are held to the end of the transaction. A grant returns
//!    the key's newest committed value (or the own write) and whether it is
//!    newer than the snapshot.
//! 7. **Deadlocks** end: one of the waiters gets [`Error::Deadlock`], or all of them get
//!    [`Error::LockTimeout`] at their deadlines.
//! 8. **Statement mark.** A read with mark *m* does not see own writes made at or after *m*;
//!    [`Txn::rollback_to`] rolls back exactly those, and keeps locks.
//! 9. **Scans** see exactly the keys of the range, in order, in both directions, with own writes
//!    merged in, and resume without gap or repetition.
//! 10. **Ids** from a counter are never given out twice, also after a crash,
//!     in every durability mode.
//! 11. **Spaces** are durable when created; a dropped space is empty, and its id is never reused.
//! 12. **Waits end** at their deadline, on cancellation, and never hold a
//!     latch that another session needs.
//! 13. A dropped [`Txn`] is rolled back and releases everything.
//! 14. **An advanced snapshot** ([`Txn::advance`]) is a later committed state in which all tracked
//!     reads have unchanged results. An engine may refuse to advance at any time.
//! 15. **A prepared transaction** ([`Txn::prepare`], a capability) keeps its locks, can be committed
//!     or rolled back whatever others do, and survives a restart in every durability mode that
//!     writes commits to disk.
//! 16. **An annotation** ([`Txn::annotate`], a capability) is stored with its commit, and returned in
//!     commit order ([`AnnotationReader`]).
//!
//! # Capabilities
//!
//! Optional features are declared in [`Capabilities`]. The use of a missing one fails with
//! [`Error::Unsupported`], which is tested; a request is never silently weakened.

#![forbid(unsafe_code)]

mod annotation;
pub mod coordination;
mod engine;
mod error;
mod key;
mod lock;

pub mod contract;
pub mod model;

pub use annotation::{Annotation, AnnotationReader};
pub use engine::{
    Capabilities, Check, Commit, CommitPosition, CounterId, Durability, DurableListener, Durations,
    Engine, Isolation, Limits, LockRequest, Locked, MAX_PREPARED_NAME, PreparedTxn, Read, ReadMode,
    ScanEnd, ScanRange, ScanVisitor, SpaceDurability, SpaceSpec, Stat, StatementMark, Txn,
    TxnOptions, Wait, count_by_scan,
};
pub use error::{Error, Resource, Result};
pub use key::{Key, SpaceId, first_bytes, prefix_end};
pub use lock::{DeadlockListener, LockMode, LockWait};
