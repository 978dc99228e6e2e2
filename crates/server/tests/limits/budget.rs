//! The memory budget of statements and connections: beyond a limit a statement gets an error, the
//! next one works, and everything is returned; clients that do not read cost a bounded amount.

use crate::metric;
use crate::support::{Cache, Failure, Sql, server};
use porpoise_testkit::{Porpoise, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A server with 20,000 rows of 200 bytes in `d.t`.
fn start() -> (Porpoise, Sql) {
    let server = server().arg("--statement-memory", "64M").start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(250), n INT); \
         SET cte_max_recursion_depth = 100000; \
         INSERT INTO d.t WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < \
         20000) SELECT n, CONCAT(REPEAT('x', 200), n), n FROM c",
    );
    (server, sql)
}

fn code(sql: &mut Sql, text: &str) -> u16 {
    match sql.attempt(text) {
        Ok(_) => 0,
        Err(Failure::Refused(error)) => error.code,
        Err(gone) => panic!("{text}: {gone}"),
    }
}

/// Asserts that no statement memory is charged when no statement is running.
fn assert_returned(server: &Porpoise, after: &str) {
    let held = metric(server, "porpoise_client_memory_statement_bytes");
    assert_eq!(held, 0, "still held after {after}");
}

fn resident(server: &Porpoise) -> u64 {
    metric(server, "process_resident_memory_bytes")
}

/// Statements whose operators keep more than 1 MiB of `d.t`, in temporary files.
const SPILLING: &[&str] = &[
    "SELECT v FROM d.t ORDER BY v",
    "SELECT DISTINCT v FROM d.t",
    "SELECT v, COUNT(*) FROM d.t GROUP BY v",
    "SELECT COUNT(*) FROM d.t a JOIN d.t b ON a.v = b.v",
    "SELECT COUNT(*) FROM (SELECT v FROM d.t UNION SELECT CONCAT(v, 'y') FROM d.t) u",
    "SELECT COUNT(*) FROM (SELECT v FROM d.t LIMIT 18446744073709551615) u",
];

/// Statements that hold more than 1 MiB of `d.t`.
const LARGE: &[&str] = &[
    "SELECT COUNT(DISTINCT v) FROM d.t",
    "SELECT COUNT(*) FROM (SELECT v FROM d.t EXCEPT SELECT CONCAT(v, 'y') FROM d.t) u",
    "WITH RECURSIVE c AS (SELECT 1 AS n, REPEAT('x', 200) AS s UNION ALL SELECT n + 1, s FROM c \
     WHERE n < 20000) SELECT COUNT(*) FROM c",
    "WITH RECURSIVE c AS (SELECT 1 AS n, REPEAT('x', 200) AS s UNION SELECT n + 1, s FROM c \
     WHERE n < 20000) SELECT COUNT(*) FROM c",
    "SELECT LENGTH(JSON_ARRAYAGG(v)) FROM d.t",
    "SELECT LENGTH(GROUP_CONCAT(v)) FROM d.t",
    "SELECT COUNT(*) FROM d.t WHERE v IN (SELECT CONCAT(v, '') FROM d.t WHERE id > 0 ORDER BY n)",
    "SELECT LENGTH(CONCAT(REPEAT('a', 2000000), 'b'))",
];

#[test]
fn statements_beyond_their_memory_limit_fail_and_release_memory() {
    let (server, mut sql) = start();
    sql.run("SET group_concat_max_len = 100000000");
    let before = metric(&server, "porpoise_client_memory_refused_statement_total");
    for statement in SPILLING {
        sql.run("SET statement_memory_limit = 1048576");
        assert_eq!(code(&mut sql, statement), 0, "{statement}");
        assert_returned(&server, statement);
    }
    for statement in LARGE {
        sql.run("SET statement_memory_limit = 1048576");
        assert_eq!(code(&mut sql, statement), 1038, "{statement}");
        assert_returned(&server, statement);
        sql.run("SET statement_memory_limit = 1073741824");
        assert_eq!(code(&mut sql, statement), 0, "{statement}");
        assert_returned(&server, statement);
    }
    let refused = metric(&server, "porpoise_client_memory_refused_statement_total") - before;
    assert!(refused >= LARGE.len() as u64, "{refused}");
}

