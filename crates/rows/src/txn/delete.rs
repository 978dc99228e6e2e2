//! DELETE of rows that the caller has locked and read.
//!
//! Rows and the unique entries that they remove are locked exclusively in one call *before* the
//! scan for children, so that no child's parent check can be granted any more (transactions.md,
//! rule 12). Then the children are found level by level ([`super::cascade`]), checked, and written.

use super::Statement;
use super::cascade::Effects;
use super::gather::gather_unique;
use super::keyset::KeySet;
use crate::Result;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use porpoise_kv::LockMode;
use std::sync::Arc;

/// Result of a DELETE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// Rows of the call that were deleted, not counting those that a cascade from an earlier row
    /// had deleted (as in MySQL).
    pub deleted: u64,
    /// Rows that cascades deleted or changed.
    pub cascaded: u64,
}

/// Adds the unique entries of a deleted row to the keys to lock exclusively.
pub(crate) fn gather_deleted(table: &Table, old: &RowRef<'_>, keys: &mut KeySet) {
    for position in &table.derived().unique_indexes {
        gather_unique(table, *position, old, keys);
    }
}

impl Statement<'_> {
    /// Deletes the rows.
    pub(super) fn delete_rows(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
    ) -> Result<DeleteOutcome> {
        for (primary, old) in &rows {
            // Without referencing tables, the caller's lock is enough.
            if !table.referenced_by.is_empty() {
                self.keys
                    .add(table.space(0, primary), primary, LockMode::Exclusive);
            }
            gather_deleted(table, &old.row(table)?, &mut self.keys);
        }
        self.lock_keys()?;
        if table.has_text_index() {
            let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| key.as_slice()).collect();
            self.read_removals(table, &keys)?;
        }
        if !self.txn.settings.foreign_key_checks || table.referenced_by.is_empty() {
            for (primary, old) in &rows {
                self.write_deletion(table, primary, old.row(table)?)?;
            }
            return Ok(DeleteOutcome {
                deleted: rows.len() as u64,
                cascaded: 0,
            });
        }
        let mut fx = Effects::of_delete(table, rows);
        self.expand(&mut fx)?;
        let deleted = fx.simulate()?;
        // Rows of the call that a cascade from an earlier row has deleted count as cascaded.
        let roots = fx.roots() as u64;
        let cascaded = self.apply(fx)? + (roots - deleted);
        Ok(DeleteOutcome { deleted, cascaded })
    }
}
