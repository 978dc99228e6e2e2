//! `set`, `add`, `replace`, `append`, `prepend`, `cas`.
//!
//! The row is locked and read in one call; then it is inserted or changed, and the transaction
//! commits. To the protocol, an item exists if its row exists and has not expired. A `set` gives
//! the row a new version even if the bytes are the same (transactions.md, rule 31).
//!
//! An expired row of the key is deleted first, under the ordinary rules, in the same transaction
//! (rule 46).

use crate::commands::CommandOutcome;
use crate::container::chunked_values;
use crate::container::{Stored, copy_values, expiry_time};
use crate::context::{Failure, Place};
use crate::item_metadata::MetadataUpdate;
use porpoise_kv::LockMode;
use porpoise_kv::first_bytes;
use porpoise_rows::{
    AutoIncOptions, Error, InsertMode, Lookup, ReplacedRows, RowBuf, RowChange, RowRef, Txn,
    UpdateMode,
};
use porpoise_types::Value;
use porpoise_wire::memcached::command::{Mode, Outcome, Status, Store};
use smallvec::SmallVec;
use std::borrow::Cow;

/// A locked row: its bytes, its version, and whether it has expired.
pub(crate) struct LockedItem {
    pub(crate) row: RowBuf,
    pub(crate) version: u64,
    pub(crate) expired: bool,
}

/// Locks the row and reads it; `None` if there is none. If the container uses a unique index, the
/// row's primary key is stored in `place`.
pub(crate) fn lock(
    txn: &mut Txn,
    place: &mut Place<'_>,
    mode: LockMode,
) -> Result<Option<LockedItem>, Error> {
    let mut found = None;
    let now = place.convert.unix_micros();
    let wait = txn.wait();
    let container = place.container;
    let table = &container.table;
    let mut set_found = |row: Option<RowRef<'_>>| {
        found = row.map(|row| LockedItem {
            row: RowBuf::from(row.bytes().to_vec()),
            version: row.version(),
            expired: container.expired(&row, || now),
        });
    };
    let keys = [place.index_key];
    if container.index() == 0 {
        let lookup = Lookup::primary(table, &keys);
        txn.lock(&lookup, mode, wait, &mut |_, locked| set_found(locked.row))?;
        return Ok(found);
    }
    let mut primary = Vec::new();
    let lookup = Lookup::unique(table, container.index(), &keys);
    txn.lock(&lookup, mode, wait, &mut |_, locked| {
        primary = locked.primary.unwrap_or_default().to_vec();
        set_found(locked.row);
    })?;
    place.primary = Cow::Owned(primary);
    Ok(found)
}

/// Changes the locked row to `new`.
pub(crate) fn change(
    txn: &mut Txn,
    place: &Place<'_>,
    old: RowBuf,
    new: Vec<Value>,
    mode: UpdateMode,
) -> Result<(), Error> {
    place.container.check_key(txn, &new)?;
    let change = RowChange {
        key: place.primary.to_vec(),
        old,
        new,
    };
    txn.update(&place.container.table, vec![change], mode)?;
    Ok(())
}

/// Executes a storage command on the row of its key.
pub(crate) fn run(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Store<'_>,
) -> Result<CommandOutcome, Failure> {
    if place.container.replaces_rows && is_plain_set(command) {
        let set = set_all(txn, std::slice::from_mut(place), &[command])?;
        if let Some(version) = set {
            return set_outcome(place, version);
        }
    }
    let mode = match command.mode {
        Mode::Add => LockMode::Exclusive,
        _ => LockMode::Update,
    };
    let found = lock(txn, place, mode)?;
    let live = found.as_ref().filter(|f| !f.expired);
    let current_version = match live {
        Some(row) => Some(place.shown(row.version)),
        // `cas` also matches a placeholder, for clients that know its version.
        None if command.compare.is_some() => place.placeholder().map(|mark| mark.shown),
        None => None,
    };
    let versions = command.compare.zip(current_version);
    let stale = command.invalidate && versions.is_some_and(|(wanted, current)| wanted < current);
    if !stale && let Some(status) = failure_status(command, current_version) {
        return Ok(status.into());
    }
    if stale && !place.metadata.has_room(place.id()) {
        return Ok(Status::Exists.into());
    }
    // Storing a stale value keeps the expiry time and the client chosen to recache.
    let old = live.filter(|_| stale);
    let sent = old
        .and_then(|row| place.metadata.mark(place.id(), row.version))
        .is_some_and(|mark| mark.sent);
    let version = txn.row_version()?;
    match found {
        Some(LockedItem {
            row,
            expired: false,
            ..
        }) => {
            if !overwrite(txn, place, command, row, version, stale)? {
                return Ok(Status::TooLarge.into());
            }
        }
        Some(LockedItem { row, .. }) => {
            let expired = vec![(place.primary.to_vec(), row)];
            chunked_values::delete(place.container, txn, expired)?;
            insert(txn, place, command, version)?;
        }
        None => insert(txn, place, command, version)?,
    }
    let shown = command.version.unwrap_or(version);
    Ok(CommandOutcome {
        outcome: Outcome::with_version(Status::Stored, shown),
        metadata_update: MetadataUpdate {
            sent,
            ..place.metadata_update(version, stale, command.version)?
        },
    })
}

