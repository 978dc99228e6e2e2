//! Sort keys of ORDER BY.
//!
//! Keys of most types are memcomparable: encoded as bytes that compare as the
//! values do. A sort with a key of another type, such as JSON, stores and compares
//! values. NULL sorts first, or last if the order is descending.
//!
//! Invariants:
//! 1. Two encoded keys compare as [`order_values`] compares their values.
//! 2. All keys of one sort have one format, chosen by the types of the keys.

use super::record_sort::KeyOrder;
use super::{ExecResult, rowstore};
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::OrderKey;
use porpoise_types::{ColumnType, CompareAs, Decimal, Kind, Value, ValueRef, compare};
use std::cmp::Ordering;

/// Encoder and comparator of the keys of one sort.
#[derive(Clone, Copy)]
pub(super) struct SortKeys<'p> {
    keys: &'p [OrderKey],
    /// Whether keys are memcomparable; otherwise they are stored and compared as values.
    are_memcomparable: bool,
}

impl<'p> SortKeys<'p> {
    /// Creates the sort keys of an ORDER BY.
    pub(super) fn new(keys: &'p [OrderKey]) -> SortKeys<'p> {
        SortKeys {
            keys,
            are_memcomparable: keys.iter().all(|k| is_memcomparable(&k.expr.ty)),
        }
    }

    /// Whether keys are memcomparable.
    pub(super) fn are_memcomparable(&self) -> bool {
        self.are_memcomparable
    }

    /// The keys of ORDER BY.
    pub(super) fn keys(&self) -> &'p [OrderKey] {
        self.keys
    }

    /// Appends the value of the key at a position to a memcomparable key.
    pub(super) fn append_value(&self, position: usize, value: ValueRef<'_>, out: &mut Vec<u8>) {
        let Some(key) = self.keys.get(position) else {
            return;
        };
        let start = out.len();
        encode(value, &key.expr.ty, out);
        if key.desc {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }

    /// Appends the key of a row.
    pub(super) fn append(
        &self,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        out: &mut Vec<u8>,
    ) -> ExecResult<()> {
        for (at, key) in self.keys.iter().enumerate() {
            let value = eval(&key.expr, row, cx)?;
            if self.are_memcomparable {
                self.append_value(at, value, out);
            } else {
                rowstore::write(value, out);
            }
        }
        Ok(())
    }
}

impl KeyOrder for SortKeys<'_> {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.are_memcomparable {
            return a.cmp(b);
        }
        let (mut a, mut b) = (a, b);
        for key in self.keys {
            let next = |rest: &mut &[u8]| match rowstore::read(rest) {
                Some(value) => value.to_owned(),
                None => Value::Null,
            };
            let order = order_values(&key.expr.ty, &next(&mut a), &next(&mut b));
            let order = if key.desc { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    fn is_bytewise(&self) -> bool {
        self.are_memcomparable
    }
}

/// Whether the type has a memcomparable encoding.
fn is_memcomparable(ty: &ColumnType) -> bool {
    match ty.kind {
        Kind::Enum | Kind::Set => true,
        _ => matches!(
            compare::same_type(ty),
            CompareAs::Int
                | CompareAs::Double
                | CompareAs::Decimal
                | CompareAs::Bytes(_)
                | CompareAs::Date
                | CompareAs::DateTime
                | CompareAs::Time
        ),
    }
}

/// Appends the memcomparable encoding of a value: a flag byte, which is all of a
/// NULL, then the value.
fn encode(value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Int(v) => append_word(if v < 0 { 1 } else { 2 }, v.cast_unsigned(), out),
        ValueRef::UInt(v) => append_word(2, v, out),
        ValueRef::Double(v) => {
            let bits = (v + 0.0).to_bits();
            let ordered = match bits >> 63 {
                1 => !bits,
                _ => bits | 1 << 63,
            };
            append_word(1, ordered, out);
        }
        ValueRef::Bytes(text) => {
            out.push(1);
            ty.collation.self_delimiting_key(text, out);
        }
        ValueRef::Date(v) => append_word(1, v.at_midnight().packed(), out),
        ValueRef::DateTime(v) => append_word(1, v.packed(), out),
        ValueRef::Time(v) => append_word(1, v.as_micros() as u64 ^ 1 << 63, out),
        ValueRef::Decimal(v) => append_decimal(v, ty.decimals, out),
    }
}

/// Appends a flag byte and a number, most significant byte first; all nine bytes at once.
#[inline]
fn append_word(flag: u8, number: u64, out: &mut Vec<u8>) {
    let both = u128::from(flag) << 64 | u128::from(number);
    out.extend_from_slice(both.to_be_bytes().last_chunk::<9>().unwrap_or(&[0; 9]));
}

/// Appends a decimal as the greatest multiple of `10^-scale` that is not above it, and the remainder, if
/// the multiple fits into 64 bits; otherwise in the form of [`Decimal::append_ordered`]. Values of a
/// column have no remainder.
fn append_decimal(v: Decimal, scale: u8, out: &mut Vec<u8>) {
    let Some((whole, rest)) = multiple(v, scale) else {
        out.push(if v.is_negative() { 1 } else { 3 });
        return v.append_ordered(out);
    };
    append_word(2, whole as u64 ^ 1 << 63, out);
    match rest {
        None => out.push(0),
        Some(rest) => {
            out.push(1);
            rest.append_ordered(out);
        }
    }
}

