//! Integer expressions, evaluated on rows without decoding them.
//!
//! Expressions that read columns of fixed width, and add, subtract and multiply them, are compiled
//! once for a scan of many rows to a small tree over `i64`: integers as they are, decimals as unscaled
//! numbers, dates in their packed form. The cost is one load and one operation for each node and row.
//!
//! Invariants:
//! 1. If the tree gives a value, [`eval`] gives the same one, without warnings or errors. In all
//!    other cases (division by zero, overflow, a row of an older layout) the result is
//!    [`NumberResult::NotApplicable`], and the row is evaluated by [`eval`].
//! 2. Expressions whose value depends on anything but the row (functions, variables) are not
//!    compiled.
//!
//! Rejected: column-wise (vectorized) evaluation. Rows are scattered in memory, and most queries
//! that matter read few columns of each; a single pass over a row's bytes loads them into the cache
//! once.

use super::eval::{EvalCx, Slot, eval};
use super::{ArithOp, Expr, ExprKind, Load};
use porpoise_rows::catalog::Table;
use porpoise_rows::number::{NUMBER_DIGITS, number_of};
use porpoise_rows::{Number, NumberColumn};
use porpoise_types::{ColumnType, Date, DateTime, Decimal, Kind, Time, Value, ValueRef};

/// Unit of an integer expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Integers.
    Integer,
    /// Decimals, multiplied by ten to the power of this scale.
    Scaled(u8),
    /// Packed dates.
    Date,
    /// Packed dates with times.
    DateTime,
    /// Times in microseconds.
    Time,
}

/// The result of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberResult {
    /// NULL.
    Null,
    /// The number.
    Value(i64),
    /// It has to be evaluated in full.
    NotApplicable,
}

/// Arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Divide,
    Remainder,
}

#[derive(Clone, Debug)]
enum Node<'t> {
    /// A column of the table in this slot, in its own unit.
    Column(usize, NumberColumn<'t>, Unit),
    Const(i64),
    Arith(Op, Box<[Node<'t>; 2]>),
}

/// A compiled integer expression.
#[derive(Clone, Debug)]
pub struct NumberExpr<'t> {
    node: Node<'t>,
    unit: Unit,
}

/// Unit of a type's numbers, if it has one.
fn unit_of(ty: &ColumnType) -> Option<Unit> {
    Some(match ty.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => {
            Unit::Integer
        }
        Kind::Decimal if ty.length <= NUMBER_DIGITS => Unit::Scaled(ty.decimals),
        Kind::Date => Unit::Date,
        Kind::DateTime => Unit::DateTime,
        Kind::Time => Unit::Time,
        _ => return None,
    })
}

/// Converts a value to a number in this unit.
#[inline]
pub fn of_value(value: ValueRef<'_>, unit: Unit) -> NumberResult {
    let number = match (unit, value) {
        (_, ValueRef::Null) => return NumberResult::Null,
        (Unit::Integer, ValueRef::Int(v)) => Some(v),
        (Unit::Integer, ValueRef::UInt(v)) => i64::try_from(v).ok(),
        (Unit::Scaled(scale), ValueRef::Decimal(v)) => number_of(v, scale),
        (Unit::Date, ValueRef::Date(v)) => Some(i64::from(v.packed())),
        (Unit::DateTime, ValueRef::DateTime(v)) => i64::try_from(v.packed()).ok(),
        (Unit::Time, ValueRef::Time(v)) => Some(v.as_micros()),
        _ => None,
    };
    number.map_or(NumberResult::NotApplicable, NumberResult::Value)
}

/// Converts a number to a value of a type; the inverse of [`of_value`].
#[inline]
pub fn to_value(number: i64, unit: Unit, ty: &ColumnType) -> Option<Value> {
    Some(match unit {
        Unit::Integer if ty.unsigned => Value::UInt(u64::try_from(number).ok()?),
        Unit::Integer => Value::Int(number),
        Unit::Scaled(scale) => Value::Decimal(Decimal::from_i128(i128::from(number), scale).ok()?),
        Unit::Date => Value::Date(Date::from_packed(u32::try_from(number).ok()?)?),
        Unit::DateTime => Value::DateTime(DateTime::from_packed(u64::try_from(number).ok()?)?),
        Unit::Time => Value::Time(Time::from_micros(number)?),
    })
}

