//! Batches for another listener of this process.
//!
//! A [`LocalSession`] executes the same batches as a connection, in the same code: its operations are
//! encoded as the native protocol encodes them, and the encoded results are decoded. So privileges,
//! conditions, row versions, time limits, repetition after conflicts and memory charges are those of
//! native clients.
//!
//! Rejected: a second form of operations inside of [`crate::batch`]. Encoding costs little beside the
//! text that the other listener parses and formats.

use crate::convert::{self, Converter};
use crate::session::Open;
use crate::settings::{ListenerState, SessionInfo};
use crate::sink::{Disconnected, Sink};
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryRefused, MemoryTracker};
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{Error, Result};
use porpoise_types::{Value, ValueRef};
use porpoise_wire::native::Reader;
use porpoise_wire::native::batch::{
    Operation, Shape, Status, WITH_CREATED, WITH_GENERATED_ID, WITH_VERSION, put_head, put_part,
};
use porpoise_wire::native::frame::{self, FrameStep};
use porpoise_wire::native::message::{self, ErrorMessage, OpenTable};
use porpoise_wire::native::value::{self, Encoding};
use std::sync::Arc;

/// Maximum number of different shapes of a batch: as many as the plans that a session caches.
const MAX_SHAPES: usize = 32;

/// A table as its account sees it.
#[derive(Clone)]
pub struct LocalTable {
    /// The columns on which the account has rights, and the usable indexes.
    pub visible: message::Table,
    /// The definition.
    pub definition: Arc<Table>,
}

impl LocalTable {
    /// The definition of the column at a position of the definition.
    ///
    /// # Errors
    /// 1054: there is none.
    pub fn column(&self, position: u16) -> Result<&Column> {
        let column = self.definition.columns.get(usize::from(position));
        column.ok_or_else(|| {
            let text = format!("Unknown column '#{position}' in '{}'", self.visible.name);
            Error::refused(1054, "42S22", text)
        })
    }
}

/// An operation on one row. Text is UTF-8.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    /// Operation, table, index, columns and conditions.
    pub shape: Shape,
    /// Values of the index's columns; empty for INSERT and UPSERT.
    pub key: Vec<(Encoding, Value)>,
    /// The version to compare with, if the shape has that condition.
    pub version: u64,
    /// Values of the shape's columns, then of its compared columns. Those of a READ are ignored, their
    /// encodings are not.
    pub values: Vec<(Encoding, Value)>,
}

/// A batch.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    /// Whether all operations take effect or none.
    pub is_atomic: bool,
    /// Time limit in milliseconds; 0: none.
    pub time_limit: u32,
    /// The operations, in their order.
    pub operations: Vec<BatchOperation>,
}

/// Outcome of one operation.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationOutcome {
    /// A row was read.
    Row {
        /// Its version, if the operation requests it; otherwise 0.
        version: u64,
        /// Values of the shape's columns. DECIMAL and text are bytes of UTF-8.
        values: Vec<Value>,
    },
    /// A row was written, or deleted.
    Written {
        /// The version of the row, if the operation requests it; otherwise 0.
        version: u64,
        /// The generated id, if the operation requests it; otherwise 0.
        generated_id: u64,
        /// Whether an UPSERT that requests it has inserted the row.
        is_new: bool,
    },
    /// No row has the key.
    NotFound,
    /// The row does not meet the conditions.
    ConditionFailed,
    /// The operation failed: MySQL's number, SQLSTATE and text.
    Failed {
        /// MySQL's number.
        code: u16,
        /// The SQLSTATE.
        sqlstate: String,
        /// The text.
        message: String,
    },
    /// The operation was not executed, or was undone, because another one of the atomic batch failed.
    Aborted,
}

/// A session of an account without a connection. It has no open transaction.
pub struct LocalSession {
    shared: Arc<ListenerState>,
    open: Open,
    memory: Arc<ConnectionMemory>,
}

