//! `incr`, `decr`, `delete`.
//!
//! Counting follows memcached: 64 bits, `incr` wraps, `decr` stops at 0, and a
//! number that gets shorter keeps its length in a text column, padded with
//! spaces.

use super::container::{Stored, moment, number, owned};
use super::large;
use super::store::{change, insert_row, lock};
use super::work::{Failure, Place};
use porpoise_kv::LockMode;
use porpoise_rows::{RowBuf, Txn, UpdateMode};
use porpoise_wire::memcached::command::{Count, Delete, Outcome, Seed, Status};

/// Counts in the row of a key.
pub(super) fn run_count(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Count<'_>,
) -> Result<Outcome, Failure> {
    let found = lock(txn, place, LockMode::Update)?;
    let (found, expired) = match found {
        Some(row) if row.expired => (None, Some(row)),
        other => (other, None),
    };
    let Some(found) = found else {
        let Some(seed) = command.seed else {
            return Ok(Outcome::of(Status::NotFound));
        };
        if let Some(row) = expired {
            let gone = vec![(place.primary.to_vec(), row.row)];
            large::delete(place.container, txn, gone)?;
        }
        return plant(txn, place, seed);
    };
    if command
        .compare
        .is_some_and(|wanted| wanted != found.version)
    {
        return Ok(Outcome::of(Status::Exists));
    }
    add(txn, place, command, found.row)
}

/// Adds to the number of a locked row.
fn add(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Count<'_>,
    old_row: RowBuf,
) -> Result<Outcome, Failure> {
    let container = place.container;
    let row = old_row.row(&container.table)?;
    let in_column = container.counts_in_column();
    let mut scratch = Vec::new();
    let (old, length) = if in_column {
        (container.counter_of(&row), 0)
    } else {
        container.check_single(if command.decrement { "decr" } else { "incr" })?;
        let elsewhere = large::value(container, txn, &row)?;
        let text = match &elsewhere {
            Some(value) => value,
            None => container.value_of(&row, &mut scratch),
        };
        (number(text), text.len())
    };
    let Some(old) = old else {
        return Ok(Outcome::of(Status::NotNumeric));
    };
    let new = if command.decrement {
        old.saturating_sub(command.delta)
    } else {
        old.wrapping_add(command.delta)
    };
    let version = txn.row_version()?;
    let mut expires = container.expires_of(&row);
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
        large::apply(
            container,
            txn,
            &mut values,
            what,
            version,
            &mut place.convert,
        )?;
    }
    if let Some(exptime) = command.touch {
        let moment = moment(exptime, place.convert.unix_seconds());
        if container.apply_expiry(&mut values, moment, &mut place.convert)? {
            expires = moment;
        }
    }
    change(txn, place, old_row, values, UpdateMode::Rewrite)?;
    Ok(Outcome {
        status: Status::Counted,
        number: new,
        version,
        expires,
        created: false,
    })
}

/// Makes the row of a counter.
fn plant(txn: &mut Txn, place: &mut Place<'_>, seed: Seed) -> Result<Outcome, Failure> {
    let version = txn.row_version()?;
    let text = seed.value.to_string();
    let expires = moment(seed.exptime, place.convert.unix_seconds());
    let what = Stored {
        value: text.as_bytes(),
        flags: Some(0),
        expires: Some(expires),
    };
    insert_row(txn, place, what, version)?;
    let shown = if place.container.can_expire() {
        expires
    } else {
        0
    };
    Ok(Outcome {
        status: Status::Counted,
        number: seed.value,
        version,
        expires: shown,
        created: true,
    })
}

/// Deletes the row of a key.
pub(super) fn run_delete(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Delete<'_>,
) -> Result<Outcome, Failure> {
    let Some(found) = lock(txn, place, LockMode::Exclusive)? else {
        return Ok(Outcome::of(Status::NotFound));
    };
    let other = |wanted: u64| wanted != found.version;
    if !found.expired && command.compare.is_some_and(other) {
        return Ok(Outcome::of(Status::Exists));
    }
    let gone = vec![(place.primary.to_vec(), found.row)];
    let taken = large::delete(place.container, txn, gone);
    match (taken, found.expired) {
        (Ok(_), false) => Ok(Outcome::of(Status::Deleted)),
        (Ok(_), true) => Ok(Outcome::of(Status::NotFound)),
        // Referenced by rows that hold it: it stays, expired as it is.
        (Err(error), true) if !error.ends_transaction() => Ok(Outcome::of(Status::NotFound)),
        (Err(error), _) => Err(Failure::Rows(error)),
    }
}
