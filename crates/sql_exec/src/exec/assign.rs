//! Values for columns: conversion, defaults, assignments, and checks of new rows against a view's
//! WITH CHECK OPTION and the statement's partition list.
//!
//! A lossy conversion is an error in strict mode, a warning with IGNORE and in non-strict mode
//! ([`porpoise_types::store`]).

use super::query::all_true;
use super::{Exec, ExecResult};
use crate::bind::MergedView;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, convert};
use crate::plan::sinks::{NewValue, ViewCheck};
use bumpalo::Bump;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::ddl::implicit_default;
use porpoise_types::cast;
use porpoise_types::temporal::delimiter;
use porpoise_types::{CastCx, ColumnType, Kind, Level, Value, ValueRef, Warning, store};
use std::cell::Cell;

/// Converts values for one statement.
pub(super) struct ValueConverter<'x> {
    env: &'x crate::expr::eval::Env,
    txn: &'x std::cell::RefCell<porpoise_rows::Txn>,
    pub(super) strict: bool,
    ignore: bool,
    /// A NULL for a NOT NULL column becomes its default with a warning.
    null_becomes_default: bool,
    /// Whether warning 1364 has been raised for the columns that the statement does not name.
    has_warned_of_missing: Cell<bool>,
}

impl<'x> ValueConverter<'x> {
    pub(super) fn new(exec: &Exec<'x>, ignore: bool, rows: usize) -> ValueConverter<'x> {
        let strict = exec.env.mode.is_strict() && !ignore;
        ValueConverter {
            env: exec.env,
            txn: exec.shared.txn,
            strict,
            ignore,
            has_warned_of_missing: Cell::new(false),
            null_becomes_default: ignore || (!exec.env.mode.is_strict() && rows > 1),
        }
    }

    pub(super) fn store(
        &self,
        value: ValueRef<'_>,
        from: &ColumnType,
        column: &Column,
        row: u64,
    ) -> Result<Value, SqlError> {
        if value.is_null() {
            return Ok(self.null(column));
        }
        let (value, from) = convert::for_assignment(value, from, &column.ty);
        let mut warn = |w| self.env.warn(w);
        let mut cx = CastCx {
            mode: self.env.mode,
            strict: self.strict,
            warnings: &mut warn,
            tz: &self.env.time_zone,
            now: self.env.day_of(value),
        };
        let stored = store(value, Some(from), &column.ty, &column.name, row, &mut cx)?;
        self.warn_of_delimiter(value, &column.ty, row);
        Ok(stored)
    }

    /// Warning 4095 or 4096 for a deprecated delimiter in the text of a date or time.
    fn warn_of_delimiter(&self, value: ValueRef<'_>, ty: &ColumnType, row: u64) {
        let ValueRef::Bytes(text) = value else {
            return;
        };
        let found = match ty.kind {
            Kind::Date | Kind::DateTime | Kind::Timestamp => delimiter::of_date(text),
            Kind::Time => delimiter::of_time(text),
            _ => None,
        };
        if let Some((code, message)) = found.map(|found| cast::delimiter_warning(found, text, row))
        {
            self.env.warn(Warning {
                level: Level::Warning,
                code,
                message,
            });
        }
    }

    /// The value stored for NULL: NULL itself, or the column's implicit default.
    fn null(&self, column: &Column) -> Value {
        if column.nullable || column.auto_increment || !self.null_becomes_default {
            return Value::Null;
        }
        self.env.warn(Warning {
            level: Level::Warning,
            code: 1048,
            message: format!("Column '{}' cannot be null", column.name),
        });
        implicit_default(&column.ty)
    }

    /// WITH CHECK OPTION: error 1369 for a row that the view does not contain; with IGNORE a warning. `joined` has
    /// the other rows that the conditions read, by slot.
    pub(super) fn satisfies_check_option(
        &self,
        check: &ViewCheck,
        table: &Table,
        row: &[Value],
        joined: &[Slot<'_>],
        cx: &EvalCx<'_>,
    ) -> ExecResult<bool> {
        let mut row = row.to_vec();
        self.txn.borrow().generate(table, &mut row, 1)?;
        let arena = Bump::new();
        let cx = EvalCx {
            arena: &arena,
            ..*cx
        };
        let values = arena.alloc_slice_fill_with(row.len(), |at| {
            convert::keep(row.get(at).unwrap_or(&Value::Null), &cx)
        });
        let mut slots = joined.to_vec();
        if slots.len() <= check.slot {
            slots.resize(check.slot + 1, Slot::Null);
        }
        if let Some(place) = slots.get_mut(check.slot) {
            *place = Slot::Values(values);
        }
        if all_true(&check.conditions, &slots, &cx)? {
            return Ok(true);
        }
        let text = format!("CHECK OPTION failed '{}'", check.name);
        if !self.ignore {
            return Err(SqlError::new(1369, "HY000", text).into());
        }
        self.env.warn(Warning {
            level: Level::Warning,
            code: 1369,
            message: text,
        });
        Ok(false)
    }

    /// The value of a column that the statement names with DEFAULT, or not at all.
    pub(super) fn default(&self, column: &Column) -> Result<Value, SqlError> {
        self.default_within(column, None)
    }

    /// The value of a column that the statement does not name; `view` is the view that the statement names, if any. Warning
    /// 1364 is raised for the first row only.
    pub(super) fn default_of_missing(
        &self,
        column: &Column,
        view: Option<&MergedView>,
    ) -> Result<Value, SqlError> {
        let has_value = column.generated.is_some() || column.auto_increment;
        let is_missing = column.default == ColumnDefault::None && !has_value;
        if is_missing && self.has_warned_of_missing.get() && !self.strict {
            return Ok(implicit_default(&column.ty));
        }
        self.default_within(column, view)
    }

    /// Ends the warnings of [`ValueConverter::default_of_missing`] after a row.
    pub(super) fn end_warnings_of_missing(&self) {
        self.has_warned_of_missing.set(true);
    }

    /// As [`ValueConverter::default`], for a table that may be written through a view.
    fn default_within(
        &self,
        column: &Column,
        view: Option<&MergedView>,
    ) -> Result<Value, SqlError> {
        match &column.default {
            ColumnDefault::Literal(value) => Ok(value.clone()),
            // Computed once the row's other values are known.
            ColumnDefault::Null | ColumnDefault::Expr(_) => Ok(Value::Null),
            _ if column.generated.is_some() => Ok(Value::Null),
            ColumnDefault::Now => Ok(now_for(column, self.env)),
            ColumnDefault::None if column.auto_increment => Ok(Value::Null),
            // The first member, in strict mode too.
            ColumnDefault::None if column.ty.kind == Kind::Enum => Ok(implicit_default(&column.ty)),
            ColumnDefault::None => {
                let (code, message) = match view {
                    Some(view) => {
                        let name = format!("{}.{}", view.database, view.name);
                        let text = "underlying table doesn't have a default value";
                        (1423, format!("Field of view '{name}' {text}"))
                    }
                    None => {
                        let text = "doesn't have a default value";
                        (1364, format!("Field '{}' {text}", column.name))
                    }
                };
                if self.strict {
                    return Err(SqlError::new(code, "HY000", message));
                }
                self.env.warn(Warning {
                    level: Level::Warning,
                    code,
                    message,
                });
                Ok(implicit_default(&column.ty))
            }
        }
    }
}

/// The statement's time, as a column of this type stores it.
pub(super) fn now_for(column: &Column, env: &crate::expr::eval::Env) -> Value {
    let moment = match column.ty.kind {
        Kind::Timestamp => env.now_utc,
        _ => env.now(),
    };
    Value::DateTime(
        moment
            .round(column.ty.decimals.min(6), true)
            .unwrap_or(moment),
    )
}

/// A joined row, of which one table's row is assigned to.
#[derive(Clone, Copy)]
pub(super) struct JoinedRow<'s, 'a> {
    /// The slot of the table that is assigned to.
    pub(super) changed: usize,
    pub(super) slots: &'s [Slot<'a>],
}

impl JoinedRow<'_, '_> {
    /// The row of a statement with one table.
    const ONE_TABLE: JoinedRow<'static, 'static> = JoinedRow {
        changed: 0,
        slots: &[Slot::Null],
    };
}

/// Evaluates a value that may read columns assigned before it.
pub(super) fn evaluate<'a>(
    e: &'a Expr,
    row: &[Value],
    cx: &EvalCx<'a>,
) -> ExecResult<ValueRef<'a>> {
    evaluate_in_slot(e, row, JoinedRow::ONE_TABLE, cx)
}

