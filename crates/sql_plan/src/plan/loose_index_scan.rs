//! Loose index scan for GROUP BY, DISTINCT and aggregates of DISTINCT values (manual, "GROUP BY
//! Optimization", "Loose Index Scan").
//!
//! If all columns that a query reads of its only table are leading parts of an index, and it makes no
//! difference to the result how often a row occurs, one entry is read of all those that agree in these
//! parts. So it is if all aggregates are MIN, MAX, BIT_AND, BIT_OR, or of DISTINCT values, or if
//! there is no aggregate but DISTINCT. MIN and MAX of the next part are found at the ends of each
//! group.
//!
//! Each group costs an engine call, so that the rule requires groups of some ten rows, and an engine
//! whose calls are not round trips. It replaces the access path that was chosen; operators above
//! stay as they are.
//!
//! Rows with equal keys must be alike to every expression; see [`reads_by_key`]. Excluded are
//! conditions on other columns, subqueries, locked rows, partitioned tables, prefix
//! parts, and an order of rows that another index provides.

use super::QueryPlan;
use super::access::AccessPlanner;
use super::cost;
use super::min_max::has_index_order;
use super::physical::{Aggregate, AggregateMethod, DistinctMethod, RowOperator};
use super::sargable::{bare_column, can_use_index, sargable_predicates};
use super::scan::{Access, Estimate, FilterPlace, LooseScan, Scan, ScanMode};
use crate::bind::{Aggregate as AggregateCall, AggregateKind, Source};
use crate::expr::{Expr, ExprKind, Truth};
use crate::statistics::StatisticsSource;
use porpoise_rows::catalog::{Index, IndexState, Table};
use porpoise_types::{CompareAs, Kind, is_decodable};
use std::sync::Arc;

/// The columns that a query reads of its table.
struct Reads<'p> {
    source: &'p Source,
    table: &'p Arc<Table>,
    scan: &'p Scan,
    /// All columns but that of `extremes`, ascending.
    columns: Vec<usize>,
    /// The column of MIN and MAX that need not be among the parts of a group.
    extremes: Option<Extremes>,
    /// Whether an operator above relies on the order of the rows.
    relies_on_order: bool,
}

/// MIN and MAX of a column that is read nowhere else.
#[derive(Clone, Copy)]
struct Extremes {
    column: usize,
    minimum: bool,
    maximum: bool,
}

/// A loose index scan with its estimated rows and cost.
struct Candidate {
    scan: LooseScan,
    mode: ScanMode,
    rows: f64,
    cost: f64,
}

/// Rule: the scan of a suitable query reads a few entries of each group, if that costs less.
pub(super) fn loose_index_scan(plan: &mut QueryPlan, statistics: &dyn StatisticsSource) {
    let Some(best) = best(plan, statistics) else {
        return;
    };
    let rows = plan.root.input_mut();
    let Some(scan) = rows.and_then(RowOperator::only_scan_mut) else {
        return;
    };
    scan.access = Access::LooseScan(Box::new(best.scan));
    scan.mode = best.mode;
    // The path of the keys that implied these conditions is not used.
    scan.filter.append(&mut scan.implied);
    scan.filter_place = FilterPlace::Copies;
    scan.estimate = Estimate {
        rows: best.rows,
        cost: best.cost,
        join_rows: best.rows,
        selectivity: 1.0,
    };
}

fn best(plan: &QueryPlan, statistics: &dyn StatisticsSource) -> Option<Candidate> {
    let reads = reads(plan).filter(|reads| statistics.is_local(reads.table))?;
    let conditions: Vec<&Expr> = reads
        .scan
        .implied
        .iter()
        .chain(&reads.scan.filter)
        .collect();
    let hints = &reads.source.hints;
    let mut planner = AccessPlanner::new(reads.table, 0, &conditions, hints, statistics);
    planner.needed = Some(&[]);
    let indexes = reads.table.indexes.iter().enumerate();
    let indexes = indexes
        .filter(|(_, index)| !index.is_full_text() && reads.table.array_column(index).is_none());
    let candidates = indexes.filter_map(|(at, index)| candidate(&reads, &planner, at, index));
    let best = candidates.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
    let estimated = reads.scan.estimate.rows;
    let read = match &reads.scan.access {
        _ if estimated > 0.0 => estimated,
        Access::FullScan { .. } => planner.rows(),
        _ => planner.output_rows(),
    };
    let each = match reads.scan.access.index() {
        None => cost::ROW,
        Some(_) => cost::ENTRY,
    };
    (best.cost < read * each).then_some(best)
}

