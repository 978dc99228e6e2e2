//! Whether an index scan delivers a required sort or group order.

use super::OrderKey;
use super::access::AccessPlanner;
use super::group_order::Purpose;
use super::sargable::{Sargable, bare_column};
use porpoise_rows::catalog::{Index, IndexKind, IndexPart};

impl AccessPlanner<'_> {
    /// Whether index entries, after the first `skip` parts, have the required
    /// order; `Some(true)` for a reverse scan. Columns that the conditions hold
    /// constant do not affect the order.
    pub(super) fn index_order(
        &self,
        position: usize,
        index: &Index,
        skip: usize,
        predicates: &[Sargable<'_>],
    ) -> Option<bool> {
        let hidden = position == 0 && index.parts.is_empty();
        let hinted = match self.purpose {
            Purpose::Sort => self.hints.allows_order(position),
            Purpose::Groups => self.hints.allows_group(position),
            Purpose::SortedGroups => {
                self.hints.allows_order(position) && self.hints.allows_group(position)
            }
        };
        let several = index.is_full_text() || self.table.array_column(index).is_some();
        if index.using_hash || hidden || !hinted || index.invisible || several {
            return None;
        }
        // A value that equals several keys: the entries after each have an order of their own.
        let is_inexact = |p: &IndexPart| predicates.get(p.column).is_some_and(|p| p.inexact);
        if index.parts.iter().take(skip).any(is_inexact) && !self.order.is_empty() {
            return None;
        }
        let key = self
            .table
            .indexes
            .first()
            .filter(|_| index.kind == IndexKind::Plain);
        let primary_key_suffix = key.map_or(&[][..], |key| &key.parts);
        let parts = index.parts.iter().skip(skip).chain(primary_key_suffix);
        match self.purpose {
            Purpose::Groups => self.covers_group_keys(parts, predicates).then_some(false),
            Purpose::Sort | Purpose::SortedGroups => self.matches_sort_order(parts, predicates),
        }
    }

    /// The part of `order` that a lookup of several whole keys provides: rows
    /// come in ascending key order, which is used for sorting but not for
    /// grouping.
    pub(super) fn order_of_whole_keys(&self, order: Option<bool>) -> Option<bool> {
        let kept = self.purpose == Purpose::Sort;
        order.filter(|reverse| self.order.is_empty() || (kept && !reverse))
    }

    /// Whether these parts yield the sort keys in their order; `Some(true)` for a
    /// reverse scan.
    fn matches_sort_order<'p>(
        &self,
        mut parts: impl Iterator<Item = &'p IndexPart>,
        predicates: &[Sargable<'_>],
    ) -> Option<bool> {
        let mut direction = None;
        for key in self.order {
            let column = bare_column(&key.expr, self.slot)?;
            if is_constant(column, predicates) {
                continue;
            }
            // ENUM and SET sort by number in the index as in ORDER BY.
            let part = parts.next()?;
            if column != part.column || part.prefix.is_some() {
                return None;
            }
            let reverse = key.desc != part.desc;
            if *direction.get_or_insert(reverse) != reverse {
                return None;
            }
        }
        Some(direction.unwrap_or(false))
    }

    /// Whether these parts begin with all the keys, in any order.
    fn covers_group_keys<'p>(
        &self,
        parts: impl Iterator<Item = &'p IndexPart>,
        predicates: &[Sargable<'_>],
    ) -> bool {
        let column = |key: &OrderKey| bare_column(&key.expr, self.slot);
        let Some(mut left) = self.order.iter().map(column).collect::<Option<Vec<_>>>() else {
            return false;
        };
        left.retain(|column| !is_constant(*column, predicates));
        for part in parts.filter(|p| !is_constant(p.column, predicates)) {
            let at = left.iter().position(|column| *column == part.column);
            match at.filter(|_| part.prefix.is_none()) {
                Some(at) => {
                    left.swap_remove(at);
                }
                None => break,
            }
        }
        left.is_empty()
    }
}

/// Number of leading parts that the conditions hold constant.
pub(super) fn constant_parts(index: &Index, predicates: &[Sargable<'_>]) -> usize {
    let parts = index.parts.iter();
    parts
        .take_while(|p| p.prefix.is_none() && is_constant(p.column, predicates))
        .count()
}

/// Whether the conditions hold a column constant.
fn is_constant(column: usize, predicates: &[Sargable<'_>]) -> bool {
    let predicate = predicates.get(column).filter(|p| !p.inexact);
    let values = predicate.and_then(Sargable::values);
    values.is_some_and(|values| values.len() == 1)
}
