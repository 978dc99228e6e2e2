//! Binding of LIKE, IN over a list, and CASE.

use super::Binder;
use super::nodes::{cast_to, compare, enum_as_number, negated, node};
use super::types::{chosen_type, collation_of_two, compare_alike, comparison_among};
use crate::error::{Result, SqlError};
use crate::expr::collations::{Use, agree};
use crate::expr::{CmpOp, Coercibility, Expr, ExprKind, When};
use crate::parse::ast;
use porpoise_types::{Collation, ColumnType, CompareAs, Kind, SqlMode, Value};

impl Binder<'_> {
    pub(super) fn like(&mut self, like: &ast::Like<'_>) -> Result<Expr> {
        let (arg, pattern) = (self.expr(&like.expr)?, self.expr(&like.pattern)?);
        let no_backslash = self.env.mode.contains(SqlMode::NO_BACKSLASH_ESCAPES);
        let escape = match &like.escape {
            None if no_backslash => None,
            None => Some(b'\\'),
            Some(e) => {
                let escape = self.expr(e)?;
                match escape.as_const() {
                    Some(Value::Null) => Some(b'\\'),
                    Some(Value::Bytes(text)) if text.len() <= 1 => text.first().copied(),
                    _ if escape.is_constant() || is_lone_query(&escape) => {
                        let found = self.call("LIKE ESCAPE", vec![arg, pattern, escape])?;
                        return Ok(negated(found, like.not));
                    }
                    _ => return Err(SqlError::wrong_arguments("ESCAPE")),
                }
            }
        };
        let collation = collation_of_two(&arg, &pattern, "like")?;
        let nullable = arg.nullable || pattern.nullable;
        let kind = ExprKind::Like {
            args: Box::new([arg, pattern]),
            escape,
            collation,
            negated: like.not,
        };
        Ok(Expr::boolean(kind, nullable))
    }

    pub(super) fn in_list(
        &mut self,
        arg: &ast::Expr<'_>,
        list: &[ast::Expr<'_>],
        negated: bool,
    ) -> Result<Expr> {
        let is_row = |e: &ast::Expr<'_>| matches!(e.kind, ast::ExprKind::Row(_));
        if is_row(arg) || list.iter().any(is_row) {
            return self.row_in_list(arg, list, negated);
        }
        let arg = self.expr(arg)?;
        let list = self.list(list)?;
        let numbers = list.iter().all(|item| item.ty.is_numeric());
        let numbered = list
            .first()
            .filter(|_| numbers)
            .and_then(|i| enum_as_number(&arg, i));
        let arg = numbered.unwrap_or(arg);
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let item = self.convert_constant(&arg, item)?;
            items.push((comparison_among(&arg, &item), item));
        }
        let mut operands = vec![&arg];
        let mut how = Vec::with_capacity(items.len());
        for (as_text, item) in &mut items {
            operands.push(item);
            how.push(as_text);
        }
        compare_alike(&operands, &mut how, " IN ")?;
        let nullable = arg.nullable || items.iter().any(|(_, e)| e.nullable);
        let kind = ExprKind::In {
            arg: Box::new(arg),
            list: items,
            negated,
        };
        Ok(Expr::boolean(kind, nullable))
    }

    pub(super) fn case(&mut self, case: &ast::Case<'_>) -> Result<Expr> {
        let mut whens = Vec::with_capacity(case.arms.len());
        for (when, then) in case.arms {
            let condition = match &case.operand {
                Some(operand) => {
                    let (value, operand) = (self.expr(when)?, self.expr(operand)?);
                    let (operand, value) = json_as_scalar(operand, value);
                    compare(CmpOp::Eq, operand, value)?
                }
                None => self.condition(when)?,
            };
            let result = self.expr(then)?;
            whens.push(When { condition, result });
        }
        if case.operand.is_some() {
            let mut operands = Vec::with_capacity(whens.len() + 1);
            let mut how = Vec::with_capacity(whens.len());
            for when in &mut whens {
                if let ExprKind::Compare(_, as_text, sides) = &mut when.condition.kind {
                    let [operand, value] = &**sides;
                    operands.extend([operand, value]);
                    how.push(as_text);
                }
            }
            compare_alike(&operands, &mut how, "case")?;
        }
        let otherwise = case.otherwise.as_ref().map(|e| self.expr(e)).transpose()?;
        let results = whens.iter().map(|when| &when.result);
        let branches: Vec<&Expr> = results.chain(&otherwise).collect();
        agree(&branches, "case", Use::Result)?;
        Ok(self.cases(whens, otherwise))
    }

    pub(super) fn cases(&self, whens: Vec<When>, otherwise: Option<Expr>) -> Expr {
        let mut branches: Vec<&Expr> = whens.iter().map(|w| &w.result).collect();
        branches.extend(otherwise.as_ref());
        let ty = chosen_type(&branches, self.env.collation);
        let nullable = otherwise.is_none() || branches.iter().any(|b| b.nullable);
        let coercibility = branches.iter().map(|b| b.coercibility).min();
        let otherwise = otherwise.map(Box::new);
        let mut e = node(ExprKind::Case { whens, otherwise }, ty, nullable);
        e.coercibility = coercibility.unwrap_or(Coercibility::Literal);
        e
    }
}