impl LocalSession {
    pub(crate) fn new(
        shared: Arc<ListenerState>,
        info: &SessionInfo<'_>,
        memory: &Arc<ConnectionMemory>,
    ) -> LocalSession {
        LocalSession {
            open: Open::new(&shared, info, memory),
            memory: memory.clone(),
            shared,
        }
    }

    /// Looks a table up.
    ///
    /// # Errors
    /// 1142 if the account has no privilege on it, whether or not it exists; 1146.
    pub fn table(&mut self, database: &str, table: &str) -> Result<LocalTable> {
        let request = OpenTable { database, table };
        let (visible, definition) = self.open.describe(&self.shared, &request)?;
        Ok(LocalTable {
            visible,
            definition,
        })
    }

    /// Database and name of the tables on which the account has a privilege, without system schemas.
    pub fn tables(&mut self) -> Vec<(String, String)> {
        self.open.tables(&self.shared)
    }

    /// Executes a batch. Returns its outcomes in the order of the operations, and the commit that the
    /// answer must wait for.
    ///
    /// # Errors
    /// The batch as a whole failed: nothing was changed.
    pub fn run(&mut self, batch: &BatchRequest) -> Result<(Vec<OperationOutcome>, CommitPosition)> {
        let body = encode(batch)?;
        let mut sink = BufferSink {
            bytes: Vec::new(),
            memory: MemoryTracker::new(self.memory.clone(), MemoryClass::Statement),
            refused: None,
        };
        let done = self.open.run_batch(&body, u16::MAX, &mut sink);
        if let Some(refused) = sink.refused {
            return Err(crate::failure::memory_refused(refused));
        }
        let position = done?;
        let outcomes = decode(&sink.bytes, &batch.operations);
        let outcomes = outcomes
            .ok_or_else(|| Error::Corrupt("results of a batch that cannot be read".to_owned()))?;
        Ok((outcomes, position))
    }
}

/// Converts a value to what a column of numbers, dates, or members stores; strings are converted when
/// they are written.
///
/// # Errors
/// The value does not fit: MySQL's number in strict mode.
pub fn stored_value(column: &Column, value: ValueRef<'_>) -> Result<Value> {
    convert::from_client(column, value)
}

/// The default of a column in a row that replaces another: text in UTF-8; `None` if the row must have a
/// value, because the column has no default, or one that only INSERT computes. `now` is in
/// microseconds since 1970.
///
/// # Errors
/// A stored text that is invalid in its character set.
pub fn default_value(column: &Column, now: i64) -> Result<Option<Value>> {
    match &column.default {
        ColumnDefault::None | ColumnDefault::Expr(_) => Ok(None),
        ColumnDefault::Now => Ok(Some(convert::now_of(column, now))),
        ColumnDefault::Null => Ok(Some(Value::Null)),
        ColumnDefault::Literal(value) if Converter::of(column).transcodes => {
            Converter::to_utf8(column, value.as_ref()).map(Some)
        }
        ColumnDefault::Literal(value) => Ok(Some(value.clone())),
    }
}

/// The text of a stored value of an ENUM or a SET, in UTF-8.
///
/// # Errors
/// A stored number that is not a member.
pub fn member_text(column: &Column, value: ValueRef<'_>) -> Result<Value> {
    Converter::to_utf8(column, value)
}

/// Results of a batch, buffered and charged.
struct BufferSink {
    bytes: Vec<u8>,
    memory: MemoryTracker,
    refused: Option<MemoryRefused>,
}

impl Sink for BufferSink {
    fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn drain_if_full(&mut self, _: CommitPosition) -> std::result::Result<bool, Disconnected> {
        match self.memory.resize(self.bytes.capacity() as u64) {
            Ok(()) => Ok(false),
            Err(refused) => {
                self.refused = Some(refused);
                Err(Disconnected)
            }
        }
    }
}

