//! Expressions that partitions are chosen by.

use super::partition::{Columns, refuse};
use crate::error::{Result, SqlError};
use crate::parse::ast::{BinaryOp, Expr, ExprKind, IntervalUnit, Literal, UnaryOp};
use porpoise_rows::partition::expr::{PartitionExpr, PartitionFunction, PartitionOp};

fn not_allowed() -> SqlError {
    refuse(1564, "This partition function is not allowed")
}

pub(super) fn expression(
    columns: &Columns<'_>,
    e: &Expr<'_>,
    depth: usize,
) -> Result<PartitionExpr> {
    if depth > porpoise_rows::partition::expr::MAX_DEPTH {
        return Err(not_allowed());
    }
    let inner = |e: &Expr<'_>| expression(columns, e, depth + 1);
    match &e.kind {
        ExprKind::Column(name) => match columns.position(name.name.name) {
            Some(at) => Ok(PartitionExpr::Column(at)),
            None => Err(SqlError::unknown_column(
                name.name.name,
                "partition function",
            )),
        },
        ExprKind::Literal(Literal::Int(n)) => {
            let n = i64::try_from(*n).map_err(|_| not_allowed())?;
            Ok(PartitionExpr::Int(n))
        }
        ExprKind::Unary(UnaryOp::Plus, e) => inner(e),
        ExprKind::Unary(UnaryOp::Neg, e) => Ok(PartitionExpr::Op(
            PartitionOp::Sub,
            Box::new(PartitionExpr::Int(0)),
            Box::new(inner(e)?),
        )),
        ExprKind::Binary(b) => Ok(PartitionExpr::Op(
            operator(b.op)?,
            Box::new(inner(&b.left)?),
            Box::new(inner(&b.right)?),
        )),
        ExprKind::Chain(chain) => {
            let mut out = inner(&chain.first)?;
            for (o, right) in chain.rest {
                out = PartitionExpr::Op(operator(*o)?, Box::new(out), Box::new(inner(right)?));
            }
            Ok(out)
        }
        ExprKind::Func(call) => {
            if call.name.name.eq_ignore_ascii_case("mod")
                && let [a, b] = call.args
            {
                let (a, b) = (Box::new(inner(a)?), Box::new(inner(b)?));
                return Ok(PartitionExpr::Op(PartitionOp::Mod, a, b));
            }
            let found = PartitionFunction::by_name(call.name.name);
            let (function, args) = found.ok_or_else(not_allowed)?;
            if call.args.len() != args || call.star || call.over.is_some() {
                return Err(not_allowed());
            }
            let args = call.args.iter().map(inner).collect::<Result<_>>()?;
            Ok(PartitionExpr::Call(function, args))
        }
        ExprKind::Extract(unit, e) => {
            let function = part_of_date(*unit)?;
            Ok(PartitionExpr::Call(function, vec![inner(e)?]))
        }
        _ => Err(not_allowed()),
    }
}

fn operator(op: BinaryOp) -> Result<PartitionOp> {
    Ok(match op {
        BinaryOp::Add => PartitionOp::Add,
        BinaryOp::Sub => PartitionOp::Sub,
        BinaryOp::Mul => PartitionOp::Mul,
        BinaryOp::IntDiv => PartitionOp::Div,
        BinaryOp::Mod => PartitionOp::Mod,
        _ => return Err(not_allowed()),
    })
}

/// The function that EXTRACT of a unit stands for.
fn part_of_date(unit: IntervalUnit) -> Result<PartitionFunction> {
    use PartitionFunction as F;
    Ok(match unit {
        IntervalUnit::Microsecond => F::Microsecond,
        IntervalUnit::Second => F::Second,
        IntervalUnit::Minute => F::Minute,
        IntervalUnit::Hour => F::Hour,
        IntervalUnit::Day => F::DayOfMonth,
        IntervalUnit::Month => F::Month,
        IntervalUnit::Quarter => F::Quarter,
        IntervalUnit::Year => F::Year,
        _ => return Err(not_allowed()),
    })
}
