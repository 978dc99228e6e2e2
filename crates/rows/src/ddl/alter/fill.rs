//! Values of an added column in existing rows.

use crate::ddl::DdlCx;
use crate::definition::{Column, ColumnDefault};
use crate::error::{Error, Result};
use crate::expressions::RowContext;
use porpoise_types::{
    CastCx, Date, DateTime, Decimal, Kind, SqlMode, Time, TypeError, Value, ValueRef,
};

/// MySQL's implicit default of a type (manual, "Data Type Default Values").
pub fn implicit_default(ty: &porpoise_types::ColumnType) -> Value {
    match ty.kind {
        Kind::Float | Kind::Double => Value::Double(0.0),
        Kind::Decimal => {
            let zero = Decimal::from_i64(0);
            Value::Decimal(zero.rescale(ty.decimals).unwrap_or(zero))
        }
        Kind::Date => Date::from_packed(0).map_or(Value::Null, Value::Date),
        Kind::DateTime | Kind::Timestamp => Value::DateTime(DateTime::ZERO),
        Kind::Time => Value::Time(Time::ZERO),
        Kind::Enum => Value::UInt(1),
        Kind::Set | Kind::Bit | Kind::Year => Value::UInt(0),
        _ if ty.is_integer() && ty.unsigned => Value::UInt(0),
        _ if ty.is_integer() => Value::Int(0),
        Kind::Json => Value::Bytes(b"null".to_vec()),
        Kind::Binary => Value::Bytes(vec![0; ty.length as usize]),
        _ => Value::Bytes(Vec::new()),
    }
}

/// Returns the value of an added column in existing rows: its present default, evaluated once
/// (`utc` is the statement's time in microseconds).
pub(super) fn default_for_existing_rows(column: &Column, utc: i64, cast: &CastCx<'_>) -> Value {
    match &column.default {
        ColumnDefault::Literal(value) => value.clone(),
        ColumnDefault::Null => Value::Null,
        ColumnDefault::Now => {
            let moment = match column.ty.kind {
                Kind::Timestamp => DateTime::from_unix_micros(utc).unwrap_or(cast.now),
                _ => cast.now,
            };
            let rounded = moment.round(column.ty.decimals.min(6), true);
            Value::DateTime(rounded.unwrap_or(moment))
        }
        // The rows are copied, and the value is computed then.
        ColumnDefault::Expr(_) => Value::Null,
        ColumnDefault::None if column.nullable => Value::Null,
        ColumnDefault::None => implicit_default(&column.ty),
    }
}

/// Context in which the definition's expressions are evaluated while rows are checked or copied.
pub(in crate::ddl) fn row_context(cx: &DdlCx<'_>, cast: &CastCx<'_>) -> RowContext {
    let mut env = RowContext::plain(DateTime::from_unix_micros(cx.now).unwrap_or(cast.now));
    env.time_zone = cast.tz.clone();
    env.mode = cast.mode;
    env.strict = cast.strict;
    env
}

/// 1292 if existing rows would get a zero date, which the SQL mode does not allow.
pub(super) fn check_zero_date(column: &Column, cast: &CastCx<'_>) -> Result<()> {
    let temporal = match column.ty.kind {
        Kind::Date => "date",
        Kind::DateTime | Kind::Timestamp => "datetime",
        _ => return Ok(()),
    };
    let implicit = column.default == ColumnDefault::None && !column.nullable;
    let modes = SqlMode::NO_ZERO_DATE;
    if !implicit || !cast.strict || !cast.mode.contains(modes) {
        return Ok(());
    }
    let zero = match column.ty.kind {
        Kind::Date => "0000-00-00",
        _ => "0000-00-00 00:00:00",
    };
    let text = format!(
        "Incorrect {temporal} value: '{zero}' for column '{}' at row 1",
        column.name
    );
    Err(Error::Type(TypeError::new(1292, text)))
}

/// Whether a value requests a generated id.
pub(super) fn needs_generated_id(value: &Value, zero_is_a_value: bool) -> bool {
    match value.as_ref() {
        ValueRef::Null => true,
        ValueRef::Int(0) | ValueRef::UInt(0) => !zero_is_a_value,
        ValueRef::Double(v) => v == 0.0 && !zero_is_a_value,
        _ => false,
    }
}

/// A value of an auto-increment column as a number; negative ones are 0.
pub(super) fn id_of(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Int(v) => u64::try_from(v).unwrap_or(0),
        ValueRef::UInt(v) => v,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from float saturates"
        )]
        ValueRef::Double(v) => v.round() as u64,
        _ => 0,
    }
}
