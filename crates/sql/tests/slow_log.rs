//! The slow query log, and lock times in statistics of statements.

use crate::common::{ask, connect, good, server_with};
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_sql::server::{SqlConfig, SqlServer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server whose data directory, for logs only, is a new temporary directory.
fn server(name: &str) -> (Arc<SqlServer>, PathBuf) {
    let directory = std::env::temp_dir().join(format!("porpoise-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    });
    let config = SqlConfig {
        variables: vec![("datadir".to_owned(), directory.display().to_string())],
        ..SqlConfig::default()
    };
    (server_with(engine.unwrap(), config), directory)
}

#[test]
fn slow_statements_are_in_the_file_with_plan_and_transaction() {
    let (server, directory) = server("slow-file");
    let mut session = connect(&server, 1);
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "SET GLOBAL log_slow_extra = ON",
        "SET GLOBAL slow_query_log = ON",
        "SET long_query_time = 0.02",
        "SELECT a FROM t WHERE id = 1",
        "SELECT a, SLEEP(0.05) FROM t WHERE id = 2",
        "ALTER TABLE t ADD COLUMN b INT DEFAULT (SLEEP(0.0))",
    ] {
        let _ = ask(&mut session, text);
    }
    let log = std::fs::read_to_string(directory.join("porpoise-slow.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines.iter().filter(|l| l.starts_with("# Time: ")).count(),
        1
    );
    assert!(
        lines[1].starts_with("# User@Host: root[root] @ localhost []  Id:     1"),
        "{log}"
    );
    assert!(lines[2].starts_with("# Query_time: 0.0"), "{log}");
    assert!(
        lines[2].contains("Rows_sent: 1  Rows_examined: 1 Thread_id: 1 Errno: 0"),
        "{log}"
    );
    assert!(lines[3].starts_with("# Plan: -> "), "{log}");
    let rest = log.split_once("use d;\nSET timestamp=").unwrap().1;
    assert!(
        rest.ends_with(";\nSELECT a, SLEEP(0.05) FROM t WHERE id = 2;\n"),
        "{log}"
    );

    // After a rotation FLUSH SLOW LOGS creates a new file.
    std::fs::rename(
        directory.join("porpoise-slow.log"),
        directory.join("old.log"),
    )
    .unwrap();
    good(&mut session, "FLUSH SLOW LOGS");
    good(&mut session, "SELECT SLEEP(0.03)");
    let log = std::fs::read_to_string(directory.join("porpoise-slow.log")).unwrap();
    assert!(
        log.contains("SELECT SLEEP(0.03);") && !log.contains("FROM t"),
        "{log}"
    );

    // A file that cannot be opened is refused.
    let refused = ask(
        &mut session,
        "SET GLOBAL slow_query_log_file = 'no/such/dir/x.log'",
    );
    assert_eq!(refused.unwrap_err().0, 1231);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn statements_are_logged_by_their_reads_and_kinds() {
    let (server, directory) = server("slow-kinds");
    let mut session = connect(&server, 1);
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "SET GLOBAL slow_query_log = ON",
        "SET GLOBAL log_queries_not_using_indexes = ON",
        "SELECT 'indexed' FROM t WHERE id = 1",
        "SELECT 'scanned' FROM t WHERE a = 1",
        "SET min_examined_row_limit = 4",
        "SELECT 'few rows' FROM t WHERE a = 2",
        "SET min_examined_row_limit = 0, long_query_time = 0",
        "CREATE INDEX a ON t (a)",
        "CREATE USER u IDENTIFIED BY 'secret'",
        "SET GLOBAL log_output = 'NONE'",
        "SELECT 'nowhere'",
    ] {
        good(&mut session, text);
    }
    let log = std::fs::read_to_string(directory.join("porpoise-slow.log")).unwrap();
    let has = |text: &str| log.contains(text);
    assert!(
        has("'scanned'") && !has("'indexed'") && !has("'few rows'"),
        "{log}"
    );
    assert!(
        !has("CREATE INDEX") && !has("secret") && !has("'nowhere'"),
        "{log}"
    );
    assert!(has("(a statement with a password)"), "{log}");
    good(
        &mut session,
        "SET GLOBAL log_output = 'FILE', GLOBAL log_slow_admin_statements = ON",
    );
    good(&mut session, "DROP INDEX a ON t");
    let log = std::fs::read_to_string(directory.join("porpoise-slow.log")).unwrap();
    assert!(log.contains("DROP INDEX a ON t;"), "{log}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_wait_for_a_row_lock_is_the_lock_time_of_its_digest() {
    let (server, directory) = server("lock-time");
    let (mut first, mut second) = (connect(&server, 1), connect(&server, 2));
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1)",
        "BEGIN",
        "UPDATE t SET a = 2 WHERE id = 1",
    ] {
        good(&mut first, text);
    }
    good(&mut second, "USE d");
    let waiter = std::thread::spawn(move || {
        good(&mut second, "UPDATE t SET a = a + 1 WHERE id = 1");
        good(&mut second, "DO SLEEP(0.05)");
    });
    std::thread::sleep(Duration::from_millis(100));
    good(&mut first, "COMMIT");
    waiter.join().unwrap();
    let found = good(
        &mut first,
        "SELECT SUM_LOCK_TIME > 20000000000, SUM_LOCK_TIME <= SUM_TIMER_WAIT \
         FROM performance_schema.events_statements_summary_by_digest \
         WHERE DIGEST_TEXT = 'UPDATE `t` SET `a` = `a` + ? WHERE `id` = ?'",
    );
    assert_eq!(found, ["1|1"]);
    let found = good(
        &mut first,
        "SELECT lock_latency, total_latency > 40000000000 FROM sys.`x$statement_analysis` \
         WHERE query LIKE 'DO %'",
    );
    assert_eq!(found, ["0|1"]);
    std::fs::remove_dir_all(directory).unwrap();
}
