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

/// Position of a record.
#[derive(Clone, Copy, Debug)]
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
        let file = blocking(|| dir.create()).map_err(|error| {
            let text = format!(
                "Can't create a temporary file in '{}' (OS errno {} - {error})",
                dir.path().display(),
                error.raw_os_error().unwrap_or(0)
            );
            SqlError::new(1004, "HY000", text)
        })?;
        Ok(RecordWriter {
            file,
            block: vec![0; BLOCK_HEADER],
            size,
            largest: 0,
        })
    }

    /// Adds a record.
    pub(in crate::exec) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Position, SqlError> {
        let at = u32::try_from(self.block.len() - BLOCK_HEADER).map_err(|_| too_long())?;
        let block = self.file.length();
        for part in [key, value] {
            let length = u32::try_from(part.len()).map_err(|_| too_long())?;
            self.block.extend_from_slice(&length.to_le_bytes());
        }
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        if self.block.len() >= self.size {
            self.flush()?;
        }
        Ok(Position { block, at })
    }

    /// Writes the current block, if it has records.
    fn flush(&mut self) -> Result<(), SqlError> {
        check()?;
        let Some((head, records)) = self.block.split_first_chunk_mut::<BLOCK_HEADER>() else {
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
        self.largest = self.largest.max(self.block.len());
        let (file, block) = (&mut self.file, &self.block);
        let written = blocking(|| file.append(block));
        written.map_err(|e| failed(&self.file, 1026, "writing", &e))?;
        self.block.truncate(BLOCK_HEADER);
        self.block.shrink_to(self.size * 2);
        Ok(())
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
        Ok(RecordFile {
            file: Rc::new(self.file),
        })
    }
}

/// A finished file of records.
#[derive(Clone, Debug)]
pub(in crate::exec) struct RecordFile {
    file: Rc<TempFile>,
}

impl RecordFile {
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
        RecordReader {
            file: self.file.clone(),
            rest: run,
            block: Vec::new(),
            start: u64::MAX,
            at: 0,
            key: 0..0,
            value: 0..0,
        }
    }
}

/// Reads records, one at a time.
#[derive(Debug)]
pub(in crate::exec) struct RecordReader {
    file: Rc<TempFile>,
    /// Range of the blocks not yet read.
    rest: Range<u64>,
    /// Records of the current block.
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
        if self.at == self.block.len() {
            if self.rest.is_empty() {
                return Ok(false);
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
        self.at = position.at as usize;
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
        let mut head = [0; BLOCK_HEADER];
        let (file, block) = (&self.file, &mut self.block);
        let length = blocking(|| {
            file.read_at(offset, &mut head)?;
            let [_, length, _] = fields(head);
            // Checked before memory is allocated for the block.
            if offset + u64::from(length) > file.length() {
                return Err(io::Error::from(ErrorKind::UnexpectedEof));
            }
            block.clear();
            block.resize(length as usize, 0);
            file.read_at(offset + BLOCK_HEADER as u64, block)?;
            Ok(length)
        })
        .map_err(|e| failed(file, 1024, "reading", &e))?;
        let [format, _, sum] = fields(head);
        if format != FORMAT {
            return Err(self.damaged("format"));
        }
        if sum != crc32c::crc32c(&self.block) {
            return Err(self.damaged("checksum"));
        }
        (self.start, self.at) = (offset, 0);
        Ok(offset + BLOCK_HEADER as u64 + u64::from(length))
    }

    fn damaged(&self, what: &str) -> SqlError {
        let text = format!("wrong {what} in a block before offset {}", self.rest.start);
        let error = io::Error::new(ErrorKind::InvalidData, text);
        failed(&self.file, 1024, "reading", &error)
    }
}

/// The fields of a block header.
fn fields(head: [u8; BLOCK_HEADER]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = head;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes)
}