/// [`evaluate`] for the table in one slot of a joined row.
fn evaluate_in_slot<'a>(
    e: &'a Expr,
    row: &[Value],
    joined: JoinedRow<'_, 'a>,
    cx: &EvalCx<'a>,
) -> ExecResult<ValueRef<'a>> {
    if e.slots() == 0 {
        return Ok(eval(e, &[], cx)?);
    }
    let values = cx.arena.alloc_slice_fill_with(row.len(), |at| {
        convert::keep(row.get(at).unwrap_or(&Value::Null), cx)
    });
    let slots = cx.arena.alloc_slice_copy(joined.slots);
    if let Some(place) = slots.get_mut(joined.changed) {
        *place = Slot::Values(values);
    }
    Ok(eval(e, slots, cx)?)
}

/// Applies assignments from left to right; later ones see earlier ones
/// (manual, "UPDATE Statement").
pub(super) fn assign(
    table: &Table,
    set: &[(usize, NewValue)],
    before: Vec<Value>,
    converter: &ValueConverter<'_>,
    number: u64,
    cx: &EvalCx<'_>,
) -> ExecResult<Vec<Value>> {
    assign_in_slot(
        table,
        set,
        before,
        converter,
        number,
        JoinedRow::ONE_TABLE,
        cx,
    )
}

