//! The head file: which log segments must exist, how far they must reach, and
//! which checkpoint must be in place.
//!
//! Three slots hold one entry each; the valid entry with the highest generation
//! is in force. Whenever more of the log is durable, a new entry is written to
//! the current slot, in place and without a sync. [`HeadFile::sync`]
//! makes the current slot durable and moves on to the slot that is neither
//! that one nor the last durable one:
//!
//! ```text
//!            slot 0        slot 1        slot 2
//! durable    gen 7
//! write                    gen 8
//! write                    gen 9
//! sync starts              gen 9 ...
//! write                                  gen 10
//! sync ends                gen 9 durable
//! ```
//!
//! So the log thread never waits for a sync of this file within a segment,
//! kill -9 loses no entry (the page cache has it), and a power cut leaves at
//! least the entry last synced.
//!
//! Invariants:
//! 1. An entry records only what is durable: it is written after the sync of the
//!    segment, the directory, or the manifest that it refers to.
//! 2. A segment is recorded and synced before its first group is written.
//! 3. A checkpoint is recorded and synced before a segment or file that it
//!    supersedes is removed.
//! 4. The slot last synced is not written before another slot is synced.
//!
//! Rejected: a sync with every group (doubles the cost of a commit); a new
//! file and a rename with every entry (needs blocks on a full disk, and three
//! syncs).

use super::io_error;
use crate::codec::{Malformed, Reader};
use porpoise_base::disk::{Disk, File};
use porpoise_base::sync::Mutex;
use porpoise_kv::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The version of the head's format that this build writes and reads.
pub(crate) const HEAD_FORMAT_VERSION: u32 = 1;

/// The first log format whose stores have a head file.
pub(crate) const SINCE_LOG_FORMAT: u32 = 3;

/// Interval of syncs of the file. A power cut may lose the entries written since
/// the last one (docs/guide/data-directory.md).
pub(crate) const SYNC_EVERY: Duration = Duration::from_secs(1);

pub(crate) const NAME: &str = "HEAD";
pub(crate) const NEW_NAME: &str = "HEAD.tmp";
const MAGIC: [u8; 8] = *b"PORPHED\0";
const ENTRY: usize = 64;
/// Distance between slots: no two entries share a disk sector.
const SLOT: usize = 4096;
const SLOTS: usize = 3;

/// An entry of the head file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Grows with every entry.
    pub(crate) generation: u64,
    /// Number of the first segment that must exist; 0 before there is one.
    pub(crate) oldest: u64,
    /// Number of the last segment that must exist.
    pub(crate) newest: u64,
    /// Position that the log reaches at least.
    pub(crate) position: u64,
    /// Number of the checkpoint whose manifest, or a later one, is in place.
    pub(crate) checkpoint: u64,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut rest = HEAD_FORMAT_VERSION.to_le_bytes().to_vec();
        for n in [
            self.generation,
            self.oldest,
            self.newest,
            self.position,
            self.checkpoint,
        ] {
            rest.extend_from_slice(&n.to_le_bytes());
        }
        rest.resize(ENTRY - 12, 0);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
        out.extend_from_slice(&rest);
        out
    }

    /// Decodes a slot: the format version, and the entry if this build reads that
    /// version.
    fn decode(slot: &[u8]) -> std::result::Result<(u32, Option<Head>), Malformed> {
        let mut reader = Reader(slot.get(..ENTRY).ok_or(Malformed)?);
        if reader.take(8)? != MAGIC || reader.u32()? != crc32c::crc32c(reader.0) {
            return Err(Malformed);
        }
        let version = reader.u32()?;
        if version != HEAD_FORMAT_VERSION {
            return Ok((version, None));
        }
        let head = Head {
            generation: reader.u64()?,
            oldest: reader.u64()?,
            newest: reader.u64()?,
            position: reader.u64()?,
            checkpoint: reader.u64()?,
        };
        Ok((version, Some(head)))
    }
}

/// The entry in force at a start, with its file.
pub(crate) struct FoundHead {
    pub(crate) head: Head,
    file: Arc<dyn File>,
    /// Slot of the entry in force.
    slot: usize,
    /// Slot to write to next.
    next: usize,
}

