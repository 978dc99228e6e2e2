//! The data directory: created if it is missing, and used by one server.
//!
//! Two locks of the kernel (`flock`) keep a second server out: one on the
//! directory itself, and one on the lock file in it. Both end with the process.
//!
//! Invariants:
//! 1. The holder of a [`DataDir`] is the only server on it, even after the lock
//!    file was removed: the directory's own lock remains.
//! 2. The locked file is the one at the lock file's path: a file that was removed
//!    between opening and locking it is closed, and a new one is opened.

use crate::config::StartError;
use porpoise_base::disk::{lock_directory, try_lock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock file; it holds the server's process id.
const LOCK: &str = "porpoise.lock";

/// Maximum number of attempts to lock the lock file, which other processes may remove meanwhile.
const ATTEMPTS: usize = 10;

/// A locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Lock on the directory itself; `None` where the file system cannot lock directories.
    directory_lock: Option<File>,
    /// The locked lock file; `None` if there is none and nothing may be written.
    _file_lock: Option<File>,
}

/// Converts an error of locking the directory into a message for the operator.
fn lock_error(path: &Path, error: &io::Error) -> StartError {
    let at = path.display();
    if error.kind() != io::ErrorKind::WouldBlock {
        return StartError::usage(format!("data directory {at} is not writable: {error}"));
    }
    let mut owner = String::new();
    let _ = File::open(path.join(LOCK)).and_then(|mut file| file.read_to_string(&mut owner));
    let owner = match owner.trim() {
        "" => String::new(),
        id => format!(" (process {id})"),
    };
    StartError::usage(format!(
        "data directory {at} is in use by another server{owner}"
    ))
}

/// Whether an open file is the one at this path.
fn is_at_path(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Creates the lock file if needed, locks it, and writes the process id to it.
fn lock_file(path: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(path)?;
        try_lock(&file)?;
        if !is_at_path(&file, path)? {
            continue;
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        return match written {
            // The process id is used in messages only, so a full disk is not an error.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(file),
            other => other.map(|()| file),
        };
    }
    Err(io::Error::other(
        "the lock file disappeared repeatedly while it was being locked; do not remove it",
    ))
}

impl DataDir {
    /// Creates the directory if needed and locks it.
    ///
    /// # Errors
    /// Another process has it, or it cannot be created or written.
    pub fn lock(path: &Path) -> Result<DataDir, StartError> {
        let dir = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .and_then(|()| {
                Ok(DataDir {
                    path: path.to_owned(),
                    directory_lock: lock_directory(path)?,
                    _file_lock: Some(lock_file(&path.join(LOCK))?),
                })
            })
            .map_err(|error| lock_error(path, &error))?;
        if dir.directory_lock.is_none() {
            tracing::warn!(
                "the file system of {} cannot lock directories: do not remove {LOCK} while the \
                 server runs",
                path.display()
            );
        }
        Ok(dir)
    }

    /// Locks an existing directory without writing to it.
    ///
    /// # Errors
    /// Another process has it, or it cannot be read.
    pub fn lock_unchanged(path: &Path) -> Result<DataDir, StartError> {
        let locked = || -> io::Result<DataDir> {
            let directory = lock_directory(path)?;
            let lock = match File::open(path.join(LOCK)) {
                Ok(file) => {
                    try_lock(&file)?;
                    Some(file)
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                Err(e) => return Err(e),
            };
            Ok(DataDir {
                path: path.to_owned(),
                directory_lock: directory,
                _file_lock: lock,
            })
        };
        locked().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => lock_error(path, &error),
            _ => {
                let at = path.display();
                StartError::usage(format!("data directory {at} cannot be read: {error}"))
            }
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_refused_with_the_process_id_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/data");
        let held = DataDir::lock(&path).unwrap();
        let error = DataDir::lock(&path).unwrap_err();
        assert!(
            error
                .message
                .contains(&format!("(process {})", std::process::id()))
        );
        assert_eq!(error.status, 2);
        std::fs::remove_file(path.join(LOCK)).unwrap();
        let error = DataDir::lock(&path).unwrap_err();
        assert!(
            error.message.ends_with("in use by another server"),
            "{error}"
        );
        DataDir::lock_unchanged(&path).unwrap_err();
        assert!(!path.join(LOCK).exists());
        drop(held);
        DataDir::lock(&path).unwrap();
    }

    #[test]
    fn the_error_for_a_directory_that_is_not_writable_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataDir::lock(&file.path().join("data")).unwrap_err();
        assert!(error.message.contains("is not writable: "), "{error}");
        assert!(error.message.contains(&file.path().display().to_string()));
    }
}
