//! Prepared transactions (transactions.md, rule 53).
//!
//! ```text
//! prepare    compared keys locked and compared | sequencer: reads validated, then protected;
//!            image of writes, locks and reads committed | writes freed, locks kept
//! commit     writes read from the image | sequencer: writes and the deletion of the image committed;
//!            reads no longer protected | locks released
//! rollback   sequencer: deletion of the image committed | locks released
//! ```
//!
//! The image is rows of [`SpaceId::PREPARED`], so that log, checkpoints and recovery know nothing of
//! prepared transactions. When a store is opened, each image becomes a transaction that holds its locks.
//!
//! Invariants:
//! 1. The image exists exactly as long as the transaction is prepared: one commit applies the writes and
//!    deletes it.
//! 2. A transaction holds an exclusive lock on the first key of its image, so that no other transaction can take its
//!    name.
//! 3. Nothing but the disk refuses the end of a prepared transaction: its keys are locked, its reads
//!    validated and protected, and its memory was accounted with the image.
//!
//! Writes to spaces that are not logged are kept in memory instead of the image, for these spaces are
//! empty after a restart.
//!
//! Rejected: a log record of its own (a checkpoint would have to contain the transactions whose record
//! it makes superfluous); keeping the writes in memory beside the image.

use super::MemTxn;
use crate::codec::{Malformed, Reader};
use crate::image::{
    ImageWriter, Item, PREPARED_FORMAT_VERSION, chunk_key, read_head, read_item, split_chunk_key,
};
use crate::log::annotations;
use crate::protected::Protected;
use crate::record::InlineKey;
use crate::state::EngineState;
use crate::validate::ReadSet;
use crate::writes::{FinalWrites, WriteSet};
use porpoise_kv::{
    Check, Commit, CommitPosition, Error, Key, LockMode, MAX_PREPARED_NAME, PreparedTxn, Result,
    SpaceId, TxnOptions, Wait,
};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Stage of a transaction, which decides what the sequencer checks.
#[derive(Default)]
pub(super) enum Stage {
    #[default]
    Active,
    /// The commit of the image has not passed the commit point.
    Preparing(Box<Protected>),
    Prepared,
}

/// A write to a space that is not logged.
struct UnloggedWrite {
    space: SpaceId,
    key: InlineKey,
    value: Option<Box<[u8]>>,
    check: Check,
}

/// A prepared transaction.
pub(crate) struct MemPrepared {
    txn: MemTxn,
    name: Vec<u8>,
    note: Vec<u8>,
    /// Number of chunks of the image.
    chunks: u32,
    unlogged: Vec<UnloggedWrite>,
    position: CommitPosition,
}

fn corrupt(name: &[u8], what: &str) -> Error {
    let name = name.escape_ascii();
    Error::Corrupt(format!("prepared transaction \"{name}\": {what}"))
}

impl MemTxn {
    /// Prepares the transaction.
    pub(super) fn prepare_now(mut self, name: &[u8], note: &[u8]) -> Result<MemPrepared> {
        if name.len() > MAX_PREPARED_NAME {
            let (what, size, limit) = ("name", name.len(), MAX_PREPARED_NAME);
            return Err(Error::TooLarge { what, size, limit });
        }
        let state = self.state.clone();
        state.check_writable()?;
        self.lock_name(name)?;
        let writes = std::mem::take(&mut self.writes).into_final();
        self.lock_compared(&state, &writes)?;
        if writes.is_empty() {
            // No write depends on its reads, so they need no protection.
            self.reads = ReadSet::default();
        }
        let (chunks, unlogged) = self.encode_image(note, &writes)?;
        // The image contains the annotation, which belongs to the second phase, not to the commit of the image.
        self.annotation = Vec::new();
        let protected = self.protected(&writes);
        let image: usize = chunks.iter().map(Vec::len).sum();
        self.make_room(image + protected.bytes())?;
        self.stage = Stage::Preparing(Box::new(protected));
        let mut image = WriteSet::default();
        let mut count = 0;
        for chunk in &chunks {
            let key = chunk_key(name, count);
            let key = Key::new(SpaceId::PREPARED, &key);
            image.push(key, Some(chunk), Check::Blind);
            count += 1;
        }
        drop((writes, chunks));
        let (ts, position) = self.apply(&state, image.into_final())?;
        self.end_snapshot();
        self.end_anchor();
        self.pinned = false;
        self.reads = ReadSet::default();
        // From here on a KILL of the session that prepared it has no effect on it.
        self.options = TxnOptions::default();
        self.options.cancel.set_txn(self.id);
        let position = self.synced(ts, position)?;
        Ok(MemPrepared {
            txn: self,
            name: name.to_vec(),
            note: note.to_vec(),
            chunks: count,
            unlogged,
            position,
        })
    }

