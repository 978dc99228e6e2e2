//! Assignment to a column.

use super::{
    CastCx, fail_or_warn, format_for_message, store_number, store_string, store_temporal, text_of,
};
use crate::collation::Charset;
use crate::column_type::{ColumnType, Kind};
use crate::error::{
    ER_DATA_TOO_LONG, ER_INVALID_JSON_TEXT, ER_TRUNCATED_WRONG_VALUE,
    ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_WARN_DATA_OUT_OF_RANGE, TypeError, WARN_DATA_TRUNCATED,
};
use crate::json;
use crate::value::{Value, ValueRef};

/// The column of an assignment, for conversions and messages.
pub(super) struct Target<'a> {
    pub(super) ty: &'a ColumnType,
    pub(super) source: Option<&'a ColumnType>,
    pub(super) column: &'a str,
    pub(super) row: u64,
}

impl Target<'_> {
    fn location(&self) -> String {
        format!("for column '{}' at row {}", self.column, self.row)
    }

    /// 1264: out of range.
    pub(super) fn out_of_range(&self, cx: &mut CastCx<'_>) -> Result<(), TypeError> {
        let message = format!("Out of range value {}", self.location());
        fail_or_warn(cx, TypeError::new(ER_WARN_DATA_OUT_OF_RANGE, message))
    }

    /// 1265: data truncated.
    pub(super) fn truncated(&self, cx: &mut CastCx<'_>) -> Result<(), TypeError> {
        let message = format!("Data truncated {}", self.location());
        fail_or_warn(cx, TypeError::new(WARN_DATA_TRUNCATED, message))
    }

    /// 1265 as a note, which is not an error in strict mode either.
    pub(super) fn truncated_note(&self, cx: &mut CastCx<'_>) {
        cx.note(
            WARN_DATA_TRUNCATED,
            format!("Data truncated {}", self.location()),
        );
    }

    /// A note that a date or time lost a part: 1292 in strict mode, otherwise 1265. It is not an error in any mode.
    pub(super) fn shortened_temporal(&self, what: &str, value: &[u8], cx: &mut CastCx<'_>) {
        if cx.strict {
            let value = format_for_message(value);
            let message = format!("Incorrect {what} value: '{value}' {}", self.location());
            cx.note(ER_TRUNCATED_WRONG_VALUE, message);
        } else {
            self.truncated_note(cx);
        }
    }

    /// 1406 in strict mode, else 1265.
    pub(super) fn too_long(&self, cx: &mut CastCx<'_>) -> Result<(), TypeError> {
        if cx.strict {
            let message = format!("Data too long {}", self.location());
            return Err(TypeError::new(ER_DATA_TOO_LONG, message));
        }
        self.truncated(cx)
    }

    /// Warning 1406.
    pub(super) fn warn_too_long(&self, cx: &mut CastCx<'_>) {
        cx.warn(
            ER_DATA_TOO_LONG,
            format!("Data too long {}", self.location()),
        );
    }

    /// 1366: "Incorrect integer value: 'abc' for column ...".
    pub(super) fn incorrect(
        &self,
        what: &str,
        value: &[u8],
        cx: &mut CastCx<'_>,
    ) -> Result<(), TypeError> {
        self.incorrect_shown(what, &format_for_message(value), cx)
    }

    /// As [`Target::incorrect`], for a value that is printable text already.
    pub(super) fn incorrect_shown(
        &self,
        what: &str,
        value: &str,
        cx: &mut CastCx<'_>,
    ) -> Result<(), TypeError> {
        let message = format!("Incorrect {what} value: '{value}' {}", self.location());
        fail_or_warn(
            cx,
            TypeError::new(ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, message),
        )
    }

    /// 1292: "Incorrect datetime value: 'abc' for column ..."; in non-strict mode
    /// a warning, 1265 if `is_truncation`, else 1264.
    pub(super) fn incorrect_temporal(
        &self,
        what: &str,
        value: &[u8],
        is_truncation: bool,
        cx: &mut CastCx<'_>,
    ) -> Result<(), TypeError> {
        if cx.strict {
            let message = format!(
                "Incorrect {what} value: '{}' {}",
                format_for_message(value),
                self.location()
            );
            return Err(TypeError::new(ER_TRUNCATED_WRONG_VALUE, message));
        }
        if is_truncation {
            self.truncated(cx)
        } else {
            self.out_of_range(cx)
        }
    }

    /// Character set of the value's text: the source's if known, otherwise the target's.
    pub(super) fn source_charset(&self) -> Charset {
        let own = self.ty.collation.charset();
        let Some(source) = self.source else {
            return own;
        };
        if source.is_string() || matches!(source.kind, Kind::Enum | Kind::Set | Kind::Json) {
            source.collation.charset()
        } else {
            // Numbers and dates print in ASCII.
            Charset::Ascii
        }
    }
}

