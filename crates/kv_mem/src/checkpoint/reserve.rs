//! A disk reserve for the next checkpoint.
//!
//! If the log has grown until the disk is full, only a checkpoint can free it, and a checkpoint needs
//! space itself before it frees any. So a file of zeroes is kept, as large as the checkpoint's files
//! together but at most [`MAX_RESERVE`], and removed when a checkpoint meets a full disk (transactions.md, 24).
//!
//! Invariant: nothing relies on the reserve's content; it may be missing, short, or torn.

use crate::log::Log;
use std::path::PathBuf;

/// The file's name.
pub(crate) const NAME: &str = "reserve.dat";

/// Maximum length of the reserve in bytes. On a full disk, a checkpoint that needs more still
/// fails.
const MAX_RESERVE: u64 = 256 << 20;

fn path(log: &Log) -> PathBuf {
    log.dir.join(NAME)
}

/// Ensures that there is a reserve for files of `bytes` bytes, if the disk has room for it.
pub(super) fn ensure(log: &Log, bytes: u64) {
    let wanted = bytes.min(MAX_RESERVE);
    let path = path(log);
    let has = log
        .disk
        .open(&path)
        .and_then(|file| file.len())
        .unwrap_or(0);
    if has >= wanted && has <= wanted.saturating_mul(4) {
        return;
    }
    // A quarter more than needed, so that slight growth does not require a new file.
    let wanted = wanted + wanted / 4;
    let _ = log.disk.remove(&path);
    if wanted == 0 {
        return;
    }
    let made = log.disk.create(&path).and_then(|file| {
        file.preallocate(wanted)?;
        file.sync_data()
    });
    if let Err(error) = made {
        tracing::warn!(%error, bytes = wanted, "no disk space for the checkpoint reserve file: a checkpoint may fail on a full disk");
        let _ = log.disk.remove(&path);
    }
}

/// Removes the reserve. Returns false if there was none.
pub(super) fn release(log: &Log) -> bool {
    log.disk.remove(&path(log)).is_ok() && log.disk.sync_dir(&log.dir).is_ok()
}
