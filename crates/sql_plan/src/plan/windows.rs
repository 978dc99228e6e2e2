//! Planning of window functions: which windows share a sort.
//!
//! A sort serves a window if its leading keys are those of the window's PARTITION BY, in any order
//! and direction, and the next ones its ORDER BY:
//!
//! ```text
//!  RANK() OVER (PARTITION BY a ORDER BY b, c)      sort: a, b, c
//!  SUM(x) OVER (PARTITION BY a ORDER BY b)             the same
//!  COUNT(*) OVER (PARTITION BY a)                      the same
//!  ROW_NUMBER() OVER (ORDER BY c)                  sort: c
//! ```
//!
//! Windows with more keys are assigned first. A query's ORDER BY that the last sort provides is
//! removed. The first sort is left out where the access path of the driving scan has its order
//! ([`first_sort`]).
//!
//! Windows without keys whose results depend on the order of the rows are computed before all sorts, as in MySQL; if
//! no other window needs a sort, they are computed in the order of ORDER BY.

use super::OrderKey;
use super::grouping::is_same_expr;
use super::physical::{RowOperator, Window, WindowCalls, WindowPass};
use super::select::Item;
use crate::bind::window::{FrameBound, Window as BoundWindow, WindowCall, WindowFunction, Windows};
use crate::expr::{Expr, ExprKind, Load};

/// Adds window functions above the rows or groups, and makes the select list and ORDER BY read
/// their results.
pub(super) fn add_window_functions(
    input: RowOperator,
    windows: Windows,
    items: &mut [Item],
    order_by: &mut Vec<OrderKey>,
    order: RowOrder,
) -> RowOperator {
    let aggregates = input.aggregate().map_or(0, |aggregate| {
        let keys = if aggregate.rollup {
            2 * aggregate.group_by.len()
        } else {
            0
        };
        aggregate.calls.len() + keys
    });
    // Groups are sorted after the windows.
    let grouped = input.aggregate().is_some();
    let (passes, provides_order) = passes(&windows, order_by, grouped);
    if provides_order && !order.is_distinct {
        order_by.clear();
    }
    let (mut passes, positions) = with_calls(passes, windows);
    if let Some(first) = passes.first_mut() {
        first.is_presorted = order.is_presorted;
    }
    let items = items.iter_mut().map(|item| &mut item.expr);
    let exprs = items.chain(order_by.iter_mut().map(|key| &mut key.expr));
    let mut carried = Vec::new();
    for e in exprs {
        e.columns(&mut |slot, column| carried.push((slot, column)));
        e.rewrite(&mut |e| {
            if let ExprKind::Window(call) = &mut e.kind {
                *call = aggregates + positions.get(*call).copied().unwrap_or_default();
            }
        });
    }
    carried.sort_unstable();
    carried.dedup();
    RowOperator::Window(Box::new(Window {
        passes,
        carried,
        aggregates,
        input,
    }))
}

/// Properties of the order of rows on which the plan of windows depends.
#[derive(Clone, Copy)]
pub(super) struct RowOrder {
    /// Whether the rows have the order of the first sort.
    pub(super) is_presorted: bool,
    /// Whether a DISTINCT above the windows may change the order of their rows.
    pub(super) is_distinct: bool,
}

/// The keys of the first sort if all of them are columns whose order an index may have; otherwise none. A
/// TIMESTAMP is excluded: rows of equal local time need not be adjacent when clocks are set back.
pub(super) fn first_sort(windows: &Windows, order_by: &[OrderKey]) -> Vec<OrderKey> {
    let is_stored = |key: &OrderKey| {
        matches!(
            key.expr.kind,
            ExprKind::Column {
                load: Load::Plain,
                ..
            }
        )
    };
    let (passes, _) = passes(windows, order_by, false);
    let first = passes.into_iter().next().map(|pass| pass.sort);
    first
        .filter(|sort| sort.iter().all(is_stored))
        .unwrap_or_default()
}

/// A sort, and the positions of the windows that it serves.
struct SharedSort {
    sort: Vec<OrderKey>,
    windows: Vec<usize>,
}

/// Number of sort keys of a window.
fn key_count(window: &BoundWindow) -> usize {
    window.partition.len() + window.order.len()
}

/// Whether the results of a window without keys depend on the order of the rows.
fn depends_on_order(windows: &Windows, at: usize) -> bool {
    let window = windows
        .windows
        .get(at)
        .filter(|window| key_count(window) == 0);
    let whole = |window: &BoundWindow| {
        let ends = [&window.frame.start, &window.frame.end];
        window.frame.range || ends.iter().all(|end| matches!(end, FrameBound::Unbounded))
    };
    let is_aggregate = |call: &WindowCall| matches!(call.function, WindowFunction::Aggregate(_));
    let mut calls = windows.calls.iter().filter(|call| call.window == at);
    window.is_some_and(|window| !whole(window) || !calls.all(is_aggregate))
}

