//! Objects as files of a directory.
//!
//! An object is written to a file with another name, synced, renamed, and the directory is synced. A backup and
//! the archive may write the same object at once, so each write has a file of its own; the object is
//! the same whichever is renamed last. A server that is killed may leave such a file, which nothing reads.

use super::ObjectStore;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ending of the names of files that are being written.
const UNFINISHED: &str = ".tmp";

/// Number of the next write of this process.
static NEXT_WRITE: AtomicU64 = AtomicU64::new(0);

/// A directory with objects.
pub struct Directory {
    root: PathBuf,
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::Io(format!("{}: {error}", path.display()))
}

impl Directory {
    /// The store in a directory, which need not exist.
    pub fn new(root: &Path) -> Directory {
        Directory {
            root: root.to_owned(),
        }
    }

    fn sync(dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    /// Creates a directory and those above it, and makes their names durable.
    fn create(dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            Directory::create(above)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        Directory::sync(above.unwrap_or(Path::new(".")))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let dir = path.parent().unwrap_or(&self.root);
        Directory::create(dir)?;
        let number = NEXT_WRITE.fetch_add(1, Ordering::Relaxed);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}-{number}{UNFINISHED}", std::process::id()));
        let new = PathBuf::from(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        fs::rename(&new, path)?;
        Directory::sync(dir)
    }
}

impl ObjectStore for Directory {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(name);
        self.write(&path, bytes).map_err(|e| io_error(&path, &e))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error(&path, &e)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.root.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error(&path, &e)),
            _ => Ok(()),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let dir = self.root.join(prefix);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io_error(&dir, &e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| io_error(&dir, &e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(UNFINISHED) {
                names.push(format!("{prefix}{name}"));
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_two_threads_write_at_once_is_whole() {
        let home = tempfile::tempdir().unwrap();
        let store = Directory::new(home.path());
        let object = vec![7; 100_000];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for n in 0..50 {
                        store.put(&format!("log/{n}"), &object).unwrap();
                    }
                });
            }
        });
        let names = store.list("log/").unwrap();
        assert_eq!(names.len(), 50);
        for name in names {
            assert_eq!(store.get(&name).unwrap(), Some(object.clone()), "{name}");
        }
    }
}
