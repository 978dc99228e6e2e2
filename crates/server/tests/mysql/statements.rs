//! Statements as text: results, several in one text, commands beside them.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_types::{Date, DateTime, ValueRef};
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::params::Param;
use porpoise_wire::mysql::{Capabilities, Status, client, frame};

#[test]
fn results_with_and_without_eof_packets() {
    let server = Porpoise::builder().start();
    for without in [
        Capabilities(0),
        Capabilities::DEPRECATE_EOF,
        Capabilities::SESSION_TRACK,
        Capabilities::QUERY_ATTRIBUTES,
    ] {
        let how = How {
            without,
            ..How::default()
        };
        let mut c = Client::connect(server.mysql_addr, &how).unwrap();
        let answer = c.good("SELECT 1 AS a, 'x' AS b, NULL AS c");
        assert_eq!(answer.columns, ["a", "b", "c"]);
        assert_eq!(answer.texts(), [["1", "x", "NULL"]]);
        assert!(answer.status.has(Status::AUTOCOMMIT));
        assert_eq!(c.query("SELECT nothing").code(), 1054);
        assert_eq!(c.good("DO 1").affected, 0);
        assert_eq!(c.query("").code(), 1065);
    }
}

#[test]
fn figures_status_and_session_state_of_replies() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    let used = c.good("USE d");
    assert!(used.changed && used.status.has(Status::SESSION_STATE_CHANGED));
    c.good("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)");
    let inserted = c.good("INSERT INTO t (n) VALUES (1), (2), (3)");
    assert_eq!((inserted.affected, inserted.id), (3, 1));
    assert_eq!(inserted.info, "Records: 3  Duplicates: 0  Warnings: 0");
    assert!(!inserted.changed);
    let updated = c.good("UPDATE t SET n = 2");
    assert_eq!(updated.affected, 2);
    assert_eq!(updated.info, "Rows matched: 3  Changed: 2  Warnings: 0");
    assert!(!c.good("SET autocommit = 0").status.has(Status::AUTOCOMMIT));
    let begun = c.good("SELECT COUNT(*) FROM t");
    assert!(begun.status.has(Status::IN_TRANSACTION));
    assert!(!c.good("COMMIT").status.has(Status::IN_TRANSACTION));
}

#[test]
fn attributes_of_queries_are_read_and_passed_over() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    let attributes = [
        (&b"trace"[..], Param::from(ValueRef::Bytes(b"a\0b"))),
        (b"", Param::from(ValueRef::Null)),
        (b"n", Param::from(ValueRef::UInt(u64::MAX))),
    ];
    let mut out = Vec::new();
    client::query(&mut out, c.caps, b"SELECT 'text'", &attributes);
    c.send(&out);
    assert_eq!(c.answers(false)[0].one(), "text");
    // The bytes of a packet with two attributes, and the function that reads them.
    let mut body = vec![code::QUERY, 2, 1, 0b10, 1];
    body.extend(b"\xfe\0\x05Trace\x06\0\x01n");
    body.extend(b"\x0400-1");
    body.extend(b"SELECT mysql_query_attribute_string('trace'), mysql_query_attribute_string('n')");
    out.clear();
    frame::packet(&mut out, &mut 0, &body);
    c.send(&out);
    assert_eq!(c.answers(false)[0].texts(), [["00-1", "NULL"]]);
    // Attributes that do not hold what they promise.
    let mut body = vec![code::QUERY, 2, 1, 0, 1, 3, 0, 1];
    body.extend(b"aSELECT 1");
    out.clear();
    frame::packet(&mut out, &mut 0, &body);
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 1835);
    assert_eq!(c.good("SELECT 1").one(), "1");
}

