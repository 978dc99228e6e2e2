//! The log threads: each takes a batch of records, writes it as a group, syncs, and publishes.
//!
//! The leader/followers pattern of thread pools. One thread at a time is the leader: it waits for records and
//! takes them, and is no longer the leader while it writes and syncs them. If more records come meanwhile and
//! syncs should overlap ([`delay`](crate::group_commit::delay)), a sleeping follower becomes the next leader;
//! otherwise the records wait until a thread has finished. So a group costs at most one wake-up, as with a
//! single log thread, and where syncs are short one thread does all the work.
//!
//! ```text
//! thread 0   lead | write 1 | sync 1 ............ | publish 1 | follow
//! thread 1   follow         | lead | write 2 | sync 2 ............ | publish 2 | lead
//! ```
//!
//! [`LogThread::write`] and [`LogThread::finish`] are one iteration. With
//! [`Background::Callers`](crate::Background::Callers), callers run iterations while they wait, and leave up to
//! [`UNSYNCED_BY_CALLERS`] groups written but not synced.
//!
//! Invariants:
//! 1. In `sync` mode every group is synced by the thread that wrote it, through the thread's own handle.
//! 2. The durable position passes a group only after its sync and those of all groups before it
//!    ([`GroupsInFlight`](crate::group_commit::GroupsInFlight)). After a failure it does not move.
//! 3. After 100 ms without a record an empty group is written and synced. Its header records that the
//!    group before it is durable (transactions.md, 22).
//! 4. A group that needs a new segment begins only when no other is in flight.
//! 5. In `sync` mode a group waits for more commits as long as
//!    [`CommitDelay`](crate::group_commit::delay::CommitDelay) says, and never when a caller needs a
//!    sync at once.
//! 6. A group whose sync hangs stops the heartbeat, whatever the other threads do.

