//! Reads the readable part of a damaged store ([`salvage`]), and prints the files of a store
//! ([`dump`]).
//!
//! Recovery refuses a damaged store, because it must not lose an acknowledged commit silently. This
//! module continues instead: it skips a group of the log or a block of a checkpoint with a wrong
//! checksum, searches for the next valid one, and reports the bytes between. Nothing is written to
//! the store.
//!
//! ```text
//!  checkpoint:  [block][ bad ][block]         the rows of a bad block are lost, unless the log has them
//!  log:         [group 7][group 8][ bad ][group 10]
//!                                 \ searched in steps of 8 bytes for a group of this segment
//! ```
//!
//! Invariants:
//! 1. Every row that is returned was committed: groups and blocks are used whole, or not at all.
//! 2. Of several versions of a key the newest readable one counts. If a group between them is lost, a row
//!    may be older than the last commit, or may have been deleted: the report names the group.
//! 3. Without a manifest the rows of checkpoints count as older than all of the log, and of each space
//!    only the newest checkpoint is used.

use crate::checkpoint::{
    BLOCK_HEADER, BLOCK_MAGIC, CHECKPOINT_PREFIX, FILE_HEADER, file_header, file_name,
};
use crate::codec::Reader;
use crate::log::format::{
    GROUP_MAGIC, Group, LOG_FORMAT_VERSION, Record, SEGMENT_HEADER, SegmentHeader, get_write,
    put_write,
};
use crate::log::{LogGroup, head, io_error, segment_name, segment_number};
use crate::manifest::Manifest;
use crate::rebuild::StoreBuilder;
use crate::recovery::{check_files, check_log_end};
use porpoise_base::disk::Disk;
use porpoise_kv::{Result, SpaceId, SpaceSpec};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file read at a time if reading the whole file fails.
const PIECE: usize = 1 << 16;
/// Bytes of writes in one record of the store that is built.
const RECORD_TARGET: usize = 1 << 20;

/// Something found in the files of a store.
enum Found<'a> {
    /// A file begins.
    File(&'a str),
    /// A segment's header.
    Segment(SegmentHeader),
    /// A group at an offset.
    Group(usize, &'a Group<'a>),
    /// A record of the last visited group.
    Record(&'a Record<'a>),
    /// A block of a checkpoint at an offset.
    Block(usize, &'a Block<'a>),
    /// Bytes that cannot be read, or something that is missing.
    Damage(String),
}

/// A block of a checkpoint.
struct Block<'a> {
    checkpoint: u64,
    space: SpaceId,
    rows: u64,
    body: &'a [u8],
}

impl<'a> Block<'a> {
    /// The whole block at the beginning of `bytes`, with its length.
    fn decode(bytes: &'a [u8]) -> Option<(Block<'a>, usize)> {
        let mut reader = Reader(bytes);
        let mut head = Reader(reader.take(BLOCK_HEADER).ok()?);
        let (magic, sum) = (head.u32().ok()?, head.u32().ok()?);
        let checked = head.0;
        if magic != BLOCK_MAGIC {
            return None;
        }
        let checkpoint = head.u64().ok()?;
        let space = SpaceId(head.u64().ok()?);
        let rows = head.u64().ok()?;
        let len = usize::try_from(head.u64().ok()?).ok()?;
        let body = reader.take(len).ok()?;
        if crc32c::crc32c_append(crc32c::crc32c(checked), body) != sum {
            return None;
        }
        let block = Block {
            checkpoint,
            space,
            rows,
            body,
        };
        Some((block, BLOCK_HEADER + len))
    }
}

type Visit<'v> = dyn FnMut(Found<'_>) + 'v;

/// Reads a file. Parts that cannot be read are replaced by zeros and reported as damage.
fn read_file(disk: &dyn Disk, path: &Path, visit: &mut Visit<'_>) -> Vec<u8> {
    let damaged = |what: String| Found::Damage(format!("{}: {what}", path.display()));
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) => {
            visit(damaged(format!("cannot be opened: {error}")));
            return Vec::new();
        }
    };
    if let Ok(bytes) = file.read_all() {
        return bytes;
    }
    let len = file.len().ok().and_then(|len| usize::try_from(len).ok());
    let mut bytes = vec![0; len.unwrap_or(0)];
    for (n, piece) in bytes.chunks_mut(PIECE).enumerate() {
        let at = n * PIECE;
        if let Err(error) = file.read_at(at as u64, piece) {
            piece.fill(0);
            visit(damaged(format!("cannot be read at offset {at}: {error}")));
        }
    }
    bytes
}

