//! Conversion between clients' values and stored values.
//!
//! A value is stored as by an SQL INSERT in strict mode: one that does not fit is refused with MySQL's
//! number. Text is UTF-8 on the connection, whatever the column's character set; TIMESTAMP is UTC.

use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{Error, Result};
use porpoise_types::{
    CastCx, Charset, Collation, ColumnType, DateTime, Kind, SqlMode, TimeZone, Value, ValueRef,
    store,
};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// SQL mode of conversions: the modes in MySQL's default that affect storing a value.
const MODE: SqlMode = SqlMode::STRICT_TRANS_TABLES
    .union(SqlMode::NO_ZERO_IN_DATE)
    .union(SqlMode::NO_ZERO_DATE)
    .union(SqlMode::ERROR_FOR_DIVISION_BY_ZERO);

/// Type of the text on the connection.
static TEXT: LazyLock<ColumnType> =
    LazyLock::new(|| ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN));

/// Values that a column stores unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Every value of the encoding, unchanged.
    AsIs,
    /// Byte strings of at most this length, unchanged.
    Bytes(usize),
    /// UTF-8 text of at most this number of bytes, unchanged: it has at most as many characters.
    Utf8(usize),
    /// None: every value is checked and converted.
    Converted,
}

/// Conversion of one column's values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Converter {
    form: Form,
    /// Whether stored text has to be converted to UTF-8.
    pub(crate) transcodes: bool,
}

impl Converter {
    /// The conversion for a column.
    pub(crate) fn of(column: &Column) -> Converter {
        let ty = &column.ty;
        let charset = ty.collation.charset();
        let is_text = ty.is_string() && !ty.is_binary();
        let is_utf8 = matches!(charset, Charset::Utf8mb4);
        let length = usize::try_from(ty.length).unwrap_or(usize::MAX);
        let max_bytes = usize::try_from(ty.max_bytes()).unwrap_or(usize::MAX);
        let form = match ty.kind {
            Kind::TinyInt | Kind::SmallInt | Kind::Int | Kind::BigInt => Form::AsIs,
            Kind::VarBinary => Form::Bytes(length),
            Kind::VarChar if ty.is_binary() => Form::Bytes(length),
            Kind::TinyBlob | Kind::Blob | Kind::MediumBlob | Kind::LongBlob => {
                Form::Bytes(max_bytes)
            }
            Kind::VarChar if is_utf8 => Form::Utf8(length),
            Kind::TinyText | Kind::Text | Kind::MediumText | Kind::LongText if is_utf8 => {
                Form::Utf8(max_bytes)
            }
            _ => Form::Converted,
        };
        let is_readable = matches!(
            charset,
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Ascii
        );
        Converter {
            form,
            transcodes: is_text && !is_readable,
        }
    }

    /// Whether the column stores this value unchanged.
    #[inline]
    pub(crate) fn is_stored_unchanged(self, value: ValueRef<'_>) -> bool {
        match (self.form, value) {
            (_, ValueRef::Null) | (Form::AsIs, _) => true,
            (Form::Bytes(limit), ValueRef::Bytes(bytes)) => bytes.len() <= limit,
            (Form::Utf8(limit), ValueRef::Bytes(text)) => {
                text.len() <= limit && std::str::from_utf8(text).is_ok()
            }
            _ => false,
        }
    }

    /// Converts to the stored value.
    ///
    /// # Errors
    /// The value does not fit.
    #[inline]
    pub(crate) fn store(self, column: &Column, value: ValueRef<'_>, now: i64) -> Result<Value> {
        if self.is_stored_unchanged(value) {
            return Ok(value.to_owned());
        }
        let is_text = matches!(value, ValueRef::Bytes(_)) && !column.ty.is_binary();
        let source = is_text.then(|| &*TEXT);
        convert(value, source, &column.ty, &column.name, now)
    }

    /// Text of a stored value in UTF-8.
    ///
    /// # Errors
    /// A stored text that is invalid in its character set.
    #[cold]
    pub(crate) fn to_utf8(column: &Column, value: ValueRef<'_>) -> Result<Value> {
        convert(value, Some(&column.ty), &TEXT, &column.name, 0)
    }
}

