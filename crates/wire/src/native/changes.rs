//! Subscriptions: changes of the rows of a table, from the change log (version 2 of the protocol).
//!
//! ```text
//! subscribe  u64 table, u32 version of its definition, text position, u16 ranges of the primary key, each
//!            a lower and an upper bound as in a scan
//! changes    u32 longest wait for the first change in ms
//! answer     to both: records, each u8 kind
//! ```
//!
//! A connection has one subscription. The server sends changes only in answer to a request; an answer ends at about
//! 256 KiB, at the end of the log, or when the time of the wait is over. A client that connects again continues at
//! the position of the last record that had one.
//!
//! | record | body |
//! |---|---|
//! | 1 table | u16 columns, each u8 encoding, u8 flags (1: in the primary key), text name, text type in SQL |
//! | 2 insert | the row after |
//! | 3 update | the row before, the row after |
//! | 4 delete | the row before |
//! | 5 definition | text: the kind of statement that changed the table |
//! | 6 commit | u64 microseconds since 1970, text GTID, text position after the transaction |
//! | 7 position | text position: all changes of the subscription before it were sent |
//! | row | a bitmap of the columns that the log does not have, a bitmap of NULLs and the values |
//!
//! Rows have the columns of the last table record: those that the table had when the change was logged.

use super::value::{self, Encoding, NotEncodable};
use super::{Malformed, Reader, put_bytes};
use porpoise_types::ValueRef;

/// The version of the protocol that has subscriptions.
pub const SINCE_VERSION: u8 = 2;

/// Flag of a column: it is part of the primary key.
pub const IN_KEY: u8 = 1;

/// Most ranges of a subscription.
pub const MAX_RANGES: u16 = 1024;

/// A subscription, without the values of its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Id of the table.
    pub table: u64,
    /// Version of its definition.
    pub version: u32,
    /// The position in the log: `now`, `first`, a set of GTIDs, or FILE:POSITION.
    pub position: &'a str,
    /// Number of ranges; 0: all rows.
    pub ranges: u16,
    /// The bounds of the ranges, encoded.
    pub bounds: &'a [u8],
}

impl<'a> Subscribe<'a> {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        put_bytes(out, self.position.as_bytes());
        out.extend_from_slice(&self.ranges.to_le_bytes());
        out.extend_from_slice(self.bounds);
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The body is not a subscription.
    pub fn parse(body: &'a [u8]) -> Result<Subscribe<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut parse = || {
            Some(Subscribe {
                table: reader.u64()?,
                version: reader.u32()?,
                position: reader.text()?,
                ranges: reader.u16().filter(|count| *count <= MAX_RANGES)?,
                bounds: reader.rest(),
            })
        };
        parse().ok_or(Malformed("subscription"))
    }
}

/// Parses the body of a request for changes: the longest wait in milliseconds.
///
/// # Errors
/// The body is not such a request.
pub fn parse_wait(body: &[u8]) -> Result<u32, Malformed> {
    let wait = body.first_chunk().filter(|_| body.len() == 4);
    let wait = wait.ok_or(Malformed("request for changes"))?;
    Ok(u32::from_le_bytes(*wait))
}

/// A column of a table record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedColumn {
    /// The name.
    pub name: String,
    /// Encoding of its values.
    pub encoding: Encoding,
    /// Whether it is part of the primary key.
    pub is_in_key: bool,
    /// The type in SQL.
    pub sql_type: String,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The columns of the rows that follow.
    Table = 1,
    /// A row was inserted.
    Insert = 2,
    /// A row was changed.
    Update = 3,
    /// A row was deleted.
    Delete = 4,
    /// The table was changed.
    Definition = 5,
    /// The end of a transaction.
    Commit = 6,
    /// The place in the log.
    Position = 7,
}

