//! Auto-increment: ids from ranges reserved in the engine.
//!
//! A table's counter holds the rest of the range reserved last. A statement
//! takes all ids it needs under the counter's latch; only when the range is
//! used up it asks the engine for another, of the prefetch size or of what the
//! statement needs, whichever is greater.
//!
//! Invariants:
//! 1. An id is handed out at most once, also after a crash and by several
//!    servers: ids come from [`porpoise_kv::Engine::reserve_ids`] only.
//! 2. The ids generated for one statement are consecutive (in steps of the
//!    increment), unless an explicit value in between pushes the counter.
//! 3. An explicit value pushes the counter above itself before its row is
//!    written; ids below it that are already reserved elsewhere may still be
//!    handed out there.
//! 4. Nothing is reserved whose ids lie beyond `u64::MAX`; a column's own
//!    range is checked before its id is handed out (1467).
//! 5. An id whose row was not inserted after all (IGNORE skipped it, ON DUPLICATE
//!    KEY UPDATE changed another) goes to the next row of the statement that
//!    asked for one; what is left at the end is burnt, as MySQL burns it.
//! 6. A clean shutdown gives the unused rest back.
//!
//! Rejected: locking the counter until the end of the statement (InnoDB's mode
//! 1): row counts are known here before ids are taken.

mod generated;

use crate::catalog::{Column, IndexKind, Table};
use crate::{Error, Result};
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use porpoise_kv::{self as kv, CounterId, Engine};
use porpoise_types::{Kind, Value};
use std::ops::Range;
use std::sync::Arc;

pub use generated::GeneratedIds;

/// How ids are generated; all from session variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoIncOptions {
    /// `auto_increment_increment`, at least 1.
    pub increment: u64,
    /// `auto_increment_offset`; ignored (1) when greater than the increment.
    pub offset: u64,
    /// `auto_increment_prefetch`: how many to reserve at a time, 1 to 65,536.
    /// 256 when not set: the engine reserves ahead, so that more gain nothing
    /// that could be measured (decision 0006).
    pub prefetch: u64,
    /// A 0 is stored as 0.
    pub no_auto_value_on_zero: bool,
    /// `insert_id`: what the statement's first id is to be, when not 0.
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

/// The rest of a reserved range.
#[derive(Default)]
struct Reserved {
    next: u64,
    end: u64,
}

impl Reserved {
    /// Makes at least `next..next + needed` available, `next` not below
    /// `at_least`, and `wished` ids where there are so many.
    fn refill(
        &mut self,
        engine: &dyn Engine,
        id: CounterId,
        needed: u64,
        wished: u64,
        at_least: u64,
    ) -> Result<()> {
        let at_least = at_least.max(1);
        let needed = needed.max(1);
        let range = match engine.reserve_ids(id, wished.max(needed), at_least) {
            // Near the greatest number there may be enough all the same, with
            // what is left of the range before.
            Err(kv::Error::Full(kv::Full::Ids)) => {
                let left = match self.next >= at_least {
                    true => self.end.saturating_sub(self.next),
                    false => 0,
                };
                engine.reserve_ids(id, needed.saturating_sub(left).max(1), at_least)
            }
            done => done,
        };
        let range = match range {
            Ok(range) => range,
            Err(kv::Error::Full(kv::Full::Ids)) => return Err(Error::AutoIncrementExhausted),
            Err(e) => return Err(e.into()),
        };
        if range.start == self.end && self.next >= at_least && self.next < self.end {
            self.end = range.end;
        } else {
            self.next = range.start;
            self.end = range.end;
        }
        Ok(())
    }

