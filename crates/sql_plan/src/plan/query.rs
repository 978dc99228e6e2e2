//! Whole queries: WITH, set operations, VALUES, and parentheses with their own ORDER BY or LIMIT.
//!
//! A query of more than one SELECT becomes a [`Derived`] under a plain `SELECT *`, which has the
//! ORDER BY and LIMIT of the whole.

use super::derived::{
    CteEntry, Derived, References, SetOperation, SetTerm, TableOperator, materialized,
};
use super::from::From;
use super::recursive::recursive;
use super::select::{Clauses, PlanCx, expand_star, finish, plan_select, plan_table};
use super::{QueryPlan, ResultColumn};
use crate::bind::query::Enclosing;
use crate::bind::types::merged_type;
use crate::bind::{Origin, Scope, ScopeColumn, Source};
use crate::error::{Result, SqlError};
use crate::expr::query::FreeRef;
use crate::expr::{Coercibility, Expr, ExprKind};
use crate::parse::ast::{self, Cte, Ident, Query, QueryBody, SetChain, With};
use std::cell::RefCell;
use std::sync::Arc;

/// Plans a query.
///
/// # Errors
/// Errors of binding; 1222 if operands of a set operation differ in their number of columns.
pub fn plan_query(query: &Query<'_>, cx: &PlanCx<'_>) -> Result<QueryPlan> {
    crate::bind::check_stack()?;
    if query.into.is_some() {
        let text = "Misplaced INTO clause, INTO is not allowed inside subqueries, and must be \
                    placed at end of UNION clauses.";
        return Err(SqlError::new(3954, "HY000", text));
    }
    with_ctes(query.with, cx, |cx| plan_body(query, cx))
}