/// The sorts, in the order of the first windows that they serve, except that a sort that provides the
/// order of ORDER BY is the last one. Also returns whether there is such a sort.
fn passes(windows: &Windows, order_by: &[OrderKey], grouped: bool) -> (Vec<SharedSort>, bool) {
    let mut passes = shared_sorts(windows, order_by, grouped);
    let provider = passes.iter().rposition(|pass| provides(pass, order_by));
    if let Some(at) = provider {
        let last = passes.remove(at);
        passes.push(last);
    }
    (passes, provider.is_some())
}

/// The sorts, in the order of the first windows that they serve. Windows without keys that depend on the order of
/// the rows come before them.
fn shared_sorts(windows: &Windows, order_by: &[OrderKey], grouped: bool) -> Vec<SharedSort> {
    let (unsorted, shared): (Vec<usize>, Vec<usize>) =
        (0..windows.windows.len()).partition(|at| depends_on_order(windows, *at));
    let mut longest: Vec<(usize, &BoundWindow)> = shared
        .into_iter()
        .filter_map(|at| Some((at, windows.windows.get(at)?)))
        .collect();
    longest.sort_by_key(|(_, window)| std::cmp::Reverse(key_count(window)));
    let mut passes: Vec<SharedSort> = Vec::new();
    for (at, window) in longest {
        match passes.iter_mut().find(|pass| serves(&pass.sort, window)) {
            Some(pass) => pass.windows.push(at),
            None => passes.push(SharedSort {
                sort: sort_of(window),
                windows: vec![at],
            }),
        }
    }
    for pass in &mut passes {
        pass.windows.sort_unstable();
    }
    passes.sort_by_key(|pass| pass.windows.first().copied());
    if !unsorted.is_empty() {
        let is_sorted = passes.iter().any(|pass| !pass.sort.is_empty());
        let known_before = |key: &OrderKey| key.expr.is_fixed() && !key.expr.has_window();
        let sort = if !is_sorted && !grouped && order_by.iter().all(known_before) {
            order_by.to_vec()
        } else {
            Vec::new()
        };
        let first = SharedSort {
            sort,
            windows: unsorted,
        };
        passes.insert(0, first);
    }
    passes
}

/// The sort keys of a window.
fn sort_of(window: &BoundWindow) -> Vec<OrderKey> {
    let partition = window.partition.iter().map(|e| OrderKey {
        expr: e.clone(),
        desc: false,
    });
    partition.chain(window.order.iter().cloned()).collect()
}

/// Whether rows in the order of `sort` have the order that a window needs.
fn serves(sort: &[OrderKey], window: &BoundWindow) -> bool {
    let Some((partition, rest)) = sort.split_at_checked(window.partition.len()) else {
        return false;
    };
    let is_key = |e: &Expr| partition.iter().any(|key| is_same_expr(&key.expr, e));
    let is_partition = |key: &OrderKey| window.partition.iter().any(|e| is_same_expr(e, &key.expr));
    window.partition.iter().all(is_key)
        && partition.iter().all(is_partition)
        && begins_with(rest, &window.order)
        && sort.iter().all(|key| key.expr.is_fixed())
}

fn begins_with(sort: &[OrderKey], order: &[OrderKey]) -> bool {
    let mut pairs = sort.iter().zip(order);
    sort.len() >= order.len()
        && pairs.all(|(a, b)| is_same_expr(&a.expr, &b.expr) && a.desc == b.desc)
}

/// Whether rows in the order of a sort have the order of ORDER BY.
fn provides(pass: &SharedSort, order_by: &[OrderKey]) -> bool {
    let fixed = order_by.iter().all(|key| key.expr.is_fixed());
    !order_by.is_empty() && fixed && begins_with(&pass.sort, order_by)
}

/// The sorts with the calls of their windows, and the position of each call's result among all
/// results.
fn with_calls(passes: Vec<SharedSort>, windows: Windows) -> (Vec<WindowPass>, Vec<usize>) {
    let mut positions = vec![0; windows.calls.len()];
    let mut next = 0;
    let mut of_window = |window: usize| {
        let mut calls = Vec::new();
        let pairs = windows.calls.iter().zip(&mut positions);
        for (call, position) in pairs.filter(|(call, _)| call.window == window) {
            calls.push(call.clone());
            *position = next;
            next += 1;
        }
        calls
    };
    let mut all = Vec::with_capacity(passes.len());
    for pass in passes {
        let own = pass.windows.iter().filter_map(|at| {
            Some(WindowCalls {
                window: windows.windows.get(*at)?.clone(),
                calls: of_window(*at),
            })
        });
        all.push(WindowPass {
            windows: own.collect(),
            sort: pass.sort,
            is_presorted: false,
        });
    }
    (all, positions)
}
