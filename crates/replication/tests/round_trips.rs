//! Properties: values and sets survive encoding; hostile bytes end in errors, never in a panic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use porpoise_replication::event::rows::flags;
use porpoise_replication::event::{
    ColumnBitmap, ColumnMetadata, Event, EventOptions, EventWriter, FormatDescription, MapColumn,
    QueryEvent, RowChangeKind, RowsEvent, TableMap, TransactionPayload, json,
};
use porpoise_replication::gtid::{Gtid, GtidSet, Tag, Uuid};
use porpoise_types::json::parse;
use porpoise_types::{Collation, ColumnType, Date, DateTime, Decimal, Kind, Time, Value};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn text(max: usize) -> impl Strategy<Value = Value> {
    proptest::collection::vec(any::<u8>(), 0..max).prop_map(Value::Bytes)
}

fn datetime(fsp: u8) -> impl Strategy<Value = Value> {
    let unit = 10u32.pow(u32::from(6 - fsp));
    (
        0u16..=9999,
        0u8..=12,
        0u8..=31,
        0u32..86_400,
        0u32..1_000_000,
    )
        .prop_map(move |(year, month, day, second, micros)| {
            Value::DateTime(
                DateTime::from_parts(
                    year,
                    month,
                    day,
                    (second / 3600) as u8,
                    (second / 60 % 60) as u8,
                    (second % 60) as u8,
                    micros / unit * unit,
                )
                .unwrap(),
            )
        })
}

fn timestamp(fsp: u8) -> impl Strategy<Value = Value> {
    let unit = 10i64.pow(u32::from(6 - fsp));
    (1i64..=i64::from(u32::MAX), 0i64..1_000_000).prop_map(move |(seconds, micros)| {
        let micros = seconds * 1_000_000 + micros / unit * unit;
        Value::DateTime(DateTime::from_unix_micros(micros).unwrap())
    })
}

fn time(fsp: u8) -> impl Strategy<Value = Value> {
    let unit = 10i64.pow(u32::from(6 - fsp));
    (-3_020_399_000_000i64..=3_020_399_000_000)
        .prop_map(move |micros| Value::Time(Time::from_micros(micros / unit * unit).unwrap()))
}

fn decimal(precision: u8, scale: u8) -> impl Strategy<Value = Value> {
    let digits = usize::from(precision);
    (any::<bool>(), proptest::collection::vec(0u8..10, digits)).prop_map(
        move |(negative, digits)| {
            let mut text = String::new();
            for (at, digit) in digits.iter().enumerate() {
                if at == digits.len() - usize::from(scale) {
                    text.push('.');
                }
                text.push(char::from(b'0' + digit));
            }
            let text = text.trim_end_matches('.');
            let is_zero = digits.iter().all(|digit| *digit == 0);
            let sign = if negative && !is_zero { "-" } else { "" };
            let value = Decimal::parse(format!("{sign}0{text}").as_bytes()).unwrap();
            Value::Decimal(value.rescale(scale).unwrap())
        },
    )
}

fn members(count: usize) -> Vec<Box<[u8]>> {
    (0..count)
        .map(|n| format!("m{n}").into_bytes().into_boxed_slice())
        .collect()
}

