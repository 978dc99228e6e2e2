//! Properties of random values.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail by panicking"
)]

mod collations;
mod decimals;
mod full_text;
mod keys;
mod round_trips;
mod total;

use porpoise_types::{Collation, ColumnType, Date, DateTime, Decimal, Kind, Time, Value};
use proptest::prelude::*;

/// Text in which spaces, control characters, case and accents meet often.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(" "), 2 => Just("a"), 2 => Just("A"), 1 => Just("b"), 1 => Just("\t"), 1 => Just("\0"),
        1 => Just("é"), 1 => Just("e"), 1 => Just("É"), 1 => Just("ß"), 1 => Just("日"), 1 => Just("😀"), 1 => Just("!"),
        1 => Just("\u{301}"), 1 => Just("가"), 1 => Just("~"), 1 => Just("\u{7f}"), 1 => Just("ÿ"),
        1 => Just("\u{a0}"), 1 => Just("\n")
    ];
    prop::collection::vec(piece, 0..6).prop_map(|v| v.concat().into_bytes())
}

/// Text and arbitrary bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => text(), 1 => prop::collection::vec(any::<u8>(), 0..8)]
}

fn collation() -> impl Strategy<Value = Collation> {
    prop::sample::select(Collation::all().collect::<Vec<_>>())
}

/// A decimal of at most these digits after and before the point.
fn decimal(precision: u8, scale: u8) -> impl Strategy<Value = Decimal> {
    let digits = prop::collection::vec(0u8..10, usize::from(precision));
    (digits, any::<bool>(), 0..=scale).prop_map(move |(digits, negative, used)| {
        let int = usize::from(precision - scale);
        let mut text = String::from(if negative { "-0" } else { "0" });
        for (i, digit) in digits.iter().take(int + usize::from(used)).enumerate() {
            if i == int {
                text.push('.');
            }
            text.push(char::from(b'0' + digit));
        }
        Decimal::parse(text.as_bytes()).unwrap()
    })
}

fn date() -> impl Strategy<Value = Date> {
    (0u16..=9999, 0u8..=12, 0u8..=31).prop_map(|(y, m, d)| Date::new(y, m, d).unwrap())
}

fn datetime() -> impl Strategy<Value = DateTime> {
    (date(), 0u8..24, 0u8..60, 0u8..60, 0u32..1_000_000)
        .prop_map(|(date, h, m, s, us)| DateTime::new(date, h, m, s, us).unwrap())
}

fn time() -> impl Strategy<Value = Time> {
    let max = Time::MAX.as_micros();
    (-max..=max).prop_map(|us| Time::from_micros(us).unwrap())
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL,
        (-100i32..100).prop_map(f64::from)
    ]
}

fn integer(ty: &ColumnType) -> BoxedStrategy<Value> {
    let (low, high) = ty.int_range();
    let unsigned = ty.unsigned;
    prop_oneof![low..=high, (low.max(-2))..=2]
        .prop_map(move |v| {
            if unsigned {
                Value::UInt(v as u64)
            } else {
                Value::Int(v as i64)
            }
        })
        .boxed()
}

/// A storage value of the type.
fn value(ty: &ColumnType) -> BoxedStrategy<Value> {
    match ty.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => integer(ty),
        Kind::Float => double()
            .prop_map(|v| Value::Double(f64::from(v as f32)))
            .boxed(),
        Kind::Double => double().prop_map(Value::Double).boxed(),
        Kind::Decimal => decimal(ty.length as u8, ty.decimals)
            .prop_map(Value::Decimal)
            .boxed(),
        Kind::Bit => {
            let max = u64::MAX >> (64 - ty.length);
            (0..=max).prop_map(Value::UInt).boxed()
        }
        Kind::Year => prop_oneof![Just(0u64), 1901u64..=2155]
            .prop_map(Value::UInt)
            .boxed(),
        Kind::Enum => (0..=ty.members.len() as u64).prop_map(Value::UInt).boxed(),
        Kind::Set => (0..1u64 << ty.members.len()).prop_map(Value::UInt).boxed(),
        Kind::Date => date().prop_map(Value::Date).boxed(),
        Kind::DateTime | Kind::Timestamp => datetime().prop_map(Value::DateTime).boxed(),
        Kind::Time => time().prop_map(Value::Time).boxed(),
        _ => bytes().prop_map(Value::Bytes).boxed(),
    }
}

fn column() -> impl Strategy<Value = ColumnType> {
    let members = || {
        vec![
            Box::from(&b"x"[..]),
            Box::from(&b"y"[..]),
            Box::from(&b"z"[..]),
        ]
    };
    let ints = [
        Kind::TinyInt,
        Kind::SmallInt,
        Kind::MediumInt,
        Kind::Int,
        Kind::BigInt,
    ];
    prop_oneof![
        prop::sample::select(ints.to_vec()).prop_map(ColumnType::int),
        prop::sample::select(ints.to_vec()).prop_map(ColumnType::uint),
        Just(ColumnType::float()),
        Just(ColumnType::double()),
        (1u8..=65, 0u8..=30).prop_map(|(p, s)| ColumnType::decimal(p, s)),
        (1u32..=64).prop_map(ColumnType::bit),
        Just(ColumnType::year()),
        Just(ColumnType::date()),
        (0u8..=6).prop_map(ColumnType::datetime),
        Just(ColumnType::timestamp(0)),
        (0u8..=6).prop_map(ColumnType::time),
        Just(ColumnType::enumeration(
            members(),
            Collation::LATIN1_SWEDISH_CI
        )),
        Just(ColumnType::set(members(), Collation::LATIN1_SWEDISH_CI)),
        (0u32..20, collation()).prop_map(|(n, c)| ColumnType::char(n, c)),
        (0u32..20, collation()).prop_map(|(n, c)| ColumnType::varchar(n, c)),
        collation().prop_map(|c| ColumnType::text(Kind::Text, c)),
        Just(ColumnType::blob(Kind::Blob)),
    ]
}

/// A type with two of its values, each NULL now and then.
fn pair() -> impl Strategy<Value = (ColumnType, Value, Value)> {
    column().prop_flat_map(|ty| {
        let one = |ty: &ColumnType| prop_oneof![1 => Just(Value::Null), 9 => value(ty)];
        (one(&ty), one(&ty), Just(ty)).prop_map(|(a, b, ty)| (ty, a, b))
    })
}