impl<'t> Node<'t> {
    fn scaled(self, factor: i64) -> Node<'t> {
        match (self, factor) {
            (node, 1) => node,
            (Node::Const(v), factor) if v.checked_mul(factor).is_some() => {
                Node::Const(v.wrapping_mul(factor))
            }
            (node, factor) => Node::Arith(Op::Mul, Box::new([node, Node::Const(factor)])),
        }
    }

    #[inline]
    fn eval(&self, row: &[Slot<'_>]) -> NumberResult {
        match self {
            Node::Const(v) => NumberResult::Value(*v),
            Node::Column(at, column, unit) => match row.get(*at) {
                Some(Slot::Row(row)) => of_row(row.number(column)),
                Some(Slot::Keyed(keyed)) => of_row(keyed.row.number(column)),
                Some(Slot::Values(values)) => match values.get(column.position()) {
                    Some(value) => of_value(*value, *unit),
                    None => NumberResult::Null,
                },
                Some(Slot::Null) | None => NumberResult::Null,
            },
            Node::Arith(op, args) => arith(*op, args, row),
        }
    }
}

#[inline]
fn of_row(number: Number) -> NumberResult {
    match number {
        Number::Value(v) => NumberResult::Value(v),
        Number::Null => NumberResult::Null,
        Number::Other => NumberResult::NotApplicable,
    }
}

fn arith(op: Op, [a, b]: &[Node<'_>; 2], row: &[Slot<'_>]) -> NumberResult {
    let (a, b) = match (a.eval(row), b.eval(row)) {
        (NumberResult::Value(a), NumberResult::Value(b)) => (a, b),
        (NumberResult::NotApplicable, _) | (_, NumberResult::NotApplicable) => {
            return NumberResult::NotApplicable;
        }
        _ => return NumberResult::Null,
    };
    let result = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Divide => a.checked_div(b),
        Op::Remainder => a.checked_rem(b),
    };
    result.map_or(NumberResult::NotApplicable, NumberResult::Value)
}

/// Ten to the power of `scale`.
fn power_of_ten(scale: u8) -> Option<i64> {
    10i64.checked_pow(u32::from(scale))
}

/// Converts both to one unit, in which they compare as their values do.
pub(super) fn to_common_unit<'t>(
    a: NumberExpr<'t>,
    b: NumberExpr<'t>,
) -> Option<(NumberExpr<'t>, NumberExpr<'t>)> {
    let scale = |unit| match unit {
        Unit::Integer => Some(0),
        Unit::Scaled(scale) => Some(scale),
        Unit::Date | Unit::DateTime | Unit::Time => None,
    };
    if a.unit == b.unit {
        return Some((a, b));
    }
    let (x, y) = (scale(a.unit)?, scale(b.unit)?);
    let most = x.max(y);
    let raised = |e: NumberExpr<'t>, from: u8| -> Option<NumberExpr<'t>> {
        Some(NumberExpr {
            node: e.node.scaled(power_of_ten(most - from)?),
            unit: Unit::Scaled(most),
        })
    };
    Some((raised(a, x)?, raised(b, y)?))
}

