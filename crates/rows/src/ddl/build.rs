//! Builds a new index and validates a new foreign key from the existing rows. The caller's metadata
//! barrier excludes writers of the table; readers of other tables are not affected. Both read in
//! batches ([`super::walk`]), each with one engine call for its look-ups.

use super::DdlCx;
use super::walk::Batch;
use crate::catalog::derive;
use crate::db::Db;
use crate::definition::ForeignKey;
use crate::error::{Error, Result};
use crate::fk;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{self as kv, Check, Key, Read, TxnOptions};
use std::collections::HashSet;

impl Db {
    /// Writes the entries of the index of `after` at a position, for all rows of `before`.
    pub(super) fn build_index(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        position: usize,
    ) -> Result<()> {
        let Some(index) = after.indexes.get(position) else {
            return Ok(());
        };
        if let Some(text_index) = after.text_index(position) {
            return self.build_text_index(cx, before, after, index, text_index);
        }
        self.for_each_batch(cx, before, |batch| {
            let mut entries = Vec::with_capacity(batch.len());
            for (primary, bytes) in batch {
                let row = RowRef::new(after, bytes)?;
                let found = after.whole_entries(position, &row, primary);
                entries.extend(found.into_iter().map(|entry| (row, entry)));
            }
            let unique = entries.iter().filter(|(_, entry)| entry.exclusive);
            let key = |entry| Key::new(after.space(position, entry), entry);
            let unique: Vec<Key<'_>> = unique.map(|(_, entry)| key(&entry.key)).collect();
            let mut taken: HashSet<Key<'_>> = HashSet::with_capacity(unique.len());
            let mut txn = self.engine().begin(TxnOptions::default())?;
            if !unique.is_empty() {
                txn.get(Read::CURRENT, &unique, &mut |n, value| {
                    taken.extend(unique.get(n).filter(|_| value.is_some()));
                })?;
            }
            for (row, entry) in &entries {
                let key = key(&entry.key);
                if entry.exclusive && !taken.insert(key) {
                    return Err(after.duplicate_of_key(position, row, &entry.key));
                }
                txn.put(key, &entry.value, Check::Blind)?;
            }
            let commit = txn.commit()?;
            self.engine().wait_durable(commit.position)?;
            Ok(())
        })
    }

    /// 1452 if a row of `table` has no parent.
    pub(super) fn validate_foreign_key(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        key: &ForeignKey,
    ) -> Result<()> {
        self.for_each_batch(cx, table, |batch| {
            let mut txn = self.engine().begin(TxnOptions::default())?;
            let read = Read::CURRENT;
            let outcome = self.orphans(table, key, batch, txn.as_mut(), read, &mut |_| {
                Err(Error::NoReferencedRow {
                    constraint: fk::constraint_text(table, key),
                })
            });
            txn.rollback();
            outcome
        })
    }

    /// Calls `report` with the primary key of each row of the batch whose parent under
    /// `key` is missing in the state that is read.
    ///
    /// # Errors
    /// The engine's; those of `report`.
    pub(crate) fn orphans(
        &self,
        table: &Table,
        key: &ForeignKey,
        batch: &Batch,
        txn: &mut dyn kv::Txn,
        read: Read,
        report: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let catalog = self.catalog();
        let own = key.parent_database == table.database && key.parent_table == table.name;
        let parent = if own {
            Some(table)
        } else {
            let found = catalog.table(&key.parent_database, &key.parent_table);
            found.map(|t| t.as_ref())
        };
        let link = parent.and_then(|p| Some((p, derive::resolve_parent(p, key)?)));
        let mut probes: Vec<(&[u8], Vec<u8>)> = Vec::with_capacity(batch.len());
        for (pk, row) in batch {
            let row = RowRef::new(table, row)?;
            if key.columns.iter().any(|c| row.get(*c).is_null()) {
                continue;
            }
            match &link {
                None => report(pk)?,
                Some((parent, link)) => {
                    let mut probe = Vec::new();
                    fk::append_parent_key(parent, key, link, &row, &mut probe);
                    probes.push((pk, probe));
                }
            }
        }
        let Some((parent, link)) = &link else {
            return Ok(());
        };
        let wanted: Vec<Key<'_>> = probes
            .iter()
            .map(|(_, probe)| Key::new(parent.space(link.index, probe), probe))
            .collect();
        let mut exists = vec![false; wanted.len()];
        txn.get(read, &wanted, &mut |at, value| {
            if let Some(exists) = exists.get_mut(at) {
                *exists = value.is_some();
            }
        })?;
        let missing = probes.iter().zip(&exists).filter(|(_, exists)| !**exists);
        missing.map(|((pk, _), _)| *pk).try_for_each(report)
    }
}
