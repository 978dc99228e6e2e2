//! Expressions of a table's definition: CHECK constraints, generated columns,
//! expressions as defaults.
//!
//! The catalog keeps them as text, which this crate cannot read. A crate that
//! can registers a [`CompileExpressions`] with the database; a table's
//! [`RowExpressions`] are compiled at first use and kept with the table's other
//! derived parts. The functions that write rows evaluate them, so that every
//! protocol and every cascade meets the same rules.
//!
//! Invariants:
//! 1. A table without such expressions pays one look at a boolean.
//! 2. A row is written only after its generated columns were computed from
//!    the values being written and all enforced checks were asked: a caller's
//!    value for a generated column is never stored.
//! 3. Overflow values of the old row are fetched before expressions are
//!    evaluated: they never see a part of a value.
//! 4. Without a compiler, or with an expression that does not compile, writes
//!    to the table are refused; nothing is let through unchecked.
//!
//! Rejected: evaluating in SQL's executor (other protocols and cascades would go
//! round it); an interpreter of its own here (two meanings for one text).

use crate::definition::TableDef;
use crate::error::Result;
use porpoise_types::{DateTime, SqlMode, TimeZone, Value, Warning};
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values that expressions of a definition depend on besides the row.
#[derive(Debug)]
pub struct RowContext {
    /// The statement's time, UTC.
    pub now_utc: DateTime,
    /// The time zone in which TIMESTAMP values are seen.
    pub time_zone: TimeZone,
    /// The SQL mode.
    pub mode: SqlMode,
    /// Values that do not fit are errors, not warnings.
    pub strict: bool,
    /// USER() and CURRENT_USER().
    pub user: String,
    /// State of RAND(), advanced by each evaluation.
    pub seed: Cell<u64>,
    /// Warnings of the evaluation.
    pub warnings: RefCell<Vec<Warning>>,
}

impl RowContext {
    /// For protocols without SQL: strict, UTC, each with a RAND() of its own.
    pub fn plain(now_utc: DateTime) -> RowContext {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let seed = now_utc.to_unix_micros().cast_unsigned();
        let seed = (seed ^ made << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        RowContext {
            now_utc,
            time_zone: TimeZone::UTC,
            mode: SqlMode::default(),
            strict: true,
            user: String::new(),
            seed: Cell::new(seed),
            warnings: RefCell::new(Vec::new()),
        }
    }
}

/// The expressions of one table, compiled.
pub trait RowExpressions: Debug + Send + Sync {
    /// Puts the values of all generated columns into a row of storage values
    /// in column order, from the other columns' values. `number` is the row's
    /// number in the statement, for messages.
    ///
    /// # Errors
    /// What the evaluation ends with; [`crate::Error::NotNull`].
    fn generate(&self, row: &mut [Value], number: u64, cx: &RowContext) -> Result<()>;

    /// Asks all enforced checks.
    ///
    /// # Errors
    /// [`crate::Error::CheckViolated`] of the first that is false.
    fn check(&self, row: &[Value], cx: &RowContext) -> Result<()>;

    /// The value of one column's expression as default; NULL for a column
    /// that has none. The row holds the columns given and other defaults.
    ///
    /// # Errors
    /// What the evaluation ends with.
    fn default(&self, column: usize, row: &[Value], cx: &RowContext) -> Result<Value>;
}

/// Compiler of the expressions of definitions.
pub trait CompileExpressions: Send + Sync {
    /// The expressions of a table.
    ///
    /// # Errors
    /// For a text that cannot be read, or means nothing for this table.
    fn compile(&self, table: &TableDef) -> Result<Arc<dyn RowExpressions>>;
}

/// The compiled expressions of a table, or why there is none.
pub(crate) type Compiled = Result<Arc<dyn RowExpressions>>;
