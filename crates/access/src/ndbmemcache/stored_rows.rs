//! Rows of the configuration as texts: reads all rows of a table, and builds a row from texts.

use crate::system_table::internal;
use porpoise_kv::Read;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{KeyRange, Result, ScanPosition, ScanSpec, Txn};
use porpoise_types::{CastCx, DateTime, SqlMode, TimeZone, Value, ValueRef, store, write_text};
use std::sync::Arc;

/// A column and its text; `None` is NULL.
pub(super) type Cell<'a> = (&'a str, Option<&'a [u8]>);

/// A stored row, as texts.
#[derive(Clone, Debug)]
pub struct StoredRow {
    /// The primary key.
    pub key: Vec<u8>,
    /// Texts of the columns; `None` is NULL.
    pub texts: Vec<Option<Vec<u8>>>,
}

impl StoredRow {
    /// The text of a column of `table` that exists and is not NULL.
    pub(super) fn text(&self, table: &Table, column: &str) -> Option<&[u8]> {
        self.texts.get(table.column(column)?)?.as_deref()
    }

    /// Whether columns have these texts.
    pub(super) fn matches(&self, table: &Table, wanted: &[(&str, &[u8])]) -> bool {
        let mut wanted = wanted.iter();
        wanted.all(|(column, text)| self.text(table, column) == Some(*text))
    }
}

/// Reads all rows of a table.
///
/// # Errors
/// The errors of reading.
pub fn stored_rows(txn: &mut Txn, table: &Arc<Table>, read: Read) -> Result<Vec<StoredRow>> {
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut found = Vec::new();
    let mut position = ScanPosition::default();
    while txn.scan(table, &spec, read, &mut position, 1000, &mut |key, row| {
        let text = |(at, column): (usize, &Column)| {
            let value = row.get(at);
            let mut text = Vec::new();
            write_text(value, &column.ty, &mut text);
            (!value.is_null()).then_some(text)
        };
        found.push(StoredRow {
            key: key.to_vec(),
            texts: table.columns.iter().enumerate().map(text).collect(),
        });
    })? {}
    Ok(found)
}

/// Builds a row from texts, converted as by a strict INSERT. Other columns get their defaults.
///
/// # Errors
/// A text does not fit its column; 1815 for a column that does not exist.
pub(super) fn new_row(table: &Table, cells: &[Cell<'_>], now: DateTime) -> Result<Vec<Value>> {
    let default = |column: &Column| match &column.default {
        ColumnDefault::Literal(value) => value.clone(),
        ColumnDefault::Now => {
            let now = now.round(column.ty.decimals, true);
            now.map_or(Value::Null, Value::DateTime)
        }
        _ => Value::Null,
    };
    let mut row: Vec<Value> = table.columns.iter().map(default).collect();
    let mut ignored = |_| ();
    let mut cx = CastCx {
        mode: SqlMode::STRICT_TRANS_TABLES,
        strict: true,
        warnings: &mut ignored,
        tz: &TimeZone::UTC,
        now,
    };
    for (name, text) in cells {
        let at = table.column(name);
        let found = at.and_then(|at| Some((table.columns.get(at)?, row.get_mut(at)?)));
        let layout = "a table of ndbmemcache does not have the expected columns";
        let (column, place) = found.ok_or_else(|| internal(layout))?;
        let value = text.map_or(ValueRef::Null, ValueRef::Bytes);
        *place = store(value, None, &column.ty, &column.name, 1, &mut cx)?;
    }
    Ok(row)
}
