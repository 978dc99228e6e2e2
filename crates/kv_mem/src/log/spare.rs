//! The spare segment: a file of zeroes that is written and synced ahead of need.

use super::{Log, Spare, SpareFile, io_error, spare_name};
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::{Error, Resource};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Interval of retries on a full disk.
pub(super) const RETRY: Duration = Duration::from_millis(200);

impl Log {
    /// Creates the file of a spare segment.
    pub(super) fn create_spare(&self) -> io::Result<SpareFile> {
        let count = self.spares_created.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(spare_name(count));
        let file = self.disk.create(&path)?;
        let open_more = || {
            let others = 1..self.thread_count();
            let handles = others.map(|_| self.disk.open(&path).map(Arc::from));
            handles.collect::<io::Result<_>>()
        };
        let filled = file
            .preallocate(self.segment_bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| open_more());
        match filled {
            Ok(more_handles) => Ok(SpareFile {
                file: Arc::from(file),
                more_handles,
                path,
            }),
            Err(e) => {
                // Removes the unusable file: the log's other files need its space.
                let _ = self.disk.remove(&path);
                let _ = self.disk.sync_dir(&self.dir);
                Err(e)
            }
        }
    }

    /// Takes the spare segment; waits until there is one.
    pub(super) fn take_spare(&self) -> Result<SpareFile, Error> {
        let mut spare = self.spare.lock();
        loop {
            match std::mem::take(&mut *spare) {
                Spare::Ready(taken) => {
                    self.spare_changed.notify_all();
                    return Ok(taken);
                }
                Spare::Full => {
                    *spare = Spare::Full;
                    return Err(Error::Full(Resource::Disk));
                }
                Spare::Stopped => {
                    *spare = Spare::Stopped;
                    drop(spare);
                    return self.create_spare().map_err(|e| io_error(&self.dir, &e));
                }
                Spare::Wanted if self.driven_by_callers => {
                    drop(spare);
                    return self.create_spare().map_err(|e| io_error(&self.dir, &e));
                }
                Spare::Wanted => self.spare_changed.wait(&mut spare),
            }
        }
    }

    /// Stops the thread that creates spare segments.
    pub(super) fn stop_spares(&self) {
        *self.spare.lock() = Spare::Stopped;
        self.spare_changed.notify_all();
    }

    /// Runs the thread that creates spare segments.
    pub(crate) fn prepare_spares(&self) {
        loop {
            if self.is_pending() {
                // A spare is created only after the run's first segment.
                let mut spare = self.spare.lock();
                if matches!(*spare, Spare::Stopped) {
                    return;
                }
                self.spare_changed.wait_for(&mut spare, RETRY);
                continue;
            }
            let mut spare = self.spare.lock();
            match *spare {
                Spare::Stopped => return,
                Spare::Ready(..) => {
                    self.spare_changed.wait(&mut spare);
                    continue;
                }
                Spare::Full => {
                    self.spare_changed.wait_for(&mut spare, RETRY);
                }
                Spare::Wanted => {}
            }
            drop(spare);
            self.prepare_spare();
        }
    }

    /// Creates the spare segment if it is missing, and records whether the disk is full.
    pub(super) fn prepare_spare(&self) {
        if matches!(*self.spare.lock(), Spare::Stopped | Spare::Ready(..)) {
            return;
        }
        let made = self.create_spare();
        let mut spare = self.spare.lock();
        if matches!(*spare, Spare::Stopped) {
            return;
        }
        let full = made.is_err();
        match made {
            Ok(created) => *spare = Spare::Ready(created),
            Err(error) => {
                if !matches!(*spare, Spare::Full) {
                    tracing::error!(%error, "no disk space for a new log segment");
                }
                *spare = Spare::Full;
            }
        }
        self.spare_changed.notify_all();
        drop(spare);
        // The log thread publishes how much fits now, and wakes the commits that wait for space.
        let mut seq = self.pipeline.lock();
        seq.log.is_out_of_segments = full || self.is_pending();
        seq.log.urgent = true;
        self.wake_thread(&mut seq);
        drop(seq);
        self.pipeline.watermark.wake_waiters();
    }
}
