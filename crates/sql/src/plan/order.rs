//! The order in which tables are joined, the conditions of each step, and
//! the locks of FOR UPDATE and FOR SHARE.

use super::access::choose;
use super::from::From;
use super::{Access, Busy, LockSpec, OrderKey, Step};
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast::{LockClause, LockWait};
use porpoise_kv::LockMode;

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
    let count = from.scope.sources.len();
    let keep_order = from.straight || !from.outer.is_empty();
    let mut left: Vec<usize> = (0..count).collect();
    let mut joined = 0u64;
    let mut steps: Vec<Step> = Vec::with_capacity(count);
    let mut ordered = order.is_empty();
    while !left.is_empty() {
        let pick = match keep_order {
            true => 0,
            false => best_next(from, &left, joined),
        };
        let slot = left.remove(pick);
        let outer = from.outer.iter().find(|o| o.slot == slot);
        let on: Vec<Expr> = outer.map(|o| o.on.clone()).unwrap_or_default();
        let bit = 1u64 << slot;
        let filter: Vec<Expr> = from
            .conditions
            .iter()
            .filter(|c| {
                let slots = c.slots();
                slots & bit != 0 && slots & !(joined | bit) == 0
            })
            .cloned()
            .collect();
        // Conditions of the WHERE on an outer table do not narrow what
        // matches it, but they may not hold for the empty row either, so they
        // serve to find rows only for inner steps.
        let narrowing: Vec<&Expr> = match outer {
            Some(_) => on.iter().collect(),
            None => filter.iter().collect(),
        };
        let first = steps.is_empty();
        let wanted = if first { order } else { &[] };
        let (access, in_order) = match from.scope.sources.get(slot).and_then(Source::table) {
            Some(table) => choose(table, slot, &narrowing, joined, wanted, limited),
            None => (Access::Virtual, order.is_empty()),
        };
        if first {
            ordered = in_order;
        }
        joined |= bit;
        steps.push(Step {
            slot,
            access,
            outer: outer.is_some(),
            on,
            filter,
            lock: None,
        });
    }
    (steps, ordered)
}

/// The table to join next: the most narrowly addressed one.
fn best_next(from: &From, left: &[usize], joined: u64) -> usize {
    let rank = |slot: usize| {
        let conditions: Vec<&Expr> = from.conditions.iter().collect();
        let source = from.scope.sources.get(slot).and_then(Source::table);
        match source.map(|table| choose(table, slot, &conditions, joined, &[], false).0) {
            Some(Access::Lookup {
                whole: true, keys, ..
            }) => 1_000_000 - keys.len().min(10_000),
            Some(Access::Lookup { .. }) => 100_000,
            Some(Access::Range { .. }) => 10_000,
            Some(Access::Virtual) => 1000,
            _ => 0,
        }
    };
    let ranked = left.iter().enumerate().map(|(at, slot)| (rank(*slot), at));
    ranked
        .max_by_key(|(rank, at)| (*rank, usize::MAX - at))
        .map_or(0, |(_, at)| at)
}
