//! Answers: OK, ERR, EOF, prepare, metadata and rows, read by the client half.

use crate::support::Random;
use porpoise_types::{Collation, ColumnType, Date, DateTime, Decimal, Kind, Time, ValueRef};
use porpoise_wire::mysql::client::result::{self, Event, ResultReader, Row};
use porpoise_wire::mysql::column::{ColumnDefinition, write_column, write_param};
use porpoise_wire::mysql::frame::{FrameStep, MAX_PACKET_PAYLOAD, PacketReader};
use porpoise_wire::mysql::reply::{self, Ok, SessionChange};
use porpoise_wire::mysql::row::RowEncoder;
use porpoise_wire::mysql::{Capabilities, Status};

const NEW: Capabilities = Capabilities::SERVER;
const OLD: Capabilities = Capabilities(
    NEW.0
        & !(Capabilities::DEPRECATE_EOF.0
            | Capabilities::SESSION_TRACK.0
            | Capabilities::OPTIONAL_RESULTSET_METADATA.0),
);

fn payloads(stream: &[u8], first: u8) -> Vec<Vec<u8>> {
    let mut reader = PacketReader::before_login();
    reader.set_limit(1 << 30);
    let mut rest = stream.to_vec();
    let mut found = Vec::new();
    reader.expect(first);
    while let std::result::Result::Ok(FrameStep::Packet { payload, consumed }) =
        reader.next(&mut rest)
    {
        found.push(rest[payload].to_vec());
        rest.drain(..consumed);
    }
    assert!(rest.is_empty());
    found
}

fn one(write: impl FnOnce(&mut Vec<u8>, &mut u8)) -> Vec<u8> {
    let (mut out, mut number) = (Vec::new(), 3);
    write(&mut out, &mut number);
    let mut found = payloads(&out, 3);
    assert_eq!((found.len(), number), (1, 4));
    found.remove(0)
}

#[test]
fn ok_round_trips() {
    let changes = [
        SessionChange::Variable(b"autocommit", b"ON"),
        SessionChange::Schema(b"test"),
        SessionChange::State,
        SessionChange::TransactionState(b"T_______"),
        SessionChange::TransactionCharacteristics(b"START TRANSACTION;"),
    ];
    for caps in [NEW, OLD] {
        for (affected_rows, last_insert_id, info, changes) in [
            (0, 0, &b""[..], &[][..]),
            (251, u64::MAX, b"Rows matched: 1", &[]),
            (1 << 40, 7, b"", &changes[..]),
            (1, 1, b"info", &changes[..]),
        ] {
            let ok = Ok {
                affected_rows,
                last_insert_id,
                status: Status::AUTOCOMMIT,
                warnings: 300,
                info,
                changes,
            };
            let payload = one(|out, number| reply::write_ok(out, number, caps, &ok));
            assert_eq!(payload[0], 0);
            let read = result::parse_ok(&payload, caps).expect("OK");
            assert_eq!(
                (read.affected_rows, read.last_insert_id),
                (affected_rows, last_insert_id)
            );
            assert_eq!((read.warnings, read.info), (300, info));
            let tracked = caps == NEW && !changes.is_empty();
            assert_eq!(read.status.has(Status::SESSION_STATE_CHANGED), tracked);
            assert_eq!(!read.changes.is_empty(), tracked);
        }
    }
}

#[test]
fn a_change_of_schema_has_its_bytes() {
    let ok = Ok {
        changes: &[SessionChange::Schema(b"test")],
        ..Ok::default()
    };
    let payload = one(|out, number| reply::write_ok(out, number, NEW, &ok));
    assert_eq!(payload, b"\0\0\0\0\x40\0\0\0\x07\x01\x05\x04test");
}

