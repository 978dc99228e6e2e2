//! Copies a table while other sessions read and write it, for changes that rewrite rows: types of columns,
//! the primary key, partitions, FULLTEXT indexes.
//!
//! Writers record the primary key of each row that they change, in their own transaction, in a space
//! of the change ([`crate::definition::UnfinishedChange::changed_rows`]). One thread copies the rows, in small
//! transactions, and brings the copies of recorded rows up to date: it removes the copy of a row,
//! if there is one, and copies the row as it is now.
//!
//! ```text
//!   version n       writers know nothing of the change
//!   version n + 1   writers record changed rows       wait for sessions that use version n
//!                   copy a batch, apply records, copy a batch, ...
//!                   apply records, until few are left
//!                   raise a barrier briefly, apply the last records, commit:
//!   version n + 2   the copy is the table
//! ```
//!
//! The barrier lasts for the time of a few records, and is raised only if the sessions that use the table end
//! their transactions soon ([`Db::brief_barrier_over`]); otherwise it is lowered, and the copy goes on.
//!
//! Invariants:
//! 1. Only this thread reads or writes the copy, so it locks nothing.
//! 2. All reads of rows and records in a transaction are of one snapshot. A record is deleted by the
//!    transaction that brings its row up to date with a snapshot that contains the record.
//! 3. A row with a key below [`OnlineCopy::position`] has a copy as of some snapshot, and a record of each
//!    later change. A row from that key on has no copy, and its records are dropped: it is copied later.
//! 4. A row whose unique key another copy has is not a duplicate if that copy's row has changed since. The
//!    row is postponed to a snapshot without records, in which every copy equals its row.
//!
//! A change that fails or is interrupted leaves spaces that no definition names, and the space of
//! records, which is removed like an index that is not public.
//!
//! Rejected: writers that also write the copy, as the triggers of pt-online-schema-change do (they would convert rows, wait for each
//! other's keys in the copy, and fail by its constraints); a log of changes outside of the engine (not transactional).

use super::copy::{Copy, CopyOptions, Entry};
use crate::db::Db;
use crate::ddl::online::{Throttle, check_cancel};
use crate::ddl::{DdlCx, spaces};
use crate::definition::{Index, IndexKind, TableDef};
use crate::error::{Error, Result};
use crate::overflow;
use crate::row::{RowRef, RowStamp};
use crate::table::Table;
use crate::text_index::entries::{Removal, pending_key};
use crate::txn::write::row_of_changed_row_key;
use porpoise_kv::{
    self as kv, Check, Key, Read, ScanEnd, ScanRange, SpaceId, SpaceSpec, TxnOptions,
};
use porpoise_types::{CastCx, Value};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// Records applied in a transaction.
const RECORDS: usize = 256;
/// Batches of the scan after which records are applied. Each time waits for the log.
const BATCHES_PER_CATCH_UP: u32 = 16;
/// Batches of the scan after which records are read from the first one again. Reading from the first one each time
/// would pass over the remains of all deleted records.
const BATCHES_PER_ROUND: u32 = 64;
/// Approximate size in bytes of the rows of a transaction.
const BATCH_BYTES: usize = 4 << 20;

/// A row as read in a snapshot; no bytes if it does not exist.
struct Source {
    key: Vec<u8>,
    row: Option<Vec<u8>>,
}

/// A row to be copied.
struct NewCopy {
    /// Position among the rows of the batch.
    at: usize,
    primary: Vec<u8>,
    values: Vec<Value>,
    entries: std::ops::Range<usize>,
}

/// Reason why the rows of a batch are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// They are copied for the first time, in the order of their keys.
    Scan,
    /// They have changed.
    Record,
    /// They were postponed, and every copy equals its row now: an equal key is a duplicate.
    Postponed,
}

/// The spaces of an online copy beside those of the new table.
#[derive(Clone, Copy)]
pub(in crate::ddl) struct CopySpaces {
    /// Records of changed rows.
    pub(in crate::ddl) changed_rows: SpaceId,
    /// The primary key of each row's copy, by the row's primary key.
    pub(in crate::ddl) keys: SpaceId,
}

