//! Capture of a transaction's changes for the change log ([`crate::changes`]).

use super::Txn;
use crate::Result;
use crate::catalog::Catalog;
use crate::changes::{Change, ChangedKeys, LoggedStatement};
use crate::fk::append_parent_key;
use crate::keys::Columns;
use crate::overflow;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::Read;
use porpoise_types::Value;

impl Txn {
    /// Logs the transaction as a statement instead of its row changes: for changes of system tables, whose rows are not
    /// logged.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn log_statement(&mut self, statement: &LoggedStatement) -> Result<()> {
        let Some(log) = self.db.change_log() else {
            return Ok(());
        };
        self.changes = None;
        Ok(self.kv.annotate(log.statement(statement))?)
    }

    /// Gives the engine the annotation of this transaction. Returns the keys of its changes, if it has one.
    pub(crate) fn annotate(&mut self) -> Result<Option<ChangedKeys>> {
        let Some(changes) = self.changes.take() else {
            return Ok(None);
        };
        let Some(log) = self.db.change_log() else {
            return Ok(None);
        };
        if changes.is_empty() {
            return Ok(None);
        }
        let annotation = log.transaction(&changes, self.db.clock().unix_micros());
        self.kv.annotate(annotation)?;
        Ok(Some(changes.keys))
    }

    /// Captures a change for the change log. `old` is the row before it, as it was read; `new` has the values after it, and
    /// the row's version.
    #[inline]
    pub(super) fn capture(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: Option<RowRef<'_>>,
        new: Option<(&[Value], u64)>,
    ) -> Result<()> {
        if self.changes.is_none() {
            return Ok(());
        }
        self.capture_change(table, primary, old, new)
    }

    #[inline(never)]
    fn capture_change(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: Option<RowRef<'_>>,
        new: Option<(&[Value], u64)>,
    ) -> Result<()> {
        let (Some(log), Some(changes)) = (self.db.change_log(), &mut self.changes) else {
            return Ok(());
        };
        // Temporary tables are not in the catalog.
        let describe = || {
            let known = self.db.catalog().tables.contains_key(&table.id);
            known.then(|| log.describe(table)).flatten()
        };
        let Some(number) = changes.table(table, describe) else {
            return Ok(());
        };
        let mark = self.kv.mark();
        let (kv, read) = (self.kv.as_mut(), Read::CURRENT);
        let complete = match &old {
            Some(old) if old.has_overflow() => {
                overflow::complete_row(kv, read, table, primary, old.bytes())?
            }
            _ => None,
        };
        let whole = match &complete {
            Some(bytes) => Some(RowRef::new(table, bytes)?),
            None => old,
        };
        let version = new.map_or(0, |(_, version)| version);
        let change = match (old, whole, new) {
            (Some(old), Some(whole), Some((new, _))) => {
                Change::update(complete.is_some().then_some(old), whole, new)
            }
            (_, Some(whole), None) => Change::delete(whole),
            (_, _, Some((new, _))) => Change::insert(new),
            _ => return Ok(()),
        };
        changes.push(log.as_ref(), mark, (number, table), &change, version);
        // For most tables without changing the reference count.
        let catalog = (!table.foreign_keys.is_empty()).then(|| self.db.catalog());
        let catalog = catalog.as_deref();
        if let Some(old) = &whole {
            add_keys(&mut changes.keys, catalog, table, old);
        }
        if let Some((new, _)) = new {
            add_keys(&mut changes.keys, catalog, table, new);
        }
        Ok(())
    }
}

/// Adds the keys of a row. `catalog` is there if the table has foreign keys.
fn add_keys<C: Columns + ?Sized>(
    keys: &mut ChangedKeys,
    catalog: Option<&Catalog>,
    table: &Table,
    row: &C,
) {
    let mut buffer = Vec::new();
    for (at, index) in table.indexes.iter().enumerate() {
        if !index.kind.is_unique() {
            continue;
        }
        // Without a key any row of the table may be meant, and an index entry may belong to several.
        if at == 0 && table.hidden_key || table.array_column_of(at).is_some() {
            keys.push_table(table.id);
            continue;
        }
        buffer.clear();
        if !index.append_parts(table, row, &mut buffer) {
            keys.push(table.id, at, &buffer, true);
        }
    }
    for key in &table.foreign_keys {
        let Some((at, catalog)) = key.parent.as_ref().zip(catalog) else {
            continue;
        };
        let Some(parent) = catalog.tables.get(&at.table) else {
            continue;
        };
        buffer.clear();
        if !append_parent_key(parent, key, at, row, &mut buffer) {
            keys.push(parent.id, at.index, &buffer, false);
        }
    }
}
