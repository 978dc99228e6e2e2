//! Recovery: loads the newest checkpoint, then replays the log after it.
//!
//! The log is redo-only: it has committed writes, so there is no undo phase.
//!
//! Invariants:
//! 1. Every acknowledged commit is recovered, and each commit completely or not at all; commits
//!    that were never acknowledged may be recovered.
//! 2. A bad group is a torn tail only if nothing on disk shows that it was durable: no later segment, and
//!    no later group that names it or a later one as durable (transactions.md, 22). Otherwise the start
//!    is refused with file and offset, and nothing is changed.
//! 3. A store is refused when a file that it needs is missing, or when its log ends before the recorded
//!    durable position (52).
//! 4. What was recovered is on disk before it is served: the last segment is rewritten and synced (21).

mod replay;
mod required;

pub(crate) use required::{check_files, check_log_end, is_store};

use crate::checkpoint::{
    BLOCK_HEADER, BLOCK_MAGIC, CHECKPOINT_PREFIX, FILE_HEADER, file_header, file_name,
};
use crate::codec::{Malformed, Reader};
use crate::counters::{Counter, CounterTable};
use crate::log::head::{self, FoundHead, Head};
use crate::log::{io_error, segment_number};
use crate::manifest::{self, CheckpointFile, Manifest, Unit};
use crate::record::{LONGEST_KEY, LONGEST_VALUE, NewVersion, RECORD_BYTES, RecordRef};
use crate::store::RecordStore;
use porpoise_base::disk::Disk;
use porpoise_base::sync::atomic::{AtomicUsize, Ordering};
use porpoise_kv::{CounterId, Error, Resource, Result, SpaceId};
use replay::Recovery;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::time::Instant;

/// A recovered store.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    /// The head file; `None` in an empty store and one of an older version.
    pub(crate) head: Option<FoundHead>,
    /// Initial entry of a new head file.
    pub(crate) first_entry: Head,
    pub(crate) table: CounterTable,
    /// Number and start position of the existing segments.
    pub(crate) segments: Vec<(u64, u64)>,
    /// Log position after the last record.
    pub(crate) position: u64,
    /// Number of the next group.
    pub(crate) next_group: u64,
    /// Upper limit of timestamps: every timestamp allocated before is below it.
    pub(crate) next_ts: u64,
    /// Whether the store has rows.
    pub(crate) rows: bool,
}

fn corrupt(path: &Path, offset: usize, what: &str) -> Error {
    Error::Corrupt(format!("{} at offset {offset}: {what}", path.display()))
}

/// Recovers a store into an empty engine.
pub(crate) fn recover(store: &RecordStore, disk: &dyn Disk, dir: &Path) -> Result<Recovered> {
    let began = Instant::now();
    let head = head::load(disk, dir)?;
    let manifest = Manifest::load(disk, dir)?;
    let names = disk.list(dir).map_err(|e| io_error(dir, &e))?;
    required::check_files(disk, dir, &names, manifest.as_ref(), head.as_ref())?;
    let had_manifest = manifest.is_some();
    let manifest = manifest.unwrap_or_default();
    let mut recovery = Recovery {
        store,
        table: CounterTable {
            next_space: manifest.next_space,
            ..CounterTable::default()
        },
        chunks: HashMap::new(),
        next_ts: manifest.ts_limit.max(manifest.ts + 1),
        commits: 0,
    };
    for (id, spec) in &manifest.spaces {
        store.spaces.add(*id, spec.clone());
    }
    for (id, limit) in &manifest.counters {
        let counter = Counter::from_recovered_limit(*limit);
        recovery.table.counters.insert(CounterId(*id), counter);
    }
    load_checkpoint(store, disk, dir, &manifest)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let log = recovery.replay(disk, dir, &numbers, &manifest, had_manifest)?;
    let last = log.segments.last().map_or(1, |(number, _)| *number);
    required::check_log_end(dir, head.as_ref(), last, log.position)?;
    remove_strays(disk, dir, &names, &manifest)?;
    if let Some((path, bytes)) = &log.last {
        match rewrite(disk, dir, path, bytes) {
            Err(Error::Full(Resource::Disk)) => rewrite_in_place(disk, path, bytes)?,
            other => other?,
        }
    }
    let rows = recovery.commits + manifest.rows() > 0;
    tracing::info!(
        commits = recovery.commits,
        keys = store.spaces.iter().map(|s| s.index.len()).sum::<usize>() as u64,
        millis = began.elapsed().as_millis() as u64,
        "store recovered"
    );
    Ok(Recovered {
        first_entry: required::first_entry(&log.segments, &manifest, log.position),
        head,
        table: recovery.table,
        segments: log.segments,
        position: log.position,
        next_group: log.next_group,
        next_ts: recovery.next_ts,
        rows,
        manifest,
    })
}

