//! Cost of joining the next table, and search for the cheapest join order.
//!
//! A table is joined in one of two ways: by an index lookup for every row joined before, in
//! batches; or by reading it once and building a hash table. The cheaper is taken, given the number
//! of rows joined before. Orders are searched depth first with branch and bound: the most promising
//! next table is tried first, and an order is abandoned once it costs more than the best one so
//! far. After a number of steps only the most promising table is followed. For joins of many tables
//! the search ends there: one greedy order and the variants tried so far.
//!
//! Rejected: dynamic programming over sets of tables. It needs the number of rows and the order to
//! be the same for all join orders of a set, which holds only if estimates are consistent; and
//! application queries join few tables.

use super::access::{AccessPath, AccessPlanner};
use super::from::From;
use super::group_order;
use super::join_tree::JoinRequirements;
use super::physical::{HashKey, JoinMethod};
use super::scan::{Access, Estimate, IndexRange, Scan, ScanMode};
use super::{OrderKey, cost};
use crate::bind::{Origin, Source};
use crate::expr::{CmpOp, Expr, ExprKind};
use porpoise_base::interrupt;
use porpoise_types::CompareAs;

/// Number of steps after which only the most promising next table is tried.
const SEARCH_BUDGET: u32 = 2_000;

/// Number of tables above which the search ends with its budget: the number of untried orders grows
/// exponentially with it.
const MANY_TABLES: usize = 10;

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
    pub(super) conditions: &'f [&'f Expr],
    /// ORDER BY, until the first table is placed.
    pub(super) order: &'f [OrderKey],
}

/// The best order found so far.
struct BestOrder {
    cost: f64,
    order: Vec<usize>,
    budget: u32,
    /// Whether the search ends when the budget is used up and an order was found.
    ends_with_budget: bool,
}

