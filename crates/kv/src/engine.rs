//! The traits [`Engine`] and [`Txn`], and the types in their signatures.
//!
//! Rejected: engines with associated types (TiKV's engine trait was not object-safe for years
//! because of them); iterators that borrow from the transaction (they tie latches to the caller's
//! lifetime; visitors and resumable batches do not); `async` (the core is synchronous).

use crate::coordination::Coordination;
use crate::{AnnotationReader, DeadlockListener, Error, Key, LockMode, LockWait, Result, SpaceId};
use porpoise_base::cancel::Cancel;
use porpoise_base::histogram::Counts;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether a space's commits reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpaceDurability {
    /// By the server's configuration.
    #[default]
    Server,
    /// Never logged: the space exists after a restart and is empty.
    Memory,
}

/// Specification of a space, fixed at its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceSpec {
    /// Co-location group: spaces of one group and partition are stored together.
    pub group: u64,
    /// Partition number within the group.
    pub partition: u32,
    /// Whether commits to it are logged.
    pub durability: SpaceDurability,
    /// Whether most accesses are look-ups by whole keys, so that a hash index pays off. Scans work
    /// regardless.
    pub point_lookups: bool,
}

/// A counter of unique ids. By convention its number is that of the table's first space; small
/// numbers belong to the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u64);

/// The position in the log at which a commit becomes durable: a reply that reveals the commit waits
/// for it. [`CommitPosition::NONE`] waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitPosition(pub u64);

impl CommitPosition {
    /// A position that is always durable.
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
    /// The newest committed state, including commits that are not yet durable; counts towards
    /// [`Txn::seen`].
    Current,
}

/// Options of a read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The committed state that is read.
    pub mode: ReadMode,
    /// Statement mark below which own writes are visible.
    pub mark: StatementMark,
    /// Whether the commit validates that the keys, absent keys and ranges read are unchanged; needs
    /// [`Capabilities::range_validation`].
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

/// A range of keys of one space, and the direction of the scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange<'a> {
    /// The space.
    pub space: SpaceId,
    /// First key, inclusive.
    pub start: &'a [u8],
    /// End key, exclusive; `None` for the end of the space.
    pub end: Option<&'a [u8]>,
    /// Whether the range is scanned in descending order.
    pub reverse: bool,
}

/// Outcome of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// All ranges were scanned to their ends.
    Done,
    /// The limit or the visitor ended the scan after this key of this range. To resume, drop the
    /// ranges before it and continue after the key (`start` = key + a zero byte; in descending
    /// order `end` = key).
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

/// Wait policy for a lock that is not free.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Wait until the deadline, then fail with [`crate::Error::LockTimeout`].
    Until(Instant),
    /// Fail at once with [`crate::Error::LockBusy`]; needs [`Capabilities::nowait`].
    NoWait,
    /// Report the key as not granted and continue; needs [`Capabilities::skip_locked`].
    Skip,
}

/// Result of a lock call for one key.
#[derive(Clone, Copy, Debug)]
pub struct Locked<'a> {
    /// False only with [`Wait::Skip`]; then the other fields are meaningless.
    pub granted: bool,
    /// The value: the own write if there is one, else the newest committed.
    pub value: Option<&'a [u8]>,
    /// Whether the newest committed version, which may be a deletion, is newer than the
    /// transaction's snapshot. False without a snapshot.
    pub newer: bool,
    /// Whether `value` is an own write (`None` for an own deletion).
    pub own: bool,
}

/// Conflict check of a write at commit. If any of several writes to one key has
/// [`Check::FirstCommitter`], the key is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// No check: the caller holds a lock on this key (update or exclusive).
    Locked,
    /// The key must not have changed since the snapshot. The commit itself takes
    /// an exclusive lock on the key first, and waits for its holder; without
    /// a snapshot there is nothing to compare.
    FirstCommitter,
    /// No check: the key is covered by the lock of another key (an entry of a non-unique index, a
    /// chunk of an overflow value).
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

/// Options of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// The isolation.
    pub isolation: Isolation,
    /// Whether the commit is synced even in `interval` mode (DDL).
    pub sync: bool,
    /// Handle that cancels its waits.
    pub cancel: Cancel,
}

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// A reply that reveals this commit waits until this position is durable. For a transaction
    /// without writes, the newest commit it saw.
    pub position: CommitPosition,
}

/// Optional features of an engine.
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
    /// [`Txn::prepare`].
    pub prepare: bool,
    /// [`Txn::annotate`].
    pub annotations: bool,
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

/// Durability mode of a server: the time at which commits count as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the sync that covers them is done.
    Sync,
    /// At once; the log is synced at least this often.
    Interval(Duration),
    /// At once; rows are never written to disk.
    Memory,
}

