//! A run without `--log-bin`: readers get an error that says that changes are missing.

use crate::support::{good, server};
use porpoise_testkit::{Mariadb, Porpoise};
use std::time::Duration;

#[test]
fn a_replica_behind_a_run_without_the_log_stops_with_1236() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut source = server().data_dir(&data).start();
    good(
        &source,
        "CREATE USER repl IDENTIFIED WITH mysql_native_password BY 'pw'; GRANT REPLICATION SLAVE ON *.* TO repl;
         CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)",
    );
    let place = good(&source, "SHOW MASTER STATUS");
    let place: Vec<&str> = place[0].split('|').collect();
    source.terminate();
    drop(source);
    let mut without = Porpoise::builder().data_dir(&data).start();
    good(&without, "INSERT INTO d.t VALUES (1)");
    without.terminate();
    drop(without);
    let source = server().data_dir(&data).start();
    assert!(
        source.log().contains("has run without --log-bin"),
        "{}",
        source.log()
    );
    let purged = good(&source, "SELECT @@gtid_purged");
    assert!(!purged[0].is_empty());
    let replica = Mariadb::builder().arg("--server-id=2").start();
    let port = source.mysql_addr.port();
    let statements = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', MASTER_PASSWORD='pw', \
         MASTER_USE_GTID=no, MASTER_LOG_FILE='{}', MASTER_LOG_POS={}; START SLAVE",
        place[0], place[1]
    );
    replica.sql(&statements).rows();
    source.wait_for("error 1236", Duration::from_secs(60), || {
        let status = replica.sql("SHOW SLAVE STATUS\\G").stdout;
        let is_told = status.contains("error 1236") && status.contains("changes are missing");
        is_told.then_some(())
    });
}
