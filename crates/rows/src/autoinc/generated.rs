//! The generated ids of one statement. Ids of rows that are not inserted are reused for later rows
//! (invariant 5 of [`super`]).
//!
//! 1. Ids are given in ascending order, each at most once.
//! 2. After an explicit value, smaller left-over ids are not used, as in MySQL.

use super::{column_value, explicit_value};
use crate::table::Table;
use porpoise_types::Value;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The ids generated for the rows of one statement. Ids of rows that are not inserted are reused
/// for later rows.
#[derive(Clone, Debug, Default)]
pub struct GeneratedIds {
    /// Position of the auto-increment column; `None` if the table has none.
    position: Option<usize>,
    /// For each row, whether it needs a generated id.
    needs_id: SmallVec<[bool; 8]>,
    /// Unused ids, ascending.
    ids: VecDeque<u64>,
    /// The first one used.
    first: Option<u64>,
    /// The id of the last row inserted.
    last: Option<u64>,
    /// The id of each row inserted, if they are recorded.
    recorded: Option<Vec<u64>>,
}

impl GeneratedIds {
    /// Records which rows need an id. Called before [`crate::Txn::assign_auto_increment`].
    pub fn from_input(table: &Table, rows: &[Vec<Value>]) -> GeneratedIds {
        let position = table.auto_increment();
        let asks = |at: usize, row: &Vec<Value>| {
            row.get(at)
                .is_none_or(|v| explicit_value(v, true).is_none_or(|n| n == 0 && !is_negative(v)))
        };
        GeneratedIds {
            position,
            needs_id: match position {
                Some(at) => rows.iter().map(|row| asks(at, row)).collect(),
                None => SmallVec::new(),
            },
            ..GeneratedIds::default()
        }
    }

    /// Records the ids that were assigned. A row whose 0 was kept had the explicit value 0.
    pub fn with_assigned(mut self, rows: &[Vec<Value>]) -> GeneratedIds {
        if let Some(at) = self.position {
            for (row, needs_id) in rows.iter().zip(&mut self.needs_id) {
                let id = row.get(at).and_then(|v| explicit_value(v, false));
                *needs_id &= id.is_some();
                // No row follows an only one.
                self.ids.extend(id.filter(|_| *needs_id && rows.len() > 1));
            }
        }
        self
    }

    /// Lets the id of each row that is inserted be recorded.
    pub fn recording(mut self) -> GeneratedIds {
        self.recorded = Some(Vec::with_capacity(self.needs_id.len()));
        self
    }

    /// The recorded ids in the order of the rows, negative values in 64 bits of two's complement.
    pub fn into_recorded(self) -> Vec<u64> {
        self.recorded.unwrap_or_default()
    }

    /// Removes rows that are not inserted. Their ids remain available for later rows.
    pub fn keep_rows(&mut self, kept: impl Fn(usize) -> bool) {
        let mut at = 0;
        self.needs_id.retain(|_| {
            at += 1;
            kept(at - 1)
        });
    }

    /// Whether the row's id is generated.
    pub fn is_generated(&self, row: usize) -> bool {
        self.needs_id.get(row).copied().unwrap_or(false)
    }

    /// Returns the value of the auto-increment column as an id; `None` for tables without one and
    /// for negative values.
    pub fn id_of(&self, row: &[Value]) -> Option<u64> {
        let value = row.get(self.position?)?;
        explicit_value(value, true).filter(|_| !is_negative(value))
    }

    /// Returns the left-over id of an earlier row that replaces this row's id, if there is one,
    /// with the column's position.
    pub fn reassigned_id(
        &mut self,
        table: &Table,
        n: usize,
        row: &[Value],
    ) -> Option<(usize, Value)> {
        let position = self.position?;
        let own = self.id_of(row)?;
        if !self.is_generated(n) {
            // Left-over ids below an explicit value are not used.
            self.drop_reusable_up_to(own);
            return None;
        }
        let id = *self.ids.front().filter(|id| **id < own)?;
        Some((position, column_value(table.columns.get(position)?, id)))
    }

    /// Records that a row was inserted.
    pub fn note_inserted(&mut self, n: usize, row: &[Value]) {
        let Some(id) = self.id_of(row) else {
            // As in MySQL, the reply has a negative value in 64 bits of two's complement.
            let value = self.position.and_then(|at| row.get(at));
            let id = match value {
                Some(Value::Int(id)) => Some(id.cast_unsigned()),
                _ => None,
            };
            self.last = id.or(self.last);
            self.record(id.unwrap_or(0));
            return;
        };
        self.drop_reusable_up_to(id);
        if self.is_generated(n) {
            self.first.get_or_insert(id);
        }
        self.last = Some(id);
        self.record(id);
    }

    fn record(&mut self, id: u64) {
        if let Some(all) = &mut self.recorded {
            all.push(id);
        }
    }

    /// Records that a row with this id was changed in place of an insertion.
    pub fn note_updated(&mut self, id: Option<u64>) {
        self.last = id.or(self.last);
    }

    /// Drops left-over ids up to this one.
    fn drop_reusable_up_to(&mut self, up_to: u64) {
        while self.ids.front().is_some_and(|id| *id <= up_to) {
            self.ids.pop_front();
        }
    }

    /// The new value of `LAST_INSERT_ID()`: the id generated for the first row that was inserted
    /// (manual, "Information Functions"). Rows that IGNORE skipped or that ON DUPLICATE KEY UPDATE
    /// changed do not count.
    pub fn first_generated(&self) -> Option<u64> {
        self.first
    }

    /// The id, explicit or generated, of the last row that was inserted or changed in place of an
    /// insertion. The reply has it if no id was generated (C API, `mysql_insert_id`).
    pub fn last_of_row(&self) -> Option<u64> {
        self.last
    }
}

fn is_negative(value: &Value) -> bool {
    match value {
        Value::Int(v) => *v < 0,
        Value::Double(v) => *v < 0.0,
        _ => false,
    }
}