/// [`assign`] for the table in one slot of a joined row.
pub(super) fn assign_in_slot<'a>(
    table: &Table,
    set: &[(usize, NewValue)],
    before: Vec<Value>,
    converter: &ValueConverter<'_>,
    number: u64,
    joined: JoinedRow<'_, 'a>,
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<Value>> {
    let mut row = before.clone();
    for (position, value) in set {
        let Some(column) = table.columns.get(*position) else {
            continue;
        };
        let stored = match value {
            NewValue::Default => converter.default(column)?,
            NewValue::Expr(e) => {
                let arena = Bump::new();
                let cx = EvalCx {
                    arena: &arena,
                    ..*cx
                };
                let value = evaluate_in_slot(e, &row, joined, &cx)?;
                converter.store(value, &e.ty, column, number)?
            }
        };
        if let Some(place) = row.get_mut(*position) {
            *place = stored;
        }
    }
    let computed = |at: usize| {
        let column = table.columns.get(at);
        let default = column.is_some_and(|c| matches!(c.default, ColumnDefault::Expr(_)));
        let mut set = set.iter();
        default && set.any(|(p, v)| *p == at && matches!(v, NewValue::Default))
    };
    if set.iter().any(|(at, _)| computed(*at)) {
        let txn = converter.txn.borrow();
        txn.fill_default_expressions(table, &mut row, &|at| !computed(at))?;
    }
    if row != before {
        for (position, column) in table.columns.iter().enumerate() {
            let given = set.iter().any(|(p, _)| *p == position);
            if let (true, false, Some(place)) = (column.on_update_now, given, row.get_mut(position))
            {
                *place = now_for(column, converter.env);
            }
        }
    }
    Ok(row)
}

/// Whether a changed row stays in a partition that the statement names. If not: error 1748, or a
/// warning with IGNORE.
pub(super) fn stays_in_partitions(
    table: &Table,
    chosen: Option<&[usize]>,
    new: &[Value],
    ignore: bool,
    env: &crate::expr::eval::Env,
) -> ExecResult<bool> {
    let Some(chosen) = chosen else {
        return Ok(true);
    };
    match table.partition_of_row(new) {
        Ok(at) if !chosen.contains(&at) => {
            let error = porpoise_rows::Error::OtherPartition;
            if !ignore {
                return Err(error.into());
            }
            env.warn(Warning {
                level: Level::Warning,
                code: error.code(),
                message: error.to_string(),
            });
            Ok(false)
        }
        // If no partition takes the row, the write reports it.
        _ => Ok(true),
    }
}

/// Adds warnings for the rows that IGNORE skipped.
pub(super) fn note_skipped(skipped: &[(usize, porpoise_rows::Error)], exec: &Exec<'_>) {
    for (_, error) in skipped {
        exec.env.warn(Warning {
            level: Level::Warning,
            code: error.code(),
            message: error.to_string(),
        });
    }
}
