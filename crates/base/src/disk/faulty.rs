//! A wrapper of the real disk that injects faults, for tests with the server's binary.
//!
//! kill -9 does not test durability, because the page cache survives it.
//! This wrapper keeps an undo record for each unsynced write (the overwritten bytes) and
//! for each unsynced operation on a name. A simulated power cut undoes all unsynced
//! operations, or some chosen by a seed, and aborts the process: the next start finds the
//! files as after a real power cut.
//!
//! Invariants:
//! 1. An operation that a sync reported as durable is never undone.
//! 2. A removed or replaced file is kept aside under a hidden name until its
//!    directory is synced.
//! 3. Undo records are kept by inode, so that all handles of a file share them. A sync covers the
//!    writes that were complete when it was called.

use super::{Disk, DiskLock, File, RealDisk};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const SECTOR: usize = 512;
const HIDDEN_PREFIX: &str = ".aside-";

/// The faults to inject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed that decides which unsynced operations survive a power cut; 0: none survive.
    pub seed: u64,
    /// Number of the operation (write, sync, name operation) at which power is cut.
    pub cut_at: Option<u64>,
    /// Number of the first sync of a file that fails; all later ones fail, too.
    pub fail_sync_at: Option<u64>,
    /// Number of the first sync of a file that hangs; all later ones hang, too.
    pub stuck_sync_at: Option<u64>,
    /// Delay added to every sync of a file.
    pub sync_delay: Duration,
    /// Bytes that may be added to files before the disk is full.
    pub room: Option<u64>,
}

impl Faults {
    /// Reads `name=number` pairs with commas between: `seed`, `cut_at`,
    /// `fail_sync_at`, `stuck_sync_at`, `sync_delay_us`, `room`.
    ///
    /// # Errors
    /// A message that names the invalid pair.
    pub fn parse(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let bad = || format!("unknown disk fault {pair:?}");
            let (name, value) = pair.split_once('=').ok_or_else(bad)?;
            let value: u64 = value.trim().parse().map_err(|_| bad())?;
            match name.trim() {
                "seed" => faults.seed = value,
                "cut_at" => faults.cut_at = Some(value),
                "fail_sync_at" => faults.fail_sync_at = Some(value),
                "stuck_sync_at" => faults.stuck_sync_at = Some(value),
                "sync_delay_us" => faults.sync_delay = Duration::from_micros(value),
                "room" => faults.room = Some(value),
                _ => return Err(bad()),
            }
        }
        Ok(faults)
    }
}

struct Overwritten {
    /// Number of the write, in the order of writes to the disk.
    number: u64,
    at: u64,
    old: Vec<u8>,
    /// Length of the file before, and of the write.
    len: u64,
    written: usize,
}

enum UndoName {
    Created(PathBuf),
    Renamed {
        from: PathBuf,
        to: PathBuf,
        aside: Option<PathBuf>,
    },
    Removed {
        path: PathBuf,
        aside: PathBuf,
    },
}

impl UndoName {
    fn dir(&self) -> Option<&Path> {
        match self {
            UndoName::Created(path)
            | UndoName::Renamed { to: path, .. }
            | UndoName::Removed { path, .. } => path.parent(),
        }
    }

    fn hidden_path(&self) -> Option<&Path> {
        match self {
            UndoName::Created(_) => None,
            UndoName::Renamed { aside, .. } => aside.as_deref(),
            UndoName::Removed { aside, .. } => Some(aside),
        }
    }

    fn undo(&self) -> io::Result<()> {
        match self {
            UndoName::Created(path) => std::fs::remove_file(path),
            UndoName::Renamed { from, to, aside } => {
                std::fs::rename(to, from)?;
                aside
                    .as_ref()
                    .map_or(Ok(()), |aside| std::fs::rename(aside, to))
            }
            UndoName::Removed { path, aside } => std::fs::rename(aside, path),
        }
    }
}

