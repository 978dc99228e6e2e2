//! Prepared statements: every type both ways, long data, cursors, limits.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_types::temporal::DateRules;
use porpoise_types::{DateTime, Decimal, Time, ValueRef};
use porpoise_wire::mysql::capability::type_code;
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::params::Param;
use porpoise_wire::mysql::{Capabilities, Status, client, frame};

fn ready() -> (Porpoise, Client) {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    (server, c)
}

fn text(value: &Option<Vec<u8>>) -> String {
    match value {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "NULL".to_owned(),
    }
}

fn datetime(text: &str) -> DateTime {
    let parsed = DateTime::parse(text.as_bytes(), DateRules::LENIENT);
    parsed.unwrap().value
}

#[test]
fn every_type_goes_in_and_comes_out() {
    let (_server, mut c) = ready();
    c.good(
        "CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, \
         d BIGINT UNSIGNED, e FLOAT, f DOUBLE, g DECIMAL(20,5), h DATE, i DATETIME(6), \
         j TIME(3), k VARCHAR(20), l VARBINARY(20), m TEXT, n BLOB, o ENUM('x','y'), \
         p TIMESTAMP NULL, q CHAR(4), r BIGINT)",
    );
    let insert = c
        .prepare("INSERT INTO t VALUES (1,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .unwrap();
    assert_eq!((insert.params, insert.columns), (18, 0));
    let at = datetime("2024-02-29 12:34:56.789012");
    let values = [
        ValueRef::Int(-128),
        ValueRef::UInt(65_535),
        ValueRef::Int(-8_388_608),
        ValueRef::UInt(u64::MAX),
        ValueRef::Double(1.5),
        ValueRef::Double(-1e300),
        ValueRef::Decimal(Decimal::parse(b"-123456789.12345").unwrap()),
        ValueRef::Date(datetime("2024-02-29 00:00:00").date()),
        ValueRef::DateTime(at),
        ValueRef::Time(Time::parse(b"-99:59:58.123").unwrap().value),
        ValueRef::Bytes("grüße".as_bytes()),
        ValueRef::Bytes(&[0, 255, 1]),
        ValueRef::Bytes(b"long text"),
        ValueRef::Bytes(&[1, 2, 0]),
        ValueRef::Bytes(b"y"),
        ValueRef::DateTime(datetime("2020-01-02 03:04:05")),
        ValueRef::Bytes(b"ab"),
        ValueRef::Int(i64::MIN),
    ];
    let params: Vec<Param<'_>> = values.iter().map(|v| Param::from(*v)).collect();
    let answer = c.execute(insert.id, &params, &[]);
    assert_eq!((answer.error, answer.affected), (None, 1));

    let select = c.prepare("SELECT * FROM t WHERE id = ?").unwrap();
    assert_eq!((select.params, select.columns), (1, 19));
    let binary = c.execute(select.id, &[Param::from(ValueRef::Int(1))], &[]);
    assert_eq!(binary.error, None);
    let expected = [
        "1",
        "-128",
        "65535",
        "-8388608",
        "18446744073709551615",
        "1.5",
        "-1e300",
        "-123456789.12345",
        "2024-02-29",
        "2024-02-29 12:34:56.789012",
        "-99:59:58.123",
        "grüße",
        "\0\u{fffd}\u{1}",
        "long text",
        "\u{1}\u{2}\0",
        "y",
        "2020-01-02 03:04:05",
        "ab",
        "-9223372036854775808",
    ];
    let as_text: Vec<String> = c.good("SELECT * FROM t").rows[0].iter().map(text).collect();
    assert_eq!(as_text, expected);
    let trimmed = |s: String| s.strip_suffix(".000000").map(str::to_owned).unwrap_or(s);
    let got: Vec<String> = binary.rows[0].iter().map(text).map(trimmed).collect();
    let fraction = |s: &str| s.replace("58.123000", "58.123");
    for (got, want) in got.iter().zip(expected) {
        assert_eq!(fraction(got), want);
    }
}

#[test]
fn nulls_of_every_declared_type() {
    let (_server, mut c) = ready();
    let select = c.prepare("SELECT ?, ? IS NULL").unwrap();
    for code in [
        type_code::NULL,
        type_code::LONGLONG,
        type_code::VAR_STRING,
        type_code::NEWDECIMAL,
        type_code::DATETIME,
        type_code::BLOB,
        type_code::DOUBLE,
        type_code::TIME,
    ] {
        let param = Param {
            value: ValueRef::Null,
            type_code: code,
            unsigned: false,
        };
        let answer = c.execute(select.id, &[param, param], &[]);
        assert_eq!(answer.error, None, "{code}");
        let row: Vec<String> = answer.rows[0].iter().map(text).collect();
        assert_eq!(row, ["NULL", "1"], "{code}");
    }
}

#[test]
fn types_are_remembered_and_may_change() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(10))");
    c.good("INSERT INTO t VALUES (7, 'seven')");
    let select = c.prepare("SELECT s FROM t WHERE id = ?").unwrap();
    let seven = [Param::from(ValueRef::Int(7))];
    assert_eq!(c.execute(select.id, &seven, &[]).texts(), [["seven"]]);
    let mut out = Vec::new();
    client::execute(&mut out, c.caps, select.id, &seven, false, |_| false);
    c.send(&out);
    assert_eq!(c.answers(true)[0].texts(), [["seven"]]);
    let word = [Param::from(ValueRef::Bytes(b"7"))];
    assert_eq!(c.execute(select.id, &word, &[]).texts(), [["seven"]]);
    c.good("ALTER TABLE t ADD KEY (s)");
    assert_eq!(c.execute(select.id, &seven, &[]).texts(), [["seven"]]);
}

