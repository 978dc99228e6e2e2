//! Dependencies of transactions in the log, for replicas that apply in parallel (`last_committed`).

use crate::support::{good, server};
use porpoise_replication::event::{Event, FILE_MAGIC, FormatDescription, Header};
use porpoise_testkit::Porpoise;

/// Numbers of the transactions in a file, each with that of the last one that it depends on.
fn dependencies(server: &Porpoise, file: &str) -> Vec<(i64, i64)> {
    let bytes = std::fs::read(server.data_dir.join("binlog").join(file)).unwrap();
    let format = FormatDescription::new("8.4.0", 0, true);
    let mut rest = &bytes[FILE_MAGIC.len()..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let size = Header::parse(rest).unwrap().size as usize;
        if let (_, Event::Gtid(gtid)) = Event::decode(&rest[..size], &format).unwrap() {
            found.push((gtid.sequence_number, gtid.last_committed));
        }
        rest = &rest[size..];
    }
    found
}

const TABLES: &str = "CREATE DATABASE d; USE d; CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE (u)); \
    CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE); CREATE TABLE n (v INT)";

/// Transactions after a statement, numbered from 2 on, and the one that each depends on.
const TRANSACTIONS: [(&str, i64); 13] = [
    ("INSERT INTO p VALUES (1, 10, 0), (2, 20, 0)", 1),
    ("INSERT INTO p VALUES (3, 30, 0)", 1),
    // Children of one parent do not depend on each other.
    ("INSERT INTO c VALUES (1, 1)", 2),
    ("INSERT INTO c VALUES (2, 1), (3, NULL)", 2),
    ("UPDATE p SET u = 11 WHERE id = 3", 3),
    // The value of the unique key is no longer used.
    ("INSERT INTO p VALUES (4, 30, 0)", 6),
    ("UPDATE p SET v = 1 WHERE id = 2", 2),
    ("DELETE FROM c WHERE id = 2", 5),
    // It deletes a child, too.
    ("DELETE FROM p WHERE id = 1", 9),
    // A row without a key may be any row of the table.
    ("INSERT INTO n VALUES (1)", 1),
    ("INSERT INTO n VALUES (2)", 11),
    ("CREATE TABLE other (v INT)", 12),
    ("INSERT INTO p VALUES (9, 90, 0)", 13),
];

#[test]
fn dependencies_are_those_of_keys_and_foreign_keys() {
    let mut server = server().start();
    good(&server, TABLES);
    let mut expected = vec![(1, 0)];
    expected.extend((2..).zip(TRANSACTIONS.map(|(_, on)| on)));
    // A transaction that the writer reads before its session has left its keys depends on all before it: that is rare.
    for round in 1..=20 {
        good(
            &server,
            "FLUSH BINARY LOGS; USE d; CREATE TABLE begins (v INT)",
        );
        for (statement, _) in TRANSACTIONS {
            good(&server, &format!("USE d; {statement}"));
        }
        good(&server, "FLUSH BINARY LOGS");
        let found = dependencies(&server, &format!("binlog.{:06}", 2 * round));
        let misses_no_dependency = found
            .iter()
            .zip(&expected)
            .all(|(f, e)| f.0 == e.0 && f.1 >= e.1);
        assert!(
            misses_no_dependency && found.len() == expected.len(),
            "{found:?}"
        );
        if found == expected {
            break;
        }
        assert!(round < 20, "{found:?}");
        good(
            &server,
            "USE d; DROP TABLE begins, other; DELETE FROM p; DELETE FROM c; DELETE FROM n",
        );
    }
    // After a restart they begin with those of the new file.
    server.restart();
    good(&server, "USE d; INSERT INTO p VALUES (100, 100, 0)");
    good(&server, "FLUSH BINARY LOGS");
    let files = good(&server, "SHOW BINARY LOGS");
    let last = files[files.len() - 2].split('|').next().unwrap().to_owned();
    assert_eq!(dependencies(&server, &last), [(1, 0)]);
}
