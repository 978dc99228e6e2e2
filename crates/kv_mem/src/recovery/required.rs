//! Refuses a store with missing or truncated files (transactions.md, rule 52).
//!
//! The head file records which segments and which checkpoint must exist, and how
//! far the log reaches. A store of an older version has no head file; it is
//! accepted, and one is created. The segments show whether a missing head file
//! was lost: a store with segments of log format 3 or later always has one.

use super::corrupt;
use crate::checkpoint::{CHECKPOINT_PREFIX, RESERVE_NAME};
use crate::log::format::{SEGMENT_HEADER, SegmentHeader};
use crate::log::head::{self, FoundHead, Head};
use crate::log::{first_needed, io_error, segment_name, segment_number};
use crate::manifest::{self, Manifest};
use porpoise_base::disk::Disk;
use porpoise_kv::{Error, Result};
use std::path::Path;

/// Advice to the operator in error messages about missing data.
const ADVICE: &str = "put the file back or restore the store from a backup";

/// Whether a directory with these names holds a store: any file with data or
/// metadata of a store counts.
pub(crate) fn is_store(names: &[String]) -> bool {
    names.iter().any(|name| {
        segment_number(name).is_some()
            || name.starts_with(CHECKPOINT_PREFIX)
            || [manifest::NAME, head::NAME, RESERVE_NAME].contains(&name.as_str())
    })
}

fn missing_file(dir: &Path, name: &str, what: &str) -> Error {
    let path = dir.join(name);
    Error::Corrupt(format!("{}: {what}; {ADVICE}", path.display()))
}

/// The header of a segment.
pub(super) fn read_header(disk: &dyn Disk, path: &Path) -> Result<SegmentHeader> {
    let mut bytes = vec![0; SEGMENT_HEADER];
    let read = disk
        .open(path)
        .and_then(|file| file.read_at(0, &mut bytes))
        .map_err(|e| io_error(path, &e))?;
    bytes.truncate(read);
    SegmentHeader::decode(&bytes).map_err(|e| corrupt(path, 0, &e))
}

/// Checks that the required files exist, before any is read as a whole.
///
/// # Errors
/// [`Error::Corrupt`] for a missing or outdated file, [`Error::Io`] for one that
/// cannot be read.
pub(crate) fn check_files(
    disk: &dyn Disk,
    dir: &Path,
    names: &[String],
    manifest: Option<&Manifest>,
    head: Option<&FoundHead>,
) -> Result<()> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    match head {
        Some(found) => check_recorded(dir, &numbers, manifest, &found.head),
        None => check_unrecorded(disk, dir, names, &numbers, manifest),
    }
}

fn check_recorded(
    dir: &Path,
    numbers: &[u64],
    manifest: Option<&Manifest>,
    head: &Head,
) -> Result<()> {
    let (oldest, newest) = (head.oldest.max(1), head.newest);
    if let Some(missing) = (oldest..=newest).find(|n| numbers.binary_search(n).is_err()) {
        let what = format!(
            "this log segment is missing; {} records that segments {oldest} to {newest} exist",
            head::NAME
        );
        return Err(missing_file(dir, &segment_name(missing), &what));
    }
    let what = match manifest {
        None if head.checkpoint > 0 => format!(
            "the manifest is missing; {} records checkpoint {}",
            head::NAME,
            head.checkpoint
        ),
        Some(found) if found.checkpoint < head.checkpoint => format!(
            "the manifest is that of checkpoint {}; {} records checkpoint {}",
            found.checkpoint,
            head::NAME,
            head.checkpoint
        ),
        _ => return Ok(()),
    };
    Err(missing_file(dir, manifest::NAME, &what))
}

fn check_unrecorded(
    disk: &dyn Disk,
    dir: &Path,
    names: &[String],
    numbers: &[u64],
    manifest: Option<&Manifest>,
) -> Result<()> {
    for number in numbers {
        let header = read_header(disk, &dir.join(segment_name(*number)))?;
        if header.version >= head::SINCE_LOG_FORMAT {
            let what = "the head file is missing, although the log segments were written with one";
            return Err(missing_file(dir, head::NAME, what));
        }
    }
    // Until the first checkpoint the log has all data.
    if manifest.is_none() && numbers.is_empty() && is_store(names) {
        let what = "the manifest is missing, although the directory contains files of a store";
        return Err(missing_file(dir, manifest::NAME, what));
    }
    Ok(())
}

/// The error for a log that ends before the checkpoint's position, or has no
/// segment.
pub(super) fn log_too_short(
    dir: &Path,
    numbers: &[u64],
    position: u64,
    manifest: &Manifest,
) -> Error {
    let needed = manifest.position;
    match numbers.last() {
        Some(last) => {
            let what = format!(
                "the log ends at position {position}, before the checkpoint's {needed}: the segment \
                 was truncated or replaced"
            );
            missing_file(dir, &segment_name(*last), &what)
        }
        None => {
            let what = format!(
                "all log segments are missing; the checkpoint needs the log from position {needed}"
            );
            missing_file(dir, manifest::NAME, &what)
        }
    }
}

/// Checks that the log reaches the position that the head file records.
///
/// # Errors
/// [`Error::Corrupt`] naming the last segment.
pub(crate) fn check_log_end(
    dir: &Path,
    head: Option<&FoundHead>,
    last: u64,
    position: u64,
) -> Result<()> {
    match head.map(|found| found.head.position) {
        Some(durable) if position < durable => {
            let what = format!(
                "the log ends at position {position}; {} records that it was on disk up to {durable}: \
                 the segment was truncated or replaced",
                head::NAME
            );
            Err(missing_file(dir, &segment_name(last), &what))
        }
        _ => Ok(()),
    }
}

/// The first head entry of a store that has no head file yet.
pub(super) fn first_entry(segments: &[(u64, u64)], manifest: &Manifest, position: u64) -> Head {
    let first = segments.get(first_needed(segments, manifest.position));
    Head {
        generation: 0,
        oldest: first.map_or(0, |(number, _)| *number),
        newest: segments.last().map_or(0, |(number, _)| *number),
        position,
        checkpoint: manifest.checkpoint,
    }
}
