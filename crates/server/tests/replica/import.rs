//! `porpoise import mysql://...` from a MariaDB source under writes.

use super::support::{PATIENCE, Pair, source_options};
use porpoise_testkit::{Mariadb, Porpoise, sql, wait_until};
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Starts both servers, without any replication between them.
fn start() -> Pair {
    let source = source_options().start();
    source
        .sql(
            "CREATE USER mover@'127.0.0.1' IDENTIFIED BY 'moving secret'; GRANT ALL ON *.* TO mover@'127.0.0.1'; \
             RESET MASTER",
        )
        .rows();
    let replica = Porpoise::builder().arg("--durability", "sync").start();
    replica.sql("SET PERSIST local_infile = ON").rows();
    Pair { source, replica }
}

fn command(pair: &Pair, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    command
        .arg("import")
        .arg(format!("mysql://mover@{}", pair.source.addr))
        .arg("--into")
        .arg(format!("mysql://root@{}", pair.replica.mysql_addr))
        .env("PORPOISE_SOURCE_PASSWORD", "moving secret")
        .args(more);
    command
}

fn import(pair: &Pair, more: &[&str]) -> Output {
    command(pair, more).output().unwrap()
}

/// The lines of an import that has succeeded.
fn succeed(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}");
    assert!(!text.contains("secret"), "{text}");
    text
}

fn refused(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success(), "{text}");
    text
}

const TYPES: &str = "
    CREATE DATABASE d CHARACTER SET latin1 COLLATE latin1_swedish_ci; USE d;
    CREATE TABLE types (id BIGINT UNSIGNED PRIMARY KEY, f FLOAT, g DOUBLE, n DECIMAL(30,10), b BIT(20), e ENUM('a', 'b'),
      s SET('x', 'y', 'z'), l VARCHAR(50), u VARCHAR(50) CHARACTER SET utf8mb4, raw VARBINARY(300), big LONGBLOB,
      t TIME(6), dt DATETIME(3), ts TIMESTAMP(6) NULL, y YEAR, j JSON, doubled BIGINT UNSIGNED AS (id DIV 2) STORED);
    INSERT INTO types (id, f, g, n, b, e, s, l, u, raw, big, t, dt, ts, y, j) VALUES
      (18446744073709551615, 0.1, 1e300, 12345678901234567890.0123456789, b'10110011', 'b', 'x,z', 'd\u{e9}j\u{e0}', '\u{1f42c}',
        CONCAT(X'00095C0A0DFF1A27'), REPEAT(X'FF00', 5000), '-12:34:56.123456', '1000-01-01 00:00:00.001',
        '2024-05-06 07:08:09.123456', 1999, '{\"a\": [1, 2.5]}'),
      (0, 16777217, -0.0, NULL, NULL, NULL, '', '', '\\\\N', '', NULL, NULL, NULL, NULL, NULL, NULL),
      (7, 3.4e38, 5e-324, -1.5, b'0', 'a', 'x,y,z', 'tab\\tline\\nback\\\\slash', 'NULL', X'5C4E', X'0A', '838:59:59', '9999-12-31 23:59:59.999',
        '1970-01-01 00:00:01', 0, 'null');
    CREATE TABLE plain (a VARCHAR(20), b INT); INSERT INTO plain VALUES ('x', 1), ('x', 1), (NULL, NULL);
    CREATE TABLE tree (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES tree (id));
    INSERT INTO tree VALUES (1, NULL), (3, 1); INSERT INTO tree VALUES (2, 3);
    CREATE TABLE named (name VARCHAR(30) PRIMARY KEY, v INT); INSERT INTO named VALUES ('B', 1), ('a', 2);
    CREATE VIEW total AS SELECT COUNT(*) AS n FROM plain;
    CREATE TRIGGER doubles BEFORE INSERT ON plain FOR EACH ROW SET NEW.b = NEW.b * 2;
    CREATE EVENT yearly ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' DO DELETE FROM plain;
    CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2;";

