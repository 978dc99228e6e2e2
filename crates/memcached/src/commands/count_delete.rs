//! `incr` and `decr`; `delete`, and marking as stale.
//!
//! Counting follows memcached: 64 bits, `incr` wraps, `decr` stops at 0, and in a text column a
//! number with fewer digits is padded with spaces to its old length.

use crate::commands::CommandOutcome;
use crate::commands::store::{change, insert_row, lock};
use crate::container::chunked_values;
use crate::container::{Stored, copy_values, expiry_time, number};
use crate::context::{Failure, Place};
use crate::item_metadata::MetadataUpdate;
use porpoise_kv::LockMode;
use porpoise_rows::{RowBuf, Txn, UpdateMode};
use porpoise_wire::memcached::command::{Count, Delete, Outcome, Seed, Status};

/// Executes `incr` or `decr` on the row of a key.
pub(crate) fn run_count(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Count<'_>,
) -> Result<CommandOutcome, Failure> {
    let found = lock(txn, place, LockMode::Update)?;
    let (found, expired) = match found {
        Some(row) if row.expired => (None, Some(row)),
        other => (other, None),
    };
    let Some(found) = found else {
        let Some(seed) = command.seed else {
            return Ok(Status::NotFound.into());
        };
        if let Some(row) = expired {
            let rows = vec![(place.primary.to_vec(), row.row)];
            chunked_values::delete(place.container, txn, rows)?;
        }
        return insert_counter(txn, place, command, seed);
    };
    let current_version = place.shown(found.version);
    if command
        .compare
        .is_some_and(|wanted| wanted != current_version)
    {
        return Ok(Status::Exists.into());
    }
    add_to_row(txn, place, command, found.row)
}

/// Adds to the number of a locked row.
fn add_to_row(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Count<'_>,
    old_row: RowBuf,
) -> Result<CommandOutcome, Failure> {
    let container = place.container;
    let row = old_row.row(&container.table)?;
    let in_column = container.counts_in_column();
    let mut scratch = Vec::new();
    let (old, text_len) = if in_column {
        (container.counter_of(&row), 0)
    } else {
        container.check_single_text(if command.decrement { "decr" } else { "incr" })?;
        let text = chunked_values::text(container, txn, &row, &mut scratch)?;
        (number(&text), text.len())
    };
    let Some(old) = old else {
        return Ok(Status::NotNumeric.into());
    };
    let new = if command.decrement {
        old.saturating_sub(command.delta)
    } else {
        old.wrapping_add(command.delta)
    };
    let version = txn.row_version()?;
    let mut expires = container.expires_of(&row);
    let mut values = copy_values(&container.table, &row, &[]);
    if in_column {
        container.apply_count(&mut values, new, version, &mut place.convert)?;
    } else {
        let mut text = new.to_string();
        if container.holds_text() {
            text.extend(std::iter::repeat_n(
                ' ',
                text_len.saturating_sub(text.len()),
            ));
        }
        let what = Stored {
            value: text.as_bytes(),
            flags: None,
            expires: None,
        };
        chunked_values::apply(
            container,
            txn,
            &mut values,
            what,
            version,
            &mut place.convert,
        )?;
    }
    if let Some(exptime) = command.touch {
        let new_expiry = expiry_time(exptime, place.convert.unix_seconds());
        if container.apply_expiry(&mut values, new_expiry, &mut place.convert)? {
            expires = new_expiry;
        }
    }
    change(txn, place, old_row, values, UpdateMode::Rewrite)?;
    Ok(CommandOutcome {
        outcome: Outcome {
            status: Status::Counted,
            number: new,
            version: command.version.unwrap_or(version),
            expires,
            created: false,
        },
        metadata_update: place.metadata_update(version, false, command.version)?,
    })
}

