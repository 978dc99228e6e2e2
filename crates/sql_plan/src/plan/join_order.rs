//! The ways to join the next table, and their costs.
//!
//! A table is joined in one of two ways: by an index lookup for every row joined before, in
//! batches; or by reading it once and building a hash table. The cheaper is taken, given the number
//! of rows joined before. The search among orders is in [`super::join_search`].

use super::access::{AccessPath, AccessPlanner};
use super::equal_columns::BlockConditions;
use super::from::From;
use super::group_order;
use super::join_steps::{Lookup, ReadOnce};
use super::join_tree::JoinRequirements;
use super::physical::{HashKey, JoinMethod};
use super::scan::{Access, Estimate, IndexRange, Scan, ScanMode};
use super::{OrderKey, cost};
use crate::bind::Source;
use crate::expr::{CmpOp, Expr, ExprKind};
use porpoise_types::CompareAs;

/// Assumed number of rows of a derived table.
const DERIVED_ROWS: f64 = 1_000.0;

/// Estimated rows and cost of the tables joined so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialJoin {
    /// Estimated number of rows.
    pub(super) rows: f64,
    /// Estimated cost.
    pub(super) cost: f64,
}

impl Default for PartialJoin {
    fn default() -> PartialJoin {
        PartialJoin {
            rows: 1.0,
            cost: 0.0,
        }
    }
}

/// One way to join a table.
#[derive(Clone, Debug)]
pub(super) struct JoinChoice {
    access: Access,
    mode: ScanMode,
    /// The join method; `None` for the first table.
    method: Option<JoinMethod>,
    /// Whether it gives the wanted order.
    pub(super) ordered: bool,
    /// Estimated number of rows read for each row joined before.
    rows: f64,
    /// Addresses of conditions that need not be checked.
    pub(super) implied: Vec<usize>,
    /// Estimate after this table is joined.
    pub(super) after: PartialJoin,
}

impl JoinChoice {
    /// The scan and join method of this choice.
    pub(super) fn into_scan(self, slot: usize, before: PartialJoin) -> (Scan, Option<JoinMethod>) {
        let looked = (before.rows * self.rows).max(1e-9);
        let scan = Scan {
            mode: self.mode,
            estimate: Estimate {
                rows: self.rows,
                selectivity: (self.after.rows.max(1.0) / looked).clamp(0.0, 1.0),
                cost: self.after.cost,
                join_rows: self.after.rows,
            },
            ..Scan::new(slot, self.access)
        };
        (scan, self.method)
    }
}

/// The search for the cheapest join order.
pub(super) struct JoinSearch<'f> {
    pub(super) from: &'f From,
    pub(super) requirements: &'f JoinRequirements<'f>,
    pub(super) conditions: &'f BlockConditions<'f>,
    /// ORDER BY, until the first table is placed.
    pub(super) order: &'f [OrderKey],
}

