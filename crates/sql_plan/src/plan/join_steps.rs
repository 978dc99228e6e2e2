//! Costs of the steps of a join order, remembered during the search.
//!
//! The search asks again and again for the cost of joining a table to some others. The answer
//! depends only on the conditions that become usable, of which most tables have few combinations:
//! the access path is chosen once for each of them. Equalities of one column with columns of other
//! tables count as one condition (a *class*), because they give the same path.

use super::access::{AccessPath, AccessPlanner};
use super::from::From;
use super::join_order::{
    PartialJoin, batch_path, computed_after, hash_side, looked_up_after, read_once_after,
};

use super::join_tree::JoinRequirements;
use super::selectivity::Estimator;
use crate::bind::Source;
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::statistics::TableStatistics;
use porpoise_rows::catalog::Table;
use porpoise_types::{ColumnType, CompareAs};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of classes that a set of usable ones can hold; paths of tables with more are not
/// remembered.
const MAX_CLASSES: usize = u128::BITS as usize;

/// Costs of joining each table of a block.
pub(super) struct JoinSteps<'s> {
    /// By slot; `None` for slots of other blocks.
    tables: Vec<Option<TableSteps<'s>>>,
    /// Number of access paths chosen so far.
    chosen: Cell<usize>,
}

/// A condition that reads the table.
struct Usable {
    /// The other slots that it reads, as a bit set.
    others: u64,
    class: usize,
    /// Whether it can be a key of a hash join.
    hashable: bool,
}

/// Reading a table once.
#[derive(Clone, Copy)]
struct ReadOnce {
    cost: f64,
    rows: f64,
}

/// An index lookup for each row joined before.
#[derive(Clone, Copy)]
pub(super) struct Lookup {
    /// Cost of the path.
    pub(super) cost: f64,
    /// Estimated number of rows that the path reads.
    pub(super) rows: f64,
    /// Maximum number of rows that it finds.
    pub(super) most: f64,
}

impl Lookup {
    pub(super) fn of(path: &AccessPath) -> Lookup {
        Lookup {
            cost: path.cost,
            rows: path.rows,
            most: path.max_rows(),
        }
    }
}

/// Costs of joining one table.
struct TableSteps<'s> {
    from: &'s From,
    requirements: &'s JoinRequirements<'s>,
    slot: usize,
    source: &'s Source,
    conditions: Vec<&'s Expr>,
    /// What the search needs of each condition.
    usable: Vec<Usable>,
    /// Number of classes.
    classes: usize,
    /// Slots that its conditions read.
    neighbours: u64,
    statistics: OnceCell<Arc<TableStatistics>>,
    /// Selectivities of the conditions.
    selectivities: OnceCell<Vec<f64>>,
    once: OnceCell<ReadOnce>,
    /// The cheapest lookup, by the set of usable classes.
    lookups: RefCell<HashMap<u128, Option<Lookup>>>,
}

/// The conditions that read a table.
pub(super) fn conditions_on<'e>(conditions: &[&'e Expr], slot: usize) -> Vec<&'e Expr> {
    let bit = 1u64 << (slot & 63);
    let those = conditions.iter().filter(|c| c.slots() & bit != 0);
    those.copied().collect()
}

impl<'s> JoinSteps<'s> {
    pub(super) fn new(
        from: &'s From,
        requirements: &'s JoinRequirements<'s>,
        conditions: &[&'s Expr],
        tables: &[usize],
    ) -> JoinSteps<'s> {
        let mut own: Vec<Vec<(&'s Expr, u64)>> = vec![Vec::new(); from.scope.sources.len()];
        for condition in conditions {
            let slots = condition.slots();
            for slot in tables.iter().filter(|slot| slots & bit(**slot) != 0) {
                if let Some(own) = own.get_mut(*slot) {
                    own.push((condition, slots & !bit(*slot)));
                }
            }
        }
        let sources = from.scope.sources.iter().enumerate().zip(own);
        let of = |((slot, source), own)| {
            let here = tables.contains(&slot);
            here.then(|| TableSteps::new((from, requirements), slot, source, own))
        };
        JoinSteps {
            tables: sources.map(of).collect(),
            chosen: Cell::new(0),
        }
    }

    /// Number of access paths chosen so far, the measure of the search's work.
    pub(super) fn chosen(&self) -> usize {
        self.chosen.get()
    }

    /// Whether a condition relates the table to one of those joined.
    pub(super) fn is_connected(&self, slot: usize, joined: u64) -> bool {
        self.table(slot)
            .is_some_and(|table| table.neighbours & joined != 0)
    }

    /// Whether at most one row of the table is expected to pass its own conditions.
    pub(super) fn is_single_row(&self, slot: usize) -> bool {
        let stored = |table: &&TableSteps<'_>| table.source.table().is_some();
        let table = self.table(slot).filter(stored);
        table.is_some_and(|table| table.left(0) <= 1.0)
    }

    /// The estimate after a table is joined to others.
    pub(super) fn after(&self, slot: usize, joined: u64, before: PartialJoin) -> PartialJoin {
        match self.table(slot) {
            Some(table) => table.after(joined, before, &self.chosen),
            None => before,
        }
    }

    fn table(&self, slot: usize) -> Option<&TableSteps<'s>> {
        self.tables.get(slot)?.as_ref()
    }
}