/// Appends a table record.
pub fn put_table<'c>(
    out: &mut Vec<u8>,
    columns: impl ExactSizeIterator<Item = (Encoding, bool, &'c str, &'c str)>,
) {
    out.push(RecordKind::Table as u8);
    let count = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_le_bytes());
    for (encoding, is_in_key, name, sql_type) in columns.take(usize::from(count)) {
        let flags = if is_in_key { IN_KEY } else { 0 };
        out.extend_from_slice(&[encoding as u8, flags]);
        put_bytes(out, name.as_bytes());
        put_bytes(out, sql_type.as_bytes());
    }
}

/// Appends a row; `None` stands for a value that the log does not have.
///
/// # Errors
/// A value does not fit its encoding. `out` is incomplete then.
pub fn put_row<'v>(
    out: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = (Encoding, Option<ValueRef<'v>>)> + Clone,
) -> Result<(), NotEncodable> {
    let count = values.len();
    let bitmap = out.len();
    out.resize(bitmap + count.div_ceil(8), 0);
    for (n, (_, value)) in values.clone().enumerate() {
        if value.is_none()
            && let Some(byte) = out.get_mut(bitmap + n / 8)
        {
            *byte |= 1 << (n % 8);
        }
    }
    let values = values.map(|(encoding, value)| (encoding, value.unwrap_or(ValueRef::Null)));
    value::put_row(out, count, values)
}

/// Appends the end of a transaction.
pub fn put_commit(out: &mut Vec<u8>, micros: u64, gtid: &str, position: &str) {
    out.push(RecordKind::Commit as u8);
    out.extend_from_slice(&micros.to_le_bytes());
    put_bytes(out, gtid.as_bytes());
    put_bytes(out, position.as_bytes());
}

/// Appends a record that consists of a text.
pub fn put_text(out: &mut Vec<u8>, kind: RecordKind, text: &str) {
    out.push(kind as u8);
    put_bytes(out, text.as_bytes());
}

/// A row of a change: a value for each column, `None` where the log does not have it.
pub type ChangedValues<'a> = Vec<Option<ValueRef<'a>>>;

