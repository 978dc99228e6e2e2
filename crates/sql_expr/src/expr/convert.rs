//! Conversions of values during evaluation: a thin layer over `types` that supplies the session's
//! settings and the arena.

use super::describe::describe;
use super::eval::EvalCx;
use super::{Expr, ExprKind};
use crate::error::{Result, SqlError};
use bumpalo::Bump;
use porpoise_types::ColumnType;
use porpoise_types::temporal::delimiter::{self, DeprecatedDelimiter};
use porpoise_types::{
    CastCx, Charset, CompareAs, Date, DateTime, Decimal, Kind, SqlMode, Time, ValueRef, Warning,
    cast, compare,
};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::LazyLock;

/// Runs `f` with a conversion context of this evaluation. In strict mode the first warning becomes
/// the statement's error.
fn with_cast_cx<T>(cx: &EvalCx<'_>, f: impl FnOnce(&mut CastCx<'_>) -> T) -> Result<T> {
    let mut failed: Option<Warning> = None;
    let strict = cx.env.strict.get();
    let mut take = |warning: Warning| {
        if strict && failed.is_none() {
            failed = Some(warning.clone());
        }
        cx.env.warn(warning);
    };
    let mut cast = CastCx {
        mode: cx.env.mode,
        strict: false,
        warnings: &mut take,
        tz: &cx.env.time_zone,
        now: cx.env.now(),
    };
    let value = f(&mut cast);
    match failed {
        Some(w) => Err(SqlError::new(w.code, state_of(w.code), w.message)),
        None => Ok(value),
    }
}

fn state_of(code: u16) -> &'static str {
    match code {
        1292 => "22007",
        1366 | 1265 => "HY000",
        _ => "22000",
    }
}

