//! Planning of a SELECT.
//!
//! 1. The FROM clause becomes the scope. The ON conditions of inner joins are added to the WHERE;
//!    outer joins keep theirs.
//! 2. Conditions are split into conjuncts; each goes to the first operator above which all its
//!    tables are joined.
//! 3. Tables are joined in the cheapest order found; outer joins and STRAIGHT_JOIN keep the textual
//!    order.

use super::QueryPlan;
use super::from::{From, bind_from};
use crate::bind::literal::integer;
use crate::bind::query::SubqueryDemand;
use crate::bind::{Aggregates, Origin, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{
    self, Literal, LockClause, OrderItem, Query, Select, SelectItem, TableName,
};
use porpoise_access::Privileges;
use porpoise_types::Charset;

pub use super::columns::{column_flags, type_flags};
pub use super::context::{NestedReads, PlanCx};
pub(super) use super::finish::{finish, finish_with};
pub use super::from::split_conjuncts;
pub use super::query::plan_query;

/// TABLE t: all rows of a table.
pub(super) fn plan_table(
    name: &TableName<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    let mut from = From::default();
    from.add(cx.source(name, None)?)?;
    let mut items = Vec::new();
    expand_star(&from, None, cx, &mut items)?;
    let clauses = Clauses {
        order_by: query.order_by,
        limit: query.limit,
        locks: query.locks,
        ..Clauses::default()
    };
    finish(from, items, clauses, cx)
}

/// The clauses after FROM.
#[derive(Default)]
pub(super) struct Clauses<'q, 'a> {
    pub(super) filter: Option<&'q ast::Expr<'a>>,
    pub(super) group_by: &'q [OrderItem<'a>],
    pub(super) having: Option<&'q ast::Expr<'a>>,
    pub(super) rollup: bool,
    pub(super) distinct: bool,
    pub(super) order_by: &'q [OrderItem<'a>],
    pub(super) limit: Option<&'q ast::Limit<'a>>,
    pub(super) locks: &'q [LockClause<'a>],
    /// SQL_CALC_FOUND_ROWS.
    pub(super) calc_found_rows: bool,
    /// Number of hidden items at the end of the select list, which DISTINCT ignores.
    pub(super) hidden_items: usize,
}

pub(super) fn plan_select(
    select: &Select<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    plan_select_with(select, query, cx, &mut |_| Ok(Vec::new()))
}

/// Returns further items (columns by slot and position) for the query's tables.
pub(super) type ExtraItems<'m> = dyn FnMut(&Scope) -> Result<Vec<(usize, usize)>> + 'm;

/// As [`plan_select`], with the items of `more`, which is not called for a query with aggregates.
pub(super) fn plan_select_with(
    select: &Select<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
    more: &mut ExtraItems<'_>,
) -> Result<QueryPlan> {
    let mut from = bind_from(select.from, cx)?;
    from.straight |= select.options.straight_join;
    super::hinted::apply(select, &mut from, cx);
    let mut aggregates = Aggregates::default();
    if !select.windows.is_empty() {
        let mut binder = cx.binder(&from.scope, "field list");
        binder.aggregates = Some(&mut aggregates);
        binder.define_windows(select.windows)?;
    }
    let mut items = bind_items(select, &from, &mut aggregates, cx)?;
    let shown = items.len();
    if aggregates.list.is_empty() {
        let binder = cx.binder(&from.scope, "field list");
        for (slot, column) in more(&from.scope)? {
            items.push(Item {
                expr: binder.column_at(slot, column),
                name: String::new(),
            });
        }
    }
    let clauses = Clauses {
        hidden_items: items.len() - shown,
        calc_found_rows: select.options.calc_found_rows && !cx.is_nested,
        filter: select.filter.as_ref(),
        group_by: select.group_by,
        having: select.having.as_ref(),
        rollup: select.rollup,
        distinct: select.options.distinct,
        order_by: query.order_by,
        limit: query.limit,
        locks: query.locks,
    };
    finish_with(from, items, aggregates, clauses, cx)
}

/// Binds the select list.
fn bind_items(
    select: &Select<'_>,
    from: &From,
    aggregates: &mut Aggregates,
    cx: &PlanCx<'_>,
) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::new();
    let has_subquery = |item: &SelectItem<'_>| matches!(item, SelectItem::Expr { expr, .. } if expr.has_subquery());
    let has_subquery = select.items.iter().any(has_subquery);
    let mut preceding: Vec<(String, Expr)> = Vec::new();
    let aliases = select.items.iter().map(|item| match item {
        SelectItem::Expr {
            alias: Some(alias), ..
        } => alias.name,
        _ => "",
    });
    let aliases: Vec<&str> = aliases.collect();
    for (at, item) in select.items.iter().enumerate() {
        match item {
            SelectItem::Wildcard => {
                if from.scope.sources.is_empty() {
                    if cx.demand() == SubqueryDemand::Existence {
                        // EXISTS reads no column.
                        items.push(Item {
                            expr: integer(1),
                            name: "1".to_owned(),
                        });
                        continue;
                    }
                    return Err(SqlError::new(1096, "HY000", "No tables used"));
                }
                expand_star(from, None, cx, &mut items)?;
                note_star(select.span.start, from, &from.star_columns, cx);
            }
            SelectItem::TableWildcard(name) => {
                let columns = expand_star(from, Some(name), cx, &mut items)?;
                note_star(name.name.span.start, from, &columns, cx);
            }
            SelectItem::Expr { expr, alias, span } => {
                let mut binder = cx.binder(&from.scope, "field list");
                binder.aggregates = Some(aggregates);
                binder.windows_allowed = true;
                binder.preceding_aliases = Some(&preceding);
                binder.later_aliases = aliases.get(at..).unwrap_or_default();
                let bound = binder.expr(expr)?;
                if let (Some(alias), true) = (alias, has_subquery) {
                    preceding.push((alias.name.to_owned(), bound.clone()));
                }
                let text = cx.text.get(span.start as usize..span.end as usize);
                let name = match (alias, &expr.kind) {
                    (Some(alias), _) => alias.name.to_owned(),
                    (None, ast::ExprKind::Column(column)) => {
                        let own = defined_name(&from.scope, &bound);
                        own.unwrap_or(column.name.name).to_owned()
                    }
                    (None, ast::ExprKind::Literal(literal)) => literal_name(literal, text),
                    (None, ast::ExprKind::Func(call)) if let Some(name) = name_const(call) => name,
                    (None, _) => text.unwrap_or("?").trim().to_owned(),
                };
                items.push(Item { expr: bound, name });
            }
        }
    }
    Ok(items)
}

