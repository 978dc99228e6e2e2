//! MIN and MAX: which of two values is to be kept.

use crate::bind::AggregateKind;
use porpoise_types::{ColumnType, CompareAs, Kind, Value, ValueRef, compare};
use std::cmp::Ordering;

/// Whether a value is less, of MIN, or greater, of MAX, than the best one so far.
pub(super) fn is_better(
    value: ValueRef<'_>,
    best: &Value,
    (kind, ty): (AggregateKind, &ColumnType),
) -> bool {
    let wanted = match kind {
        AggregateKind::Min => Ordering::Less,
        _ => Ordering::Greater,
    };
    let how = match (ty.kind, value) {
        (Kind::Enum | Kind::Set, ValueRef::Bytes(_)) => CompareAs::Bytes(ty.collation),
        _ => compare::same_type(ty),
    };
    best.is_null() || compare::compare_direct(value, best.as_ref(), how) == Some(wanted)
}
