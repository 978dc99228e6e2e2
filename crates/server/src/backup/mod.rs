//! Backup, archive and restore of the embedded engine.
//!
//! ```text
//!   BACKUP DATABASE ---> copy -----+
//!   (porpoise backup)    archive --+--> repository (crates/backup) ---> restore ---> data directory
//!                        (--archive-to)
//! ```
//!
//! The server writes to the repository itself: `porpoise backup` only runs the statement and shows its
//! progress. So backups need no further port and no rows cross the network twice, statement and command
//! do the same, and credentials of a bucket stay with the server.
//!
//! Invariants:
//! 1. A repository belongs to one store, by the id in the data directory. A restored store gets a new
//!    id: its history continues elsewhere, and the log of both must not meet in one place.
//! 2. A statement writes only below the place that `--backup-to` names.
//!
//! Rejected: blocks as a result set, written by the client (all bytes go through a session, and an
//! incremental backup needs a dialogue about what the client has).

pub mod archive;
pub mod command;
mod copy;
mod destination;
pub mod log_position;
mod progress;
pub mod restore;
pub(crate) mod store_id;

use crate::config::{Config, StartError};
use crate::sys;
use archive::{Archiver, Archiving};
use copy::Copying;
use porpoise_backup::{Backup, Error, Key, Location, Repository};
use porpoise_base::cancel::Cancel;
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use porpoise_binlog::BinaryLog;
use porpoise_kv::Stat;
use porpoise_kv_mem::KvMem;
use porpoise_sql::{BackupReport, BackupRequest, SqlError, SqlServer};
use progress::Progress;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// Default limit of a backup's rate in bytes a second: reading, compressing and writing at this rate
/// takes a few hundredths of a core.
const DEFAULT_RATE: u64 = 16 << 20;

/// Converts an error of the engine.
fn engine_error(error: &porpoise_kv::Error) -> Error {
    Error::Io(error.to_string())
}

/// Makes backups of a running server.
pub struct Backups {
    engine: Arc<KvMem>,
    binlog: Option<Arc<BinaryLog>>,
    clock: Arc<dyn Clock>,
    data_dir: PathBuf,
    /// Place below which statements may write; `None`: nowhere.
    allowed: Option<String>,
    key_file: Option<PathBuf>,
    /// Held by the running backup.
    running: parking_lot::Mutex<()>,
    progress: Arc<Progress>,
    last_number: AtomicU64,
    last_position: AtomicU64,
    archiving: Option<Arc<Archiving>>,
}

impl Backups {
    /// Prepares backups of a server with the embedded engine, and starts the archive of its log if the
    /// configuration names one.
    ///
    /// # Errors
    /// The archive's place or the key is unusable.
    pub fn start(
        config: &Config,
        engine: Arc<KvMem>,
        binlog: Option<Arc<BinaryLog>>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Backups>, Option<Archiver>), StartError> {
        let key_file = config.backup_key_file.clone();
        let mut archiver = None;
        if let Some(text) = &config.archive_to {
            let repository = Location::parse(text)
                .and_then(|location| Ok((location, Key::find(key_file.as_deref(), &variable)?)))
                .and_then(|(location, key)| Repository::new(location, key))
                .map_err(|e| StartError::usage(format!("--archive-to: {e}")))?;
            let id = store_id::of(&config.data_dir)
                .map_err(|e| StartError::failure(format!("--archive-to: {e}")))?;
            let archiving = Archiving::new(engine.clone(), clock.clone(), repository, id);
            let started = Archiver::start(Arc::new(archiving), config.archive_interval);
            archiver = Some(started.map_err(|e| {
                StartError::failure(format!("--archive-to: no thread can be started: {e}"))
            })?);
        }
        let backups = Arc::new(Backups {
            engine,
            binlog,
            clock,
            data_dir: config.data_dir.clone(),
            allowed: config.backup_to.clone(),
            key_file,
            running: parking_lot::Mutex::default(),
            progress: Arc::default(),
            last_number: AtomicU64::new(0),
            last_position: AtomicU64::new(0),
            archiving: archiver.as_ref().map(|a| a.archiving().clone()),
        });
        Ok((backups, archiver))
    }

    /// Lets SQL make backups and show their state.
    pub fn register(self: &Arc<Backups>, sql: &SqlServer) {
        let this = self.clone();
        sql.provide_backups(Box::new(move |request, cancel| this.run(request, cancel)));
        let this = self.clone();
        sql.provide_status(Box::new(move || this.status()));
    }

