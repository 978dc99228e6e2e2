//! Records in a temporary file.
//!
//! ```text
//! block    format (4) | length (4) | CRC-32C (4) | record ...
//! record   length of key (4) | length of value (4) | key | value
//! ```
//!
//! Invariants:
//! 1. A block contains whole records; it is written once it has reached its size.
//! 2. Every block is an interrupt checkpoint ([`porpoise_base::interrupt`]), and reading or writing
//!    it is announced as a wait ([`porpoise_base::blocking`]).

use crate::error::SqlError;
use porpoise_base::blocking::blocking;
use porpoise_base::interrupt::check;
use porpoise_base::temp_files::{TempDir, TempFile};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Version of the format of temporary files.
const TEMP_FORMAT_VERSION: u32 = 1;

/// The first bytes of a block: a magic number and the version.
const FORMAT: u32 = 0x5054_0000 | TEMP_FORMAT_VERSION;

/// Size of a block's header.
const BLOCK_HEADER: usize = 12;

/// Size of the blocks of records that are read sequentially.
pub(in crate::exec) const BLOCK: usize = 32 << 10;

/// The MySQL error of an operation on a temporary file.
fn failed(file: &TempFile, code: u16, what: &str, error: &io::Error) -> SqlError {
    let dir = file.dir().path().display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            let text = format!("Disk full: a temporary file in '{dir}' cannot grow ({error})");
            SqlError::new(1021, "HY000", text)
        }
        _ => {
            let number = error.raw_os_error().unwrap_or(0);
            let text =
                format!("Error {what} a temporary file in '{dir}' (OS errno {number} - {error})");
            SqlError::new(code, "HY000", text)
        }
    }
}

fn too_long() -> SqlError {
    SqlError::internal("a row is too long for a temporary file")
}

/// Position of a record; positions order as the records in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exec) struct Position {
    block: u64,
    at: u32,
}

impl Position {
    /// Whether both records are in the same block.
    pub(in crate::exec) fn is_same_block(self, other: Position) -> bool {
        self.block == other.block
    }

    /// Serializes the position, for [`Position::from_bytes`].
    pub(in crate::exec) fn to_bytes(self) -> [u8; 12] {
        let both = u128::from(self.block) << 32 | u128::from(self.at);
        let mut bytes = [0; 12];
        bytes.copy_from_slice(both.to_le_bytes().first_chunk::<12>().unwrap_or(&[0; 12]));
        bytes
    }

    /// Deserializes a position.
    pub(in crate::exec) fn from_bytes(bytes: &[u8]) -> Option<Position> {
        let (block, at) = (bytes.get(4..)?, bytes.first_chunk::<4>()?);
        Some(Position {
            block: u64::from_le_bytes(*block.first_chunk::<8>()?),
            at: u32::from_le_bytes(*at),
        })
    }
}

/// Creates an empty file.
pub(super) fn create_file(dir: &Arc<TempDir>) -> Result<TempFile, SqlError> {
    blocking(|| dir.create()).map_err(|error| {
        let text = format!(
            "Can't create a temporary file in '{}' (OS errno {} - {error})",
            dir.path().display(),
            error.raw_os_error().unwrap_or(0)
        );
        SqlError::new(1004, "HY000", text)
    })
}

/// A block without records: space for its header.
pub(super) fn new_block() -> Vec<u8> {
    vec![0; BLOCK_HEADER]
}