/// Whether the server that is loaded has the recorded progress of an import.
fn has_progress(pair: &Pair) -> bool {
    let databases = pair.replica.sql("SHOW DATABASES").stdout;
    databases.contains("porpoise_import")
}

#[test]
fn a_running_server_is_moved_in_and_cut_over() {
    let pair = start();
    pair.source.sql(TYPES).rows();
    let text = succeed(&import(&pair, &["--dry-run"]));
    assert!(text.contains("can be moved"), "{text}");
    assert!(!has_progress(&pair));
    // The source is still written: the cut-over is refused, and the replica goes on.
    let text = refused(&import(&pair, &["--follow", "--cut-over"]));
    assert!(text.contains("read_only = 1"), "{text}");
    let event = "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = 'yearly'";
    assert_eq!(pair.replica.sql(event).rows(), [["REPLICA_SIDE_DISABLED"]]);
    pair.source
        .sql("USE d; INSERT INTO plain VALUES ('later', 5); UPDATE named SET v = 3 WHERE name = 'a'; CREATE TABLE newer (id INT)")
        .rows();
    pair.source.sql("SET GLOBAL read_only = 1").rows();
    let text = succeed(&import(&pair, &["--cut-over"]));
    assert!(text.contains("cut over"), "{text}");
    pair.compare("SELECT id, CAST(f AS DOUBLE), g, n, b+0, e, s, HEX(l), HEX(u), HEX(raw), MD5(big), t, dt, UNIX_TIMESTAMP(ts), y, j, doubled FROM d.types ORDER BY id");
    for table in ["plain", "tree", "named"] {
        pair.compare(&format!("SELECT * FROM d.{table} ORDER BY 1, 2"));
    }
    // Accounts are not moved; the definer's account is created by hand.
    pair.replica
        .sql("CREATE USER root@127.0.0.1; GRANT ALL ON *.* TO root@127.0.0.1")
        .rows();
    pair.compare("SELECT n, d.twice(n) FROM d.total");
    let shown = pair.replica.sql("SHOW TABLES FROM d").stdout;
    assert!(shown.contains("newer"), "{shown}");
    assert!(pair.replica.sql("SHOW REPLICA STATUS").rows().is_empty());
    assert_eq!(pair.replica.sql(event).rows(), [["ENABLED"]]);
    assert!(!has_progress(&pair));
    // The trigger fires for clients' rows; it has not fired for rows of the source.
    pair.replica
        .sql("INSERT INTO d.plain VALUES ('here', 4)")
        .rows();
    assert_eq!(
        pair.replica
            .sql("SELECT b FROM d.plain WHERE a = 'here'")
            .rows(),
        [["8"]]
    );
}