use super::Log;
use super::writer::{MAX_GROUP_BYTES, segment_error};
use crate::group_commit::{GroupEnd, GroupTicket};
use crate::pipeline::{Leader, Sequencer};
use porpoise_base::disk::File;
use porpoise_base::sync::MutexGuard;
use porpoise_base::sync::atomic::Ordering;
use porpoise_base::sync::now;
use porpoise_kv::{Durability, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without a record after which an empty group confirms the last group.
const IDLE_CONFIRM_DELAY: Duration = Duration::from_millis(100);

/// Time for which records are batched before they are written, if no sync follows.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// Number of groups that callers leave unsynced, so that simulations cover several groups in flight.
const UNSYNCED_BY_CALLERS: usize = 2;

/// Records that one iteration writes.
struct LogBatch {
    records: Vec<u8>,
    commits: u64,
    last_ts: u64,
    appended: u64,
    urgent: bool,
    stop: bool,
    ticket: GroupTicket,
    /// Whether another group was in flight when this one began.
    did_overlap: bool,
    /// Whether another group may begin before this one is synced.
    may_overlap: bool,
}

/// A batch that has been written to the segment.
struct WrittenBatch {
    batch: LogBatch,
    /// The thread's handle of the segment.
    file: Arc<dyn File>,
    /// Number of the segment.
    segment: u64,
    last_group: u64,
    capacity_end: u64,
    segment_end: u64,
    /// Whether this batch or one before it has not been synced.
    is_unsynced: bool,
}

fn take_batch(seq: &mut Sequencer) -> LogBatch {
    let buffer = &mut seq.log;
    let commits = std::mem::take(&mut buffer.commits);
    buffer.grouped_commits += commits;
    buffer.leader = Leader::Absent;
    let did_overlap = !buffer.groups.is_empty();
    LogBatch {
        records: std::mem::replace(&mut buffer.bytes, std::mem::take(&mut buffer.spare_buffer)),
        commits,
        last_ts: seq.last_ts,
        appended: buffer.appended,
        urgent: std::mem::take(&mut buffer.urgent),
        stop: buffer.stop,
        ticket: buffer.groups.begin(commits),
        did_overlap,
        may_overlap: buffer.delay.should_overlap(),
    }
}

/// Waits for the group commit delay.
fn wait_for_more_commits(log: &Log, seq: &mut MutexGuard<'_, Sequencer>) {
    let arrived = seq.log.arrived_commits();
    let commits = seq.log.commits;
    let Some(wait) = seq.log.delay.wait(now(), commits, arrived) else {
        return;
    };
    loop {
        let ready = seq.log.commits >= wait.wanted || seq.log.bytes.len() >= MAX_GROUP_BYTES;
        if ready || seq.log.urgent || seq.log.stop || seq.log.has_ended {
            break;
        }
        seq.log.leader = Leader::Gathering(wait.wanted);
        let timed_out = log.wake.wait_until(seq, wait.until).timed_out();
        seq.log.leader = Leader::Awake;
        if timed_out {
            break;
        }
    }
    let commits = seq.log.commits;
    seq.log.delay.record_wait(wait, commits);
}

/// Waits for work as the leader, and takes it. Returns `None` if the log has ended.
fn lead(log: &Log, mut seq: MutexGuard<'_, Sequencer>) -> Option<LogBatch> {
    let batches = log.durability != Durability::Sync;
    let mut waited = false;
    seq.log.leader = Leader::Awake;
    loop {
        if seq.log.has_ended {
            return None;
        }
        let is_alone = seq.log.groups.is_empty();
        if is_alone {
            log.heartbeats.log_step();
        }
        let has_records = !seq.log.bytes.is_empty();
        if has_records && (!batches || waited) && seq.log.may_begin() {
            if !batches {
                wait_for_more_commits(log, &mut seq);
            }
            if seq.log.has_ended {
                return None;
            }
            // The wait may have brought more than the segment holds.
            if seq.log.may_begin() {
                return Some(take_batch(&mut seq));
            }
            continue;
        }
        let all_synced = log.is_synced(seq.log.appended);
        let publishable = !batches && seq.last_ts > seq.durable_ts && all_synced;
        if is_alone && (publishable || seq.log.urgent || seq.log.stop) {
            return Some(take_batch(&mut seq));
        }
        let timeout = if batches && has_records {
            BATCH_DELAY
        } else {
            IDLE_CONFIRM_DELAY
        };
        // While a batch is collected, an append need not wake the thread.
        seq.log.leader = if has_records {
            Leader::Blocked
        } else {
            Leader::Idle
        };
        let timed_out = log.wake.wait_for(&mut seq, timeout).timed_out();
        seq.log.leader = Leader::Awake;
        if timed_out && !seq.log.bytes.is_empty() {
            waited = true;
        } else if timed_out && seq.log.groups.is_empty() {
            return Some(take_batch(&mut seq));
        }
    }
}

/// Sleeps until this thread becomes the leader, then waits for work. Returns `None` if the log is being
/// stopped or has ended.
fn follow(log: &Log, mut seq: MutexGuard<'_, Sequencer>) -> Option<LogBatch> {
    seq.log.followers += 1;
    while !seq.log.is_promoting && !seq.log.stop && !seq.log.has_ended {
        log.promoted.wait(&mut seq);
    }
    seq.log.followers -= 1;
    if !std::mem::take(&mut seq.log.is_promoting) {
        return None;
    }
    lead(log, seq)
}

/// Runs a log thread. Thread 0 is the first leader.
pub(crate) fn run_log_thread(log: &Log, number: usize) {
    let mut thread = LogThread::new(log, number);
    let mut batch = if number == 0 {
        lead(log, log.pipeline.lock())
    } else {
        follow(log, log.pipeline.lock())
    };
    while let Some(next) = batch {
        let ended = thread.write(log, next).and_then(|w| thread.finish(log, w));
        if let Err(error) = ended {
            log.fail(error);
        }
        let seq = log.pipeline.lock();
        batch = match seq.log.leader {
            Leader::Absent => lead(log, seq),
            _ => follow(log, seq),
        };
    }
}

/// State of a log thread between two iterations.
struct LogThread {
    number: usize,
    last_sync: Instant,
    /// Whether there are writes that wait for the next sync; not in `sync` mode.
    unsynced: bool,
}

impl LogThread {
    fn new(log: &Log, number: usize) -> LogThread {
        LogThread {
            number,
            last_sync: log.clock.now(),
            unsynced: false,
        }
    }

    /// Writes a batch. A batch without records becomes an empty group, unless all groups are confirmed.
    fn write(&mut self, log: &Log, batch: LogBatch) -> Result<WrittenBatch> {
        let mut writer = log.writer.lock();
        let Some(writer) = writer.as_mut() else {
            return Err(Error::Unavailable("the log has no segment".to_owned()));
        };
        let mut has_written = !batch.records.is_empty();
        if has_written {
            // Beside another group, only the sync of the oldest one is a step.
            let step = || {
                if !batch.did_overlap {
                    log.heartbeats.log_step();
                }
            };
            writer.write(log, &batch.records, step)?;
            log.metrics.groups.add(1);
            log.metrics.grouped_commits.add(batch.commits);
            log.metrics.bytes.add(batch.records.len() as u64);
        } else if !self.unsynced && !batch.stop {
            has_written = writer.confirm(log)?;
        }
        let written = WrittenBatch {
            file: writer.handle(self.number),
            segment: writer.segment(),
            last_group: writer.last_group(),
            capacity_end: writer.certain_capacity(log),
            segment_end: writer.segment_end(),
            is_unsynced: has_written || self.unsynced,
            batch,
        };
        if written.batch.may_overlap {
            let mut seq = log.pipeline.lock();
            seq.log.groups.finish_write(written.batch.ticket);
            seq.log.segment_end = written.segment_end;
            if seq.log.leader == Leader::Blocked {
                log.wake.notify_one();
            }
        }
        Ok(written)
    }

    /// Syncs a written batch if a sync is due, and publishes the durable position.
    fn finish(&mut self, log: &Log, written: WrittenBatch) -> Result<()> {
        let batch = &written.batch;
        let due = match log.durability {
            Durability::Sync => true,
            Durability::Interval(every) => log.clock.now() >= self.last_sync + every,
            Durability::Memory => batch.records.is_empty(),
        };
        self.unsynced = written.is_unsynced;
        let mut synced = None;
        if self.unsynced && (due || batch.urgent || batch.stop) {
            let began = now();
            let outcome = written.file.sync_data();
            outcome.map_err(|e| segment_error(log, written.segment, &e))?;
            let ended = now();
            synced = Some((began, ended));
            log.metrics.syncs.record(ended - began);
            self.last_sync = log.clock.now();
            self.unsynced = false;
        }
        self.publish(log, written, synced);
        Ok(())
    }

    fn publish(&self, log: &Log, written: WrittenBatch, synced: Option<(Instant, Instant)>) {
        let WrittenBatch {
            batch, last_group, ..
        } = written;
        let mut seq = log.pipeline.lock();
        if seq.log.has_ended {
            // Another group has failed.
            return;
        }
        if seq.log.groups.is_newest(batch.ticket) {
            seq.log.capacity_end = written.capacity_end;
            seq.log.segment_end = written.segment_end;
        }
        if let Some((began, ended)) = synced {
            let took = ended - began;
            seq.log.delay.record_sync(took, batch.did_overlap);
        }
        if self.unsynced {
            seq.log.groups.leave_unsynced(batch.ticket);
        } else {
            let end = GroupEnd {
                position: batch.appended,
                ts: batch.last_ts,
                number: last_group,
            };
            advance(
                log,
                &mut seq,
                batch.ticket,
                end,
                synced.map(|(_, ended)| ended),
            );
        }
        let mut records = batch.records;
        if records.capacity() <= MAX_GROUP_BYTES {
            // The buffer is reused with its capacity.
            records.clear();
            seq.log.spare_buffer = records;
        }
        log.pipeline.publish(&seq);
        let is_alone = seq.log.groups.is_empty();
        if batch.stop && is_alone && seq.log.bytes.is_empty() {
            log.end(&mut seq);
        } else if is_alone {
            log.heartbeats.log_step();
        }
        let waits = match seq.log.leader {
            Leader::Blocked => true,
            Leader::Idle => {
                let publishable = is_alone && seq.last_ts > seq.durable_ts;
                publishable || seq.log.urgent || seq.log.stop
            }
            _ => false,
        };
        if waits {
            log.wake.notify_one();
        }
        drop(seq);
        log.pipeline.watermark.notify();
        if let Some(annotations) = &log.annotations {
            annotations.notify();
        }
        // After the replies were released, so that no commit waits for this write.
        log.head.record_durable(log.synced_to());
    }
}

/// Records that a group is synced, and advances the durable position if all groups before it are synced too.
fn advance(
    log: &Log,
    seq: &mut Sequencer,
    ticket: GroupTicket,
    end: GroupEnd,
    ended: Option<Instant>,
) {
    let Some(durable) = seq.log.groups.finish_sync(ticket, end) else {
        return;
    };
    log.synced.store(durable.end.position, Ordering::SeqCst);
    log.durable_group
        .fetch_max(durable.end.number, Ordering::SeqCst);
    seq.durable_ts = seq.durable_ts.max(durable.end.ts);
    log.heartbeats.log_step();
    if let Some(ended) = ended {
        let arrived = seq.log.arrived_commits();
        let delay = &mut seq.log.delay;
        delay.record_answered(ended, durable.commits, arrived);
    }
}

/// The log thread's work, run by callers.
pub(super) struct CallerThread {
    thread: LogThread,
    /// Groups that are written and not synced, oldest first.
    written: VecDeque<WrittenBatch>,
}

impl CallerThread {
    pub(super) fn new(log: &Log) -> CallerThread {
        CallerThread {
            thread: LogThread::new(log, 0),
            written: VecDeque::new(),
        }
    }

    /// Writes a group, or syncs and publishes the oldest one that was written. Returns whether the log has
    /// ended.
    pub(super) fn step(&mut self, log: &Log) -> bool {
        let mut seq = log.pipeline.lock();
        if seq.log.has_ended {
            return true;
        }
        let may_write = match self.written.len() {
            0 => true,
            // The other modes may leave a group unsynced, so that one in flight is enough.
            1.. if log.durability != Durability::Sync => false,
            count => {
                let fits = seq.log.appended <= seq.log.segment_end;
                count < UNSYNCED_BY_CALLERS && fits && !seq.log.bytes.is_empty()
            }
        };
        let outcome = if may_write {
            let batch = take_batch(&mut seq);
            drop(seq);
            let has_records = !batch.records.is_empty();
            let written = self.thread.write(log, batch);
            written.and_then(|written| {
                self.written.push_back(written);
                if has_records {
                    return Ok(());
                }
                self.finish_oldest(log)
            })
        } else {
            drop(seq);
            self.finish_oldest(log)
        };
        if let Err(error) = outcome {
            log.fail(error);
        }
        log.pipeline.lock().log.has_ended
    }

    fn finish_oldest(&mut self, log: &Log) -> Result<()> {
        let oldest = self.written.pop_front();
        oldest.map_or(Ok(()), |oldest| self.thread.finish(log, oldest))
    }
}
