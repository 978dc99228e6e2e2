//! From the bound clauses of a query to its plan: expressions for each row or group, the join
//! order, and the columns that are read.

use super::columns::result_column;
use super::from::{From, split_conjuncts};
use super::generated::use_generated_columns;
use super::group_order::{Purpose, order_of_groups};
use super::join_tree::{JoinRequirements, join_tree, lock_specs};
use super::keys::{group_keys, order_keys};
use super::physical::{
    Aggregate, AggregateMethod, Distinct, DistinctMethod, Filter, ResultOperator, RowOperator, Sort,
};
use super::scan::LockSpec;
use super::select::{Clauses, Item, PlanCx, limits};
use super::windows::{RowOrder, first_sort};
use super::{OrderKey, QueryPlan, ResultColumn, grouping};
use crate::bind::Aggregates;
use crate::bind::query::SubqueryDemand;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast;
use crate::statistics::StatisticsSource;
use porpoise_types::SqlMode;
use std::cell::OnceCell;
use std::sync::Arc;

/// Plans a query without aggregates in its select list.
pub(super) fn finish(
    from: From,
    items: Vec<Item>,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    finish_with(from, items, Aggregates::default(), clauses, cx)
}

/// Plans a query, given the aggregates of its select list.
pub(super) fn finish_with(
    from: From,
    items: Vec<Item>,
    aggregates: Aggregates,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    let mut bound = bind_clauses(from, items, aggregates, &clauses, cx)?;
    (bound.count, bound.offset) = limits(clauses.limit, cx)?;
    bound.lock = lock_specs(&bound.from, clauses.locks)?;
    bound.from.locked_slots |= locked_slots(&bound.lock);
    if cx.is_nested && bound.locks() {
        cx.reads.has_locks.set(true);
    }
    bound.has_nested_locks = !cx.is_nested && cx.reads.has_locks.get();
    if cx.is_nested {
        let kept = Arc::new(bound.clone());
        let mut plan = bound.plan_nested(cx.statistics);
        plan.bound = Some(kept);
        return Ok(plan);
    }
    let mut plan = bound.plan(cx.statistics);
    plan.nested_tables = cx.reads.tables.take();
    Ok(plan)
}

/// The result operator: sorts, removes duplicates, buffers, or sends the rows.
pub(super) fn result_operator(
    input: RowOperator,
    keys: Vec<OrderKey>,
    distinct: Option<DistinctMethod>,
    keeps: bool,
) -> ResultOperator {
    match (keys.is_empty(), distinct) {
        (false, distinct) => ResultOperator::Sort(Box::new(Sort {
            keys,
            distinct,
            input,
        })),
        (true, Some(method)) => ResultOperator::Distinct(Distinct { method, input }),
        (true, None) if keeps => ResultOperator::Collect(input),
        (true, None) => ResultOperator::Project(input),
    }
}

/// The order in which grouping needs no hash table, and its purpose.
fn group_order(groups: &Option<(Vec<OrderKey>, Purpose)>) -> (&[OrderKey], Purpose) {
    match groups {
        Some((order, purpose)) => (order, *purpose),
        None => (&[], Purpose::Sort),
    }
}

/// The order of a join's rows on which operators above it rely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProvidedOrder {
    /// No operator relies on their order.
    Any,
    /// The rows have the order of ORDER BY.
    Result,
    /// The rows of a group, or rows that are equal under DISTINCT, are consecutive.
    Groups,
    /// The rows have the order of the first windows.
    Windows,
}

