//! `set`, `add`, `replace`, `append`, `prepend`, `cas`.
//!
//! The row is locked and read in one call; then it is inserted or changed, and
//! the transaction commits. What the protocol calls stored is a row that is
//! there and has not expired. A `set` gives a new version also where the bytes
//! are the same (transactions.md, rule 31).
//!
//! An expired row in the way is deleted first, under the ordinary rules, in
//! the same transaction (rule 46).

use super::container::{Stored, moment, owned};
use super::live::Current;
use super::mapping::Operation;
use super::work::{Desk, Done, Failure, Place};
use crate::metrics::{self, Counter};
use porpoise_kv::LockMode;
use porpoise_rows::{AutoIncOptions, Error, InsertMode, RowBuf, RowChange, Txn, UpdateMode};
use porpoise_types::Value;
use porpoise_wire::memcached::{StoreVerb, reply};
use std::sync::Arc;

/// A storage command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Which.
    pub verb: StoreVerb,
    /// The client's key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// As the client sent it.
    pub exptime: i64,
    /// The value.
    pub value: &'a [u8],
}

/// A locked row: its bytes, its version, whether it has expired.
pub(super) struct Found {
    pub(super) row: RowBuf,
    pub(super) version: u64,
    pub(super) expired: bool,
}

/// Locks the row and reads it; `None` when there is none.
pub(super) fn lock(
    txn: &mut Txn,
    place: &Place<'_>,
    mode: LockMode,
) -> Result<Option<Found>, Error> {
    let mut found = None;
    let now = place.convert.unix_micros();
    let wait = txn.wait();
    let table = &place.container.table;
    txn.lock_rows(table, &[place.primary], mode, wait, &mut |_, locked| {
        found = locked.row.map(|row| Found {
            row: RowBuf::from(row.bytes().to_vec()),
            version: row.version(),
            expired: place.container.expired(&row, || now),
        });
    })?;
    Ok(found)
}

/// Changes the locked row to `new`.
pub(super) fn change(
    txn: &mut Txn,
    place: &Place<'_>,
    old: RowBuf,
    new: Vec<Value>,
    mode: UpdateMode,
) -> Result<(), Error> {
    let change = RowChange {
        key: place.primary.to_vec(),
        old,
        new,
    };
    txn.update(&place.container.table, vec![change], mode)?;
    Ok(())
}

/// Carries out a storage command; the outcome is its reply.
pub fn store(
    desk: &mut Desk,
    current: &mut Arc<Current>,
    command: &Command<'_>,
) -> Done<&'static [u8]> {
    metrics::add(Counter::MemcachedSet, 1);
    let mut done = desk.write(current, Operation::Set, command.key, |txn, place| {
        run(txn, place, command)
    });
    if let Err(Failure::NoSuchKey(error)) = done.outcome {
        done.outcome = match command.verb {
            StoreVerb::Set | StoreVerb::Add => Err(Failure::NoSuchKey(error)),
            StoreVerb::Cas(_) => Ok(reply::NOT_FOUND),
            StoreVerb::Replace | StoreVerb::Append | StoreVerb::Prepend => Ok(reply::NOT_STORED),
        };
    }
    if let StoreVerb::Cas(_) = command.verb
        && let Ok(text) = done.outcome
    {
        let counter = match text {
            reply::STORED => Counter::MemcachedCasHit,
            reply::EXISTS => Counter::MemcachedCasBadval,
            _ => Counter::MemcachedCasMiss,
        };
        metrics::add(counter, 1);
    }
    done
}

fn run(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Command<'_>,
) -> Result<&'static [u8], Failure> {
    let mode = match command.verb {
        StoreVerb::Add => LockMode::Exclusive,
        _ => LockMode::Update,
    };
    let found = lock(txn, place, mode)?;
    let live = found.as_ref().filter(|f| !f.expired);
    match (command.verb, live) {
        (StoreVerb::Add, Some(_))
        | (StoreVerb::Replace | StoreVerb::Append | StoreVerb::Prepend, None) => {
            return Ok(reply::NOT_STORED);
        }
        (StoreVerb::Cas(_), None) => return Ok(reply::NOT_FOUND),
        (StoreVerb::Cas(version), Some(row)) if row.version != version => {
            return Ok(reply::EXISTS);
        }
        _ => {}
    }
    let version = if place.container.wants_version() {
        txn.row_version()?
    } else {
        0
    };
    match found {
        Some(Found {
            row,
            expired: false,
            ..
        }) => overwrite(txn, place, command, row, version)?,
        Some(Found { row, .. }) => {
            let expired = vec![(place.primary.to_vec(), row)];
            txn.delete(&place.container.table, expired)?;
            insert(txn, place, command, version)?;
        }
        None => insert(txn, place, command, version)?,
    }
    Ok(reply::STORED)
}

fn stored<'a>(place: &Place<'_>, command: &Command<'a>) -> Stored<'a> {
    Stored {
        value: command.value,
        flags: Some(command.flags),
        expires: Some(moment(command.exptime, place.convert.unix_seconds())),
    }
}

fn insert(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Command<'_>,
    version: u64,
) -> Result<(), Failure> {
    let container = place.container;
    let mut row = container.new_row(place.key, &mut place.convert)?;
    let what = stored(place, command);
    container.apply(&mut row, what, version, &mut place.convert)?;
    let mut rows = vec![row];
    if container.table.auto_increment().is_some() {
        let options = AutoIncOptions::default();
        txn.assign_auto_increment(&container.table, &mut rows, options)?;
    }
    txn.insert(&container.table, rows, InsertMode::Plain)?;
    Ok(())
}

fn overwrite(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Command<'_>,
    old: RowBuf,
    version: u64,
) -> Result<(), Failure> {
    let container = place.container;
    let row = old.row(&container.table)?;
    let mut what = stored(place, command);
    let mut joined = Vec::new();
    let extends = matches!(command.verb, StoreVerb::Append | StoreVerb::Prepend);
    if extends {
        let mut scratch = Vec::new();
        let present = container.value_of(&row, &mut scratch);
        joined.reserve_exact(present.len() + command.value.len());
        if command.verb == StoreVerb::Append {
            container.check_single("append")?;
            joined.extend_from_slice(present);
            joined.extend_from_slice(command.value);
        } else {
            container.check_single("prepend")?;
            joined.extend_from_slice(command.value);
            joined.extend_from_slice(present);
        }
        if joined.len() > place.max_value {
            return Err(Failure::Refused("object too large for cache".to_owned()));
        }
        what = Stored {
            value: &joined,
            flags: None,
            expires: None,
        };
    }
    let mut new = owned(&container.table, &row, container.replaced());
    container.apply(&mut new, what, version, &mut place.convert)?;
    change(txn, place, old, new, UpdateMode::Rewrite)?;
    Ok(())
}
