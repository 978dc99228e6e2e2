//! From the bound clauses of a query to its plan: expressions for each row or group, the join
//! order, and the columns that are read.

use super::columns::result_column;
use super::from::{From, split_conjuncts};
use super::group_order::{Purpose, order_of_groups};
use super::join_tree::{JoinRequirements, join_tree, lock_specs};
use super::keys::{group_keys, order_keys};
use super::physical::{
    Aggregate, AggregateMethod, Distinct, DistinctMethod, Filter, ResultOperator, RowOperator, Sort,
};
use super::scan::LockSpec;
use super::select::{Clauses, Item, PlanCx, limits};
use super::{OrderKey, QueryPlan, ResultColumn, grouping};
use crate::bind::window::Windows;
use crate::bind::{Aggregate as AggregateCall, Aggregates, Scope};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use porpoise_types::SqlMode;
use std::cell::OnceCell;

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
    mut from: From,
    items: Vec<Item>,
    mut aggregates: Aggregates,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<QueryPlan> {
    let mut result = bind_clauses(&mut from, items, &mut aggregates, &clauses, cx)?;
    let (count, offset) = limits(clauses.limit, cx)?;
    let lock = lock_specs(&from, clauses.locks)?;
    from.locked_slots |= locked_slots(&lock);
    let columns = result.columns(&from.scope);
    super::rules::rewrite_from(&mut from, cx.statistics);
    let each_row = result.yields_rows(&clauses);
    let limited = count.is_some() && each_row && !clauses.calc_found_rows;
    let (mut rows, adjacent) = result.join(&from, (&aggregates, &clauses), limited, cx);
    rows.lock(&lock);
    let locks = lock.iter().any(Option::is_some);
    if cx.is_nested && locks {
        cx.reads.has_locks.set(true);
    }
    let inner_locks = !cx.is_nested && cx.reads.has_locks.get();
    let (grouped, windows) = (result.grouped, aggregates.windows);
    rows = if grouped {
        let calls = (aggregates.list, clauses.rollup);
        result.add_aggregation(rows, adjacent, (&from, &windows, calls))
    } else {
        rows.with_one_time_filter(constant_part(&from))
    };
    let windowed = result.windowed;
    if windowed {
        let exprs = (&mut result.items, &mut result.order_by);
        rows = super::windows::windowed(rows, windows, exprs, clauses.distinct);
    }
    let distinct = match (clauses.distinct, adjacent && !result.grouped) {
        (false, _) => None,
        (true, true) => Some(DistinctMethod::Adjacent),
        (true, false) => Some(DistinctMethod::Hash),
    };
    let keeps = result.grouped || inner_locks || locks;
    let mut root = result_operator(rows, result.order_by, distinct, keeps);
    let cut = count.is_some() || offset.is_some();
    if cut {
        root = ResultOperator::with_limit(count, offset, root);
    }
    let items = result.items.into_iter().map(|i| i.expr).collect();
    let merges = !cut && !clauses.distinct && !result.grouped && !windowed;
    let mut plan = QueryPlan {
        hidden_items: clauses.hidden_items,
        columns,
        is_mergeable: merges && !from.scope.sources.is_empty(),
        has_nested_locks: inner_locks,
        ..QueryPlan::new(from.scope.sources, items, root)
    };
    if clauses.calc_found_rows {
        plan.count_found_rows();
    }
    compute_plan_properties(&mut plan, cx);
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

/// Computes what depends on the whole plan.
fn compute_plan_properties(plan: &mut QueryPlan, cx: &PlanCx<'_>) {
    plan.find_subqueries();
    super::placement::set_placement(plan);
    if !cx.is_nested {
        plan.nested_tables = cx.reads.tables.take();
    }
    super::rules::rewrite_plan(plan, cx.statistics);
}

/// Expressions that are evaluated for each row, or for each group.
struct BoundClauses {
    items: Vec<Item>,
    group_by: Vec<Expr>,
    /// Whether there is a GROUP BY or an aggregate.
    grouped: bool,
    /// Whether there is a window function.
    windowed: bool,
    /// HAVING of a grouped query.
    having: Option<Expr>,
    order_by: Vec<OrderKey>,
}

/// Binds WHERE, GROUP BY, HAVING and ORDER BY, and checks what they may contain. Conditions on rows
/// are added to those of FROM.
fn bind_clauses(
    from: &mut From,
    items: Vec<Item>,
    aggregates: &mut Aggregates,
    clauses: &Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<BoundClauses> {
    if let Some(filter) = clauses.filter {
        let filter = cx.binder(&from.scope, "where clause").expr(filter)?;
        split_conjuncts(filter, &mut from.block.conditions);
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
            binder.aggregates = Some(aggregates);
            binder.aliases = &aliases;
            binder.group_keys = Some(&group_by);
            let having = binder.expr(having)?;
            grouping::check_having(&from.scope, &having, &items, &group_by)?;
            Some(having)
        }
    };
    let before = aggregates.list.len();
    let order_by = order_keys(&from.scope, &aliases, clauses.order_by, aggregates, cx)?;
    let grouped = !group_by.is_empty() || !aggregates.list.is_empty();
    if cx.env.mode.contains(SqlMode::ONLY_FULL_GROUP_BY) {
        if grouped {
            let implicit = group_by.is_empty() && before == 0;
            let windows = (&aggregates.windows, implicit);
            grouping::check(from, &items, &group_by, &order_by, windows)?;
        }
        if clauses.distinct {
            grouping::check_distinct(&from.scope, &items, &order_by)?;
        }
    }
    // Without groups, HAVING is another condition on rows.
    let having = match (having, grouped) {
        (Some(having), false) => {
            split_conjuncts(having, &mut from.block.conditions);
            None
        }
        (having, _) => having,
    };
    let mut result = BoundClauses {
        items,
        group_by,
        grouped,
        windowed: !aggregates.windows.calls.is_empty(),
        having,
        order_by,
    };
    result.prepare_rollup(aggregates, clauses.rollup)?;
    Ok(result)
}

impl BoundClauses {
    /// Metadata of the items.
    fn columns(&self, scope: &Scope) -> Vec<ResultColumn> {
        let items = self.items.iter();
        items.map(|item| result_column(scope, item)).collect()
    }

    /// All expressions, without the arguments of aggregates.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let items = self.items.iter().map(|i| &i.expr);
        let order = self.order_by.iter().map(|k| &k.expr);
        items.chain(&self.group_by).chain(&self.having).chain(order)
    }

    /// Whether the result has the rows of the join, in their order.
    fn yields_rows(&self, clauses: &Clauses<'_, '_>) -> bool {
        !self.grouped && !clauses.distinct && !self.windowed
    }

    /// The row order in which GROUP BY or DISTINCT needs no hash table; see [`order_of_groups`].
    fn order_of_groups(&self, clauses: &Clauses<'_, '_>) -> Option<(Vec<OrderKey>, Purpose)> {
        match (self.group_by.as_slice(), clauses.distinct) {
            _ if clauses.rollup => None,
            ([], _) if self.windowed => None,
            (keys, _) if self.windowed => order_of_groups(keys.iter(), &[]),
            ([], true) if !self.grouped => {
                let shown = self.items.len().saturating_sub(clauses.hidden_items);
                let items = self.items.iter().take(shown);
                order_of_groups(items.map(|i| &i.expr), &self.order_by)
            }
            ([], _) => None,
            // DISTINCT over groups preserves their order.
            (keys, _) => order_of_groups(keys.iter(), &self.order_by),
        }
    }

    /// Plans the join. Also returns whether the rows of a group (or rows equal under DISTINCT) are
    /// consecutive. An ORDER BY that the join provides is removed.
    fn join(
        &mut self,
        from: &From,
        (aggregates, clauses): (&Aggregates, &Clauses<'_, '_>),
        limited: bool,
        cx: &PlanCx<'_>,
    ) -> (RowOperator, bool) {
        if from.scope.sources.is_empty() {
            return (RowOperator::SingleRow, false);
        }
        let read = self.expressions().chain(aggregates.expressions());
        let needed = super::needed::needed_columns(from, read);
        let each_row = self.yields_rows(clauses);
        let groups = self.order_of_groups(clauses);
        let (order, purpose) = if each_row {
            (self.order_by.as_slice(), Purpose::Sort)
        } else {
            group_order(&groups)
        };
        let wanted = JoinRequirements {
            order,
            purpose,
            groups: OnceCell::new(),
            limited,
            needed: &needed,
            statistics: cx.statistics,
        };
        let (rows, ordered) = join_tree(from, &wanted);
        if ordered && (each_row || purpose == Purpose::SortedGroups) {
            self.order_by.clear();
        }
        (rows, ordered && purpose != Purpose::Sort)
    }

    /// Adds aggregation, and HAVING on its rows.
    fn add_aggregation(
        &mut self,
        input: RowOperator,
        adjacent: bool,
        (from, windows, (calls, rollup)): (&From, &Windows, (Vec<AggregateCall>, bool)),
    ) -> RowOperator {
        let method = if adjacent {
            AggregateMethod::Stream
        } else {
            AggregateMethod::Hash
        };
        let mut carried = Vec::new();
        let order = self.order_by.iter().map(|key| &key.expr);
        let above = self.items.iter().map(|i| &i.expr).chain(order);
        for e in above.chain(&self.having).chain(windows.expressions()) {
            e.columns(&mut |slot, column| carried.push((slot, column)));
        }
        carried.sort_unstable();
        carried.dedup();
        let groups = RowOperator::Aggregate(Box::new(Aggregate {
            method,
            group_by: std::mem::take(&mut self.group_by),
            rollup,
            calls,
            first_row_columns: carried,
            input: input.with_one_time_filter(constant_part(from)),
        }));
        match self.having.take() {
            None => groups,
            Some(having) => RowOperator::Filter(Box::new(Filter {
                conditions: vec![having],
                input: groups,
            })),
        }
    }

    /// WITH ROLLUP: keys of GROUP BY read as NULL in super-aggregate rows.
    fn prepare_rollup(&mut self, calls: &mut Aggregates, rollup: bool) -> Result<()> {
        let (keys, aggregates) = (&self.group_by, calls.list.len());
        let items = self.items.iter_mut().map(|i| &mut i.expr);
        let order = self.order_by.iter_mut().map(|k| &mut k.expr);
        let windows = calls.windows.expressions_mut();
        for e in items.chain(order).chain(&mut self.having).chain(windows) {
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