/// Searches that hold more than 1 MiB of `d.doc`.
const SEARCHES: &[&str] = &[
    "SELECT COUNT(*) FROM d.doc WHERE MATCH (s) AGAINST ('fox')",
    "SELECT COUNT(*) FROM d.doc WHERE MATCH (s) AGAINST ('+fo* -dog' IN BOOLEAN MODE)",
    "SELECT COUNT(*) FROM d.doc WHERE MATCH (s) AGAINST ('\"quick fox\"' IN BOOLEAN MODE)",
    "SELECT id FROM d.doc ORDER BY MATCH (s) AGAINST ('fox' WITH QUERY EXPANSION) LIMIT 1",
];

#[test]
fn searches_beyond_their_memory_limit_fail_and_release_memory() {
    let (server, mut sql) = start();
    sql.run(
        "CREATE TABLE d.doc (id INT PRIMARY KEY, s VARCHAR(100), FULLTEXT KEY (s)); \
         INSERT INTO d.doc SELECT id, CONCAT('quick fox ', n % 100 + 1000) FROM d.t; \
         INSERT INTO d.doc SELECT id + 50000, 'quick fox' FROM d.t",
    );
    for _ in 0..2 {
        for search in SEARCHES {
            sql.run("SET statement_memory_limit = 1048576");
            assert_eq!(code(&mut sql, search), 1038, "{search}");
            assert_returned(&server, search);
            assert_eq!(
                sql.number("SELECT MATCH (s) AGAINST ('1007') > 0 FROM d.doc WHERE id = 7"),
                1
            );
            assert_returned(&server, "a small search");
            sql.run("SET statement_memory_limit = 1073741824");
            assert_eq!(code(&mut sql, search), 0, "{search}");
            assert_returned(&server, search);
        }
        // The same from blocks.
        sql.run("OPTIMIZE TABLE d.doc");
    }
}

#[test]
fn limits_of_connections_and_the_server_are_settable_and_enforced() {
    let (server, mut sql) = start();
    let set = "SELECT COUNT(DISTINCT v) FROM d.t";
    sql.run("SET connection_memory_limit = 2097152");
    assert_eq!(code(&mut sql, set), 4082);
    assert_eq!(code(&mut sql, "SELECT v FROM d.t ORDER BY v"), 0);
    assert_eq!(sql.number("SELECT 1"), 1);
    sql.run("SET connection_memory_limit = DEFAULT");
    let mut other = Sql::connect(server.mysql_addr);
    assert_eq!(code(&mut other, set), 0);
    // Sets of 64-fold rows do not fit into 64 MiB.
    let large =
        "SELECT COUNT(DISTINCT CONCAT(t.v, s.id)) FROM d.t, (SELECT id FROM d.t LIMIT 64) s";
    assert_eq!(code(&mut sql, large), 4081);
    assert_returned(&server, large);
    assert_eq!(code(&mut sql, set), 0);
    sql.run("SET GLOBAL global_connection_memory_limit = 268435456");
    let limit = metric(&server, "porpoise_client_memory_limit_bytes");
    assert_eq!(limit, 256 * MIB);
    let shown = sql.number("SELECT @@GLOBAL.global_connection_memory_limit");
    assert_eq!(shown as u64, limit);
    let shown = sql.rows("SHOW STATUS LIKE 'Global_connection_memory'");
    assert!(shown[0][1].parse::<u64>().unwrap() < 64 * MIB, "{shown:?}");
}

#[test]
fn a_user_variable_that_doubles_is_bounded() {
    let (server, mut sql) = start();
    sql.run("SET connection_memory_limit = 8388608; SET @a = REPEAT('a', 1024)");
    let mut codes = (0..24).map(|_| code(&mut sql, "SET @a = CONCAT(@a, @a)"));
    assert!(codes.any(|code| code == 4082));
    assert!(sql.number("SELECT LENGTH(@a)") < 8_388_608);
    assert_eq!(
        code(
            &mut sql,
            "SELECT @b := CONCAT(@a, @a, @a, @a, @a, @a, @a, @a)"
        ),
        4082
    );
    assert_returned(&server, "user variables");
    sql.run("SET @a = NULL");
    assert_eq!(code(&mut sql, "SET @a = REPEAT('a', 1000000)"), 0);
    drop(sql);
    let empty = wait_until(Duration::from_secs(10), || {
        (metric(&server, "porpoise_client_memory_session_bytes") == 0).then_some(())
    });
    assert!(empty.is_some(), "a closed session holds memory");
}

