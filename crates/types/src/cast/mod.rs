//! Conversions: in expressions, and to the storage value of a column.
//!
//! An expression never fails on a conversion: an invalid value gives the nearest result (0 for text
//! that is not a number, NULL for text that is not a date) and warning 1292. An assignment
//! ([`fn@store`]) fails in strict mode if the value would change; otherwise it warns and stores the
//! nearest value.
//!
//! Arguments are SQL values: ENUM and SET may be storage values with their type; a TIMESTAMP is in
//! the session's time zone, and [`fn@store`] converts it to UTC.

mod expression;
mod number;
mod store;
mod store_json;
mod store_number;
mod store_string;
mod store_temporal;

pub use expression::{
    exact_prefix, to_bool, to_date, to_datetime, to_decimal, to_exact_number, to_f64, to_i64,
    to_text, to_time, to_u64,
};
pub use number::{NumberPrefix, double_prefix, round_f64, round_to_i64};
pub use store::store;
pub use store_json::{JsonStoreError, store_json_value};
pub use store_number::round_to_digits;

use std::borrow::Cow;

use crate::column_type::ColumnType;
use crate::error::{Level, TypeError, Warning};
use crate::sql_mode::SqlMode;
use crate::temporal::delimiter::DeprecatedDelimiter;
use crate::temporal::{DateRules, DateTime};
use crate::text::{storage_to_sql, write_text};
use crate::time_zone::TimeZone;
use crate::value::ValueRef;

/// Settings of a conversion, and the receiver of its warnings.
pub struct CastCx<'a> {
    /// The SQL mode.
    pub mode: SqlMode,
    /// Whether a changed value is an error (strict mode without IGNORE).
    pub strict: bool,
    /// Receives each warning as it arises.
    pub warnings: &'a mut dyn FnMut(Warning),
    /// The session's time zone.
    pub tz: &'a TimeZone,
    /// The statement's time, in the session's time zone.
    pub now: DateTime,
}

impl CastCx<'_> {
    /// Reports a warning.
    pub fn warn(&mut self, code: u16, message: String) {
        (self.warnings)(Warning {
            level: Level::Warning,
            code,
            message,
        });
    }

    /// Reports a note.
    pub fn note(&mut self, code: u16, message: String) {
        (self.warnings)(Warning {
            level: Level::Note,
            code,
            message,
        });
    }

    /// Warning 1292 of an expression: "Truncated incorrect {what} value: '{value}'".
    pub fn truncated_incorrect(&mut self, what: &str, value: &[u8]) {
        let message = format!(
            "Truncated incorrect {what} value: '{}'",
            format_for_message(value)
        );
        self.warn(crate::error::ER_TRUNCATED_WRONG_VALUE, message);
    }

    /// Warning 1292 of an expression: "Incorrect {what} value: '{value}'".
    pub fn incorrect(&mut self, what: &str, value: &[u8]) {
        let message = format!("Incorrect {what} value: '{}'", format_for_message(value));
        self.warn(crate::error::ER_TRUNCATED_WRONG_VALUE, message);
    }

    /// The SQL mode's rules for dates in assignments: zero dates are refused only in strict mode,
    /// otherwise they cause a warning.
    #[must_use]
    pub fn date_rules(&self) -> DateRules {
        DateRules::of(self.mode)
    }

    /// Whether fractions of the second are cut rather than rounded.
    #[must_use]
    pub fn truncate_fraction(&self) -> bool {
        self.mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL)
    }
}

/// Returns the error in strict mode; otherwise reports it as a warning.
pub(crate) fn fail_or_warn(cx: &mut CastCx<'_>, error: TypeError) -> Result<(), TypeError> {
    if cx.strict {
        return Err(error);
    }
    cx.warn(error.code, error.message);
    Ok(())
}

/// Number and text of the warning of a deprecated delimiter in a value of a row.
#[must_use]
pub fn delimiter_warning(found: DeprecatedDelimiter, value: &[u8], row: u64) -> (u16, String) {
    let character = match found.found {
        b'\n' => "\\n".to_owned(),
        other => char::from(other).to_string(),
    };
    let value = format_for_message(value);
    let position = found.position;
    let place = format!(
        "Delimiter '{character}' in position {position} in datetime value '{value}' at row {row}"
    );
    match found.standard.map(char::from) {
        Some(standard) => {
            let text = format!("{place} is deprecated. Prefer the standard '{standard}'.");
            (4095, text)
        }
        None => {
            let text = format!("{place} is superfluous and is deprecated. Please remove.");
            (4096, text)
        }
    }
}

/// Formats a value for messages: at most 128 bytes, with invalid UTF-8 as `\xNN`.
pub(crate) fn format_for_message(value: &[u8]) -> String {
    let value = value.get(..128).unwrap_or(value);
    let mut out = String::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02X}"));
        }
    }
    out
}

/// Returns the value's text, borrowed if it is text already; `None` for NULL.
pub(crate) fn text_of<'a>(v: ValueRef<'a>, ty: &'a ColumnType) -> Option<Cow<'a, [u8]>> {
    match storage_to_sql(v, ty) {
        ValueRef::Null => None,
        ValueRef::Bytes(b) => Some(Cow::Borrowed(b)),
        other => {
            let mut out = Vec::with_capacity(32);
            write_text(other, ty, &mut out);
            Some(Cow::Owned(out))
        }
    }
}
