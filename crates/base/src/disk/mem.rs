//! A disk in memory that can lose power, for tests inside one process.
//!
//! It records for each file the durable bytes and the unsynced writes, and for each
//! directory the unsynced operations on names (create, rename, remove).
//! [`MemDisk::after_power_cut`] returns the disk as a restarted machine would find it:
//! everything synced, and a random part of the rest, chosen by a seed. Of the unsynced
//! writes any sectors survive; of the unsynced operations on names any subset, or, in
//! half of the cases, a prefix, as on a file system with a journal. A sync covers the
//! writes that were complete when it was called, not those that other threads add
//! while it is delayed by the watcher ([`MemDisk::watch`]).
//!
//! Invariants:
//! 1. Everything that a sync reported as durable survives every power cut, except
//!    syncs with [`DiskFault::LyingSync`].
//! 2. After the number of operations set by [`MemDisk::stop_after`], every operation that
//!    changes something or syncs fails: the power is off. Reads still succeed.

use super::names::{NameOp, Names, after_power_cut};
use super::{Disk, DiskLock, File};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A fault injected into one operation of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The operation fails and changes nothing.
    Error,
    /// A write stores this many of its first bytes and fails; other operations fail as with
    /// [`DiskFault::Error`].
    ShortWrite(usize),
    /// A sync (of a file or a directory) reports success and does nothing; the next sync of
    /// the same file or directory makes everything durable. No effect on other operations.
    LyingSync,
}

/// Callback before each operation that changes something or syncs, with the number of the
/// operation and its file or directory. It may read the disk and call
/// [`MemDisk::after_power_cut`].
pub type DiskWatcher = dyn Fn(u64, &Path) + Send + Sync;

/// Unit of writes that survives or is lost as a whole, in bytes.
const SECTOR: usize = 512;

#[derive(Default, Clone)]
struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<UnsyncedWrite>,
    /// Number of writes so far.
    writes: u64,
}

#[derive(Clone)]
struct UnsyncedWrite {
    number: u64,
    at: usize,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    durable_names: Names,
    unsynced_names: Vec<NameOp>,
    locks: BTreeSet<PathBuf>,
    operations: u64,
    stop_after: Option<u64>,
    fail_syncs: bool,
    capacity: Option<usize>,
    faults: BTreeMap<u64, DiskFault>,
    watcher: Option<Arc<DiskWatcher>>,
}

impl State {
    /// Counts an operation that changes something or syncs, and returns the fault injected
    /// into it. Fails when the power is off, or when the fault is [`DiskFault::Error`].
    fn count_operation(&mut self) -> io::Result<Option<DiskFault>> {
        self.operations += 1;
        if self.stop_after.is_some_and(|last| self.operations > last) {
            return Err(io::Error::other("power is off"));
        }
        match self.faults.remove(&self.operations) {
            Some(DiskFault::Error) => Err(io::Error::other("injected failure")),
            fault => Ok(fault),
        }
    }

