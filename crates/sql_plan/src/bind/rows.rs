//! Row comparisons, column by column (manual, "Comparison Functions and Operators"): `=` and `<=>`
//! are a conjunction, `<>` is its negation, and `<`, `<=`, `>`, `>=` are decided by the first
//! column that differs.

use super::Binder;
use super::nodes::conjunction;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{self, BinaryOp};

impl Binder<'_> {
    /// `(a, b) = (c, d)` and `<>`: column by column.
    pub(super) fn row_comparison(
        &mut self,
        op: BinaryOp,
        left: &[ast::Expr<'_>],
        right: &[ast::Expr<'_>],
    ) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(SqlError::operand_columns(left.len()));
        }
        let one = match op {
            BinaryOp::Eq | BinaryOp::NotEq => BinaryOp::Eq,
            BinaryOp::NullSafeEq => BinaryOp::NullSafeEq,
            ordering => return self.row_order(ordering, left, right),
        };
        let mut parts = Vec::with_capacity(left.len());
        for (a, b) in left.iter().zip(right) {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            parts.push(self.operator(one, a, b)?);
        }
        let all = conjunction(parts);
        Ok(match op {
            BinaryOp::NotEq => {
                let nullable = all.nullable;
                Expr::boolean(ExprKind::Not(Box::new(all)), nullable)
            }
            _ => all,
        })
    }

    /// `(a, b) < (c, d)`: a < c OR (a = c AND b < d).
    fn row_order(
        &mut self,
        op: BinaryOp,
        left: &[ast::Expr<'_>],
        right: &[ast::Expr<'_>],
    ) -> Result<Expr> {
        let strict = match op {
            BinaryOp::Less | BinaryOp::LessEq => BinaryOp::Less,
            _ => BinaryOp::Greater,
        };
        let mut whole: Option<Expr> = None;
        for (a, b) in left.iter().zip(right).rev() {
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

    /// `(a, b) IN ((1, 2), (3, 4))`: an OR of row comparisons.
    pub(super) fn row_in_list(
        &mut self,
        left: &[ast::Expr<'_>],
        list: &[ast::Expr<'_>],
        negated: bool,
    ) -> Result<Expr> {
        let mut any = Vec::with_capacity(list.len());
        for item in list {
            let ast::ExprKind::Row(right) = &item.kind else {
                return Err(SqlError::operand_columns(left.len()));
            };
            any.push(self.row_comparison(BinaryOp::Eq, left, right)?);
        }
        let nullable = any.iter().any(|e| e.nullable);
        let found = Expr::boolean(ExprKind::Or(any), nullable);
        Ok(if negated {
            Expr::boolean(ExprKind::Not(Box::new(found)), nullable)
        } else {
            found
        })
    }
}