/// A query whose names are resolved, before the optimizer's rules and the join order. It is kept in
/// the plan of a nested query, so that rules for the enclosing query can plan it again with other
/// conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct BoundQuery {
    pub(super) from: From,
    /// The select list; the last `hidden_items` are not columns of the result.
    pub(super) items: Vec<Item>,
    pub(super) hidden_items: usize,
    pub(super) aggregates: Aggregates,
    pub(super) group_by: Vec<Expr>,
    /// WITH ROLLUP.
    pub(super) rollup: bool,
    /// Whether there is a GROUP BY or an aggregate.
    pub(super) grouped: bool,
    /// Whether there is a window function.
    pub(super) windowed: bool,
    /// HAVING of a grouped query, as conjuncts.
    pub(super) having: Vec<Expr>,
    pub(super) distinct: bool,
    pub(super) order_by: Vec<OrderKey>,
    pub(super) count: Option<Expr>,
    pub(super) offset: Option<Expr>,
    /// SQL_CALC_FOUND_ROWS.
    calc_found_rows: bool,
    /// The lock of each slot.
    lock: Vec<Option<LockSpec>>,
    has_nested_locks: bool,
}

/// Binds WHERE, GROUP BY, HAVING and ORDER BY, and checks what they may contain. Conditions on rows
/// are added to those of FROM.
fn bind_clauses(
    mut from: From,
    items: Vec<Item>,
    mut aggregates: Aggregates,
    clauses: &Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<BoundQuery> {
    if let Some(filter) = clauses.filter {
        let filter = cx.binder(&from.scope, "where clause").condition(filter)?;
        split_conjuncts(filter, &mut from.block.conditions);
    }
    super::zero_dates::find_by_null(&mut from.block.conditions, &from.scope)?;
    let shown = items.len().saturating_sub(clauses.hidden_items);
    let aliases: Vec<(String, Expr)> = items
        .iter()
        .take(shown)
        .map(|i| (i.name.clone(), i.expr.clone()))
        .collect();
    let group_by = group_keys(&from.scope, &aliases, clauses.group_by, cx)?;
    let mut having = Vec::new();
    if let Some(condition) = clauses.having {
        let mut binder = cx.binder(&from.scope, "having clause");
        binder.aggregates = Some(&mut aggregates);
        binder.aliases = &aliases;
        binder.group_keys = Some(&group_by);
        let condition = binder.condition(condition)?;
        grouping::check_having(&from.scope, &condition, &items, &group_by)?;
        having.push(condition);
    }
    let before = aggregates.list.len();
    let mut order_by = order_keys(&from.scope, &aliases, clauses.order_by, &mut aggregates, cx)?;
    let grouped = !group_by.is_empty() || !aggregates.list.is_empty();
    // A single row needs no order, nor do the rows of EXISTS, IN, ANY and ALL without a LIMIT.
    let is_single = group_by.is_empty() && before > 0;
    if is_single || cx.demand() != SubqueryDemand::Rows && clauses.limit.is_none() {
        order_by.clear();
    }
    let mut bound = BoundQuery {
        from,
        items,
        hidden_items: clauses.hidden_items,
        group_by,
        rollup: clauses.rollup,
        grouped,
        windowed: !aggregates.windows.calls.is_empty(),
        having,
        distinct: clauses.distinct,
        order_by,
        calc_found_rows: clauses.calc_found_rows,
        aggregates,
        ..BoundQuery::default()
    };
    let is_implicit = bound.group_by.is_empty() && before == 0;
    bound.check(clauses, is_implicit, cx.env.mode)?;
    // Without groups, HAVING is another condition on rows.
    if !grouped {
        for condition in std::mem::take(&mut bound.having) {
            split_conjuncts(condition, &mut bound.from.block.conditions);
        }
    }
    let references = ItemReferences {
        keys: referenced_items(clauses.group_by, &aliases),
        order: referenced_items(clauses.order_by, &aliases),
    };
    bound.prepare_rollup(&references)?;
    Ok(bound)
}

impl BoundQuery {
    /// Applies the rules, finds the join order, and builds the operators.
    fn plan(mut self, statistics: &dyn StatisticsSource) -> QueryPlan {
        let columns = self.columns();
        let order = self.order_by.iter_mut().map(|key| &mut key.expr);
        // The keys of WITH ROLLUP are also in the select list.
        let groups = self.group_by.iter_mut().filter(|_| !self.rollup);
        use_generated_columns(&mut self.from, order.chain(groups), statistics);
        super::rules::rewrite_from(&mut self.from, statistics);
        let (mut rows, order) = self.join(statistics);
        let adjacent = order == ProvidedOrder::Groups;
        rows.lock(&self.lock);
        let locks = self.locks();
        rows = if self.grouped {
            self.add_aggregation(rows, adjacent)
        } else {
            rows.with_one_time_filter(constant_part(&self.from))
        };
        if self.windowed {
            let windows = std::mem::take(&mut self.aggregates.windows);
            rows = super::windows::add_window_functions(
                rows,
                windows,
                &mut self.items,
                &mut self.order_by,
                RowOrder {
                    is_presorted: order == ProvidedOrder::Windows,
                    is_distinct: self.distinct,
                },
            );
        }
        let distinct = match (self.distinct, adjacent && !self.grouped) {
            (false, _) => None,
            (true, true) => Some(DistinctMethod::Adjacent),
            (true, false) => Some(DistinctMethod::Hash),
        };
        let keeps = self.has_nested_locks || locks;
        let mut root = result_operator(rows, self.order_by, distinct, keeps);
        let cut = self.count.is_some() || self.offset.is_some();
        if cut {
            root = ResultOperator::with_limit(self.count, self.offset, root);
        }
        let items = self.items.into_iter().map(|i| i.expr).collect();
        let merges = !cut && !self.distinct && !self.grouped && !self.windowed;
        let mut plan = QueryPlan {
            hidden_items: self.hidden_items,
            columns,
            is_mergeable: merges && !self.from.scope.sources.is_empty(),
            has_nested_locks: self.has_nested_locks,
            ..QueryPlan::new(self.from.scope.sources, items, root)
        };
        if self.calc_found_rows {
            plan.count_found_rows();
        }
        plan.find_subqueries();
        plan.needs_order = order == ProvidedOrder::Result || needs_row_order(&plan);
        super::placement::set_placement(&mut plan);
        super::rules::rewrite_plan(&mut plan, statistics);
        plan
    }

    /// Checks the arguments of GROUPING() and, with ONLY_FULL_GROUP_BY, the columns and aggregates of a query with
    /// groups or DISTINCT. `is_implicit`: the query is grouped only because ORDER BY has aggregates.
    fn check(&self, clauses: &Clauses<'_, '_>, is_implicit: bool, mode: SqlMode) -> Result<()> {
        let items = self.items.as_slice();
        if self.rollup {
            let order = self.order_by.iter().map(|key| &key.expr);
            let all = items
                .iter()
                .map(|i| &i.expr)
                .chain(&self.having)
                .chain(order);
            grouping::check_grouping(all, &self.group_by)?;
        }
        if !mode.contains(SqlMode::ONLY_FULL_GROUP_BY) {
            return Ok(());
        }
        if self.grouped {
            let clauses = grouping::GroupedClauses {
                items,
                keys: &self.group_by,
                order: &self.order_by,
                windows: &self.aggregates.windows,
                rollup: self.rollup,
            };
            grouping::check(&self.from, &clauses, is_implicit)?;
        }
        // Without duplicates, DISTINCT has no effect.
        let is_item = |key: &Expr| items.iter().any(|i| grouping::is_same_expr(&i.expr, key));
        let is_unique = !self.group_by.is_empty() && self.group_by.iter().all(is_item);
        if self.distinct && !is_unique {
            let (scope, written) = (&self.from.scope, clauses.order_by);
            grouping::check_distinct(scope, items, &self.order_by, written, &self.aggregates)?;
        }
        Ok(())
    }

    /// As [`BoundQuery::plan`], for a nested query: the enclosing query may add up doubles or concatenate
    /// texts in the order of its rows.
    pub(super) fn plan_nested(self, statistics: &dyn StatisticsSource) -> QueryPlan {
        let mut plan = self.plan(statistics);
        plan.needs_order = true;
        plan
    }

    /// Whether rows are locked.
    pub(super) fn locks(&self) -> bool {
        self.lock.iter().any(Option::is_some)
    }

    /// Metadata of the items.
    fn columns(&self) -> Vec<ResultColumn> {
        let items = self.items.iter();
        items
            .map(|item| result_column(&self.from.scope, item))
            .collect()
    }

    /// All expressions, without the arguments of aggregates.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let items = self.items.iter().map(|i| &i.expr);
        let order = self.order_by.iter().map(|k| &k.expr);
        items.chain(&self.group_by).chain(&self.having).chain(order)
    }

    /// Whether the result has the rows of the join, in their order.
    fn yields_rows(&self) -> bool {
        !self.grouped && !self.distinct && !self.windowed
    }

    /// The row order in which GROUP BY or DISTINCT needs no hash table; see [`order_of_groups`].
    fn order_of_groups(&self) -> Option<(Vec<OrderKey>, Purpose)> {
        match (self.group_by.as_slice(), self.distinct) {
            _ if self.rollup => None,
            ([], _) if self.windowed => None,
            (keys, _) if self.windowed => order_of_groups(keys.iter(), &[]),
            ([], true) if !self.grouped => {
                let shown = self.items.len().saturating_sub(self.hidden_items);
                let items = self.items.iter().take(shown);
                order_of_groups(items.map(|i| &i.expr), &self.order_by)
            }
            ([], _) => None,
            // DISTINCT over groups preserves their order.
            (keys, _) => order_of_groups(keys.iter(), &self.order_by),
        }
    }

    /// Plans the join. Also returns the order of its rows on which operators above rely. An ORDER BY that
    /// the join provides is removed.
    fn join(&mut self, statistics: &dyn StatisticsSource) -> (RowOperator, ProvidedOrder) {
        if self.from.scope.sources.is_empty() {
            return (RowOperator::SingleRow, ProvidedOrder::Any);
        }
        let read = self.expressions().chain(self.aggregates.expressions());
        let needed = super::needed::needed_columns(&self.from, read);
        let each_row = self.yields_rows();
        let (groups, windows) = (self.order_of_groups(), self.order_of_windows());
        let (order, purpose) = if each_row {
            (self.order_by.as_slice(), Purpose::Sort)
        } else if !windows.is_empty() {
            (windows.as_slice(), Purpose::Sort)
        } else {
            group_order(&groups)
        };
        let wanted = JoinRequirements {
            order,
            purpose,
            groups: OnceCell::new(),
            limited: self.count.is_some() && each_row && !self.calc_found_rows,
            needed: &needed,
            statistics,
        };
        let is_wanted = !order.is_empty();
        let (rows, ordered) = join_tree(&self.from, &wanted);
        if ordered && (each_row || purpose == Purpose::SortedGroups) {
            self.order_by.clear();
        }
        let order = match purpose {
            _ if !ordered || !is_wanted => ProvidedOrder::Any,
            Purpose::Groups | Purpose::SortedGroups => ProvidedOrder::Groups,
            Purpose::Sort if each_row => ProvidedOrder::Result,
            Purpose::Sort => ProvidedOrder::Windows,
        };
        (rows, order)
    }

    /// The row order in which the first windows need no sort; empty for windows over groups, or if no
    /// index can provide it.
    fn order_of_windows(&self) -> Vec<OrderKey> {
        if self.grouped || !self.windowed {
            return Vec::new();
        }
        first_sort(&self.aggregates.windows, &self.order_by)
    }

    /// Adds aggregation, and HAVING on its rows.
    fn add_aggregation(&mut self, input: RowOperator, adjacent: bool) -> RowOperator {
        let method = if adjacent {
            AggregateMethod::Stream
        } else {
            AggregateMethod::Hash
        };
        let mut carried = Vec::new();
        let order = self.order_by.iter().map(|key| &key.expr);
        let above = self.items.iter().map(|i| &i.expr).chain(order);
        let windows = self.aggregates.windows.expressions();
        for e in above.chain(&self.having).chain(windows) {
            e.columns(&mut |slot, column| carried.push((slot, column)));
        }
        carried.sort_unstable();
        carried.dedup();
        let groups = RowOperator::Aggregate(Box::new(Aggregate {
            method,
            group_by: std::mem::take(&mut self.group_by),
            rollup: self.rollup,
            calls: std::mem::take(&mut self.aggregates.list),
            first_row_columns: carried,
            input: input.with_one_time_filter(constant_part(&self.from)),
        }));
        let conditions = std::mem::take(&mut self.having);
        if conditions.is_empty() {
            return groups;
        }
        RowOperator::Filter(Box::new(Filter {
            conditions,
            input: groups,
        }))
    }

    /// WITH ROLLUP: keys of GROUP BY read as NULL in super-aggregate rows. An item to which a key refers by name or
    /// position reads that key, even if another key has the same expression.
    fn prepare_rollup(&mut self, references: &ItemReferences) -> Result<()> {
        let (keys, aggregates) = (&self.group_by, self.aggregates.list.len());
        if self.rollup {
            let rollup = grouping::Rollup { keys, aggregates };
            // A name in GROUP BY may be resolved to a column of FROM, not to the item of that name.
            let key_of = |item, e: &Expr| {
                let mut pairs = references.keys.iter().zip(keys);
                pairs
                    .position(|(named, key)| *named == Some(item) && grouping::is_same_expr(key, e))
            };
            for (at, item) in self.items.iter_mut().enumerate() {
                if let Some(key) = key_of(at, &item.expr) {
                    rollup.replace_with_key(key, &mut item.expr);
                }
            }
            for (order, item) in self.order_by.iter_mut().zip(&references.order) {
                if let Some(key) = item.and_then(|item| key_of(item, &order.expr)) {
                    rollup.replace_with_key(key, &mut order.expr);
                }
            }
        }
        let items = self.items.iter_mut().map(|i| &mut i.expr);
        let order = self.order_by.iter_mut().map(|k| &mut k.expr);
        let windows = self.aggregates.windows.expressions_mut();
        for e in items.chain(order).chain(&mut self.having).chain(windows) {
            if self.rollup {
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

/// For each key of GROUP BY and ORDER BY, the position of the select-list item to which it refers by name or
/// position.
struct ItemReferences {
    keys: Vec<Option<usize>>,
    order: Vec<Option<usize>>,
}

/// For each key, the position of the item to which it refers by name or position.
fn referenced_items(keys: &[ast::OrderItem<'_>], items: &[(String, Expr)]) -> Vec<Option<usize>> {
    let item_of = |key: &ast::OrderItem<'_>| match &key.expr.kind {
        ast::ExprKind::Column(name) if name.table.is_none() => {
            let is_named = |(item, _): &(String, Expr)| item.eq_ignore_ascii_case(name.name.name);
            items.iter().position(is_named)
        }
        ast::ExprKind::Literal(ast::Literal::Int(n)) => {
            let at = usize::try_from(*n).ok()?.checked_sub(1)?;
            (at < items.len()).then_some(at)
        }
        _ => None,
    };
    keys.iter().map(item_of).collect()
}

/// Whether rows of a query without ORDER BY must come in the order of the driving scan, because its
/// expressions may depend on it. True also where no operator could change their order.
fn needs_row_order(plan: &QueryPlan) -> bool {
    let mut rows = plan.rows();
    if let Some(RowOperator::Filter(filter)) = rows {
        rows = Some(&filter.input);
    }
    let has_order = match rows {
        Some(RowOperator::Join(_) | RowOperator::NestedJoin(_)) => false,
        Some(RowOperator::Aggregate(groups)) => !matches!(groups.method, AggregateMethod::Hash),
        _ => true,
    };
    has_order || !plan.is_fixed()
}

/// Conditions that read no row.
fn constant_part(from: &From) -> Vec<Expr> {
    let empty = from.scope.sources.is_empty();
    let constant = |c: &&Expr| empty || (c.slots() == 0 && c.is_fixed());
    let conditions = from.block.conditions.iter();
    conditions.filter(constant).cloned().collect()
}

/// The slots whose rows are locked, as a bit set.
fn locked_slots(lock: &[Option<LockSpec>]) -> u64 {
    let slots = lock.iter().enumerate().filter(|(_, spec)| spec.is_some());
    slots.fold(0, |all, (slot, _)| all | 1 << (slot & 63))
}
