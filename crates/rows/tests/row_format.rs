//! Rows round-trip column by column, and are read under other versions of their table's
//! definition.

use crate::common::{get, ids, model_database};
use porpoise_rows::catalog::{Column, ColumnId, LayoutDef, Table};
use porpoise_rows::row::encode;
use porpoise_rows::{Error, RowBuf, RowProjection, RowRef, RowStamp};
use porpoise_types::{Collation, ColumnType, Date, DateTime, Decimal, Kind, Time, Value, ValueRef};
use proptest::prelude::*;

fn column_types() -> Vec<ColumnType> {
    let mut types = Vec::new();
    for kind in [
        Kind::TinyInt,
        Kind::SmallInt,
        Kind::MediumInt,
        Kind::Int,
        Kind::BigInt,
    ] {
        types.push(ColumnType::int(kind));
        types.push(ColumnType::uint(kind));
    }
    types.extend([
        ColumnType::float(),
        ColumnType::double(),
        ColumnType::decimal(20, 6),
        ColumnType::bit(64),
        ColumnType::year(),
        ColumnType::date(),
        ColumnType::datetime(6),
        ColumnType::time(6),
        ColumnType::varchar(255, Collation::UTF8MB4_GENERAL_CI),
        ColumnType::blob(Kind::LongBlob),
        ColumnType::enumeration(vec![b"a"[..].into()], Collation::UTF8MB4_BIN),
    ]);
    types
}

fn value_of(ty: &ColumnType) -> BoxedStrategy<Value> {
    let bits = ty.kind.int_bits();
    match ty.kind {
        _ if bits > 0 && ty.unsigned => any::<u64>()
            .prop_map(move |v| Value::UInt(v >> (64 - bits)))
            .boxed(),
        _ if bits > 0 => any::<i64>()
            .prop_map(move |v| Value::Int(v >> (64 - bits)))
            .boxed(),
        Kind::Float => any::<f32>()
            .prop_map(|v| Value::Double(f64::from(v)))
            .prop_filter(
                "NaN is not a value",
                |v| !matches!(v, Value::Double(d) if d.is_nan()),
            )
            .boxed(),
        Kind::Double => any::<f64>()
            .prop_filter("NaN is not a value", |v| !v.is_nan())
            .prop_map(Value::Double)
            .boxed(),
        Kind::Decimal => any::<i64>()
            .prop_map(|v| Value::Decimal(Decimal::from_i128(i128::from(v), 6).unwrap()))
            .boxed(),
        Kind::Bit => any::<u64>().prop_map(Value::UInt).boxed(),
        Kind::Year => (1901u64..2156).prop_map(Value::UInt).boxed(),
        Kind::Enum => (0u64..=1).prop_map(Value::UInt).boxed(),
        Kind::Date => (0i64..3_000_000)
            .prop_map(|d| {
                Value::Date(Date::from_days(d).unwrap_or_else(|| Date::new(1, 1, 1).unwrap()))
            })
            .boxed(),
        Kind::DateTime => any::<u32>()
            .prop_map(|s| {
                let micros = i64::from(s) * 1_000_003;
                Value::DateTime(DateTime::from_unix_micros(micros).unwrap())
            })
            .boxed(),
        Kind::Time => (-3_020_399_000_000i64..=3_020_399_000_000)
            .prop_map(|m| Value::Time(Time::from_micros(m).unwrap()))
            .boxed(),
        _ => prop_oneof![
            9 => proptest::collection::vec(any::<u8>(), 0..40),
            1 => (65_500usize..65_600).prop_map(|n| vec![7; n]),
        ]
        .prop_map(Value::Bytes)
        .boxed(),
    }
}

fn wide_table() -> Table {
    let mut def = ids("t");
    for (n, ty) in column_types().into_iter().enumerate() {
        def = def.column(&format!("c{n}"), ty).null();
    }
    (*get(&model_database(&[def]), "t")).clone()
}

