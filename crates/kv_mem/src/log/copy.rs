//! Reads the durable log of an open store, for backups and archives.
//!
//! A [`LogCopy`] opens the segments that it needs while the list of segments is locked, so that a
//! checkpoint that removes them meanwhile only removes their names. It ends at the position that was
//! durable when it was opened: what it yields never turns out not to have happened.
//!
//! Retention: an archive delays the removal of segments that it has not copied
//! ([`Log::removable_before`]). It never blocks commits: beyond a bound, and on a full disk, segments
//! go as without an archive, and the archive has a gap.

use super::format::{GROUP_HEADER, Group, SEGMENT_HEADER, SegmentHeader};
use super::{Log, first_needed, io_error, segment_name};
use porpoise_base::disk::File;
use porpoise_base::sync::Mutex;
use porpoise_kv::{Error, Result};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Longest group for which memory is allocated before the length of the file is known, in bytes.
const TRUSTED_LEN: usize = 1 << 20;

/// A place in the log at which a reader continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCursor {
    position: u64,
    /// Number of the segment that was read last; 0 if it is unknown.
    segment: u64,
    /// Offset in that segment.
    offset: u64,
}

impl LogCursor {
    /// A cursor at a position.
    pub fn at(position: u64) -> LogCursor {
        LogCursor {
            position,
            segment: 0,
            offset: 0,
        }
    }

    /// The position.
    pub fn position(&self) -> u64 {
        self.position
    }
}

/// Records that were written to the log together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogGroup {
    /// Position of the first record.
    pub start: u64,
    /// Time of the write in microseconds since 1970 UTC; 0 if the log is of a version without times.
    pub time: u64,
    /// The encoded records.
    pub records: Vec<u8>,
}

impl LogGroup {
    /// Position after the last record.
    pub fn end(&self) -> u64 {
        self.start + self.records.len() as u64
    }
}

struct OpenSegment {
    number: u64,
    path: PathBuf,
    file: Box<dyn File>,
    /// Decoded at the first read.
    header: Option<SegmentHeader>,
}

/// The groups of the durable log from a position on.
pub struct LogCopy {
    segments: VecDeque<OpenSegment>,
    cursor: LogCursor,
    end: u64,
}

impl LogCopy {
    /// Position at which the copy ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The position after the last group, for the next copy.
    pub fn cursor(&self) -> LogCursor {
        self.cursor
    }

    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Number of the last segment that was opened.
    pub(super) fn last_segment(&self) -> Option<u64> {
        let read = (self.cursor.segment > 0).then_some(self.cursor.segment);
        self.segments.back().map(|segment| segment.number).or(read)
    }

    /// Opens another segment.
    pub(super) fn push_segment(&mut self, log: &Log, number: u64) -> Result<()> {
        let path = log.dir.join(segment_name(number));
        let file = log.disk.open(&path).map_err(|e| io_error(&path, &e))?;
        self.segments.push_back(OpenSegment {
            number,
            path,
            file,
            header: None,
        });
        Ok(())
    }

    /// Returns the next group. The first one contains or follows the requested position.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Corrupt`] for a segment that ends before the durable position.
    pub fn next_group(&mut self) -> Result<Option<LogGroup>> {
        while self.cursor.position < self.end {
            let Some(segment) = self.segments.front_mut() else {
                let at = self.cursor.position;
                return Err(Error::Corrupt(format!(
                    "the log's segments end at position {at}, although it is durable up to {}",
                    self.end
                )));
            };
            if self.cursor.segment != segment.number {
                self.cursor.segment = segment.number;
                self.cursor.offset = SEGMENT_HEADER as u64;
            }
            let Some((group, len)) = segment.read(self.cursor.offset)? else {
                self.segments.pop_front();
                continue;
            };
            self.cursor.offset += len;
            if group.start > self.cursor.position {
                return Err(Error::Corrupt(format!(
                    "log records from position {} to {} are missing",
                    self.cursor.position, group.start
                )));
            }
            if group.records.is_empty() || group.end() <= self.cursor.position {
                continue;
            }
            self.cursor.position = group.end();
            return Ok(Some(group));
        }
        Ok(None)
    }
}

