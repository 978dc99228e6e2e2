//! The write-ahead log with group commit.
//!
//! Commits append encoded records to a buffer under the sequencer. A log thread takes the buffer,
//! writes it as one group, syncs, and publishes the durable LSN. Records appended meanwhile form the next
//! group, which another log thread writes and syncs at the same time where syncs overlap (`threads`).
//! A thread of its own keeps an empty segment ready, so that a full disk is detected before a commit is
//! accepted.
//!
//! Invariants:
//! 1. A position (LSN) is the number of record bytes before it, through all segments. Positions up to
//!    `synced` are on disk.
//! 2. A segment gets its name after its header was synced, and its first group after the segment before
//!    it was synced to its end.
//! 3. After a failed write or sync nothing is written any more (transactions.md, 21).
//! 4. Timestamps are given out below a limit that is on disk (23).
//!
//! Rejected: recycling old segments (the salt would allow it; no profile shows that creating segments
//! costs anything).

pub(crate) mod annotations;
pub(crate) mod copy;
pub(crate) mod format;
pub(crate) mod head;

mod spare;
mod threads;
mod writer;

pub use annotations::AnnotationScanner;
pub use copy::{LogCopy, LogCursor, LogGroup};
pub(crate) use threads::run_log_thread;
pub(crate) use writer::{LogWriter, fresh_salt};

use crate::group_commit::SYNCS_IN_FLIGHT;
use crate::heartbeat::Heartbeats;
use crate::metrics::Count;
use crate::pipeline::{CommitPipeline, Leader, Sequencer};
use format::{LOG_FORMAT_VERSION, Record, SegmentHeader};
use head::HeadFile;
use porpoise_base::clock::Clock;
use porpoise_base::disk::{Disk, File};
use porpoise_base::histogram::SummedHistogram;
use porpoise_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use porpoise_base::sync::{Condvar, Mutex, MutexGuard, thread};
use porpoise_kv::{Durability, Error, Resource, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of timestamps that are reserved at once.
const TIMESTAMPS_PER_RESERVATION: u64 = 1 << 24;

/// Reserve of a segment for headers and small records, in bytes.
pub(crate) const SEGMENT_SLACK: u64 = 4096;

/// Size of the log buffer above which chunks of large write sets wait.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// Events of the log.
#[derive(Default)]
pub(crate) struct LogMetrics {
    pub(crate) bytes: Count,
    pub(crate) groups: Count,
    pub(crate) grouped_commits: Count,
    pub(crate) syncs: SummedHistogram,
    pub(crate) checkpoints: SummedHistogram,
}

/// Configuration of a log.
pub(crate) struct LogConfig {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    /// Whether callers that wait run the log, in place of threads.
    pub(crate) driven_by_callers: bool,
    /// Bytes of the log up to which segments wait for an archive; `None`: they wait for none.
    pub(crate) archive_bound: Option<u64>,
    /// Whether annotations are kept until they are released.
    pub(crate) keeps_annotations: bool,
}

/// The log of an engine.
pub(crate) struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    /// Wakes the leader of the log threads. Used with the sequencer's mutex, like `promoted`.
    pub(crate) wake: Condvar,
    /// Wakes a follower that becomes the leader.
    promoted: Condvar,
    /// The open segment; `None` until the run's first segment has begun.
    writer: Mutex<Option<LogWriter>>,
    /// Number of the last group that is durable; all groups before it are.
    durable_group: AtomicU64,
    /// Position up to which the log is on disk (the durable LSN).
    pub(crate) synced: AtomicU64,
    /// Number and start position of the existing segments, oldest first.
    pub(crate) segments: Mutex<Vec<(u64, u64)>>,
    /// Segments that an archive still needs; `None` without an archive.
    pub(crate) retention: Option<copy::Retention>,
    /// Annotations that a reader still needs; `None` if they are not kept.
    pub(crate) annotations: Option<Arc<annotations::AnnotationState>>,
    /// Records which segments and which checkpoint must exist.
    pub(crate) head: HeadFile,
    pub(crate) spare: Mutex<Spare>,
    pub(crate) spares_created: AtomicU64,
    pub(crate) spare_changed: Condvar,
    /// Whether callers that wait run the log and create segments, in place of threads.
    driven_by_callers: bool,
    /// State of the log thread's work, if callers run it.
    caller_thread: Mutex<Option<threads::CallerThread>>,
    pub(crate) pipeline: Arc<CommitPipeline>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    clock: Arc<dyn Clock>,
    pub(crate) metrics: LogMetrics,
    /// Whether the disk had no space for the run's first segment. Nothing can be appended until
    /// that exists. Cleared under the sequencer.
    pub(crate) pending: AtomicBool,
}

