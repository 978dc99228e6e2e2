//! The log as sessions, dumps and the writer share it.
//!
//! The writer alone changes files; it publishes how far they reach. Sessions ask it to rotate and to reset, and wait.
//! Purging removes names of files that are not the last one, so sessions do that themselves.
//!
//! Invariants:
//! 1. `end` is the end of a complete transaction in the last file, and everything before it is on disk in the engine.
//! 2. No file from which a connected reader has still to read is removed by age or size.

use crate::acknowledge::{AckEngine, Acknowledgements};
use crate::annotation::ANNOTATION_FORMAT_VERSION;
use crate::describe::{self, EventRow};
use crate::file::{self, EventReader, FIRST_POSITION, Scanned, file_name, file_number};
use crate::flow_control::{FlowControl, FlowSettings};
use crate::pending_keys::PendingKeys;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use porpoise_base::blocking::blocking;
use porpoise_base::clock::Clock;
use porpoise_base::disk::Disk;
use porpoise_base::sync::thread::JoinHandle;
use porpoise_kv::Stat;
use porpoise_replication::epoch::{EpochKeeper, MAX_EPOCH};
use porpoise_replication::event::FormatDescription;
use porpoise_replication::gtid::{GtidSet, Uuid};
use porpoise_rows::commit_pacing::CommitPacing;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

// What the engine stores and what this crate writes are versions of one format.
const _: () = assert!(ANNOTATION_FORMAT_VERSION == 1);

/// Options of the log.
#[derive(Clone)]
pub struct Options {
    /// Directory of the files.
    pub dir: PathBuf,
    /// The disk that has it.
    pub disk: Arc<dyn Disk>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// `server_id`.
    pub server_id: u32,
    /// `server_uuid`.
    pub server_uuid: Uuid,
    /// Version in the FORMAT_DESCRIPTION events.
    pub version: String,
    /// `max_binlog_size`, in bytes.
    pub max_file_bytes: u64,
    /// `binlog_expire_logs_seconds`; `None`: files are not removed by age.
    pub expire: Option<Duration>,
    /// `max_binlog_total_size`, in bytes; `None`: files are not removed by size.
    pub max_total_bytes: Option<u64>,
    /// `binlog_transaction_compression`.
    pub compress: bool,
}

/// A file of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogFile {
    pub(crate) number: u64,
    /// Length; of the last file that at its beginning.
    pub(crate) bytes: u64,
    /// Identifiers in earlier files.
    pub(crate) previous: GtidSet,
    /// Time of its last change, in microseconds since 1970 UTC; 0 for the last file.
    pub(crate) changed: u64,
}

/// A registered replica (SHOW REPLICAS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its `server_id`.
    pub server_id: u32,
    /// Its host, as it reports it.
    pub host: String,
    /// Its port, as it reports it.
    pub port: u16,
    /// Its UUID; empty if it has not said.
    pub uuid: String,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: Vec<LogFile>,
    /// Number of the first file after the newest gap. A gap is left by a run without the log, whose changes are in
    /// no file; readers that ask for a position in an earlier file are refused.
    pub(crate) gap: Option<u64>,
    /// End of the last file for readers.
    pub(crate) end: u64,
    pub(crate) executed: GtidSet,
    /// The newest commit in the files.
    pub(crate) last_commit: u64,
    /// Number of rotations requested, and done.
    pub(crate) rotations: (u64, u64),
    /// Number of resets requested, and done.
    pub(crate) resets: (u64, u64),
    /// Requests to report that the writer has caught up: made, answered.
    pub(crate) catch_ups: (u64, u64),
    pub(crate) stops: bool,
    /// The reason why the log is closed.
    pub(crate) closed: Option<String>,
    /// Number of the file that each dump reads.
    pub(crate) dumps: BTreeMap<u64, u64>,
    /// Number of resets begun: dumps of an earlier one end.
    pub(crate) generation: u64,
    replicas: BTreeMap<u64, Replica>,
    pub(crate) acks: Acknowledgements,
    pub(crate) flow: FlowControl,
}

impl State {
    /// The files from which readers may start, oldest first: those after the newest gap.
    pub(crate) fn readable(&self) -> &[LogFile] {
        let gap = self.gap.unwrap_or(0);
        let at = self.files.partition_point(|file| file.number < gap);
        self.files.get(at..).unwrap_or_default()
    }
}

