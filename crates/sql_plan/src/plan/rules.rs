//! Rules that replace parts of a finished plan by cheaper operators.
//!
//! A rule is a function from plan to plan; it looks at the tree only and keeps its
//! rows. They run once, behind planning.

use super::physical::{
    AggregateMethod, Filter, PointLookup, QueryPlan, ResultOperator, RowOperator,
};
use super::scan::{Scan, ScanMode};
use crate::bind::{Aggregate as AggregateCall, AggregateKind};

/// Applies all rules.
pub(super) fn apply(plan: &mut QueryPlan) {
    point_lookup(plan);
    count_rows(plan);
    fused_scan(plan);
}

/// `Project (Scan by whole keys)` becomes a point lookup. With one key, of which
/// there is one row at most, so do a sort and DISTINCT of it.
fn point_lookup(plan: &mut QueryPlan) {
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
        (_, Some(RowOperator::Scan(scan))) => fits(scan, in_order),
        (_, Some(RowOperator::OneTimeFilter(filter))) => filter
            .input
            .as_scan()
            .is_some_and(|scan| fits(scan, in_order)),
        _ => false,
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
fn count_rows(plan: &mut QueryPlan) {
    let Some(aggregate) = plan.root.input_mut().and_then(RowOperator::aggregate_mut) else {
        return;
    };
    let below = match &aggregate.input {
        RowOperator::OneTimeFilter(filter) => &filter.input,
        input => input,
    };
    let scan = below.as_scan();
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
fn fused_scan(plan: &mut QueryPlan) {
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