/// Adds a record to a block.
pub(super) fn push_record(block: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<(), SqlError> {
    for part in [key, value] {
        let length = u32::try_from(part.len()).map_err(|_| too_long())?;
        block.extend_from_slice(&length.to_le_bytes());
    }
    block.extend_from_slice(key);
    block.extend_from_slice(value);
    Ok(())
}

/// Appends a block to a file, if it has records, and empties it. Blocks have about `size` bytes.
pub(super) fn write_block(
    file: &mut TempFile,
    block: &mut Vec<u8>,
    size: usize,
) -> Result<(), SqlError> {
    check()?;
    let Some((head, records)) = block.split_first_chunk_mut::<BLOCK_HEADER>() else {
        return Ok(());
    };
    if records.is_empty() {
        return Ok(());
    }
    let length = u32::try_from(records.len()).map_err(|_| too_long())?;
    let sum = crc32c::crc32c(records);
    for (to, from) in head.chunks_exact_mut(4).zip([FORMAT, length, sum]) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    let written = blocking(|| file.append(block));
    written.map_err(|e| failed(file, 1026, "writing", &e))?;
    block.truncate(BLOCK_HEADER);
    block.shrink_to(size * 2);
    Ok(())
}

/// Appends records to a temporary file.
#[derive(Debug)]
pub(in crate::exec) struct RecordWriter {
    file: TempFile,
    /// The block being filled, with space for its header.
    block: Vec<u8>,
    /// Size at which a block is written.
    size: usize,
    /// Bytes of the largest block.
    largest: usize,
}

impl RecordWriter {
    /// Creates a file with blocks of about `size` bytes.
    pub(in crate::exec) fn create(
        dir: &Arc<TempDir>,
        size: usize,
    ) -> Result<RecordWriter, SqlError> {
        Ok(RecordWriter {
            file: create_file(dir)?,
            block: new_block(),
            size,
            largest: 0,
        })
    }

    /// Adds a record.
    pub(in crate::exec) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Position, SqlError> {
        let at = u32::try_from(self.block.len() - BLOCK_HEADER).map_err(|_| too_long())?;
        let block = self.file.length();
        push_record(&mut self.block, key, value)?;
        if self.block.len() >= self.size {
            self.flush()?;
        }
        Ok(Position { block, at })
    }

    /// Writes the current block, if it has records.
    fn flush(&mut self) -> Result<(), SqlError> {
        self.largest = self.largest.max(self.block.len());
        write_block(&mut self.file, &mut self.block, self.size)
    }

    /// Ends a run of records. Returns the offset of its end.
    pub(in crate::exec) fn end_run(&mut self) -> Result<u64, SqlError> {
        self.flush()?;
        Ok(self.file.length())
    }

    /// Number of bytes written.
    pub(in crate::exec) fn length(&self) -> u64 {
        self.file.length()
    }

    /// Bytes of the largest block.
    pub(in crate::exec) fn largest(&self) -> usize {
        self.largest
    }

    /// The written file.
    pub(in crate::exec) fn finish(mut self) -> Result<RecordFile, SqlError> {
        self.flush()?;
        Ok(RecordFile::new(self.file, self.size))
    }
}

/// A finished file of records.
#[derive(Clone, Debug)]
pub(in crate::exec) struct RecordFile {
    file: Rc<TempFile>,
    /// Bytes that most blocks do not exceed; these are read in one call.
    read_size: usize,
}

impl RecordFile {
    /// A file whose blocks have about `size` bytes.
    pub(super) fn new(file: TempFile, size: usize) -> RecordFile {
        RecordFile {
            file: Rc::new(file),
            read_size: BLOCK_HEADER + size + size / 8,
        }
    }

    /// Size in bytes.
    pub(in crate::exec) fn length(&self) -> u64 {
        self.file.length()
    }

    /// Creates a reader of all records.
    pub(in crate::exec) fn reader(&self) -> RecordReader {
        self.run(0..self.length())
    }

    /// Creates a reader of the records of a run.
    pub(in crate::exec) fn run(&self, run: Range<u64>) -> RecordReader {
        self.runs(run, Vec::new())
    }

    /// Creates a reader of the records of several runs, one after the other.
    pub(super) fn runs(&self, first: Range<u64>, more: Vec<Range<u64>>) -> RecordReader {
        RecordReader {
            file: self.file.clone(),
            read_size: self.read_size,
            rest: first,
            more: more.into_iter(),
            block: Vec::new(),
            start: u64::MAX,
            at: BLOCK_HEADER,
            key: 0..0,
            value: 0..0,
        }
    }
}

/// Reads records, one at a time.
#[derive(Debug)]
pub(in crate::exec) struct RecordReader {
    file: Rc<TempFile>,
    /// See [`RecordFile`].
    read_size: usize,
    /// Range of the blocks not yet read.
    rest: Range<u64>,
    /// The runs after it.
    more: std::vec::IntoIter<Range<u64>>,
    /// The current block with its header; empty before the first one.
    block: Vec<u8>,
    /// Offset of the current block.
    start: u64,
    /// End of the current record in the block.
    at: usize,
    key: Range<usize>,
    value: Range<usize>,
}

impl RecordReader {
    /// The current record's key.
    pub(in crate::exec) fn key(&self) -> &[u8] {
        self.block.get(self.key.clone()).unwrap_or_default()
    }

    /// The current record's value.
    pub(in crate::exec) fn value(&self) -> &[u8] {
        self.block.get(self.value.clone()).unwrap_or_default()
    }

    /// Advances to the next record. Returns false at the end.
    pub(in crate::exec) fn advance(&mut self) -> Result<bool, SqlError> {
        if self.at >= self.block.len() {
            if self.rest.is_empty() {
                match self.more.next() {
                    Some(run) => self.rest = run,
                    None => return Ok(false),
                }
            }
            self.rest.start = self.read_block(self.rest.start)?;
        }
        self.read_record()?;
        Ok(true)
    }

    /// Moves to a record. Only for a reader of all records.
    pub(in crate::exec) fn seek(&mut self, position: Position) -> Result<(), SqlError> {
        if self.start != position.block {
            self.rest.start = self.read_block(position.block)?;
        }
        self.at = BLOCK_HEADER + position.at as usize;
        self.read_record()
    }

    fn read_record(&mut self) -> Result<(), SqlError> {
        let lengths = self.block.get(self.at..).and_then(<[u8]>::first_chunk::<8>);
        let lengths = u64::from_le_bytes(*lengths.ok_or_else(|| self.damaged("record"))?);
        let key = self.at + 8;
        let value = key + (lengths as u32) as usize;
        let end = value + (lengths >> 32) as usize;
        if end > self.block.len() {
            return Err(self.damaged("record"));
        }
        (self.key, self.value, self.at) = (key..value, value..end, end);
        Ok(())
    }

    /// Reads the block at an offset. Returns the offset of the next one.
    fn read_block(&mut self, offset: u64) -> Result<u64, SqlError> {
        check()?;
        self.start = u64::MAX;
        let (file, block, read_size) = (&self.file, &mut self.block, self.read_size);
        let head = blocking(|| read_block(file, offset, read_size, block))
            .map_err(|e| failed(file, 1024, "reading", &e))?;
        let [format, _, sum] = fields(head);
        if format != FORMAT {
            return Err(self.damaged("format"));
        }
        if sum != crc32c::crc32c(self.block.get(BLOCK_HEADER..).unwrap_or_default()) {
            return Err(self.damaged("checksum"));
        }
        (self.start, self.at) = (offset, BLOCK_HEADER);
        Ok(offset + self.block.len() as u64)
    }

    fn damaged(&self, what: &str) -> SqlError {
        let text = format!("wrong {what} in a block before offset {}", self.rest.start);
        let error = io::Error::new(ErrorKind::InvalidData, text);
        failed(&self.file, 1024, "reading", &error)
    }
}

/// Reads a block with its header, in one call unless it is larger than most. Returns the header.
fn read_block(
    file: &TempFile,
    offset: u64,
    read_size: usize,
    block: &mut Vec<u8>,
) -> io::Result<[u8; BLOCK_HEADER]> {
    let end_of_file = || io::Error::from(ErrorKind::UnexpectedEof);
    let left = file.length().checked_sub(offset).ok_or_else(end_of_file)?;
    let read = usize::try_from(left).map_or(read_size, |left| left.min(read_size));
    block.resize(read, 0);
    file.read_at(offset, block)?;
    let head = *block.first_chunk().ok_or_else(end_of_file)?;
    let [_, length, _] = fields(head);
    let whole = BLOCK_HEADER + length as usize;
    // Checked before memory is allocated for the block.
    if whole as u64 > left {
        return Err(end_of_file());
    }
    block.resize(whole, 0);
    if let Some(rest) = block.get_mut(read..) {
        file.read_at(offset + read as u64, rest)?;
    }
    Ok(head)
}

/// The fields of a block header.
fn fields(head: [u8; BLOCK_HEADER]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = head;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes)
}
