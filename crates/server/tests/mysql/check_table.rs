//! CHECK TABLE beside writers: concurrent changes are not reported as problems.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Inserts, updates and deletes rows of `d.t` with large values until told to stop.
fn write_until(stop: &AtomicBool, mut c: Client, first: u32) -> u32 {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let id = first + n % 50;
        c.good(&format!("INSERT INTO d.p VALUES ({id})"));
        c.good(&format!(
            "INSERT INTO d.t VALUES ({id}, {id}, {n}, REPEAT('x', 9000))"
        ));
        c.good(&format!(
            "UPDATE d.t SET k = k + 1, big = REPEAT('y', 12000) WHERE id = {id}"
        ));
        c.good(&format!("DELETE FROM d.t WHERE id = {id}"));
        c.good(&format!("DELETE FROM d.p WHERE id = {id}"));
        n += 1;
    }
    n
}

#[test]
fn check_table_beside_writers_finds_nothing() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.p (id INT PRIMARY KEY)");
    c.good(
        "CREATE TABLE d.t (id INT PRIMARY KEY, p INT, k INT NOT NULL, big BLOB, KEY by_k (k), \
         FOREIGN KEY (p) REFERENCES d.p (id))",
    );
    c.good("INSERT INTO d.p VALUES (0)");
    c.good("INSERT INTO d.t VALUES (0, 0, 0, NULL)");
    for n in 0..12 {
        let next = 1 << n;
        c.good(&format!(
            "INSERT INTO d.t SELECT id + {next}, 0, k, NULL FROM d.t"
        ));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [100_000, 200_000].map(|first| {
            let (stop, writer) = (&stop, Client::root(server.mysql_addr));
            scope.spawn(move || write_until(stop, writer, first))
        });
        for _ in 0..20 {
            let check = c.good("CHECK TABLE d.t, d.p").texts();
            assert!(check.iter().all(|row| row[3] == "OK"), "{check:?}");
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().unwrap() > 0);
        }
    });
}
