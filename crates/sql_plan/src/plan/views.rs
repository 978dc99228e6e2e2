//! Views: names in FROM that stand for a query.
//!
//! A view that shows plain columns of one table, perhaps with a WHERE, is
//! merged: its name becomes a [`Source`] of that table, with the view's names
//! for the columns it shows, and its condition joins those of its block. Such
//! a view can be written through. The rows of any other view are made like
//! those of a derived table.
//!
//! Invariants:
//! 1. The text of a view is bound in the view's own database and in the mode
//!    in which it was written, whatever the session's are.
//! 2. Columns of the table that a merged view does not show have no name.
//! 3. An error inside a view is reported as 1356, so that a client learns nothing about tables that
//!    it may not see.

use super::derived::materialized;
use super::from::bind_from;
use super::query::{columns_of, cte_entries, derived_source, plan_nested, plan_query};
use super::select::{PlanCx, split_conjuncts};
use super::uses::Object;
use crate::bind::{BindEnv, MergedView, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{
    self, ColumnName, Ident, Query, QueryBody, Select, SelectItem, Statement, TableFactor, TableRef,
};
use crate::parse::token::Span;
use crate::parse::{ParseOptions, parse_one};
use bumpalo::Bump;
use porpoise_rows::catalog::{CheckOption, View};
use porpoise_types::SqlMode;
use std::sync::Arc;

/// A view that is being bound, within those around it.
#[derive(Debug)]
pub struct ViewFrame<'a> {
    view: &'a View,
    /// Its position among the uses of the statement.
    at: usize,
    up: Option<&'a ViewFrame<'a>>,
}

impl ViewFrame<'_> {
    /// The view's position among the uses of the statement.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The account with whose rights the view's query runs; `None` for that of the session.
    pub(super) fn definer(&self) -> Option<&str> {
        let mut frame = Some(self);
        while let Some(within) = frame {
            if !within.view.invoker {
                return Some(&within.view.definer);
            }
            frame = within.up;
        }
        None
    }
}

fn invalid(view: &View) -> SqlError {
    let text = format!(
        "View '{}.{}' references invalid table(s) or column(s) or function(s) or definer/invoker \
         of view lack rights to use them",
        view.database, view.name
    );
    SqlError::new(1356, "HY000", text)
}

/// Converts errors that mean that a view's query is no longer valid.
fn invalid_view_error(error: SqlError, view: &View) -> SqlError {
    match error.code {
        1049 | 1051 | 1052 | 1054 | 1060 | 1064 | 1146 | 1305 | 1353 | 1356 => invalid(view),
        _ => error,
    }
}

/// The rows of a view under its name or another; `at` is its position among the uses.
pub(super) fn source(
    view: &Arc<View>,
    alias: Option<&str>,
    at: usize,
    cx: &PlanCx<'_>,
) -> Result<Source> {
    crate::bind::check_stack()?;
    let mut frame = cx.view;
    while let Some(around) = frame {
        if (&around.view.database, &around.view.name) == (&view.database, &view.name) {
            let text = format!(
                "`{}`.`{}` contains view recursion",
                view.database, view.name
            );
            return Err(SqlError::new(1462, "HY000", text));
        }
        frame = around.up;
    }
    let frame = ViewFrame {
        view,
        at,
        up: cx.view,
    };
    let arena = Bump::new();
    let env = BindEnv {
        mode: SqlMode::default(),
        collation: cx.env.collation,
        params: Vec::new(),
        params_are_variables: false,
        database: Some(view.database.clone()),
        div_precision: cx.env.div_precision,
    };
    let within = PlanCx {
        env: &env,
        text: &view.query,
        outer: None,
        ctes: &[],
        view: Some(&frame),
        ..*cx
    };
    let mut source =
        bind_view(view, alias, &arena, &within).map_err(|e| invalid_view_error(e, view))?;
    let columns = source.columns.iter().map(|c| c.name.clone());
    let object = Object::View {
        columns: columns.collect(),
        definer: (!view.invoker).then(|| view.definer.clone()),
    };
    cx.reads.uses.note_object(at, object);
    cx.reads.uses.note_merged(at, source.use_index);
    source.use_index = Some(at);
    source.alias = alias.unwrap_or(&view.name).to_owned();
    if alias.is_none() {
        source.database.clone_from(&view.database);
    }
    Ok(source)
}

fn bind_view(view: &View, alias: Option<&str>, arena: &Bump, cx: &PlanCx<'_>) -> Result<Source> {
    let text = view.query.as_bytes();
    let parsed = parse_one(arena, text, 0, &ParseOptions::default());
    let parsed = parsed.map_err(|_| invalid(view))?;
    let Statement::Query(query) = &parsed.statement else {
        return Err(invalid(view));
    };
    if let Some(merged) = merge_view(view, query, cx)? {
        return Ok(merged);
    }
    let (plan, free) = plan_nested(cx, |cx| plan_query(query, cx))?;
    let mut columns = columns_of(&plan);
    rename(&mut columns, view)?;
    let rows = Arc::new(materialized(plan, columns, free));
    Ok(derived_source(rows, alias.unwrap_or(&view.name).to_owned()))
}