/// The columns that a query reads; `None` if the number of equal rows makes a difference, or the scan is no
/// plain scan of one table.
fn reads(plan: &QueryPlan) -> Option<Reads<'_>> {
    let [source] = plan.sources.as_slice() else {
        return None;
    };
    let table = source.table()?;
    let rows = plan.rows()?;
    let aggregate = rows.aggregate();
    let scan = rows.only_scan()?;
    let relies_on_order = match (aggregate, plan.root.distinct()) {
        (Some(aggregate), _) => match aggregate.method {
            AggregateMethod::Stream => true,
            AggregateMethod::Hash => false,
            AggregateMethod::CountRows | AggregateMethod::MinMaxByIndex(_) => return None,
        },
        (None, Some(method)) if plan.window().is_none() => method == DistinctMethod::Adjacent,
        (None, _) => return None,
    };
    let plain = scan.lock().is_none() && !plan.has_subqueries && plan.is_fixed();
    if !plain || table.leaf_count() > 1 {
        return None;
    }
    let calls = aggregate.map_or(&[][..], |aggregate| &aggregate.calls);
    if aggregate.is_some_and(|a| a.group_by.is_empty() && a.calls.is_empty())
        || !calls.iter().all(ignores_duplicates)
    {
        return None;
    }
    let mut columns = Vec::new();
    let mut note = |_: usize, column: usize| columns.push(column);
    plan.expressions(&mut |e| e.columns(&mut note));
    scan.implied.iter().for_each(|e| e.columns(&mut note));
    let mut by_key = true;
    plan.expressions(&mut |e| by_key &= reads_by_key(e, table));
    by_key &= scan.implied.iter().all(|e| reads_by_key(e, table));
    if !by_key {
        return None;
    }
    columns.sort_unstable();
    let extremes = aggregate.and_then(|aggregate| extremes(aggregate, &columns));
    columns.dedup();
    columns.retain(|column| extremes.is_none_or(|of| of.column != *column));
    Some(Reads {
        source,
        table,
        scan,
        columns,
        extremes,
        relies_on_order,
    })
}

/// Whether an expression has the same value for all rows whose columns have the same index keys.
/// Texts that are equal under their collation have the same key, so that no function may distinguish
/// them, nor 0 from -0.
fn reads_by_key(e: &Expr, table: &Table) -> bool {
    let compared = |column: &Expr, how: CompareAs, value: &Expr| {
        bare_column(column, 0).is_some()
            && can_use_index(column, how, value)
            && reads_exact_keys(value, table)
    };
    let by_key = match &e.kind {
        ExprKind::Column { .. } => true,
        ExprKind::Compare(_, how, args) => {
            let [a, b] = args.as_ref();
            compared(a, *how, b) || compared(b, *how, a)
        }
        ExprKind::Between { args, how, .. } => {
            let [arg, low, high] = args.as_ref();
            compared(arg, how[0], low) && compared(arg, how[1], high)
        }
        ExprKind::In { arg, list, .. } => {
            let mut list = list.iter();
            list.all(|(how, item)| compared(arg, *how, item))
        }
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            ..
        } => reads_by_key(arg, table),
        ExprKind::And(args) | ExprKind::Or(args) => args.iter().all(|e| reads_by_key(e, table)),
        ExprKind::Not(arg) => reads_by_key(arg, table),
        _ => false,
    };
    by_key || reads_exact_keys(e, table)
}

/// Whether an expression reads only columns whose values their keys determine.
fn reads_exact_keys(e: &Expr, table: &Table) -> bool {
    let mut exact = true;
    e.columns(&mut |_, column| {
        let ty = table.columns.get(column).map(|column| &column.ty);
        exact &=
            ty.is_some_and(|ty| is_decodable(ty) && !matches!(ty.kind, Kind::Float | Kind::Double));
    });
    exact
}

