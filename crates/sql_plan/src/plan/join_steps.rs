//! Costs of the steps of a join order, remembered during the search.
//!
//! The search asks again and again for the cost of joining a table to some others. The cost
//! depends only on the conditions that become usable, of which most tables have few combinations:
//! the access path is chosen once for each of them. Equalities of one column with columns of other
//! tables count as one condition (a *class*), because they give the same path.

use super::access::{AccessPath, AccessPlanner};
use super::equal_columns::{BlockConditions, Selection};
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
    /// Number of beginnings of join orders whose cost was estimated.
    partial_plans: Cell<u64>,
}

/// A condition that reads the table, or equalities with columns that equal each other, of which
/// one is usable at a time. Slots are bit sets.
struct Usable {
    /// Position of the condition, or of the first equality.
    position: usize,
    /// The other slots that it reads.
    others: u64,
    /// Slots of which one must be joined, if there are any.
    one_of: u64,
    /// Slots of which none may be joined.
    none_of: u64,
    class: usize,
    /// Whether it can be a key of a hash join.
    hashable: bool,
}

impl Usable {
    fn is_usable(&self, joined: u64) -> bool {
        self.others & !joined == 0
            && (self.one_of == 0 || self.one_of & joined != 0)
            && self.none_of & joined == 0
    }
}

/// Estimate of reading a table once.
#[derive(Clone, Copy)]
pub(super) struct ReadOnce {
    pub(super) cost: f64,
    pub(super) rows: f64,
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
    /// When each condition is usable.
    usable: Vec<Usable>,
    /// Number of classes.
    classes: usize,
    /// Slots that its conditions read.
    neighbours: u64,
    statistics: OnceCell<Arc<TableStatistics>>,
    /// Selectivities, one for each of `usable`.
    selectivities: OnceCell<Vec<f64>>,
    once: OnceCell<ReadOnce>,
    /// The cheapest lookup, by the set of usable classes.
    lookups: RefCell<HashMap<u128, Option<Lookup>>>,
}

impl<'s> JoinSteps<'s> {
    pub(super) fn new(
        from: &'s From,
        requirements: &'s JoinRequirements<'s>,
        conditions: &'s BlockConditions<'s>,
        tables: &[usize],
    ) -> JoinSteps<'s> {
        let sources = from.scope.sources.iter().enumerate();
        let of = |(slot, source)| {
            let here = tables.contains(&slot);
            here.then(|| TableSteps::new(from, requirements, slot, source, conditions))
        };
        JoinSteps {
            tables: sources.map(of).collect(),
            chosen: Cell::new(0),
            partial_plans: Cell::new(0),
        }
    }

    /// Number of access paths chosen so far, the measure of the search's work.
    pub(super) fn chosen(&self) -> usize {
        self.chosen.get()
    }

    /// Counts the beginning of a join order.
    pub(super) fn count_partial_plan(&self) {
        self.partial_plans.set(self.partial_plans.get() + 1);
    }

    /// Number of beginnings of join orders whose cost was estimated.
    pub(super) fn partial_plans(&self) -> u64 {
        self.partial_plans.get()
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
        from: &'s From,
        requirements: &'s JoinRequirements<'s>,
        slot: usize,
        source: &'s Source,
        conditions: &'s BlockConditions<'s>,
    ) -> TableSteps<'s> {
        let mut paths: Vec<Option<Class<'_>>> = Vec::new();
        let mut usable: Vec<Usable> = Vec::new();
        // The equalities of a column with other members of a class: its class, the column, and
        // the position in `usable`.
        let mut grouped: Vec<(usize, usize, usize)> = Vec::new();
        let mut own: Vec<&'s Expr> = Vec::new();
        for condition in conditions.list.iter().filter(|c| c.slots & bit(slot) != 0) {
            let position = own.len();
            own.push(condition.expr);
            let (mut others, mut one_of, mut none_of) = (condition.slots & !bit(slot), 0, 0);
            match condition.member.map(|m| conditions.selection(m, slot)) {
                None => {}
                Some(Selection::Within { partners }) => none_of = partners,
                Some(Selection::ByColumn {
                    class,
                    column,
                    partner,
                }) => {
                    let known = grouped.iter().find(|g| (g.0, g.1) == (class, column));
                    if let Some(group) = known.and_then(|g| usable.get_mut(g.2)) {
                        group.one_of |= partner;
                        continue;
                    }
                    grouped.push((class, column, usable.len()));
                    (others, one_of) = (0, partner);
                }
            }
            let path = class_of(condition.expr, slot);
            let known = path.and_then(|path| paths.iter().position(|c| *c == Some(path)));
            let number = known.unwrap_or(paths.len());
            if known.is_none() {
                paths.push(path);
            }
            usable.push(Usable {
                position,
                others,
                one_of,
                none_of,
                class: number,
                hashable: hash_side(condition.expr, slot).is_some(),
            });
        }
        TableSteps {
            from,
            requirements,
            slot,
            source,
            neighbours: usable.iter().fold(0, |all, u| all | u.others | u.one_of),
            usable,
            classes: paths.len(),
            conditions: own,
            statistics: OnceCell::new(),
            selectivities: OnceCell::new(),
            once: OnceCell::new(),
            lookups: RefCell::default(),
        }
    }

    fn after(&self, joined: u64, before: PartialJoin, chosen: &Cell<usize>) -> PartialJoin {
        let here = self.usable.iter().filter(|u| u.is_usable(joined));
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
        let read_once = read_once_after(before, once, hashed, left);
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
        if self
            .from
            .prefers_lookup(self.slot, looked_up, read_once, once.rows)
        {
            looked_up
        } else {
            read_once
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
        let usable = all.filter(|(usable, _)| usable.is_usable(joined));
        usable.fold(self.statistics().rows.max(1.0), |left, (_, part)| {
            left * part
        })
    }

    fn selectivities(&self) -> Vec<f64> {
        let statistics = self.statistics();
        let of = |usable: &Usable| match (self.source.table(), self.conditions.get(usable.position))
        {
            (Some(table), Some(condition)) => Estimator {
                slot: self.slot,
                table,
                statistics,
                source: self.requirements.statistics,
            }
            .selectivity(condition),
            _ => 1.0,
        };
        self.usable.iter().map(of).collect()
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

/// Properties of an equality with a column of another table that determine its access path: the
/// column, and the way and type of the comparison.
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
