//! How often transactions of a mix like sysbench's oltp_read_write are refused with 1213, at
//! several numbers of connections, with uniform and skewed keys, with and without
//! `innodb_snapshot_isolation`. Prints a table; in the short run only that the mix works.

use crate::support::{Failure, Random, Sql, server};
use std::time::{Duration, Instant};

const ROWS: u64 = 10_000;

#[derive(Clone, Copy)]
struct Mix {
    connections: u64,
    skewed: bool,
    snapshot_isolation: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    committed: u64,
    conflicts: u64,
    deadlocks: u64,
}

/// Keys: uniform, or eight in ten draws within a fifth of the rows, and so on within that fifth.
fn key(rng: &mut Random, skewed: bool) -> u64 {
    let mut rows = ROWS;
    while skewed && rows > 10 && rng.below(10) < 8 {
        rows /= 5;
    }
    rng.below(rows) + 1
}

/// One transaction; the statements are those of oltp_read_write.
fn transaction(sql: &mut Sql, rng: &mut Random, skewed: bool) -> Result<(), Failure> {
    sql.attempt("BEGIN")?;
    for _ in 0..10 {
        let id = key(rng, skewed);
        sql.attempt(&format!("SELECT c FROM d.sb WHERE id = {id}"))?;
    }
    for what in ["c", "SUM(k)", "c", "DISTINCT c"] {
        let id = key(rng, skewed);
        let range = format!("id BETWEEN {id} AND {}", id + 99);
        sql.attempt(&format!("SELECT {what} FROM d.sb WHERE {range}"))?;
    }
    let (one, two) = (key(rng, skewed), key(rng, skewed));
    sql.attempt(&format!("UPDATE d.sb SET k = k + 1 WHERE id = {one}"))?;
    let c = rng.below(1_000_000_000);
    sql.attempt(&format!("UPDATE d.sb SET c = '{c}' WHERE id = {two}"))?;
    let id = key(rng, skewed);
    sql.attempt(&format!("DELETE FROM d.sb WHERE id = {id}"))?;
    sql.attempt(&format!("INSERT INTO d.sb VALUES ({id}, {id}, 'new')"))?;
    sql.attempt("COMMIT")?;
    Ok(())
}

fn measure(mix: Mix, time: Duration) -> Count {
    let server = server().arg("--durability", "interval").start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(
        "CREATE DATABASE d; \
         CREATE TABLE d.sb (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, KEY (k))",
    );
    for first in (1..=ROWS).step_by(1_000) {
        let rows: Vec<String> = (first..first + 1_000)
            .map(|id| format!("({id}, {id}, 'old')"))
            .collect();
        sql.run(&format!("INSERT INTO d.sb VALUES {}", rows.join(",")));
    }
    let until = Instant::now() + time;
    let (address, on) = (server.mysql_addr, u8::from(mix.snapshot_isolation));
    let counts: Vec<Count> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..mix.connections)
            .map(|n| {
                scope.spawn(move || {
                    let mut sql = Sql::connect(address);
                    sql.run(&format!("SET innodb_snapshot_isolation = {on}"));
                    let (mut rng, mut count) = (Random::new(n + 1), Count::default());
                    while Instant::now() < until {
                        match transaction(&mut sql, &mut rng, mix.skewed) {
                            Ok(()) => count.committed += 1,
                            Err(Failure::Refused(e)) if e.code == 1213 => {
                                match e.message.contains("snapshot conflict") {
                                    true => count.conflicts += 1,
                                    false => count.deadlocks += 1,
                                }
                            }
                            // With newer rows taken the row may be there again by now.
                            Err(Failure::Refused(e)) if e.code == 1062 => {
                                sql.run("ROLLBACK");
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                    count
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    assert_eq!(sql.number("SELECT COUNT(*) FROM d.sb"), ROWS as i64);
    let mut all = Count::default();
    for count in counts {
        all.committed += count.committed;
        all.conflicts += count.conflicts;
        all.deadlocks += count.deadlocks;
    }
    all
}

#[test]
fn the_mix_commits_and_keeps_its_rows() {
    for snapshot_isolation in [true, false] {
        let mix = Mix {
            connections: 8,
            skewed: true,
            snapshot_isolation,
        };
        let count = measure(mix, Duration::from_millis(700));
        assert!(count.committed > 20, "{count:?}");
        assert!(snapshot_isolation || count.conflicts == 0, "{count:?}");
    }
}

/// `SECONDS` for each line, five without it.
#[test]
#[ignore = "eight runs of SECONDS each, five without it"]
fn conflicts_per_thousand_transactions() {
    let seconds = std::env::var("SECONDS").ok().and_then(|s| s.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(5));
    println!("keys     connections  snapshot isolation  committed  conflicts/1000  deadlocks/1000");
    for skewed in [false, true] {
        for connections in [8, 64] {
            for snapshot_isolation in [true, false] {
                let mix = Mix {
                    connections,
                    skewed,
                    snapshot_isolation,
                };
                let count = measure(mix, time);
                let share = |n: u64| n as f64 * 1_000.0 / count.committed.max(1) as f64;
                println!(
                    "{:8} {connections:11}  {:18}  {:9}  {:14.2}  {:14.2}",
                    if skewed { "skewed" } else { "uniform" },
                    if snapshot_isolation { "ON" } else { "OFF" },
                    count.committed,
                    share(count.conflicts),
                    share(count.deadlocks)
                );
                assert!(count.committed > 0);
            }
        }
    }
}