/// Converts to a truth value; NULL is unknown. A JSON value is true unless it equals the JSON number 0.
#[inline]
pub fn truth(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Option<bool>> {
    match v {
        ValueRef::Null => Ok(None),
        ValueRef::Int(v) => Ok(Some(v != 0)),
        ValueRef::UInt(v) => Ok(Some(v != 0)),
        ValueRef::Bytes(_) if ty.kind == Kind::Json => {
            let zero = (ValueRef::Int(0), &ColumnType::bigint());
            let order = super::json::order((v, ty), zero)?;
            Ok(Some(order != Ordering::Equal))
        }
        _ => with_cast_cx(cx, |c| cast::to_bool(v, ty, c)),
    }
}

/// Converts to a signed integer: rounded, and clipped with a warning.
pub fn int(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<i64> {
    match v {
        ValueRef::Int(v) => Ok(v),
        _ => Ok(with_cast_cx(cx, |c| cast::to_i64(v, ty, c))?.unwrap_or(0)),
    }
}

/// The signed integer that a double beyond the range of BIGINT is clipped to, for literals and parameters. `None` for
/// other values, and for columns, whose conversion raises a warning.
///
/// # Errors
/// 1690 for a computed value beyond the range.
pub fn clipped_double(v: ValueRef<'_>, e: &Expr) -> Result<Option<i64>> {
    let ValueRef::Double(number) = v else {
        return Ok(None);
    };
    let (clipped, is_outside) = porpoise_types::round_to_i64(number);
    match &e.kind {
        _ if !is_outside => Ok(None),
        ExprKind::Const(_) | ExprKind::Param(_) => Ok(Some(clipped)),
        ExprKind::Column { .. } | ExprKind::Outer { .. } => Ok(None),
        _ => Err(SqlError::out_of_range("BIGINT", &describe(e))),
    }
}

/// Converts to an integer of either sign, for integer arithmetic.
pub fn wide(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<i128> {
    match v {
        ValueRef::Int(v) => Ok(i128::from(v)),
        ValueRef::UInt(v) => Ok(i128::from(v)),
        _ if ty.unsigned => Ok(i128::from(
            with_cast_cx(cx, |c| cast::to_u64(v, ty, c))?.unwrap_or(0),
        )),
        _ => Ok(i128::from(int(v, ty, cx)?)),
    }
}

/// Converts to 64 bits; NULL stays NULL.
pub fn bits(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Option<u64>> {
    match v {
        ValueRef::Null => Ok(None),
        ValueRef::UInt(v) => Ok(Some(v)),
        ValueRef::Int(v) => Ok(Some(v as u64)),
        ValueRef::Bytes(_) if is_bits(ty) => {
            with_cast_cx(cx, |c| cast::to_u64(v, ty, c)).map(|n| n.or(Some(0)))
        }
        _ => {
            let number = int(v, ty, cx)?;
            Ok(Some(number as u64))
        }
    }
}

/// Converts to a double.
pub fn double(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<f64> {
    match v {
        ValueRef::Double(v) => Ok(v),
        ValueRef::Int(v) => Ok(v as f64),
        _ => Ok(with_cast_cx(cx, |c| cast::to_f64(v, ty, c))?.unwrap_or(0.0)),
    }
}

/// Converts to a decimal.
pub fn decimal(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Decimal> {
    match v {
        ValueRef::Decimal(v) => Ok(v),
        ValueRef::Int(v) => Ok(Decimal::from_i64(v)),
        _ => {
            let zero = Decimal::from_i64(0);
            Ok(with_cast_cx(cx, |c| cast::to_decimal(v, ty, c))?.unwrap_or(zero))
        }
    }
}

/// Converts to a decimal for [`CompareAs::Number`].
pub fn exact_number(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Decimal> {
    match v {
        ValueRef::Int(v) => Ok(Decimal::from_i64(v)),
        _ => {
            let number = with_cast_cx(cx, |c| cast::to_exact_number(v, ty, c))?;
            Ok(number.unwrap_or(Decimal::ZERO))
        }
    }
}

/// Converts to a date and time; `None` with a warning if the value is not a valid one.
pub fn datetime(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Option<DateTime>> {
    match v {
        ValueRef::DateTime(v) => Ok(Some(v)),
        _ => {
            let moment = with_cast_cx(cx, |c| cast::to_datetime(v, ty, c))?;
            warn_of_delimiter(v, moment.is_some(), delimiter::of_date, cx);
            Ok(moment)
        }
    }
}

/// Warning 4095 or 4096 for a deprecated delimiter in the text of a valid date or time.
fn warn_of_delimiter(
    v: ValueRef<'_>,
    is_valid: bool,
    find: fn(&[u8]) -> Option<DeprecatedDelimiter>,
    cx: &EvalCx<'_>,
) {
    if let (ValueRef::Bytes(text), true) = (v, is_valid)
        && let Some(found) = find(text)
    {
        let (code, message) = cast::delimiter_warning(found, text, 1);
        cx.env.warn(Warning {
            level: porpoise_types::Level::Warning,
            code,
            message,
        });
    }
}

/// Converts to a date; `None` with a warning if the value is not a valid one.
pub fn date(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Option<Date>> {
    let date = with_cast_cx(cx, |c| cast::to_date(v, ty, c))?;
    warn_of_delimiter(v, date.is_some(), delimiter::of_date, cx);
    Ok(date)
}

/// Converts to a time; `None` with a warning if the value is not a valid one.
pub fn time(v: ValueRef<'_>, ty: &ColumnType, cx: &EvalCx<'_>) -> Result<Option<Time>> {
    let time = with_cast_cx(cx, |c| cast::to_time(v, ty, c))?;
    warn_of_delimiter(v, time.is_some(), delimiter::of_time, cx);
    Ok(time)
}

/// Converts to text, as results are sent; NULL stays NULL.
pub fn text<'a>(v: ValueRef<'a>, ty: &ColumnType, cx: &EvalCx<'a>) -> Result<Option<&'a [u8]>> {
    match v {
        ValueRef::Null => Ok(None),
        ValueRef::Bytes(text) => Ok(Some(text)),
        _ => {
            let mut out = Vec::with_capacity(32);
            cast::to_text(v, ty, &mut out);
            Ok(Some(cx.arena.alloc_slice_copy(&out)))
        }
    }
}

/// Copies a value into the arena of the evaluation.
pub fn keep<'a>(v: &porpoise_types::Value, cx: &EvalCx<'a>) -> ValueRef<'a> {
    keep_ref(v.as_ref(), cx.arena)
}

/// Copies a value into an arena.
pub fn keep_ref<'a>(v: ValueRef<'_>, arena: &'a Bump) -> ValueRef<'a> {
    match v {
        ValueRef::Null => ValueRef::Null,
        ValueRef::Int(v) => ValueRef::Int(v),
        ValueRef::UInt(v) => ValueRef::UInt(v),
        ValueRef::Double(v) => ValueRef::Double(v),
        ValueRef::Decimal(v) => ValueRef::Decimal(v),
        ValueRef::Bytes(v) => ValueRef::Bytes(arena.alloc_slice_copy(v)),
        ValueRef::Date(v) => ValueRef::Date(v),
        ValueRef::DateTime(v) => ValueRef::DateTime(v),
        ValueRef::Time(v) => ValueRef::Time(v),
    }
}

/// Compares two values of these types; `None` if one is NULL.
pub fn order(
    how: CompareAs,
    a: ValueRef<'_>,
    a_ty: &ColumnType,
    b: ValueRef<'_>,
    b_ty: &ColumnType,
    cx: &EvalCx<'_>,
) -> Result<Option<Ordering>> {
    if how == CompareAs::Json && (a_ty.kind != Kind::Json || b_ty.kind != Kind::Json) {
        return if a.is_null() || b.is_null() {
            Ok(None)
        } else {
            super::json::order((a, a_ty), (b, b_ty)).map(Some)
        };
    }
    if let Some(order) = fast_order(how, a, a_ty, b, b_ty) {
        return Ok(Some(order));
    }
    if a.is_null() || b.is_null() {
        return Ok(None);
    }
    if how == CompareAs::Number
        && let Some(order) = integer_order(a, b)
    {
        return Ok(Some(order));
    }
    if !matches!(how, CompareAs::Bytes(_)) && (is_bits(a_ty) || is_bits(b_ty)) {
        let number = |v, ty| {
            if is_bits(ty) {
                bits(v, ty, cx).map(|n| n.map_or(ValueRef::Null, ValueRef::UInt))
            } else {
                Ok(v)
            }
        };
        let (a, b) = (number(a, a_ty)?, number(b, b_ty)?);
        return with_cast_cx(cx, |c| compare::compare(a, b, how, c));
    }
    if let (CompareAs::Bytes(collation), ValueRef::Bytes(x), ValueRef::Bytes(y)) = (how, a, b) {
        let x = recode(x, a_ty, collation.charset());
        let y = recode(y, b_ty, collation.charset());
        return Ok(Some(collation.compare(&x, &y)));
    }
    with_cast_cx(cx, |c| compare::compare(a, b, how, c))
}

/// Compares an integer with a text of few digits, without a decimal.
fn integer_order(a: ValueRef<'_>, b: ValueRef<'_>) -> Option<Ordering> {
    match (a, b) {
        (ValueRef::Int(a), ValueRef::Bytes(b)) => Some(a.cmp(&plain_integer(b)?)),
        (ValueRef::Bytes(a), ValueRef::Int(b)) => Some(plain_integer(a)?.cmp(&b)),
        _ => None,
    }
}

/// The integer that a text of at most 18 digits stands for; `None` for other texts.
pub fn plain_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |n: i64, digit: &u8| n * 10 + i64::from(digit - b'0');
    let number = digits.iter().fold(0, add);
    Some(if negative { -number } else { number })
}

/// Whether it is the type of a hexadecimal or bit literal, which is a number in numeric contexts
/// (manual, "Hexadecimal Literals").
pub fn is_bits(ty: &ColumnType) -> bool {
    ty.kind == Kind::VarBinary && ty.unsigned
}

/// The types of values that are assigned as numbers.
static NUMBER: LazyLock<ColumnType> = LazyLock::new(ColumnType::bigint_unsigned);
static REAL: LazyLock<ColumnType> = LazyLock::new(ColumnType::double);

/// The value and type that an assignment to a column of the type `to` converts from. To numeric columns, hexadecimal
/// literals and values of ENUM and SET are assigned as numbers; to other columns, BIT as an integer and FLOAT as a
/// double.
#[must_use]
pub fn for_assignment<'a>(
    value: ValueRef<'a>,
    from: &'a ColumnType,
    to: &ColumnType,
) -> (ValueRef<'a>, &'a ColumnType) {
    let to_number = to.is_numeric();
    match (value, from.kind) {
        (ValueRef::Bytes(text), Kind::Enum | Kind::Set) if to_number => {
            (ValueRef::UInt(member_number(text, from)), &NUMBER)
        }
        (ValueRef::Bytes(bytes), _) if is_bits(from) && to_number => {
            let number = bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
            (ValueRef::UInt(number), &NUMBER)
        }
        (ValueRef::UInt(_), Kind::Bit) if !to_number && to.kind != Kind::Json => (value, &NUMBER),
        (ValueRef::Double(_), Kind::Float) if !to_number => (value, &REAL),
        _ => (value, from),
    }
}

/// The number of the text of an ENUM or SET: the index, or the bits.
#[must_use]
pub fn member_number(text: &[u8], ty: &ColumnType) -> u64 {
    let index = |text: &[u8]| ty.members.iter().position(|member| member.as_ref() == text);
    match ty.kind {
        Kind::Enum => index(text).map_or(0, |at| at as u64 + 1),
        _ => {
            let bits = text.split(|byte| *byte == b',').filter_map(index);
            bits.fold(0, |number, at| number | 1 << (at & 63))
        }
    }
}

fn fast_order(
    how: CompareAs,
    a: ValueRef<'_>,
    a_ty: &ColumnType,
    b: ValueRef<'_>,
    b_ty: &ColumnType,
) -> Option<Ordering> {
    match (how, a, b) {
        (CompareAs::Bytes(_), ..) if a_ty.collation.charset() != b_ty.collation.charset() => None,
        _ => compare::compare_direct(a, b, how),
    }
}

/// Text converted to another character set, unless the bytes are the same.
pub fn recode<'t>(text: &'t [u8], ty: &ColumnType, to: Charset) -> Cow<'t, [u8]> {
    let from = ty.collation.charset();
    if from == to {
        return Cow::Borrowed(text);
    }
    from.convert(to, text).0
}

/// Converts the value of a branch to the type of the whole expression.
pub fn to_type<'a>(
    v: ValueRef<'a>,
    from: &Expr,
    whole: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if from.ty == whole.ty {
        return Ok(v);
    }
    cast(v, &from.ty, &whole.ty, cx)
}

/// A value of CAST; NULL with a warning for a date with a zero part that the SQL mode does not permit.
pub fn permitted_date<'a>(value: ValueRef<'a>, cx: &EvalCx<'a>) -> ValueRef<'a> {
    let date = match value {
        ValueRef::Date(date) => date,
        ValueRef::DateTime(moment) => moment.date(),
        _ => return value,
    };
    let has_zero = (date.month() == 0 || date.day() == 0) && !date.is_zero();
    if !has_zero || !cx.env.mode.contains(SqlMode::NO_ZERO_IN_DATE) {
        return value;
    }
    let mut shown = Vec::new();
    let ty = match value {
        ValueRef::Date(_) => ColumnType::date(),
        _ => ColumnType::datetime(0),
    };
    porpoise_types::write_text(value, &ty, &mut shown);
    let shown = String::from_utf8_lossy(&shown);
    cx.env.warn(Warning {
        level: porpoise_types::Level::Warning,
        code: 1292,
        message: format!("Incorrect datetime value: '{shown}'"),
    });
    ValueRef::Null
}

/// CAST to a type.
pub fn cast<'a>(
    v: ValueRef<'a>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if v.is_null() {
        return Ok(v);
    }
    match to.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt | Kind::Bit => {
            cast_int(v, from, to, cx)
        }
        Kind::Year => cast_year(v, from, cx),
        Kind::Double => Ok(ValueRef::Double(double(v, from, cx)?)),
        Kind::Float => Ok(ValueRef::Double(f64::from(double(v, from, cx)? as f32))),
        Kind::Decimal => cast_decimal(v, from, to, cx),
        Kind::Date => Ok(date(v, from, cx)?.map_or(ValueRef::Null, ValueRef::Date)),
        Kind::DateTime | Kind::Timestamp => {
            let cut = cx.env.mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL);
            let moment = datetime(v, from, cx)?.and_then(|m| m.round(to.decimals.min(6), cut));
            Ok(moment.map_or(ValueRef::Null, ValueRef::DateTime))
        }
        Kind::Time => {
            let cut = cx.env.mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL);
            let time = time(v, from, cx)?.map(|t| t.round(to.decimals.min(6), cut));
            Ok(time.map_or(ValueRef::Null, ValueRef::Time))
        }
        Kind::Null => Ok(v),
        Kind::Json => super::json::cast(v, from, cx),
        _ => cast_text(v, from, to, cx),
    }
}