#[test]
fn errors_round_trip_and_are_cut_between_characters() {
    let payload =
        one(|out, number| reply::write_error(out, number, 1062, *b"23000", "Duplicate entry"));
    assert_eq!(payload, b"\xff\x26\x04#23000Duplicate entry");
    let error = result::parse_error(&payload).expect("an error");
    assert_eq!(
        (error.code, &error.sqlstate, error.message.as_str()),
        (1062, b"23000", "Duplicate entry")
    );
    let long = "ü".repeat(400);
    let payload = one(|out, number| reply::write_error(out, number, 1, *b"HY000", &long));
    let error = result::parse_error(&payload).expect("an error");
    assert_eq!(error.message, "ü".repeat(255));
    let early =
        one(|out, number| reply::write_early_error(out, number, 1040, "Too many connections"));
    assert_eq!(early, b"\xff\x10\x04Too many connections");
}

#[test]
fn prepared_round_trips() {
    let ok = reply::PrepareOk {
        id: 7,
        columns: 2,
        params: 3,
        warnings: 4,
        definitions: false,
    };
    let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
    let payload = one(|out, number| reply::write_prepare_ok(out, number, optional, ok));
    assert_eq!(payload, b"\0\x07\0\0\0\x02\0\x03\0\0\x04\0\0");
    let payload = one(|out, number| reply::write_prepare_ok(out, number, OLD, ok));
    assert_eq!(payload, b"\0\x07\0\0\0\x02\0\x03\0\0\x04\0");
    let prepared = result::parse_prepared(&payload).expect("prepared");
    assert_eq!(
        (
            prepared.id,
            prepared.columns,
            prepared.params,
            prepared.warnings
        ),
        (7, 2, 3, 4)
    );
    assert_eq!(prepared.packets_to_follow(NEW), 5);
    assert_eq!(prepared.packets_to_follow(OLD), 7);
    let param = one(write_param);
    let column = result::parse_column(&param).expect("a definition");
    assert_eq!(
        (column.name, column.code, column.collation),
        (&b"?"[..], 253, 63)
    );
}

fn types() -> Vec<ColumnType> {
    let collation = Collation::UTF8MB4_0900_AI_CI;
    vec![
        ColumnType::int(Kind::TinyInt),
        ColumnType::uint(Kind::SmallInt),
        ColumnType::int(Kind::MediumInt),
        ColumnType::uint(Kind::Int),
        ColumnType::bigint(),
        ColumnType::bigint_unsigned(),
        ColumnType::float(),
        ColumnType::double(),
        ColumnType::decimal(10, 2),
        ColumnType::bit(9),
        ColumnType::year(),
        ColumnType::date(),
        ColumnType::datetime(6),
        ColumnType::timestamp(0),
        ColumnType::time(3),
        ColumnType::char(3, collation),
        ColumnType::varchar(255, collation),
        ColumnType::varbinary(5),
        ColumnType::text(Kind::Text, collation),
        ColumnType::blob(Kind::LongBlob),
        ColumnType::json(),
        ColumnType::null(),
    ]
}

fn row() -> Vec<ValueRef<'static>> {
    let date = Date::new(2024, 2, 29).expect("date");
    let at = |h, m, s, micros| DateTime::new(date, h, m, s, micros).expect("time");
    vec![
        ValueRef::Int(-5),
        ValueRef::UInt(65_535),
        ValueRef::Int(-8_388_608),
        ValueRef::UInt(4_294_967_295),
        ValueRef::Int(i64::MIN),
        ValueRef::UInt(u64::MAX),
        ValueRef::Double(1.5),
        ValueRef::Double(-2.25),
        ValueRef::Decimal(Decimal::parse(b"-12.30").expect("decimal")),
        ValueRef::UInt(0x101),
        ValueRef::UInt(1999),
        ValueRef::Date(date),
        ValueRef::DateTime(at(1, 2, 3, 4)),
        ValueRef::DateTime(at(1, 2, 3, 0)),
        ValueRef::Time(Time::from_micros(-90_061_500_000).expect("time")),
        ValueRef::Bytes("aß".as_bytes()),
        ValueRef::Bytes(b""),
        ValueRef::Bytes(b"\0\xff"),
        ValueRef::Bytes(&[b'x'; 300]),
        ValueRef::Bytes(b"b"),
        ValueRef::Bytes(b"{}"),
        ValueRef::Null,
    ]
}

