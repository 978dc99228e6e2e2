//! Opening a store: the newest checkpoint, then the log behind it.
//!
//! Invariants:
//! 1. Every commit that was acknowledged is there, each commit whole; perhaps
//!    some that were never answered.
//! 2. A bad group is the torn tail only if nothing on disk says that it was
//!    durable: no later segment, and no later group that names it or a later
//!    one as durable (transactions.md, 22). Else the start is refused with file
//!    and offset, and nothing is changed.
//! 3. What was recovered is on disk before it is served: the last segment is
//!    written anew and synced (21).

use crate::checkpoint::{BLOCK_HEADER, BLOCK_MAGIC, FILE_HEADER, file_header, file_name};
use crate::codec::{Malformed, Reader};
use crate::counters::{Counter, Table};
use crate::log::format::{Group, LoggedWrite, Record, SEGMENT_HEADER, SegmentHeader, get_write};
use crate::log::{io_error, segment_name, segment_number};
use crate::manifest::{self, CheckpointFile, Manifest};
use crate::record::{LONGEST_KEY, NewVersion};
use crate::shared::Shared;
use porpoise_base::disk::Disk;
use porpoise_kv::{CounterId, Error, Result, SpaceId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What was found.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) table: Table,
    /// Number and start of the segments there are.
    pub(crate) segments: Vec<(u64, u64)>,
    /// Position behind the last record.
    pub(crate) position: u64,
    /// Number of the next group.
    pub(crate) next_group: u64,
    /// Every timestamp given out is below.
    pub(crate) next_ts: u64,
    /// Whether there are rows.
    pub(crate) rows: bool,
}

fn corrupt(path: &Path, offset: usize, what: &str) -> Error {
    Error::Corrupt(format!("{} at offset {offset}: {what}", path.display()))
}

/// Reads a store into an empty engine.
pub(crate) fn recover(shared: &Shared, disk: &dyn Disk, dir: &Path) -> Result<Recovered> {
    let began = Instant::now();
    let manifest = Manifest::load(disk, dir)?;
    let had_manifest = manifest.is_some();
    let manifest = manifest.unwrap_or_default();
    let names = disk.list(dir).map_err(|e| io_error(dir, &e))?;
    let mut recovery = Recovery {
        shared,
        table: Table {
            next_space: manifest.next_space,
            ..Table::default()
        },
        chunks: HashMap::new(),
        next_ts: manifest.ts_limit.max(manifest.ts + 1),
        commits: 0,
    };
    for (id, spec) in &manifest.spaces {
        shared.spaces.add(*id, spec.clone());
    }
    for (id, limit) in &manifest.counters {
        let counter = Counter::found(*limit);
        recovery.table.counters.insert(CounterId(*id), counter);
    }
    load_checkpoint(shared, disk, dir, &manifest)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let log = recovery.replay(disk, dir, &numbers, &manifest, had_manifest)?;
    remove_strays(disk, dir, &names, &manifest)?;
    if let Some((path, bytes)) = &log.last {
        rewrite(disk, dir, path, bytes)?;
    }
    let rows = recovery.commits + manifest.files.iter().map(|f| f.rows).sum::<u64>() > 0;
    tracing::info!(
        commits = recovery.commits,
        keys = shared.spaces.iter().map(|s| s.index.len()).sum::<usize>() as u64,
        millis = began.elapsed().as_millis() as u64,
        "store recovered"
    );
    Ok(Recovered {
        table: recovery.table,
        segments: log.segments,
        position: log.position,
        next_group: log.next_group,
        next_ts: recovery.next_ts,
        rows,
        manifest,
    })
}

/// Removes files that nothing refers to.
fn remove_strays(disk: &dyn Disk, dir: &Path, names: &[String], manifest: &Manifest) -> Result<()> {
    let known: Vec<String> = manifest
        .files
        .iter()
        .map(|file| file_name(manifest.checkpoint, file.number))
        .collect();
    for name in names {
        let stray = name.starts_with("ckpt-") && !known.contains(name)
            || name.starts_with(manifest::NAME) && name != manifest::NAME
            || name.starts_with("log-") && name.ends_with(".tmp");
        if stray {
            let path = dir.join(name);
            disk.remove(&path).map_err(|e| io_error(&path, &e))?;
        }
    }
    Ok(())
}