impl JoinSearch<'_> {
    /// Cost of a complete order, including the sort, or reduced if a LIMIT may end it early.
    pub(super) fn total_cost(&self, after: PartialJoin, ordered: bool) -> f64 {
        let rows = after.rows.max(1.0);
        match (ordered, self.requirements.limited) {
            (true, true) => after.cost * (cost::LIMIT_ROWS / rows).min(1.0),
            (true, false) => after.cost,
            (false, _) => {
                after.cost + cost::ordering_cost(self.requirements.purpose, rows, || self.groups())
            }
        }
    }

    /// Estimated number of groups.
    fn groups(&self) -> f64 {
        let JoinRequirements {
            order, statistics, ..
        } = self.requirements;
        let groups = || group_order::estimate_groups(order, &self.from.scope.sources, *statistics);
        *self.requirements.groups.get_or_init(groups)
    }

    /// Whether a table must wait for tables that it reads (LATERAL) or that a hint puts before it.
    pub(super) fn must_wait(&self, slot: usize, joined: u64, tables: &[usize]) -> bool {
        let source = self.from.scope.sources.get(slot);
        let needed =
            (source.map_or(0, Source::lateral_slots) | self.from.hints.before(slot)) & !joined;
        tables.iter().any(|t| needed & 1u64 << (t & 63) != 0)
    }

    /// The cheapest way to join a table next.
    pub(super) fn cheapest_choice(
        &self,
        slot: usize,
        joined: u64,
        before: PartialJoin,
    ) -> JoinChoice {
        let mut choices = self.choices(slot, joined, before);
        let total = |c: &JoinChoice| self.total_cost(c.after, c.ordered);
        choices.sort_by(|a, b| total(a).total_cmp(&total(b)));
        let first = choices.into_iter().next();
        first.unwrap_or_else(|| self.computed_table_choice(slot, joined, before))
    }

    /// The ways to join a table next: the cheapest one, and if an order is wanted the cheapest one
    /// that gives it.
    pub(super) fn choices(&self, slot: usize, joined: u64, before: PartialJoin) -> Vec<JoinChoice> {
        let source = self.from.scope.sources.get(slot);
        let Some((source, table)) = source.and_then(|s| Some((s, s.table()?))) else {
            return vec![self.computed_table_choice(slot, joined, before)];
        };
        let statistics = self.requirements.statistics;
        let conditions = &self.conditions.on_table(slot, joined);
        let mut planner = AccessPlanner::new(table, slot, conditions, &source.hints, statistics);
        planner.needed = self
            .requirements
            .needed
            .get(slot)
            .and_then(Option::as_deref);
        if joined == 0 {
            planner.order = self.order;
            planner.purpose = self.requirements.purpose;
            return self.driving_scan_choices(&planner, before);
        }
        // `planner` may use the columns of the tables joined before; `own` uses only constants, as
        // a table that is read once must.
        let mut own = AccessPlanner::new(table, slot, conditions, &source.hints, statistics);
        own.needed = planner.needed;
        planner.joined = joined;
        let looked_up = self.index_lookup_choice(&planner, before);
        let read_once = self.hash_or_loop_choice(&planner, &own, joined, before);
        let rows = own.output_rows();
        let preferred = |lookup: &JoinChoice| {
            self.from
                .prefers_lookup(slot, lookup.after, read_once.after, rows)
        };
        vec![looked_up.filter(preferred).unwrap_or(read_once)]
    }

    /// The driving scan.
    fn driving_scan_choices(
        &self,
        planner: &AccessPlanner<'_>,
        before: PartialJoin,
    ) -> Vec<JoinChoice> {
        let paths = planner.paths();
        let shown = planner.statistics.estimates_are_shown();
        let alone = self.from.scope.sources.len() == 1;
        let passing_rows = match paths.as_slice() {
            // There is no choice: statistics are not needed.
            [path] if alone && !shown => path.rows_without_statistics(),
            // Small tables may grow: avoid a plan that reads a whole table for its first rows.
            _ if self.requirements.limited && alone => planner.output_rows_of_large(),
            _ => planner.output_rows(),
        };
        let mut out: Vec<JoinChoice> = Vec::new();
        for path in paths {
            let passing_rows = match &path.access {
                Access::PointLookup { keys, .. } => passing_rows.min(keys.len() as f64),
                _ => passing_rows,
            };
            out.push(JoinChoice {
                after: PartialJoin {
                    rows: before.rows * passing_rows,
                    cost: before.cost + path.cost,
                },
                method: None,
                ordered: path.ordered,
                rows: path.rows,
                mode: planner.scan_mode(&path),
                implied: path.implied,
                access: path.access,
            });
        }
        let least = |ordered: bool| {
            let those = out.iter().filter(|c| c.ordered == ordered);
            those.min_by(|a, b| a.after.cost.total_cmp(&b.after.cost))
        };
        least(true)
            .into_iter()
            .chain(least(false))
            .cloned()
            .collect()
    }

    /// Index lookup for each row joined before.
    fn index_lookup_choice(
        &self,
        planner: &AccessPlanner<'_>,
        before: PartialJoin,
    ) -> Option<JoinChoice> {
        let paths = planner.paths().into_iter().filter_map(batch_path);
        let path = paths.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        Some(JoinChoice {
            after: looked_up_after(before, Lookup::of(&path), planner.output_rows()),
            method: Some(JoinMethod::IndexLookup),
            ordered: true,
            rows: path.rows,
            mode: planner.scan_mode(&path),
            implied: path.implied,
            access: path.access,
        })
    }

    /// Reads the table once; joins by hash table if there is an equality, else by nested loop.
    fn hash_or_loop_choice(
        &self,
        planner: &AccessPlanner<'_>,
        own: &AccessPlanner<'_>,
        joined: u64,
        before: PartialJoin,
    ) -> JoinChoice {
        let path = own.cheapest_path(false);
        let hash = hash_keys(planner.slot, planner.conditions, joined);
        let once = ReadOnce {
            cost: path.cost,
            rows: own.output_rows(),
        };
        JoinChoice {
            after: read_once_after(before, once, !hash.is_empty(), planner.output_rows()),
            method: Some(hash_or_loop(hash)),
            ordered: true,
            rows: path.rows,
            mode: planner.scan_mode(&path),
            implied: Vec::new(),
            access: path.access,
        }
    }

    /// A derived or virtual table.
    fn computed_table_choice(&self, slot: usize, joined: u64, before: PartialJoin) -> JoinChoice {
        let hash = match joined {
            0 => Vec::new(),
            _ => hash_keys(slot, &self.conditions.on_table(slot, joined), joined),
        };
        let after = computed_after(before, !hash.is_empty());
        let source = self.from.scope.sources.get(slot);
        let lateral = source.is_some_and(|source| source.lateral_slots() != 0);
        let method = match joined {
            0 => None,
            _ if lateral => Some(JoinMethod::Lateral),
            _ => Some(hash_or_loop(hash)),
        };
        JoinChoice {
            after,
            access: Access::VirtualScan,
            method,
            ordered: joined != 0 || self.order.is_empty(),
            rows: DERIVED_ROWS,
            implied: Vec::new(),
            mode: ScanMode::Row,
        }
    }
}

