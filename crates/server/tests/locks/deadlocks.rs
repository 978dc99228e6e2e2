//! Deadlock reports, with the statements of both transactions.

use crate::support::{Cache, Failure};
use crate::{await_waits, session, start};

fn id(sql: &mut crate::support::Sql) -> String {
    sql.number("SELECT CONNECTION_ID()").to_string()
}

/// Checks the views that show a wait: session `a` waits for row 2 of `h.t`, which session `b` has locked.
fn check_lock_views(sql: &mut crate::support::Sql, a: &str, b: &str) {
    let wait = sql.rows(
        "SELECT locked_table, locked_index, waiting_pid, waiting_query, blocking_pid, blocking_query, \
         sql_kill_blocking_query, sql_kill_blocking_connection, wait_age_secs < 20, \
         waiting_trx_age >= 0, blocking_trx_started <= NOW(6) FROM sys.innodb_lock_waits",
    );
    let (query, connection) = (format!("KILL QUERY {b}"), format!("KILL {b}"));
    let statement = "UPDATE `t` SET `a` = ? WHERE `id` = ?";
    let expected = [
        "`h`.`t`",
        "PRIMARY",
        a,
        statement,
        b,
        "NULL",
        &query,
        &connection,
        "1",
        "1",
        "1",
    ];
    assert_eq!(wait, [expected]);
    let locks = sql.rows(
        "SELECT THREAD_ID, OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, LOCK_MODE, LOCK_STATUS, LOCK_DATA \
         FROM performance_schema.data_locks ORDER BY LOCK_STATUS DESC",
    );
    let expected = [
        [a, "h", "t", "PRIMARY", "X,REC_NOT_GAP", "WAITING", "2"],
        [b, "h", "t", "PRIMARY", "NULL", "GRANTED", "2"],
    ];
    assert_eq!(locks, expected);
    let joined = sql.rows(
        "SELECT w.REQUESTING_THREAD_ID, w.BLOCKING_THREAD_ID FROM performance_schema.data_lock_waits w \
         JOIN performance_schema.data_locks l ON l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID",
    );
    assert_eq!(joined, [[a, b]]);
}

#[test]
fn a_deadlock_report_has_both_statements_and_their_locks() {
    let (server, mut sql) = start();
    let (mut a, mut b) = (session(&server), session(&server));
    let (a_id, b_id) = (id(&mut a), id(&mut b));
    a.run("BEGIN; UPDATE t SET a = 1 WHERE id = 1");
    b.run("BEGIN; UPDATE t SET a = 2 WHERE id = 2");
    let waiting = std::thread::spawn(move || {
        a.run("UPDATE t SET a = 3 WHERE id = 2");
        a.run("COMMIT");
    });
    await_waits(&mut sql, 1);
    let wait = sql.rows(
        "SELECT THREAD, QUERY, LOCK_SCHEMA, LOCK_TABLE, LOCK_INDEX, LOCK_KEY, LOCK_MODE, \
         BLOCKING_THREAD, BLOCKING_QUERY, BLOCKING_USER FROM information_schema.LOCK_WAITS",
    );
    let statement = "UPDATE t SET a = 3 WHERE id = 2";
    let expected = [
        &a_id, statement, "h", "t", "PRIMARY", "2", "UPDATE", &b_id, "NULL", "root",
    ];
    assert_eq!(wait, [expected]);
    check_lock_views(&mut sql, &a_id, &b_id);
    let error = b.refused("UPDATE t SET a = 4 WHERE id = 1");
    assert_eq!(error.code, 1213);
    waiting.join().unwrap();
    let rows = sql.rows(
        "SELECT DEADLOCK, VICTIM, THREAD, DB, QUERY, LOCK_KEY, LOCK_MODE, BLOCKING_THREAD \
         FROM information_schema.DEADLOCKS ORDER BY VICTIM DESC",
    );
    let other = "UPDATE t SET a = 4 WHERE id = 1";
    assert_eq!(
        rows,
        [
            ["1", "YES", &b_id, "h", other, "1", "UPDATE", &a_id],
            ["1", "NO", &a_id, "h", statement, "2", "UPDATE", &b_id],
        ]
    );
    let status = sql.rows("SHOW ENGINE INNODB STATUS").remove(0).remove(2);
    for part in [
        "LATEST DETECTED DEADLOCK",
        statement,
        other,
        "index PRIMARY of table `h`.`t` lock mode UPDATE key (1)",
        "WE ROLL BACK TRANSACTION (1)",
    ] {
        assert!(status.contains(part), "{part} in:\n{status}");
    }
}

