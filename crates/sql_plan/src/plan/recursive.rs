//! Recursive common table expressions (manual, "Recursive Common Table Expressions").
//!
//! Self-references are found by planning: the name has no columns yet, which is reported as an
//! internal error ([`PENDING`]). The operands of the UNION before the first that fails so are the
//! seed and determine the columns; then the others are planned again.

use super::QueryPlan;
use super::derived::{CteEntry, Derived, Recursive, References, TableOperator, working_table};
use super::query::{
    body_only, columns_of, convert_item, converted, name_columns, plan_cte, plan_nested, plan_query,
};
use super::select::PlanCx;
use crate::bind::nodes::node;
use crate::bind::special::text_literal;
use crate::bind::{Origin, ScopeColumn, Source};
use crate::error::{Result, SqlError};
use crate::expr::query::FreeRef;
use crate::expr::{Expr, ExprKind};
use crate::functions;
use crate::parse::ast::{Cte, QueryBody, SetChain, SetOp, SetTerm};
use porpoise_types::{ColumnType, Kind};
use std::sync::Arc;

/// Internal error code of a name whose columns are not known yet; handled in this module.
pub(super) const PENDING: u16 = 1;

/// Plans a common table expression that may refer to itself: operands of its UNION before the first
/// self-reference are the seed, the others the recursive part.
pub(super) fn recursive(cte: &Cte<'_>, known: &[CteEntry], cx: &PlanCx<'_>) -> Result<Derived> {
    let pending = |derived: Option<Arc<Derived>>| {
        let mut all = known.to_vec();
        all.push(CteEntry {
            name: cte.name.name.to_owned(),
            derived,
            depth: cx.depth,
        });
        all
    };
    let all = pending(None);
    let whole = plan_cte(cte, &PlanCx { ctes: &all, ..*cx });
    match whole {
        Err(error) if error.code == PENDING => {}
        other => return other,
    }
    let QueryBody::Set(chain) = &cte.query.body else {
        return Err(no_union(cte));
    };
    if chain.rest.iter().any(|t| t.op != SetOp::Union) {
        return Err(no_union(cte));
    }
    let (limit, offset) = recursive_limit(cte, cx)?;
    let (parts, mut free) = plan_nested(&PlanCx { ctes: &all, ..*cx }, |cx| {
        plan_seed(cte, chain, cx).map_err(|e| match e.code {
            PENDING => misplaced(cte),
            _ => e,
        })
    })?;
    let (seed, steps_from) = parts;
    let mut columns = columns_of(&seed);
    name_columns(&mut columns, cte.columns)?;
    for column in &mut columns {
        column.nullable = true;
    }
    let working = Arc::new(working_table(columns.clone()));
    let all = pending(Some(working.clone()));
    let terms = chain.rest.get(steps_from..).unwrap_or_default();
    check_unions(terms)?;
    let cx = &PlanCx { ctes: &all, ..*cx };
    let steps = plan_steps(cte, terms, &working, cx, &mut free)?;
    Ok(Derived {
        rows: Box::new(TableOperator::Recursive(Recursive {
            seed: Box::new(seed),
            steps,
            distinct: terms.iter().any(|term| !term.all),
            working,
            limit,
            offset,
        })),
        columns,
        free,
        references: References::default(),
    })
}

/// Error 3574: a recursive operand precedes a non-recursive one.
fn misplaced(cte: &Cte<'_>) -> SqlError {
    let text = format!(
        "Recursive Common Table Expression '{}' should have one or more non-recursive query \
         blocks followed by one or more recursive ones",
        cte.name.name
    );
    SqlError::new(3574, "HY000", text)
}

/// Error 3573: a recursive expression needs a UNION.
fn no_union(cte: &Cte<'_>) -> SqlError {
    let text = format!(
        "Recursive Common Table Expression '{}' should contain a UNION",
        cte.name.name
    );
    SqlError::new(3573, "HY000", text)
}

/// Error 1235 if a recursive operand of UNION ALL follows one of UNION DISTINCT, and for operands with ORDER BY,
/// LIMIT or DISTINCT.
fn check_unions(terms: &[SetTerm<'_>]) -> Result<()> {
    let mut kinds = terms.iter().map(|term| term.all);
    if kinds.any(|all| !all) && kinds.any(|all| all) {
        return Err(SqlError::not_supported(
            "recursive query blocks with UNION DISTINCT then UNION ALL, in recursive Common Table Expression",
        ));
    }
    let has_refused_clause = |body: &QueryBody<'_>| match body {
        QueryBody::Select(select) => select.options.distinct,
        QueryBody::Nested(query) => !query.order_by.is_empty() || query.limit.is_some(),
        _ => false,
    };
    if terms.iter().any(|term| has_refused_clause(&term.body)) {
        return Err(SqlError::not_supported(
            "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table Expression",
        ));
    }
    Ok(())
}

