//! The join tree: the order of tables, the conditions of each join, and the locks of FOR UPDATE and
//! FOR SHARE.
//!
//! Inner-joined tables come first, in the cheapest order ([`super::join_order`]). The right sides
//! of LEFT JOINs, which remove no rows, follow once the tables of their ON are joined; semi-joins,
//! which only remove rows, are placed at the first opportunity. STRAIGHT_JOIN keeps the textual
//! order.

use super::OrderKey;
use super::access::AccessPlanner;
use super::equal_columns::BlockConditions;
use super::from::{Block, From, OuterBlock};
use super::group_order::Purpose;
use super::join_order::{JoinSearch, PartialJoin};
use super::physical::{Join, JoinKind, JoinMethod, NestedJoin, RowOperator};
use super::scan::{LockSpec, Scan};
use crate::bind::Source;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast::LockClause;
use crate::statistics::StatisticsSource;
use porpoise_kv::LockMode;
use std::cell::OnceCell;

/// The lock of each slot, from the target of a changing statement, FOR UPDATE and FOR SHARE.
pub(super) fn lock_specs(from: &From, clauses: &[LockClause<'_>]) -> Result<Vec<Option<LockSpec>>> {
    let scope = &from.scope;
    let slots = 0..scope.sources.len();
    let changed = slots.map(|slot| {
        from.change_lock
            .filter(|_| from.locked_slots & 1 << (slot & 63) != 0)
    });
    let mut specs: Vec<Option<LockSpec>> = changed.collect();
    for clause in clauses {
        let mode = if clause.exclusive {
            LockMode::Exclusive
        } else {
            LockMode::Share
        };
        let wait = clause.wait;
        for name in clause.tables {
            let known = scope.sources.iter();
            if !known
                .into_iter()
                .any(|s| s.alias.eq_ignore_ascii_case(name.name.name))
            {
                let text = format!(
                    "Unresolved table name `{}` in locking clause.",
                    name.name.name
                );
                return Err(SqlError::new(3568, "HY000", text));
            }
        }
        for (spec, source) in specs.iter_mut().zip(&scope.sources) {
            let named = clause
                .tables
                .iter()
                .any(|t| t.name.name.eq_ignore_ascii_case(&source.alias));
            if (clause.tables.is_empty() || named) && source.table().is_some() {
                *spec = Some(LockSpec { mode, wait });
            }
        }
    }
    Ok(specs)
}

/// Requirements of the clauses above the join.
pub(super) struct JoinRequirements<'f> {
    /// The wanted order: ORDER BY if it applies to joined rows, or the grouping keys.
    pub(super) order: &'f [OrderKey],
    /// Purpose of the order.
    pub(super) purpose: Purpose,
    /// Estimated number of groups, computed on first use.
    pub(super) groups: OnceCell<f64>,
    /// Whether there is a LIMIT.
    pub(super) limited: bool,
    /// The columns that the query reads, by slot.
    pub(super) needed: &'f [Option<Vec<usize>>],
    pub(super) statistics: &'f dyn StatisticsSource,
}

/// Returns the join's operators, and whether the driving scan gives the wanted order.
pub(super) fn join_tree(from: &From, requirements: &JoinRequirements<'_>) -> (RowOperator, bool) {
    let mut planner = Planner {
        from,
        requirements,
        ordered: requirements.order.is_empty(),
        started: false,
        placed_semi_joins: 0,
        so_far: PartialJoin::default(),
        implied: Vec::new(),
    };
    let tree = planner.block(&from.block, &[], 0);
    (tree, planner.ordered)
}

/// The next part of the tree.
enum JoinInput {
    /// The driving scan.
    First(Scan),
    /// A table of an inner join.
    Inner(Scan, JoinMethod),
    /// The right side of a LEFT JOIN, with its ON conditions.
    Left(Scan, JoinMethod, Vec<Expr>),
    /// The right side of a LEFT JOIN that is itself a join.
    Nested(RowOperator),
}

