//! Access paths from conditions of which any need be true: `a < 1 OR a > 9`,
//! `a = 1 OR b = 2`, `a <> 5`.
//!
//! Each arm, together with all the other conditions, says which part of an
//! index has its rows. Where every arm says so of one index the parts are one
//! path over several ranges of it; where arms need different indexes the rows
//! are gathered by their primary keys ([`Access::IndexMergeUnion`]).
//!
//! Invariants:
//! 1. A path serves one such condition; what others say is left to the filter,
//!    but for equalities that arms share.
//! 2. Ranges are in no order and may overlap: which do is known only when their
//!    values are (`exec::keys`).
//!
//! Rejected: intersections of indexes (two conditions on one row are served
//! by the narrower index alone, or by one index of both columns).

use super::access::{AccessPlanner, MAX_KEYS, Path};
use super::cost;
use super::index_order::constant_parts;
use super::restriction::Restriction;
use super::sargable::{Disjunct, Sargable, disjuncts, sargable_in};
use super::scan::Access;
use porpoise_rows::catalog::Index;
use std::collections::BTreeMap;

/// Rows of a union that are gathered of any table, however small.
const FEW: usize = 1_000;

/// The restrictions by the disjuncts so far, of one index or of one for each.
#[derive(Default)]
struct Restrictions {
    /// Position of the index, and the restriction; one an arm.
    of_arms: Vec<(usize, Restriction)>,
    /// Keys of all of them.
    keys: usize,
}

impl Restrictions {
    /// With the restriction of one more arm, unless there is none or they are too many.
    fn with(&mut self, restriction: Option<(usize, Restriction)>) -> bool {
        let Some((position, restriction)) = restriction else {
            return false;
        };
        self.keys += restriction.range.keys.len();
        self.of_arms.push((position, restriction));
        self.keys <= MAX_KEYS
    }
}

