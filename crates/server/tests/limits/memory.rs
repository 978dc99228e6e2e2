//! The memory limit: writes that need memory are refused with 1114, others continue, and deletions
//! release memory.

use crate::metric;
use crate::support::{Cache, Failure, Sql, server};
use porpoise_testkit::{Porpoise, wait_until};
use std::time::Duration;

/// Fills a table of 1 KiB rows until it is refused; the number of rows.
fn fill(sql: &mut Sql) -> i64 {
    let value = "x".repeat(1000);
    let mut next = sql.number("SELECT COALESCE(MAX(id), 0) FROM d.t") + 1;
    for _ in 0..1_000 {
        let rows: Vec<String> = (next..next + 50)
            .map(|id| format!("({id}, '{value}')"))
            .collect();
        match sql.attempt(&format!("INSERT INTO d.t VALUES {}", rows.join(","))) {
            Ok(_) => next += 50,
            Err(Failure::Refused(error)) => {
                assert_eq!(error.code, 1114, "{}", error.message);
                return sql.number("SELECT COUNT(*) FROM d.t");
            }
            Err(gone) => panic!("{gone}"),
        }
    }
    panic!("50 MB fitted into 16");
}

fn start() -> (Porpoise, Sql) {
    let server = server().arg("--memory-limit", "16M").start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(1000))");
    (server, sql)
}

#[test]
fn a_full_memory_refuses_growth_and_nothing_else() {
    let (server, mut sql) = start();
    let rows = fill(&mut sql);
    assert!(rows > 5_000, "{rows}");
    // Readers, the other protocol and new sessions continue.
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.get("none"), None);
    let long = "y".repeat(1_000);
    let mut refused = None;
    for n in 0..200 {
        let reply = cache.set(&format!("k{n}"), &long);
        if reply != "STORED" {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("memcached is refused, too");
    assert!(refused.starts_with("SERVER_ERROR"), "{refused}");
    let mut other = Sql::connect(server.mysql_addr);
    assert_eq!(other.number("SELECT COUNT(*) FROM d.t"), rows);
    // A transaction that was refused a write is there still, and can be ended either way.
    other.run("BEGIN; DELETE FROM d.t WHERE id = 1");
    let mut growing = |id: i64| {
        let insert = format!("INSERT INTO d.t VALUES ({id}, REPEAT('z', 1000))");
        other.attempt(&insert)
    };
    let failed = (0..500).find_map(|n| growing(1_000_000 + n).err());
    match failed {
        Some(Failure::Refused(error)) => assert_eq!(error.code, 1114),
        other => panic!("{other:?}"),
    }
    other.run("ROLLBACK");
    assert_eq!(other.number("SELECT COUNT(*) FROM d.t"), rows);
    // Deletions make room.
    sql.run(&format!("DELETE FROM d.t WHERE id > {}", rows / 2));
    let again = wait_until(Duration::from_secs(30), || {
        let inserted = sql.attempt("INSERT INTO d.t VALUES (2000000, REPEAT('z', 1000))");
        inserted.is_ok().then_some(())
    });
    assert!(again.is_some(), "no room after a deletion");
    assert!(fill(&mut sql) > rows / 2);
}

/// A snapshot that holds back old versions at the limit is ended, so that writers are not refused
/// for ever; its transaction gets an error, those of others go on.
#[test]
fn at_the_limit_the_oldest_snapshot_makes_room() {
    let (server, mut sql) = start();
    let rows: Vec<String> = (1..=5_000)
        .map(|id| format!("({id}, REPEAT('a', 1000))"))
        .collect();
    for some in rows.chunks(500) {
        sql.run(&format!("INSERT INTO d.t VALUES {}", some.join(",")));
    }
    let mut old = Sql::connect(server.mysql_addr);
    old.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    old.run("UPDATE d.t SET v = 'own' WHERE id = 5000");
    let letters = "SELECT COUNT(*) FROM d.t WHERE v LIKE 'a%'";
    assert_eq!(old.number(letters), 4_999);
    // Each update leaves a version that the snapshot needs, until nothing more fits.
    for first in (1..4_750).step_by(250) {
        let range = format!("id BETWEEN {first} AND {}", first + 249);
        sql.run(&format!(
            "UPDATE d.t SET v = REPEAT('b', 1000) WHERE {range}"
        ));
    }
    let value = "f".repeat(1_000);
    let mut next = 100_000;
    let done = wait_until(Duration::from_secs(60), || {
        let rows: Vec<String> = (next..next + 50)
            .map(|id| format!("({id}, '{value}')"))
            .collect();
        match sql.attempt(&format!("INSERT INTO d.t VALUES {}", rows.join(","))) {
            Ok(_) => next += 50,
            Err(Failure::Refused(error)) => assert_eq!(error.code, 1114, "{}", error.message),
            Err(gone) => panic!("{gone}"),
        }
        let ended = metric(&server, "porpoise_engine_snapshots_ended_total");
        (ended > 0).then_some(())
    });
    assert!(done.is_some(), "no snapshot was ended");
    let again = wait_until(Duration::from_secs(30), || {
        let inserted = sql.attempt("INSERT INTO d.t VALUES (2000000, REPEAT('z', 1000))");
        inserted.is_ok().then_some(())
    });
    assert!(again.is_some(), "no room after a snapshot was ended");
    let error = old.refused(letters);
    assert_eq!(error.code, 1213, "{}", error.message);
    assert!(
        error.message.contains("(snapshot no longer available)"),
        "{}",
        error.message
    );
    // The transaction is over, its change rolled back, its lock released; the session continues.
    assert_eq!(old.number("SELECT COUNT(*) FROM d.t WHERE v = 'own'"), 0);
    sql.run("DELETE FROM d.t WHERE id = 5000");
}

#[test]
fn a_start_with_more_than_the_limit_reads_and_deletes() {
    let (mut server, mut sql) = start();
    let rows = fill(&mut sql);
    drop(sql);
    server.reconfigure(|b| b.arg("--memory-limit", "8M"));
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.number("SELECT COUNT(*) FROM d.t"), rows);
    assert_eq!(sql.number("SELECT LENGTH(v) FROM d.t WHERE id = 7"), 1_000);
    let grows = "INSERT INTO d.t VALUES (1000000, REPEAT('z', 1000))";
    assert_eq!(sql.refused(grows).code, 1114);
    sql.run("DELETE FROM d.t WHERE id > 100");
    let again = wait_until(Duration::from_secs(30), || {
        sql.attempt(grows).is_ok().then_some(())
    });
    assert!(again.is_some(), "no room after a deletion");
    assert!(metric(&server, "porpoise_engine_live_bytes") < 8 << 20);
}
