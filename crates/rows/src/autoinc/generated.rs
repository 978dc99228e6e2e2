//! The generated ids of one statement: those of rows that are not inserted go to
//! the rows after them (invariant 5 of [`super`]).
//!
//! 1. Ids are given in ascending order, each at most once.
//! 2. An explicit value leaves the ids below it behind, as it does in MySQL.

use super::{column_value, explicit};
use crate::table::Table;
use porpoise_types::Value;
use std::collections::VecDeque;

/// The ids generated for the rows of one statement, so that those of rows that
/// are not inserted can go to rows after them (see the module).
#[derive(Clone, Debug, Default)]
pub struct GeneratedIds {
    /// Of the column; nothing was generated without one.
    position: Option<usize>,
    /// By row: it asked for an id.
    asked: Vec<bool>,
    /// Not used yet, ascending.
    ids: VecDeque<u64>,
    /// The first one used.
    first: Option<u64>,
    /// That of the last row inserted.
    last: Option<u64>,
}

impl GeneratedIds {
    /// Looks at the rows as the statement gives them, before
    /// [`crate::Txn::assign_auto_increment`].
    pub fn before(table: &Table, rows: &[Vec<Value>]) -> GeneratedIds {
        let position = table.auto_increment();
        let asks = |at: usize, row: &Vec<Value>| {
            row.get(at)
                .is_none_or(|v| explicit(v, true).is_none_or(|n| n == 0 && !is_negative(v)))
        };
        GeneratedIds {
            position,
            asked: match position {
                Some(at) => rows.iter().map(|row| asks(at, row)).collect(),
                None => Vec::new(),
            },
            ..GeneratedIds::default()
        }
    }

    /// Looks at them again, after. A 0 that stayed one was asked for as 0.
    pub fn after(mut self, rows: &[Vec<Value>]) -> GeneratedIds {
        if let Some(at) = self.position {
            for (row, asked) in rows.iter().zip(&mut self.asked) {
                let id = row.get(at).and_then(|v| explicit(v, false));
                *asked &= id.is_some();
                self.ids.extend(id.filter(|_| *asked));
            }
        }
        self
    }

    /// Forgets rows that are not to be inserted; their ids go on.
    pub fn keep_rows(&mut self, kept: impl Fn(usize) -> bool) {
        let mut at = 0;
        self.asked.retain(|_| {
            at += 1;
            kept(at - 1)
        });
    }

    /// Whether the row asked for its id.
    pub fn generated(&self, row: usize) -> bool {
        self.asked.get(row).copied().unwrap_or(false)
    }

    /// The value of a row in the table's auto-increment column as an id;
    /// nothing for tables without one and for negative values.
    pub fn id_of(&self, row: &[Value]) -> Option<u64> {
        let value = row.get(self.position?)?;
        explicit(value, true).filter(|_| !is_negative(value))
    }

    /// The id that a row should have in place of the one it has, with the
    /// column's position: one that a row before it left.
    pub fn left_over(&mut self, table: &Table, n: usize, row: &[Value]) -> Option<(usize, Value)> {
        let position = self.position?;
        let own = self.id_of(row)?;
        if !self.generated(n) {
            // Ids below an explicit value stay behind.
            self.leave_behind(own);
            return None;
        }
        let id = *self.ids.front().filter(|id| **id < own)?;
        Some((position, column_value(table.columns.get(position)?, id)))
    }

    /// Takes note that a row was inserted.
    pub fn used(&mut self, n: usize, row: &[Value]) {
        let Some(id) = self.id_of(row) else {
            return;
        };
        self.leave_behind(id);
        if self.generated(n) {
            self.first.get_or_insert(id);
        }
        self.last = Some(id);
    }

    /// Takes note that a row with this id was changed in place of one that was to be inserted.
    pub fn changed(&mut self, id: Option<u64>) {
        self.last = id.or(self.last);
    }

    /// Ids up to this one are not given to later rows.
    fn leave_behind(&mut self, up_to: u64) {
        while self.ids.front().is_some_and(|id| *id <= up_to) {
            self.ids.pop_front();
        }
    }

    /// What `LAST_INSERT_ID()` becomes: the id generated for the first row that
    /// was really inserted (manual, "Information Functions"); rows that IGNORE
    /// skipped and rows that ON DUPLICATE KEY UPDATE changed do not count.
    pub fn first_generated(&self) -> Option<u64> {
        self.first
    }

    /// The id of the last row inserted, given or generated, or changed in the place of one: what
    /// a reply tells where nothing was generated (C API, `mysql_insert_id`).
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
