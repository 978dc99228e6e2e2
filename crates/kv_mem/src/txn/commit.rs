//! The commit of a transaction.
//!
//! 1. Keys that are written without a lock are locked in order and compared with the snapshot (first
//!    committer wins).
//! 2. Records of all keys are found or created; the log record is encoded.
//! 3. Under the sequencer: tracked reads are validated, the commit gets the next timestamp, its record
//!    is appended to the log buffer (the commit point), its versions are installed. The versions of a
//!    large write set are installed after the sequencer was released; snapshots and validation wait for
//!    them, other commits do not.
//! 4. The watermark advances as far as it may; the locks are released before the commit is on disk
//!    (early lock release; Johnson et al., "Aether: A Scalable Approach to Logging", 2010;
//!    transactions.md, 19).
//!
//! Invariants:
//! 1. Timestamps are in the order of the log.
//! 2. Nothing but the disk can fail after the commit point.
//! 3. Locks are released after the versions are installed.

use super::prepare::Stage;
use super::{HeldLock, MemTxn};
use crate::index::BATCH;
use crate::log::Log;
use crate::log::annotations;
use crate::log::format::{
    COMMIT_HEAD, Record as LogRecord, begin_commit, end_commit, put_write, write_size,
    write_timestamp,
};
use crate::pipeline::Sequencer;
use crate::reclaim::Item;
use crate::record::{NewVersion, RecordRef};
use crate::space::Space;
use crate::state::EngineState;
use crate::writes::FinalWrites;
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering as MemoryOrdering;
use porpoise_kv::{Check, Commit, CommitPosition, Error, Key, LockMode, Result, Wait};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;

/// Number of versions up to which a commit installs them under the sequencer.
const SMALL: usize = 64;

/// Number of locks up to which they are searched for a key one by one.
const FEW_LOCKS: usize = 16;

/// Approximate size in bytes of the chunks in which a large write set goes to the log.
const CHUNK: usize = 1 << 20;

/// Versions to be installed; up to two are stored inline.
type Installs<'s> = SmallVec<[Install<'s>; 2]>;

/// A version to be installed.
struct Install<'s> {
    space: &'s Space,
    record: RecordRef,
    deletion: bool,
    /// The version, until it is installed.
    version: Option<NewVersion>,
}

impl MemTxn {
    pub(crate) fn commit_now(&mut self) -> Result<Commit> {
        let state = self.state.clone();
        let writes = std::mem::take(&mut self.writes);
        let grows = writes.bytes();
        let writes = writes.into_final();
        if writes.is_empty() {
            return Ok(self.read_only_outcome());
        }
        state.check_writable()?;
        if writes.iter().any(|w| w.value().is_some()) {
            self.make_room(grows)?;
        }
        let (ts, position) = self.apply(&state, writes)?;
        if ts == 0 {
            return Ok(self.read_only_outcome());
        }
        let watermark = &state.pipeline.watermark;
        watermark.notify_requested();
        if let (true, Some(log)) = (self.options.sync, &state.log)
            && log.logs_rows()
        {
            log.wait_synced(position)?;
        }
        let position = CommitPosition(ts.max(self.seen));
        watermark.request(position.0);
        Ok(Commit { position })
    }

    /// Runs the commit of these writes up to and including the installation. Returns the timestamp,
    /// or 0 if nothing changes, and the position after the record.
    pub(super) fn apply(&mut self, state: &EngineState, writes: FinalWrites) -> Result<(u64, u64)> {
        let mut installs = Installs::with_capacity(writes.len());
        let sequenced = self.resolve_and_sequence(state, writes, &mut installs);
        if sequenced.is_err() {
            // Removes the records that this commit has created; locked ones are removed with their locks.
            let guard = crossbeam_epoch::pin();
            for install in &installs {
                let store = &state.store;
                store.unlink_if_unused(install.space.id, &install.record, &guard);
            }
        }
        sequenced
    }

    fn read_only_outcome(&self) -> Commit {
        self.state.pipeline.watermark.request(self.seen);
        Commit {
            position: CommitPosition(self.seen),
        }
    }

