//! The disk interface: the file operations on which durability depends.
//!
//! The engine reaches its files only through [`Disk`] and [`File`], so that
//! tests can put a disk beneath it that loses power: [`MemDisk`] in memory, for
//! tests inside one process, and [`FaultyDisk`] around the real one, for the
//! real binary.
//!
//! Guarantees of an implementation, those of POSIX file systems:
//! 1. A write is durable only after [`File::sync_data`] of its file; before that, any of its
//!    512-byte sectors may be on disk.
//! 2. An operation on a name (create, rename, remove) is durable only after
//!    [`Disk::sync_dir`] of its directory; renames are atomic.
//! 3. After a failed sync it is unknown which unsynced writes are on disk, and a later
//!    successful sync does not cover them. The failure is reported once through each handle that was
//!    open at the time of the write: of several threads that sync one handle, only one learns of it.
//! 4. Several syncs of one file may run at the same time. Each covers the writes that were complete when
//!    it was called.
//!
//! Rejected: `fallocate` for preallocation. It allocates unwritten extents, and the first
//! sync after a write to one of them also writes metadata. [`File::preallocate`] writes
//! zeroes instead.

mod faulty;
mod mem;
mod names;
mod overlay;

pub use faulty::{Faults, FaultyDisk};
pub use mem::{DiskFault, DiskWatcher, MemDisk};
pub use overlay::Overlay;

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// An open file.
pub trait File: Send + Sync {
    /// Reads from an offset until the buffer is full or the file ends. Returns the number of
    /// bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes at an offset, growing the file if need be.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes written bytes and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Extends the file with zeroes to a length, so that later writes below that length
    /// allocate no blocks. Does not sync.
    fn preallocate(&self, len: u64) -> io::Result<()> {
        let zeroes = vec![0; 1 << 18];
        let mut at = self.len()?;
        while at < len {
            let step = usize::try_from(len - at).unwrap_or(usize::MAX);
            let part = zeroes.get(..step).unwrap_or(&zeroes);
            self.write_at(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// All bytes of the file.
    fn read_all(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.len()?)
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "file too large"))?;
        let mut bytes = vec![0; len];
        let read = self.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// Guard of a locked lock file; dropping it unlocks.
pub trait DiskLock: Send + Sync {}

/// A disk.
pub trait Disk: Send + Sync {
    /// Creates a file; fails with [`io::ErrorKind::AlreadyExists`] if the name exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Renames a file, replacing a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its missing parents; no error if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a lock file against other processes (and other holders in this
    /// one); [`io::ErrorKind::WouldBlock`] if it is locked.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// The operating system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl File for std::fs::File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..)
            && !rest.is_empty()
        {
            match FileExt::read_at(self, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        std::fs::File::sync_data(self)
    }
}

struct RealLock {
    _dir: Option<std::fs::File>,
    _file: std::fs::File,
}

impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let dir = path.parent().map(lock_directory).transpose()?.flatten();
        let mut options = std::fs::File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        try_lock(&file)?;
        Ok(Box::new(RealLock {
            _dir: dir,
            _file: file,
        }))
    }
}

/// Locks an open file or directory (`flock`) until it is closed.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when it is locked already.
pub fn try_lock(file: &std::fs::File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(std::fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Locks a directory itself, so that no second server starts there even if the lock file is
/// removed. `None` if the file system cannot lock directories (NFS): then only the lock file
/// protects the directory.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when it is locked already; any error of
/// opening it.
pub fn lock_directory(path: &Path) -> io::Result<Option<std::fs::File>> {
    let dir = std::fs::File::open(path)?;
    match try_lock(&dir) {
        Ok(()) => Ok(Some(dir)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(e),
        Err(_) => Ok(None),
    }
}

/// The operating system's disk as a shared handle.
pub fn real() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_read_renamed_listed_and_locked() {
        let dir = std::env::temp_dir().join(format!("porpoise-disk-{}", std::process::id()));
        let disk = RealDisk;
        disk.create_dir(&dir).unwrap();
        let (a, b) = (dir.join("a"), dir.join("b"));
        let file = disk.create(&a).unwrap();
        assert!(disk.create(&a).is_err());
        file.preallocate(600_000).unwrap();
        file.write_at(10, b"hello").unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 600_000);
        disk.rename(&a, &b).unwrap();
        disk.sync_dir(&dir).unwrap();
        let mut found = [1; 7];
        let read = disk.open(&b).unwrap().read_at(9, &mut found).unwrap();
        assert_eq!((read, &found), (7, b"\0hello\0"));
        assert_eq!(disk.list(&dir).unwrap(), ["b"]);
        let lock = disk.lock(&dir.join("lock")).unwrap();
        let second = disk.lock(&dir.join("lock")).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        disk.remove(&dir.join("lock")).unwrap();
        let second = disk.lock(&dir.join("lock")).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock, "lock file gone");
        drop(lock);
        disk.lock(&dir.join("lock")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