    /// Locks the first key of the image. Fails if another transaction has the name.
    fn lock_name(&mut self, name: &[u8]) -> Result<()> {
        let key = chunk_key(name, 0);
        let record = self.lock_key(SpaceId::PREPARED, &key, LockMode::Exclusive, Wait::NoWait)?;
        let guard = crossbeam_epoch::pin();
        let newest = record.as_ref().and_then(|record| record.newest(&guard));
        if newest.is_some_and(|version| version.value().is_some()) {
            return Err(Error::LockBusy);
        }
        Ok(())
    }

    /// Locks and compares the keys that were written without a lock.
    fn lock_compared(&mut self, state: &EngineState, writes: &FinalWrites) -> Result<()> {
        let mut wait = None;
        let compared = writes.iter().filter(|w| w.check == Check::FirstCommitter);
        for write in compared {
            let wait =
                *wait.get_or_insert_with(|| Wait::Until(state.clock.now() + state.lock_wait));
            self.lock_and_compare(write.key(), wait)?;
        }
        Ok(())
    }

    /// Encodes locks, validated reads and logged writes; returns the other writes.
    fn encode_image(
        &self,
        note: &[u8],
        writes: &FinalWrites,
    ) -> Result<(Vec<Vec<u8>>, Vec<UnloggedWrite>)> {
        let mut image = ImageWriter::new(note);
        let spaces = &self.state.store.spaces;
        for held in self.held.iter().filter(|h| h.space != SpaceId::PREPARED) {
            let mode = held.record.latch().lock.held_mode(self.id);
            let key = Key::new(held.space, held.record.key());
            if let Some(mode) = mode.filter(|_| is_logged(&self.state, held.space)) {
                image.push(&Item::Lock(key, mode));
            }
        }
        for read in self.reads.validated() {
            image.push(&Item::Read(read.clone()));
        }
        let annotation = if writes.is_empty() {
            &[]
        } else {
            &*self.annotation
        };
        for (key, part) in annotations::parts(annotation) {
            let key = Key::new(SpaceId::ANNOTATIONS, &key);
            image.push(&Item::Write(key, Some(part), Check::Blind));
        }
        let mut unlogged = Vec::new();
        for write in writes.iter() {
            let check = match write.check {
                Check::FirstCommitter | Check::Locked => Check::Locked,
                Check::Blind => Check::Blind,
            };
            if spaces.get(write.space)?.is_logged() {
                image.push(&Item::Write(write.key(), write.value(), check));
            } else {
                unlogged.push(UnloggedWrite {
                    space: write.space,
                    key: write.key.clone(),
                    value: write.value().map(Box::from),
                    check,
                });
            }
        }
        Ok((image.finish(), unlogged))
    }

    /// Keys and ranges that are protected until the end.
    fn protected(&self, writes: &FinalWrites) -> Protected {
        Protected {
            txn: self.id,
            reads: self.reads.validated().cloned().collect(),
            writes: writes.iter().map(|w| (w.space, w.key.clone())).collect(),
        }
    }

    /// Waits for the disk if commits are acknowledged before they are on it. Returns the position for
    /// replies.
    fn synced(&self, ts: u64, position: u64) -> Result<CommitPosition> {
        self.state.pipeline.watermark.notify_requested();
        if let Some(log) = &self.state.log
            && log.logs_rows()
            && log.acknowledges_before_sync()
        {
            log.wait_synced(position)?;
        }
        let position = ts.max(self.seen);
        self.state.pipeline.watermark.request(position);
        Ok(CommitPosition(position))
    }

    /// Reads the stored items and applies `visit` to them. Returns the note and the number of chunks.
    fn read_image(
        state: &EngineState,
        name: &[u8],
        visit: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<(Vec<u8>, u32)> {
        let space = state.store.spaces.get(SpaceId::PREPARED)?;
        let malformed = |Malformed| corrupt(name, "malformed image");
        let (mut note, mut count) = (Vec::new(), 0);
        loop {
            let Some(record) = space.index.get(&chunk_key(name, count)) else {
                break;
            };
            let guard = crossbeam_epoch::pin();
            let Some(chunk) = record.newest(&guard).and_then(|version| version.value()) else {
                break;
            };
            let mut reader = Reader(chunk);
            if count == 0 {
                let (version, found, rest) = read_head(chunk).map_err(malformed)?;
                if version != PREPARED_FORMAT_VERSION {
                    let what =
                        format!("format {version}; this server reads {PREPARED_FORMAT_VERSION}");
                    return Err(corrupt(name, &what));
                }
                (note, reader) = (found.to_vec(), rest);
            }
            while let Some(item) = read_item(&mut reader).map_err(malformed)? {
                visit(item)?;
            }
            count += 1;
        }
        if count == 0 {
            return Err(corrupt(name, "the image is missing"));
        }
        Ok((note, count))
    }
}

fn is_logged(state: &EngineState, space: SpaceId) -> bool {
    state
        .store
        .spaces
        .find(space)
        .is_some_and(|s| s.is_logged())
}

impl MemPrepared {
    /// Rebuilds the transactions whose images a store contains.
    pub(crate) fn restore_all(state: &Arc<EngineState>) -> Result<Vec<MemPrepared>> {
        let space = state.store.spaces.get(SpaceId::PREPARED)?;
        let mut found: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut damaged = None;
        let guard = crossbeam_epoch::pin();
        let all = (Bound::Unbounded, Bound::Unbounded);
        space
            .index
            .walk(all.0, all.1, false, usize::MAX, &guard, |record| {
                let exists = record.newest(&guard).is_some_and(|v| v.value().is_some());
                if exists {
                    match split_chunk_key(record.key()) {
                        Ok((name, _)) => *found.entry(name.to_vec()).or_default() += 1,
                        Err(Malformed) => damaged = Some(corrupt(record.key(), "malformed key")),
                    }
                }
                ControlFlow::Continue(())
            });
        drop(guard);
        if let Some(error) = damaged {
            return Err(error);
        }
        let restored: Result<Vec<MemPrepared>> = found
            .into_iter()
            .map(|(name, chunks)| MemPrepared::restore(state, name, chunks))
            .collect();
        let restored = restored?;
        if !restored.is_empty() {
            let count = restored.len() as u64;
            tracing::info!(count, "prepared transactions restored");
        }
        Ok(restored)
    }

