//! Copies a running store into a repository: a backup.
//!
//! The first backup stores the files of the checkpoint in force and the log after it. A later one
//! stores what the repository lacks, of the cheaper of two bases:
//! - the checkpoint in force: its files that changed, and the log after it;
//! - the checkpoint of the backup before: only the log since then, while log segments go back that far
//!   and the log does not become longer than the files that a restore reads.

use super::archive::ahead;
use super::engine_error;
use super::log_position::begin_copy;
use super::progress::Progress;
use porpoise_backup::log::PieceWriter;
use porpoise_backup::repository::{BACKUP_FORMAT_VERSION, PART_BYTES};
use porpoise_backup::{Backup, BackupFile, Error, Group, Repository, Result};
use porpoise_base::base64;
use porpoise_base::cancel::Cancel;
use porpoise_base::clock::Clock;
use porpoise_binlog::BinaryLog;
use porpoise_kv_mem::{HotCopy, KvMem, LogCopy, LogCursor};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep without a look at the cancellation.
const NAP: Duration = Duration::from_millis(50);

/// Log that an incremental backup may leave to a restore, whatever the files' size.
const SMALL_LOG: u64 = 64 << 20;

/// Source, destination and limits of a backup.
pub struct Copying {
    pub engine: Arc<KvMem>,
    pub binlog: Option<Arc<BinaryLog>>,
    pub repository: Repository,
    pub clock: Arc<dyn Clock>,
    /// Id of the store.
    pub store: String,
    /// Limit of bytes a second, uncompressed.
    pub rate: u64,
    pub progress: Arc<Progress>,
    pub cancel: Cancel,
}

/// Files and log of a backup.
struct Base {
    manifest: Option<String>,
    files: Vec<BackupFile>,
    log_from: u64,
}

/// Keeps the rate.
struct Pace<'a> {
    copying: &'a Copying,
    start: Instant,
    bytes: u64,
    stored: u64,
}

impl Pace<'_> {
    /// Stores an object and waits until the rate allows more.
    fn put(&mut self, name: &str, content: &[u8]) -> Result<()> {
        self.stored += self.copying.repository.put(name, content)?;
        let bytes = content.len() as u64;
        self.copying.progress.add(bytes);
        self.bytes += bytes;
        let due = Duration::from_secs_f64(self.bytes as f64 / self.copying.rate.max(1) as f64);
        loop {
            if self.copying.cancel.reason().is_some() {
                return Err(Error::Cancelled);
            }
            let rest = due.saturating_sub(self.start.elapsed());
            if rest.is_zero() {
                return Ok(());
            }
            std::thread::sleep(rest.min(NAP));
        }
    }
}

impl Copying {
    /// Makes a backup.
    pub fn run(&self) -> Result<Backup> {
        let began = self.clock.unix_micros();
        self.repository.claim(&self.store, began)?;
        let copy = begin_copy(&self.engine, self.binlog.as_deref());
        let (copy, binlog) = copy.map_err(|e| engine_error(&e))?;
        let numbers = self.repository.numbers()?;
        let parts = self.repository.parts()?;
        let before = numbers.last().map(|number| self.repository.backup(*number));
        let before = before.transpose()?;
        let mut pace = Pace {
            copying: self,
            start: Instant::now(),
            bytes: 0,
            stored: 0,
        };
        let position = copy.log.end();
        if before
            .as_ref()
            .is_some_and(|before| before.position > position)
        {
            return Err(ahead(self.repository.location()));
        }
        let (base, log_time) = self.store_base(copy, before.as_ref(), &parts, &mut pace)?;
        // Every group up to the position was written before.
        let now = u64::try_from(self.clock.unix_micros()).unwrap_or(0);
        let mut backup = Backup {
            format: BACKUP_FORMAT_VERSION,
            number: numbers.last().map_or(1, |number| number + 1),
            began,
            ended: self.clock.unix_micros(),
            server: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: base.manifest,
            files: base.files,
            log_from: base.log_from,
            position,
            time: log_time.filter(|time| *time > 0).unwrap_or(now),
            stored: pace.stored,
            binlog,
        };
        let described = self.repository.put_backup(&backup)?;
        backup.stored += described;
        Ok(backup)
    }

