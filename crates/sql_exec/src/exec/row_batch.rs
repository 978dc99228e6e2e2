//! Rows of an INSERT that runs for each row of another statement, as in a trigger: they are evaluated one
//! by one, and written together.
//!
//! Writing rows together locks their keys in one call and appends to the indexes in one pass, which costs
//! half as much as a statement for each row. The order of the rows is kept, so that ids, duplicates and
//! parents among them are as if each had been written at once. The caller guarantees that nothing reads
//! the table meanwhile.

use super::insert::rows_of_values;
use super::state::size_of_row;
use super::{Exec, ExecResult};
use crate::plan::sinks::Insert;
use porpoise_rows::{AutoIncOptions, GeneratedIds, InsertMode, Result, Txn};
use porpoise_types::Value;

/// Number of rows that are written together.
const MAX_ROWS: usize = 1024;

/// Memory of these rows; when it is exceeded, they are written.
const MAX_BYTES: u64 = 1 << 20;

/// Rows that have been evaluated, and not yet written.
#[derive(Debug, Default)]
pub struct RowBatch {
    rows: Vec<Vec<Value>>,
    bytes: u64,
}

impl RowBatch {
    /// Whether the rows of a plan may be written later than they are evaluated: their values depend on
    /// parameters and the statement alone, and a row that cannot be inserted is an error.
    pub fn accepts(plan: &Insert) -> bool {
        let Some(values) = plan.values() else {
            return false;
        };
        plan.mode == InsertMode::Plain
            && plan.on_duplicate.is_empty()
            && plan.partitions.is_none()
            && plan.check.is_none()
            && !plan.default_expressions
            && plan.nested_tables.is_empty()
            && plan.table.triggers.is_empty()
            && !plan.table.has_expressions()
            && values.expressions().iter().all(|e| e.is_fixed())
    }

    /// Whether the rows must be written before others are added.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS || self.bytes >= MAX_BYTES
    }

    /// Evaluates the rows of a plan. Returns their number.
    ///
    /// # Errors
    /// A value does not fit its column.
    pub fn add(&mut self, plan: &Insert, exec: &Exec<'_>) -> ExecResult<u64> {
        let Some(values) = plan.values() else {
            return Ok(0);
        };
        let rows = rows_of_values(plan, values, exec)?;
        let count = rows.len() as u64;
        self.bytes += rows.iter().map(|row| size_of_row(row)).sum::<u64>();
        self.rows.extend(rows);
        Ok(count)
    }

    /// Writes the rows; after an error they are dropped.
    ///
    /// # Errors
    /// Those of [`Txn::insert`].
    pub fn write(&mut self, plan: &Insert, txn: &mut Txn, ids: AutoIncOptions) -> Result<()> {
        self.bytes = 0;
        let mut rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let generated = GeneratedIds::from_input(&plan.table, &rows);
        txn.assign_auto_increment(&plan.table, &mut rows, ids)?;
        let mut ids = generated.with_assigned(&rows);
        txn.insert_with_ids(&plan.table, rows, plan.mode, &mut ids)?;
        Ok(())
    }
}
