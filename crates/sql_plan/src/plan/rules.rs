//! Optimizer rules, in the order in which they are applied.
//!
//! A rule is a function that looks for a shape (its precondition) and rewrites it into a
//! cheaper one that yields the same rows; where the precondition fails it changes nothing.
//! There are two lists, because the search for the join order lies between them:
//!
//! - [`FROM_RULES`] rewrite the bound FROM clause before that search: what they add is
//!   placed and costed like any other table.
//! - [`PLAN_RULES`] rewrite the tree of operators behind it. Each looks at the tree only.
//!
//! Every rule has a test in `crates/sql/tests/sql/explain_rules.slt`: the tree where it
//! fires, and one where its precondition fails.

use super::from::From;
use super::min_max::min_max_by_index;
use super::physical::{
    AggregateMethod, Filter, PointLookup, QueryPlan, ResultOperator, RowOperator,
};
use super::scan::{Scan, ScanMode};
use super::semi::semi_joins;
use crate::bind::{Aggregate as AggregateCall, AggregateKind};
use crate::statistics::Figures;

/// A rule on the FROM clause, with its conditions.
type FromRule = fn(&mut From, &dyn Figures);

/// A rule on the tree of a query.
type PlanRule = fn(&mut QueryPlan, &dyn Figures);

/// Rules before the search for the join order.
const FROM_RULES: [FromRule; 1] = [semi_joins];

/// Rules behind it. `min_max_by_index` comes first: it replaces the scan that the others look
/// at. `fused_scan` comes last: the others match plain scans.
const PLAN_RULES: [PlanRule; 4] = [min_max_by_index, point_lookup, count_rows, fused_scan];

/// Applies the rules on the FROM clause.
pub(super) fn rewrite_from(from: &mut From, figures: &dyn Figures) {
    FROM_RULES.iter().for_each(|rule| rule(from, figures));
}

/// Applies the rules on the tree.
pub(super) fn rewrite_plan(plan: &mut QueryPlan, figures: &dyn Figures) {
    PLAN_RULES.iter().for_each(|rule| rule(plan, figures));
}

/// `Project (Scan by whole keys)` becomes a point lookup. With one key, of which
/// there is one row at most, so do a sort and DISTINCT of it.
fn point_lookup(plan: &mut QueryPlan, _: &dyn Figures) {
    let [source] = plan.sources.as_slice() else {
        return;
    };
    let Some(table) = source.table().filter(|_| !plan.has_subqueries) else {
        return;
    };
    let large = table.may_overflow();
    let root = plan.root.bottom_mut();
    let fits = |scan: &Scan, in_order: bool| {
        let keys = if scan.is_point_lookup() {
            scan.access.keys()
        } else {
            None
        };
        let one = keys.is_some_and(|keys| keys.len() == 1);
        let all = keys.is_some() && scan.mode == ScanMode::Row && scan.placement.chosen.is_none();
        all && (one || (in_order && !large))
    };
    let in_order = matches!(root, ResultOperator::Project(_));
    let found = match (&*root, root.input()) {
        (ResultOperator::Collect(_), _) | (_, None) => false,
        (_, Some(rows)) => {
            let scan = rows.below_once().as_scan();
            scan.is_some_and(|scan| fits(scan, in_order))
        }
    };
    let Some(input) = root.input_mut().filter(|_| found) else {
        return;
    };
    let (once, input) = match std::mem::replace(input, RowOperator::SingleRow) {
        RowOperator::OneTimeFilter(filter) => {
            let Filter { conditions, input } = *filter;
            (conditions, input)
        }
        input => (Vec::new(), input),
    };
    if let RowOperator::Scan(scan) = input {
        let lookup = PointLookup { once, scan: *scan };
        *root = ResultOperator::PointLookup(Box::new(lookup));
    }
}

/// COUNT(*) over a scan of entries of which no column is read counts them without
/// reading them.
fn count_rows(plan: &mut QueryPlan, _: &dyn Figures) {
    let Some(aggregate) = plan.aggregate_mut() else {
        return;
    };
    let scan = aggregate.input.below_once().as_scan();
    let counts = |call: &AggregateCall| call.kind == AggregateKind::CountRows;
    if scan.is_some_and(|scan| scan.mode == ScanMode::CountOnly && scan.filter.is_empty())
        && aggregate.group_by.is_empty()
        && !aggregate.rollup
        && matches!(aggregate.method, AggregateMethod::Hash)
        && aggregate.calls.iter().all(counts)
    {
        aggregate.method = AggregateMethod::CountRows;
    }
}

/// The scan of a query of one table is fused with what keeps its rows: a sort, groups,
/// DISTINCT without LIMIT. Rows that a LIMIT may end early are read a batch at a time.
fn fused_scan(plan: &mut QueryPlan, _: &dyn Figures) {
    let stored = matches!(plan.sources.as_slice(), [source] if source.table().is_some());
    if !stored || plan.has_subqueries || plan.locks() || !plan.is_fixed() {
        return;
    }
    let limited = plan.root.limit().is_some_and(|limit| limit.count.is_some());
    let root = plan.root.bottom_mut();
    let keeps_all = match root {
        ResultOperator::Sort(_) | ResultOperator::TopN(_) => true,
        ResultOperator::Distinct(_) => !limited,
        _ => false,
    };
    if let Some(rows) = root.input_mut() {
        fuse(rows, keeps_all);
    }
}

fn fuse(rows: &mut RowOperator, keeps_all: bool) {
    match rows {
        RowOperator::Filter(filter) => fuse(&mut filter.input, keeps_all),
        RowOperator::OneTimeFilter(filter) => fuse(&mut filter.input, keeps_all),
        RowOperator::Aggregate(aggregate) => {
            let scans = matches!(
                aggregate.method,
                AggregateMethod::Hash | AggregateMethod::Stream
            );
            fuse(&mut aggregate.input, scans);
        }
        RowOperator::Scan(scan) if keeps_all && scan.in_place => {
            if let RowOperator::Scan(scan) = std::mem::replace(rows, RowOperator::SingleRow) {
                *rows = RowOperator::FusedScan(scan);
            }
        }
        _ => {}
    }
}
