//! `incr`, `decr`, `delete`.
//!
//! Counting follows memcached: 64 bits, `incr` wraps, `decr` stops at 0, and a
//! number that gets shorter keeps its length in a text column, padded with
//! spaces.

use super::container::{Stored, number, owned};
use super::live::Current;
use super::mapping::Operation;
use super::store::{change, lock};
use super::work::{Desk, Done, Failure, Place};
use crate::metrics::{self, Counter};
use porpoise_kv::LockMode;
use porpoise_rows::{Txn, UpdateMode};
use porpoise_wire::memcached::reply;
use std::sync::Arc;

/// What counting came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The new number.
    Number(u64),
    /// No such row.
    Missing,
    /// The value is no number.
    NotNumeric,
}

/// `incr`, or `decr` where `decrement`.
pub fn count(
    desk: &mut Desk,
    current: &mut Arc<Current>,
    key: &[u8],
    delta: u64,
    decrement: bool,
) -> Done<Counted> {
    let mut done = desk.write(current, Operation::Set, key, |txn, place| {
        run_count(txn, place, delta, decrement)
    });
    if matches!(done.outcome, Err(Failure::NoSuchKey(_))) {
        done.outcome = Ok(Counted::Missing);
    }
    let counter = match (&done.outcome, decrement) {
        (Ok(Counted::Missing), false) => Counter::MemcachedIncrMiss,
        (Ok(Counted::Missing), true) => Counter::MemcachedDecrMiss,
        (_, false) => Counter::MemcachedIncrHit,
        (_, true) => Counter::MemcachedDecrHit,
    };
    metrics::add(counter, 1);
    done
}

fn run_count(
    txn: &mut Txn,
    place: &mut Place<'_>,
    delta: u64,
    decrement: bool,
) -> Result<Counted, Failure> {
    let Some(found) = lock(txn, place, LockMode::Update)?.filter(|f| !f.expired) else {
        return Ok(Counted::Missing);
    };
    let container = place.container;
    let row = found.row.row(&container.table)?;
    let in_column = container.counts_in_column();
    let mut scratch = Vec::new();
    let (old, length) = if in_column {
        (container.counter_of(&row), 0)
    } else {
        container.check_single(if decrement { "decr" } else { "incr" })?;
        let text = container.value_of(&row, &mut scratch);
        (number(text), text.len())
    };
    let Some(old) = old else {
        return Ok(Counted::NotNumeric);
    };
    let new = if decrement {
        old.saturating_sub(delta)
    } else {
        old.wrapping_add(delta)
    };
    let version = if container.wants_version() {
        txn.row_version()?
    } else {
        0
    };
    let mut values = owned(&container.table, &row, &[]);
    if in_column {
        container.apply_count(&mut values, new, version, &mut place.convert)?;
    } else {
        let mut text = new.to_string();
        if container.holds_text() {
            text.extend(std::iter::repeat_n(' ', length.saturating_sub(text.len())));
        }
        let what = Stored {
            value: text.as_bytes(),
            flags: None,
            expires: None,
        };
        container.apply(&mut values, what, version, &mut place.convert)?;
    }
    change(txn, place, found.row, values, UpdateMode::Rewrite)?;
    Ok(Counted::Number(new))
}

/// `delete`; the outcome is the reply.
pub fn delete(desk: &mut Desk, current: &mut Arc<Current>, key: &[u8]) -> Done<&'static [u8]> {
    let mut done = desk.write(current, Operation::Delete, key, |txn, place| {
        let Some(found) = lock(txn, place, LockMode::Exclusive)? else {
            return Ok(reply::NOT_FOUND);
        };
        let gone = vec![(place.primary.to_vec(), found.row)];
        let taken = txn.delete(&place.container.table, gone);
        match (taken, found.expired) {
            (Ok(_), false) => Ok(reply::DELETED),
            (Ok(_), true) => Ok(reply::NOT_FOUND),
            // Referenced by rows that hold it: it stays, expired as it is.
            (Err(error), true) if !error.ends_transaction() => Ok(reply::NOT_FOUND),
            (Err(error), _) => Err(Failure::Rows(error)),
        }
    });
    if matches!(done.outcome, Err(Failure::NoSuchKey(_))) {
        done.outcome = Ok(reply::NOT_FOUND);
    }
    if let Ok(text) = done.outcome {
        let hit = text == reply::DELETED;
        let counter = if hit {
            Counter::MemcachedDeleteHit
        } else {
            Counter::MemcachedDeleteMiss
        };
        metrics::add(counter, 1);
    }
    done
}