fn cast_int<'a>(
    v: ValueRef<'a>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    Ok(match (to.unsigned, v) {
        (true, ValueRef::Int(v)) => ValueRef::UInt(v as u64),
        (true, v @ ValueRef::UInt(_)) | (false, v @ ValueRef::Int(_)) => v,
        (false, ValueRef::UInt(v)) => ValueRef::Int(v as i64),
        (true, v) => ValueRef::UInt(with_cast_cx(cx, |c| cast::to_u64(v, from, c))?.unwrap_or(0)),
        (false, v) => ValueRef::Int(int(v, from, cx)?),
    })
}

/// CAST to YEAR: two digits are a year from 1970 to 2069. NULL with a warning for years outside of the type's
/// range.
fn cast_year<'a>(v: ValueRef<'a>, from: &ColumnType, cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    let mut shown = Vec::new();
    let year = match v {
        ValueRef::Date(d) => i64::from(d.year()),
        ValueRef::DateTime(d) => i64::from(d.year()),
        ValueRef::Time(_) => i64::from(cx.env.now().year()),
        ValueRef::Bytes(text) => {
            let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                let text = String::from_utf8_lossy(text);
                let message = format!("Incorrect YEAR value: '{text}'");
                cx.env.warn(year_warning(1525, message));
                return Ok(ValueRef::Null);
            }
            shown.extend_from_slice(text);
            let number = text.get(..digits).unwrap_or_default();
            let number = String::from_utf8_lossy(number).parse().unwrap_or(i64::MAX);
            if digits < text.len() {
                let text = String::from_utf8_lossy(text);
                let message = format!("Truncated incorrect YEAR value: '{text}'");
                cx.env.warn(year_warning(1292, message));
            }
            // In a string, zero is the year 2000 unless it has four digits.
            if number == 0 && digits != 4 {
                2000
            } else {
                number
            }
        }
        _ => int(v, from, cx)?,
    };
    let full = match year {
        1..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    if full == 0 || (1901..=2155).contains(&full) {
        return Ok(ValueRef::UInt(full.unsigned_abs()));
    }
    if shown.is_empty() {
        shown.extend_from_slice(year.to_string().as_bytes());
    }
    let shown = String::from_utf8_lossy(&shown);
    let message = format!("Truncated incorrect YEAR value: '{shown}'");
    cx.env.warn(year_warning(1292, message));
    Ok(ValueRef::Null)
}

