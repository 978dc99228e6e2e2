//! Slots of joined rows as bytes, for temporary files.
//!
//! ```text
//!  no row        0
//!  stored row    1 | length (4) | row
//!  keyed row     2 | length (4) | primary key | length (4) | row
//!  values        3 | count (4) | value ...         values as in `rowstore`
//!  projection    4 | length (4) | row               the columns that the query reads ([`RowProjection`])
//! ```
//!
//! A stored row is reduced to the columns that the query reads if these are at most half of its columns,
//! because a spilled join spends its time on its files. A row with overflow values is written whole: an
//! expression may need no more than their lengths.

use super::rowstore::{self, Values};
use super::{ExecError, ExecResult};
use crate::bind::Source;
use crate::error::SqlError;
use crate::expr::eval::{KeyedRow, Slot};
use crate::plan::QueryPlan;
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_rows::{RowProjection, RowRef};
use porpoise_types::ValueRef;

const NO_ROW: u8 = 0;
const STORED: u8 = 1;
const KEYED: u8 = 2;
const VALUES: u8 = 3;
const PROJECTION: u8 = 4;

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
#[derive(Default)]
pub(super) struct SlotCodec<'h> {
    /// The stored table, if it is one.
    table: Option<&'h Table>,
    /// The columns of stored rows that are written; `None` if rows are written whole.
    projection: Option<RowProjection<'h>>,
}

/// The codecs of a query's slots.
pub(super) fn slot_codecs(plan: &QueryPlan) -> Box<[SlotCodec<'_>]> {
    let mut read: Vec<Vec<usize>> = vec![Vec::new(); plan.sources.len()];
    plan.expressions(&mut |e| {
        e.columns(&mut |slot, column| {
            if let Some(columns) = read.get_mut(slot) {
                columns.push(column);
            }
        });
    });
    // A search needs the keys of rows, and a LATERAL table reads columns that are in no expression of this plan.
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

/// The codec of a source of which these columns are read.
fn codec_of(source: &Source, mut columns: Vec<usize>, is_whole: bool) -> SlotCodec<'_> {
    let table = source.table().map(AsRef::as_ref);
    columns.sort_unstable();
    columns.dedup();
    let reads_few = |table: &Table| !is_whole && 2 * columns.len() <= table.columns.len();
    SlotCodec {
        projection: table
            .filter(|table| reads_few(table))
            .map(|table| RowProjection::new(table, &columns)),
        table,
    }
}

impl<'h> SlotCodec<'h> {
    /// Appends a slot, for [`SlotCodec::decode`].
    pub(super) fn encode(&self, slot: Slot<'_>, out: &mut Vec<u8>) -> ExecResult<()> {
        match slot {
            Slot::Null => out.push(NO_ROW),
            Slot::Row(row) => {
                if !self.push_projection(&row, out) {
                    out.push(STORED);
                    push_bytes(row.bytes(), out)?;
                }
            }
            Slot::Keyed(keyed) => {
                if !self.push_projection(&keyed.row, out) {
                    out.push(KEYED);
                    push_bytes(keyed.key, out)?;
                    push_bytes(keyed.row.bytes(), out)?;
                }
            }
            Slot::Values(values) => {
                out.push(VALUES);
                push_length(values.len(), out)?;
                values.iter().for_each(|v| rowstore::write(*v, out));
            }
        }
        Ok(())
    }

    /// Appends the projection of a row. Returns false, and appends nothing, if the row must be written whole.
    fn push_projection(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> bool {
        let Some(projection) = &self.projection else {
            return false;
        };
        let start = out.len();
        out.extend_from_slice(&[PROJECTION, 0, 0, 0, 0]);
        if !projection.append(row, out) {
            out.truncate(start);
            return false;
        }
        let length = u32::try_from(out.len() - start - 5).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(start + 1..start + 5) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        true
    }

    /// Removes a slot from the front of the bytes, which it borrows.
    pub(super) fn decode<'a>(&'a self, rest: &mut &'a [u8], arena: &'a Bump) -> ExecResult<Slot<'a>>
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
            (PROJECTION, _) => {
                let projection = self.projection.as_ref().ok_or_else(damaged)?;
                Slot::Row(projection.row(bytes(rest)?)?)
            }
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
