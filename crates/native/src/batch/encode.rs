//! Encoding of rows for clients, and decoding of keys.

use crate::convert::{self, Converter};
use crate::plan::{Plan, PlanColumn};
use porpoise_rows::catalog::Table;
use porpoise_rows::{Error, Result, RowRef};
use porpoise_types::ValueRef;
use porpoise_wire::native::value::{self, Encoding};
use porpoise_wire::native::{Malformed, Reader};
use smallvec::SmallVec;

/// Bytes that are reserved for a row at once.
const SMALL_ROW: usize = 4096;

/// Appends a row: its version if requested, then the columns.
///
/// # Errors
/// A stored value that its column's type does not allow.
#[inline]
pub(crate) fn put_row(
    out: &mut Vec<u8>,
    table: &Table,
    columns: &[PlanColumn],
    with_version: bool,
    row: &RowRef<'_>,
) -> Result<()> {
    // Values take about as many bytes as the row, unless they are a few of a large one.
    out.reserve(row.bytes().len().min(SMALL_ROW));
    if with_version {
        out.extend_from_slice(&row.version().to_le_bytes());
    }
    let bitmap = out.len();
    if (1..=8).contains(&columns.len()) {
        out.push(0);
    } else {
        out.resize(bitmap + columns.len().div_ceil(8), 0);
    }
    for (n, column) in columns.iter().enumerate() {
        let value = row.get(column.position);
        if value.is_null() {
            if let Some(byte) = out.get_mut(bitmap + n / 8) {
                *byte |= 1 << (n % 8);
            }
        } else if column.converter.transcodes {
            put_transcoded(out, table, column, value)?;
        } else {
            put(out, column.encoding, value)?;
        }
    }
    Ok(())
}

#[inline]
fn put(out: &mut Vec<u8>, encoding: Encoding, stored: ValueRef<'_>) -> Result<()> {
    value::put(out, encoding, stored)
        .map_err(|_| Error::Corrupt("a stored value is not of its column's type".to_owned()))
}

#[cold]
fn put_transcoded(
    out: &mut Vec<u8>,
    table: &Table,
    column: &PlanColumn,
    stored: ValueRef<'_>,
) -> Result<()> {
    let definition = table.columns.get(column.position);
    let definition = definition.ok_or(Error::DefinitionChanged)?;
    let text = Converter::to_utf8(definition, stored)?;
    put(out, column.encoding, text.as_ref())
}

/// Reads the values of a key, and appends the encoded key. The inner error means that a value does
/// not fit its column.
#[inline]
pub(crate) fn read_key(
    plan: &Plan,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> std::result::Result<Result<()>, Malformed> {
    if let [column] = plan.key.as_slice() {
        let value = value::get(reader, column.encoding).ok_or(Malformed("key"))?;
        if column.converter.is_stored_unchanged(value) {
            plan.table.append_key_prefix(plan.index, &[value], out);
            return Ok(Ok(()));
        }
        let columns = std::iter::once((column.position, column.converter));
        let (table, index) = (&plan.table, plan.index);
        return Ok(convert::append_key(table, index, columns, &[value], out));
    }
    let mut values: SmallVec<[ValueRef<'_>; 4]> = SmallVec::new();
    for column in &plan.key {
        values.push(value::get(reader, column.encoding).ok_or(Malformed("key"))?);
    }
    let columns = plan.key.iter().map(|c| (c.position, c.converter));
    Ok(convert::append_key(
        &plan.table,
        plan.index,
        columns,
        &values,
        out,
    ))
}