/// A copy in progress.
pub(in crate::ddl) struct OnlineCopy<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    copy: Copy<'a>,
    spaces: CopySpaces,
    /// Whether a copy has the primary key of its row.
    keeps_keys: bool,
    /// Whether a copy keeps the hidden row id.
    keeps_hidden: bool,
    /// Partition and key up to which rows have copies; `None` if all have.
    position: Option<(usize, Vec<u8>)>,
    /// Rows whose copies are missing because another copy has their key.
    postponed: BTreeSet<Vec<u8>>,
    /// Rows copied by the scan.
    rows: u64,
    /// Records from which the next ones are read during the scan. A transaction that commits late may
    /// have written records before it.
    next_record: Vec<u8>,
}

/// Creates the spaces of records.
pub(in crate::ddl) fn create_copy_spaces(db: &Db, table: &TableDef) -> Result<CopySpaces> {
    let spec = SpaceSpec {
        point_lookups: false,
        ..spaces::overflow_space(table, 0)
    };
    let made = db.engine().create_spaces(&[spec.clone(), spec])?;
    match made.as_slice() {
        [changed_rows, keys] => Ok(CopySpaces {
            changed_rows: *changed_rows,
            keys: *keys,
        }),
        _ => Err(Error::DefinitionChanged),
    }
}

/// Whether the keys of rows are the same in the copy.
fn keeps_keys(copy: &Copy<'_>, keeps_hidden: bool) -> bool {
    let (before, after) = (copy.before, copy.after);
    if before.hidden_key || after.hidden_key {
        // The key contains the partition, which may change with the row.
        return keeps_hidden && before.partitioning.is_none() && after.partitioning.is_none();
    }
    let parts = |table: &Table| table.indexes.first().map(|i| i.parts.clone());
    let (Some(old), Some(new)) = (parts(before), parts(after)) else {
        return false;
    };
    let same = |(a, b): (&crate::definition::IndexPart, &crate::definition::IndexPart)| {
        let nullable = |table: &Table, at: usize| table.columns.get(at).map(|c| c.nullable);
        copy.is_unchanged(a.column, b.column)
            && (a.prefix, a.desc) == (b.prefix, b.desc)
            && nullable(before, a.column) == nullable(after, b.column)
    };
    old.len() == new.len() && old.iter().zip(&new).all(same)
}