    /// As [`MemTxn::apply`]; the resolved writes stay in `installs`.
    fn resolve_and_sequence<'s>(
        &mut self,
        state: &'s EngineState,
        writes: FinalWrites,
        installs: &mut Installs<'s>,
    ) -> Result<(u64, u64)> {
        self.resolve(state, writes, installs)?;
        if installs.is_empty() {
            return self.validate_alone(state).map(|()| (0, 0));
        }
        let annotation = std::mem::take(&mut self.annotation);
        let mut logged = Logged::encode(state, &annotation, installs)?;
        self.sequence(state, installs, &mut logged)
    }

    /// Locks and compares keys that were written without a lock, and finds the records. Drops
    /// deletions of absent keys.
    fn resolve<'s>(
        &mut self,
        state: &'s EngineState,
        mut writes: FinalWrites,
        installs: &mut Installs<'s>,
    ) -> Result<()> {
        let mut wait = None;
        let mut next_held = 0;
        let mut at = 0;
        while let Some(write) = writes.get(at) {
            let space = state.store.spaces.get(write.space)?;
            let values = blind_values(&writes, at);
            if values > 1 {
                put_all(state, space, &mut writes, at..at + values, installs);
                at += values;
                continue;
            }
            at += 1;
            let record = match write.check {
                Check::FirstCommitter => {
                    let until = || Wait::Until(state.clock.now() + state.lock_wait);
                    let wait = *wait.get_or_insert_with(until);
                    self.lock_and_compare(write.key(), wait)?
                }
                Check::Locked => self.find_held(write.key(), &mut next_held),
                // Created below if it is missing.
                Check::Blind if write.value().is_some() => None,
                Check::Blind => space.index.get(&write.key),
            };
            let deletion = write.value().is_none();
            if deletion {
                let guard = crossbeam_epoch::pin();
                let newest = record.as_ref().and_then(|record| record.newest(&guard));
                if newest.is_none_or(|version| version.value().is_none()) {
                    continue;
                }
            }
            let record = record.unwrap_or_else(|| state.store.get_or_create(space, &write.key));
            installs.push(Install {
                space,
                record,
                deletion,
                version: writes.take_version(at - 1),
            });
        }
        Ok(())
    }

    /// Locks a key that was written without a lock. Fails if it is newer than the snapshot.
    pub(super) fn lock_and_compare(
        &mut self,
        key: Key<'_>,
        wait: Wait,
    ) -> Result<Option<RecordRef>> {
        let record = self.lock_key(key.space, key.bytes, LockMode::Exclusive, wait)?;
        if let (Some(record), Some(snapshot)) = (&record, self.snapshot_ts()) {
            let guard = crossbeam_epoch::pin();
            if record.newest(&guard).is_some_and(|v| v.ts() > snapshot) {
                return Err(Error::Conflict);
            }
            self.check_snapshots()?;
        }
        Ok(record)
    }

    /// Validates reads when there is nothing to write: a deletion that turned out to have no effect
    /// may have been reported as effective.
    fn validate_alone(&self, state: &EngineState) -> Result<()> {
        if !self.reads.validates() {
            return Ok(());
        }
        let pipeline = &state.pipeline;
        let _seq = pipeline.wait_installed(pipeline.lock());
        let guard = crossbeam_epoch::pin();
        self.reads.validate(&state.store.spaces, &guard)?;
        self.check_snapshots()
    }

    /// Returns the record of a key that this transaction has locked. Both the locks of a statement and
    /// the requested keys are in order, so that the search continues at `next`.
    fn find_held(&self, key: Key<'_>, next: &mut usize) -> Option<RecordRef> {
        while let Some(held) = self.held.get(*next) {
            match Key::new(held.space, held.record.key()).cmp(&key) {
                Ordering::Less => *next += 1,
                Ordering::Equal => {
                    *next += 1;
                    return Some(held.record.clone());
                }
                Ordering::Greater => break,
            }
        }
        if self.held.len() <= FEW_LOCKS {
            let is = |h: &&HeldLock| h.space == key.space && h.record.key() == key.bytes;
            if let Some(held) = self.held.iter().rev().find(is) {
                return Some(held.record.clone());
            }
            debug_assert!(false, "a write without its lock");
        }
        self.state
            .store
            .spaces
            .find(key.space)?
            .index
            .get(key.bytes)
    }

    /// Passes the commit point. Returns the timestamp, and the position after the record.
    fn sequence(
        &mut self,
        state: &EngineState,
        installs: &mut [Install<'_>],
        logged: &mut Logged<'_>,
    ) -> Result<(u64, u64)> {
        let pipeline = &state.pipeline;
        let mut seq = pipeline.lock();
        loop {
            if let Some(log) = &state.log {
                seq = log.reserve(seq, logged.record.len())?;
            }
            if !self.reads.validates() || seq.inflight.is_empty() {
                break;
            }
            seq = pipeline.wait_installed(seq);
        }
        let guard = crossbeam_epoch::pin();
        if self.reads.validates() {
            self.reads.validate(&state.store.spaces, &guard)?;
            // The snapshots were not expired, so validation has seen every deletion that it needs.
            self.check_snapshots()?;
        }
        for install in installs.iter() {
            if install.space.is_dropped() {
                return Err(Error::NoSuchSpace(install.space.id));
            }
        }
        state.check_writable()?;
        self.check_protected(&seq, installs)?;
        let ts = seq.last_ts + 1;
        let position = logged.append(&mut seq, ts);
        self.pass_stage(&mut seq);
        seq.last_ts = ts;
        if logged.is_annotated {
            seq.note_annotated(ts);
        }
        state.metrics.commits.add(1);
        state.store.versions_created.add(installs.len() as u64);
        for install in installs.iter() {
            install.space.last_commit.store(ts, MemoryOrdering::Release);
        }
        let small = installs.len() <= SMALL;
        if small && seq.inflight.is_empty() {
            install_all(state, installs, ts, &guard);
            pipeline.set_installed(ts);
        } else {
            seq.inflight.push_back((ts, false));
            drop(seq);
            install_all(state, installs, ts, &guard);
            seq = pipeline.lock();
            pipeline.finish(&mut seq, ts);
        }
        pipeline.publish(&seq);
        Ok((ts, position))
    }
}

