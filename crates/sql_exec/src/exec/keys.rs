//! Conversion of values to index keys and key ranges.
//!
//! A value is first converted to the type of its index column. If nothing is lost the key is exact.
//! If no value of the column can be equal (5.5 in an integer column, text that is not a number), there
//! is no key and no row matches. A range bound that does not fit is dropped, and the condition is
//! checked on the rows; an integer beyond the range of an integer column gives the exact range: no row,
//! or no bound. A double beyond 2^53 equals several integers, whose keys are all looked up.

use super::ExecResult;
use super::key_list::KeyList;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, ExprKind, convert};
use crate::plan::scan::{Bound, IndexRange};
use porpoise_rows::KeyRange;
use porpoise_rows::catalog::Table;
use porpoise_types::array::elements;
use porpoise_types::{
    CastCx, Collation, ColumnType, Decimal, Kind, SqlMode, Time, Value, ValueRef, cast, store,
    to_datetime, to_time,
};

/// A value converted to the type of an index column.
pub(super) enum KeyValue {
    /// The exact value.
    Exact(Value),
    /// The integers from the first to the last, which equal the value when compared as doubles.
    Integers(i128, i128),
    /// No value of the column can be equal.
    NoMatch,
}

/// The value of an expression, converted to the type of a column.
pub(super) fn convert_to_column(
    value: ValueRef<'_>,
    e: &Expr,
    to: &ColumnType,
    cx: &EvalCx<'_>,
) -> KeyValue {
    match value {
        // Compared without loss ([`porpoise_types::CompareAs::Number`]).
        ValueRef::Bytes(text)
            if is_plain_integer(to) && e.is_literal() && !convert::is_bits(&e.ty) =>
        {
            let number = match convert::plain_integer(text) {
                Some(number) => ValueRef::Int(number),
                None => ValueRef::Decimal(cast::exact_prefix(text)),
            };
            converted(number, &e.ty, to, cx)
        }
        _ => converted(value, &e.ty, to, cx),
    }
}

fn converted(value: ValueRef<'_>, from: &ColumnType, to: &ColumnType, cx: &EvalCx<'_>) -> KeyValue {
    match (value, to.kind) {
        (ValueRef::Null, _) => KeyValue::NoMatch,
        (ValueRef::Int(v), _) if to.is_integer() && !to.unsigned && in_range(v.into(), to) => {
            KeyValue::Exact(Value::Int(v))
        }
        _ if to.is_integer() || to.kind == Kind::Year => integer(value, from, to, cx),
        (ValueRef::Bytes(text), Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary) => {
            // Longer than the column: no row has such a key, so looking it up finds nothing.
            let text = convert::recode(text, from, to.collation.charset());
            KeyValue::Exact(Value::Bytes(text.into_owned()))
        }
        // Number 0 is stored for a text that is not a member of the ENUM.
        (ValueRef::Int(0) | ValueRef::UInt(0), Kind::Enum) => KeyValue::Exact(Value::UInt(0)),
        _ => convert_exactly(value, from, to, cx),
    }
}

fn in_range(v: i128, ty: &ColumnType) -> bool {
    let (least, most) = ty.int_range();
    (least..=most).contains(&v)
}

fn integer(value: ValueRef<'_>, from: &ColumnType, to: &ColumnType, cx: &EvalCx<'_>) -> KeyValue {
    let exact = match value {
        ValueRef::Int(v) => Some(i128::from(v)),
        ValueRef::UInt(v) => Some(i128::from(v)),
        ValueRef::Decimal(d) => whole(d),
        ValueRef::Bytes(_) if convert::is_bits(from) => {
            let bits = convert::bits(value, from, cx).ok().flatten();
            bits.map(i128::from)
        }
        _ => match convert::double(value, from, cx) {
            Ok(d) if d.fract() == 0.0 && d.abs() < EXACT_DOUBLES => Some(d as i128),
            Ok(d) if d.abs() < 2.0 * u64::MAX as f64 => return integers_of(d, to),
            _ => None,
        },
    };
    let exact = exact.filter(|v| in_range(*v, to));
    let value = exact.and_then(|exact| integer_value(exact, to));
    value.map_or(KeyValue::NoMatch, KeyValue::Exact)
}

