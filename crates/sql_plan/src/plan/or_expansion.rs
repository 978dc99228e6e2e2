//! OR expansion: access paths from disjunctions, such as `a < 1 OR a > 9`, `a = 1 OR b = 2` and `a
//! <> 5`.
//!
//! Each disjunct, together with all other conditions, restricts an index. If every disjunct
//! restricts the same index, the path is a scan of several of its ranges. If disjuncts need
//! different indexes, the path is their union by primary key ([`Access::IndexMergeUnion`]).
//!
//! Invariants:
//! 1. A path uses one disjunction; other conditions are left to the filter, except for equalities
//!    that all disjuncts share.
//! 2. Ranges are unordered and may overlap: that is known only when they are evaluated
//!    (`exec::keys`).
//!
//! Rejected: index-merge intersection. It reads the entries of both indexes and sorts their primary
//! keys, which costs at least [`cost::ENTRY`] for each entry; the rows of the narrower index alone
//! cost [`cost::ENTRY`] and [`cost::ROW_OF_ENTRY`] each, which is less, however few rows both have.

use super::access::{AccessPath, AccessPlanner, MAX_KEYS};
use super::cost;
use super::index_order::constant_parts;
use super::restriction::Restriction;
use super::sargable::{Disjunct, Sargable, disjuncts, sargable_in};
use super::scan::Access;
use porpoise_rows::catalog::Index;
use std::collections::BTreeMap;

/// Number of rows of a union that may be collected of any table, however small.
const ALWAYS_ALLOWED_ROWS: usize = 1_000;

/// The restrictions by the disjuncts so far, all on one index or each on its own.
#[derive(Default)]
struct Restrictions {
    /// Index position and restriction of each disjunct.
    by_arm: Vec<(usize, Restriction)>,
    /// Total number of keys.
    keys: usize,
}

impl Restrictions {
    /// Adds the restriction of a disjunct. Returns false if there is none or they are too many.
    fn add(&mut self, restriction: Option<(usize, Restriction)>) -> bool {
        let Some((position, restriction)) = restriction else {
            return false;
        };
        self.keys += restriction.range.keys.len();
        self.by_arm.push((position, restriction));
        self.keys <= MAX_KEYS
    }
}