const TEXTS: [Option<&[u8]>; 22] = [
    Some(b"-5"),
    Some(b"65535"),
    Some(b"-8388608"),
    Some(b"4294967295"),
    Some(b"-9223372036854775808"),
    Some(b"18446744073709551615"),
    Some(b"1.5"),
    Some(b"-2.25"),
    Some(b"-12.30"),
    Some(b"\x01\x01"),
    Some(b"1999"),
    Some(b"2024-02-29"),
    Some(b"2024-02-29 01:02:03.000004"),
    Some(b"2024-02-29 01:02:03"),
    Some(b"-25:01:01.500"),
    Some("aß".as_bytes()),
    Some(b""),
    Some(b"\0\xff"),
    Some(&[b'x'; 300]),
    Some(b"b"),
    Some(b"{}"),
    None,
];

/// A whole answer with these rows.
fn answer(
    caps: Capabilities,
    types: &[ColumnType],
    rows: &[Vec<ValueRef<'_>>],
    binary: bool,
) -> Vec<u8> {
    let (mut out, mut number) = (Vec::new(), 1);
    reply::write_column_count(&mut out, &mut number, caps, types.len(), true);
    for ty in types {
        let column = ColumnDefinition {
            schema: b"db",
            table: b"t",
            org_table: b"t",
            name: b"c",
            org_name: b"c",
            ty,
            flags: 0,
        };
        write_column(
            &mut out,
            &mut number,
            &column,
            Some(Collation::UTF8MB4_GENERAL_CI),
        );
    }
    reply::write_end_of_columns(&mut out, &mut number, caps, 0, Status::AUTOCOMMIT);
    let encoder = RowEncoder::new(types);
    for row in rows {
        if binary {
            encoder.write_binary(&mut out, &mut number, row);
        } else {
            encoder.write_text(&mut out, &mut number, row);
        }
    }
    let end = Ok {
        status: Status::AUTOCOMMIT,
        warnings: 1,
        ..Ok::default()
    };
    reply::write_end_of_rows(&mut out, &mut number, caps, &end);
    out
}

#[test]
fn rows_in_text_form_round_trip() {
    let nulls = vec![ValueRef::Null; 22];
    for caps in [NEW, OLD] {
        let stream = answer(caps, &types(), &[row(), nulls.clone()], false);
        let mut reader = ResultReader::new(caps, false);
        let mut rows = Vec::new();
        for payload in payloads(&stream, 1) {
            assert!(!reader.finished());
            match reader.next(&payload).expect("an event") {
                Event::Row(Row::Text(row)) => {
                    rows.push(row.map(|v| v.map(<[u8]>::to_vec)).collect::<Vec<_>>());
                }
                Event::End(ok) => assert_eq!(ok.warnings, 1),
                Event::Columns(n) => assert_eq!(n, 22),
                Event::Column(_) => {}
                Event::EndOfColumns => assert_eq!(caps, OLD),
                other => panic!("{other:?}"),
            }
        }
        assert!(reader.finished());
        assert_eq!(rows.len(), 2);
        for (found, expected) in rows[0].iter().zip(TEXTS) {
            assert_eq!(found.as_deref(), expected);
        }
        assert!(rows[1].iter().all(Option::is_none));
    }
}

#[test]
fn rows_in_binary_form_round_trip() {
    let stream = answer(OLD, &types(), &[row(), vec![ValueRef::Null; 22]], true);
    let mut reader = ResultReader::new(OLD, true);
    let mut seen = 0;
    for payload in payloads(&stream, 1) {
        if let Some(Event::Row(Row::Binary(found))) = reader.next(&payload) {
            let found: Vec<_> = found.collect();
            let expected = match seen {
                0 => row(),
                _ => vec![ValueRef::Null; 22],
            };
            assert_eq!(found.len(), 22);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // BIT comes as its bytes.
                let expected = match (i, seen) {
                    (9, 0) => ValueRef::Bytes(b"\x01\x01"),
                    _ => *expected,
                };
                assert_eq!(*found, expected, "column {i}");
            }
            seen += 1;
        }
    }
    assert!(reader.finished() && seen == 2);
}

