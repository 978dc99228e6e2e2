//! Optimizer rules, in the order in which they are applied.
//!
//! A rule is a function that matches a pattern (its precondition) and rewrites it to a cheaper
//! equivalent; if the precondition fails, it changes nothing. There are two lists, because the
//! search for the join order runs between them:
//!
//! - [`FROM_RULES`] rewrite the bound FROM clause before that search: tables that they add are
//!   placed and costed like any other.
//! - [`PLAN_RULES`] rewrite the operator tree after it. Each depends only on the tree.
//!
//! Every rule has a test in `crates/sql/tests/sql/explain_rules.slt`: a plan in which it applies,
//! and one in which its precondition fails.

use super::aggregate_joins::aggregate_joins;
use super::constants::constants_through_equalities;
use super::derived::streamed_query;
use super::derived_pushdown::derived_pushdown;
use super::equal_columns::equal_columns;
use super::exact_range::drop_implied_conditions;
use super::from::From;
use super::loose_index_scan::loose_index_scan;
use super::min_max::min_max_by_index;
use super::or_factors::{or_factors, or_parts_of_tables};
use super::physical::{
    AggregateMethod, Filter, PointLookup, QueryPlan, ResultOperator, RowOperator,
};
use super::scan::{Access, FilterPlace, Scan, ScanMode, SearchOrder};
use super::semi::semi_joins;
use super::top_n_per_group::top_n_per_group;
use crate::bind::{Aggregate as AggregateCall, AggregateKind, Origin, Source};
use crate::statistics::StatisticsSource;

/// A rewrite rule for the FROM clause and its conditions.
type FromRule = fn(&mut From, &dyn StatisticsSource);

/// A rewrite rule for a query's operator tree.
type PlanRule = fn(&mut QueryPlan, &dyn StatisticsSource);

/// Rules applied before the search for the join order. `or_factors` is first, because it brings to
/// light the equalities that the others use. `derived_pushdown` follows the rules that add
/// conditions on single tables, and plans derived tables again; so `top_n_per_group`, which changes
/// their plans, comes after it. `semi_joins` follows, because it looks at the conditions of the
/// tables that it tests. `equal_columns` is last, because it describes the conditions that are left.
const FROM_RULES: [FromRule; 8] = [
    or_factors,
    or_parts_of_tables,
    constants_through_equalities,
    aggregate_joins,
    derived_pushdown,
    top_n_per_group,
    semi_joins,
    equal_columns,
];

/// Rules applied after it. `min_max_by_index` is first, because it replaces the scan that the
/// others match. `loose_index_scan` follows for the groups that it leaves. `fused_scan` is last,
/// because the others match plain scans.
const PLAN_RULES: [PlanRule; 6] = [
    min_max_by_index,
    loose_index_scan,
    point_lookup,
    count_rows,
    search_by_key,
    fused_scan,
];

/// Applies the rules for the FROM clause.
pub(super) fn rewrite_from(from: &mut From, statistics: &dyn StatisticsSource) {
    FROM_RULES.iter().for_each(|rule| rule(from, statistics));
}

/// Applies the rules for the operator tree.
pub(super) fn rewrite_plan(plan: &mut QueryPlan, statistics: &dyn StatisticsSource) {
    PLAN_RULES.iter().for_each(|rule| rule(plan, statistics));
}

