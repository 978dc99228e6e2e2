//! Rows that expire.

use crate::house::{Services, column, required, varchar};
use porpoise_types::{ColumnType, Kind, Value};

#[test]
fn an_expired_row_is_absent_for_every_command() {
    let house = Services::open();
    let key = [Value::Bytes(b"k".to_vec())];
    let expire = || {
        house.ask("set k 3 0 1\r\n5\r\n");
        let row = [("mkey", "k"), ("value", "5"), ("expire_time", "1000")];
        house.put("ndbmemcache", "kv", &row);
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
        assert_eq!(house.ask(request), answer, "{request}");
    }
    assert!(house.row("ndbmemcache", "kv", &key).is_none());
    for request in ["add k 7 0 1\r\nx\r\n", "set k 7 0 1\r\nx\r\n"] {
        expire();
        assert_eq!(house.ask(request), "STORED\r\n");
        assert_eq!(house.ask("get k\r\n"), "VALUE k 7 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn the_moment_is_relative_absolute_or_at_once() {
    let house = Services::open();
    let moment = || {
        let row = house.row("ndbmemcache", "kv", &[Value::Bytes(b"k".to_vec())]);
        row.unwrap()[3].parse::<i64>().unwrap()
    };
    let now = house.db.clock().unix_micros() / 1_000_000;
    house.ask("set k 0 100 1\r\nx\r\n");
    assert!((now + 100..now + 160).contains(&moment()));
    house.ask(&format!("touch k {}\r\n", now + 5_000_000));
    assert_eq!(moment(), now + 5_000_000);
    assert_eq!(house.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
    house.ask("gat 0 k\r\n");
    assert_eq!(moment(), 0);
    house.ask("append k 0 100 1\r\ny\r\n");
    assert_eq!(moment(), 0, "append leaves it");
    assert_eq!(
        house.ask("set k 0 -1 1\r\nz\r\nget k\r\n"),
        "STORED\r\nEND\r\n"
    );
}

#[test]
fn a_short_time_passes() {
    let house = Services::open();
    let set = "set k 0 1 1\r\nx\r\nget k\r\n";
    assert_eq!(house.ask(set), "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(house.ask("get k\r\n"), "END\r\n");
}

#[test]
fn a_timestamp_column_holds_the_moment_and_null_means_never() {
    let house = Services::open();
    let columns = vec![
        required("id", ColumnType::int(Kind::Int)),
        column("v", varchar(9)),
        column("e", ColumnType::timestamp(0)),
    ];
    house.create("t", columns, &["id"], vec![]);
    let more = [
        ("key_columns", "id"),
        ("value_columns", "v"),
        ("expire_time_column", "e"),
    ];
    house.map("t:", "t", &more);
    let moment = || house.row("test", "t", &[Value::Int(1)]).unwrap()[2].clone();
    house.ask("set t:1 0 0 1\r\nx\r\n");
    assert_eq!(moment(), "NULL");
    house.ask("touch t:1 2000000000\r\n");
    assert_eq!(moment(), "2033-05-18 03:33:20");
    let answer = house.ask("get t:1\r\ntouch t:1 -1\r\nget t:1\r\n");
    assert_eq!(answer, "VALUE t:1 0 1\r\nx\r\nEND\r\nTOUCHED\r\nEND\r\n");
}