/// Checks how a recursive operand refers to the working table, which it does `count` times: errors 3574, 3576 and
/// 3577.
fn check_reference(cte: &Cte<'_>, plan: &QueryPlan, count: u32, working: &Derived) -> Result<()> {
    let wrong = |code: u16, rule: &str| {
        let text = format!(
            "In recursive query block of Recursive Common Table Expression '{}', the recursive table must {rule}",
            cte.name.name
        );
        Err(SqlError::new(code, "HY000", text))
    };
    match count {
        0 => return Err(misplaced(cte)),
        1 => {}
        _ => return wrong(3577, "be referenced only once, and not in any subquery"),
    }
    let Some(bound) = &plan.bound else {
        return Ok(());
    };
    let is_working = |source: &Source| match &source.origin {
        Origin::Derived(derived) => std::ptr::eq(derived.as_ref(), working),
        _ => false,
    };
    let slot = bound.from.scope.sources.iter().position(is_working);
    let may_be_first = |slot: usize| {
        let tables = &bound.from.block.tables;
        tables.contains(&slot) && (!bound.from.straight || tables.iter().all(|t| *t >= slot))
    };
    if slot.is_some_and(|slot| !may_be_first(slot)) {
        let rule = "neither be in the right argument of a LEFT JOIN, nor be forced to be non-first with join order hints";
        return wrong(3576, rule);
    }
    Ok(())
}

/// Converts a column of a recursive operand to the type of the seed's column. Longer text is an error in strict
/// mode.
fn convert_to_seed(plan: &mut QueryPlan, at: usize, column: &ScopeColumn) {
    let ty = &column.ty;
    let limited = matches!(
        ty.kind,
        Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary
    );
    if limited
        && let Some(item) = plan.items.get_mut(at)
        && functions::width(item) > ty.length
        && let Some(function) = functions::find("SEED TEXT")
    {
        let value = std::mem::replace(item, Expr::null());
        let value = converted(
            value,
            &ColumnType::text(unlimited_kind(ty.kind), ty.collation),
        );
        let args = vec![value, text_literal(&column.name)];
        *item = node(ExprKind::Call(function, args), ty.clone(), true);
    }
    convert_item(plan, at, ty, true);
}

/// The kind of text without a length limit: of bytes if `kind` is one of bytes, else of characters.
fn unlimited_kind(kind: Kind) -> Kind {
    match kind {
        Kind::Binary | Kind::VarBinary => Kind::LongBlob,
        _ => Kind::LongText,
    }
}

/// Plans the recursive operands, converted to the types of the seed.
fn plan_steps(
    cte: &Cte<'_>,
    terms: &[SetTerm<'_>],
    working: &Derived,
    cx: &PlanCx<'_>,
    free: &mut Vec<FreeRef>,
) -> Result<Vec<QueryPlan>> {
    let columns = &working.columns;
    let mut steps = Vec::with_capacity(terms.len());
    for term in terms {
        let body = body_only(&term.body, cte.query);
        let before = working.references.count();
        let (mut plan, more) = plan_nested(cx, |cx| plan_query(&body, cx))?;
        check_reference(cte, &plan, working.references.count() - before, working)?;
        for reference in more {
            if !free.contains(&reference) {
                free.push(reference);
            }
        }
        if plan.items.len() != columns.len() {
            let text = "The used SELECT statements have a different number of columns";
            return Err(SqlError::new(1222, "21000", text));
        }
        if plan.aggregates() || plan.window().is_some() {
            let text = format!(
                "Recursive Common Table Expression '{}' can contain neither aggregation nor window \
                 functions in recursive query block",
                cte.name.name
            );
            return Err(SqlError::new(3575, "HY000", text));
        }
        for (at, column) in columns.iter().enumerate() {
            convert_to_seed(&mut plan, at, column);
        }
        steps.push(plan);
    }
    Ok(steps)
}

/// LIMIT and OFFSET of the whole expression; ORDER BY is rejected, as in MySQL.
fn recursive_limit(cte: &Cte<'_>, cx: &PlanCx<'_>) -> Result<(Option<Expr>, Option<Expr>)> {
    if cte.query.order_by.is_empty() {
        super::select::limits(cte.query.limit, cx)
    } else {
        Err(SqlError::not_supported(
            "ORDER BY over UNION in recursive Common Table Expression",
        ))
    }
}

/// Plans the operands without self-reference as one query. Also returns how many there are besides
/// the first.
fn plan_seed(cte: &Cte<'_>, chain: &SetChain<'_>, cx: &PlanCx<'_>) -> Result<(QueryPlan, usize)> {
    let plain = |count: usize| -> Result<QueryPlan> {
        let rest = chain.rest.get(..count).unwrap_or_default();
        if rest.is_empty() {
            return plan_query(&body_only(&chain.first, cte.query), cx);
        }
        let part = SetChain {
            first: chain.first,
            rest,
        };
        plan_query(&body_only(&QueryBody::Set(&part), cte.query), cx)
    };
    let mut found = plain(0)?;
    for count in 1..=chain.rest.len() {
        match plain(count) {
            Ok(plan) => found = plan,
            Err(error) if error.code == PENDING => return Ok((found, count - 1)),
            Err(error) => return Err(error),
        }
    }
    Ok((found, chain.rest.len()))
}
