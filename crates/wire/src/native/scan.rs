//! Scans: rows of a range of an index, in its order.
//!
//! ```text
//! scan     u8 flags, u16 index, u64 table, u32 version of its definition, u32 limit,
//!          u32 time limit in ms, u16 columns, each u16 position, bytes continuation,
//!          then the lower and the upper bound
//! bound    u8 kind, u8 parts, a bitmap of NULLs and the values of the index's first columns
//! answer   for each row u8 1, u64 version (if requested), a bitmap of NULLs and the values;
//!          then u8 0, bytes continuation: empty at the end of the range
//! ```
//!
//! The server ends an answer at about a mebibyte. The client sends the continuation with the same
//! scan for more.

use super::{Malformed, Reader, put_bytes};

/// Flag: rows have their version.
pub const WITH_VERSION: u8 = 1;

/// Flag: the range is scanned from its end to its start.
pub const REVERSE: u8 = 2;

/// End of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum BoundKind {
    /// The end of the index.
    #[default]
    None = 0,
    /// Keys that begin with the values are in the range.
    Inclusive = 1,
    /// Keys that begin with the values are not in the range.
    Exclusive = 2,
}

impl BoundKind {
    /// Reads a kind.
    pub fn read(reader: &mut Reader<'_>) -> Option<BoundKind> {
        match reader.u8()? {
            0 => Some(BoundKind::None),
            1 => Some(BoundKind::Inclusive),
            2 => Some(BoundKind::Exclusive),
            _ => None,
        }
    }
}

/// A scan, without its bounds' values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// [`WITH_VERSION`], [`REVERSE`].
    pub flags: u8,
    /// Position of the index.
    pub index: u16,
    /// Id of the table.
    pub table: u64,
    /// Version of its definition.
    pub version: u32,
    /// Maximum number of rows of the answer; 0: no limit.
    pub limit: u32,
    /// Time limit in milliseconds; 0: none.
    pub time_limit: u32,
    /// Positions of the columns that are read.
    pub columns: Vec<u16>,
    /// Continuation of the previous answer; empty for the start of the range.
    pub continuation: &'a [u8],
    /// The bounds, encoded.
    pub bounds: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.flags);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.table.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(&self.time_limit.to_le_bytes());
        let columns = u16::try_from(self.columns.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&columns.to_le_bytes());
        for column in &self.columns {
            out.extend_from_slice(&column.to_le_bytes());
        }
        put_bytes(out, self.continuation);
        out.extend_from_slice(self.bounds);
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The body is not a scan.
    pub fn parse(body: &'a [u8]) -> Result<Scan<'a>, Malformed> {
        Scan::read(&mut Reader::new(body)).ok_or(Malformed("scan"))
    }

    fn read(reader: &mut Reader<'a>) -> Option<Scan<'a>> {
        let known = |flags: &u8| flags & !(WITH_VERSION | REVERSE) == 0;
        let flags = reader.u8().filter(known)?;
        let index = reader.u16()?;
        let (table, version) = (reader.u64()?, reader.u32()?);
        let (limit, time_limit) = (reader.u32()?, reader.u32()?);
        let mut columns = Vec::new();
        for _ in 0..reader.u16()? {
            columns.push(reader.u16()?);
        }
        Some(Scan {
            flags,
            index,
            table,
            version,
            limit,
            time_limit,
            columns,
            continuation: reader.bytes()?,
            bounds: reader.rest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_round_trip() {
        let scan = Scan {
            flags: REVERSE,
            index: 2,
            table: 5,
            version: 6,
            limit: 100,
            time_limit: 0,
            columns: vec![0, 4],
            continuation: b"after",
            bounds: &[0, 0, 0, 0],
        };
        let mut out = Vec::new();
        scan.put(&mut out);
        assert_eq!(Scan::parse(&out), Ok(scan));
        for cut in 0..out.len() - 4 {
            assert!(Scan::parse(&out[..cut]).is_err(), "{cut}");
        }
    }
}
