//! Files of the log: names, their first events, reading, and the recovery of the last one.
//!
//! A directory has `binlog.000001`, `binlog.000002`, ...; `binlog.index`, which lists those that belong to the log, one
//! a line; and `binlog.state`, the number of the newest commit before the last file. After a run without the log it
//! also has `binlog.gap`, the number of the first file after that run. All but the first are replaced by renaming.
//! `binlog.unlogged` exists while such a run lasts, and until the log is opened again.

use crate::{Error, Result};
use porpoise_base::disk::{Disk, File};
use porpoise_replication::event::{
    Event, EventOptions, EventWriter, FILE_MAGIC, FormatDescription, HEADER_LEN, Header,
    PreviousGtids, TransactionPayload,
};
use porpoise_replication::gtid::{Gtid, GtidSet};
use std::io;
use std::path::Path;

/// First part of the names of the files.
pub const BASE_NAME: &str = "binlog";

/// Name of the index.
pub(crate) const INDEX: &str = "binlog.index";

/// Name of the state.
pub(crate) const STATE: &str = "binlog.state";

/// Name of the file that has the number of the first file after the newest gap.
pub(crate) const GAP: &str = "binlog.gap";

/// Name of the file that marks a run without the log.
pub(crate) const UNLOGGED: &str = "binlog.unlogged";

/// Position of a file's first event.
pub const FIRST_POSITION: u64 = FILE_MAGIC.len() as u64;

/// Bytes that a reader reads at once.
const READ_BYTES: usize = 256 << 10;

/// Name of the file with this number.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("{BASE_NAME}.{number:06}")
}

/// Number of a file; `None` if the name is not that of a file of the log.
#[must_use]
pub fn file_number(name: &str) -> Option<u64> {
    let name = name.strip_prefix("./").unwrap_or(name);
    let digits = name.strip_prefix(BASE_NAME)?.strip_prefix('.')?;
    let is_number = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Replaces a file by a synced one with these contents.
pub(crate) fn replace(disk: &dyn Disk, dir: &Path, name: &str, contents: &[u8]) -> Result<()> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.tmp")));
    let write = || -> io::Result<()> {
        remove_if_there(disk, &new)?;
        let file = disk.create(&new)?;
        file.write_at(0, contents)?;
        file.sync_data()?;
        disk.rename(&new, &path)?;
        disk.sync_dir(dir)
    };
    write().map_err(|e| Error::io(&path, &e))
}

/// Removes a file, if it is there.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a small file as text; `None` if there is none.
pub(crate) fn read_text(disk: &dyn Disk, path: &Path) -> Result<Option<String>> {
    match disk.open(path).and_then(|file| file.read_all()) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, &error)),
    }
}

/// The first bytes of a file: magic number, FORMAT_DESCRIPTION, PREVIOUS_GTIDS.
pub(crate) fn head(
    server_id: u32,
    version: &str,
    micros: u64,
    is_first: bool,
    previous: &GtidSet,
) -> Vec<u8> {
    let writer = EventWriter {
        server_id,
        has_checksums: true,
    };
    let timestamp = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
    let options = EventOptions {
        timestamp,
        flags: 0,
    };
    // A time of creation says that the server has started: replicas drop temporary tables.
    let created = if is_first { timestamp } else { 0 };
    let format = FormatDescription::new(version, created, true);
    let mut out = FILE_MAGIC.to_vec();
    let mut event = |event: &Event| {
        let at = out.len() as u64;
        writer.write(&mut out, Some(at), options, event);
    };
    event(&Event::FormatDescription(format));
    event(&Event::PreviousGtids(PreviousGtids {
        set: previous.clone(),
    }));
    out
}

/// Reads the events of a file one after the other.
pub(crate) struct EventReader {
    file: Box<dyn File>,
    /// Position of the next event.
    at: u64,
    /// Bytes of the file from `start` on.
    buffer: Vec<u8>,
    start: u64,
}