#[test]
fn long_data_comes_in_pieces() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY, body LONGBLOB)");
    let insert = c.prepare("INSERT INTO t VALUES (?, ?)").unwrap();
    let mut out = Vec::new();
    for piece in [&b"first "[..], b"second ", b"", b"third"] {
        client::long_data(&mut out, insert.id, 1, piece);
    }
    c.send(&out);
    let params = [
        Param::from(ValueRef::Int(1)),
        Param {
            value: ValueRef::Bytes(b""),
            type_code: type_code::BLOB,
            unsigned: false,
        },
    ];
    assert_eq!(c.execute(insert.id, &params, &[1]).error, None);
    let body = c.good("SELECT body FROM t WHERE id = 1").one();
    assert_eq!(body, "first second third");
    // It was for one execution only.
    let next = [Param::from(ValueRef::Int(2)), Param::from(ValueRef::Null)];
    assert_eq!(c.execute(insert.id, &next, &[]).error, None);
    let body = c.good("SELECT body FROM t WHERE id = 2");
    assert_eq!(body.texts(), [["NULL"]]);
    // A reset drops it; long data for a parameter that does not exist is an error.
    out.clear();
    client::long_data(&mut out, insert.id, 7, b"lost");
    c.send(&out);
    let third = [Param::from(ValueRef::Int(3)), Param::from(ValueRef::Null)];
    assert_eq!(c.execute(insert.id, &third, &[]).code(), 1210);
    assert_eq!(c.execute(insert.id, &third, &[]).code(), 0);
}

#[test]
fn too_much_long_data_is_an_error_of_the_execution() {
    let server = Porpoise::builder().start();
    Client::root(server.mysql_addr).good("SET GLOBAL max_allowed_packet = 100000");
    let mut c = Client::root(server.mysql_addr);
    let select = c.prepare("SELECT LENGTH(?)").unwrap();
    let param = [Param {
        value: ValueRef::Bytes(b""),
        type_code: type_code::BLOB,
        unsigned: false,
    }];
    for (pieces, code) in [(2, 1105), (1, 0)] {
        let mut out = Vec::new();
        for _ in 0..pieces {
            client::long_data(&mut out, select.id, 0, &[b'x'; 60_000]);
        }
        c.send(&out);
        assert_eq!(c.execute(select.id, &param, &[0]).code(), code);
    }
}

