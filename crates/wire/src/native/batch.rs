//! Batches: operations on rows by key, and their results.
//!
//! ```text
//! batch    u8 flags, u32 time limit in ms (0: none), u16 parts, then the parts
//! part     bytes shape, u32 rows, bytes data
//! shape    u8 operation, u8 flags, u16 index, u64 table, u32 version of its definition,
//!          u16 columns, each u16 position, u8 action,
//!          u8 conditions, each u8 kind, u16 position
//! row      the key's values, u64 version (with that condition), then a bitmap of NULLs and the
//!          values of columns and of conditions
//! ```
//!
//! Rows of an INSERT or an UPSERT have no separate key: its values are among the columns. A shape
//! serves as a prepared statement without a handle: the server caches the plans of a connection's
//! most recent shapes by their bytes.

use super::message::ErrorMessage;
use super::{Malformed, Reader, put_bytes};

/// Flag of a batch: either all of its operations take effect, or none.
pub const ATOMIC: u8 = 1;

/// Maximum number of rows of a batch.
pub const MAX_ROWS: u32 = 65_536;

/// Maximum number of parts of a batch.
pub const MAX_PARTS: u16 = 32;

/// Flag of an operation: results have the row's version.
pub const WITH_VERSION: u8 = 1;

/// Flag of an operation: results of inserts have the generated id.
pub const WITH_GENERATED_ID: u8 = 2;

/// Flag of a READ: rows are locked exclusively until the end of the transaction.
pub const FOR_UPDATE: u8 = 4;

/// Flag of an UPSERT: results have whether the row is new.
pub const WITH_CREATED: u8 = 8;

/// An operation on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// The row's columns.
    Read = 1,
    /// A new row; refused if its key exists.
    Insert = 2,
    /// Changes of an existing row.
    Update = 3,
    /// A new row, or changes of the row with its key.
    Upsert = 4,
    /// Removal of the row.
    Delete = 5,
}

impl Operation {
    fn of(byte: u8) -> Option<Operation> {
        use Operation::{Delete, Insert, Read, Update, Upsert};
        let all = [Read, Insert, Update, Upsert, Delete];
        all.into_iter().find(|operation| *operation as u8 == byte)
    }

    /// Whether rows begin with the values of a key.
    pub fn has_key(self) -> bool {
        !matches!(self, Operation::Insert | Operation::Upsert)
    }
}

/// Effect of an UPDATE on a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Replaces it.
    Set = 0,
    /// Adds to it.
    Add = 1,
}

/// A column of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnUse {
    /// Position in the definition.
    pub position: u16,
    /// Its use by an UPDATE.
    pub action: Action,
}

/// A condition on the existing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The row has this version. The value is the u64 after the key.
    Version,
    /// The column has this value; NULL equals NULL.
    Equals(u16),
}

/// The properties that all rows of a part share: operation, table, index, columns, conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The operation.
    pub operation: Operation,
    /// [`WITH_VERSION`] and others.
    pub flags: u8,
    /// Position of the index whose keys the rows have.
    pub index: u16,
    /// Id of the table.
    pub table: u64,
    /// Version of its definition.
    pub version: u32,
    /// The columns that are read or written.
    pub columns: Vec<ColumnUse>,
    /// Conditions on the existing row.
    pub conditions: Vec<Condition>,
}

impl Shape {
    /// Whether rows have a version to compare with.
    pub fn compares_version(&self) -> bool {
        self.conditions.contains(&Condition::Version)
    }