impl<'s> TableSteps<'s> {
    fn new(
        (from, requirements): (&'s From, &'s JoinRequirements<'s>),
        slot: usize,
        source: &'s Source,
        conditions: Vec<(&'s Expr, u64)>,
    ) -> TableSteps<'s> {
        let mut classes: Vec<Option<Class<'_>>> = Vec::new();
        let mut usable = Vec::with_capacity(conditions.len());
        for (condition, others) in &conditions {
            let class = class_of(condition, slot);
            let known = class.and_then(|class| classes.iter().position(|c| *c == Some(class)));
            let number = known.unwrap_or(classes.len());
            if known.is_none() {
                classes.push(class);
            }
            usable.push(Usable {
                others: *others,
                class: number,
                hashable: hash_side(condition, slot).is_some(),
            });
        }
        TableSteps {
            from,
            requirements,
            slot,
            source,
            neighbours: usable.iter().fold(0, |all, u| all | u.others),
            usable,
            classes: classes.len(),
            conditions: conditions.into_iter().map(|(c, _)| c).collect(),
            statistics: OnceCell::new(),
            selectivities: OnceCell::new(),
            once: OnceCell::new(),
            lookups: RefCell::default(),
        }
    }

    fn after(&self, joined: u64, before: PartialJoin, chosen: &Cell<usize>) -> PartialJoin {
        let here = self.usable.iter().filter(|u| u.others & !joined == 0);
        let (mut classes, mut hashed) = (0u128, false);
        for usable in here {
            let class = u32::try_from(usable.class).unwrap_or(u32::MAX);
            classes |= 1u128.checked_shl(class).unwrap_or(0);
            hashed |= usable.hashable;
        }
        let Some(table) = self.source.table() else {
            return computed_after(before, hashed);
        };
        let left = self.left(joined);
        let once = *self.once.get_or_init(|| self.read_once(table));
        let read_once = read_once_after(before, (once.cost, once.rows), hashed, left);
        let known = self.lookups.borrow().get(&classes).copied();
        let lookup = match known.filter(|_| self.classes <= MAX_CLASSES) {
            Some(lookup) => lookup,
            None => {
                chosen.set(chosen.get() + 1);
                let lookup = self.lookup(table, joined);
                self.lookups.borrow_mut().insert(classes, lookup);
                lookup
            }
        };
        let Some(lookup) = lookup else {
            return read_once;
        };
        let looked_up = looked_up_after(before, lookup, left);
        match self
            .from
            .prefers_lookup(self.slot, looked_up, (read_once, once.rows))
        {
            true => looked_up,
            false => read_once,
        }
    }

    fn statistics(&self) -> &Arc<TableStatistics> {
        self.statistics.get_or_init(|| match self.source.table() {
            Some(table) => self.requirements.statistics.of(table),
            None => Arc::new(TableStatistics::unknown()),
        })
    }

    /// Estimated number of rows that pass all usable conditions.
    fn left(&self, joined: u64) -> f64 {
        let selectivities = self.selectivities.get_or_init(|| self.selectivities());
        let all = self.usable.iter().zip(selectivities);
        let usable = all.filter(|(usable, _)| usable.others & !joined == 0);
        usable.fold(self.statistics().rows.max(1.0), |left, (_, part)| {
            left * part
        })
    }

    fn selectivities(&self) -> Vec<f64> {
        let (statistics, conditions) = (self.statistics(), self.conditions.iter());
        let of = |condition: &&Expr| match self.source.table() {
            Some(table) => Estimator {
                slot: self.slot,
                table,
                statistics,
                source: self.requirements.statistics,
            }
            .selectivity(condition),
            None => 1.0,
        };
        conditions.map(of).collect()
    }

    fn planner<'p>(&'p self, table: &'p Table) -> AccessPlanner<'p> {
        let (hints, statistics) = (&self.source.hints, self.requirements.statistics);
        let mut planner = AccessPlanner::new(table, self.slot, &self.conditions, hints, statistics);
        planner.needed = self
            .requirements
            .needed
            .get(self.slot)
            .and_then(Option::as_deref);
        planner.set_statistics(self.statistics().clone());
        planner
    }

    fn read_once(&self, table: &Table) -> ReadOnce {
        ReadOnce {
            cost: self.planner(table).cheapest_path(false).cost,
            rows: self.left(0),
        }
    }

    fn lookup(&self, table: &Table, joined: u64) -> Option<Lookup> {
        let mut planner = self.planner(table);
        planner.joined = joined;
        let paths = planner.paths().into_iter().filter_map(batch_path);
        let path = paths.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        Some(Lookup::of(&path))
    }
}

fn bit(slot: usize) -> u64 {
    1u64 << (slot & 63)
}

/// What makes two equalities with columns of other tables give the same access path: the column,
/// and the way and type of the comparison.
type Class<'e> = (usize, CompareAs, &'e ColumnType);

fn class_of(condition: &Expr, slot: usize) -> Option<Class<'_>> {
    let ExprKind::Compare(CmpOp::Eq, how, args) = &condition.kind else {
        return None;
    };
    let [a, b] = args.as_ref();
    let of = |own: &Expr, other: &Expr| match (&own.kind, &other.kind) {
        (
            ExprKind::Column {
                slot: s, column, ..
            },
            ExprKind::Column { slot: o, .. },
        ) if *s == slot && *o != slot => Some(*column),
        _ => None,
    };
    let own = of(a, b).map(|column| (column, *how, &b.ty));
    own.or_else(|| of(b, a).map(|column| (column, *how, &a.ty)))
}
