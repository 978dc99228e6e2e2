//! Statements on the log, privileges, and `mariadb-binlog`.

use crate::support::{good, read_log, server};
use porpoise_testkit::Porpoise;
use std::time::Duration;

#[test]
fn mariadb_binlog_reads_statements_and_rows_of_all_kinds() {
    let server = server().start();
    good(
        &server,
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE a (id INT PRIMARY KEY, t TEXT, d DECIMAL(10,2), at DATETIME(3), e ENUM('x','y'));
         CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE);
         INSERT INTO a VALUES (1, 'one', 1.50, '2020-01-02 03:04:05.678', 'y'), (2, NULL, NULL, NULL, NULL);
         INSERT INTO b VALUES (10, 1), (11, 1), (12, 2);
         BEGIN; UPDATE a SET t = 'eins' WHERE id = 1; SAVEPOINT s; UPDATE a SET t = 'undone'; ROLLBACK TO s; COMMIT;
         BEGIN; INSERT INTO a (id) VALUES (99); ROLLBACK;
         DELETE FROM a WHERE id = 1;
         SET sql_log_bin = 0; INSERT INTO a (id) VALUES (50); SET sql_log_bin = 1;
         TRUNCATE TABLE b;",
    );
    server.wait_for("the log", Duration::from_secs(20), || {
        let rows = good(&server, "SHOW BINLOG EVENTS");
        rows.iter()
            .any(|row| row.contains("TRUNCATE"))
            .then_some(())
    });
    let text = read_log(&server, &["--verbose"], &["binlog.000001"]);
    for part in [
        "CREATE DATABASE shop",
        "CREATE TABLE a (id INT PRIMARY KEY",
        "### INSERT INTO `shop`.`a`",
        "###   @2='one'",
        "###   @3=1.50",
        "### UPDATE `shop`.`a`",
        "###   @2='eins'",
        "### DELETE FROM `shop`.`b`",
        "TRUNCATE TABLE b",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert_eq!(
        text.matches("### DELETE FROM `shop`.`b`").count(),
        2,
        "{text}"
    );
    for part in ["undone", "@1=99", "@1=50", "mysql`."] {
        assert!(!text.contains(part), "{part} in\n{text}");
    }
    let status = good(&server, "SHOW MASTER STATUS");
    assert!(status[0].starts_with("binlog.000001|"), "{status:?}");
    assert_eq!(good(&server, "SHOW BINARY LOGS").len(), 1);
    let executed = good(
        &server,
        "SELECT @@gtid_executed, @@log_bin, @@server_id, @@gtid_mode",
    );
    assert!(executed[0].ends_with("|1|7|ON"), "{executed:?}");
    assert!(!executed[0].starts_with('|'), "{executed:?}");
    good(&server, "FLUSH BINARY LOGS");
    assert_eq!(good(&server, "SHOW BINARY LOGS").len(), 2);
    good(&server, "PURGE BINARY LOGS TO 'binlog.000002'");
    assert_eq!(good(&server, "SHOW BINARY LOGS").len(), 1);
    good(&server, "PURGE BINARY LOGS BEFORE NOW()");
    assert_eq!(
        server
            .sql("PURGE BINARY LOGS TO 'binlog.000099'")
            .error_number(),
        Some(1373)
    );
    good(&server, "RESET MASTER");
    assert_eq!(good(&server, "SELECT @@gtid_executed"), [""]);
}

#[test]
fn the_log_needs_privileges_and_an_engine_with_a_log() {
    let started = server().start();
    good(
        &started,
        "CREATE USER reader IDENTIFIED WITH mysql_native_password BY 'x'; CREATE USER 'repl' IDENTIFIED WITH mysql_native_password BY 'x'; GRANT REPLICATION SLAVE ON *.* TO repl",
    );
    // The dump itself is tested by tests/clients/test_replication.py.
    let run = |user: &str, statement: &str| {
        let mut client = std::process::Command::new("mariadb");
        client.args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--password=x",
        ]);
        client.arg(format!("--port={}", started.mysql_addr.port()));
        client.args([format!("--user={user}"), format!("--execute={statement}")]);
        let output = client.output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (statement, privilege) in [
        ("SHOW BINLOG EVENTS", "REPLICATION SLAVE"),
        ("SHOW REPLICAS", "REPLICATION SLAVE"),
        ("SHOW BINARY LOGS", "REPLICATION CLIENT"),
        ("PURGE BINARY LOGS TO 'binlog.000001'", "BINLOG_ADMIN"),
        ("SET sql_log_bin = 0", "SYSTEM_VARIABLES_ADMIN"),
        ("RESET MASTER", "RELOAD"),
    ] {
        let error = run("reader", statement);
        assert!(
            error.contains("1227") && error.contains(privilege),
            "{statement}: {error}"
        );
    }
    for statement in ["SHOW BINLOG EVENTS", "SHOW REPLICAS"] {
        assert_eq!(run("repl", statement), "");
    }
    drop(started);
    let off = Porpoise::builder().start();
    assert_eq!(off.sql("SHOW BINARY LOGS").error_number(), Some(1381));
    drop(off);
    for arguments in [
        ["--durability", "memory"],
        ["--engine", "tikv://127.0.0.1:1"],
    ] {
        let finished = server()
            .arg(arguments[0], arguments[1])
            .run_to_end(Duration::from_secs(20));
        assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains("--log-bin"), "{}", finished.stderr);
    }
}