#[derive(Default)]
struct State {
    /// A handle and the undo records of each file with unsynced writes, by inode.
    files: BTreeMap<u64, (Arc<std::fs::File>, Vec<Overwritten>)>,
    names: Vec<UndoName>,
    writes: u64,
    operations: u64,
    syncs: u64,
    added: u64,
}

/// A real disk with faults.
#[derive(Clone)]
pub struct FaultyDisk {
    faults: Arc<Faults>,
    state: Arc<Mutex<State>>,
}

impl FaultyDisk {
    /// A real disk with these faults.
    pub fn new(faults: Faults) -> FaultyDisk {
        FaultyDisk {
            faults: Arc::new(faults),
            state: Arc::default(),
        }
    }

    /// Undoes unsynced operations except those that the seed lets survive.
    fn undo_unsynced(&self, state: &mut State) {
        let mut rng = fastrand::Rng::with_seed(self.faults.seed);
        let all = self.faults.seed == 0;
        for (file, writes) in state.files.values() {
            // 0: nothing survives, 1: everything, 2: any sectors.
            let survival = if all { 0 } else { rng.u8(0..3) };
            for write in writes.iter().rev().filter(|_| survival != 1) {
                let len = file.metadata().map_or(0, |m| m.len());
                for (n, old) in write.old.chunks(SECTOR).enumerate() {
                    if survival == 0 || rng.bool() {
                        // Best effort: the process is about to abort, so the error is ignored.
                        let _ = File::write_at(&**file, write.at + (n * SECTOR) as u64, old);
                    }
                }
                if survival == 0 && write.at + write.written as u64 > write.len && len > write.len {
                    let _ = file.set_len(write.len);
                }
            }
        }
        let survive = if all {
            0
        } else {
            rng.usize(0..=state.names.len())
        };
        for undo in state.names.iter().skip(survive).rev() {
            let _ = undo.undo();
        }
        state.files.clear();
        state.names.clear();
    }

    fn count_operation(&self, state: &mut State) {
        state.operations += 1;
        if Some(state.operations) == self.faults.cut_at {
            self.undo_unsynced(state);
            std::process::abort()
        }
    }

