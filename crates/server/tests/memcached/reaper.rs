//! Expired rows are deleted in the background.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use std::time::Duration;

#[test]
fn expired_rows_are_deleted_and_touched_rows_are_kept() {
    let server = Porpoise::builder().arg("--memcached-reap", "200ms").start();
    // Without the touch, the row `kept` would expire before the row `gone`.
    assert_eq!(
        server.memcached(
            "set gone 0 4 1\r\nx\r\nset kept 0 3 1\r\nx\r\ntouch kept 1000\r\nset never 0 0 1\r\nx\r\n"
        ),
        "STORED\r\nSTORED\r\nTOUCHED\r\nSTORED\r\n"
    );
    server.wait_for("the row to be deleted", Duration::from_secs(20), || {
        let left = sql(&server, "SELECT mkey FROM ndbmemcache.kv ORDER BY mkey");
        (left == "kept\nnever\n").then_some(())
    });
}

#[test]
fn a_referenced_row_is_kept_and_does_not_block_others() {
    let server = Porpoise::builder().arg("--memcached-reap", "200ms").start();
    sql(
        &server,
        "CREATE DATABASE t; USE t;
         CREATE TABLE parent (id INT PRIMARY KEY, v INT, until BIGINT DEFAULT 0);
         CREATE TABLE held (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id));
         CREATE TABLE follows (id INT PRIMARY KEY, p INT,
             FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);
         INSERT INTO parent VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 0);
         INSERT INTO held VALUES (1, 1); INSERT INTO follows VALUES (1, 2), (2, 4);
         ALTER TABLE parent MEMCACHED PREFIX 'p:' VALUE (v) EXPIRES (until)",
    );
    server.wait_for("the rows to be deleted", Duration::from_secs(20), || {
        (sql(&server, "SELECT id FROM t.parent ORDER BY id") == "1\n4\n").then_some(())
    });
    assert_eq!(sql(&server, "SELECT id FROM t.follows"), "2\n");
    assert_eq!(sql(&server, "SELECT id FROM t.held"), "1\n");
    assert_eq!(
        server.memcached("get p:1 p:4\r\n"),
        "VALUE p:4 0 1\r\n1\r\nEND\r\n"
    );
    sql(&server, "DELETE FROM t.held");
    server.wait_for("the row to be deleted", Duration::from_secs(20), || {
        (sql(&server, "SELECT id FROM t.parent") == "4\n").then_some(())
    });
}

#[test]
fn without_the_reaper_expired_rows_remain_for_sql_only() {
    let server = Porpoise::builder().arg("--memcached-reap", "off").start();
    server.memcached("set gone 0 -1 1\r\nx\r\n");
    assert_eq!(server.memcached("get gone\r\n"), "END\r\n");
    assert_eq!(sql(&server, "SELECT mkey FROM ndbmemcache.kv"), "gone\n");
}