    /// Columns of the [`Condition::Equals`].
    pub fn compared_columns(&self) -> impl Iterator<Item = u16> + '_ {
        self.conditions
            .iter()
            .filter_map(|condition| match condition {
                Condition::Equals(position) => Some(*position),
                Condition::Version => None,
            })
    }

    /// Appends the shape.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.operation as u8, self.flags]);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.table.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        let columns = u16::try_from(self.columns.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&columns.to_le_bytes());
        for column in &self.columns {
            out.extend_from_slice(&column.position.to_le_bytes());
            out.push(column.action as u8);
        }
        out.push(u8::try_from(self.conditions.len()).unwrap_or(u8::MAX));
        for condition in &self.conditions {
            let (kind, position) = match condition {
                Condition::Version => (1, 0),
                Condition::Equals(position) => (2, *position),
            };
            out.push(kind);
            out.extend_from_slice(&position.to_le_bytes());
        }
    }

    /// Parses a shape.
    ///
    /// # Errors
    /// The bytes are not a shape.
    pub fn parse(bytes: &[u8]) -> Result<Shape, Malformed> {
        let mut reader = Reader::new(bytes);
        Shape::read(&mut reader)
            .filter(|_| reader.is_empty())
            .ok_or(Malformed("shape of an operation"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Shape> {
        let operation = Operation::of(reader.u8()?)?;
        let flags = reader.u8()?;
        if flags & !(WITH_VERSION | WITH_GENERATED_ID | FOR_UPDATE | WITH_CREATED) != 0 {
            return None;
        }
        let index = reader.u16()?;
        let (table, version) = (reader.u64()?, reader.u32()?);
        let mut columns = Vec::new();
        for _ in 0..reader.u16()? {
            let position = reader.u16()?;
            let action = match reader.u8()? {
                0 => Action::Set,
                1 => Action::Add,
                _ => return None,
            };
            columns.push(ColumnUse { position, action });
        }
        let mut conditions = Vec::new();
        for _ in 0..reader.u8()? {
            let condition = match (reader.u8()?, reader.u16()?) {
                (1, 0) => Condition::Version,
                (2, position) => Condition::Equals(position),
                _ => return None,
            };
            conditions.push(condition);
        }
        Some(Shape {
            operation,
            flags,
            index,
            table,
            version,
            columns,
            conditions,
        })
    }
}

/// A batch. Its parts are parsed by [`Batch::parts`].
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Whether all operations take effect or none.
    pub is_atomic: bool,
    /// Time limit in milliseconds; 0: none.
    pub time_limit: u32,
    /// Number of parts.
    pub parts: u16,
    rest: Reader<'a>,
}

/// Operations of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The shape, encoded.
    pub shape: &'a [u8],
    /// Number of rows.
    pub rows: u32,
    /// The rows.
    pub data: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Parses a batch, but not the shapes and rows.
    ///
    /// # Errors
    /// The body is not a batch, or has more than [`MAX_PARTS`] parts or [`MAX_ROWS`] rows.
    pub fn parse(body: &'a [u8]) -> Result<Batch<'a>, Malformed> {
        Batch::parse_with(body, MAX_PARTS)
    }

    /// As [`Batch::parse`], with another limit of parts.
    ///
    /// # Errors
    /// As [`Batch::parse`].
    pub fn parse_with(body: &'a [u8], max_parts: u16) -> Result<Batch<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut head = || {
            let flags = reader.u8().filter(|flags| flags & !ATOMIC == 0)?;
            let (time_limit, parts) = (reader.u32()?, reader.u16()?);
            Some(Batch {
                is_atomic: flags & ATOMIC != 0,
                time_limit,
                parts,
                rest: reader,
            })
        };
        let batch = head().ok_or(Malformed("batch"))?;
        if batch.parts > max_parts {
            return Err(Malformed("batch: too many parts"));
        }
        let mut rows = 0u32;
        let mut parts = batch.parts();
        for part in parts.by_ref() {
            rows = rows.saturating_add(part.rows);
        }
        if parts.left > 0 || !parts.rest.is_empty() {
            return Err(Malformed("part of a batch"));
        }
        if rows > MAX_ROWS {
            return Err(Malformed("batch: too many rows"));
        }
        Ok(batch)
    }

    /// The parts.
    pub fn parts(&self) -> Parts<'a> {
        Parts {
            left: self.parts,
            rest: self.rest,
        }
    }
}