/// A type and a value of it.
fn typed() -> impl Strategy<Value = (ColumnType, Value)> {
    let of = |ty: ColumnType, values: BoxedStrategy<Value>| {
        values.prop_map(move |value| (ty.clone(), value)).boxed()
    };
    let fsp = 0u8..=6;
    let signed = |kind: Kind, bits: u32| {
        let max = (1i128 << (bits - 1)) - 1;
        let range = (-max - 1) as i64..=max as i64;
        of(ColumnType::int(kind), range.prop_map(Value::Int).boxed())
    };
    let unsigned = |kind: Kind, bits: u32| {
        let range = 0..=((1u128 << bits) - 1) as u64;
        of(ColumnType::uint(kind), range.prop_map(Value::UInt).boxed())
    };
    let utf8 = Collation::UTF8MB4_0900_AI_CI;
    prop_oneof![
        signed(Kind::TinyInt, 8),
        signed(Kind::SmallInt, 16),
        signed(Kind::MediumInt, 24),
        signed(Kind::Int, 32),
        signed(Kind::BigInt, 64),
        unsigned(Kind::TinyInt, 8),
        unsigned(Kind::SmallInt, 16),
        unsigned(Kind::MediumInt, 24),
        unsigned(Kind::Int, 32),
        unsigned(Kind::BigInt, 64),
        of(
            ColumnType::float(),
            any::<f32>()
                .prop_filter("finite", |v| v.is_finite())
                .prop_map(|v| Value::Double(f64::from(v)))
                .boxed()
        ),
        of(
            ColumnType::double(),
            any::<f64>()
                .prop_filter("finite", |v| v.is_finite())
                .prop_map(Value::Double)
                .boxed()
        ),
        (1u8..=65, 0u8..=30)
            .prop_filter("scale", |(precision, scale)| scale <= precision)
            .prop_flat_map(move |(precision, scale)| of(
                ColumnType::decimal(precision, scale),
                decimal(precision, scale).boxed()
            )),
        (1u32..=64).prop_flat_map(move |bits| {
            let max = u64::MAX >> (64 - bits);
            of(
                ColumnType::bit(bits),
                (0..=max).prop_map(Value::UInt).boxed(),
            )
        }),
        of(
            ColumnType::year(),
            prop_oneof![Just(0u64), 1901..=2155u64]
                .prop_map(Value::UInt)
                .boxed()
        ),
        of(
            ColumnType::date(),
            (0u16..=9999, 0u8..=12, 0u8..=31)
                .prop_map(|(y, m, d)| Value::Date(Date::new(y, m, d).unwrap()))
                .boxed()
        ),
        fsp.clone()
            .prop_flat_map(move |fsp| of(ColumnType::datetime(fsp), datetime(fsp).boxed())),
        fsp.clone()
            .prop_flat_map(move |fsp| of(ColumnType::timestamp(fsp), timestamp(fsp).boxed())),
        fsp.prop_flat_map(move |fsp| of(ColumnType::time(fsp), time(fsp).boxed())),
        of(ColumnType::char(255, utf8), text(900).boxed()),
        of(ColumnType::varchar(20, utf8), text(80).boxed()),
        of(ColumnType::varchar(200, utf8), text(700).boxed()),
        of(ColumnType::varbinary(255), text(255).boxed()),
        of(ColumnType::blob(Kind::TinyBlob), text(255).boxed()),
        of(ColumnType::text(Kind::Text, utf8), text(3000).boxed()),
        of(ColumnType::blob(Kind::MediumBlob), text(70_000).boxed()),
        of(ColumnType::blob(Kind::LongBlob), text(300).boxed()),
        (1usize..600).prop_flat_map(move |count| of(
            ColumnType::enumeration(members(count), utf8),
            (0..=count as u64).prop_map(Value::UInt).boxed()
        )),
        (1usize..=64).prop_flat_map(move |count| {
            let max = u64::MAX >> (64 - count);
            of(
                ColumnType::set(members(count), utf8),
                (0..=max).prop_map(Value::UInt).boxed(),
            )
        }),
        of(ColumnType::json(), json_text().boxed()),
    ]
}

