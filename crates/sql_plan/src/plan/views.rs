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
//! 3. The query of a view sees no temporary tables.
//! 4. An error inside a view is reported as 1356, so that a client learns nothing about tables that
//!    it may not see.

use super::derived::materialized;
use super::placement::set_named_partitions;
use super::query::{columns_of, derived_source, plan_nested, plan_query};
use super::select::{PlanCx, split_conjuncts};
use super::uses::Object;
use crate::bind::{BindEnv, MergedView, Scope, ScopeColumn, Source};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{
    self, Ident, Query, QueryBody, Select, SelectItem, Statement, TableFactor, TableRef,
};
use crate::parse::{ParseOptions, parse_one, print};
use bumpalo::Bump;
use porpoise_rows::catalog::{CheckOption, View};
use porpoise_types::SqlMode;
use std::sync::Arc;

/// The views that are merged into a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewMerging {
    /// Those that show plain columns of one table: the view of a query.
    Plain,
    /// Those with computed columns and of several tables, too: the statement changes rows of tables
    /// that are joined.
    Joined,
    /// Those with subqueries, too: the statement changes rows of one table.
    OneTable,
}

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

/// Passes the query of a view to `bind`, with the context that the query is bound in; `at` is the view's
/// position among the uses.
fn within_view<T>(
    view: &View,
    at: usize,
    cx: &PlanCx<'_>,
    bind: impl FnOnce(&Query<'_>, &PlanCx<'_>) -> Result<T>,
) -> Result<T> {
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
    let env = BindEnv {
        mode: SqlMode::default(),
        collation: cx.env.collation,
        params: Vec::new(),
        params_are_variables: false,
        database: Some(view.database.clone()),
        div_precision: cx.env.div_precision,
    };
    let shared = cx.system.shared_catalog();
    let within = PlanCx {
        catalog: shared.as_deref().unwrap_or(cx.catalog),
        env: &env,
        text: &view.query,
        outer: None,
        ctes: &[],
        view: Some(&frame),
        ..*cx
    };
    let arena = Bump::new();
    let parsed = parse_one(&arena, view.query.as_bytes(), 0, &ParseOptions::default());
    let bound = match parsed.as_ref().map(|p| &p.statement) {
        Ok(Statement::Query(query)) => bind(query, &within),
        _ => Err(invalid(view)),
    };
    bound.map_err(|e| invalid_view_error(e, view))
}

/// The rows of a view under its name or another; `at` is its position among the uses.
pub(super) fn source(
    view: &Arc<View>,
    alias: Option<&str>,
    at: usize,
    cx: &PlanCx<'_>,
) -> Result<Source> {
    let bind = |query: &Query<'_>, within: &PlanCx<'_>| bind_view(view, alias, query, within);
    let mut source = within_view(view, at, cx, bind)?;
    note_view(view, at, &source, source.use_index, cx);
    source.use_index = Some(at);
    source.alias = alias.unwrap_or(&view.name).to_owned();
    if alias.is_none() {
        source.database.clone_from(&view.database);
    }
    Ok(source)
}

/// Records a view and the use beneath it, whose rows it shows.
fn note_view(view: &View, at: usize, source: &Source, beneath: Option<usize>, cx: &PlanCx<'_>) {
    let columns = source.columns.iter().map(|c| c.name.clone());
    let object = Object::View {
        columns: columns.collect(),
        definer: (!view.invoker).then(|| view.definer.clone()),
    };
    cx.reads.uses.note_object(at, object);
    cx.reads.uses.note_merged(at, beneath);
}

