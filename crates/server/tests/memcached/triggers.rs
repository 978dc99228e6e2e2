//! Triggers fire for memcached commands as for SQL statements.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

/// A server with a table of items, a child of it, and triggers that log every change.
fn logging() -> Porpoise {
    let server = Porpoise::builder().start();
    let statements = [
        "CREATE DATABASE test; USE test;
         CREATE TABLE item (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20));
         CREATE TABLE part (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(20),
             FOREIGN KEY (k) REFERENCES item (k) ON DELETE CASCADE);
         CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(80));
         INSERT INTO ndbmemcache.containers SET name = 'item', db_schema = 'test',
             db_table = 'item', key_columns = 'k', value_columns = 'v';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'i:', 0, 'ndb-only', 'item')",
        "CREATE TRIGGER test.bi BEFORE INSERT ON test.item FOR EACH ROW SET NEW.v = UPPER(NEW.v)",
        "CREATE TRIGGER test.ai AFTER INSERT ON test.item FOR EACH ROW
         INSERT INTO log (what) VALUES (CONCAT('insert ', NEW.k, '=', COALESCE(NEW.v, '-')))",
        "CREATE TRIGGER test.au AFTER UPDATE ON test.item FOR EACH ROW
         INSERT INTO log (what) VALUES (CONCAT('update ', OLD.k, ' ', COALESCE(OLD.v, '-'), '->',
             COALESCE(NEW.v, '-')))",
        "CREATE TRIGGER test.bd BEFORE DELETE ON test.item FOR EACH ROW
         INSERT INTO log (what) VALUES (CONCAT('delete ', OLD.k))",
        "CREATE TRIGGER test.pd AFTER DELETE ON test.part FOR EACH ROW
         INSERT INTO log (what) VALUES (CONCAT('part of ', OLD.k))",
    ];
    for statement in statements {
        sql(&server, statement);
    }
    server
}

fn log(server: &Porpoise) -> String {
    let log = sql(server, "SELECT what FROM test.log ORDER BY id");
    sql(server, "DELETE FROM test.log");
    log
}

#[test]
fn commands_fire_the_triggers_that_statements_fire() {
    let server = logging();
    let through_memcached = [
        ("set i:a 0 0 3\r\nfoo\r\n", "STORED\r\n"),
        ("add i:b 0 0 3\r\nbar\r\n", "STORED\r\n"),
        ("add i:b 0 0 3\r\nbaz\r\n", "NOT_STORED\r\n"),
        ("set i:a 0 0 3\r\nnew\r\n", "STORED\r\n"),
        ("append i:a 0 0 1\r\n!\r\n", "STORED\r\n"),
        ("set i:c 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("incr i:c 5\r\n", "10\r\n"),
        ("delete i:b\r\n", "DELETED\r\n"),
        ("get i:a\r\n", "VALUE i:a 0 4\r\nnew!\r\nEND\r\n"),
    ];
    for (command, reply) in through_memcached {
        assert_eq!(server.memcached(command), reply, "{command}");
    }
    let by_memcached = log(&server);
    let rows = sql(&server, "SELECT * FROM test.item");
    sql(
        &server,
        "USE test; DELETE FROM item; DELETE FROM log;
         INSERT INTO item (k, v) VALUES ('a', 'foo');
         INSERT INTO item (k, v) VALUES ('b', 'bar');
         UPDATE item SET v = 'new' WHERE k = 'a';
         UPDATE item SET v = 'new!' WHERE k = 'a';
         INSERT INTO item (k, v) VALUES ('c', '5');
         UPDATE item SET v = v + 5 WHERE k = 'c';
         DELETE FROM item WHERE k = 'b'",
    );
    assert_eq!(by_memcached, log(&server));
    assert_eq!(
        by_memcached,
        "insert a=FOO\ninsert b=BAR\nupdate a FOO->new\nupdate a new->new!\ninsert c=5\n\
         update c 5->10\ndelete b\n"
    );
    assert_eq!(rows, sql(&server, "SELECT * FROM test.item"));
}

#[test]
fn foreign_key_actions_of_commands_fire_triggers() {
    let server = logging();
    sql(
        &server,
        "USE test; INSERT INTO item (k) VALUES ('a'); INSERT INTO part (k) VALUES ('a'), ('a'); DELETE FROM log",
    );
    assert_eq!(server.memcached("delete i:a\r\n"), "DELETED\r\n");
    assert_eq!(log(&server), "delete a\npart of a\npart of a\n");
}

#[test]
fn an_error_of_a_trigger_is_the_reply_and_nothing_is_changed() {
    let server = logging();
    sql(
        &server,
        "DELIMITER //
         CREATE TRIGGER test.refuses AFTER INSERT ON test.item FOR EACH ROW
         IF NEW.v = 'BAD' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no bad items'; END IF//",
    );
    assert_eq!(
        server.memcached("set i:x 0 0 3\r\nbad\r\nget i:x\r\n"),
        "SERVER_ERROR no bad items\r\nEND\r\n"
    );
    assert_eq!(log(&server), "");
    assert_eq!(server.memcached("set i:x 0 0 3\r\nfoo\r\n"), "STORED\r\n");
    assert_eq!(log(&server), "insert x=FOO\n");
}

#[test]
fn bodies_run_as_their_definers() {
    let server = logging();
    sql(
        &server,
        "CREATE USER writer@localhost; GRANT TRIGGER ON test.item TO writer@localhost;
         CREATE DEFINER = writer@localhost TRIGGER test.other AFTER INSERT ON test.item FOR EACH ROW
         INSERT INTO log (what) VALUES ('by writer')",
    );
    let refused = server.memcached("set i:a 0 0 3\r\nfoo\r\n");
    assert!(
        refused.starts_with("SERVER_ERROR INSERT command denied to user 'writer'@'localhost'"),
        "{refused}"
    );
    sql(&server, "GRANT INSERT ON test.log TO writer@localhost");
    assert_eq!(server.memcached("set i:a 0 0 3\r\nfoo\r\n"), "STORED\r\n");
    assert_eq!(log(&server), "insert a=FOO\nby writer\n");
}

#[test]
fn triggers_survive_a_kill_with_what_they_wrote() {
    let mut server = logging();
    assert_eq!(server.memcached("set i:a 0 0 3\r\nfoo\r\n"), "STORED\r\n");
    server.kill9();
    server.restart();
    assert_eq!(server.memcached("set i:b 0 0 3\r\nbar\r\n"), "STORED\r\n");
    assert_eq!(log(&server), "insert a=FOO\ninsert b=BAR\n");
}

#[test]
fn a_trigger_of_a_command_in_an_endless_loop_ends() {
    let server = logging();
    sql(
        &server,
        "DELIMITER //
         CREATE TRIGGER test.loops BEFORE DELETE ON test.item FOR EACH ROW
         BEGIN DECLARE n BIGINT DEFAULT 0; LOOP SET n = n + 1; END LOOP; END//",
    );
    assert_eq!(server.memcached("set i:a 0 0 3\r\nfoo\r\n"), "STORED\r\n");
    let reply = server.memcached("delete i:a\r\nget i:a\r\n");
    assert!(
        reply.starts_with("SERVER_ERROR Query execution was interrupted"),
        "{reply}"
    );
    assert!(
        reply.ends_with("VALUE i:a 0 3\r\nFOO\r\nEND\r\n"),
        "{reply}"
    );
}