/// The present state (SHOW BINARY LOG STATUS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Name of the last file.
    pub file: String,
    /// Its end.
    pub position: u64,
    /// `gtid_executed`.
    pub executed: GtidSet,
    /// `gtid_purged`.
    pub purged: GtidSet,
}

/// The log of a server.
pub struct BinaryLog {
    pub(crate) options: Options,
    pub(crate) state: Mutex<State>,
    /// Signalled when the state changes.
    pub(crate) changed: Condvar,
    pub(crate) transactions: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) next_dump: AtomicU64,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) ack_engine: AckEngine,
    /// Keeps the greatest epoch that this server knows of.
    pub(crate) epochs: OnceLock<Arc<dyn EpochKeeper>>,
    pub(crate) pending_keys: Arc<PendingKeys>,
    /// Slows down commits while a replica catches up.
    pub(crate) pacing: OnceLock<(Arc<CommitPacing>, FlowSettings)>,
}

impl BinaryLog {
    /// Keys that sessions have left for the writer.
    pub fn pending_keys(&self) -> &Arc<PendingKeys> {
        &self.pending_keys
    }

    /// Writes what the engine has on disk, syncs, and ends the writer. Dumps end.
    pub fn stop(&self) {
        self.state.lock().stops = true;
        if let Some(thread) = self.thread.lock().take() {
            // Its panic ends the process.
            let _ = thread.join();
        }
    }

    /// Sets the keeper of the epoch; only the first call has an effect.
    pub fn provide_epochs(&self, epochs: Arc<dyn EpochKeeper>) {
        let _first = self.epochs.set(epochs);
    }

    /// Compares the epoch that a reader has announced with this server's, and records a greater one.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is greater than this server's: another server has taken over.
    pub fn meet_epoch(&self, epoch: u64) -> Result<()> {
        let Some(epochs) = self.epochs.get() else {
            return Ok(());
        };
        let own = epochs.epoch();
        if epoch <= own || epoch > MAX_EPOCH {
            return Ok(());
        }
        epochs
            .meet(epoch)
            .map_err(|error| Error::Io(format!("the epoch cannot be recorded: {error}")))?;
        Err(Error::Refused(format!(
            "another server has taken over: this server has epoch {own}, the replica knows of epoch {epoch}"
        )))
    }

    /// The `server_id`.
    pub fn server_id(&self) -> u32 {
        self.options.server_id
    }