    /// Raises the engine's counter to `next`, and reserves `ahead` ids from
    /// there on if there are so many: an explicit value may be the last one.
    fn raise(&mut self, engine: &dyn Engine, id: CounterId, ahead: u64, next: u64) -> Result<()> {
        match self.refill(engine, id, 1, ahead, next) {
            Err(Error::AutoIncrementExhausted) => {}
            done => return done,
        }
        (self.next, self.end) = (next, next);
        match engine.reserve_ids(id, 1, next.saturating_sub(1).max(1)) {
            Ok(_) | Err(kv::Error::Full(kv::Full::Ids)) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// The counters of all tables used since the start.
#[derive(Default)]
pub(crate) struct Counters {
    all: RwLock<HashMap<CounterId, Arc<Mutex<Reserved>>>>,
}

/// The smallest value of the series `offset, offset + increment, ...` that is
/// not below `at_least`; `None` beyond `u64`.
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

/// The greatest id an auto-increment column can hold.
pub(crate) fn column_max(column: &Column) -> u64 {
    let bits = match column.ty.kind {
        Kind::TinyInt => 8,
        Kind::SmallInt => 16,
        Kind::MediumInt => 24,
        Kind::Int => 32,
        Kind::Float => return 1 << 24,
        Kind::Double => return 1 << 53,
        _ => 64,
    };
    let bits = if column.ty.unsigned { bits } else { bits - 1 };
    if bits == 64 {
        u64::MAX - 1
    } else {
        (1 << bits) - 1
    }
}

/// A column's ids have run out. MySQL hands the last one out again, so that
/// its users know this as a duplicate of the greatest value (1062); only the
/// widest type has a number of its own (1467). Nothing is handed out twice
/// here, but the numbers are those.
fn exhausted(table: &Table, position: usize, max: u64) -> Error {
    let unique = table.indexes.iter().find(|i| {
        let only = i.parts.len() == 1 && i.kind != IndexKind::Plain;
        only && i.parts.iter().all(|p| p.column == position)
    });
    match unique {
        Some(index) if max != u64::MAX - 1 => Error::Duplicate {
            entry: max.to_string(),
            key: format!("{}.{}", table.name, index.name),
        },
        _ => Error::AutoIncrementExhausted,
    }
}

/// An id as the column's storage value.
pub(crate) fn column_value(column: &Column, id: u64) -> Value {
    match column.ty.kind {
        #[expect(clippy::cast_precision_loss, reason = "bounded by column_max: exact")]
        Kind::Float | Kind::Double => Value::Double(id as f64),
        _ if column.ty.unsigned => Value::UInt(id),
        _ => Value::Int(id.cast_signed()),
    }
}

/// An explicit value as a number; `None` for one that asks to be generated.
/// Negative values push nothing.
fn explicit(value: &Value, zero_is_a_value: bool) -> Option<u64> {
    let number = match value {
        Value::UInt(v) => *v,
        Value::Int(v) if *v < 0 => return Some(0),
        Value::Int(v) => v.unsigned_abs(),
        Value::Double(v) if *v < 0.0 => return Some(0),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; a cast from float saturates"
        )]
        Value::Double(v) => v.round() as u64,
        _ => return None,
    };
    (number != 0 || zero_is_a_value).then_some(number)
}

impl Counters {
    fn of(&self, id: CounterId) -> Arc<Mutex<Reserved>> {
        if let Some(counter) = self.all.read().get(&id) {
            return counter.clone();
        }
        self.all.write().entry(id).or_default().clone()
    }

