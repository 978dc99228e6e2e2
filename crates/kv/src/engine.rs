//! The traits [`Engine`] and [`Txn`] and the small types they speak in.
//!
//! Rejected: generic, associated-type engines (retrofitting object safety is
//! what kept TiKV's engine trait open for years); iterators borrowed from the
//! transaction (they tie latches to the caller's lifetime; visitors and
//! resumable batches do not); `async` (the core is synchronous).

use crate::{DeadlockListener, Key, LockMode, LockWait, Result, SpaceId};
use porpoise_base::cancel::Cancel;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether a space's commits reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpaceDurability {
    /// As the server is set up.
    #[default]
    Server,
    /// Never logged: the space exists after a restart and is empty.
    Memory,
}

/// What a space is for; fixed at its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceSpec {
    /// Co-location group: spaces of one group and partition lie together.
    pub group: u64,
    /// Partition number within the group.
    pub partition: u32,
    /// Whether commits to it are logged.
    pub durability: SpaceDurability,
    /// Mostly looked up by whole keys: a hash index pays. Scans work all the same.
    pub point_lookups: bool,
}

/// A counter from which never-repeating ids are reserved. By convention the
/// number of the table's first space; small numbers are the catalog's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u64);

/// The position in the log at which a commit becomes durable: a reply that reveals the commit waits
/// for it. [`CommitPosition::NONE`] waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitPosition(pub u64);

impl CommitPosition {
    /// Waits for nothing.
    pub const NONE: CommitPosition = CommitPosition(0);
}

/// A position in a transaction's write set: the number of writes before it.
/// Serves as statement mark for reads and as savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatementMark(pub u64);

impl StatementMark {
    /// Above every write: reads with it see all own writes.
    pub const ALL: StatementMark = StatementMark(u64::MAX);
}

/// The committed state that a read sees below the own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The transaction's snapshot (see [`Txn::refresh`] and [`Txn::pin`]).
    Snapshot,
    /// The newest committed state, commits that are not yet durable included;
    /// counts towards [`Txn::seen`].
    Current,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The committed state beneath.
    pub mode: ReadMode,
    /// Own writes below this mark are seen.
    pub mark: StatementMark,
    /// Validate at commit that what was read (keys, absent keys, ranges) has
    /// not changed; needs [`Capabilities::range_validation`].
    pub validate: bool,
}

impl Read {
    /// The transaction's snapshot with all own writes.
    pub const SNAPSHOT: Read = Read {
        mode: ReadMode::Snapshot,
        mark: StatementMark::ALL,
        validate: false,
    };
    /// The newest committed state with all own writes.
    pub const CURRENT: Read = Read {
        mode: ReadMode::Current,
        mark: StatementMark::ALL,
        validate: false,
    };
}

/// A range of keys of one space, and how to walk it.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange<'a> {
    /// The space.
    pub space: SpaceId,
    /// First key, included.
    pub start: &'a [u8],
    /// End key, excluded; `None` is the end of the space.
    pub end: Option<&'a [u8]>,
    /// From the end towards the start.
    pub reverse: bool,
}

/// Where a scan stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// All ranges were walked to their ends.
    Done,
    /// The limit or the visitor ended it after this key of this range. To go
    /// on: drop the ranges before, and continue behind the key (`start` = key
    /// + a zero byte; in reverse `end` = key).
    Stopped {
        /// Index of the range in the call.
        range: usize,
        /// The last key visited.
        key: Vec<u8>,
    },
}

/// One key to lock.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest<'a> {
    /// The key, present or absent.
    pub key: Key<'a>,
    /// The strength.
    pub mode: LockMode,
}

/// What to do when a lock is not free.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Wait until then, then [`crate::Error::LockTimeout`].
    Until(Instant),
    /// [`crate::Error::LockBusy`] at once; needs [`Capabilities::nowait`].
    NoWait,
    /// Report the key as not granted and go on; needs [`Capabilities::skip_locked`].
    Skip,
}

/// What a lock call found for one key.
#[derive(Clone, Copy, Debug)]
pub struct Locked<'a> {
    /// False only with [`Wait::Skip`]; then the other fields say nothing.
    pub granted: bool,
    /// The value: the own write if there is one, else the newest committed.
    pub value: Option<&'a [u8]>,
    /// The newest committed version (a deletion, too) is newer than the
    /// transaction's snapshot. False while there is no snapshot.
    pub newer: bool,
    /// `value` is an own write (an own delete shows as `None`).
    pub own: bool,
}

