//! A full disk, and one that fails to sync, through both protocols; state after a restart.

use crate::metric;
use crate::support::{Cache, Failure, Sql, server};
use porpoise_testkit::Porpoise;
use std::collections::BTreeSet;

fn start(fault: &str) -> Porpoise {
    let mut server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(10000))");
    drop(sql);
    server.reconfigure(|b| b.disk_faults(fault));
    server.restart();
    server
}

/// Inserts rows until one is refused: those acknowledged, and the refusal.
fn insert_until_refused(sql: &mut Sql, from: i64, size: usize) -> (BTreeSet<i64>, u16) {
    let mut acknowledged = BTreeSet::new();
    for id in from..from + 50_000 {
        let insert = format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', {size}))");
        match sql.attempt(&insert) {
            Ok(_) => acknowledged.insert(id),
            Err(Failure::Refused(error)) => return (acknowledged, error.code),
            Err(gone) => panic!("{gone}"),
        };
    }
    panic!("nothing was refused");
}

fn ids(sql: &mut Sql) -> BTreeSet<i64> {
    let rows = sql.numbers("SELECT id FROM d.t").into_iter();
    rows.map(|row| row[0]).collect()
}

#[test]
fn a_failed_sync_refuses_writes_of_both_protocols_and_reads_go_on() {
    let mut server = start("fail_sync_at=60");
    let mut sql = Sql::connect(server.mysql_addr);
    let (acknowledged, code) = insert_until_refused(&mut sql, 1, 10);
    assert_eq!(
        code, 1180,
        "the outcome of the commit that waited is unknown"
    );
    // From then on nothing is accepted, and what was acknowledged is read.
    let mut other = Sql::connect(server.mysql_addr);
    assert_eq!(
        other.refused("INSERT INTO d.t VALUES (100000, 'x')").code,
        1836
    );
    assert_eq!(other.refused("CREATE TABLE d.u (a INT)").code, 1836);
    assert_eq!(ids(&mut other), acknowledged);
    let mut cache = Cache::connect(server.memcached_addr);
    let reply = cache.set("k", "v");
    assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
    assert_eq!(cache.get("k"), None);
    assert_eq!(metric(&server, "porpoise_engine_read_only"), 1);
    // After a restart on a working disk: all that was acknowledged, perhaps the unknown one.
    server.reconfigure(|b| b.disk_faults("seed=0"));
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    let found = ids(&mut sql);
    assert!(found.is_superset(&acknowledged));
    assert!(found.len() <= acknowledged.len() + 1, "{found:?}");
    sql.run("INSERT INTO d.t VALUES (100000, 'x')");
}

#[test]
fn a_full_disk_refuses_writes_without_losing_any() {
    let mut server = start("room=100000000");
    let mut sql = Sql::connect(server.mysql_addr);
    let (acknowledged, code) = insert_until_refused(&mut sql, 1, 9_000);
    assert_eq!(code, 1114);
    let mut other = Sql::connect(server.mysql_addr);
    assert_eq!(ids(&mut other), acknowledged);
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.get("k"), None);
    server.reconfigure(|b| b.disk_faults("seed=0"));
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(ids(&mut sql), acknowledged);
    let inserted = sql.run("INSERT INTO d.t VALUES (100000, 'x')");
    assert_eq!(inserted.affected, 1);
}