/// Converts a value of a client to the stored one. Bytes are UTF-8 text, unless the column is binary.
///
/// # Errors
/// The value does not fit.
pub(crate) fn from_client(column: &Column, value: ValueRef<'_>) -> Result<Value> {
    let is_text = matches!(value, ValueRef::Bytes(_)) && !column.ty.is_binary();
    let source = is_text.then(|| &*TEXT);
    convert(value, source, &column.ty, &column.name, 0)
}

fn convert(
    value: ValueRef<'_>,
    source: Option<&ColumnType>,
    target: &ColumnType,
    name: &str,
    now: i64,
) -> Result<Value> {
    let mut cx = CastCx {
        mode: MODE,
        strict: true,
        warnings: &mut |_| {},
        tz: &TimeZone::UTC,
        now: DateTime::from_unix_micros(now).unwrap_or_default(),
    };
    Ok(store(value, source, target, name, 1, &mut cx)?)
}

/// Encodes the key of an index, or its first parts.
///
/// # Errors
/// A value does not fit its column, so that no row has this key.
#[inline]
pub(crate) fn append_key(
    table: &Table,
    index: usize,
    columns: impl Iterator<Item = (usize, Converter)> + Clone,
    values: &[ValueRef<'_>],
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut pairs = columns.clone().zip(values);
    if pairs.all(|((_, converter), value)| converter.is_stored_unchanged(*value)) {
        table.append_key_prefix(index, values, out);
        return Ok(());
    }
    let mut stored: SmallVec<[Value; 4]> = SmallVec::new();
    for ((position, converter), value) in columns.zip(values) {
        let column = table.columns.get(position);
        let column = column.ok_or(Error::DefinitionChanged)?;
        stored.push(converter.store(column, *value, 0)?);
    }
    let stored: SmallVec<[ValueRef<'_>; 4]> = stored.iter().map(Value::as_ref).collect();
    table.append_key_prefix(index, &stored, out);
    Ok(())
}

/// Default of a column in a new row; `None` if the row must have a value (1364).
pub(crate) fn default_of(column: &Column, now: i64) -> Option<Value> {
    if column.generated.is_some() || column.auto_increment {
        return Some(Value::Null);
    }
    match &column.default {
        // Expressions are evaluated when the row is complete.
        ColumnDefault::Null | ColumnDefault::Expr(_) => Some(Value::Null),
        ColumnDefault::Literal(value) => Some(value.clone()),
        ColumnDefault::Now => Some(now_of(column, now)),
        // The first member, as in SQL.
        ColumnDefault::None if column.ty.kind == Kind::Enum => Some(Value::UInt(1)),
        ColumnDefault::None => None,
    }
}

/// CURRENT_TIMESTAMP with the column's fractional digits.
pub(crate) fn now_of(column: &Column, now: i64) -> Value {
    DateTime::from_unix_micros(now)
        .and_then(|now| now.round(column.ty.decimals, true))
        .map_or(Value::Null, Value::DateTime)
}

/// Adds to a stored number.
///
/// # Errors
/// 1690 if the sum is no 64-bit number; 1264 if the column cannot hold it.
pub(crate) fn add(
    converter: Converter,
    column: &Column,
    stored: ValueRef<'_>,
    addend: ValueRef<'_>,
    now: i64,
) -> Result<Value> {
    let integer = |value| match value {
        ValueRef::Int(v) => Some(i128::from(v)),
        ValueRef::UInt(v) => Some(i128::from(v)),
        _ => None,
    };
    let sum = match (stored, addend) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => return Ok(Value::Null),
        (ValueRef::Double(a), ValueRef::Double(b)) => Value::Double(a + b),
        (a, b) => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => sum_of(column, a + b)?,
            _ => {
                return Err(Error::refused(
                    1235,
                    "42000",
                    "This version of Porpoise doesn't yet support 'adding to a column that is neither an integer nor a floating-point number'",
                ));
            }
        },
    };
    // Integers are checked against the column's range, whatever their width on the connection.
    let converter = Converter {
        form: Form::Converted,
        ..converter
    };
    converter.store(column, sum.as_ref(), now)
}

fn sum_of(column: &Column, sum: i128) -> Result<Value> {
    if let Ok(sum) = i64::try_from(sum) {
        return Ok(Value::Int(sum));
    }
    if let Ok(sum) = u64::try_from(sum) {
        return Ok(Value::UInt(sum));
    }
    let text = format!("BIGINT value is out of range in '{}'", column.name);
    Err(Error::refused(1690, "22003", text))
}
