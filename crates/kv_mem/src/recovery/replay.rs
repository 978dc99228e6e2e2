//! Replay of the log after the checkpoint.
//!
//! Segments are read one after the other: groups are checked, records decoded, and the writes of
//! commits collected. Two threads apply the writes of a segment, each for half of the keys (by
//! hash), so that all writes to one key are applied in order.

use super::corrupt;
use super::required::{self, read_header};
use crate::codec::{Malformed, Reader};
use crate::counters::{Counter, CounterTable};
use crate::log::format::{Group, LoggedWrite, Record, SEGMENT_HEADER, SegmentHeader, get_write};
use crate::log::{io_error, segment_name};
use crate::manifest::Manifest;
use crate::record::NewVersion;
use crate::space::Space;
use crate::store::RecordStore;
use porpoise_base::disk::Disk;
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::{CounterId, Result, SpaceId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Size of writes in bytes up to which a single thread applies them.
const MAX_SINGLE_THREAD_BYTES: usize = 256 << 10;

/// Writes of a commit that are to be applied.
struct CommitWrites<'b> {
    ts: u64,
    /// Offset of their group in the segment.
    at: usize,
    writes: Cow<'b, [u8]>,
}

pub(super) struct Recovery<'s> {
    pub(super) store: &'s RecordStore,
    /// Counters, and the id of the next space.
    pub(super) table: CounterTable,
    pub(super) chunks: HashMap<u64, Vec<Vec<u8>>>,
    pub(super) next_ts: u64,
    pub(super) commits: u64,
}

pub(super) struct ReplayedLog {
    /// Number and start position of each segment.
    pub(super) segments: Vec<(u64, u64)>,
    pub(super) position: u64,
    pub(super) next_group: u64,
    /// Path of the last segment, and its valid bytes.
    pub(super) last: Option<(PathBuf, Vec<u8>)>,
}

/// Reads the start positions of segments from their headers.
fn segment_starts(disk: &dyn Disk, dir: &Path, numbers: &[u64]) -> Result<Vec<u64>> {
    let mut starts = Vec::with_capacity(numbers.len());
    for number in numbers {
        let header = read_header(disk, &dir.join(segment_name(*number)))?;
        starts.push(header.start);
    }
    Ok(starts)
}

