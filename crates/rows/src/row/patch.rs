//! Replacement of some columns in the bytes of a row.
//!
//! A row of the current layout is copied with the bytes of at most one variable column replaced, and fixed-width columns
//! are overwritten in the copy. No column is decoded.

use super::encode::write_fixed;
use super::overflow::IN_ROW;
use super::{HAS_EXPIRY, HEADER, MAX_TABLE_VERSION, RowRef, WIDE_OFFSETS};
use crate::table::Table;
use crate::table::layout::{Layout, Slot, Storage};
use porpoise_types::ValueRef;

/// Appends a copy of `row` in which the columns at these distinct positions have these values. Returns `None`, with `out`
/// unchanged, if the row has another layout than the current one, wide offsets or overflow values; and for a NULL in a NOT NULL
/// column, a value that does not fit or might become an overflow value, and a second value of variable width.
#[must_use]
pub(crate) fn append_patched(
    row: &RowRef<'_>,
    values: &[(usize, ValueRef<'_>)],
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    let done = append(row, values, out);
    if done.is_none() {
        out.truncate(start);
    }
    done
}

fn append(row: &RowRef<'_>, values: &[(usize, ValueRef<'_>)], out: &mut Vec<u8>) -> Option<()> {
    let layout = row.table().derived().current();
    let is_wide = row.bytes().first()? & WIDE_OFFSETS != 0;
    if !std::ptr::eq(layout, row.layout()) || is_wide || row.has_overflow() {
        return None;
    }
    let mut variable = None;
    for (position, value) in values {
        let slot = layout.slot(*position)?;
        if slot.storage == Storage::Bytes && variable.replace((slot, value)).is_some() {
            return None;
        }
    }
    let start = out.len();
    match variable {
        None => out.extend_from_slice(row.bytes()),
        Some((slot, ValueRef::Null)) => append_resized(row, slot, &[], out)?,
        Some((slot, ValueRef::Bytes(bytes))) => append_resized(row, slot, bytes, out)?,
        Some(_) => return None,
    }
    let copy = out.get_mut(start..)?;
    for (position, value) in values {
        set_fixed(row.table(), layout, copy, *position, *value)?;
    }
    Some(())
}

/// Appends a copy of the row with other bytes in a variable column.
fn append_resized(row: &RowRef<'_>, slot: &Slot, new: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (bytes, data) = (row.bytes(), row.data_start());
    let first = match slot.at.checked_sub(1) {
        None => 0,
        Some(before) => row.offset(before)?,
    };
    let (before, rest) = bytes.split_at_checked(data + first)?;
    let old = row.offset(slot.at)?.checked_sub(first)?;
    let after = rest.get(old..)?;
    let size = first + new.len() + after.len();
    if new.len() > IN_ROW || size > usize::from(u16::MAX) {
        return None;
    }
    let start = out.len();
    out.reserve(before.len() + new.len() + after.len());
    out.extend_from_slice(before);
    out.extend_from_slice(new);
    out.extend_from_slice(after);
    if new.len() == old {
        return Some(());
    }
    let offsets = start + row.offsets_start() + 2 * slot.at..start + data;
    for place in out.get_mut(offsets)?.chunks_exact_mut(2) {
        let place: &mut [u8; 2] = place.try_into().ok()?;
        let end = usize::from(u16::from_le_bytes(*place)) + new.len();
        *place = u16::try_from(end.checked_sub(old)?).ok()?.to_le_bytes();
    }
    Some(())
}

/// Sets the null bit of a column in the bytes of a row, and its value if its width is fixed.
fn set_fixed(
    table: &Table,
    layout: &Layout,
    row: &mut [u8],
    position: usize,
    value: ValueRef<'_>,
) -> Option<()> {
    let slot = layout.slot(position)?;
    let has_expiry = row.first()? & HAS_EXPIRY != 0;
    let body = if has_expiry { HEADER + 8 } else { HEADER };
    let is_null = matches!(value, ValueRef::Null);
    if is_null && !table.columns.get(position)?.nullable {
        return None;
    }
    let bit = 1 << (slot.number % 8);
    let nulls = row.get_mut(body + slot.number / 8)?;
    *nulls = if is_null { *nulls | bit } else { *nulls & !bit };
    if slot.storage == Storage::Bytes {
        return Some(());
    }
    let at = body + slot.at;
    let place = row.get_mut(at..at + slot.storage.width())?;
    if is_null {
        place.fill(0);
        return Some(());
    }
    write_fixed(slot.storage, value, place)
}