/// What the engine checks about a write at commit. Of several writes to one
/// key, [`Check::FirstCommitter`] of any holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the caller holds a lock on this key (update or exclusive).
    Locked,
    /// The key must not have changed since the snapshot. The commit itself takes
    /// an exclusive lock on the key first, and waits for its holder; without
    /// a snapshot there is nothing to compare.
    FirstCommitter,
    /// Nothing: the key is covered by the lock of another key (an entry of a
    /// non-unique index, a part of a blob).
    Blind,
}

/// Isolation that needs the engine's help. READ COMMITTED and REPEATABLE
/// READ are both [`Isolation::Snapshot`]; they differ in when the caller
/// calls [`Txn::refresh`] and [`Txn::pin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Snapshots and locks.
    #[default]
    Snapshot,
    /// Reads are tracked and validated at the commit point; needs
    /// [`Capabilities::serializable`].
    Serializable,
}

/// How a transaction begins.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// The isolation.
    pub isolation: Isolation,
    /// The commit is synced in `interval` mode, too (DDL).
    pub sync: bool,
    /// Ends its waits from outside.
    pub cancel: Cancel,
}

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// A reply that reveals this commit waits until this position is durable.
    /// Of a transaction without writes: the newest commit it saw.
    pub position: CommitPosition,
}

/// What an engine can do beyond the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Isolation::Serializable`].
    pub serializable: bool,
    /// [`Read::validate`].
    pub range_validation: bool,
    /// [`LockMode::KeyShare`] and [`LockMode::Share`] are weaker than exclusive.
    pub share_locks: bool,
    /// [`Wait::NoWait`].
    pub nowait: bool,
    /// [`Wait::Skip`].
    pub skip_locked: bool,
}

/// Sizes an engine accepts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest key.
    pub key: usize,
    /// Longest value.
    pub value: usize,
    /// Keys and values of one transaction together.
    pub transaction: usize,
}

/// When commits count as durable; per server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the sync that covers them is done.
    Sync,
    /// At once; the log is synced at least this often.
    Interval(Duration),
    /// At once; rows are never written to disk.
    Memory,
}

/// A listener for the progress of the log's progress. Called by the log thread; must not wait.
pub trait DurableListener: Send + Sync {
    /// Everything up to `position` is durable.
    fn durable(&self, position: CommitPosition);
    /// Nothing beyond the present durable position ever becomes durable: deferred replies that wait
    /// for more have an unknown outcome.
    fn failed(&self, error: &crate::Error);
}

/// One figure of an engine's metrics.
#[derive(Clone, Debug)]
pub struct Stat {
    /// snake_case, without prefix; counters end in `_total`.
    pub name: &'static str,
    /// One line of explanation.
    pub help: &'static str,
    /// A counter only grows; others are gauges.
    pub counter: bool,
    /// The value now.
    pub value: u64,
}

/// A transactional, ordered, multi-version store.
pub trait Engine: Send + Sync {
    /// A short name for messages ("embedded", "tikv").
    fn name(&self) -> &'static str;

    /// What it can do beyond the core.
    fn capabilities(&self) -> Capabilities;

    /// The sizes it accepts.
    fn limits(&self) -> Limits;

    /// Begins a transaction. No snapshot is taken yet: the first read that needs
    /// one, [`Txn::refresh`] or [`Txn::pin`] does it.
    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>>;

    /// Creates spaces, durably, outside any transaction: a space that no
    /// committed catalog row names is swept at the next start.
    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>>;

    /// Drops spaces with all they hold. Transactions that still use them get
    /// [`crate::Error::NoSuchSpace`]. Dropping an absent one is no error.
    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()>;

    /// All spaces from [`SpaceId::FIRST_FREE`] on.
    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>>;

    /// Reserves `count` (at least 1) consecutive ids of `counter`, the first
    /// of them not below `at_least`. Counters begin at 1. Never gives an id
    /// twice, whatever crashes. Refused with [`crate::Error::Full`] when fewer
    /// than `count` are left below `u64::MAX`.
    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>>;

    /// Gives back the unused end of a reserved range; false if another range was reserved after it,
    /// and the ids are lost.
    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool>;

    /// The id that would be given out next.
    fn next_id(&self, counter: CounterId) -> Result<u64>;

    /// Sets the next id, upwards or downwards (ALTER TABLE ... AUTO_INCREMENT).
    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()>;

    /// Everything up to here is durable. An atomic load.
    fn durable_position(&self) -> CommitPosition;

