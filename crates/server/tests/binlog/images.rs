//! Row images (`binlog_row_image`): `mariadb-binlog` reads them, and its output gives the same tables in an empty MariaDB.

use crate::support::{good, read_log, run_script, server};
use porpoise_testkit::Mariadb;

/// Tables with and without a primary key, and changes of large and small columns.
const STATEMENTS: &str = "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE d;
     CREATE TABLE k (id INT, n INT, small VARCHAR(20), big TEXT, raw BLOB, PRIMARY KEY (n, id)) COLLATE utf8mb4_general_ci;
     CREATE TABLE u (id INT, big TEXT, n INT, UNIQUE KEY (n)) COLLATE utf8mb4_general_ci;
     INSERT INTO k VALUES (1, 1, 'a', REPEAT('large one', 40), X'0001'), (2, 2, NULL, NULL, NULL), (3, 3, 'c', 'third', X'03');
     INSERT INTO u VALUES (1, 'unkeyed', 1), (2, NULL, 2);
     UPDATE k SET small = 'b' WHERE id = 1; UPDATE k SET big = 'changed' WHERE id = 3; UPDATE k SET id = 20, raw = X'ff' WHERE id = 2;
     UPDATE u SET id = 10 WHERE n = 1; UPDATE u SET big = 'new' WHERE n = 2;
     DELETE FROM k WHERE id = 1; DELETE FROM u WHERE n = 1";

fn check(image: &str, contains: &[&str]) {
    let source = server().arg("--binlog-row-image", image).start();
    good(&source, STATEMENTS);
    good(&source, "FLUSH BINARY LOGS");
    let text = read_log(&source, &["--verbose"], &["binlog.000001"]);
    for part in contains {
        assert!(text.contains(part), "{image}: no {part} in\n{text}");
    }
    let other = Mariadb::builder().arg("--max-allowed-packet=1G").start();
    run_script(other.addr, &read_log(&source, &[], &["binlog.000001"]));
    for table in ["k", "u"] {
        let query = format!("SELECT * FROM d.{table} ORDER BY n");
        assert_eq!(
            source.sql(&query).rows(),
            other.sql(&query).rows(),
            "{image} {table}"
        );
    }
}

#[test]
fn minimal_and_noblob_images_are_complete_enough() {
    let update_of_small =
        "### UPDATE `d`.`k`\n### WHERE\n###   @1=1\n###   @2=1\n### SET\n###   @3='b'\n";
    check("minimal", &[update_of_small]);
    let update_of_small = "### UPDATE `d`.`k`\n### WHERE\n###   @1=1\n###   @2=1\n###   @3='a'\n### SET\n###   @1=1\n###   @2=1\n###   @3='b'\n";
    check("noblob", &[update_of_small, "###   @4='changed'\n"]);
}
