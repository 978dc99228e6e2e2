//! Several servers, as processes, over the test double of a TiKV cluster.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod copy;
mod requests;
mod tool;

use porpoise_testkit::{Porpoise, SqlOutput, TikvCluster};
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn server(store: &TikvCluster) -> Porpoise {
    // A cluster beside the tests on a busy machine may answer late.
    let lease = match store {
        TikvCluster::Double(_) => "3s",
        TikvCluster::Existing(_) => "10s",
    };
    Porpoise::builder()
        .arg("--engine", store.engine())
        .arg("--cluster-lease", lease)
        .start()
}

/// Runs statements that must succeed; returns the first column of the first row.
fn value(server: &Porpoise, statements: &str) -> String {
    let output: SqlOutput = server.sql(statements);
    let rows = output.rows();
    rows.first()
        .map_or_else(String::new, |row| row[0].to_owned())
}

fn signal(server: &Porpoise, name: &str) {
    let sent = Command::new("kill")
        .args([name, &server.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn until(server: &Porpoise, statements: &str, expected: &str) {
    server.wait_for(statements, PATIENCE, || {
        let output = server.sql(statements);
        (output.is_ok && output.stdout.trim_end() == expected).then_some(())
    });
}

#[test]
fn an_idle_server_waits_for_events_instead_of_polling() {
    let store = TikvCluster::start();
    let server = server(&store);
    let polls = || {
        let (_, metrics) = server.http("/metrics");
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix("porpoise_worker_polls_total "));
        count.unwrap().parse::<u64>().unwrap()
    };
    let before = polls();
    std::thread::sleep(Duration::from_millis(500));
    let polled = polls() - before;
    // A server that polls does so some 10,000 times in this time.
    assert!(polled < 500, "polled {polled} times");
}

#[test]
fn definitions_and_accounts_of_one_server_hold_on_the_others() {
    let store = TikvCluster::start();
    let servers = std::thread::scope(|scope| {
        let starting = [(); 3].map(|()| scope.spawn(|| server(&store)));
        starting.map(|server| server.join().unwrap())
    });
    let [a, b, c] = &servers;
    let alive = "SELECT COUNT(*) FROM information_schema.CLUSTER_SERVERS WHERE STATE = 'active'";
    assert_eq!(value(c, alive), "3");
    value(
        a,
        "CREATE DATABASE d;
         CREATE TABLE d.p (id INT PRIMARY KEY);
         CREATE TABLE d.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT);
         INSERT INTO d.t (n) VALUES (1)",
    );
    value(b, "INSERT INTO d.t (n) VALUES (2)");
    // The index of a change under way survives the start of a server.
    std::thread::scope(|scope| {
        let altering = scope.spawn(|| value(a, "ALTER TABLE d.t ADD UNIQUE KEY u (n)"));
        drop(server(&store));
        altering.join().unwrap();
    });
    assert_eq!(
        b.sql("INSERT INTO d.t (n) VALUES (2)").error_number(),
        Some(1062)
    );
    value(c, "INSERT INTO d.p VALUES (1), (2), (3)");
    value(
        a,
        "ALTER TABLE d.t ADD FOREIGN KEY f (n) REFERENCES d.p (id) ON DELETE CASCADE",
    );
    assert_eq!(
        b.sql("INSERT INTO d.t (n) VALUES (9)").error_number(),
        Some(1452)
    );
    value(b, "DELETE FROM d.p WHERE id = 2");
    assert_eq!(value(c, "SELECT COUNT(*) FROM d.t"), "1");
    assert_eq!(value(c, "CHECK TABLE d.t"), "d.t");
    assert!(c.sql("CHECK TABLE d.t").stdout.contains("OK"));
    value(c, "TRUNCATE d.t");
    value(b, "INSERT INTO d.t (n) VALUES (3)");
    assert_eq!(value(a, "SELECT COUNT(*) FROM d.t"), "1");

    value(
        a,
        "CREATE USER u; GRANT SELECT ON d.* TO u; CREATE VIEW d.v AS SELECT 7;
         CREATE PROCEDURE d.r() SELECT 8; SET PERSIST max_execution_time = 4321",
    );
    assert_eq!(value(b, "SELECT * FROM d.v"), "7");
    assert_eq!(value(b, "CALL d.r()"), "8");
    until(
        b,
        "SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE LIKE '%u%' AND TABLE_SCHEMA = 'd'",
        "1",
    );
    value(c, "REVOKE SELECT ON d.* FROM u");
    until(
        b,
        "SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE LIKE '%u%' AND TABLE_SCHEMA = 'd'",
        "0",
    );
    until(c, "SELECT @@GLOBAL.max_execution_time", "4321");
}

#[test]
fn an_event_runs_on_one_server() {
    let store = TikvCluster::start();
    let (a, b) = (server(&store), server(&store));
    value(
        &a,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, at DATETIME);
         SET GLOBAL event_scheduler = ON",
    );
    value(&b, "SET GLOBAL event_scheduler = ON");
    value(
        &a,
        "CREATE EVENT d.e ON SCHEDULE EVERY 2 SECOND DO INSERT INTO d.t (at) VALUES (NOW())",
    );
    until(&b, "SELECT COUNT(*) >= 3 FROM d.t", "1");
    value(&b, "DROP EVENT d.e");
    let twice =
        "SELECT COUNT(*) FROM d.t x JOIN d.t y ON x.id < y.id AND y.at < x.at + INTERVAL 1 SECOND";
    assert_eq!(value(&a, twice), "0");
    // No server was lost, and none said so.
    for server in [&a, &b] {
        assert!(!server.log().contains("were undone"), "{}", server.log());
    }
}

#[test]
fn a_lost_server_delays_changes_for_its_lease_and_a_paused_one_returns() {
    let store = TikvCluster::start();
    let (mut a, b) = (server(&store), server(&store));
    value(
        &a,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)",
    );
    a.kill9();
    let begun = Instant::now();
    value(&b, "ALTER TABLE d.t ADD COLUMN n INT");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    a.restart();
    value(&a, "INSERT INTO d.t VALUES (1, 1)");
    signal(&b, "-STOP");
    value(&a, "ALTER TABLE d.t DROP COLUMN n");
    signal(&b, "-CONT");
    until(&b, "SELECT * FROM d.t", "1");
    assert_eq!(b.http("/health").0, 200);
    value(&b, "INSERT INTO d.t VALUES (2)");
    assert!(a.terminate().success());
    let begun = Instant::now();
    value(&b, "CREATE TABLE d.u (id INT PRIMARY KEY)");
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}