fn json_text() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|v| v.to_string()),
        any::<i64>().prop_map(|v| v.to_string()),
        any::<i16>().prop_map(|v| v.to_string()),
        any::<u64>().prop_map(|v| v.to_string()),
        (-1e6f64..1e6).prop_map(|v| format!("{v:?}")),
        "[a-zé]{0,300}".prop_map(|v| format!("\"{v}\"")),
    ];
    let tree = leaf.prop_recursive(5, 200, 10, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..10)
                .prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec(("[a-z]{0,6}", inner), 0..10).prop_map(|members| {
                let members = members.iter().map(|(k, v)| format!("\"{k}\":{v}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    tree.prop_map(|text| Value::Bytes(parse(text.as_bytes()).unwrap().to_text()))
}

fn write(event: &Event) -> Vec<u8> {
    let writer = EventWriter {
        server_id: 1,
        has_checksums: true,
    };
    let mut out = Vec::new();
    writer.write(&mut out, Some(4), EventOptions::default(), event);
    out
}

fn format() -> FormatDescription {
    FormatDescription::new("8.4.0", 0, true)
}

fn decode(bytes: &[u8]) -> Event {
    Event::decode(bytes, &format()).unwrap().1
}

/// A table map and an update of one row, to NULLs or back.
fn update(columns: &[(ColumnType, Value)], nulls: &[bool]) -> (TableMap, RowsEvent) {
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let described: Vec<_> = columns
        .iter()
        .zip(&names)
        .map(|((ty, _), name)| MapColumn {
            name,
            ty,
            nullable: true,
            visible: true,
        })
        .collect();
    let map = TableMap::of_table(9, "d", "t", &described, &[(0, 0)], ColumnMetadata::Full);
    let all = ColumnBitmap::all(columns.len());
    let mut event = RowsEvent::new(RowChangeKind::Update, 9, all.clone());
    event.flags = flags::STATEMENT_END;
    let row = columns.iter().map(|(ty, value)| (value.as_ref(), ty));
    RowsEvent::push_image(&mut event.data, &all, row);
    let none = Value::Null;
    let row = columns.iter().zip(nulls).map(|((ty, value), is_null)| {
        (
            if *is_null {
                none.as_ref()
            } else {
                value.as_ref()
            },
            ty,
        )
    });
    RowsEvent::push_image(&mut event.data, &all, row);
    (map, event)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_survive(
        columns in proptest::collection::vec(typed(), 1..20),
        nulls in proptest::collection::vec(any::<bool>(), 20),
    ) {
        let (map, event) = update(&columns, &nulls);
        let Event::TableMap(decoded) = decode(&write(&Event::TableMap(Box::new(map.clone())))) else {
            panic!("another event");
        };
        prop_assert_eq!(decoded.columns.clone(), map.columns);
        let Event::Rows(rows) = decode(&write(&Event::Rows(event))) else {
            panic!("another event");
        };
        let images: Vec<_> = rows
            .images(&decoded, |at| columns[at].0.unsigned)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        prop_assert_eq!(images.len(), 1);
        let (before, after) = images.into_iter().next().unwrap();
        let after = after.unwrap();
        for (at, (ty, value)) in columns.iter().enumerate() {
            prop_assert_eq!(before[at].as_ref(), Some(value), "{:?}", ty);
            let expected = if nulls[at] { &Value::Null } else { value };
            prop_assert_eq!(after[at].as_ref(), Some(expected));
        }
    }

    #[test]
    fn gtid_sets_are_sets(
        left in proptest::collection::vec((0u8..6, 1i64..40, 0i64..6), 0..30),
        right in proptest::collection::vec((0u8..6, 1i64..40, 0i64..6), 0..30),
    ) {
        // Each server has transactions without a tag and with one.
        let source_of = |number: u8| {
            let tag = if number.is_multiple_of(2) { Tag::NONE } else { Tag::parse("blue_2").unwrap() };
            (Uuid([number / 2; 16]), tag)
        };
        let build = |ranges: &[(u8, i64, i64)]| {
            let (mut set, mut model) = (GtidSet::new(), BTreeSet::new());
            for (source, first, more) in ranges {
                let (source, tag) = source_of(*source);
                set.insert_range((source, tag), *first, first + more);
                model.extend((*first..=first + more).map(|number| Gtid { source, tag, number }));
            }
            (set, model)
        };
        let of = |model: &BTreeSet<Gtid>| {
            let mut set = GtidSet::new();
            for gtid in model {
                prop_assert!(set.insert(*gtid));
            }
            Ok(set)
        };
        let ((a, a_model), (b, b_model)) = (build(&left), build(&right));
        prop_assert_eq!(&a, &of(&a_model)?);
        prop_assert_eq!(a.len(), a_model.len() as u64);
        prop_assert_eq!(GtidSet::parse(&a.to_string()).unwrap(), a.clone());
        let mut bytes = Vec::new();
        a.append_bytes(&mut bytes);
        prop_assert_eq!(GtidSet::from_bytes(&bytes).unwrap(), a.clone());
        let difference = a_model.difference(&b_model).copied().collect();
        prop_assert_eq!(a.subtract(&b), of(&difference)?);
        let common = a_model.intersection(&b_model).copied().collect();
        prop_assert_eq!(a.intersect(&b), of(&common)?);
        prop_assert_eq!(a.contains_set(&b), b_model.is_subset(&a_model));
        let mut union = a.clone();
        union.union_with(&b);
        prop_assert_eq!(union, of(&a_model.union(&b_model).copied().collect())?);
        for source in 0..3 {
            let source = Uuid([source; 16]);
            let next = (1..).find(|number| !a_model.contains(&Gtid::new(source, *number)));
            prop_assert_eq!(Some(a.next_number(source)), next);
        }
    }

    #[test]
    fn json_from_any_bytes_is_text_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(text) = json::to_text(&bytes) {
            prop_assert!(parse(&text).is_ok(), "{}", String::from_utf8_lossy(&text));
        }
    }
}

/// Changes, cuts and extends valid events in many ways; checksums are off, so that the bytes reach the decoders.
#[test]
fn hostile_events_are_refused_without_a_panic() {
    let columns = [
        (ColumnType::int(Kind::Int), Value::Int(5)),
        (
            ColumnType::decimal(20, 5),
            Value::Decimal(Decimal::from_i64(7)),
        ),
        (
            ColumnType::json(),
            Value::Bytes(br#"{"a": [1, 2.5, "x"]}"#.to_vec()),
        ),
        (ColumnType::datetime(6), Value::DateTime(DateTime::MAX)),
        (ColumnType::time(6), Value::Time(Time::MIN)),
        (
            ColumnType::varchar(300, Collation::UTF8MB4_BIN),
            Value::Bytes(vec![b'x'; 300]),
        ),
    ];
    let (map, rows) = update(&columns, &[false; 6]);
    let mut no_checksum = format();
    no_checksum.has_checksums = false;
    let writer = EventWriter {
        server_id: 1,
        has_checksums: false,
    };
    let query = QueryEvent {
        text: b"CREATE TABLE t (a INT)".to_vec(),
        database: b"d".to_vec(),
        ..QueryEvent::default()
    };
    let events = [
        Event::TableMap(Box::new(map.clone())),
        Event::Rows(rows),
        Event::Query(query),
        Event::TransactionPayload(TransactionPayload {
            events: vec![7; 5000],
        }),
        Event::FormatDescription(format()),
    ];
    let seed = 0x5EED;
    let mut random = fastrand::Rng::with_seed(seed);
    for event in &events {
        let mut valid = Vec::new();
        writer.write(&mut valid, Some(4), EventOptions::default(), event);
        for _ in 0..20_000 {
            let mut bytes = valid.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            if random.bool() {
                bytes.truncate(random.usize(0..bytes.len() + 1));
            }
            if random.usize(0..4) == 0 {
                bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(20));
            }
            // The size and the type are right, so that more than the header is looked at.
            let size = (bytes.len() as u32).to_le_bytes();
            if bytes.len() > 19 {
                bytes[9..13].copy_from_slice(&size);
                bytes[4] = if random.bool() {
                    valid[4]
                } else {
                    random.u8(..)
                };
            }
            match Event::decode(&bytes, &no_checksum) {
                Ok((_, Event::Rows(rows))) => {
                    if let Ok(images) = rows.images(&map, |_| false) {
                        images.for_each(drop);
                    }
                }
                Ok((_, Event::TransactionPayload(payload))) => payload.iter().for_each(drop),
                _ => {}
            }
        }
    }
}
