//! The columns of its tables that a query reads.
//!
//! If an index contains all of them it is covering, and no row is read. Locked tables are excluded:
//! locks are on rows.

use super::from::{Block, From};
use crate::bind::Origin;
use crate::expr::Expr;

/// The columns that the query reads, by slot, ascending; `None` if it needs whole rows.
pub(super) fn needed_columns<'e>(
    from: &From,
    others: impl Iterator<Item = &'e Expr>,
) -> Vec<Option<Vec<usize>>> {
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); from.scope.sources.len()];
    let mut note = |slot: usize, column: usize| {
        if let Some(columns) = columns.get_mut(slot) {
            columns.push(column);
        }
    };
    others.for_each(|e| e.columns(&mut note));
    visit_block(&from.block, &mut note);
    for semi in &from.semi_joins {
        semi.on.iter().for_each(|e| e.columns(&mut note));
    }
    for source in &from.scope.sources {
        if let Origin::Derived(derived) = &source.origin {
            let free = derived.free.iter().filter(|f| f.level == 1);
            free.for_each(|f| note(f.slot, f.column));
        }
    }
    let listed = columns.into_iter().enumerate().map(|(slot, mut columns)| {
        columns.sort_unstable();
        columns.dedup();
        let locked = from.locked_slots & 1u64 << (slot & 63) != 0;
        (!locked && from.change_lock.is_none()).then_some(columns)
    });
    listed.collect()
}

fn visit_block(block: &Block, note: &mut impl FnMut(usize, usize)) {
    block.conditions.iter().for_each(|e| e.columns(note));
    for outer in &block.outers {
        outer.on.iter().for_each(|e| e.columns(note));
        visit_block(&outer.block, note);
    }
}
