//! From a query's tree to its plan.
//!
//! 1. The FROM clause becomes the scope; inner joins' conditions join the
//!    WHERE, outer joins keep theirs.
//! 2. The conditions are split at AND; each goes to the first step after
//!    which its tables are there.
//! 3. Tables are joined in an order that begins with the most narrowly
//!    addressed one and goes on with what an index leads to; outer joins and
//!    STRAIGHT_JOIN keep the order of the text.

use super::columns::result_column;
use super::from::{From, bind_from};
use super::order::{lock_specs, steps};
use super::{Access, OrderKey, SelectPlan};
use crate::bind::{Aggregates, BindEnv, Binder, Origin, Scope, Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast::{
    self, LockClause, OrderItem, Query, QueryBody, Select, SelectItem, TableName,
};
use crate::virtual_tables;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_types::Collation;
use std::sync::Arc;

pub use super::columns::{column_flags, type_flags};
pub use super::from::split;

/// What planning works with.
pub struct PlanCx<'a> {
    /// The definitions.
    pub catalog: &'a Catalog,
    /// Settings and parameter types.
    pub env: &'a BindEnv,
    /// Looks up `@@name`.
    pub system: &'a dyn SystemVariables,
    /// The statement's text, from which unnamed result columns take their
    /// names.
    pub text: &'a str,
}

impl PlanCx<'_> {
    /// The binder of a clause.
    pub fn binder<'s>(&'s self, scope: &'s Scope, place: &'static str) -> Binder<'s> {
        Binder {
            scope,
            env: self.env,
            place,
            aggregates: None,
            values_allowed: false,
            system: self.system,
            aliases: &[],
        }
    }

    /// The stored or virtual table of that name.
    pub fn source(&self, name: &TableName<'_>, alias: Option<&str>) -> Result<Source> {
        let database = match (&name.schema, &self.env.database) {
            (Some(schema), _) => schema.name,
            (None, Some(database)) => database.as_str(),
            (None, None) => return Err(SqlError::no_database_selected()),
        };
        if let Some(table) = self.catalog.table(database, name.name.name) {
            return Ok(Source::stored(table.clone(), alias));
        }
        if let Some(table) = virtual_tables::find(database, name.name.name) {
            return Ok(Source {
                alias: alias.unwrap_or(table.name).to_owned(),
                database: table.database.to_owned(),
                origin: Origin::Virtual(table),
                columns: (table.columns)(),
            });
        }
        let known = self.catalog.database(database).is_some()
            || database.eq_ignore_ascii_case("information_schema");
        match known {
            true => Err(SqlError::no_table(database, name.name.name)),
            false => Err(SqlError::unknown_database(database)),
        }
    }

    /// The stored table of that name, for statements that change it.
    pub fn table(&self, name: &TableName<'_>) -> Result<Arc<Table>> {
        match self.source(name, None)?.origin {
            Origin::Stored(table) => Ok(table),
            Origin::Virtual(table) => {
                let text = format!(
                    "INSERT, UPDATE, DELETE command denied for table '{}.{}'",
                    table.database, table.name
                );
                Err(SqlError::new(1142, "42000", text))
            }
        }
    }
}

/// Plans a query.
pub fn plan_query(query: &Query<'_>, cx: &PlanCx<'_>) -> Result<SelectPlan> {
    if query.with.is_some() {
        return Err(SqlError::not_supported("WITH"));
    }
    if query.into.is_some() {
        return Err(SqlError::not_supported("SELECT ... INTO"));
    }
    match &query.body {
        QueryBody::Select(select) => plan_select(select, query, cx),
        QueryBody::Nested(inner) if query.order_by.is_empty() && query.limit.is_none() => {
            plan_query(inner, cx)
        }
        QueryBody::Nested(_) => Err(SqlError::not_supported(
            "nested query with ORDER BY or LIMIT",
        )),
        QueryBody::Table(name) => plan_table(name, query, cx),
        QueryBody::Values(_) => Err(SqlError::not_supported("VALUES statement")),
        QueryBody::Set(_) => Err(SqlError::not_supported("UNION, EXCEPT and INTERSECT")),
    }
}

/// TABLE t: all of it.
fn plan_table(name: &TableName<'_>, query: &Query<'_>, cx: &PlanCx<'_>) -> Result<SelectPlan> {
    let mut from = From::default();
    from.scope.add(cx.source(name, None)?)?;
    let mut items = Vec::new();
    star(&from, None, cx, &mut items)?;
    let clauses = Clauses {
        order_by: query.order_by,
        limit: query.limit,
        locks: query.locks,
        ..Clauses::default()
    };
    finish(from, items, clauses, cx)
}

