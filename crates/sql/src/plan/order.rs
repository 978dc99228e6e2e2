//! The order in which tables are joined, the conditions of each step, and
//! the locks of FOR UPDATE and FOR SHARE.
//!
//! Inner tables come first, the most narrowly addressed one before the
//! others; the right sides of LEFT JOINs, which remove nothing, after them,
//! as soon as what their ON names is there; semi-joins, which only remove, at
//! the first opportunity. STRAIGHT_JOIN keeps the order of the text.

use super::access::choose;
use super::from::{Block, From, OuterBlock};
use super::semi::SemiJoin;
use super::{Access, Busy, HashKey, LockSpec, OrderKey, Step};
use crate::bind::{Origin, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::parse::ast::{LockClause, LockWait};
use porpoise_kv::LockMode;
use porpoise_types::CompareAs;

/// The lock of each slot.
pub(super) fn lock_specs(
    scope: &Scope,
    clauses: &[LockClause<'_>],
) -> Result<Vec<Option<LockSpec>>> {
    let mut specs = vec![None; scope.sources.len()];
    for clause in clauses {
        let mode = match clause.exclusive {
            true => LockMode::Exclusive,
            false => LockMode::Share,
        };
        let busy = match clause.wait {
            LockWait::Wait => Busy::Wait,
            LockWait::NoWait => Busy::NoWait,
            LockWait::SkipLocked => Busy::Skip,
        };
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
                *spec = Some(LockSpec { mode, busy });
            }
        }
    }
    Ok(specs)
}

/// The steps of the join, and whether the first gives the wanted order.
pub(super) fn steps(from: &From, order: &[OrderKey], limited: bool) -> (Vec<Step>, bool) {
    let mut planner = Planner {
        scope: &from.scope,
        straight: from.straight,
        order,
        limited,
        ordered: order.is_empty(),
        started: false,
        semis: &from.semis,
        done: 0,
    };
    let steps = planner.block(&from.block, &[], 0);
    (steps, planner.ordered)
}

/// Places the tables of blocks one after the other.
struct Planner<'f> {
    scope: &'f Scope,
    straight: bool,
    order: &'f [OrderKey],
    limited: bool,
    /// The first step gives the wanted order.
    ordered: bool,
    started: bool,
    semis: &'f [SemiJoin],
    /// How many of the semi-joins are placed.
    done: usize,
}

