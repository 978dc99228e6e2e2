//! Conversion of values to index keys and key ranges.
//!
//! A value is first converted to the type of its index column. If nothing is lost the key is exact.
//! If no value of the column can be equal (5.5 in an integer column, text that is no number), there
//! is no key and no row matches. A range bound that does not fit is dropped, and the condition is
//! checked on the rows; an integer beyond the range of an integer column gives the exact range: no row,
//! or no bound.

use super::ExecResult;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, ExprKind, convert};
use crate::plan::scan::{Bound, IndexRange};
use porpoise_rows::KeyRange;
use porpoise_rows::catalog::Table;
use porpoise_types::array::elements;
use porpoise_types::{CastCx, Collation, ColumnType, Decimal, Kind, Value, ValueRef, store};

/// A value converted to the type of an index column.
pub(super) enum KeyValue {
    /// The exact value.
    Exact(Value),
    /// No value of the column can be equal.
    NoMatch,
}

pub(super) fn convert_to_column(
    value: ValueRef<'_>,
    from: &ColumnType,
    to: &ColumnType,
    cx: &EvalCx<'_>,
) -> KeyValue {
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
        _ => match convert::double(value, from, cx) {
            Ok(d) if d.fract() == 0.0 && d.abs() < 9_007_199_254_740_992.0 => Some(d as i128),
            _ => None,
        },
    };
    let Some(exact) = exact.filter(|v| in_range(*v, to)) else {
        return KeyValue::NoMatch;
    };
    let value = match (to.unsigned, u64::try_from(exact), i64::try_from(exact)) {
        (true, Ok(v), _) => Value::UInt(v),
        (false, _, Ok(v)) => Value::Int(v),
        _ => return KeyValue::NoMatch,
    };
    KeyValue::Exact(value)
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
    let mut cast = CastCx {
        mode: cx.env.mode,
        strict: true,
        warnings: &mut note,
        tz: &cx.env.time_zone,
        now: cx.env.now(),
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

/// Values of the leading parts of an index.
type Values = smallvec::SmallVec<[Value; 4]>;

/// The encoded key prefix of these expressions for the leading parts of an index; `None` if no row
/// can have it.
pub fn prefix<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Vec<u8>>> {
    let values = values(table, index, parts, row, cx)?;
    Ok(values.map(|values| encoded(table, index, &values)))
}

fn encoded(table: &Table, index: usize, values: &[Value]) -> Vec<u8> {
    let refs: smallvec::SmallVec<[ValueRef<'_>; 4]> = values.iter().map(Value::as_ref).collect();
    table.key_prefix(index, &refs)
}

/// The values of these expressions, converted to the types of the leading parts of an index; `None`
/// if no row can have them.
fn values<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Expr],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Values>> {
    let mut values = Values::new();
    let Some(definition) = table.indexes.get(index) else {
        return Ok(None);
    };
    for (part, e) in definition.parts.iter().zip(parts) {
        let Some(column) = table.columns.get(part.column) else {
            return Ok(None);
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
        match convert_to_column(eval(e, row, cx)?, &e.ty, &column.ty, cx) {
            KeyValue::Exact(value) => values.push(value),
            KeyValue::NoMatch => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// As [`prefix`], for an index with a multi-valued part, to which one of the expressions gives an
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
    let Some(mut values) = values(table, index, parts, row, cx)? else {
        return Ok(Some(Vec::new()));
    };
    let mut prefixes = Vec::new();
    for element in elements(stored) {
        cx.env.tick()?;
        if let Some(place) = values.get_mut(at) {
            *place = Value::Bytes(element.to_vec());
        }
        prefixes.push(encoded(table, index, &values));
    }
    Ok(Some(prefixes))
}

/// The encoded key prefix of a value for the first part of an index; `None` if no row can have it.
pub fn of_value(
    table: &Table,
    index: usize,
    value: ValueRef<'_>,
    ty: &ColumnType,
    cx: &EvalCx<'_>,
) -> Option<Vec<u8>> {
    let part = table.indexes.get(index)?.parts.first()?;
    let column = table.columns.get(part.column)?;
    match convert_to_column(value, ty, &column.ty, cx) {
        KeyValue::Exact(value) => Some(table.key_prefix(index, &[value.as_ref()])),
        KeyValue::NoMatch => None,
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
            cx.env.tick()?;
            ranges.extend(range(table, index, equal, bounds, row, cx)?);
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
        keys.extend(prefix(table, index, std::slice::from_ref(e), row, cx)?);
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

/// The key range for equalities on the leading parts and bounds on the next part; `None` if it is
/// empty.
fn range<'a>(
    table: &Table,
    index: usize,
    equal: &'a [Expr],
    bounds: (Option<&'a Bound>, Option<&'a Bound>),
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<KeyRange>> {
    let Some(values) = values(table, index, equal, row, cx)? else {
        return Ok(None);
    };
    let mut out = KeyRange::prefix(encoded(table, index, &values));
    if let Some(bound) = bounds.0.filter(|b| b.pattern.is_some()) {
        return match encode_like_prefix(table, index, equal, bound, row, cx)? {
            EncodedBound::Empty => Ok(None),
            EncodedBound::Open => Ok(Some(out)),
            EncodedBound::Key(key) => Ok(Some(KeyRange::prefix(key))),
        };
    }
    let definition = table.indexes.get(index);
    let part = definition.and_then(|i| i.parts.get(equal.len()));
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
    equal: &'a [Expr],
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
    let Some(mut key) = prefix(table, index, equal, row, cx)? else {
        return Ok(EncodedBound::Empty);
    };
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
    Ok(match convert_to_column(value, &bound.value.ty, ty, cx) {
        KeyValue::Exact(value) => EncodedBound::Key(next(value)),
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