#[test]
fn cursors_give_rows_as_they_are_asked_for() {
    let server = Porpoise::builder().start();
    for without in [Capabilities(0), Capabilities::DEPRECATE_EOF] {
        let how = How {
            without,
            ..How::default()
        };
        let mut c = Client::connect(server.mysql_addr, &how).unwrap();
        c.good("CREATE DATABASE IF NOT EXISTS d");
        c.good("USE d");
        c.good("DROP TABLE IF EXISTS t");
        c.good("CREATE TABLE t (id INT PRIMARY KEY)");
        c.good("INSERT INTO t VALUES (1), (2), (3), (4), (5)");
        let select = c.prepare("SELECT id FROM t ORDER BY id").unwrap();
        let mut out = Vec::new();
        client::execute(&mut out, c.caps, select.id, &[], false, |_| false);
        // The flag of a read-only cursor.
        out[9] |= 1;
        c.send(&out);
        c.expect(1);
        assert_eq!(c.packet().unwrap(), [1]);
        c.packet().unwrap();
        let status = end_of_rows(&c.packet().unwrap(), c.caps);
        assert!(status.has(Status::CURSOR_EXISTS), "{status:?}");
        c.good("DELETE FROM t");
        for (rows, last) in [(2, false), (3, false), (0, true)] {
            let status = fetch(&mut c, select.id, 3.min(rows.max(1)), rows);
            assert_eq!(status.has(Status::LAST_ROW_SENT), last);
        }
        out.clear();
        fetch_bytes(&mut out, select.id, 1);
        c.send(&out);
        assert_eq!(c.answers(true)[0].code(), 1421);
    }
}

fn fetch_bytes(out: &mut Vec<u8>, id: u32, rows: u32) {
    let mut body = vec![code::STMT_FETCH];
    body.extend(id.to_le_bytes());
    body.extend(rows.to_le_bytes());
    frame::packet(out, &mut 0, &body);
}

/// Fetches, and checks the number of rows.
fn fetch(c: &mut Client, id: u32, wanted: u32, rows: u32) -> Status {
    let mut out = Vec::new();
    fetch_bytes(&mut out, id, wanted);
    c.send(&out);
    c.expect(1);
    for _ in 0..rows {
        assert_eq!(c.packet().unwrap().first(), Some(&0));
    }
    let caps = c.caps;
    end_of_rows(&c.packet().unwrap(), caps)
}

fn end_of_rows(packet: &[u8], caps: Capabilities) -> Status {
    assert_eq!(packet[0], 0xfe);
    if caps.has(Capabilities::DEPRECATE_EOF) {
        client::result::parse_ok(packet, caps).unwrap().status
    } else {
        assert_eq!(packet.len(), 5);
        Status(u16::from_le_bytes([packet[3], packet[4]]))
    }
}

#[test]
fn cursors_are_closed_with_their_statement_and_by_a_reset() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("INSERT INTO t VALUES (1), (2), (3)");
    let select = c
        .prepare("SELECT id FROM t WHERE id > ? ORDER BY id")
        .unwrap();
    let fetched = |c: &mut Client| {
        let mut out = Vec::new();
        fetch_bytes(&mut out, select.id, 1);
        c.send(&out);
        c.expect(1);
        let first = c.packet().unwrap();
        if first[0] == 0xff {
            return u16::from_le_bytes([first[1], first[2]]);
        }
        let caps = c.caps;
        let end = end_of_rows(&c.packet().unwrap(), caps);
        assert!(end.has(Status::CURSOR_EXISTS));
        0
    };
    assert_eq!(fetched(&mut c), 1421);
    open_cursor(&mut c, select.id, 0);
    assert_eq!(fetched(&mut c), 0);
    // Another execution starts from the first row, with a cursor or without.
    open_cursor(&mut c, select.id, 0);
    assert_eq!(fetched(&mut c), 0);
    assert_eq!(
        c.execute(select.id, &[Param::from(ValueRef::Int(2))], &[])
            .texts(),
        [["3"]]
    );
    assert_eq!(fetched(&mut c), 1421);
    open_cursor(&mut c, select.id, 0);
    let mut out = Vec::new();
    client::number(&mut out, code::STMT_RESET, select.id);
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 0);
    assert_eq!(fetched(&mut c), 1421);
    open_cursor(&mut c, select.id, 0);
    out.clear();
    client::number(&mut out, code::STMT_CLOSE, select.id);
    c.send(&out);
    assert_eq!(fetched(&mut c), 1243);
    // A statement without rows opens none, an error neither.
    let insert = c.prepare("INSERT INTO t VALUES (?)").unwrap();
    let mut execute = Vec::new();
    let param = [Param::from(ValueRef::Int(9))];
    client::execute(&mut execute, c.caps, insert.id, &param, true, |_| false);
    execute[9] |= 1;
    for code in [0, 1062] {
        c.send(&execute);
        let answer = c.answers(true).remove(0);
        assert_eq!(answer.code(), code);
        assert!(!answer.status.has(Status::CURSOR_EXISTS));
    }
}

