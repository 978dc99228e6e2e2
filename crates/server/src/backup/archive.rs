//! The archive of the log: a thread that copies the durable log to a repository.
//!
//! Every `--archive-interval`, and as soon as a piece's worth of log has gathered, what is new goes to
//! the repository as one or more pieces. Segments wait for it up to `--archive-backlog`, and on a full
//! disk not at all (`kv_mem`, `log/copy.rs`): commits never wait for an archive. A gap that arises then
//! is logged and counted; restores end before it, until a new backup begins behind it.

use super::copy::to_group;
use super::engine_error;
use crate::sys;
use parking_lot::{Condvar, Mutex};
use porpoise_backup::log::{PIECE_BYTES, PieceWriter};
use porpoise_backup::{Repository, Result};
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use porpoise_kv_mem::{KvMem, LogCursor};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the thread looks whether much log has gathered.
const TICK: Duration = Duration::from_millis(100);

/// State of an archive.
pub struct Archiving {
    engine: Arc<KvMem>,
    clock: Arc<dyn Clock>,
    repository: Repository,
    /// Id of the store.
    store: String,
    /// Where the next round continues; `None` before the first one.
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

    /// Status variables.
    pub fn status(&self) -> [(&'static str, u64); 4] {
        let position = self.position.load(Ordering::Relaxed);
        let lag = self.engine.log_position().saturating_sub(position);
        [
            ("Archive_position", position),
            ("Archive_lag_bytes", lag),
            ("Archive_failures", self.failures.load(Ordering::Relaxed)),
            ("Archive_gaps", self.gaps.load(Ordering::Relaxed)),
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
                self.repository.claim(&self.store, self.clock.unix_micros())?;
                let pieces = self.repository.pieces()?;
                let end = pieces.iter().map(|piece| piece.to).max();
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
        let [(_, _), (_, lag), ..] = archiving.status();
        let is_much = lag >= PIECE_BYTES as u64 && !has_failed;
        if *stopped || is_much || last.elapsed() >= interval {
            parking_lot::MutexGuard::unlocked(&mut stopped, || {
                archiving.run_round(&mut has_failed);
            });
            last = Instant::now();
        }
    }
}
