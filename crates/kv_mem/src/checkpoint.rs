//! Checkpoints: the rows of one snapshot in files, after which the log before
//! it goes.
//!
//! A checkpoint takes a snapshot like a reader and writes what it sees, while
//! writers go on. When its files are synced, the log is on disk up to the
//! position where it goes on, and the manifest is in place, the files of the
//! checkpoint before and the segments that nobody needs are removed.
//!
//! Invariants:
//! 1. Every commit above the snapshot, and every chunk that belongs to one,
//!    stands in the log at or behind the manifest's position.
//! 2. Spaces, counters and the timestamp limit in a manifest are those of one
//!    moment, and what changed them later stands behind the position.
//! 3. A file that no manifest names is worthless; the next start removes it.
//! 4. Numbers of checkpoints are not used twice in a run, and the files of one
//!    whose manifest may be in place stay until a later one is in place for
//!    sure.
//! 5. When a manifest is put in place, everything is on disk that was appended
//!    before, drops of spaces included, of which it may show a part.

use crate::codec::put_bytes;
use crate::counters::Counters;
use crate::log::{Log, io_error};
use crate::manifest::{CheckpointFile, Manifest};
use crate::record::InlineKey;
use crate::shared::Shared;
use crate::snapshots::Slot;
use crate::space::Space;
use parking_lot::Mutex;
use porpoise_base::disk::File;
use porpoise_kv::{Result, SpaceId};
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::time::Instant;

/// The version of the checkpoint's format that this build writes and reads.
pub(crate) const CHECKPOINT_FORMAT_VERSION: u32 = 1;

pub(crate) const FILE_MAGIC: [u8; 8] = *b"PORPCKP\0";
pub(crate) const FILE_HEADER: usize = 32;
pub(crate) const BLOCK_MAGIC: u32 = 0x504b_4c42;
pub(crate) const BLOCK_HEADER: usize = 40;

/// A block is closed when it has so many bytes.
const BLOCK: usize = 128 << 10;
/// A file is closed when it has so many.
const FILE: u64 = 64 << 20;
/// Records looked at under one latch.
const STEP: usize = 256;

/// The file of a checkpoint.
pub(crate) fn file_name(checkpoint: u64, number: u64) -> String {
    format!("ckpt-{checkpoint:016}-{number:05}.dat")
}

/// The header of a checkpoint's file.
pub(crate) fn file_header(checkpoint: u64, number: u64) -> Vec<u8> {
    let mut rest = CHECKPOINT_FORMAT_VERSION.to_le_bytes().to_vec();
    rest.extend_from_slice(&checkpoint.to_le_bytes());
    rest.extend_from_slice(&number.to_le_bytes());
    let mut out = FILE_MAGIC.to_vec();
    out.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
    out.extend_from_slice(&rest);
    out
}

/// What the last checkpoint left.
struct Last {
    manifest: Manifest,
    /// The number of the next one.
    next: u64,
    /// Number and files of those whose manifest may be in place.
    doubtful: Vec<(u64, u64)>,
}

/// Makes checkpoints, one at a time.
pub(crate) struct Checkpoints(Mutex<Last>);

/// Writes the files of one checkpoint.
struct Writer<'a> {
    log: &'a Log,
    checkpoint: u64,
    files: Vec<CheckpointFile>,
    open: Option<(Box<dyn File>, PathBuf)>,
    space: SpaceId,
    block: Vec<u8>,
    rows: u32,
}

impl Writer<'_> {
    fn row(&mut self, space: SpaceId, key: &[u8], value: &[u8]) -> Result<()> {
        if self.block.len() >= BLOCK || space != self.space {
            self.flush()?;
            self.space = space;
        }
        put_bytes(&mut self.block, key);
        put_bytes(&mut self.block, value);
        self.rows += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.files.last().is_some_and(|file| file.bytes >= FILE) {
            self.close()?;
        }
        if self.open.is_none() {
            let number = self.files.len() as u64;
            let path = self.log.dir.join(file_name(self.checkpoint, number));
            let file = self
                .log
                .disk
                .create(&path)
                .map_err(|e| io_error(&path, &e))?;
            let header = file_header(self.checkpoint, number);
            file.write_at(0, &header).map_err(|e| io_error(&path, &e))?;
            self.files.push(CheckpointFile {
                number,
                bytes: header.len() as u64,
                rows: 0,
            });
            self.open = Some((file, path));
        }
        let mut checked = Vec::with_capacity(BLOCK_HEADER + self.block.len());
        checked.extend_from_slice(&self.checkpoint.to_le_bytes());
        checked.extend_from_slice(&self.space.0.to_le_bytes());
        checked.extend_from_slice(&u64::from(self.rows).to_le_bytes());
        checked.extend_from_slice(&(self.block.len() as u64).to_le_bytes());
        checked.extend_from_slice(&self.block);
        let mut out = BLOCK_MAGIC.to_le_bytes().to_vec();
        out.extend_from_slice(&crc32c::crc32c(&checked).to_le_bytes());
        out.extend_from_slice(&checked);
        if let (Some((file, path)), Some(last)) = (&self.open, self.files.last_mut()) {
            file.write_at(last.bytes, &out)
                .map_err(|e| io_error(path, &e))?;
            last.bytes += out.len() as u64;
            last.rows += u64::from(self.rows);
        }
        self.block.clear();
        self.rows = 0;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some((file, path)) = self.open.take() {
            file.sync_data().map_err(|e| io_error(&path, &e))?;
        }
        Ok(())
    }

    /// Writes what a snapshot sees of a space.
    fn space(&mut self, space: &Space, ts: u64) -> Result<()> {
        let mut behind: Option<InlineKey> = None;
        loop {
            let guard = crossbeam_epoch::pin();
            let lower = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut failed = None;
            let mut records = Vec::with_capacity(STEP);
            let walk = space
                .index
                .walk(lower, Bound::Unbounded, false, STEP, &guard, |record| {
                    records.push(record.counted());
                    ControlFlow::Continue(())
                });
            // Writing may wait for the disk: neither latch nor pin is held.
            let mut rows = Vec::with_capacity(records.len());
            for record in &records {
                if let Some(value) = record.visible(ts, &guard).and_then(|v| v.value()) {
                    rows.push((record, value.to_vec()));
                }
            }
            drop(guard);
            for (record, value) in rows {
                if let Err(e) = self.row(space.id, record.key(), &value) {
                    failed = Some(e);
                    break;
                }
            }
            if let Some(e) = failed {
                return Err(e);
            }
            match walk {
                crate::index::Walk::Paused(key) => behind = Some(key),
                _ => return Ok(()),
            }
        }
    }
}

