//! A disk in memory whose operations a test can block or make fail.

use parking_lot::{Condvar, Mutex};
use porpoise_base::disk::{Disk, DiskLock, File, MemDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Length of a log group without records.
const GROUP_HEADER: usize = 56;

#[derive(Default)]
struct State {
    /// Outcomes of held syncs of the first segment, in the order of the calls; `None`: syncs are not held.
    held: Option<Vec<Option<bool>>>,
    /// Duration of syncs of the first segment.
    delay: Duration,
    /// Whether the last write to the first segment was a group without records.
    is_confirmation: bool,
    /// Number of syncs of log files that may still pass; `None`: all.
    passes: Option<usize>,
    /// Syncs that wait.
    blocked: usize,
    fail_syncs_of_manifest: bool,
    /// The manifest was renamed, and its directory not synced since.
    renamed: bool,
    fail_removals_of: Option<&'static str>,
}

#[derive(Clone)]
pub struct ControlledDisk {
    pub disk: MemDisk,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct ControlledFile {
    file: Box<dyn File>,
    is_log: bool,
    is_first_segment: bool,
    controls: ControlledDisk,
}

impl ControlledDisk {
    pub fn new() -> ControlledDisk {
        ControlledDisk {
            disk: MemDisk::new(),
            state: Arc::default(),
        }
    }

    /// Blocks syncs of log files from now on.
    pub fn block_syncs(&self) {
        self.state.0.lock().passes = Some(0);
    }

    /// Lets one sync pass.
    pub fn pass_one(&self) {
        if let Some(passes) = &mut self.state.0.lock().passes {
            *passes += 1;
        }
        self.state.1.notify_all();
    }

    /// Lets all syncs pass.
    pub fn unblock_syncs(&self) {
        self.state.0.lock().passes = None;
        self.state.1.notify_all();
    }

    /// Waits until a sync waits.
    pub fn wait_blocked(&self) {
        let mut state = self.state.0.lock();
        while state.blocked == 0 || state.passes != Some(0) {
            self.state.1.wait(&mut state);
        }
    }

    /// Sets the duration of syncs of the first segment.
    pub fn delay_syncs(&self, delay: Duration) {
        self.state.0.lock().delay = delay;
    }

    /// Holds each sync of the first segment from now on until [`Self::end_sync`] is called for it. Syncs of
    /// empty groups, which the store writes when it is idle, are not held.
    pub fn hold_syncs(&self) {
        self.state.0.lock().held = Some(Vec::new());
    }

    /// Waits until this number of syncs have been held, ended ones included.
    pub fn wait_held(&self, count: usize) {
        let mut state = self.state.0.lock();
        while state.held.as_ref().map_or(0, Vec::len) < count {
            self.state.1.wait(&mut state);
        }
    }

    /// Ends a held sync; they are numbered from 0 in the order of their calls.
    pub fn end_sync(&self, number: usize, succeeds: bool) {
        if let Some(held) = &mut self.state.0.lock().held {
            held[number] = Some(succeeds);
        }
        self.state.1.notify_all();
    }

    /// Ends all held syncs, and holds none from now on.
    pub fn release_syncs(&self) {
        self.state.0.lock().held = None;
        self.state.1.notify_all();
    }

    fn wait_for_end(&self) -> io::Result<()> {
        let mut state = self.state.0.lock();
        let is_confirmation = state.is_confirmation;
        let Some(held) = state.held.as_mut().filter(|_| !is_confirmation) else {
            let delay = state.delay;
            drop(state);
            std::thread::sleep(delay);
            return Ok(());
        };
        let number = held.len();
        held.push(None);
        self.state.1.notify_all();
        loop {
            match state.held.as_ref().map(|held| held[number]) {
                None | Some(Some(true)) => return Ok(()),
                Some(Some(false)) => return Err(io::Error::other("injected sync failure")),
                Some(None) => self.state.1.wait(&mut state),
            }
        }
    }

    /// Makes the first sync of the directory after a rename of the manifest fail.
    pub fn fail_syncs_of_manifest(&self, fail: bool) {
        self.state.0.lock().fail_syncs_of_manifest = fail;
    }

    /// Makes removals of files with this name prefix fail.
    pub fn fail_removals_of(&self, prefix: Option<&'static str>) {
        self.state.0.lock().fail_removals_of = prefix;
    }

    fn wrap(&self, path: &Path, file: Box<dyn File>) -> Box<dyn File> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Box::new(ControlledFile {
            file,
            is_log: name.starts_with("log-"),
            is_first_segment: name == "log-spare-0.tmp",
            controls: self.clone(),
        })
    }
}

impl File for ControlledFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_first_segment {
            self.controls.state.0.lock().is_confirmation = bytes.len() == GROUP_HEADER;
        }
        self.file.write_at(offset, bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.is_first_segment {
            self.controls.wait_for_end()?;
        }
        if self.is_log {
            let (state, changed) = &*self.controls.state;
            let mut state = state.lock();
            state.blocked += 1;
            changed.notify_all();
            while state.passes == Some(0) {
                changed.wait(&mut state);
            }
            if let Some(passes) = &mut state.passes {
                *passes -= 1;
            }
            state.blocked -= 1;
        }
        self.file.sync_data()
    }
}

impl Disk for ControlledDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(path, self.disk.create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(path, self.disk.open(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state.0.lock().renamed |= to.ends_with("MANIFEST");
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let fails = self.state.0.lock().fail_removals_of;
        if fails.is_some_and(|prefix| name.starts_with(prefix)) {
            return Err(io::Error::other("removal failed"));
        }
        self.disk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.0.lock();
        if std::mem::take(&mut state.renamed) && state.fail_syncs_of_manifest {
            return Err(io::Error::other("sync of the directory failed"));
        }
        drop(state);
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
}
