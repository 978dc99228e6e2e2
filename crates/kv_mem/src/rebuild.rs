//! Rebuilds a store's directory from a copy ([`crate::HotCopy`]): checkpoint files, manifest, log, head
//! file. The next start recovers it like a store after a crash.
//!
//! A new log is written, in segments that are numbered from 1; it may end at any record. The head
//! file comes last: until then a start refuses the directory, since segments of this log format cannot
//! be without one. Nothing but the caller's rename makes a directory look like a store.

use crate::checkpoint::file_name;
use crate::codec::Reader;
use crate::log::format::{
    Group, LOG_FORMAT_VERSION, Record, SEGMENT_HEADER, SegmentHeader, group_len, record_len,
};
use crate::log::head::{Head, HeadFile};
use crate::log::{LogGroup, fresh_salt};
use crate::log::{io_error, segment_name};
use crate::manifest::Manifest;
use porpoise_base::disk::{Disk, File};
use porpoise_kv::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size in bytes at which a log segment is closed.
const SEGMENT_BYTES: u64 = 32 << 20;

struct Segment {
    file: Box<dyn File>,
    path: PathBuf,
    header: SegmentHeader,
    at: u64,
}

impl Segment {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(self.at, bytes);
        written.map_err(|e| io_error(&self.path, &e))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Writes a store's directory.
pub struct StoreBuilder {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    manifest: Option<Manifest>,
    segment: Option<Segment>,
    /// Number of the last segment.
    segments: u64,
    /// Number of the next group.
    group: u64,
    /// Position of the next record.
    position: Option<u64>,
}

/// The first of some records, and its length.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that are not a record; they begin at the position `at`.
fn first_record(bytes: &[u8], at: u64) -> Result<(Record<'_>, usize)> {
    let len = record_len(bytes).filter(|len| *len <= bytes.len());
    match (Record::decode(&mut Reader(bytes)), len) {
        (Ok(record), Some(len)) => Ok((record, len)),
        _ => Err(Error::Corrupt(format!(
            "an invalid log record at position {at}"
        ))),
    }
}

/// Length of the first records in `records` that end at or before the position `until`, if the
/// records begin at position `start`.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that are not records.
pub fn records_until(records: &[u8], start: u64, until: u64) -> Result<usize> {
    let mut end = 0;
    while let Some(rest) = records.get(end..).filter(|rest| !rest.is_empty()) {
        let (_, len) = first_record(rest, start + end as u64)?;
        if start + (end + len) as u64 > until {
            break;
        }
        end += len;
    }
    Ok(end)
}

/// Cuts a log before a commit. Records of assigned ids and timestamps are kept even after the cut, so that none of these is
/// assigned again.
#[derive(Clone, Copy, Debug)]
pub struct CommitCut {
    commit: u64,
    is_reached: bool,
}

impl CommitCut {
    /// A cut before this commit.
    #[must_use]
    pub fn before(commit: u64) -> CommitCut {
        CommitCut {
            commit,
            is_reached: false,
        }
    }

    /// The records of the next group that are kept.
    fn kept(&mut self, group: &LogGroup) -> Result<Vec<u8>> {
        let (records, mut kept, mut at) = (&group.records, Vec::new(), 0);
        while let Some(rest) = records.get(at..).filter(|rest| !rest.is_empty()) {
            let (record, len) = first_record(rest, group.start + at as u64)?;
            let is_limit = match record {
                Record::Commit { ts, .. } | Record::ChunkedCommit { ts, .. } => {
                    self.is_reached |= ts >= self.commit;
                    false
                }
                Record::Counter { .. } | Record::TimestampLimit { .. } => true,
                _ => false,
            };
            if is_limit || !self.is_reached {
                kept.extend_from_slice(rest.get(..len).unwrap_or_default());
            }
            at += len;
        }
        Ok(kept)
    }
}

impl StoreBuilder {
    /// Begins a store in an existing empty directory, with the manifest of the copy.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a manifest that cannot be read.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, manifest: Option<&[u8]>) -> Result<StoreBuilder> {
        let manifest = manifest.map(Manifest::decode).transpose();
        let manifest = manifest.map_err(|e| Error::Corrupt(format!("manifest: {e}")))?;
        Ok(StoreBuilder {
            disk,
            dir: dir.to_owned(),
            manifest,
            segment: None,
            segments: 0,
            group: 1,
            position: None,
        })
    }

    /// Names and lengths of the files that the manifest names.
    pub fn files(&self) -> Vec<(String, u64)> {
        let files = self.manifest.iter().flat_map(Manifest::files);
        files
            .map(|(unit, file)| (file_name(unit.checkpoint, file.number), file.bytes))
            .collect()
    }

