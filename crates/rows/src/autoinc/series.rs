//! The ids of one statement: `offset, offset + increment, ...`.

use super::AutoIncOptions;
use super::column::{column_max, column_value, exhausted, explicit_value};
use super::reserved::Reserved;
use crate::Result;
use crate::definition::Column;
use crate::table::Table;
use porpoise_kv::Engine;
use porpoise_types::Value;

/// Returns the smallest value of the series `offset, offset + increment, ...` that is not below
/// `at_least`; `None` beyond `u64`.
fn align(at_least: u64, increment: u64, offset: u64) -> Option<u64> {
    let increment = increment.max(1);
    let offset = if offset == 0 || offset > increment {
        1
    } else {
        offset
    };
    if at_least <= offset {
        return Some(offset);
    }
    let steps = (at_least - offset).div_ceil(increment);
    steps.checked_mul(increment)?.checked_add(offset)
}

/// The column and the options for which a statement's ids are generated.
pub(super) struct Series<'a> {
    table: &'a Table,
    column: &'a Column,
    /// Position of the auto-increment column.
    position: usize,
    options: AutoIncOptions,
    increment: u64,
    /// The greatest id that the column holds.
    pub(super) max: u64,
    /// Number of ids to reserve at a time.
    pub(super) prefetch: u64,
}

impl<'a> Series<'a> {
    pub(super) fn new(
        table: &'a Table,
        column: &'a Column,
        position: usize,
        options: AutoIncOptions,
    ) -> Series<'a> {
        let max = column_max(column);
        Series {
            table,
            column,
            position,
            options,
            increment: options.increment.max(1),
            max,
            // A crash loses the reserved range, so columns of small types reserve few ids.
            prefetch: options.prefetch.clamp(1, 65_536).min(max / 4096 + 1),
        }
    }

    /// Whether a row needs a generated id.
    pub(super) fn is_generated(&self, row: &[Value]) -> bool {
        let zero = self.options.no_auto_value_on_zero;
        row.get(self.position)
            .is_none_or(|v| explicit_value(v, zero).is_none())
    }

    /// Fills in ids from `insert_id` on, which then count as explicit values.
    pub(super) fn fill_from_insert_id(&self, rows: &mut [Vec<Value>], first: u64) -> Result<()> {
        let mut next = first;
        for row in rows.iter_mut().filter(|r| self.is_generated(r)) {
            if next > self.max {
                return Err(exhausted(self.table, self.position, self.max));
            }
            if let Some(value) = row.get_mut(self.position) {
                *value = column_value(self.column, next);
            }
            next = next.saturating_add(self.increment);
        }
        Ok(())
    }

    /// Takes the next id from a range that has room for all `wanted` ids still to be taken, this
    /// one included. If an explicit value has raised the counter beyond that, the range is
    /// replaced.
    pub(super) fn take(
        &self,
        engine: &dyn Engine,
        reserved: &mut Reserved,
        wanted: u64,
        pushed: &mut bool,
    ) -> Result<u64> {
        let span = (wanted - 1).saturating_mul(self.increment);
        let mut id = align(reserved.next, self.increment, self.options.offset);
        let last = id.and_then(|id| id.checked_add(span));
        let fits = last.is_some_and(|last| last < reserved.end);
        if !fits || reserved.next == 0 || *pushed {
            if reserved.next > self.max {
                return Err(exhausted(self.table, self.position, self.max));
            }
            let count = span.saturating_add(self.increment);
            let at_least = reserved.next;
            reserved.refill(engine, self.table.counter, count, self.prefetch, at_least)?;
            *pushed = false;
            id = align(reserved.next, self.increment, self.options.offset);
        }
        // A new range of span + increment ids contains the series, wherever its first member lies.
        let id = id
            .filter(|id| *id <= self.max && *id < reserved.end)
            .ok_or_else(|| exhausted(self.table, self.position, self.max))?;
        reserved.next = id + 1;
        Ok(id)
    }
}
