//! Metadata of results: how each type is announced.

use porpoise_types::{Collation, ColumnType, Kind};
use porpoise_wire::mysql::client::result;
use porpoise_wire::mysql::column::{
    ColumnDefinition, describe, flag, write_column, write_listed_column,
};

/// The payload of the one packet that is written.
fn one(write: impl FnOnce(&mut Vec<u8>, &mut u8)) -> Vec<u8> {
    let (mut out, mut number) = (Vec::new(), 3);
    write(&mut out, &mut number);
    assert_eq!((out[3], number), (3, 4));
    out.split_off(4)
}

#[test]
fn metadata_is_that_of_mysql() {
    let collation = Collation::UTF8MB4_0900_AI_CI;
    let latin = Collation::LATIN1_SWEDISH_CI;
    let members = |texts: &[&str]| {
        texts
            .iter()
            .map(|t| t.as_bytes().into())
            .collect::<Vec<Box<[u8]>>>()
    };
    let show = |ty: &ColumnType, flags: u16, results| {
        let column = ColumnDefinition {
            schema: b"db",
            table: b"alias",
            org_table: b"t",
            name: b"n",
            org_name: b"c",
            ty,
            flags,
        };
        let payload = one(|out, number| write_column(out, number, &column, results));
        let read = result::parse_column(&payload).expect("a definition");
        assert_eq!(
            (read.schema, read.table, read.org_table),
            (&b"db"[..], &b"alias"[..], &b"t"[..])
        );
        assert_eq!((read.name, read.org_name), (&b"n"[..], &b"c"[..]));
        (
            read.code,
            read.collation,
            read.length,
            read.flags,
            read.decimals,
        )
    };
    let utf8 = Some(Collation::UTF8MB4_GENERAL_CI);
    let unsigned = flag::UNSIGNED;
    let binary = flag::BINARY;
    for (ty, expected) in [
        (ColumnType::int(Kind::TinyInt), (1, 63, 4, 0, 0)),
        (ColumnType::uint(Kind::TinyInt), (1, 63, 3, unsigned, 0)),
        (ColumnType::int(Kind::SmallInt), (2, 63, 6, 0, 0)),
        (ColumnType::int(Kind::MediumInt), (9, 63, 9, 0, 0)),
        (ColumnType::int(Kind::Int), (3, 63, 11, 0, 0)),
        (ColumnType::uint(Kind::Int), (3, 63, 10, unsigned, 0)),
        (ColumnType::bigint(), (8, 63, 20, 0, 0)),
        (ColumnType::bigint_unsigned(), (8, 63, 20, unsigned, 0)),
        (ColumnType::float(), (4, 63, 12, 0, 31)),
        (ColumnType::double(), (5, 63, 22, 0, 31)),
        (ColumnType::decimal(10, 2), (246, 63, 12, 0, 2)),
        (ColumnType::decimal(10, 0), (246, 63, 11, 0, 0)),
        (ColumnType::bit(9), (16, 63, 9, unsigned, 0)),
        (
            ColumnType::year(),
            (13, 63, 4, unsigned | flag::ZEROFILL, 0),
        ),
        (ColumnType::date(), (10, 63, 10, binary, 0)),
        (ColumnType::datetime(0), (12, 63, 19, binary, 0)),
        (ColumnType::datetime(6), (12, 63, 26, binary, 6)),
        (ColumnType::timestamp(0), (7, 63, 19, binary, 0)),
        (ColumnType::time(3), (11, 63, 14, binary, 3)),
        (ColumnType::char(3, collation), (254, 45, 12, 0, 0)),
        (ColumnType::varchar(255, collation), (253, 45, 1020, 0, 0)),
        (ColumnType::varchar(20, latin), (253, 45, 80, 0, 0)),
        (
            ColumnType::varchar(5, Collation::UTF8MB4_BIN),
            (253, 45, 20, binary, 0),
        ),
        (ColumnType::binary(4), (254, 63, 4, binary, 0)),
        (ColumnType::varbinary(5), (253, 63, 5, binary, 0)),
        (
            ColumnType::text(Kind::TinyText, collation),
            (252, 45, 1020, flag::BLOB, 0),
        ),
        (
            ColumnType::text(Kind::Text, collation),
            (252, 45, 262_140, flag::BLOB, 0),
        ),
        (
            ColumnType::text(Kind::LongText, collation),
            (252, 45, u32::MAX, flag::BLOB, 0),
        ),
        (
            ColumnType::blob(Kind::Blob),
            (252, 63, 65_535, flag::BLOB | binary, 0),
        ),
        (
            ColumnType::json(),
            (245, 63, u32::MAX, flag::BLOB | binary, 0),
        ),
        (
            ColumnType::enumeration(members(&["a", "drei"]), collation),
            (254, 45, 16, flag::ENUM, 0),
        ),
        (
            ColumnType::set(members(&["a", "bc"]), collation),
            (254, 45, 16, flag::SET, 0),
        ),
        (ColumnType::null(), (6, 63, 0, binary, 0)),
    ] {
        assert_eq!(show(&ty, 0, utf8), expected, "{}", ty.sql());
    }
    let key = flag::NOT_NULL | flag::PRI_KEY;
    assert_eq!(show(&ColumnType::bigint(), key, utf8).3, key);
    // Without conversion each text keeps its own collation and length.
    assert_eq!(
        show(&ColumnType::varchar(20, latin), 0, None),
        (253, 8, 20, 0, 0)
    );
    assert_eq!(
        show(&ColumnType::varchar(20, collation), 0, Some(latin)),
        (253, 8, 20, 0, 0)
    );
}

#[test]
fn listed_columns_end_in_their_default() {
    let ty = ColumnType::bigint();
    let column = ColumnDefinition {
        schema: b"",
        table: b"",
        org_table: b"",
        name: b"n",
        org_name: b"n",
        ty: &ty,
        flags: 0,
    };
    let null = one(|out, number| write_listed_column(out, number, &column, None, None));
    assert_eq!(null.last(), Some(&0xfb));
    let text = one(|out, number| write_listed_column(out, number, &column, None, Some(b"12")));
    assert!(text.ends_with(b"\x0212"));
}

#[test]
fn lengths_of_texts_are_those_of_their_character_set() {
    let length = |kind, collation| describe(&ColumnType::text(kind, collation), None).length;
    let (four, three, one) = (
        Collation::UTF8MB4_0900_AI_CI,
        Collation::UTF8MB3_GENERAL_CI,
        Collation::LATIN1_SWEDISH_CI,
    );
    assert_eq!(length(Kind::TinyText, four), 1020);
    assert_eq!(length(Kind::Text, four), 262_140);
    assert_eq!(length(Kind::MediumText, four), 67_108_860);
    assert_eq!(length(Kind::LongText, four), u32::MAX);
    assert_eq!(length(Kind::Text, three), 196_605);
    assert_eq!(length(Kind::Text, one), 65_535);
    assert_eq!(describe(&ColumnType::blob(Kind::Blob), None).length, 65_535);
}
