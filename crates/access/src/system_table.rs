//! Access to system tables: ordinary, durable tables that the server maintains. They are
//! written through `rows` like other tables and are always read completely.

use crate::{Error, Result};
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::catalog::{ColumnDefault, Table};
use porpoise_rows::changes::LoggedStatement;
use porpoise_rows::ddl::{ColumnSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;

/// A column of text that is empty by default and compared byte by byte.
pub(crate) fn text_column(name: &str, length: u32) -> ColumnSpec {
    ColumnSpec {
        default: Some(ColumnDefault::Literal(Value::Bytes(Vec::new()))),
        ..ColumnSpec::new(name, ColumnType::varchar(length, Collation::UTF8MB4_BIN)).not_null()
    }
}

/// The bytes in a column of a row; empty where the column is NULL.
pub(crate) fn bytes_of(row: &RowRef<'_>, column: usize) -> Vec<u8> {
    match row.get(column) {
        ValueRef::Bytes(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

/// The text in a column of a row; empty where the column is NULL.
pub(crate) fn text_of(row: &RowRef<'_>, column: usize) -> String {
    String::from_utf8_lossy(&bytes_of(row, column)).into_owned()
}

/// A system table.
pub(crate) struct SystemTable {
    pub(crate) database: &'static str,
    pub(crate) name: &'static str,
    /// Number of columns.
    pub(crate) column_count: usize,
}

impl SystemTable {
    /// Whether the table exists.
    pub(crate) fn exists(&self, db: &Db) -> bool {
        db.catalog().table(self.database, self.name).is_some()
    }

    /// Creates the table by `spec` if it does not exist, and waits until it is durable. Two callers may
    /// do it at the same time.
    ///
    /// # Errors
    /// Creating it failed.
    pub(crate) fn ensure(&self, db: &Arc<Db>, spec: impl Fn() -> TableSpec) -> Result<()> {
        if self.exists(db) {
            return Ok(());
        }
        match db.define(|cx| db.create_table(cx, &spec())) {
            Ok(done) => Ok(db.engine().wait_durable(done.position)?),
            // Another caller was first.
            Err(_) if self.exists(db) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn find(&self, db: &Db) -> Result<Arc<Table>> {
        let found = db.catalog().table(self.database, self.name).cloned();
        let found = found.ok_or_else(|| no_table(self))?;
        if found.columns.len() == self.column_count {
            Ok(found)
        } else {
            Err(internal(&format!(
                "table {}.{} does not have the expected columns",
                self.database, self.name
            )))
        }
    }

    /// All rows, decoded by `read`.
    ///
    /// # Errors
    /// The table does not exist or has other columns, or reading it failed.
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
}

/// Error 1815 (internal error): an invariant of this server does not hold.
pub(crate) fn internal(message: &str) -> Error {
    Error::refused(1815, "HY000", format!("Internal error: {message}"))
}

fn no_table(table: &SystemTable) -> Error {
    let text = format!("Table '{}.{}' doesn't exist", table.database, table.name);
    Error::refused(1146, "42S02", text)
}

/// Changes to the rows of one system table.
pub(crate) struct TableChange {
    pub(crate) table: &'static SystemTable,
    /// Rows that replace those with the same primary key.
    pub(crate) put: Vec<Vec<Value>>,
    /// Rows whose primary keys are deleted.
    pub(crate) remove: Vec<Vec<Value>>,
}

/// Applies changes to several tables in one transaction, synced also in `interval` mode.
/// Returns its commit position, for which the caller waits.
///
/// # Errors
/// A table does not exist, or writing failed; then nothing is written.
pub(crate) fn write(db: &Arc<Db>, changes: Vec<TableChange>) -> Result<CommitPosition> {
    write_logged(db, changes, None)
}

/// As [`write()`], with a statement for the change log.
///
/// # Errors
/// As [`write()`].
pub(crate) fn write_logged(
    db: &Arc<Db>,
    changes: Vec<TableChange>,
    statement: Option<&LoggedStatement>,
) -> Result<CommitPosition> {
    let mut txn = db.begin(BeginOptions {
        sync: true,
        ..BeginOptions::default()
    })?;
    for change in changes {
        let table = change.table.find(db)?;
        if !change.remove.is_empty() {
            let keys = change.remove.iter().map(|r| table.primary_key(r));
            let mut keys: Vec<Vec<u8>> = keys.collect();
            keys.sort_unstable();
            keys.dedup();
            let to_delete = txn.lock_present(&table, &keys, |_| true)?;
            txn.delete(&table, to_delete)?;
        }
        if !change.put.is_empty() {
            txn.insert(&table, change.put, InsertMode::Replace)?;
        }
    }
    if let Some(statement) = statement {
        txn.log_statement(statement)?;
    }
    Ok(txn.commit()?.position)
}