impl AccessPlanner<'_> {
    /// The paths that conditions with several arms give, beside what the
    /// conditions together say.
    pub(super) fn or_paths(&self, together: &[Sargable<'_>]) -> Vec<Path> {
        let mut paths = Vec::new();
        for condition in self.conditions {
            let arms = disjuncts(condition);
            if (2..=MAX_KEYS).contains(&arms.len()) {
                self.of_arms(&arms, together, &mut paths);
            }
        }
        paths
    }

    fn of_arms(&self, arms: &[Disjunct<'_>], together: &[Sargable<'_>], paths: &mut Vec<Path>) {
        let indexes = self.table.indexes.iter().enumerate();
        let usable = indexes.filter(|(position, index)| self.usable(*position, index));
        let mut alone: Vec<(usize, &Index, Restrictions)> = usable
            .map(|(position, index)| (position, index, Restrictions::default()))
            .collect();
        // Rows of a join's later tables are looked up by one index.
        let mut merged = (self.joined == 0).then(Restrictions::default);
        for arm in arms {
            let predicates = sargable_in(*arm, self.slot, together, self.joined);
            alone.retain_mut(|(position, index, restrictions)| {
                let restriction = self.restriction(index, &predicates, self.covers(*position));
                restrictions.with(restriction.map(|restriction| (*position, restriction)))
            });
            if let Some(restrictions) = &mut merged
                && !restrictions.with(self.narrowest(&predicates))
            {
                merged = None;
            }
            if alone.is_empty() && merged.is_none() {
                return;
            }
        }
        if let (true, Some(restrictions)) = (alone.is_empty(), merged) {
            paths.extend(self.by_several(restrictions, together));
        }
        for (position, index, restrictions) in alone {
            paths.extend(self.by_one(position, index, restrictions, together));
        }
    }

    /// All arms by ranges of one index.
    fn by_one(
        &self,
        position: usize,
        index: &Index,
        Restrictions { of_arms, keys }: Restrictions,
        together: &[Sargable<'_>],
    ) -> Option<Path> {
        let restrictions: Vec<Restriction> = of_arms
            .into_iter()
            .map(|(_, restriction)| restriction)
            .collect();
        let whole = restrictions.iter().all(|p| p.whole) && alike(&restrictions);
        if index.using_hash && !whole {
            return None;
        }
        let mut order = match self.order {
            [] => Some(false),
            _ => self.order_of(position, index, constant_parts(index, together), together),
        };
        if restrictions.iter().any(Restriction::or_table) {
            order = order.filter(|_| self.order.is_empty());
        }
        if whole {
            order = self.order_of_whole_keys(order);
        }
        let rows = self.rows_of_all(restrictions.iter().map(|p| (position, p)));
        let ordered = order.is_some();
        let access = access(position, restrictions, whole, order == Some(true));
        let mut path = self.of_ranges(position, access, ordered, (keys as f64, rows));
        if whole {
            path.entries = false;
            path.cost = rows * self.whole_key_cost(position);
        }
        Some(path)
    }

    /// Rows of all restrictions.
    fn rows_of_all<'p>(&self, restrictions: impl Iterator<Item = (usize, &'p Restriction)>) -> f64 {
        let (mut equal, mut one_end, mut two_ends) = (0.0, 0.0, 0.0);
        for (position, restriction) in restrictions {
            let sum = match restriction.bounded {
                0 => &mut equal,
                1 => &mut one_end,
                _ => &mut two_ends,
            };
            *sum += self.rows_of(position, restriction);
        }
        let rows = self.rows();
        equal + rows * cost::of_ranges(one_end / rows, two_ends / rows)
    }

    /// Each arm by the index that serves it best.
    fn by_several(
        &self,
        Restrictions { of_arms, keys }: Restrictions,
        together: &[Sargable<'_>],
    ) -> Option<Path> {
        let rows = self.rows_of_all(
            of_arms
                .iter()
                .map(|(position, restriction)| (*position, restriction)),
        );
        let rows = rows.min(self.rows()).max(1.0);
        let primary = self.table.indexes.first()?;
        let by_key = self.order_of(0, primary, 0, together) == Some(false);
        let found = keys as f64 * cost::SEEK + rows * cost::ENTRY;
        let sort = cost::SORT * rows * rows.max(2.0).log2();
        let mut cost = found + sort + rows * cost::ROW_OF_ENTRY;
        // Where ranges with two ends turn out to be large, the table is read after all.
        if of_arms
            .iter()
            .all(|(_, restriction)| restriction.bounded != 1)
        {
            cost = cost.min(self.whole(0, false, None).cost * 0.9);
        }
        let mut by_index: BTreeMap<usize, Vec<Restriction>> = BTreeMap::new();
        for (position, restriction) in of_arms {
            by_index.entry(position).or_default().push(restriction);
        }
        let each = by_index.into_iter();
        let each =
            each.map(|(position, restrictions)| access(position, restrictions, false, false));
        Some(Path {
            access: Access::IndexMergeUnion {
                arms: each.collect(),
                most: (self.rows() / 8.0) as usize + FEW,
            },
            ordered: self.order.is_empty() || by_key,
            entries: false,
            rows,
            cost,
            implied: Vec::new(),
        })
    }

    /// The index of which the predicates leave least.
    fn narrowest(&self, predicates: &[Sargable<'_>]) -> Option<(usize, Restriction)> {
        let indexes = self.table.indexes.iter().enumerate();
        let restrictions = indexes.filter_map(|(position, index)| {
            // Entries of a hash index are in no order that ranges could use.
            let usable = self.usable(position, index) && !index.using_hash;
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
    if !alike(&restrictions) {
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

/// Whether they are keys of so many parts, and no ranges.
fn alike(restrictions: &[Restriction]) -> bool {
    let equal = restrictions.first().map_or(0, |p| p.equal);
    restrictions
        .iter()
        .all(|p| p.bounded == 0 && p.equal == equal)
}