impl JoinSearch<'_> {
    /// Returns the tables in the cheapest order found.
    pub(super) fn cheapest(
        &self,
        tables: &[usize],
        outside: u64,
        before: PartialJoin,
    ) -> Vec<usize> {
        let mut best = BestOrder {
            cost: f64::INFINITY,
            order: tables.to_vec(),
            budget: SEARCH_BUDGET,
            ends_with_budget: tables.len() > MANY_TABLES,
        };
        let mut chosen = Vec::with_capacity(tables.len());
        let first = self.order.is_empty();
        self.search(tables, outside, (before, first), &mut chosen, &mut best);
        best.order
    }

    fn search(
        &self,
        tables: &[usize],
        joined: u64,
        (before, ordered): (PartialJoin, bool),
        chosen: &mut Vec<usize>,
        best: &mut BestOrder,
    ) {
        let ended = best.ends_with_budget && best.budget == 0 && best.cost.is_finite();
        if ended || interrupt::should_abandon() {
            return;
        }
        if tables.is_empty() {
            let total = self.total_cost(before, ordered);
            if total < best.cost {
                best.cost = total;
                best.order.clone_from(chosen);
            }
            return;
        }
        let mut next: Vec<(usize, JoinChoice)> = Vec::with_capacity(tables.len());
        for slot in tables {
            if self.must_wait(*slot, joined, tables) {
                continue;
            }
            best.budget = best.budget.saturating_sub(1);
            let choices = self.choices(*slot, joined, before);
            next.extend(choices.into_iter().map(|choice| (*slot, choice)));
        }
        let promise = |c: &JoinChoice| c.after.cost + c.after.rows;
        next.sort_by(|a, b| promise(&a.1).total_cmp(&promise(&b.1)));
        if best.budget == 0 {
            next.truncate(1);
        }
        for (slot, choice) in next {
            let least = match self.requirements.limited {
                true => 0.0,
                false => choice.after.cost,
            };
            if least >= best.cost {
                continue;
            }
            let left: Vec<usize> = tables.iter().copied().filter(|t| *t != slot).collect();
            let ordered = match joined {
                0 => choice.ordered,
                _ => ordered,
            };
            chosen.push(slot);
            let joined = joined | 1u64 << (slot & 63);
            self.search(&left, joined, (choice.after, ordered), chosen, best);
            chosen.pop();
        }
    }

    /// Cost of a complete order, including the sort, or reduced if a LIMIT may end it early.
    fn total_cost(&self, after: PartialJoin, ordered: bool) -> f64 {
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

    /// Whether a LATERAL table must wait for tables that it reads.
    fn must_wait(&self, slot: usize, joined: u64, tables: &[usize]) -> bool {
        let source = self.from.scope.sources.get(slot);
        let needed = source.map_or(0, lateral_slots) & !joined;
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
    fn choices(&self, slot: usize, joined: u64, before: PartialJoin) -> Vec<JoinChoice> {
        let source = self.from.scope.sources.get(slot);
        let Some((source, table)) = source.and_then(|s| Some((s, s.table()?))) else {
            return vec![self.computed_table_choice(slot, joined, before)];
        };
        let statistics = self.requirements.statistics;
        let mut planner =
            AccessPlanner::new(table, slot, self.conditions, &source.hints, statistics);
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
        let mut own = AccessPlanner::new(table, slot, self.conditions, &source.hints, statistics);
        own.needed = planner.needed;
        planner.joined = joined;
        let locked = self.from.locked_slots & 1u64 << (slot & 63) != 0;
        let looked_up = self.index_lookup_choice(&planner, before);
        let read_once = self.hash_or_loop_choice(&planner, &own, joined, before);
        match looked_up {
            None => vec![read_once],
            Some(lookup) if locked || lookup.after.cost <= read_once.after.cost => vec![lookup],
            Some(lookup) if own.output_rows() > cost::MAX_MATERIALIZED_ROWS => vec![lookup],
            Some(_) => vec![read_once],
        }
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
        let left = match paths.as_slice() {
            // There is no choice: statistics are not needed.
            [path] if alone && !shown => path.rows_without_statistics(),
            // Small tables may grow: avoid a plan that reads a whole table for its first rows.
            _ if self.requirements.limited && alone => planner.output_rows_of_large(),
            _ => planner.output_rows(),
        };
        let mut out: Vec<JoinChoice> = Vec::new();
        for path in paths {
            let left = match &path.access {
                Access::PointLookup { keys, .. } => left.min(keys.len() as f64),
                _ => left,
            };
            out.push(JoinChoice {
                after: PartialJoin {
                    rows: before.rows * left,
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
        let most = match &path.access {
            Access::PointLookup { keys, .. } => keys.len() as f64,
            _ => f64::INFINITY,
        };
        let matches = planner.output_rows().min(most);
        let several = match most.is_finite() {
            true => 0.0,
            false => cost::LOOKUP_OF_SEVERAL,
        };
        Some(JoinChoice {
            after: PartialJoin {
                rows: before.rows * matches,
                cost: before.cost
                    + before.rows * (path.cost + several + path.rows * cost::COMPARE_PAIR),
            },
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
        let hash = hash_keys(planner.slot, self.conditions, joined);
        let (rows, matches) = (own.output_rows(), planner.output_rows());
        let each = match hash.is_empty() {
            true => rows * cost::COMPARE_PAIR,
            false => cost::PROBE + matches * cost::COMPARE_PAIR,
        };
        let build = path.cost + rows * cost::BUILD;
        JoinChoice {
            after: PartialJoin {
                rows: before.rows * matches,
                cost: before.cost + build + before.rows * each,
            },
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
            _ => hash_keys(slot, self.conditions, joined),
        };
        let each = match hash.is_empty() {
            true => DERIVED_ROWS * cost::COMPARE_PAIR,
            false => cost::PROBE,
        };
        let matches = if hash.is_empty() { DERIVED_ROWS } else { 1.0 };
        let source = self.from.scope.sources.get(slot);
        let lateral = source.is_some_and(|source| lateral_slots(source) != 0);
        let method = match joined {
            0 => None,
            _ if lateral => Some(JoinMethod::Lateral),
            _ => Some(hash_or_loop(hash)),
        };
        JoinChoice {
            after: PartialJoin {
                rows: before.rows * matches,
                cost: before.cost + DERIVED_ROWS * cost::BUILD + before.rows * each,
            },
            access: Access::VirtualScan,
            method,
            ordered: joined != 0 || self.order.is_empty(),
            rows: DERIVED_ROWS,
            implied: Vec::new(),
            mode: ScanMode::Row,
        }
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
fn batch_path(mut path: AccessPath) -> Option<AccessPath> {
    match path.access {
        Access::PointLookup { .. } | Access::IndexLookup { .. } => Some(path),
        Access::IndexRangeScan { index, ranges, .. } => {
            // The ranges of an OR expansion are no lookup.
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

/// The slots that a LATERAL derived table reads.
fn lateral_slots(source: &Source) -> u64 {
    match &source.origin {
        Origin::Derived(derived) => derived
            .free
            .iter()
            .filter(|f| f.level == 1)
            .fold(0, |all, f| all | 1u64 << (f.slot & 63)),
        _ => 0,
    }
}

/// Equalities that can be keys of a hash join: probe side, build side and kind of comparison.
fn hash_keys(slot: usize, conditions: &[&Expr], joined: u64) -> Vec<HashKey> {
    let bit = 1u64 << slot;
    let mut keys = Vec::new();
    for condition in conditions {
        let ExprKind::Compare(CmpOp::Eq, how, args) = &condition.kind else {
            continue;
        };
        let hashable = matches!(
            how,
            CompareAs::Int | CompareAs::Decimal | CompareAs::Double | CompareAs::Bytes(_)
        );
        let [a, b] = args.as_ref();
        for (known, own) in [(a, b), (b, a)] {
            let outside = known.slots();
            if hashable
                && outside != 0
                && outside & !joined == 0
                && own.slots() == bit
                && known.is_fixed()
                && own.is_fixed()
                && !own.has_subquery()
            {
                keys.push(HashKey {
                    probe: known.clone(),
                    build: own.clone(),
                    compare_as: *how,
                });
                break;
            }
        }
    }
    keys
}