    /// Stores what is missing. Returns the base, and the time of the last group of the log.
    fn store_base(
        &self,
        copy: HotCopy,
        before: Option<&Backup>,
        parts: &BTreeSet<String>,
        pace: &mut Pace<'_>,
    ) -> Result<(Base, Option<u64>)> {
        let files: Vec<BackupFile> = copy.files.iter().map(described).collect();
        let missing: u64 = files.iter().map(|file| missing_bytes(file, parts)).sum();
        let end = copy.log.end();
        if let Some((log, base)) = self.log_only(before, end, missing + end - copy.log_from)? {
            self.progress
                .begin(end.saturating_sub(log.cursor().position()));
            let time = store_log(log, pace)?;
            return Ok((base, time));
        }
        let covered = self.repository.covered(copy.log_from)?.min(end);
        self.progress.begin(missing + end - covered);
        for (file, open) in files.iter().zip(&copy.files) {
            for number in (0..file.parts()).filter(|n| !parts.contains(&file.part(*n))) {
                let at = number * PART_BYTES as u64;
                let content = open.read(at, PART_BYTES).map_err(|e| engine_error(&e))?;
                pace.put(&file.part(number), &content)?;
            }
        }
        let base = Base {
            manifest: copy.manifest.as_deref().map(encode_base64),
            files,
            log_from: copy.log_from,
        };
        let log = if covered > copy.log_from {
            let later = self.engine.copy_log(LogCursor::at(covered));
            later.map_err(|e| engine_error(&e))?.unwrap_or(copy.log)
        } else {
            copy.log
        };
        Ok((base, store_log(log, pace)?))
    }

    /// The log since the backup before and that backup's base, if this is cheaper than `other` bytes.
    fn log_only(
        &self,
        before: Option<&Backup>,
        end: u64,
        other: u64,
    ) -> Result<Option<(LogCopy, Base)>> {
        let Some(before) = before else {
            return Ok(None);
        };
        let covered = self.repository.covered(before.log_from)?;
        let files: u64 = before.files.iter().map(|file| file.bytes).sum();
        let is_long = end.saturating_sub(before.log_from) > files.max(SMALL_LOG);
        if covered < before.position || is_long || end.saturating_sub(covered) >= other {
            return Ok(None);
        }
        let log = self.engine.copy_log(LogCursor::at(covered.min(end)));
        let base = Base {
            manifest: before.manifest.clone(),
            files: before.files.clone(),
            log_from: before.log_from,
        };
        Ok(log.map_err(|e| engine_error(&e))?.map(|log| (log, base)))
    }
}

fn described(file: &porpoise_kv_mem::CopiedFile) -> BackupFile {
    BackupFile {
        name: file.name.clone(),
        bytes: file.bytes,
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    base64::encode(bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Bytes of a file's parts that are not stored.
fn missing_bytes(file: &BackupFile, parts: &BTreeSet<String>) -> u64 {
    let missing = (0..file.parts()).filter(|n| !parts.contains(&file.part(*n)));
    (missing.count() * PART_BYTES) as u64
}

/// Stores the log in pieces. Returns the time of its last group.
fn store_log(mut log: LogCopy, pace: &mut Pace<'_>) -> Result<Option<u64>> {
    let (mut writer, mut time) = (PieceWriter::default(), None);
    while let Some(group) = log.next_group().map_err(|e| engine_error(&e))? {
        time = Some(group.time);
        writer.push(&to_group(group));
        if writer.is_full()
            && let Some((piece, content)) = writer.take()
        {
            pace.put(&piece.name(), &content)?;
        }
    }
    if let Some((piece, content)) = writer.take() {
        pace.put(&piece.name(), &content)?;
    }
    Ok(time)
}

/// Converts a group of the engine's log.
pub(super) fn to_group(group: porpoise_kv_mem::LogGroup) -> Group {
    Group {
        start: group.start,
        time: group.time,
        records: group.records,
    }
}
