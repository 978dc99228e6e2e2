//! From a query's tree to its plan.
//!
//! 1. The FROM clause becomes the scope; inner joins' conditions join the
//!    WHERE, outer joins keep theirs.
//! 2. The conditions are split at AND; each goes to the first step after
//!    which its tables are there.
//! 3. Tables are joined in an order that begins with the most narrowly
//!    addressed one and goes on with what an index leads to; outer joins and
//!    STRAIGHT_JOIN keep the order of the text.

use super::access::choose;
use super::{Access, Busy, LockSpec, OrderKey, ResultColumn, SelectPlan, Step, flags};
use crate::bind::expr::{compare, conjunction};
use crate::bind::{Aggregates, BindEnv, Binder, Origin, Scope, Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::parse::ast::{
    self, Join, JoinCondition, JoinKind, LockClause, LockWait, OrderItem, Query, QueryBody, Select,
    SelectItem, TableFactor, TableName, TableRef,
};
use crate::virtual_tables;
use porpoise_kv::LockMode;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_types::{Collation, ColumnType, Kind};
use std::sync::Arc;

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

/// A table on the right of an outer join, with its condition.
struct Outer {
    slot: usize,
    on: Vec<Expr>,
}

/// The FROM clause, bound.
#[derive(Default)]
struct From {
    scope: Scope,
    conditions: Vec<Expr>,
    outer: Vec<Outer>,
    straight: bool,
    /// Columns that USING or NATURAL joined: hidden from `*`.
    hidden: Vec<(usize, usize)>,
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
struct Item {
    expr: Expr,
    name: String,
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

/// Splits a condition at its ANDs.
pub fn split(condition: Expr, out: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|p| split(p, out)),
        _ => out.push(condition),
    }
}

fn bind_from(tables: &[TableRef<'_>], cx: &PlanCx<'_>) -> Result<From> {
    let mut from = From::default();
    for table in tables {
        bind_table(table, &mut from, cx)?;
    }
    Ok(from)
}

fn bind_table(table: &TableRef<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    // `a RIGHT JOIN b` is `b LEFT JOIN a`, where it is the only join.
    if let [join] = table.joins
        && join.kind == JoinKind::Right
        && !join.natural
    {
        bind_factor(&join.right, from, cx)?;
        let left = Join {
            kind: JoinKind::Left,
            right: table.first,
            ..*join
        };
        return bind_join(&left, from, cx);
    }
    bind_factor(&table.first, from, cx)?;
    for join in table.joins {
        bind_join(join, from, cx)?;
    }
    Ok(())
}

fn bind_factor(factor: &TableFactor<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    match factor {
        TableFactor::Table(source) => {
            if !source.partitions.is_empty() {
                let text = "PARTITION () clause on non partitioned table";
                return Err(SqlError::new(1747, "HY000", text));
            }
            let alias = source.alias.map(|a| a.name);
            from.scope.add(cx.source(&source.name, alias)?)?;
            Ok(())
        }
        TableFactor::Nested(tables) => {
            for table in *tables {
                bind_table(table, from, cx)?;
            }
            Ok(())
        }
        TableFactor::Derived(_) => Err(SqlError::not_supported("derived tables")),
        TableFactor::JsonTable(_) => Err(SqlError::not_supported("JSON_TABLE")),
    }
}

fn bind_join(join: &Join<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    let before = from.scope.sources.len();
    bind_factor(&join.right, from, cx)?;
    let after = from.scope.sources.len();
    let mut conditions = Vec::new();
    match (&join.condition, join.natural) {
        (JoinCondition::On(on), _) => {
            let on = cx.binder(&from.scope, "on clause").expr(on)?;
            split(on, &mut conditions);
        }
        (JoinCondition::Using(names), _) => {
            let names: Vec<&str> = names.iter().map(|n| n.name).collect();
            using(from, before, &names, cx, &mut conditions)?;
        }
        (JoinCondition::None, true) => {
            let names = common_names(from, before);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            using(from, before, &names, cx, &mut conditions)?;
        }
        (JoinCondition::None, false) => {}
    }
    match join.kind {
        JoinKind::Inner => from.conditions.extend(conditions),
        JoinKind::Straight => {
            from.straight = true;
            from.conditions.extend(conditions);
        }
        JoinKind::Left if after == before + 1 => from.outer.push(Outer {
            slot: before,
            on: conditions,
        }),
        JoinKind::Left => return Err(SqlError::not_supported("LEFT JOIN of several tables")),
        JoinKind::Right => return Err(SqlError::not_supported("RIGHT JOIN after another join")),
    }
    Ok(())
}

fn common_names(from: &From, before: usize) -> Vec<String> {
    let (left, right) = from
        .scope
        .sources
        .split_at(before.min(from.scope.sources.len()));
    let there = |name: &str| {
        left.iter()
            .flat_map(|s| &s.columns)
            .any(|c| c.name.eq_ignore_ascii_case(name))
    };
    right
        .iter()
        .flat_map(|s| &s.columns)
        .filter(|c| there(&c.name))
        .map(|c| c.name.clone())
        .collect()
}

fn using(
    from: &mut From,
    before: usize,
    names: &[&str],
    cx: &PlanCx<'_>,
    conditions: &mut Vec<Expr>,
) -> Result<()> {
    for name in names {
        let mut places = Vec::new();
        for (slot, source) in from.scope.sources.iter().enumerate() {
            let position = source
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(name));
            if let Some(position) = position.filter(|p| !from.hidden.contains(&(slot, *p))) {
                places.push((slot, position));
            }
        }
        let left = places.iter().find(|(slot, _)| *slot < before);
        let right = places.iter().find(|(slot, _)| *slot >= before);
        let (Some(left), Some(right)) = (left, right) else {
            return Err(SqlError::unknown_column(name, "from clause"));
        };
        let binder = cx.binder(&from.scope, "from clause");
        let (a, b) = (
            binder.column_at(left.0, left.1),
            binder.column_at(right.0, right.1),
        );
        conditions.push(compare(CmpOp::Eq, a, b)?);
        from.hidden.push(*right);
    }
    Ok(())
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

fn lock_specs(scope: &Scope, clauses: &[LockClause<'_>]) -> Result<Vec<Option<LockSpec>>> {
    let mut specs = vec![None; scope.sources.len()];
    for clause in clauses {
        let mode = match clause.exclusive {
            true => LockMode::Exclusive,
            false => LockMode::Share,
        };
        let busy = match clause.wait {
            LockWait::Wait => Busy::Wait,
            LockWait::NoWait => Busy::NoWait,
            LockWait::SkipLocked => Busy::Skip,
        };
        for name in clause.tables {
            let known = scope.sources.iter();
            if !known
                .into_iter()
                .any(|s| s.alias.eq_ignore_ascii_case(name.name.name))
            {
                let text = format!(
                    "Unresolved table name `{}` in locking clause.",
                    name.name.name
                );
                return Err(SqlError::new(3568, "HY000", text));
            }
        }
        for (spec, source) in specs.iter_mut().zip(&scope.sources) {
            let named = clause
                .tables
                .iter()
                .any(|t| t.name.name.eq_ignore_ascii_case(&source.alias));
            if (clause.tables.is_empty() || named) && source.table().is_some() {
                *spec = Some(LockSpec { mode, busy });
            }
        }
    }
    Ok(specs)
}

/// The steps of the join, and whether the first gives the wanted order.
fn steps(from: &From, order: &[OrderKey], limited: bool) -> (Vec<Step>, bool) {
    let count = from.scope.sources.len();
    let keep_order = from.straight || !from.outer.is_empty();
    let mut left: Vec<usize> = (0..count).collect();
    let mut joined = 0u64;
    let mut steps: Vec<Step> = Vec::with_capacity(count);
    let mut ordered = order.is_empty();
    while !left.is_empty() {
        let pick = match keep_order {
            true => 0,
            false => best_next(from, &left, joined),
        };
        let slot = left.remove(pick);
        let outer = from.outer.iter().find(|o| o.slot == slot);
        let on: Vec<Expr> = outer.map(|o| o.on.clone()).unwrap_or_default();
        let bit = 1u64 << slot;
        let filter: Vec<Expr> = from
            .conditions
            .iter()
            .filter(|c| {
                let slots = c.slots();
                slots & bit != 0 && slots & !(joined | bit) == 0
            })
            .cloned()
            .collect();
        // Conditions of the WHERE on an outer table do not narrow what
        // matches it, but they may not hold for the empty row either, so they
        // serve to find rows only for inner steps.
        let narrowing: Vec<&Expr> = match outer {
            Some(_) => on.iter().collect(),
            None => filter.iter().collect(),
        };
        let first = steps.is_empty();
        let wanted = if first { order } else { &[] };
        let (access, in_order) = match from.scope.sources.get(slot).and_then(Source::table) {
            Some(table) => choose(table, slot, &narrowing, joined, wanted, limited),
            None => (Access::Virtual, order.is_empty()),
        };
        if first {
            ordered = in_order;
        }
        joined |= bit;
        steps.push(Step {
            slot,
            access,
            outer: outer.is_some(),
            on,
            filter,
            lock: None,
        });
    }
    (steps, ordered)
}

/// The table to join next: the most narrowly addressed one.
fn best_next(from: &From, left: &[usize], joined: u64) -> usize {
    let rank = |slot: usize| {
        let conditions: Vec<&Expr> = from.conditions.iter().collect();
        let source = from.scope.sources.get(slot).and_then(Source::table);
        match source.map(|table| choose(table, slot, &conditions, joined, &[], false).0) {
            Some(Access::Lookup {
                whole: true, keys, ..
            }) => 1_000_000 - keys.len().min(10_000),
            Some(Access::Lookup { .. }) => 100_000,
            Some(Access::Range { .. }) => 10_000,
            Some(Access::Virtual) => 1000,
            _ => 0,
        }
    };
    let ranked = left.iter().enumerate().map(|(at, slot)| (rank(*slot), at));
    ranked
        .max_by_key(|(rank, at)| (*rank, usize::MAX - at))
        .map_or(0, |(_, at)| at)
}

fn result_column(scope: &Scope, item: &Item) -> ResultColumn {
    let e = &item.expr;
    let mut column = ResultColumn {
        schema: String::new(),
        table: String::new(),
        org_table: String::new(),
        name: item.name.clone(),
        org_name: String::new(),
        ty: e.ty.clone(),
        flags: type_flags(&e.ty),
    };
    if !e.nullable {
        column.flags |= flags::NOT_NULL;
    }
    let ExprKind::Column {
        slot, column: at, ..
    } = &e.kind
    else {
        return column;
    };
    let Some(source) = scope.sources.get(*slot) else {
        return column;
    };
    column.table.clone_from(&source.alias);
    column.schema.clone_from(&source.database);
    if let Some(known) = source.columns.get(*at) {
        column.org_name.clone_from(&known.name);
    }
    match &source.origin {
        Origin::Virtual(table) => column.org_table = table.name.to_owned(),
        Origin::Stored(table) => {
            column.org_table.clone_from(&table.name);
            column.flags |= column_flags(table, *at);
        }
    }
    column
}

/// Flags that follow from the type.
pub fn type_flags(ty: &ColumnType) -> u16 {
    let mut all = 0;
    let mut set = |on: bool, flag: u16| {
        if on {
            all |= flag;
        }
    };
    set(ty.unsigned, flags::UNSIGNED);
    set(ty.zerofill, flags::ZEROFILL);
    set(ty.is_blob() || ty.kind == Kind::Json, flags::BLOB);
    set(ty.kind == Kind::Enum, flags::ENUM);
    set(ty.kind == Kind::Set, flags::SET);
    set(ty.kind == Kind::Timestamp, flags::TIMESTAMP);
    let textual = crate::bind::types::is_text(ty);
    set(!textual || ty.collation == Collation::BINARY, flags::BINARY);
    all
}

/// Flags that follow from the definition of a stored column.
pub fn column_flags(table: &Table, at: usize) -> u16 {
    use porpoise_rows::catalog::{ColumnDefault, IndexKind};
    let mut all = 0;
    for index in &table.indexes {
        let place = index.parts.iter().position(|p| p.column == at);
        all |= match (index.kind, place) {
            (IndexKind::Primary, Some(_)) => flags::PRIMARY_KEY,
            (IndexKind::Unique, Some(0)) if index.parts.len() == 1 => flags::UNIQUE_KEY,
            (_, Some(0)) => flags::MULTIPLE_KEY,
            _ => 0,
        };
    }
    if let Some(column) = table.columns.get(at) {
        if column.auto_increment {
            all |= flags::AUTO_INCREMENT;
        }
        if column.default == ColumnDefault::None && !column.nullable && !column.auto_increment {
            all |= flags::NO_DEFAULT;
        }
        if column.on_update_now {
            all |= flags::ON_UPDATE_NOW;
        }
    }
    all
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

/// All of these conditions as one.
pub fn all_of(conditions: Vec<Expr>) -> Expr {
    conjunction(conditions)
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