    fn run(&self, request: &BackupRequest, cancel: &Cancel) -> Result<BackupReport, SqlError> {
        let allowed = self.allowed.as_deref();
        let location = destination::resolve(allowed, &request.destination, &self.data_dir);
        let location = location.ok_or_else(|| not_allowed(allowed))?;
        let Some(_running) = self.running.try_lock() else {
            return Err(failed(&"another backup runs"));
        };
        let key = Key::find(self.key_file.as_deref(), &variable);
        let repository = key.and_then(|key| Repository::new(location, key));
        let repository = repository.map_err(|e| failed(&e))?;
        let id = store_id::of(&self.data_dir).map_err(|e| failed(&e))?;
        let outcome = run_demoted(Copying {
            engine: self.engine.clone(),
            binlog: self.binlog.clone(),
            repository,
            clock: self.clock.clone(),
            store: id,
            rate: request.rate.unwrap_or(DEFAULT_RATE),
            progress: self.progress.clone(),
            cancel: cancel.clone(),
        });
        self.progress.end();
        match outcome {
            Ok(backup) => {
                self.last_number.store(backup.number, Ordering::Relaxed);
                self.last_position.store(backup.position, Ordering::Relaxed);
                Ok(BackupReport {
                    number: backup.number,
                    bytes: backup.bytes(),
                    stored: backup.stored,
                    position: backup.position,
                    time: backup.time,
                })
            }
            Err(Error::Cancelled) => {
                let reason = cancel.reason();
                let reason = reason.unwrap_or(porpoise_base::cancel::Reason::Query);
                Err(porpoise_sql::cancelled(reason))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// Figures for SHOW STATUS and the metrics page.
    fn figures(&self) -> Vec<Figure> {
        let (done, total) = self.progress.get();
        let last = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let mut list = vec![
            Figure::gauge(
                "Log_position",
                "log_position",
                "Position up to which the log is on disk.",
                self.engine.log_position(),
            ),
            Figure::gauge(
                "Backup_bytes_done",
                "backup_done_bytes",
                "Bytes that the running backup has copied.",
                done,
            ),
            Figure::gauge(
                "Backup_bytes_total",
                "backup_size_bytes",
                "Bytes that the running backup copies.",
                total,
            ),
            Figure::gauge(
                "Backup_last_number",
                "backup_last_number",
                "Number of the last backup since the start.",
                last(&self.last_number),
            ),
            Figure::gauge(
                "Backup_last_position",
                "backup_last_position",
                "Position in the log of the last backup since the start.",
                last(&self.last_position),
            ),
        ];
        if let Some(archiving) = &self.archiving {
            list.extend(archiving.figures());
        }
        list
    }

    /// Status variables.
    fn status(&self) -> Vec<(String, String)> {
        let figures = self.figures().into_iter();
        figures
            .map(|figure| (figure.name.to_owned(), figure.value.to_string()))
            .collect()
    }

    /// Metrics.
    pub fn stats(&self) -> Vec<Stat> {
        self.figures().iter().map(Figure::stat).collect()
    }
}

/// A figure: a status variable, and a metric.
struct Figure {
    name: &'static str,
    metric: &'static str,
    help: &'static str,
    is_counter: bool,
    value: u64,
}

impl Figure {
    fn gauge(name: &'static str, metric: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            name,
            metric,
            help,
            is_counter: false,
            value,
        }
    }

    fn counter(name: &'static str, metric: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            is_counter: true,
            ..Figure::gauge(name, metric, help, value)
        }
    }

    fn stat(&self) -> Stat {
        Stat {
            name: self.metric,
            help: self.help,
            counter: self.is_counter,
            value: self.value,
        }
    }
}

/// Reads an environment variable.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs a backup in a thread of low priority, so that statements get the processors first.
fn run_demoted(copying: Copying) -> porpoise_backup::Result<Backup> {
    let (result, receiver) = mpsc::channel();
    let thread = threads::spawn(Role::Backup, move || {
        sys::demote(sys::thread_id());
        let outcome = catch_unwind(AssertUnwindSafe(|| copying.run()));
        // The receiver waits for the thread.
        let _ = result.send(outcome);
    });
    let thread = thread.map_err(|e| Error::Io(format!("no thread can be started: {e}")))?;
    let outcome = receiver.recv();
    // The panic of a thread was logged by the hook.
    let _ = thread.join();
    match outcome {
        Ok(Ok(outcome)) => outcome,
        _ => Err(Error::Io("its thread panicked".to_owned())),
    }
}

/// Error 1290 for a destination that is not below the allowed location.
fn not_allowed(allowed: Option<&str>) -> SqlError {
    let text = match allowed {
        None => {
            "The server writes no backups, because it was started without --backup-to: start it \
                 with a directory or a bucket below which it may write them"
                .to_owned()
        }
        Some(place) => format!("The server writes backups below {place} only (--backup-to)"),
    };
    SqlError::new(1290, "HY000", text)
}

fn failed(error: &dyn std::fmt::Display) -> SqlError {
    SqlError::new(1105, "HY000", format!("Backup failed: {error}"))
}
