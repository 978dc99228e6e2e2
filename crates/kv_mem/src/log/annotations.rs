//! Annotations of commits: how they are stored in the log, retained and read.
//!
//! An annotation is written as the first writes of its transaction's record or chunks, to the keys 0, 1, ... of
//! [`SpaceId::ANNOTATIONS`], each a part of at most [`PART_BYTES`]. Recovery skips these writes: they create no
//! rows. The reader follows the log thread through the segments, by the same functions as an archive.
//!
//! ```text
//! segments   | released | returned, kept for a restart | not yet read |
//!                       ^ released                     ^ cursor       ^ synced
//! ```
//!
//! Invariants:
//! 1. A segment with an annotation after `released` is not removed, whatever a checkpoint contains, also on a
//!    full disk.
//! 2. The reader's position is not above the first chunk of a transaction whose commit it has not read.
//! 3. Nothing above the synced position is returned.
//! 4. No lost wake-up: the reader raises `is_waiting`, then reads `synced`; the log thread stores `synced`, then
//!    reads `is_waiting`. All four are SeqCst.
//!
//! Rejected: a queue in memory between commits and the reader (it needs a bound, at which commits would wait, and
//! another way for what a restart finds).

use super::copy::{LogCopy, LogCursor};
use super::format::{Record, get_write, put_write};
use super::{Log, first_needed};
use crate::codec::{Malformed, Reader};
use porpoise_base::blocking::blocking;
use porpoise_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use porpoise_base::sync::{Condvar, Mutex};
use porpoise_kv::{Annotation, AnnotationReader, Error, Result, SpaceId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest part of an annotation, in bytes.
const PART_BYTES: usize = 1 << 20;

/// Retention of annotations, and the wait of their reader.
#[derive(Default)]
pub(crate) struct AnnotationState {
    /// Position before which nothing is needed any more.
    released: AtomicU64,
    is_waiting: AtomicBool,
    lock: Mutex<()>,
    synced: Condvar,
}

impl AnnotationState {
    /// Position from which the log is needed.
    pub(super) fn needed_from(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    /// Wakes the reader. Called by the log thread after each sync.
    pub(super) fn notify(&self) {
        if self.is_waiting.load(Ordering::SeqCst) {
            let _lock = self.lock.lock();
            self.synced.notify_all();
        }
    }
}

/// The parts of an annotation, with their keys.
pub(crate) fn parts(annotation: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let parts = annotation.chunks(PART_BYTES).enumerate();
    parts.map(|(n, part)| ((n as u32).to_be_bytes(), part))
}

/// Appends a part as a write.
pub(crate) fn put_part(out: &mut Vec<u8>, key: &[u8], part: &[u8]) {
    put_write(out, SpaceId::ANNOTATIONS, key, Some(part));
}

/// Appends the parts at the beginning of encoded writes.
fn take_parts(writes: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Malformed> {
    let mut reader = Reader(writes);
    while !reader.is_empty() {
        let write = get_write(&mut reader)?;
        if write.space != SpaceId::ANNOTATIONS {
            break;
        }
        out.extend_from_slice(write.value.unwrap_or_default());
    }
    Ok(())
}

/// Finds the annotated commits in records of a log, in their order.
#[derive(Default)]
pub struct AnnotationScanner {
    /// The first bytes of annotations of transactions with chunks whose commit was not read yet, by tag.
    pending: BTreeMap<u64, Vec<u8>>,
    /// Bytes of each annotation that are kept; the rest is left out.
    limit: usize,
}

impl AnnotationScanner {
    /// A scanner that keeps at most `limit` bytes of each annotation.
    #[must_use]
    pub fn new(limit: usize) -> AnnotationScanner {
        AnnotationScanner {
            pending: BTreeMap::new(),
            limit,
        }
    }

    /// The annotated commits in the records of a group.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are not records.
    pub fn group(&mut self, records: &[u8]) -> Result<Vec<Annotation>> {
        let mut found = Vec::new();
        let mut reader = Reader(records);
        while !reader.is_empty() {
            let record = Record::decode(&mut reader);
            let taken = record.and_then(|record| self.record(&record, &mut found));
            taken.map_err(|Malformed| Error::Corrupt("a log record is malformed".to_owned()))?;
        }
        Ok(found)
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        found: &mut Vec<Annotation>,
    ) -> std::result::Result<(), Malformed> {
        let (commit, mut bytes, writes) = match record {
            Record::Commit { ts, writes } => (*ts, Vec::new(), writes),
            Record::Chunk { tag, writes } => {
                let bytes = self.pending.entry(*tag).or_default();
                take_parts(writes, bytes)?;
                bytes.truncate(self.limit);
                return Ok(());
            }
            Record::ChunkedCommit {
                ts, tag, writes, ..
            } => (*ts, self.pending.remove(tag).unwrap_or_default(), writes),
            _ => return Ok(()),
        };
        take_parts(writes, &mut bytes)?;
        bytes.truncate(self.limit);
        if !bytes.is_empty() {
            found.push(Annotation { commit, bytes });
        }
        Ok(())
    }
}

/// The reader of a log.
pub(crate) struct LogAnnotations {
    log: Arc<Log>,
    state: Arc<AnnotationState>,
    copy: LogCopy,
    scanner: AnnotationScanner,
    /// Tags of pending transactions that have no live transaction, each with the end of the log at which that was found: a
    /// commit of it is before that.
    ended: BTreeMap<u64, u64>,
}

impl LogAnnotations {
    pub(crate) fn open(log: Arc<Log>, position: u64) -> Result<LogAnnotations> {
        let Some(state) = log.annotations.clone() else {
            return Err(Error::Unsupported("annotations: it was opened without"));
        };
        let end = log.synced_to();
        if position > end {
            return Err(Error::Corrupt(format!(
                "annotations were read up to position {position} of the log, which ends at {end}: it is the log of another store, or an older copy"
            )));
        }
        let position = position.max(log.first_position());
        let Some(copy) = log.copy_from(LogCursor::at(position))? else {
            return Err(Error::Corrupt(format!(
                "log segments with annotations from position {position} on were removed"
            )));
        };
        state.released.fetch_max(position, Ordering::SeqCst);
        Ok(LogAnnotations {
            log,
            state,
            copy,
            scanner: AnnotationScanner::new(usize::MAX),
            ended: BTreeMap::new(),
        })
    }

    /// Forgets chunks of transactions that will never commit.
    fn forget_ended(&mut self) {
        if self.scanner.pending.is_empty() {
            return;
        }
        let at = self.copy.cursor().position();
        let seq = self.log.pipeline.lock();
        let (live, appended) = (&seq.log.chunked, seq.log.appended);
        let pending = &mut self.scanner.pending;
        for tag in pending.keys().filter(|tag| !live.contains_key(tag)) {
            self.ended.entry(*tag).or_insert(appended);
        }
        drop(seq);
        self.ended.retain(|tag, end| {
            let is_over = *end <= at;
            if is_over {
                pending.remove(tag);
            }
            !is_over && pending.contains_key(tag)
        });
    }
}

impl AnnotationReader for LogAnnotations {
    fn read(&mut self, max_bytes: usize) -> Result<Vec<Annotation>> {
        self.copy.extend(&self.log)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes {
            let Some(group) = self.copy.next_group()? else {
                self.forget_ended();
                break;
            };
            let mut reader = Reader(&group.records);
            while !reader.is_empty() {
                let before = found.len();
                let record = Record::decode(&mut reader);
                let taken = record.and_then(|record| self.scanner.record(&record, &mut found));
                taken.map_err(|Malformed| {
                    let at = group.start;
                    Error::Corrupt(format!("a log record behind position {at} is malformed"))
                })?;
                bytes += found.get(before).map_or(0, |a: &Annotation| a.bytes.len());
            }
        }
        Ok(found)
    }

    fn wait(&mut self, timeout: Duration) {
        let (log, state) = (&self.log, &self.state);
        blocking(|| {
            let mut lock = state.lock.lock();
            state.is_waiting.store(true, Ordering::SeqCst);
            if log.synced_to() <= self.copy.cursor().position() {
                state.synced.wait_for(&mut lock, timeout);
            }
            state.is_waiting.store(false, Ordering::SeqCst);
        });
    }

    fn position(&self) -> u64 {
        let cursor = self.copy.cursor().position();
        // A tag is the position of the transaction's first chunk, plus one.
        let first = self.scanner.pending.keys().next().map(|tag| tag - 1);
        first.map_or(cursor, |first| first.min(cursor))
    }

    fn release(&mut self, position: u64) {
        let position = position.min(self.position());
        self.state.released.fetch_max(position, Ordering::SeqCst);
    }
}

impl LogCopy {
    /// Continues the copy up to what is durable now.
    fn extend(&mut self, log: &Log) -> Result<()> {
        let segments = log.segments.lock();
        self.set_end(log.synced_to());
        let from = match self.last_segment() {
            Some(number) => segments.partition_point(|(known, _)| *known <= number),
            None => first_needed(&segments, self.cursor().position()),
        };
        for (number, _) in segments.iter().skip(from) {
            self.push_segment(log, *number)?;
        }
        Ok(())
    }
}