impl Recovery<'_> {
    /// Replays the log after the checkpoint.
    pub(super) fn replay(
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
        let starts = segment_starts(disk, dir, numbers)?;
        // Segments before the checkpoint's position were about to be removed, in any order, so some
        // may be missing.
        let needed = starts.partition_point(|start| *start <= manifest.position);
        let (old, numbers) = numbers
            .split_at_checked(needed.saturating_sub(1))
            .unwrap_or((&[], numbers));
        log.segments.extend(old.iter().copied().zip(starts));
        let mut first = true;
        for (n, number) in numbers.iter().enumerate() {
            let path = dir.join(segment_name(*number));
            let bytes = disk
                .open(&path)
                .and_then(|file| file.read_all())
                .map_err(|e| io_error(&path, &e))?;
            let header = SegmentHeader::decode(&bytes).map_err(|e| corrupt(&path, 0, &e))?;
            if header.number != *number {
                return Err(corrupt(&path, 0, "the name is not that of the header"));
            }
            if first {
                if header.start > manifest.position || !had_manifest && header.start > 0 {
                    return Err(corrupt(&path, 0, "the log begins after the checkpoint"));
                }
                (log.position, log.next_group) = (header.start, header.first_group);
                first = false;
            } else if header.start != log.position || header.first_group != log.next_group {
                return Err(corrupt(
                    &path,
                    0,
                    "the segment before this one was truncated",
                ));
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
            return Err(required::log_too_short(
                dir,
                numbers,
                log.position,
                manifest,
            ));
        }
        Ok(log)
    }

    /// Replays a segment, and returns the offset at which its valid part ends.
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
        let mut pending = Vec::new();
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let group = Group::decode(rest, &header);
            let Some((group, len)) = group.filter(|(g, _)| g.number == log.next_group) else {
                self.check_end(path, bytes, at, header, log.next_group, last)?;
                let applied = apply_writes(self.store, &pending);
                let invalid = |at| corrupt(path, at, "an invalid write in a record");
                return applied.map(|()| at).map_err(invalid);
            };
            if group.start != log.position {
                return Err(corrupt(path, at, "a log group is at the wrong position"));
            }
            let mut reader = Reader(group.body);
            while !reader.is_empty() {
                let position = log.position + (group.body.len() - reader.0.len()) as u64;
                let record = Record::decode(&mut reader);
                let applied = record.and_then(|record| {
                    if position < manifest.position {
                        return Ok(());
                    }
                    self.apply(record, manifest.ts, at, &mut pending)
                });
                applied.map_err(|Malformed| corrupt(path, at, "an invalid record"))?;
            }
            log.position += group.body.len() as u64;
            log.next_group += 1;
            at += len;
        }
    }

    /// Checks that the log may end at `at`, where there is no complete group.
    fn check_end(
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
            // If a group is missing, the header of the next segment shows it.
            return Ok(());
        }
        if !last {
            return Err(corrupt(path, at, "a damaged group before the log's end"));
        }
        for later in (at + 8..bytes.len()).step_by(8) {
            let rest = bytes.get(later..).unwrap_or_default();
            if let Some((group, _)) = Group::decode(rest, &header)
                && group.durable >= expected
            {
                let what = format!("log group {expected} is damaged, although it had been synced");
                return Err(corrupt(path, at, &what));
            }
        }
        tracing::warn!(
            file = %path.display(),
            offset = at as u64,
            "the last group of the log was not written completely; it is removed"
        );
        Ok(())
    }

    /// Processes a record. Appends writes that the checkpoint lacks to `pending`.
    fn apply<'b>(
        &mut self,
        record: Record<'b>,
        checkpoint_ts: u64,
        at: usize,
        pending: &mut Vec<CommitWrites<'b>>,
    ) -> std::result::Result<(), Malformed> {
        let store = self.store;
        match record {
            Record::Commit { ts, writes } => {
                if self.is_new(ts, checkpoint_ts) {
                    let writes = Cow::Borrowed(writes);
                    pending.push(CommitWrites { ts, at, writes });
                }
                Ok(())
            }
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
                if !self.is_new(ts, checkpoint_ts) {
                    return Ok(());
                }
                if chunks.len() as u64 != count {
                    return Err(Malformed);
                }
                let all = chunks.into_iter().map(Cow::Owned);
                let all = all.chain([Cow::Borrowed(writes)]);
                pending.extend(all.map(|writes| CommitWrites { ts, at, writes }));
                Ok(())
            }
            Record::CreateSpace { id, spec } => {
                if store.spaces.find(id).is_none() && id.0 >= self.table.next_space {
                    store.spaces.add(id, spec);
                    self.table.next_space = id.0 + 1;
                }
                Ok(())
            }
            Record::DropSpace { id } => {
                if let Some(space) = store.spaces.find(id)
                    && space.mark_dropped()
                {
                    for record in space.index.clear() {
                        store.subtract_record(space, &record);
                    }
                }
                Ok(())
            }
            Record::Counter { id, limit } => {
                let counter = Counter::from_recovered_limit(limit);
                self.table.counters.insert(CounterId(id), counter);
                Ok(())
            }
            Record::TimestampLimit { limit } => {
                self.next_ts = self.next_ts.max(limit);
                Ok(())
            }
        }
    }

    /// Counts a commit, and returns whether the checkpoint lacks it.
    fn is_new(&mut self, ts: u64, checkpoint_ts: u64) -> bool {
        self.next_ts = self.next_ts.max(ts + 1);
        self.commits += u64::from(ts > checkpoint_ts);
        ts > checkpoint_ts
    }
}

