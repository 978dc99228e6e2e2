//! A MariaDB replica, by position: cascades, memcached, expiry, large rows, definitions; kills of the source.

use crate::support::{dump, good, run_script, server};
use porpoise_testkit::{Mariadb, Porpoise};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// Lets the replica follow the source from a position.
fn follow(replica: &Mariadb, source: &Porpoise, place: &str) {
    let port = source.mysql_addr.port();
    let statements = format!(
        "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', MASTER_PASSWORD='pw', \
         MASTER_USE_GTID=no, MASTER_HEARTBEAT_PERIOD=1, MASTER_CONNECT_RETRY=1{place}; START SLAVE"
    );
    replica.sql(&statements).rows();
}

/// Lets the replica follow the source, which was restarted, from where it is. MariaDB forgets its
/// position when it is told a host or port.
fn follow_on(replica: &Mariadb, source: &Porpoise) {
    replica.sql("STOP SLAVE").rows();
    let status = replica.sql("SHOW SLAVE STATUS");
    let status = status.rows();
    let (file, position) = (status[0][9], status[0][21]);
    let place = format!(", MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}");
    follow(replica, source, &place);
}

/// Waits until the replica has applied everything; fails with its error.
fn wait_for(replica: &Mariadb, source: &Porpoise) {
    good(source, "INSERT INTO d.marks VALUES ()");
    let wanted = good(source, "SELECT MAX(n) FROM d.marks");
    source.wait_for("the replica", WAIT, || {
        let found = replica.sql("SELECT MAX(n) FROM d.marks");
        if found.is_ok && found.stdout.trim() == wanted[0] {
            return Some(());
        }
        let status = replica.sql("SHOW SLAVE STATUS").stdout;
        let broken = status.contains("Error ") || status.contains("error ");
        assert!(!broken || status.contains("reconnect"), "{status}");
        None
    });
}

/// Compares the contents of tables.
fn compare(replica: &Mariadb, source: &Porpoise, tables: &[&str]) {
    for table in tables {
        let query = format!("SELECT * FROM d.{table} ORDER BY 1");
        let (ours, theirs) = (source.sql(&query), replica.sql(&query));
        assert_eq!(ours.rows(), theirs.rows(), "{table}");
    }
}

