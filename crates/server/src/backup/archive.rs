//! The archive of the log: a thread that copies the durable log to a repository.
//!
//! Every `--archive-interval`, and as soon as a piece's worth of log has gathered, what is new goes to
//! the repository as one or more pieces. Segments wait for it up to `--archive-backlog`, and on a full
//! disk not at all (`kv_mem`, `log/copy.rs`): commits never wait for an archive. A gap that arises then
//! is logged and counted; restores end before it, until a new backup begins after it.

use super::copy::to_group;
use super::{Figure, engine_error};
use crate::sys;
use parking_lot::{Condvar, Mutex};
use porpoise_backup::log::{PIECE_BYTES, PieceWriter};
use porpoise_backup::{Error, Location, Repository, Result};
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use porpoise_kv_mem::{KvMem, LogCursor};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the thread checks the amount of log that is not archived.
const TICK: Duration = Duration::from_millis(100);

/// State of an archive.
pub struct Archiving {
    engine: Arc<KvMem>,
    clock: Arc<dyn Clock>,
    repository: Repository,
    /// Id of the store.
    store: String,
    /// Position at which the next round continues; `None` before the first one.
    cursor: Mutex<Option<LogCursor>>,
    position: AtomicU64,
    failures: AtomicU64,
    gaps: AtomicU64,
}

impl Archiving {
    /// An archive of the engine's log.
    pub fn new(
        engine: Arc<KvMem>,
        clock: Arc<dyn Clock>,
        repository: Repository,
        store: String,
    ) -> Archiving {
        Archiving {
            engine,
            clock,
            repository,
            store,
            cursor: Mutex::new(None),
            position: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
        }
    }

    /// Bytes of the log that are not archived.
    fn lag(&self) -> u64 {
        let position = self.position.load(Ordering::Relaxed);
        self.engine.log_position().saturating_sub(position)
    }

    /// Figures for SHOW STATUS and the metrics page.
    pub(super) fn figures(&self) -> [Figure; 4] {
        let value = |value: &AtomicU64| value.load(Ordering::Relaxed);
        [
            Figure::gauge(
                "Archive_position",
                "archive_position",
                "Position up to which the log is archived.",
                value(&self.position),
            ),
            Figure::gauge(
                "Archive_lag_bytes",
                "archive_lag_bytes",
                "Bytes of the log that are not archived.",
                self.lag(),
            ),
            Figure::counter(
                "Archive_failures",
                "archive_failures_total",
                "Attempts to archive the log that failed.",
                value(&self.failures),
            ),
            Figure::counter(
                "Archive_gaps",
                "archive_gaps_total",
                "Gaps of the archive; a new backup is needed.",
                value(&self.gaps),
            ),
        ]
    }

    /// Archives what is durable. Logs an error once, until a round succeeds.
    fn run_round(&self, has_failed: &mut bool) {
        match self.round() {
            Ok(()) => {
                if std::mem::take(has_failed) {
                    tracing::info!(archive = %self.repository.location(), "the log is archived again");
                }
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(has_failed, true) {
                    tracing::error!(archive = %self.repository.location(), %error, "the log cannot be archived: log segments are kept meanwhile; repair the archive");
                }
            }
        }
    }

    fn round(&self) -> Result<()> {
        let mut cursor = self.cursor.lock();
        let from = match *cursor {
            Some(cursor) => cursor,
            None => {
                self.repository
                    .claim(&self.store, self.clock.unix_micros())?;
                let pieces = self.repository.pieces()?;
                let end = pieces.iter().map(|piece| piece.to).max();
                if end > Some(self.engine.log_position()) {
                    return Err(ahead(self.repository.location()));
                }
                LogCursor::at(end.unwrap_or_else(|| self.engine.first_log_position()))
            }
        };
        let copy = self.engine.copy_log(from).map_err(|e| engine_error(&e))?;
        let mut copy = match copy {
            Some(copy) => copy,
            None => {
                let at = LogCursor::at(self.engine.first_log_position());
                self.gaps.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    from = from.position(),
                    to = at.position(),
                    "the archive has a gap, because log segments were removed before they were archived: make a new backup"
                );
                let copy = self.engine.copy_log(at).map_err(|e| engine_error(&e))?;
                match copy {
                    Some(copy) => copy,
                    None => return Ok(()),
                }
            }
        };
        let mut writer = PieceWriter::default();
        loop {
            let group = copy.next_group().map_err(|e| engine_error(&e))?;
            let is_last = group.is_none();
            if let Some(group) = group {
                writer.push(&to_group(group));
            }
            if (is_last || writer.is_full())
                && let Some((piece, content)) = writer.take()
            {
                self.repository.put(&piece.name(), &content)?;
                self.engine.set_archived(piece.to);
                self.position.store(piece.to, Ordering::Relaxed);
                *cursor = Some(copy.cursor());
            }
            if is_last {
                *cursor = Some(copy.cursor());
                let position = copy.cursor().position();
                self.engine.set_archived(position);
                self.position.store(position, Ordering::Relaxed);
                return Ok(());
            }
        }
    }
}

/// The error of a repository with a later state than the store's.
pub(super) fn ahead(place: &Location) -> Error {
    Error::Refused(format!(
        "{place} is ahead of this store, so the data directory was replaced by an older copy: use a new place"
    ))
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The thread of an archive.
pub struct Archiver {
    archiving: Arc<Archiving>,
    stop: Arc<Stop>,
    thread: Option<porpoise_base::sync::thread::JoinHandle<()>>,
}

impl Archiver {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(archiving: Arc<Archiving>, interval: Duration) -> io::Result<Archiver> {
        let stop = Arc::<Stop>::default();
        let (work, ending) = (archiving.clone(), stop.clone());
        let thread = threads::spawn(Role::Archiver, move || {
            archive_until(&work, &ending, interval);
        })?;
        Ok(Archiver {
            archiving,
            stop,
            thread: Some(thread),
        })
    }

    /// The state.
    pub fn archiving(&self) -> &Arc<Archiving> {
        &self.archiving
    }

    /// Archives what is durable by now, and ends the thread.
    pub fn stop(&mut self) {
        *self.stop.stopped.lock() = true;
        self.stop.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic of a thread was logged by `porpoise_base::threads`.
            let _ = thread.join();
        }
    }
}

fn archive_until(archiving: &Archiving, stop: &Stop, interval: Duration) {
    sys::demote(sys::thread_id());
    let mut has_failed = false;
    let mut last = Instant::now();
    archiving.run_round(&mut has_failed);
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        stop.wake.wait_for(&mut stopped, TICK.min(interval));
        let is_much = archiving.lag() >= PIECE_BYTES as u64 && !has_failed;
        if *stopped || is_much || last.elapsed() >= interval {
            parking_lot::MutexGuard::unlocked(&mut stopped, || {
                archiving.run_round(&mut has_failed);
            });
            last = Instant::now();
        }
    }
}
