//! Checkpoints: the rows of one snapshot in files, after which the log before it can be removed.
//!
//! A checkpoint takes a snapshot and writes what it sees, while writers go on (a fuzzy
//! checkpoint of a consistent snapshot). When its files are synced, the log is on disk up to the position
//! where it continues, and the manifest is in place, files and segments that are no longer needed are
//! removed. Rows of spaces that did not change stay in the files of an earlier checkpoint ([`mod@plan`]).
//!
//! Invariants:
//! 1. Every commit above the snapshot, and every chunk that belongs to one, is in the log at or
//!    after the manifest's position. So the snapshot is newer than those of readers: it also contains commits
//!    that are on disk and wait for an acknowledgement.
//! 2. Spaces, counters and the timestamp limit in a manifest are those of one moment, and later
//!    changes to them are in the log after the position.
//! 3. A file that no manifest names is garbage; the next start removes it.
//! 4. Numbers of checkpoints are not used twice in a run, and the files of a checkpoint whose manifest
//!    may be in place stay until a later manifest is in place for certain.
//! 5. When a manifest is put in place, everything that was appended before is on disk, drops of spaces
//!    included, of which it may reflect a part.

mod plan;
mod reserve;

use crate::codec::put_bytes;
use crate::counters::Counters;
use crate::index::WalkOutcome;
use crate::log::{Log, io_error};
use crate::manifest::{CheckpointFile, Manifest, Unit};
use crate::record::InlineKey;
use crate::snapshots::{Slot, Snapshots};
use crate::space::Space;
use crate::store::RecordStore;
use plan::{Plan, plan};
use porpoise_base::disk::File;
use porpoise_base::sync::Mutex;
use porpoise_kv::{Error, Resource, Result, SpaceId};
pub(crate) use reserve::NAME as RESERVE_NAME;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The version of the checkpoint's format that this build writes and reads.
pub(crate) const CHECKPOINT_FORMAT_VERSION: u32 = 1;

pub(crate) const FILE_MAGIC: [u8; 8] = *b"PORPCKP\0";
pub(crate) const FILE_HEADER: usize = 32;
pub(crate) const BLOCK_MAGIC: u32 = 0x504b_4c42;
pub(crate) const BLOCK_HEADER: usize = 40;

/// Size in bytes at which a block is closed.
const BLOCK: usize = 128 << 10;
/// Size in bytes at which a file is closed.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Number of records processed under one epoch pin.
const RECORDS_PER_PIN: usize = 256;

/// Prefix of the names of a checkpoint's files.
pub(crate) const CHECKPOINT_PREFIX: &str = "ckpt-";

/// Returns the name of a checkpoint's file.
pub(crate) fn file_name(checkpoint: u64, number: u64) -> String {
    format!("{CHECKPOINT_PREFIX}{checkpoint:016}-{number:05}.dat")
}

/// Encodes the header of a checkpoint's file.
pub(crate) fn file_header(checkpoint: u64, number: u64) -> Vec<u8> {
    let mut rest = CHECKPOINT_FORMAT_VERSION.to_le_bytes().to_vec();
    rest.extend_from_slice(&checkpoint.to_le_bytes());
    rest.extend_from_slice(&number.to_le_bytes());
    let mut out = FILE_MAGIC.to_vec();
    out.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
    out.extend_from_slice(&rest);
    out
}

/// State after the last checkpoint.
struct LastCheckpoint {
    manifest: Manifest,
    /// Number of the next checkpoint.
    next: u64,
    /// Files of the checkpoints whose manifest may be in place, as [`Manifest::numbers`].
    possibly_referenced: BTreeSet<(u64, u64)>,
}

/// Writes checkpoints, one at a time.
pub(crate) struct Checkpoints {
    last: Mutex<LastCheckpoint>,
    store: Arc<RecordStore>,
    snapshots: Arc<Snapshots>,
    log: Arc<Log>,
    counters: Arc<Counters>,
}

/// Writes the files of one checkpoint.
struct Writer<'a> {
    store: &'a RecordStore,
    log: &'a Log,
    checkpoint: u64,
    /// Number of the next file.
    next_file: u64,
    /// Files of the unit being written.
    files: Vec<CheckpointFile>,
    open: Option<(Box<dyn File>, PathBuf)>,
    space: SpaceId,
    block: Vec<u8>,
    rows: u32,
}