#[test]
fn a_cursor_gives_rows_of_several_pieces() {
    let (_server, mut c) = ready();
    let select = c
        .prepare("SELECT REPEAT('x', 17000000), ? UNION ALL SELECT 'y', 2")
        .unwrap();
    let mut out = Vec::new();
    let param = [Param::from(ValueRef::Int(1))];
    client::execute(&mut out, c.caps, select.id, &param, true, |_| false);
    out[9] |= 1;
    c.send(&out);
    c.expect(1);
    let caps = c.caps;
    for _ in 0..3 {
        c.packet().unwrap();
    }
    assert!(end_of_rows(&c.packet().unwrap(), caps).has(Status::CURSOR_EXISTS));
    out.clear();
    fetch_bytes(&mut out, select.id, 5);
    c.send(&out);
    c.expect(1);
    let first = c.packet().unwrap();
    assert!(first.len() > 17_000_000 && first[100..17_000_000].iter().all(|b| *b == b'x'));
    assert!(c.packet().unwrap().len() < 20);
    assert!(end_of_rows(&c.packet().unwrap(), caps).has(Status::LAST_ROW_SENT));
}

/// Executes a statement with one parameter, and reads up to its columns.
fn open_cursor(c: &mut Client, id: u32, param: i64) {
    let mut out = Vec::new();
    let param = [Param::from(ValueRef::Int(param))];
    client::execute(&mut out, c.caps, id, &param, true, |_| false);
    out[9] |= 1;
    c.send(&out);
    c.expect(1);
    assert_eq!(c.packet().unwrap(), [1]);
    c.packet().unwrap();
    let caps = c.caps;
    assert!(end_of_rows(&c.packet().unwrap(), caps).has(Status::CURSOR_EXISTS));
}

#[test]
#[ignore = "long: gigabytes of rows"]
fn the_memory_of_all_cursors_of_a_connection_is_bounded() {
    let (_server, mut c) = ready();
    let rows = "WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 100) \
                SELECT REPEAT('x', 8000000) FROM n WHERE a > ?";
    let first = c.prepare(rows).unwrap();
    let second = c.prepare(rows).unwrap();
    open_cursor(&mut c, first.id, 0);
    let mut out = Vec::new();
    let param = [Param::from(ValueRef::Int(0))];
    client::execute(&mut out, c.caps, second.id, &param, true, |_| false);
    out[9] |= 1;
    c.send(&out);
    let refused = c.answers(true).remove(0);
    assert_eq!(refused.code(), 1041, "{:?}", refused.error);
    // The first is as it was, and closing it makes room.
    client::number(&mut out, code::STMT_CLOSE, first.id);
    let close = out.split_off(out.len() - 9);
    c.send(&close);
    open_cursor(&mut c, second.id, 0);
}

#[test]
fn a_changed_number_of_columns_is_reported() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("INSERT INTO t VALUES (1)");
    let select = c.prepare("SELECT * FROM t").unwrap();
    assert_eq!(select.columns, 1);
    let answer = c.execute(select.id, &[], &[]);
    assert!(!answer.status.has(Status::METADATA_CHANGED));
    c.good("ALTER TABLE t ADD COLUMN s VARCHAR(5) DEFAULT 'new'");
    let answer = c.execute(select.id, &[], &[]);
    assert_eq!(answer.texts(), [["1", "new"]]);
    assert!(answer.status.has(Status::METADATA_CHANGED));
    assert!(
        !c.execute(select.id, &[], &[])
            .status
            .has(Status::METADATA_CHANGED)
    );
    c.good("DROP TABLE t");
    assert_eq!(c.execute(select.id, &[], &[]).code(), 1146);
    c.good("CREATE TABLE t (other DATE)");
    assert_eq!(c.execute(select.id, &[], &[]).columns, ["other"]);
}