impl EventReader {
    /// Opens a file at a position.
    pub(crate) fn open(disk: &dyn Disk, path: &Path, at: u64) -> Result<EventReader> {
        let file = disk.open(path).map_err(|e| Error::io(path, &e))?;
        Ok(EventReader {
            file,
            at,
            buffer: Vec::new(),
            start: at,
        })
    }

    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// The bytes from the present position on, at least `len` of them if they are before `limit`.
    fn fill(&mut self, len: usize, limit: u64) -> io::Result<&[u8]> {
        let skipped = usize::try_from(self.at - self.start).unwrap_or(usize::MAX);
        let have = self.buffer.len().saturating_sub(skipped);
        if have < len {
            self.buffer.drain(..skipped.min(self.buffer.len()));
            self.start = self.at;
            let rest = usize::try_from(limit.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let wanted = len.max(READ_BYTES).min(rest);
            if wanted > have {
                self.buffer.resize(wanted, 0);
                let from = self.start + have as u64;
                let place = self.buffer.get_mut(have..).unwrap_or_default();
                let read = self.file.read_at(from, place)?;
                self.buffer.truncate(have + read);
            }
        }
        let skipped = usize::try_from(self.at - self.start).unwrap_or(usize::MAX);
        Ok(self.buffer.get(skipped..).unwrap_or_default())
    }

    /// The next event, if all of it is before `limit`. The error is a description.
    ///
    /// # Errors
    /// The file cannot be read; a header that cannot be one.
    pub(crate) fn next(&mut self, limit: u64) -> std::result::Result<Option<&[u8]>, String> {
        if self.at + HEADER_LEN as u64 > limit {
            return Ok(None);
        }
        let head = self.fill(HEADER_LEN, limit).map_err(|e| e.to_string())?;
        if head.len() < HEADER_LEN {
            return Ok(None);
        }
        let header = Header::parse(head).map_err(|e| e.to_string())?;
        let size = header.size as usize;
        if self.at + u64::from(header.size) > limit {
            return Ok(None);
        }
        if self.fill(size, limit).map_err(|e| e.to_string())?.len() < size {
            return Ok(None);
        }
        let skipped = usize::try_from(self.at - self.start).unwrap_or(usize::MAX);
        self.at += size as u64;
        Ok(self.buffer.get(skipped..skipped.saturating_add(size)))
    }
}

/// Result of scanning a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// End of the last event that is complete and ends a transaction or is outside of one.
    pub(crate) end: u64,
    /// Length of the file.
    pub(crate) len: u64,
    /// Number of the last commit; 0 if there is none.
    pub(crate) last_commit: u64,
    /// Transactions of the file.
    pub(crate) transactions: u64,
    /// Identifiers in earlier files.
    pub(crate) previous: GtidSet,
    /// Identifiers in earlier files and this one.
    pub(crate) executed: GtidSet,
    /// Whether the file ends with ROTATE or STOP.
    pub(crate) is_ended: bool,
}

/// Reads the identifiers before a file from its head.
pub(crate) fn previous_gtids(disk: &dyn Disk, path: &Path) -> Result<GtidSet> {
    let damaged = |what: String| Error::Corrupt(format!("{}: {what}", path.display()));
    let mut reader = EventReader::open(disk, path, FIRST_POSITION)?;
    let format = match reader.next(u64::MAX).map_err(damaged)? {
        Some(event) => FormatDescription::decode(event).map_err(|e| damaged(e.to_string()))?,
        None => return Err(damaged("the file ends within its head".to_owned())),
    };
    let event = reader.next(u64::MAX).map_err(damaged)?;
    match event.map(|event| Event::decode(event, &format)) {
        Some(Ok((_, Event::PreviousGtids(previous)))) => Ok(previous.set),
        Some(Err(error)) => Err(damaged(error.to_string())),
        _ => Err(damaged("the second event is not PREVIOUS_GTIDS".to_owned())),
    }
}