/// Divides a decimal by `10^-scale`: the quotient, rounded down, and the remainder unless it is zero;
/// `None` if the quotient does not fit.
fn multiple(v: Decimal, scale: u8) -> Option<(i64, Option<Decimal>)> {
    let Some((unscaled, own)) = v.unscaled() else {
        // 39 digits and more: the multiple fits only if many of them are after the point.
        let cut = v.truncate(scale);
        cut.unscaled()?;
        let (whole, _) = multiple(cut, scale)?;
        let rest = v.sub(cut).ok()?;
        if !rest.is_negative() {
            return Some((whole, Some(rest).filter(|rest| !rest.is_zero())));
        }
        let unit = Decimal::from_i128(1, scale).ok()?;
        return Some((whole.checked_sub(1)?, rest.add(unit).ok()));
    };
    if own <= scale {
        let factor = 10i128.checked_pow(u32::from(scale - own))?;
        return Some((i64::try_from(unscaled.checked_mul(factor)?).ok()?, None));
    }
    let factor = 10i128.checked_pow(u32::from(own - scale))?;
    let rest = unscaled.rem_euclid(factor);
    let rest = Decimal::from_i128(rest, own).ok().filter(|_| rest != 0);
    let whole = i64::try_from(unscaled.div_euclid(factor)).ok()?;
    Some((whole, rest))
}

/// The order of two values of a type, NULL first.
pub fn order_values(ty: &ColumnType, x: &Value, y: &Value) -> Ordering {
    match (x.is_null(), y.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => {
            let how = match ty.kind {
                Kind::Enum | Kind::Set if matches!(x, Value::Bytes(_)) => {
                    CompareAs::Bytes(ty.collation)
                }
                _ => compare::same_type(ty),
            };
            compare::compare_direct(x.as_ref(), y.as_ref(), how).unwrap_or(Ordering::Equal)
        }
    }
}

/// Orders two lists of sort keys: NULLs first ascending, last descending.
pub fn order_keys(keys: &[OrderKey], a: &[Value], b: &[Value]) -> Ordering {
    for ((key, x), y) in keys.iter().zip(a).zip(b) {
        let order = order_values(&key.expr.ty, x, y);
        let order = if key.desc { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_types::Collation;

    fn agree(ty: &ColumnType, values: &[Value]) {
        for x in values {
            for y in values {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                encode(x.as_ref(), ty, &mut a);
                encode(y.as_ref(), ty, &mut b);
                assert_eq!(a.cmp(&b), order_values(ty, x, y), "{x:?} {y:?}");
            }
        }
    }

    #[test]
    fn encoded_bytes_compare_like_their_values() {
        let int = |v| Value::Int(v);
        let ints = [int(i64::MIN), int(-1), int(0), int(1), int(i64::MAX)];
        agree(&ColumnType::bigint(), &ints);
        agree(&ColumnType::bigint(), &[Value::Null, int(-5), int(5)]);
        let decimal = |t: &str| Value::Decimal(Decimal::parse(t.as_bytes()).unwrap());
        let decimals = ["-10.5", "-0.01", "0", "0.10", "0.1", "3", "12.34"].map(decimal);
        agree(&ColumnType::decimal(10, 2), &decimals);
        let mut decimals: Vec<Value> = [
            "0.001",
            "-0.001",
            "-0.01",
            "-0.011",
            "12.3400000000000000000001",
            "12.3400000000000000000002",
            "12.34",
            "-12.3400000000000000000001",
            "92233720368547758.07",
            "92233720368547758.08",
            "-92233720368547758.08",
            "-92233720368547758.09",
            "-92233720368547758.0801",
            "9223372036854775807000000000000000000000",
            "-9223372036854775807000000000000000000000",
            "12345678901234.123456789012345678901234567890",
            "-12345678901234.123456789012345678901234567890",
            "-12345678901234.12",
            "-12345678901234.13",
            "12345678901234.12",
            "123456789012345678901.123456789012345678901234567890",
            "-92233720368547758.085000000000000000000000000001",
        ]
        .map(decimal)
        .to_vec();
        decimals.extend([Value::Null, decimal("0")]);
        for scale in [0, 2, 5, 30] {
            agree(&ColumnType::decimal(65, scale), &decimals);
        }
        let doubles = [-1e300, -1.5, -0.0, 0.0, 1e-300, 2.0].map(Value::Double);
        agree(&ColumnType::double(), &doubles);
        let texts = ["", "a", "A", "ab", "a b", "b", "ä", "a ", "a\t"];
        let texts = texts.map(|t| Value::Bytes(t.as_bytes().to_vec()));
        for collation in [
            Collation::UTF8MB4_0900_AI_CI,
            Collation::UTF8MB4_GENERAL_CI,
            Collation::BINARY,
        ] {
            agree(&ColumnType::varchar(10, collation), &texts);
        }
    }
}