impl Checkpoints {
    /// After a checkpoint, or an empty manifest.
    pub(crate) fn new(manifest: Manifest) -> Checkpoints {
        Checkpoints(Mutex::new(Last {
            next: manifest.checkpoint + 1,
            manifest,
            doubtful: Vec::new(),
        }))
    }

    /// Writes a checkpoint. `exact` at a clean shutdown: nothing comes after it.
    pub(crate) fn write(
        &self,
        shared: &Shared,
        log: &Log,
        counters: &Counters,
        exact: bool,
    ) -> Result<()> {
        let mut last = self.0.lock();
        shared.writable()?;
        let began = Instant::now();
        let (mut manifest, ts, slot) = moment(shared, log, counters, exact);
        manifest.checkpoint = last.next;
        last.next += 1;
        let outcome = write_files(shared, log, &manifest, ts);
        shared.snapshots.end(slot);
        let prepared = outcome.and_then(|files| {
            manifest.files = files;
            let appended = shared.seq.lock().log.appended;
            log.wait_synced(shared, appended)?;
            shared.writable()?;
            manifest.prepare(&*log.disk, &log.dir)
        });
        if let Err(error) = prepared {
            remove_files(log, manifest.checkpoint, u64::MAX);
            return Err(error);
        }
        let files = manifest.files.len() as u64;
        if let Err(error) = Manifest::replace(&*log.disk, &log.dir) {
            last.doubtful.push((manifest.checkpoint, files));
            return Err(error);
        }
        let before = std::mem::replace(&mut last.manifest, manifest);
        remove_files(log, before.checkpoint, before.files.len() as u64);
        for (checkpoint, files) in std::mem::take(&mut last.doubtful) {
            remove_files(log, checkpoint, files);
        }
        log.remove_before(last.manifest.position)?;
        shared.counts.checkpoints.add(1);
        let rows: u64 = last.manifest.files.iter().map(|file| file.rows).sum();
        tracing::info!(
            checkpoint = last.manifest.checkpoint,
            rows,
            millis = began.elapsed().as_millis() as u64,
            "checkpoint written"
        );
        Ok(())
    }

    /// How many bytes of records came since the last one.
    pub(crate) fn behind(&self, shared: &Shared) -> u64 {
        let position = self.0.lock().manifest.position;
        shared.seq.lock().log.appended.saturating_sub(position)
    }
}

/// A snapshot, and what belongs to it of everything that is not rows.
fn moment(shared: &Shared, log: &Log, counters: &Counters, exact: bool) -> (Manifest, u64, Slot) {
    let table = counters.lock();
    let mut seq = crate::commit::quiet(shared, shared.seq.lock());
    let (ts, slot) = shared.snapshots.take(&shared.mark);
    let reached = match log.immediate() {
        true => seq.log.appended,
        false => log.synced_to(),
    };
    let position = log.settle_chunks(&mut seq, reached);
    let reserved = seq.log.ts_next_limit.map_or(0, |(limit, _)| limit);
    let spaces = shared.spaces.iter();
    let spaces = spaces.filter(|space| space.id >= SpaceId::FIRST_FREE);
    let manifest = Manifest {
        checkpoint: 0,
        ts,
        ts_limit: match exact {
            true => seq.last_ts + 1,
            false => seq.log.ts_limit.max(reserved),
        },
        position,
        next_space: table.next_space,
        files: Vec::new(),
        spaces: spaces.map(|space| (space.id, space.spec.clone())).collect(),
        counters: table
            .counters
            .iter()
            .map(|(id, c)| (id.0, if exact { c.next } else { c.reserved() }))
            .collect(),
    };
    (manifest, ts, slot)
}

fn write_files(
    shared: &Shared,
    log: &Log,
    manifest: &Manifest,
    ts: u64,
) -> Result<Vec<CheckpointFile>> {
    let mut writer = Writer {
        log,
        checkpoint: manifest.checkpoint,
        files: Vec::new(),
        open: None,
        space: SpaceId(0),
        block: Vec::with_capacity(BLOCK + 4096),
        rows: 0,
    };
    if log.rows() {
        for space in shared.spaces.iter().filter(|space| space.logged()) {
            writer.space(space, ts)?;
        }
    }
    writer.flush()?;
    writer.close()?;
    Ok(writer.files)
}

/// Removes files of a checkpoint; what cannot be removed now goes at the next start.
fn remove_files(log: &Log, checkpoint: u64, count: u64) {
    for number in 0..count {
        if log
            .disk
            .remove(&log.dir.join(file_name(checkpoint, number)))
            .is_err()
        {
            return;
        }
    }
}
