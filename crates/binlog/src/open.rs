//! Opening the log: recovery of the last file, and the start of the writer.

use crate::file::{self, file_name, file_number};
use crate::log::{BinaryLog, LogFile, Options, State};
use crate::writer::Writer;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use porpoise_base::disk::Disk;
use porpoise_base::threads::{self, Role};
use porpoise_kv::Engine;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl BinaryLog {
    /// Opens the log of an engine that has annotations: recovers the last file, and starts the writer.
    ///
    /// # Errors
    /// Files that cannot be read or written; a log that is not that of this engine's data.
    pub fn open(options: Options, engine: &Arc<dyn Engine>) -> Result<Arc<BinaryLog>> {
        let (dir, disk) = (options.dir.clone(), options.disk.clone());
        disk.create_dir(&dir).map_err(|e| Error::io(&dir, &e))?;
        let mut state = State::default();
        state.files = listed_files(&*disk, &dir)?;
        remove_strays(&*disk, &dir, &state)?;
        let gap = file::read_text(&*disk, &dir.join(file::GAP))?;
        state.gap = gap.and_then(|text| text.trim().parse().ok());
        let unlogged = file::read_text(&*disk, &dir.join(file::UNLOGGED))?.is_some();
        let newest = engine.newest_position().0;
        let before = file::read_text(&*disk, &dir.join(file::STATE))?;
        let before: Option<u64> = before.and_then(|text| text.trim().parse().ok());
        let last = match state.files.last() {
            Some(last) => Some(file::scan(&*disk, &dir.join(file_name(last.number)))?),
            None => None,
        };
        let last_commit = match (&last, before) {
            // The engine may have discarded annotations of the run without the log: none of that run is logged.
            _ if unlogged => newest,
            (Some(last), before) => last.last_commit.max(before.unwrap_or(0)),
            // A new log begins with the next commit.
            (None, _) => newest,
        };
        if last_commit > newest {
            return Err(Error::Corrupt(format!(
                "{}: the binary log has commit {last_commit}, the data ends before it: the log is of another \
                 or a newer copy of the data; move it away to begin a new one",
                dir.display()
            )));
        }
        state.last_commit = last_commit;
        let reader = engine.annotations(0)?;
        let log = Arc::new(new_log(options, state, engine));
        let has_gap = unlogged && last.is_some();
        let mut writer = Writer::open(log.clone(), reader, last, last_commit)?;
        if has_gap {
            writer.begin_behind_gap()?;
        } else {
            writer.catch_up()?;
        }
        if unlogged {
            log.remove_mark()?;
        }
        let thread = threads::spawn(Role::BinlogWriter, move || writer.run());
        let thread = thread.map_err(|e| Error::Io(format!("cannot start a thread: {e}")))?;
        *log.thread.lock() = Some(thread);
        Ok(log)
    }
}

impl BinaryLog {
    fn remove_mark(&self) -> Result<()> {
        let (disk, dir) = (&*self.options.disk, &self.options.dir);
        let path = dir.join(file::UNLOGGED);
        let removed = file::remove_if_there(disk, &path).and_then(|()| disk.sync_dir(dir));
        removed.map_err(|e| Error::io(&path, &e))
    }
}

/// Marks a data directory on which a server runs without its binary log, if it has one: the log will lack the changes
/// of this run. Called before the engine is opened.
///
/// # Errors
/// The mark cannot be read or written.
pub fn mark_unlogged(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let index = file::read_text(disk, &dir.join(file::INDEX))?;
    let is_marked = file::read_text(disk, &dir.join(file::UNLOGGED))?.is_some();
    if index.is_none_or(|text| text.trim().is_empty()) || is_marked {
        return Ok(());
    }
    tracing::warn!(
        dir = %dir.display(),
        "the server runs without --log-bin on data that have a binary log: its readers will need new copies of the data"
    );
    file::replace(disk, dir, file::UNLOGGED, b"")
}

/// The files that the index lists.
fn listed_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>> {
    let mut files: Vec<LogFile> = Vec::new();
    let listed = file::read_text(disk, &dir.join(file::INDEX))?;
    let listed = listed.unwrap_or_default();
    for line in listed.lines().filter(|line| !line.is_empty()) {
        let number = file_number(line);
        let number = number.ok_or_else(|| {
            Error::Corrupt(format!("{}: {line:?} is no file of the log", file::INDEX))
        })?;
        let path = dir.join(file_name(number));
        let file = disk.open(&path).map_err(|e| Error::io(&path, &e))?;
        // A file was changed until the next one began.
        let began = file::began(disk, &path)?;
        if let Some(before) = files.last_mut() {
            before.changed = began;
        }
        files.push(LogFile {
            number,
            bytes: file.len().map_err(|e| Error::io(&path, &e))?,
            previous: file::previous_gtids(disk, &path)?,
            changed: 0,
        });
    }
    Ok(files)
}

/// A log with this state, without its thread.
fn new_log(options: Options, state: State, engine: &Arc<dyn Engine>) -> BinaryLog {
    BinaryLog {
        options,
        state: Mutex::new(state),
        changed: Condvar::new(),
        transactions: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        syncs: AtomicU64::new(0),
        next_dump: AtomicU64::new(1),
        thread: Mutex::new(None),
        ack_engine: engine.clone().into(),
        epochs: std::sync::OnceLock::new(),
        pending_keys: Arc::default(),
        pacing: std::sync::OnceLock::new(),
    }
}

/// Removes files of the log that the index does not list: their creation or removal was interrupted.
fn remove_strays(disk: &dyn Disk, dir: &Path, state: &State) -> Result<()> {
    for name in disk.list(dir).map_err(|e| Error::io(dir, &e))? {
        let is_stray = match file_number(&name) {
            Some(number) => !state.files.iter().any(|file| file.number == number),
            None => name.ends_with(".tmp"),
        };
        if is_stray {
            let path = dir.join(&name);
            disk.remove(&path).map_err(|e| Error::io(&path, &e))?;
        }
    }
    Ok(())
}