/// Whether a command is a plain `set`, which stores whatever the item is.
pub(crate) fn is_plain_set(command: &Store<'_>) -> bool {
    command.mode == Mode::Set
        && command.compare.is_none()
        && command.version.is_none()
        && !command.invalidate
}

/// The rows of several plain `set`s whose keys are locked.
#[derive(Default)]
struct SetRows {
    /// New rows that are copies of the old ones with some columns replaced.
    replaced: ReplacedRows,
    /// The other keys by number, each with its row if there is one.
    others: SmallVec<[(usize, Option<RowBuf>); 1]>,
    /// Whether one of the rows has expired.
    has_expired: bool,
}

/// Executes plain `set`s of different keys of one container (`Container::sets_together`) with one lock call and one call
/// for the rows that exist. Returns the new version of the rows, or `None` if one of them has expired; then nothing has been
/// written.
pub(crate) fn set_all(
    txn: &mut Txn,
    places: &mut [Place<'_>],
    commands: &[&Store<'_>],
) -> Result<Option<u64>, Failure> {
    let Some(first) = places.first() else {
        return Ok(None);
    };
    let container = first.container;
    let table = &container.table;
    // Rows in the order of their keys are written faster.
    let order = order_of_keys(places);
    let ordered = order.iter().filter_map(|at| places.get(*at));
    let keys: SmallVec<[&[u8]; 16]> = ordered.map(|place| place.index_key).collect();
    let mut rows = lock_and_replace(txn, places, &order, &keys, commands)?;
    if rows.has_expired {
        return Ok(None);
    }
    if !rows.replaced.is_empty() {
        txn.replace_rows(table, &keys, &mut rows.replaced, container.cas)?;
    }
    let version = txn.row_version()?;
    let (mut changes, mut inserted) = (Vec::new(), Vec::new());
    for (number, old) in rows.others {
        let Some(at) = order.get(number) else {
            continue;
        };
        let (Some(place), Some(command)) = (places.get_mut(*at), commands.get(*at)) else {
            continue;
        };
        let what = stored(place, command);
        let mut new = match &old {
            Some(old) => copy_values(table, &old.row(table)?, container.replaced_columns()),
            None => container.new_row(place.key, &mut place.convert)?,
        };
        container.apply(&mut new, what, version, &mut place.convert)?;
        container.check_key(txn, &new)?;
        match old {
            Some(old) => changes.push(RowChange {
                key: place.index_key.to_vec(),
                old,
                new,
            }),
            None => inserted.push(new),
        }
    }
    if !changes.is_empty() {
        txn.update(table, changes, UpdateMode::Rewrite)?;
    }
    if !inserted.is_empty() {
        txn.insert(table, inserted, InsertMode::Plain)?;
    }
    Ok(Some(version))
}

/// The positions of places in the order of their keys.
fn order_of_keys(places: &[Place<'_>]) -> SmallVec<[usize; 16]> {
    if let [_] = places {
        return SmallVec::from_slice(&[0]);
    }
    let key = |at: usize| places.get(at).map(|place| place.index_key);
    let numbers = places.iter().map(|place| first_bytes(place.index_key));
    let mut order: SmallVec<[(u64, usize); 16]> = numbers.zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
    order.into_iter().map(|(_, at)| at).collect()
}

/// Locks the keys of plain `set`s, and builds the new rows that are copies of old ones with some columns replaced. `order` has
/// the position of each key's command.
fn lock_and_replace(
    txn: &mut Txn,
    places: &[Place<'_>],
    order: &[usize],
    keys: &[&[u8]],
    commands: &[&Store<'_>],
) -> Result<SetRows, Failure> {
    let mut rows = SetRows::default();
    let Some(first) = places.first() else {
        return Ok(rows);
    };
    let (container, now) = (first.container, first.convert.unix_micros());
    let replaces = container.replaces_rows && txn.can_replace_rows(&container.table);
    if replaces {
        let bytes = commands.iter().map(|command| command.value.len());
        rows.replaced.reserve(commands.len(), bytes.sum());
    }
    let (lookup, wait) = (Lookup::primary(&container.table, keys), txn.wait());
    txn.lock(&lookup, LockMode::Update, wait, &mut |n, locked| {
        let Some(row) = locked.row else {
            rows.others.push((n, None));
            return;
        };
        rows.has_expired |= container.expired(&row, || now);
        let at = order.get(n).filter(|_| replaces);
        let pair = at.and_then(|at| Some((places.get(*at)?, commands.get(*at)?)));
        let replaced = pair.is_some_and(|(place, command)| {
            let (what, mut convert) = (stored(place, command), place.convert);
            container.push_replaced((n, &row), what, &mut convert, &mut rows.replaced)
        });
        if !replaced {
            rows.others.push((n, Some(row.to_buf())));
        }
    })?;
    Ok(rows)
}

/// The outcome of a plain `set` that gave its row this version.
pub(crate) fn set_outcome(place: &Place<'_>, version: u64) -> Result<CommandOutcome, Failure> {
    Ok(CommandOutcome {
        outcome: Outcome::with_version(Status::Stored, version),
        metadata_update: place.metadata_update(version, false, None)?,
    })
}

/// Returns the status of a command that does not store, given the version of the existing item;
/// `None` if it stores.
pub(crate) fn failure_status(command: &Store<'_>, current: Option<u64>) -> Option<Status> {
    match (command.mode, current, command.compare) {
        (Mode::Add, Some(_), _) => Some(Status::NotStored),
        (Mode::Add, None, _) => None,
        (Mode::Append | Mode::Prepend, None, _) if command.create.is_some() => None,
        (Mode::Append | Mode::Prepend, None, _) => Some(Status::NotStored),
        (_, None, Some(_)) => Some(Status::NotFound),
        (Mode::Replace, None, None) => Some(Status::NotStored),
        (_, Some(version), Some(wanted)) if version != wanted => Some(Status::Exists),
        _ => None,
    }
}

fn stored<'a>(place: &Place<'_>, command: &Store<'a>) -> Stored<'a> {
    Stored {
        value: command.value,
        flags: Some(command.flags),
        expires: Some(expiry_time(command.exptime, place.convert.unix_seconds())),
    }
}

fn insert(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Store<'_>,
    version: u64,
) -> Result<(), Failure> {
    let mut what = stored(place, command);
    if command.mode.extends()
        && let Some(exptime) = command.create
    {
        what.expires = Some(expiry_time(exptime, place.convert.unix_seconds()));
    }
    insert_row(txn, place, what, version)
}

/// Inserts the row of a key.
pub(crate) fn insert_row(
    txn: &mut Txn,
    place: &mut Place<'_>,
    what: Stored<'_>,
    version: u64,
) -> Result<(), Failure> {
    let container = place.container;
    let mut row = container.new_row(place.key, &mut place.convert)?;
    chunked_values::apply(container, txn, &mut row, what, version, &mut place.convert)?;
    if container.table.has_default_expressions() {
        let with_value = container.columns_with_value(&row, what.value)?;
        let has_value = |at: usize| with_value.get(at).copied().unwrap_or(true);
        txn.fill_default_expressions(&container.table, &mut row, &has_value)?;
    }
    container.check_key(txn, &row)?;
    let mut rows = vec![row];
    if container.table.auto_increment().is_some() {
        let options = AutoIncOptions::default();
        txn.assign_auto_increment(&container.table, &mut rows, options)?;
    }
    txn.insert(&container.table, rows, InsertMode::Plain)?;
    Ok(())
}

/// Changes the existing row, which gets `version`. A `stale` value keeps the expiry time. Returns
/// false if the value would be too large.
fn overwrite(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Store<'_>,
    old: RowBuf,
    version: u64,
    stale: bool,
) -> Result<bool, Failure> {
    let container = place.container;
    let row = old.row(&container.table)?;
    let mut what = stored(place, command);
    if stale {
        what.expires = None;
    }
    let mut joined = Vec::new();
    if command.mode.extends() {
        let append = command.mode == Mode::Append;
        container.check_single_text(if append { "append" } else { "prepend" })?;
        let mut scratch = Vec::new();
        let present = chunked_values::text(container, txn, &row, &mut scratch)?;
        if present.len() + command.value.len() > place.max_value {
            return Ok(false);
        }
        joined.reserve_exact(present.len() + command.value.len());
        let (first, second) = if append {
            (&*present, command.value)
        } else {
            (command.value, &*present)
        };
        joined.extend_from_slice(first);
        joined.extend_from_slice(second);
        what = Stored {
            value: &joined,
            flags: None,
            expires: None,
        };
    }
    let mut new = copy_values(&container.table, &row, container.replaced_columns());
    chunked_values::apply(container, txn, &mut new, what, version, &mut place.convert)?;
    change(txn, place, old, new, UpdateMode::Rewrite)?;
    Ok(true)
}
