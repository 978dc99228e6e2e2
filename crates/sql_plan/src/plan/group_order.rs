//! Stream aggregation and streaming DISTINCT: an index provides an order in which equal rows are
//! consecutive, so that no hash table is needed.
//!
//! This requires that all keys are plain columns and that the access path of the driving scan has
//! them as its leading parts. Any order of the keys will do; if ORDER BY names some of them, those
//! come first, and the order serves both.
//!
//! Invariants:
//! 1. Rows are distinguished as by the hash table. An index that considers more values equal would
//!    split a group, so prefix parts are excluded. So are TIMESTAMP columns: two values are
//!    displayed alike when clocks are set back.

use super::OrderKey;
use crate::bind::Source;
use crate::expr::{Expr, ExprKind, Load};
use crate::statistics::StatisticsSource;
use porpoise_rows::catalog::Index;

/// Purpose of an order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// ORDER BY of rows.
    #[default]
    Sort,
    /// Grouping, in any order.
    Groups,
    /// Grouping, in the order of ORDER BY.
    SortedGroups,
}

/// The wanted order for grouping by these keys; `None` if no index can provide one.
pub(super) fn order_of_groups<'e>(
    keys: impl Iterator<Item = &'e Expr>,
    order_by: &[OrderKey],
) -> Option<(Vec<OrderKey>, Purpose)> {
    let mut columns = Vec::new();
    let mut left: Vec<&Expr> = Vec::new();
    for key in keys {
        let column = column_of(key)?;
        if !columns.contains(&column) {
            columns.push(column);
            left.push(key);
        }
    }
    let sorts = |key: &OrderKey| column_of(&key.expr).is_some_and(|c| columns.contains(&c));
    let last = order_by.last().filter(|_| order_by.iter().all(sorts));
    let mut order: Vec<OrderKey> = Vec::with_capacity(left.len());
    if last.is_some() {
        order.extend_from_slice(order_by);
    }
    let desc = last.is_some_and(|key| key.desc);
    for key in left {
        let column = column_of(key);
        if !order.iter().any(|k| column_of(&k.expr) == column) {
            order.push(OrderKey {
                expr: key.clone(),
                desc,
            });
        }
    }
    let purpose = match last {
        Some(_) => Purpose::SortedGroups,
        None => Purpose::Groups,
    };
    (!order.is_empty()).then_some((order, purpose))
}

/// Estimated number of groups of these keys, which are columns of one table.
pub(super) fn estimate_groups(
    keys: &[OrderKey],
    sources: &[Source],
    statistics: &dyn StatisticsSource,
) -> f64 {
    let columns: Vec<(usize, usize)> = keys.iter().filter_map(|k| column_of(&k.expr)).collect();
    let first = columns.first().and_then(|(slot, _)| sources.get(*slot));
    let Some(table) = first.and_then(Source::table) else {
        return 1.0;
    };
    let known = statistics.of(table);
    let has = |column: usize| columns.iter().any(|(_, c)| *c == column);
    let leads = |index: &Index, parts: usize| {
        let mut leading = index.parts.iter().take(parts);
        !index.is_full_text() && index.parts.len() >= parts && leading.all(|p| has(p.column))
    };
    let mut indexes = table.indexes.iter().enumerate();
    let all = indexes.find(|(_, index)| leads(index, columns.len()));
    let groups = match all {
        Some((position, _)) => known.distinct(position, columns.len()),
        None => known.rows / 10.0,
    };
    groups.clamp(1.0, known.rows.max(1.0))
}

/// Slot and column, if the index distinguishes the values as grouping does.
fn column_of(e: &Expr) -> Option<(usize, usize)> {
    match &e.kind {
        ExprKind::Column {
            load: Load::Timestamp,
            ..
        } => None,
        ExprKind::Column { slot, column, .. } => Some((*slot, *column)),
        _ => None,
    }
}
