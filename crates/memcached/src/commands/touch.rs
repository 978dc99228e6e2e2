//! `touch`, `gat`, `gats`: set a new expiry time.
//!
//! They keep the row's version (transactions.md, rule 31). In a container without a column for the
//! expiry time they succeed and change nothing. The keys of a `gat` are one transaction: each
//! container's rows are locked and read in one batch and changed in another.
//!
//! Invariants:
//! 1. The values that a `gat` returns are those of the rows it touched.
//! 2. Values are collected before anything is sent, so their size is limited ([`GAT_BYTES`]).

use super::cache_commands;
use crate::command_statistics::{Effects, Verb};
use crate::commands::CommandOutcome;
use crate::commands::store::{change, lock};
use crate::container::chunked_values;
use crate::container::convert::Conversion;
use crate::container::{Container, copy_values, expiry_time};
use crate::context::requirement::Requirement;
use crate::context::{Attempt, CommandContext, Done, Failure, Place};
use crate::counters::{self, Counter};
use crate::item_metadata::ItemMetadata;
use crate::mapping::mapping_cache::CurrentMapping;
use crate::mapping::{Operation, Target};
use porpoise_kv::{CommitPosition, LockMode};
use porpoise_rows::{Error, Lookup, RowBuf, RowChange, Txn, UpdateMode};
use porpoise_wire::memcached::command::{Item, Outcome, Status, Touch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of the values in one reply to `gat`, in bytes.
const GAT_BYTES: usize = 256 << 20;

/// A row that was touched, for `gat`.
#[derive(Clone, Debug)]
pub struct TouchedRow {
    /// The client's flags.
    pub flags: u32,
    /// Version that replies report.
    pub version: u64,
    /// The version of the row itself.
    pub row_version: u64,
    /// Previous expiry time in seconds since 1970; 0: never.
    pub previous_expiry: i64,
    /// New expiry time.
    pub expires: i64,
    /// The value.
    pub value: Vec<u8>,
}

impl TouchedRow {
    /// Returns the row as an item.
    pub fn item(&self) -> Item<'_> {
        Item {
            flags: self.flags,
            version: self.version,
            value: &self.value,
            expires: self.expires,
        }
    }
}

/// Sets the expiry time of a row.
pub(crate) fn run_touch(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Touch<'_>,
) -> Result<CommandOutcome, Failure> {
    let Some(found) = lock(txn, place, LockMode::Update)?.filter(|f| !f.expired) else {
        return Ok(Status::NotFound.into());
    };
    let container = place.container;
    let row = found.row.row(&container.table)?;
    let version = row.version();
    let mut values = copy_values(&container.table, &row, &[]);
    let expires = expiry_time(command.exptime, place.convert.unix_seconds());
    if container.apply_expiry(&mut values, expires, &mut place.convert)? {
        change(txn, place, found.row, values, UpdateMode::KeepVersion)?;
    }
    Ok(Outcome::with_version(Status::Touched, place.shown(version)).into())
}

/// The keys of one container.
#[derive(Default)]
struct Group {
    /// Positions of the keys in the request.
    positions: Vec<usize>,
    /// The keys, encoded for the container's index.
    index_keys: Vec<Vec<u8>>,
}

/// Sets the expiry time of the rows of many keys, and returns the rows in the order of the keys.
pub(crate) fn get_and_touch(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    keys: &[&[u8]],
    exptime: i64,
) -> Done<Vec<Option<TouchedRow>>> {
    let done = context.retry_until_final(current, |context, current| {
        attempt(context, current, keys, exptime)
    });
    for (n, key) in keys.iter().enumerate() {
        let rule = current.mapping.rule(key);
        if let Some(statistics) = rule.and_then(|rule| rule.statistics.as_ref()) {
            let effects = match &done.outcome {
                Ok(rows) => Effects {
                    keys: 1,
                    rows_read: u64::from(matches!(rows.get(n), Some(Some(_)))),
                    ..Effects::default()
                },
                Err(_) => Effects::FAILED,
            };
            statistics.count(Verb::Gat, effects);
        }
    }
    if let Ok(rows) = &done.outcome {
        let hits = rows.iter().flatten().count();
        let misses = rows.len() - hits;
        counters::add(Counter::TouchHit, hits as u64);
        counters::add(Counter::TouchMiss, misses as u64);
        counters::add(Counter::GetHit, hits as u64);
        counters::add(Counter::GetMiss, misses as u64);
    }
    done
}

fn attempt(
    context: &mut CommandContext,
    current: &CurrentMapping,
    keys: &[&[u8]],
    exptime: i64,
) -> Attempt<Vec<Option<TouchedRow>>> {
    let db = context.shared.db.clone();
    let mut convert = Conversion::new(db.clock().as_ref());
    let mut rows = Vec::new();
    rows.resize_with(keys.len(), || None);
    let groups = match group(context, current, keys, exptime, &mut convert, &mut rows) {
        Ok(groups) => groups,
        Err(failure) => return Attempt::failed(failure, CommitPosition::NONE),
    };
    for at in groups.keys() {
        if let Some(container) = current.mapping.containers.get(*at)
            && let Err(error) = context.share(&container.write_set)
        {
            return Attempt::failed(error.into(), CommitPosition::NONE);
        }
    }
    if db.catalog_version() != current.mapping.catalog_version {
        return Attempt::Stale;
    }
    let mut txn = match context.begin() {
        Ok(txn) => txn,
        Err(error) => return Attempt::failed(error.into(), CommitPosition::NONE),
    };
    let shared = context.shared.clone();
    let mut job = TouchJob {
        metadata: &shared.metadata,
        convert,
        exptime,
        bytes_left: GAT_BYTES,
    };
    for (at, group) in &groups {
        let Some(container) = current.mapping.containers.get(*at) else {
            continue;
        };
        if let Err(failure) = job.touch_group(&mut txn, container, group, &mut rows) {
            return Attempt::end(txn, Err(failure));
        }
    }
    Attempt::end(txn, Ok(rows))
}