#[test]
fn a_cycle_of_three_transactions_with_foreign_keys_is_described() {
    let (server, mut sql) = start();
    sql.run(
        "CREATE TABLE c (n INT PRIMARY KEY, t INT, name VARCHAR(9) COLLATE utf8mb4_general_ci, \
         UNIQUE KEY by_name (name), FOREIGN KEY (t) REFERENCES t (id)); \
         INSERT INTO c VALUES (1, 3, 'x')",
    );
    let mut sessions = [(); 3].map(|()| session(&server));
    let [a, b, c] = &mut sessions;
    a.run("BEGIN; DELETE FROM t WHERE id = 1");
    // The first has done least, and is the victim.
    b.run("BEGIN; SELECT * FROM t WHERE id = 2 FOR SHARE");
    b.run("INSERT INTO c VALUES (8, 3, 'p'), (9, 3, 'q')");
    c.run("BEGIN; UPDATE c SET n = 2 WHERE name = 'x'");
    std::thread::scope(|scope| {
        let child = scope.spawn(|| {
            let inserted = b.attempt("INSERT INTO c VALUES (3, 1, 'y')");
            b.run("ROLLBACK");
            inserted
        });
        await_waits(&mut sql, 1);
        let delete = scope.spawn(|| c.attempt("DELETE FROM t WHERE id = 2"));
        await_waits(&mut sql, 2);
        let error = a.refused("UPDATE c SET t = 2 WHERE name = 'x'");
        assert_eq!(error.code, 1213);
        // The child's parent exists again, so its insert continues; the lock on the parent is still awaited.
        child.join().unwrap().unwrap();
        delete.join().unwrap().unwrap();
    });
    let rows = sql.rows("SELECT QUERY, LOCK_TABLE, LOCK_MODE FROM information_schema.DEADLOCKS");
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[0][..2], ["UPDATE c SET t = 2 WHERE name = 'x'", "c"]);
    assert_eq!(rows[1], ["DELETE FROM t WHERE id = 2", "t", "EXCLUSIVE"]);
    assert_eq!(
        rows[2],
        ["INSERT INTO c VALUES (3, 1, 'y')", "t", "KEY SHARE"]
    );
}

/// The victim is a waiting session, and the one that closed the cycle continues.
#[test]
fn the_session_with_the_least_work_is_the_victim() {
    let (server, mut sql) = start();
    let (mut a, mut b) = (session(&server), session(&server));
    let (a_id, b_id) = (id(&mut a), id(&mut b));
    a.run("BEGIN; UPDATE t SET a = 1 WHERE id = 1");
    b.run("BEGIN; UPDATE t SET a = 2 WHERE id = 2; UPDATE t SET a = 2 WHERE id = 3");
    let waiting = std::thread::spawn(move || {
        let error = a.refused("UPDATE t SET a = 3 WHERE id = 2");
        (error.code, a)
    });
    await_waits(&mut sql, 1);
    b.run("UPDATE t SET a = 4 WHERE id = 1");
    let (code, mut a) = waiting.join().unwrap();
    assert_eq!(code, 1213);
    // Its transaction is over: what it runs now commits by itself.
    b.run("COMMIT");
    a.run("UPDATE t SET a = a + 10 WHERE id = 1");
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 1"), 14);
    let rows = sql.rows(
        "SELECT DEADLOCK, VICTIM, THREAD, QUERY, LOCK_KEY, BLOCKING_THREAD \
         FROM information_schema.DEADLOCKS ORDER BY VICTIM DESC",
    );
    let (light, heavy) = (
        "UPDATE t SET a = 3 WHERE id = 2",
        "UPDATE t SET a = 4 WHERE id = 1",
    );
    assert_eq!(
        rows,
        [
            ["1", "YES", &a_id, light, "2", &b_id],
            ["1", "NO", &b_id, heavy, "1", &a_id],
        ]
    );
    let status = sql.rows("SHOW ENGINE INNODB STATUS").remove(0).remove(2);
    let place = |text: &str| status.find(text).unwrap();
    assert!(place("*** (1) TRANSACTION:") < place(light), "{status}");
    assert!(place(light) < place("*** (2) TRANSACTION:"), "{status}");
    assert!(place("*** (2) TRANSACTION:") < place(heavy), "{status}");
    assert!(status.contains("WE ROLL BACK TRANSACTION (1)"), "{status}");
}

