//! A copy of an open store: the files from which it can be rebuilt, while commits go on.
//!
//! ```text
//!   checkpoint in force            log                           durable
//!   +----------------------+  +----------------------------------+-----
//!   | MANIFEST, ckpt files |  | groups from the manifest's       | ...
//!   |                      |  | position to the durable position |
//!   +----------------------+  +----------------------------------+-----
//!                                                                ^ state of the copy
//! ```
//!
//! A copy is what recovery would read after a crash at its end, so recovery is what restores it. No
//! checkpoint is written and nothing is blocked: files of a checkpoint never change, and the copy opens
//! them before a later checkpoint can remove them.
//!
//! Invariants:
//! 1. Every commit acknowledged before [`KvMem::begin_copy`] is in the copy, in every durability mode.
//! 2. The files are those of one manifest that is in place, with the log from its position on.
//!
//! Rejected: a checkpoint for each backup (writes all changed spaces again); rows read through a
//! snapshot (a format of its own, and a snapshot that is held for the whole backup).

use crate::checkpoint::file_name;
use crate::engine::KvMem;
use crate::log::copy::{LogCopy, LogCursor};
use crate::log::{Log, io_error};
use crate::manifest::Manifest;
use porpoise_base::disk::File;
use porpoise_kv::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// An open file of a checkpoint.
pub struct CopiedFile {
    /// Name in the store's directory. A name is used once in the life of a store.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
    path: PathBuf,
    file: Box<dyn File>,
}

impl CopiedFile {
    /// Reads up to `len` bytes at an offset.
    ///
    /// # Errors
    /// [`Error::Io`]; a file that ends early is [`Error::Corrupt`].
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let rest = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(rest)];
        let read = self.file.read_at(offset, &mut bytes);
        let read = read.map_err(|e| io_error(&self.path, &e))?;
        if read < bytes.len() {
            let at = self.path.display();
            return Err(Error::Corrupt(format!(
                "{at} has {} bytes, the manifest says {}",
                offset + read as u64,
                self.bytes
            )));
        }
        Ok(bytes)
    }
}

/// An open copy of a store.
pub struct HotCopy {
    /// The manifest; `None` before the first checkpoint, when the log has everything.
    pub manifest: Option<Vec<u8>>,
    /// The files that the manifest names.
    pub files: Vec<CopiedFile>,
    /// Newest commit in the files, which have all before it; 0 without a checkpoint. Later commits are in the log.
    pub snapshot: u64,
    /// Position from which the log is needed.
    pub log_from: u64,
    /// The log.
    pub log: LogCopy,
}

fn snapshot_of(manifest: &Manifest) -> u64 {
    if manifest.checkpoint > 0 {
        manifest.ts
    } else {
        0
    }
}

impl KvMem {
    fn durable_log(&self) -> Result<&Arc<Log>> {
        let log = self.state.log.as_ref().filter(|log| log.logs_rows());
        log.ok_or(Error::Unsupported("backups of a store in memory"))
    }

    /// Opens a copy of the store, with every commit acknowledged before the call.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Unsupported`] without a store on disk.
    pub fn begin_copy(&self) -> Result<HotCopy> {
        self.state.check_open()?;
        let log = self.durable_log()?;
        let Some(checkpoints) = &self.checkpoints else {
            return Err(Error::Unsupported("backups of a store in memory"));
        };
        let appended = log.pipeline.lock().log.appended;
        log.wait_synced(appended)?;
        checkpoints.with_manifest(|manifest| {
            let mut files = Vec::new();
            for (unit, file) in manifest.files() {
                let name = file_name(unit.checkpoint, file.number);
                let path = log.dir.join(&name);
                let open = log.disk.open(&path).map_err(|e| io_error(&path, &e))?;
                files.push(CopiedFile {
                    name,
                    bytes: file.bytes,
                    rows: file.rows,
                    path,
                    file: open,
                });
            }
            let copy = log.copy_from(LogCursor::at(manifest.position))?;
            let Some(copy) = copy else {
                let what = format!("no log segment has position {}", manifest.position);
                return Err(Error::Corrupt(what));
            };
            Ok(HotCopy {
                manifest: (manifest.checkpoint > 0).then(|| manifest.encode()),
                files,
                snapshot: snapshot_of(manifest),
                log_from: manifest.position,
                log: copy,
            })
        })
    }

    /// Newest commit in the current checkpoint, which has all before it; 0 without a checkpoint.
    pub fn checkpoint_snapshot(&self) -> u64 {
        let checkpoints = self.checkpoints.as_ref();
        checkpoints.map_or(0, |checkpoints| checkpoints.with_manifest(snapshot_of))
    }

    /// Opens the durable log from a cursor on; `None` if it was removed, partly or all of it.
    ///
    /// # Errors
    /// As [`Self::begin_copy`].
    pub fn copy_log(&self, cursor: LogCursor) -> Result<Option<LogCopy>> {
        self.state.check_open()?;
        self.durable_log()?.copy_from(cursor)
    }

    /// Position up to which the log is on disk; 0 without a log.
    pub fn log_position(&self) -> u64 {
        self.state.log.as_ref().map_or(0, |log| log.synced_to())
    }

    /// Position of the first record in the existing log segments.
    pub fn first_log_position(&self) -> u64 {
        self.state
            .log
            .as_ref()
            .map_or(0, |log| log.first_position())
    }

    /// Allows the removal of log segments before a position, which are archived. Without
    /// [`KvMemOptions::archive_bound`](crate::KvMemOptions::archive_bound) segments are removed whether they are archived or not.
    pub fn set_archived(&self, position: u64) {
        if let Some(log) = &self.state.log {
            log.set_archived(position);
        }
    }
}