/// Groups the keys by the position of their container. Keys that no row can have are omitted. Keys
/// of the memory cache are touched at once, and their items stored in `rows`.
fn group(
    context: &mut CommandContext,
    current: &CurrentMapping,
    keys: &[&[u8]],
    exptime: i64,
    convert: &mut Conversion,
    rows: &mut [Option<TouchedRow>],
) -> Result<BTreeMap<usize, Group>, Failure> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for (n, key) in keys.iter().enumerate() {
        if context.is_cached(&current.mapping, key, Operation::Get) {
            if let Some(slot) = rows.get_mut(n) {
                *slot = cache_commands::touch(context, key, exptime);
            }
            continue;
        }
        context.target(&current.mapping, key, Requirement::GET)?;
        let target = context.target(&current.mapping, key, Requirement::TOUCH)?;
        let Target::Row(at, container, rest) = target else {
            let why = "a key of rows is touched in the cache by its policy";
            return Err(Failure::Refused(why.to_owned()));
        };
        let mut index_key = Vec::new();
        if container.append_key(rest, convert, &mut index_key).is_ok() {
            let group = groups.entry(at).or_default();
            group.positions.push(n);
            group.index_keys.push(index_key);
        }
    }
    Ok(groups)
}

fn too_large() -> Failure {
    Failure::Refused("the reply is too large: request fewer keys".to_owned())
}

/// The parameters of a `gat`, and the progress of its reply.
struct TouchJob<'d> {
    metadata: &'d ItemMetadata,
    convert: Conversion,
    /// The client's expiry time.
    exptime: i64,
    /// Bytes left for values of the reply.
    bytes_left: usize,
}

impl TouchJob<'_> {
    /// Touches the rows of one container's keys, and stores them in `rows` at the positions of the
    /// keys.
    fn touch_group(
        &mut self,
        txn: &mut Txn,
        container: &Container,
        group: &Group,
        rows: &mut [Option<TouchedRow>],
    ) -> Result<(), Failure> {
        let keys: Vec<&[u8]> = group.index_keys.iter().map(Vec::as_slice).collect();
        let wait = txn.wait();
        let mut found: Vec<(usize, RowBuf)> = Vec::new();
        let table = &container.table;
        let now = self.convert.unix_micros();
        let mut bytes_left = Some(self.bytes_left);
        let mut primaries: Vec<Vec<u8>> = vec![Vec::new(); keys.len()];
        let lookup = Lookup::unique(table, container.index(), &keys);
        txn.lock(&lookup, LockMode::Update, wait, &mut |n, locked| {
            let Some(row) = locked.row.filter(|row| !container.expired(row, || now)) else {
                return;
            };
            bytes_left =
                bytes_left.and_then(|bytes_left| bytes_left.checked_sub(row.bytes().len()));
            if bytes_left.is_some()
                && let Some(primary) = primaries.get_mut(n)
            {
                *primary = locked.primary.unwrap_or_default().to_vec();
                found.push((n, RowBuf::from(row.bytes().to_vec())));
            }
        })?;
        self.bytes_left = bytes_left.ok_or_else(too_large)?;
        let expires = expiry_time(self.exptime, self.convert.unix_seconds());
        let mut changes = Vec::new();
        let mut scratch = Vec::new();
        for (n, old) in found {
            let row = old.row(table)?;
            let value = chunked_values::text(container, txn, &row, &mut scratch)?.into_owned();
            if container.chunked_values().is_some() {
                self.bytes_left = self
                    .bytes_left
                    .checked_sub(value.len())
                    .ok_or_else(too_large)?;
            }
            let key = group.index_keys.get(n).ok_or(Error::DefinitionChanged)?;
            let touched = TouchedRow {
                flags: container.flags_of(&row),
                version: self
                    .metadata
                    .shown(|| self.metadata.id(table.id, key), row.version()),
                row_version: row.version(),
                previous_expiry: container.expires_of(&row),
                expires: if container.can_expire() { expires } else { 0 },
                value,
            };
            let mut new = copy_values(table, &row, &[]);
            let slot = group.positions.get(n).and_then(|p| rows.get_mut(*p));
            *slot.ok_or(Error::DefinitionChanged)? = Some(touched);
            let key = primaries.get(n).ok_or(Error::DefinitionChanged)?;
            if container.apply_expiry(&mut new, expires, &mut self.convert)? {
                changes.push(RowChange {
                    key: key.clone(),
                    old,
                    new,
                });
            }
        }
        if !changes.is_empty() {
            txn.update(table, changes, UpdateMode::KeepVersion)?;
        }
        Ok(())
    }
}