#[test]
fn query_attributes_are_visible_to_their_statement_only() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT, trace VARCHAR(20))");
    let time = DateTime::new(Date::new(2026, 11, 23).unwrap(), 1, 2, 3, 0).unwrap();
    let attributes = [
        (&b"trace"[..], Param::from(ValueRef::Bytes(b"first"))),
        (b"TRACE", Param::from(ValueRef::Bytes(b"second"))),
        (b"n", Param::from(ValueRef::Int(-7))),
        (b"x", Param::from(ValueRef::Double(1.5))),
        (b"time", Param::from(ValueRef::DateTime(time))),
        (b"none", Param::from(ValueRef::Null)),
    ];
    let read = |name: &str| format!("mysql_query_attribute_string('{name}')");
    let names = ["trace", "n", "x", "time", "none", "other"].map(read);
    let select = format!("SELECT {}", names.join(", "));
    let expected = [[
        "first",
        "-7",
        "1.5",
        "2026-11-23 01:02:03.000000",
        "NULL",
        "NULL",
    ]];
    let mut out = Vec::new();
    client::query(&mut out, c.caps, select.as_bytes(), &attributes);
    c.send(&out);
    assert_eq!(c.answers(false)[0].texts(), expected);
    // All statements of a text have them, the next text does not.
    let insert = "INSERT INTO d.t VALUES (1, mysql_query_attribute_string('trace'))";
    let text = format!("{insert}; {insert}; SELECT COUNT(trace) FROM d.t");
    out.clear();
    client::query(&mut out, c.caps, text.as_bytes(), &attributes);
    c.send(&out);
    assert_eq!(c.answers(false)[2].one(), "2");
    assert_eq!(c.good(&format!("SELECT {}", read("trace"))).one(), "NULL");
    // Executions: the same statement with other attributes, and without.
    let prepared = c.prepare(&format!("SELECT ?, {}", read("trace"))).unwrap();
    for (attribute, expected) in [(Some("a"), "a"), (None, "NULL"), (Some("b"), "b")] {
        let mut sent = vec![(&b""[..], Param::from(ValueRef::Int(1)))];
        sent.extend(attribute.map(|text| (&b"trace"[..], ValueRef::Bytes(text.as_bytes()).into())));
        out.clear();
        client::execute_with_attributes(&mut out, c.caps, prepared.id, &sent, true, |_| false);
        c.send(&out);
        assert_eq!(
            c.answers(true)[0].rows[0][1].as_deref(),
            Some(expected.as_bytes()).filter(|e| *e != b"NULL")
        );
    }
    assert_eq!(
        c.query("SELECT mysql_query_attribute_string()").code(),
        1582
    );
}

#[test]
fn several_statements_in_one_text() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    let all =
        c.all("USE d; CREATE TABLE t (a INT); INSERT INTO t VALUES (1),(2); SELECT * FROM t;");
    assert_eq!(all.len(), 4);
    assert_eq!(all[2].affected, 2);
    assert_eq!(all[3].texts(), [["1"], ["2"]]);
    let more: Vec<bool> = all
        .iter()
        .map(|a| a.status.has(Status::MORE_RESULTS))
        .collect();
    assert_eq!(more, [true, true, true, false]);
    let all = c.all("INSERT INTO t VALUES (3); SELECT nothing; INSERT INTO t VALUES (4)");
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].code(), 1054);
    assert_eq!(c.good("SELECT MAX(a) FROM t").one(), "3");
    assert_eq!(c.all("SELECT 1;  -- and nothing else\n").len(), 1);
    // The end of a statement is also found in text that has to be converted to UTF-8.
    c.good("SET NAMES latin1");
    let bytes = [
        &[0, 0, 0, 0, code::QUERY, 0, 1][..],
        b"SELECT '\xe9\xe8' AS a; SELECT 'z\xfc' AS b; SELECT 3 AS c",
    ]
    .concat();
    let mut packet = Vec::new();
    porpoise_wire::mysql::frame::packet(&mut packet, &mut 0, &bytes[4..]);
    c.send(&packet);
    let all = c.answers(false);
    let values: Vec<_> = all.iter().map(|a| a.rows[0][0].clone().unwrap()).collect();
    assert_eq!(values, [&b"\xe9\xe8"[..], b"z\xfc", b"3"]);
}

#[test]
fn several_statements_only_where_allowed() {
    let server = Porpoise::builder().start();
    let how = How {
        without: Capabilities::MULTI_STATEMENTS,
        ..How::default()
    };
    let mut c = Client::connect(server.mysql_addr, &how).unwrap();
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT)");
    let refused = c.query("INSERT INTO d.t VALUES (1); SELECT 2");
    assert_eq!(refused.code(), 1064);
    assert!(refused.error.unwrap().1.contains("near 'SELECT 2'"));
    assert_eq!(c.good("SELECT COUNT(*) FROM d.t").one(), "0", "nothing ran");
    assert_eq!(c.good("SELECT 1;").one(), "1");
    for (option, results) in [(0u16, 2), (1, 1)] {
        let mut out = Vec::new();
        let mut body = vec![code::SET_OPTION];
        body.extend(option.to_le_bytes());
        porpoise_wire::mysql::frame::packet(&mut out, &mut 0, &body);
        c.send(&out);
        c.expect(1);
        assert_eq!(c.packet().unwrap().first(), Some(&0xfe));
        assert_eq!(c.all("SELECT 1; SELECT 2").len(), results);
    }
}

