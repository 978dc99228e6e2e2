//! Writes and deletes rows with their index entries.
//!
//! These functions check nothing: callers have locked every unique key and checked the constraints.
//! Writes are recorded in the statement's key set, so that checks of later rows see them.

use super::Statement;
use super::gather::{NO_KEY, Plan};
use super::key_changes::is_key_changed;
use super::keyset::KeyId;
use crate::definition::{Index, IndexState};
use crate::keys::Columns;
use crate::overflow;
use crate::row::overflow::OverflowHead;
use crate::row::{RowRef, RowStamp, encode_with};
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::{Check, Key, Read, SpaceId};
use porpoise_types::{Value, ValueRef};
use std::collections::BTreeMap;

/// The texts of a changed row: a value that equals the old row's may be only the part of an
/// overflow value that the old row has, and stands for all of it.
struct Texts<'a, 'r> {
    new: &'a [Value],
    old: &'a RowRef<'r>,
    /// The old row with its overflow values.
    whole: &'a RowRef<'r>,
}

impl Columns for Texts<'_, '_> {
    fn column(&self, position: usize) -> ValueRef<'_> {
        let new = self.new.column(position);
        if new == self.old.get(position) {
            self.whole.get(position)
        } else {
            new
        }
    }
}

/// Key of the record of a duplicate ([`crate::definition::TableDef::duplicates`]).
pub(crate) fn duplicate_key(index: u32, primary: &[u8]) -> Vec<u8> {
    let mut key = index.to_be_bytes().to_vec();
    key.extend_from_slice(primary);
    key
}

/// Key of the record of a changed row ([`crate::definition::UnfinishedChange::changed_rows`]). No two
/// transactions write the same key, so that deleting a record that was read never deletes a later one.
fn changed_row_key(version: u64, primary: &[u8]) -> Vec<u8> {
    let mut key = version.to_be_bytes().to_vec();
    key.extend_from_slice(primary);
    key
}

/// The row's primary key in a record of a changed row.
pub(crate) fn row_of_changed_row_key(key: &[u8]) -> Result<&[u8]> {
    let row = key.split_first_chunk::<8>().map(|(_, primary)| primary);
    row.ok_or_else(|| Error::corrupt("the record of a changed row is too short"))
}

