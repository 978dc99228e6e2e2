//! Objects as files of a directory.
//!
//! An object is written to a file with another name, synced, renamed, and the directory is synced. A backup and
//! the archive may write the same object at once, so each write has a file of its own; the object is
//! the same whichever is renamed last. A server that is killed may leave such a file, which nothing reads, and
//! which `porpoise backup prune` removes.

use super::ObjectStore;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

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
        let mut names = Vec::new();
        for path in files(&dir)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with(UNFINISHED) {
                names.push(format!("{prefix}{name}"));
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove_unfinished(&self, before: SystemTime) -> Result<usize> {
        let mut removed = remove_unfinished(&self.root, before)?;
        for dir in files(&self.root)?.filter(|path| path.is_dir()) {
            removed += remove_unfinished(&dir, before)?;
        }
        Ok(removed)
    }
}

/// Paths in a directory; none if it does not exist.
fn files(dir: &Path) -> Result<std::vec::IntoIter<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new().into_iter()),
        Err(e) => return Err(io_error(dir, &e)),
    };
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: io::Result<Vec<PathBuf>> = paths.collect();
    Ok(paths.map_err(|e| io_error(dir, &e))?.into_iter())
}

/// Removes unfinished files of one directory.
fn remove_unfinished(dir: &Path, before: SystemTime) -> Result<usize> {
    let mut removed = 0;
    for path in files(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_unfinished = name.ends_with(UNFINISHED);
        // A file that does not exist any more has been completed meanwhile.
        let changed = fs::metadata(&path).and_then(|file| file.modified());
        if is_unfinished && changed.is_ok_and(|changed| changed < before) {
            fs::remove_file(&path).map_err(|e| io_error(&path, &e))?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn old_unfinished_files_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let store = Directory::new(home.path());
        let old = SystemTime::now() - Duration::from_secs(7200);
        assert_eq!(store.remove_unfinished(old).unwrap(), 0);
        for name in ["repository", "log/1", "data/2"] {
            store.put(name, b"x").unwrap();
        }
        for (name, is_old) in [
            ("log/3.9-1.tmp", true),
            ("repository.9-2.tmp", true),
            ("data/4.9-3.tmp", false),
        ] {
            let file = File::create(home.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        assert_eq!(store.remove_unfinished(hour_ago).unwrap(), 2);
        assert!(home.path().join("data/4.9-3.tmp").exists());
        assert_eq!(store.list("log/").unwrap(), ["log/1"]);
    }

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