/// Bound (2^53) below which each whole double equals exactly one integer.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;

/// The integers of a column that equal a double of at least [`EXACT_DOUBLES`].
fn integers_of(d: f64, to: &ColumnType) -> KeyValue {
    if d.fract() != 0.0 {
        return KeyValue::NoMatch;
    }
    // Distance to the next double away from zero. The integers that are rounded to `d` are at most
    // half of it away.
    let whole = d as i128;
    let gap = f64::from_bits(d.to_bits() + 1) as i128 - whole;
    let (mut first, mut last) = (whole - gap.abs() / 2, whole + gap.abs() / 2);
    while first < whole && first as f64 != d {
        first += 1;
    }
    while last > whole && last as f64 != d {
        last -= 1;
    }
    let (least, most) = to.int_range();
    let (first, last) = (first.max(least), last.min(most));
    if first > last {
        return KeyValue::NoMatch;
    }
    KeyValue::Integers(first, last)
}

/// An integer as a value of an integer column.
fn integer_value(v: i128, to: &ColumnType) -> Option<Value> {
    if to.unsigned {
        u64::try_from(v).ok().map(Value::UInt)
    } else {
        i64::try_from(v).ok().map(Value::Int)
    }
}

fn whole(d: Decimal) -> Option<i128> {
    let cut = d.truncate(0);
    if cut.cmp_value(&d).is_ne() {
        return None;
    }
    match (cut.to_i64(), cut.to_u64()) {
        (Some(v), _) => Some(i128::from(v)),
        (None, Some(v)) => Some(i128::from(v)),
        (None, None) => None,
    }
}

/// Converts as an assignment would; exact only if that changes nothing.
fn convert_exactly(
    value: ValueRef<'_>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'_>,
) -> KeyValue {
    let mut changed = false;
    let mut note = |_| changed = true;
    // Zero dates are values of a column whatever the mode permits now.
    let mode = match value {
        ValueRef::Date(_) | ValueRef::DateTime(_) => SqlMode::ALLOW_INVALID_DATES,
        _ => cx.env.mode,
    };
    let mut cast = CastCx {
        mode,
        strict: true,
        warnings: &mut note,
        tz: &cx.env.time_zone,
        now: cx.env.now(),
    };
    if is_finer(value, from, to, &mut cast) {
        return KeyValue::NoMatch;
    }
    // A text is compared as the number that it begins with.
    let value = match (value, to.kind) {
        (ValueRef::Bytes(text), Kind::Decimal) if !convert::is_bits(from) => {
            ValueRef::Decimal(cast::exact_prefix(text))
        }
        (ValueRef::Bytes(text), Kind::Double) if !convert::is_bits(from) => {
            ValueRef::Double(porpoise_types::double_prefix(text).value)
        }
        _ => value,
    };
    match store(value, Some(from), to, "", 0, &mut cast) {
        Ok(Value::Null) | Err(_) => KeyValue::NoMatch,
        Ok(value) if changed => {
            drop(value);
            KeyValue::NoMatch
        }
        Ok(value) => KeyValue::Exact(value),
    }
}

/// Whether a value has a part of a day or of a second that a date or time column does not hold, so that an
/// assignment would round it.
fn is_finer(
    value: ValueRef<'_>,
    from: &ColumnType,
    to: &ColumnType,
    cast: &mut CastCx<'_>,
) -> bool {
    let unit = 10u32.pow(6 - u32::from(to.decimals.min(6)));
    let has_more = |micros: u32| !micros.is_multiple_of(unit);
    match to.kind {
        Kind::Date => to_datetime(value, from, cast).is_some_and(|m| m.time() != Time::ZERO),
        Kind::DateTime | Kind::Timestamp => {
            to_datetime(value, from, cast).is_some_and(|m| has_more(m.micros()))
        }
        Kind::Time => to_time(value, from, cast).is_some_and(|t| has_more(t.micros())),
        _ => false,
    }
}