/// `Project (Scan by whole keys)` becomes a point lookup. With a single key, which finds at most
/// one row, so do a sort and a DISTINCT.
fn point_lookup(plan: &mut QueryPlan, _: &dyn StatisticsSource) {
    let [source] = plan.sources.as_slice() else {
        return;
    };
    let Some(table) = source
        .table()
        .filter(|_| !plan.has_subqueries && !plan.has_searches)
    else {
        return;
    };
    let large = table.may_overflow();
    let root = plan.root.below_limit_mut();
    let fits = |scan: &Scan, in_order: bool| {
        let keys = if scan.is_point_lookup() {
            scan.access.keys()
        } else {
            None
        };
        let one = keys.is_some_and(|keys| keys.len() == 1);
        let all = keys.is_some()
            && scan.mode == ScanMode::Row
            && scan.placement.named_partitions.is_none();
        all && (one || (in_order && !large))
    };
    let in_order = matches!(root, ResultOperator::Project(_));
    let found = match (&*root, root.input()) {
        (ResultOperator::Collect(_), _) | (_, None) => false,
        (_, Some(rows)) => {
            let scan = rows.below_one_time_filter().as_scan();
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
        let lookup = PointLookup {
            constant_conditions: once,
            scan: *scan,
        };
        *root = ResultOperator::PointLookup(Box::new(lookup));
    }
}

/// COUNT(*) over index entries of which no column is read becomes a count in the engine.
fn count_rows(plan: &mut QueryPlan, _: &dyn StatisticsSource) {
    let table = plan.sources.first().and_then(Source::table).cloned();
    let Some(aggregate) = plan.aggregate_mut() else {
        return;
    };
    let counts = |call: &AggregateCall| call.kind == AggregateKind::CountRows;
    if !aggregate.group_by.is_empty()
        || aggregate.rollup
        || !matches!(aggregate.method, AggregateMethod::Hash)
        || !aggregate.calls.iter().all(counts)
    {
        return;
    }
    let is_scan = aggregate.input.below_one_time_filter().as_scan().is_some();
    if is_scan
        && aggregate.first_row_columns.is_empty()
        && let (Some(scan), Some(table)) = (aggregate.input.only_scan_mut(), &table)
    {
        drop_implied_conditions(scan, table);
    }
    let scan = aggregate.input.below_one_time_filter().as_scan();
    if scan.is_some_and(|scan| scan.mode == ScanMode::CountOnly && scan.filter.is_empty()) {
        aggregate.method = AggregateMethod::CountRows;
    }
}

/// The rows of a FULLTEXT search are read in key order if they are only aggregated, and no aggregate depends
/// on their order.
fn search_by_key(plan: &mut QueryPlan, _: &dyn StatisticsSource) {
    let is_fixed = plan.is_fixed() && !plan.has_subqueries;
    let Some(aggregate) = plan.aggregate_mut().filter(|_| is_fixed) else {
        return;
    };
    if !matches!(aggregate.method, AggregateMethod::Hash)
        || aggregate.rollup
        || !aggregate.first_row_columns.is_empty()
        || !aggregate.calls.iter().all(AggregateCall::ignores_order)
    {
        return;
    }
    if let Some(scan) = aggregate.input.only_scan_mut()
        && let Access::TextSearch { order, .. } = &mut scan.access
    {
        *order = SearchOrder::Key;
    }
}

/// The scan of a single-table query is fused with an operator that keeps its rows: a sort,
/// aggregation, or DISTINCT without LIMIT. Rows that a LIMIT may end early are read in batches.
/// The rows of a derived table are then consumed as its query computes them.
fn fused_scan(plan: &mut QueryPlan, _: &dyn StatisticsSource) {
    let [source] = plan.sources.as_slice() else {
        return;
    };
    let fits = match &source.origin {
        Origin::Stored(_) => true,
        Origin::Derived(derived) => streamed_query(derived).is_some(),
        Origin::Virtual(_) => false,
    };
    if !fits || plan.has_subqueries || plan.locks() || !plan.is_fixed() {
        return;
    }
    let limited = plan.root.limit().is_some_and(|limit| limit.count.is_some());
    let root = plan.root.below_limit_mut();
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
        RowOperator::Window(window) => {
            let keeps_all = window.keeps_input();
            fuse(&mut window.input, keeps_all);
        }
        RowOperator::Scan(scan)
            if keeps_all
                && (scan.filter_place == FilterPlace::InPlace
                    || matches!(scan.access, Access::VirtualScan)) =>
        {
            if let RowOperator::Scan(scan) = std::mem::replace(rows, RowOperator::SingleRow) {
                *rows = RowOperator::FusedScan(scan);
            }
        }
        _ => {}
    }
}
