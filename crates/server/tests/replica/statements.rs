//! Statements of a replica: errors with their place, skipping, filters, privileges, secrets.

use super::support::{IO_ERROR, IO_RUNNING, Pair, SQL_RUNNING, source_options};
use porpoise_testkit::{Porpoise, wait_until};
use std::time::Duration;

#[test]
fn an_error_names_event_table_key_and_position_and_can_be_skipped() {
    let pair = Pair::start();
    pair.source
        .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT); INSERT INTO d.t VALUES (1, 1), (2, 2)")
        .rows();
    pair.catch_up();
    pair.replica
        .sql("INSERT INTO d.t VALUES (5, 50); DELETE FROM d.t WHERE id = 2")
        .rows();
    pair.source
        .sql("INSERT INTO d.t VALUES (4, 4), (5, 5); UPDATE d.t SET n = 3 WHERE id = 2")
        .rows();
    let (number, text) = pair.stopped();
    assert_eq!(number, "1062");
    for part in [
        "WRITE_ROWS",
        "d.t",
        "'5'",
        "PRIMARY",
        "binlog.000001:",
        "GTID 0-7-",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    // Nothing of the transaction was applied.
    assert_eq!(
        pair.replica.sql("SELECT id FROM d.t ORDER BY id").rows(),
        [["1"], ["5"]]
    );
    pair.replica
        .sql("SET GLOBAL sql_slave_skip_counter = 1; START REPLICA")
        .rows();
    let (number, text) = pair.stopped();
    assert_eq!(number, "1032");
    for part in ["UPDATE_ROWS", "d.t", "id = '2'"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    pair.replica
        .sql("INSERT INTO d.t VALUES (2, 2), (4, 4); START SLAVE")
        .rows();
    pair.catch_up();
    assert_eq!(
        pair.replica.sql("SELECT n FROM d.t WHERE id = 2").rows(),
        [["3"]]
    );
    assert_eq!(
        pair.replica.sql("SELECT @@sql_slave_skip_counter").rows(),
        [["0"]]
    );
}

#[test]
fn statements_that_change_rows_as_text_are_refused() {
    let pair = Pair::start();
    pair.source
        .sql(
            "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); SET SESSION binlog_format = STATEMENT; \
             INSERT INTO d.t VALUES (1)",
        )
        .rows();
    let (number, text) = pair.stopped();
    assert_eq!(number, "1593");
    assert!(
        text.contains("binlog_format = ROW") && text.contains("INSERT INTO d.t"),
        "{text}"
    );
}

#[test]
fn a_source_that_cannot_be_followed_is_refused_with_the_reason() {
    let pair = Pair::with(source_options().arg("--server-id=1"), "");
    let status = wait_until(Duration::from_secs(20), || {
        let status = pair.status();
        (status[IO_RUNNING] == "No").then_some(status)
    });
    let status = status.expect("the replica goes on");
    assert!(
        status[IO_ERROR].contains("same server_id 1"),
        "{}",
        status[IO_ERROR]
    );
    assert!(!status[IO_ERROR].contains("secret"));
}

#[test]
fn a_replica_stops_at_the_position_that_was_asked_for() {
    let mut pair = Pair::start();
    pair.source
        .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
        .rows();
    pair.catch_up();
    pair.replica.sql("STOP REPLICA").rows();
    pair.source.sql("INSERT INTO d.t VALUES (1)").rows();
    let shown = pair.source.sql("SHOW MASTER STATUS");
    let (file, position) = (shown.rows()[0][0].to_owned(), shown.rows()[0][1].to_owned());
    pair.source.sql("INSERT INTO d.t VALUES (2)").rows();
    let start =
        format!("START REPLICA UNTIL SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}");
    pair.replica.sql(&start).rows();
    let (number, text) = pair.stopped();
    assert_eq!((number.as_str(), text.as_str()), ("0", ""));
    assert_eq!(pair.replica.sql("SELECT id FROM d.t").rows(), [["1"]]);
    // It stays there, also after a restart, and stops at once if it is started with the same position again.
    pair.replica.restart();
    pair.replica.sql(&start).rows();
    pair.stopped();
    assert_eq!(pair.replica.sql("SELECT id FROM d.t").rows(), [["1"]]);
    pair.replica.sql("START REPLICA").rows();
    pair.catch_up();
    pair.compare("SELECT id FROM d.t ORDER BY id");
}

#[test]
fn filters_leave_tables_and_databases_out() {
    let pair = Pair::start();
    pair.replica
        .sql(
            "STOP REPLICA; CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (logs), \
             REPLICATE_WILD_IGNORE_TABLE = ('d.tmp%'), REPLICATE_REWRITE_DB = ((old, new)); \
             CREATE DATABASE new; START REPLICA",
        )
        .rows();
    pair.source
        .sql(
            "CREATE DATABASE d; CREATE DATABASE old; CREATE DATABASE logs; USE logs; CREATE TABLE t (id INT); \
             INSERT INTO t VALUES (1); USE d; CREATE TABLE t (id INT PRIMARY KEY); \
             CREATE TABLE tmp1 (id INT PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO tmp1 VALUES (1); \
             USE old; CREATE TABLE t (id INT); INSERT INTO t VALUES (7)",
        )
        .rows();
    pair.catch_up();
    let query = "SELECT (SELECT COUNT(*) FROM d.t), (SELECT COUNT(*) FROM d.tmp1), (SELECT MAX(id) FROM new.t)";
    assert_eq!(pair.replica.sql(query).rows(), [["1", "0", "7"]]);
    // CREATE DATABASE logs has the default database logs.
    assert_eq!(
        pair.replica.sql("SELECT * FROM logs.t").error_number(),
        Some(1049)
    );
    let shown = pair.replica.sql("SHOW SLAVE STATUS");
    for part in ["logs", "d.tmp%", "(old,new)"] {
        assert!(shown.stdout.contains(part), "{part}");
    }
}

#[test]
fn state_settings_and_secrets() {
    let pair = Pair::start();
    pair.source
        .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
        .rows();
    pair.catch_up();
    // Columns by their names, old and new.
    let shown = pair.replica.sql(
        "SELECT HOST, USER, AUTO_POSITION FROM performance_schema.replication_connection_configuration; \
         SELECT SERVICE_STATE, LAST_ERROR_NUMBER FROM performance_schema.replication_connection_status; \
         SELECT SERVICE_STATE FROM performance_schema.replication_applier_status; \
         SELECT DISTINCT SERVICE_STATE, LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker; \
         SELECT DESIRED_DELAY FROM performance_schema.replication_applier_configuration",
    );
    assert_eq!(
        shown.rows(),
        [
            vec!["127.0.0.1", "repl", "0"],
            vec!["ON", "0"],
            vec!["ON"],
            vec!["ON", ""],
            vec!["0"]
        ]
    );
    assert_eq!(
        pair.replica
            .sql("CHANGE REPLICATION SOURCE TO SOURCE_PORT = 1")
            .error_number(),
        Some(1198)
    );
    for query in [
        "SHOW REPLICA STATUS",
        "SHOW SLAVE STATUS",
        "SHOW FULL PROCESSLIST",
    ] {
        assert!(
            !pair.replica.sql(query).stdout.contains("secret"),
            "{query}"
        );
    }
    assert!(!pair.replica.log().contains("replica secret"));
    // One thread: each of the two names means it.
    pair.replica
        .sql("SET GLOBAL replica_parallel_workers = 0; STOP REPLICA IO_THREAD")
        .rows();
    let status = pair.status();
    assert_eq!(
        [status[IO_RUNNING].as_str(), &status[SQL_RUNNING]],
        ["No", "No"]
    );
    pair.replica.sql("START REPLICA SQL_THREAD").rows();
    pair.catch_up();
    // Stopped stays stopped, also after a restart; what was started goes on.
    let Pair {
        source,
        mut replica,
    } = pair;
    replica.sql("STOP REPLICA").rows();
    source.sql("INSERT INTO d.t VALUES (1)").rows();
    replica.restart();
    let pair = Pair { source, replica };
    assert_eq!(pair.status()[SQL_RUNNING], "No");
    pair.replica.sql("START REPLICA").rows();
    pair.catch_up();
    pair.replica.sql("STOP REPLICA; RESET REPLICA ALL").rows();
    assert_eq!(pair.replica.sql("SHOW REPLICA STATUS").stdout, "");
    assert_eq!(pair.replica.sql("START REPLICA").error_number(), Some(1200));
}

#[test]
fn a_replica_without_a_source_says_so() {
    let server = Porpoise::builder().start();
    assert_eq!(server.sql("START REPLICA").error_number(), Some(1200));
    assert_eq!(server.sql("STOP SLAVE").error_number(), None);
    assert_eq!(server.sql("RESET SLAVE ALL").error_number(), None);
    assert_eq!(
        server.sql("START REPLICA FOR CHANNEL 'x'").error_number(),
        Some(1064)
    );
    assert_eq!(
        server
            .sql("START REPLICA UNTIL SQL_AFTER_GTIDS = 'x'")
            .error_number(),
        Some(1235)
    );
    assert_eq!(
        server
            .sql("START REPLICA UNTIL SOURCE_LOG_FILE = 'x'")
            .error_number(),
        Some(1277)
    );
    assert_eq!(
        server
            .sql("CHANGE REPLICATION SOURCE TO SOURCE_BIND = 'x'")
            .error_number(),
        Some(1235)
    );
    assert_eq!(
        server
            .sql("CHANGE MASTER TO MASTER_PORT = 'x'")
            .error_number(),
        Some(1231)
    );
}