fn rename(columns: &mut [crate::bind::ScopeColumn], view: &View) -> Result<()> {
    if view.columns.is_empty() {
        return Ok(());
    }
    if view.columns.len() != columns.len() {
        return Err(invalid(view));
    }
    for (column, name) in columns.iter_mut().zip(&view.columns) {
        column.name.clone_from(name);
    }
    Ok(())
}

/// The only table of a query that may be merged.
fn only_table<'q, 'a>(query: &'q Query<'a>) -> Option<(&'q Select<'a>, &'q ast::TableSource<'a>)> {
    let QueryBody::Select(select) = &query.body else {
        return None;
    };
    let whole = query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.locks.is_empty()
        && query.into.is_none();
    let plain = !select.options.distinct
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty()
        && !select.rollup;
    match select.from {
        [
            TableRef {
                first: TableFactor::Table(source),
                joins: [],
            },
        ] if whole && plain && source.partitions.is_empty() => Some((select, source)),
        _ => None,
    }
}

/// The view as a source of its base table, if it shows plain columns of a single table.
fn merge_view(view: &View, query: &Query<'_>, cx: &PlanCx<'_>) -> Result<Option<Source>> {
    let Some((select, named)) = only_table(query).filter(|_| view.algorithm != "TEMPTABLE") else {
        return Ok(None);
    };
    let reads = cx.reads.tables.borrow().len();
    let uses = cx.reads.uses.len();
    let base = cx.source(&named.name, named.alias.map(|a| a.name))?;
    let shown = simple_columns(view, select, &base, cx);
    let found = if base.table().is_some() { shown? } else { None };
    let Some((shown, conditions)) = found else {
        // The view is bound again, as a derived table.
        cx.reads.tables.borrow_mut().truncate(reads);
        cx.reads.uses.truncate(uses);
        return Ok(None);
    };
    let beneath = base.view.clone();
    let mut columns = base.columns.clone();
    for column in &mut columns {
        column.name = String::new();
    }
    for (name, position) in &shown {
        if let Some(column) = columns.get_mut(*position) {
            column.name.clone_from(name);
        }
    }
    let mut all = beneath
        .as_ref()
        .map_or_else(Vec::new, |b| b.conditions.clone());
    let mut check = beneath.as_ref().map_or_else(Vec::new, |b| b.check.clone());
    match view.check {
        CheckOption::None => {}
        CheckOption::Local => check.extend(conditions.iter().cloned()),
        CheckOption::Cascaded => {
            check = all.clone();
            check.extend(conditions.iter().cloned());
        }
    }
    all.extend(conditions);
    Ok(Some(Source {
        columns,
        view: Some(Arc::new(MergedView {
            database: view.database.clone(),
            name: view.name.clone(),
            base_columns: shown.into_iter().map(|(_, position)| position).collect(),
            conditions: all,
            check,
        })),
        ..base
    }))
}

/// Names and positions of the view's columns, and its conditions.
type ViewColumns = (Vec<(String, usize)>, Vec<Expr>);

/// The columns of a simple query as columns of its table; `None` if one is computed.
fn simple_columns(
    view: &View,
    select: &Select<'_>,
    base: &Source,
    cx: &PlanCx<'_>,
) -> Result<Option<ViewColumns>> {
    let mut scope = Scope::default();
    scope.add(base.clone())?;
    let mut shown: Vec<(String, usize)> = Vec::new();
    for item in select.items {
        let SelectItem::Expr { expr, alias, .. } = item else {
            return Ok(None);
        };
        let ast::ExprKind::Column(named) = &expr.kind else {
            return Ok(None);
        };
        // Below a view, only the columns that the statement uses need privileges.
        let mut binder = cx.binder(&scope, "field list");
        binder.plan = None;
        let bound = binder.expr(expr)?;
        let ExprKind::Column {
            slot: 0, column, ..
        } = bound.kind
        else {
            return Ok(None);
        };
        if shown.iter().any(|(_, at)| *at == column) {
            return Ok(None);
        }
        let name = alias.map_or(named.name.name, |a| a.name);
        shown.push((name.to_owned(), column));
    }
    if !view.columns.is_empty() {
        if view.columns.len() != shown.len() {
            return Err(invalid(view));
        }
        for ((name, _), given) in shown.iter_mut().zip(&view.columns) {
            name.clone_from(given);
        }
    }
    let mut conditions = Vec::new();
    if let Some(filter) = &select.filter {
        if filter.has_subquery() {
            return Ok(None);
        }
        let filter = cx.binder(&scope, "where clause").expr(filter)?;
        if filter.has_subquery() {
            return Ok(None);
        }
        split_conjuncts(filter, &mut conditions);
    }
    Ok(Some((shown, conditions)))
}

