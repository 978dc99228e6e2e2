//! A data directory that is built beside its final place, and renamed when it is complete and
//! on disk: an interrupted run leaves nothing that a server would start from.

use crate::binlog;
use crate::config::StartError;
use crate::engine::STORE;
use porpoise_base::disk::lock_directory;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> StartError + '_ {
    move |error| StartError::failure(format!("{}: {error}", path.display()))
}

/// Refuses a directory that is not empty.
///
/// # Errors
/// With exit status 2.
pub(crate) fn check_vacant(path: &Path) -> Result<(), StartError> {
    let at = path.display();
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StartError::usage(format!(
            "--data-dir: {at} is not empty; name a new or empty directory"
        ))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StartError::usage(format!("--data-dir: {at}: {e}"))),
    }
}

/// Creates a directory with access for its owner only.
///
/// # Errors
/// The system's.
pub(crate) fn create_dir(path: &Path) -> Result<(), StartError> {
    let created = DirBuilder::new().mode(0o700).create(path);
    created.map_err(io_error(path))
}

fn sync_dir(path: &Path) -> Result<(), StartError> {
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(io_error(path))
}

/// A data directory that is being built.
pub(crate) struct NewDataDir {
    path: PathBuf,
    parent: PathBuf,
    is_finished: bool,
    /// Excludes other processes that build the same directory.
    _lock: Option<File>,
}

impl NewDataDir {
    /// Creates the directory, as `.NAME.ENDING` beside `data_dir`; removes what an interrupted run left.
    ///
    /// # Errors
    /// The name is missing or in use, or the directory cannot be created.
    pub(crate) fn begin(data_dir: &Path, ending: &str) -> Result<NewDataDir, StartError> {
        let name = data_dir.file_name().ok_or_else(|| {
            StartError::usage(format!("--data-dir: {} has no name", data_dir.display()))
        })?;
        let parent = match data_dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&parent).map_err(io_error(&parent))?;
        let path = parent.join(format!(".{}.{ending}", name.to_string_lossy()));
        if path.exists() {
            let lock = lock_directory(&path).map_err(|_| busy(&path))?;
            let names = fs::read_dir(&path).map_err(io_error(&path))?;
            let is_foreign = |entry: io::Result<fs::DirEntry>| {
                let is_ours = |name: OsString| name == STORE || name == binlog::DIRECTORY;
                entry.map_or(true, |entry| !is_ours(entry.file_name()))
            };
            if names.into_iter().any(is_foreign) {
                let text = format!(
                    "{} contains files that no interrupted run has left; move it away",
                    path.display()
                );
                return Err(StartError::usage(text));
            }
            fs::remove_dir_all(&path).map_err(io_error(&path))?;
            drop(lock);
        }
        create_dir(&path)?;
        let lock = lock_directory(&path).map_err(|_| busy(&path))?;
        Ok(NewDataDir {
            path,
            parent,
            is_finished: false,
            _lock: lock,
        })
    }

    /// Path of the directory while it is being built.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory durable and gives it its name.
    ///
    /// # Errors
    /// The system's; something else has the name.
    pub(crate) fn finish(&mut self, data_dir: &Path) -> Result<(), StartError> {
        sync_dir(&self.path.join(STORE))?;
        sync_dir(&self.path)?;
        check_vacant(data_dir)?;
        fs::rename(&self.path, data_dir).map_err(io_error(data_dir))?;
        self.is_finished = true;
        sync_dir(&self.parent)
    }
}

impl Drop for NewDataDir {
    fn drop(&mut self) {
        if !self.is_finished {
            // The next run removes what cannot be removed now.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn busy(path: &Path) -> StartError {
    StartError::usage(format!("{} is in use by another process", path.display()))
}
