//! The log thread: takes a batch of records, writes, syncs, publishes.
//!
//! [`LogLoop::process_batch`] is one iteration. With [`Background::Callers`](crate::Background::Callers),
//! callers run iterations while they wait.
//!
//! Invariants:
//! 1. One sync is in flight at a time; in `sync` mode every group is synced before the next is written.
//! 2. After 100 ms without a record an empty group is written and synced. Its header records that the
//!    group before it is durable (transactions.md, 22).
//! 3. A segment is in the head file before its first group is written (transactions.md, 52).
//! 4. In `sync` mode a group waits for more commits as long as [`CommitDelay`] says, and never when a
//!    caller needs a sync at once.

use super::commit_delay::CommitDelay;
use super::format::{
    Group, LOG_FORMAT_VERSION, SEGMENT_HEADER, SegmentHeader, group_len, record_len,
};
use super::{Log, SpareFile, head, io_error, segment_name};
use crate::pipeline::Sequencer;
use porpoise_base::disk::File;
use porpoise_base::sync::MutexGuard;
use porpoise_base::sync::atomic::Ordering;
use porpoise_base::sync::now;
use porpoise_kv::{Durability, Error, Result};
use std::time::{Duration, Instant};

/// Time without a record after which an empty group confirms the last group.
const IDLE_CONFIRM_DELAY: Duration = Duration::from_millis(100);

/// Time for which records are batched before they are written, if no sync follows.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// Maximum size of a group in bytes, unless it is a single record.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// The open segment.
pub(crate) struct LogWriter {
    file: Box<dyn File>,
    header: SegmentHeader,
    /// Offset of the next group in the file.
    at: u64,
    /// Bytes of the file that have blocks allocated.
    len: u64,
    /// Position of the next record.
    position: u64,
    /// Number of the next group.
    next_group: u64,
    /// The last group known to be on disk.
    durable_group: u64,
    /// Time of the last group in microseconds since 1970 UTC. Times never decrease within a run,
    /// whatever the clock does.
    time: u64,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Begins a segment in a preallocated file. The log before it is on disk.
    pub(crate) fn begin(log: &Log, spare: SpareFile, header: SegmentHeader) -> Result<LogWriter> {
        let SpareFile { file, path: from } = spare;
        let path = log.dir.join(segment_name(header.number));
        let failed = |e| io_error(&path, &e);
        file.write_at(0, &header.encode()).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        log.disk.rename(&from, &path).map_err(failed)?;
        log.disk.sync_dir(&log.dir).map_err(failed)?;
        let recorded = log.head.begin_segment(header.number, header.start);
        recorded.map_err(|e| io_error(&log.dir.join(head::NAME), &e))?;
        log.segments.lock().push((header.number, header.start));
        Ok(LogWriter {
            len: file.len().map_err(failed)?,
            file,
            at: SEGMENT_HEADER as u64,
            position: header.start,
            next_group: header.first_group,
            durable_group: header.first_group.saturating_sub(1),
            header,
            time: 0,
            scratch: Vec::new(),
        })
    }