#[test]
fn ping_debug_init_db_and_reset_connection() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    assert_eq!(c.simple(code::PING).code(), 0);
    assert_eq!(c.simple(code::DEBUG).code(), 1235);
    assert_eq!(c.simple(77).code(), 1047);
    let mut out = Vec::new();
    client::text(&mut out, code::INIT_DB, b"nowhere");
    client::text(&mut out, code::INIT_DB, b"d");
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 1049);
    assert!(c.answers(false)[0].changed);
    assert_eq!(c.good("SELECT DATABASE()").one(), "d");
    c.good("SET @a = 1");
    assert_eq!(c.simple(code::RESET_CONNECTION).code(), 0);
    assert_eq!(c.good("SELECT @a").texts(), [["NULL"]]);
    assert_eq!(c.good("SELECT DATABASE()").one(), "d");
    let list = c.simple(code::PROCESS_INFO);
    assert_eq!(list.rows.len(), 1);
    out.clear();
    client::simple(&mut out, code::STATISTICS);
    c.send(&out);
    c.expect(1);
    let line = String::from_utf8(c.packet().unwrap()).unwrap();
    assert!(line.starts_with("Uptime: "), "{line}");
    let quit = [1, 0, 0, 0, code::QUIT];
    c.send(&quit);
    assert_eq!(c.packet(), None, "no answer to the end");
}

#[test]
fn columns_of_a_table_as_old_clients_ask() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id INT PRIMARY KEY, user_id INT, name VARCHAR(9))");
    for (table, pattern, names) in [
        ("t", "", &["id", "user_id", "name"][..]),
        ("t", "%id", &["id", "user_id"]),
    ] {
        let mut out = Vec::new();
        client::text(
            &mut out,
            code::FIELD_LIST,
            format!("{table}\0{pattern}").as_bytes(),
        );
        c.send(&out);
        c.expect(1);
        for name in names {
            let packet = c.packet().unwrap();
            let column = client::result::parse_column(&packet).unwrap();
            assert_eq!(column.name, name.as_bytes());
        }
        assert_eq!(c.packet().unwrap().first(), Some(&0xfe));
    }
}

#[test]
fn columns_have_the_flags_that_drivers_decide_by() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good(
        "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b BIT(1), t TINYINT(1), d DATE,
                           x VARBINARY(4))",
    );
    // As mysql --column-type-info shows them: NOT_NULL PRI_KEY AUTO_INCREMENT PART_KEY; UNSIGNED;
    // none; BINARY; BINARY.
    let answer = c.query("SELECT * FROM d.t");
    assert_eq!(answer.flags, [16_899, 32, 0, 128, 128]);
    // NOT_NULL BINARY.
    assert_eq!(c.query("SELECT 1").flags, [129]);
}

#[test]
fn columns_are_described_alike_at_each_execution() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1 NOT NULL)");
    c.good("INSERT INTO d.t VALUES (1, 'x'), (22, 'y')");
    let select = |id: u32| format!("SELECT id, v AS w FROM d.t WHERE id = {id}");
    // The number of columns and their definitions.
    let described = |c: &mut Client, id: u32| {
        let text = c.query_bytes(&select(id));
        c.send(&text);
        c.expect(1);
        let packets: Vec<_> = (0..3).map(|_| c.packet().unwrap()).collect();
        let has_one_end = c.caps.has(Capabilities::DEPRECATE_EOF);
        for _ in 0..if has_one_end { 1 } else { 2 } {
            while c.packet().unwrap().first() != Some(&0xfe) {}
        }
        packets
    };
    // The collation of the login may be another one.
    c.good("SET NAMES utf8mb4");
    let first = described(&mut c, 1);
    for id in [22, 1, 5] {
        assert_eq!(described(&mut c, id), first, "{id}");
    }
    // Texts in another character set have another collation and length.
    c.good("SET NAMES latin1");
    let latin = described(&mut c, 1);
    assert_ne!(latin, first);
    assert_eq!(described(&mut c, 22), latin);
    c.good("SET NAMES utf8mb4");
    assert_eq!(described(&mut c, 1), first);
    c.good("ALTER TABLE d.t MODIFY v VARCHAR(30) NOT NULL");
    assert_ne!(described(&mut c, 1), first);
}

#[test]
fn a_statement_of_comments_only_has_no_effect() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    for text in ["-- nothing", " /* nothing */ ", "# nothing\n"] {
        let answer = c.query(text);
        assert_eq!((answer.code(), answer.affected), (0, 0), "{text}");
    }
    for text in ["", "  ", ";"] {
        assert_eq!(c.query(text).code(), 1065, "{text}");
    }
}