/// A listener for the progress of the log. Called by the log thread; must not wait.
pub trait DurableListener: Send + Sync {
    /// Everything up to `position` is durable.
    fn durable(&self, position: CommitPosition);
    /// Nothing beyond the present durable position will become durable: deferred replies that wait
    /// for more have an unknown outcome.
    fn failed(&self, error: &crate::Error);
}

/// One metric of an engine.
#[derive(Clone, Debug)]
pub struct Stat {
    /// snake_case, without prefix; counters end in `_total`.
    pub name: &'static str,
    /// One line of explanation.
    pub help: &'static str,
    /// Whether it is a counter, not a gauge.
    pub counter: bool,
    /// The present value.
    pub value: u64,
}

/// The durations of one kind of work of an engine.
#[derive(Clone, Debug)]
pub struct Durations {
    /// The work, in snake_case, without prefix.
    pub name: &'static str,
    /// One line of explanation.
    pub help: &'static str,
    /// Their distribution.
    pub counts: Counts,
    /// Their sum in nanoseconds.
    pub nanos: u64,
}

/// A transactional, ordered, multi-version store.
pub trait Engine: Send + Sync {
    /// A short name for messages ("embedded", "tikv").
    fn name(&self) -> &'static str;

    /// Its optional features.
    fn capabilities(&self) -> Capabilities;

    /// The sizes it accepts.
    fn limits(&self) -> Limits;

    /// Begins a transaction. No snapshot is taken yet: the first read that needs
    /// one, [`Txn::refresh`] or [`Txn::pin`] does it.
    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>>;

    /// Creates spaces durably, outside of any transaction. At the next start, `rows` drops spaces
    /// that no committed catalog row refers to.
    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>>;

    /// Drops spaces with their contents. Transactions that still use them get
    /// [`crate::Error::NoSuchSpace`]. Dropping an absent space is not an error.
    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()>;

    /// Returns the prepared transactions that the engine found when it was opened, each once. Their
    /// locks are held from the opening on.
    fn take_restored(&self) -> Result<Vec<Box<dyn PreparedTxn>>> {
        Ok(Vec::new())
    }

    /// All spaces from [`SpaceId::FIRST_FREE`] on.
    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>>;

    /// Reserves `count` (at least 1) consecutive ids of `counter`, the first of which is not below
    /// `at_least`. Counters begin at 1. An id is never returned twice, even after a crash. Fails
    /// with [`crate::Error::Full`] if fewer than `count` are left below `u64::MAX`.
    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>>;

    /// Returns the unused end of a reserved range to the counter. Returns false if another range
    /// was reserved after it; then the ids are lost.
    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool>;

    /// The next id, without reserving it.
    fn next_id(&self, counter: CounterId) -> Result<u64>;

    /// Sets the next id, upwards or downwards (ALTER TABLE ... AUTO_INCREMENT).
    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()>;

    /// Position up to which all commits are durable. An atomic load.
    fn durable_position(&self) -> CommitPosition;

    /// Position of the newest commit, durable or not. A snapshot taken once it is durable shows
    /// every commit that had returned before this call.
    fn newest_position(&self) -> CommitPosition {
        self.durable_position()
    }

    /// Waits until `position` is durable. For callers that cannot defer a reply.
    fn wait_durable(&self, position: CommitPosition) -> Result<()>;

    /// Registers a listener for the progress of the log, permanently.
    fn subscribe(&self, listener: Arc<dyn DurableListener>);

    /// Switches on or off whether commits with an annotation wait for [`Engine::acknowledge`]. Until they are acknowledged,
    /// neither they nor later commits count as durable: no snapshot shows them and no reply reveals them.
    /// Commits that are on disk when it is switched on do not wait; switching it off releases all. Needs
    /// [`Capabilities::annotations`].
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    fn require_acknowledgement(&self, on: bool) -> Result<()> {
        if on {
            return Err(Error::Unsupported("acknowledgement of commits"));
        }
        Ok(())
    }

    /// Acknowledges the commits with an annotation up to this number ([`crate::Annotation::commit`]).
    fn acknowledge(&self, commit: u64) {
        let _ = commit;
    }

    /// Whether commits wait for acknowledgements at present.
    fn holds_commits_back(&self) -> bool {
        false
    }

    /// Ends the waits for acknowledgements before a shutdown: the outcome of the waiting commits is unknown.
    fn abandon_acknowledgement(&self) {}

    /// Opens the reader of annotations at a position that an earlier reader had; 0 for the oldest that
    /// are kept. Needs [`Capabilities::annotations`].
    fn annotations(&self, position: u64) -> Result<Box<dyn AnnotationReader>> {
        let _ = position;
        Err(Error::Unsupported("annotations of commits"))
    }

    /// Approximate number of keys in these spaces together, for planning; `None` if the count would
    /// be expensive. Costs no round trip.
    fn approximate_keys(&self, _spaces: &[SpaceId]) -> Option<u64> {
        None
    }