/// Runs statements as an account with a password.
fn sql_as(address: SocketAddr, user: &str, password: &str, statements: &str) -> String {
    let done = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--batch",
            "--skip-column-names",
        ])
        .arg(format!("--host={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .arg(format!("--user={user}"))
        .arg(format!("--password={password}"))
        .arg(format!("--execute={statements}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn accounts_are_copied_and_those_that_cannot_be_are_reported() {
    let pair = start();
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 2); \
             CREATE ROLE reader; GRANT SELECT ON d.* TO reader; \
             CREATE USER app@'%' IDENTIFIED BY 'app''s pass'; GRANT reader TO app@'%'; SET DEFAULT ROLE reader FOR app@'%'; \
             GRANT INSERT (id, v), UPDATE (v) ON d.t TO app@'%'; GRANT BINLOG MONITOR, SLAVE MONITOR ON *.* TO app@'%'; \
             CREATE USER sock@localhost IDENTIFIED VIA unix_socket; \
             CREATE USER other@'10.%' IDENTIFIED BY 'x' REQUIRE SSL WITH MAX_USER_CONNECTIONS 3; \
             CREATE DEFINER = app@'%' VIEW seen AS SELECT id FROM t",
        )
        .rows();
    let text = refused(&import(&pair, &["--users"]));
    for part in [
        "ACCOUNT 'sock'@'localhost': it authenticates by unix_socket",
        "1 problems",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let names = "SELECT User FROM mysql.user ORDER BY 1";
    assert!(
        !pair.replica.sql(names).stdout.contains("app"),
        "it is left"
    );
    let text = succeed(&import(
        &pair,
        &["--users", "--exclude-users", "sock@localhost"],
    ));
    assert!(!text.contains('*'), "a hash: {text}");
    let found = pair.replica.sql(names).stdout;
    assert_eq!(
        found.lines().collect::<Vec<_>>(),
        ["app", "memcached", "mover", "other", "reader", "root"]
    );
    let address = pair.replica.mysql_addr;
    let use_all = "INSERT INTO d.t VALUES (2, 3); UPDATE d.t SET v = 4 WHERE id = 2; SELECT * FROM d.t; SELECT * FROM d.seen";
    assert_eq!(
        sql_as(address, "app", "app's pass", use_all),
        "1\t2\n2\t4\n1\n2\n"
    );
    let grants = pair
        .replica
        .sql("SHOW GRANTS FOR app; SHOW CREATE USER other@'10.%'")
        .stdout;
    for part in [
        "REPLICATION CLIENT",
        "`reader`",
        "REQUIRE SSL",
        "MAX_USER_CONNECTIONS 3",
    ] {
        assert!(grants.contains(part), "{grants}");
    }
    // Again: refused as long as the accounts exist.
    pair.replica.sql("DROP DATABASE d").rows();
    let text = refused(&import(
        &pair,
        &["--users", "--exclude-users", "sock@localhost"],
    ));
    assert!(text.contains("account 'reader' exists already"), "{text}");
}

#[test]
fn what_cannot_be_moved_is_reported_by_object_before_anything_is_loaded() {
    let pair = start();
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE fine (id INT PRIMARY KEY); INSERT INTO fine VALUES (1); CREATE TABLE map \
             (id INT PRIMARY KEY, g GEOMETRY); CREATE TABLE old (id INT PRIMARY KEY) ENGINE = MyISAM; CREATE SEQUENCE seq",
        )
        .rows();
    let text = refused(&import(&pair, &[]));
    for part in [
        "TABLE d.map",
        "TABLE d.old: its engine MyISAM",
        "SEQUENCE d.seq",
        "3 problems",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(pair.replica.sql("SHOW TABLES FROM d").rows().is_empty());
    succeed(&import(&pair, &["--exclude-tables", "d.map,d.old,d.seq"]));
    assert_eq!(pair.replica.sql("SELECT id FROM d.fine").rows(), [["1"]]);
    // What exists is not touched.
    let text = refused(&import(&pair, &["--exclude-tables", "d.map,d.old,d.seq"]));
    assert!(text.contains("TABLE d.fine exists already"), "{text}");
    let same = Mariadb::builder()
        .arg("--server-id=1")
        .arg("--log-bin=b")
        .start();
    let text = refused(
        &Command::new(env!("CARGO_BIN_EXE_porpoise"))
            .args(["import", &format!("mysql://root@{}", same.addr), "--into"])
            .arg(format!("mysql://root@{}", pair.replica.mysql_addr))
            .output()
            .unwrap(),
    );
    assert!(text.contains("same server_id 1"), "{text}");
}

#[test]
fn values_that_do_not_fit_end_the_import_with_their_table() {
    let pair = start();
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE odd (id INT PRIMARY KEY, e ENUM('a', 'b')); SET sql_mode = ''; \
             INSERT INTO odd VALUES (1, 'a'), (2, 'c'); SET foreign_key_checks = 0; CREATE TABLE p (id INT PRIMARY KEY); \
             CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)); INSERT INTO c VALUES (1, 5)",
        )
        .rows();
    let text = refused(&import(&pair, &["--exclude-tables", "d.odd"]));
    assert!(text.contains("table d.c"), "{text}");
    assert_eq!(pair.replica.sql("SELECT COUNT(*) FROM d.c").rows(), [["0"]]);
}