/// Whether rows that occur several times make no difference to an aggregate.
fn ignores_duplicates(call: &AggregateCall) -> bool {
    call.distinct
        || matches!(
            call.kind,
            AggregateKind::Min | AggregateKind::Max | AggregateKind::BitAnd | AggregateKind::BitOr
        )
}

/// The column of which all MIN and MAX are, if nothing else reads it; `columns` names every read.
fn extremes(aggregate: &Aggregate, columns: &[usize]) -> Option<Extremes> {
    let extreme = |call: &AggregateCall| {
        let [arg] = call.args.as_slice() else {
            return None;
        };
        let maximum = match call.kind {
            AggregateKind::Min => false,
            AggregateKind::Max => true,
            _ => return None,
        };
        let column = bare_column(arg, 0).filter(|_| has_index_order(arg))?;
        Some((column, maximum))
    };
    let all: Vec<(usize, bool)> = aggregate.calls.iter().filter_map(extreme).collect();
    let (column, _) = *all.first()?;
    let of_column = || all.iter().filter(|(at, _)| *at == column);
    let read = columns.iter().filter(|at| **at == column).count();
    (read == of_column().count()).then(|| Extremes {
        column,
        minimum: of_column().any(|(_, maximum)| !maximum),
        maximum: of_column().any(|(_, maximum)| *maximum),
    })
}

/// The loose scan of an index, if it has the columns in the right places.
fn candidate(
    reads: &Reads<'_>,
    planner: &AccessPlanner<'_>,
    position: usize,
    index: &Index,
) -> Option<Candidate> {
    let usable = planner.is_usable(position, index)
        && index.state == IndexState::Public
        && !index.using_hash
        && planner.hints.allows_group(position);
    let same_order = || match &reads.scan.access {
        Access::FullScan { index, reverse } | Access::IndexRangeScan { index, reverse, .. } => {
            *index == position && !reverse
        }
        _ => false,
    };
    if !usable || (reads.relies_on_order && !same_order()) {
        return None;
    }
    let mut left = reads.columns.clone();
    let mut parts = 0;
    for part in &index.parts {
        if left.is_empty() {
            break;
        }
        left.retain(|column| *column != part.column);
        parts += 1;
        if part.prefix.is_some() {
            return None;
        }
    }
    if !left.is_empty() || parts == 0 {
        return None;
    }
    let next = index.parts.get(parts);
    let (mut minimum, mut maximum) = (false, false);
    if let Some(extremes) = reads.extremes {
        next.filter(|p| p.column == extremes.column && p.prefix.is_none() && !p.desc)?;
        (minimum, maximum) = (extremes.minimum, extremes.maximum);
    }
    let predicates = sargable_predicates(reads.table, 0, planner.conditions, 0);
    let restriction = planner.restriction(index, &predicates, true);
    let rows = match &restriction {
        Some(restriction) => planner.rows_of(position, restriction),
        None => planner.rows(),
    };
    let covering = position != 0 && covers(reads, position);
    let all = planner.statistics().distinct(position, parts);
    let groups = (all * rows / planner.rows()).max(1.0);
    let nullable = next.and_then(|part| reads.table.columns.get(part.column));
    let after_nulls = minimum && nullable.is_some_and(|column| column.nullable);
    let found = groups * (1.0 + f64::from(u8::from(maximum)) + f64::from(u8::from(after_nulls)));
    let row = if covering { 0.0 } else { cost::LOOKUP };
    Some(Candidate {
        scan: LooseScan {
            index: position,
            parts,
            minimum,
            maximum,
            ranges: restriction.into_iter().map(|r| r.range).collect(),
        },
        mode: if covering {
            ScanMode::Covering
        } else {
            ScanMode::Row
        },
        rows: found,
        cost: found * (cost::SEEK + cost::LOOKUP_OF_SEVERAL + cost::ENTRY + row),
    })
}

fn covers(reads: &Reads<'_>, position: usize) -> bool {
    let held = reads.table.columns_in_entries(position);
    let extreme = reads.extremes.map(|of| of.column);
    let mut all = reads.columns.iter().copied().chain(extreme);
    all.all(|column| held.contains(&column))
}