/// Visits the blocks of a checkpoint's file. Returns the number of readable rows.
fn walk_checkpoint(
    disk: &dyn Disk,
    dir: &Path,
    (checkpoint, number): (u64, u64),
    visit: &mut Visit<'_>,
) -> u64 {
    let name = file_name(checkpoint, number);
    visit(Found::File(&name));
    let bytes = read_file(disk, &dir.join(&name), visit);
    if bytes.get(..FILE_HEADER) != Some(&file_header(checkpoint, number)) {
        visit(Found::Damage(format!("{name}: the header is invalid")));
    }
    let (mut at, mut bad, mut rows) = (FILE_HEADER, None, 0);
    let report = |bad: &mut Option<usize>, end: usize, visit: &mut Visit<'_>| {
        if let Some(start) = bad.take() {
            let text = format!("{name}: bytes {start} to {end} are not a readable block");
            visit(Found::Damage(text));
        }
    };
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        match Block::decode(rest).filter(|(block, _)| block.checkpoint == checkpoint) {
            Some((block, len)) => {
                report(&mut bad, at, visit);
                rows += block.rows;
                visit(Found::Block(at, &block));
                at += len;
            }
            None => {
                bad.get_or_insert(at);
                let magic = BLOCK_MAGIC.to_le_bytes();
                let next = rest.get(1..).unwrap_or_default();
                let found = next.windows(4).position(|window| window == magic);
                at = found.map_or(bytes.len(), |n| at + 1 + n);
            }
        }
    }
    report(&mut bad, bytes.len(), visit);
    rows
}

/// The header of a segment, or one derived from its first group if the header is damaged.
fn segment_header(name: &str, bytes: &[u8], visit: &mut Visit<'_>) -> Option<SegmentHeader> {
    let error = match SegmentHeader::decode(bytes) {
        Ok(header) => return Some(header),
        Err(error) => error,
    };
    visit(Found::Damage(format!("{name}: {error}")));
    let magic = GROUP_MAGIC.to_le_bytes();
    let mut offsets = (0..bytes.len()).step_by(8);
    let at = offsets.find(|at| bytes.get(*at..*at + 4) == Some(&magic))?;
    let salt = bytes.get(at + 8..at + 16)?.first_chunk::<8>()?;
    Some(SegmentHeader {
        version: LOG_FORMAT_VERSION,
        number: segment_number(name)?,
        salt: u64::from_le_bytes(*salt),
        start: 0,
        first_group: 0,
    })
}

/// End of the part of the log that was visited.
#[derive(Clone, Copy, Default)]
struct LogEnd {
    /// Number of the last group.
    group: u64,
    /// Position after the last record.
    position: u64,
}

/// Visits the groups of a segment, with their records. Returns the end of the log after this segment.
fn walk_segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    mut end: LogEnd,
    is_last: bool,
    visit: &mut Visit<'_>,
) -> LogEnd {
    let name = segment_name(number);
    visit(Found::File(&name));
    let bytes = read_file(disk, &dir.join(&name), visit);
    let Some(header) = segment_header(&name, &bytes, visit) else {
        return end;
    };
    visit(Found::Segment(header));
    let (mut at, mut bad) = (SEGMENT_HEADER, None);
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some((group, len)) = Group::decode(rest, &header) else {
            bad.get_or_insert(at);
            at += 8;
            continue;
        };
        if let Some(start) = bad.take() {
            let text = format!("{name}: bytes {start} to {at} are not a readable group of the log");
            visit(Found::Damage(text));
        }
        if end.group > 0 && group.number > end.group + 1 {
            let (from, to) = (end.group + 1, group.number - 1);
            let text = format!("{name}: groups {from} to {to} of the log are missing");
            visit(Found::Damage(text));
        }
        end.group = end.group.max(group.number);
        end.position = end.position.max(group.start + group.body.len() as u64);
        visit(Found::Group(at, &group));
        let mut records = Reader(group.body);
        while !records.is_empty() {
            match Record::decode(&mut records) {
                Ok(record) => visit(Found::Record(&record)),
                Err(_) => {
                    let text = format!("{name}: group {} has an invalid record", group.number);
                    visit(Found::Damage(text));
                    break;
                }
            }
        }
        at += len;
    }
    let tail = bad.and_then(|start| Some((start, bytes.get(start..)?)));
    if let Some((start, _)) = tail.filter(|(_, tail)| tail.iter().any(|byte| *byte != 0)) {
        let why = if is_last {
            " (damage, or a write that was torn when the server ended)"
        } else {
            ""
        };
        let text =
            format!("{name}: bytes from {start} on are not a readable group of the log{why}");
        visit(Found::Damage(text));
    }
    end
}

