//! MIN and MAX: comparison of a value with the best one so far.

use crate::bind::AggregateKind;
use porpoise_types::{ColumnType, CompareAs, Kind, Value, ValueRef, compare};
use std::cmp::Ordering;

/// Whether `value` replaces the best one so far: it is less (MIN) or greater (MAX).
pub(in crate::exec) fn replaces_extreme(
    value: ValueRef<'_>,
    best: &Value,
    kind: AggregateKind,
    ty: &ColumnType,
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
