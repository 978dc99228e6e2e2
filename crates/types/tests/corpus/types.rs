//! Column types in SQL, and values of each as text.

use porpoise_types::{Collation, ColumnType, Decimal, Kind, ValueRef, write_text};

fn shown(v: ValueRef<'_>, ty: &ColumnType) -> String {
    let mut out = Vec::new();
    write_text(v, ty, &mut out);
    String::from_utf8(out).unwrap()
}

fn members() -> Vec<Box<[u8]>> {
    vec![Box::from(&b"a"[..]), Box::from(&b"it's"[..])]
}

#[test]
fn types_in_sql() {
    let ci = Collation::UTF8MB4_0900_AI_CI;
    let zerofill = ColumnType {
        zerofill: true,
        unsigned: true,
        length: 5,
        ..ColumnType::int(Kind::Int)
    };
    let flag = ColumnType {
        length: 1,
        ..ColumnType::int(Kind::TinyInt)
    };
    let wide = ColumnType {
        length: 11,
        ..ColumnType::int(Kind::Int)
    };
    let fixed = ColumnType {
        length: 7,
        decimals: 2,
        ..ColumnType::float()
    };
    let cases = [
        (ColumnType::bigint_unsigned(), "bigint unsigned"),
        (wide, "int"),
        (flag, "tinyint(1)"),
        (zerofill, "int(5) unsigned zerofill"),
        (ColumnType::decimal(10, 2), "decimal(10,2)"),
        (ColumnType::double(), "double"),
        (fixed, "float(7,2)"),
        (ColumnType::varchar(255, ci), "varchar(255)"),
        (ColumnType::varchar(9, Collation::BINARY), "varbinary(9)"),
        (ColumnType::text(Kind::MediumText, ci), "mediumtext"),
        (ColumnType::datetime(0), "datetime"),
        (ColumnType::timestamp(6), "timestamp(6)"),
        (ColumnType::enumeration(members(), ci), "enum('a','it''s')"),
        (ColumnType::set(members(), ci), "set('a','it''s')"),
        (ColumnType::bit(8), "bit(8)"),
    ];
    for (ty, sql) in cases {
        assert_eq!(ty.sql(), sql);
    }
}

#[test]
fn values_as_text() {
    let zerofill = ColumnType {
        zerofill: true,
        unsigned: true,
        length: 5,
        ..ColumnType::int(Kind::Int)
    };
    assert_eq!(shown(ValueRef::UInt(42), &zerofill), "00042");
    assert_eq!(shown(ValueRef::UInt(1_234_567), &zerofill), "1234567");
    assert_eq!(shown(ValueRef::UInt(5), &ColumnType::year()), "0005");
    let decimal = ColumnType::decimal(10, 3);
    assert_eq!(
        shown(ValueRef::Decimal(Decimal::from_i64(-7)), &decimal),
        "-7.000"
    );
    let fixed = ColumnType {
        length: 7,
        decimals: 2,
        ..ColumnType::double()
    };
    assert_eq!(shown(ValueRef::Double(1.005), &fixed), "1.00");
    assert_eq!(shown(ValueRef::Double(0.375), &fixed), "0.38");
    let ci = Collation::UTF8MB4_GENERAL_CI;
    assert_eq!(
        shown(ValueRef::UInt(3), &ColumnType::set(members(), ci)),
        "a,it's"
    );
    assert_eq!(
        shown(ValueRef::UInt(2), &ColumnType::enumeration(members(), ci)),
        "it's"
    );
    assert_eq!(
        shown(ValueRef::UInt(0), &ColumnType::enumeration(members(), ci)),
        ""
    );
    assert_eq!(shown(ValueRef::UInt(0x4142), &ColumnType::bit(16)), "AB");
    assert_eq!(shown(ValueRef::Null, &ColumnType::bigint()), "");
    assert_eq!(
        shown(ValueRef::Double(f64::from(0.1f32)), &ColumnType::float()),
        "0.1"
    );
}

#[test]
fn sizes() {
    assert_eq!(
        ColumnType::varchar(10, Collation::UTF8MB4_BIN).max_bytes(),
        40
    );
    assert_eq!(
        ColumnType::varchar(10, Collation::LATIN1_BIN).max_bytes(),
        10
    );
    assert_eq!(ColumnType::int(Kind::MediumInt).fixed_width(), Some(3));
    assert_eq!(ColumnType::binary(16).fixed_width(), Some(16));
    assert_eq!(
        ColumnType::varchar(10, Collation::LATIN1_BIN).fixed_width(),
        None
    );
    assert_eq!(ColumnType::int(Kind::TinyInt).int_range(), (-128, 127));
    assert_eq!(
        ColumnType::uint(Kind::BigInt).int_range(),
        (0, u64::MAX.into())
    );
}