    /// Waits until `position` is durable. For callers that cannot defer a reply.
    fn wait_durable(&self, position: CommitPosition) -> Result<()>;

    /// Registers a listener for the progress of the log, permanently.
    fn subscribe(&self, listener: Arc<dyn DurableListener>);

    /// About how many keys these spaces hold together, for planning; `None`
    /// where counting would cost more than a glance. Costs no round trip.
    fn approximate_keys(&self, _spaces: &[SpaceId]) -> Option<u64> {
        None
    }

    /// The present waits for locks. Empty on engines that do not know them; those report no deadlocks
    /// either.
    fn lock_waits(&self) -> Vec<LockWait> {
        Vec::new()
    }

    /// Registers a listener for deadlocks, permanently.
    fn subscribe_deadlocks(&self, listener: Arc<dyn DeadlockListener>) {
        drop(listener);
    }

    /// Figures for the metrics page.
    fn stats(&self) -> Vec<Stat>;

    /// Background threads that make no progress, a message each. Never waits:
    /// for health checks.
    fn stalled(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes exact counters, syncs, stops background work. Later calls fail.
    fn shutdown(&self) -> Result<()>;
}

/// Shown to by [`Txn::scan`]: index of the range, key, value; may break off.
pub type ScanVisitor<'v> = dyn FnMut(usize, &[u8], &[u8]) -> ControlFlow<()> + 'v;

/// A transaction. Not shared between threads; may move between them.
///
/// Visitors must not call the engine, wait, or keep what they are shown.
pub trait Txn: Send {
    /// Moves the snapshot to now, unless it is pinned.
    fn refresh(&mut self) -> Result<()>;

    /// Keeps the present snapshot (taking one at now when there is none) to the
    /// end of the transaction.
    fn pin(&mut self) -> Result<()>;

    /// Whether the snapshot is pinned.
    fn pinned(&self) -> bool;

    /// Tracks reads from the snapshot from now on, for [`Txn::advance`]. No effect after the first
    /// read from the snapshot.
    fn track_reads(&mut self) {}

    /// Moves a pinned snapshot to now if everything that was read from it (keys,
    /// absent keys, ranges) is the same there: had the transaction begun now,
    /// it would have read what it read. False when something changed, or when
    /// the engine does not know, and the snapshot stays where it is.
    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Shows for each key its value or `None`, once each, in any order; the
    /// first argument is the key's index.
    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// Walks the ranges one after the other, at most `limit` (at least 1)
    /// entries in all.
    /// The visitor gets range index, key and value and may break off. Keys
    /// without a visible value show nothing to it, so the scan itself passes
    /// a checkpoint (`porpoise_base::interrupt`) at every thousand of them,
    /// and fails with [`crate::Error::Cancelled`] in a statement that was ended.
    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd>;

    /// Locks the keys (taken in (space, key) order, whatever the order given)
    /// and shows each one's newest value. On an error locks granted by this
    /// call may stay held.
    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()>;

    /// Lets go of locks first taken since `since`, on keys that turned out
    /// not to matter and were not written: takes back one [`Txn::lock`] call
    /// per key, and the lock goes when no other call asked for it. An engine
    /// may ignore it.
    fn unlock(&mut self, keys: &[Key<'_>], since: StatementMark);

    /// How many reads are kept so far, to be validated by the commit or for
    /// [`Txn::advance`]: a position for [`Txn::untrack_reads`]. Always 0 on
    /// engines that keep nothing.
    fn tracked_reads(&self) -> usize {
        0
    }

    /// Forgets the reads that are kept from there on: those of a run
    /// of a statement that is run again at a newer snapshot, whose results were discarded.
    fn untrack_reads(&mut self, from: usize) {
        let _ = from;
    }

    /// Buffers a write.
    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()>;

    /// Buffers a deletion. Deleting what is not there is checked like any
    /// write, and changes nothing.
    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()>;

    /// The present end of the write set.
    fn mark(&self) -> StatementMark;

    /// Rolls back the writes from `mark` on; keeps locks.
    fn rollback_to(&mut self, mark: StatementMark);

    /// Whether anything was written (and not taken back).
    fn has_writes(&self) -> bool;

    /// The newest commit that current reads and lock grants of this
    /// transaction have shown: a reply made from them waits for it.
    fn seen(&self) -> CommitPosition;

    /// Commits. After an error nothing has changed, unless it is
    /// [`crate::Error::Unknown`]. Locks go either way.
    fn commit(self: Box<Self>) -> Result<Commit>;

    /// Ends the transaction without a trace.
    fn rollback(self: Box<Self>);
}
