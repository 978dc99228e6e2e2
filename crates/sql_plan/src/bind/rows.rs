//! Row comparisons, column by column (manual, "Comparison Functions and Operators"): `=` and `<=>`
//! are a conjunction, `<>` is its negation, and `<`, `<=`, `>`, `>=` are decided by the first
//! column that differs. Nested rows of the same form are compared as if they were flat, which has the
//! same result.

use super::Binder;
use super::nodes::{conjunction, negated};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{self, BinaryOp};

/// The pairs of columns that a comparison of two rows compares. Error 1241 if their forms differ.
fn pairs<'e, 'a>(
    left: &'e [ast::Expr<'a>],
    right: &'e [ast::Expr<'a>],
) -> Result<Vec<(&'e ast::Expr<'a>, &'e ast::Expr<'a>)>> {
    if left.len() != right.len() {
        return Err(SqlError::operand_columns(left.len()));
    }
    let mut all = Vec::with_capacity(left.len());
    for (a, b) in left.iter().zip(right) {
        match (&a.kind, &b.kind) {
            (ast::ExprKind::Row(a), ast::ExprKind::Row(b)) => all.extend(pairs(a, b)?),
            (ast::ExprKind::Row(row), _) => return Err(SqlError::operand_columns(row.len())),
            (_, ast::ExprKind::Row(_)) => return Err(SqlError::operand_columns(1)),
            _ => all.push((a, b)),
        }
    }
    Ok(all)
}

impl Binder<'_> {
    /// `(a, b) = (c, d)` and `<>`: column by column.
    pub(super) fn row_comparison(
        &mut self,
        op: BinaryOp,
        left: &[ast::Expr<'_>],
        right: &[ast::Expr<'_>],
    ) -> Result<Expr> {
        let pairs = pairs(left, right)?;
        let one = match op {
            BinaryOp::Eq | BinaryOp::NotEq => BinaryOp::Eq,
            BinaryOp::NullSafeEq => BinaryOp::NullSafeEq,
            ordering => return self.row_order(ordering, &pairs),
        };
        let mut parts = Vec::with_capacity(pairs.len());
        for (a, b) in pairs {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            parts.push(self.operator(one, a, b)?);
        }
        let all = conjunction(parts);
        Ok(negated(all, op == BinaryOp::NotEq))
    }

    /// `(a, b) < (c, d)`: a < c OR (a = c AND b < d).
    fn row_order(
        &mut self,
        op: BinaryOp,
        pairs: &[(&ast::Expr<'_>, &ast::Expr<'_>)],
    ) -> Result<Expr> {
        let strict = match op {
            BinaryOp::Less | BinaryOp::LessEq => BinaryOp::Less,
            _ => BinaryOp::Greater,
        };
        let mut whole: Option<Expr> = None;
        for (a, b) in pairs.iter().rev() {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            whole = Some(match whole {
                None => self.operator(op, a, b)?,
                Some(rest) => {
                    let before = self.operator(strict, a.clone(), b.clone())?;
                    let equal = self.operator(BinaryOp::Eq, a, b)?;
                    let then = conjunction(vec![equal, rest]);
                    let nullable = before.nullable || then.nullable;
                    Expr::boolean(ExprKind::Or(vec![before, then]), nullable)
                }
            });
        }
        whole.ok_or_else(|| SqlError::operand_columns(1))
    }

    /// `(a, b) IN ((1, 2), (3, 4))`: an OR of row comparisons. Rows may be subqueries.
    pub(super) fn row_in_list(
        &mut self,
        row: &ast::Expr<'_>,
        list: &[ast::Expr<'_>],
        is_negated: bool,
    ) -> Result<Expr> {
        let mut any = Vec::with_capacity(list.len());
        for item in list {
            any.push(self.comparison_of(BinaryOp::Eq, row, item)?);
        }
        let nullable = any.iter().any(|e| e.nullable);
        let found = Expr::boolean(ExprKind::Or(any), nullable);
        Ok(negated(found, is_negated))
    }
}
