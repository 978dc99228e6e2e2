//! IN over a long list of constants: a hash table instead of a linear scan.
//!
//! The table is built at the second evaluation of a list in one execution of a
//! statement, and dropped at its end. Keys are encoded as in hash joins
//! ([`append_comparable`]).
//!
//! Invariants:
//! 1. Sets exist only while a plan runs ([`Env::keep_sets`]): they are keyed by
//!    the address of the list, which is unique until the plan is dropped.
//! 2. The answer is that of the linear scan: true when a value is equal, else
//!    unknown when one is NULL, else false.

use super::comparable::append_comparable;
use super::eval::{Env, EvalCx, eval};
use super::{Expr, ExprKind};
use crate::error::Result;
use porpoise_types::{CompareAs, ValueRef};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Minimum number of items for which a hash table is built.
pub const MIN_HASHED_ITEMS: usize = 32;

/// The items of one list.
#[derive(Debug)]
pub struct InSet {
    keys: HashSet<Vec<u8>>,
    with_null: bool,
}

/// State of one list.
#[derive(Clone, Debug)]
enum ListState {
    /// Evaluated once; no table yet.
    SeenOnce,
    /// Its items have no common encoding.
    Unhashable,
    Set(Arc<InSet>),
}

/// The sets of the plan that runs.
#[derive(Debug, Default)]
pub struct InSets {
    /// Whether a plan runs.
    kept: Cell<bool>,
    /// By the addresses of their lists; empty while no plan runs.
    sets: RefCell<HashMap<usize, ListState>>,
}

impl InSets {
    /// Drops the sets.
    fn clear(&self) {
        if !self.sets.borrow().is_empty() {
            self.sets.take();
        }
    }
}

/// Guard that discards the sets when dropped.
#[must_use = "sets are kept until it is dropped"]
pub struct InSetsGuard<'e>(&'e InSets);

impl Drop for InSetsGuard<'_> {
    fn drop(&mut self) {
        self.0.kept.set(false);
        self.0.clear();
    }
}

impl Env {
    /// Enables hashed IN lists until the returned guard is dropped.
    pub fn keep_sets(&self) -> InSetsGuard<'_> {
        self.in_sets.clear();
        self.in_sets.kept.set(true);
        InSetsGuard(&self.in_sets)
    }
}

/// Whether a non-NULL value is in the list. The outer `None` means that the caller
/// must scan the list; the inner `None` is SQL's unknown.
pub fn probe<'a>(
    value: ValueRef<'a>,
    arg: &'a Expr,
    list: &'a [(CompareAs, Expr)],
    cx: &EvalCx<'a>,
) -> Result<Option<Option<bool>>> {
    let Some(how) = list.first().map(|(how, _)| *how) else {
        return Ok(None);
    };
    let address = list.as_ptr().addr();
    let sets = &cx.env.in_sets;
    if !sets.kept.get() {
        return Ok(None);
    }
    let known = sets.sets.borrow().get(&address).cloned();
    let Some(known) = known else {
        sets.sets.borrow_mut().insert(address, ListState::SeenOnce);
        return Ok(None);
    };
    let set = match known {
        ListState::Unhashable => return Ok(None),
        ListState::Set(set) => set,
        ListState::SeenOnce => {
            let made = set_of(list, how, cx)?.map(Arc::new);
            let known = made.clone().map_or(ListState::Unhashable, ListState::Set);
            if sets.kept.get() {
                sets.sets.borrow_mut().insert(address, known);
            }
            match made {
                Some(set) => set,
                None => return Ok(None),
            }
        }
    };
    let mut key = Vec::with_capacity(24);
    if !encode(value, arg, how, cx, &mut key)? {
        return Ok(None);
    }
    Ok(Some(if set.keys.contains(&key) {
        Some(true)
    } else if set.with_null {
        None
    } else {
        Some(false)
    }))
}

fn set_of<'a>(
    list: &'a [(CompareAs, Expr)],
    how: CompareAs,
    cx: &EvalCx<'a>,
) -> Result<Option<InSet>> {
    let mut set = InSet {
        keys: HashSet::with_capacity(list.len()),
        with_null: false,
    };
    for (as_item, item) in list {
        cx.env.tick()?;
        let constant = matches!(item.kind, ExprKind::Const(_) | ExprKind::Param(_));
        if !constant || *as_item != how {
            return Ok(None);
        }
        let value = eval(item, &[], cx)?;
        if value.is_null() {
            set.with_null = true;
            continue;
        }
        let mut key = Vec::with_capacity(24);
        if !encode(value, item, how, cx, &mut key)? {
            return Ok(None);
        }
        set.keys.insert(key);
    }
    Ok(Some(set))
}

/// Appends the encoding of a value. Returns false if that takes a conversion: a
/// conversion may warn, and must do so once for each row.
fn encode(
    value: ValueRef<'_>,
    e: &Expr,
    how: CompareAs,
    cx: &EvalCx<'_>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    let plain = match (how, value) {
        (CompareAs::Int, ValueRef::Int(_) | ValueRef::UInt(_)) => true,
        (CompareAs::Bytes(collation), ValueRef::Bytes(text)) => {
            e.ty.collation.charset() == collation.charset() || text.is_ascii()
        }
        (CompareAs::Decimal, ValueRef::Decimal(_) | ValueRef::Int(_)) => true,
        (CompareAs::Double, ValueRef::Double(_)) => true,
        (CompareAs::Date, ValueRef::Date(_)) => true,
        (CompareAs::DateTime, ValueRef::Date(_) | ValueRef::DateTime(_)) => true,
        (CompareAs::Time, ValueRef::Time(_)) => true,
        _ => false,
    };
    Ok(plain && append_comparable(value, &e.ty, how, cx, key)?)
}
