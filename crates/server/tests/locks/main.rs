//! Waits for row locks through the running server: how they are reported, and how they end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod deadlocks;
mod endings;
mod fairness;
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../system/support/mod.rs"]
mod support;

use porpoise_testkit::{Porpoise, wait_until};
use std::time::Duration;
use support::{Sql, server};

/// A server with a table `h.t (id, a)` of rows 1, 2 and 3, reachable as `t:1`, ...
fn start() -> (Porpoise, Sql) {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(
        "CREATE DATABASE h; USE h; CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL); \
         INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)",
    );
    support::map_prefix(&mut sql, "t:", ("h", "t"), ("id", "a"));
    (server, sql)
}

fn session(server: &Porpoise) -> Sql {
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("USE h");
    sql
}

/// Waits until this number of transactions waits for locks.
fn await_waits(sql: &mut Sql, count: i64) {
    let reached = wait_until(Duration::from_secs(20), || {
        let waits = sql.number("SELECT COUNT(DISTINCT TRX_ID) FROM information_schema.LOCK_WAITS");
        (waits == count).then_some(())
    });
    assert!(reached.is_some(), "{count} waits");
}
