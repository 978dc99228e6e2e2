//! The server is killed at random moments under load; afterwards the log, run in an empty MariaDB, gives the tables.

use crate::support::{good, read_log, run_script, server};
use porpoise_testkit::Mariadb;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn the_log_and_the_data_agree_after_kills_at_random_moments() {
    let mut source = server().arg("--max-binlog-size", "32K").start();
    good(
        &source,
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE d;
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, writer INT, n INT, v VARCHAR(200)) COLLATE utf8mb4_general_ci",
    );
    for round in 0..4u64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (stop, address) = (&stop, source.mysql_addr);
            for writer in 0..3 {
                scope.spawn(move || {
                    let mut statements = String::new();
                    for n in 0..400 {
                        statements += &format!(
                            "INSERT INTO d.t (writer, n, v) VALUES ({writer}, {n}, REPEAT('{writer}', {n} % 200));
                             UPDATE d.t SET n = n + 1 WHERE writer = {writer} AND id % 7 = {n} % 7;
                             DELETE FROM d.t WHERE writer = {writer} AND id % 11 = {n} % 11;"
                        );
                    }
                    while !stop.load(Ordering::Relaxed) {
                        // Ends with an error when the server is killed.
                        porpoise_testkit::sql(address, &statements);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300 + round * 371 % 500));
            source.kill9();
            stop.store(true, Ordering::Relaxed);
        });
        source.restart();
    }
    let expected = good(&source, "SELECT * FROM d.t ORDER BY id");
    assert!(expected.len() > 10, "{}", expected.len());
    good(&source, "FLUSH BINARY LOGS");
    let files = good(&source, "SHOW BINARY LOGS");
    let files: Vec<&str> = files
        .iter()
        .filter_map(|row| row.split('|').next())
        .collect();
    let script = read_log(&source, &[], &files);
    let other = Mariadb::builder().arg("--max-allowed-packet=1G").start();
    run_script(other.addr, &script);
    let rows = other.sql("SELECT * FROM d.t ORDER BY id");
    let found: Vec<String> = rows.rows().iter().map(|row| row.join("|")).collect();
    assert_eq!(found, expected);
    // Each identifier once, without a gap.
    let executed = good(&source, "SELECT @@gtid_executed");
    assert_eq!(executed[0].matches(':').count(), 1, "{executed:?}");
    assert!(executed[0].contains(":1-"), "{executed:?}");
}
