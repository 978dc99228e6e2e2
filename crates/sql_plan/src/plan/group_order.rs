//! Groups that need no hash table: an index gives rows in an order in which
//! those of one group, or those that DISTINCT takes for the same, follow each
//! other.
//!
//! That is so where all keys are plain columns, and the first table's path
//! gives them as its leading parts. Any order of the keys serves the groups;
//! where ORDER BY names some of them it comes first, and serves both.
//!
//! Invariants:
//! 1. Rows are told apart by the same bytes as with a hash table: an index that
//!    took more values for equal would give a group several times, so that
//!    parts of prefixes never serve. Nor do TIMESTAMP columns, of which two
//!    values show as one where clocks are put back.

use super::OrderKey;
use crate::bind::Source;
use crate::expr::{Expr, ExprKind, Load};
use crate::statistics::Figures;
use porpoise_rows::catalog::Index;

/// Purpose of an order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// ORDER BY of the rows.
    #[default]
    Sort,
    /// Groups, in any order.
    Groups,
    /// Groups, in the order of ORDER BY.
    SortedGroups,
}

/// The order wanted of rows to be grouped by these keys; `None` where no index
/// could have it.
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

/// About how many groups these keys, columns of one table, make of its rows.
pub(super) fn groups(keys: &[OrderKey], sources: &[Source], figures: &dyn Figures) -> f64 {
    let columns: Vec<(usize, usize)> = keys.iter().filter_map(|k| column_of(&k.expr)).collect();
    let first = columns.first().and_then(|(slot, _)| sources.get(*slot));
    let Some(table) = first.and_then(Source::table) else {
        return 1.0;
    };
    let known = figures.of(table);
    let has = |column: usize| columns.iter().any(|(_, c)| *c == column);
    let leads = |index: &Index, parts: usize| {
        let mut leading = index.parts.iter().take(parts);
        index.parts.len() >= parts && leading.all(|p| has(p.column))
    };
    let mut indexes = table.indexes.iter().enumerate();
    let all = indexes.find(|(_, index)| leads(index, columns.len()));
    let groups = match all {
        Some((position, _)) => known.distinct(position, columns.len()),
        None => known.rows / 10.0,
    };
    groups.clamp(1.0, known.rows.max(1.0))
}

/// Slot and column, if its values are told apart as its entries are.
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