impl Writer<'_> {
    /// Adds a row to the block, which is empty or of the same space.
    fn row(&mut self, space: SpaceId, key: &[u8], value: &[u8]) {
        self.space = space;
        put_bytes(&mut self.block, key);
        put_bytes(&mut self.block, value);
        self.rows += 1;
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self
            .files
            .last()
            .is_some_and(|file| file.bytes >= MAX_FILE_BYTES)
        {
            self.close()?;
        }
        if self.open.is_none() {
            let number = self.next_file;
            self.next_file += 1;
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
            self.log.heartbeats.checkpoint_step();
        }
        Ok(())
    }

    /// Writes the rows of some spaces that a snapshot sees.
    fn write_unit(&mut self, spaces: Vec<SpaceId>, ts: u64) -> Result<Unit> {
        for id in &spaces {
            if let Some(space) = self.store.spaces.find(*id) {
                self.space(space, ts)?;
            }
        }
        self.flush()?;
        self.close()?;
        Ok(Unit {
            checkpoint: self.checkpoint,
            ts,
            spaces,
            files: std::mem::take(&mut self.files),
        })
    }

    fn space(&mut self, space: &Space, ts: u64) -> Result<()> {
        let mut behind: Option<InlineKey> = None;
        loop {
            let guard = crossbeam_epoch::pin();
            let lower = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let index = &space.index;
            let mut full = None;
            let walk = index.walk(
                lower,
                Bound::Unbounded,
                false,
                RECORDS_PER_PIN,
                &guard,
                |record| {
                    let version = record.visible(ts, &guard);
                    if let Some(value) = version.and_then(|version| version.value()) {
                        self.row(space.id, record.key(), value);
                    }
                    if self.block.len() < BLOCK {
                        return ControlFlow::Continue(());
                    }
                    full = Some(InlineKey::from_slice(record.key()));
                    ControlFlow::Break(())
                },
            );
            // Releases the epoch pin: the write may wait for the disk.
            drop(guard);
            self.log.heartbeats.checkpoint_step();
            if self.block.len() >= BLOCK {
                self.flush()?;
            }
            behind = match walk {
                WalkOutcome::Paused(key) => Some(key),
                WalkOutcome::Stopped => full,
                WalkOutcome::Done => return self.flush(),
            };
        }
    }
}

impl Checkpoints {
    /// Creates the checkpointer of a store whose newest checkpoint is that of `manifest`, which may
    /// be empty.
    pub(crate) fn new(
        manifest: Manifest,
        store: Arc<RecordStore>,
        snapshots: Arc<Snapshots>,
        log: Arc<Log>,
        counters: Arc<Counters>,
    ) -> Checkpoints {
        let last = LastCheckpoint {
            next: manifest.checkpoint + 1,
            manifest,
            possibly_referenced: BTreeSet::new(),
        };
        Checkpoints {
            last: Mutex::new(last),
            store,
            snapshots,
            log,
            counters,
        }
    }

    /// Writes a checkpoint. On a full disk it retries once, after releasing the disk reserve.
    /// `exact` is set at a clean shutdown, after which nothing is appended: counters are then saved
    /// without their reserve.
    pub(crate) fn write(&self, exact: bool) -> Result<()> {
        let mut last = self.last.lock();
        let log = &*self.log;
        log.pipeline.watermark.check_healthy()?;
        let mut outcome = self.attempt(&mut last, exact);
        if matches!(outcome, Err(Error::Full(Resource::Disk))) && reserve::release(log) {
            tracing::warn!("the disk is full: the checkpoint uses its reserved file");
            outcome = self.attempt(&mut last, exact);
        }
        outcome?;
        // On a nearly full disk the log needs the space more than the reserve does.
        if !exact && !log.is_disk_full() {
            let bytes = last.manifest.files().map(|(_, file)| file.bytes).sum();
            reserve::ensure(log, bytes);
        }
        Ok(())
    }

    /// Calls a function with the manifest in place, whose files are not removed meanwhile.
    pub(crate) fn with_manifest<T>(&self, work: impl FnOnce(&Manifest) -> T) -> T {
        work(&self.last.lock().manifest)
    }

    /// Bytes of records appended since the last checkpoint.
    pub(crate) fn bytes_since_last(&self) -> u64 {
        let position = self.last.lock().manifest.position;
        let appended = self.log.pipeline.lock().log.appended;
        appended.saturating_sub(position)
    }

