//! Rows of all types, definitions, cascades, tables without a key.

use super::support::{Pair, source_options};

const ALL_TYPES: &str = "
    CREATE TABLE types (
        id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT,
        f BIGINT UNSIGNED, g FLOAT, h DOUBLE, i DECIMAL(20,6), j DECIMAL(65,30), k BIT(11), l YEAR, m DATE,
        n DATETIME, o DATETIME(3), p DATETIME(6), q TIMESTAMP NULL, r TIMESTAMP(6) NULL, s TIME, t TIME(2), u CHAR(10),
        v VARCHAR(300), w CHAR(20) CHARACTER SET latin1, x BINARY(6), y VARBINARY(20), z TINYTEXT, aa TEXT,
        ab MEDIUMTEXT, ac LONGBLOB, ad ENUM('one','two','drei'), ae SET('a','b','c','d','e','f','g','h','i'),
        af VARCHAR(20) CHARACTER SET utf8mb3, ag VARCHAR(20) CHARACTER SET ucs2, UNIQUE KEY v (v))
        DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci";

const VALUES: &str = "
    INSERT INTO types VALUES
      (1, -128, 65535, -8388608, 4294967295, -9223372036854775808, 18446744073709551615, 1.5, -2.25e100,
       -12345678901234.567891, 12345678901234567890123456789012345.123456789012345678901234567891, b'10110011101', 2024,
       '2024-02-29', '9999-12-31 23:59:59', '2024-01-01 00:00:00.125', '1000-01-01 00:00:00.000001',
       '2024-03-31 02:30:00', '1970-01-01 00:00:01.000001', '-838:59:59', '12:34:56.78', 'abc  ', 'Grüße 😀', 'Größe',
       'ab', x'00FF00', 'tiny', REPEAT('text ', 1000), REPEAT('m', 70000), x'DEADBEEF00', 'drei', 'a,c,i', 'äöü', 'ЖЩ'),
      (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      (3, 127, 0, 8388607, 0, 9223372036854775807, 0, -0.1, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00 00:00:00',
       '2024-12-31 23:59:59.999', '2024-12-31 23:59:59.999999', '0000-00-00 00:00:00', '2038-01-19 03:14:07.999999',
       '00:00:00', '-00:00:00.01', '', '', '', '', '', '', '', '', '', 'one', '', '', '')";

const COLUMNS: &str = "id, a, b, c, d, e, f, g, h, i, j, HEX(k), l, m, n, o, p, q, r, s, t, HEX(u), v, HEX(w), HEX(x), \
                       HEX(y), z, MD5(aa), MD5(ab), HEX(ac), ad, ae, HEX(af), HEX(ag)";

#[test]
fn rows_of_all_types_are_the_same_on_both_sides() {
    let pair = Pair::start();
    pair.source
        .sql(&format!(
            "SET time_zone = '+02:00', sql_mode = ''; CREATE DATABASE d; USE d; {ALL_TYPES}; {VALUES}; \
             UPDATE types SET a = a - 1, v = CONCAT(v, '!'), i = i + 1, ac = REPEAT(x'00', 100000), p = NULL WHERE id = 1; \
             UPDATE types SET id = id + 100 ORDER BY id DESC; \
             INSERT INTO types (v) VALUES ('next'); DELETE FROM types WHERE id = 102"
        ))
        .rows();
    pair.catch_up();
    let query = format!("SET time_zone = '+00:00'; SELECT {COLUMNS} FROM d.types ORDER BY id");
    pair.compare(&query);
    // The next generated id follows those of the source.
    let next = "INSERT INTO d.types (v) VALUES ('own'); SELECT LAST_INSERT_ID()";
    assert_eq!(pair.replica.sql(next).rows(), [["105"]]);
}

#[test]
fn row_images_may_lack_columns() {
    let options = source_options()
        .arg("--binlog-row-image=MINIMAL")
        .arg("--binlog-row-metadata=FULL");
    let pair = Pair::with(options, "");
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; \
             CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 5, b TEXT, c INT UNSIGNED) ENGINE = InnoDB; \
             INSERT INTO t (id, b, c) VALUES (1, 'x', 4000000000), (2, 'y', 1); \
             UPDATE t SET b = 'z' WHERE id = 1; UPDATE t SET id = 9 WHERE id = 2; INSERT INTO t (id) VALUES (3); \
             DELETE FROM t WHERE id = 3",
        )
        .rows();
    pair.catch_up();
    pair.compare("SELECT * FROM d.t ORDER BY id");
}

#[test]
fn tables_without_a_primary_key_are_searched() {
    let pair = Pair::start();
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (a INT, b VARCHAR(20), c DOUBLE); \
             INSERT INTO t VALUES (1, 'x', 0.1), (1, 'x', 0.1), (2, NULL, NULL), (3, 'y', -0.0); \
             UPDATE t SET b = 'z' WHERE a = 1 LIMIT 1; DELETE FROM t WHERE a = 2; UPDATE t SET c = 5 WHERE a = 3; \
             CREATE TABLE u (a INT, b INT, UNIQUE KEY (a)); \
             INSERT INTO u VALUES (1, 1), (NULL, 2), (NULL, 3), (4, 4); UPDATE u SET b = b + 10; \
             DELETE FROM u WHERE b IN (12, 14)",
        )
        .rows();
    pair.catch_up();
    pair.compare("SELECT * FROM d.t ORDER BY a, b");
    pair.compare("SELECT * FROM d.u ORDER BY a, b");
}