/// Values of the leading parts of an index.
type Values = smallvec::SmallVec<[Value; 4]>;

/// Encoded key prefixes.
pub type Prefixes = smallvec::SmallVec<[Vec<u8>; 1]>;

/// The encoded key prefixes of these expressions for the leading parts of an index; none if no row
/// can have one.
pub fn prefixes<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Prefixes> {
    if let Some(value) = constant_integer(table, index, parts, cx) {
        return Ok(smallvec::smallvec![table.key_prefix(index, &[value])]);
    }
    let all = values(table, index, parts, row, cx)?.into_iter();
    Ok(all.map(|values| encoded(table, index, &values)).collect())
}

/// Adds the encoded key prefixes of these expressions to a list, as [`prefixes`] returns them.
pub(super) fn append_prefixes<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
    out: &mut KeyList,
) -> ExecResult<()> {
    if let Some(value) = constant_integer(table, index, parts, cx) {
        out.push_with(|bytes| table.append_key_prefix(index, &[value], bytes));
        return Ok(());
    }
    for values in values(table, index, parts, row, cx)? {
        out.push(&encoded(table, index, &values));
    }
    Ok(())
}

/// The value of a key that is a single parameter or constant, and an integer in the range of the index's first column. Most
/// look-ups by a key are of this form. `None` for others.
#[inline]
fn constant_integer<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    cx: &EvalCx<'a>,
) -> Option<ValueRef<'a>> {
    let [e] = parts else {
        return None;
    };
    let value = match &e.kind {
        ExprKind::Param(at) => *cx.params.get(*at)?,
        ExprKind::Const(value) => value.as_ref(),
        _ => return None,
    };
    let ValueRef::Int(number) = value else {
        return None;
    };
    let part = table.indexes.get(index)?.parts.first()?;
    let ty = &table.columns.get(part.column)?.ty;
    let fits = ty.is_integer() && !ty.unsigned && in_range(number.into(), ty);
    fits.then_some(value)
}