impl MemTxn {
    /// Fails if the commit would change what prepared transactions have validated.
    fn check_protected(&self, seq: &Sequencer, installs: &[Install<'_>]) -> Result<()> {
        if seq.protected.is_empty() {
            return Ok(());
        }
        match &self.stage {
            Stage::Active => {
                let installs = installs.iter();
                seq.protected
                    .check_commit(installs.map(|i| Key::new(i.space.id, i.record.key())))
            }
            Stage::Preparing(protected) => seq.protected.check_prepare(protected),
            Stage::Prepared => Ok(()),
        }
    }

    /// Enters the next stage at the commit point.
    fn pass_stage(&mut self, seq: &mut Sequencer) {
        match std::mem::take(&mut self.stage) {
            Stage::Active => {}
            Stage::Preparing(protected) => {
                seq.protected.add(*protected, &self.state.store);
                self.stage = Stage::Prepared;
            }
            Stage::Prepared => seq.protected.remove(self.id, &self.state.store),
        }
    }
}

/// The encoded record of a commit; its timestamp is filled in later.
struct Logged<'s> {
    log: Option<&'s Log>,
    /// Empty if the commit is not logged.
    record: Vec<u8>,
    /// Whether the record has an annotation.
    is_annotated: bool,
    /// The tag of its chunks, or 0.
    tag: u64,
    /// Number of chunks.
    chunks: u64,
}

impl<'s> Logged<'s> {
    /// Encodes the annotation and the logged writes. Appends a large write set to the log in chunks
    /// ahead of the commit.
    fn encode(
        state: &'s EngineState,
        annotation: &[u8],
        installs: &[Install<'_>],
    ) -> Result<Logged<'s>> {
        let mut logged = Logged {
            log: state.log.as_deref(),
            record: Vec::new(),
            is_annotated: false,
            tag: 0,
            chunks: 0,
        };
        let Some(log) = logged.log.filter(|log| log.logs_rows()) else {
            return Ok(logged);
        };
        let due = || {
            installs
                .iter()
                .filter(|install| install.space.is_logged())
                .map(|install| {
                    let value = install.version.as_ref().and_then(NewVersion::value);
                    (install, value)
                })
        };
        let size = due().map(|(install, value)| write_size(install.record.key(), value));
        // Writes are encoded directly into the record.
        let annotated =
            annotations::parts(annotation).map(|(key, part)| write_size(&key, Some(part)));
        let size = COMMIT_HEAD + annotated.sum::<usize>() + size.sum::<usize>();
        let mut record = Vec::with_capacity(size.min(CHUNK * 2));
        begin_commit(&mut record);
        logged.is_annotated = !annotation.is_empty();
        for (key, part) in annotations::parts(annotation) {
            annotations::put_part(&mut record, &key, part);
            logged.append_full_chunk(log, &mut record)?;
        }
        for (install, value) in due() {
            put_write(&mut record, install.space.id, install.record.key(), value);
            logged.append_full_chunk(log, &mut record)?;
        }
        let writes = record.get(COMMIT_HEAD..).unwrap_or_default();
        if logged.tag > 0 {
            let chunked = LogRecord::ChunkedCommit {
                ts: 0,
                tag: logged.tag,
                chunks: logged.chunks,
                writes,
            };
            chunked.encode(&mut logged.record);
        } else if !writes.is_empty() {
            end_commit(&mut record);
            logged.record = record;
        }
        Ok(logged)
    }