    fn inode(&mut self, n: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(n).ok_or(io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> usize {
        let all = self.names.values().filter_map(|n| self.inodes.get(*n));
        all.map(|inode| inode.current.len()).sum()
    }
}

fn write_bytes(into: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if into.len() < at + bytes.len() {
        into.resize(at + bytes.len(), 0);
    }
    if let Some(place) = into.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Turns a short-write fault into an error, for operations that are not writes. The only fault that can be
/// returned is a lying sync.
fn refuse_short(fault: Option<DiskFault>) -> io::Result<Option<DiskFault>> {
    match fault {
        Some(DiskFault::ShortWrite(_)) => Err(io::Error::other("injected failure")),
        fault => Ok(fault),
    }
}

/// The disk in memory.
#[derive(Clone, Default)]
pub struct MemDisk(Arc<Mutex<State>>);

impl MemDisk {
    /// An empty disk.
    pub fn new() -> MemDisk {
        MemDisk::default()
    }

    /// Operations so far that changed something or synced.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Cuts the power after this total number of operations; `None`: never.
    pub fn stop_after(&self, operations: Option<u64>) {
        self.0.lock().stop_after = operations;
    }

    /// Sets whether every sync of a file fails.
    pub fn fail_syncs(&self, fail: bool) {
        self.0.lock().fail_syncs = fail;
    }

    /// Injects a fault into one operation, given by its number. Operations are numbered
    /// from 1, as [`MemDisk::operations`] counts them.
    pub fn inject(&self, operation: u64, fault: DiskFault) {
        self.0.lock().faults.insert(operation, fault);
    }

    /// Sets the function that is called before each operation.
    pub fn watch(&self, watcher: Option<Arc<DiskWatcher>>) {
        self.0.lock().watcher = watcher;
    }

    /// Calls the watcher before an operation.
    fn announce(&self, path: &Path) {
        let (operation, watcher) = {
            let state = self.0.lock();
            (state.operations + 1, state.watcher.clone())
        };
        if let Some(watcher) = watcher {
            watcher(operation, path);
        }
    }

    /// Sets the capacity of the disk in bytes; `None`: unlimited.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.0.lock().capacity = bytes;
    }

    /// Bytes in all files.
    pub fn used(&self) -> usize {
        self.0.lock().used()
    }

    /// Flips one bit of a file, durably.
    pub fn flip_bit(&self, path: &Path, offset: usize, bit: u8) -> io::Result<()> {
        let mut state = self.0.lock();
        let n = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = state.inode(n)?;
        for bytes in [&mut inode.current, &mut inode.durable] {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << (bit & 7);
            }
        }
        Ok(())
    }

    /// The disk after a power cut that loses everything unsynced.
    pub fn synced(&self) -> MemDisk {
        let state = self.0.lock();
        let inodes = state.inodes.iter().map(|inode| Inode {
            current: inode.durable.clone(),
            durable: inode.durable.clone(),
            ..Inode::default()
        });
        let after = State {
            inodes: inodes.collect(),
            names: state.durable_names.clone(),
            durable_names: state.durable_names.clone(),
            capacity: state.capacity,
            ..State::default()
        };
        MemDisk(Arc::new(Mutex::new(after)))
    }

    /// The disk after a power cut, with the unsynced operations that the seed lets survive.
    pub fn after_power_cut(&self, seed: u64) -> MemDisk {
        let state = self.0.lock();
        let mut rng = fastrand::Rng::with_seed(seed);
        let names = after_power_cut(&state.durable_names, &state.unsynced_names, &mut rng);
        let mut inodes = Vec::new();
        for inode in &state.inodes {
            let mut bytes = inode.durable.clone();
            // 0: no unsynced write survives, 1: all do, 2: any sectors.
            let survival = rng.u8(0..3);
            for write in &inode.unsynced {
                for (n, sector) in write.bytes.chunks(SECTOR).enumerate() {
                    if survival == 1 || survival == 2 && rng.bool() {
                        write_bytes(&mut bytes, write.at + n * SECTOR, sector);
                    }
                }
            }
            inodes.push(Inode {
                current: bytes.clone(),
                durable: bytes,
                ..Inode::default()
            });
        }
        let after = State {
            inodes,
            durable_names: names.clone(),
            names,
            capacity: state.capacity,
            ..State::default()
        };
        MemDisk(Arc::new(Mutex::new(after)))
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let state = self.0.lock();
        let found = state.names.get(path).copied();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
    }

    fn apply_name_op(&self, op: NameOp) -> io::Result<()> {
        self.announce(op.path());
        let mut state = self.0.lock();
        refuse_short(state.count_operation()?)?;
        op.apply(&mut state.names);
        state.unsynced_names.push(op);
        Ok(())
    }
}

struct MemFile {
    disk: MemDisk,
    inode: usize,
    /// Path at the time of opening.
    path: PathBuf,
}

impl File for MemFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.0.lock();
        let bytes = &state.inode(self.inode)?.current;
        let at = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let rest = bytes.get(at..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.announce(&self.path);
        let mut state = self.disk.0.lock();
        let fault = state.count_operation()?;
        let short = match fault {
            Some(DiskFault::ShortWrite(len)) => bytes.get(..len.min(bytes.len())),
            _ => None,
        };
        let bytes = short.unwrap_or(bytes);
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let (used, capacity) = (state.used(), state.capacity);
        let inode = state.inode(self.inode)?;
        let growth = (at + bytes.len()).saturating_sub(inode.current.len());
        if capacity.is_some_and(|capacity| growth > 0 && used + growth > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        write_bytes(&mut inode.current, at, bytes);
        inode.unsynced.push(UnsyncedWrite {
            number: inode.writes,
            at,
            bytes: bytes.to_vec(),
        });
        inode.writes += 1;
        match short {
            Some(_) => Err(io::Error::other("injected short write")),
            None => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inode(self.inode)?.current.len() as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        let covered = self.disk.0.lock().inode(self.inode)?.writes;
        crate::sync::scheduling_point();
        self.disk.announce(&self.path);
        let mut state = self.disk.0.lock();
        let lies = refuse_short(state.count_operation()?)?.is_some();
        if state.fail_syncs {
            return Err(io::Error::other("sync failed"));
        }
        if lies {
            return Ok(());
        }
        let inode = state.inode(self.inode)?;
        let all = std::mem::take(&mut inode.unsynced);
        let is_covered = |write: &UnsyncedWrite| write.number < covered;
        let (done, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_covered);
        for write in done {
            write_bytes(&mut inode.durable, write.at, &write.bytes);
        }
        inode.unsynced = rest;
        Ok(())
    }
}

struct MemLock(MemDisk, PathBuf);

impl DiskLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.0.0.lock().locks.remove(&self.1);
    }
}

