//! The data directory: made if it is not there, and held by one server.
//!
//! Invariant: whoever holds a [`DataDir`] is the only server on it; the lock
//! is the kernel's and goes with the process, however it ends.

use crate::config::StartError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock file; it holds the server's process id.
const LOCK: &str = "porpoise.lock";

/// A locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory if needed and takes its lock.
    pub fn lock(path: &Path) -> Result<DataDir, StartError> {
        let refused = |what: std::io::Error| {
            StartError::usage(format!(
                "data directory {} is not writable: {what}",
                path.display()
            ))
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(refused)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.read_to_string(&mut owner);
                return Err(StartError::usage(format!(
                    "data directory {} is in use by another server (process {})",
                    path.display(),
                    owner.trim()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        match noted {
            // The number is there for messages only.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
            other => other.map_err(refused)?,
        }
        Ok(DataDir {
            path: path.to_owned(),
            _lock: file,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time_and_the_other_is_told_who_it_is() {
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
        drop(held);
        DataDir::lock(&path).unwrap();
    }

    #[test]
    fn a_place_where_nothing_can_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataDir::lock(&file.path().join("data")).unwrap_err();
        assert!(error.message.contains("is not writable: "), "{error}");
        assert!(error.message.contains(&file.path().display().to_string()));
    }
}
