//! Slots of joined rows as bytes, for temporary files.
//!
//! ```text
//!  no row        0
//!  stored row    1 | length (4) | row
//!  keyed row     2 | length (4) | primary key | length (4) | row
//!  values        3 | count (4) | value ...         values as in `rowstore`
//! ```

use super::rowstore::{self, Values};
use super::{ExecError, ExecResult};
use crate::error::SqlError;
use crate::expr::eval::{KeyedRow, Slot};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::ValueRef;

const NO_ROW: u8 = 0;
const STORED: u8 = 1;
const KEYED: u8 = 2;
const VALUES: u8 = 3;

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

/// Appends a slot, for [`decode`].
pub(super) fn encode(slot: Slot<'_>, out: &mut Vec<u8>) -> ExecResult<()> {
    match slot {
        Slot::Null => out.push(NO_ROW),
        Slot::Row(row) => {
            out.push(STORED);
            push_bytes(row.bytes(), out)?;
        }
        Slot::Keyed(keyed) => {
            out.push(KEYED);
            push_bytes(keyed.key, out)?;
            push_bytes(keyed.row.bytes(), out)?;
        }
        Slot::Values(values) => {
            out.push(VALUES);
            push_length(values.len(), out)?;
            values.iter().for_each(|v| rowstore::write(*v, out));
        }
    }
    Ok(())
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

/// Removes a slot from the front of the bytes, which it borrows. `table` is the stored table of the
/// slot, if it is one.
pub(super) fn decode<'a>(
    table: Option<&'a Table>,
    rest: &mut &'a [u8],
    arena: &'a Bump,
) -> ExecResult<Slot<'a>> {
    let (kind, behind) = rest.split_first().ok_or_else(damaged)?;
    *rest = behind;
    Ok(match (*kind, table) {
        (NO_ROW, _) => Slot::Null,
        (STORED, Some(table)) => Slot::Row(RowRef::new(table, bytes(rest)?)?),
        (KEYED, Some(table)) => {
            let key = bytes(rest)?;
            let row = RowRef::new(table, bytes(rest)?)?;
            Slot::Keyed(arena.alloc(KeyedRow { key, row }))
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
        let mut out = Vec::new();
        for slot in [Slot::Null, Slot::Values(&values), Slot::Values(&[])] {
            encode(slot, &mut out).unwrap();
        }
        let mut rest = out.as_slice();
        assert!(matches!(
            decode(None, &mut rest, &arena).unwrap(),
            Slot::Null
        ));
        let Slot::Values(read) = decode(None, &mut rest, &arena).unwrap() else {
            panic!("no values");
        };
        assert_eq!(read, values);
        let Slot::Values([]) = decode(None, &mut rest, &arena).unwrap() else {
            panic!("no empty list");
        };
        assert!(decode(None, &mut rest, &arena).is_err());
        // A stored row needs its table, and no prefix of a list is a list.
        assert!(decode(None, &mut [STORED, 0, 0, 0, 0].as_slice(), &arena).is_err());
        out.truncate(out.len() - 6);
        let mut cut = out.get(1..).unwrap();
        assert!(decode(None, &mut cut, &arena).is_err());
    }
}
