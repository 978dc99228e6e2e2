//! Large values in expressions: functions that a row can answer without reading them.
//!
//! A plan fetches the large values that its statement needs whole; of others
//! its rows have length and start, which are enough for the functions here.
//! Everything else reads a value through [`whole`], which refuses one that was
//! not fetched: a plan that forgot a column is an error, never a truncated text.

use super::eval::Slot;
use super::{Expr, ExprKind};
use crate::error::{Result, SqlError};
use porpoise_rows::RowRef;
use porpoise_types::ValueRef;

/// The row behind a slot, when some of its values lie outside.
#[inline]
fn outside<'a>(slot: &Slot<'a>) -> Option<RowRef<'a>> {
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
/// An internal error for a large value that was not fetched.
#[inline]
pub(super) fn whole<'a>(slot: &Slot<'a>, column: usize) -> Result<ValueRef<'a>> {
    if let Some(row) = outside(slot)
        && let Some(large) = row.overflow_column(column)
        && !large.head.whole(large.present)
    {
        return Err(SqlError::internal("a large value that was not fetched"));
    }
    Ok(slot.get(column))
}

/// Part of the column that `arg` names which the row holds, if it is a large value.
pub(super) fn start<'a>(arg: &Expr, row: &[Slot<'a>]) -> Option<ValueRef<'a>> {
    let ExprKind::Column { slot, column, .. } = &arg.kind else {
        return None;
    };
    let stored = outside(row.get(*slot)?)?;
    Some(ValueRef::Bytes(stored.overflow_column(*column)?.present))
}

/// The value of a function of a large value's length.
pub(super) fn length<'a>(name: &str, arg: &Expr, row: &[Slot<'a>]) -> Option<ValueRef<'a>> {
    let ExprKind::Column { slot, column, .. } = &arg.kind else {
        return None;
    };
    let head = outside(row.get(*slot)?)?.overflow_column(*column)?.head;
    let bytes = i64::from(head.bytes);
    Some(ValueRef::Int(match name {
        "LENGTH" | "OCTET_LENGTH" => bytes,
        "BIT_LENGTH" => 8 * bytes,
        "CHAR_LENGTH" | "CHARACTER_LENGTH" => i64::from(head.chars),
        _ => return None,
    }))
}

/// Whether a function looks at the start of its first argument only, as far as
/// its other arguments say.
pub fn looks_at_start(name: &str, args: usize) -> bool {
    matches!(
        (name, args),
        ("LEFT", 2) | ("SUBSTRING" | "SUBSTR" | "MID", 3)
    )
}
