//! Search for the cheapest join order.
//!
//! Orders are searched depth first with branch and bound: the most promising next table is tried
//! first, and an order is abandoned once it costs more than the best one so far. The search ends
//! after [`BUDGET`] steps, and with the first complete order for more than [`MANY`] tables, because
//! the number of orders grows exponentially.
//!
//! The order found by a search that has ended early is then improved by *dynamic
//! programming over sets of tables* (P. Selinger et al., 1979) with bounded width: of all orders
//! of the same tables the cheapest is kept, and of all sets of one size the [`WIDTH`] most
//! promising. A table is added only if a condition relates it to the set, as long as there is
//! such a table.
//!
//! Bound: a step is the estimate for one beginning of an order. For `n` tables the first search takes
//! at most `BUDGET + n * n` steps, of which `BUDGET` only for few tables, and the second one at most
//! `WIDTH * n * n`: of each size there are `WIDTH` sets in the wanted order and as many in others, each
//! with half of the tables open on average. `crates/sql/tests/join_order_work.rs` counts them.
//!
//! Rejected: dynamic programming for few tables. It needs the number of rows to be the same for all
//! orders of a set, which holds only if estimates are consistent; and for few tables the search by
//! order is as fast.

use super::join_order::{JoinSearch, PartialJoin};
use super::join_steps::JoinSteps;
use porpoise_base::interrupt;
use std::collections::BTreeMap;

/// Number of steps after which the search of orders ends.
const BUDGET: u32 = 2_000;

/// Number of tables above which sets of tables are searched, not orders.
const MANY: usize = 10;

/// Number of sets of one size that are kept.
const WIDTH: usize = 16;

/// Number of access paths chosen after which one set of each size is kept.
const MAX_CHOSEN: usize = 500;

/// The best order found so far.
struct Best {
    cost: f64,
    order: Vec<usize>,
    budget: u32,
}

impl Best {
    /// Whether the search of orders is over: its steps are used up, and it has found an order.
    fn is_enough(&self) -> bool {
        self.budget == 0 && self.cost < f64::INFINITY
    }
}

/// A way to join a table next.
struct JoinCandidate {
    slot: usize,
    after: PartialJoin,
    /// Whether it gives the wanted order, if the table is the first.
    ordered: bool,
}

/// An order of some of the tables.
#[derive(Clone, Copy)]
struct Partial {
    /// The slots, as a bit set.
    joined: u64,
    after: PartialJoin,
    ordered: bool,
    /// Position of its last table in the list of all steps.
    last: Option<usize>,
}

