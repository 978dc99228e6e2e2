//! Expressions of a table's definition: CHECK constraints, generated columns,
//! expressions as defaults.
//!
//! The catalog keeps them as text, which this crate cannot read. Whoever can
//! registers a [`RowCompiler`] with the database; a table's [`RowProgram`] is
//! compiled at first use and kept with the table's other derived facts. The
//! functions that write rows run it, so that each listener, and each cascade,
//! meets the same rules.
//!
//! Invariants:
//! 1. A table without such expressions pays one look at a boolean.
//! 2. A row is written only after its generated columns were computed from
//!    the values being written and all enforced checks were asked: a caller's
//!    value for a generated column is never stored.
//! 3. Where the old row keeps large values outside, they are fetched before
//!    the program runs: it never sees a part of a value.
//! 4. Without a compiler, or with an expression that does not compile, writes
//!    to the table are refused; nothing is let through unchecked.
//!
//! Rejected: evaluating in SQL's executor (other protocols and cascades would go
//! round it); an interpreter of its own here (two meanings for one text).

use crate::catalog::{ColumnDefault, Table};
use crate::db::Db;
use crate::row::{RowBuf, RowRef};
use crate::txn::parts::Blobs;
use crate::txn::update::{RowChange, UpdateMode};
use crate::{Error, InsertMode, Result, Txn};
use porpoise_kv::Read;
use porpoise_types::{DateTime, SqlMode, TimeZone, Value, Warning};
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What expressions of a definition depend on besides the row.
#[derive(Debug)]
pub struct RowCx {
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
    /// Where RAND() goes on: each evaluation leaves it further.
    pub seed: Cell<u64>,
    /// What was noted on the way.
    pub warnings: RefCell<Vec<Warning>>,
}