#[test]
fn loosely_typed_values_keep_the_form_of_the_column() {
    let any = [
        ValueRef::Int(-3),
        ValueRef::UInt(7),
        ValueRef::Double(1.5),
        ValueRef::Decimal(Decimal::parse(b"2.5").expect("decimal")),
        ValueRef::Bytes(b"12x"),
        ValueRef::Bytes(b""),
        ValueRef::Date(Date::ZERO),
        ValueRef::DateTime(DateTime::MAX),
        ValueRef::Time(Time::MIN),
        ValueRef::Null,
    ];
    let types = types();
    for value in any {
        for binary in [false, true] {
            let stream = answer(NEW, &types, &[vec![value; 22], vec![value; 3]], binary);
            let mut reader = ResultReader::new(NEW, binary);
            for payload in payloads(&stream, 1) {
                match reader.next(&payload) {
                    Some(Event::Row(Row::Text(row))) => assert_eq!(row.count(), 22),
                    Some(Event::Row(Row::Binary(row))) => {
                        // The literal NULL's column has no bytes to read.
                        assert!(row.count() >= 21, "{value:?}");
                    }
                    Some(_) => {}
                    None => panic!("{value:?}"),
                }
            }
            assert!(reader.finished());
        }
    }
}

#[test]
fn a_row_of_more_than_a_packet_round_trips() {
    let big = vec![b'x'; MAX_PACKET_PAYLOAD + 10];
    let types = [ColumnType::blob(Kind::LongBlob)];
    for caps in [NEW, OLD] {
        let stream = answer(caps, &types, &[vec![ValueRef::Bytes(&big)]], false);
        let mut reader = ResultReader::new(caps, false);
        let mut rows = 0;
        for payload in payloads(&stream, 1) {
            if let Some(Event::Row(Row::Text(mut row))) = reader.next(&payload) {
                assert!(row.next() == Some(Some(&big)));
                rows += 1;
            }
        }
        assert!(reader.finished());
        assert_eq!(rows, 1);
    }
}

#[test]
fn several_results_follow_one_another() {
    let (mut out, mut number) = (Vec::new(), 1);
    let more = Ok {
        status: Status::MORE_RESULTS,
        ..Ok::default()
    };
    reply::write_ok(&mut out, &mut number, NEW, &more);
    reply::write_error(&mut out, &mut number, 1064, *b"42000", "no");
    let mut reader = ResultReader::new(NEW, false);
    let packets = payloads(&out, 1);
    assert!(matches!(reader.next(&packets[0]), Some(Event::Ok(_))));
    assert!(!reader.finished());
    assert!(matches!(reader.next(&packets[1]), Some(Event::Error(e)) if e.code == 1064));
    assert!(reader.finished());
}

#[test]
fn the_client_half_never_panics_on_noise() {
    let mut random = Random(8);
    for binary in [false, true] {
        let packets = payloads(&answer(NEW, &types(), &[row()], binary), 1);
        for _ in 0..4_000 {
            let mut reader = ResultReader::new(NEW, binary);
            for packet in &packets {
                let bytes = if random.below(8) == 0 {
                    random.mutate(packet)
                } else {
                    packet.clone()
                };
                match reader.next(&bytes) {
                    Some(Event::Row(Row::Text(row))) => assert!(row.count() <= bytes.len()),
                    Some(Event::Row(Row::Binary(row))) => assert!(row.count() <= 24),
                    Some(_) => {}
                    None => break,
                }
            }
        }
    }
}