/// Reads the checkpoint's files, several at a time.
fn load_checkpoint(
    shared: &Shared,
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let work = || -> Result<()> {
        while let Some(file) = manifest.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            load_file(shared, disk, dir, manifest, file)?;
            tracing::info!(
                file = file.number + 1,
                of = manifest.files.len() as u64,
                rows = file.rows,
                "checkpoint file read"
            );
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let helpers = threads.min(manifest.files.len()).saturating_sub(1);
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

fn load_file(
    shared: &Shared,
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    file: &CheckpointFile,
) -> Result<()> {
    let path = dir.join(file_name(manifest.checkpoint, file.number));
    let bytes = disk
        .open(&path)
        .and_then(|file| file.read_all())
        .map_err(|e| io_error(&path, &e))?;
    if bytes.len() as u64 != file.bytes {
        let what = format!("{} bytes, the manifest says {}", bytes.len(), file.bytes);
        return Err(corrupt(&path, 0, &what));
    }
    if bytes.get(..FILE_HEADER) != Some(&file_header(manifest.checkpoint, file.number)) {
        return Err(corrupt(&path, 0, "the header is wrong"));
    }
    let mut reader = Reader(bytes.get(FILE_HEADER..).unwrap_or_default());
    let mut rows = 0;
    while !reader.is_empty() {
        let at = bytes.len() - reader.0.len();
        let block = load_block(shared, &mut reader, manifest);
        rows += block.map_err(|Malformed| corrupt(&path, at, "a block's checksum is wrong"))?;
    }
    if rows != file.rows {
        return Err(corrupt(&path, bytes.len(), "rows are missing"));
    }
    Ok(())
}

fn load_block(
    shared: &Shared,
    reader: &mut Reader<'_>,
    manifest: &Manifest,
) -> std::result::Result<u64, Malformed> {
    let mut head = Reader(reader.take(BLOCK_HEADER)?);
    let (magic, sum) = (head.u32()?, head.u32()?);
    let checked = head.0;
    let (checkpoint, space) = (head.u64()?, head.u64()?);
    let (rows, len) = (head.u64()?, head.u64()?);
    let body = reader.take(usize::try_from(len).map_err(|_| Malformed)?)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(checked), body);
    if magic != BLOCK_MAGIC || found != sum || checkpoint != manifest.checkpoint {
        return Err(Malformed);
    }
    let Some(space) = shared.spaces.find(SpaceId(space)) else {
        return Err(Malformed);
    };
    let mut body = Reader(body);
    let guard = crossbeam_epoch::pin();
    let mut weight = 0;
    for _ in 0..rows {
        let (key, value) = (body.bytes()?, body.bytes()?);
        if key.len() > LONGEST_KEY {
            return Err(Malformed);
        }
        let record = shared.record_of(space, key);
        weight += record
            .latch()
            .push(manifest.ts, NewVersion::new(Some(value)), &guard)
            .0;
    }
    shared.weigh(weight as i64);
    shared.counts.versions.add(rows);
    space.last_commit.store(manifest.ts, Ordering::Release);
    if body.is_empty() {
        Ok(rows)
    } else {
        Err(Malformed)
    }
}

struct Recovery<'s> {
    shared: &'s Shared,
    table: Table,
    chunks: HashMap<u64, Vec<Vec<u8>>>,
    next_ts: u64,
    commits: u64,
}

struct ReplayedLog {
    segments: Vec<(u64, u64)>,
    position: u64,
    next_group: u64,
    /// The last segment's file, and what is valid of it.
    last: Option<(PathBuf, Vec<u8>)>,
}