fn a_row() -> impl Strategy<Value = Vec<Value>> {
    let columns: Vec<BoxedStrategy<Value>> = column_types()
        .iter()
        .map(|ty| prop_oneof![1 => Just(Value::Null), 4 => value_of(ty)].boxed())
        .collect();
    columns.prop_map(|mut row| {
        row.insert(0, Value::Int(1));
        row
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn projected_rows_have_the_columns_that_are_kept(
        values in a_row(),
        kept in proptest::collection::vec(any::<bool>(), column_types().len() + 1),
        expiry in prop_oneof![Just(0u64), 1u64..u64::MAX],
    ) {
        let t = wide_table();
        let mut bytes = Vec::new();
        encode(&t, &values, RowStamp { version: 7, expiry }, &mut bytes).unwrap();
        let row = RowRef::new(&t, &bytes).unwrap();
        let columns: Vec<usize> = (0..kept.len()).filter(|at| kept[*at]).collect();
        let projection = RowProjection::new(&t, &columns);
        let mut out = vec![1, 2, 3];
        prop_assert!(projection.append(&row, &mut out));
        let projected = projection.row(&out[3..]).unwrap();
        for at in columns {
            prop_assert_eq!(projected.get(at), row.get(at));
            if let Some(number) = t.number_column(at) {
                prop_assert_eq!(projected.number(&number), row.number(&number));
            }
        }
        let mut again = Vec::new();
        prop_assert!(projection.append(&projected, &mut again));
        prop_assert_eq!(&again[..], &out[3..]);
        // A row that is cut is refused, never read beyond its end.
        prop_assert!(projection.row(&out[3..out.len() - 1]).is_err());
    }

    #[test]
    fn every_column_round_trips(
        values in a_row(),
        version in 1u64..1 << 53,
        expiry in prop_oneof![Just(0u64), 1u64..u64::MAX],
    ) {
        let t = wide_table();
        let mut bytes = Vec::new();
        encode(&t, &values, RowStamp { version, expiry }, &mut bytes).unwrap();
        let row = RowRef::new(&t, &bytes).unwrap();
        prop_assert_eq!(row.version(), version);
        prop_assert_eq!(row.expiry(), expiry);
        for (n, value) in values.iter().enumerate() {
            prop_assert_eq!(row.get(n).to_owned(), value.clone());
        }
        prop_assert_eq!(row.get(values.len()), ValueRef::Null);
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_without_a_panic(
        values in a_row(),
        cut in 0usize..200,
        flip in 0usize..400,
    ) {
        let t = wide_table();
        let mut bytes = Vec::new();
        encode(&t, &values, RowStamp { version: 1, expiry: 0 }, &mut bytes).unwrap();
        let shorter = bytes[..bytes.len().saturating_sub(cut + 1)].to_vec();
        prop_assert!(RowRef::new(&t, &shorter).is_err());
        let at = flip % bytes.len();
        bytes[at] ^= 0xa5;
        if let Ok(row) = RowRef::new(&t, &bytes) {
            row.values();
        }
    }
}

#[test]
fn a_row_is_read_by_later_definitions() {
    let first = (*get(
        &model_database(&[ids("t")
            .text("a", 20, Collation::UTF8MB4_BIN)
            .int("b")
            .text("c", 20, Collation::UTF8MB4_BIN)]),
        "t",
    ))
    .clone();
    let values = [
        Value::Int(1),
        Value::Bytes(b"first".to_vec()),
        Value::Int(-2),
        Value::Bytes(b"last".to_vec()),
    ];
    let stamp = RowStamp {
        version: 9,
        expiry: 0,
    };
    let mut bytes = Vec::new();
    encode(&first, &values, stamp, &mut bytes).unwrap();
    // DROP COLUMN a, ADD COLUMN d BIGINT DEFAULT 7 FIRST.
    let mut second = first.definition().clone();
    second.version = 2;
    second.columns.remove(1);
    let added = Column {
        id: ColumnId(50),
        name: "d".into(),
        ty: ColumnType::bigint(),
        backfill: Value::Int(7),
        ..second.columns[0].clone()
    };
    second.columns.insert(0, added);
    second.layouts.push(LayoutDef {
        version: 2,
        columns: second
            .columns
            .iter()
            .map(|c| (c.id, c.ty.clone()))
            .collect(),
    });
    let second = Table::new(second);
    let row = RowRef::new(&second, &bytes).unwrap();
    let expected = [
        Value::Int(7),
        Value::Int(1),
        Value::Int(-2),
        Value::Bytes(b"last".to_vec()),
    ];
    assert_eq!(row.values(), expected);
    let mut fresh = Vec::new();
    encode(&second, &expected, stamp, &mut fresh).unwrap();
    assert_eq!(RowRef::new(&second, &fresh).unwrap().values(), expected);
    // A reader that still has the old definition must not guess.
    assert!(matches!(
        RowRef::new(&first, &fresh),
        Err(Error::DefinitionChanged)
    ));
    let buf = RowBuf::from(fresh);
    assert_eq!(buf.row(&second).unwrap().version(), 9);
}

#[test]
fn the_bytes_of_a_row_match_the_documented_format() {
    let t = (*get(
        &model_database(&[ids("t")
            .text("a", 20, Collation::UTF8MB4_BIN)
            .int("b")
            .null()
            .text("c", 20, Collation::UTF8MB4_BIN)]),
        "t",
    ))
    .clone();
    let values = [
        Value::Int(0x0102),
        Value::Bytes(b"xy".to_vec()),
        Value::Null,
        Value::Bytes(b"z".to_vec()),
    ];
    let mut bytes = Vec::new();
    let stamp = RowStamp {
        version: 0x0a0b,
        expiry: 0,
    };
    encode(&t, &values, stamp, &mut bytes).unwrap();
    let expected = [
        &[0x10, 1, 0, 0][..],            // format 1, table version 1
        &[0x0b, 0x0a, 0, 0, 0, 0, 0, 0], // row version
        &[0b0100],                       // third column is NULL
        &[2, 1, 0, 0],                   // id
        &[0, 0, 0, 0],                   // b, NULL
        &[2, 0, 3, 0],                   // ends of a and c
        b"xyz",
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn the_column_of_a_value_of_the_wrong_kind_is_reported() {
    let t = get(&model_database(&[ids("t")]), "t");
    let stamp = RowStamp {
        version: 1,
        expiry: 0,
    };
    for wrong in [Value::Bytes(vec![1]), Value::Int(1 << 40)] {
        let e = encode(&t, &[wrong], stamp, &mut Vec::new()).unwrap_err();
        assert_eq!(e.to_string(), "Incorrect value for column 'id'");
    }
}