/// Visits all files of a store: checkpoints first, then the log. Returns the manifest, if it is
/// readable.
fn walk(disk: &dyn Disk, dir: &Path, visit: &mut Visit<'_>) -> Result<Option<Manifest>> {
    let names = disk.list(dir).map_err(|e| io_error(dir, &e))?;
    let manifest = match Manifest::load(disk, dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            visit(Found::Damage(error.to_string()));
            None
        }
    };
    let head = match head::load(disk, dir) {
        Ok(head) => head,
        Err(error) => {
            visit(Found::Damage(error.to_string()));
            None
        }
    };
    let is_complete = check_files(disk, dir, &names, manifest.as_ref(), head.as_ref());
    if let Err(error) = is_complete {
        visit(Found::Damage(error.to_string()));
    }
    match &manifest {
        Some(manifest) => {
            for (unit, file) in manifest.files() {
                let rows = walk_checkpoint(disk, dir, (unit.checkpoint, file.number), visit);
                if rows < file.rows {
                    let name = file_name(unit.checkpoint, file.number);
                    let lost = file.rows - rows;
                    let text = format!("{name}: {lost} of {} rows are lost", file.rows);
                    visit(Found::Damage(text));
                }
            }
        }
        None => {
            let numbers = names.iter().filter_map(|name| checkpoint_number(name));
            for number in numbers.collect::<BTreeSet<_>>() {
                walk_checkpoint(disk, dir, number, visit);
            }
        }
    }
    let segments = names.iter().filter_map(|name| segment_number(name));
    let segments: BTreeSet<u64> = segments.collect();
    let (mut before, mut end) = (None, LogEnd::default());
    for number in &segments {
        if let Some(missing) = before.filter(|before| before + 1 < *number) {
            let (from, to) = (segment_name(missing + 1), segment_name(number - 1));
            visit(Found::Damage(format!(
                "segments {from} to {to} are missing"
            )));
        }
        let is_last = segments.last() == Some(number);
        end = walk_segment(disk, dir, *number, end, is_last, visit);
        before = Some(*number);
    }
    let last = before.unwrap_or(1);
    if let Err(error) = check_log_end(dir, head.as_ref(), last, end.position) {
        visit(Found::Damage(error.to_string()));
    }
    Ok(manifest)
}

/// The numbers of a checkpoint's file in its name.
fn checkpoint_number(name: &str) -> Option<(u64, u64)> {
    let rest = name.strip_prefix(CHECKPOINT_PREFIX)?.strip_suffix(".dat")?;
    let (checkpoint, number) = rest.split_once('-')?;
    Some((checkpoint.parse().ok()?, number.parse().ok()?))
}

/// Version of a row: its timestamp, and the value unless it is deleted.
type Version = (u64, Option<Vec<u8>>);

/// The readable part of a store.
#[derive(Default)]
pub struct Salvaged {
    /// Lines about what was lost or may be lost.
    pub damage: Vec<String>,
    spaces: BTreeMap<SpaceId, SpaceSpec>,
    dropped: BTreeSet<SpaceId>,
    rows: BTreeMap<SpaceId, BTreeMap<Vec<u8>, Version>>,
    /// Timestamp or number of the checkpoint whose rows a space has.
    checkpoints: HashMap<SpaceId, u64>,
    counters: BTreeMap<u64, u64>,
    chunks: HashMap<u64, Vec<Vec<u8>>>,
    last_ts: u64,
}

/// Reads the readable part of the store in a directory.
///
/// # Errors
/// The directory cannot be listed.
pub fn salvage(disk: &dyn Disk, dir: &Path) -> Result<Salvaged> {
    let mut found = Salvaged::default();
    let timestamps: HashMap<u64, u64> = match Manifest::load(disk, dir) {
        Ok(Some(manifest)) => {
            found.spaces.extend(manifest.spaces.iter().cloned());
            found.counters.extend(manifest.counters.iter().copied());
            found.last_ts = manifest.ts;
            let units = manifest.units.iter();
            units.map(|unit| (unit.checkpoint, unit.ts)).collect()
        }
        _ => HashMap::new(),
    };
    walk(disk, dir, &mut |what| found.add(what, &timestamps))?;
    let open = found.chunks.len();
    // In an undamaged log such transactions were running at a crash, and did not commit.
    if open > 0 && !found.damage.is_empty() {
        let text = format!(
            "{open} large transactions have no readable commit: it is lost, or they did not commit"
        );
        found.damage.push(text);
    }
    for space in &found.dropped {
        found.rows.remove(space);
        found.spaces.remove(space);
    }
    let prepared = found.rows.remove(&SpaceId::PREPARED).unwrap_or_default();
    if prepared.values().any(|(_, value)| value.is_some()) {
        let text = "prepared transactions (XA PREPARE) are not copied".to_owned();
        found.damage.push(text);
    }
    Ok(found)
}