fn year_warning(code: u16, message: String) -> Warning {
    Warning {
        level: porpoise_types::Level::Warning,
        code,
        message,
    }
}

fn cast_decimal<'a>(
    v: ValueRef<'a>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let precision = u8::try_from(to.length).unwrap_or(65);
    let exact = decimal(v, from, cx)?.rescale(to.decimals);
    let fitting = exact.ok().filter(|d| d.fits(precision, to.decimals));
    if let Some(value) = fitting {
        return Ok(ValueRef::Decimal(value));
    }
    cx.env.warn(Warning {
        level: porpoise_types::Level::Warning,
        code: 1264,
        message: "Out of range value for column 'cast' at row 1".to_owned(),
    });
    let most = Decimal::max_value(precision, to.decimals);
    let negative = decimal(v, from, cx)?.is_negative();
    Ok(ValueRef::Decimal(if negative { most.neg() } else { most }))
}

/// The text of bytes that are invalid from a position on: NULL in strict mode, otherwise the bytes
/// before; with warning 1300.
fn invalid_text<'a>(bytes: &'a [u8], at: usize, charset: Charset, cx: &EvalCx<'a>) -> ValueRef<'a> {
    let (valid, rest) = bytes.split_at(at.min(bytes.len()));
    let shown = rest.iter().take(6).map(|b| format!("{b:02X}"));
    let more = if rest.len() > 6 { "..." } else { "" };
    let message = format!(
        "Invalid {} character string: '{}{more}'",
        charset.name(),
        shown.collect::<String>()
    );
    cx.env.warn(Warning {
        level: porpoise_types::Level::Warning,
        code: 1300,
        message,
    });
    if cx.env.mode.is_strict() {
        ValueRef::Null
    } else {
        ValueRef::Bytes(valid)
    }
}

