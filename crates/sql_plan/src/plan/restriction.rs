//! Restrictions of one index by conditions: equalities on its leading parts, and a range on the
//! next part.

use super::access::{AccessPlanner, MAX_KEYS};
use super::cost;
use super::sargable::Sargable;
use super::scan::{Bound, IndexRange, Pattern};
use crate::expr::Expr;
use porpoise_rows::catalog::{Index, IndexPart, Table};

/// The part of an index that conditions select.
pub(super) struct Restriction {
    pub(super) range: IndexRange,
    /// Number of leading parts with an equality.
    pub(super) equal: usize,
    /// Whether NULL is among the values of an equality.
    pub(super) includes_null: bool,
    /// Number of ends of the range on the next part; a LIKE prefix counts as both.
    pub(super) bound_count: usize,
    /// Whether the keys are whole keys of a unique index without NULL.
    pub(super) is_unique_key: bool,
}

impl Restriction {
    /// Whether execution may fall back to a table scan.
    pub(super) fn may_scan_table(&self) -> bool {
        let pattern = self.range.low.as_ref().and_then(|b| b.pattern);
        pattern.is_some_and(|p| p.may_scan_table)
    }
}

impl AccessPlanner<'_> {
    /// The restriction of an index by the predicates, if they narrow it.
    pub(super) fn restriction(
        &self,
        index: &Index,
        predicates: &[Sargable<'_>],
        entries: bool,
    ) -> Option<Restriction> {
        let (keys, equal, null) = equal_keys(self.table, index, predicates);
        let array = self.table.array_column(index);
        let mut given = index.parts.iter().take(equal).map(|p| p.column);
        if array.is_some_and(|column| self.joined != 0 || !given.any(|c| c == column)) {
            // Rows with an empty array have no entries. A row with several elements has several,
            // and only a driving scan deduplicates rows.
            return None;
        }
        let is_inexact = |part: &IndexPart| predicates.get(part.column).is_some_and(|p| p.inexact);
        let inexact = index.parts.iter().take(equal).any(is_inexact);
        let mut restriction = Restriction {
            range: IndexRange {
                keys,
                low: None,
                high: None,
                except: Vec::new(),
            },
            equal,
            includes_null: null,
            bound_count: 0,
            is_unique_key: equal == index.parts.len()
                && index.kind.is_unique()
                && !null
                && !inexact
                && array.is_none(),
        };
        if restriction.is_unique_key {
            return Some(restriction);
        }
        if index.using_hash {
            return None;
        }
        let next = index.parts.get(equal);
        let predicate = next
            .filter(|p| p.prefix.is_none())
            .and_then(|p| predicates.get(p.column));
        let (low, high) = bounds(predicate, next.is_some_and(|p| p.desc));
        restriction.bound_count = usize::from(low.is_some()) + usize::from(high.is_some());
        (restriction.range.low, restriction.range.high) = (low, high);
        if restriction.bound_count == 0 {
            restriction.range.low = like_bound(predicate, equal == 0 && !entries);
            // A LIKE prefix is as narrow as a range with both ends.
            restriction.bound_count = 2 * usize::from(restriction.range.low.is_some());
        }
        (restriction.bound_count > 0 || equal > 0).then_some(restriction)
    }

    /// Estimated number of rows of a restriction.
    pub(super) fn rows_of(&self, position: usize, restriction: &Restriction) -> f64 {
        let keys = restriction.range.keys.len() as f64;
        if restriction.is_unique_key {
            return keys;
        }
        let index = self.table.indexes.get(position);
        let part = index
            .filter(|_| !self.table.histograms.is_empty())
            .and_then(|index| self.estimator().restriction(index, restriction));
        if let Some(part) = part {
            self.rows() * part
        } else {
            let each = self.rows_of_equal_keys(position, restriction.equal);
            each * keys * cost::range_selectivity(restriction.bound_count)
        }
    }
}

/// The bounds on a column, in the order of the index.
fn bounds(predicate: Option<&Sargable<'_>>, desc: bool) -> (Option<Bound>, Option<Bound>) {
    let Some(predicate) = predicate else {
        return (None, None);
    };
    let bound = |b: &Option<(&Expr, bool)>| {
        b.map(|(value, inclusive)| Bound {
            value: value.clone(),
            inclusive,
            pattern: None,
        })
    };
    if desc {
        (bound(&predicate.high), bound(&predicate.low))
    } else {
        (bound(&predicate.low), bound(&predicate.high))
    }
}

/// The range of texts that a LIKE pattern may match. With `may_scan_table`, a table scan is used if the
/// pattern turns out to begin with a wildcard.
fn like_bound(predicate: Option<&Sargable<'_>>, may_scan_table: bool) -> Option<Bound> {
    let (value, escape) = predicate?.like?;
    Some(Bound {
        value: value.clone(),
        inclusive: true,
        pattern: Some(Pattern {
            escape,
            may_scan_table,
        }),
    })
}

/// The combinations of values for the leading parts that have equalities, the number of these
/// parts, and whether a NULL is among the values.
fn equal_keys(
    table: &Table,
    index: &Index,
    predicates: &[Sargable<'_>],
) -> (Vec<Vec<Expr>>, usize, bool) {
    let mut keys: Vec<Vec<Expr>> = vec![Vec::new()];
    let (mut equal, mut null) = (0, false);
    for part in &index.parts {
        let Some(predicate) = predicates.get(part.column) else {
            break;
        };
        let Some(values) = predicate
            .equal
            .as_ref()
            .filter(|_| finds_equal(table, part))
        else {
            break;
        };
        let count = values.len() + usize::from(predicate.allows_null);
        if keys.len() * count > MAX_KEYS {
            break;
        }
        let mut longer = Vec::with_capacity(keys.len() * count);
        for key in keys {
            let nothing = predicate.allows_null.then(Expr::null);
            let values = values.iter().map(|value| (*value).clone());
            longer.extend(values.chain(nothing).map(|value| {
                let mut key = key.clone();
                key.push(value);
                key
            }));
        }
        keys = longer;
        null |= predicate.allows_null;
        equal += 1;
    }
    (keys, equal, null)
}

/// Whether an equality lookup in this index part finds every equal value. A prefix of some
/// characters is the same for equal texts, unless the collation has contractions.
fn finds_equal(table: &Table, part: &IndexPart) -> bool {
    let ty = table.columns.get(part.column).map(|c| &c.ty);
    part.prefix.is_none() || ty.is_some_and(|ty| ty.collation.has_one_weight_per_char())
}