impl AccessPlanner<'_> {
    /// The paths that disjunctions give; `together` are the predicates of all conditions.
    pub(super) fn or_paths(&self, together: &[Sargable<'_>]) -> Vec<AccessPath> {
        let mut paths = Vec::new();
        for condition in self.conditions {
            let arms = disjuncts(condition);
            if (2..=MAX_KEYS).contains(&arms.len()) {
                self.add_arm_paths(&arms, together, &mut paths);
            }
        }
        paths
    }

    fn add_arm_paths(
        &self,
        arms: &[Disjunct<'_>],
        together: &[Sargable<'_>],
        paths: &mut Vec<AccessPath>,
    ) {
        let indexes = self.table.indexes.iter().enumerate();
        let usable = indexes.filter(|(position, index)| {
            self.is_usable(*position, index) && self.table.array_column(index).is_none()
        });
        let mut alone: Vec<(usize, &Index, Restrictions)> = usable
            .map(|(position, index)| (position, index, Restrictions::default()))
            .collect();
        // Only the driving scan may merge indexes; lookups of later tables use one index.
        let mut merged = (self.joined == 0).then(Restrictions::default);
        for arm in arms {
            let predicates = sargable_in(*arm, self.slot, together, self.joined);
            alone.retain_mut(|(position, index, restrictions)| {
                let restriction = self.restriction(index, &predicates, self.covers(*position));
                restrictions.add(restriction.map(|restriction| (*position, restriction)))
            });
            if let Some(restrictions) = &mut merged
                && !restrictions.add(self.narrowest(&predicates))
            {
                merged = None;
            }
            if alone.is_empty() && merged.is_none() {
                return;
            }
        }
        if let (true, Some(restrictions)) = (alone.is_empty(), merged) {
            paths.extend(self.index_merge_path(restrictions, together));
        }
        for (position, index, restrictions) in alone {
            paths.extend(self.single_index_path(position, index, restrictions, together));
        }
    }

    /// A path that covers all disjuncts by ranges of one index.
    fn single_index_path(
        &self,
        position: usize,
        index: &Index,
        Restrictions { by_arm, keys }: Restrictions,
        together: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        let restrictions: Vec<Restriction> = by_arm
            .into_iter()
            .map(|(_, restriction)| restriction)
            .collect();
        let whole = restrictions.iter().all(|p| p.is_unique_key) && have_same_shape(&restrictions);
        if index.using_hash && !whole {
            return None;
        }
        let mut order = match self.order {
            [] => Some(false),
            _ => self.index_order(position, index, constant_parts(index, together), together),
        };
        if restrictions.iter().any(Restriction::may_scan_table) {
            order = order.filter(|_| self.order.is_empty());
        }
        if whole {
            order = self.order_of_whole_keys(order);
        }
        let rows = self.total_rows(restrictions.iter().map(|p| (position, p)));
        let ordered = order.is_some();
        let access = access(position, restrictions, whole, order == Some(true));
        let mut path = self.ranges_path(position, access, ordered, keys as f64, rows);
        if whole {
            path.covering = false;
            path.cost = rows * self.whole_key_cost(position);
        }
        Some(path)
    }

    /// Estimated number of rows of all restrictions.
    fn total_rows<'p>(&self, restrictions: impl Iterator<Item = (usize, &'p Restriction)>) -> f64 {
        let (mut equal, mut one_end, mut two_ends) = (0.0, 0.0, 0.0);
        for (position, restriction) in restrictions {
            let sum = match restriction.bound_count {
                0 => &mut equal,
                1 => &mut one_end,
                _ => &mut two_ends,
            };
            *sum += self.rows_of(position, restriction);
        }
        let rows = self.rows();
        equal + rows * cost::ranges_selectivity(one_end / rows, two_ends / rows)
    }

    /// A path that covers each disjunct by the index that is best for it.
    fn index_merge_path(
        &self,
        Restrictions { by_arm, keys }: Restrictions,
        together: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        let rows = self.total_rows(
            by_arm
                .iter()
                .map(|(position, restriction)| (*position, restriction)),
        );
        let rows = rows.min(self.rows()).max(1.0);
        let primary = self.table.indexes.first()?;
        let by_key = self.index_order(0, primary, 0, together) == Some(false);
        let found = keys as f64 * cost::SEEK + rows * cost::ENTRY;
        let sort = cost::SORT * rows * rows.max(2.0).log2();
        let mut cost = found + sort + rows * cost::ROW_OF_ENTRY;
        // Ranges with two ends may turn out to be large; then the table is read after all.
        if by_arm
            .iter()
            .all(|(_, restriction)| restriction.bound_count != 1)
        {
            cost = cost.min(self.full_index_scan(0, false, None).cost * 0.9);
        }
        let mut by_index: BTreeMap<usize, Vec<Restriction>> = BTreeMap::new();
        for (position, restriction) in by_arm {
            by_index.entry(position).or_default().push(restriction);
        }
        let each = by_index.into_iter();
        let each =
            each.map(|(position, restrictions)| access(position, restrictions, false, false));
        Some(AccessPath {
            access: Access::IndexMergeUnion {
                arms: each.collect(),
                most: (self.rows() / 8.0) as usize + ALWAYS_ALLOWED_ROWS,
            },
            ordered: self.order.is_empty() || by_key,
            covering: false,
            rows,
            cost,
            implied: Vec::new(),
        })
    }

    /// A path over an index with a multi-valued part: each row that it finds once, whatever the
    /// number of its entries.
    pub(super) fn array_path(
        &self,
        position: usize,
        index: &Index,
        predicates: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        let usable = !index.using_hash;
        let restriction = self
            .restriction(index, predicates, false)
            .filter(|_| usable)?;
        let mut all = Restrictions::default();
        all.add(Some((position, restriction)));
        self.index_merge_path(all, predicates)
    }

    /// The index that the predicates restrict to the fewest rows.
    fn narrowest(&self, predicates: &[Sargable<'_>]) -> Option<(usize, Restriction)> {
        let indexes = self.table.indexes.iter().enumerate();
        let restrictions = indexes.filter_map(|(position, index)| {
            // An index declared USING HASH is not used for ranges.
            let usable = self.is_usable(position, index) && !index.using_hash;
            let restriction = self
                .restriction(index, predicates, false)
                .filter(|_| usable)?;
            Some((position, restriction))
        });
        let rows =
            |(position, restriction): &(usize, Restriction)| self.rows_of(*position, restriction);
        restrictions.min_by(|a, b| rows(a).total_cmp(&rows(b)))
    }
}

/// The access path for restrictions of one index.
fn access(index: usize, restrictions: Vec<Restriction>, whole: bool, reverse: bool) -> Access {
    if !have_same_shape(&restrictions) {
        return Access::IndexRangeScan {
            index,
            ranges: restrictions.into_iter().map(|p| p.range).collect(),
            reverse,
        };
    }
    let keys = restrictions
        .into_iter()
        .flat_map(|p| p.range.keys)
        .collect();
    if whole {
        Access::PointLookup { index, keys }
    } else {
        Access::IndexLookup {
            index,
            keys,
            reverse,
        }
    }
}

/// Whether all are equality lookups on the same number of parts, without ranges.
fn have_same_shape(restrictions: &[Restriction]) -> bool {
    let equal = restrictions.first().map_or(0, |p| p.equal);
    restrictions
        .iter()
        .all(|p| p.bound_count == 0 && p.equal == equal)
}