    fn failed(&self, log: &Log, error: &std::io::Error) -> Error {
        io_error(&log.dir.join(segment_name(self.header.number)), error)
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
            let time = self.time;
            *self = LogWriter::begin(log, spare, header)?;
            self.time = time;
        }
        let now = u64::try_from(log.clock.unix_micros()).unwrap_or(0);
        self.time = self.time.max(now);
        let group = Group {
            number: self.next_group,
            durable: self.durable_group,
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

    /// Syncs the segment.
    pub(crate) fn sync(&mut self, log: &Log) -> Result<()> {
        self.file.sync_data().map_err(|e| self.failed(log, &e))?;
        self.durable_group = self.next_group - 1;
        Ok(())
    }
}

/// A random number for a new segment.
pub(crate) fn fresh_salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Records that one iteration of the thread writes.
struct LogBatch {
    records: Vec<u8>,
    commits: u64,
    last_ts: u64,
    appended: u64,
    urgent: bool,
    stop: bool,
}

fn take_batch(seq: &mut Sequencer) -> LogBatch {
    LogBatch {
        records: std::mem::replace(
            &mut seq.log.bytes,
            std::mem::take(&mut seq.log.spare_buffer),
        ),
        commits: std::mem::take(&mut seq.log.commits),
        last_ts: seq.last_ts,
        appended: seq.log.appended,
        urgent: std::mem::take(&mut seq.log.urgent),
        stop: seq.log.stop,
    }
}

/// Waits for the group commit delay.
fn wait_for_group(log: &Log, delay: &mut CommitDelay, seq: &mut MutexGuard<'_, Sequencer>) {
    let Some(wait) = delay.wait(now()) else {
        return;
    };
    loop {
        let ready = seq.log.commits >= wait.wanted || seq.log.bytes.len() >= MAX_GROUP_BYTES;
        if ready || seq.log.urgent || seq.log.stop {
            break;
        }
        (seq.log.is_thread_asleep, seq.log.wake_at_commits) = (true, wait.wanted);
        let timed_out = log.wake.wait_until(seq, wait.until).timed_out();
        (seq.log.is_thread_asleep, seq.log.wake_at_commits) = (false, 0);
        if timed_out {
            break;
        }
    }
    delay.record_wait(wait, seq.log.commits);
}

/// Waits for work, and takes it.
fn wait_for_batch(
    log: &Log,
    delay: &mut CommitDelay,
    mut seq: MutexGuard<'_, Sequencer>,
) -> LogBatch {
    let batches = log.durability != Durability::Sync;
    let mut waited = false;
    loop {
        let all_synced = log.is_synced(seq.log.appended);
        let publishable = !batches && seq.last_ts > seq.durable_ts && all_synced;
        let busy = !seq.log.bytes.is_empty() && (!batches || waited);
        if busy || publishable || seq.log.urgent || seq.log.stop {
            break;
        }
        let timeout = if seq.log.bytes.is_empty() {
            IDLE_CONFIRM_DELAY
        } else {
            BATCH_DELAY
        };
        // While a batch is collected, an append need not wake the thread.
        seq.log.is_thread_asleep = seq.log.bytes.is_empty();
        let timed_out = log.wake.wait_for(&mut seq, timeout).timed_out();
        seq.log.is_thread_asleep = false;
        if timed_out {
            if seq.log.bytes.is_empty() {
                break;
            }
            waited = true;
        }
    }
    if !batches && !seq.log.bytes.is_empty() {
        wait_for_group(log, delay, &mut seq);
    }
    take_batch(&mut seq)
}

/// Runs the log thread.
pub(crate) fn write_log(log: &Log, writer: LogWriter) {
    let mut log_loop = LogLoop::new(log, writer);
    loop {
        log.heartbeats.log_step();
        let batch = wait_for_batch(log, &mut log_loop.delay, log.pipeline.lock());
        log.heartbeats.log_step();
        if log_loop.process_batch(log, batch) {
            return;
        }
    }
}

/// State of the log thread between two iterations.
pub(crate) struct LogLoop {
    writer: LogWriter,
    last_sync: Instant,
    /// Whether there are unsynced writes.
    unsynced: bool,
    /// Number of the group after the last empty group, which confirmed all before it.
    confirmed_group: u64,
    delay: CommitDelay,
    ended: bool,
}

impl LogLoop {
    pub(crate) fn new(log: &Log, writer: LogWriter) -> LogLoop {
        LogLoop {
            last_sync: log.clock.now(),
            unsynced: false,
            confirmed_group: writer.next_group,
            writer,
            delay: CommitDelay::new(),
            ended: false,
        }
    }

    /// Runs an iteration with the present contents of the buffer. Returns true if it was the last
    /// one.
    pub(crate) fn run_iteration(&mut self, log: &Log) -> bool {
        self.ended || {
            let batch = take_batch(&mut log.pipeline.lock());
            self.process_batch(log, batch)
        }
    }

    /// Writes, syncs and publishes. Returns true if it was the last iteration.
    fn process_batch(&mut self, log: &Log, batch: LogBatch) -> bool {
        let done = self.write_and_publish(log, batch);
        self.ended = done.unwrap_or_else(|error| {
            log.pipeline.lock().log.is_thread_ended = true;
            log.pipeline.watermark.fail(error);
            true
        });
        self.ended
    }

    fn write_and_publish(&mut self, log: &Log, mut batch: LogBatch) -> Result<bool> {
        let (metrics, writer) = (&log.metrics, &mut self.writer);
        let idle = batch.records.is_empty();
        if !idle {
            writer.write(log, &batch.records, || log.heartbeats.log_step())?;
            self.unsynced = true;
            metrics.groups.add(1);
            metrics.grouped_commits.add(batch.commits);
            metrics.bytes.add(batch.records.len() as u64);
        } else if !self.unsynced && self.confirmed_group < writer.next_group && !batch.stop {
            writer.write_group(log, &[])?;
            self.confirmed_group = writer.next_group;
            self.unsynced = true;
        }
        let mut synced = None;
        let due = match log.durability {
            Durability::Sync => true,
            Durability::Interval(every) => log.clock.now() >= self.last_sync + every,
            Durability::Memory => idle,
        };
        if self.unsynced && (due || batch.urgent || batch.stop) {
            let began = now();
            writer.sync(log)?;
            let ended = now();
            synced = Some((began, ended));
            metrics.syncs.record(ended - began);
            self.last_sync = log.clock.now();
            self.unsynced = false;
        }
        let mut seq = log.pipeline.lock();
        if !self.unsynced {
            log.synced.store(batch.appended, Ordering::SeqCst);
            seq.durable_ts = seq.durable_ts.max(batch.last_ts);
        }
        if let Some((began, ended)) = synced {
            self.delay
                .record_sync(began, ended, batch.commits, seq.log.commits);
        }
        if batch.records.capacity() <= MAX_GROUP_BYTES {
            // The buffer is reused with its capacity.
            batch.records.clear();
            seq.log.spare_buffer = batch.records;
        }
        seq.log.capacity_end = self.writer.certain_capacity(log);
        log.pipeline.publish(&seq);
        let ended = batch.stop && seq.log.bytes.is_empty();
        if ended {
            seq.log.is_thread_ended = true;
        }
        drop(seq);
        log.pipeline.watermark.notify();
        if let Some(annotations) = &log.annotations {
            annotations.notify();
        }
        // After the replies were released, so that no commit waits for this write.
        log.head.record_durable(log.synced_to());
        Ok(ended)
    }
}
