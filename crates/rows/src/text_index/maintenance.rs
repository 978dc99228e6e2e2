//! Maintenance of FULLTEXT indexes: moves pending documents to blocks, merges blocks, and forgets
//! removed documents.
//!
//! It runs in transactions of its own, on the thread of a commit or search that finds it due: so
//! writers that produce work faster than it is done are slowed down, and no thread is needed.
//! Each transaction holds the exclusive lock of the index's state, and gives up at once if another
//! one has it.
//!
//! * *Merge*: a bounded number of pending documents become a *batch* of blocks. It is due when the
//!   pending documents are large, or when searches have read many of them.
//! * *Compaction*: all blocks are read in their order. Blocks of a word that are not full are
//!   merged in place, without the postings of removed documents; then removals go that were there
//!   before the first block was read, unless their rows have new documents. It is due when as many
//!   bytes were merged as were there before (so its cost is spread over the merges), or when a
//!   quarter of the documents is removed.
//!
//! A commit does not depend on the outcome: what fails is tried again later.
//!
//! A removal can be deleted once all blocks were read: its row's older documents are in no block then,
//! and no later merge finds one pending, because the transaction that wrote the removal deleted it.

use super::builder::TextBuilder;
use super::entries::{
    BLOCKS, Block, FULL_BLOCK, PENDING_DOCUMENTS, Posting, REMOVALS, Removal, STATE_KEY, State,
    begin_block, push_posting, split_pending_key, word_of_block,
};
use super::words::{TextIndex, checkpoint};
use crate::error::Result;
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use porpoise_kv::{
    self as kv, Check, Engine, Key, LockMode, LockRequest, Read, ScanEnd, ScanRange, SpaceId,
    TxnOptions, Wait, prefix_end,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of pending documents from which they are merged.
const PENDING_LIMIT: u64 = 8 << 20;

/// Bytes of pending documents that a merge reads at most: several times the limit, because a large
/// batch has less blocks than several small ones.
const MERGE_BYTES: usize = 32 << 20;

/// Bytes of pending documents that searches read before they are merged.
const SEARCHED_BYTES: u64 = 64 << 20;

/// Removals from which an index can be compacted.
const LEAST_REMOVALS: u64 = 1_000;

/// Batches of the usual size from which an index can be compacted.
const LEAST_RECENT_BYTES: u64 = 8 * PENDING_LIMIT;

/// Bytes of blocks that a transaction of a compaction reads.
const COMPACTION_BYTES: usize = 8 << 20;

/// Removals deleted in one transaction.
const REMOVAL_BATCH: usize = 1_000;

/// Work that is due for an index, as far as this process knows.
#[derive(Debug, Default)]
struct Load {
    /// Bytes of pending documents written since the last merge.
    pending: AtomicU64,
    /// Bytes of pending documents that searches have read since the last merge.
    searched: AtomicU64,
    /// Removals written since the last compaction.
    removed: AtomicU64,
    /// Number of removals from which a compaction is due.
    removal_limit: AtomicU64,
    running: Mutex<()>,
}

impl Load {
    fn is_due(&self) -> bool {
        self.pending.load(Ordering::Relaxed) >= PENDING_LIMIT
            || self.searched.load(Ordering::Relaxed) >= SEARCHED_BYTES
            || self.has_many_removals()
    }

    fn has_many_removals(&self) -> bool {
        let limit = self.removal_limit.load(Ordering::Relaxed);
        self.removed.load(Ordering::Relaxed) >= limit.max(LEAST_REMOVALS)
    }
}

/// A transaction's work on an index, or that of a search.
#[derive(Clone, Debug)]
pub(crate) struct TextChange {
    pub(crate) space: SpaceId,
    pub(crate) index: Arc<TextIndex>,
    /// Bytes of pending documents written.
    pub(crate) pending: u64,
    /// Bytes of pending documents read.
    pub(crate) searched: u64,
    /// Removals written.
    pub(crate) removed: u64,
}

/// The work that is due for all FULLTEXT indexes.
#[derive(Debug, Default)]
pub(crate) struct TextMaintenance {
    loads: Mutex<HashMap<SpaceId, Arc<Load>>>,
}

impl TextMaintenance {
    /// Takes note of a change, and does the work that is due by it.
    pub(crate) fn note(&self, engine: &dyn Engine, change: &TextChange) {
        let load = self.loads.lock().entry(change.space).or_default().clone();
        load.pending.fetch_add(change.pending, Ordering::Relaxed);
        load.searched.fetch_add(change.searched, Ordering::Relaxed);
        load.removed.fetch_add(change.removed, Ordering::Relaxed);
        if !load.is_due() {
            return;
        }
        let Some(_running) = load.running.try_lock() else {
            return;
        };
        let maintainer = Maintainer::new(engine, &change.index, change.space);
        let done = porpoise_base::blocking::blocking(|| maintainer.run(&load));
        match done {
            Ok(()) => {}
            Err(crate::Error::Kv(kv::Error::NoSuchSpace(_))) => {
                self.loads.lock().remove(&change.space);
            }
            Err(error) => {
                tracing::debug!(%error, "a FULLTEXT index could not be maintained now");
            }
        }
    }
}

/// Merges all pending documents of an index, and compacts it: OPTIMIZE TABLE.
///
/// # Errors
/// The engine's; a cancellation.
pub(crate) fn optimize(engine: &dyn Engine, index: &TextIndex, space: SpaceId) -> Result<()> {
    let maintainer = Maintainer::new(engine, index, space);
    while maintainer.merge()? == Merged::Full {}
    maintainer.compact()
}

/// Outcome of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    /// Others maintain the index.
    Busy,
    /// More documents may be pending.
    Full,
    /// No documents are pending, but those written meanwhile.
    All,
}