/// Time at which a file began, in microseconds since 1970 UTC.
pub(crate) fn began(disk: &dyn Disk, path: &Path) -> Result<u64> {
    let damaged = |what: String| Error::Corrupt(format!("{}: {what}", path.display()));
    let mut reader = EventReader::open(disk, path, FIRST_POSITION)?;
    let event = reader.next(u64::MAX).map_err(damaged)?;
    let event = event.ok_or_else(|| damaged("the file ends within its head".to_owned()))?;
    let header = Header::parse(event).map_err(|e| damaged(e.to_string()))?;
    Ok(u64::from(header.timestamp) * 1_000_000)
}

/// Whether a QUERY event begins a transaction.
pub(crate) fn is_begin(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"BEGIN")
}

/// The number of the commit that an event completes.
fn commit_of(event: &Event, format: &FormatDescription) -> Option<u64> {
    match event {
        Event::Xid(commit) => Some(*commit),
        Event::Query(query) if !is_begin(&query.text) => Some(query.variables.ddl_xid.unwrap_or(0)),
        Event::TransactionPayload(payload) => inner_events(payload)
            .filter_map(|inner| Event::decode(inner, &without_checksums(format)).ok())
            .find_map(|(_, inner)| commit_of(&inner, format)),
        _ => None,
    }
}

pub(crate) fn without_checksums(format: &FormatDescription) -> FormatDescription {
    let mut format = format.clone();
    format.has_checksums = false;
    format
}

/// The events in a compressed transaction.
pub(crate) fn inner_events(payload: &TransactionPayload) -> impl Iterator<Item = &[u8]> {
    split_events(&payload.events)
}

/// Splits events that are one after the other; ends at one that is not complete.
pub(crate) fn split_events(events: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = events;
    std::iter::from_fn(move || {
        let size = Header::parse(rest).ok()?.size as usize;
        let (event, after) = rest.split_at_checked(size)?;
        rest = after;
        Some(event)
    })
}

/// Scans a file up to the first event that is damaged or not complete.
///
/// # Errors
/// The file cannot be opened, or its head is damaged, which was synced.
pub(crate) fn scan(disk: &dyn Disk, path: &Path) -> Result<Scanned> {
    scan_until(disk, path, |_, _| false)
}

/// As [`scan`], up to the first transaction for which `ends`, given its identifier and commit, returns true.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_until(
    disk: &dyn Disk,
    path: &Path,
    mut ends: impl FnMut(Option<Gtid>, u64) -> bool,
) -> Result<Scanned> {
    let previous = previous_gtids(disk, path)?;
    let mut reader = EventReader::open(disk, path, FIRST_POSITION)?;
    let len = reader.file.len().map_err(|e| Error::io(path, &e))?;
    let mut found = Scanned {
        len,
        executed: previous.clone(),
        previous,
        ..Scanned::default()
    };
    let mut format = None;
    let mut open = None;
    while let Ok(Some(event)) = reader.next(len) {
        let Some(known) = &format else {
            format = FormatDescription::decode(event).ok();
            found.end = reader.position();
            if format.is_none() {
                break;
            }
            continue;
        };
        let Ok((_, event)) = Event::decode(event, known) else {
            break;
        };
        match &event {
            Event::Gtid(gtid) => open = Some(gtid.gtid),
            _ if open.is_none() => {
                found.end = reader.position();
                found.is_ended = matches!(event, Event::Rotate(_) | Event::Stop);
            }
            event => {
                if let Some(commit) = commit_of(event, known) {
                    if ends(open.flatten(), commit) {
                        break;
                    }
                    found.last_commit = commit;
                    found.transactions += 1;
                    found.end = reader.position();
                    if let Some(Some(gtid)) = open.take() {
                        found.executed.insert(gtid);
                    }
                    open = None;
                }
            }
        }
    }
    Ok(found)
}