/// Reads the head file; `None` when there is none.
///
/// # Errors
/// [`Error::Io`], or [`Error::Corrupt`] for a file without a valid entry or of
/// another format version.
pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundHead>> {
    let path = dir.join(NAME);
    let file: Arc<dyn File> = match disk.open(&path) {
        Ok(file) => Arc::from(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error(&path, &e)),
    };
    let bytes = file.read_all().map_err(|e| io_error(&path, &e))?;
    let mut slots = [None; SLOTS];
    for (found, slot) in slots.iter_mut().zip(bytes.chunks(SLOT)) {
        match Head::decode(slot) {
            Ok((version, None)) => {
                let what =
                    format!("head format {version}; this server reads {HEAD_FORMAT_VERSION}");
                return Err(Error::Corrupt(format!("{}: {what}", path.display())));
            }
            Ok((_, head)) => *found = head,
            Err(Malformed) => {}
        }
    }
    let generation = |slot: &usize| slots.get(*slot).copied().flatten().map(|h| h.generation);
    let slot = (0..SLOTS).max_by_key(generation).unwrap_or(0);
    let next = (0..SLOTS).filter(|n| *n != slot).min_by_key(generation);
    match slots.get(slot).copied().flatten() {
        Some(head) => Ok(Some(FoundHead {
            head,
            file,
            slot,
            next: next.unwrap_or(0),
        })),
        None => Err(Error::Corrupt(format!(
            "{}: no valid entry; restore the store from a backup",
            path.display()
        ))),
    }
}

#[derive(Default)]
struct State {
    head: Head,
    /// `None` until the file is created.
    file: Option<Arc<dyn File>>,
    /// Slot that entries are written to.
    slot: usize,
    /// Slot of the entry last synced.
    synced: usize,
    /// Whether `slot` has an entry that is not synced.
    unsynced: bool,
    /// Whether a sync of the entry in `slot` failed, so that it must be written again.
    must_rewrite: bool,
    /// Whether the last write failed.
    last_write_failed: bool,
}

impl State {
    /// Writes the entry with `change` applied, without a sync. An unchanged entry
    /// is not written. Before the file is created the entry is kept in memory.
    fn update(&mut self, change: impl FnOnce(&mut Head)) -> io::Result<()> {
        let mut head = self.head;
        change(&mut head);
        if head == self.head {
            return Ok(());
        }
        if let Some(file) = &self.file {
            head.generation += 1;
            file.write_at((self.slot * SLOT) as u64, &head.encode())?;
            self.unsynced = true;
        }
        self.head = head;
        Ok(())
    }
}

/// The head file of an open store.
#[derive(Default)]
pub(crate) struct HeadFile {
    state: Mutex<State>,
    /// Serializes syncs.
    syncing: Mutex<()>,
}

impl HeadFile {
    /// Continues with the file found at the start, after syncing it: its entry may
    /// have been read from the page cache.
    pub(crate) fn continue_file(&self, found: FoundHead) -> io::Result<()> {
        found.file.sync_data()?;
        let mut state = self.state.lock();
        state.head = found.head;
        state.file = Some(found.file);
        state.synced = found.slot;
        state.slot = found.next;
        Ok(())
    }

    /// Creates the file if the store has none, with the entry kept in memory. The
    /// names of the files that the entry refers to are synced before its own name:
    /// a power cut may keep any subset of unsynced names.
    pub(crate) fn create(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let mut state = self.state.lock();
        if state.file.is_some() {
            return Ok(());
        }
        let (new, path) = (dir.join(NEW_NAME), dir.join(NAME));
        let failed = |e: io::Error| io_error(&path, &e);
        match disk.remove(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = disk.create(&new).map_err(failed)?;
        let head = Head {
            generation: 1,
            ..state.head
        };
        let mut bytes = head.encode();
        bytes.resize(SLOT * SLOTS, 0);
        let written = file
            .write_at(0, &bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| disk.sync_dir(dir));
        if let Err(error) = written {
            let _ = disk.remove(&new);
            return Err(failed(error));
        }
        disk.rename(&new, &path).map_err(failed)?;
        disk.sync_dir(dir).map_err(failed)?;
        state.head = head;
        state.file = Some(Arc::from(file));
        (state.synced, state.slot) = (0, 1);
        Ok(())
    }

    fn update(&self, change: impl FnOnce(&mut Head)) -> io::Result<()> {
        self.state.lock().update(change)
    }

    /// Makes the entry last written durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let _one = self.syncing.lock();
        let (file, slot) = {
            let mut state = self.state.lock();
            let Some(file) = state.file.clone().filter(|_| state.unsynced) else {
                return Ok(());
            };
            let slot = state.slot;
            if state.must_rewrite {
                file.write_at((slot * SLOT) as u64, &state.head.encode())?;
                state.must_rewrite = false;
            }
            // The remaining slot: the numbers of the three add up to `SLOTS`.
            state.slot = SLOTS - slot - state.synced;
            state.unsynced = false;
            (file, slot)
        };
        let outcome = file.sync_data();
        let mut state = self.state.lock();
        match outcome {
            Ok(()) => state.synced = slot,
            // A newer entry was written to the third slot; it is synced next.
            Err(_) if state.unsynced => {}
            // The entry is written again before the next sync: after a failed one, the
            // kernel may have marked the page clean, and another would sync nothing.
            Err(_) => {
                (state.slot, state.unsynced) = (slot, true);
                state.must_rewrite = true;
            }
        }
        outcome
    }