fn bind_view(
    view: &View,
    alias: Option<&str>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<Source> {
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

/// The SELECT of a query that may be merged: its rows are those of its tables that meet conditions.
fn mergeable<'q, 'a>(query: &'q Query<'a>) -> Option<&'q Select<'a>> {
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
    Some(*select).filter(|_| whole && plain)
}

/// The only table of a query that may be merged.
fn only_table<'q, 'a>(query: &'q Query<'a>) -> Option<(&'q Select<'a>, &'q ast::TableSource<'a>)> {
    let select = mergeable(query)?;
    match select.from {
        [
            TableRef {
                first: TableFactor::Table(source),
                joins: [],
            },
        ] => Some((select, source)),
        _ => None,
    }
}

/// The SELECT of a view of several tables whose rows can be changed through it, or of a view over
/// such a view.
fn joined_tables<'q, 'a>(query: &'q Query<'a>, cx: &PlanCx<'_>) -> Option<&'q Select<'a>> {
    let select = mergeable(query)?;
    let joined = match select.from {
        [] => false,
        [
            TableRef {
                first: TableFactor::Table(named),
                joins: [],
            },
        ] => {
            let database = named.name.schema.map(|s| s.name);
            let database = database.or(cx.env.database.as_deref()).unwrap_or_default();
            let view = cx.catalog.view(database, named.name.name.name);
            crate::bind::check_stack().is_ok() && view.is_some_and(|v| is_join_view(v, cx))
        }
        [TableRef { joins: [], .. }] => false,
        _ => true,
    };
    joined.then_some(select)
}

/// Whether rows may be changed through a view of several tables, by the form of its query.
pub(super) fn is_join_view(view: &View, cx: &PlanCx<'_>) -> bool {
    let arena = Bump::new();
    let parsed = parse_one(&arena, view.query.as_bytes(), 0, &ParseOptions::default());
    let query = parsed.as_ref().map(|p| &p.statement);
    let env = BindEnv {
        database: Some(view.database.clone()),
        ..cx.env.clone()
    };
    let within = PlanCx { env: &env, ..*cx };
    match query {
        Ok(Statement::Query(query)) if view.algorithm != "TEMPTABLE" => {
            joined_tables(query, &within).is_some()
        }
        _ => false,
    }
}

/// Passes the SELECT of a view of several tables to `bind`; `None` if no rows can be changed through the
/// view, or `bind` finds so.
pub(super) fn within_join_view<T>(
    view: &View,
    at: usize,
    cx: &PlanCx<'_>,
    bind: impl FnOnce(&Select<'_>, &PlanCx<'_>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    within_view(view, at, cx, |query, within| {
        match joined_tables(query, within) {
            Some(select) if view.algorithm != "TEMPTABLE" => bind(select, within),
            _ => Ok(None),
        }
    })
}

/// Columns and conditions of a view of several tables. Slots are counted from that of its first table.
pub(super) struct JoinViewParts {
    /// Its columns by name.
    pub(super) columns: Vec<(String, Expr)>,
    /// Its conditions.
    pub(super) conditions: Vec<Expr>,
    /// The conditions on rows that are written through it.
    pub(super) check: Vec<Expr>,
}

/// The source that carries the columns of a view of several tables: its first table, whose own
/// columns have no names any more.
pub(super) fn carry_view(
    view: &View,
    at: usize,
    alias: Option<&str>,
    carrier: &mut Source,
    parts: JoinViewParts,
    cx: &PlanCx<'_>,
) -> Result<()> {
    let beneath = carrier.use_index;
    let first_computed = carrier.columns.len();
    let mut computed = Vec::with_capacity(parts.columns.len());
    for (position, (name, e)) in parts.columns.into_iter().enumerate() {
        let name = match view.columns.get(position) {
            Some(given) => given.clone(),
            None if view.columns.is_empty() => name,
            None => return Err(invalid(view)),
        };
        carrier.columns.push(ScopeColumn {
            name,
            ty: e.ty.clone(),
            nullable: e.nullable,
        });
        computed.push(e);
    }
    note_view(view, at, carrier, beneath, cx);
    carrier.alias = alias.unwrap_or(&view.name).to_owned();
    carrier.database = match alias {
        Some(_) => String::new(),
        None => view.database.clone(),
    };
    carrier.use_index = Some(at);
    carrier.view = Some(Arc::new(MergedView {
        database: view.database.clone(),
        name: view.name.clone(),
        base_columns: (first_computed..carrier.columns.len()).collect(),
        first_computed,
        computed,
        joined: Some(beneath),
        conditions: parts.conditions,
        check: parts.check,
    }));
    Ok(())
}

/// The view as a source of its base table, if it shows plain columns of a single table.
fn merge_view(view: &View, query: &Query<'_>, cx: &PlanCx<'_>) -> Result<Option<Source>> {
    let Some((select, named)) = only_table(query).filter(|_| view.algorithm != "TEMPTABLE") else {
        return Ok(None);
    };
    let reads = cx.reads.tables.borrow().len();
    let uses = cx.reads.uses.len();
    let mut base = cx.source(&named.name, named.alias.map(|a| a.name))?;
    set_named_partitions(&mut base, named.partitions)?;
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
    columns.truncate(base.table().map_or(0, |table| table.columns.len()));
    let first_computed = columns.len();
    columns.iter_mut().for_each(|c| c.name.clear());
    let mut computed = Vec::new();
    let mut base_columns = Vec::with_capacity(shown.len());
    for (name, column) in shown {
        match column {
            ViewColumn::Base(position) => {
                if let Some(column) = columns.get_mut(position) {
                    column.name = name;
                }
                base_columns.push(position);
            }
            ViewColumn::Computed(e) => {
                base_columns.push(columns.len());
                columns.push(ScopeColumn {
                    name,
                    ty: e.ty.clone(),
                    nullable: e.nullable,
                });
                computed.push(e);
            }
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
            base_columns,
            first_computed,
            computed,
            joined: None,
            conditions: all,
            check,
        })),
        ..base
    }))
}

/// A column of a merged view.
enum ViewColumn {
    /// A column of the table.
    Base(usize),
    /// An expression, or a column that the view shows already.
    Computed(Expr),
}