    /// The present state.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        let last = state.files.last();
        Status {
            file: last.map_or_else(String::new, |file| file_name(file.number)),
            position: state.end,
            executed: state.executed.clone(),
            purged: state
                .readable()
                .first()
                .map_or_else(GtidSet::new, |f| f.previous.clone()),
        }
    }

    /// The identifiers of the transactions in the files, and the newest of these commits.
    pub fn written(&self) -> (GtidSet, u64) {
        let state = self.state.lock();
        (state.executed.clone(), state.last_commit)
    }

    /// The `server_uuid`.
    pub fn server_uuid(&self) -> Uuid {
        self.options.server_uuid
    }

    /// Names and lengths of the files, oldest first (SHOW BINARY LOGS).
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.state.lock();
        let last = state.files.len().saturating_sub(1);
        let files = state.files.iter().enumerate();
        files
            .map(|(n, file)| {
                let bytes = if n == last { state.end } else { file.bytes };
                (file_name(file.number), bytes)
            })
            .collect()
    }

    /// Ends the last file and begins another (FLUSH BINARY LOGS).
    ///
    /// # Errors
    /// The log is closed.
    pub fn rotate(&self) -> Result<()> {
        self.ask(|state| &mut state.rotations)
    }

    /// Waits until readers see all commits that are on disk in the engine now.
    ///
    /// # Errors
    /// The log is closed.
    pub fn catch_up(&self) -> Result<()> {
        self.ask(|state| &mut state.catch_ups)
    }

    /// Removes all files and restarts with the first, without identifiers (RESET BINARY LOGS AND GTIDS).
    ///
    /// # Errors
    /// The log is closed; commits wait for acknowledgements.
    pub fn reset(&self) -> Result<()> {
        if self.state.lock().acks.is_anyone_waiting() {
            let text =
                "the binary log cannot be reset while commits wait for replicas that read it";
            return Err(Error::Refused(text.to_owned()));
        }
        self.ask(|state| &mut state.resets)
    }

    /// Asks the writer for something, and waits until it is done.
    fn ask(&self, counter: impl Fn(&mut State) -> &mut (u64, u64)) -> Result<()> {
        blocking(|| {
            let mut state = self.state.lock();
            counter(&mut state).0 += 1;
            let count = counter(&mut state).0;
            loop {
                self.check_open(&state)?;
                if counter(&mut state).1 >= count {
                    return Ok(());
                }
                self.changed.wait(&mut state);
            }
        })
    }

    pub(crate) fn check_open(&self, state: &State) -> Result<()> {
        match &state.closed {
            Some(reason) => Err(Error::Closed(reason.clone())),
            None => Ok(()),
        }
    }

    /// Removes the files before this one (PURGE BINARY LOGS TO). Files that a connected reader still needs stay.
    ///
    /// # Errors
    /// No file has this name; a file cannot be removed.
    pub fn purge_to(&self, name: &str) -> Result<()> {
        let mut state = self.state.lock();
        let number = file_number(name);
        let at = state.files.iter().position(|f| Some(f.number) == number);
        let at = at.ok_or_else(|| Error::NoSuchFile(name.to_owned()))?;
        self.remove_oldest(&mut state, at)
    }

    /// Removes files whose last change was before a time, in microseconds since 1970 UTC (PURGE BINARY LOGS BEFORE).
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn purge_before(&self, micros: u64) -> Result<()> {
        let mut state = self.state.lock();
        let old = |file: &LogFile| file.changed < micros;
        let last = state.files.len().saturating_sub(1);
        let count = state.files.iter().take(last).take_while(|f| old(f)).count();
        self.remove_oldest(&mut state, count)
    }

    /// Removes files that are too old or too many bytes.
    pub(crate) fn purge_by_rules(&self) -> Result<()> {
        let mut state = self.state.lock();
        let mut count = 0;
        if let Some(expire) = self.options.expire {
            let now = u64::try_from(self.options.clock.unix_micros()).unwrap_or(0);
            let limit = now.saturating_sub(u64::try_from(expire.as_micros()).unwrap_or(u64::MAX));
            let last = state.files.len().saturating_sub(1);
            let files = state.files.iter().take(last);
            count = files.take_while(|file| file.changed < limit).count();
        }
        if let Some(limit) = self.options.max_total_bytes {
            let (last, end) = (state.files.len().saturating_sub(1), state.end);
            let mut total = end + state.files.iter().take(last).map(|f| f.bytes).sum::<u64>();
            for (n, file) in state.files.iter().take(last).enumerate() {
                if total <= limit {
                    break;
                }
                total -= file.bytes;
                count = count.max(n + 1);
            }
        }
        self.remove_oldest(&mut state, count)
    }

    /// Removes the first `count` files, as far as no dump needs them.
    fn remove_oldest(&self, state: &mut MutexGuard<'_, State>, count: usize) -> Result<()> {
        let needed = state.dumps.values().min().copied().unwrap_or(u64::MAX);
        let last = state.files.len().saturating_sub(1);
        let files = state.files.iter().take(count.min(last));
        let count = files.take_while(|file| file.number < needed).count();
        if count == 0 {
            return Ok(());
        }
        let gone: Vec<LogFile> = state.files.drain(..count).collect();
        self.write_index(state)?;
        for file in gone {
            let path = self.options.dir.join(file_name(file.number));
            let removed = file::remove_if_there(&*self.options.disk, &path);
            removed.map_err(|e| Error::io(&path, &e))?;
        }
        Ok(())
    }

    pub(crate) fn write_index(&self, state: &State) -> Result<()> {
        let lines = state.files.iter();
        let lines: String = lines
            .map(|file| format!("./{}\n", file_name(file.number)))
            .collect();
        file::replace(
            &*self.options.disk,
            &self.options.dir,
            file::INDEX,
            lines.as_bytes(),
        )
    }

    /// Events of a file (SHOW BINLOG EVENTS): from a position on, `skip` of them left out, at most `limit`. Without
    /// a name those of the first file.
    ///
    /// # Errors
    /// No file has this name; a position at which no event begins.
    pub fn events(
        &self,
        name: Option<&str>,
        position: Option<u64>,
        skip: u64,
        limit: u64,
    ) -> Result<Vec<EventRow>> {
        let (number, end) = {
            let state = self.state.lock();
            let wanted = name.map(|name| (name, file_number(name)));
            let found = match wanted {
                None => state.files.first(),
                Some((_, number)) => state.files.iter().find(|f| Some(f.number) == number),
            };
            let missing = || Error::NoSuchFile(name.unwrap_or_default().to_owned());
            let found = found.ok_or_else(missing)?;
            let is_last = state.files.last().is_some_and(|f| f.number == found.number);
            (found.number, if is_last { state.end } else { found.bytes })
        };
        let path = self.options.dir.join(file_name(number));
        let damaged = |what: String| Error::Corrupt(format!("{}: {what}", path.display()));
        let mut reader = EventReader::open(&*self.options.disk, &path, FIRST_POSITION)?;
        let mut format: Option<FormatDescription> = None;
        let (mut rows, mut seen) = (Vec::new(), 0);
        let from = position.unwrap_or(FIRST_POSITION);
        while (rows.len() as u64) < limit {
            let at = reader.position();
            let Some(event) = reader.next(end).map_err(damaged)? else {
                break;
            };
            if format.is_none() {
                format = FormatDescription::decode(event).ok();
            }
            let known = format.as_ref();
            let known = known.ok_or_else(|| damaged("the head is damaged".to_owned()))?;
            if at < from {
                continue;
            }
            if rows.is_empty() && seen == 0 && at != from {
                return Err(damaged(format!("no event begins at position {from}")));
            }
            seen += 1;
            if seen > skip {
                rows.push(describe::event(file_name(number), at, event, known));
            }
        }
        Ok(rows)
    }

    /// Enters a replica in the list of SHOW REPLICAS, under the number of its connection.
    pub fn register(&self, connection: u64, replica: Replica) {
        self.state.lock().replicas.insert(connection, replica);
    }

    /// Removes a replica from the list.
    pub fn unregister(&self, connection: u64) {
        self.state.lock().replicas.remove(&connection);
    }

    /// The registered replicas.
    pub fn replicas(&self) -> Vec<Replica> {
        self.state.lock().replicas.values().cloned().collect()
    }

    pub(crate) fn next_dump(&self) -> u64 {
        self.next_dump.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until the file has more than `at`, or is no longer the last one. Returns the end for readers of the
    /// file, and whether it is the last one. `generation` is that of the state in which the file was opened.
    ///
    /// # Errors
    /// The log is closed or was reset; the file was removed.
    pub(crate) fn wait_behind(
        &self,
        (generation, number): (u64, u64),
        at: u64,
        wait: Duration,
    ) -> Result<(u64, bool)> {
        let until = Instant::now() + wait;
        blocking(|| {
            let mut state = self.state.lock();
            loop {
                if state.generation != generation {
                    return Err(Error::Refused("the binary log was reset".to_owned()));
                }
                let Some(last) = state.files.last() else {
                    return Err(Error::Closed("it has no files".to_owned()));
                };
                if last.number != number {
                    let mut files = state.files.iter();
                    let file = files.find(|file| file.number == number);
                    let gone = || Error::NoSuchFile(file_name(number));
                    return Ok((file.ok_or_else(gone)?.bytes, false));
                }
                if state.end > at {
                    return Ok((state.end, true));
                }
                self.check_open(&state)?;
                if self.changed.wait_until(&mut state, until).timed_out() {
                    return Ok((state.end, true));
                }
            }
        })
    }

    /// Metrics.
    pub fn stats(&self) -> Vec<Stat> {
        let (files, dumps, closed) = {
            let state = self.state.lock();
            (
                state.files.len() as u64,
                state.dumps.len() as u64,
                state.closed.is_some(),
            )
        };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stat = |name, help, counter, value| Stat {
            name,
            help,
            counter,
            value,
        };
        let mut stats = self.ack_stats();
        stats.extend(self.flow_stats());
        stats.extend([
            stat(
                "binlog_transactions_total",
                "Transactions written to the binary log.",
                true,
                load(&self.transactions),
            ),
            stat(
                "binlog_bytes_total",
                "Bytes written to the binary log.",
                true,
                load(&self.bytes),
            ),
            stat(
                "binlog_syncs_total",
                "Syncs of files of the binary log.",
                true,
                load(&self.syncs),
            ),
            stat("binlog_files", "Files of the binary log.", false, files),
            stat(
                "binlog_dumps",
                "Connections that read the binary log.",
                false,
                dumps,
            ),
            stat(
                "binlog_is_closed",
                "Whether the binary log has stopped, by an error or a shutdown.",
                false,
                u64::from(closed),
            ),
        ]);
        stats
    }
}

/// Result of scanning the last file; `None` if the log has no file.
pub(crate) type LastFile = Option<Scanned>;