/// Number and start of the run's first segment.
#[derive(Clone, Copy)]
pub(crate) struct SegmentStart {
    pub(crate) number: u64,
    pub(crate) position: u64,
    pub(crate) first_group: u64,
}

/// The file of a spare segment: zeroes, synced.
pub(crate) struct SpareFile {
    pub(crate) file: Arc<dyn File>,
    /// Further handles of the file, for the log threads from the second on.
    pub(crate) more_handles: Vec<Arc<dyn File>>,
    pub(crate) path: PathBuf,
}

/// State of the spare segment.
#[derive(Default)]
pub(crate) enum Spare {
    #[default]
    Wanted,
    Ready(SpareFile),
    /// The disk is full; creation is retried periodically.
    Full,
    /// The engine is being closed.
    Stopped,
}

/// Converts the error of a file operation, and adds the file's name.
pub(crate) fn io_error(path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::Full(Resource::Disk);
    }
    Error::Io(format!("{}: {error}", path.display()))
}

/// Returns the file name of a segment.
pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:016}.seg")
}

/// Parses the number of a segment from its file name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix("log-")?
        .strip_suffix(".seg")?
        .parse()
        .ok()
}

/// Index of the first segment that the log from `position` on needs. `segments` has numbers and
/// start positions.
pub(crate) fn first_needed(segments: &[(u64, u64)], position: u64) -> usize {
    let begun = segments.partition_point(|(_, start)| *start <= position);
    begun.saturating_sub(1)
}

/// Returns the name of a spare segment's file. Names are unique, because a spare may be created
/// while the previous one is being renamed.
pub(crate) fn spare_name(count: u64) -> String {
    format!("log-spare-{count}.tmp")
}

impl Log {
    pub(crate) fn new(
        config: LogConfig,
        pipeline: Arc<CommitPipeline>,
        heartbeats: Arc<Heartbeats>,
        clock: Arc<dyn Clock>,
    ) -> Log {
        Log {
            disk: config.disk,
            dir: config.dir,
            durability: config.durability,
            segment_bytes: config.segment_bytes,
            wake: Condvar::new(),
            promoted: Condvar::new(),
            writer: Mutex::new(None),
            durable_group: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            segments: Mutex::default(),
            retention: config.archive_bound.map(copy::Retention::new),
            annotations: config.keeps_annotations.then(Arc::default),
            head: HeadFile::default(),
            spare: Mutex::default(),
            spares_created: AtomicU64::new(0),
            spare_changed: Condvar::new(),
            driven_by_callers: config.driven_by_callers,
            caller_thread: Mutex::new(None),
            pipeline,
            heartbeats,
            clock,
            metrics: LogMetrics::default(),
            pending: AtomicBool::new(false),
        }
    }