/// Names and columns of a view, and its conditions.
type ViewColumns = (Vec<(String, ViewColumn)>, Vec<Expr>);

/// The columns of a simple query of one table; `None` if one is computed and such views are not
/// merged.
fn simple_columns(
    view: &View,
    select: &Select<'_>,
    base: &Source,
    cx: &PlanCx<'_>,
) -> Result<Option<ViewColumns>> {
    let mut scope = Scope::default();
    scope.add(base.clone())?;
    let mut shown: Vec<(String, ViewColumn)> = Vec::new();
    for item in select.items {
        let SelectItem::Expr { expr, alias, .. } = item else {
            return Ok(None);
        };
        let ast::ExprKind::Column(named) = &expr.kind else {
            let Some(column) = computed_column(expr, *alias, &scope, cx) else {
                return Ok(None);
            };
            shown.push(column);
            continue;
        };
        // Below a view, only the columns that the statement uses need privileges.
        let mut binder = cx.binder(&scope, "field list");
        binder.plan = None;
        let bound = binder.expr(expr)?;
        let again = |column: usize| {
            let same = |c: &ViewColumn| matches!(c, ViewColumn::Base(at) if *at == column);
            shown.iter().any(|(_, c)| same(c))
        };
        let column = match bound.kind {
            ExprKind::Column {
                slot: 0, column, ..
            } if !again(column) => ViewColumn::Base(column),
            _ if cx.merging == ViewMerging::Plain => return Ok(None),
            _ => ViewColumn::Computed(cx.binder(&scope, "field list").expr(expr)?),
        };
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
        let allowed = cx.merging == ViewMerging::OneTable;
        if filter.has_subquery() && !allowed {
            return Ok(None);
        }
        let filter = cx.binder(&scope, "where clause").condition(filter)?;
        if filter.has_subquery() && !allowed {
            return Ok(None);
        }
        split_conjuncts(filter, &mut conditions);
    }
    Ok(Some((shown, conditions)))
}

/// The name and expression of a computed column; `None` if such views are not merged, or the
/// expression is that of a view which cannot be (an aggregate).
fn computed_column(
    expr: &ast::Expr<'_>,
    alias: Option<Ident<'_>>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Option<(String, ViewColumn)> {
    let allowed = cx.merging == ViewMerging::OneTable
        || cx.merging == ViewMerging::Joined && !expr.has_subquery();
    let name = alias.filter(|_| allowed)?.name.to_owned();
    let bound = cx.binder(scope, "field list").expr(expr).ok()?;
    Some((name, ViewColumn::Computed(bound)))
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
    let view = Arc::new(view.clone());
    let described = |merging| {
        let at = reads.uses.add(&view.database, &view.name, None);
        source(&view, None, at, &PlanCx { merging, ..cx })
    };
    let source = described(ViewMerging::Plain)?;
    let places = source.star_columns();
    let columns = places.iter().filter_map(|at| source.columns.get(*at));
    let updatable = source.view.is_some()
        || described(ViewMerging::OneTable)?.view.is_some()
        || is_join_view(&view, &cx);
    Ok(ViewDescription {
        columns: columns.cloned().collect(),
        updatable,
    })
}

/// The query of a view in MySQL's spelling, for a session with the default database `current`.
pub fn query_text(view: &View, current: Option<&str>) -> String {
    let arena = Bump::new();
    let parsed = parse_one(&arena, view.query.as_bytes(), 0, &ParseOptions::default());
    match parsed.as_ref().map(|p| &p.statement) {
        Ok(Statement::Query(query)) => {
            let text = print::view_query(query, &view.database, current);
            String::from_utf8_lossy(&text).into_owned()
        }
        _ => view.query.clone(),
    }
}

/// The CREATE VIEW statement that SHOW CREATE VIEW prints in a session with the default database
/// `current`.
pub fn create_text(view: &View, current: Option<&str>) -> String {
    let quote = porpoise_rows::show::quote;
    let (user, host) = view.definer.rsplit_once('@').unwrap_or((&view.definer, ""));
    let security = if view.invoker { "INVOKER" } else { "DEFINER" };
    let columns: Vec<String> = view.columns.iter().map(|c| quote(c)).collect();
    let columns = if columns.is_empty() {
        String::new()
    } else {
        format!(" ({})", columns.join(","))
    };
    let database = if current == Some(view.database.as_str()) {
        String::new()
    } else {
        format!("{}.", quote(&view.database))
    };
    let check = match view.check {
        CheckOption::None => "",
        CheckOption::Local => " WITH LOCAL CHECK OPTION",
        CheckOption::Cascaded => " WITH CASCADED CHECK OPTION",
    };
    format!(
        "CREATE ALGORITHM={} DEFINER={}@{} SQL SECURITY {security} VIEW {database}{}{columns} AS \
         {}{check}",
        view.algorithm,
        quote(user),
        quote(host),
        quote(&view.name),
        query_text(view, current)
    )
}
