//! Writes groups of records to the open segment, and begins new segments.
//!
//! Invariants:
//! 1. A segment is in the head file before its first group is written (transactions.md, 52), and begins
//!    after everything before it is synced.
//! 2. The header of a group names the last group that was durable when it was written (transactions.md, 22).
//!    With several syncs in flight that need not be the group before it.
//! 3. Each log thread syncs a segment through a handle of its own, opened before the first group is
//!    written. Linux reports a failed write-back once to each open handle: of two threads with one handle,
//!    one would not learn of it.

use super::format::{
    Group, LOG_FORMAT_VERSION, SEGMENT_HEADER, SegmentHeader, group_len, record_len,
};
use super::{Log, SpareFile, head, io_error, segment_name};
use porpoise_base::disk::File;
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::{Error, Result};
use std::sync::Arc;

/// Maximum size of a group in bytes, unless it is a single record.
pub(super) const MAX_GROUP_BYTES: usize = 4 << 20;

/// The open segment.
pub(crate) struct LogWriter {
    file: Arc<dyn File>,
    /// Further handles of the file, for the log threads from the second on.
    more_handles: Vec<Arc<dyn File>>,
    header: SegmentHeader,
    /// Offset of the next group in the file.
    at: u64,
    /// Bytes of the file that have blocks allocated.
    len: u64,
    /// Position of the next record.
    position: u64,
    /// Number of the next group.
    next_group: u64,
    /// Number of the group after the last empty group. Groups before it are confirmed.
    confirmed_group: u64,
    /// Time of the last group in microseconds since 1970 UTC. Times never decrease within a run,
    /// whatever the clock does.
    time: u64,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Begins a segment in a preallocated file. The log before it is on disk.
    pub(crate) fn begin(log: &Log, spare: SpareFile, header: SegmentHeader) -> Result<LogWriter> {
        let SpareFile {
            file,
            more_handles,
            path: from,
        } = spare;
        let path = log.dir.join(segment_name(header.number));
        let failed = |e| io_error(&path, &e);
        file.write_at(0, &header.encode()).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        log.disk.rename(&from, &path).map_err(failed)?;
        log.disk.sync_dir(&log.dir).map_err(failed)?;
        let recorded = log.head.begin_segment(header.number, header.start);
        recorded.map_err(|e| io_error(&log.dir.join(head::NAME), &e))?;
        log.segments.lock().push((header.number, header.start));
        log.durable_group
            .fetch_max(header.first_group.saturating_sub(1), Ordering::SeqCst);
        Ok(LogWriter {
            len: file.len().map_err(failed)?,
            file,
            more_handles,
            at: SEGMENT_HEADER as u64,
            position: header.start,
            next_group: header.first_group,
            confirmed_group: header.first_group,
            header,
            time: 0,
            scratch: Vec::new(),
        })
    }

    fn failed(&self, log: &Log, error: &std::io::Error) -> Error {
        segment_error(log, self.header.number, error)
    }

    /// Number of the open segment.
    pub(super) fn segment(&self) -> u64 {
        self.header.number
    }

    /// Number of the group that was written last.
    pub(super) fn last_group(&self) -> u64 {
        self.next_group - 1
    }

    /// The handle through which a log thread syncs the open segment.
    pub(super) fn handle(&self, thread: usize) -> Arc<dyn File> {
        let more = thread.checked_sub(1).and_then(|n| self.more_handles.get(n));
        more.unwrap_or(&self.file).clone()
    }

    /// Position up to which records are certain to fit in the open segment.
    pub(crate) fn segment_end(&self) -> u64 {
        let here = self.len.saturating_sub(self.at);
        self.position + here.saturating_sub(super::SEGMENT_SLACK)
    }

    /// Position up to which records are certain to fit in the rest of this segment or in the spare
    /// segment, whichever is larger.
    pub(crate) fn certain_capacity(&self, log: &Log) -> u64 {
        let here = self.len.saturating_sub(self.at);
        let there = match *log.spare.lock() {
            super::Spare::Ready(..) => log.segment_bytes,
            _ => 0,
        };
        self.position + here.max(there).saturating_sub(super::SEGMENT_SLACK)
    }

    /// Writes one group; begins a new segment if it does not fit.
    fn write_group(&mut self, log: &Log, body: &[u8]) -> Result<()> {
        let len = group_len(body.len()) as u64;
        if self.at + len > self.len && self.at > SEGMENT_HEADER as u64 {
            self.sync(log)?;
            let spare = log.take_spare()?;
            let header = SegmentHeader {
                version: LOG_FORMAT_VERSION,
                number: self.header.number + 1,
                salt: fresh_salt(),
                start: self.position,
                first_group: self.next_group,
            };
            let (time, confirmed_group) = (self.time, self.confirmed_group);
            *self = LogWriter::begin(log, spare, header)?;
            (self.time, self.confirmed_group) = (time, confirmed_group);
        }
        let now = u64::try_from(log.clock.unix_micros()).unwrap_or(0);
        self.time = self.time.max(now);
        let group = Group {
            number: self.next_group,
            durable: log.durable_group.load(Ordering::SeqCst),
            start: self.position,
            time: self.time,
            body,
        };
        self.scratch.clear();
        group.encode(self.header.salt, &mut self.scratch);
        let written = self.file.write_at(self.at, &self.scratch);
        written.map_err(|e| self.failed(log, &e))?;
        self.at += len;
        self.len = self.len.max(self.at);
        self.position += body.len() as u64;
        self.next_group += 1;
        Ok(())
    }

    /// Writes records in one or more groups, and calls `step` after each group.
    pub(crate) fn write(&mut self, log: &Log, records: &[u8], step: impl Fn()) -> Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            let mut end = 0;
            while let Some(len) = rest.get(end..).and_then(record_len) {
                if end > 0 && end + len > MAX_GROUP_BYTES {
                    break;
                }
                end += len;
            }
            let (group, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.write_group(log, group)?;
            step();
            rest = after;
        }
        Ok(())
    }

    /// Writes an empty group, whose header records that all groups before it are durable; nothing if the last
    /// group is empty already. Returns whether it was written.
    pub(super) fn confirm(&mut self, log: &Log) -> Result<bool> {
        if self.confirmed_group >= self.next_group {
            return Ok(false);
        }
        self.write_group(log, &[])?;
        self.confirmed_group = self.next_group;
        Ok(true)
    }

    /// Syncs the segment.
    pub(crate) fn sync(&mut self, log: &Log) -> Result<()> {
        self.file.sync_data().map_err(|e| self.failed(log, &e))?;
        log.durable_group
            .fetch_max(self.last_group(), Ordering::SeqCst);
        Ok(())
    }
}

/// Converts the error of an operation on a segment.
pub(super) fn segment_error(log: &Log, number: u64, error: &std::io::Error) -> Error {
    io_error(&log.dir.join(segment_name(number)), error)
}

/// A random number for a new segment.
pub(crate) fn fresh_salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
