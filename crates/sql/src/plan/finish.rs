//! From the bound parts of a query to its plan: what is evaluated for each row
//! or group, in which order tables are joined, and what is read of them.

use super::columns::result_column;
use super::consecutive::{Purpose, order_of_groups};
use super::extremes::extremes;
use super::from::{From, split};
use super::keys::{group_keys, order_keys};
use super::order::{Wanted, lock_specs, steps};
use super::select::{Clauses, Item, PlanCx, limits};
use super::{OrderKey, ResultColumn, SelectPlan, grouping};
use crate::bind::{Aggregates, Scope};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use porpoise_types::SqlMode;
use std::cell::OnceCell;

/// The plan of a query without aggregates in its select list.
pub(super) fn finish(
    from: From,
    items: Vec<Item>,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    finish_with(from, items, Aggregates::default(), clauses, cx)
}

/// The plan of a query, given the aggregates of its select list.
pub(super) fn finish_with(
    mut from: From,
    items: Vec<Item>,
    mut aggregates: Aggregates,
    clauses: Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<SelectPlan> {
    let result = outcome(&mut from, items, &mut aggregates, &clauses, cx)?;
    let (limit, offset) = limits(clauses.limit, cx)?;
    let lock = lock_specs(&from.scope, clauses.locks)?;
    from.locked |= locked_slots(&lock);
    let columns = result.columns(&from.scope);
    super::semi::convert(&mut from, cx.figures);
    let read = result.expressions().chain(aggregates.expressions());
    let needed = super::needed::needed(&from, read);
    let each_row = !result.grouped && !clauses.distinct;
    let groups = result.order_of_groups(&clauses);
    let (order, purpose) = match each_row {
        true => (result.order_by.as_slice(), Purpose::Sort),
        false => group_order(&groups),
    };
    let wanted = Wanted {
        order,
        purpose,
        groups: OnceCell::new(),
        limited: limit.is_some() && each_row && !clauses.counts_all,
        needed: &needed,
        figures: cx.figures,
    };
    let (mut steps, ordered) = match from.scope.sources.is_empty() {
        true => (Vec::new(), false),
        false => steps(&from, &wanted),
    };
    let done = ordered && (each_row || purpose == Purpose::SortedGroups);
    let extremes = match result.grouped && result.group_by.is_empty() && !clauses.rollup {
        true => extremes(&from, &aggregates.list, result.expressions(), cx),
        false => Vec::new(),
    };
    if let Some(step) = extremes.first().and_then(|e| e.steps.first()) {
        steps = vec![step.clone()];
    }
    set_locks(&mut steps, &lock, cx);
    let mut plan = SelectPlan {
        constant: constant_part(&from),
        sources: from.scope.sources,
        steps,
        items: result.items.into_iter().map(|i| i.expr).collect(),
        behind: clauses.behind,
        columns,
        aggregates: aggregates.list,
        extremes,
        group_by: result.group_by,
        grouped: result.grouped,
        having: result.having,
        rollup: clauses.rollup,
        distinct: clauses.distinct,
        consecutive: ordered && purpose != Purpose::Sort,
        order_by: if done { Vec::new() } else { result.order_by },
        limit,
        offset,
        counts_all: clauses.counts_all,
        inner_tables: Vec::new(),
        has_queries: false,
        inner_locks: false,
    };
    settle(&mut plan, cx);
    Ok(plan)
}

/// The order in which groups need no hash table, and what it is for.
fn group_order(groups: &Option<(Vec<OrderKey>, Purpose)>) -> (&[OrderKey], Purpose) {
    match groups {
        Some((order, purpose)) => (order, *purpose),
        None => (&[], Purpose::Sort),
    }
}

/// What is known of the whole only.
fn settle(plan: &mut SelectPlan, cx: &PlanCx<'_>) {
    let mut has_queries = false;
    plan.expressions(&mut |e| has_queries |= e.has_query());
    plan.has_queries = has_queries;
    super::placement::settle(plan);
    if !cx.inner {
        plan.inner_tables = cx.reads.tables.take();
        plan.inner_locks = cx.reads.locks.get();
    }
}

/// What is evaluated for each row, or for each group.
struct Outcome {
    items: Vec<Item>,
    group_by: Vec<Expr>,
    /// There is a GROUP BY or an aggregate.
    grouped: bool,
    /// Of a grouped query.
    having: Option<Expr>,
    order_by: Vec<OrderKey>,
}

/// Binds WHERE, GROUP BY, HAVING and ORDER BY, and checks what may stand
/// there. Conditions on rows join those of FROM.
fn outcome(
    from: &mut From,
    items: Vec<Item>,
    aggregates: &mut Aggregates,
    clauses: &Clauses<'_, '_>,
    cx: &PlanCx<'_>,
) -> Result<Outcome> {
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
            binder.aggregates = Some(aggregates);
            binder.aliases = &aliases;
            binder.keys = Some(&group_by);
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
            grouping::check(from, &items, &group_by, &order_by, implicit)?;
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
    let mut result = Outcome {
        items,
        group_by,
        grouped,
        having,
        order_by,
    };
    result.prepare(aggregates.list.len(), clauses.rollup)?;
    Ok(result)
}

impl Outcome {
    /// What clients are told of the items.
    fn columns(&self, scope: &Scope) -> Vec<ResultColumn> {
        let items = self.items.iter();
        items.map(|item| result_column(scope, item)).collect()
    }

    /// All of them, without the arguments of aggregates.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let items = self.items.iter().map(|i| &i.expr);
        let order = self.order_by.iter().map(|k| &k.expr);
        items.chain(&self.group_by).chain(&self.having).chain(order)
    }

    /// The order in which rows would need no hash table to be grouped, or to be
    /// told from those before; see [`order_of_groups`].
    fn order_of_groups(&self, clauses: &Clauses<'_, '_>) -> Option<(Vec<OrderKey>, Purpose)> {
        match (self.group_by.as_slice(), clauses.distinct) {
            _ if clauses.rollup => None,
            ([], true) if !self.grouped => {
                let shown = self.items.len().saturating_sub(clauses.behind);
                let items = self.items.iter().take(shown);
                order_of_groups(items.map(|i| &i.expr), &self.order_by)
            }
            ([], _) => None,
            // What DISTINCT leaves of the groups is in their order.
            (keys, _) => order_of_groups(keys.iter(), &self.order_by),
        }
    }

    /// WITH ROLLUP: keys of GROUP BY are NULL in rows that sum up over them.
    fn prepare(&mut self, aggregates: usize, rollup: bool) -> Result<()> {
        let keys = &self.group_by;
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

/// The slots whose rows are locked, as a bit set.
fn locked_slots(lock: &[Option<super::LockSpec>]) -> u64 {
    let slots = lock.iter().enumerate().filter(|(_, spec)| spec.is_some());
    slots.fold(0, |all, (slot, _)| all | 1 << (slot & 63))
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