#[test]
fn cascades_that_the_source_does_not_log_are_executed() {
    let pair = Pair::start();
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE p (id INT PRIMARY KEY, n INT); \
             CREATE TABLE c (id INT PRIMARY KEY, p INT, q INT, n INT, \
               FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, \
               FOREIGN KEY (q) REFERENCES p (id) ON DELETE SET NULL); \
             CREATE TABLE g (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE); \
             CREATE TABLE log (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20)); \
             CREATE TRIGGER t AFTER DELETE ON p FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT('gone ', OLD.id)); \
             INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4); \
             INSERT INTO c VALUES (1, 1, 2, 0), (2, 2, 1, 0), (3, 3, 3, 0), (4, 4, 1, 0); \
             INSERT INTO g VALUES (1, 1), (2, 2), (3, 3), (4, 4); \
             DELETE FROM p WHERE id = 1; UPDATE p SET id = 40 WHERE id = 4; \
             BEGIN; DELETE FROM p WHERE id = 3; INSERT INTO p VALUES (3, 30); INSERT INTO c VALUES (3, 3, 3, 1); COMMIT; \
             SET foreign_key_checks = 0; DELETE FROM p WHERE id = 2",
        )
        .rows();
    pair.catch_up();
    for table in ["p", "c", "g", "log"] {
        pair.compare(&format!("SELECT * FROM d.{table} ORDER BY 1"));
    }
}

#[test]
fn definitions_are_executed() {
    let pair = Pair::start();
    pair.source
        .sql(
            "CREATE DATABASE d CHARACTER SET latin1; USE d; CREATE TABLE a (id INT PRIMARY KEY, n VARCHAR(10)); \
             INSERT INTO a VALUES (1, 'x'); ALTER TABLE a ADD COLUMN m INT DEFAULT 7 AFTER id, ADD INDEX (n); \
             INSERT INTO a VALUES (2, 8, 'y'); RENAME TABLE a TO b; INSERT INTO b VALUES (3, 9, 'z'); \
             CREATE TABLE c AS SELECT id, n FROM b WHERE id > 1; CREATE INDEX i ON c (id); TRUNCATE TABLE b; \
             INSERT INTO b (id) VALUES (5); CREATE VIEW v AS SELECT id FROM c; \
             CREATE TABLE gone (id INT); DROP TABLE gone; DROP TABLE IF EXISTS never; \
             CREATE TEMPORARY TABLE tmp (id INT); INSERT INTO tmp VALUES (1); INSERT INTO b (id) SELECT id + 10 FROM tmp; \
             DROP TEMPORARY TABLE tmp; CREATE TABLE x (id INT) CHARACTER SET utf8mb4; INSERT INTO x VALUES (1); \
             CREATE DATABASE e; CREATE TABLE e.t (id INT); DROP DATABASE e; FLUSH TABLES; ANALYZE TABLE b; \
             INSERT INTO mysql.time_zone_leap_second VALUES (1, 1); BEGIN; INSERT INTO x VALUES (2); SAVEPOINT s1; INSERT INTO x VALUES (3); \
             ROLLBACK TO s1; INSERT INTO x VALUES (4); COMMIT; FLUSH LOGS; INSERT INTO x VALUES (5)",
        )
        .rows();
    pair.catch_up();
    for query in [
        "SELECT * FROM d.b ORDER BY 1",
        "SELECT * FROM d.c ORDER BY 1",
        "SELECT * FROM d.x ORDER BY 1",
        "SELECT * FROM d.v ORDER BY 1",
    ] {
        pair.compare(query);
    }
    pair.compare(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('d', 'e') ORDER BY 1, 2",
    );
    pair.compare(
        "SELECT table_name, column_name, character_set_name, collation_name FROM information_schema.columns \
         WHERE table_schema = 'd' AND character_set_name IS NOT NULL ORDER BY 1, 2",
    );
}

#[test]
fn gtids_of_mariadb_and_compressed_events() {
    let options = source_options()
        .arg("--log-bin-compress=ON")
        .arg("--log-bin-compress-min-len=10")
        .arg("--gtid-domain-id=3");
    let pair = Pair::with(options, ", MASTER_USE_GTID = slave_pos");
    pair.source
        .sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, b LONGTEXT); \
             INSERT INTO t VALUES (1, REPEAT('x', 100000)); UPDATE t SET b = REPEAT('y', 100000)",
        )
        .rows();
    pair.catch_up();
    pair.compare("SELECT id, MD5(b) FROM d.t");
    pair.replica.sql("STOP REPLICA").rows();
    pair.source
        .sql("INSERT INTO d.t VALUES (2, 'z'); FLUSH LOGS; DELETE FROM d.t WHERE id = 1")
        .rows();
    pair.replica.sql("START REPLICA").rows();
    pair.catch_up();
    pair.compare("SELECT id, MD5(b) FROM d.t");
    let status = pair.status();
    assert!(
        status.iter().any(|field| field.starts_with("3-7-")),
        "{status:?}"
    );
    // The events at the start of a file belong to no transaction.
    pair.source.sql("FLUSH LOGS").rows();
    pair.catch_up();
}