fn encoded(table: &Table, index: usize, values: &[Value]) -> Vec<u8> {
    let refs: smallvec::SmallVec<[ValueRef<'_>; 4]> = values.iter().map(Value::as_ref).collect();
    table.key_prefix(index, &refs)
}

/// The values of these expressions, converted to the types of the leading parts of an index; none if
/// no row can have them. Several if one of them is a double that equals several integers.
fn values<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<smallvec::SmallVec<[Values; 1]>> {
    let none = || Ok(smallvec::SmallVec::new());
    let mut values = Values::new();
    let mut several = None;
    let Some(definition) = table.indexes.get(index) else {
        return none();
    };
    for (part, e) in definition.parts.iter().zip(parts) {
        let Some(column) = table.columns.get(part.column) else {
            return none();
        };
        if matches!(e.kind, ExprKind::ArrayKeys(..)) {
            // Taken by `array_prefixes`.
            values.push(Value::Null);
            continue;
        }
        // A literal NULL comes from IS NULL and has a key. If it comes from an equality, the
        // condition rejects the rows found.
        if matches!(e.kind, ExprKind::Const(Value::Null)) && column.nullable {
            values.push(Value::Null);
            continue;
        }
        match convert_to_column(eval(e, row, cx)?, e, &column.ty, cx) {
            KeyValue::Exact(value) => values.push(value),
            // The planner leaves at most one such part in a key.
            KeyValue::Integers(first, last) => {
                several = Some((values.len(), &column.ty, first..=last));
                values.push(Value::Null);
            }
            KeyValue::NoMatch => return none(),
        }
    }
    let Some((at, ty, integers)) = several else {
        return Ok(smallvec::smallvec![values]);
    };
    let each = integers.filter_map(|v| integer_value(v, ty));
    Ok(each
        .map(|v| {
            let mut own = values.clone();
            if let Some(place) = own.get_mut(at) {
                *place = v;
            }
            own
        })
        .collect())
}

/// As [`prefixes`], for an index with a multi-valued part, to which one of the expressions gives an
/// array of keys: a prefix for each of them. `None` if no expression gives one, or if it has no keys
/// in this index (a text for an index over numbers).
pub fn array_prefixes<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Vec<Vec<u8>>>> {
    let array = parts.iter().enumerate().find_map(|(at, e)| match e.kind {
        ExprKind::ArrayKeys(..) => Some((at, e)),
        _ => None,
    });
    let Some((at, keys)) = array else {
        return Ok(None);
    };
    let ValueRef::Bytes(stored) = eval(keys, row, cx)? else {
        return Ok(None);
    };
    let mut prefixes = Vec::new();
    for mut values in values(table, index, parts, row, cx)? {
        for element in elements(stored) {
            cx.env.tick()?;
            if let Some(place) = values.get_mut(at) {
                *place = Value::Bytes(element.to_vec());
            }
            prefixes.push(encoded(table, index, &values));
        }
    }
    Ok(Some(prefixes))
}

/// The encoded key prefixes of a value for the first part of an index, which is not compared as a
/// literal; none if no row can have one.
pub fn of_value(
    table: &Table,
    index: usize,
    value: ValueRef<'_>,
    ty: &ColumnType,
    cx: &EvalCx<'_>,
) -> Prefixes {
    let part = table.indexes.get(index).and_then(|i| i.parts.first());
    let Some(column) = part.and_then(|part| table.columns.get(part.column)) else {
        return Prefixes::new();
    };
    let key = |value: Value| table.key_prefix(index, &[value.as_ref()]);
    match converted(value, ty, &column.ty, cx) {
        KeyValue::Exact(value) => smallvec::smallvec![key(value)],
        KeyValue::Integers(first, last) => {
            let each = (first..=last).filter_map(|v| integer_value(v, &column.ty));
            each.map(key).collect()
        }
        KeyValue::NoMatch => Prefixes::new(),
    }
}

/// Whether a LIKE pattern begins with a wildcard, so that its range is no narrower than the table.
fn starts_with_wildcard<'a>(
    bound: &'a Bound,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<bool> {
    let Some(pattern) = bound.pattern.filter(|p| p.may_scan_table) else {
        return Ok(false);
    };
    Ok(match eval(&bound.value, row, cx)? {
        ValueRef::Bytes(text) => Collation::BINARY
            .like_start(text, pattern.escape)
            .is_empty(),
        ValueRef::Null => false,
        _ => true,
    })
}

/// Whether rows have several entries in the index.
pub fn is_multi_valued(table: &Table, index: usize) -> bool {
    let index = table.indexes.get(index);
    index.is_some_and(|index| table.array_column(index).is_some())
}

/// Key ranges of an index, ascending, non-empty and disjoint; `None` if a table scan is as good.
pub fn ranges<'a>(
    table: &Table,
    index: usize,
    wanted: &'a [IndexRange],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Vec<KeyRange>>> {
    let mut ranges = Vec::with_capacity(wanted.iter().map(|w| w.keys.len()).sum());
    let is_array = is_multi_valued(table, index);
    for part in wanted {
        let bounds = (part.low.as_ref(), part.high.as_ref());
        if is_array {
            // Bounds on later parts are left to the filter.
            for equal in &part.keys {
                let Some(prefixes) = array_prefixes(table, index, equal, row, cx)? else {
                    return Ok(None);
                };
                ranges.extend(prefixes.into_iter().map(KeyRange::prefix));
            }
            continue;
        }
        if let Some(low) = bounds.0
            && starts_with_wildcard(low, row, cx)?
        {
            return Ok(None);
        }
        if !part.except.is_empty() {
            ranges.extend(all_but(table, index, &part.except, row, cx)?);
            continue;
        }
        for equal in &part.keys {
            for values in values(table, index, equal, row, cx)? {
                cx.env.tick()?;
                ranges.extend(range(table, index, values, bounds, row, cx)?);
            }
        }
    }
    Ok(Some(merge_ranges(ranges)))
}