impl OpenSegment {
    /// Reads the group at an offset, and its length in the file; `None` at the segment's end.
    fn read(&mut self, offset: u64) -> Result<Option<(LogGroup, u64)>> {
        let failed = |e| io_error(&self.path, &e);
        let corrupt = |what: &str| {
            let at = self.path.display();
            Error::Corrupt(format!("{at} at offset {offset}: {what}"))
        };
        let header = match self.header {
            Some(header) => header,
            None => {
                let mut bytes = vec![0; SEGMENT_HEADER];
                let read = self.file.read_at(0, &mut bytes).map_err(failed)?;
                bytes.truncate(read);
                let header = SegmentHeader::decode(&bytes).map_err(|e| corrupt(&e))?;
                *self.header.insert(header)
            }
        };
        let mut head = [0; GROUP_HEADER];
        let read = self.file.read_at(offset, &mut head).map_err(failed)?;
        let head = head.get(..read).unwrap_or_default();
        let Some((len, _)) = Group::declared_len(head, &header) else {
            return Ok(None);
        };
        // The length of a small group is not checked against the file: a short read fails the group's checksum.
        if len > TRUSTED_LEN {
            let file_len = self.file.len().map_err(failed)?;
            if offset.saturating_add(len as u64) > file_len {
                return Err(corrupt("a log group ends after the end of the file"));
            }
        }
        let mut bytes = vec![0; len];
        let read = self.file.read_at(offset, &mut bytes).map_err(failed)?;
        bytes.truncate(read);
        let Some((group, len)) = Group::decode(&bytes, &header) else {
            return Err(corrupt("the checksum of a durable log group is wrong"));
        };
        let group = LogGroup {
            start: group.start,
            time: group.time,
            records: group.body.to_vec(),
        };
        Ok(Some((group, len as u64)))
    }
}

/// Segments that an archive still needs.
pub(crate) struct Retention {
    /// Bytes of the log up to which segments wait for the archive.
    pub(crate) bound: u64,
    state: Mutex<Archived>,
}

#[derive(Default)]
struct Archived {
    /// Position up to which the log is archived.
    position: u64,
    /// Whether the removal of segments that are not archived was reported.
    is_reported: bool,
}

impl Retention {
    pub(crate) fn new(bound: u64) -> Retention {
        Retention {
            bound,
            state: Mutex::default(),
        }
    }
}

impl Log {
    /// Opens the durable log from a cursor on. Returns `None` if segments from there on were removed.
    pub(crate) fn copy_from(&self, cursor: LogCursor) -> Result<Option<LogCopy>> {
        let segments = self.segments.lock();
        let end = self.synced_to();
        if segments
            .first()
            .is_none_or(|(_, start)| *start > cursor.position)
        {
            return Ok(None);
        }
        let first = first_needed(&segments, cursor.position);
        let mut copy = LogCopy {
            segments: VecDeque::new(),
            cursor,
            end,
        };
        for (number, start) in segments.iter().skip(first) {
            if *start >= end && !copy.segments.is_empty() {
                break;
            }
            copy.push_segment(self, *number)?;
        }
        let front = copy.segments.front();
        if front.is_some_and(|segment| segment.number != cursor.segment) {
            copy.cursor = LogCursor::at(cursor.position);
        }
        Ok(Some(copy))
    }

    /// Position of the first record in the existing segments.
    pub(crate) fn first_position(&self) -> u64 {
        self.segments.lock().first().map_or(0, |(_, start)| *start)
    }

    /// Records that the log is archived up to a position.
    pub(crate) fn set_archived(&self, position: u64) {
        if let Some(retention) = &self.retention {
            let mut state = retention.state.lock();
            state.position = state.position.max(position);
            state.is_reported = false;
        }
    }

    /// Position before which segments may be removed, of those that a checkpoint needs from
    /// `position` on: not those with annotations that were not released.
    pub(super) fn removable_before(&self, position: u64) -> u64 {
        let position = match &self.annotations {
            Some(annotations) => position.min(annotations.needed_from()),
            None => position,
        };
        let Some(retention) = &self.retention else {
            return position;
        };
        let is_full = self.is_disk_full();
        let mut state = retention.state.lock();
        if state.position >= position {
            return position;
        }
        let forced = if is_full {
            position
        } else {
            position.saturating_sub(retention.bound)
        };
        if forced <= state.position || forced <= self.first_position() {
            return state.position;
        }
        if !state.is_reported {
            state.is_reported = true;
            tracing::error!(
                archived = state.position,
                removed = forced,
                disk_full = is_full,
                "log segments are removed before they are archived: repair the archive, then make a new backup, since the archive has a gap"
            );
        }
        forced
    }
}