#[test]
fn prepared_transactions_of_the_source_are_ended_before_the_copy() {
    let pair = start();
    pair.source
        .sql(
            "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1); \
             XA START 'x'; INSERT INTO d.t VALUES (2); XA END 'x'; XA PREPARE 'x'",
        )
        .rows();
    let text = refused(&import(&pair, &["--follow"]));
    assert!(text.contains("prepared XA transactions"), "{text}");
    pair.source.sql("XA COMMIT 'x'").rows();
    succeed(&import(&pair, &[]));
    pair.compare("SELECT * FROM d.t ORDER BY id");
}

const LOADED: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, v VARCHAR(300), KEY (n));
    CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, p INT, b BLOB, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE
      ON UPDATE CASCADE);
    CREATE TABLE total (id INT PRIMARY KEY, n BIGINT); INSERT INTO total VALUES (1, 0);
    CREATE TABLE crowd (a INT, b INT, v VARCHAR(100), PRIMARY KEY (a, b), KEY (v), UNIQUE KEY (b, a));
    CREATE TABLE named (name VARCHAR(40) PRIMARY KEY, n INT);
    INSERT INTO p (n, v) SELECT seq % 50, REPEAT(MD5(seq), 8) FROM seq_1_to_40000;
    INSERT INTO c (p, b) SELECT 1 + seq * 7 % 40000, REPEAT(MD5(seq), 8) FROM seq_1_to_20000;
    INSERT INTO crowd SELECT IF(seq <= 9000, 5, seq), seq, REPEAT('c', seq % 100) FROM seq_1_to_12000;
    INSERT INTO named SELECT MD5(seq), 0 FROM seq_1_to_8000;";

/// The transactions of one round; each increments a counter.
fn round(number: u32) -> String {
    let mut text = String::from("USE d;");
    for at in 0..10 {
        let some = number * 997 % 40000 + at * 31;
        text += &format!(
            "BEGIN; INSERT INTO p (n, v) VALUES ({at}, 'new'); INSERT INTO c (p, b) VALUES (LAST_INSERT_ID(), 'b'); \
             UPDATE total SET n = n + 1; COMMIT; \
             BEGIN; UPDATE p SET v = CONCAT('x', {number}) WHERE id BETWEEN {some} AND {some} + 20; \
             DELETE FROM p WHERE id = {some} + 7; UPDATE p SET id = id + 1000000 WHERE id = {some} + 3; \
             UPDATE crowd SET v = {number} WHERE a = 5 AND b BETWEEN {some} % 9000 AND {some} % 9000 + 5; \
             UPDATE named SET n = n + 1 WHERE name = MD5({number} % 8000); UPDATE total SET n = n + 1; COMMIT;"
        );
    }
    text
}

fn write(address: SocketAddr, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        if !sql(address, &round(number)).is_ok {
            thread::sleep(Duration::from_millis(100));
        }
    }
    number
}