impl RowCx {
    /// For protocols without SQL: strict, UTC, each with a RAND() of its own.
    pub fn plain(now_utc: DateTime) -> RowCx {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let seed = now_utc.to_unix_micros().cast_unsigned();
        let seed = (seed ^ made << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        RowCx {
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
pub trait RowProgram: Debug + Send + Sync {
    /// Puts the values of all generated columns into a row of storage values
    /// in column order, from the other columns' values. `number` is the row's
    /// number in the statement, for messages.
    ///
    /// # Errors
    /// What the evaluation ends with; [`Error::NotNull`].
    fn generate(&self, row: &mut [Value], number: u64, cx: &RowCx) -> Result<()>;

    /// Asks all enforced checks.
    ///
    /// # Errors
    /// [`Error::CheckViolated`] of the first that is false.
    fn check(&self, row: &[Value], cx: &RowCx) -> Result<()>;

    /// The value of one column's expression as default; NULL for a column
    /// that has none. The row holds the columns given and other defaults.
    ///
    /// # Errors
    /// What the evaluation ends with.
    fn default(&self, column: usize, row: &[Value], cx: &RowCx) -> Result<Value>;
}

/// Makes programs of definitions.
pub trait RowCompiler: Send + Sync {
    /// The program of a table.
    ///
    /// # Errors
    /// For a text that cannot be read, or means nothing for this table.
    fn compile(&self, table: &Table) -> Result<Arc<dyn RowProgram>>;
}

/// The compiled program of a table, or why there is none.
pub(crate) type Compiled = Result<Arc<dyn RowProgram>>;

impl Table {
    /// Whether writing a row runs a program: a column is generated or a check
    /// enforced.
    #[inline]
    pub fn has_program(&self) -> bool {
        self.derived().program
    }

    /// Whether a column's default is an expression.
    pub fn has_default_expressions(&self) -> bool {
        let expression = |c: &crate::catalog::Column| matches!(c.default, ColumnDefault::Expr(_));
        self.columns.iter().any(expression)
    }

    /// Whether the definition holds any expression.
    pub fn has_expressions(&self) -> bool {
        let generated = |c: &crate::catalog::Column| c.generated.is_some();
        !self.checks.is_empty()
            || self.columns.iter().any(generated)
            || self.has_default_expressions()
    }

    /// The names of the enforced checks, in order.
    pub fn enforced_checks(&self) -> impl Iterator<Item = &crate::catalog::CheckConstraint> {
        self.checks.iter().filter(|c| c.enforced)
    }
}

/// Whether a definition has something to run when rows are written.
pub(crate) fn runs(table: &Table) -> bool {
    table.columns.iter().any(|c| c.generated.is_some()) || table.checks.iter().any(|c| c.enforced)
}

impl Db {
    /// Says what makes programs of definitions; once, before rows are written.
    pub fn set_compiler(&self, compiler: Arc<dyn RowCompiler>) {
        let _ = self.compiler.set(compiler);
    }

    /// The compiled expressions of a table.
    ///
    /// # Errors
    /// Without a compiler, or what compiling ended with.
    pub fn program(&self, table: &Table) -> Result<Arc<dyn RowProgram>> {
        let compile = || match self.compiler.get() {
            Some(compiler) => compiler.compile(table),
            None => Err(Error::refused(
                1105,
                "HY000",
                "No compiler for expressions of definitions",
            )),
        };
        table.derived().compiled.get_or_init(compile).clone()
    }

    fn plain_cx(&self) -> RowCx {
        let now = DateTime::from_unix_micros(self.clock().unix_micros());
        RowCx::plain(now.unwrap_or(DateTime::ZERO))
    }
}

/// The refusals of a statement's rows, by position; empty when there is none.
pub(crate) type Refused = Vec<Option<Error>>;

fn refuse(refused: &mut Refused, at: usize, error: Error) {
    if refused.len() <= at {
        refused.resize_with(at + 1, || None);
    }
    if let Some(place) = refused.get_mut(at) {
        *place = Some(error);
    }
}

/// Takes a row's refusal out.
pub(crate) fn refusal(refused: &mut Refused, at: usize) -> Option<Error> {
    refused.get_mut(at).and_then(Option::take)
}

impl Txn {
    /// What expressions of definitions see of the session, from now on.
    pub fn set_row_cx(&mut self, cx: RowCx) {
        self.row_cx = Some(Box::new(cx));
    }

    /// What expressions of definitions noted since it was asked last.
    pub fn take_row_warnings(&mut self) -> Vec<Warning> {
        let cx = self.row_cx.as_mut();
        cx.map_or_else(Vec::new, |cx| std::mem::take(cx.warnings.get_mut()))
    }

    fn with_cx<T>(&self, run: impl FnOnce(&RowCx) -> Result<T>) -> Result<T> {
        match &self.row_cx {
            Some(cx) => run(cx),
            None => run(&self.db.plain_cx()),
        }
    }

    /// Computes the generated columns of a row about to be written, for those
    /// who look at them before.
    ///
    /// # Errors
    /// As [`RowProgram::generate`].
    pub fn generate(&self, table: &Table, row: &mut [Value], number: u64) -> Result<()> {
        if !table.has_program() {
            return Ok(());
        }
        let program = self.db.program(table)?;
        self.with_cx(|cx| program.generate(row, number, cx))
    }

    /// Puts expressions' values into the columns that are not given.
    ///
    /// # Errors
    /// What the evaluation ends with.
    pub fn fill_default_expressions(
        &self,
        table: &Table,
        row: &mut [Value],
        given: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        let program = self.db.program(table)?;
        self.with_cx(|cx| {
            for (position, column) in table.columns.iter().enumerate() {
                if !matches!(column.default, ColumnDefault::Expr(_)) || given(position) {
                    continue;
                }
                let value = program.default(position, row, cx)?;
                if let Some(place) = row.get_mut(position) {
                    *place = value;
                }
            }
            Ok(())
        })
    }

    /// Generated columns and checks of one row.
    pub(crate) fn run_program(&self, table: &Table, row: &mut [Value], number: u64) -> Result<()> {
        let program = self.db.program(table)?;
        self.with_cx(|cx| {
            program.generate(row, number, cx)?;
            super::txn::gather::check_not_null(table, row)?;
            program.check(row, cx)
        })
    }

    /// The checks of a row whose generated columns are computed.
    pub(crate) fn check_row(&self, table: &Table, row: &[Value]) -> Result<()> {
        if !table.has_program() {
            return Ok(());
        }
        let program = self.db.program(table)?;
        self.with_cx(|cx| program.check(row, cx))
    }

    /// Runs the program over rows to be inserted; what was refused, up to the
    /// first where that ends the statement.
    pub(crate) fn prepare_new(
        &self,
        table: &Table,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
    ) -> Refused {
        let mut refused = Refused::new();
        for (at, row) in rows.iter_mut().enumerate() {
            if let Err(error) = self.run_program(table, row, at as u64 + 1) {
                refuse(&mut refused, at, error);
                if mode != InsertMode::Ignore {
                    break;
                }
            }
        }
        refused
    }

    /// Runs the program over rows to be changed, as [`Txn::prepare_new`].
    /// Rows that stay the same are not asked.
    ///
    /// # Errors
    /// The engine's, when large values are fetched.
    pub(crate) fn prepare_changes(
        &mut self,
        table: &Table,
        changes: &mut [RowChange],
        mode: UpdateMode,
    ) -> Result<Refused> {
        let mut refused = Refused::new();
        for (at, change) in changes.iter_mut().enumerate() {
            if let Err(error) = self.prepare_change(table, change, mode, at as u64 + 1) {
                refuse(&mut refused, at, error);
                if mode != UpdateMode::Ignore {
                    break;
                }
            }
        }
        Ok(refused)
    }

    /// The same for one row.
    pub(crate) fn prepare_change(
        &mut self,
        table: &Table,
        change: &mut RowChange,
        mode: UpdateMode,
        number: u64,
    ) -> Result<()> {
        self.make_whole(table, &change.key, &mut change.old, &mut change.new)?;
        let mut new = std::mem::take(&mut change.new);
        let done = self.generate(table, &mut new, number);
        change.new = new;
        done?;
        let old = change.old.row(table)?;
        let same = |(n, v): (usize, &Value)| v.as_ref() == old.get(n);
        if mode != UpdateMode::Rewrite && change.new.iter().enumerate().all(same) {
            return Ok(());
        }
        super::txn::gather::check_not_null(table, &change.new)?;
        self.check_row(table, &change.new)
    }

    /// Fetches what a row lacks of its large values, into the row and into the
    /// values that are to replace it and are still the old ones.
    pub(crate) fn make_whole(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: &mut RowBuf,
        new: &mut [Value],
    ) -> Result<()> {
        let row = old.row(table)?;
        if Blobs::All.missing(&row) == 0 {
            return Ok(());
        }
        let mut kept: Vec<usize> = Vec::new();
        for column in row.blobs() {
            let start = new.get(column.position);
            if matches!(start, Some(Value::Bytes(b)) if b.as_slice() == column.present) {
                kept.push(column.position);
            }
        }
        let mut rows = [(primary.to_vec(), old.clone())];
        self.complete_rows(table, &mut rows, Blobs::All, Read::CURRENT)?;
        let [(_, whole)] = rows;
        let row: RowRef<'_> = whole.row(table)?;
        for position in kept {
            if let Some(place) = new.get_mut(position) {
                *place = row.get(position).to_owned();
            }
        }
        *old = whole;
        Ok(())
    }
}
