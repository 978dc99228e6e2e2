//! Packets at the edges: over 16 MiB, over the limit, several in one read.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::{client, frame};

#[test]
fn rows_and_statements_over_16_mib() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    // Around one piece: the row's packet, then the statement's, is exactly
    // that long; then more than two.
    let statement = "SELECT '' AS a".len() + 1 + 2;
    for size in [
        frame::MAX_PACKET_PAYLOAD - 4,
        frame::MAX_PACKET_PAYLOAD - statement,
        frame::MAX_PACKET_PAYLOAD,
        40 << 20,
    ] {
        let answer = c.query(&format!("SELECT '{}' AS a", "x".repeat(size)));
        assert_eq!(answer.code(), 0, "{size}");
        let value = answer.rows[0][0].as_ref().unwrap();
        assert!(value.len() == size && value.iter().all(|b| *b == b'x'));
    }
}

#[test]
fn large_rows_are_stored_and_read() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY, body LONGBLOB)");
    let body = "x".repeat(12 << 20);
    let insert = format!("INSERT INTO d.t VALUES (1, '{body}'), (2, '{body}')");
    assert_eq!(c.query(&insert).affected, 2);
    let answer = c.query("SELECT body, body FROM d.t");
    assert_eq!(answer.code(), 0);
    for row in answer.rows {
        let whole = |v: &Option<Vec<u8>>| v.as_deref() == Some(body.as_bytes());
        assert!(row.iter().all(whole));
    }
}

#[test]
fn too_large_a_packet_is_an_error_and_the_connection_lives() {
    let server = Porpoise::builder().start();
    let mut root = Client::root(server.mysql_addr);
    root.good("SET GLOBAL max_allowed_packet = 1048576");
    let mut c = Client::root(server.mysql_addr);
    for size in [1 << 20, 20 << 20, frame::MAX_PACKET_PAYLOAD - 1] {
        let mut out = Vec::new();
        let text = "x".repeat(size);
        client::query(&mut out, c.caps, text.as_bytes(), &[]);
        c.send(&out);
        let pieces = (out.len() - frame::HEADER) / (frame::HEADER + frame::MAX_PACKET_PAYLOAD) + 1;
        c.expect(pieces as u8);
        let packet = c.packet().unwrap();
        let error = client::result::parse_error(&packet).unwrap();
        assert_eq!((error.code, &error.sqlstate), (1153, b"08S01"));
        assert_eq!(c.good("SELECT 1").one(), "1");
    }
}

#[test]
fn all_commands_of_one_read_are_answered_in_order() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    let mut out = Vec::new();
    for n in 0..500 {
        let text = format!("SELECT {n}");
        client::query(&mut out, c.caps, text.as_bytes(), &[]);
        client::simple(&mut out, code::PING);
    }
    c.send(&out);
    for n in 0..500 {
        assert_eq!(c.answers(false)[0].texts(), [[n.to_string()]]);
        assert_eq!(c.answers(false)[0].code(), 0);
    }
}

#[test]
fn a_long_result_reaches_a_client_that_reads_late() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY, body TEXT)");
    let body = "y".repeat(10_000);
    for block in 0..10 {
        let rows: Vec<String> = (0..100)
            .map(|n| format!("({}, '{body}')", block * 100 + n))
            .collect();
        c.good(&format!("INSERT INTO d.t VALUES {}", rows.join(",")));
    }
    let bytes = c.query_bytes("SELECT * FROM d.t; SELECT COUNT(*) FROM d.t");
    c.send(&bytes);
    // Meanwhile others are served.
    let mut other = Client::root(server.mysql_addr);
    assert_eq!(other.good("SELECT COUNT(*) FROM d.t").one(), "1000");
    std::thread::sleep(std::time::Duration::from_millis(200));
    let all = c.answers(false);
    assert_eq!(all[0].rows.len(), 1000);
    assert_eq!(all[1].one(), "1000");
    // Rows that are locked are kept until their commit position is known.
    c.good("BEGIN");
    let locked = c.good("SELECT * FROM d.t FOR UPDATE");
    assert_eq!(locked.rows.len(), 1000);
    c.good("ROLLBACK");
}

#[test]
fn a_long_statement_leaves_the_others_a_worker() {
    let server = Porpoise::builder().arg("--worker-groups", "1").start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY)");
    for block in 0..2 {
        let rows: Vec<String> = (0..3000)
            .map(|n| format!("({})", block * 3000 + n))
            .collect();
        c.good(&format!("INSERT INTO d.t VALUES {}", rows.join(",")));
    }
    let mut other = Client::root(server.mysql_addr);
    // Millions of pairs: seconds of work.
    let bytes = c.query_bytes("SELECT COUNT(*) FROM d.t a, d.t b WHERE a.id + b.id = -1");
    let start = std::time::Instant::now();
    c.send(&bytes);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(other.good("SELECT 1").one(), "1");
    let served = start.elapsed();
    assert_eq!(c.answers(false)[0].one(), "0");
    assert!(served * 2 < start.elapsed(), "{served:?}");
}
