//! Documents of FULLTEXT indexes, as rows change ([`crate::text_index`]).
//!
//! A new row's document is of the generation after its removal; a deleted row's document is removed,
//! whether or not it is pending. Removals of all rows of a statement are read in one call.

use super::Statement;
use super::key_changes::is_key_changed;
use super::update::RowChange;
use crate::definition::IndexKind;
use crate::error::Result;
use crate::keys::Columns;
use crate::table::Table;
use crate::text_index::entries::{Removal, pending_key};
use crate::text_index::maintenance::TextChange;
use porpoise_kv::{Check, Key, LockMode, LockRequest, Read, SpaceId};
use std::collections::BTreeMap;

/// Removals that a statement has read and locked, by space and row; `None` for rows without one.
pub(super) type ReadRemovals = BTreeMap<(SpaceId, Vec<u8>), Option<Removal>>;

impl Statement<'_> {
    /// Reads the removals of rows that the transaction has locked, before they are written.
    pub(super) fn read_removals(&mut self, table: &Table, rows: &[impl AsRef<[u8]>]) -> Result<()> {
        for index in &table.indexes {
            if index.kind == IndexKind::FullText
                && let Some(space) = index.spaces.first()
            {
                self.read_removals_of(*space, rows)?;
            }
        }
        Ok(())
    }

    /// As [`Statement::read_removals`], for changes of rows that change a document.
    pub(super) fn read_changed_removals(
        &mut self,
        table: &Table,
        changes: &[RowChange],
    ) -> Result<()> {
        for index in &table.indexes {
            let (IndexKind::FullText, Some(space)) = (index.kind, index.spaces.first()) else {
                continue;
            };
            let mut rows: Vec<&[u8]> = Vec::new();
            for change in changes {
                if is_key_changed(&index.parts, &change.old.row(table)?, &change.new) {
                    rows.push(&change.key);
                }
            }
            self.read_removals_of(*space, &rows)?;
        }
        Ok(())
    }

    /// Reads removals in one call, and locks those that exist in another one.
    fn read_removals_of(&mut self, space: SpaceId, rows: &[impl AsRef<[u8]>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let removals: Vec<Vec<u8>> = rows.iter().map(|row| Removal::key(row.as_ref())).collect();
        let keys: Vec<Key<'_>> = removals.iter().map(|key| Key::new(space, key)).collect();
        let mut present = Vec::new();
        self.txn.kv.get(Read::CURRENT, &keys, &mut |at, value| {
            if value.is_some() {
                present.push(at);
            }
        })?;
        for row in rows {
            self.removals.insert((space, row.as_ref().to_vec()), None);
        }
        if present.is_empty() {
            return Ok(());
        }
        let requests = present.iter().filter_map(|at| {
            let (key, mode) = (*keys.get(*at)?, LockMode::Exclusive);
            Some(LockRequest { key, mode })
        });
        let requests: Vec<LockRequest<'_>> = requests.collect();
        let wait = self.txn.wait();
        let (mut outcome, read) = (Ok(()), &mut self.removals);
        self.txn.kv.lock(&requests, wait, &mut |n, locked| {
            // A compaction may have deleted it since.
            let removal = locked.value.map(Removal::decode).transpose();
            let row = present.get(n).and_then(|at| rows.get(*at));
            match (removal, row) {
                (Ok(removal), Some(row)) => {
                    read.insert((space, row.as_ref().to_vec()), removal);
                }
                (Ok(_), None) => {}
                (Err(error), _) => outcome = Err(error),
            }
        })?;
        outcome
    }

    /// The removal of a row.
    fn removal(&mut self, space: SpaceId, primary: &[u8]) -> Result<Option<Removal>> {
        let row = (space, primary.to_vec());
        if let Some(read) = self.removals.remove(&row) {
            return Ok(read);
        }
        self.read_removals_of(space, &[primary])?;
        Ok(self.removals.remove(&row).flatten())
    }

    /// Writes the document of a new row, in a FULLTEXT index.
    pub(super) fn add_document<C: Columns + ?Sized>(
        &mut self,
        table: &Table,
        position: usize,
        row: &C,
        primary: &[u8],
    ) -> Result<()> {
        let Some(index) = table.text_index(position) else {
            return Ok(());
        };
        let mut document = Vec::new();
        let texts = index.texts(|column| row.column(column));
        index.append_document(&texts, &mut document)?;
        let space = table.space(position, primary);
        let mut generation = 0;
        if let Some(mut removal) = self.removal(space, primary)? {
            generation = removal.generation + 1;
            removal.live = true;
            let key = Removal::key(primary);
            let (key, value) = (Key::new(space, &key), removal.encode());
            self.txn.kv.put(key, &value, Check::Locked)?;
        }
        let key = pending_key(primary, generation);
        let key = Key::new(space, &key);
        if !document.is_empty() {
            self.txn.kv.put(key, &document, Check::Blind)?;
        }
        let bytes = document.len() as u64;
        self.note_text_change(table, position, space, |change| change.pending += bytes);
        Ok(())
    }

    /// Removes the document of a row, in a FULLTEXT index.
    pub(super) fn remove_document(
        &mut self,
        table: &Table,
        position: usize,
        primary: &[u8],
    ) -> Result<()> {
        let space = table.space(position, primary);
        let before = self.removal(space, primary)?;
        let generation = before.map_or(0, |removal| removal.generation + 1);
        let removal = Removal {
            generation,
            live: false,
        };
        let check = if before.is_some() {
            Check::Locked
        } else {
            Check::Blind
        };
        let key = Removal::key(primary);
        let key = Key::new(space, &key);
        self.txn.kv.put(key, &removal.encode(), check)?;
        let key = pending_key(primary, generation);
        self.txn.kv.delete(Key::new(space, &key), Check::Blind)?;
        self.note_text_change(table, position, space, |change| change.removed += 1);
        Ok(())
    }

    /// Records what the transaction's commit adds to the work of maintenance.
    fn note_text_change(
        &mut self,
        table: &Table,
        position: usize,
        space: SpaceId,
        note: impl FnOnce(&mut TextChange),
    ) {
        let changes = &mut self.txn.text_changes;
        let known = changes.iter().position(|change| change.space == space);
        let at = known.unwrap_or_else(|| {
            changes.extend(table.text_index(position).map(|index| TextChange {
                space,
                index: index.clone(),
                pending: 0,
                searched: 0,
                removed: 0,
            }));
            changes.len().saturating_sub(1)
        });
        if let Some(change) = changes.get_mut(at) {
            note(change);
        }
    }
}