impl Disk for MemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = {
            let mut state = self.0.lock();
            state.inodes.push(Inode::default());
            state.inodes.len() - 1
        };
        self.apply_name_op(NameOp::Link(path.to_owned(), inode))?;
        self.open(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(MemFile {
            inode: self.find(path)?,
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        self.apply_name_op(NameOp::Rename(from.to_owned(), to.to_owned(), inode))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        self.apply_name_op(NameOp::Unlink(path.to_owned(), inode))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name());
        Ok(names.map(|n| n.to_string_lossy().into_owned()).collect())
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.announce(dir);
        let mut state = self.0.lock();
        let lies = refuse_short(state.count_operation()?)?.is_some();
        if lies {
            return Ok(());
        }
        let all = std::mem::take(&mut state.unsynced_names);
        let inside = |op: &NameOp| op.path().parent() == Some(dir);
        let (done, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(inside);
        for op in done {
            op.apply(&mut state.durable_names);
        }
        state.unsynced_names = rest;
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if !self.0.lock().locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemLock(self.clone(), path.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() {
        let (dir, path) = (Path::new("/d"), Path::new("/d/f"));
        let (mut gone, mut torn) = (0, 0);
        for seed in 0..60 {
            let disk = MemDisk::new();
            let file = disk.create(path).unwrap();
            file.write_at(0, &[1; 1024]).unwrap();
            file.sync_data().unwrap();
            if seed % 2 == 0 {
                disk.sync_dir(dir).unwrap();
            }
            file.write_at(0, &[2; 1024]).unwrap();
            let after = disk.after_power_cut(seed);
            let Ok(file) = after.open(path) else {
                assert!(seed % 2 == 1, "a synced name is gone");
                gone += 1;
                continue;
            };
            let bytes = file.read_all().unwrap();
            assert_eq!(bytes.len(), 1024);
            assert!(bytes.chunks(512).all(|c| c == [1; 512] || c == [2; 512]));
            torn += usize::from(bytes[0] != bytes[1023]);
        }
        assert!(gone > 0 && torn > 0);
    }

    #[test]
    fn a_fault_affects_the_operation_that_it_was_injected_into() {
        let disk = MemDisk::new();
        let numbers = Arc::new(Mutex::new(Vec::new()));
        let seen = numbers.clone();
        disk.watch(Some(Arc::new(move |n, path: &Path| {
            seen.lock().push((n, path.to_owned()));
        })));
        let file = disk.create(Path::new("/d/f")).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        disk.inject(3, DiskFault::ShortWrite(2));
        disk.inject(4, DiskFault::LyingSync);
        assert!(file.write_at(0, b"abcd").is_err());
        assert_eq!(file.read_all().unwrap(), b"ab");
        file.sync_data().unwrap();
        let lost = (0..20).any(|seed| {
            let after = disk.after_power_cut(seed);
            let file = after.open(Path::new("/d/f")).unwrap();
            file.read_all().unwrap().is_empty()
        });
        assert!(lost, "a lying sync made the write durable");
        disk.inject(5, DiskFault::Error);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        let after = disk.after_power_cut(1);
        let file = after.open(Path::new("/d/f")).unwrap();
        assert_eq!(file.read_all().unwrap(), b"ab");
        let numbers = numbers.lock();
        assert!(numbers.iter().map(|(n, _)| *n).eq(1..=6));
        assert_eq!(numbers[1].1, Path::new("/d"));
    }

    #[test]
    fn a_sync_covers_the_writes_before_its_call() {
        let disk = MemDisk::new();
        let file = disk.create(Path::new("/d/f")).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(0, b"a").unwrap();
        let other = disk.open(Path::new("/d/f")).unwrap();
        let during = Mutex::new(Some(other));
        disk.watch(Some(Arc::new(move |_, _: &Path| {
            let other = during.lock().take();
            if let Some(other) = other {
                other.write_at(1, b"b").unwrap();
            }
        })));
        file.sync_data().unwrap();
        let synced = |disk: &MemDisk| {
            let file = disk.synced().open(Path::new("/d/f")).unwrap();
            file.read_all().unwrap()
        };
        assert_eq!(synced(&disk), b"a");
        file.sync_data().unwrap();
        assert_eq!(synced(&disk), b"ab");
    }

    #[test]
    fn when_power_is_off_nothing_changes() {
        let disk = MemDisk::new();
        let file = disk.create(Path::new("/f")).unwrap();
        file.write_at(0, b"a").unwrap();
        disk.stop_after(Some(disk.operations()));
        assert!(file.write_at(0, b"b").is_err());
        assert!(file.sync_data().is_err());
        assert_eq!(file.read_all().unwrap(), b"a");
    }
}