impl Recovery<'_> {
    /// Applies the log behind the checkpoint.
    fn replay(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        numbers: &[u64],
        manifest: &Manifest,
        had_manifest: bool,
    ) -> Result<ReplayedLog> {
        let mut log = ReplayedLog {
            segments: Vec::new(),
            position: 0,
            next_group: 1,
            last: None,
        };
        let mut first = true;
        for (n, number) in numbers.iter().enumerate() {
            let path = dir.join(segment_name(*number));
            let bytes = disk
                .open(&path)
                .and_then(|file| file.read_all())
                .map_err(|e| io_error(&path, &e))?;
            let header = SegmentHeader::decode(&bytes).map_err(|e| corrupt(&path, 0, &e))?;
            if header.number != *number {
                return Err(corrupt(&path, 0, "the file has another segment's name"));
            }
            if first {
                if header.start > manifest.position || !had_manifest && header.start > 0 {
                    return Err(corrupt(&path, 0, "the log begins behind the checkpoint"));
                }
                (log.position, log.next_group) = (header.start, header.first_group);
                first = false;
            } else if header.start != log.position || header.first_group != log.next_group {
                return Err(corrupt(&path, 0, "groups before this segment are missing"));
            }
            log.segments.push((header.number, header.start));
            let last = n + 1 == numbers.len();
            let end = self.segment(&path, &bytes, header, &mut log, manifest, last)?;
            tracing::info!(
                segment = n as u64 + 1,
                of = numbers.len() as u64,
                commits = self.commits,
                "log segment read"
            );
            if last {
                log.last = Some((path, bytes.get(..end).unwrap_or_default().to_vec()));
            }
        }
        if log.position < manifest.position {
            let path = dir.join(
                numbers
                    .last()
                    .map_or_else(String::new, |n| segment_name(*n)),
            );
            return Err(corrupt(&path, 0, "the log ends before the checkpoint"));
        }
        Ok(log)
    }

    /// Applies a segment; where its valid part ends.
    fn segment(
        &mut self,
        path: &Path,
        bytes: &[u8],
        header: SegmentHeader,
        log: &mut ReplayedLog,
        manifest: &Manifest,
        last: bool,
    ) -> Result<usize> {
        let mut at = SEGMENT_HEADER;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let group = Group::decode(rest, header.salt);
            let Some((group, len)) = group.filter(|(g, _)| g.number == log.next_group) else {
                self.judge_end(path, bytes, at, header, log.next_group, last)?;
                return Ok(at);
            };
            if group.start != log.position {
                return Err(corrupt(path, at, "a group stands in the wrong place"));
            }
            let mut reader = Reader(group.body);
            while !reader.is_empty() {
                let position = log.position + (group.body.len() - reader.0.len()) as u64;
                let record = Record::decode(&mut reader);
                let applied = record.and_then(|record| {
                    if position < manifest.position {
                        return Ok(());
                    }
                    self.apply(record, manifest.ts)
                });
                applied.map_err(|Malformed| corrupt(path, at, "a record makes no sense"))?;
            }
            log.position += group.body.len() as u64;
            log.next_group += 1;
            at += len;
        }
    }

    /// Whether the log may end where no whole group stands.
    fn judge_end(
        &self,
        path: &Path,
        bytes: &[u8],
        at: usize,
        header: SegmentHeader,
        expected: u64,
        last: bool,
    ) -> Result<()> {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.iter().all(|byte| *byte == 0) {
            // A later segment's header says whether something is missing.
            return Ok(());
        }
        if !last {
            return Err(corrupt(path, at, "a bad group before the end of the log"));
        }
        for later in (at + 8..bytes.len()).step_by(8) {
            let rest = bytes.get(later..).unwrap_or_default();
            if let Some((group, _)) = Group::decode(rest, header.salt)
                && group.durable >= expected
            {
                let what = format!("group {expected} is bad, and was on disk");
                return Err(corrupt(path, at, &what));
            }
        }
        tracing::warn!(
            file = %path.display(),
            offset = at as u64,
            "the log's last group was not wholly written, and is cut off"
        );
        Ok(())
    }

    fn apply(&mut self, record: Record<'_>, since: u64) -> std::result::Result<(), Malformed> {
        let shared = self.shared;
        match record {
            Record::Commit { ts, writes } => self.commit(ts, since, &[writes]),
            Record::Chunk { tag, writes } => {
                self.chunks.entry(tag).or_default().push(writes.to_vec());
                Ok(())
            }
            Record::ChunkedCommit {
                ts,
                tag,
                chunks: count,
                writes,
            } => {
                let chunks = self.chunks.remove(&tag).unwrap_or_default();
                if ts <= since {
                    return Ok(());
                }
                if chunks.len() as u64 != count {
                    return Err(Malformed);
                }
                let mut all: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
                all.push(writes);
                self.commit(ts, since, &all)
            }
            Record::CreateSpace { id, spec } => {
                if shared.spaces.find(id).is_none() && id.0 >= self.table.next_space {
                    shared.spaces.add(id, spec);
                    self.table.next_space = id.0 + 1;
                }
                Ok(())
            }
            Record::DropSpace { id } => {
                if let Some(space) = shared.spaces.find(id)
                    && space.set_dropped()
                {
                    for record in space.index.clear() {
                        shared.forget_record(&record);
                    }
                }
                Ok(())
            }
            Record::Counter { id, limit } => {
                let counter = Counter::found(limit);
                self.table.counters.insert(CounterId(id), counter);
                Ok(())
            }
            Record::TimestampLimit { limit } => {
                self.next_ts = self.next_ts.max(limit);
                Ok(())
            }
        }
    }

    fn commit(
        &mut self,
        ts: u64,
        since: u64,
        parts: &[&[u8]],
    ) -> std::result::Result<(), Malformed> {
        self.next_ts = self.next_ts.max(ts + 1);
        if ts <= since {
            return Ok(());
        }
        self.commits += 1;
        let guard = crossbeam_epoch::pin();
        for part in parts {
            let mut reader = Reader(part);
            while !reader.is_empty() {
                self.write(ts, &get_write(&mut reader)?, &guard);
            }
        }
        Ok(())
    }

    fn write(&self, ts: u64, write: &LoggedWrite<'_>, guard: &crossbeam_epoch::Guard) {
        let Ok(space) = self.shared.spaces.get(write.space) else {
            // Dropped later in the log, or before the checkpoint.
            return;
        };
        let record = self.shared.record_of(space, write.key);
        let mut latch = record.latch();
        let (bytes, _) = latch.push(ts, NewVersion::new(write.value), guard);
        let pruned = latch.prune(u64::MAX, &[], guard);
        latch.dead = write.value.is_none();
        drop(latch);
        self.shared.weigh(bytes as i64 - pruned.bytes as i64);
        space.last_commit.store(ts, Ordering::Release);
        self.shared.counts.versions.add(1);
        self.shared.reclaimer.versions.add(pruned.versions as u64);
        if write.value.is_none() {
            self.shared.unlink(space, &record);
        }
    }
}

/// Writes a segment anew, so that what was read from it is on disk.
fn rewrite(disk: &dyn Disk, dir: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let new = dir.join("log-rewritten.tmp");
    let failed = |e: io::Error| io_error(path, &e);
    let file = disk.create(&new).map_err(failed)?;
    file.write_at(0, bytes).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    disk.rename(&new, path).map_err(failed)?;
    disk.sync_dir(dir).map_err(failed)
}
