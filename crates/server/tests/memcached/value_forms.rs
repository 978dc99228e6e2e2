//! Separator, escape and NULL token of `ndbmemcache.container_options`.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

#[test]
fn null_differs_from_an_empty_value_and_separators_are_escaped() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        r"CREATE DATABASE t;
          CREATE TABLE t.f (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), n INT);
          INSERT INTO t.f VALUES (1, 'x|y', '', NULL), (2, NULL, '\\', 5), (3, '\\N', 'N', 0);
          ALTER TABLE t.f MEMCACHED PREFIX 'f:' SEPARATOR '|' ESCAPE '\\' NULL AS '\\N'",
    );
    let rows = "SELECT id, a IS NULL, HEX(a), HEX(b), n IS NULL FROM t.f ORDER BY id";
    let before = sql(&server, rows);
    let shown = server.memcached("get f:1 f:2 f:3\r\n");
    assert_eq!(
        shown,
        "VALUE f:1 0 8\r\nx\\|y||\\N\r\nVALUE f:2 0 7\r\n\\N|\\\\|5\r\nVALUE f:3 0 7\r\n\\\\N|N|0\r\nEND\r\n"
    );
    // A value that was read can be stored again and changes nothing.
    assert_eq!(
        server.memcached(
            "set f:1 0 0 8\r\nx\\|y||\\N\r\nset f:2 0 0 7\r\n\\N|\\\\|5\r\n\
             set f:3 0 0 7\r\n\\\\N|N|0\r\n"
        ),
        "STORED\r\nSTORED\r\nSTORED\r\n"
    );
    assert_eq!(sql(&server, rows), before);
    // With a token for NULL, nothing is no number.
    assert_eq!(
        server.memcached("set f:1 0 0 2\r\n||\r\n"),
        "SERVER_ERROR Incorrect integer value: '' for column 'n' at row 1\r\n"
    );
}

#[test]
fn a_single_column_tells_null_from_nothing_too() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "CREATE DATABASE t; CREATE TABLE t.s (id INT PRIMARY KEY, a VARCHAR(20));
         INSERT INTO t.s VALUES (1, ''), (2, NULL);
         ALTER TABLE t.s MEMCACHED PREFIX 's:' NULL AS '(null)'",
    );
    assert_eq!(
        server.memcached("get s:1 s:2\r\nset s:1 0 0 6\r\n(null)\r\nset s:2 0 0 0\r\n\r\n"),
        "VALUE s:1 0 0\r\n\r\nVALUE s:2 0 6\r\n(null)\r\nEND\r\nSTORED\r\nSTORED\r\n"
    );
    assert_eq!(
        sql(&server, "SELECT id, a IS NULL FROM t.s ORDER BY id"),
        "1\t1\n2\t0\n"
    );
}

#[test]
fn options_that_contradict_each_other_disable_the_prefix() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "CREATE DATABASE t; CREATE TABLE t.s (id INT PRIMARY KEY, a VARCHAR(20));
         ALTER TABLE t.s MEMCACHED PREFIX 's:' SEPARATOR '|' ESCAPE '|'",
    );
    let why = "the separator contains the escape byte";
    assert_eq!(
        sql(
            &server,
            "SELECT state, reason FROM ndbmemcache.status
             WHERE server_role_id = 0 AND key_prefix = 's:'"
        ),
        format!("disabled\t{why}\n")
    );
    assert_eq!(
        server.memcached("get s:1\r\n"),
        format!("SERVER_ERROR keys of prefix 's:' are disabled: {why}\r\n")
    );
}