    /// Fails when writes are refused: after a failed write or sync, or because the disk had no
    /// room for a log at the start.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.pipeline.watermark.check_healthy()?;
        if self.is_pending() {
            return Err(Error::Full(Resource::Disk));
        }
        Ok(())
    }

    /// Begins the first segment of a run, and reserves timestamps in it.
    pub(crate) fn begin(&self, seq: &mut Sequencer, at: SegmentStart) -> Result<LogWriter> {
        let spare = self.create_spare().map_err(|e| io_error(&self.dir, &e))?;
        self.begin_in(seq, at, spare)
    }

    fn begin_in(
        &self,
        seq: &mut Sequencer,
        at: SegmentStart,
        spare: SpareFile,
    ) -> Result<LogWriter> {
        let position = at.position;
        self.head.create(&*self.disk, &self.dir)?;
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            number: at.number,
            salt: writer::fresh_salt(),
            start: position,
            first_group: at.first_group,
        };
        let mut writer = LogWriter::begin(self, spare, header)?;
        let limit = seq.last_ts + TIMESTAMPS_PER_RESERVATION;
        let mut record = Vec::new();
        Record::TimestampLimit { limit }.encode(&mut record);
        writer.write(self, &record, || {})?;
        writer.sync(self)?;
        seq.log.ts_limit = limit;
        seq.log.capacity_end = writer.certain_capacity(self);
        seq.log.segment_end = writer.segment_end();
        seq.log.appended = position + record.len() as u64;
        self.synced.store(seq.log.appended, Ordering::SeqCst);
        Ok(writer)
    }

    /// Starts without a segment, because the disk has no space for one: the store is read-only
    /// until there is space.
    pub(crate) fn start_without_segment(&self, seq: &mut Sequencer, position: u64) {
        tracing::error!(
            dir = %self.dir.display(),
            "the disk is full: reads are served, writes are refused until there is space"
        );
        self.pending.store(true, Ordering::SeqCst);
        seq.log.ts_limit = seq.last_ts + 1;
        seq.log.appended = position;
        seq.log.capacity_end = position;
        seq.log.is_out_of_segments = true;
        self.synced.store(position, Ordering::SeqCst);
    }

    /// Whether the run's first segment does not exist yet, because the disk is full.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Whether the disk has no space for another segment.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.is_pending() || self.pipeline.lock().log.is_out_of_segments
    }

    /// Begins the first segment as soon as the disk has space. Returns `None` if the engine is
    /// closed before.
    pub(crate) fn begin_when_disk_has_room(&self, at: SegmentStart) -> Option<LogWriter> {
        loop {
            self.heartbeats.log_step();
            let made = self.create_spare().map_err(|e| io_error(&self.dir, &e));
            let mut seq = self.pipeline.lock();
            let begun = made.and_then(|spare| self.begin_in(&mut seq, at, spare));
            match begun {
                Ok(writer) => {
                    seq.log.is_out_of_segments = false;
                    self.pending.store(false, Ordering::SeqCst);
                    tracing::info!("the disk has space again: writes are accepted");
                    return Some(writer);
                }
                Err(Error::Full(Resource::Disk)) => {}
                Err(error) => {
                    drop(seq);
                    self.fail(error);
                    return None;
                }
            }
            if !seq.log.stop {
                self.wake.wait_for(&mut seq, spare::RETRY);
            }
            if seq.log.stop {
                self.end(&mut seq);
                return None;
            }
        }
    }

    /// Number of log threads, each of which can have a sync in flight. One is enough for the modes that do not
    /// wait for syncs.
    pub(crate) fn thread_count(&self) -> usize {
        if self.durability == Durability::Sync && !self.driven_by_callers {
            SYNCS_IN_FLIGHT
        } else {
            1
        }
    }

    /// Sets the open segment, so that log threads can write.
    pub(crate) fn set_writer(&self, writer: LogWriter) {
        *self.writer.lock() = Some(writer);
    }

    /// Ends the log: nothing is written any more.
    fn end(&self, seq: &mut Sequencer) {
        seq.log.has_ended = true;
        self.heartbeats.end_log();
        self.wake.notify_all();
        self.promoted.notify_all();
    }

    /// Ends the log after a failed write or sync. No group in flight is acknowledged any more, not even one whose
    /// own sync succeeds.
    fn fail(&self, error: Error) {
        self.end(&mut self.pipeline.lock());
        self.pipeline.watermark.fail(error);
    }

    /// Whether commits count as durable before they are on disk.
    pub(crate) fn acknowledges_before_sync(&self) -> bool {
        self.durability != Durability::Sync
    }

    /// Whether rows are logged at all.
    pub(crate) fn logs_rows(&self) -> bool {
        self.durability != Durability::Memory
    }

    /// Whether commits can have annotations.
    pub(crate) fn has_annotations(&self) -> bool {
        self.annotations.is_some() && self.logs_rows()
    }

    /// Whether `len` more bytes fit in the existing segments. A record larger than a segment gets a
    /// segment that grows, unless the disk is full.
    fn fits_in_segments(&self, seq: &Sequencer, len: usize) -> bool {
        let grows =
            len as u64 + 2 * SEGMENT_SLACK > self.segment_bytes && !seq.log.is_out_of_segments;
        grows || seq.log.appended + len as u64 <= seq.log.capacity_end
    }

    /// Refuses a record that does not fit on a full disk, or that comes after the end of the log.
    /// For small records, which have a reserve while a segment is being created.
    pub(crate) fn check_admission(&self, seq: &Sequencer, len: usize) -> Result<()> {
        if seq.log.has_ended {
            return Err(Error::Unavailable("the engine is shut down".to_owned()));
        }
        if seq.log.is_out_of_segments && !self.fits_in_segments(seq, len) {
            return Err(Error::Full(Resource::Disk));
        }
        Ok(())
    }

    /// Ensures that a commit of `len` bytes can get the next timestamp and be appended: the timestamp
    /// is reserved on disk, and the bytes fit.
    pub(crate) fn reserve<'s>(
        &'s self,
        mut seq: MutexGuard<'s, Sequencer>,
        len: usize,
    ) -> Result<MutexGuard<'s, Sequencer>> {
        loop {
            self.check_writable()?;
            self.check_admission(&seq, len)?;
            seq = self.reserve_timestamp(seq)?;
            if self.fits_in_segments(&seq, len) {
                return Ok(seq);
            }
            drop(seq);
            self.wait_until(|| {
                let seq = self.pipeline.lock();
                let failed = self.pipeline.watermark.failure().is_some();
                let over = seq.log.is_out_of_segments || seq.log.has_ended || failed;
                (over || self.fits_in_segments(&seq, len)).then_some(())
            });
            seq = self.pipeline.lock();
        }
    }

    /// Appends an encoded record, and returns the position after it.
    pub(crate) fn append(&self, seq: &mut Sequencer, record: &[u8]) -> u64 {
        seq.log.bytes.extend_from_slice(record);
        seq.log.appended += record.len() as u64;
        self.wake_thread(seq);
        seq.log.appended
    }

    /// Wakes the leader of the log threads if it sleeps and its condition holds. If there is no leader, records
    /// wait and syncs should overlap, a follower becomes the leader.
    pub(crate) fn wake_thread(&self, seq: &mut Sequencer) {
        let buffer = &mut seq.log;
        match buffer.leader {
            Leader::Idle => {}
            Leader::Gathering(wanted)
                if buffer.commits >= wanted || buffer.urgent || buffer.stop => {}
            Leader::Absent if buffer.followers > 0 && buffer.delay.should_overlap() => {
                if !buffer.bytes.is_empty() {
                    buffer.is_promoting = true;
                    buffer.leader = Leader::Awake;
                    self.promoted.notify_one();
                }
                return;
            }
            _ => return,
        }
        buffer.leader = Leader::Awake;
        self.wake.notify_one();
    }

    /// Appends a record that is not a commit, and returns the position after it.
    pub(crate) fn append_record(&self, seq: &mut Sequencer, record: &Record<'_>) -> u64 {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        seq.log.urgent = true;
        self.wake.notify_one();
        self.append(seq, &bytes)
    }

    pub(crate) fn is_synced(&self, position: u64) -> bool {
        self.synced_to() >= position
    }

    /// The position up to which records are on disk.
    pub(crate) fn synced_to(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }

    /// Waits until a position is on disk, in every durability mode.
    pub(crate) fn wait_synced(&self, position: u64) -> Result<()> {
        if self.is_synced(position) {
            return Ok(());
        }
        {
            let mut seq = self.pipeline.lock();
            let begun = seq.log.appended - seq.log.bytes.len() as u64;
            // A group in flight is being synced, except in the modes that postpone syncs.
            if position > begun || self.acknowledges_before_sync() {
                seq.log.urgent = true;
                self.wake.notify_one();
            }
        }
        let watermark = &self.pipeline.watermark;
        self.wait_until(|| watermark.outcome(self.is_synced(position)))
    }

    /// Waits until `done` returns a value; it is evaluated again after each progress.
    pub(crate) fn wait_until<T>(&self, mut done: impl FnMut() -> Option<T>) -> T {
        if !self.driven_by_callers {
            return self.pipeline.watermark.wait_until(done);
        }
        loop {
            if let Some(found) = done() {
                return found;
            }
            self.step();
            thread::yield_now();
        }
    }

    /// Lets callers do the work of the log thread.
    pub(crate) fn run_by_callers(&self) {
        *self.caller_thread.lock() = Some(threads::CallerThread::new(self));
    }

    /// Runs one iteration: creates a segment if it is missing; writes a group, or syncs the oldest that was
    /// written. No effect if threads do this, or while another caller runs one.
    pub(crate) fn step(&self) {
        if let Some(mut driven) = self.caller_thread.try_lock()
            && let Some(thread) = driven.as_mut()
        {
            self.prepare_spare();
            thread.step(self);
        }
    }

    /// Stops the log threads, or runs the log to its end.
    pub(crate) fn stop(&self) {
        let mut seq = self.pipeline.lock();
        seq.log.stop = true;
        self.wake_thread(&mut seq);
        drop(seq);
        self.wake.notify_all();
        self.promoted.notify_all();
        self.stop_spares();
        if let Some(thread) = self.caller_thread.lock().as_mut() {
            while !thread.step(self) {}
        }
    }

    /// Ensures that the next timestamp is reserved on disk.
    fn reserve_timestamp<'s>(
        &'s self,
        mut seq: MutexGuard<'s, Sequencer>,
    ) -> Result<MutexGuard<'s, Sequencer>> {
        loop {
            let next = seq.last_ts + 1;
            if let Some((limit, position)) = seq.log.ts_next_limit
                && self.is_synced(position)
            {
                seq.log.ts_limit = limit;
                seq.log.ts_next_limit = None;
            }
            if next + TIMESTAMPS_PER_RESERVATION / 2 > seq.log.ts_limit
                && seq.log.ts_next_limit.is_none()
            {
                let limit = next + TIMESTAMPS_PER_RESERVATION;
                let record = Record::TimestampLimit { limit };
                let position = self.append_record(&mut seq, &record);
                seq.log.ts_next_limit = Some((limit, position));
            }
            if next < seq.log.ts_limit {
                return Ok(seq);
            }
            let position = seq.log.ts_next_limit.map_or(0, |(_, position)| position);
            drop(seq);
            self.wait_synced(position)?;
            seq = self.pipeline.lock();
        }
    }

    /// Appends a chunk of a large write set ahead of its commit; waits while the log buffer is
    /// full. `tag` is 0 for the first chunk. Returns the transaction's tag.
    pub(crate) fn append_chunk(&self, tag: u64, writes: &[u8]) -> Result<u64> {
        loop {
            let mut seq = self.reserve(self.pipeline.lock(), writes.len() + 64)?;
            if seq.log.bytes.len() > MAX_BUFFERED_BYTES {
                let position = seq.log.appended;
                drop(seq);
                self.wait_synced(position)?;
                continue;
            }
            // A position can be 0, a tag cannot.
            let tag = if tag == 0 { seq.log.appended + 1 } else { tag };
            seq.log.chunked.entry(tag).or_default();
            let mut bytes = Vec::with_capacity(writes.len() + 16);
            Record::Chunk { tag, writes }.encode(&mut bytes);
            self.append(&mut seq, &bytes);
            return Ok(tag);
        }
    }

    /// Drops the chunks of a transaction that will never commit.
    pub(crate) fn forget_chunks(&self, seq: &mut Sequencer, tag: u64) {
        seq.log.chunked.remove(&tag);
    }

    /// Records that the commit of a transaction with chunks was appended before `position`. A
    /// checkpoint with an older snapshot still needs the chunks.
    pub(crate) fn end_chunks(&self, seq: &mut Sequencer, tag: u64, position: u64) {
        // For its side effect: the list stays short if there is no checkpoint for a long time.
        self.first_needed_position(seq, self.synced_to());
        seq.log.chunked.insert(tag, Some(position));
    }

    /// Returns the first log position that recovery needs after a checkpoint that has all commits
    /// up to `reached`. Drops the transactions whose commits the checkpoint has.
    pub(crate) fn first_needed_position(&self, seq: &mut Sequencer, reached: u64) -> u64 {
        let chunked = &mut seq.log.chunked;
        chunked.retain(|_, end| end.is_none_or(|end| end > reached));
        chunked
            .keys()
            .next()
            .map_or(reached, |tag| reached.min(tag - 1))
    }

    /// Records a checkpoint whose manifest is durable, and which needs the log from
    /// `position` on.
    pub(crate) fn record_checkpoint(&self, number: u64, position: u64) -> Result<()> {
        let oldest = {
            let segments = self.segments.lock();
            let first = first_needed(&segments, position);
            segments.get(first).map_or(0, |(number, _)| *number)
        };
        let recorded = self.head.checkpoint(number, oldest);
        recorded.map_err(|e| io_error(&self.dir.join(head::NAME), &e))
    }

    /// Removes segments that lie entirely before a position and that neither an archive nor a reader of
    /// annotations waits for.
    pub(crate) fn remove_before(&self, position: u64) -> Result<()> {
        let position = self.removable_before(position);
        let mut segments = self.segments.lock();
        let needless = first_needed(&segments, position);
        let gone: Vec<(u64, u64)> = segments.drain(..needless).collect();
        drop(segments);
        for (n, (number, _)) in gone.iter().enumerate() {
            let path = self.dir.join(segment_name(*number));
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    // A gap would look like data loss: the next call removes these first.
                    let rest = gone.iter().skip(n).copied();
                    self.segments.lock().splice(0..0, rest);
                    return Err(io_error(&path, &error));
                }
                _ => {}
            }
        }
        self.disk
            .sync_dir(&self.dir)
            .map_err(|e| io_error(&self.dir, &e))
    }
}