/// A record, borrowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// The columns of the rows that follow.
    Table(Vec<ChangedColumn>),
    /// A row was inserted.
    Insert(ChangedValues<'a>),
    /// A row was changed: before, after.
    Update(ChangedValues<'a>, ChangedValues<'a>),
    /// A row was deleted.
    Delete(ChangedValues<'a>),
    /// The table was changed by a statement of this kind.
    Definition(&'a str),
    /// The end of a transaction.
    Commit {
        /// Time of the commit in microseconds since 1970 UTC.
        micros: u64,
        /// Its identifier.
        gtid: &'a str,
        /// The position after it.
        position: &'a str,
    },
    /// The place in the log.
    Position(&'a str),
}

fn read_columns(reader: &mut Reader<'_>) -> Option<Vec<ChangedColumn>> {
    let mut columns = Vec::new();
    for _ in 0..reader.u16()? {
        let encoding = Encoding::of_number(reader.u8()?)?;
        let flags = reader.u8()?;
        columns.push(ChangedColumn {
            encoding,
            is_in_key: flags & IN_KEY != 0,
            name: reader.text()?.to_owned(),
            sql_type: reader.text()?.to_owned(),
        });
    }
    Some(columns)
}

fn read_row<'a>(reader: &mut Reader<'a>, columns: &[ChangedColumn]) -> Option<ChangedValues<'a>> {
    let missing = reader.take(columns.len().div_ceil(8))?;
    let mut values = Vec::with_capacity(columns.len());
    let encodings = columns.iter().map(|column| column.encoding);
    value::get_row(reader, encodings, |n, value| {
        let byte = missing.get(n / 8).copied().unwrap_or(0);
        values.push((byte & (1 << (n % 8)) == 0).then_some(value));
    })?;
    Some(values)
}

impl<'a> Record<'a> {
    /// Reads a record, whose rows have these columns. Returns `None` if the bytes are not a record.
    pub fn read(reader: &mut Reader<'a>, columns: &[ChangedColumn]) -> Option<Record<'a>> {
        Some(match reader.u8()? {
            1 => Record::Table(read_columns(reader)?),
            2 => Record::Insert(read_row(reader, columns)?),
            3 => Record::Update(read_row(reader, columns)?, read_row(reader, columns)?),
            4 => Record::Delete(read_row(reader, columns)?),
            5 => Record::Definition(reader.text()?),
            6 => Record::Commit {
                micros: reader.u64()?,
                gtid: reader.text()?,
                position: reader.text()?,
            },
            7 => Record::Position(reader.text()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_round_trip_and_cut_ones_are_refused() {
        let subscribe = Subscribe {
            table: 7,
            version: 3,
            position: "first",
            ranges: 1,
            bounds: &[0, 0, 0, 0],
        };
        let mut out = Vec::new();
        subscribe.put(&mut out);
        assert_eq!(Subscribe::parse(&out), Ok(subscribe));
        for cut in 0..out.len() - 4 {
            assert!(Subscribe::parse(&out[..cut]).is_err(), "{cut}");
        }
        assert_eq!(parse_wait(&[1, 2, 0, 0]), Ok(513));
        assert!(parse_wait(&[1, 2, 0]).is_err());
        assert!(parse_wait(&[1, 2, 0, 0, 0]).is_err());
    }

    #[test]
    fn records_round_trip_and_cut_ones_are_refused() {
        let columns = vec![
            ChangedColumn {
                name: "id".to_owned(),
                encoding: Encoding::Int32,
                is_in_key: true,
                sql_type: "int".to_owned(),
            },
            ChangedColumn {
                name: "name".to_owned(),
                encoding: Encoding::Bytes,
                is_in_key: false,
                sql_type: "varchar(9)".to_owned(),
            },
        ];
        let row = |values: [Option<ValueRef<'static>>; 2]| values.to_vec();
        let before = row([Some(ValueRef::Int(-1)), None]);
        let after = row([Some(ValueRef::Int(2)), Some(ValueRef::Null)]);
        let text = row([Some(ValueRef::Int(2)), Some(ValueRef::Bytes(b"a"))]);
        let records = [
            Record::Table(columns.clone()),
            Record::Insert(text.clone()),
            Record::Update(before.clone(), after.clone()),
            Record::Delete(before.clone()),
            Record::Definition("truncate"),
            Record::Commit {
                micros: 5,
                gtid: "g",
                position: "p",
            },
            Record::Position("q"),
        ];
        let put = |out: &mut Vec<u8>, values: &ChangedValues<'_>| {
            let pairs = columns.iter().zip(values);
            let pairs: Vec<_> = pairs.map(|(c, v)| (c.encoding, *v)).collect();
            put_row(out, pairs.into_iter()).unwrap();
        };
        let mut out = Vec::new();
        let flat = columns.iter();
        let flat = flat.map(|c| {
            (
                c.encoding,
                c.is_in_key,
                c.name.as_str(),
                c.sql_type.as_str(),
            )
        });
        put_table(&mut out, flat);
        out.push(RecordKind::Insert as u8);
        put(&mut out, &text);
        out.push(RecordKind::Update as u8);
        put(&mut out, &before);
        put(&mut out, &after);
        out.push(RecordKind::Delete as u8);
        put(&mut out, &before);
        put_text(&mut out, RecordKind::Definition, "truncate");
        put_commit(&mut out, 5, "g", "p");
        put_text(&mut out, RecordKind::Position, "q");
        let mut reader = Reader::new(&out);
        for record in &records {
            assert_eq!(Record::read(&mut reader, &columns).as_ref(), Some(record));
        }
        assert!(reader.is_empty());
        // Cut anywhere, the last record is refused.
        for cut in 0..out.len() {
            let mut reader = Reader::new(&out[..cut]);
            let mut whole = 0;
            while Record::read(&mut reader, &columns).is_some() {
                whole += 1;
            }
            assert!(whole < records.len());
        }
    }
}