#[test]
fn a_mariadb_replica_follows_by_position_through_kills_of_the_source() {
    let mut source = server().arg("--max-binlog-size", "64K").start();
    let replica = Mariadb::builder().arg("--server-id=2").start();
    good(
        &source,
        "CREATE USER repl IDENTIFIED WITH mysql_native_password BY 'pw'; GRANT REPLICATION SLAVE ON *.* TO repl",
    );
    // Every Porpoise server has the tables of memcached; a MariaDB server gets them by a copy.
    run_script(replica.addr, &dump(&source, "ndbmemcache"));
    follow(
        &replica,
        &source,
        ", MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4",
    );
    good(
        &source,
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE d;
         CREATE TABLE marks (n INT AUTO_INCREMENT PRIMARY KEY);
         CREATE TABLE parents (id INT PRIMARY KEY, name VARCHAR(40), big LONGTEXT) COLLATE utf8mb4_general_ci;
         CREATE TABLE children (id INT PRIMARY KEY, parent INT, other INT, KEY (parent), KEY (other),
           FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE,
           FOREIGN KEY (other) REFERENCES parents (id) ON DELETE SET NULL ON UPDATE CASCADE);
         CREATE TABLE log (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40)) COLLATE utf8mb4_general_ci;
         CREATE TABLE cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64)) COLLATE utf8mb4_general_ci;
         CREATE TABLE types (id INT PRIMARY KEY, a TINYINT UNSIGNED, b BIGINT, c FLOAT, d DOUBLE, e DECIMAL(20,5), f DATE, g TIME(3),
           h DATETIME(6), i TIMESTAMP(2) NULL, j YEAR, k CHAR(5), l VARBINARY(20), m BLOB, n ENUM('a','b'), o SET('x','y','z'), p BIT(11)) COLLATE utf8mb4_general_ci;
         INSERT INTO types VALUES (1, 255, -9223372036854775808, 1.5, -2.25e100, -123456789012345.67891, '2024-02-29', '-838:59:58.999',
           '2024-12-31 23:59:59.123456', '2001-02-03 04:05:06.78', 2155, 'abc', X'00FF10', X'0102', 'b', 'x,z', b'10000000001'),
           (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
         UPDATE types SET a = 0, b = 9223372036854775807, e = 0.00001, h = '1000-01-01 00:00:00', o = '' WHERE id = 1;
         ALTER TABLE cached MEMCACHED PREFIX 'c:';",
    );
    wait_for(&replica, &source);
    for round in 0..3 {
        let base = round * 1000;
        let large = "x".repeat(300_000);
        let mut statements = String::from("USE d;");
        for n in base..base + 20 {
            statements += &format!("INSERT INTO parents VALUES ({n}, 'p{n}', NULL);");
            statements += &format!(
                "INSERT INTO children VALUES ({n}, {n}, {n}), ({}, {n}, {base});",
                n + 500
            );
        }
        statements += &format!(
            "UPDATE children SET other = {base} + 4 WHERE id = {base} + 510;
             UPDATE parents SET id = id + 100000 WHERE id = {base} + 1;
             DELETE FROM parents WHERE id = {base} + 2; DELETE FROM children WHERE parent = {base} + 3;
             DELETE FROM parents WHERE id IN ({base} + 3, {base} + 4);
             UPDATE parents SET big = REPEAT('ä', 30000) WHERE id = {base} + 5; UPDATE parents SET name = 'later' WHERE id = {base} + 5;
             INSERT INTO log (what) SELECT name FROM parents; REPLACE INTO parents VALUES ({base} + 6, 'replaced', 'b');
             DELETE FROM log WHERE n % 3 = 0; "
        );
        good(&source, &statements);
        let value = source.sql(&format!(
            "UPDATE d.parents SET big = '{}' WHERE id = {base} + 7",
            &large[..100_000]
        ));
        value.rows();
        for n in 0..20 {
            source.memcached(&format!(
                "set c:{n} 0 0 {}\r\nv{round}\r\n",
                1 + round.to_string().len()
            ));
        }
        source.memcached("delete c:3\r\nset c:count 0 0 1\r\n5\r\nincr c:count 7\r\n");
        // The default table of memcached.
        source.memcached(&format!(
            "set other{round} 7 0 3\r\nabc\r\nappend other{round} 0 0 1\r\nd\r\ndelete other0\r\n"
        ));
        if round == 1 {
            good(
                &source,
                "TRUNCATE TABLE d.log; ALTER TABLE d.log ADD COLUMN extra INT DEFAULT 4; INSERT INTO d.log (what) VALUES ('x')",
            );
        }
        if round < 2 {
            source.kill9();
            source.restart();
            follow_on(&replica, &source);
        }
        wait_for(&replica, &source);
        compare(
            &replica,
            &source,
            &["marks", "parents", "children", "log", "cached", "types"],
        );
    }
    for table in ["kv", "containers", "key_prefixes"] {
        let query = format!("SELECT * FROM ndbmemcache.{table} ORDER BY 1, 2");
        let rows = source.sql(&query);
        assert_eq!(rows.rows(), replica.sql(&query).rows(), "{table}");
        assert!(rows.rows().len() >= 2, "{table}");
    }
    // Accounts arrive as statements, with their stored passwords.
    good(
        &source,
        "CREATE USER ann@localhost IDENTIFIED WITH mysql_native_password BY 'secret'; GRANT SELECT ON d.* TO ann@localhost;
         ALTER USER ann@localhost IDENTIFIED BY 'changed'; CREATE ROLE reader; DROP ROLE reader",
    );
    wait_for(&replica, &source);
    let own = |server: &dyn Fn(&str) -> String| {
        server("SELECT authentication_string FROM mysql.user WHERE user = 'ann'")
    };
    let secret = own(&|query| replica.sql(query).stdout);
    assert_eq!(secret, own(&|query| source.sql(query).stdout));
    assert!(secret.starts_with('*'), "{secret}");
    let grants = replica.sql("SHOW GRANTS FOR ann@localhost").stdout;
    assert!(grants.contains("GRANT SELECT ON `d`.*"), "{grants}");
    let replicas = good(&source, "SHOW REPLICAS");
    assert!(replicas[0].starts_with("2|"), "{replicas:?}");
    let rows = good(
        &source,
        "SELECT COUNT(*) FROM d.children WHERE other IS NULL",
    );
    assert_ne!(rows, ["0"]);
    assert_eq!(
        good(&source, "SELECT v FROM d.cached WHERE k = 'count'"),
        ["12"]
    );
}