impl Statement<'_> {
    /// Records that a row is written or deleted, while its table is copied. The record is part of
    /// the same transaction.
    #[inline]
    fn record_changed_row(&mut self, table: &Table, primary: &[u8]) -> Result<()> {
        match table.unfinished.changed_rows {
            None => Ok(()),
            Some(space) => self.write_changed_row(space, primary),
        }
    }

    #[cold]
    fn write_changed_row(&mut self, space: SpaceId, primary: &[u8]) -> Result<()> {
        let key = changed_row_key(self.txn.row_version()?, primary);
        Ok(self.txn.kv.put(Key::new(space, &key), &[1], Check::Blind)?)
    }

    /// Puts a row's bytes under its primary key, whose number is known for new rows; `heads` are those
    /// of its overflow values.
    fn put_row(
        &mut self,
        table: &Table,
        (primary, id): (&[u8], Option<KeyId>),
        values: &[Value],
        heads: &[(usize, OverflowHead)],
        stamp: RowStamp,
    ) -> Result<()> {
        self.txn.check_cancel()?;
        self.txn.check_not_busy(table)?;
        self.txn.check_writable(table)?;
        self.txn.note_written(table);
        self.record_changed_row(table, primary)?;
        let mut row = std::mem::take(&mut self.txn.scratch.buffers().row);
        row.clear();
        let done = encode_with(table, values, heads, stamp, &mut row).and_then(|()| {
            if row.len() > self.txn.db.row_limit {
                return Err(Error::RowTooBig {
                    size: row.len(),
                    limit: self.txn.db.row_limit,
                });
            }
            let space = table.space(0, primary);
            self.put_locked(Key::new(space, primary), id, &row)?;
            match id {
                Some(id) => self.keys.set_present(id, true),
                None => self.keys.record_own_write(space, primary, true),
            }
            Ok(())
        });
        if row.capacity() <= 1 << 20 {
            self.txn.scratch.buffers().row = row;
        }
        done
    }

    /// Puts a value under a locked key, whose number is known for new rows.
    #[inline]
    fn put_locked(&mut self, key: Key<'_>, id: Option<KeyId>, value: &[u8]) -> Result<()> {
        let kv = &mut self.txn.kv;
        if id.is_some_and(|id| self.keys.is_unwritten(id)) {
            return Ok(kv.put_new(key, value, Check::Locked)?);
        }
        Ok(kv.put(key, value, Check::Locked)?)
    }

    /// Writes a new row, whose keys are in the plan.
    pub(super) fn write_new(
        &mut self,
        table: &Table,
        plan: &Plan,
        row: usize,
        values: &[Value],
    ) -> Result<()> {
        let stamp = RowStamp {
            version: self.txn.row_version()?,
            expiry: 0,
        };
        let primary = plan.primary(row, &self.keys);
        let primary = primary.as_slice();
        self.txn
            .capture(table, primary, None, Some((values, stamp.version)))?;
        let heads =
            overflow::write_new(&self.txn.db, self.txn.kv.as_mut(), table, primary, values)?;
        let mut own = plan.own(row).iter().copied();
        let id = own.next();
        // Then it has not written an entry with this primary key, either.
        let is_unwritten = id.is_some_and(|id| self.keys.is_unwritten(id));
        self.put_row(table, (primary, id), values, &heads, stamp)?;
        let mut entry = std::mem::take(&mut self.txn.scratch.buffers().entry);
        let mut uniques = table.derived().unique_indexes.iter().zip(own).peekable();
        for (n, index) in table.maintained_indexes().skip(1) {
            let id = uniques.next_if(|(position, _)| **position == n);
            let id = id.map(|(_, id)| id).filter(|id| *id != NO_KEY);
            if !index.state.adds_entries() {
                continue;
            }
            if table.text_index(n).is_some() {
                self.add_document(table, n, values, primary)?;
                continue;
            }
            // An array may have equal elements.
            let is_new_entry = is_unwritten && table.array_column_of(n).is_none();
            for row in table.entries(n, values) {
                entry.clear();
                let exclusive = index.append_entry(table, &row, primary, &mut entry);
                let end = entry.len();
                index.append_entry_value(primary, &mut entry);
                let (key, value) = entry.split_at(end);
                if index.state == IndexState::Building && exclusive {
                    self.record_duplicate(table, n, values, key, primary)?;
                }
                match id {
                    Some(id) if exclusive => {
                        let key = Key::new(table.space(n, key), key);
                        self.put_locked(key, Some(id), value)?;
                        self.keys.set_present(id, true);
                    }
                    _ if is_new_entry && !exclusive => {
                        let key = Key::new(table.space(n, key), key);
                        self.txn.kv.put_new(key, value, Check::Blind)?;
                    }
                    _ => self.write_entry(table, n, key, Some(value), exclusive)?,
                }
            }
        }
        self.txn.scratch.buffers().entry = entry;
        Ok(())
    }

    /// Writes an entry, or deletes it if there is no value.
    #[inline]
    fn write_entry(
        &mut self,
        table: &Table,
        index: usize,
        key: &[u8],
        value: Option<&[u8]>,
        exclusive: bool,
    ) -> Result<()> {
        let space = table.space(index, key);
        let check = if exclusive {
            Check::Locked
        } else {
            Check::Blind
        };
        match value {
            Some(value) => self.txn.kv.put(Key::new(space, key), value, check)?,
            None => self.txn.kv.delete(Key::new(space, key), check)?,
        }
        if exclusive {
            self.keys.record_own_write(space, key, value.is_some());
        }
        Ok(())
    }

    /// Deletes the entry of a row. In a unique index that is not enforced the entry may belong to another
    /// row; it is kept then. The caller holds the lock of a unique key.
    fn remove_entry(
        &mut self,
        table: &Table,
        (position, index): (usize, &Index),
        primary: &[u8],
        key: &[u8],
        exclusive: bool,
    ) -> Result<()> {
        if exclusive
            && !index.state.refuses_duplicates()
            && self.is_entry_of_other(table, (position, index), primary, key)?
        {
            return Ok(());
        }
        self.write_entry(table, position, key, None, exclusive)
    }

    /// Whether the entry of a key of a unique index belongs to another row.
    #[cold]
    fn is_entry_of_other(
        &mut self,
        table: &Table,
        (position, index): (usize, &Index),
        primary: &[u8],
        key: &[u8],
    ) -> Result<bool> {
        let mut own = Vec::new();
        index.append_entry_value(primary, &mut own);
        let key = Key::new(table.space(position, key), key);
        let mut is_other = false;
        self.txn.kv.get(Read::CURRENT, &[key], &mut |_, value| {
            is_other = value.is_some_and(|value| value != own);
        })?;
        Ok(is_other)
    }

    /// Records that a row is to get an entry whose key exists, in a unique index that is being
    /// built, with the text of the entry for the message. The caller holds the locks of the row and
    /// of the entry's key.
    #[cold]
    fn record_duplicate(
        &mut self,
        table: &Table,
        position: usize,
        row: &[Value],
        key: &[u8],
        primary: &[u8],
    ) -> Result<()> {
        let found = self.keys.find(table.space(position, key), key);
        if !found.is_some_and(|id| self.keys.present(id)) {
            return Ok(());
        }
        let (Some(index), Some(space)) = (table.maintained_index(position), table.duplicates)
        else {
            return Ok(());
        };
        let text = match table.duplicate_of_key(position, row, key) {
            Error::Duplicate { entry, .. } => entry,
            other => return Err(other),
        };
        let record = duplicate_key(index.id, primary);
        let (kv, record) = (self.txn.kv.as_mut(), Key::new(space, &record));
        Ok(kv.put(record, text.as_bytes(), Check::Blind)?)
    }

    /// Deletes a row and its entries.
    pub(crate) fn write_deletion(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: RowRef<'_>,
    ) -> Result<()> {
        self.txn.check_cancel()?;
        self.txn.check_not_busy(table)?;
        self.txn.check_writable(table)?;
        self.txn.note_written(table);
        self.txn.capture(table, primary, Some(old), None)?;
        self.record_changed_row(table, primary)?;
        let space = table.space(0, primary);
        self.txn
            .kv
            .delete(Key::new(space, primary), Check::Locked)?;
        self.keys.record_own_write(space, primary, false);
        overflow::delete(self.txn.kv.as_mut(), table, primary, &old)?;
        let mut entry = std::mem::take(&mut self.txn.scratch.buffers().entry);
        for (n, index) in table.maintained_indexes().skip(1) {
            if table.text_index(n).is_some() {
                self.remove_document(table, n, primary)?;
                continue;
            }
            for row in table.entries(n, &old) {
                entry.clear();
                let exclusive = index.append_entry(table, &row, primary, &mut entry);
                self.remove_entry(table, (n, index), primary, &entry, exclusive)?;
            }
        }
        self.txn.scratch.buffers().entry = entry;
        Ok(())
    }

    /// The old row with its overflow values, if it lacks some, and if its document in a FULLTEXT
    /// index is written again. They are read before they are deleted.
    fn texts_to_change(
        &mut self,
        table: &Table,
        (primary, old): (&[u8], &RowRef<'_>),
        (new_primary, new): (&[u8], &[Value]),
    ) -> Result<Option<Vec<u8>>> {
        let mut indexes = table.indexes.iter().filter(|index| index.is_full_text());
        let moved = primary != new_primary;
        let changed = |index: &Index| moved || is_key_changed(&index.parts, old, new);
        if !old.has_overflow() || !indexes.any(changed) {
            return Ok(None);
        }
        let (kv, read) = (self.txn.kv.as_mut(), Read::CURRENT);
        overflow::complete_row(kv, read, table, primary, old.bytes())
    }

    /// Replaces a row, which moves when its primary key changes.
    pub(crate) fn write_changed(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: RowRef<'_>,
        new_primary: &[u8],
        new: &[Value],
    ) -> Result<()> {
        let moved = primary != new_primary;
        let texts = self.texts_to_change(table, (primary, &old), (new_primary, new))?;
        let version = if self.keep_version {
            old.version()
        } else {
            self.txn.row_version()?
        };
        let after = Some((new, version));
        self.txn.capture(table, primary, Some(old), after)?;
        if moved {
            self.record_changed_row(table, primary)?;
            let space = table.space(0, primary);
            self.txn
                .kv
                .delete(Key::new(space, primary), Check::Locked)?;
            self.keys.record_own_write(space, primary, false);
        }
        let stamp = RowStamp {
            version,
            expiry: old.expiry(),
        };
        let before = Some((primary, old));
        let (db, kv) = (&self.txn.db, self.txn.kv.as_mut());
        let heads = overflow::write_changed(db, kv, table, new_primary, before, new)?;
        self.put_row(table, (new_primary, None), new, &heads, stamp)?;
        for (n, index) in table.maintained_indexes().skip(1) {
            if !moved && !is_key_changed(&index.parts, &old, new) {
                continue;
            }
            if table.text_index(n).is_some() {
                let texts = texts.as_deref();
                self.write_changed_document(table, n, primary, &old, texts, new_primary, new)?;
                continue;
            }
            if table.array_column_of(n).is_some() {
                self.write_changed_array(table, n, primary, &old, new_primary, new)?;
                continue;
            }
            self.write_changed_entry(table, n, index, (primary, &old), (new_primary, new))?;
        }
        Ok(())
    }

    /// Replaces the entry of a changed row in one index.
    fn write_changed_entry(
        &mut self,
        table: &Table,
        n: usize,
        index: &Index,
        (primary, old): (&[u8], &RowRef<'_>),
        (new_primary, new): (&[u8], &[Value]),
    ) -> Result<()> {
        let mut entry = std::mem::take(&mut self.txn.scratch.buffers().entry);
        entry.clear();
        let had_exclusive = index.append_entry(table, old, primary, &mut entry);
        let middle = entry.len();
        let exclusive = index.append_entry(table, new, new_primary, &mut entry);
        let end = entry.len();
        let (before, after) = entry.split_at(middle);
        let same = before == after;
        // An entry whose key does not contain the primary key has another value if the row has
        // moved, even if the keys are equal.
        let moved = primary != new_primary;
        let adds = index.state.adds_entries();
        if !same || moved && !adds {
            self.remove_entry(table, (n, index), primary, before, had_exclusive)?;
        }
        if adds && (!same || moved && exclusive) {
            if index.state == IndexState::Building
                && exclusive
                && (!same || self.is_entry_of_other(table, (n, index), primary, after)?)
            {
                self.record_duplicate(table, n, new, after, new_primary)?;
            }
            index.append_entry_value(new_primary, &mut entry);
            let (key, value) = entry.split_at(end);
            let key = key.get(middle..).unwrap_or(&[]);
            self.write_entry(table, n, key, Some(value), exclusive)?;
        }
        self.txn.scratch.buffers().entry = entry;
        Ok(())
    }

    /// Replaces the document of a changed row, in a FULLTEXT index. `texts` is the old row with its
    /// overflow values, if it has any.
    #[expect(clippy::too_many_arguments, reason = "a row before and after")]
    fn write_changed_document(
        &mut self,
        table: &Table,
        position: usize,
        primary: &[u8],
        old: &RowRef<'_>,
        texts: Option<&[u8]>,
        new_primary: &[u8],
        new: &[Value],
    ) -> Result<()> {
        let whole = texts.map(|bytes| RowRef::new(table, bytes)).transpose()?;
        let whole = whole.as_ref().unwrap_or(old);
        let texts = Texts { new, old, whole };
        self.remove_document(table, position, primary)?;
        self.add_document(table, position, &texts, new_primary)
    }

    /// Writes the entries in which a changed row differs, in an index with a multi-valued part.
    fn write_changed_array(
        &mut self,
        table: &Table,
        index: usize,
        primary: &[u8],
        old: &RowRef<'_>,
        new_primary: &[u8],
        new: &[Value],
    ) -> Result<()> {
        let Some(definition) = table.maintained_index(index) else {
            return Ok(());
        };
        let (state, at) = (definition.state, (index, definition));
        let before = definition.entry_keys(table, index, old, primary);
        let mut before = BTreeMap::from_iter(before);
        let after = definition.entry_keys(table, index, new, new_primary);
        let mut value = Vec::new();
        definition.append_entry_value(new_primary, &mut value);
        let moved = primary != new_primary;
        for (key, exclusive) in after {
            if !state.adds_entries() {
                // The entry of a row that has moved is removed, too.
                if !moved {
                    before.remove(&key);
                }
                continue;
            }
            let known = before.remove(&key).is_some();
            if state == IndexState::Building
                && exclusive
                && (!known || moved && self.is_entry_of_other(table, at, primary, &key)?)
            {
                self.record_duplicate(table, index, new, &key, new_primary)?;
            }
            // The value of an entry without the primary key in its key names the row.
            if !known || moved && exclusive {
                self.write_entry(table, index, &key, Some(&value), exclusive)?;
            }
        }
        for (key, exclusive) in before {
            self.remove_entry(table, at, primary, &key, exclusive)?;
        }
        Ok(())
    }
}