    /// Bytes of keys and values in these spaces together, older versions included; `None` if the
    /// engine does not count them. Costs no round trip.
    fn approximate_bytes(&self, _spaces: &[SpaceId]) -> Option<u64> {
        None
    }

    /// The present lock waits. Empty for engines that do not track them, which do not report
    /// deadlocks either.
    fn lock_waits(&self) -> Vec<LockWait> {
        Vec::new()
    }

    /// Registers a listener for deadlocks, permanently.
    fn subscribe_deadlocks(&self, listener: Arc<dyn DeadlockListener>) {
        drop(listener);
    }

    /// Sets the spaces that foreign keys reference: key-share locks are requested for keys of these spaces only. Called before
    /// a new definition is used. An engine without shared locks emulates key-share locks for these keys.
    fn set_referenced_spaces(&self, spaces: HashSet<SpaceId>) {
        drop(spaces);
    }

    /// Begins a transaction that does not depend on this server's lease: to read the definitions before
    /// one is granted.
    fn begin_unfenced(&self) -> Result<Box<dyn Txn>> {
        self.begin(TxnOptions::default())
    }

    /// The means to coordinate several servers over this store; `None` if only one can use it.
    fn coordination(&self) -> Option<&dyn Coordination> {
        None
    }

    /// Values for the metrics page.
    fn stats(&self) -> Vec<Stat>;

    /// Distributions of durations for the metrics page.
    fn durations(&self) -> Vec<Durations> {
        Vec::new()
    }

