//! Writers whose state can be checked after a restore to any moment.
//!
//! Each writer appends rows with consecutive numbers to a table, and moves money between accounts in
//! the same transactions. At any moment a writer's rows are 1 to some number, its counter has that
//! number, and the sum of all accounts is what it was.

use crate::support::{ask, good, try_connect};
use porpoise_client::mysql::Connection;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of writers.
pub const WRITERS: usize = 4;

/// Number of accounts, each with 100 at first.
const ACCOUNTS: u64 = 50;

/// Numbers that were acknowledged.
#[derive(Default)]
pub struct Ledger {
    acknowledged: [AtomicU64; WRITERS],
    stop: AtomicBool,
}

/// Creates the tables.
pub fn create(sql: &mut Connection) {
    good(sql, "CREATE DATABASE bank");
    good(
        sql,
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, money INT NOT NULL, CHECK (money > -100000))",
    );
    good(
        sql,
        "CREATE TABLE bank.counters (writer INT PRIMARY KEY, n BIGINT NOT NULL)",
    );
    good(
        sql,
        "CREATE TABLE bank.entries (writer INT NOT NULL, n BIGINT NOT NULL, filler VARCHAR(200), \
         PRIMARY KEY (writer, n), KEY by_n (n), \
         FOREIGN KEY (writer) REFERENCES bank.counters (writer))",
    );
    for id in 0..ACCOUNTS {
        good(
            sql,
            &format!("INSERT INTO bank.accounts VALUES ({id}, 100)"),
        );
    }
    for writer in 0..WRITERS {
        good(
            sql,
            &format!("INSERT INTO bank.counters VALUES ({writer}, 0)"),
        );
    }
}

/// Takes over what a restored server has.
fn numbers(sql: &mut Connection) -> Vec<u64> {
    let rows = good(sql, "SELECT n FROM bank.counters ORDER BY writer");
    rows.iter().map(|n| n.parse().unwrap()).collect()
}

impl Ledger {
    /// A ledger that continues with what a server has.
    pub fn of(sql: &mut Connection) -> Ledger {
        let ledger = Ledger::default();
        for (known, n) in ledger.acknowledged.iter().zip(numbers(sql)) {
            known.store(n, Ordering::SeqCst);
        }
        ledger
    }

    /// Runs the writers until `work` ends, or the server goes away.
    pub fn write<T>(&self, address: SocketAddr, work: impl FnOnce() -> T) -> T {
        self.stop.store(false, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || self.run(writer, address));
            }
            let done = work();
            self.stop.store(true, Ordering::SeqCst);
            done
        })
    }

    fn run(&self, writer: usize, address: SocketAddr) {
        let Some(mut sql) = try_connect(address) else {
            return;
        };
        // A transaction whose commit was not acknowledged may have happened.
        let first = ask(
            &mut sql,
            &format!("SELECT n FROM bank.counters WHERE writer = {writer}"),
        );
        let Ok(first) = first else {
            return;
        };
        let mut n: u64 = first[0].parse().unwrap();
        while !self.stop.load(Ordering::SeqCst) {
            let (from, to) = (n * 7 % ACCOUNTS, n * 13 % ACCOUNTS);
            let next = n + 1;
            let text = format!(
                "BEGIN; UPDATE bank.counters SET n = {next} WHERE writer = {writer}; \
                 INSERT INTO bank.entries VALUES ({writer}, {next}, REPEAT('x', {})); \
                 UPDATE bank.accounts SET money = money - 1 WHERE id = {from}; \
                 UPDATE bank.accounts SET money = money + 1 WHERE id = {to}; COMMIT",
                n % 200
            );
            match ask(&mut sql, &text) {
                Ok(_) => {
                    n = next;
                    self.acknowledged[writer].store(n, Ordering::SeqCst);
                }
                Err(1213 | 1205) => {
                    let _ = ask(&mut sql, "ROLLBACK");
                }
                Err(_) => return,
            }
        }
    }

    /// The numbers acknowledged by now.
    pub fn acknowledged(&self) -> Vec<u64> {
        let numbers = self.acknowledged.iter();
        numbers.map(|n| n.load(Ordering::SeqCst)).collect()
    }
}

/// Checks that the state is one of a moment, with at least the numbers `least`. Returns its numbers.
pub fn check(sql: &mut Connection, least: &[u64]) -> Vec<u64> {
    let found = numbers(sql);
    for (writer, (n, least)) in found.iter().zip(least).enumerate() {
        assert!(
            n >= least,
            "writer {writer} has {n}, {least} were acknowledged"
        );
        let rows = good(
            sql,
            &format!(
                "SELECT COUNT(*), COALESCE(MIN(n), 1), COALESCE(MAX(n), 0) FROM bank.entries \
                 WHERE writer = {writer}"
            ),
        );
        assert_eq!(rows, [format!("{n}|1|{n}")], "writer {writer}");
    }
    let money = good(sql, "SELECT SUM(money), COUNT(*) FROM bank.accounts");
    assert_eq!(money, [format!("{}|{ACCOUNTS}", ACCOUNTS * 100)]);
    found
}