impl Salvaged {
    fn add(&mut self, found: Found<'_>, timestamps: &HashMap<u64, u64>) {
        match found {
            Found::Damage(text) => self.damage.push(text),
            Found::Block(at, block) => self.add_block(at, block, timestamps),
            Found::Record(record) => self.add_record(record),
            Found::File(_) | Found::Segment(_) | Found::Group(..) => {}
        }
    }

    fn add_block(&mut self, at: usize, block: &Block<'_>, timestamps: &HashMap<u64, u64>) {
        let ts = timestamps.get(&block.checkpoint).copied();
        if ts.is_none() {
            let newest = self.checkpoints.entry(block.space).or_default();
            if *newest < block.checkpoint {
                *newest = block.checkpoint;
                self.rows.remove(&block.space);
            }
        }
        let rows = self.rows.entry(block.space).or_default();
        let mut body = Reader(block.body);
        for _ in 0..block.rows {
            let (Ok(key), Ok(value)) = (body.bytes(), body.bytes()) else {
                let text = format!(
                    "checkpoint {}: the block at {at} is short",
                    block.checkpoint
                );
                self.damage.push(text);
                return;
            };
            rows.insert(key.to_vec(), (ts.unwrap_or(0), Some(value.to_vec())));
        }
    }

    fn add_record(&mut self, record: &Record<'_>) {
        match record {
            Record::Commit { ts, writes } => self.add_writes(*ts, writes),
            Record::Chunk { tag, writes } => {
                self.chunks.entry(*tag).or_default().push(writes.to_vec());
            }
            Record::ChunkedCommit {
                ts,
                tag,
                chunks,
                writes,
            } => {
                let found = self.chunks.remove(tag).unwrap_or_default();
                if found.len() as u64 != *chunks {
                    let text = format!(
                        "commit {ts}: {} of {chunks} parts of a large transaction are readable",
                        found.len()
                    );
                    self.damage.push(text);
                }
                for part in found {
                    self.add_writes(*ts, &part);
                }
                self.add_writes(*ts, writes);
            }
            Record::CreateSpace { id, spec } => {
                self.spaces.insert(*id, spec.clone());
            }
            Record::DropSpace { id } => {
                self.dropped.insert(*id);
            }
            Record::Counter { id, limit } => {
                let known = self.counters.entry(*id).or_default();
                *known = (*known).max(*limit);
            }
            Record::TimestampLimit { .. } => {}
        }
    }

    fn add_writes(&mut self, ts: u64, writes: &[u8]) {
        self.last_ts = self.last_ts.max(ts);
        let mut reader = Reader(writes);
        while !reader.is_empty() {
            let Ok(write) = get_write(&mut reader) else {
                self.damage.push(format!("commit {ts}: malformed writes"));
                return;
            };
            if write.space == SpaceId::ANNOTATIONS {
                continue;
            }
            let rows = self.rows.entry(write.space).or_default();
            let older = rows.get(write.key).is_none_or(|(known, _)| *known <= ts);
            if older {
                let value = write.value.map(<[u8]>::to_vec);
                rows.insert(write.key.to_vec(), (ts, value));
            }
        }
    }

    /// Number of keys that have a value.
    pub fn rows(&self) -> u64 {
        let all = self.rows.values().flat_map(BTreeMap::values);
        all.filter(|(_, value)| value.is_some()).count() as u64
    }