/// The clauses behind FROM.
#[derive(Default)]
struct Clauses<'q, 'a> {
    filter: Option<&'q ast::Expr<'a>>,
    group_by: &'q [OrderItem<'a>],
    having: Option<&'q ast::Expr<'a>>,
    distinct: bool,
    order_by: &'q [OrderItem<'a>],
    limit: Option<&'q ast::Limit<'a>>,
    locks: &'q [LockClause<'a>],
}

fn plan_select(select: &Select<'_>, query: &Query<'_>, cx: &PlanCx<'_>) -> Result<SelectPlan> {
    if select.rollup {
        return Err(SqlError::not_supported("WITH ROLLUP"));
    }
    if !select.windows.is_empty() {
        return Err(SqlError::not_supported("window functions"));
    }
    let mut from = bind_from(select.from, cx)?;
    from.straight |= select.options.straight_join;
    let mut aggregates = Aggregates::default();
    let mut items: Vec<Item> = Vec::new();
    for item in select.items {
        match item {
            SelectItem::Wildcard => {
                if from.scope.sources.is_empty() {
                    return Err(SqlError::new(1096, "HY000", "No tables used"));
                }
                star(&from, None, cx, &mut items)?;
            }
            SelectItem::TableWildcard(name) => star(&from, Some(name), cx, &mut items)?,
            SelectItem::Expr { expr, alias, span } => {
                let mut binder = cx.binder(&from.scope, "field list");
                binder.aggregates = Some(&mut aggregates);
                let bound = binder.expr(expr)?;
                let text = cx.text.get(span.start as usize..span.end as usize);
                let name = match (alias, &expr.kind) {
                    (Some(alias), _) => alias.name.to_owned(),
                    (None, ast::ExprKind::Column(column)) => column.name.name.to_owned(),
                    (None, _) => text.unwrap_or("?").trim().to_owned(),
                };
                items.push(Item { expr: bound, name });
            }
        }
    }
    let clauses = Clauses {
        filter: select.filter.as_ref(),
        group_by: select.group_by,
        having: select.having.as_ref(),
        distinct: select.options.distinct,
        order_by: query.order_by,
        limit: query.limit,
        locks: query.locks,
    };
    finish_with(from, items, aggregates, clauses, cx)
}

/// An item of the select list.
pub(super) struct Item {
    pub(super) expr: Expr,
    pub(super) name: String,
}

fn star(
    from: &From,
    only: Option<&TableName<'_>>,
    cx: &PlanCx<'_>,
    items: &mut Vec<Item>,
) -> Result<()> {
    let binder = cx.binder(&from.scope, "field list");
    let mut found = false;
    for (slot, source) in from.scope.sources.iter().enumerate() {
        if let Some(name) = only {
            let database = name.schema.as_ref();
            if !source.alias.eq_ignore_ascii_case(name.name.name)
                || database.is_some_and(|d| d.name != source.database)
            {
                continue;
            }
        }
        found = true;
        for (position, column) in source.columns.iter().enumerate() {
            if only.is_some() || !from.hidden.contains(&(slot, position)) {
                items.push(Item {
                    expr: binder.column_at(slot, position),
                    name: column.name.clone(),
                });
            }
        }
    }
    match (found, only) {
        (false, Some(name)) => Err(SqlError::new(
            1051,
            "42S02",
            format!("Unknown table '{}'", name.name.name),
        )),
        _ => Ok(()),
    }
}

fn finish(
    from: From,
    items: Vec<Item>,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    finish_with(from, items, Aggregates::default(), clauses, cx)
}