#[test]
fn only_the_last_deadlocks_are_kept() {
    let (server, mut sql) = start();
    for _ in 0..70 {
        let (mut a, mut b) = (session(&server), session(&server));
        a.run("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE");
        b.run("BEGIN; SELECT * FROM t WHERE id = 2 FOR UPDATE");
        std::thread::scope(|scope| {
            let one = scope.spawn(move || {
                let done = a.attempt("SELECT * FROM t WHERE id = 2 FOR UPDATE");
                let over = a.attempt("ROLLBACK");
                done.and(over)
            });
            let two = b.attempt("SELECT * FROM t WHERE id = 1 FOR UPDATE");
            b.run("ROLLBACK");
            let failed = [one.join().unwrap(), two]
                .into_iter()
                .filter_map(Result::err);
            let codes: Vec<u16> = failed
                .map(|failure| match failure {
                    Failure::Refused(error) => error.code,
                    Failure::Gone(error) => panic!("{error}"),
                })
                .collect();
            assert_eq!(codes, [1213]);
        });
    }
    let kept = sql.numbers(
        "SELECT COUNT(DISTINCT DEADLOCK), MIN(DEADLOCK), MAX(DEADLOCK) \
         FROM information_schema.DEADLOCKS",
    );
    assert_eq!(kept, [[64, 7, 70]]);
}

#[test]
fn a_wait_of_memcached_is_shown_without_a_session() {
    let (server, mut sql) = start();
    let mut a = session(&server);
    a.run("BEGIN; UPDATE t SET a = 1 WHERE id = 3");
    let mut cache = Cache::connect(server.memcached_addr);
    let waiting = std::thread::spawn(move || cache.set("t:3", "9"));
    await_waits(&mut sql, 1);
    let wait = sql.rows("SELECT THREAD, LOCK_KEY, BLOCKING_DB FROM information_schema.LOCK_WAITS");
    assert_eq!(wait, [["NULL", "3", "h"]]);
    let status = sql.rows("SHOW ENGINE InnoDB STATUS").remove(0).remove(2);
    assert!(status.contains("not of an SQL session"), "{status}");
    a.run("COMMIT");
    assert_eq!(waiting.join().unwrap(), "STORED");
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 3"), 9);
}

#[test]
fn the_status_of_the_engine_asks_for_a_privilege() {
    let (server, mut sql) = start();
    sql.run("CREATE USER plain IDENTIFIED BY ''");
    let error = sql.refused("SHOW ENGINE memory STATUS");
    assert_eq!(error.code, 1286);
    let mut command = std::process::Command::new("mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "--user=plain"]);
    command.arg(format!("--host={}", server.mysql_addr.ip()));
    command.arg(format!("--port={}", server.mysql_addr.port()));
    command.args(["-e", "SHOW ENGINE INNODB STATUS"]);
    let done = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        stderr.contains("1227") && stderr.contains("PROCESS"),
        "{stderr}"
    );
}