    /// Writes and syncs one of these files from its parts.
    ///
    /// # Errors
    /// Those of a part; [`Error::Io`] and [`Error::Full`].
    pub fn put_file<E: From<Error>>(
        &self,
        name: &str,
        parts: impl Iterator<Item = std::result::Result<Vec<u8>, E>>,
    ) -> std::result::Result<u64, E> {
        let path = self.dir.join(name);
        let failed = |e| E::from(io_error(&path, &e));
        let file = self.disk.create(&path).map_err(failed)?;
        let mut at = 0;
        for part in parts {
            let part = part?;
            file.write_at(at, &part).map_err(failed)?;
            at += part.len() as u64;
        }
        file.sync_data().map_err(failed)?;
        Ok(at)
    }

    /// Position after the last group; `None` before the first one.
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// Appends a group to the log. A group that is there already is passed over.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if groups before it are missing.
    pub fn put_group(&mut self, group: &LogGroup) -> Result<()> {
        if group.records.is_empty() {
            return Ok(());
        }
        let needed = self.manifest.as_ref().map_or(0, |m| m.position);
        match self.position {
            Some(position) if group.end() <= position => return Ok(()),
            None if group.end() <= needed => return Ok(()),
            position if group.start > position.unwrap_or(needed) => {
                let position = position.unwrap_or(needed);
                let what = format!(
                    "the log has a gap: records from position {position} to {} are missing",
                    group.start
                );
                return Err(Error::Corrupt(what));
            }
            _ => {}
        }
        let len = group_len(group.records.len()) as u64;
        let fits = |s: &Segment| s.at + len <= SEGMENT_BYTES || s.at == SEGMENT_HEADER as u64;
        if !self.segment.as_ref().is_some_and(fits) {
            self.begin_segment(group.start)?;
        }
        if let Some(segment) = &mut self.segment {
            let encoded = Group {
                number: self.group,
                durable: self.group - 1,
                start: group.start,
                time: group.time,
                body: &group.records,
            };
            let mut bytes = Vec::with_capacity(group_len(group.records.len()));
            encoded.encode(segment.header.salt, &mut bytes);
            segment.write(&bytes)?;
        }
        self.group += 1;
        self.position = Some(group.end());
        Ok(())
    }

    /// Appends the records of a group that a cut keeps.
    ///
    /// # Errors
    /// As [`Self::put_group`].
    pub fn put_group_before(&mut self, group: &LogGroup, cut: &mut CommitCut) -> Result<()> {
        let is_behind = cut.is_reached;
        let records = cut.kept(group)?;
        // Positions move: the log becomes shorter by the records that were removed.
        let start = self.position.filter(|_| is_behind);
        self.put_group(&LogGroup {
            start: start.unwrap_or(group.start),
            time: group.time,
            records,
        })
    }

    fn begin_segment(&mut self, position: u64) -> Result<()> {
        self.end_segment()?;
        self.segments += 1;
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            number: self.segments,
            salt: fresh_salt(),
            start: position,
            first_group: self.group,
        };
        let path = self.dir.join(segment_name(header.number));
        let file = self.disk.create(&path).map_err(|e| io_error(&path, &e))?;
        let mut segment = Segment {
            file,
            path,
            header,
            at: 0,
        };
        segment.write(&header.encode())?;
        self.segment = Some(segment);
        self.position = Some(position);
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some(segment) = self.segment.take() {
            let synced = segment.file.sync_data();
            synced.map_err(|e| io_error(&segment.path, &e))?;
        }
        Ok(())
    }

    /// Completes the store. Returns the position at which its log ends.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log ends before the position that the checkpoint needs.
    pub fn finish(mut self) -> Result<u64> {
        let needed = self.manifest.as_ref().map_or(0, |m| m.position);
        if self.segment.is_none() {
            self.begin_segment(needed)?;
        }
        self.end_segment()?;
        let position = self.position.unwrap_or(needed);
        if position < needed {
            return Err(Error::Corrupt(format!(
                "the log ends at position {position}; the checkpoint needs it up to {needed}"
            )));
        }
        let checkpoint = self.manifest.as_ref().map_or(0, |m| m.checkpoint);
        if let Some(manifest) = &self.manifest {
            manifest.prepare(&*self.disk, &self.dir)?;
            Manifest::replace(&*self.disk, &self.dir)?;
        }
        let head = HeadFile::default();
        head.set_initial(Head {
            generation: 0,
            oldest: 1,
            newest: self.segments,
            position,
            checkpoint,
        });
        head.create(&*self.disk, &self.dir)?;
        Ok(position)
    }
}
