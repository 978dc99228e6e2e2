//! Limits on ROW_NUMBER, RANK and DENSE_RANK of a derived table as an operator below its window.
//!
//! ```text
//!  SELECT * FROM (SELECT t.*, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS n FROM t) d
//!  WHERE n <= 3
//!
//!  Filter  n <= 3                          Filter  n <= 3
//!    Scan d                                  Scan d
//!      Project                                 Project
//!        Window  ROW_NUMBER()       -->          Window  ROW_NUMBER()
//!          Scan t                                  TopNPerGroup  3 of each g by v DESC
//!                                                    Scan t
//! ```
//!
//! The window then sorts at most three rows of each partition. Window and filter stay: the operator
//! only drops rows that the filter would drop.
//!
//! It is sound where a row's results depend only on rows that are kept. Rows with a rank up to N
//! begin their partition in the order of the window, so this holds for a window that streams
//! ([`WindowCalls::streams`]), if it is the only one of its query. Rows must not be counted or
//! cut off above the window, which excludes LIMIT and DISTINCT.
//!
//! Rejected: numbering the rows in the operator, in place of the window. Other functions over the
//! same window need it, and the operator could not give up when memory is short.

use super::derived::{Derived, TableOperator, materialized, operator_of};
use super::from::{Block, From};
use super::physical::{QueryPlan, Ranking, RowOperator, TopNPerGroup, Window, WindowCalls};
use super::sargable::flipped;
use crate::bind::window::WindowFunction;
use crate::bind::{Origin, Source};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::statistics::StatisticsSource;
use porpoise_types::CompareAs;
use std::sync::Arc;

/// Rule: a condition `n <= 3` on the rank that a derived table computes keeps rows of higher rank
/// from being sorted.
pub(super) fn top_n_per_group(from: &mut From, _: &dyn StatisticsSource) {
    limit_tables(&from.block, &[], &mut from.scope.sources);
}

/// Limits the derived tables of a block by its conditions, and by the ON conditions of the outer
/// join whose right side it is.
fn limit_tables(block: &Block, on: &[Expr], sources: &mut [Source]) {
    for slot in &block.tables {
        let conditions = block.conditions.iter().chain(on);
        let Some(source) = sources.get_mut(*slot) else {
            continue;
        };
        if let Origin::Derived(derived) = &source.origin
            && let Some(limited) = limited(derived, *slot, conditions)
        {
            source.origin = Origin::Derived(Arc::new(limited));
        }
    }
    for outer in &block.outers {
        limit_tables(&outer.block, &outer.on, sources);
    }
}

/// The derived table with the operator below its window.
fn limited<'e>(
    derived: &Arc<Derived>,
    slot: usize,
    mut conditions: impl Iterator<Item = &'e Expr>,
) -> Option<Derived> {
    let TableOperator::Materialize(plan) = operator_of(derived) else {
        return None;
    };
    let window = plan.window()?;
    let over = only_window(window)?;
    let whole = plan.root.limit().is_none() && plan.root.distinct().is_none();
    // Readers of a common table expression share its rows, which would be computed once more for
    // this one. Only readers bound so far are known.
    if !whole || derived.references.are_several() || plan.locks() || !plan.is_fixed() {
        return None;
    }
    let ranked = |condition: &'e Expr| {
        let bound = upper_bound(condition, slot)?;
        let ExprKind::Window(result) = plan.items.get(bound.column)?.kind else {
            return None;
        };
        let call = over.calls.get(result.checked_sub(window.aggregates)?)?;
        let ranking = match call.function {
            WindowFunction::RowNumber => Ranking::RowNumber,
            // Without ORDER BY all rows have the same rank.
            _ if over.window.order.is_empty() => return None,
            WindowFunction::Rank => Ranking::Rank,
            WindowFunction::DenseRank => Ranking::DenseRank,
            _ => return None,
        };
        Some((ranking, bound))
    };
    let (ranking, bound) = conditions.find_map(ranked)?;
    let mut plan = QueryPlan::clone(plan);
    add_operator(&mut plan, ranking, bound)?;
    let (columns, free) = (derived.columns.clone(), derived.free.clone());
    Some(materialized(plan, columns, free))
}

/// The window, if it is the only one, its functions depend only on rows before, and the rows are
/// sorted for it.
fn only_window(window: &Window) -> Option<&WindowCalls> {
    let [pass] = window.passes.as_slice() else {
        return None;
    };
    let [over] = pass.windows.as_slice() else {
        return None;
    };
    (over.streams() && pass.is_sorted()).then_some(over)
}

/// An upper bound of a column.
struct UpperBound<'e> {
    column: usize,
    value: &'e Expr,
    inclusive: bool,
}

/// The upper bound that a condition sets to an integer column of the table in `slot`.
fn upper_bound(condition: &Expr, slot: usize) -> Option<UpperBound<'_>> {
    let bound = |op: CmpOp, column: &Expr, value| match (&column.kind, op) {
        (
            ExprKind::Column {
                slot: at, column, ..
            },
            CmpOp::Le | CmpOp::Lt | CmpOp::Eq,
        ) if *at == slot => Some((*column, value, op != CmpOp::Lt)),
        _ => None,
    };
    let (column, value, inclusive) = match &condition.kind {
        ExprKind::Compare(op, CompareAs::Int, args) => {
            let [a, b] = args.as_ref();
            bound(*op, a, b).or_else(|| bound(flipped(*op), b, a))
        }
        ExprKind::Between {
            args,
            how: [_, CompareAs::Int],
            negated: false,
        } => {
            let [arg, _, high] = args.as_ref();
            bound(CmpOp::Le, arg, high)
        }
        _ => None,
    }
    .filter(|(_, value, _): &(usize, &Expr, bool)| value.is_constant())?;
    Some(UpperBound {
        column,
        value,
        inclusive,
    })
}

/// Puts the operator below the window.
fn add_operator(plan: &mut QueryPlan, ranking: Ranking, bound: UpperBound<'_>) -> Option<()> {
    let RowOperator::Window(window) = plan.root.input_mut()? else {
        return None;
    };
    let pass = window.passes.first()?;
    let partition = pass.windows.first()?.window.partition.len();
    let (partition, order) = pass.sort.split_at_checked(partition)?;
    let (partition, order) = (partition.to_vec(), order.to_vec());
    let mut carried = window.carried.clone();
    window.expressions(&mut |e| e.columns(&mut |slot, column| carried.push((slot, column))));
    carried.sort_unstable();
    carried.dedup();
    let input = std::mem::replace(&mut window.input, RowOperator::SingleRow);
    window.input = RowOperator::TopNPerGroup(Box::new(TopNPerGroup {
        ranking,
        limit: bound.value.clone(),
        inclusive: bound.inclusive,
        partition,
        order,
        carried,
        aggregates: window.aggregates,
        input,
    }));
    Some(())
}
