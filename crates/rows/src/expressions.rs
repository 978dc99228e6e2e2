//! Expressions of table definitions: CHECK constraints, generated columns, DEFAULT expressions.
//!
//! The catalog stores them as text, which this crate cannot parse. A crate that can registers a
//! [`CompileExpressions`] with the database. A table's [`RowExpressions`] are compiled at first
//! use, and stored with the table's other derived parts. The functions that write rows evaluate
//! them, so that the same rules apply to all protocols and cascades.
//!
//! Invariants:
//! 1. For a table without such expressions the cost is one test of a boolean.
//! 2. A row is written only after its generated columns were computed from the values being written
//!    and all enforced CHECK constraints were evaluated. A caller's value for a generated column is
//!    never stored.
//! 3. Overflow values of the old row are fetched before expressions are evaluated, so that these
//!    see complete values.
//! 4. Without a compiler, or with an expression that does not compile, writes to the table are
//!    refused.
//!
//! Rejected: evaluation in the SQL executor (other protocols and cascades would bypass it); a
//! separate interpreter here (two meanings of one text).

use crate::definition::{Expression, TableDef};
use crate::error::Result;
use porpoise_types::{ColumnType, DateTime, SqlMode, TimeZone, Value, Warning};
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values that expressions of a definition depend on besides the row.
#[derive(Debug)]
pub struct RowContext {
    /// The statement's time, UTC.
    pub now_utc: DateTime,
    /// The time zone for TIMESTAMP values.
    pub time_zone: TimeZone,
    /// The SQL mode.
    pub mode: SqlMode,
    /// Whether values that do not fit are errors, not warnings.
    pub strict: bool,
    /// USER() and CURRENT_USER().
    pub user: String,
    /// State of RAND(), advanced by each evaluation.
    pub seed: Cell<u64>,
    /// Warnings of the evaluation.
    pub warnings: RefCell<Vec<Warning>>,
}

impl RowContext {
    /// Creates a context for protocols without SQL: strict mode, UTC, and its own RAND() seed.
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
    /// Computes all generated columns of a row of storage values in column order from its other
    /// columns. `number` is the row's number in the statement, for messages.
    ///
    /// # Errors
    /// The errors of the evaluation; [`crate::Error::NotNull`].
    fn generate(&self, row: &mut [Value], number: u64, cx: &RowContext) -> Result<()>;

    /// Evaluates all enforced CHECK constraints.
    ///
    /// # Errors
    /// [`crate::Error::CheckViolated`] of the first that is false.
    fn check(&self, row: &[Value], cx: &RowContext) -> Result<()>;

    /// Evaluates a column's DEFAULT expression; NULL for a column without one. The row has the
    /// given columns and other defaults.
    ///
    /// # Errors
    /// The errors of the evaluation.
    fn default(&self, column: usize, row: &[Value], cx: &RowContext) -> Result<Value>;
}

/// The type of a functional key part.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPartType {
    /// The type of the values, of each element of an array.
    pub ty: ColumnType,
    /// Whether it is multi-valued: its values are encoded arrays ([`porpoise_types::array`]).
    pub array: bool,
}

/// Compiler of the expressions of definitions.
pub trait CompileExpressions: Send + Sync {
    /// Compiles the expressions of a table.
    ///
    /// # Errors
    /// A text that cannot be parsed, or that is invalid for this table.
    fn compile(&self, table: &TableDef) -> Result<Arc<dyn RowExpressions>>;

    /// The type of a functional key part over the columns of a table.
    ///
    /// # Errors
    /// An expression that cannot be indexed; as for generated columns.
    fn key_part_type(
        &self,
        table: &TableDef,
        index: &str,
        expression: &Expression,
    ) -> Result<KeyPartType>;
}

/// The compiled expressions of a table, or the error of the compilation.
pub(crate) type Compiled = Result<Arc<dyn RowExpressions>>;