    /// Appends the writes encoded so far as a chunk, if they are large enough for one.
    #[inline]
    fn append_full_chunk(&mut self, log: &Log, record: &mut Vec<u8>) -> Result<()> {
        if record.len() >= CHUNK {
            let writes = record.get(COMMIT_HEAD..).unwrap_or_default();
            self.tag = log.append_chunk(self.tag, writes)?;
            self.chunks += 1;
            record.truncate(COMMIT_HEAD);
        }
        Ok(())
    }

    /// Appends the record, and returns the position after it.
    fn append(&mut self, seq: &mut Sequencer, ts: u64) -> u64 {
        let Some(log) = self.log else {
            return 0;
        };
        if self.record.is_empty() {
            // Nothing is logged, but the watermark still has to pass this commit.
            log.wake_thread(seq);
            return seq.log.appended;
        }
        write_timestamp(&mut self.record, ts);
        seq.log.commits += 1;
        let position = log.append(seq, &self.record);
        if self.tag > 0 {
            log.end_chunks(seq, self.tag, position);
            self.tag = 0;
        }
        position
    }
}

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        if let (Some(log), 1..) = (self.log, self.tag) {
            log.forget_chunks(&mut log.pipeline.lock(), self.tag);
        }
    }
}

/// Number of consecutive writes from a position on, up to [`BATCH`], that put values to keys of one space without holding a
/// lock.
fn blind_values(writes: &FinalWrites, at: usize) -> usize {
    let Some(first) = writes.get(at) else {
        return 0;
    };
    let following = (at..at + BATCH).map_while(|at| writes.get(at));
    let values = following.take_while(|write| {
        write.check == Check::Blind && write.space == first.space && write.value().is_some()
    });
    values.count()
}

/// Finds or creates the records of values that are written without a lock to keys of one space.
fn put_all<'s>(
    state: &'s EngineState,
    space: &'s Space,
    writes: &mut FinalWrites,
    range: Range<usize>,
    installs: &mut Installs<'s>,
) {
    let keys = range.clone().filter_map(|at| writes.get(at));
    let keys: SmallVec<[&[u8]; BATCH]> = keys.map(|write| write.key.as_slice()).collect();
    let mut records = SmallVec::new();
    let guard = crossbeam_epoch::pin();
    let store = &state.store;
    store.get_or_create_all(space, &keys, |_| None, &guard, &mut records);
    drop(keys);
    for (at, record) in range.zip(records) {
        installs.push(Install {
            space,
            record,
            deletion: false,
            version: writes.take_version(at),
        });
    }
}

/// Pushes all versions to their chains, and queues records with superseded versions for the
/// reclaimer.
fn install_all(state: &EngineState, installs: &mut [Install<'_>], ts: u64, guard: &Guard) {
    let mut weight = 0;
    let mut last: Option<&Space> = None;
    let mut superseded: SmallVec<[Item; 4]> = SmallVec::new();
    for install in installs {
        let Some(version) = install.version.take() else {
            continue;
        };
        let mut latch = install.record.latch_packed();
        while latch.is_dead() {
            drop(latch);
            state.store.unlink(install.space, &install.record);
            install.record = state
                .store
                .get_or_create(install.space, install.record.key());
            latch = install.record.latch_packed();
        }
        let (bytes, over_older) = latch.push(ts, version, guard);
        if let Some(before) = last.replace(install.space)
            && before.id != install.space.id
        {
            state.store.add_space_bytes(before, weight);
            weight = 0;
        }
        weight += bytes as i64;
        if (over_older || install.deletion) && latch.enqueue() {
            drop(latch);
            superseded.push(Item {
                space: install.space.id,
                record: install.record.clone(),
            });
        }
    }
    if let Some(space) = last {
        state.store.add_space_bytes(space, weight);
    }
    if !superseded.is_empty() {
        state.reclaimer.add(superseded);
    }
}
