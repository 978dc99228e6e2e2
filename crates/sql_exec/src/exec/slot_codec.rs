//! Slots of joined rows as bytes, for temporary files.
//!
//! ```text
//!  no row        0
//!  stored row    1 | length (4) | row
//!  keyed row     2 | length (4) | primary key | length (4) | row
//!  values        3 | count (4) | value ...         values as in `rowstore`
//!  columns       4 | value ...                     the columns of the row that the query reads
//! ```
//!
//! Of a stored row the columns that the query reads are written if these are at most half of its
//! columns, because the time of a spilled join is that of its files. They are read back as values with
//! NULL in place of the others. A row with overflow values is written whole: an expression may need no
//! more than their lengths.

use super::rowstore::{self, Values};
use super::{ExecError, ExecResult};
use crate::bind::Source;
use crate::error::SqlError;
use crate::expr::eval::{KeyedRow, Slot};
use crate::plan::QueryPlan;
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::ValueRef;
use std::rc::Rc;

const NO_ROW: u8 = 0;
const STORED: u8 = 1;
const KEYED: u8 = 2;
const VALUES: u8 = 3;
const COLUMNS: u8 = 4;

/// The error of bytes that are no slot.
pub(super) fn damaged() -> ExecError {
    ExecError::Error(SqlError::internal("a spilled row of a join cannot be read"))
}

fn push_length(length: usize, out: &mut Vec<u8>) -> ExecResult<()> {
    let length = u32::try_from(length).map_err(|_| damaged())?;
    out.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) -> ExecResult<()> {
    push_length(bytes.len(), out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// Writes and reads the rows of one slot.
#[derive(Clone, Default)]
pub(super) struct SlotCodec<'h> {
    /// The stored table, if it is one.
    table: Option<&'h Table>,
    /// The columns that are written of a stored row, ascending; `None` if it is written whole.
    columns: Option<Rc<[usize]>>,
}

/// The codecs of a query's slots.
pub(super) fn slot_codecs(plan: &QueryPlan) -> Rc<[SlotCodec<'_>]> {
    let mut read: Vec<Vec<usize>> = vec![Vec::new(); plan.sources.len()];
    plan.expressions(&mut |e| {
        e.columns(&mut |slot, column| {
            if let Some(columns) = read.get_mut(slot) {
                columns.push(column);
            }
        });
    });
    // A search finds rows by their keys, a LATERAL table reads columns that are in no expression here.
    let lateral = plan.sources.iter();
    let lateral = lateral.fold(0, |slots, source| slots | source.lateral_slots());
    let whole_slots = if plan.has_searches || plan.locks() {
        u64::MAX
    } else {
        lateral
    };
    let sources = plan.sources.iter().zip(read).enumerate();
    let codec = sources.map(|(slot, (source, columns))| {
        let is_whole = whole_slots & 1 << (slot & 63) != 0;
        codec_of(source, columns, is_whole)
    });
    codec.collect()
}

/// The codec of a table of which these columns are read.
fn codec_of(source: &Source, mut columns: Vec<usize>, is_whole: bool) -> SlotCodec<'_> {
    let table = source.table().map(AsRef::as_ref);
    columns.sort_unstable();
    columns.dedup();
    let few = |table: &Table| !is_whole && 2 * columns.len() <= table.columns.len();
    SlotCodec {
        columns: table.is_some_and(few).then(|| columns.into()),
        table,
    }
}

impl<'h> SlotCodec<'h> {
    /// Appends a slot, for [`SlotCodec::decode`].
    pub(super) fn encode(&self, slot: Slot<'_>, out: &mut Vec<u8>) -> ExecResult<()> {
        let columns = |row: &RowRef<'_>| self.columns.as_deref().filter(|_| !row.has_overflow());
        match slot {
            Slot::Null => out.push(NO_ROW),
            Slot::Row(row) => match columns(&row) {
                Some(columns) => write_columns(row, columns, out),
                None => {
                    out.push(STORED);
                    push_bytes(row.bytes(), out)?;
                }
            },
            Slot::Keyed(keyed) => match columns(&keyed.row) {
                Some(columns) => write_columns(keyed.row, columns, out),
                None => {
                    out.push(KEYED);
                    push_bytes(keyed.key, out)?;
                    push_bytes(keyed.row.bytes(), out)?;
                }
            },
            Slot::Values(values) => {
                out.push(VALUES);
                push_length(values.len(), out)?;
                values.iter().for_each(|v| rowstore::write(*v, out));
            }
        }
        Ok(())
    }