fn spawn(pair: &Pair) -> Child {
    command(pair, &["--follow", "--threads", "2", "--chunk-kib", "16"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until an import has copied everything, and follows.
fn wait_until_it_follows(pair: &Pair, import: &mut Child) {
    let follows = wait_until(PATIENCE, || {
        assert_runs(import);
        let shown = pair.replica.sql("SELECT stage FROM porpoise_import.source");
        (shown.rows() == [["follow"]]).then_some(())
    });
    assert!(follows.is_some(), "the copy does not end");
}

/// Asserts that the import has not ended.
fn assert_runs(child: &mut Child) {
    if let Some(status) = child.try_wait().unwrap() {
        let mut text = String::new();
        let mut output = child.stderr.take().unwrap();
        output.read_to_string(&mut text).unwrap();
        panic!("the import has ended, {status}: {text}");
    }
}

/// Waits until a range is copied, then for the pause.
fn while_copying(pair: &Pair, child: &mut Child, pause: u64) {
    let begun = wait_until(PATIENCE, || {
        assert_runs(child);
        let shown = pair
            .replica
            .sql("SELECT COUNT(*) FROM porpoise_import.ranges");
        (shown.is_ok && shown.rows() != [["0"]]).then_some(())
    });
    assert!(begun.is_some(), "nothing is copied");
    thread::sleep(Duration::from_millis(pause));
}

/// Asserts that all indexes are there and consistent with the rows.
fn check_indexes(pair: &Pair) {
    pair.compare(
        "SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS WHERE \
         TABLE_SCHEMA = 'd' ORDER BY 1, 2, 3",
    );
    let checked = pair.replica.sql("CHECK TABLE d.p, d.c, d.crowd").stdout;
    assert_eq!(checked.matches("status\tOK").count(), 3, "{checked}");
}

#[test]
fn key_values_with_many_rows_are_loaded_in_parts() {
    let pair = start();
    pair.source.sql(LOADED).rows();
    // A process that has ended in the middle of a key value: its rows are deleted, and nothing else.
    let mut child = command(&pair, &["--follow", "--threads", "1", "--chunk-kib", "8"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_between = wait_until(PATIENCE, || {
        let rows = pair
            .replica
            .sql("SELECT key_value FROM porpoise_import.parts");
        let is_begun = rows.is_ok && rows.rows() == [["5"]];
        let ended = child.try_wait().unwrap().is_some();
        let follows = pair.replica.sql("SELECT stage FROM porpoise_import.source");
        let follows = follows.is_ok && follows.rows() == [["follow"]];
        (is_begun || ended || follows).then_some(is_begun)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_between.is_some(), "nothing is copied");
    pair.source
        .sql("DELETE FROM d.crowd WHERE a = 5 AND b < 100; UPDATE d.crowd SET v = 'later' WHERE b > 11000")
        .rows();
    let mut child = spawn(&pair);
    wait_until_it_follows(&pair, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    pair.source.sql("SET GLOBAL read_only = 1").rows();
    succeed(&import(&pair, &["--cut-over"]));
    pair.compare("SELECT * FROM d.crowd ORDER BY a, b");
    check_indexes(&pair);
}

#[test]
fn an_import_under_load_continues_after_kills_of_each_process() {
    let mut pair = start();
    pair.source.sql(LOADED).rows();
    let stop = Arc::new(AtomicBool::new(false));
    let (address, flag) = (pair.source.addr, stop.clone());
    let writer = thread::spawn(move || write(address, &flag));
    // This program, the source, the server that is loaded.
    for (victim, pause) in [(0, 0), (1, 50), (2, 100), (0, 300)] {
        let mut child = spawn(&pair);
        while_copying(&pair, &mut child, pause);
        match victim {
            0 => child.kill().unwrap(),
            1 => pair.source.restart(),
            _ => pair.replica.restart(),
        }
        if victim != 0 {
            // The import ends by itself when a server is gone, unless it is following already.
            thread::sleep(Duration::from_millis(300));
            child.kill().unwrap();
        }
        child.wait().unwrap();
    }
    let mut child = spawn(&pair);
    wait_until_it_follows(&pair, &mut child);
    thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() > 2);
    child.kill().unwrap();
    child.wait().unwrap();
    pair.source.sql("SET GLOBAL read_only = 1").rows();
    succeed(&import(&pair, &["--cut-over"]));
    for query in [
        "SELECT * FROM d.total",
        "SELECT * FROM d.p ORDER BY id",
        "SELECT id, p, MD5(b) FROM d.c ORDER BY id",
        "SELECT * FROM d.named ORDER BY name",
        "SELECT * FROM d.crowd ORDER BY a, b",
        "SELECT COUNT(*), MAX(a) FROM d.crowd FORCE INDEX (v) WHERE v >= 'c'",
    ] {
        pair.compare(query);
    }
    check_indexes(&pair);
}
