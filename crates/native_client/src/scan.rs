//! Scans of ranges of an index.

use crate::error::{Error, Result};
use crate::operation::of_text;
use crate::table::Table;
use crate::values::RowValues;
use porpoise_types::Value;
use porpoise_wire::native::scan::{BoundKind, REVERSE, Scan, WITH_VERSION};
use porpoise_wire::native::value::{self, Encoding};
use porpoise_wire::native::{Malformed, Reader};

/// A bound of a range: values for the first columns of the index.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Bound {
    /// The end of the index.
    #[default]
    None,
    /// Keys that begin with these values are in the range.
    Inclusive(Vec<Value>),
    /// Keys that begin with these values are not in the range.
    Exclusive(Vec<Value>),
}

/// A scan. Its pages are requested one at a time.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    table: Table,
    index: Option<String>,
    columns: Vec<String>,
    lower: Bound,
    upper: Bound,
    limit: u32,
    flags: u8,
}

/// Rows of a scan, and where it continues.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    pub(crate) columns: Vec<Encoding>,
    pub(crate) with_version: bool,
    pub(crate) bytes: Vec<u8>,
    /// Continuation of the next page; empty if this is the last one.
    pub continuation: Vec<u8>,
}

impl Table {
    /// A scan of the primary key.
    pub fn scan(&self) -> ScanRequest {
        ScanRequest::new(self)
    }
}

impl ScanRequest {
    fn new(table: &Table) -> ScanRequest {
        ScanRequest {
            table: table.clone(),
            index: None,
            columns: Vec::new(),
            lower: Bound::None,
            upper: Bound::None,
            limit: 0,
            flags: 0,
        }
    }

    /// Scans this index instead of the primary key.
    #[must_use]
    pub fn index(mut self, name: &str) -> Self {
        self.index = Some(name.to_owned());
        self
    }

    /// Reads these columns.
    #[must_use]
    pub fn columns(mut self, names: &[&str]) -> Self {
        self.columns
            .extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Sets the range, in the order of the index.
    #[must_use]
    pub fn range(mut self, lower: Bound, upper: Bound) -> Self {
        (self.lower, self.upper) = (lower, upper);
        self
    }

    /// Sets the maximum number of rows of a page. Every page ends at about a mebibyte.
    #[must_use]
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = rows;
        self
    }

    /// Scans from the end of the range to its start.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.flags |= REVERSE;
        self
    }

    /// Returns the version of each row.
    #[must_use]
    pub fn with_version(mut self) -> Self {
        self.flags |= WITH_VERSION;
        self
    }

    /// Appends the message, and returns an empty page for its answer.
    pub(crate) fn put(&self, continuation: &[u8], out: &mut Vec<u8>) -> Result<ScanPage> {
        let table = &self.table;
        let index = match &self.index {
            Some(name) => table.index(name),
            None => table.indexes.iter().find(|index| index.position == 0),
        };
        let index = index.ok_or_else(|| Error::Usage("there is no such index".to_owned()))?;
        let (mut columns, mut encodings) = (Vec::new(), Vec::new());
        for name in &self.columns {
            let column = table.column(name);
            let column = column.ok_or_else(|| {
                Error::Usage(format!("table {} has no column {name}", table.name))
            })?;
            columns.push(column.position);
            encodings.push(column.encoding);
        }
        let key = index
            .columns
            .iter()
            .map(|position| table.column_at(*position));
        let key: Option<Vec<_>> = key.map(|column| column.map(|c| c.encoding)).collect();
        let key = key.ok_or(Error::Protocol("a key of unknown columns"))?;
        let mut bounds = Vec::new();
        put_bound(&mut bounds, &self.lower, &key)?;
        put_bound(&mut bounds, &self.upper, &key)?;
        Scan {
            flags: self.flags,
            index: index.position,
            table: table.id,
            version: table.version,
            limit: self.limit,
            time_limit: 0,
            columns,
            continuation,
            bounds: &bounds,
        }
        .put(out);
        Ok(ScanPage {
            columns: encodings,
            with_version: self.flags & WITH_VERSION != 0,
            ..ScanPage::default()
        })
    }
}

pub(crate) fn put_bound(out: &mut Vec<u8>, bound: &Bound, key: &[Encoding]) -> Result<()> {
    let (kind, values) = match bound {
        Bound::None => (BoundKind::None, &[][..]),
        Bound::Inclusive(values) => (BoundKind::Inclusive, values.as_slice()),
        Bound::Exclusive(values) => (BoundKind::Exclusive, values.as_slice()),
    };
    if values.len() > key.len() {
        return Err(Error::Usage(
            "a bound has more values than the index".to_owned(),
        ));
    }
    out.extend_from_slice(&[kind as u8, u8::try_from(values.len()).unwrap_or(u8::MAX)]);
    let pairs = key.iter().zip(values);
    let pairs = pairs.map(|(encoding, value)| (*encoding, of_text(*encoding, value.as_ref())));
    value::put_row(out, values.len(), pairs)
        .map_err(|_| Error::Usage("a value does not fit its column's type".to_owned()))
}

impl ScanPage {
    /// Reads the end of the answer.
    pub(crate) fn finish(mut self, bytes: Vec<u8>) -> Result<ScanPage> {
        self.bytes = bytes;
        let mut reader = Reader::new(&self.bytes);
        while self.next_row(&mut reader)?.is_some() {}
        let continuation = reader.bytes().ok_or(Error::Protocol("the end of a scan"))?;
        self.continuation = continuation.to_vec();
        Ok(self)
    }

    fn next_row<'a>(&'a self, reader: &mut Reader<'a>) -> Result<Option<(u64, RowValues<'a>)>> {
        let mut read = || {
            if reader.u8()? == 0 {
                return Some(None);
            }
            let version = if self.with_version { reader.u64()? } else { 0 };
            let values = RowValues::read(reader, &self.columns)?;
            Some(Some((version, values)))
        };
        read().ok_or(Error::Protocol(Malformed("row").0))
    }

    /// The rows: version (0 unless requested), values.
    ///
    /// # Errors
    /// None for a page that was received.
    pub fn rows(&self) -> Result<Vec<(u64, RowValues<'_>)>> {
        let mut reader = Reader::new(&self.bytes);
        let mut rows = Vec::new();
        while let Some((version, values)) = self.next_row(&mut reader)? {
            rows.push((version, values));
        }
        Ok(rows)
    }
}
