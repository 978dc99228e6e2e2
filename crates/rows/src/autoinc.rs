//! Auto-increment: ids from ranges reserved in the engine.
//!
//! A table's counter has the unused rest of the last reserved range. A statement takes all its ids
//! under the counter's latch. When the range is used up, it reserves another from the engine, of
//! the prefetch size or of the number of ids it needs, whichever is greater.
//!
//! Invariants:
//! 1. An id is handed out at most once, also after a crash and by several
//!    servers: ids come from [`porpoise_kv::Engine::reserve_ids`] only.
//! 2. The ids generated for one statement are consecutive (in steps of the
//!    increment), unless an explicit value in between pushes the counter.
//! 3. An explicit value raises the counter above itself before its row is written. Another server
//!    may still generate smaller ids that it has already reserved: if a row has such an id by then,
//!    the generated one is replaced ([`Counters::renew`]).
//! 4. Nothing is reserved whose ids lie beyond `u64::MAX`; a column's own
//!    range is checked before its id is handed out (1467).
//! 5. An id whose row was not inserted (IGNORE skipped it, ON DUPLICATE KEY UPDATE changed another
//!    row) goes to the next row of the statement that needs one. Ids left over at the end are lost,
//!    as in MySQL.
//! 6. A clean shutdown returns the unused rest to the engine.
//!
//! Rejected: locking the counter until the end of the statement (InnoDB's lock mode 1), because
//! here the number of rows is known before ids are taken.

mod column;
mod generated;
mod reserved;
mod series;

use crate::Result;
use crate::table::Table;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use porpoise_kv::{CounterId, Engine};
use porpoise_types::Value;
use std::ops::Range;
use std::sync::Arc;

use column::explicit_value;
use reserved::Reserved;
use series::Series;

pub(crate) use column::{column_max, column_value};
pub use generated::GeneratedIds;

/// Options for the generation of ids, from session variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoIncOptions {
    /// `auto_increment_increment`, at least 1.
    pub increment: u64,
    /// `auto_increment_offset`; ignored (1) when greater than the increment.
    pub offset: u64,
    /// `auto_increment_prefetch`: number of ids to reserve at a time, 1 to 65,536. The default is
    /// 256; more brings no measurable gain, because the engine also reserves ahead (decision 0006).
    pub prefetch: u64,
    /// Whether 0 is stored as 0 (SQL mode NO_AUTO_VALUE_ON_ZERO).
    pub no_auto_value_on_zero: bool,
    /// `insert_id`: the statement's first id; 0 if not set.
    pub first: u64,
}

impl Default for AutoIncOptions {
    fn default() -> AutoIncOptions {
        AutoIncOptions {
            increment: 1,
            offset: 1,
            prefetch: 256,
            no_auto_value_on_zero: false,
            first: 0,
        }
    }
}

/// The counters of all tables used since the start.
#[derive(Default)]
pub(crate) struct Counters {
    all: RwLock<HashMap<CounterId, Arc<Mutex<Reserved>>>>,
}

impl Counters {
    fn counter(&self, id: CounterId) -> Arc<Mutex<Reserved>> {
        if let Some(counter) = self.all.read().get(&id) {
            return counter.clone();
        }
        self.all.write().entry(id).or_default().clone()
    }

    /// Fills in the ids of a statement's rows, and raises the counter above explicit values.
    /// Returns the first id generated.
    pub(crate) fn assign(
        &self,
        engine: &dyn Engine,
        table: &Table,
        rows: &mut [Vec<Value>],
        options: AutoIncOptions,
    ) -> Result<Option<u64>> {
        let Some(position) = table.auto_increment() else {
            return Ok(None);
        };
        let Some(column) = table.columns.get(position) else {
            return Ok(None);
        };
        let series = Series::new(table, column, position, options);
        let mut wanted = rows.iter().filter(|r| series.is_generated(r)).count() as u64;
        let mut first = None;
        if options.first != 0 && wanted > 0 {
            first = Some(options.first);
            series.fill_from_insert_id(rows, options.first)?;
            wanted = 0;
        }
        let counter = self.counter(table.counter);
        let mut reserved = counter.lock();
        let mut pushed = false;
        for row in rows {
            let Some(value) = row.get_mut(position) else {
                continue;
            };
            if let Some(given) = explicit_value(value, options.no_auto_value_on_zero) {
                if given >= reserved.next && given <= series.max {
                    reserved.next = given + 1;
                    pushed |= reserved.next > reserved.end;
                    reserved.end = reserved.end.max(reserved.next);
                }
                continue;
            }
            let id = series.take(engine, &mut reserved, wanted, &mut pushed)?;
            wanted -= 1;
            first.get_or_insert(id);
            *value = column_value(column, id);
        }
        if pushed {
            let next = reserved.next;
            reserved.raise(engine, table.counter, series.prefetch, next)?;
        }
        Ok(first)
    }

