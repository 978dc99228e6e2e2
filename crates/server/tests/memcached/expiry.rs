//! Rows that expire.

use crate::in_process::{InProcess, column, required, varchar};
use porpoise_types::{ColumnType, Kind, Value};
use std::time::{Duration, Instant};

#[test]
fn an_expired_row_is_absent_for_every_command() {
    let server = InProcess::open();
    let key = [Value::Bytes(b"k".to_vec())];
    let expire = || {
        server.ask("set k 3 0 1\r\n5\r\n");
        let row = [("mkey", "k"), ("value", "5"), ("expire_time", "1000")];
        server.put("ndbmemcache", "kv", &row);
    };
    for (request, answer) in [
        ("get k\r\n", "END\r\n"),
        ("gat 0 k\r\n", "END\r\n"),
        ("touch k 0\r\n", "NOT_FOUND\r\n"),
        ("incr k 1\r\n", "NOT_FOUND\r\n"),
        ("replace k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas k 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("delete k\r\n", "NOT_FOUND\r\n"),
    ] {
        expire();
        assert_eq!(server.ask(request), answer, "{request}");
    }
    assert!(server.row("ndbmemcache", "kv", &key).is_none());
    for request in ["add k 7 0 1\r\nx\r\n", "set k 7 0 1\r\nx\r\n"] {
        expire();
        assert_eq!(server.ask(request), "STORED\r\n");
        assert_eq!(server.ask("get k\r\n"), "VALUE k 7 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn the_moment_is_relative_absolute_or_at_once() {
    let server = InProcess::open();
    let moment = || {
        let row = server.row("ndbmemcache", "kv", &[Value::Bytes(b"k".to_vec())]);
        row.unwrap()[3].parse::<i64>().unwrap()
    };
    let now = server.db.clock().unix_micros() / 1_000_000;
    server.ask("set k 0 100 1\r\nx\r\n");
    assert!((now + 100..now + 160).contains(&moment()));
    server.ask(&format!("touch k {}\r\n", now + 5_000_000));
    assert_eq!(moment(), now + 5_000_000);
    assert_eq!(server.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
    server.ask("gat 0 k\r\n");
    assert_eq!(moment(), 0);
    server.ask("append k 0 100 1\r\ny\r\n");
    assert_eq!(moment(), 0, "append leaves it");
    assert_eq!(
        server.ask("set k 0 -1 1\r\nz\r\nget k\r\n"),
        "STORED\r\nEND\r\n"
    );
}

#[test]
fn a_short_time_passes() {
    let server = InProcess::open();
    // Times are whole seconds: an item of one second may expire at once, one of two seconds lasts
    // for at least one.
    let set = "set k 0 2 1\r\nx\r\nget k\r\n";
    assert_eq!(server.ask(set), "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    let end = Instant::now() + Duration::from_secs(20);
    while server.ask("get k\r\n") != "END\r\n" {
        assert!(Instant::now() < end, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_expiry_timestamp_column_has_the_time_and_null_for_never() {
    let server = InProcess::open();
    let columns = vec![
        required("id", ColumnType::int(Kind::Int)),
        column("v", varchar(9)),
        column("e", ColumnType::timestamp(0)),
    ];
    server.create("t", columns, &["id"], vec![]);
    let more = [
        ("key_columns", "id"),
        ("value_columns", "v"),
        ("expire_time_column", "e"),
    ];
    server.map("t:", "t", &more);
    let moment = || server.row("test", "t", &[Value::Int(1)]).unwrap()[2].clone();
    server.ask("set t:1 0 0 1\r\nx\r\n");
    assert_eq!(moment(), "NULL");
    server.ask("touch t:1 2000000000\r\n");
    assert_eq!(moment(), "2033-05-18 03:33:20");
    let answer = server.ask("get t:1\r\ntouch t:1 -1\r\nget t:1\r\n");
    assert_eq!(answer, "VALUE t:1 0 1\r\nx\r\nEND\r\nTOUCHED\r\nEND\r\n");
}
