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
use super::derived::{CteEntry, Derived, RowsPlan};
use super::from::{From, bind_from};
use super::keys::{group_keys, order_keys};
use super::order::{Wanted, lock_specs, steps};
use super::views::{ViewFrame, ViewUse};
use super::{Access, OrderKey, SelectPlan, grouping};
use crate::bind::query::Enclosing;
use crate::bind::{Aggregates, BindEnv, Binder, Origin, Scope, Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast::{self, LockClause, OrderItem, Query, Select, SelectItem, TableName};
use crate::statistics::Figures;
use crate::virtual_tables;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_types::{Collation, SqlMode};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub use super::columns::{column_flags, type_flags};
pub use super::from::split;
pub use super::query::plan_query;

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
    /// The queries around this one.
    pub outer: Option<&'a Enclosing<'a>>,
    /// This is a query inside another statement.
    pub inner: bool,
    /// How many queries deep.
    pub depth: usize,
    /// What WITH clauses around have named.
    pub ctes: &'a [CteEntry],
    /// What the queries inside read.
    pub reads: &'a Reads,
    /// What is known of tables.
    pub figures: &'a dyn Figures,
    /// The view whose query this is.
    pub view: Option<&'a ViewFrame<'a>>,
}

/// What the queries inside a statement read and do.
#[derive(Debug, Default)]
pub struct Reads {
    /// The stored tables.
    pub tables: RefCell<Vec<Arc<Table>>>,
    /// One of them locks rows.
    pub locks: Cell<bool>,
    /// The views, outer ones behind those they name.
    pub views: RefCell<Vec<ViewUse>>,
    /// What the text at hand names, while there are views.
    pub names: RefCell<Vec<(String, String)>>,
}

impl<'a> PlanCx<'a> {
    /// For a statement of its own.
    pub fn new(
        catalog: &'a Catalog,
        env: &'a BindEnv,
        system: &'a dyn SystemVariables,
        text: &'a str,
        reads: &'a Reads,
    ) -> PlanCx<'a> {
        PlanCx {
            catalog,
            env,
            system,
            text,
            outer: None,
            inner: false,
            depth: 0,
            ctes: &[],
            reads,
            figures: system,
            view: None,
        }
    }
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
            keys: None,
            plan: Some(self),
        }
    }

    /// The common table expression of that name, if there is one.
    fn named_query(&self, name: &TableName<'_>) -> Result<Option<Arc<Derived>>> {
        let mut entries = self.ctes.iter().rev();
        let named = entries.find(|c| c.name.eq_ignore_ascii_case(name.name.name));
        let (Some(entry), None) = (named, &name.schema) else {
            return Ok(None);
        };
        let Some(derived) = &entry.derived else {
            return Err(SqlError::new(super::query::PENDING, "HY000", "pending"));
        };
        if matches!(derived.rows, RowsPlan::Working) && self.depth != entry.depth + 1 {
            let text = format!(
                "In recursive query block of Recursive Common Table Expression '{}', the recursive \
                 table must be referenced only once, and not in any subquery",
                entry.name
            );
            return Err(SqlError::new(3577, "HY000", text));
        }
        if !derived.free.is_empty() && self.depth != entry.depth {
            return Err(SqlError::not_supported(
                "a common table expression that names outer columns, inside a further query",
            ));
        }
        Ok(Some(derived.clone()))
    }

    /// The stored or virtual table of that name, or the common table
    /// expression.
    pub fn source(&self, name: &TableName<'_>, alias: Option<&str>) -> Result<Source> {
        if let Some(derived) = self.named_query(name)? {
            let alias = alias.unwrap_or(name.name.name).to_owned();
            return Ok(super::query::derived_source(derived, alias));
        }
        let database = match (&name.schema, &self.env.database) {
            (Some(schema), _) => schema.name,
            (None, Some(database)) => database.as_str(),
            (None, None) => return Err(SqlError::no_database_selected()),
        };
        let names = (database.to_owned(), name.name.name.to_owned());
        if let Some(view) = self.catalog.view(database, name.name.name) {
            self.reads.names.borrow_mut().push(names);
            return super::views::source(view, alias, self);
        }
        if let Some(table) = self.catalog.table(database, name.name.name) {
            if self.view.is_some() || !self.catalog.views.is_empty() {
                self.reads.names.borrow_mut().push(names);
            }
            if self.inner {
                self.reads.tables.borrow_mut().push(table.clone());
            }
            return Ok(Source::stored(table.clone(), alias));
        }
        if let Some(table) = virtual_tables::find(database, name.name.name) {
            return Ok(Source {
                alias: alias.unwrap_or(table.name).to_owned(),
                database: table.database.to_owned(),
                origin: Origin::Virtual(table),
                columns: (table.columns)(),
                partitions: None,
                hints: Default::default(),
                view: None,
            });
        }
        let known = self.catalog.database(database).is_some()
            || database.eq_ignore_ascii_case("information_schema");
        match known {
            true => Err(SqlError::no_table(database, name.name.name)),
            false => Err(SqlError::unknown_database(database)),
        }
    }

    /// The stored table of that name, or the view of one, for statements that
    /// change it.
    pub fn changeable(
        &self,
        name: &TableName<'_>,
        alias: Option<&str>,
        verb: &str,
    ) -> Result<Source> {
        let source = self.source(name, alias)?;
        match &source.origin {
            Origin::Stored(_) => Ok(source),
            Origin::Derived(_) if verb == "INSERT" => {
                let text = format!(
                    "The target table {} of the INSERT is not insertable-into",
                    name.name.name
                );
                Err(SqlError::new(1471, "HY000", text))
            }
            Origin::Derived(_) => {
                let text = format!(
                    "The target table {} of the {verb} is not updatable",
                    name.name.name
                );
                Err(SqlError::new(1288, "HY000", text))
            }
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

/// TABLE t: all of it.
pub(super) fn plan_table(
    name: &TableName<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    let mut from = From::default();
    from.add(cx.source(name, None)?)?;
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
pub(super) struct Clauses<'q, 'a> {
    pub(super) filter: Option<&'q ast::Expr<'a>>,
    pub(super) group_by: &'q [OrderItem<'a>],
    pub(super) having: Option<&'q ast::Expr<'a>>,
    pub(super) rollup: bool,
    pub(super) distinct: bool,
    pub(super) order_by: &'q [OrderItem<'a>],
    pub(super) limit: Option<&'q ast::Limit<'a>>,
    pub(super) locks: &'q [LockClause<'a>],
}

