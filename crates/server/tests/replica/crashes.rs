//! Crashes of either side while the source is written: nothing twice, nothing missing.

use super::support::Pair;
use porpoise_testkit::sql;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TABLES: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, v VARCHAR(100), KEY (n));
    CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, p INT, b BLOB,
      FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
    CREATE TABLE total (id INT PRIMARY KEY, n BIGINT); INSERT INTO total VALUES (1, 0);
    CREATE TABLE nokey (a INT, b VARCHAR(20));";

/// Statements of one round: each transaction also counts, so that one applied twice shows.
fn round(number: u32) -> String {
    let mut text = String::from("USE d;");
    for at in 0..20 {
        text += &format!(
            "BEGIN; INSERT INTO p (n, v) VALUES ({at}, REPEAT('{number}', 20)), ({at}, 'y'); \
             INSERT INTO c (p, b) VALUES (LAST_INSERT_ID(), REPEAT('z', 500)), (LAST_INSERT_ID() + 1, 'b'); \
             UPDATE total SET n = n + 1; INSERT INTO nokey VALUES ({number}, '{at}'); COMMIT; \
             BEGIN; UPDATE p SET v = CONCAT(v, '+') WHERE n = {at} ORDER BY id DESC LIMIT 3; \
             UPDATE total SET n = n + 1; DELETE FROM nokey WHERE a = {number} - 2 LIMIT 1; COMMIT;"
        );
    }
    text += &format!(
        "DELETE FROM p WHERE id % 7 = {number} % 7; CREATE TABLE t{number} (id INT PRIMARY KEY); \
         INSERT INTO t{number} VALUES ({number}); ALTER TABLE t{number} ADD COLUMN m INT DEFAULT {number}; \
         UPDATE total SET n = n + 1;"
    );
    if number > 3 {
        text += &format!("DROP TABLE t{};", number - 3);
    }
    text
}

/// Writes rounds until it is told to stop; a source that is away is tried again. Returns the last round.
fn write(address: SocketAddr, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let done = sql(address, &round(number));
        if !done.is_ok {
            thread::sleep(Duration::from_millis(200));
        }
    }
    number
}

fn compare_all(pair: &Pair) {
    pair.catch_up();
    pair.compare("SELECT * FROM d.total");
    pair.compare("SELECT * FROM d.p ORDER BY id");
    pair.compare("SELECT id, p, MD5(b) FROM d.c ORDER BY id");
    pair.compare("SELECT a, b, COUNT(*) FROM d.nokey GROUP BY a, b ORDER BY a, b");
    pair.compare(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' ORDER BY 1",
    );
}

#[test]
fn a_replica_that_is_killed_again_and_again_goes_on_exactly_where_it_was() {
    let mut pair = Pair::start();
    pair.source.sql(TABLES).rows();
    let stop = Arc::new(AtomicBool::new(false));
    let (address, flag) = (pair.source.addr, stop.clone());
    let writer = thread::spawn(move || write(address, &flag));
    for pause in [700, 300, 1100, 450, 900, 250] {
        thread::sleep(Duration::from_millis(pause));
        pair.replica.restart();
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = writer.join().unwrap();
    assert!(rounds > 2, "only {rounds} rounds");
    compare_all(&pair);
}

#[test]
fn a_source_that_is_killed_is_followed_on() {
    let mut pair = Pair::start();
    pair.source.sql(TABLES).rows();
    let stop = Arc::new(AtomicBool::new(false));
    let (address, flag) = (pair.source.addr, stop.clone());
    let writer = thread::spawn(move || write(address, &flag));
    for pause in [1500, 1000] {
        thread::sleep(Duration::from_millis(pause));
        pair.source.restart();
        pair.replica.restart();
    }
    thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    compare_all(&pair);
}
