//! Events written byte by byte from MySQL's documents ("Binary Log Format") and MariaDB's ("Replication protocol").

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use porpoise_replication::event::{
    Event, EventOptions, EventWriter, FormatDescription, Header, RowChangeKind, XaStep, checksum,
    kind,
};
use porpoise_replication::gtid::{Gtid, GtidSet};
use porpoise_types::{Date, DateTime, Decimal, Time, Value};

/// An event with a header of server 7 at time 1; the checksum is appended.
fn event(kind: u8, flags: u16, position: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, kind, 7, 0, 0, 0];
    bytes.extend((19 + body.len() as u32 + 4).to_le_bytes());
    bytes.extend(position.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

fn format() -> FormatDescription {
    FormatDescription::new("8.4.0", 0, true)
}

fn decode(bytes: &[u8]) -> (Header, Event) {
    Event::decode(bytes, &format()).unwrap()
}

/// The event decodes, and encodes to the same bytes again.
fn both_ways(bytes: &[u8]) -> Event {
    let (header, event) = decode(bytes);
    let writer = EventWriter {
        server_id: header.server_id,
        has_checksums: true,
    };
    let mut out = Vec::new();
    let position = u64::from(header.next_position).checked_sub(bytes.len() as u64);
    let options = EventOptions {
        timestamp: header.timestamp,
        flags: header.flags,
    };
    writer.write(&mut out, position, options, &event);
    assert_eq!(out, bytes);
    event
}

#[test]
fn checksums_are_those_of_ieee_802_3() {
    assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
}

#[test]
fn format_description_of_mysql_8_4() {
    let mut body = vec![4, 0];
    let mut version = b"8.4.0".to_vec();
    version.resize(50, 0);
    body.extend(version);
    body.extend([0x80, 0x51, 0x01, 0x00]);
    body.push(19);
    // Lengths of the fixed parts of event types 1 to 42.
    body.extend([
        0x00, 0x0d, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x04, 0x00, 0x00, 0x00, 0x63,
        0x00, 0x04, 0x1a, 0x08, 0x00, 0x00, 0x00, 0x08, 0x08, 0x08, 0x02, 0x00, 0x00, 0x00, 0x0a,
        0x0a, 0x0a, 0x2a, 0x2a, 0x00, 0x12, 0x34, 0x00, 0x0a, 0x28, 0x00, 0x00,
    ]);
    body.push(1);
    let bytes = event(kind::FORMAT_DESCRIPTION, 0, 127, &body);
    assert_eq!(bytes.len(), 123);
    let Event::FormatDescription(format) = both_ways(&bytes) else {
        panic!("another event");
    };
    assert_eq!(format.server_version, "8.4.0");
    assert_eq!(format.created, 86_400);
    assert!(format.has_checksums && !format.is_mariadb());
}

#[test]
fn rotate_heartbeats_stop_and_incident() {
    let rotate = event(kind::ROTATE, 0x20, 0, b"\x04\0\0\0\0\0\0\0binlog.000002");
    let Event::Rotate(rotate) = both_ways(&rotate) else {
        panic!("another event");
    };
    assert_eq!(
        (rotate.position, rotate.file.as_slice()),
        (4, &b"binlog.000002"[..])
    );
    let old = event(kind::HEARTBEAT, 0, 1234, b"binlog.000002");
    assert!(matches!(decode(&old).1, Event::Heartbeat(h) if h.position == 1234));
    let new = event(
        kind::HEARTBEAT_V2,
        0,
        0,
        b"\x01\x0dbinlog.000002\x02\x03\xfc\xd2\x04\x00",
    );
    let Event::Heartbeat(heartbeat) = decode(&new).1 else {
        panic!("another event");
    };
    assert_eq!((heartbeat.position, heartbeat.is_version_2), (1234, true));
    assert_eq!(both_ways(&event(kind::STOP, 0, 500, b"")), Event::Stop);
    let incident = both_ways(&event(kind::INCIDENT, 0, 500, b"\x01\x00\x04lost"));
    assert!(matches!(incident, Event::Incident(i) if i.message == b"lost" && i.number == 1));
}

const UUID: [u8; 16] = *b"\x3e\x11\xfa\x47\x71\xca\x11\xe1\x9e\x33\xc8\x0a\xa9\x42\x95\x62";

#[test]
fn gtid_with_commit_times_length_and_version() {
    let mut body = vec![0];
    body.extend(UUID);
    body.extend([23, 0, 0, 0, 0, 0, 0, 0]);
    body.push(2);
    body.extend([5, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([6, 0, 0, 0, 0, 0, 0, 0]);
    // The immediate time with its top bit set, then the original one.
    body.extend([2, 0, 0, 0, 0, 0, 0x80]);
    body.extend([1, 0, 0, 0, 0, 0, 0]);
    body.extend([0xFC, 0x2C, 0x01]);
    body.extend([0x10, 0x3A, 0x01, 0x80, 0x0F, 0x38, 0x01, 0x00]);
    let Event::Gtid(gtid) = both_ways(&event(kind::GTID, 0, 400, &body)) else {
        panic!("another event");
    };
    let id = Gtid::parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:23").unwrap();
    assert_eq!(gtid.gtid, Some(id));
    assert_eq!((gtid.last_committed, gtid.sequence_number), (5, 6));
    let times = gtid.commit_times.unwrap();
    assert_eq!((times.immediate, times.original), (2, 1));
    assert_eq!(gtid.transaction_length, 300);
    let versions = gtid.server_version.unwrap();
    assert_eq!((versions.immediate, versions.original), (80_400, 79_887));
}

#[test]
fn transaction_lengths_count_their_own_width() {
    for others in [1u64, 150, 180, 240, 250, 65_000, 65_530, 70_000, 17_000_000] {
        let body = {
            let mut body = vec![0];
            body.extend(UUID);
            body.extend([1, 0, 0, 0, 0, 0, 0, 0, 2]);
            body.extend([0; 16]);
            body.extend([9, 0, 0, 0, 0, 0, 0]);
            body.push(0);
            body.extend([0x10, 0x3A, 0x01, 0x00]);
            body
        };
        let Event::Gtid(mut gtid) = decode(&event(kind::GTID, 0, 400, &body)).1 else {
            panic!("another event");
        };
        gtid.set_transaction_length(others, true);
        let mut out = Vec::new();
        let writer = EventWriter {
            server_id: 1,
            has_checksums: true,
        };
        let length = gtid.transaction_length;
        let own = writer.write(
            &mut out,
            Some(4),
            EventOptions::default(),
            &Event::Gtid(gtid),
        );
        assert_eq!(own as u64 + others, length);
    }
}

#[test]
fn previous_gtids() {
    let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
    body.extend(UUID);
    body.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    for number in [1u64, 6, 8, 9] {
        body.extend(number.to_le_bytes());
    }
    let Event::PreviousGtids(previous) = both_ways(&event(kind::PREVIOUS_GTIDS, 0x80, 200, &body))
    else {
        panic!("another event");
    };
    assert_eq!(
        previous.set.to_string(),
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:8"
    );
    body[7] = 2;
    let error = GtidSet::from_bytes(&body).unwrap_err().to_string();
    assert!(error.contains("format 2"), "{error}");
    // With tags, since MySQL 8.3: the format is in the first and the last byte of the number of servers.
    let mut body = vec![1, 2, 0, 0, 0, 0, 0, 1];
    for tag in [&b"\x00"[..], b"\x08blue"] {
        body.extend(UUID);
        body.extend(tag);
        body.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    }
    let Event::PreviousGtids(previous) = both_ways(&event(kind::PREVIOUS_GTIDS, 0x80, 200, &body))
    else {
        panic!("another event");
    };
    let text = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:blue:1-3";
    assert_eq!(previous.set.to_string(), text);
    assert_eq!(GtidSet::parse(text).unwrap(), previous.set);
    assert!(GtidSet::parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:2blue:1").is_err());
}

/// An integer of MySQL's serialization library of one or two bytes.
fn short(number: u16) -> Vec<u8> {
    match number {
        0..128 => vec![(number << 1) as u8],
        _ => (number << 2 | 1).to_le_bytes().to_vec(),
    }
}

#[test]
fn gtid_with_a_tag_of_mysql_8_4() {
    let mut fields = vec![0, 2]; // field 0, flags: 1
    fields.push(2); // field 1: UUID, each byte an integer
    fields.extend(UUID.iter().flat_map(|byte| short(u16::from(*byte))));
    fields.extend([4, 4 * 5]); // field 2: number 5, signed
    fields.extend(b"\x06\x08blue"); // field 3: tag
    fields.extend([8, 4 * 7, 10, 4 * 9]); // fields 4 and 5: 7, 9
    // Field 6: the time 1739270369410361 in eight bytes.
    fields.extend([12, 0x7F, 0x39, 0x7D, 0x89, 0x70, 0xDB, 0x2D, 0x06]);
    fields.extend([16, 0x5D, 0x03]); // field 8: length 215
    fields.extend([18, 0xC3, 0x02, 0x0B]); // field 9: version 90200
    let mut body = vec![2];
    body.extend(short(fields.len() as u16 + 3));
    body.push(0);
    body.extend(&fields);
    let bytes = event(kind::GTID_TAGGED, 0, 400, &body);
    let Event::Gtid(gtid) = both_ways(&bytes) else {
        panic!("another event");
    };
    let text = "3e11fa47-71ca-11e1-9e33-c80aa9429562:blue:5";
    assert_eq!(gtid.gtid.unwrap().to_string(), text);
    assert_eq!(Gtid::parse(text).unwrap(), gtid.gtid.unwrap());
    assert!(gtid.may_have_statements);
    assert_eq!((gtid.last_committed, gtid.sequence_number), (7, 9));
    let times = gtid.commit_times.unwrap();
    assert_eq!(times.immediate, 1_739_270_369_410_361);
    assert_eq!(times.original, times.immediate);
    assert_eq!(gtid.transaction_length, 215);
    assert_eq!(gtid.server_version.unwrap().original, 90_200);
    // Fields of later versions may be skipped, unless the header says that they must be known.
    let with_more = |required: u8| {
        let mut body = vec![2];
        body.extend(short(fields.len() as u16 + 5));
        body.push(required);
        body.extend(&fields);
        body.extend([40, 2]);
        Event::decode(&event(kind::GTID_TAGGED, 0, 400, &body), &format())
    };
    assert!(with_more(0).is_ok());
    let error = with_more(40).unwrap_err().to_string();
    assert!(error.contains("field 20"), "{error}");
    for cut in 3..body.len() {
        // Cut within the fields: an error or fewer fields, never a panic.
        let _ = Event::decode(&event(kind::GTID_TAGGED, 0, 400, &body[..cut]), &format());
    }
}

/// A table of an INT and two JSON columns.
fn json_table() -> Event {
    let mut body = vec![42, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x04shop\0\x01j\0");
    body.extend([3, 3, 245, 245, 2, 4, 4, 0b110]);
    both_ways(&event(kind::TABLE_MAP, 0, 800, &body))
}

/// A JSON document with the integers of an array: a small array of 16-bit integers.
fn json_array(items: &[u8]) -> Vec<u8> {
    let mut array = vec![2, items.len() as u8, 0, 4 + 3 * items.len() as u8, 0];
    for item in items {
        array.extend([5, *item, 0]);
    }
    array
}

#[test]
fn partial_updates_of_json_documents() {
    let Event::TableMap(map) = json_table() else {
        panic!("another event");
    };
    // An event: all columns before and after.
    let head = [42, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0b111, 0b111];
    let sized = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let before = |document: &[u8]| {
        let null = vec![0b100, 1, 0, 0, 0];
        [null, sized(document)].concat()
    };
    // [10, 20, 30]: the second is replaced by true, the first is removed, 7 is inserted before the last, 8 at the end.
    let mut changes = vec![0, 4];
    changes.extend(b"$[1]\x02\x04\x01");
    changes.extend(b"\x02\x04$[0]");
    changes.extend(b"\x01\x04$[1]\x03\x05\x07\x00");
    changes.extend(b"\x01\x04$[9]\x03\x05\x08\x00");
    let decode_rows = |after: &[u8], document: &[u8]| {
        let body = [&head[..], &before(document), after].concat();
        let Event::Rows(rows) = both_ways(&event(kind::PARTIAL_UPDATE_ROWS, 0, 900, &body)) else {
            panic!("another event");
        };
        assert_eq!(rows.kind, RowChangeKind::Update);
        let images = rows.images(&map, |_| false).unwrap();
        images.collect::<Result<Vec<_>, _>>()
    };
    let text = |text: &str| Some(Value::Bytes(text.as_bytes().to_vec()));
    // Options, one bit for each JSON column, NULLs.
    let after = [&[1, 0b01, 0b100, 2, 0, 0, 0][..], &sized(&changes)].concat();
    let rows = decode_rows(&after, &json_array(&[10, 20, 30])).unwrap();
    let (first, second) = &rows[0];
    assert_eq!(first[1], text("[10, 20, 30]"));
    let expected = [
        Some(Value::Int(2)),
        text("[true, 7, 30, 8]"),
        Some(Value::Null),
    ];
    assert_eq!(second.as_ref().unwrap().as_slice(), expected);
    // Members of an object.
    let object = [0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 6, 0, b'a']; // {"a": 6}
    let mut changes = vec![0, 3];
    changes.extend(b"$.a\x03\x05\x09\x00");
    changes.extend(b"\x01\x03$.b\x02\x04\x00");
    let after = [&[1, 0b01, 0b100, 1, 0, 0, 0][..], &sized(&changes)].concat();
    let rows = decode_rows(&after, &object).unwrap();
    assert_eq!(
        rows[0].1.as_ref().unwrap()[1],
        text(r#"{"a": 9, "b": null}"#)
    );
    // An image after with whole values.
    let after = [&[0, 0b100, 1, 0, 0, 0][..], &sized(&json_array(&[1]))].concat();
    let rows = decode_rows(&after, &object).unwrap();
    assert_eq!(rows[0].1.as_ref().unwrap()[1], text("[1]"));
    // A change whose path is missing: the replica's row differs from the source's.
    let after = [&[1, 0b01, 0b100, 1, 0, 0, 0][..], &sized(b"\x02\x03$.x")].concat();
    let error = decode_rows(&after, &object).unwrap_err().to_string();
    assert!(
        error.contains("PARTIAL_UPDATE_ROWS") || error.contains("removed"),
        "{error}"
    );
}

#[test]
fn query_with_variables() {
    let mut body = vec![9, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0];
    let mut variables = vec![0, 0, 0, 0, 4];
    variables.extend([1, 0x20, 0, 0, 0x45, 0, 0, 0, 0]);
    variables.extend(b"\x06\x03std");
    variables.extend([3, 2, 0, 1, 0]);
    variables.extend([4, 0xFF, 0, 45, 0, 8, 0]);
    variables.extend(b"\x05\x06SYSTEM");
    variables.extend(b"\x0c\x01shop\0");
    variables.extend([13, 0x40, 0xE2, 0x01]);
    body.extend((variables.len() as u16).to_le_bytes());
    body.extend(variables);
    body.extend(b"shop\0CREATE TABLE t (a INT)");
    let Event::Query(query) = both_ways(&event(kind::QUERY, 0, 600, &body)) else {
        panic!("another event");
    };
    assert_eq!(query.text, b"CREATE TABLE t (a INT)");
    assert_eq!(query.database, b"shop");
    let variables = query.variables;
    assert_eq!(variables.flags2, Some(0x0400_0000));
    assert_eq!(variables.sql_mode, Some(0x4500_0020));
    assert_eq!(variables.charset, Some((255, 45, 8)));
    assert_eq!(variables.time_zone.as_deref(), Some(&b"SYSTEM"[..]));
    assert_eq!(variables.auto_increment, Some((2, 1)));
    assert_eq!(variables.microseconds, Some(123_456));
    assert_eq!(variables.updated_databases, Some(vec![b"shop".to_vec()]));
}

#[test]
fn xid_xa_prepare_and_rows_query() {
    assert_eq!(
        both_ways(&event(kind::XID, 0, 700, &[1, 2, 0, 0, 0, 0, 0, 0])),
        Event::Xid(513)
    );
    let xa = both_ways(&event(
        kind::XA_PREPARE,
        0,
        700,
        b"\x00\x01\0\0\0\x02\0\0\0\x01\0\0\0abc",
    ));
    assert!(
        matches!(xa, Event::XaPrepare(x) if x.xid.to_string() == "X'6162',X'63',1" && !x.one_phase)
    );
    let query = both_ways(&event(kind::ROWS_QUERY, 0x80, 700, b"\x08DELETE a"));
    assert_eq!(query, Event::RowsQuery(b"DELETE a".to_vec()));
}

/// A table of many types: INT, VARCHAR(40), DECIMAL(10,4), CHAR(300 bytes), ENUM, SET, BIT(11), DATETIME(3), TIME(2),
/// TIMESTAMP(6), DATE, YEAR, FLOAT, DOUBLE, TEXT, JSON, MEDIUMINT UNSIGNED.
fn table_map() -> Vec<u8> {
    let mut body = vec![42, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x04shop\0\x01t\0");
    let types = [
        3, 15, 246, 254, 254, 254, 16, 18, 19, 17, 10, 13, 4, 5, 252, 245, 9,
    ];
    body.push(types.len() as u8);
    body.extend(types);
    let metadata = [
        160, 0, // VARCHAR
        10, 4, // DECIMAL
        0xEE, 0x2C, // CHAR of 300 bytes: 0xFE ^ 0x10, 0x2C
        247, 1, // ENUM
        248, 2, // SET
        3, 1, // BIT(11)
        3, 2, 6, // DATETIME, TIME, TIMESTAMP
        4, 8, // FLOAT, DOUBLE
        2, 4, // TEXT, JSON
    ];
    body.push(metadata.len() as u8);
    body.extend(metadata);
    // All may be NULL but the first.
    body.extend([0xFE, 0xFF, 0x01]);
    // Signedness of INT, DECIMAL, FLOAT, DOUBLE, MEDIUMINT: the last one is unsigned.
    body.extend([1, 1, 0b0000_1000]);
    // Collations of VARCHAR, CHAR and TEXT.
    body.extend([3, 5, 0xFC, 0xFF, 0x00, 45, 8]);
    event(kind::TABLE_MAP, 0, 800, &body)
}

#[test]
fn table_map_and_rows_of_many_types() {
    let Event::TableMap(map) = both_ways(&table_map()) else {
        panic!("another event");
    };
    assert_eq!((map.table_id, map.database.as_slice()), (42, &b"shop"[..]));
    assert_eq!(map.columns[3].metadata, 300);
    assert_eq!(map.columns[6].metadata, 11);
    assert_eq!(map.is_unsigned(0), Some(false));
    assert_eq!(map.is_unsigned(16), Some(true));
    assert_eq!(map.is_unsigned(1), None);
    assert_eq!((map.collation(1), map.collation(14)), (Some(255), Some(8)));
    let mut body = vec![42, 0, 0, 0, 0, 0, 1, 0, 2, 0, 17, 0xFF, 0xFF, 0x01];
    body.extend([0, 0, 0]);
    body.extend([0xFE, 0xFF, 0xFF, 0xFF]); // -2
    body.extend(b"\x03abc");
    // Integer part: 123456 in 3 bytes (6 digits); fraction: 7891 in 2 bytes (4 digits); sign bit and complement.
    body.extend([0x01u8 ^ 0x80, 0xE2, 0x40, 0x1E, 0xD3].map(|byte| !byte));
    body.extend(b"\x02\x00xy");
    body.push(2);
    body.extend([5, 0]);
    body.extend([0x05, 0x12]); // BIT: 0x512
    // DATETIME(3) 2024-02-29 13:14:15.125: 2024 * 13 + 2 = 26314.
    let packed: u64 = (26_314 << 22 | 29 << 17 | 13 << 12 | 14 << 6 | 15) + (1 << 39);
    body.extend(&packed.to_be_bytes()[3..]);
    body.extend(1250u16.to_be_bytes());
    // TIME(2) -01:02:03.04.
    let time: i64 = (1 << 23 << 8) - ((1 << 12 | 2 << 6 | 3) << 8 | 4);
    body.extend(&time.to_be_bytes()[4..]);
    // TIMESTAMP(6) 1970-01-02 00:00:01.000002.
    body.extend(86_401u32.to_be_bytes());
    body.extend([0, 0, 2]);
    let date: u32 = 2024 << 9 | 2 << 5 | 29;
    body.extend(&date.to_le_bytes()[..3]);
    body.push(124); // YEAR 2024
    body.extend(1.5f32.to_le_bytes());
    body.extend((-2.25f64).to_le_bytes());
    body.extend(b"\x05\x00hello");
    // {"a": [1, "x"]}: an object of 24 bytes with one member, whose value is an array of 12 bytes.
    let json = [
        0, 1, 0, 24, 0, 11, 0, 1, 0, 2, 12, 0, b'a', // object
        2, 0, 12, 0, 5, 1, 0, 12, 10, 0, 1, b'x', // array
    ];
    body.extend((json.len() as u32).to_le_bytes());
    body.extend(&json);
    body.extend([0xFF, 0xFF, 0xFF]);
    let Event::Rows(rows) = both_ways(&event(kind::WRITE_ROWS, 0, 900, &body)) else {
        panic!("another event");
    };
    assert_eq!(rows.kind, RowChangeKind::Insert);
    let images: Vec<_> = rows
        .images(&map, |_| false)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(images.len(), 1);
    let expected = [
        Value::Int(-2),
        Value::Bytes(b"abc".to_vec()),
        Value::Decimal(Decimal::parse(b"-123456.7891").unwrap()),
        Value::Bytes(b"xy".to_vec()),
        Value::UInt(2),
        Value::UInt(5),
        Value::UInt(0x512),
        Value::DateTime(DateTime::from_parts(2024, 2, 29, 13, 14, 15, 125_000).unwrap()),
        Value::Time(Time::from_micros(-3_723_040_000).unwrap()),
        Value::DateTime(DateTime::from_parts(1970, 1, 2, 0, 0, 1, 2).unwrap()),
        Value::Date(Date::new(2024, 2, 29).unwrap()),
        Value::UInt(2024),
        Value::Double(1.5),
        Value::Double(-2.25),
        Value::Bytes(b"hello".to_vec()),
        Value::Bytes(br#"{"a": [1, "x"]}"#.to_vec()),
        Value::UInt(0xFF_FFFF),
    ];
    for (at, expected) in expected.into_iter().enumerate() {
        assert_eq!(images[0].0[at], Some(expected), "column {at}");
    }
}

#[test]
fn update_with_a_minimal_image() {
    let Event::TableMap(mut map) = decode(&table_map()).1 else {
        panic!("another event");
    };
    map.columns.truncate(2);
    map.metadata.unsigned = None;
    // Before: the key; after: the text, NULL.
    let body = [
        &[42, 0, 0, 0, 0, 0, 3, 0, 2, 0, 2, 0b01, 0b10][..],
        &[0, 7, 0, 0, 0],
        &[1],
    ]
    .concat();
    let Event::Rows(rows) = both_ways(&event(kind::UPDATE_ROWS, 0, 900, &body)) else {
        panic!("another event");
    };
    let images: Vec<_> = rows
        .images(&map, |_| true)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(images[0].0, [Some(Value::UInt(7)), None]);
    assert_eq!(images[0].1, Some(vec![None, Some(Value::Null)]));
}

#[test]
fn version_1_rows_have_no_extra_data() {
    let body = [42, 0, 0, 0, 0, 0, 1, 0, 1, 0xFF, 0, 9, 0, 0, 0];
    let (_, event) = decode(&event(kind::DELETE_ROWS_V1, 0, 900, &body));
    let Event::Rows(rows) = event else {
        panic!("another event");
    };
    assert_eq!(rows.kind, RowChangeKind::Delete);
    assert_eq!(rows.data, [0, 9, 0, 0, 0]);
}

#[test]
fn mariadb_gtid_list_annotate_and_compressed_query() {
    let body = [
        &[8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0][..],
        &[0b0000_0110],
        &[9, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let (_, gtid) = decode(&event(kind::MARIADB_GTID, 0, 400, &body));
    let Event::MariadbGtid(gtid) = gtid else {
        panic!("another event");
    };
    assert_eq!(gtid.gtid.to_string(), "3-7-8");
    assert!(gtid.is_transactional && !gtid.is_standalone && gtid.xa.is_none());
    assert_eq!(gtid.commit_id, Some(9));
    // Branch X'6162',X'63',258: prepared without a group commit, and ended.
    let branch = [2, 1, 0, 0, 2, 1, b'a', b'b', b'c'];
    for (flags, step) in [(0x44, "Prepare"), (0x84, "End")] {
        let head = [8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, flags];
        let bytes = event(
            kind::MARIADB_GTID,
            0,
            400,
            &[&head[..], &branch[..]].concat(),
        );
        let Event::MariadbGtid(gtid) = both_ways(&bytes) else {
            panic!("another event");
        };
        let found = match gtid.xa {
            Some(XaStep::Prepare(xid)) => format!("Prepare {xid}"),
            Some(XaStep::End(xid)) => format!("End {xid}"),
            None => String::new(),
        };
        assert_eq!(found, format!("{step} X'6162',X'63',258"));
    }
    let torn = [
        8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x44, 2, 1, 0, 0, 200, 1, b'a', b'b',
    ];
    assert!(Event::decode(&event(kind::MARIADB_GTID, 0, 400, &torn), &format()).is_err());
    let mut body = vec![1, 0, 0, 0x10];
    body.extend([0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    let Event::MariadbGtidList(list) = decode(&event(kind::MARIADB_GTID_LIST, 0, 400, &body)).1
    else {
        panic!("another event");
    };
    assert_eq!(list[0].to_string(), "0-1-5");
    let annotate = decode(&event(kind::MARIADB_ANNOTATE_ROWS, 0, 400, b"INSERT 1")).1;
    assert_eq!(annotate, Event::RowsQuery(b"INSERT 1".to_vec()));
    let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut deflated, b"DROP TABLE t").unwrap();
    let mut body = vec![9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 12];
    body.extend(deflated.finish().unwrap());
    let (_, query) = decode(&event(kind::MARIADB_QUERY_COMPRESSED, 0, 400, &body));
    assert!(matches!(query, Event::Query(q) if q.text == b"DROP TABLE t"));
}

#[test]
fn a_compressed_transaction_contains_events_without_checksums() {
    let writer = EventWriter {
        server_id: 7,
        has_checksums: false,
    };
    let mut events = Vec::new();
    for number in 0..20 {
        writer.write(
            &mut events,
            None,
            EventOptions::default(),
            &Event::Xid(number),
        );
    }
    let payload = zstd::bulk::compress(&events, 3).unwrap();
    let mut body = vec![2, 1, 0, 3, 3, 0xFC];
    body.extend((events.len() as u16).to_le_bytes());
    body.extend([1, 1, payload.len() as u8, 0]);
    body.extend(payload);
    let Event::TransactionPayload(payload) =
        both_ways(&event(kind::TRANSACTION_PAYLOAD, 0, 2000, &body))
    else {
        panic!("another event");
    };
    let mut inner = format();
    inner.has_checksums = false;
    let numbers: Vec<_> = payload
        .iter()
        .map(|bytes| Event::decode(bytes.unwrap(), &inner).unwrap().1)
        .collect();
    assert_eq!(numbers, (0..20).map(Event::Xid).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_applied_is_refused_by_name() {
    let cases = [
        (kind::INTVAR, "binlog_format = ROW"),
        (kind::MARIADB_START_ENCRYPTION, "encrypted"),
        (99, "type 99"),
    ];
    for (kind, expected) in cases {
        let error = Event::decode(&event(kind, 0, 100, b"xx"), &format()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    // A reader may skip what the header calls ignorable.
    assert_eq!(decode(&event(99, 0x80, 100, b"xx")).1, Event::Ignored(99));
    let mut broken = event(kind::XID, 0, 100, &[0; 8]);
    broken[20] ^= 1;
    let error = Event::decode(&broken, &format()).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn hidden_columns_are_told_and_vectors_refused() {
    let mut body = vec![42, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x04shop\0\x01v\0");
    // INT, and VECTOR with a length of four bytes; the second may be NULL.
    body.extend([2, 3, 242, 1, 4, 0b10]);
    // Visibility: the first bit is the highest.
    body.extend([12, 1, 0b1000_0000]);
    let Event::TableMap(map) = both_ways(&event(kind::TABLE_MAP, 0, 800, &body)) else {
        panic!("another event");
    };
    let visible = map.metadata.visible.as_ref().unwrap();
    assert_eq!(visible.iter().collect::<Vec<_>>(), [true, false]);
    let rows = |values: &[u8]| {
        let body = [&[42, 0, 0, 0, 0, 0, 1, 0, 2, 0, 2, 0b11][..], values].concat();
        let Event::Rows(rows) = both_ways(&event(kind::WRITE_ROWS, 0, 900, &body)) else {
            panic!("another event");
        };
        let images = rows.images(&map, |_| false).unwrap();
        images.collect::<Result<Vec<_>, _>>()
    };
    assert!(rows(&[0b10, 1, 0, 0, 0]).is_ok(), "NULL is no vector");
    let error = rows(&[0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0x80, 0x3F]).unwrap_err();
    assert!(error.to_string().contains("VECTOR"), "{error}");
}