impl JoinSearch<'_> {
    /// Returns the tables in the cheapest order found.
    pub(super) fn cheapest(
        &self,
        tables: &[usize],
        outside: u64,
        before: PartialJoin,
    ) -> Vec<usize> {
        let steps = JoinSteps::new(self.from, self.requirements, self.conditions, tables);
        let many = tables.len() > MANY;
        let mut best = Best {
            cost: f64::INFINITY,
            order: tables.to_vec(),
            budget: if many { 0 } else { BUDGET },
        };
        let mut chosen = Vec::with_capacity(tables.len());
        let first = self.order.is_empty();
        let start = Partial {
            joined: outside,
            after: before,
            ordered: first,
            last: None,
        };
        self.search(tables, &steps, start, &mut chosen, &mut best);
        if best.budget == 0 {
            self.search_sets(tables, &steps, start, &mut best);
        }
        let statistics = self.requirements.statistics;
        statistics.note_partial_plans(steps.partial_plans());
        best.order
    }

    /// The ways to join one of the tables next.
    fn steps(
        &self,
        slot: usize,
        joined: u64,
        before: PartialJoin,
        steps: &JoinSteps<'_>,
        out: &mut Vec<JoinCandidate>,
    ) {
        steps.count_partial_plan();
        if joined != 0 {
            out.push(JoinCandidate {
                slot,
                after: steps.after(slot, joined, before),
                ordered: true,
            });
            return;
        }
        let choices = self.choices(slot, joined, before).into_iter();
        out.extend(choices.map(|choice| JoinCandidate {
            slot,
            after: choice.after,
            ordered: choice.ordered,
        }));
    }

    /// Depth-first search for orders that continue `start` with `tables`.
    fn search(
        &self,
        tables: &[usize],
        steps: &JoinSteps<'_>,
        start: Partial,
        chosen: &mut Vec<usize>,
        best: &mut Best,
    ) {
        if interrupt::should_abandon() || best.is_enough() {
            return;
        }
        if tables.is_empty() {
            let total = self.total_cost(start.after, start.ordered);
            if total < best.cost {
                best.cost = total;
                best.order.clone_from(chosen);
            }
            return;
        }
        let mut next: Vec<JoinCandidate> = Vec::with_capacity(tables.len());
        for slot in tables {
            if self.must_wait(*slot, start.joined, tables) {
                continue;
            }
            best.budget = best.budget.saturating_sub(1);
            self.steps(*slot, start.joined, start.after, steps, &mut next);
        }
        next.sort_by(|a, b| a.after.promise().total_cmp(&b.after.promise()));
        if best.budget == 0 {
            next.truncate(1);
        }
        for step in next {
            if self.least(step.after) >= best.cost || best.is_enough() {
                continue;
            }
            let slot = step.slot;
            let left: Vec<usize> = tables.iter().copied().filter(|t| *t != slot).collect();
            let longer = Partial {
                joined: start.joined | 1u64 << (slot & 63),
                after: step.after,
                ordered: start.next_ordered(&step),
                last: None,
            };
            chosen.push(slot);
            self.search(&left, steps, longer, chosen, best);
            chosen.pop();
        }
    }

    /// The least cost of an order that begins with tables of this estimate.
    fn least(&self, after: PartialJoin) -> f64 {
        if self.requirements.limited {
            0.0
        } else {
            after.cost
        }
    }

    /// Dynamic programming over sets of tables, with bounded width.
    fn search_sets(
        &self,
        tables: &[usize],
        steps: &JoinSteps<'_>,
        start: Partial,
        best: &mut Best,
    ) {
        let mut all: Vec<(usize, Option<usize>)> = Vec::new();
        let mut level = vec![start];
        let mut ways = Vec::new();
        for _ in tables {
            let mut sets: BTreeMap<(u64, bool), (Partial, usize)> = BTreeMap::new();
            for partial in &level {
                if interrupt::should_abandon() {
                    return;
                }
                ways.clear();
                for slot in self.candidates(tables, steps, start.joined, partial.joined) {
                    self.steps(slot, partial.joined, partial.after, steps, &mut ways);
                }
                ways.retain(|step| self.least(step.after) < best.cost);
                for step in &ways {
                    let longer = Partial {
                        joined: partial.joined | 1u64 << (step.slot & 63),
                        after: step.after,
                        ordered: partial.next_ordered(step),
                        last: partial.last,
                    };
                    let key = (longer.joined, longer.ordered);
                    let found = sets.entry(key).or_insert((longer, step.slot));
                    if longer.after.promise() < found.0.after.promise() {
                        *found = (longer, step.slot);
                    }
                }
            }
            let width = if steps.chosen() < MAX_CHOSEN {
                WIDTH
            } else {
                1
            };
            level = most_promising(sets, width, &mut all);
        }
        for partial in level {
            let total = self.total_cost(partial.after, partial.ordered);
            if total < best.cost {
                best.cost = total;
                best.order = order_of(partial, &all);
            }
        }
    }

    /// Tables that may follow: those that a condition relates to the tables joined, or of which at
    /// most one row is expected; without such a table, all.
    fn candidates(
        &self,
        tables: &[usize],
        steps: &JoinSteps<'_>,
        outside: u64,
        joined: u64,
    ) -> Vec<usize> {
        let open = |slot: &usize| joined & 1u64 << (slot & 63) == 0;
        let ready = |slot: &usize| open(slot) && !self.must_wait(*slot, joined, tables);
        let mut all: Vec<usize> = tables.iter().copied().filter(ready).collect();
        let near = |slot: &usize| steps.is_connected(*slot, joined) || steps.is_single_row(*slot);
        if joined != outside && all.iter().any(near) {
            all.retain(near);
        }
        all
    }
}

impl PartialJoin {
    /// Estimate by which orders of equally many tables are compared.
    fn promise(&self) -> f64 {
        self.cost + self.rows
    }
}

impl Partial {
    /// Whether the wanted order is given after a step: the first table decides.
    fn next_ordered(&self, step: &JoinCandidate) -> bool {
        match self.joined {
            0 => step.ordered,
            _ => self.ordered,
        }
    }
}

/// The most promising sets, those in the wanted order and others each by themselves. Their last
/// steps are added to the list of all steps.
fn most_promising(
    sets: BTreeMap<(u64, bool), (Partial, usize)>,
    width: usize,
    all: &mut Vec<(usize, Option<usize>)>,
) -> Vec<Partial> {
    let mut found: Vec<(Partial, usize)> = sets.into_values().collect();
    found.sort_by(|(a, _), (b, _)| a.after.promise().total_cmp(&b.after.promise()));
    let mut kept = [0usize; 2];
    found.retain(|(partial, _)| {
        let [unordered, ordered] = &mut kept;
        let count = if partial.ordered { ordered } else { unordered };
        *count += 1;
        *count <= width
    });
    let numbered = found.into_iter().map(|(partial, slot)| {
        all.push((slot, partial.last));
        Partial {
            last: Some(all.len() - 1),
            ..partial
        }
    });
    numbered.collect()
}

/// The tables of an order, first to last.
fn order_of(partial: Partial, all: &[(usize, Option<usize>)]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut last = partial.last;
    while let Some((slot, before)) = last.and_then(|at| all.get(at)) {
        order.push(*slot);
        last = *before;
    }
    order.reverse();
    order
}