pub(super) fn plan_select(
    select: &Select<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    plan_select_with(select, query, cx, &mut |_| Ok(Vec::new()))
}

/// [`plan_select`], with further items: columns by slot and position, which `more` names given
/// the query's tables. A query with aggregates gets none.
pub(super) fn plan_select_with(
    select: &Select<'_>,
    query: &Query<'_>,
    cx: &PlanCx<'_>,
    more: &mut dyn FnMut(&Scope) -> Result<Vec<(usize, usize)>>,
) -> Result<SelectPlan> {
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

/// An item of the select list.
pub(super) struct Item {
    pub(super) expr: Expr,
    pub(super) name: String,
}

pub(super) fn star(
    from: &From,
    only: Option<&TableName<'_>>,
    cx: &PlanCx<'_>,
    items: &mut Vec<Item>,
) -> Result<()> {
    let binder = cx.binder(&from.scope, "field list");
    let mut show = |slot: usize, column: usize, name: &str| {
        items.push(Item {
            expr: binder.column_at(slot, column),
            name: name.to_owned(),
        });
    };
    let Some(only) = only else {
        for (slot, column) in &from.star {
            let name = from.scope.column(*slot, *column).map_or("", |c| &c.name);
            show(*slot, *column, name);
        }
        return Ok(());
    };
    let mut found = false;
    for (slot, source) in from.scope.sources.iter().enumerate() {
        let database = only.schema.as_ref();
        if source.alias.eq_ignore_ascii_case(only.name.name)
            && database.is_none_or(|d| d.name == source.database)
        {
            found = true;
            for position in source.places() {
                let name = source.columns.get(position).map_or("", |c| &c.name);
                show(slot, position, name);
            }
        }
    }
    match found {
        true => Ok(()),
        false => {
            let text = format!("Unknown table '{}'", only.name.name);
            Err(SqlError::new(1051, "42S02", text))
        }
    }
}

pub(super) fn finish(
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
        split(filter, &mut from.block.conditions);
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
            binder.keys = Some(&group_by);
            let having = binder.expr(having)?;
            grouping::check_having(&from.scope, &having, &items, &group_by)?;
            Some(having)
        }
    };
    let before = aggregates.list.len();
    let order_by = order_keys(&from.scope, &aliases, clauses.order_by, &mut aggregates, cx)?;
    let grouped = !group_by.is_empty() || !aggregates.list.is_empty();
    if cx.env.mode.contains(SqlMode::ONLY_FULL_GROUP_BY) {
        if grouped {
            let implicit = group_by.is_empty() && before == 0;
            grouping::check(&from, &items, &group_by, &order_by, implicit)?;
        }
        if clauses.distinct {
            grouping::check_distinct(&from.scope, &items, &order_by)?;
        }
    }
    // Without groups HAVING is one more condition on the rows.
    let having = match (having, grouped) {
        (Some(having), false) => {
            split(having, &mut from.block.conditions);
            None
        }
        (having, _) => having,
    };
    let mut tail = Tail {
        items,
        having,
        order_by,
    };
    tail.prepare(&group_by, aggregates.list.len(), clauses.rollup)?;
    let Tail {
        items,
        having,
        order_by,
    } = tail;
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
    for (slot, spec) in lock.iter().enumerate() {
        from.locked |= u64::from(spec.is_some()) << (slot & 63);
    }
    super::semi::convert(&mut from, cx.figures);
    let empty = from.scope.sources.is_empty();
    let constant = constant_part(&from);
    let keys = order_by.iter().map(|k| &k.expr);
    let read = items.iter().map(|i| &i.expr).chain(&group_by);
    let read = read.chain(&having).chain(keys);
    let needed = super::needed::needed(&from, read.chain(aggregates.expressions()));
    let wanted = Wanted {
        order: wanted_order,
        limited: limit.is_some() && !grouped && !clauses.distinct,
        needed: &needed,
        figures: cx.figures,
    };
    let (mut steps, ordered) = match empty {
        true => (Vec::new(), false),
        false => steps(&from, &wanted),
    };
    set_locks(&mut steps, &lock, cx);
    let mut plan = SelectPlan {
        sources: from.scope.sources,
        steps,
        constant,
        items: items.into_iter().map(|i| i.expr).collect(),
        columns,
        aggregates: aggregates.list,
        group_by,
        grouped,
        having,
        rollup: clauses.rollup,
        distinct: clauses.distinct,
        order_by: match ordered && !grouped && !clauses.distinct {
            true => Vec::new(),
            false => order_by,
        },
        limit,
        offset,
        inner_tables: Vec::new(),
        has_queries: false,
        inner_locks: false,
    };
    let mut has_queries = false;
    plan.expressions(&mut |e| has_queries |= e.has_query());
    plan.has_queries = has_queries;
    super::placement::settle(&mut plan);
    if !cx.inner {
        plan.inner_tables = cx.reads.tables.take();
        plan.inner_locks = cx.reads.locks.get();
    }
    Ok(plan)
}