/// Sets the table version and the row version of a patched row, and `column`, if given, to the row version. Returns `None` if the
/// version does not fit the column.
#[must_use]
pub(crate) fn set_version(
    table: &Table,
    row: &mut [u8],
    version: u64,
    column: Option<usize>,
) -> Option<()> {
    let (head, rest) = row.split_first_chunk_mut::<4>()?;
    let flags = u32::from(*head.first()?);
    *head = (table.version.min(MAX_TABLE_VERSION) << 8 | flags).to_le_bytes();
    *rest.first_chunk_mut::<8>()? = version.to_le_bytes();
    let Some(position) = column else {
        return Some(());
    };
    let layout = table.derived().current();
    set_fixed(table, layout, row, position, ValueRef::UInt(version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Column, ColumnId, TableDef};
    use crate::row::{RowStamp, encode};
    use porpoise_types::{ColumnType, Kind, Value};

    /// Columns: INT, nullable VARBINARY, nullable BIGINT UNSIGNED, VARBINARY, nullable DOUBLE, nullable VARBINARY.
    fn table() -> Table {
        let types = [
            (ColumnType::int(Kind::Int), false),
            (ColumnType::varbinary(9000), true),
            (ColumnType::bigint_unsigned(), true),
            (ColumnType::varbinary(9000), false),
            (ColumnType::double(), true),
            (ColumnType::varbinary(9000), true),
        ];
        let mut id = 0;
        let columns = types.into_iter().map(|(ty, nullable)| {
            id += 1;
            let mut column = Column::new(ColumnId(id), "c", ty);
            column.nullable = nullable;
            column
        });
        Table::new(TableDef {
            columns: columns.collect(),
            ..TableDef::without_columns(1, "d", "t")
        })
    }

    fn value(table: &Table, position: usize, rng: &mut fastrand::Rng) -> Value {
        let column = &table.columns[position];
        if column.nullable && rng.u8(0..4) == 0 {
            return Value::Null;
        }
        match column.ty.kind {
            Kind::Int => Value::Int(rng.i64(-5..5)),
            Kind::BigInt => Value::UInt(rng.u64(..)),
            Kind::Double => Value::Double(rng.f64()),
            _ => {
                let len = rng.choice([0, 1, 7, 300, 8192]).unwrap_or(0);
                Value::Bytes((0..len).map(|_| rng.u8(..)).collect())
            }
        }
    }

    #[test]
    fn a_patched_row_has_the_bytes_of_an_encoded_one() {
        let (table, mut rng) = (table(), fastrand::Rng::with_seed(20));
        let mut patched = 0;
        for _ in 0..2000 {
            let columns = 0..table.columns.len();
            let mut values: Vec<Value> = columns.map(|n| value(&table, n, &mut rng)).collect();
            let mut stamp = RowStamp {
                version: 7,
                expiry: rng.u64(0..2),
            };
            let mut old = Vec::new();
            encode(&table, &values, stamp, &mut old).unwrap();
            let variable = rng.choice([1, 3, 5]);
            let mut changed = Vec::new();
            for n in [0, 2, 4].into_iter().chain(variable) {
                if rng.bool() {
                    changed.push((n, value(&table, n, &mut rng)));
                }
            }
            let row = RowRef::new(&table, &old).unwrap();
            let references: Vec<_> = changed.iter().map(|(n, v)| (*n, v.as_ref())).collect();
            // After other bytes, as in a list of rows.
            let mut out = vec![1, 2, 3];
            let done = append_patched(&row, &references, &mut out);
            assert_eq!(done.is_some(), out.len() > 3);
            if done.is_none() {
                continue;
            }
            patched += 1;
            (stamp.version, values[2]) = (9, Value::UInt(9));
            for (n, value) in changed {
                if n != 2 {
                    values[n] = value;
                }
            }
            set_version(&table, &mut out[3..], 9, Some(2)).unwrap();
            let mut expected = Vec::new();
            encode(&table, &values, stamp, &mut expected).unwrap();
            assert_eq!(out[3..], expected);
        }
        assert!(patched > 1900, "{patched}");
    }

    #[test]
    fn a_value_that_needs_more_than_a_copy_is_left_to_the_encoder() {
        let table = table();
        let values = [
            Value::Int(1),
            Value::Null,
            Value::Null,
            Value::Bytes(vec![1; 8192]),
            Value::Null,
            Value::Bytes(b"x".to_vec()),
        ];
        let stamp = RowStamp {
            version: 1,
            expiry: 0,
        };
        let mut old = Vec::new();
        encode(&table, &values, stamp, &mut old).unwrap();
        let row = RowRef::new(&table, &old).unwrap();
        let (long, wide) = (vec![2; IN_ROW + 1], 1 << 40);
        let refused: [&[(usize, ValueRef<'_>)]; 6] = [
            &[(3, ValueRef::Null)],
            &[(0, ValueRef::Null)],
            &[(0, ValueRef::Int(wide))],
            &[(5, ValueRef::Bytes(&long))],
            &[(1, ValueRef::Bytes(b"a")), (5, ValueRef::Bytes(b"b"))],
            &[(6, ValueRef::Int(1))],
        ];
        for patch in refused {
            let mut out = vec![9];
            assert_eq!(append_patched(&row, patch, &mut out), None, "{patch:?}");
            assert_eq!(out, [9]);
        }
    }
}
