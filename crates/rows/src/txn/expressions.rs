//! Evaluation of a table's expressions for the rows of a statement: generated columns, CHECK
//! constraints, defaults.

use super::Txn;
use super::gather::check_not_null;
use super::insert::InsertMode;
use super::lookup::complete_rows;
use super::update::{RowChange, UpdateMode};
use crate::db::Db;
use crate::definition::ColumnDefault;
use crate::error::{Error, Result};
use crate::expressions::RowContext;
use crate::overflow::OverflowFetch;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use porpoise_kv::{self as kv, Read};
use porpoise_types::Value;

/// Errors of a statement's rows by position; empty if there are none.
pub(crate) type Refused = Vec<Option<Error>>;

fn refuse(refused: &mut Refused, at: usize, error: Error) {
    if refused.len() <= at {
        refused.resize_with(at + 1, || None);
    }
    if let Some(place) = refused.get_mut(at) {
        *place = Some(error);
    }
}

/// Takes the error of a row.
pub(crate) fn refusal(refused: &mut Refused, at: usize) -> Option<Error> {
    refused.get_mut(at).and_then(Option::take)
}

/// The evaluator of tables' expressions for a session's rows.
pub(crate) struct RowEvaluator<'a> {
    pub(super) db: &'a Db,
    /// Session values that expressions can read; `None`: [`Db::plain_context`].
    pub(super) context: Option<&'a RowContext>,
}

impl RowEvaluator<'_> {
    fn with_context<T>(&self, run: impl FnOnce(&RowContext) -> Result<T>) -> Result<T> {
        match self.context {
            Some(cx) => run(cx),
            None => run(&self.db.plain_context()),
        }
    }

    /// Computes generated columns; see [`Txn::generate`].
    pub(super) fn generate(&self, table: &Table, row: &mut [Value], number: u64) -> Result<()> {
        if !table.evaluates_expressions() {
            return Ok(());
        }
        let expressions = self.db.expressions(table)?;
        self.with_context(|cx| expressions.generate(row, number, cx))
    }

    /// Fills in defaults; see [`Txn::fill_default_expressions`].
    pub(super) fn fill_defaults(
        &self,
        table: &Table,
        row: &mut [Value],
        given: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        let expressions = self.db.expressions(table)?;
        self.with_context(|cx| {
            for (position, column) in table.columns.iter().enumerate() {
                if !matches!(column.default, ColumnDefault::Expr(_)) || given(position) {
                    continue;
                }
                let value = expressions.default(position, row, cx)?;
                if let Some(place) = row.get_mut(position) {
                    *place = value;
                }
            }
            Ok(())
        })
    }

    /// Computes generated columns and evaluates the CHECK constraints of one row.
    pub(crate) fn evaluate(&self, table: &Table, row: &mut [Value], number: u64) -> Result<()> {
        let expressions = self.db.expressions(table)?;
        self.with_context(|cx| {
            expressions.generate(row, number, cx)?;
            check_not_null(table, row)?;
            expressions.check(row, cx)
        })
    }

    /// Evaluates the CHECK constraints of a row with computed generated columns.
    pub(crate) fn check(&self, table: &Table, row: &[Value]) -> Result<()> {
        if !table.evaluates_expressions() {
            return Ok(());
        }
        let expressions = self.db.expressions(table)?;
        self.with_context(|cx| expressions.check(row, cx))
    }

    /// Evaluates the expressions of rows to be inserted. Returns their errors, up to the first that
    /// ends the statement.
    pub(crate) fn prepare_new(
        &self,
        table: &Table,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
    ) -> Refused {
        let mut refused = Refused::new();
        if !table.evaluates_expressions() {
            return refused;
        }
        for (at, row) in rows.iter_mut().enumerate() {
            if let Err(error) = self.evaluate(table, row, at as u64 + 1) {
                refuse(&mut refused, at, error);
                if mode != InsertMode::Ignore {
                    break;
                }
            }
        }
        refused
    }
}

/// Evaluates the expressions of rows to be changed, as [`RowEvaluator::prepare_new`].
/// Rows that stay the same are not asked.
///
/// # Errors
/// The engine's, when large values are fetched.
pub(crate) fn prepare_changes(
    txn: &mut Txn,
    table: &Table,
    changes: &mut [RowChange],
    mode: UpdateMode,
) -> Result<Refused> {
    let mut refused = Refused::new();
    for (at, change) in changes.iter_mut().enumerate() {
        if let Err(error) = prepare_change(txn, table, change, mode, at as u64 + 1) {
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
    txn: &mut Txn,
    table: &Table,
    change: &mut RowChange,
    mode: UpdateMode,
    number: u64,
) -> Result<()> {
    fetch_overflow_values(
        txn.kv.as_mut(),
        table,
        &change.key,
        &mut change.old,
        &mut change.new,
    )?;
    let mut new = std::mem::take(&mut change.new);
    let done = txn.evaluator().generate(table, &mut new, number);
    change.new = new;
    done?;
    let old = change.old.row(table)?;
    let same = |(n, v): (usize, &Value)| v.as_ref() == old.get(n);
    if mode != UpdateMode::Rewrite && change.new.iter().enumerate().all(same) {
        return Ok(());
    }
    check_not_null(table, &change.new)?;
    txn.evaluator().check(table, &change.new)
}

/// Fetches what a row lacks of its large values, into the row and into the
/// values that are to replace it and are still the old ones.
pub(crate) fn fetch_overflow_values(
    kv: &mut dyn kv::Txn,
    table: &Table,
    primary: &[u8],
    old: &mut RowBuf,
    new: &mut [Value],
) -> Result<()> {
    let row = old.row(table)?;
    if OverflowFetch::All.missing(&row) == 0 {
        return Ok(());
    }
    let mut kept: Vec<usize> = Vec::new();
    for column in row.overflow_columns() {
        let start = new.get(column.position);
        if matches!(start, Some(Value::Bytes(b)) if b.as_slice() == column.present) {
            kept.push(column.position);
        }
    }
    let mut rows = [(primary.to_vec(), old.clone())];
    complete_rows(kv, table, &mut rows, OverflowFetch::All, Read::CURRENT)?;
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