    /// Another id in the place of a generated one that a row of another server has, given explicitly.
    /// After a few attempts the rest of the reserved range is given up, for that server may have used
    /// many of its ids.
    pub(crate) fn renew(
        &self,
        engine: &dyn Engine,
        table: &Table,
        attempt: usize,
    ) -> Result<Option<(usize, Value)>> {
        const ATTEMPTS: usize = 4;
        let position = table.auto_increment();
        let Some((position, column)) = position.and_then(|at| Some((at, table.columns.get(at)?)))
        else {
            return Ok(None);
        };
        let series = Series::new(table, column, position, AutoIncOptions::default());
        let counter = self.counter(table.counter);
        let mut reserved = counter.lock();
        if attempt >= ATTEMPTS {
            *reserved = Reserved::default();
        }
        let id = series.take(engine, &mut reserved, 1, &mut false)?;
        Ok(Some((position, column_value(column, id))))
    }

    /// Raises the counter above a value that an UPDATE stored.
    pub(crate) fn raise_above(
        &self,
        engine: &dyn Engine,
        table: &Table,
        value: &Value,
    ) -> Result<()> {
        let given = explicit_value(value, true).unwrap_or(0);
        let max = table
            .auto_increment()
            .and_then(|p| table.columns.get(p))
            .map_or(0, column_max);
        let counter = self.counter(table.counter);
        let mut reserved = counter.lock();
        if given >= reserved.next && given <= max {
            if given + 1 < reserved.end {
                reserved.next = given + 1;
            } else {
                reserved.raise(engine, table.counter, 1, given + 1)?;
            }
        }
        Ok(())
    }

    /// Takes `count` hidden row ids, and returns the first.
    pub(crate) fn take_hidden_ids(
        &self,
        engine: &dyn Engine,
        table: &Table,
        count: u64,
    ) -> Result<u64> {
        const PREFETCH: u64 = 4096;
        let id = hidden_counter(table);
        let counter = self.counter(id);
        let mut reserved = counter.lock();
        if reserved.end - reserved.next < count || reserved.next == 0 {
            let at_least = reserved.next;
            reserved.refill(engine, id, count, PREFETCH, at_least)?;
        }
        let first = reserved.next;
        reserved.next += count;
        Ok(first)
    }

    /// Returns the next id without taking it.
    pub(crate) fn peek(&self, engine: &dyn Engine, table: &Table) -> Result<u64> {
        let counter = self.counter(table.counter);
        let reserved = counter.lock();
        if reserved.next != 0 && reserved.next < reserved.end {
            return Ok(reserved.next);
        }
        Ok(engine.next_id(table.counter)?)
    }

    /// Sets the next id, upwards or downwards.
    pub(crate) fn set_next(&self, engine: &dyn Engine, id: CounterId, next: u64) -> Result<()> {
        let counter = self.counter(id);
        let mut reserved = counter.lock();
        *reserved = Reserved::default();
        Ok(engine.set_next_id(id, next.max(1))?)
    }

    /// Forgets a dropped table's counters.
    pub(crate) fn forget(&self, table: &Table) {
        let mut all = self.all.write();
        all.remove(&table.counter);
        all.remove(&hidden_counter(table));
    }

    /// Returns the unused ids of all counters to the engine.
    pub(crate) fn return_all(&self, engine: &dyn Engine) {
        let all: Vec<_> = self
            .all
            .read()
            .iter()
            .map(|(id, c)| (*id, c.clone()))
            .collect();
        for (id, counter) in all {
            let mut reserved = counter.lock();
            let rest: Range<u64> = reserved.next..reserved.end;
            if reserved.next != 0 && !rest.is_empty() {
                // Ids that cannot be returned are lost, which is harmless.
                if let Err(error) = engine.return_ids(id, rest) {
                    tracing::warn!(%error, counter = id.0, "unused ids could not be returned: they are skipped");
                }
            }
            *reserved = Reserved::default();
        }
    }
}

/// Counter of a table's hidden row ids.
pub(crate) fn hidden_counter(table: &Table) -> CounterId {
    CounterId(table.counter.0 | 1 << 63)
}
