//! Locks of absent unique keys: READ COMMITTED does not keep them, REPEATABLE READ does.

use crate::common::{ask, connect, good};
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};

/// Locks absent keys in one transaction at this level (SELECT ... FOR UPDATE), and inserts a row with
/// these keys in another session. Returns the number of the INSERT's error; 0 if it succeeds.
fn insert_beside_locked_absent_keys(level: &str) -> u16 {
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    });
    let server = crate::common::server(engine.unwrap());
    let (mut a, mut b) = (connect(&server, 1), connect(&server, 2));
    good(&mut a, "CREATE DATABASE d");
    good(&mut a, "USE d");
    good(&mut b, "USE d");
    good(&mut a, "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)");
    good(
        &mut a,
        &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
    );
    good(&mut b, "SET innodb_lock_wait_timeout = 1");
    good(&mut a, "BEGIN");
    good(&mut a, "SELECT * FROM t WHERE u = 7 FOR UPDATE");
    good(&mut a, "UPDATE t SET u = 9 WHERE id = 1");
    let inserted = ask(&mut b, "INSERT INTO t VALUES (1, 7)");
    inserted.err().map_or(0, |(code, _)| code)
}

#[test]
fn read_committed_keeps_no_lock_of_an_absent_key() {
    assert_eq!(insert_beside_locked_absent_keys("READ COMMITTED"), 0);
}

#[test]
fn repeatable_read_keeps_locks_of_absent_keys() {
    assert_eq!(insert_beside_locked_absent_keys("REPEATABLE READ"), 1205);
}