/// Applies writes. The error is the offset of the group of a write that cannot be decoded.
fn apply_writes(
    store: &RecordStore,
    pending: &[CommitWrites<'_>],
) -> std::result::Result<(), usize> {
    let bytes: usize = pending.iter().map(|commit| commit.writes.len()).sum();
    if bytes < MAX_SINGLE_THREAD_BYTES {
        return apply_key_half(store, pending, None);
    }
    porpoise_base::sync::thread::scope(|scope| {
        let helper = scope.spawn(|| apply_key_half(store, pending, Some(1)));
        let mine = apply_key_half(store, pending, Some(0));
        let theirs = helper.join().unwrap_or(Err(0));
        mine.and(theirs)
    })
}

/// Counts of one thread that applies writes. Shared counters would bounce between caches.
#[derive(Default)]
struct CommitCounts<'s> {
    made: u64,
    freed: u64,
    /// The space last written to, with the newest commit to it and the bytes added since the write
    /// before to another space.
    last: Option<(&'s Space, u64, i64)>,
}

impl<'s> CommitCounts<'s> {
    fn add_write(&mut self, store: &RecordStore, space: &'s Space, ts: u64, bytes: i64) {
        match &mut self.last {
            Some((last, newest, sum)) if last.id == space.id => {
                (*newest, *sum) = (ts, *sum + bytes)
            }
            last => {
                if let Some((before, newest, sum)) = last.replace((space, ts, bytes)) {
                    add_commits(store, before, newest, sum);
                }
            }
        }
    }

    fn add_to_store(self, store: &RecordStore) {
        store.versions_created.add(self.made);
        store.versions_reclaimed.add(self.freed);
        if let Some((space, newest, bytes)) = self.last {
            add_commits(store, space, newest, bytes);
        }
    }
}

/// Adds the effects of commits to a space's state.
fn add_commits(store: &RecordStore, space: &Space, newest: u64, bytes: i64) {
    store.add_space_bytes(space, bytes);
    space.last_commit.fetch_max(newest, Ordering::AcqRel);
}

/// Applies the writes to the keys of one half, or to all keys.
fn apply_key_half(
    store: &RecordStore,
    pending: &[CommitWrites<'_>],
    half: Option<u32>,
) -> std::result::Result<(), usize> {
    let mut guard = crossbeam_epoch::pin();
    let mut counts = CommitCounts::default();
    for (n, commit) in pending.iter().enumerate() {
        if n % 256 == 255 {
            guard.repin();
        }
        let mut reader = Reader(&commit.writes);
        while !reader.is_empty() {
            let write = get_write(&mut reader).map_err(|Malformed| commit.at)?;
            if write.space == SpaceId::ANNOTATIONS {
                continue;
            }
            if half.is_none_or(|half| crc32c::crc32c(write.key) & 1 == half) {
                apply_write(store, commit.ts, &write, &mut counts, &guard);
            }
        }
    }
    counts.add_to_store(store);
    Ok(())
}

fn apply_write<'s>(
    store: &'s RecordStore,
    ts: u64,
    write: &LoggedWrite<'_>,
    counts: &mut CommitCounts<'s>,
    guard: &crossbeam_epoch::Guard,
) {
    let Ok(space) = store.spaces.get(write.space) else {
        // The space was dropped later in the log, or before the checkpoint.
        return;
    };
    let record = store.get_or_create(space, write.key);
    let mut latch = record.latch();
    let version = match write.value {
        Some(value) if record.newest(guard).is_none() => NewVersion::first(value),
        value => NewVersion::new(value),
    };
    let (bytes, _) = latch.push(ts, version, guard);
    let pruned = latch.prune(u64::MAX, &[], guard);
    latch.dead = write.value.is_none();
    drop(latch);
    counts.made += 1;
    counts.freed += pruned.versions as u64;
    let grown = bytes as i64 - pruned.bytes as i64;
    counts.add_write(store, space, ts, grown);
    if write.value.is_none() {
        store.unlink(space, &record);
    }
}