/// The name that NAME_CONST() gives its value.
fn name_const(call: &ast::Func<'_>) -> Option<String> {
    match (
        &call.args,
        call.name.name.eq_ignore_ascii_case("NAME_CONST"),
    ) {
        ([name, _], true) => match &name.kind {
            ast::ExprKind::Literal(name) => Some(literal_name(name, None)),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a literal item: strings without quotes, NULL in capitals.
fn literal_name(literal: &Literal<'_>, text: Option<&str>) -> String {
    match literal {
        Literal::String(bytes) => String::from_utf8_lossy(bytes).trim_start().to_owned(),
        Literal::Introduced(string) if text.is_none_or(is_quoted) => {
            let charset = Charset::by_name(string.charset).unwrap_or(Charset::Utf8mb4);
            let text = charset.decoded(string.bytes).0;
            let name = charset.convert(Charset::Utf8mb4, &text).0;
            String::from_utf8_lossy(&name).trim_start().to_owned()
        }
        Literal::Null => "NULL".to_owned(),
        _ => text.unwrap_or("?").trim().to_owned(),
    }
}

/// Whether a literal with an introducer is written in quotes, not in hexadecimal or binary digits.
fn is_quoted(text: &str) -> bool {
    let introducer = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let literal = text.trim().trim_start_matches(introducer).trim_start();
    literal.starts_with(['\'', '"'])
}

/// The defined name of a column of a merged view or derived table, which a result shows instead of
/// the name as written: `TABLE_NAME` for `table_name`.
fn defined_name<'s>(scope: &'s Scope, e: &Expr) -> Option<&'s str> {
    let ExprKind::Column { slot, column, .. } = e.kind else {
        return None;
    };
    let source = scope.sources.get(slot)?;
    let merged = match &source.origin {
        Origin::Stored(_) => source.view.is_some(),
        Origin::Virtual(table) => table.database == "information_schema",
        Origin::Derived(derived) => derived.rows.could_be_merged(),
    };
    merged.then(|| source.columns.get(column).map(|c| c.name.as_str()))?
}

/// An item of the select list.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) expr: Expr,
    pub(super) name: String,
}

/// Records the columns that a star stands for, by its position in the text.
fn note_star(position: u32, from: &From, columns: &[(usize, usize)], cx: &PlanCx<'_>) {
    cx.note_names(|names| {
        let name = |(slot, column): &(usize, usize)| from.scope.qualified_name(*slot, *column);
        let columns = columns.iter().filter_map(name).collect();
        names.stars.insert(position, columns);
    });
}

/// Adds the columns of `*`, or of `only.*`, to the items, and returns their places.
pub(super) fn expand_star(
    from: &From,
    only: Option<&TableName<'_>>,
    cx: &PlanCx<'_>,
    items: &mut Vec<Item>,
) -> Result<Vec<(usize, usize)>> {
    let binder = cx.binder(&from.scope, "field list");
    let mut show = |slot: usize, column: usize, name: &str| {
        items.push(Item {
            expr: binder.column_at(slot, column),
            name: name.to_owned(),
        });
    };
    let whole = |source: &Source| {
        if let Some(at) = source.use_index {
            cx.reads.uses.note_whole(at, Privileges::SELECT);
        }
    };
    let Some(only) = only else {
        from.scope.sources.iter().for_each(whole);
        for (slot, column) in &from.star_columns {
            let name = from.scope.column(*slot, *column).map_or("", |c| &c.name);
            show(*slot, *column, name);
        }
        return Ok(from.star_columns.clone());
    };
    let (mut found, mut columns) = (false, Vec::new());
    for (slot, source) in from.scope.sources.iter().enumerate() {
        let database = only.schema.as_ref();
        if source.alias.eq_ignore_ascii_case(only.name.name)
            && database.is_none_or(|d| d.name == source.database)
        {
            found = true;
            whole(source);
            for position in source.star_columns() {
                let name = source.columns.get(position).map_or("", |c| &c.name);
                show(slot, position, name);
                columns.push((slot, position));
            }
        }
    }
    if found {
        Ok(columns)
    } else {
        let text = format!("Unknown table '{}'", only.name.name);
        Err(SqlError::new(1051, "42S02", text))
    }
}

/// Row count and offset of a LIMIT.
pub fn limits(
    limit: Option<&ast::Limit<'_>>,
    cx: &PlanCx<'_>,
) -> Result<(Option<Expr>, Option<Expr>)> {
    let Some(limit) = limit else {
        return Ok((None, None));
    };
    let scope = Scope::default();
    let count = cx.binder(&scope, "limit clause").expr(&limit.count)?;
    let offset = match &limit.offset {
        Some(offset) => Some(cx.binder(&scope, "limit clause").expr(offset)?),
        None => None,
    };
    Ok((Some(count), offset))
}