fn finish_with(
    mut from: From,
    items: Vec<Item>,
    mut aggregates: Aggregates,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    if let Some(filter) = clauses.filter {
        let filter = cx.binder(&from.scope, "where clause").expr(filter)?;
        split(filter, &mut from.conditions);
    }
    let aliases: Vec<(String, Expr)> = items
        .iter()
        .map(|i| (i.name.clone(), i.expr.clone()))
        .collect();
    let group_by = group_keys(&from.scope, &aliases, clauses.group_by, cx)?;
    let having = match clauses.having {
        None => None,
        Some(having) => {
            let mut binder = cx.binder(&from.scope, "having clause");
            binder.aggregates = Some(&mut aggregates);
            binder.aliases = &aliases;
            Some(binder.expr(having)?)
        }
    };
    let order_by = order_keys(&from.scope, &aliases, clauses.order_by, &mut aggregates, cx)?;
    let grouped = !group_by.is_empty() || !aggregates.list.is_empty() || having.is_some();
    let (limit, offset) = limits(clauses.limit, cx)?;
    let lock = lock_specs(&from.scope, clauses.locks)?;
    let columns = items
        .iter()
        .map(|i| result_column(&from.scope, i))
        .collect();
    let wanted_order: &[OrderKey] = match grouped || clauses.distinct {
        true => &[],
        false => &order_by,
    };
    let constant: Vec<Expr> = from
        .conditions
        .iter()
        .filter(|c| c.slots() == 0 && !from.scope.sources.is_empty())
        .cloned()
        .collect();
    if from.scope.sources.is_empty() {
        return Ok(SelectPlan {
            sources: Vec::new(),
            steps: Vec::new(),
            constant: from.conditions,
            items: items.into_iter().map(|i| i.expr).collect(),
            columns,
            aggregates: aggregates.list,
            group_by,
            grouped,
            having,
            distinct: clauses.distinct,
            order_by,
            limit,
            offset,
        });
    }
    let (mut steps, ordered) = steps(&from, wanted_order, limit.is_some());
    for (slot, spec) in lock.iter().enumerate() {
        for step in steps.iter_mut().filter(|s| s.slot == slot) {
            step.lock = *spec;
        }
    }
    Ok(SelectPlan {
        sources: from.scope.sources,
        steps,
        constant,
        items: items.into_iter().map(|i| i.expr).collect(),
        columns,
        aggregates: aggregates.list,
        group_by,
        grouped,
        having,
        distinct: clauses.distinct,
        order_by: match ordered && !grouped && !clauses.distinct {
            true => Vec::new(),
            false => order_by,
        },
        limit,
        offset,
    })
}

fn group_keys(
    scope: &Scope,
    aliases: &[(String, Expr)],
    items: &[OrderItem<'_>],
    cx: &PlanCx<'_>,
) -> Result<Vec<Expr>> {
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let key = match positional(item, aliases, "group statement")? {
            Some(e) => e,
            None => {
                let mut binder = cx.binder(scope, "group statement");
                binder.aliases = aliases;
                binder.expr(&item.expr)?
            }
        };
        if key.has_aggregate() {
            return Err(SqlError::new(1056, "42000", "Can't group on an aggregate"));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// ORDER BY 2 means the second item.
fn positional(
    item: &OrderItem<'_>,
    aliases: &[(String, Expr)],
    place: &str,
) -> Result<Option<Expr>> {
    let ast::ExprKind::Literal(ast::Literal::Int(n)) = item.expr.kind else {
        return Ok(None);
    };
    let at = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    match at.and_then(|at| aliases.get(at)) {
        Some((_, e)) => Ok(Some(e.clone())),
        None => Err(SqlError::unknown_column(&n.to_string(), place)),
    }
}

fn order_keys(
    scope: &Scope,
    aliases: &[(String, Expr)],
    items: &[OrderItem<'_>],
    aggregates: &mut Aggregates,
    cx: &PlanCx<'_>,
) -> Result<Vec<OrderKey>> {
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let expr = match positional(item, aliases, "order clause")? {
            Some(e) => e,
            None => order_expr(scope, aliases, item, aggregates, cx)?,
        };
        keys.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    Ok(keys)
}

/// In ORDER BY a name of the select list comes before a column.
fn order_expr(
    scope: &Scope,
    aliases: &[(String, Expr)],
    item: &OrderItem<'_>,
    aggregates: &mut Aggregates,
    cx: &PlanCx<'_>,
) -> Result<Expr> {
    if let ast::ExprKind::Column(name) = &item.expr.kind
        && name.table.is_none()
        && let Some((_, e)) = aliases
            .iter()
            .find(|(alias, _)| alias.eq_ignore_ascii_case(name.name.name))
    {
        return Ok(e.clone());
    }
    let mut binder = cx.binder(scope, "order clause");
    binder.aggregates = Some(aggregates);
    binder.aliases = aliases;
    binder.expr(&item.expr)
}

/// LIMIT count and offset.
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

impl SelectPlan {
    /// The stored tables it reads.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let stored = self.sources.iter().filter_map(Source::table);
        stored.map(|t| (t.clone(), false)).collect()
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        self.steps
            .iter()
            .any(|s| !matches!(s.access, Access::Lookup { whole: true, .. }))
    }
}

/// A binding environment for statements without parameters.
pub fn plain_env(database: Option<String>, collation: Collation) -> BindEnv {
    BindEnv {
        mode: porpoise_types::SqlMode::default(),
        collation,
        params: Vec::new(),
        database,
        div_precision: 4,
    }
}