/// Removes unreferenced files.
fn remove_strays(disk: &dyn Disk, dir: &Path, names: &[String], manifest: &Manifest) -> Result<()> {
    let known: BTreeSet<String> = manifest
        .numbers()
        .into_iter()
        .map(|(checkpoint, number)| file_name(checkpoint, number))
        .collect();
    for name in names {
        let stray = name.starts_with(CHECKPOINT_PREFIX) && !known.contains(name)
            || name.starts_with(manifest::NAME) && name != manifest::NAME
            || name == head::NEW_NAME
            || name.starts_with("log-") && name.ends_with(".tmp");
        if stray {
            let path = dir.join(name);
            disk.remove(&path).map_err(|e| io_error(&path, &e))?;
        }
    }
    Ok(())
}

/// Loads the checkpoint's files, several in parallel.
fn load_checkpoint(
    store: &RecordStore,
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let files: Vec<(&Unit, &CheckpointFile)> = manifest.files().collect();
    for unit in &manifest.units {
        // Units of several spaces hold small ones, for which no space is reserved.
        if let [space] = unit.spaces.as_slice()
            && let Some(space) = store.spaces.find(*space)
        {
            let rows = unit.files.iter();
            let rows: u64 = rows
                .map(|file| row_count_bound(disk, dir, unit, file))
                .sum();
            space.index.reserve(usize::try_from(rows).unwrap_or(0));
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let work = || -> Result<()> {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some((unit, file)) = files.get(n) else {
                return Ok(());
            };
            load_file(store, disk, dir, unit, file)?;
            tracing::info!(
                file = n as u64 + 1,
                of = files.len() as u64,
                rows = file.rows,
                "checkpoint file read"
            );
        }
    };
    porpoise_base::sync::thread::scope(|scope| {
        let helpers = threads.min(files.len()).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let mut outcome = work();
        for helper in helpers {
            let theirs = helper.join().unwrap_or_else(|_| {
                Err(Error::Io(
                    "a thread that read the checkpoint panicked".to_owned(),
                ))
            });
            outcome = outcome.and(theirs);
        }
        outcome
    })
}

/// Number of rows of a file by the manifest, but at most as many as its length permits: memory is
/// reserved for that number.
fn row_count_bound(disk: &dyn Disk, dir: &Path, unit: &Unit, file: &CheckpointFile) -> u64 {
    /// Minimum bytes of a row: the lengths of key and value.
    const MIN_ROW_BYTES: u64 = 2;
    let path = dir.join(file_name(unit.checkpoint, file.number));
    let bytes = disk.open(&path).and_then(|file| file.len());
    // A file that cannot be read is reported when it is loaded.
    file.rows.min(bytes.unwrap_or(0) / MIN_ROW_BYTES)
}

fn load_file(
    store: &RecordStore,
    disk: &dyn Disk,
    dir: &Path,
    unit: &Unit,
    file: &CheckpointFile,
) -> Result<()> {
    let path = dir.join(file_name(unit.checkpoint, file.number));
    let bytes = disk.open(&path).and_then(|file| file.read_all());
    let bytes = bytes.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => corrupt(&path, 0, "the file is missing; the manifest names it"),
        _ => io_error(&path, &e),
    })?;
    if bytes.len() as u64 != file.bytes {
        let what = format!(
            "the file has {} bytes, the manifest says {}",
            bytes.len(),
            file.bytes
        );
        return Err(corrupt(&path, 0, &what));
    }
    if bytes.get(..FILE_HEADER) != Some(&file_header(unit.checkpoint, file.number)) {
        return Err(corrupt(&path, 0, "the header is invalid"));
    }
    let mut reader = Reader(bytes.get(FILE_HEADER..).unwrap_or_default());
    let mut rows = 0;
    while !reader.is_empty() {
        let at = bytes.len() - reader.0.len();
        let block = load_block(store, &mut reader, unit);
        rows += block.map_err(|Malformed| corrupt(&path, at, "a block's checksum is wrong"))?;
    }
    if rows != file.rows {
        return Err(corrupt(&path, bytes.len(), "rows are missing"));
    }
    Ok(())
}

