//! Conditions that a range of an index implies.
//!
//! Ranges only narrow a scan in general: a bound that does not fit the column's type is dropped, and
//! the conditions are checked on the rows. Bounds on integer columns with integer values are exact,
//! because those that do not fit are exact, too (`exec/keys.rs`): then nothing is left to be checked,
//! and a count need not read the entries.

use super::sargable::{bare_column, flipped};
use super::scan::{Access, Bound, IndexRange, Scan, ScanMode};
use crate::expr::{CmpOp, Expr, ExprKind};
use porpoise_rows::catalog::{IndexPart, Table};
use porpoise_types::{CompareAs, Kind, Value};

/// Rule: a scan whose conditions are exactly those of its range reads no column of the entries, if the
/// query reads none. Called where the query does not.
pub(super) fn drop_implied_conditions(scan: &mut Scan, table: &Table) {
    if scan.mode == ScanMode::Covering && implies_all(scan, table) {
        scan.implied.append(&mut scan.filter);
        scan.mode = ScanMode::CountOnly;
    }
}

/// Whether the range of the scan implies all its conditions.
fn implies_all(scan: &Scan, table: &Table) -> bool {
    let Access::IndexRangeScan { index, ranges, .. } = &scan.access else {
        return false;
    };
    let ([range], Some(index)) = (ranges.as_slice(), table.indexes.get(*index)) else {
        return false;
    };
    let ([keys], Some(part)) = (range.keys.as_slice(), index.parts.first()) else {
        return false;
    };
    let plain = keys.is_empty() && range.except.is_empty() && part.prefix.is_none();
    plain
        && scan
            .filter
            .iter()
            .all(|condition| is_implied(condition, scan.slot, (part, range)))
}

/// Whether a range over an index part implies a condition.
fn is_implied(condition: &Expr, slot: usize, (part, range): (&IndexPart, &IndexRange)) -> bool {
    let (low, high) = if part.desc {
        (&range.high, &range.low)
    } else {
        (&range.low, &range.high)
    };
    let is_column = |e: &Expr| {
        let integer = matches!(
            e.ty.kind,
            Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt
        );
        integer && bare_column(e, slot) == Some(part.column)
    };
    let implies = |op, how, column: &Expr, value: &Expr| {
        let (bound, inclusive) = match op {
            CmpOp::Gt | CmpOp::Ge => (low, op == CmpOp::Ge),
            CmpOp::Lt | CmpOp::Le => (high, op == CmpOp::Le),
            CmpOp::Eq | CmpOp::Ne | CmpOp::NullSafe => return false,
        };
        how == CompareAs::Int && is_column(column) && is_bound(bound.as_ref(), value, inclusive)
    };
    match &condition.kind {
        ExprKind::Compare(op, how, args) => {
            let [a, b] = args.as_ref();
            implies(*op, *how, a, b) || implies(flipped(*op), *how, b, a)
        }
        ExprKind::Between {
            args,
            how: [above, below],
            negated: false,
        } => {
            let [arg, least, most] = args.as_ref();
            implies(CmpOp::Ge, *above, arg, least) && implies(CmpOp::Le, *below, arg, most)
        }
        _ => false,
    }
}

/// Whether a bound is this integer.
fn is_bound(bound: Option<&Bound>, value: &Expr, inclusive: bool) -> bool {
    let Some(bound) = bound.filter(|b| b.pattern.is_none() && b.inclusive == inclusive) else {
        return false;
    };
    match (&bound.value.kind, &value.kind) {
        (ExprKind::Const(a @ (Value::Int(_) | Value::UInt(_))), ExprKind::Const(b)) => a == b,
        (ExprKind::Param(a), ExprKind::Param(b)) => a == b && value.ty.is_integer(),
        _ => false,
    }
}