impl JoinInput {
    fn slots(&self) -> u64 {
        match self {
            JoinInput::First(scan) | JoinInput::Inner(scan, _) | JoinInput::Left(scan, ..) => {
                scan.slot_bit()
            }
            JoinInput::Nested(right) => right.slots(),
        }
    }

    /// Whether it is an outer join, whose filter must not decide about matches.
    fn is_outer(&self) -> bool {
        matches!(self, JoinInput::Left(..) | JoinInput::Nested(_))
    }

    /// Joins it to the tree `left`, with the conditions to check on its rows and those that its
    /// path implies.
    fn join_to(self, left: RowOperator, filter: Vec<Expr>, implied: Vec<Expr>) -> RowOperator {
        let join = match self {
            JoinInput::First(scan) => {
                return RowOperator::Scan(Box::new(Scan {
                    filter,
                    implied,
                    ..scan
                }));
            }
            JoinInput::Nested(right) => {
                return RowOperator::NestedJoin(Box::new(NestedJoin {
                    left,
                    right,
                    filter,
                }));
            }
            JoinInput::Inner(scan, method) => Join {
                kind: JoinKind::Inner,
                method,
                left,
                right: Scan { implied, ..scan },
                on: filter,
                filter: Vec::new(),
            },
            JoinInput::Left(right, method, on) => Join {
                kind: JoinKind::Left,
                method,
                left,
                right,
                on,
                filter,
            },
        };
        RowOperator::Join(Box::new(join))
    }
}

/// Places the conditions of a block as soon as their tables are joined.
struct ConditionPlacement<'f> {
    conditions: &'f BlockConditions<'f>,
    /// Whether each of them is placed, or follows from others.
    placed: Vec<bool>,
    /// The slots joined before the block.
    outside: u64,
    /// Whether no table of the block is joined.
    first: bool,
}

impl<'f> ConditionPlacement<'f> {
    fn new(conditions: &'f BlockConditions<'f>, outside: u64) -> ConditionPlacement<'f> {
        ConditionPlacement {
            conditions,
            placed: vec![false; conditions.list.len()],
            outside,
            first: true,
        }
    }

    /// The conditions to check on the rows of the next part, and those that its path implies, given
    /// by address.
    fn place(
        &mut self,
        next: &JoinInput,
        before: u64,
        by_path: &[usize],
    ) -> (Vec<Expr>, Vec<Expr>) {
        let joined = before | next.slots();
        let first = std::mem::replace(&mut self.first, false);
        let selected = match next {
            JoinInput::First(scan) | JoinInput::Inner(scan, _) => {
                self.conditions.on_table(scan.slot, before)
            }
            JoinInput::Left(..) | JoinInput::Nested(_) => Vec::new(),
        };
        let (mut filter, mut implied) = (Vec::new(), Vec::new());
        for (condition, placed) in self.conditions.list.iter().zip(&mut self.placed) {
            let (slots, expr) = (condition.slots, condition.expr);
            let here = slots & !joined == 0 && (slots & !self.outside != 0 || first);
            let constant = self.outside == 0 && slots == 0 && expr.is_fixed();
            if !here || *placed || constant {
                continue;
            }
            *placed = true;
            let is_selected = || selected.iter().any(|e| std::ptr::eq(*e, expr));
            if condition.member.is_some() && !is_selected() {
                continue;
            }
            if by_path.contains(&std::ptr::from_ref::<Expr>(expr).addr()) {
                implied.push(expr.clone());
            } else {
                filter.push(expr.clone());
            }
        }
        (filter, implied)
    }
}

/// Places the tables of blocks, one after the other.
struct Planner<'f> {
    from: &'f From,
    requirements: &'f JoinRequirements<'f>,
    /// Whether the driving scan gives the wanted order.
    ordered: bool,
    started: bool,
    /// Semi-joins that are placed, as a bit set.
    placed_semi_joins: usize,
    so_far: PartialJoin,
    /// Addresses of the conditions that the last path implies.
    implied: Vec<usize>,
}

