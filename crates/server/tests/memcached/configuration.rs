//! The configuration applies at commit, and an invalid row disables only its own prefix.

use crate::in_process::{InProcess, column, required, varchar};
use porpoise_types::{ColumnType, Kind};
use std::io::{Read, Write};
use std::net::TcpStream;

fn table(server: &InProcess, name: &str) {
    let int = ColumnType::int(Kind::Int);
    server.create(
        name,
        vec![required("id", int), column("v", varchar(20))],
        &["id"],
        vec![],
    );
}

const COLUMNS: &[(&str, &str)] = &[("key_columns", "id"), ("value_columns", "v")];

#[test]
fn a_committed_mapping_change_applies_to_open_connections() {
    let server = InProcess::open();
    table(&server, "t");
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut ask = |request: &str, expected: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    };
    ask("set t:1 0 0 1\r\nx\r\n", "STORED\r\n");
    server.map("t:", "t", COLUMNS);
    ask("get t:1\r\n", "END\r\n");
    server.put("test", "t", &[("id", "1"), ("v", "from the row")]);
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
    // The longest prefix decides.
    table(&server, "u");
    server.map("t:u:", "u", COLUMNS);
    ask("set t:u:1 0 0 1\r\ny\r\n", "STORED\r\n");
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
    assert!(
        server
            .row("test", "u", &[porpoise_types::Value::Int(1)])
            .is_some()
    );
    // Another policy.
    server.prefix("t:", "ndb-read-only", "t");
    ask(
        "set t:1 0 0 1\r\nz\r\n",
        "SERVER_ERROR set_policy of the keys of prefix 't:' is disabled\r\n",
    );
    ask("get t:1\r\n", "VALUE t:1 0 12\r\nfrom the row\r\nEND\r\n");
}

#[test]
fn a_mapping_follows_a_table_that_is_dropped_and_recreated() {
    let server = InProcess::open();
    table(&server, "t");
    server.map("t:", "t", COLUMNS);
    assert_eq!(server.ask("set t:1 0 0 1\r\nx\r\n"), "STORED\r\n");
    server.drop_table("t");
    let answer = server.ask("get t:1\r\nset t:1 0 0 1\r\ny\r\n");
    let refused = "SERVER_ERROR keys of prefix 't:' are disabled: table test.t does not exist\r\n";
    assert_eq!(answer, refused.repeat(2));
    table(&server, "t");
    assert_eq!(
        server.ask("get t:1\r\nset t:1 0 0 1\r\nz\r\nget t:1\r\n"),
        "END\r\nSTORED\r\nVALUE t:1 0 1\r\nz\r\nEND\r\n"
    );
}

#[test]
fn a_bad_row_disables_only_itself_and_says_why() {
    let server = InProcess::open();
    table(&server, "t");
    server.map("t:", "t", COLUMNS);
    server.prefix("p:", "no-such-policy", "t");
    server.prefix("c:", "ndb-only", "nothing");
    server.prefix("m:", "memcache-only", "t");
    server.prefix("g:", "caching-with-local-deletes", "t");
    let bad = [
        ("key_columns", "v"),
        ("value_columns", "id"),
        ("name", "bad"),
        ("db_schema", "test"),
        ("db_table", "t"),
    ];
    server.put("ndbmemcache", "containers", &bad);
    server.prefix("b:", "ndb-only", "bad");
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
        assert_eq!(server.status(prefix), (state.to_owned(), reason.to_owned()));
    }
    let answer =
        server.ask("set t:1 0 0 1\r\nx\r\nget k t:1\r\nget b:1\r\nget m:1\r\ndelete g:1\r\n");
    let lines: Vec<&str> = answer.split("\r\n").collect();
    assert_eq!(&lines[..4], ["STORED", "VALUE t:1 0 1", "x", "END"]);
    assert!(lines[4].starts_with("SERVER_ERROR keys of prefix 'b:' are disabled:"));
    assert_eq!(&lines[5..7], ["END", "NOT_FOUND"]);
}

#[test]
fn a_row_of_another_cluster_is_refused() {
    let server = InProcess::open();
    let row = [
        ("server_role_id", "0"),
        ("key_prefix", "x:"),
        ("cluster_id", "3"),
        ("policy", "ndb-only"),
        ("container", "kv"),
    ];
    server.put("ndbmemcache", "key_prefixes", &row);
    let (state, reason) = server.status("x:");
    assert_eq!(state, "disabled");
    assert!(reason.starts_with("cluster_id 3"), "{reason}");
}
