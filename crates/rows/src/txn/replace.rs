//! Replacement of rows by patched copies of their bytes: memcached's `set`.
//!
//! An UPDATE decodes a row to values, and encodes them again. A `set` of a mapped table sets a few columns regardless of their
//! old values, so that the new row is the old one with some bytes replaced ([`crate::row`]). The caller builds it while the lock
//! call shows the row's bytes, and passes it to [`Txn::replace_rows`].
//!
//! Invariants:
//! 1. [`Table::can_replace_columns`] holds: no index entry, constraint, expression or trigger depends on the replaced columns, so
//!    that only the row itself is written.
//! 2. Rows have the table's current layout, and no overflow values.

use super::Txn;
use crate::Result;
use crate::definition::Index;
use crate::error::Error;
use crate::row::{RowRef, append_patched, set_version};
use crate::table::{AccessKind, Table};
use porpoise_kv::{Check, Key};
use porpoise_types::ValueRef;
use smallvec::SmallVec;

/// New rows for [`Txn::replace_rows`], each with the number of its key.
#[derive(Debug, Default)]
pub struct ReplacedRows {
    bytes: Vec<u8>,
    /// Number of the key, and end of the row in `bytes`.
    rows: SmallVec<[(usize, usize); 16]>,
}

impl ReplacedRows {
    /// Reserves space for `rows` rows with `bytes` bytes in their replaced columns.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        const USUAL_OTHER_BYTES: usize = 64;
        self.bytes.reserve(rows * USUAL_OTHER_BYTES + bytes);
    }

    /// Adds a copy of `row`, the row of the key with this number, in which the columns at these positions have these values.
    /// Returns false if that needs more than a copy; then the caller changes the row by [`Txn::update`].
    pub fn push(
        &mut self,
        number: usize,
        row: &RowRef<'_>,
        values: &[(usize, ValueRef<'_>)],
    ) -> bool {
        let done = append_patched(row, values, &mut self.bytes).is_some();
        if done {
            self.rows.push((number, self.bytes.len()));
        }
        done
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Table {
    /// Whether rows in which only these columns change may be replaced by [`Txn::replace_rows`].
    pub fn can_replace_columns(&self, columns: &[usize]) -> bool {
        let is_independent = |index: &Index| {
            let mut parts = index.parts.iter();
            !index.is_full_text() && parts.all(|part| !columns.contains(&part.column))
        };
        !self.hidden_key
            && self.partitioning.is_none()
            && self.foreign_keys.is_empty()
            && self.referenced_by.is_empty()
            && !self.evaluates_expressions()
            && self.unfinished.changed_rows.is_none()
            && self
                .maintained_indexes()
                .all(|(_, index)| is_independent(index))
            && self
                .auto_increment()
                .is_none_or(|at| !columns.contains(&at))
    }
}

impl Txn {
    /// Whether [`Txn::replace_rows`] may write to a table for which [`Table::can_replace_columns`] holds: neither the change log
    /// nor triggers need the values of its rows.
    pub fn can_replace_rows(&self, table: &Table) -> bool {
        self.changes.is_none() && !self.fires(table)
    }

    /// Replaces rows that this transaction has locked. `keys` has the primary keys by number. `version_column` is set to the new
    /// row version.
    ///
    /// # Errors
    /// Those of the engine; [`Error::RowTooBig`]; [`Error::BadValue`] if the version does not fit its column. Nothing is written
    /// then.
    pub fn replace_rows(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        rows: &mut ReplacedRows,
        version_column: Option<usize>,
    ) -> Result<()> {
        let count = rows.rows.len() as u64;
        self.accesses.updated += count;
        table.accesses().add(AccessKind::Update, count);
        self.statement(table, None, |statement| {
            let txn = &mut *statement.txn;
            txn.check_cancel()?;
            txn.check_not_busy(table)?;
            txn.check_writable(table)?;
            txn.note_written(table);
            let version = txn.row_version()?;
            let space = table.space(0, &[]);
            txn.kv.reserve_writes(rows.rows.len());
            let mut start = 0;
            for (number, end) in &rows.rows {
                let row = rows.bytes.get_mut(start..*end).unwrap_or_default();
                start = *end;
                if row.len() > txn.db.row_limit {
                    let (size, limit) = (row.len(), txn.db.row_limit);
                    return Err(Error::RowTooBig { size, limit });
                }
                set_version(table, row, version, version_column)
                    .ok_or_else(|| bad_version(table, version_column))?;
                let key = keys.get(*number).copied().unwrap_or_default();
                txn.kv.put(Key::new(space, key), row, Check::Locked)?;
            }
            Ok(())
        })
    }
}

#[cold]
fn bad_version(table: &Table, column: Option<usize>) -> Error {
    let column = column.and_then(|at| table.columns.get(at));
    Error::BadValue {
        column: column.map(|c| c.name.clone()).unwrap_or_default(),
    }
}