impl From {
    /// Whether an index lookup is better than reading the table once, which leaves `rows` rows.
    pub(super) fn prefers_lookup(
        &self,
        slot: usize,
        lookup: PartialJoin,
        read_once: PartialJoin,
        rows: f64,
    ) -> bool {
        let locked = self.locked_slots & 1u64 << (slot & 63) != 0;
        let hinted = self.hints.by_index(slot);
        let cheaper = || lookup.cost <= read_once.cost || rows > cost::MAX_MATERIALIZED_ROWS;
        locked || hinted.unwrap_or_else(cheaper)
    }
}

/// The estimate after an index lookup for each row joined before; `left` rows pass the conditions.
pub(super) fn looked_up_after(before: PartialJoin, path: Lookup, left: f64) -> PartialJoin {
    let several = if path.most.is_finite() {
        0.0
    } else {
        cost::LOOKUP_OF_SEVERAL
    };
    PartialJoin {
        rows: before.rows * left.min(path.most),
        cost: before.cost + before.rows * (path.cost + several + path.rows * cost::COMPARE_PAIR),
    }
}

/// The estimate after joining a table that is read once; `left` of its rows match each row joined
/// before.
pub(super) fn read_once_after(
    before: PartialJoin,
    once: ReadOnce,
    hashed: bool,
    left: f64,
) -> PartialJoin {
    let each = if hashed {
        cost::PROBE + left * cost::COMPARE_PAIR
    } else {
        once.rows * cost::COMPARE_PAIR
    };
    let build = once.cost + once.rows * cost::BUILD;
    PartialJoin {
        rows: before.rows * left,
        cost: before.cost + build + before.rows * each,
    }
}

/// The estimate after joining a derived or virtual table.
pub(super) fn computed_after(before: PartialJoin, hashed: bool) -> PartialJoin {
    let each = if hashed {
        cost::PROBE
    } else {
        DERIVED_ROWS * cost::COMPARE_PAIR
    };
    let matches = if hashed { 1.0 } else { DERIVED_ROWS };
    PartialJoin {
        rows: before.rows * matches,
        cost: before.cost + DERIVED_ROWS * cost::BUILD + before.rows * each,
    }
}

/// Join method for a table that is read once.
fn hash_or_loop(keys: Vec<HashKey>) -> JoinMethod {
    if keys.is_empty() {
        JoinMethod::Materialized
    } else {
        JoinMethod::Hash(keys)
    }
}

/// The part of a path that can serve a whole batch, which lookups can. Of a range that depends on
/// the tables joined before, only the equal leading parts can be used.
pub(super) fn batch_path(mut path: AccessPath) -> Option<AccessPath> {
    match path.access {
        Access::PointLookup { .. } | Access::IndexLookup { .. } => Some(path),
        Access::IndexRangeScan { index, ranges, .. } => {
            // The ranges of an OR expansion are not a lookup.
            let [range] = <[IndexRange; 1]>::try_from(ranges).ok()?;
            let equal = range.keys.first().is_some_and(|key| !key.is_empty());
            path.access = Access::IndexLookup {
                index,
                keys: range.keys,
                reverse: false,
            };
            equal.then_some(path)
        }
        _ => None,
    }
}

/// Equalities that can be keys of a hash join: probe side, build side and kind of comparison.
fn hash_keys(slot: usize, conditions: &[&Expr], joined: u64) -> Vec<HashKey> {
    let sides = conditions.iter().filter_map(|c| hash_side(c, slot));
    let known = sides.filter(|(probe, ..)| probe.slots() & !joined == 0);
    let keys = known.map(|(probe, build, how)| HashKey {
        probe: probe.clone(),
        build: build.clone(),
        compare_as: how,
    });
    keys.collect()
}

/// The sides of an equality that a hash join of the table in `slot` can use, the probe side first.
pub(super) fn hash_side(condition: &Expr, slot: usize) -> Option<(&Expr, &Expr, CompareAs)> {
    let ExprKind::Compare(CmpOp::Eq, how, args) = &condition.kind else {
        return None;
    };
    let hashable = matches!(
        how,
        CompareAs::Int | CompareAs::Decimal | CompareAs::Double | CompareAs::Bytes(_)
    );
    let bit = 1u64 << (slot & 63);
    let [a, b] = args.as_ref();
    let fits = |known: &Expr, own: &Expr| {
        let outside = known.slots();
        outside != 0
            && outside & bit == 0
            && own.slots() == bit
            && known.is_fixed()
            && own.is_fixed()
            && !own.has_subquery()
    };
    match hashable {
        true if fits(a, b) => Some((a, b, *how)),
        true if fits(b, a) => Some((b, a, *how)),
        _ => None,
    }
}