fn cast_text<'a>(
    v: ValueRef<'a>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let Some(plain) = text(v, from, cx)? else {
        return Ok(ValueRef::Null);
    };
    let charset = to.collation.charset();
    // Character sets that are stored as UTF-8 have a `?` for what UTF-8 cannot represent, such as lone surrogates of ucs2.
    if from.is_binary()
        && charset != Charset::Binary
        && !charset.is_kept_as_utf8()
        && let (_, Some(at)) = charset.decoded(plain)
    {
        return Ok(invalid_text(plain, at, charset, cx));
    }
    let text = match recode(plain, from, charset) {
        Cow::Borrowed(_) => plain,
        Cow::Owned(text) => cx.arena.alloc_slice_copy(&text),
    };
    let limited = matches!(
        to.kind,
        Kind::Char | Kind::Binary | Kind::VarChar | Kind::VarBinary
    );
    if !limited || to.length == u32::MAX {
        return Ok(ValueRef::Bytes(text));
    }
    let keep = charset.prefix_len(text, to.length as usize);
    let cut = text.get(..keep).unwrap_or(text);
    if cut.len() < text.len() {
        let kind = match charset {
            Charset::Binary => "BINARY",
            _ => "CHAR",
        };
        let (length, shown) = (to.length, String::from_utf8_lossy(text));
        let message = format!("Truncated incorrect {kind}({length}) value: '{shown}'");
        with_cast_cx(cx, |cast| cast.warn(1292, message))?;
    }
    if to.kind == Kind::Binary && cut.len() < to.length as usize {
        let length = to.length as usize;
        if length as u64 > cx.env.max_allowed_packet {
            let limit = cx.env.max_allowed_packet;
            let message = format!(
                "Result of cast_as_binary() was larger than max_allowed_packet ({limit}) - truncated"
            );
            with_cast_cx(cx, |cast| cast.warn(1301, message))?;
            return Ok(ValueRef::Null);
        }
        let mut padded = cut.to_vec();
        padded.resize(length, 0);
        return Ok(ValueRef::Bytes(cx.arena.alloc_slice_copy(&padded)));
    }
    Ok(ValueRef::Bytes(cut))
}