#[test]
fn prepared_statements_are_counted_over_all_sessions() {
    let (server, mut sql) = start();
    sql.run("SET GLOBAL max_prepared_stmt_count = 50");
    let mut other = Sql::connect(server.mysql_addr);
    for n in 0..25 {
        sql.run(&format!("PREPARE s{n} FROM 'SELECT {n}'"));
        other.run(&format!("PREPARE s{n} FROM 'SELECT {n}'"));
    }
    assert_eq!(code(&mut sql, "PREPARE s FROM 'SELECT 1'"), 1461);
    sql.run("DEALLOCATE PREPARE s0; PREPARE s FROM 'SELECT 1'");
    drop(other);
    let freed = wait_until(Duration::from_secs(10), || {
        (metric(&server, "porpoise_prepared_statements") == 25).then_some(())
    });
    assert!(
        freed.is_some(),
        "statements of a closed session are counted"
    );
    // Many long ones end at the budget.
    sql.run("SET GLOBAL max_prepared_stmt_count = 10000; SET connection_memory_limit = 8388608");
    let long = "x".repeat(20_000);
    let flood = (0..200).map(|n| code(&mut sql, &format!("PREPARE l{n} FROM 'SELECT \"{long}\"'")));
    assert!(flood.into_iter().any(|code| code == 4082));
    assert_eq!(sql.number("SELECT 1"), 1);
}

/// Checks the server while clients do not read: memory grows by less than a number of bytes, and
/// other clients are served.
fn watch(server: &Porpoise, before: u64, bound: u64) {
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        let now = resident(server);
        assert!(
            now < before + bound,
            "{now} bytes resident, {before} before"
        );
        let mut sql = Sql::connect(server.mysql_addr);
        assert_eq!(sql.number("SELECT n FROM d.t WHERE id = 7"), 7);
        let mut cache = Cache::connect(server.memcached_addr);
        assert_eq!(cache.get("none"), None);
    }
}

#[test]
fn clients_that_never_read_hold_a_bounded_amount() {
    let (server, _sql) = start();
    let before = resident(&server);
    let mut clients: Vec<Sql> = (0..120).map(|_| Sql::connect(server.mysql_addr)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        // Some stream, some keep the whole result, some hold large values.
        let text = match n % 3 {
            0 => "SELECT a.* FROM d.t a, (SELECT id FROM d.t LIMIT 10) b",
            1 => "SELECT * FROM d.t FOR SHARE",
            _ => "SELECT REPEAT('a', 8000000), id FROM d.t LIMIT 3",
        };
        assert!(client.send(text));
    }
    watch(&server, before, 400 * MIB);
    assert!(metric(&server, "porpoise_client_memory_peak_bytes") > 16 * MIB);
    drop(clients);
    let empty = wait_until(Duration::from_secs(20), || {
        (metric(&server, "porpoise_client_memory_output_bytes") == 0).then_some(())
    });
    assert!(empty.is_some(), "output of closed connections is counted");
    assert_returned(&server, "clients that do not read");
}

#[test]
fn values_that_no_client_reads_are_bounded() {
    let (server, _sql) = start();
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.set("k", &"v".repeat(500_000)), "STORED");
    let before = resident(&server);
    let request = format!("get{}\r\n", " k".repeat(100));
    let clients: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut client = TcpStream::connect(server.memcached_addr).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            client
        })
        .collect();
    watch(&server, before, 250 * MIB);
    drop(clients);
}

#[test]
fn requests_that_never_end_are_bounded() {
    let (server, _sql) = start();
    let before = resident(&server);
    let mut clients: Vec<Sql> = (0..30).map(|_| Sql::connect(server.mysql_addr)).collect();
    // Each says that 16 MB follow, and sends 6.
    let mut packet = vec![0xff, 0xff, 0xfe, 0, 3];
    packet.resize(6_000_000, b' ');
    std::thread::scope(|scope| {
        for client in &mut clients {
            // Those for which there is no memory are cut off.
            let packet = &packet;
            scope.spawn(move || client.send_bytes(packet));
        }
    });
    watch(&server, before, 200 * MIB);
    assert!(metric(&server, "porpoise_client_memory_refused_server_total") > 0);
    drop(clients);
    let empty = wait_until(Duration::from_secs(20), || {
        (metric(&server, "porpoise_client_memory_input_bytes") == 0).then_some(())
    });
    assert!(empty.is_some(), "input of closed connections is counted");
}
