//! Rows in the order in which they were added, to be read once: those of an open cursor.
//!
//! Rows are serialized one after the other. The first ones stay in memory, charged to the session;
//! those beyond [`MAX_IN_MEMORY`], or beyond a limit of memory, go to a temporary file.
//!
//! Invariant: all rows in memory were added before all rows in the file.

use super::rowstore::{read, write};
use super::spill::records::{BLOCK, RecordReader, RecordWriter};
use crate::error::Result;
use crate::memory::SessionMemory;
use porpoise_base::memory::MemoryCharge;
use porpoise_base::temp_files::TempDir;
use porpoise_types::ValueRef;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of bytes of a queue in memory.
const MAX_IN_MEMORY: usize = 4 << 20;

/// Capacity of the first chunk.
const FIRST_CHUNK: usize = 1 << 10;

/// Maximum capacity of a chunk of more than one row.
const LARGEST_CHUNK: usize = 64 << 10;

/// The part of a queue that is in a temporary file.
#[derive(Debug)]
enum Overflow {
    /// There is none.
    None,
    /// Rows are being added.
    Writing(RecordWriter),
    /// Rows are being read.
    Reading(RecordReader),
}

/// Whole rows, one after the other.
#[derive(Debug)]
struct Chunk {
    rows: Vec<u8>,
    _charge: Option<MemoryCharge>,
}

/// A queue of rows; see the module.
#[derive(Debug)]
pub struct RowQueue {
    /// Number of values of a row.
    width: usize,
    chunks: VecDeque<Chunk>,
    /// Position of the next row in the first chunk.
    at: usize,
    /// Capacity of all chunks.
    bytes: usize,
    overflow: Overflow,
    /// The row being added.
    encoded: Vec<u8>,
    memory: SessionMemory,
}

impl RowQueue {
    /// Creates an empty queue of rows of `width` values.
    pub fn new(width: usize, memory: SessionMemory) -> RowQueue {
        RowQueue {
            width,
            chunks: VecDeque::new(),
            at: 0,
            bytes: 0,
            overflow: Overflow::None,
            encoded: Vec::new(),
            memory,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// An error of the temporary file; without temporary files, a limit of memory.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        self.encoded.clear();
        values.iter().for_each(|v| write(*v, &mut self.encoded));
        if let Overflow::Writing(writer) = &mut self.overflow {
            return writer.add(&[], &self.encoded).map(|_| ());
        }
        let size = self.encoded.len();
        let fits = |chunk: &&mut Chunk| chunk.rows.capacity() - chunk.rows.len() >= size;
        if let Some(chunk) = self.chunks.back_mut().filter(fits) {
            chunk.rows.extend_from_slice(&self.encoded);
            return Ok(());
        }
        let next = self.bytes.clamp(FIRST_CHUNK, LARGEST_CHUNK).max(size);
        let dir = self.temp_dir();
        let is_over = self.bytes + next > MAX_IN_MEMORY;
        if let Some(dir) = dir.as_ref().filter(|_| is_over) {
            return self.begin_file(dir);
        }
        let charge = match (self.memory.charge(next), dir) {
            (Err(_), Some(dir)) => return self.begin_file(&dir),
            (charge, _) => charge?,
        };
        let mut rows = Vec::with_capacity(next);
        rows.extend_from_slice(&self.encoded);
        self.bytes += next;
        self.chunks.push_back(Chunk {
            rows,
            _charge: charge,
        });
        Ok(())
    }

    fn temp_dir(&self) -> Option<Arc<TempDir>> {
        let tracker = self.memory.statement()?;
        tracker.connection().server().temp_dir().cloned()
    }

    /// Writes the row being added to a new file.
    fn begin_file(&mut self, dir: &Arc<TempDir>) -> Result<()> {
        dir.disk_tables
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut writer = RecordWriter::create(dir, BLOCK)?;
        writer.add(&[], &self.encoded)?;
        self.overflow = Overflow::Writing(writer);
        Ok(())
    }

    /// Ends adding; the rows can be read.
    ///
    /// # Errors
    /// An error of the temporary file.
    pub fn finish(&mut self) -> Result<()> {
        self.encoded = Vec::new();
        if let Overflow::Writing(writer) = std::mem::replace(&mut self.overflow, Overflow::None) {
            self.overflow = Overflow::Reading(writer.finish()?.reader());
        }
        Ok(())
    }

    /// Removes the next row, and passes its values to a function. Returns false after the last row.
    ///
    /// # Errors
    /// An error of the temporary file, or of the function.
    pub fn next_row(&mut self, visit: &mut dyn FnMut(ValueRef<'_>) -> Result<()>) -> Result<bool> {
        while self.chunks.front().is_some_and(|c| self.at >= c.rows.len()) {
            self.chunks.pop_front();
            self.at = 0;
        }
        if let Some(chunk) = self.chunks.front() {
            let mut rest = chunk.rows.get(self.at..).unwrap_or_default();
            let done = visit_values(&mut rest, self.width, visit);
            self.at = chunk.rows.len() - rest.len();
            return done.map(|()| true);
        }
        match &mut self.overflow {
            Overflow::Reading(reader) => {
                let found = reader.advance()?;
                if found {
                    visit_values(&mut reader.value(), self.width, visit)?;
                }
                Ok(found)
            }
            _ => Ok(false),
        }
    }
}

/// Passes each value of a row to a function, until it fails; the whole row is read.
fn visit_values(
    rest: &mut &[u8],
    width: usize,
    visit: &mut dyn FnMut(ValueRef<'_>) -> Result<()>,
) -> Result<()> {
    let mut done = Ok(());
    for _ in 0..width {
        let value = read(rest).unwrap_or(ValueRef::Null);
        if done.is_ok() {
            done = visit(value);
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::memory::{ConnectionMemory, MemoryBudget};
    use porpoise_types::Value;

    fn filled(rows: i64, memory: SessionMemory) -> RowQueue {
        let mut queue = RowQueue::new(2, memory);
        let text = vec![b'x'; 200];
        for n in 0..rows {
            queue
                .push(&[ValueRef::Int(n), ValueRef::Bytes(&text)])
                .unwrap();
        }
        queue.finish().unwrap();
        queue
    }

    fn check(queue: &mut RowQueue, rows: i64) {
        for n in 0..rows {
            let mut row = Vec::new();
            let found = queue.next_row(&mut |value| {
                row.push(value.to_owned());
                Ok(())
            });
            assert!(found.unwrap());
            assert_eq!(row, [Value::Int(n), Value::Bytes(vec![b'x'; 200])]);
        }
        for _ in 0..2 {
            assert!(!queue.next_row(&mut |_| Ok(())).unwrap());
        }
    }

    #[test]
    fn rows_come_back_in_their_order() {
        for rows in [0, 1, 7, 5000] {
            check(&mut filled(rows, SessionMemory::default()), rows);
        }
    }

    #[test]
    fn rows_beyond_the_bound_are_in_a_file() {
        let path = format!("porpoise-queue-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let budget = Arc::new(MemoryBudget::default());
        budget.set_temp_dir(TempDir::open(&path, None).unwrap());
        let connection = Arc::new(ConnectionMemory::new(budget.clone()));
        let mut queue = filled(50_000, SessionMemory::new(&connection));
        assert!(matches!(queue.overflow, Overflow::Reading(_)));
        assert!(budget.used() < 2 * MAX_IN_MEMORY as u64);
        check(&mut queue, 50_000);
        drop((queue, connection));
        assert_eq!(budget.used(), 0);
        std::fs::remove_dir_all(path).unwrap();
    }
}
