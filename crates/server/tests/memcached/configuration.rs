//! The configuration is live at commit, and a bad row disables only itself.

use crate::house::{Services, column, required, varchar};
use porpoise_types::{ColumnType, Kind};
use std::io::{Read, Write};
use std::net::TcpStream;

fn table(house: &Services, name: &str) {
    let int = ColumnType::int(Kind::Int);
    house.create(
        name,
        vec![required("id", int), column("v", varchar(20))],
        &["id"],
        vec![],
    );
}

const COLUMNS: &[(&str, &str)] = &[("key_columns", "id"), ("value_columns", "v")];

#[test]
fn a_committed_change_is_live_for_the_next_command_of_an_open_connection() {
    let house = Services::open();
    table(&house, "t");
    let mut stream = TcpStream::connect(house.address).unwrap();
    let mut ask = |request: &str, expected: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    };
    ask("set t:1 0 0 1\r\nx\r\n", "STORED\r\n");
    house.map("t:", "t", COLUMNS);
    ask("get t:1\r\n", "END\r\n");
    house.put("test", "t", &[("id", "1"), ("v", "from the row")]);
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
    // The longest prefix decides.
    table(&house, "u");
    house.map("t:u:", "u", COLUMNS);
    ask("set t:u:1 0 0 1\r\ny\r\n", "STORED\r\n");
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
    assert!(
        house
            .row("test", "u", &[porpoise_types::Value::Int(1)])
            .is_some()
    );
    // Another policy.
    house.prefix("t:", "ndb-read-only", "t");
    ask(
        "set t:1 0 0 1\r\nz\r\n",
        "SERVER_ERROR set_policy of the keys of prefix 't:' is disabled\r\n",
    );
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
}

#[test]
fn a_table_that_is_dropped_and_made_again_is_followed() {
    let house = Services::open();
    table(&house, "t");
    house.map("t:", "t", COLUMNS);
    assert_eq!(house.ask("set t:1 0 0 1\r\nx\r\n"), "STORED\r\n");
    house.drop_table("t");
    let answer = house.ask("get t:1\r\nset t:1 0 0 1\r\ny\r\n");
    let refused = "SERVER_ERROR keys of prefix 't:' are disabled: table test.t does not exist\r\n";
    assert_eq!(answer, refused.repeat(2));
    table(&house, "t");
    assert_eq!(
        house.ask("get t:1\r\nset t:1 0 0 1\r\nz\r\nget t:1\r\n"),
        "END\r\nSTORED\r\nVALUE t:1 0 1\r\nz\r\nEND\r\n"
    );
}

#[test]
fn a_bad_row_disables_only_itself_and_says_why() {
    let house = Services::open();
    table(&house, "t");
    house.map("t:", "t", COLUMNS);
    house.prefix("p:", "no-such-policy", "t");
    house.prefix("c:", "ndb-only", "nothing");
    house.prefix("m:", "memcache-only", "t");
    house.prefix("g:", "caching-with-local-deletes", "t");
    let bad = [
        ("key_columns", "v"),
        ("value_columns", "id"),
        ("name", "bad"),
        ("db_schema", "test"),
        ("db_table", "t"),
    ];
    house.put("ndbmemcache", "containers", &bad);
    house.prefix("b:", "ndb-only", "bad");
    let expected = [
        ("t:", "active", ""),
        ("", "active", ""),
        (
            "p:",
            "disabled",
            "policy 'no-such-policy' is not in cache_policies",
        ),
        ("c:", "disabled", "container 'nothing' is not in containers"),
        (
            "b:",
            "disabled",
            "key_columns 'v' are neither the primary key of test.t nor a unique key",
        ),
        ("m:", "active", "in memory only"),
        ("g:", "active", ""),
    ];
    for (prefix, state, reason) in expected {
        assert_eq!(house.status(prefix), (state.to_owned(), reason.to_owned()));
    }
    let answer =
        house.ask("set t:1 0 0 1\r\nx\r\nget k t:1\r\nget b:1\r\nget m:1\r\ndelete g:1\r\n");
    let lines: Vec<&str> = answer.split("\r\n").collect();
    assert_eq!(&lines[..4], ["STORED", "VALUE t:1 0 1", "x", "END"]);
    assert!(lines[4].starts_with("SERVER_ERROR keys of prefix 'b:' are disabled:"));
    assert_eq!(&lines[5..7], ["END", "NOT_FOUND"]);
}

#[test]
fn a_row_of_another_cluster_is_refused() {
    let house = Services::open();
    let row = [
        ("server_role_id", "0"),
        ("key_prefix", "x:"),
        ("cluster_id", "3"),
        ("policy", "ndb-only"),
        ("container", "kv"),
    ];
    house.put("ndbmemcache", "key_prefixes", &row);
    let (state, reason) = house.status("x:");
    assert_eq!(state, "disabled");
    assert!(reason.starts_with("cluster_id 3"), "{reason}");
}