    /// Fills in the ids of a statement's rows and pushes the counter over
    /// explicit values; the first id generated.
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
        let zero = options.no_auto_value_on_zero;
        let generated = |row: &Vec<Value>| {
            row.get(position)
                .is_none_or(|v| explicit(v, zero).is_none())
        };
        let mut wanted = rows.iter().filter(|r| generated(r)).count() as u64;
        let max = column_max(column);
        let increment = options.increment.max(1);
        // A range in hand is lost in a crash: small columns take small ones.
        let prefetch = options.prefetch.clamp(1, 65_536).min(max / 4096 + 1);
        let mut first = None;
        if options.first != 0 && wanted > 0 {
            // Asked for by number: from here on they are explicit values.
            first = Some(options.first);
            let mut next = options.first;
            for row in rows.iter_mut().filter(|r| generated(r)) {
                if next > max {
                    return Err(exhausted(table, position, max));
                }
                if let Some(value) = row.get_mut(position) {
                    *value = column_value(column, next);
                }
                next = next.saturating_add(increment);
            }
            wanted = 0;
        }
        let counter = self.of(table.counter);
        let mut reserved = counter.lock();
        let mut pushed = false;
        for row in rows {
            let Some(value) = row.get_mut(position) else {
                continue;
            };
            if let Some(given) = explicit(value, zero) {
                if given >= reserved.next && given <= max {
                    reserved.next = given + 1;
                    pushed |= reserved.next > reserved.end;
                    reserved.end = reserved.end.max(reserved.next);
                }
                continue;
            }
            let span = (wanted - 1).saturating_mul(increment);
            let mut id = align(reserved.next, increment, options.offset);
            let fits = |id: Option<u64>, end: u64| {
                id.and_then(|id| id.checked_add(span))
                    .is_some_and(|last| last < end)
            };
            if !fits(id, reserved.end) || reserved.next == 0 || pushed {
                if reserved.next > max {
                    return Err(exhausted(table, position, max));
                }
                let count = span.saturating_add(increment);
                let at_least = reserved.next;
                reserved.refill(engine, table.counter, count, prefetch, at_least)?;
                pushed = false;
                id = align(reserved.next, increment, options.offset);
            }
            // A fresh range of span + increment ids holds the series wherever
            // its first member lies.
            let id = id
                .filter(|id| *id <= max && *id < reserved.end)
                .ok_or_else(|| exhausted(table, position, max))?;
            reserved.next = id + 1;
            wanted -= 1;
            first.get_or_insert(id);
            *value = column_value(column, id);
        }
        if pushed {
            let next = reserved.next;
            reserved.raise(engine, table.counter, prefetch, next)?;
        }
        Ok(first)
    }

    /// Pushes the counter above a value that an UPDATE stored.
    pub(crate) fn push(&self, engine: &dyn Engine, table: &Table, value: &Value) -> Result<()> {
        let given = explicit(value, true).unwrap_or(0);
        let max = table
            .auto_increment()
            .and_then(|p| table.columns.get(p))
            .map_or(0, column_max);
        let counter = self.of(table.counter);
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

    /// The next hidden row id.
    pub(crate) fn hidden(&self, engine: &dyn Engine, table: &Table, count: u64) -> Result<u64> {
        const PREFETCH: u64 = 4096;
        let id = hidden_counter(table);
        let counter = self.of(id);
        let mut reserved = counter.lock();
        if reserved.end - reserved.next < count || reserved.next == 0 {
            let at_least = reserved.next;
            reserved.refill(engine, id, count, PREFETCH, at_least)?;
        }
        let first = reserved.next;
        reserved.next += count;
        Ok(first)
    }

    /// The id that a statement would be given next, without taking it.
    pub(crate) fn peek(&self, engine: &dyn Engine, table: &Table) -> Result<u64> {
        let counter = self.of(table.counter);
        let reserved = counter.lock();
        if reserved.next != 0 && reserved.next < reserved.end {
            return Ok(reserved.next);
        }
        Ok(engine.next_id(table.counter)?)
    }

    /// Sets the next id, upwards or downwards.
    pub(crate) fn set_next(&self, engine: &dyn Engine, id: CounterId, next: u64) -> Result<()> {
        let counter = self.of(id);
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

    /// Gives every unused rest back.
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
                // Ids that cannot be given back are lost, which is allowed.
                if let Err(error) = engine.return_ids(id, rest) {
                    tracing::warn!(%error, counter = id.0, "unused ids were not given back");
                }
            }
            *reserved = Reserved::default();
        }
    }
}

/// Where hidden row ids of a table come from.
pub(crate) fn hidden_counter(table: &Table) -> CounterId {
    CounterId(table.counter.0 | 1 << 63)
}
