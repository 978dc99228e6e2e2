//! Overflow values in expressions: functions that can be computed without fetching them.
//!
//! A plan fetches the overflow values that its statement needs. Of others a row has the length and
//! a prefix, which are enough for the functions here. Everything else reads a value through
//! [`complete_value`], which fails for a value that was not fetched: a plan that omits a column causes an
//! error, never a truncated text.

use super::eval::Slot;
use super::{Expr, ExprKind};
use crate::error::{Result, SqlError};
use porpoise_rows::RowRef;
use porpoise_types::ValueRef;

/// The row in a slot, if it has overflow values.
#[inline]
fn overflow_row<'a>(slot: &Slot<'a>) -> Option<RowRef<'a>> {
    let row = match slot {
        Slot::Row(row) => *row,
        Slot::Keyed(keyed) => keyed.row,
        Slot::Null | Slot::Values(_) => return None,
    };
    row.has_overflow().then_some(row)
}

/// The value of a column.
///
/// # Errors
/// An internal error for an overflow value that was not fetched.
pub(super) fn complete_value<'a>(slot: &Slot<'a>, column: usize) -> Result<ValueRef<'a>> {
    match slot {
        Slot::Values(values) => Ok(values.get(column).copied().unwrap_or(ValueRef::Null)),
        Slot::Row(row) if !row.has_overflow() => Ok(row.get(column)),
        Slot::Keyed(keyed) if !keyed.row.has_overflow() => Ok(keyed.row.get(column)),
        Slot::Null => Ok(ValueRef::Null),
        Slot::Row(row) => complete_value_of(*row, column),
        Slot::Keyed(keyed) => complete_value_of(keyed.row, column),
    }
}

/// As [`complete_value`], of a row with overflow values.
#[cold]
fn complete_value_of(row: RowRef<'_>, column: usize) -> Result<ValueRef<'_>> {
    if let Some(large) = row.overflow_column(column)
        && !large.head.whole(large.present)
    {
        return Err(SqlError::internal("a large value that was not fetched"));
    }
    Ok(row.get(column))
}

/// The prefix stored in the row, if column `arg` has an overflow value.
pub(super) fn stored_prefix<'a>(arg: &Expr, row: &[Slot<'a>]) -> Option<ValueRef<'a>> {
    let ExprKind::Column { slot, column, .. } = &arg.kind else {
        return None;
    };
    let stored = overflow_row(row.get(*slot)?)?;
    Some(ValueRef::Bytes(stored.overflow_column(*column)?.present))
}

/// Evaluates a length function for an overflow value.
pub(super) fn overflow_length<'a>(
    name: &str,
    arg: &Expr,
    row: &[Slot<'a>],
) -> Option<ValueRef<'a>> {
    let ExprKind::Column { slot, column, .. } = &arg.kind else {
        return None;
    };
    let head = overflow_row(row.get(*slot)?)?
        .overflow_column(*column)?
        .head;
    let bytes = i64::from(head.bytes);
    Some(ValueRef::Int(match name {
        "LENGTH" | "OCTET_LENGTH" => bytes,
        "BIT_LENGTH" => 8 * bytes,
        "CHAR_LENGTH" | "CHARACTER_LENGTH" => i64::from(head.chars),
        _ => return None,
    }))
}

/// Whether a function reads only a prefix of its first argument, whose length its other arguments
/// determine.
pub fn reads_only_prefix(name: &str, args: usize) -> bool {
    matches!(
        (name, args),
        ("LEFT", 2) | ("SUBSTRING" | "SUBSTR" | "MID", 3)
    )
}