    fn restore(state: &Arc<EngineState>, name: Vec<u8>, chunks: u32) -> Result<MemPrepared> {
        let mut txn = MemTxn::new(state.clone(), TxnOptions::default());
        txn.lock_key(
            SpaceId::PREPARED,
            &chunk_key(&name, 0),
            LockMode::Exclusive,
            Wait::NoWait,
        )?;
        let mut protected = Protected {
            txn: txn.id,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        let read = MemTxn::read_image(state, &name, &mut |item| {
            match item {
                // A dropped space needs no locks.
                Item::Lock(key, mode) => {
                    match txn.lock_key(key.space, key.bytes, mode, Wait::NoWait) {
                        Ok(_) | Err(Error::NoSuchSpace(_)) => {}
                        Err(error) => return Err(corrupt(&name, &error.to_string())),
                    }
                }
                Item::Read(read) => protected.reads.push(read),
                Item::Write(key, ..) if key.space == SpaceId::ANNOTATIONS => {}
                Item::Write(key, ..) => protected
                    .writes
                    .push((key.space, InlineKey::from_slice(key.bytes))),
            }
            Ok(())
        });
        let (note, count) = read?;
        if count != chunks {
            return Err(corrupt(&name, "a part of the image is missing"));
        }
        let mut seq = state.pipeline.lock();
        seq.protected.add(protected, &state.store);
        drop(seq);
        txn.stage = Stage::Prepared;
        Ok(MemPrepared {
            txn,
            name,
            note,
            chunks,
            unlogged: Vec::new(),
            position: CommitPosition::NONE,
        })
    }

    /// Reads the transaction's writes from its image.
    fn load_writes(&mut self) -> Result<()> {
        let (writes, annotation) = (&mut self.txn.writes, &mut self.txn.annotation);
        annotation.clear();
        MemTxn::read_image(&self.txn.state, &self.name, &mut |item| {
            match item {
                Item::Write(key, value, _) if key.space == SpaceId::ANNOTATIONS => {
                    annotation.extend_from_slice(value.unwrap_or_default());
                }
                Item::Write(key, value, check) => writes.push(key, value, check),
                Item::Lock(..) | Item::Read(_) => {}
            }
            Ok(())
        })?;
        for write in &self.unlogged {
            let key = Key::new(write.space, &write.key);
            writes.push(key, write.value.as_deref(), write.check);
        }
        Ok(())
    }

    fn end(&mut self, commits: bool) -> Result<Commit> {
        self.txn.check_not_ended()?;
        self.txn.state.check_writable()?;
        self.txn.writes = WriteSet::default();
        self.txn.annotation = Vec::new();
        if commits {
            self.load_writes()?;
        }
        for number in 0..self.chunks {
            let key = chunk_key(&self.name, number);
            let key = Key::new(SpaceId::PREPARED, &key);
            self.txn.writes.push(key, None, Check::Blind);
        }
        let writes = std::mem::take(&mut self.txn.writes).into_final();
        let state = self.txn.state.clone();
        let (ts, position) = self.txn.apply(&state, writes)?;
        self.txn.stage = Stage::Active;
        self.txn.end();
        let position = self.txn.synced(ts, position)?;
        Ok(Commit { position })
    }
}

impl PreparedTxn for MemPrepared {
    fn name(&self) -> &[u8] {
        &self.name
    }

    fn note(&self) -> &[u8] {
        &self.note
    }

    fn position(&self) -> CommitPosition {
        self.position
    }

    fn commit(&mut self) -> Result<Commit> {
        self.end(true)
    }

    fn rollback(&mut self) -> Result<Commit> {
        self.end(false)
    }
}