/// Encodes a batch. Consecutive operations of one shape are one part.
fn encode(batch: &BatchRequest) -> Result<Vec<u8>> {
    let mut shapes: Vec<&Shape> = Vec::new();
    let mut parts: Vec<(&Shape, u32, Vec<u8>)> = Vec::new();
    for operation in &batch.operations {
        if !shapes.contains(&&operation.shape) {
            shapes.push(&operation.shape);
        }
        if parts
            .last()
            .is_none_or(|(shape, ..)| **shape != operation.shape)
        {
            parts.push((&operation.shape, 0, Vec::new()));
        }
        if let Some((_, rows, data)) = parts.last_mut() {
            *rows += 1;
            put_operation(data, operation)?;
        }
    }
    let count = u16::try_from(parts.len());
    let (Ok(count), true) = (count, shapes.len() <= MAX_SHAPES) else {
        let text = format!(
            "The batch has too many kinds of operations: at most {MAX_SHAPES} different \
             combinations of operation, table, key and columns are allowed"
        );
        return Err(Error::refused(1153, "08S01", text));
    };
    let mut body = Vec::new();
    put_head(&mut body, batch.is_atomic, batch.time_limit, count);
    let mut encoded = Vec::new();
    for (shape, rows, data) in parts {
        encoded.clear();
        shape.put(&mut encoded);
        put_part(&mut body, &encoded, rows, &data);
    }
    Ok(body)
}

fn put_operation(out: &mut Vec<u8>, operation: &BatchOperation) -> Result<()> {
    let not_encodable = |_| {
        let text = "Incorrect value: it is not of its column's type";
        Error::refused(1366, "HY000", text)
    };
    for (encoding, key) in &operation.key {
        if matches!(key, Value::Null) {
            let text = "A key with NULL finds no row";
            return Err(Error::refused(1048, "23000", text));
        }
        value::put(out, *encoding, key.as_ref()).map_err(not_encodable)?;
    }
    if operation.shape.compares_version() {
        out.extend_from_slice(&operation.version.to_le_bytes());
    }
    let values = operation.values.iter();
    if operation.shape.operation != Operation::Read && values.len() > 0 {
        let pairs = values.map(|(encoding, value)| (*encoding, value.as_ref()));
        value::put_row(out, operation.values.len(), pairs).map_err(not_encodable)?;
    }
    Ok(())
}

/// Decodes the frames of results; `None` if they are not the results of these operations.
fn decode(bytes: &[u8], operations: &[BatchOperation]) -> Option<Vec<OperationOutcome>> {
    let mut results = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok(FrameStep::Frame { body, .. }) = frame::next(rest, usize::MAX >> 1) else {
            return None;
        };
        let end = body.end;
        results.extend_from_slice(rest.get(body)?);
        rest = rest.get(end..)?;
    }
    let mut reader = Reader::new(&results);
    let outcomes = operations.iter().map(|o| outcome(o, &mut reader));
    let outcomes = outcomes.collect::<Option<Vec<_>>>()?;
    reader.is_empty().then_some(outcomes)
}

fn outcome(operation: &BatchOperation, reader: &mut Reader<'_>) -> Option<OperationOutcome> {
    let shape = &operation.shape;
    Some(match Status::read(reader)? {
        Status::Ok => {
            let mut version = 0;
            if shape.flags & WITH_VERSION != 0 {
                version = reader.u64()?;
            }
            if shape.operation == Operation::Read {
                let mut values = Vec::new();
                let encodings = operation.values.iter().map(|(encoding, _)| *encoding);
                value::get_row(reader, encodings, |_, value| values.push(value.to_owned()))?;
                return Some(OperationOutcome::Row { version, values });
            }
            let (mut generated_id, mut is_new) = (0, false);
            if shape.flags & WITH_GENERATED_ID != 0 {
                generated_id = reader.u64()?;
            }
            if shape.flags & WITH_CREATED != 0 {
                is_new = reader.u8()? != 0;
            }
            OperationOutcome::Written {
                version,
                generated_id,
                is_new,
            }
        }
        Status::NotFound => OperationOutcome::NotFound,
        Status::ConditionFailed => OperationOutcome::ConditionFailed,
        Status::Aborted => OperationOutcome::Aborted,
        Status::Failed => {
            let error = ErrorMessage::read(reader)?;
            OperationOutcome::Failed {
                code: error.code,
                sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
                message: error.message.to_owned(),
            }
        }
    })
}
