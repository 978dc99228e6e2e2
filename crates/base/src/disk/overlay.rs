//! A copy-on-write overlay over the file system that keeps all changes in memory, for
//! checking a store without writing to it.
//!
//! Invariants:
//! 1. In the file system nothing is created, written, renamed, removed or locked;
//!    files are opened for reading only.
//! 2. A file is copied into memory at its first write: files that are only read
//!    cost no memory.
//!
//! Rejected: copying the directory first (twice the space), and a read-only mode of
//! the engine (recovery of a torn log writes a new file).

use super::{Disk, DiskLock, File};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Location of a file's bytes.
enum Bytes {
    OnDisk(fs::File),
    InMemory(Vec<u8>),
}

/// A file, shared by all that opened it.
type Shared = Arc<Mutex<Bytes>>;

/// The overlay. `names` holds the files opened or changed so far; `None`: removed.
#[derive(Default)]
pub struct Overlay {
    names: Mutex<BTreeMap<PathBuf, Option<Shared>>>,
}

struct Opened(Shared);

impl Bytes {
    /// The file's copy in memory, made at the first call.
    fn own(&mut self) -> io::Result<&mut Vec<u8>> {
        if let Bytes::OnDisk(file) = self {
            let bytes = File::read_all(file)?;
            *self = Bytes::InMemory(bytes);
        }
        match self {
            Bytes::InMemory(bytes) => Ok(bytes),
            Bytes::OnDisk(_) => Err(io::ErrorKind::Other.into()),
        }
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl File for Opened {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &*self.0.lock() {
            Bytes::OnDisk(file) => File::read_at(file, offset, buffer),
            Bytes::InMemory(bytes) => {
                let rest = bytes.get(position(offset)?..).unwrap_or(&[]);
                let mut read = 0;
                for (to, from) in buffer.iter_mut().zip(rest) {
                    *to = *from;
                    read += 1;
                }
                Ok(read)
            }
        }
    }

    fn write_at(&self, offset: u64, written: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock();
        let bytes = file.own()?;
        let start = position(offset)?;
        let end = start
            .checked_add(written.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(place) = bytes.get_mut(start..end) {
            place.copy_from_slice(written);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        match &*self.0.lock() {
            Bytes::OnDisk(file) => File::len(file),
            Bytes::InMemory(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Overlay {
    /// Creates an overlay without changes.
    pub fn new() -> Overlay {
        Overlay::default()
    }

    fn find(&self, path: &Path) -> io::Result<Shared> {
        let mut names = self.names.lock();
        match names.get(path) {
            Some(Some(file)) => Ok(file.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => {
                let file = Arc::new(Mutex::new(Bytes::OnDisk(fs::File::open(path)?)));
                names.insert(path.to_owned(), Some(file.clone()));
                Ok(file)
            }
        }
    }
}

struct NoLock;

impl DiskLock for NoLock {}

impl Disk for Overlay {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(Mutex::new(Bytes::InMemory(Vec::new())));
        let mut names = self.names.lock();
        names.insert(path.to_owned(), Some(file.clone()));
        Ok(Box::new(Opened(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Opened(self.find(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        let mut names = self.names.lock();
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        self.names.lock().insert(path.to_owned(), None);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        for (path, file) in self.names.lock().iter() {
            if path.parent() != Some(dir) {
                continue;
            }
            let name = path.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            found.retain(|n| *n != name);
            if file.is_some() {
                found.push(name);
            }
        }
        found.sort();
        Ok(found)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DiskLock>> {
        Ok(Box::new(NoLock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_visible_in_the_overlay_and_not_beneath() {
        let dir = std::env::temp_dir().join(format!("porpoise-overlay-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a"), b"hello").unwrap();
        fs::write(dir.join("b"), b"bye").unwrap();
        let disk = Overlay::new();
        let a = disk.open(&dir.join("a")).unwrap();
        a.write_at(4, b"!!").unwrap();
        assert_eq!(a.read_all().unwrap(), b"hell!!");
        assert_eq!(disk.open(&dir.join("a")).unwrap().len().unwrap(), 6);
        disk.create(&dir.join("c")).unwrap();
        assert!(disk.create(&dir.join("b")).is_err());
        disk.rename(&dir.join("b"), &dir.join("d")).unwrap();
        assert_eq!(disk.list(&dir).unwrap(), ["a", "c", "d"]);
        assert_eq!(
            disk.open(&dir.join("d")).unwrap().read_all().unwrap(),
            b"bye"
        );
        disk.remove(&dir.join("a")).unwrap();
        assert!(disk.open(&dir.join("a")).is_err());
        assert_eq!(disk.list(&dir).unwrap(), ["c", "d"]);
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"hello");
        assert_eq!(fs::read(dir.join("b")).unwrap(), b"bye");
        assert!(!dir.join("c").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
