//! Stored programs that would run for ever, or keep much: they end by KILL and by limits of time,
//! and their memory is bounded.

use crate::metric;
use crate::support::{Sql, server};
use porpoise_testkit::{Porpoise, wait_until};
use std::time::{Duration, Instant};

/// Time within which a program ends that was told to.
const SOON: Duration = Duration::from_millis(100);

/// Number of attempts: on a busy machine one of them may take longer.
const ATTEMPTS: usize = 5;

fn start(definitions: &[&str]) -> (Porpoise, Sql) {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE d; USE d");
    for definition in definitions {
        sql.run(definition);
    }
    (server, sql)
}

/// Time from KILL QUERY to the end of a call.
fn killed(server: &Porpoise, sql: &mut Sql, call: &str) -> Duration {
    let id = sql.number("SELECT CONNECTION_ID()");
    let mut other = Sql::connect(server.mysql_addr);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let code = sql.refused(call).code;
            (code, Instant::now())
        });
        std::thread::sleep(Duration::from_millis(150));
        let since = Instant::now();
        other.run(&format!("KILL QUERY {id}"));
        let (code, ended) = running.join().unwrap();
        assert_eq!(code, 1317, "{call}");
        ended.saturating_duration_since(since)
    })
}

#[test]
fn endless_programs_end_soon_by_kill_and_by_a_time_limit() {
    let (server, mut sql) = start(&[
        "CREATE TABLE t (n INT)",
        "CREATE PROCEDURE empty_loop() BEGIN l: LOOP BEGIN END; END LOOP; END",
        "CREATE PROCEDURE handled() BEGIN \
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
         WHILE TRUE DO INSERT INTO nowhere VALUES (1); END WHILE; END",
        "CREATE PROCEDURE cursors() BEGIN DECLARE v INT; \
         DECLARE c CURSOR FOR SELECT 1; \
         WHILE TRUE DO OPEN c; FETCH c INTO v; CLOSE c; END WHILE; END",
        "CREATE FUNCTION endless() RETURNS INT BEGIN DECLARE i BIGINT DEFAULT 0; \
         WHILE TRUE DO SET i = i + 1; END WHILE; RETURN i; END",
        "CREATE TRIGGER loops BEFORE INSERT ON t FOR EACH ROW \
         BEGIN WHILE TRUE DO SET @x = 1; END WHILE; END",
    ]);
    for call in [
        "CALL empty_loop()",
        "CALL handled()",
        "CALL cursors()",
        "SELECT endless()",
        "INSERT INTO t VALUES (1)",
    ] {
        let mut attempts = (0..ATTEMPTS).map(|_| killed(&server, &mut sql, call));
        assert!(attempts.any(|took| took < SOON), "{call} does not end soon");
    }
    sql.run("SET max_execution_time = 150");
    let mut attempts = (0..ATTEMPTS).map(|_| {
        let since = Instant::now();
        assert_eq!(sql.refused("SELECT endless()").code, 3024);
        since.elapsed()
    });
    let most = Duration::from_millis(150) + SOON;
    assert!(attempts.any(|took| took < most), "the limit is exceeded");
}

#[test]
fn programs_that_call_themselves_end() {
    let (_server, mut sql) = start(&[
        "CREATE TABLE a (n INT)",
        "CREATE TABLE b (n INT)",
        "CREATE PROCEDURE insert_a(n INT) INSERT INTO a VALUES (n)",
        "CREATE TRIGGER of_a AFTER INSERT ON a FOR EACH ROW INSERT INTO b VALUES (NEW.n)",
        "CREATE TRIGGER of_b AFTER INSERT ON b FOR EACH ROW CALL insert_a(NEW.n + 1)",
        "CREATE PROCEDURE down(n INT) CALL down(n + 1)",
        "CREATE FUNCTION again(n INT) RETURNS INT RETURN again(n + 1)",
    ]);
    assert_eq!(sql.refused("INSERT INTO a VALUES (1)").code, 1442);
    assert_eq!(
        sql.rows("SELECT * FROM a UNION ALL SELECT * FROM b").len(),
        0
    );
    assert_eq!(sql.refused("CALL down(1)").code, 1456);
    sql.run("SET max_sp_recursion_depth = 255");
    assert!(matches!(sql.refused("CALL down(1)").code, 1436 | 1456));
    assert_eq!(sql.refused("SELECT again(1)").code, 1424);
    assert_eq!(sql.number("SELECT COUNT(*) FROM a"), 0);
}

#[test]
fn a_cursor_over_a_million_rows_takes_little_memory() {
    let (server, mut sql) = start(&[
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        "INSERT INTO numbers WITH RECURSIVE c AS (SELECT 0 AS n UNION ALL \
         SELECT n + 1 FROM c WHERE n < 999) SELECT n FROM c",
        "CREATE PROCEDURE walk() BEGIN DECLARE v INT; DECLARE word VARCHAR(100); \
         DECLARE total BIGINT DEFAULT 0; DECLARE done BOOL DEFAULT FALSE; \
         DECLARE c CURSOR FOR SELECT a.n * 1000 + b.n, REPEAT('x', 50) FROM numbers a, numbers b; \
         DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE; OPEN c; \
         l: LOOP FETCH c INTO v, word; IF done THEN LEAVE l; END IF; \
         SET total = total + v; END LOOP; SET @total = total; END",
    ]);
    let before = metric(&server, "porpoise_temporary_files_total");
    sql.run("CALL walk()");
    assert_eq!(sql.number("SELECT @total"), 499_999_500_000);
    let after = metric(&server, "porpoise_temporary_files_total");
    assert!(after > before, "the rows are not in a file");
    let peak = metric(&server, "porpoise_client_memory_peak_bytes");
    assert!(peak < 64 << 20, "{peak} bytes");
    let released = wait_until(Duration::from_secs(5), || {
        (metric(&server, "porpoise_temporary_file_bytes") == 0).then_some(())
    });
    assert!(released.is_some(), "the file of a closed cursor is left");
}
