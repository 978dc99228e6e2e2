//! Writing the parts of values that lie outside of their rows: beside the row,
//! in the same transaction; parts of values that go are deleted with them (see
//! [`crate::blob`]).
//!
//! Invariant: a value that stays is not written. Its head is copied from the
//! old row, and its parts move only when the row changes its partition.

use super::Txn;
use super::parts::{PartPlace, get_parts, lost};
use crate::Result;
use crate::blob::{self, Blob, BlobColumn, Outside};
use crate::db::Db;
use crate::row::{RowRef, too_big};
use crate::table::Table;
use porpoise_kv::{Check, Key, Read, SpaceId};
use porpoise_types::Value;
use smallvec::SmallVec;

impl Txn {
    /// Puts the values of a new row that leave it; their heads.
    pub(crate) fn put_outside(
        &mut self,
        table: &Table,
        primary: &[u8],
        values: &[Value],
    ) -> Result<Outside> {
        self.put_changed(table, primary, None, values)
    }

    /// As [`Txn::put_outside`] for a row that replaces another (its primary
    /// key and bytes given): values that stay keep their parts, parts of those
    /// that go are deleted, those of a row that moves to another partition
    /// move along.
    pub(crate) fn put_changed(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: Option<(&[u8], RowRef<'_>)>,
        values: &[Value],
    ) -> Result<Outside> {
        let mut outside = Outside::new();
        let had = old.is_some_and(|(_, row)| row.has_parts());
        let leaving = blob::leaving(table, values);
        if !had && leaving.is_empty() {
            return Ok(outside);
        }
        let Some(space) = table.parts_space(primary) else {
            return Ok(outside);
        };
        let mut kept: SmallVec<[usize; 2]> = SmallVec::new();
        if let Some((old_primary, old)) = old {
            let old_space = table.parts_space(old_primary).unwrap_or(space);
            for column in old.blobs() {
                let same = matches!(values.get(column.position),
                    Some(Value::Bytes(new)) if new.as_slice() == column.present);
                if !same {
                    self.delete_parts(old_space, &old, column.position)?;
                    continue;
                }
                kept.push(column.position);
                outside.push((column.position, column.blob));
                if old_space != space {
                    self.move_parts(table, old_space, space, &old, column.position)?;
                }
            }
        }
        for position in leaving {
            if kept.contains(&position) {
                continue;
            }
            let Some(Value::Bytes(value)) = values.get(position) else {
                continue;
            };
            let blob = self.db.new_blob(table, position, value)?;
            for (key, part) in blob.split_parts(value) {
                self.kv.put(Key::new(space, &key), part, Check::Blind)?;
            }
            outside.push((position, blob));
        }
        Ok(outside)
    }

    /// Deletes all parts of a row that goes.
    pub(crate) fn delete_outside(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: &RowRef<'_>,
    ) -> Result<()> {
        if !old.has_parts() {
            return Ok(());
        }
        let Some(space) = table.parts_space(primary) else {
            return Ok(());
        };
        for column in old.blobs() {
            self.delete_parts(space, old, column.position)?;
        }
        Ok(())
    }

    fn delete_parts(&mut self, space: SpaceId, old: &RowRef<'_>, position: usize) -> Result<()> {
        let Some(BlobColumn { blob, .. }) = old.blob(position) else {
            return Ok(());
        };
        for number in 0..blob.parts() {
            let key = blob.key(number);
            self.kv.delete(Key::new(space, &key), Check::Blind)?;
        }
        Ok(())
    }

    fn move_parts(
        &mut self,
        table: &Table,
        from: SpaceId,
        to: SpaceId,
        old: &RowRef<'_>,
        position: usize,
    ) -> Result<()> {
        let Some(BlobColumn { blob, .. }) = old.blob(position) else {
            return Ok(());
        };
        let keys: Vec<PartPlace> = (0..blob.parts()).map(|n| (from, blob.key(n))).collect();
        let values = get_parts(self.kv.as_mut(), &keys, Read::CURRENT)?;
        for ((_, key), value) in keys.iter().zip(values) {
            if value.is_empty() {
                return Err(lost(table));
            }
            self.kv.delete(Key::new(from, key), Check::Blind)?;
            self.kv.put(Key::new(to, key), &value, Check::Blind)?;
        }
        Ok(())
    }
}

/// Parts about to be written: space, key, bytes.
pub(crate) type NewParts = Vec<(SpaceId, Vec<u8>, Vec<u8>)>;

impl Db {
    /// The head of a new value outside of its row.
    fn new_blob(&self, table: &Table, position: usize, value: &[u8]) -> Result<Blob> {
        Ok(Blob::new(
            self.blobs.next(self.engine().as_ref())?,
            u32::try_from(value.len()).map_err(|_| too_big(value.len()))?,
            blob::chars(table, position, value),
            blob::prefix_len(table, position, value),
        ))
    }

    /// What a new row of these values keeps outside, and its parts.
    pub(crate) fn outside_parts(
        &self,
        table: &Table,
        primary: &[u8],
        values: &[Value],
    ) -> Result<(Outside, NewParts)> {
        let (mut outside, mut parts) = (Outside::new(), NewParts::new());
        let Some(space) = table.parts_space(primary) else {
            return Ok((outside, parts));
        };
        for position in blob::leaving(table, values) {
            let Some(Value::Bytes(value)) = values.get(position) else {
                continue;
            };
            let blob = self.new_blob(table, position, value)?;
            let new = blob.split_parts(value);
            parts.extend(new.map(|(key, part)| (space, key.to_vec(), part.to_vec())));
            outside.push((position, blob));
        }
        Ok((outside, parts))
    }
}
