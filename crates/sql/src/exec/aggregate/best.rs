//! MIN and MAX: which of two values is to be kept.

use crate::bind::AggregateKind;
use crate::expr::Expr;
use porpoise_types::{CompareAs, Kind, Value, ValueRef, compare};
use std::cmp::Ordering;

/// Whether a value is less, of MIN, or greater, of MAX, than the best one so far.
pub(super) fn is_better(
    kind: AggregateKind,
    value: ValueRef<'_>,
    best: &Value,
    arg: &Expr,
) -> bool {
    let wanted = match kind {
        AggregateKind::Min => Ordering::Less,
        _ => Ordering::Greater,
    };
    let how = match (arg.ty.kind, value) {
        (Kind::Enum | Kind::Set, ValueRef::Bytes(_)) => CompareAs::Bytes(arg.ty.collation),
        _ => compare::same_type(&arg.ty),
    };
    compare::compare_direct(value, best.as_ref(), how) == Some(wanted)
}