impl<'a> OnlineCopy<'a> {
    /// Prepares a copy of `before` to `after`, whose spaces are empty.
    pub(in crate::ddl) fn new(
        db: &'a Db,
        cx: &'a DdlCx<'a>,
        (before, after): (&'a Table, &'a Table),
        spaces: CopySpaces,
        options: CopyOptions,
        cast: &CastCx<'_>,
    ) -> Result<OnlineCopy<'a>> {
        let copy = db.begin_copy(cx, before, after, options, cast)?;
        let keeps_hidden = before.hidden_key && after.hidden_key && !options.rekeys_rows;
        Ok(OnlineCopy {
            db,
            cx,
            keeps_keys: keeps_keys(&copy, keeps_hidden),
            copy,
            spaces,
            keeps_hidden,
            position: Some((0, Vec::new())),
            postponed: BTreeSet::new(),
            rows: 0,
            next_record: Vec::new(),
        })
    }

    /// Rows that the scan has copied.
    pub(in crate::ddl) fn rows(&self) -> u64 {
        self.rows
    }

    fn begin(&self) -> Result<Box<dyn kv::Txn>> {
        Ok(self.db.engine().begin(TxnOptions {
            cancel: self.cx.cancel.clone(),
            ..TxnOptions::default()
        })?)
    }

    /// Makes all commits so far part of the next snapshot.
    fn wait_until_visible(&self) -> Result<()> {
        let engine = self.db.engine();
        Ok(engine.wait_durable(engine.newest_position())?)
    }

    /// Copies all rows, and applies the records that are written meanwhile.
    pub(in crate::ddl) fn scan(&mut self, cast: &mut CastCx<'_>) -> Result<()> {
        self.wait_until_visible()?;
        let mut throttle = Throttle::new(self.db, self.cx, self.copy.before.id);
        let mut batches: u32 = 0;
        for (partition, space) in self.copy.before.index_spaces(0).iter().enumerate() {
            let mut next = Some(Vec::new());
            while let Some(start) = next {
                let limit = throttle.begin()?;
                let (count, rest) = self.scan_batch(*space, &start, limit, cast)?;
                self.position = Some(match &rest {
                    Some(key) => (partition, key.clone()),
                    None => (partition + 1, Vec::new()),
                });
                next = rest;
                self.rows += count as u64;
                // The pause is for the scan only: the work on records is as much as writers make, and
                // during a pause they make more.
                throttle.end(count);
                batches += 1;
                if batches.is_multiple_of(BATCHES_PER_ROUND) {
                    self.next_record.clear();
                }
                if batches.is_multiple_of(BATCHES_PER_CATCH_UP)
                    && !self.catch_up(Read::SNAPSHOT, cast)?
                    && !self.postponed.is_empty()
                {
                    self.copy_postponed(Read::SNAPSHOT, cast)?;
                }
            }
        }
        self.position = None;
        self.next_record.clear();
        self.copy.finish_texts()
    }

    /// Copies the next rows. Returns their number, and the position at which to continue.
    fn scan_batch(
        &mut self,
        space: SpaceId,
        start: &[u8],
        limit: usize,
        cast: &mut CastCx<'_>,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        let mut txn = self.begin()?;
        let range = ScanRange {
            space,
            start,
            end: None,
            reverse: false,
        };
        let (mut rows, mut bytes) = (Vec::with_capacity(limit), 0);
        let end = txn.scan(Read::SNAPSHOT, &[range], limit, &mut |_, key, row| {
            bytes += row.len();
            rows.push(Source {
                key: key.to_vec(),
                row: Some(row.to_vec()),
            });
            match bytes > BATCH_BYTES {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        let rest = match end {
            ScanEnd::Done => None,
            ScanEnd::Stopped { mut key, .. } => {
                key.push(0);
                Some(key)
            }
        };
        self.replace(txn.as_mut(), Read::SNAPSHOT, &rows, Origin::Scan, cast)?;
        txn.commit()?;
        Ok((rows.len(), rest))
    }

    /// Applies records until few are left, or a number of transactions has been done. Returns true in the second case.
    pub(in crate::ddl) fn catch_up(&mut self, read: Read, cast: &mut CastCx<'_>) -> Result<bool> {
        const TRANSACTIONS: usize = 16;
        for _ in 0..TRANSACTIONS {
            check_cancel(self.cx)?;
            if self.take_up(read, cast)? < RECORDS {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies all records, and copies postponed rows, while no session writes to the table. Returns false if that
    /// needs more than a number of transactions.
    pub(in crate::ddl) fn complete(
        &mut self,
        transactions: usize,
        cast: &mut CastCx<'_>,
    ) -> Result<bool> {
        for _ in 0..transactions {
            if self.take_up(Read::CURRENT, cast)? == 0 {
                return self.copy_postponed(Read::CURRENT, cast);
            }
        }
        Ok(false)
    }

    /// Brings the copies of recorded rows up to date. Returns the number of records.
    fn take_up(&mut self, read: Read, cast: &mut CastCx<'_>) -> Result<usize> {
        if read.mode == kv::ReadMode::Snapshot {
            self.wait_until_visible()?;
        }
        let mut txn = self.begin()?;
        let records = self.records(txn.as_mut(), read, RECORDS, &self.next_record)?;
        let mut keys = BTreeSet::new();
        for record in &records {
            let key = row_of_changed_row_key(record)?;
            if self.has_been_scanned(key) {
                keys.insert(key.to_vec());
            }
        }
        let rows = self.read_rows(txn.as_mut(), read, keys)?;
        self.replace(txn.as_mut(), read, &rows, Origin::Record, cast)?;
        for record in &records {
            txn.delete(Key::new(self.spaces.changed_rows, record), Check::Blind)?;
        }
        txn.commit()?;
        if let (Some(last), true) = (records.last(), self.position.is_some()) {
            self.next_record.clone_from(last);
        }
        Ok(records.len())
    }

    fn records(
        &self,
        txn: &mut dyn kv::Txn,
        read: Read,
        limit: usize,
        start: &[u8],
    ) -> Result<Vec<Vec<u8>>> {
        let range = ScanRange {
            space: self.spaces.changed_rows,
            start,
            end: None,
            reverse: false,
        };
        let mut found = Vec::new();
        txn.scan(read, &[range], limit, &mut |_, key, _| {
            found.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Whether the scan has passed the place of a row.
    fn has_been_scanned(&self, key: &[u8]) -> bool {
        let Some((partition, next)) = &self.position else {
            return true;
        };
        let before = self.copy.before;
        let space = before.space(0, key);
        let mut spaces = before.index_spaces(0).iter();
        let at = spaces.position(|s| *s == space).unwrap_or(0);
        (at, key) < (*partition, next.as_slice())
    }

    fn read_rows(
        &self,
        txn: &mut dyn kv::Txn,
        read: Read,
        keys: BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Source>> {
        let source = |key| Source { key, row: None };
        let mut rows: Vec<Source> = keys.into_iter().map(source).collect();
        let before = self.copy.before;
        let keys = rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>();
        let keys: Vec<Key<'_>> = keys
            .iter()
            .map(|key| Key::new(before.space(0, key), key))
            .collect();
        txn.get(read, &keys, &mut |n, value| {
            if let Some(row) = rows.get_mut(n) {
                row.row = value.map(<[u8]>::to_vec);
            }
        })?;
        Ok(rows)
    }

    /// Copies the postponed rows, unless there are records again.
    fn copy_postponed(&mut self, read: Read, cast: &mut CastCx<'_>) -> Result<bool> {
        if self.postponed.is_empty() {
            return Ok(true);
        }
        if read.mode == kv::ReadMode::Snapshot {
            self.wait_until_visible()?;
        }
        let mut txn = self.begin()?;
        if !self.records(txn.as_mut(), read, 1, &[])?.is_empty() {
            txn.rollback();
            return Ok(false);
        }
        let keys = std::mem::take(&mut self.postponed);
        let rows = self.read_rows(txn.as_mut(), read, keys)?;
        self.replace(txn.as_mut(), read, &rows, Origin::Postponed, cast)?;
        txn.commit()?;
        Ok(true)
    }

    /// Replaces the copies of rows.
    fn replace(
        &mut self,
        txn: &mut dyn kv::Txn,
        read: Read,
        rows: &[Source],
        origin: Origin,
        cast: &mut CastCx<'_>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let old_keys = match origin {
            Origin::Scan => vec![None; rows.len()],
            _ => self.remove_copies(txn, rows)?,
        };
        let (mut copies, mut entries) = (Vec::with_capacity(rows.len()), Vec::new());
        for (at, (row, old_key)) in rows.iter().zip(&old_keys).enumerate() {
            let Some(bytes) = &row.row else {
                self.postponed.remove(&row.key);
                continue;
            };
            let before = self.copy.before;
            let whole = overflow::complete_row(txn, read, before, &row.key, bytes)?;
            let source = RowRef::new(before, whole.as_deref().unwrap_or(bytes))?;
            let values = self.copy.convert(&source, cast)?;
            let primary = self.key_of_copy(&row.key, old_key.as_deref(), &values)?;
            let stamp = RowStamp {
                version: source.version(),
                expiry: source.expiry(),
            };
            let start = entries.len();
            let (db, after) = (self.db, self.copy.after);
            db.add_entries(after, copies.len(), &primary, &values, stamp, &mut entries)?;
            copies.push(NewCopy {
                at,
                primary,
                values,
                entries: start..entries.len(),
            });
        }
        let refused = self.check_unique(txn, &copies, &entries, origin)?;
        for (n, copy) in copies.iter().enumerate() {
            let Some(row) = rows.get(copy.at) else {
                continue;
            };
            if refused.contains(&n) {
                self.postponed.insert(row.key.clone());
                continue;
            }
            self.postponed.remove(&row.key);
            self.put_copy(txn, row, copy, &entries, origin)?;
        }
        Ok(())
    }

    /// The primary key of a row's copy. A hidden row id is that of the previous copy.
    fn key_of_copy(&self, row: &[u8], old: Option<&[u8]>, values: &[Value]) -> Result<Vec<u8>> {
        let after = self.copy.after;
        after.partition_of_row(values)?;
        let mut primary = Vec::new();
        if !after.hidden_key {
            after.append_primary_key(values, &mut primary);
            return Ok(primary);
        }
        let kept = if self.keeps_hidden { Some(row) } else { old };
        match kept.and_then(<[u8]>::first_chunk::<8>) {
            Some(id) => primary.extend_from_slice(id),
            None => {
                let engine = self.db.engine().as_ref();
                let id = self.db.counters.take_hidden_ids(engine, after, 1)?;
                primary.extend_from_slice(&id.to_be_bytes());
            }
        }
        after.append_hidden_partition(values, &mut primary);
        Ok(primary)
    }

    /// Removes the copies of rows. Returns their keys.
    fn remove_copies(
        &self,
        txn: &mut dyn kv::Txn,
        rows: &[Source],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let after = self.copy.after;
        let mut keys: Vec<Option<Vec<u8>>> = vec![None; rows.len()];
        if self.keeps_keys {
            keys = rows.iter().map(|row| Some(row.key.clone())).collect();
        } else {
            let wanted = rows.iter().map(|row| Key::new(self.spaces.keys, &row.key));
            let wanted: Vec<Key<'_>> = wanted.collect();
            txn.get(Read::CURRENT, &wanted, &mut |n, value| {
                if let Some(key) = keys.get_mut(n) {
                    *key = value.map(<[u8]>::to_vec);
                }
            })?;
        }
        let known: Vec<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
        let wanted = known.iter().map(|key| Key::new(after.space(0, key), key));
        let wanted: Vec<Key<'_>> = wanted.collect();
        let mut found = Vec::new();
        txn.get(Read::CURRENT, &wanted, &mut |n, value| {
            let key = known.get(n).zip(value);
            found.extend(key.map(|(key, bytes)| (key.to_vec(), bytes.to_vec())));
        })?;
        for (primary, bytes) in &found {
            self.remove_copy(txn, primary, &RowRef::new(after, bytes)?)?;
        }
        if !self.keeps_keys {
            for row in rows {
                txn.delete(Key::new(self.spaces.keys, &row.key), Check::Blind)?;
            }
        }
        Ok(keys)
    }

    fn remove_copy(&self, txn: &mut dyn kv::Txn, primary: &[u8], copy: &RowRef<'_>) -> Result<()> {
        let after = self.copy.after;
        txn.delete(Key::new(after.space(0, primary), primary), Check::Blind)?;
        overflow::delete(txn, after, primary, copy)?;
        for (position, index) in after.indexes.iter().enumerate() {
            if index.is_full_text() {
                remove_document(txn, after.space(position, primary), primary)?;
            } else if index.kind != IndexKind::Primary {
                for entry in after.whole_entries(position, copy, primary) {
                    let space = after.space(position, &entry.key);
                    txn.delete(Key::new(space, &entry.key), Check::Blind)?;
                }
            }
        }
        Ok(())
    }

    /// Finds rows with a unique key that another copy has. Two rows of the batch with one key are duplicates; a key that an
    /// older copy has is a duplicate only if the rows were postponed.
    fn check_unique(
        &self,
        txn: &mut dyn kv::Txn,
        copies: &[NewCopy],
        entries: &[Entry],
        origin: Origin,
    ) -> Result<BTreeSet<usize>> {
        let unique = entries.iter().filter_map(|e| Some((e, e.unique_position?)));
        let unique: Vec<(&Entry, (usize, usize))> = unique.collect();
        let keys: Vec<Key<'_>> = unique
            .iter()
            .map(|(entry, _)| Key::new(entry.space, &entry.key))
            .collect();
        let mut taken = vec![false; keys.len()];
        txn.get(Read::CURRENT, &keys, &mut |n, value| {
            if let Some(taken) = taken.get_mut(n) {
                *taken = value.is_some();
            }
        })?;
        let mut refused = BTreeSet::new();
        let mut seen: HashSet<(SpaceId, &[u8])> = HashSet::with_capacity(keys.len());
        for ((entry, (n, index)), taken) in unique.iter().zip(taken) {
            let is_repeated = !seen.insert((entry.space, &entry.key));
            if is_repeated || taken && origin == Origin::Postponed {
                let values = copies.get(*n).map_or(&[][..], |copy| &copy.values);
                return Err(self.copy.duplicate_error(*index, values, &entry.key));
            }
            if taken {
                refused.insert(*n);
            }
        }
        Ok(refused)
    }

    fn put_copy(
        &mut self,
        txn: &mut dyn kv::Txn,
        row: &Source,
        copy: &NewCopy,
        entries: &[Entry],
        origin: Origin,
    ) -> Result<()> {
        for entry in entries.get(copy.entries.clone()).unwrap_or(&[]) {
            let key = Key::new(entry.space, &entry.key);
            txn.put(key, &entry.value, Check::Blind)?;
        }
        if !self.keeps_keys {
            let key = Key::new(self.spaces.keys, &row.key);
            txn.put(key, &copy.primary, Check::Blind)?;
        }
        if origin == Origin::Scan {
            return self.copy.add_texts(&copy.values, &copy.primary);
        }
        let after = self.copy.after;
        let texts = |(_, index): &(usize, &Index)| index.is_full_text();
        for (position, _) in after.indexes.iter().enumerate().filter(texts) {
            self.add_document(txn, position, copy)?;
        }
        Ok(())
    }

    /// Adds the document of a copy that is not part of the scan.
    fn add_document(&self, txn: &mut dyn kv::Txn, position: usize, copy: &NewCopy) -> Result<()> {
        let after = self.copy.after;
        let Some(index) = after.text_index(position) else {
            return Ok(());
        };
        let texts = index.texts(|column| {
            let value = copy.values.get(column);
            value.map_or(porpoise_types::ValueRef::Null, Value::as_ref)
        });
        let mut document = Vec::new();
        index.append_document(&texts, &mut document)?;
        let space = after.space(position, &copy.primary);
        let mut generation = 0;
        if let Some(mut removal) = removal_of(txn, space, &copy.primary)? {
            generation = removal.generation + 1;
            removal.live = true;
            let key = Removal::key(&copy.primary);
            txn.put(Key::new(space, &key), &removal.encode(), Check::Blind)?;
        }
        if !document.is_empty() {
            let key = pending_key(&copy.primary, generation);
            txn.put(Key::new(space, &key), &document, Check::Blind)?;
        }
        Ok(())
    }
}

/// The removal of a row's document in a FULLTEXT index.
fn removal_of(txn: &mut dyn kv::Txn, space: SpaceId, primary: &[u8]) -> Result<Option<Removal>> {
    let key = Removal::key(primary);
    let mut found = Ok(None);
    txn.get(Read::CURRENT, &[Key::new(space, &key)], &mut |_, value| {
        found = value.map(Removal::decode).transpose();
    })?;
    found
}

fn remove_document(txn: &mut dyn kv::Txn, space: SpaceId, primary: &[u8]) -> Result<()> {
    let before = removal_of(txn, space, primary)?;
    let generation = before.map_or(0, |removal| removal.generation + 1);
    let removal = Removal {
        generation,
        live: false,
    };
    let key = Removal::key(primary);
    txn.put(Key::new(space, &key), &removal.encode(), Check::Blind)?;
    let key = pending_key(primary, generation);
    Ok(txn.delete(Key::new(space, &key), Check::Blind)?)
}