impl<'t> NumberExpr<'t> {
    /// Compiles an expression over rows of these tables, by slot; `None` if it cannot be compiled.
    pub fn of(e: &Expr, tables: &[Option<&'t Table>], cx: &EvalCx<'_>) -> Option<Self> {
        match &e.kind {
            ExprKind::Column {
                slot,
                column,
                load: Load::Plain,
            } => {
                let unit = unit_of(&e.ty)?;
                let column = tables.get(*slot).copied()??.number_column(*column)?;
                Some(NumberExpr {
                    node: Node::Column(*slot, column, unit),
                    unit,
                })
            }
            ExprKind::Arith(op, args) => {
                let [a, b] = args.as_ref();
                let (x, y) = (Self::of(a, tables, cx)?, Self::of(b, tables, cx)?);
                arithmetic(*op, x, a, y, b, e)
            }
            _ => Self::constant(e, cx),
        }
    }

    /// Converts a constant to a number in its own unit.
    pub(super) fn constant(e: &Expr, cx: &EvalCx<'_>) -> Option<Self> {
        if !e.is_literal() {
            return None;
        }
        let value = eval(e, &[], cx).ok()?;
        let (number, unit) = match value {
            ValueRef::Int(v) => (v, Unit::Integer),
            ValueRef::UInt(v) => (i64::try_from(v).ok()?, Unit::Integer),
            ValueRef::Decimal(v) => {
                let (number, scale) = v.unscaled()?;
                (i64::try_from(number).ok()?, Unit::Scaled(scale))
            }
            ValueRef::Date(v) => (i64::from(v.packed()), Unit::Date),
            ValueRef::DateTime(v) => (i64::try_from(v.packed()).ok()?, Unit::DateTime),
            ValueRef::Time(v) => (v.as_micros(), Unit::Time),
            ValueRef::Null | ValueRef::Double(_) | ValueRef::Bytes(_) => return None,
        };
        let node = Node::Const(number);
        Some(NumberExpr { node, unit })
    }

    /// Converts a constant text of few digits to an integer.
    pub(super) fn of_text(e: &Expr, cx: &EvalCx<'_>) -> Option<Self> {
        if !e.is_literal() {
            return None;
        }
        let ValueRef::Bytes(text) = eval(e, &[], cx).ok()? else {
            return None;
        };
        Some(NumberExpr {
            node: Node::Const(super::convert::plain_integer(text)?),
            unit: Unit::Integer,
        })
    }

    /// The number of a constant.
    pub(super) fn as_constant(&self) -> Option<i64> {
        match self.node {
            Node::Const(number) => Some(number),
            Node::Column(..) | Node::Arith(..) => None,
        }
    }

    /// Whether it is a plain column.
    #[inline]
    pub fn is_column(&self) -> bool {
        matches!(self.node, Node::Column(..))
    }

    /// Unit of the expression.
    #[inline]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Evaluates the expression for a row.
    #[inline]
    pub fn eval(&self, row: &[Slot<'_>]) -> NumberResult {
        self.node.eval(row)
    }
}

/// Compiles arithmetic, if its result is a number of the type of `e`.
fn arithmetic<'t>(
    op: ArithOp,
    x: NumberExpr<'t>,
    a: &Expr,
    y: NumberExpr<'t>,
    b: &Expr,
    e: &Expr,
) -> Option<NumberExpr<'t>> {
    let plain = |e: &Expr| e.ty.is_integer() || e.ty.kind == Kind::Decimal;
    if [a, b, e].into_iter().any(|e| e.ty.unsigned || !plain(e)) {
        return None;
    }
    let (Some(x_scale), Some(y_scale)) = (x.scale(), y.scale()) else {
        return None;
    };
    let whole = e.ty.is_integer() && a.ty.is_integer() && b.ty.is_integer();
    let (op, scale, nodes) = match op {
        ArithOp::Add | ArithOp::Sub => {
            let (x, y) = to_common_unit(x, y)?;
            let op = if op == ArithOp::Add { Op::Add } else { Op::Sub };
            (op, x_scale.max(y_scale), [x.node, y.node])
        }
        ArithOp::Mul => (Op::Mul, x_scale.checked_add(y_scale)?, [x.node, y.node]),
        ArithOp::Mod if whole => (Op::Remainder, 0, [x.node, y.node]),
        ArithOp::IntDiv if whole => (Op::Divide, 0, [x.node, y.node]),
        ArithOp::Div | ArithOp::IntDiv | ArithOp::Mod => return None,
    };
    let unit = if whole {
        Unit::Integer
    } else if e.ty.kind == Kind::Decimal && e.ty.decimals == scale {
        Unit::Scaled(scale)
    } else {
        return None;
    };
    let node = Node::Arith(op, Box::new(nodes));
    Some(NumberExpr { node, unit })
}

impl NumberExpr<'_> {
    /// Scale of the numbers; `None` for dates and times.
    #[inline]
    pub fn scale(&self) -> Option<u8> {
        match self.unit {
            Unit::Integer => Some(0),
            Unit::Scaled(scale) => Some(scale),
            Unit::Date | Unit::DateTime | Unit::Time => None,
        }
    }
}