/// The key ranges of an index between these values of its first part, and without NULL. A value
/// that no row can have is in no range anyway.
fn all_but<'a>(
    table: &Table,
    index: usize,
    except: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<KeyRange>> {
    let part = table.indexes.get(index).and_then(|i| i.parts.first());
    let column = part.and_then(|part| table.columns.get(part.column));
    let null = column.filter(|column| column.nullable);
    let null = null.map(|_| table.key_prefix(index, &[ValueRef::Null]));
    let mut keys = Vec::from_iter(null);
    for e in except {
        cx.env.tick()?;
        keys.extend(prefixes(table, index, std::slice::from_ref(e), row, cx)?);
    }
    keys.sort_unstable();
    keys.dedup();
    let mut ranges = Vec::with_capacity(keys.len() + 1);
    let mut start = Some(KeyRange::ALL.start);
    for key in keys {
        let Some(start) = std::mem::replace(&mut start, porpoise_kv::prefix_end(&key)) else {
            break;
        };
        ranges.push(KeyRange {
            start,
            end: Some(key),
        });
    }
    ranges.extend(start.map(|start| KeyRange { start, end: None }));
    Ok(ranges)
}

/// Merges overlapping and adjacent ranges. The result is in ascending order.
fn merge_ranges(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|r| r.end.as_ref().is_none_or(|end| r.start < *end));
    if ranges.len() < 2 {
        return ranges;
    }
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    ranges.dedup_by(|next, before| {
        let Some(end) = &before.end else {
            return true;
        };
        if next.start > *end {
            return false;
        }
        let further = next.end.as_ref().is_none_or(|next| next > end);
        if further {
            before.end = next.end.take();
        }
        true
    });
    ranges
}

/// The key range for values of the leading parts and bounds on the next part; `None` if it is empty.
fn range<'a>(
    table: &Table,
    index: usize,
    equal: Values,
    bounds: (Option<&'a Bound>, Option<&'a Bound>),
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<KeyRange>> {
    let values = equal;
    let mut out = KeyRange::prefix(encoded(table, index, &values));
    if let Some(bound) = bounds.0.filter(|b| b.pattern.is_some()) {
        return match encode_like_prefix(table, index, &values, bound, row, cx)? {
            EncodedBound::Empty => Ok(None),
            EncodedBound::Open => Ok(Some(out)),
            EncodedBound::Key(key) => Ok(Some(KeyRange::prefix(key))),
        };
    }
    let definition = table.indexes.get(index);
    let part = definition.and_then(|i| i.parts.get(values.len()));
    let column = part.and_then(|p| table.columns.get(p.column));
    let (Some(part), Some(column)) = (part, column) else {
        return Ok(Some(out));
    };
    let next = |value: Value| {
        let mut values = values.clone();
        values.push(value);
        encoded(table, index, &values)
    };
    let (mut low, mut high) = (EncodedBound::Open, EncodedBound::Open);
    if let Some(bound) = bounds.0 {
        low = encode_bound((&column.ty, part.desc), bound, &next, row, cx)?;
    }
    if let Some(bound) = bounds.1 {
        high = encode_bound((&column.ty, !part.desc), bound, &next, row, cx)?;
    }
    // NULL sorts first (last in a descending index), and no bound holds for it.
    let null = column.nullable && (bounds.0.is_some() || bounds.1.is_some());
    match low {
        EncodedBound::Empty => return Ok(None),
        EncodedBound::Key(key) if bounds.0.is_some_and(|b| b.inclusive) => out.start = key,
        EncodedBound::Key(key) => match porpoise_kv::prefix_end(&key) {
            Some(start) => out.start = start,
            None => return Ok(None),
        },
        EncodedBound::Open if null && !part.desc => {
            if let Some(start) = porpoise_kv::prefix_end(&next(Value::Null)) {
                out.start = start;
            }
        }
        EncodedBound::Open => {}
    }
    match high {
        EncodedBound::Empty => return Ok(None),
        EncodedBound::Key(key) if bounds.1.is_some_and(|b| b.inclusive) => {
            out.end = porpoise_kv::prefix_end(&key);
        }
        EncodedBound::Key(key) => out.end = Some(key),
        EncodedBound::Open if null && part.desc => out.end = Some(next(Value::Null)),
        EncodedBound::Open => {}
    }
    Ok(Some(out))
}