/// The operand of CASE and a value after WHEN. Unlike other comparisons, CASE compares JSON as its
/// text, or as a number with numbers.
fn json_as_scalar(operand: Expr, value: Expr) -> (Expr, Expr) {
    let scalar = |e: Expr, numeric: bool| match (e.ty.kind, numeric) {
        (Kind::Json, true) => cast_to(e, ColumnType::double()),
        (Kind::Json, false) => cast_to(e, ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN)),
        _ => e,
    };
    let (operand_is_number, value_is_number) = (operand.ty.is_numeric(), value.ty.is_numeric());
    (
        scalar(operand, value_is_number),
        scalar(value, operand_is_number),
    )
}

/// Number of arms from which on an OR of equalities of one column becomes an IN, which uses a hash
/// table.
const MIN_IN_LIST_ARMS: usize = 64;

/// Binds `a OR b OR ...`. If many arms compare one column with constants or parameters in the same
/// way, they become an IN of that column. The result is the same: true if one value is equal, else
/// unknown if the column or a value is NULL.
pub(super) fn disjunction(args: Vec<Expr>, nullable: bool) -> Expr {
    let first = args.first().and_then(equality);
    let Some((column, how)) = first.filter(|_| args.len() >= MIN_IN_LIST_ARMS) else {
        return Expr::boolean(ExprKind::Or(args), nullable);
    };
    let alike = |e: &Expr| {
        let found = equality(e);
        found.is_some_and(|(c, h)| h == how && same_column(c, column) && c.ty == column.ty)
    };
    if !args.iter().all(alike) {
        return Expr::boolean(ExprKind::Or(args), nullable);
    }
    let arg = Box::new(column.clone());
    let values = args.into_iter().filter_map(|arm| match arm.kind {
        ExprKind::Compare(_, how, sides) => {
            let [_column, value] = *sides;
            Some((how, value))
        }
        _ => None,
    });
    let kind = ExprKind::In {
        arg,
        list: values.collect(),
        negated: false,
    };
    Expr::boolean(kind, nullable)
}

/// The column and the kind of comparison, if the expression is `column = constant`.
fn equality(e: &Expr) -> Option<(&Expr, CompareAs)> {
    let ExprKind::Compare(CmpOp::Eq, how, sides) = &e.kind else {
        return None;
    };
    let [column, value] = sides.as_ref();
    let constant = matches!(value.kind, ExprKind::Const(_) | ExprKind::Param(_));
    let is_column = matches!(column.kind, ExprKind::Column { .. });
    (constant && is_column).then_some((column, *how))
}

fn same_column(a: &Expr, b: &Expr) -> bool {
    let place = |e: &Expr| match e.kind {
        ExprKind::Column { slot, column, .. } => Some((slot, column)),
        _ => None,
    };
    place(a).is_some() && place(a) == place(b)
}

/// Whether an expression is a subquery that refers to no enclosing query.
fn is_lone_query(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Query(test) if test.query.free.is_empty())
}
