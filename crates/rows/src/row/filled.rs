//! A row with its large values put in, as reads show it.

use super::{RowRef, WIDE};
use crate::blob::{Blob, HEAD};
use crate::{Error, Result};

/// A column's position and the parts of its value, from the first one that the
/// row lacks on.
pub(crate) type Filled<'a> = (usize, &'a [Vec<u8>]);

/// 1118 for more bytes than offsets can count.
pub(crate) fn too_big(size: usize) -> Error {
    Error::RowTooBig {
        size,
        limit: u32::MAX as usize,
    }
}

/// The row with values put together; `None` when their parts do not make them.
///
/// # Errors
/// [`Error::RowTooBig`].
pub(crate) fn filled(row: &RowRef<'_>, values: &[Filled<'_>]) -> Result<Option<Vec<u8>>> {
    let extra: usize = values
        .iter()
        .flat_map(|(_, parts)| parts.iter().map(Vec::len))
        .sum();
    let size = row.bytes.len() + extra + row.layout.variable * 2;
    if u32::try_from(size).is_err() {
        return Err(too_big(size));
    }
    let mut out = Vec::with_capacity(size);
    // Everything before the offsets stays as it is.
    out.extend_from_slice(row.bytes.get(..row.body + row.layout.fixed).unwrap_or(&[]));
    if let Some(first) = out.first_mut() {
        *first |= WIDE;
    }
    let columns = || {
        let positions = row.layout.variable_positions.iter();
        positions.enumerate().map(|(number, position)| {
            let found = values.iter().find(|(p, _)| Some(*p) == *position);
            let parts: &[Vec<u8>] = found.map_or(&[], |(_, parts)| parts);
            (row.variable(number).unwrap_or(&[]), parts)
        })
    };
    let mut end = 0usize;
    for (data, parts) in columns() {
        let len = data.len() + parts.iter().map(Vec::len).sum::<usize>();
        if !parts.is_empty() {
            let right = Blob::split(data).is_some_and(|(blob, present)| {
                let all = present.len() + parts.len() * blob.part_bytes();
                len - HEAD == blob.len().min(all)
            });
            if !right || parts.iter().any(Vec::is_empty) {
                return Ok(None);
            }
        }
        end += len;
        out.extend_from_slice(&u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes());
    }
    for (data, parts) in columns() {
        out.extend_from_slice(data);
        for part in parts {
            out.extend_from_slice(part);
        }
    }
    Ok(Some(out))
}
