//! Which id an INSERT tells its client.
//!
//! `LAST_INSERT_ID()` becomes the id generated for the first row that was
//! really inserted (manual, "Information Functions"): rows that IGNORE skipped
//! and rows that ON DUPLICATE KEY UPDATE changed do not count, and where no
//! row counts it stays as it was, or as `LAST_INSERT_ID(expr)` in the statement
//! left it. The reply's own id is the same one; without any, that of the last
//! row written, whose id the statement gave itself (C API, `mysql_insert_id`).
//!
//! Invariants:
//! 1. A row's id counts as generated when the row asked for one (NULL, 0) and
//!    got another value than 0.

use porpoise_rows::catalog::Table;
use porpoise_types::Value;

use super::Changes;

/// The ids of a statement's rows before and after they were generated.
#[derive(Debug)]
pub(super) struct InsertIds {
    /// Of the column.
    position: Option<usize>,
    /// Ascending.
    generated: Vec<u64>,
}

impl InsertIds {
    /// Where the id is, and which rows as the statement gives them may ask
    /// for one.
    pub(super) fn given(table: &Table, rows: &[Vec<Value>]) -> (Option<usize>, Vec<bool>) {
        let position = table.auto_increment();
        let asks = match position {
            Some(at) => rows
                .iter()
                .map(|row| row.get(at).is_none_or(|v| number(v).is_none_or(|n| n == 0)))
                .collect(),
            None => Vec::new(),
        };
        (position, asks)
    }

    /// The same rows with their ids.
    pub(super) fn new((position, asks): (Option<usize>, Vec<bool>), rows: &[Vec<Value>]) -> Self {
        let mut generated: Vec<u64> = match position {
            Some(at) => rows
                .iter()
                .zip(&asks)
                .filter(|(_, asks)| **asks)
                .filter_map(|(row, _)| row.get(at).and_then(number))
                .filter(|id| *id != 0)
                .collect(),
            None => Vec::new(),
        };
        generated.sort_unstable();
        InsertIds {
            position,
            generated,
        }
    }

    /// The ids of rows, and whether they were generated; nothing for a table
    /// without such a column.
    pub(super) fn of(&self, rows: &[Vec<Value>]) -> Vec<Option<(u64, bool)>> {
        let Some(at) = self.position else {
            return Vec::new();
        };
        let id_of = |row: &Vec<Value>| {
            let id = row.get(at).and_then(number)?;
            Some((id, self.generated.binary_search(&id).is_ok()))
        };
        rows.iter().map(id_of).collect()
    }

    /// Takes note of a row that was inserted.
    pub(super) fn inserted(changes: &mut Changes, id: Option<(u64, bool)>) {
        let Some((id, generated)) = id else {
            return;
        };
        if generated {
            changes.insert_id.get_or_insert(id);
        }
        changes.row_id = Some(id);
    }
}

/// An id as a number; `None` for NULL and negative ones.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::UInt(id) => Some(*id),
        Value::Int(id) => u64::try_from(*id).ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "ids of such columns are whole and below 2^53"
        )]
        Value::Double(id) if *id >= 0.0 => Some(*id as u64),
        _ => None,
    }
}
