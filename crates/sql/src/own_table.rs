//! Tables that the server keeps for itself, as ordinary, durable tables: written
//! through `rows` like every other, read as a whole.

use crate::error::{Result, SqlError};
use porpoise_kv::{Read, Ticket};
use porpoise_rows::catalog::Table;
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::Value;
use std::sync::Arc;

/// One of them.
pub(crate) struct OwnTable {
    pub(crate) database: &'static str,
    pub(crate) name: &'static str,
    /// How many columns it must have.
    pub(crate) columns: usize,
}

impl OwnTable {
    /// Whether it was made already.
    pub(crate) fn exists(&self, db: &Db) -> bool {
        db.catalog().table(self.database, self.name).is_some()
    }

    fn find(&self, db: &Db) -> Result<Arc<Table>> {
        let found = db.catalog().table(self.database, self.name).cloned();
        let found = found.ok_or_else(|| SqlError::no_table(self.database, self.name))?;
        match found.columns.len() == self.columns {
            true => Ok(found),
            false => Err(SqlError::internal(&format!(
                "table {}.{} is not laid out as expected",
                self.database, self.name
            ))),
        }
    }

    /// All rows, as `read` makes of them.
    ///
    /// # Errors
    /// The table is not there, or reading it failed.
    pub(crate) fn rows<T>(&self, db: &Arc<Db>, read: impl Fn(&RowRef<'_>) -> T) -> Result<Vec<T>> {
        let table = self.find(db)?;
        let mut txn = db.begin(BeginOptions::default())?;
        let spec = ScanSpec {
            index: 0,
            ranges: vec![KeyRange::ALL],
            reverse: false,
            entries_only: false,
        };
        let mut position = ScanPosition::default();
        let mut list = Vec::new();
        while txn.scan(
            &table,
            &spec,
            Read::SNAPSHOT,
            &mut position,
            1000,
            &mut |_, row| list.push(read(&row)),
        )? {}
        txn.rollback();
        Ok(list)
    }

    /// Puts rows in place of those with the same primary key, and deletes those
    /// with the primary keys of others, in one durable transaction.
    ///
    /// # Errors
    /// The table is not there, or writing failed; then nothing is written.
    pub(crate) fn write(
        &self,
        db: &Arc<Db>,
        put: Vec<Vec<Value>>,
        remove: Vec<Vec<Value>>,
    ) -> Result<Ticket> {
        let table = self.find(db)?;
        let mut txn = db.begin(BeginOptions {
            sync: true,
            ..BeginOptions::default()
        })?;
        if !remove.is_empty() {
            let mut keys: Vec<Vec<u8>> = remove.iter().map(|r| table.primary_key(r)).collect();
            keys.sort_unstable();
            keys.dedup();
            let gone = txn.lock_present(&table, &keys, |_| true)?;
            txn.delete(&table, gone)?;
        }
        if !put.is_empty() {
            txn.insert(&table, put, InsertMode::Replace)?;
        }
        Ok(txn.commit()?.ticket)
    }
}
