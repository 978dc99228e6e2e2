//! Batches of operations.

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::row::Row;
use porpoise_types::{Value, ValueRef};
use porpoise_wire::native::batch::{MAX_PARTS, MAX_ROWS, put_head, put_part};
use smallvec::SmallVec;
use std::time::Duration;

/// Size in bytes from which on a combined batch gets no more operations: far below the server's limit of a
/// request, so that another large row still fits.
pub(crate) const COMBINED_BYTES: usize = 1 << 20;

/// Operations that are sent in one message. They take effect in their order, in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    is_atomic: bool,
    time_limit: u32,
    pub(crate) parts: Vec<Part>,
    rows: u32,
}

/// Operations of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) operation: Operation,
    pub(crate) rows: u32,
    data: Vec<u8>,
}

impl Batch {
    /// An empty batch. Each of its operations succeeds or fails by itself.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch, of which all operations take effect or none.
    pub fn atomic() -> Batch {
        Batch {
            is_atomic: true,
            ..Batch::default()
        }
    }

    /// Sets a limit for the execution: error 3024 beyond it.
    pub fn set_time_limit(&mut self, limit: Duration) {
        let limit = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        self.time_limit = limit.max(1);
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether all operations only read.
    pub fn is_read(&self) -> bool {
        self.parts.iter().all(|part| part.operation.is_read())
    }

    /// Size of the operations in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.data.len()).sum()
    }

    /// Removes the operations, and keeps the memory of those of the same shape.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.parts.truncate(1);
        for part in &mut self.parts {
            part.rows = 0;
            part.data.clear();
        }
    }

    /// Adds an operation on one row. The values are, in this order: those of the key's columns, the
    /// version to compare with, those of the columns, those to compare with. Dates and times may also be
    /// texts, as MySQL writes them.
    ///
    /// # Errors
    /// The values do not fit the operation, or the batch is full. It is unchanged then.
    pub fn push(&mut self, operation: &Operation, values: &[ValueRef<'_>]) -> Result<()> {
        if self.rows >= MAX_ROWS {
            return Err(Error::Usage(format!("a batch has at most {MAX_ROWS} rows")));
        }
        let last = self.parts.last();
        let is_usable = last.is_some_and(|p| p.rows == 0 || p.operation.is_same(operation));
        if !is_usable {
            if self.parts.len() >= usize::from(MAX_PARTS) {
                let text = format!("a batch has at most {MAX_PARTS} parts of one operation");
                return Err(Error::Usage(text));
            }
            self.parts.push(Part {
                operation: operation.clone(),
                rows: 0,
                data: Vec::new(),
            });
        }
        let part = self.parts.last_mut();
        let part = part.ok_or(Error::Protocol("a batch without parts"))?;
        if !part.operation.is_same(operation) {
            part.operation = operation.clone();
        }
        let before = part.data.len();
        if let Err(error) = operation.put_row(&mut part.data, values) {
            part.data.truncate(before);
            return Err(error);
        }
        part.rows += 1;
        self.rows += 1;
        Ok(())
    }

    /// Adds an operation on this row, whose columns are in the order of [`trait@Row`]'s: an INSERT or UPSERT
    /// built with `.columns(T::COLUMNS)`.
    ///
    /// # Errors
    /// As [`Batch::push`].
    pub fn push_row<T: Row>(&mut self, operation: &Operation, row: &T) -> Result<()> {
        let values = row.to_values();
        let values: SmallVec<[ValueRef<'_>; 16]> = values.iter().map(Value::as_ref).collect();
        self.push(operation, &values)
    }

    /// Appends the message.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let parts = self.parts.iter().filter(|part| part.rows > 0);
        let count = u16::try_from(parts.clone().count()).unwrap_or(u16::MAX);
        put_head(out, self.is_atomic, self.time_limit, count);
        for part in parts {
            let shape = &part.operation.definition().encoded;
            put_part(out, shape, part.rows, &part.data);
        }
    }

    /// The operations, with their numbers of rows.
    pub(crate) fn operations(&self) -> Vec<(Operation, u32)> {
        let parts = self.parts.iter().filter(|part| part.rows > 0);
        parts.map(|p| (p.operation.clone(), p.rows)).collect()
    }
}