/// Plans something with the entries of its WITH clause in sight.
pub(super) fn with_ctes<T>(
    with: Option<&With<'_>>,
    cx: &PlanCx<'_>,
    plan: impl FnOnce(&PlanCx<'_>) -> Result<T>,
) -> Result<T> {
    match with {
        Some(with) => {
            let ctes = cte_entries(with, cx)?;
            plan(&PlanCx { ctes: &ctes, ..*cx })
        }
        None => plan(cx),
    }
}

fn plan_body(query: &Query<'_>, cx: &PlanCx<'_>) -> Result<QueryPlan> {
    match &query.body {
        QueryBody::Select(select) => plan_select(select, query, cx),
        QueryBody::Table(name) => plan_table(name, query, cx),
        QueryBody::Nested(inner) if query.order_by.is_empty() && query.limit.is_none() => {
            plan_query(inner, cx)
        }
        // ORDER BY and LIMIT after a parenthesized query without its own belong to that query.
        QueryBody::Nested(inner) if has_only_body(inner) => plan_body(
            &Query {
                body: inner.body,
                ..*query
            },
            cx,
        ),
        QueryBody::Nested(inner) => {
            check_global_order(query)?;
            let (plan, free) = plan_nested(cx, |cx| plan_query(inner, cx))?;
            let shown = plan.columns.clone();
            let columns = columns_of(&plan);
            let mut plan = select_all_from(materialized(plan, columns, free), shown, query, cx)?;
            if !cx.is_nested && counts_found_rows(&inner.body) {
                plan.count_found_rows();
            }
            Ok(plan)
        }
        QueryBody::Values(rows) => {
            let (rows, free) = plan_nested(cx, |cx| bound_rows(rows, cx))?;
            let derived = values_table(rows, free, cx)?;
            let shown = derived_result_columns(&derived.columns);
            select_all_from(derived, shown, query, cx)
        }
        QueryBody::Set(chain) => {
            check_global_order(query)?;
            let (set, free) = plan_nested(cx, |cx| plan_set(chain, query, cx))?;
            let columns = columns_of(&set.first);
            let shown = derived_result_columns(&columns);
            let derived = Derived {
                rows: Box::new(TableOperator::Set(Box::new(set))),
                columns,
                free,
                references: References::default(),
            };
            let mut plan = select_all_from(derived, shown, query, cx)?;
            // SQL_CALC_FOUND_ROWS of the first operand applies to the whole.
            if !cx.is_nested && counts_found_rows(&chain.first) {
                plan.count_found_rows();
            }
            Ok(plan)
        }
    }
}

/// Whether a query is a body without any other clause.
fn has_only_body(query: &Query<'_>) -> bool {
    let is_ordered = !query.order_by.is_empty() || query.limit.is_some();
    !is_ordered && query.with.is_none() && query.locks.is_empty() && query.into.is_none()
}

/// Whether the leftmost SELECT has SQL_CALC_FOUND_ROWS.
fn counts_found_rows(body: &QueryBody<'_>) -> bool {
    match body {
        QueryBody::Select(select) => select.options.calc_found_rows,
        QueryBody::Nested(query) => counts_found_rows(&query.body),
        QueryBody::Set(chain) => counts_found_rows(&chain.first),
        QueryBody::Table(_) | QueryBody::Values(_) => false,
    }
}

/// Error 1250 for a column with a table name in the ORDER BY after a set operation or a parenthesized query.
fn check_global_order(query: &Query<'_>) -> Result<()> {
    for item in query.order_by {
        let table = RefCell::new(None);
        item.expr.any(&|e| {
            let ast::ExprKind::Column(name) = &e.kind else {
                return false;
            };
            let found = name.table.map(|table| table.name.to_owned());
            let is_found = found.is_some();
            table.replace(found);
            is_found
        });
        if let Some(table) = table.into_inner() {
            let text = format!(
                "Table '{table}' from one of the SELECTs cannot be used in global ORDER clause"
            );
            return Err(SqlError::new(1250, "42000", text));
        }
    }
    Ok(())
}

/// Plans a nested query that sees the enclosing queries of `cx`, but not the query of `cx` itself.
pub(super) fn plan_nested<T>(
    cx: &PlanCx<'_>,
    plan: impl FnOnce(&PlanCx<'_>) -> Result<T>,
) -> Result<(T, Vec<FreeRef>)> {
    plan_lateral(&Scope::default(), cx, plan)
}

/// As [`plan_nested`], with the tables of the enclosing query in scope (LATERAL).
pub(super) fn plan_lateral<T>(
    scope: &Scope,
    cx: &PlanCx<'_>,
    plan: impl FnOnce(&PlanCx<'_>) -> Result<T>,
) -> Result<(T, Vec<FreeRef>)> {
    let enclosing = Enclosing::new(scope, cx.outer);
    let planned = plan(&PlanCx {
        outer: Some(&enclosing),
        is_nested: true,
        depth: cx.depth + 1,
        merging: super::views::ViewMerging::Plain,
        ..*cx
    })?;
    Ok((planned, enclosing.free.into_inner()))
}

/// A query that has only this body.
pub(super) fn body_only<'a>(body: &QueryBody<'a>, query: &Query<'a>) -> Query<'a> {
    Query {
        with: None,
        body: *body,
        order_by: &[],
        limit: None,
        locks: &[],
        into: None,
        span: query.span,
    }
}

fn plan_set(chain: &SetChain<'_>, query: &Query<'_>, cx: &PlanCx<'_>) -> Result<SetOperation> {
    let mut first = plan_query(&body_only(&chain.first, query), cx)?;
    let mut rest = Vec::with_capacity(chain.rest.len());
    for term in chain.rest {
        rest.push(SetTerm {
            op: term.op,
            all: term.all,
            plan: plan_query(&body_only(&term.body, query), cx)?,
        });
    }
    let mut operands: Vec<&mut QueryPlan> = vec![&mut first];
    operands.extend(rest.iter_mut().map(|t| &mut t.plan));
    unify(&mut operands, cx)?;
    Ok(SetOperation { first, rest })
}

/// Converts all operands to common types.
fn unify(operands: &mut [&mut QueryPlan], cx: &PlanCx<'_>) -> Result<()> {
    let width = operands.first().map_or(0, |p| p.items.len());
    if operands.iter().any(|p| p.items.len() != width) {
        let text = "The used SELECT statements have a different number of columns";
        return Err(SqlError::new(1222, "21000", text));
    }
    for at in 0..width {
        let column: Vec<&Expr> = operands.iter().filter_map(|p| p.items.get(at)).collect();
        let ty = merged_type(&column, cx.env.collation);
        let nullable = column.iter().any(|e| e.nullable);
        for plan in operands.iter_mut() {
            convert_item(plan, at, &ty, nullable);
        }
    }
    Ok(())
}

/// Converts a select-list item to a type.
pub(super) fn convert_item(
    plan: &mut QueryPlan,
    at: usize,
    ty: &porpoise_types::ColumnType,
    nullable: bool,
) {
    if let Some(item) = plan.items.get_mut(at)
        && item.ty != *ty
    {
        let old = std::mem::replace(item, Expr::null());
        *item = converted(old, ty);
    }
    if let Some(column) = plan.columns.get_mut(at) {
        column.ty = ty.clone();
        column.flags = super::columns::type_flags(ty);
        if !nullable {
            column.flags |= porpoise_types::column_flag::NOT_NULL;
        }
    }
}

/// Converts the values of an expression to a type.
pub(super) fn converted(e: Expr, ty: &porpoise_types::ColumnType) -> Expr {
    Expr {
        ty: ty.clone(),
        nullable: e.nullable,
        coercibility: Coercibility::Implicit,
        kind: ExprKind::Coalesce(vec![e]),
    }
}

/// The columns of a query, as an outer query sees them.
pub(super) fn columns_of(plan: &QueryPlan) -> Vec<ScopeColumn> {
    let shown = plan.columns.iter().zip(&plan.items);
    shown
        .map(|(column, item)| ScopeColumn {
            name: column.name.clone(),
            ty: column.ty.clone(),
            nullable: item.nullable || column.flags & porpoise_types::column_flag::NOT_NULL == 0,
        })
        .collect()
}

/// Metadata of columns that belong to no table.
fn derived_result_columns(columns: &[ScopeColumn]) -> Vec<ResultColumn> {
    let one = |c: &ScopeColumn| {
        let mut flags = super::columns::type_flags(&c.ty);
        if !c.nullable {
            flags |= porpoise_types::column_flag::NOT_NULL;
        }
        ResultColumn::without_table(c.name.clone(), c.ty.clone(), flags)
    };
    columns.iter().map(one).collect()
}

/// `SELECT *` over derived rows, with the ORDER BY and LIMIT of `query`.
fn select_all_from(
    derived: Derived,
    shown: Vec<ResultColumn>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    let mut from = From::default();
    from.add(derived_source(Arc::new(derived), String::new()))?;
    let mut items = Vec::new();
    expand_star(&from, None, cx, &mut items)?;
    let clauses = Clauses {
        order_by: query.order_by,
        limit: query.limit,
        ..Clauses::default()
    };
    let mut plan = finish(from, items, clauses, cx)?;
    plan.columns = shown;
    Ok(plan)
}

/// Creates the source of derived rows.
pub(super) fn derived_source(derived: Arc<Derived>, alias: String) -> Source {
    Source {
        alias,
        database: String::new(),
        columns: derived.columns.clone(),
        origin: Origin::Derived(derived),
        partitions: None,
        hints: Default::default(),
        view: None,
        use_index: None,
    }
}

fn bound_rows(rows: &[&[crate::parse::ast::Expr<'_>]], cx: &PlanCx<'_>) -> Result<Vec<Vec<Expr>>> {
    let scope = Scope::default();
    let mut out = Vec::with_capacity(rows.len());
    let width = rows.first().map_or(0, |r| r.len());
    for (at, row) in rows.iter().enumerate() {
        if row.len() != width || width == 0 {
            let text = format!("Column count doesn't match value count at row {}", at + 1);
            return Err(SqlError::new(1136, "21S01", text));
        }
        out.push(cx.binder(&scope, "field list").list(row)?);
    }
    Ok(out)
}

/// VALUES ROW(...), ...: the columns are named column_0, column_1 and so on.
fn values_table(mut rows: Vec<Vec<Expr>>, free: Vec<FreeRef>, cx: &PlanCx<'_>) -> Result<Derived> {
    let width = rows.first().map_or(0, Vec::len);
    let mut columns = Vec::with_capacity(width);
    for at in 0..width {
        let column: Vec<&Expr> = rows.iter().filter_map(|r| r.get(at)).collect();
        let ty = merged_type(&column, cx.env.collation);
        let nullable = column.iter().any(|e| e.nullable);
        for row in &mut rows {
            if let Some(e) = row.get_mut(at)
                && e.ty != ty
            {
                let old = std::mem::replace(e, Expr::null());
                *e = converted(old, &ty);
            }
        }
        columns.push(ScopeColumn {
            name: format!("column_{at}"),
            ty,
            nullable,
        });
    }
    Ok(Derived {
        rows: Box::new(TableOperator::Values(rows)),
        columns,
        free,
        references: References::default(),
    })
}

/// Renames derived columns by a column list; duplicate names are an error.
pub(super) fn name_columns(columns: &mut [ScopeColumn], names: &[Ident<'_>]) -> Result<()> {
    if !names.is_empty() && names.len() != columns.len() {
        let text = "In definition of view, derived table or common table expression, SELECT list \
                    and column names list have different column counts";
        return Err(SqlError::new(1353, "HY000", text));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        name.name.clone_into(&mut column.name);
    }
    for (at, column) in columns.iter().enumerate() {
        let before = columns.iter().take(at);
        if before
            .into_iter()
            .any(|c| c.name.eq_ignore_ascii_case(&column.name))
        {
            let text = format!("Duplicate column name '{}'", column.name);
            return Err(SqlError::new(1060, "42S21", text));
        }
    }
    Ok(())
}

/// The entries of a WITH clause, appended to those of enclosing clauses.
pub(super) fn cte_entries(with: &With<'_>, cx: &PlanCx<'_>) -> Result<Vec<CteEntry>> {
    let mut all = cx.ctes.to_vec();
    for (at, cte) in with.ctes.iter().enumerate() {
        let mut before = with.ctes.iter().take(at);
        if before.any(|c| c.name.name.eq_ignore_ascii_case(cte.name.name)) {
            let text = format!("Not unique table/alias: '{}'", cte.name.name);
            return Err(SqlError::new(1066, "42000", text));
        }
        let derived = if with.recursive {
            recursive(cte, &all, cx)?
        } else {
            plan_cte(cte, &PlanCx { ctes: &all, ..*cx })?
        };
        all.push(CteEntry {
            name: cte.name.name.to_owned(),
            derived: Some(Arc::new(derived)),
            depth: cx.depth,
        });
    }
    Ok(all)
}

pub(super) fn plan_cte(cte: &Cte<'_>, cx: &PlanCx<'_>) -> Result<Derived> {
    let (plan, free) = plan_nested(cx, |cx| plan_query(cte.query, cx))?;
    let mut columns = columns_of(&plan);
    name_columns(&mut columns, cte.columns)?;
    Ok(materialized(plan, columns, free))
}
