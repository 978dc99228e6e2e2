//! KILL, and statements that end at `max_execution_time`.

use crate::common::{Nothing, connect};
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_sql::SqlError;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn server() -> Arc<SqlServer> {
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    });
    crate::common::server(engine.unwrap())
}

fn run(session: &mut SqlSession, text: &str) -> Result<u64, SqlError> {
    let outcome = session.query(text.as_bytes(), false, &mut Nothing)?;
    Ok(outcome.affected_rows)
}

/// Waits until the session executes a statement.
fn until_busy(server: &SqlServer, id: u64) {
    let busy = || {
        let list = server.sessions();
        let mut found = list.iter().filter(|p| p.id == id);
        found.any(|p| p.state(Instant::now()).command == "Query")
    };
    while !busy() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn kill_query_ends_a_lock_wait_and_the_session_lives_on() {
    let server = server();
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    ] {
        run(&mut a, text).unwrap();
    }
    run(&mut a, "INSERT INTO t VALUES (1, 1)").unwrap();
    run(&mut a, "BEGIN").unwrap();
    run(&mut a, "UPDATE t SET a = 2 WHERE id = 1").unwrap();
    run(&mut b, "USE d").unwrap();
    run(&mut b, "BEGIN").unwrap();
    run(&mut b, "INSERT INTO t VALUES (2, 2)").unwrap();
    let waiter = std::thread::spawn(move || {
        let result = run(&mut b, "UPDATE t SET a = 3 WHERE id = 1");
        (b, result)
    });
    until_busy(&server, 2);
    run(&mut a, "KILL QUERY 2").unwrap();
    let (mut b, result) = waiter.join().unwrap();
    assert_eq!(result.unwrap_err().code, 1317);
    // KILL QUERY does not end the transaction.
    run(&mut b, "COMMIT").unwrap();
    run(&mut a, "COMMIT").unwrap();
    assert_eq!(run(&mut a, "DELETE FROM t").unwrap(), 2);
}

#[test]
fn kill_ends_the_session() {
    let server = server();
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    run(&mut a, "KILL 2").unwrap();
    let error = run(&mut b, "SELECT 1").unwrap_err();
    assert!(error.fatal, "{error}");
    drop(b);
    assert_eq!(run(&mut a, "KILL 2").unwrap_err().code, 1094);
}

#[test]
fn sleep_is_ended_by_kill_query() {
    let server = server();
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    let start = Instant::now();
    let sleeper = std::thread::spawn(move || run(&mut b, "SELECT SLEEP(60)"));
    until_busy(&server, 2);
    run(&mut a, "KILL QUERY 2").unwrap();
    // MySQL returns 1 from an interrupted SLEEP, or 1317 from the statement.
    let _ = sleeper.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn max_execution_time_ends_a_select() {
    let server = server();
    let mut a = connect(&server, 1);
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY)",
    ] {
        run(&mut a, text).unwrap();
    }
    let values: Vec<String> = (0..2000).map(|n| format!("({n})")).collect();
    run(
        &mut a,
        &format!("INSERT INTO t VALUES {}", values.join(",")),
    )
    .unwrap();
    run(&mut a, "SET max_execution_time = 100").unwrap();
    let slow = "SELECT COUNT(*) FROM t x JOIN t y JOIN t z WHERE x.id + y.id + z.id < 0";
    let error = run(&mut a, slow).unwrap_err();
    assert_eq!(error.code, 3024, "{error}");
    run(&mut a, "SELECT COUNT(*) FROM t").unwrap();
    // The hint overrides the variable.
    run(&mut a, "SET max_execution_time = 0").unwrap();
    let hinted = slow.replacen("SELECT", "SELECT /*+ MAX_EXECUTION_TIME(100) */", 1);
    for _ in 0..2 {
        let error = run(&mut a, &hinted).unwrap_err();
        assert_eq!(error.code, 3024, "{error}");
    }
    run(&mut a, &format!("PREPARE s FROM '{hinted}'")).unwrap();
    let error = run(&mut a, "EXECUTE s").unwrap_err();
    assert_eq!(error.code, 3024, "{error}");
}

#[test]
fn a_password_is_not_in_the_process_list() {
    let server = server();
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    run(&mut b, "CREATE USER u IDENTIFIED BY 'topsecret'").unwrap();
    let sleeper =
        std::thread::spawn(move || run(&mut b, "SELECT SLEEP(60), 'identified by topsecret'"));
    until_busy(&server, 2);
    let list = server.sessions();
    let info = list
        .iter()
        .find(|p| p.id == 2)
        .unwrap()
        .state(Instant::now())
        .info;
    assert!(!info.unwrap().contains("topsecret"));
    run(&mut a, "KILL 2").unwrap();
    let _ = sleeper.join().unwrap();
}

/// Statements that compute for minutes and never wait.
const BUSY: &[&str] = &[
    "SELECT COUNT(*) FROM t x, t y, t z WHERE x.id + y.id + z.id < 0",
    "SELECT x.id FROM t x, t y ORDER BY MD5(CONCAT(x.id, y.id))",
    "SELECT REPEAT('a', 60000000) LIKE CONCAT('%', REPEAT('a_', 10000), 'b%')",
    "SELECT LOCATE(CONCAT(REPEAT('a', 5000), 'b'), REPEAT('a', 5000000))",
    "SELECT COUNT(*) FROM JSON_TABLE(CONCAT(REPEAT('[', 90), REPEAT(']', 90)), '$**[*]' COLUMNS (NESTED PATH '$**[*]' COLUMNS (\
     NESTED PATH '$**[*]' COLUMNS (NESTED PATH '$**[*]' COLUMNS (NESTED PATH '$**[*]' COLUMNS (o FOR ORDINALITY)))))) a",
    "SET @x = (SELECT SUM(x.id) FROM t x, t y, t z)",
    "UPDATE t SET a = REPEAT('a', 60000000) LIKE CONCAT('%', REPEAT('a_', 10000), 'b%')",
];

#[test]
fn kill_query_ends_cpu_work_and_changes_nothing() {
    let server = server();
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    ] {
        run(&mut a, text).unwrap();
    }
    let values: Vec<String> = (0..5000).map(|n| format!("({n}, -1)")).collect();
    let insert = format!("INSERT INTO t VALUES {}", values.join(","));
    run(&mut a, &insert).unwrap();
    run(&mut b, "USE d").unwrap();
    for text in BUSY {
        let worker = std::thread::spawn(move || {
            let result = run(&mut b, text);
            (b, result)
        });
        until_busy(&server, 2);
        let since = Instant::now();
        run(&mut a, "KILL QUERY 2").unwrap();
        let (session, result) = worker.join().unwrap();
        assert_eq!(result.map_err(|error| error.code), Err(1317), "{text}");
        assert!(since.elapsed() < Duration::from_secs(5), "{text}");
        b = session;
    }
    assert_eq!(run(&mut a, "UPDATE t SET a = 0 WHERE a <> -1").unwrap(), 0);
}
