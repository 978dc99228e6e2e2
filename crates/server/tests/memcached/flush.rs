//! `flush_all` deletes rows only where the policy says so.

use crate::in_process::{InProcess, column, required, varchar};
use porpoise_types::{ColumnType, Kind};
use std::time::{Duration, Instant};

fn mapped(server: &InProcess, name: &str, policy: &str) {
    let columns = vec![
        required("id", ColumnType::int(Kind::Int)),
        column("v", varchar(9)),
    ];
    server.create(name, columns, &["id"], vec![]);
    let prefix = format!("{name}:");
    server.map(
        &prefix,
        name,
        &[("key_columns", "id"), ("value_columns", "v")],
    );
    server.prefix(&prefix, policy, name);
}

#[test]
fn flush_all_deletes_rows_only_if_the_policy_says_so() {
    let server = InProcess::open();
    mapped(&server, "kept", "ndb-only");
    mapped(&server, "gone", "ndb-test");
    let mut sets = String::new();
    for n in 0..1200 {
        sets.push_str(&format!("set gone:{n} 0 0 1 noreply\r\nx\r\n"));
    }
    sets.push_str("set kept:1 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\nget gone:1199\r\n");
    assert!(
        server
            .ask(&sets)
            .ends_with("VALUE gone:1199 0 1\r\nx\r\nEND\r\n")
    );
    assert_eq!(
        server.ask("flush_all\r\nget kept:1 gone:0 gone:600 gone:1199 k\r\n"),
        "OK\r\nVALUE kept:1 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(server.ask("flush_all noreply\r\nget k\r\n"), "END\r\n");
}

#[test]
fn delayed_flush_all_deletes_what_exists_at_its_time() {
    let server = InProcess::open();
    let answer = server.ask("set k 0 0 1\r\nx\r\nflush_all 2\r\nget k\r\n");
    assert_eq!(answer, "STORED\r\nOK\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    let end = Instant::now() + Duration::from_secs(10);
    while server.ask("get k\r\n") != "END\r\n" {
        assert!(Instant::now() < end, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_later_flush_takes_the_place_of_one_to_come() {
    let server = InProcess::open();
    server.ask("flush_all 1\r\nflush_all 1000\r\nset k 0 0 1\r\nx\r\n");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(server.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
    assert_eq!(server.ask("flush_all\r\nget k\r\n"), "OK\r\nEND\r\n");
}