    /// Syncs, and only logs an error: the entry last synced stays in force.
    pub(crate) fn sync_or_warn(&self) {
        if let Err(error) = self.sync() {
            tracing::error!(%error, "the head file could not be synced: a later truncation of the log may go unnoticed");
        }
    }

    /// Records that the log is durable up to `position`. The entry is not synced,
    /// and an error is only logged: the previous entry stays in force.
    pub(crate) fn record_durable(&self, position: u64) {
        let mut state = self.state.lock();
        let outcome = state.update(|head| head.position = head.position.max(position));
        let before = std::mem::replace(&mut state.last_write_failed, outcome.is_err());
        drop(state);
        if let Err(error) = outcome
            && !before
        {
            tracing::error!(%error, "the head file cannot be written: a later truncation of the log may go unnoticed");
        }
    }

    /// Records and syncs a new segment. Its name and header, and the log before it,
    /// are durable already.
    pub(super) fn begin_segment(&self, number: u64, start: u64) -> io::Result<()> {
        self.update(|head| {
            head.newest = number;
            head.position = head.position.max(start);
            if head.oldest == 0 {
                head.oldest = number;
            }
        })?;
        self.sync()
    }

    /// Records and syncs a checkpoint whose manifest is durable. Segments before
    /// `oldest` are about to be removed.
    pub(super) fn checkpoint(&self, number: u64, oldest: u64) -> io::Result<()> {
        self.update(|head| {
            head.checkpoint = number;
            head.oldest = head.oldest.max(oldest);
        })?;
        self.sync()
    }

    /// Takes over the entry that recovery derived for a store without a head file.
    pub(crate) fn set_initial(&self, head: Head) {
        self.state.lock().head = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::disk::MemDisk;

    const DIR: &str = "/d";

    fn found(disk: &MemDisk) -> Head {
        load(disk, Path::new(DIR)).unwrap().unwrap().head
    }

    #[test]
    fn every_flipped_bit_of_an_entry_is_detected() {
        let head = Head {
            generation: 1,
            oldest: 2,
            newest: 3,
            position: 4,
            checkpoint: 5,
        };
        let bytes = head.encode();
        assert_eq!(bytes.len(), ENTRY);
        assert_eq!(Head::decode(&bytes), Ok((HEAD_FORMAT_VERSION, Some(head))));
        for n in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[n / 8] ^= 1 << (n % 8);
            assert_eq!(Head::decode(&bad), Err(Malformed), "bit {n}");
        }
    }

    #[test]
    fn a_power_cut_leaves_the_entry_last_synced_or_a_later_one() {
        let disk = MemDisk::new();
        let mut file = HeadFile::default();
        file.create(&disk, Path::new(DIR)).unwrap();
        let (mut synced, mut later) = (0, 0);
        let mut rng = fastrand::Rng::with_seed(7);
        for position in 1..400 {
            file.record_durable(position);
            match rng.u8(0..8) {
                0 => {
                    file.sync().unwrap();
                    synced = position;
                }
                1 => {
                    disk.fail_syncs(true);
                    file.sync().unwrap_err();
                    disk.fail_syncs(false);
                }
                2 => {
                    let loaded = load(&disk, Path::new(DIR)).unwrap().unwrap();
                    assert_eq!(
                        loaded.head.position, position,
                        "nothing is lost without a cut"
                    );
                    file = HeadFile::default();
                    file.continue_file(loaded).unwrap();
                    synced = position;
                }
                _ => {}
            }
            for seed in 0..6 {
                let after = found(&disk.after_power_cut(seed)).position;
                assert!(
                    (synced..=position).contains(&after),
                    "{after} at {position}"
                );
                later += u64::from(after > synced);
            }
        }
        assert!(later > 0);
    }

    #[test]
    fn a_file_without_a_valid_entry_and_one_of_another_version_are_refused() {
        let disk = MemDisk::new();
        assert!(load(&disk, Path::new(DIR)).unwrap().is_none());
        let path = Path::new(DIR).join(NAME);
        let file = disk.create(&path).unwrap();
        file.write_at(0, &[0; SLOT]).unwrap();
        let refused = |what: &str| match load(&disk, Path::new(DIR)) {
            Err(Error::Corrupt(message)) => assert!(message.contains(what), "{message}"),
            _ => panic!("accepted"),
        };
        refused("no valid entry");
        let mut bytes = Head::default().encode();
        bytes[12] = 9;
        let sum = crc32c::crc32c(&bytes[12..]).to_le_bytes();
        bytes[8..12].copy_from_slice(&sum);
        file.write_at(0, &bytes).unwrap();
        refused("head format 9; this server reads 1");
    }
}