    /// One message for each background thread that makes no progress. Never waits; for health
    /// checks.
    fn stalled(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes exact counters, syncs, and stops background work. Later calls fail.
    fn shutdown(&self) -> Result<()>;
}

/// Visitor of [`Txn::scan`]: gets the range's index, key and value; may end the scan.
pub type ScanVisitor<'v> = dyn FnMut(usize, &[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Implements [`Txn::count`] by a scan.
///
/// # Errors
/// The errors of the scan.
pub fn count_by_scan<T: Txn + ?Sized>(
    txn: &mut T,
    read: Read,
    ranges: &[ScanRange<'_>],
    limit: usize,
) -> Result<(usize, ScanEnd)> {
    let mut counted = 0;
    let end = txn.scan(read, ranges, limit, &mut |_, _, _| {
        counted += 1;
        ControlFlow::Continue(())
    })?;
    Ok((counted, end))
}

/// A transaction. Not shared between threads; may move between them.
///
/// Visitors must not call the engine, wait, or keep references to their arguments.
pub trait Txn: Send {
    /// Takes a new snapshot, unless it is pinned.
    fn refresh(&mut self) -> Result<()>;

    /// As [`Txn::refresh`], but a snapshot that is up to `staleness` old will do if the engine has one without a
    /// request. It shows every commit that this engine had reported before the call, and is not older than any state
    /// that was read through this engine's snapshots.
    fn refresh_within(&mut self, staleness: Duration) -> Result<()> {
        let _ = staleness;
        self.refresh()
    }

    /// Pins the present snapshot, or a new one if there is none, until the end of the transaction.
    fn pin(&mut self) -> Result<()>;

    /// Whether the snapshot is pinned.
    fn pinned(&self) -> bool;

    /// Tracks reads from the snapshot from now on, for [`Txn::advance`]. No effect after the first
    /// read from the snapshot.
    fn track_reads(&mut self) {}

    /// Refreshes a pinned snapshot if all keys, absent keys and ranges read from it are unchanged:
    /// a transaction that began now would have read the same. Returns false, and keeps the
    /// snapshot, if something changed or the engine cannot tell.
    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Calls the visitor once per key, in any order, with the key's index and its value or `None`.
    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// Scans the ranges one after the other, with at most `limit` (at least 1) entries in all. The
    /// visitor gets range index, key and value, and may end the scan. Keys without a visible value
    /// are not visited, so the scan itself passes an interrupt checkpoint
    /// (`porpoise_base::interrupt`) at every thousand of them, and fails with
    /// [`crate::Error::Cancelled`] if the statement was cancelled.
    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd>;

    /// Visits the first entry, in the order of the scan, of each range that has one. The visitor's
    /// result is ignored.
    fn first_entries(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        let mut last = None;
        self.scan(read, ranges, usize::MAX, &mut |range, key, value| {
            if last.replace(range) != Some(range) {
                let _ = visit(range, key, value);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Counts the entries that [`Txn::scan`] would visit. Returns their number, and where the scan
    /// would have ended.
    fn count(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
    ) -> Result<(usize, ScanEnd)> {
        count_by_scan(self, read, ranges, limit)
    }

    /// Locks the keys in (space, key) order, whatever their order in the call, and passes each
    /// one's newest value to the visitor. After an error, locks granted by this call may stay held.
    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()>;

    /// Releases locks first taken since `since` on keys that turned out to be irrelevant and were
    /// not written: undoes one [`Txn::lock`] call per key, and releases the lock with the last one.
    /// An engine may ignore it.
    fn unlock(&mut self, keys: &[Key<'_>], since: StatementMark);

    /// Number of reads tracked so far, for validation at commit or for [`Txn::advance`]: a position
    /// for [`Txn::untrack_reads`]. Always 0 on engines that track nothing.
    fn tracked_reads(&self) -> usize {
        0
    }

    /// Forgets the reads tracked since a position: those of a discarded run of a statement that
    /// restarts at a newer snapshot.
    fn untrack_reads(&mut self, from: usize) {
        let _ = from;
    }

    /// Buffers a write.
    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()>;

    /// Buffers a write to a key that this transaction has not written before (writes that were rolled back do not count):
    /// engines need not look for an earlier write. They may also expect, for speed only, that the key has no committed value.
    fn put_new(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.put(key, value, check)
    }

    /// Announces this number of writes; engines may make room for them.
    fn reserve_writes(&mut self, writes: usize) {
        let _ = writes;
    }

    /// Buffers a deletion. The deletion of an absent key is checked like any write, and changes
    /// nothing.
    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()>;

    /// The present end of the write set.
    fn mark(&self) -> StatementMark;

    /// Rolls back the writes since `mark`; keeps locks.
    fn rollback_to(&mut self, mark: StatementMark);

    /// Whether there are writes that were not rolled back.
    fn has_writes(&self) -> bool;

    /// Sets the bytes that are stored with the commit of this transaction, also if it is prepared
    /// first; see [`AnnotationReader`]. Needs [`Capabilities::annotations`].
    fn annotate(&mut self, annotation: Vec<u8>) -> Result<()> {
        let _ = annotation;
        Err(Error::Unsupported("annotations of commits"))
    }

    /// The newest commit that current reads and lock grants of this transaction have seen. A reply
    /// that reveals it must wait for it.
    fn seen(&self) -> CommitPosition;

    /// Commits. After an error nothing has changed, except after
    /// [`crate::Error::UnknownOutcome`]. Locks are released in every case.
    fn commit(self: Box<Self>) -> Result<Commit>;

    /// Rolls the transaction back.
    fn rollback(self: Box<Self>);

    /// Whether [`Txn::restart`] and [`Txn::commit_and_restart`] begin another transaction with the same options in place of
    /// this one, which costs less than a new one.
    fn restarts(&self) -> bool {
        false
    }

    /// Ends a transaction that holds no locks and has no writes, and begins another one in its place. Returns false if it
    /// has some, or if the engine does not do this: then the transaction goes on, and the caller ends it.
    fn restart(&mut self) -> bool {
        false
    }

    /// Commits, and begins another transaction in its place, whether or not the commit succeeds. To be called only if
    /// [`Txn::restarts`] returns true.
    fn commit_and_restart(&mut self) -> Result<Commit> {
        Err(Error::Unsupported("transactions that begin again"))
    }

    /// Prepares the transaction: the first phase of a two-phase commit. Whatever can refuse its
    /// commit is checked now, and its writes and locks are stored with `name` (at most
    /// [`MAX_PREPARED_NAME`] bytes) and `note`, in every durability mode that writes commits to
    /// disk. After an error nothing has changed, except after [`crate::Error::UnknownOutcome`], and
    /// the transaction is rolled back. [`crate::Error::LockBusy`] if a prepared transaction has
    /// this name. Needs [`Capabilities::prepare`].
    fn prepare(self: Box<Self>, name: &[u8], note: &[u8]) -> Result<Box<dyn PreparedTxn>>;
}

/// Longest name of a prepared transaction, in bytes.
pub const MAX_PREPARED_NAME: usize = 1024;

/// A prepared transaction. It keeps its locks, and no commit of another transaction changes the keys
/// and ranges that it validated, until it is committed or rolled back, also across restarts.
///
/// Dropping it releases its locks; what is stored remains, and is found when the engine is opened
/// again. So a server holds it until the engine is shut down.
pub trait PreparedTxn: Send {
    /// The name given to [`Txn::prepare`].
    fn name(&self) -> &[u8];

    /// The note given to [`Txn::prepare`].
    fn note(&self) -> &[u8];

    /// A reply that reveals that the transaction is prepared waits until this position is durable.
    fn position(&self) -> CommitPosition;

    /// Commits it, synced as its preparation was. After an error it is still prepared, except after
    /// [`crate::Error::UnknownOutcome`].
    fn commit(&mut self) -> Result<Commit>;

    /// Rolls it back, synced as its preparation was. After an error it is still prepared, except
    /// after [`crate::Error::UnknownOutcome`].
    fn rollback(&mut self) -> Result<Commit>;
}
