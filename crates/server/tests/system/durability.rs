//! Guarantees of each durability mode: all of them serve requests, and a crash loses at most the
//! commits that the mode allows to be lost.

use std::time::Duration;

use porpoise_testkit::Porpoise;

use crate::support::{Cache, Sql, server};

fn start(mode: &str) -> Porpoise {
    server()
        .arg("--durability", mode)
        .arg("--durability-interval", "50ms")
        .start()
}

/// Writes through both protocols; every write is answered.
fn write(server: &Porpoise) {
    let mut sql = Sql::connect(server.mysql_addr);
    let mut cache = Cache::connect(server.memcached_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int auto_increment primary key, v int)");
    for n in 0..50 {
        sql.run(&format!("insert into d.t (v) values ({n})"));
        assert_eq!(cache.set(&format!("k{n}"), "v"), "STORED");
    }
    sql.run("begin");
    sql.run("update d.t set v = v + 1 where id <= 10");
    sql.run("commit");
}

/// Rows of the table, and of the keys.
fn counts(server: &Porpoise) -> (i64, i64) {
    let mut sql = Sql::connect(server.mysql_addr);
    let rows = sql.number("select count(*) from d.t");
    (rows, sql.number("select count(*) from ndbmemcache.kv"))
}

#[test]
fn sync_keeps_what_was_answered() {
    let mut server = start("sync");
    write(&server);
    server.restart();
    assert_eq!(counts(&server), (50, 50));
}

#[test]
fn interval_durability_syncs_ddl_at_once_and_rows_after_the_interval() {
    let mut server = start("interval");
    write(&server);
    std::thread::sleep(Duration::from_millis(500));
    server.restart();
    assert_eq!(counts(&server), (50, 50));
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create table d.late (id int)");
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.number("select count(*) from d.late"), 0);
}

#[test]
fn memory_answers_and_keeps_nothing() {
    let mut server = start("memory");
    write(&server);
    assert_eq!(counts(&server), (50, 50));
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert!(!sql.rows("show databases").contains(&vec!["d".to_owned()]));
    assert_eq!(sql.number("select count(*) from ndbmemcache.kv"), 0);
}