/// Maintains an index.
struct Maintainer<'m> {
    engine: &'m dyn Engine,
    index: &'m TextIndex,
    space: SpaceId,
    /// Bytes that a merge reads at most, and a transaction of a compaction.
    merge_bytes: usize,
    compaction_bytes: usize,
}

/// Keys and values.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows with the generation up to which their documents are removed.
type Removed = HashMap<Vec<u8>, u64>;

impl<'m> Maintainer<'m> {
    fn new(engine: &'m dyn Engine, index: &'m TextIndex, space: SpaceId) -> Maintainer<'m> {
        Maintainer {
            engine,
            index,
            space,
            merge_bytes: MERGE_BYTES,
            compaction_bytes: COMPACTION_BYTES,
        }
    }

    fn run(&self, load: &Load) -> Result<()> {
        let merges = load.pending.load(Ordering::Relaxed) >= PENDING_LIMIT
            || load.searched.load(Ordering::Relaxed) >= SEARCHED_BYTES;
        if merges {
            load.pending.store(0, Ordering::Relaxed);
            load.searched.store(0, Ordering::Relaxed);
            while self.merge()? == Merged::Full {}
        }
        let Some((txn, state)) = self.begin()? else {
            return Ok(());
        };
        txn.rollback();
        let limit = LEAST_REMOVALS + state.documents / 4;
        load.removal_limit.store(limit, Ordering::Relaxed);
        let grown = state.recent_bytes >= state.compacted_bytes.max(LEAST_RECENT_BYTES);
        if grown || load.has_many_removals() {
            load.removed.store(0, Ordering::Relaxed);
            self.compact()?;
        }
        Ok(())
    }

    /// The wait policy of a lock that others may have: none, as far as the engine can.
    fn wait(&self) -> Wait {
        if self.engine.capabilities().nowait {
            Wait::NoWait
        } else {
            Wait::Until(Instant::now())
        }
    }

    /// Begins a transaction that may write blocks; `None` if there is another one.
    fn begin(&self) -> Result<Option<(Box<dyn kv::Txn>, State)>> {
        let mut txn = self.engine.begin(TxnOptions::default())?;
        let mut state = Ok(State::default());
        let request = LockRequest {
            key: Key::new(self.space, STATE_KEY),
            mode: LockMode::Exclusive,
        };
        let locked = txn.lock(&[request], self.wait(), &mut |_, locked| {
            state = State::decode(locked.value);
        });
        match locked {
            Ok(()) => Ok(Some((txn, state?))),
            Err(kv::Error::LockBusy | kv::Error::LockTimeout) => {
                txn.rollback();
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads entries from a key up to the end of those that begin with `prefix`: up to a number of
    /// bytes. Returns them, and where the next ones begin.
    fn read(
        &self,
        txn: &mut dyn kv::Txn,
        prefix: &[u8],
        from: &[u8],
        most: usize,
    ) -> Result<(Entries, Option<Vec<u8>>)> {
        checkpoint()?;
        let (mut entries, mut bytes) = (Entries::new(), 0);
        let end = prefix_end(prefix);
        let range = ScanRange {
            space: self.space,
            start: from,
            end: end.as_deref(),
            reverse: false,
        };
        let end = txn.scan(Read::CURRENT, &[range], usize::MAX, &mut |_, key, value| {
            bytes += key.len() + value.len();
            entries.push((key.to_vec(), value.to_vec()));
            if bytes < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(match end {
            ScanEnd::Done => (entries, None),
            ScanEnd::Stopped { mut key, .. } => {
                key.push(0);
                (entries, Some(key))
            }
        })
    }

    /// Puts pending documents into blocks.
    fn merge(&self) -> Result<Merged> {
        let Some((mut txn, mut state)) = self.begin()? else {
            return Ok(Merged::Busy);
        };
        let start = PENDING_DOCUMENTS;
        let (documents, rest) = self.read(txn.as_mut(), start, start, self.merge_bytes)?;
        if documents.is_empty() {
            txn.rollback();
            return Ok(Merged::All);
        }
        let mut builder = TextBuilder::new(self.index);
        for (key, document) in &documents {
            let (primary, generation) = split_pending_key(key)?;
            builder.add_pending(primary, generation, document)?;
            txn.delete(Key::new(self.space, key), Check::Blind)?;
        }
        state.documents += builder.documents();
        write_batch(&mut builder, txn.as_mut(), self.space, &mut state)?;
        txn.put(
            Key::new(self.space, STATE_KEY),
            &state.encode(),
            Check::Locked,
        )?;
        txn.commit()?;
        Ok(if rest.is_some() {
            Merged::Full
        } else {
            Merged::All
        })
    }

    /// Merges blocks, and forgets removed documents.
    fn compact(&self) -> Result<()> {
        let Some((mut txn, _)) = self.begin()? else {
            return Ok(());
        };
        let (removals, _) = self.read(txn.as_mut(), REMOVALS, REMOVALS, usize::MAX)?;
        txn.rollback();
        let mut removed = Removed::with_capacity(removals.len());
        for (key, value) in &removals {
            let row = Removal::row_of(key)?.to_vec();
            removed.insert(row, Removal::decode(value)?.generation);
        }
        let mut next = Some(BLOCKS.to_vec());
        let mut bytes = 0;
        while let Some(from) = next.take() {
            let Some((mut txn, _)) = self.begin()? else {
                return Ok(());
            };
            let (blocks, rest) = self.read(txn.as_mut(), BLOCKS, &from, self.compaction_bytes)?;
            for word in blocks.chunk_by(|a, b| word_of_block(&a.0).ok() == word_of_block(&b.0).ok())
            {
                checkpoint()?;
                bytes += self.compact_word(txn.as_mut(), word, &removed)?;
            }
            txn.commit()?;
            next = rest;
        }
        self.forget(&removals)?;
        self.finish_compaction(bytes, removals.len() as u64)
    }

    /// Merges some blocks of a word, in place. Returns the bytes that they have then.
    fn compact_word(
        &self,
        txn: &mut dyn kv::Txn,
        blocks: &[(Vec<u8>, Vec<u8>)],
        removed: &Removed,
    ) -> Result<u64> {
        let before: usize = blocks.iter().map(|(_, value)| value.len()).sum();
        let full = before.div_ceil(FULL_BLOCK);
        if removed.is_empty() && blocks.len() <= full {
            return Ok(before as u64);
        }
        let mut postings = CollectedPostings::default();
        let mut dropped = false;
        let mut word: &[u8] = &[];
        for (_, value) in blocks {
            let block = Block::decode(value, self.index.keeps_words())?;
            word = block.word;
            let mut primary = std::mem::take(&mut postings.scratch);
            block.each(&mut primary, &mut |posting| {
                let removal = removed.get(posting.primary);
                if removal.is_some_and(|upto| posting.generation <= *upto) {
                    dropped = true;
                } else {
                    postings.add(&posting);
                }
                Ok(())
            })?;
            postings.scratch = primary;
        }
        let word = self.index.keeps_words().then_some(word);
        let merged = postings.blocks(word);
        if merged.len() > blocks.len() || !dropped && merged.len() == blocks.len() {
            return Ok(before as u64);
        }
        for (n, (key, _)) in blocks.iter().enumerate() {
            let key = Key::new(self.space, key);
            match merged.get(n) {
                Some(block) => txn.put(key, block, Check::Blind)?,
                None => txn.delete(key, Check::Blind)?,
            }
        }
        Ok(merged.iter().map(|block| block.len() as u64).sum())
    }

    /// Deletes removals that have not changed, and whose rows have no newer document. Those that
    /// writers have locked stay.
    fn forget(&self, removals: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let wait = if self.engine.capabilities().skip_locked {
            Wait::Skip
        } else {
            self.wait()
        };
        for batch in removals.chunks(REMOVAL_BATCH) {
            checkpoint()?;
            let mut dead = Vec::with_capacity(batch.len());
            for (key, value) in batch {
                if !Removal::decode(value)?.live {
                    dead.push((Key::new(self.space, key), value.as_slice()));
                }
            }
            let mode = LockMode::Exclusive;
            let requests = dead.iter().map(|(key, _)| LockRequest { key: *key, mode });
            let requests: Vec<LockRequest<'_>> = requests.collect();
            let mut unchanged = Vec::with_capacity(dead.len());
            let mut txn = self.engine.begin(TxnOptions::default())?;
            let locked = txn.lock(&requests, wait, &mut |n, locked| {
                let known = dead
                    .get(n)
                    .filter(|(_, value)| locked.value == Some(*value));
                unchanged.extend(known.filter(|_| locked.granted).map(|(key, _)| *key));
            });
            match locked {
                Ok(()) => {}
                // An engine that cannot leave out single locks: all of them stay.
                Err(kv::Error::LockBusy | kv::Error::LockTimeout) => continue,
                Err(error) => return Err(error.into()),
            }
            for key in unchanged {
                txn.delete(key, Check::Locked)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn finish_compaction(&self, bytes: u64, removed: u64) -> Result<()> {
        let Some((mut txn, mut state)) = self.begin()? else {
            return Ok(());
        };
        state.documents = state.documents.saturating_sub(removed);
        state.compacted_bytes = bytes;
        state.recent_bytes = 0;
        txn.put(
            Key::new(self.space, STATE_KEY),
            &state.encode(),
            Check::Locked,
        )?;
        txn.commit()?;
        Ok(())
    }
}

/// Writes a builder's blocks as the next batch.
///
/// # Errors
/// The engine's.
pub(crate) fn write_batch(
    builder: &mut TextBuilder<'_>,
    txn: &mut dyn kv::Txn,
    space: SpaceId,
    state: &mut State,
) -> Result<()> {
    let batch = state.next_batch;
    state.next_batch = batch.saturating_add(1);
    builder.finish(batch, &mut |key, block| {
        state.recent_bytes += block.len() as u64;
        Ok(txn.put(Key::new(space, key), block, Check::Blind)?)
    })
}

/// The postings of some blocks of a word.
#[derive(Default)]
struct CollectedPostings {
    bytes: Vec<u8>,
    /// Of each posting the range of its row's key, its generation, and the end of its places, which
    /// are after the key.
    list: Vec<(usize, usize, u64, usize)>,
    scratch: Vec<u8>,
}

impl CollectedPostings {
    fn add(&mut self, posting: &Posting<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(posting.primary);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(posting.places);
        self.list
            .push((start, end, posting.generation, self.bytes.len()));
    }

    /// Makes blocks of the postings, by the keys of their rows.
    fn blocks(&mut self, word: Option<&[u8]>) -> Vec<Vec<u8>> {
        let bytes = &self.bytes;
        let slice = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
        self.list
            .sort_by(|a, b| (slice(a.0, a.1), a.2).cmp(&(slice(b.0, b.1), b.2)));
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut before = None;
        for (start, end, generation, places_end) in &self.list {
            if blocks.last().is_none_or(|block| block.len() >= FULL_BLOCK) {
                let mut block = Vec::new();
                begin_block(word, &mut block);
                blocks.push(block);
                before = None;
            }
            let posting = Posting {
                primary: slice(*start, *end),
                generation: *generation,
                places: slice(*end, *places_end),
            };
            if let Some(block) = blocks.last_mut() {
                push_posting(before, &posting, block);
            }
            before = Some(posting.primary);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::FullText;
    use crate::text_index::entries::pending_key;
    use porpoise_kv::SpaceSpec;
    use porpoise_kv::model::Model;
    use porpoise_types::Collation;
    use std::borrow::Cow;

    /// An engine with an index of rows 0 to 99, each pending: row `n` has the words of `n`.
    fn pending(index: &TextIndex) -> (Arc<dyn Engine>, SpaceId) {
        let engine: Arc<dyn Engine> = Arc::new(Model::new());
        let space = engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        for n in 0..100_u8 {
            let text = format!("common word{} last{n}", n % 7);
            let mut document = Vec::new();
            index
                .append_document(&[Cow::Owned(text)], &mut document)
                .unwrap();
            let key = pending_key(&[n], 0);
            txn.put(Key::new(space, &key), &document, Check::Blind)
                .unwrap();
        }
        txn.commit().unwrap();
        (engine, space)
    }

    /// Rows of each word, in the order of blocks.
    fn blocks(maintainer: &Maintainer<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut txn = maintainer.engine.begin(TxnOptions::default()).unwrap();
        let read = maintainer.read(txn.as_mut(), BLOCKS, BLOCKS, usize::MAX);
        let mut found = Vec::new();
        for (key, value) in read.unwrap().0 {
            let mut rows = Vec::new();
            let block = Block::decode(&value, false).unwrap();
            let mut visit = |posting: Posting<'_>| {
                rows.push(posting.primary[0]);
                Ok(())
            };
            block.each(&mut Vec::new(), &mut visit).unwrap();
            found.push((word_of_block(&key).unwrap().to_vec(), rows));
        }
        found
    }

    #[test]
    fn small_steps_lead_to_the_same_blocks() {
        let index = TextIndex::of_words(&FullText::default(), Collation::UTF8MB4_0900_AI_CI);
        let (engine, space) = pending(&index);
        let mut maintainer = Maintainer::new(engine.as_ref(), &index, space);
        maintainer.merge_bytes = 1_000;
        maintainer.compaction_bytes = 200;
        let mut merges = 0;
        while maintainer.merge().unwrap() == Merged::Full {
            merges += 1;
        }
        assert!((3..20).contains(&merges), "{merges}");
        let (_, state) = maintainer.begin().unwrap().unwrap();
        assert_eq!((state.documents, state.next_batch), (100, merges + 1));
        // Each merge has made a block for each of the frequent words.
        let before = blocks(&maintainer);
        assert!(before.len() > 100 + 8 * 3, "{}", before.len());
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        let removal = Removal {
            generation: 0,
            live: false,
        };
        for row in 0..50 {
            let key = Removal::key(&[row]);
            let key = Key::new(space, &key);
            txn.put(key, &removal.encode(), Check::Blind).unwrap();
        }
        txn.commit().unwrap();
        maintainer.compact().unwrap();
        let after = blocks(&maintainer);
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (word, rows) in before {
            let left = rows.into_iter().filter(|row| *row >= 50);
            match expected.last_mut().filter(|last| last.0 == word) {
                Some(last) => last.1.extend(left),
                None => expected.push((word, left.collect())),
            }
        }
        expected.retain(|(_, rows)| !rows.is_empty());
        // A step may end between blocks of one word.
        let merged = after.chunk_by(|a, b| a.0 == b.0).map(|blocks| {
            let rows = blocks.iter().flat_map(|(_, rows)| rows.clone());
            (blocks[0].0.clone(), rows.collect::<Vec<u8>>())
        });
        assert_eq!(merged.collect::<Vec<_>>(), expected);
        assert!(after.len() < expected.len() + 8, "{}", after.len());
        let (_, state) = maintainer.begin().unwrap().unwrap();
        assert_eq!((state.documents, state.recent_bytes), (50, 0));
        assert!(state.compacted_bytes > 0);
    }

    #[test]
    fn removals_that_have_changed_stay() {
        let index = TextIndex::of_words(&FullText::default(), Collation::UTF8MB4_0900_AI_CI);
        let (engine, space) = pending(&index);
        let maintainer = Maintainer::new(engine.as_ref(), &index, space);
        let removal = |generation| Removal {
            generation,
            live: false,
        };
        let key = Removal::key(&[1]);
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        let now = removal(1).encode();
        txn.put(Key::new(space, &key), &now, Check::Blind).unwrap();
        txn.commit().unwrap();
        let left = || {
            let mut txn = engine.begin(TxnOptions::default()).unwrap();
            let read = maintainer.read(txn.as_mut(), REMOVALS, REMOVALS, usize::MAX);
            read.unwrap().0.len()
        };
        let before = removal(0).encode();
        maintainer.forget(&[(key.clone(), before)]).unwrap();
        assert_eq!(left(), 1);
        maintainer.forget(&[(key.clone(), now)]).unwrap();
        assert_eq!(left(), 0);
    }

    #[test]
    fn only_one_transaction_writes_blocks() {
        let index = TextIndex::of_words(&FullText::default(), Collation::UTF8MB4_0900_AI_CI);
        let (engine, space) = pending(&index);
        let maintainer = Maintainer::new(engine.as_ref(), &index, space);
        let (txn, _) = maintainer.begin().unwrap().unwrap();
        assert_eq!(maintainer.merge().unwrap(), Merged::Busy);
        maintainer.compact().unwrap();
        txn.rollback();
        assert_eq!(maintainer.merge().unwrap(), Merged::All);
    }
}
