//! Keeps an empty segment ready: zeroes written and synced ahead of need.

use super::{Log, SPARE_NAME, Spare, io_error};
use crate::shared::Shared;
use porpoise_base::disk::File;
use porpoise_kv::{Error, Full};
use std::io;
use std::time::Duration;

/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_millis(200);

impl Log {
    /// Makes the file of a coming segment.
    pub(super) fn make_spare(&self) -> io::Result<Box<dyn File>> {
        let path = self.dir.join(SPARE_NAME);
        match self.disk.remove(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.disk.create(&path)?;
        let filled = file
            .preallocate(self.segment_bytes)
            .and_then(|()| file.sync_data());
        if let Err(e) = filled {
            // The room it took so far is wanted by others.
            let _ = self.disk.remove(&path);
            let _ = self.disk.sync_dir(&self.dir);
            return Err(e);
        }
        Ok(file)
    }

    /// Takes the segment that was kept ready, waiting for it if need be.
    pub(super) fn take_spare(&self) -> Result<Box<dyn File>, Error> {
        let mut spare = self.spare.lock();
        loop {
            match std::mem::take(&mut *spare) {
                Spare::Ready(file) => {
                    self.spare_changed.notify_all();
                    return Ok(file);
                }
                Spare::Full => {
                    *spare = Spare::Full;
                    return Err(Error::Full(Full::Disk));
                }
                Spare::Stopped => {
                    *spare = Spare::Stopped;
                    drop(spare);
                    let path = self.dir.join(SPARE_NAME);
                    return self.make_spare().map_err(|e| io_error(&path, &e));
                }
                Spare::Wanted => self.spare_changed.wait(&mut spare),
            }
        }
    }

    /// Ends the thread that keeps a segment ready.
    pub(crate) fn stop_spares(&self) {
        *self.spare.lock() = Spare::Stopped;
        self.spare_changed.notify_all();
    }
}

/// The thread that keeps a segment ready.
pub(crate) fn prepare_spares(shared: &Shared, log: &Log) {
    loop {
        let mut spare = log.spare.lock();
        match *spare {
            Spare::Stopped => return,
            Spare::Ready(_) => {
                log.spare_changed.wait(&mut spare);
                continue;
            }
            Spare::Full => {
                log.spare_changed.wait_for(&mut spare, RETRY);
                if matches!(*spare, Spare::Stopped) {
                    return;
                }
            }
            Spare::Wanted => {}
        }
        drop(spare);
        let made = log.make_spare();
        let mut spare = log.spare.lock();
        if matches!(*spare, Spare::Stopped) {
            return;
        }
        let full = made.is_err();
        match made {
            Ok(file) => *spare = Spare::Ready(file),
            Err(error) => {
                if !matches!(*spare, Spare::Full) {
                    tracing::error!(%error, "no room for a new log segment");
                }
                *spare = Spare::Full;
            }
        }
        log.spare_changed.notify_all();
        drop(spare);
        shared.seq.lock().log.full = full;
    }
}