impl Planner<'_> {
    /// The steps of a block, with more conditions that its rows must fulfil,
    /// behind the slots that are joined before.
    fn block(&mut self, block: &Block, on: &[Expr], outside: u64) -> Vec<Step> {
        let top = outside == 0;
        let conditions: Vec<&Expr> = block.conditions.iter().chain(on).collect();
        let mut placed = vec![false; conditions.len()];
        let mut tables = block.tables.clone();
        let mut outers: Vec<&OuterBlock> = block.outers.iter().collect();
        let mut joined = outside;
        let mut steps: Vec<Step> = Vec::new();
        while !tables.is_empty() || !outers.is_empty() {
            let ready = outers
                .iter()
                .position(|o| needs(o) & !joined == 0 && self.may_place(o, &tables));
            let mut step = match (ready, tables.is_empty()) {
                (Some(at), _) if tables.is_empty() || self.straight => {
                    self.outer(outers.remove(at), joined)
                }
                (_, false) => {
                    let pick = match self.straight {
                        true => 0,
                        false => self.best_next(&tables, &conditions, joined),
                    };
                    let slot = tables.remove(pick);
                    self.table(slot, &conditions, joined)
                }
                // Nothing that it needs can come any more: as it stands.
                (_, true) => self.outer(outers.remove(0), joined),
            };
            joined |= step.slots();
            let first = steps.is_empty();
            for (condition, placed) in conditions.iter().zip(&mut placed) {
                let slots = condition.slots();
                let here = slots & !joined == 0 && (slots & !outside != 0 || first);
                let constant = top && slots == 0 && condition.is_fixed();
                if here && !*placed && !constant {
                    *placed = true;
                    step.filter.push((*condition).clone());
                }
            }
            steps.push(step);
            if top {
                self.place_semis(joined, &mut steps);
            }
        }
        steps
    }

    /// In the order of the text where that is asked for.
    fn may_place(&self, outer: &OuterBlock, tables: &[usize]) -> bool {
        let first = outer.block.slots().trailing_zeros() as usize;
        !self.straight || tables.iter().all(|t| *t > first)
    }

    fn table(&mut self, slot: usize, conditions: &[&Expr], joined: u64) -> Step {
        let wanted: &[OrderKey] = if self.started { &[] } else { self.order };
        let narrowing: Vec<&Expr> = conditions.to_vec();
        let (access, in_order) = match self.scope.sources.get(slot).and_then(Source::table) {
            Some(table) => choose(table, slot, &narrowing, joined, wanted, self.limited),
            None => (Access::Virtual, wanted.is_empty()),
        };
        let access = independent(access);
        if !self.started {
            self.ordered = in_order;
            self.started = true;
        }
        let hash = hash_keys(&access, slot, conditions, joined);
        Step {
            slot,
            access,
            outer: false,
            on: Vec::new(),
            filter: Vec::new(),
            lock: None,
            hash,
            semi: None,
            group: Vec::new(),
            placement: Default::default(),
        }
    }

    /// The right side of a LEFT JOIN: one table, or a group of steps.
    fn outer(&mut self, outer: &OuterBlock, joined: u64) -> Step {
        if let ([slot], true) = (outer.block.tables.as_slice(), outer.block.outers.is_empty()) {
            let on: Vec<&Expr> = outer.on.iter().chain(&outer.block.conditions).collect();
            let mut step = self.table(*slot, &on, joined);
            step.on = on.into_iter().cloned().collect();
            step.outer = true;
            return step;
        }
        let group = self.block(&outer.block, &outer.on, joined);
        let slot = outer.block.slots().trailing_zeros() as usize;
        Step {
            slot,
            access: Access::Virtual,
            outer: true,
            on: Vec::new(),
            filter: Vec::new(),
            lock: None,
            hash: Vec::new(),
            semi: None,
            group,
            placement: Default::default(),
        }
    }

    /// Semi-joins filter: each as soon as what it needs is there.
    fn place_semis(&mut self, joined: u64, steps: &mut Vec<Step>) {
        for (at, semi) in self.semis.iter().enumerate() {
            let bit = 1u64 << semi.slot;
            let needed = semi.on.iter().fold(0, |all, e| all | e.slots()) & !bit;
            if self.done & (1 << at) != 0 || needed & !joined != 0 {
                continue;
            }
            self.done |= 1 << at;
            let on: Vec<&Expr> = semi.on.iter().collect();
            let mut step = self.table(semi.slot, &on, joined);
            step.on.clone_from(&semi.on);
            step.semi = Some(semi.anti);
            steps.push(step);
        }
    }

    /// The table to join next: the most narrowly addressed one.
    fn best_next(&self, left: &[usize], conditions: &[&Expr], joined: u64) -> usize {
        let rank = |slot: usize| {
            let source = self.scope.sources.get(slot);
            let lateral = source.is_some_and(|s| lateral_slots(s) & !joined != 0);
            if lateral {
                return -1;
            }
            let table = source.and_then(Source::table);
            match table.map(|table| choose(table, slot, conditions, joined, &[], false).0) {
                Some(Access::Lookup {
                    whole: true, keys, ..
                }) => 1_000_000 - keys.len().min(10_000) as i64,
                Some(Access::Lookup { .. }) => 100_000,
                Some(Access::Range { .. }) => 10_000,
                Some(Access::Set { .. }) => 5000,
                Some(Access::Virtual) | None => 1000,
                _ => 0,
            }
        };
        let ranked = left.iter().enumerate().map(|(at, slot)| (rank(*slot), at));
        ranked
            .max_by_key(|(rank, at)| (*rank, usize::MAX - at))
            .map_or(0, |(_, at)| at)
    }
}

/// A range that depends on the tables joined before serves by its equal parts
/// only: these are looked up for a whole batch at once.
fn independent(access: Access) -> Access {
    let Access::Range {
        index,
        equal,
        low,
        high,
        ..
    } = &access
    else {
        return access;
    };
    let bounds = low.iter().chain(high).map(|b| &b.value);
    if equal.iter().chain(bounds).all(|e| e.slots() == 0) {
        return access;
    }
    match equal.is_empty() {
        true => Access::Full {
            index: 0,
            reverse: false,
        },
        false => Access::Lookup {
            index: *index,
            keys: vec![equal.clone()],
            whole: false,
            reverse: false,
        },
    }
}

/// The slots that must be joined before the right side of a LEFT JOIN.
fn needs(outer: &OuterBlock) -> u64 {
    fn read(block: &Block) -> u64 {
        let own = block.conditions.iter().fold(0, |all, e| all | e.slots());
        let outers = block.outers.iter();
        outers.fold(own, |all, o| all | read(&o.block) | on_slots(o))
    }
    fn on_slots(outer: &OuterBlock) -> u64 {
        outer.on.iter().fold(0, |all, e| all | e.slots())
    }
    (read(&outer.block) | on_slots(outer)) & !outer.block.slots()
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

/// Equalities by which rows that no index leads to are found in a hash
/// table: what is known before, what is in the row, and how they compare.
fn hash_keys(access: &Access, slot: usize, conditions: &[&Expr], joined: u64) -> Vec<HashKey> {
    if joined == 0 || matches!(access, Access::Lookup { .. }) {
        return Vec::new();
    }
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
                && !own.has_query()
            {
                keys.push(HashKey {
                    known: known.clone(),
                    own: own.clone(),
                    how: *how,
                });
                break;
            }
        }
    }
    keys
}