    /// Makes one attempt at a checkpoint; fails with [`Error::Full`] if the disk is full.
    fn attempt(&self, last: &mut LastCheckpoint, exact: bool) -> Result<()> {
        let began = Instant::now();
        let log = &*self.log;
        let (mut manifest, ts, slot) = self.capture(exact);
        manifest.checkpoint = last.next;
        last.next += 1;
        let plan = if log.logs_rows() {
            plan(&self.store.spaces, &last.manifest)
        } else {
            Plan::empty()
        };
        let (kept, checkpoint) = (plan.reused.len(), manifest.checkpoint);
        let outcome = self.write_units(checkpoint, plan, ts);
        self.snapshots.end_protected(slot);
        let prepared = outcome.and_then(|units| {
            manifest.units = units;
            let appended = log.pipeline.lock().log.appended;
            log.wait_synced(appended)?;
            log.pipeline.watermark.check_healthy()?;
            manifest.prepare(&*log.disk, &log.dir)
        });
        if let Err(error) = prepared {
            remove_files(log, (0..).map(|number| (checkpoint, number)));
            return Err(error);
        }
        let placed = Manifest::replace(&*log.disk, &log.dir)
            .and_then(|()| log.record_checkpoint(checkpoint, manifest.position));
        if let Err(error) = placed {
            last.possibly_referenced.extend(manifest.numbers());
            return Err(error);
        }
        let before = std::mem::replace(&mut last.manifest, manifest);
        let mut old = std::mem::take(&mut last.possibly_referenced);
        old.extend(before.numbers());
        let named = last.manifest.numbers();
        remove_files(log, old.difference(&named).copied());
        log.remove_before(last.manifest.position)?;
        log.metrics.checkpoints.record(began.elapsed());
        let units = &last.manifest.units;
        let fresh = units.iter().filter(|unit| unit.checkpoint == checkpoint);
        let written: u64 = fresh.flat_map(|u| &u.files).map(|file| file.rows).sum();
        tracing::info!(
            checkpoint,
            rows = last.manifest.rows(),
            written,
            units = units.len() as u64,
            kept = kept as u64,
            millis = began.elapsed().as_millis() as u64,
            "checkpoint written"
        );
        Ok(())
    }

    /// Takes a snapshot, and builds the manifest of the same moment, still without units. Returns
    /// the manifest, the snapshot's timestamp, and its slot.
    fn capture(&self, exact: bool) -> (Manifest, u64, Slot) {
        let (log, pipeline) = (&*self.log, &self.log.pipeline);
        let table = self.counters.lock();
        let mut seq = pipeline.wait_installed(pipeline.lock());
        // Not the watermark: commits that wait for an acknowledgement are in the log before the position.
        let ts = pipeline.installed_and_durable(&seq);
        let slot = self.snapshots.take_protected(ts, &pipeline.watermark);
        let reached = if log.acknowledges_before_sync() {
            seq.log.appended
        } else {
            log.synced_to()
        };
        let position = log.first_needed_position(&mut seq, reached);
        let reserved = seq.log.ts_next_limit.map_or(0, |(limit, _)| limit);
        let spaces = self.store.spaces.iter();
        let spaces = spaces.filter(|space| space.id >= SpaceId::FIRST_FREE);
        let manifest = Manifest {
            checkpoint: 0,
            ts,
            ts_limit: if exact {
                seq.last_ts + 1
            } else {
                seq.log.ts_limit.max(reserved)
            },
            position,
            next_space: table.next_space,
            units: Vec::new(),
            spaces: spaces.map(|space| (space.id, space.spec.clone())).collect(),
            counters: table
                .counters
                .iter()
                .map(|(id, c)| (id.0, if exact { c.next } else { c.reserved() }))
                .collect(),
        };
        (manifest, ts, slot)
    }

    fn write_units(&self, checkpoint: u64, plan: Plan, ts: u64) -> Result<Vec<Unit>> {
        let mut writer = Writer {
            store: &self.store,
            log: &self.log,
            checkpoint,
            next_file: 0,
            files: Vec::new(),
            open: None,
            space: SpaceId(0),
            block: Vec::with_capacity(BLOCK + 4096),
            rows: 0,
        };
        let mut units = plan.reused;
        for spaces in plan.to_write {
            let unit = writer.write_unit(spaces, ts)?;
            if !unit.files.is_empty() {
                units.push(unit);
            }
        }
        Ok(units)
    }
}

/// Removes files, and stops at the first failure; the next start removes the rest.
fn remove_files(log: &Log, numbers: impl Iterator<Item = (u64, u64)>) {
    for (checkpoint, number) in numbers {
        let path = log.dir.join(file_name(checkpoint, number));
        if log.disk.remove(&path).is_err() {
            return;
        }
    }
}
