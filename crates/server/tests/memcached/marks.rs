//! Item metadata of meta commands: placeholders, staleness, CAS values
//! chosen by clients. It is not stored in rows, and a write through any protocol discards it.

use crate::in_process::InProcess;
use porpoise_testkit::Porpoise;

#[test]
fn a_placeholder_is_no_row() {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    let answer = server.memcached("mg k N30 v\r\nmg k v\r\nget k\r\nmn\r\n");
    assert_eq!(answer, "VA 0 W\r\n\r\nVA 0 Z\r\n\r\nEND\r\nMN\r\n");
    let rows = server.sql("SELECT COUNT(*) FROM ndbmemcache.kv");
    assert_eq!(rows.stdout, "0\n");
    // add and append see no item; what is stored takes the placeholder's place.
    assert_eq!(
        server.memcached("append k 0 0 1\r\nx\r\nadd k 0 0 1\r\na\r\nmg k v N30\r\n"),
        "NOT_STORED\r\nSTORED\r\nVA 1\r\na\r\n"
    );
}

#[test]
fn placeholders_end_by_expiry_flush_and_delete() {
    let server = InProcess::open();
    assert_eq!(
        server.ask("mg k N-1 v\r\nmg k v\r\n"),
        "VA 0 W\r\n\r\nEN\r\n"
    );
    assert_eq!(
        server.ask("mg k N30\r\nflush_all\r\nmg k\r\n"),
        "HD W\r\nOK\r\nEN\r\n"
    );
    assert_eq!(
        server.ask("mg k N30\r\nmd k\r\nmg k\r\n"),
        "HD W\r\nHD\r\nEN\r\n"
    );
}

#[test]
fn a_write_through_sql_ends_staleness() {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    assert_eq!(
        server.memcached("set k 0 0 1\r\nx\r\nmd k I\r\nmg k v\r\nmg k v\r\nget k\r\n"),
        "STORED\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nVALUE k 0 1\r\nx\r\nEND\r\n"
    );
    let done = server.sql("UPDATE ndbmemcache.kv SET value = 'y' WHERE mkey = 'k'");
    assert!(done.is_ok, "{}", done.stderr);
    assert_eq!(server.memcached("mg k v\r\n"), "VA 1\r\ny\r\n");
}

#[test]
fn marking_as_stale_changes_the_version() {
    let server = InProcess::open();
    let version = |text: &str| text.trim().rsplit(' ').next().unwrap().to_owned();
    let before = version(&server.ask("ms k 1 c\r\nx\r\n"));
    server.ask("md k I\r\n");
    let after = version(&server.ask("mg k c\r\nmg k c\r\n"));
    assert_ne!(before, after);
    let older = before.trim_start_matches('c');
    // An older version stores nothing, or stores what stays stale.
    assert_eq!(server.ask(&format!("ms k 1 C{older}\r\ny\r\n")), "EX\r\n");
    assert_eq!(
        server.ask(&format!("ms k 1 C{older} I\r\ny\r\nmg k v\r\n")),
        "HD\r\nVA 1 Z X\r\ny\r\n"
    );
}

#[test]
fn a_client_may_choose_the_version_shown() {
    let server = InProcess::open();
    assert_eq!(
        server.ask("ms k 1 E77 c\r\nx\r\nmg k c\r\ngets k\r\ncas k 0 0 1 77\r\ny\r\n"),
        "HD c77\r\nHD c77\r\nVALUE k 0 1 77\r\nx\r\nEND\r\nSTORED\r\n"
    );
    let answer = server.ask("mg k c\r\nma n N0 J1 E5 c\r\nma n C5 E9 c v\r\n");
    assert!(!answer.contains("HD c77"), "{answer}");
    assert!(answer.ends_with("HD c5\r\nVA 1 c9\r\n2\r\n"), "{answer}");
    assert_eq!(
        server.ask("md n I E12\r\nmg n c\r\n"),
        "HD\r\nHD c12 X W\r\n"
    );
}

#[test]
fn deleting_the_value_alone_keeps_the_item() {
    let server = InProcess::open();
    assert_eq!(
        server.ask("set k 9 0 3\r\nabc\r\nmd k x\r\nmg k v f\r\nmd k x I\r\nmg k v\r\n"),
        "STORED\r\nHD\r\nVA 0 f0\r\n\r\nHD\r\nVA 0 X W\r\n\r\n"
    );
}

#[test]
fn an_append_can_make_the_item() {
    let server = InProcess::open();
    assert_eq!(
        server.ask("ms k 1 MA\r\na\r\nms k 1 MA N0\r\na\r\nms k 1 MP N0\r\nb\r\nmg k v t\r\n"),
        "NS\r\nHD\r\nHD\r\nVA 2 t-1\r\nba\r\n"
    );
}

#[test]
fn refused_commands_leave_marks_unchanged() {
    let server = InProcess::open();
    server.ask("set k 0 0 1\r\nx\r\nmd k I\r\n");
    assert_eq!(
        server.ask("ms k 1 ME\r\ny\r\nms k 1 C1\r\ny\r\nmn begin\r\nms k 1\r\ny\r\nma none\r\nmn\r\nmg k v\r\n"),
        "NS\r\nEX\r\nMN B\r\nHD\r\nNF\r\nMN R\r\nVA 1 X W\r\nx\r\n"
    );
}