/// What is evaluated for each group.
struct Tail {
    items: Vec<Item>,
    having: Option<Expr>,
    order_by: Vec<OrderKey>,
}

impl Tail {
    /// WITH ROLLUP: keys of GROUP BY are NULL in rows that sum up over them.
    fn prepare(&mut self, keys: &[Expr], aggregates: usize, rollup: bool) -> Result<()> {
        let items = self.items.iter_mut().map(|i| &mut i.expr);
        let order = self.order_by.iter_mut().map(|k| &mut k.expr);
        for e in items.chain(order).chain(&mut self.having) {
            if rollup {
                grouping::Rollup { keys, aggregates }.replace(e)?;
            }
            let mut left = false;
            e.walk(&mut |e| left |= matches!(e.kind, crate::expr::ExprKind::Grouping(_)));
            if left {
                let text = "Invalid use of group function";
                return Err(SqlError::new(1111, "HY000", text));
            }
        }
        Ok(())
    }
}

/// The conditions that no row decides.
fn constant_part(from: &From) -> Vec<Expr> {
    let empty = from.scope.sources.is_empty();
    let constant = |c: &&Expr| empty || (c.slots() == 0 && c.is_fixed());
    let conditions = from.block.conditions.iter();
    conditions.filter(constant).cloned().collect()
}

fn set_locks(steps: &mut [super::Step], lock: &[Option<super::LockSpec>], cx: &PlanCx<'_>) {
    for (slot, spec) in lock.iter().enumerate() {
        for step in steps.iter_mut() {
            set_lock(step, slot, *spec);
        }
        if cx.inner && spec.is_some() {
            cx.reads.locks.set(true);
        }
    }
}

pub(super) fn set_lock(step: &mut super::Step, slot: usize, spec: Option<super::LockSpec>) {
    if step.slot == slot && step.group.is_empty() {
        step.lock = spec;
    }
    step.group.iter_mut().for_each(|s| set_lock(s, slot, spec));
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
        let all = stored.chain(&self.inner_tables);
        all.map(|t| (t.clone(), false)).collect()
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        !self.inner_tables.is_empty()
            || self
                .all_steps()
                .any(|s| !matches!(s.access, Access::Lookup { whole: true, .. }))
    }

    /// Whether it reads stored rows without locking them.
    pub fn reads_unlocked(&self) -> bool {
        let stored = |slot: usize| self.sources.get(slot).is_some_and(|s| s.table().is_some());
        !self.inner_tables.is_empty()
            || self.all_steps().any(|s| s.lock.is_none() && stored(s.slot))
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