    /// Renames a file to a hidden name, so that its removal can be undone.
    fn hide_file(state: &mut State, path: &Path) -> io::Result<PathBuf> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("{HIDDEN_PREFIX}{}-{name}", state.operations));
        std::fs::rename(path, &aside)?;
        Ok(aside)
    }

    fn file(&self, file: std::fs::File) -> io::Result<Box<dyn File>> {
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            inode: file.metadata()?.ino(),
            file: Arc::new(file),
        }))
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    inode: u64,
    file: Arc<std::fs::File>,
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        File::read_at(&*self.file, offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        self.disk.count_operation(&mut state);
        let len = File::len(&*self.file)?;
        let growth = (offset + bytes.len() as u64).saturating_sub(len);
        if self
            .disk
            .faults
            .room
            .is_some_and(|room| growth > 0 && state.added + growth > room)
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.added += growth;
        let mut old = vec![0; bytes.len()];
        let kept = File::read_at(&*self.file, offset, &mut old)?;
        old.truncate(kept);
        let written = bytes.len();
        state.writes += 1;
        let undo = Overwritten {
            number: state.writes,
            at: offset,
            old,
            len,
            written,
        };
        let handle = || (self.file.clone(), Vec::new());
        let (_, undos) = state.files.entry(self.inode).or_insert_with(handle);
        undos.push(undo);
        File::write_at(&*self.file, offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        File::len(&*self.file)
    }

    fn sync_data(&self) -> io::Result<()> {
        // The page cache outlives the process, so it suffices to discard the undo records. With a
        // delay the disk is used for measurements, which need the real sync.
        let covered = self.disk.state.lock().writes;
        if !self.disk.faults.sync_delay.is_zero() {
            self.file.sync_data()?;
            std::thread::sleep(self.disk.faults.sync_delay);
        }
        let mut state = self.disk.state.lock();
        self.disk.count_operation(&mut state);
        state.syncs += 1;
        if let Some(at) = self.disk.faults.stuck_sync_at
            && state.syncs >= at
        {
            drop(state);
            loop {
                std::thread::park();
            }
        }
        if self
            .disk
            .faults
            .fail_sync_at
            .is_some_and(|at| state.syncs >= at)
        {
            return Err(io::Error::other("injected sync failure"));
        }
        if let Some((_, undos)) = state.files.get_mut(&self.inode) {
            undos.retain(|undo| undo.number > covered);
            if undos.is_empty() {
                state.files.remove(&self.inode);
            }
        }
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.state.lock();
        self.count_operation(&mut state);
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        state.names.push(UndoName::Created(path.to_owned()));
        drop(state);
        self.file(file)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        self.file(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        self.count_operation(&mut state);
        let replaces = to.exists();
        let aside = replaces.then(|| FaultyDisk::hide_file(&mut state, to));
        std::fs::rename(from, to)?;
        state.names.push(UndoName::Renamed {
            from: from.to_owned(),
            to: to.to_owned(),
            aside: aside.transpose()?,
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        self.count_operation(&mut state);
        let aside = FaultyDisk::hide_file(&mut state, path)?;
        let path = path.to_owned();
        state.names.push(UndoName::Removed { path, aside });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = RealDisk.list(dir)?;
        names.retain(|name| !name.starts_with(HIDDEN_PREFIX));
        Ok(names)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        self.count_operation(&mut state);
        let all = std::mem::take(&mut state.names);
        let (done, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|u| u.dir() == Some(dir));
        for aside in done.iter().filter_map(UndoName::hidden_path) {
            std::fs::remove_file(aside)?;
        }
        state.names = rest;
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_undoes_unsynced_operations() {
        let dir = std::env::temp_dir().join(format!("porpoise-faulty-{}", std::process::id()));
        let disk = FaultyDisk::new(Faults::default());
        disk.create_dir(&dir).unwrap();
        let (kept, lost, renamed) = (dir.join("kept"), dir.join("lost"), dir.join("renamed"));
        let file = disk.create(&kept).unwrap();
        file.write_at(0, b"synced").unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(&dir).unwrap();
        file.write_at(2, b"unsynced").unwrap();
        disk.create(&lost).unwrap().write_at(0, b"x").unwrap();
        disk.rename(&kept, &renamed).unwrap();
        disk.remove(&renamed).unwrap();
        assert_eq!(disk.list(&dir).unwrap(), ["lost"]);
        disk.undo_unsynced(&mut disk.state.lock());
        assert_eq!(RealDisk.list(&dir).unwrap(), ["kept"]);
        assert_eq!(std::fs::read(&kept).unwrap(), b"synced");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_sync_through_any_handle_covers_the_file() {
        let dir = std::env::temp_dir().join(format!("porpoise-handles-{}", std::process::id()));
        let disk = FaultyDisk::new(Faults::default());
        disk.create_dir(&dir).unwrap();
        let path = dir.join("f");
        let file = disk.create(&path).unwrap();
        disk.sync_dir(&dir).unwrap();
        let other = disk.open(&path).unwrap();
        file.write_at(0, b"ab").unwrap();
        other.sync_data().unwrap();
        drop(other);
        file.write_at(1, b"cd").unwrap();
        disk.undo_unsynced(&mut disk.state.lock());
        assert_eq!(std::fs::read(&path).unwrap(), b"ab");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn faults_are_read_from_text() {
        let faults = Faults::parse("seed=7,cut_at=500,sync_delay_us=1000").unwrap();
        assert_eq!(faults.cut_at, Some(500));
        assert_eq!(faults.sync_delay, Duration::from_millis(1));
        assert!(Faults::parse("cut_at=x").is_err());
        assert!(Faults::parse("typo=1").is_err());
    }
}