enum EncodedBound {
    /// No value is within the bound: it is NULL, or beyond the column's range.
    Empty,
    /// The value does not fit the column: the range has no bound on this side.
    Open,
    /// The bound's key.
    Key(Vec<u8>),
}

/// The common key prefix of the texts that a LIKE pattern may match. The key of a text begins with
/// the key of any prefix of it, without the terminator. Trailing spaces are dropped from the
/// prefix, because keys may omit them.
fn encode_like_prefix<'a>(
    table: &Table,
    index: usize,
    equal: &Values,
    bound: &'a Bound,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<EncodedBound> {
    let part = table.indexes.get(index);
    let part = part.and_then(|i| i.parts.get(equal.len()));
    let column = part.and_then(|p| table.columns.get(p.column));
    let (Some(column), Some(pattern)) = (column, bound.pattern) else {
        return Ok(EncodedBound::Open);
    };
    let text = match eval(&bound.value, row, cx)? {
        ValueRef::Null => return Ok(EncodedBound::Empty),
        ValueRef::Bytes(text) => text,
        _ => return Ok(EncodedBound::Open),
    };
    let text = convert::recode(text, &bound.value.ty, column.ty.collation.charset());
    let start = column.ty.collation.like_start(&text, pattern.escape);
    if start.is_empty() {
        return Ok(EncodedBound::Open);
    }
    let mut key = encoded(table, index, equal);
    table.append_text_prefix(index, equal.len(), &start, &mut key);
    Ok(EncodedBound::Key(key))
}

/// Converts a bound to a column of this type, whose values it limits from above or from below; `next`
/// encodes a value's key.
fn encode_bound<'a>(
    (ty, is_upper): (&ColumnType, bool),
    bound: &'a Bound,
    next: &impl Fn(Value) -> Vec<u8>,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<EncodedBound> {
    let value = eval(&bound.value, row, cx)?;
    if value.is_null() {
        return Ok(EncodedBound::Empty);
    }
    Ok(match convert_to_column(value, &bound.value, ty, cx) {
        KeyValue::Exact(value) => EncodedBound::Key(next(value)),
        KeyValue::Integers(..) => EncodedBound::Open,
        // An integer beyond the column's range: above all values, or below.
        KeyValue::NoMatch if is_plain_integer(ty) => match value {
            ValueRef::Int(v) if (v < 0) == is_upper => EncodedBound::Empty,
            ValueRef::UInt(_) if !is_upper => EncodedBound::Empty,
            _ => EncodedBound::Open,
        },
        KeyValue::NoMatch => EncodedBound::Open,
    })
}

/// Whether the type is one of the five integer types.
fn is_plain_integer(ty: &ColumnType) -> bool {
    ty.is_integer() && !matches!(ty.kind, Kind::Bit | Kind::Year)
}