/// Iterator over the parts of a batch. It ends early where the bytes are not a part.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    left: u16,
    rest: Reader<'a>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.left == 0 {
            return None;
        }
        let part = Part {
            shape: self.rest.bytes()?,
            rows: self.rest.u32()?,
            data: self.rest.bytes()?,
        };
        self.left -= 1;
        Some(part)
    }
}

/// Appends the head of a batch.
pub fn put_head(out: &mut Vec<u8>, is_atomic: bool, time_limit: u32, parts: u16) {
    out.push(if is_atomic { ATOMIC } else { 0 });
    out.extend_from_slice(&time_limit.to_le_bytes());
    out.extend_from_slice(&parts.to_le_bytes());
}

/// Appends a part.
pub fn put_part(out: &mut Vec<u8>, shape: &[u8], rows: u32, data: &[u8]) {
    put_bytes(out, shape);
    out.extend_from_slice(&rows.to_le_bytes());
    put_bytes(out, data);
}

/// Outcome of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It was executed; a READ has found its row.
    Ok = 0,
    /// No row has the key.
    NotFound = 1,
    /// The row does not meet the conditions.
    ConditionFailed = 2,
    /// It failed; the error follows.
    Failed = 3,
    /// It was not executed, or was undone, because another operation of the atomic batch failed.
    Aborted = 4,
}

impl Status {
    /// Reads a status.
    pub fn read(reader: &mut Reader<'_>) -> Option<Status> {
        use Status::{Aborted, ConditionFailed, Failed, NotFound, Ok};
        let byte = reader.u8()?;
        let all = [Ok, NotFound, ConditionFailed, Failed, Aborted];
        all.into_iter().find(|status| *status as u8 == byte)
    }
}

/// Appends the result of a failed operation.
pub fn put_failure(out: &mut Vec<u8>, error: &ErrorMessage<'_>) {
    out.push(Status::Failed as u8);
    error.put(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            operation: Operation::Update,
            flags: WITH_VERSION,
            index: 0,
            table: 77,
            version: 2,
            columns: vec![ColumnUse {
                position: 3,
                action: Action::Add,
            }],
            conditions: vec![Condition::Version, Condition::Equals(1)],
        }
    }

    #[test]
    fn shapes_and_batches_round_trip_and_cut_ones_are_refused() {
        let mut encoded = Vec::new();
        shape().put(&mut encoded);
        assert_eq!(Shape::parse(&encoded), Ok(shape()));
        for cut in 0..encoded.len() {
            assert!(Shape::parse(&encoded[..cut]).is_err());
        }
        let mut body = Vec::new();
        put_head(&mut body, true, 250, 2);
        put_part(&mut body, &encoded, 3, b"abc");
        put_part(&mut body, &encoded, 1, b"");
        let batch = Batch::parse(&body).unwrap();
        assert!(batch.is_atomic);
        assert_eq!(batch.time_limit, 250);
        let rows: Vec<_> = batch.parts().map(|part| (part.rows, part.data)).collect();
        assert_eq!(rows, [(3, &b"abc"[..]), (1, b"")]);
        for cut in 0..body.len() {
            assert!(Batch::parse(&body[..cut]).is_err());
        }
    }

    #[test]
    fn unknown_flags_are_refused() {
        let mut encoded = Vec::new();
        shape().put(&mut encoded);
        encoded[1] |= 16;
        assert!(Shape::parse(&encoded).is_err());
        let mut body = Vec::new();
        put_head(&mut body, true, 0, 0);
        assert!(Batch::parse(&body).is_ok());
        body[0] |= 2;
        assert!(Batch::parse(&body).is_err());
    }

    #[test]
    fn a_batch_with_too_many_rows_is_refused() {
        let mut body = Vec::new();
        put_head(&mut body, false, 0, 2);
        put_part(&mut body, b"", MAX_ROWS, b"");
        put_part(&mut body, b"", 1, b"");
        assert!(Batch::parse(&body).is_err());
    }
}