    /// Writes a new store with the readable rows, as a sequence of commits, into an empty
    /// directory.
    ///
    /// # Errors
    /// [`porpoise_kv::Error::Io`] and [`porpoise_kv::Error::Full`].
    pub fn write_store(&self, disk: Arc<dyn Disk>, dir: &Path) -> Result<()> {
        let mut builder = StoreBuilder::new(disk, dir, None)?;
        let mut position = 0;
        let mut put = |records: Vec<u8>| -> Result<()> {
            let start = position;
            position += records.len() as u64;
            builder.put_group(&LogGroup {
                start,
                time: 0,
                records,
            })
        };
        let mut head = Vec::new();
        let named = self.rows.keys().filter(|id| !self.spaces.contains_key(id));
        let unnamed = named.map(|id| (*id, SpaceSpec::default()));
        let known = self.spaces.iter().map(|(id, spec)| (*id, spec.clone()));
        for (id, spec) in known.chain(unnamed) {
            if id >= SpaceId::FIRST_FREE {
                Record::CreateSpace { id, spec }.encode(&mut head);
            }
        }
        for (id, limit) in &self.counters {
            let (id, limit) = (*id, *limit);
            Record::Counter { id, limit }.encode(&mut head);
        }
        put(head)?;
        let (mut writes, mut ts) = (Vec::new(), 0);
        let mut commit = |writes: &mut Vec<u8>| -> Result<()> {
            ts += 1;
            let mut record = Vec::new();
            Record::Commit { ts, writes }.encode(&mut record);
            writes.clear();
            put(record)
        };
        for (space, rows) in &self.rows {
            for (key, (_, value)) in rows {
                if let Some(value) = value {
                    put_write(&mut writes, *space, key, Some(value));
                }
                if writes.len() >= RECORD_TARGET {
                    commit(&mut writes)?;
                }
            }
        }
        commit(&mut writes)?;
        let mut end = Vec::new();
        let limit = self.last_ts.max(ts) + 1;
        Record::TimestampLimit { limit }.encode(&mut end);
        put(end)?;
        builder.finish()?;
        Ok(())
    }
}

/// Prints the files of a store, a line for each group, record and block. Returns whether something is
/// damaged.
///
/// # Errors
/// The directory cannot be listed.
pub fn dump(disk: &dyn Disk, dir: &Path, print: &mut dyn FnMut(&str)) -> Result<bool> {
    let mut damaged = false;
    let manifest = walk(disk, dir, &mut |found| {
        damaged |= matches!(found, Found::Damage(_));
        print(&line(&found));
    })?;
    if let Some(m) = manifest {
        let (files, rows) = (m.files().count(), m.rows());
        print(&format!(
            "MANIFEST: checkpoint {}, snapshot {}, log from position {}, {} spaces, {files} files, {rows} rows",
            m.checkpoint,
            m.ts,
            m.position,
            m.spaces.len()
        ));
    }
    Ok(damaged)
}

fn line(found: &Found<'_>) -> String {
    match found {
        Found::File(name) => format!("{name}:"),
        Found::Segment(h) => format!(
            "  segment {}, format {}, records from position {}, first group {}",
            h.number, h.version, h.start, h.first_group
        ),
        Found::Group(at, g) => format!(
            "  at {at}: group {}, {} bytes of records from position {}, durable group {}, time {}",
            g.number,
            g.body.len(),
            g.start,
            g.durable,
            g.time
        ),
        Found::Block(at, b) => format!(
            "  at {at}: block of space {}, {} rows, {} bytes",
            b.space.0,
            b.rows,
            b.body.len()
        ),
        Found::Record(record) => record_line(record),
        Found::Damage(text) => format!("  DAMAGE {text}"),
    }
}

fn record_line(record: &Record<'_>) -> String {
    match record {
        Record::Commit { ts, writes } => format!("    commit {ts}{}", writes_text(writes)),
        Record::Chunk { tag, writes } => format!("    chunk of {tag}{}", writes_text(writes)),
        Record::ChunkedCommit {
            ts,
            tag,
            chunks,
            writes,
        } => {
            let writes = writes_text(writes);
            format!("    commit {ts} of {chunks} chunks of {tag}{writes}")
        }
        Record::CreateSpace { id, spec } => format!(
            "    space {} created: group {}, partition {}",
            id.0, spec.group, spec.partition
        ),
        Record::DropSpace { id } => format!("    space {} dropped", id.0),
        Record::Counter { id, limit } => format!("    counter {id} below {limit}"),
        Record::TimestampLimit { limit } => format!("    timestamps below {limit}"),
    }
}

/// The writes of a record: space, key in hexadecimal, length of the value or `deleted`.
fn writes_text(writes: &[u8]) -> String {
    let mut text = String::new();
    let mut reader = Reader(writes);
    while !reader.is_empty() {
        let Ok(write) = get_write(&mut reader) else {
            text.push_str(" malformed");
            break;
        };
        let key: String = write.key.iter().map(|b| format!("{b:02x}")).collect();
        let value = match write.value {
            Some(value) => format!("{} bytes", value.len()),
            None => "deleted".to_owned(),
        };
        text.push_str(&format!("\n      {} {key}: {value}", write.space.0));
    }
    text
}