#[test]
fn statements_end_and_are_unknown_then() {
    let (_server, mut c) = ready();
    let select = c.prepare("SELECT ?").unwrap();
    let param = [Param::from(ValueRef::Int(1))];
    assert_eq!(c.execute(select.id, &param, &[]).code(), 0);
    let mut out = Vec::new();
    client::number(&mut out, code::STMT_RESET, select.id);
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 0);
    out.clear();
    client::number(&mut out, code::STMT_CLOSE, select.id);
    c.send(&out);
    assert_eq!(c.execute(select.id, &param, &[]).code(), 1243);
    out.clear();
    client::number(&mut out, code::STMT_RESET, select.id);
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 1243);
    assert_eq!(c.prepare("SELECT FROM").unwrap_err().code, 1064);
    assert_eq!(c.prepare("SELECT 1; SELECT 2").unwrap_err().code, 1064);
}

#[test]
fn too_many_parameters_are_refused() {
    let (_server, mut c) = ready();
    let marks = vec!["?"; 65_536].join(",");
    let error = c
        .prepare(&format!("SELECT 1 WHERE 1 IN ({marks})"))
        .unwrap_err();
    assert_eq!(error.code, 1390);
    let select = c.prepare("SELECT 1").unwrap();
    assert_eq!(c.execute(select.id, &[], &[]).texts(), [["1"]]);
}

#[test]
fn status_variables_of_a_session_are_its_own() {
    let (server, mut c) = ready();
    let shown = |c: &mut Client, scope: &str, name: &str| -> u64 {
        let rows = c
            .good(&format!("SHOW {scope} STATUS LIKE '{name}'"))
            .texts();
        rows[0][1].parse().unwrap()
    };
    c.simple(code::RESET_CONNECTION);
    assert_eq!(shown(&mut c, "SESSION", "Com_admin_commands"), 1);
    let prepared = c.prepare("SELECT ?").unwrap();
    let other = c.prepare("SELECT 1").unwrap();
    assert_eq!(shown(&mut c, "GLOBAL", "Prepared_stmt_count"), 2);
    let param = [Param::from(ValueRef::Int(1))];
    for _ in 0..3 {
        assert_eq!(c.execute(prepared.id, &param, &[]).code(), 0);
    }
    let mut out = Vec::new();
    client::number(&mut out, code::STMT_RESET, prepared.id);
    c.send(&out);
    c.answers(false);
    for id in [prepared.id, other.id] {
        out.clear();
        client::number(&mut out, code::STMT_CLOSE, id);
        c.send(&out);
    }
    let counts = [
        ("Com_stmt_prepare", 2),
        ("Com_stmt_execute", 3),
        ("Com_stmt_reset", 1),
        ("Com_stmt_close", 2),
        ("Com_select", 3),
        ("Prepared_stmt_count", 0),
    ];
    for (name, expected) in counts {
        assert_eq!(shown(&mut c, "SESSION", name), expected, "{name}");
    }
    let mut second = Client::root(server.mysql_addr);
    for (name, _) in counts {
        assert_eq!(shown(&mut second, "SESSION", name), 0, "{name}");
    }
    assert_eq!(shown(&mut second, "GLOBAL", "Com_stmt_execute"), 3);
    assert!(shown(&mut c, "GLOBAL", "Questions") > shown(&mut c, "SESSION", "Questions"));
    let (sent, received) = (
        shown(&mut c, "SESSION", "Bytes_sent"),
        shown(&mut c, "SESSION", "Bytes_received"),
    );
    let text = format!("SELECT REPEAT('x', 100000) /* {} */", "y".repeat(1000));
    assert_eq!(c.good(&text).one().len(), 100_000);
    let sent = shown(&mut c, "SESSION", "Bytes_sent") - sent;
    let received = shown(&mut c, "SESSION", "Bytes_received") - received;
    assert!((100_000..102_000).contains(&sent), "{sent}");
    assert!((1_000..1_300).contains(&received), "{received}");
    // What ended sessions did remains in the sums.
    drop(c);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while shown(&mut second, "GLOBAL", "Threads_connected") > 1 {
        assert!(
            std::time::Instant::now() < deadline,
            "the session did not end"
        );
    }
    assert_eq!(shown(&mut second, "GLOBAL", "Com_stmt_execute"), 3);
}