/// Inserts the row of a counter.
fn insert_counter(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Count<'_>,
    seed: Seed,
) -> Result<CommandOutcome, Failure> {
    let version = txn.row_version()?;
    let text = seed.value.to_string();
    let expires = expiry_time(seed.exptime, place.convert.unix_seconds());
    let what = Stored {
        value: text.as_bytes(),
        flags: Some(0),
        expires: Some(expires),
    };
    insert_row(txn, place, what, version)?;
    let reported_expiry = if place.container.can_expire() {
        expires
    } else {
        0
    };
    Ok(CommandOutcome {
        outcome: Outcome {
            status: Status::Counted,
            number: seed.value,
            version: command.version.unwrap_or(version),
            expires: reported_expiry,
            created: true,
        },
        metadata_update: place.metadata_update(version, false, command.version)?,
    })
}

/// Deletes the row of a key, or marks the item as stale.
pub(crate) fn run_delete(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Delete<'_>,
) -> Result<CommandOutcome, Failure> {
    let Some(found) = lock(txn, place, LockMode::Exclusive)? else {
        return Ok(delete_placeholder(place, command).into());
    };
    let current_version = place.shown(found.version);
    if !found.expired
        && command
            .compare
            .is_some_and(|wanted| wanted != current_version)
    {
        return Ok(Status::Exists.into());
    }
    let keeps_row = command.empty || (command.invalidate && place.metadata.has_room(place.id()));
    if keeps_row && !found.expired {
        return keep_row(txn, place, command, found.row);
    }
    let rows = vec![(place.primary.to_vec(), found.row)];
    let deleted = chunked_values::delete(place.container, txn, rows);
    match (deleted, found.expired) {
        (Ok(_), false) => Ok(CommandOutcome {
            outcome: Outcome::with_status(Status::Deleted),
            metadata_update: place.metadata_update(0, false, None)?,
        }),
        (Ok(_), true) => Ok(delete_placeholder(place, command).into()),
        // Other rows reference the expired row, so it stays.
        (Err(error), true) if !error.ends_transaction() => Ok(Status::NotFound.into()),
        (Err(error), _) => Err(Failure::Rows(error)),
    }
}

/// Executes `delete` on a key without a row: deletes its placeholder, or, with the flag
/// `invalidate`, keeps the placeholder and lets another client recache the item.
fn delete_placeholder(place: &Place<'_>, command: &Delete<'_>) -> Status {
    let Some(mark) = place.placeholder() else {
        return Status::NotFound;
    };
    if command.compare.is_some_and(|wanted| wanted != mark.shown) {
        return Status::Exists;
    }
    if command.invalidate {
        place.metadata.change(place.id(), 0, |mark| {
            mark.stale = true;
            mark.sent = false;
        });
    } else {
        place.metadata.apply_update(&MetadataUpdate {
            id: Some(place.id()),
            ..MetadataUpdate::default()
        });
    }
    Status::Deleted
}

/// Gives a row that is kept a new version, and applies the command's other flags.
fn keep_row(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Delete<'_>,
    old: RowBuf,
) -> Result<CommandOutcome, Failure> {
    let container = place.container;
    let row = old.row(&container.table)?;
    let version = txn.row_version()?;
    let now = place.convert.unix_seconds();
    let expires = command.touch.map(|exptime| expiry_time(exptime, now));
    let mut values = copy_values(&container.table, &row, &[]);
    if command.empty {
        let what = Stored {
            value: &[],
            flags: Some(0),
            expires,
        };
        chunked_values::apply(
            container,
            txn,
            &mut values,
            what,
            version,
            &mut place.convert,
        )?;
    } else {
        if let Some(expires) = expires {
            container.apply_expiry(&mut values, expires, &mut place.convert)?;
        }
        container.apply_version(&mut values, version);
    }
    change(txn, place, old, values, UpdateMode::Rewrite)?;
    Ok(CommandOutcome {
        outcome: Outcome::with_version(Status::Deleted, command.version.unwrap_or(version)),
        metadata_update: place.metadata_update(version, command.invalidate, command.version)?,
    })
}