impl Planner<'_> {
    /// Joins a block after the slots `outside`, with the additional conditions `on`.
    fn block(&mut self, block: &Block, on: &[Expr], outside: u64) -> RowOperator {
        let top = outside == 0;
        let conditions = &BlockConditions::of(block, on);
        let mut placement = ConditionPlacement::new(conditions, outside);
        let mut tables = self.order_of(&block.tables, conditions, outside);
        let mut outers: Vec<&OuterBlock> = block.outers.iter().collect();
        let mut joined = outside;
        let mut tree = if top {
            RowOperator::SingleRow
        } else {
            RowOperator::BatchInput
        };
        while !tables.is_empty() || !outers.is_empty() {
            let ready = outers
                .iter()
                .position(|o| self.is_ready(o, joined) && self.may_place_outer(o, &tables));
            // A LATERAL table is joined after the right side of a LEFT JOIN that it reads.
            let pending = outers.iter().fold(0, |all, o| all | o.block.slots());
            let free = tables
                .iter()
                .position(|slot| self.lateral_slots(*slot) & pending == 0);
            let straight = self.from.straight;
            let next = match (ready, free) {
                // An outer join needs rows to join to.
                (Some(at), _) if tables.is_empty() || straight && joined != 0 => {
                    self.outer(outers.remove(at), joined)
                }
                (_, Some(at)) => {
                    let slot = tables.remove(at);
                    match self.table(slot, conditions, joined, false) {
                        (scan, None) => JoinInput::First(scan),
                        (scan, Some(method)) => JoinInput::Inner(scan, method),
                    }
                }
                // No further table can be joined first: place it as it is.
                (at, None) => self.outer(outers.remove(at.unwrap_or(0)), joined),
            };
            let mut by_path = std::mem::take(&mut self.implied);
            if next.is_outer() || self.from.locked_slots & next.slots() != 0 {
                by_path.clear();
            }
            let (filter, implied) = placement.place(&next, joined, &by_path);
            joined |= next.slots();
            tree = next.join_to(tree, filter, implied);
            if top {
                tree = self.place_semis(joined, tree);
            }
        }
        tree
    }

    /// The cheapest order of inner-joined tables.
    fn order_of(
        &self,
        tables: &[usize],
        conditions: &BlockConditions<'_>,
        outside: u64,
    ) -> Vec<usize> {
        if self.from.straight || tables.len() < 2 {
            return tables.to_vec();
        }
        self.join_search(conditions)
            .cheapest(tables, outside, self.so_far)
    }

    /// Creates the search for the next table.
    fn join_search<'s>(&'s self, conditions: &'s BlockConditions<'s>) -> JoinSearch<'s> {
        let order = if self.started {
            &[][..]
        } else {
            self.requirements.order
        };
        JoinSearch {
            from: self.from,
            requirements: self.requirements,
            conditions,
            order,
        }
    }

    /// The slots that a LATERAL table reads.
    fn lateral_slots(&self, slot: usize) -> u64 {
        let source = self.from.scope.sources.get(slot);
        source.map_or(0, Source::lateral_slots)
    }

    /// Whether everything that the right side of a LEFT JOIN reads is joined.
    fn is_ready(&self, outer: &OuterBlock, joined: u64) -> bool {
        let slots = outer.block.slots();
        let all = 0..self.from.scope.sources.len();
        let own = all.filter(|slot| slots & 1u64 << (slot & 63) != 0);
        let lateral = own.fold(0, |read, slot| read | self.lateral_slots(slot));
        (required_slots(outer) | lateral & !slots) & !joined == 0
    }

    /// Whether STRAIGHT_JOIN allows this outer join to be placed now.
    fn may_place_outer(&self, outer: &OuterBlock, tables: &[usize]) -> bool {
        let first = outer.block.slots().trailing_zeros() as usize;
        !self.from.straight || tables.iter().all(|t| *t > first)
    }

    /// The scan of a table and its join method.
    fn table(
        &mut self,
        slot: usize,
        conditions: &BlockConditions<'_>,
        joined: u64,
        outer: bool,
    ) -> (Scan, Option<JoinMethod>) {
        let mut choice = self
            .join_search(conditions)
            .cheapest_choice(slot, joined, self.so_far);
        self.implied = std::mem::take(&mut choice.implied);
        if !self.started {
            self.ordered = choice.ordered;
            self.started = true;
        }
        let before = self.so_far;
        self.so_far = choice.after;
        if outer {
            self.so_far.rows = self.so_far.rows.max(before.rows);
        }
        choice.into_scan(slot, before)
    }

    /// Plans the right side of a LEFT JOIN: one table, or a join.
    fn outer(&mut self, outer: &OuterBlock, joined: u64) -> JoinInput {
        if let ([slot], true) = (outer.block.tables.as_slice(), outer.block.outers.is_empty()) {
            let on: Vec<&Expr> = outer.on.iter().chain(&outer.block.conditions).collect();
            let conditions = BlockConditions::plain(on.iter().copied());
            let (scan, method) = self.table(*slot, &conditions, joined, true);
            let method = method.unwrap_or(JoinMethod::Materialized);
            return JoinInput::Left(scan, method, on.into_iter().cloned().collect());
        }
        let before = self.so_far.rows;
        let right = self.block(&outer.block, &outer.on, joined);
        self.so_far.rows = self.so_far.rows.max(before);
        JoinInput::Nested(right)
    }

    /// Places each semi-join as soon as its tables are joined.
    fn place_semis(&mut self, joined: u64, mut tree: RowOperator) -> RowOperator {
        for (at, semi) in self.from.semi_joins.iter().enumerate() {
            let bit = 1u64 << semi.slot;
            let needed = semi.on.iter().fold(0, |all, e| all | e.slots()) & !bit;
            if self.placed_semi_joins & (1 << at) != 0 || needed & !joined != 0 {
                continue;
            }
            self.placed_semi_joins |= 1 << at;
            let on = BlockConditions::plain(semi.on.iter());
            let before = self.so_far.rows;
            let (right, method) = self.table(semi.slot, &on, joined, false);
            self.so_far.rows = before;
            tree = RowOperator::Join(Box::new(Join {
                kind: semi.kind,
                method: method.unwrap_or(JoinMethod::Materialized),
                left: tree,
                right,
                on: semi.on.clone(),
                filter: Vec::new(),
            }));
        }
        tree
    }
}

/// Slots that must be joined before the right side of a LEFT JOIN.
fn required_slots(outer: &OuterBlock) -> u64 {
    fn slots_read(block: &Block) -> u64 {
        let own = block.conditions.iter().fold(0, |all, e| all | e.slots());
        let outers = block.outers.iter();
        outers.fold(own, |all, o| all | slots_read(&o.block) | on_slots(o))
    }
    fn on_slots(outer: &OuterBlock) -> u64 {
        outer.on.iter().fold(0, |all, e| all | e.slots())
    }
    (slots_read(&outer.block) | on_slots(outer)) & !outer.block.slots()
}

impl AccessPlanner<'_> {
    /// Cost of looking a row up by a whole key.
    pub(super) fn whole_key_cost(&self, position: usize) -> f64 {
        match position {
            0 => super::cost::LOOKUP,
            _ => 2.0 * super::cost::LOOKUP,
        }
    }

    /// Whether the wanted order reads only columns of this table, so that a single row is in order.
    pub(super) fn order_reads_only_this_table(&self) -> bool {
        let others = !(1 << (self.slot & 63));
        let alone = |e: &Expr| e.slots() & others == 0 && e.is_fixed();
        self.order.iter().all(|key| alone(&key.expr))
    }
}
