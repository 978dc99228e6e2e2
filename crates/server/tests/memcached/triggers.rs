//! Triggers fire for memcached commands as for SQL statements.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use std::time::{Duration, Instant};

/// A server with a table of items, a child of it, and triggers that log every change.
fn logging() -> Porpoise {
    let server = Porpoise::builder().start();
    create_logged_tables(&server);
    server
}

fn create_logged_tables(server: &Porpoise) {
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
        sql(server, statement);
    }
}

#[test]
fn commands_fire_no_trigger_if_triggers_are_off() {
    let server = Porpoise::builder()
        .arg("--memcached-triggers", "off")
        .start();
    create_logged_tables(&server);
    assert_eq!(server.memcached("set i:a 0 0 3\r\nfoo\r\n"), "STORED\r\n");
    sql(&server, "INSERT INTO test.part (k) VALUES ('a')");
    assert_eq!(
        server.memcached("get i:a\r\n"),
        "VALUE i:a 0 3\r\nfoo\r\nEND\r\n"
    );
    assert_eq!(server.memcached("delete i:a\r\n"), "DELETED\r\n");
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM test.part").trim(), "0");
    assert_eq!(log(&server), "");
    sql(&server, "INSERT INTO test.item VALUES ('b', 'bar')");
    assert_eq!(log(&server).trim(), "insert b=BAR");
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

#[test]
fn a_trigger_of_a_command_can_be_killed() {
    let server = logging();
    sql(
        &server,
        "DELIMITER //
         CREATE TRIGGER test.loops BEFORE DELETE ON test.item FOR EACH ROW
         BEGIN DECLARE n BIGINT DEFAULT 0; LOOP SET n = n + 1; END LOOP; END//",
    );
    for kill in ["KILL QUERY", "KILL"] {
        assert_eq!(server.memcached("set i:a 0 0 3\r\nfoo\r\n"), "STORED\r\n");
        let (reply, took) = std::thread::scope(|scope| {
            let command = scope.spawn(|| (server.memcached("delete i:a\r\n"), Instant::now()));
            let shown = "SELECT ID, INFO FROM information_schema.PROCESSLIST \
                         WHERE USER = 'system user'";
            let shown = loop {
                let shown = sql(&server, shown);
                if !shown.is_empty() {
                    break shown;
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            let (id, info) = shown.trim_end().split_once('\t').unwrap();
            assert!(!info.is_empty());
            let began = Instant::now();
            sql(&server, &format!("{kill} {id}"));
            let (reply, ended) = command.join().unwrap();
            (reply, ended.saturating_duration_since(began))
        });
        assert!(
            reply.starts_with("SERVER_ERROR Query execution was interrupted"),
            "{kill}: {reply}"
        );
        // With the start of the client that sends KILL.
        assert!(took < Duration::from_secs(2), "{kill}: {took:?}");
        let list = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                    WHERE USER = 'system user'";
        assert_eq!(sql(&server, list), "0\n");
        sql(&server, "DELETE FROM test.log");
    }
    // The connection, and later triggers, go on.
    assert_eq!(server.memcached("set i:b 0 0 3\r\nbar\r\n"), "STORED\r\n");
    assert_eq!(log(&server), "insert b=BAR\n");
}

/// Through SQL and through memcached the same changes leave the same rows of all tables: those that
/// triggers write, and those that foreign key actions change and whose triggers fire.
#[test]
fn triggers_and_cascades_leave_the_same_rows_through_both_protocols() {
    let changes = [
        (
            "set i:a 0 0 1\r\n1\r\n",
            "REPLACE INTO item VALUES ('a', '1')",
        ),
        (
            "add i:b 0 0 1\r\n2\r\n",
            "INSERT INTO item VALUES ('b', '2')",
        ),
        (
            "add i:b 0 0 1\r\n3\r\n",
            "INSERT IGNORE INTO item VALUES ('b', '3')",
        ),
        (
            "add i:c 0 0 1\r\nx\r\n",
            "INSERT INTO item VALUES ('c', 'x')",
        ),
    ];
    let parts = "INSERT INTO test.part (k) VALUES ('a'), ('b'), ('b'), ('c')";
    let later = [
        (
            "append i:a 0 0 1\r\ny\r\n",
            "UPDATE item SET v = CONCAT(v, 'y') WHERE k = 'a'",
        ),
        ("incr i:b 5\r\n", "UPDATE item SET v = v + 5 WHERE k = 'b'"),
        ("delete i:b\r\n", "DELETE FROM item WHERE k = 'b'"),
        ("delete i:b\r\n", "DELETE FROM item WHERE k = 'b'"),
        ("delete i:c\r\n", "DELETE FROM item WHERE k = 'c'"),
        (
            "replace i:c 0 0 1\r\n7\r\n",
            "UPDATE item SET v = '7' WHERE k = 'c'",
        ),
    ];
    let (by_commands, by_statements) = (logging(), logging());
    let set_up = |server: &Porpoise| {
        sql(
            server,
            "CREATE TABLE test.counted (k VARCHAR(20) PRIMARY KEY, n INT);
             CREATE TRIGGER test.count_insert AFTER INSERT ON test.item FOR EACH ROW
             INSERT INTO counted VALUES (NEW.k, 1) ON DUPLICATE KEY UPDATE n = n + 1;
             CREATE TRIGGER test.count_delete AFTER DELETE ON test.part FOR EACH ROW
             UPDATE counted SET n = n + 100 WHERE k = OLD.k",
        );
    };
    set_up(&by_commands);
    set_up(&by_statements);
    for (at, list) in [&changes[..], &later[..]].into_iter().enumerate() {
        if at == 1 {
            sql(&by_commands, parts);
            sql(&by_statements, parts);
        }
        for (command, statement) in list {
            by_commands.memcached(command);
            sql(&by_statements, &format!("USE test; {statement}"));
        }
    }
    for table in ["item", "part", "counted", "log"] {
        let rows = format!("SELECT * FROM test.{table} ORDER BY 1");
        let (commands, statements) = (sql(&by_commands, &rows), sql(&by_statements, &rows));
        assert_eq!(commands, statements, "{table}");
        assert!(!commands.is_empty(), "{table}");
    }
}