/// Converts any value to the storage value of a column, as INSERT and UPDATE do. Checks range and
/// length, converts the character set, and parses dates.
///
/// `source` is the type of the value where known: the character set of its text, and the members
/// of ENUM and SET. Text without a known source is assumed to be in the column's
/// character set. `column` and `row` are for messages. NULL stays NULL:
/// NOT NULL is checked by the caller.
///
/// # Errors
/// In strict mode, where the value would change: 1264, 1265, 1292, 1366, 1406. In any mode,
/// JSON that does not parse: 3140.
pub fn store(
    value: ValueRef<'_>,
    source: Option<&ColumnType>,
    target: &ColumnType,
    column: &str,
    row: u64,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let to = Target {
        ty: target,
        source,
        column,
        row,
    };
    let value = enum_as_text(value, source, target);
    if value.is_null() {
        return Ok(Value::Null);
    }
    match target.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => {
            store_number::store_int(value, &to, cx)
        }
        Kind::Float | Kind::Double => store_number::store_real(value, &to, cx),
        Kind::Decimal => store_number::store_decimal(value, &to, cx),
        Kind::Bit => store_number::store_bit(value, &to, cx),
        Kind::Year => store_number::store_year(value, &to, cx),
        Kind::Date => store_temporal::store_date(value, &to, cx),
        Kind::DateTime => store_temporal::store_datetime(value, &to, cx),
        Kind::Timestamp => store_temporal::store_timestamp(value, &to, cx),
        Kind::Time => store_temporal::store_time(value, &to, cx),
        Kind::Enum => store_string::store_enum(value, &to, cx),
        Kind::Set => store_string::store_set(value, &to, cx),
        Kind::Json => store_json(value, &to),
        Kind::Null => Ok(Value::Null),
        _ => store_string::store_string(value, &to, cx),
    }
}

/// Replaces an ENUM's index by its member, unless the target is numeric.
fn enum_as_text<'a>(
    value: ValueRef<'a>,
    source: Option<&'a ColumnType>,
    target: &ColumnType,
) -> ValueRef<'a> {
    match source {
        Some(source) if !target.is_numeric() => crate::text::storage_to_sql(value, source),
        _ => value,
    }
}

fn store_json(value: ValueRef<'_>, to: &Target<'_>) -> Result<Value, TypeError> {
    let is_set = to.source.is_some_and(|source| source.kind == Kind::Set);
    let text = match (value, to.source) {
        (ValueRef::Bytes(text), _) => std::borrow::Cow::Borrowed(text),
        (bits, Some(source)) if is_set => text_of(bits, source).unwrap_or_default(),
        // Numbers, dates and times are no documents, whatever their text.
        _ => {
            let message = format!(
                "Invalid JSON text: \"not a JSON text, may need CAST\" at position 0 in value for column '{}'.",
                to.column
            );
            return Err(TypeError::new(ER_INVALID_JSON_TEXT, message));
        }
    };
    let charset = match to.source {
        Some(source) if source.is_string() => source.collation.charset(),
        _ => Charset::Utf8mb4,
    };
    let (utf8, _) = charset.convert(Charset::Utf8mb4, &text);
    json::normalize(&utf8).map(Value::Bytes).map_err(|reason| {
        let message = format!(
            "Invalid JSON text: {reason} in value for column '{}'.",
            to.column
        );
        TypeError::new(ER_INVALID_JSON_TEXT, message)
    })
}
