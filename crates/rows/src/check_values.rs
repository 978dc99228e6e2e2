//! CHECK TABLE ... EXTENDED of values: each value must be one that its column can store.
//!
//! A value is stored once more into its own column; that must not change it. So the rules of ranges,
//! lengths, character sets, members of ENUM and SET and dates are those of INSERT, without strictness:
//! values that a server in a permissive SQL mode has stored are valid.

use crate::definition::Column;
use porpoise_types::cast::{CastCx, store};
use porpoise_types::{DateTime, Kind, SqlMode, TimeZone, ValueRef, json};

/// The problem of a stored value, worded to follow "column NAME"; `None` for a valid one.
pub(crate) fn value_problem(column: &Column, value: ValueRef<'_>) -> Option<String> {
    if value.is_null() {
        return (!column.nullable).then(|| "is NULL, but NOT NULL".to_owned());
    }
    if let (Kind::Json, ValueRef::Bytes(text)) = (column.ty.kind, value) {
        let parsed = json::parse(text);
        return parsed.err().map(|_| "is not valid JSON".to_owned());
    }
    let mut warning = None;
    let utc = TimeZone::UTC;
    let mut cx = CastCx {
        mode: SqlMode::ALLOW_INVALID_DATES,
        strict: false,
        warnings: &mut |found| {
            warning.get_or_insert(found.code);
        },
        tz: &utc,
        now: DateTime::ZERO,
    };
    let stored = store(
        value,
        Some(&column.ty),
        &column.ty,
        &column.name,
        1,
        &mut cx,
    );
    let is_same = stored.is_ok_and(|stored| stored.as_ref() == value);
    (!is_same || warning.is_some())
        .then(|| format!("has a value that {} cannot store", column.ty.sql()))
}
