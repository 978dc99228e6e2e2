//! Checks of the time to live in definitions.

use crate::definition::{Column, TableDef};
use crate::error::{Error, Result};
use porpoise_types::Kind;

fn is_supported(column: &Column) -> bool {
    let ty = &column.ty;
    let is_time = matches!(ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp);
    (is_time || ty.is_integer()) && !column.is_hidden()
}

/// Checks the time to live of a definition.
///
/// # Errors
/// 1054 if the column does not exist, 8148 if its type is neither a date, a date and time, nor an
/// integer.
pub(in crate::ddl) fn validate(table: &TableDef) -> Result<()> {
    let Some(ttl) = &table.options.ttl else {
        return Ok(());
    };
    let position = table.column(&ttl.column);
    let column = position.and_then(|at| table.columns.get(at));
    match column {
        None => {
            let text = format!("Unknown column '{}' in 'TTL config'", ttl.column);
            Err(Error::refused(1054, "42S22", text))
        }
        Some(column) if !is_supported(column) => {
            let text = format!(
                "Field '{}' is of a not supported type for TTL config, expect DATETIME, DATE, TIMESTAMP or an integer",
                column.name
            );
            Err(Error::refused(8148, "HY000", text))
        }
        Some(_) => Ok(()),
    }
}

/// Checks that a column to be dropped is not the column of the TTL clause.
///
/// # Errors
/// 8149 if it is.
pub(in crate::ddl) fn check_droppable(table: &TableDef, column: &str) -> Result<()> {
    let ttl = table.options.ttl.as_ref();
    if ttl.is_some_and(|ttl| ttl.column.eq_ignore_ascii_case(column)) {
        let text = format!("Cannot drop column '{column}': needed by TTL config");
        return Err(Error::refused(8149, "HY000", text));
    }
    Ok(())
}

/// Error 8151: a temporary table cannot have a time to live.
pub(in crate::ddl) fn not_for_temporary() -> Error {
    Error::refused(8151, "HY000", "Set TTL for temporary table is not allowed")
}