/// The query of a view with an explicit select list: `*` is expanded, and computed columns get
/// their current names.
///
/// # Errors
/// Errors of binding the FROM clause.
pub fn with_explicit_columns<'a>(
    arena: &'a Bump,
    query: &Query<'a>,
    cx: &PlanCx<'_>,
) -> Result<Query<'a>> {
    let QueryBody::Select(select) = &query.body else {
        return Ok(*query);
    };
    if let Some(with) = query.with {
        let ctes = cte_entries(with, cx)?;
        let within = PlanCx { ctes: &ctes, ..*cx };
        return select_with_explicit_columns(arena, query, select, &within);
    }
    select_with_explicit_columns(arena, query, select, cx)
}

fn ident<'a>(arena: &'a Bump, name: &str) -> Ident<'a> {
    Ident {
        name: arena.alloc_str(name),
        span: Span::default(),
    }
}

fn select_with_explicit_columns<'a>(
    arena: &'a Bump,
    query: &Query<'a>,
    select: &Select<'a>,
    cx: &PlanCx<'_>,
) -> Result<Query<'a>> {
    let from = bind_from(select.from, cx)?;
    let mut items: Vec<SelectItem<'a>> = Vec::new();
    let column = |slot: usize, at: usize| -> Option<SelectItem<'a>> {
        let source = from.scope.sources.get(slot)?;
        let name = ColumnName {
            schema: None,
            table: Some(ident(arena, &source.alias)),
            name: ident(arena, &source.columns.get(at)?.name),
        };
        Some(SelectItem::Expr {
            expr: ast::Expr {
                kind: ast::ExprKind::Column(arena.alloc(name)),
                span: Span::default(),
            },
            alias: None,
            span: Span::default(),
        })
    };
    for item in select.items {
        match item {
            SelectItem::Wildcard => {
                items.extend(
                    from.star_columns
                        .iter()
                        .filter_map(|(slot, at)| column(*slot, *at)),
                );
            }
            SelectItem::TableWildcard(name) => {
                let named = |s: &Source| {
                    s.alias.eq_ignore_ascii_case(name.name.name)
                        && name.schema.is_none_or(|d| d.name == s.database)
                };
                let sources = from.scope.sources.iter().enumerate();
                for (slot, source) in sources.filter(|(_, s)| named(s)) {
                    let places = source.star_columns();
                    items.extend(places.into_iter().filter_map(|at| column(slot, at)));
                }
            }
            SelectItem::Expr { expr, alias, span } => {
                let text = cx.text.get(span.start as usize..span.end as usize);
                let plain = alias.is_some() || matches!(expr.kind, ast::ExprKind::Column(_));
                let name = text.map(str::trim).filter(|_| !plain);
                items.push(SelectItem::Expr {
                    expr: *expr,
                    alias: alias.or_else(|| name.map(|n| ident(arena, n))),
                    span: *span,
                });
            }
        }
    }
    let select = Select {
        items: arena.alloc_slice_copy(&items),
        ..*select
    };
    Ok(Query {
        body: QueryBody::Select(arena.alloc(select)),
        ..*query
    })
}

/// Columns and updatability of a view.
#[derive(Clone, Debug)]
pub struct ViewDescription {
    /// Its columns.
    pub columns: Vec<crate::bind::ScopeColumn>,
    /// Whether rows can be changed through it.
    pub updatable: bool,
}

/// The columns of a view under these definitions.
///
/// # Errors
/// 1356 if its query is no longer valid; 1462 for a recursive view.
pub fn describe(
    catalog: &porpoise_rows::catalog::Catalog,
    view: &View,
    system: &dyn crate::bind::SystemVariables,
) -> Result<ViewDescription> {
    let env = BindEnv {
        mode: SqlMode::default(),
        collation: porpoise_types::Collation::UTF8MB4_0900_AI_CI,
        params: Vec::new(),
        params_are_variables: false,
        database: Some(view.database.clone()),
        div_precision: 4,
    };
    let reads = super::select::NestedReads::default();
    let cx = PlanCx::new(catalog, &env, system, "", &reads);
    let at = reads.uses.add(&view.database, &view.name, None);
    let source = source(&Arc::new(view.clone()), None, at, &cx)?;
    let places = source.star_columns();
    let columns = places.iter().filter_map(|at| source.columns.get(*at));
    Ok(ViewDescription {
        columns: columns.cloned().collect(),
        updatable: source.view.is_some(),
    })
}

/// The CREATE VIEW statement that SHOW CREATE VIEW prints.
pub fn create_text(view: &View) -> String {
    let quote = porpoise_rows::show::quote;
    let (user, host) = view.definer.rsplit_once('@').unwrap_or((&view.definer, ""));
    let security = if view.invoker { "INVOKER" } else { "DEFINER" };
    let columns: Vec<String> = view.columns.iter().map(|c| quote(c)).collect();
    let columns = if columns.is_empty() {
        String::new()
    } else {
        format!(" ({})", columns.join(","))
    };
    let check = match view.check {
        CheckOption::None => "",
        CheckOption::Local => " WITH LOCAL CHECK OPTION",
        CheckOption::Cascaded => " WITH CASCADED CHECK OPTION",
    };
    format!(
        "CREATE ALGORITHM={} DEFINER={}@{} SQL SECURITY {security} VIEW {}{columns} AS {}{check}",
        view.algorithm,
        quote(user),
        quote(host),
        quote(&view.name),
        view.query
    )
}