fn load_block(
    store: &RecordStore,
    reader: &mut Reader<'_>,
    unit: &Unit,
) -> std::result::Result<u64, Malformed> {
    let mut head = Reader(reader.take(BLOCK_HEADER)?);
    let (magic, sum) = (head.u32()?, head.u32()?);
    let checked = head.0;
    let (checkpoint, space) = (head.u64()?, head.u64()?);
    let (rows, len) = (head.u64()?, head.u64()?);
    let body = reader.take(usize::try_from(len).map_err(|_| Malformed)?)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(checked), body);
    if magic != BLOCK_MAGIC || found != sum || checkpoint != unit.checkpoint {
        return Err(Malformed);
    }
    let Some(space) = store.spaces.find(SpaceId(space)) else {
        return Err(Malformed);
    };
    let mut body = Reader(body);
    let mut weight = 0;
    let mut records = Vec::new();
    for _ in 0..rows {
        let (key, value) = (body.bytes()?, body.bytes()?);
        if key.len() > LONGEST_KEY || value.len() > LONGEST_VALUE {
            return Err(Malformed);
        }
        let version = NewVersion::first(value);
        let (record, bytes) = RecordRef::with_version(key, unit.ts, version);
        weight += bytes + RECORD_BYTES + key.len();
        records.push(record);
    }
    // SAFETY: no transaction runs yet, and all checkpoint files are loaded before the log is
    // replayed, so no record is removed during the load.
    let inserted = unsafe { space.index.insert_new(&records) };
    if !inserted {
        return Err(Malformed);
    }
    store.add_space_bytes(space, weight as i64);
    store.versions_created.add(rows);
    space.last_commit.fetch_max(unit.ts, Ordering::AcqRel);
    if body.is_empty() {
        Ok(rows)
    } else {
        Err(Malformed)
    }
}

/// Fallback on a full disk: writes the same bytes again in place, and zeroes after them, where
/// blocks are allocated already. After the sync, the bytes that were read are on disk, as far as a
/// full disk allows.
fn rewrite_in_place(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e: io::Error| io_error(path, &e);
    tracing::warn!(file = %path.display(), "the disk is full: the last log segment is repaired in place");
    let file = disk.open(path).map_err(failed)?;
    let end = file.len().map_err(failed)?;
    file.write_at(0, bytes).map_err(failed)?;
    let zeroes = vec![0; 1 << 16];
    let mut at = bytes.len() as u64;
    while at < end {
        let step = usize::try_from(end - at).unwrap_or(usize::MAX);
        let part = zeroes.get(..step).unwrap_or(&zeroes);
        file.write_at(at, part).map_err(failed)?;
        at += part.len() as u64;
    }
    file.sync_data().map_err(failed)
}

/// Rewrites and syncs a segment, so that the bytes that were read from it are on disk.
fn rewrite(disk: &dyn Disk, dir: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let new = dir.join("log-rewritten.tmp");
    let failed = |e: io::Error| io_error(path, &e);
    let file = disk.create(&new).map_err(failed)?;
    let written = file.write_at(0, bytes).and_then(|()| file.sync_data());
    if let Err(error) = written {
        let _ = disk.remove(&new);
        return Err(failed(error));
    }
    disk.rename(&new, path).map_err(failed)?;
    disk.sync_dir(dir).map_err(failed)
}