    /// Removes a slot from the front of the bytes, which it borrows.
    pub(super) fn decode<'a>(&self, rest: &mut &'a [u8], arena: &'a Bump) -> ExecResult<Slot<'a>>
    where
        'h: 'a,
    {
        let (kind, behind) = rest.split_first().ok_or_else(damaged)?;
        *rest = behind;
        Ok(match (*kind, self.table) {
            (NO_ROW, _) => Slot::Null,
            (STORED, Some(table)) => Slot::Row(RowRef::new(table, bytes(rest)?)?),
            (KEYED, Some(table)) => {
                let key = bytes(rest)?;
                let row = RowRef::new(table, bytes(rest)?)?;
                Slot::Keyed(arena.alloc(KeyedRow { key, row }))
            }
            (COLUMNS, _) => Slot::Values(self.read_columns(rest, arena)?),
            (VALUES, _) => {
                let mut values = Values::new();
                for _ in 0..length(rest)? {
                    values.push(rowstore::read(rest).ok_or_else(damaged)?);
                }
                let values: &'a [ValueRef<'a>] = arena.alloc_slice_copy(&values);
                Slot::Values(values)
            }
            _ => return Err(damaged()),
        })
    }

    /// The columns of a row, each at its position.
    fn read_columns<'a>(
        &self,
        rest: &mut &'a [u8],
        arena: &'a Bump,
    ) -> ExecResult<&'a [ValueRef<'a>]> {
        let columns = self.columns.as_deref().ok_or_else(damaged)?;
        let width = columns.last().map_or(0, |last| last + 1);
        let values = arena.alloc_slice_fill_copy(width, ValueRef::Null);
        for column in columns {
            let value = rowstore::read(rest).ok_or_else(damaged)?;
            if let Some(place) = values.get_mut(*column) {
                *place = value;
            }
        }
        Ok(values)
    }
}

fn write_columns(row: RowRef<'_>, columns: &[usize], out: &mut Vec<u8>) {
    out.push(COLUMNS);
    for column in columns {
        rowstore::write(row.get(*column), out);
    }
}

fn length(rest: &mut &[u8]) -> ExecResult<usize> {
    let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*length) as usize)
}

fn bytes<'a>(rest: &mut &'a [u8]) -> ExecResult<&'a [u8]> {
    let length = length(rest)?;
    let (bytes, behind) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *rest = behind;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_round_trip() {
        let arena = Bump::new();
        let values = [
            ValueRef::Null,
            ValueRef::Int(-7),
            ValueRef::Bytes(b"text"),
            ValueRef::UInt(u64::MAX),
        ];
        let codec = SlotCodec::default();
        let mut out = Vec::new();
        for slot in [Slot::Null, Slot::Values(&values), Slot::Values(&[])] {
            codec.encode(slot, &mut out).unwrap();
        }
        let mut rest = out.as_slice();
        assert!(matches!(
            codec.decode(&mut rest, &arena).unwrap(),
            Slot::Null
        ));
        let Slot::Values(read) = codec.decode(&mut rest, &arena).unwrap() else {
            panic!("no values");
        };
        assert_eq!(read, values);
        let Slot::Values([]) = codec.decode(&mut rest, &arena).unwrap() else {
            panic!("no empty list");
        };
        assert!(codec.decode(&mut rest, &arena).is_err());
        // A stored row needs its table, and no prefix of a list is a list.
        assert!(
            codec
                .decode(&mut [STORED, 0, 0, 0, 0].as_slice(), &arena)
                .is_err()
        );
        out.truncate(out.len() - 6);
        let mut cut = out.get(1..).unwrap();
        assert!(codec.decode(&mut cut, &arena).is_err());
    }
}
