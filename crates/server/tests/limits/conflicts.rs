//! Rate at which transactions of a mix like sysbench's oltp_read_write are refused with 1213, at
//! several numbers of connections, with uniform and skewed keys, with and without
//! `innodb_snapshot_isolation`; and so for orders and payments like TPC-C's. Prints a table; in the
//! short run only that the mixes work.

use crate::metric;
use crate::support::{Failure, Random, Sql, server};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Statements whose transaction's snapshot was moved forward instead.
    advanced: u64,
}

impl Count {
    fn print(&self, what: &str, connections: u64, on: bool) {
        let share = |n: u64| n as f64 * 1_000.0 / self.committed.max(1) as f64;
        println!(
            "{what:8} {connections:11}  {:18}  {:9}  {:14.2}  {:14.2}  {:13.2}",
            if on { "ON" } else { "OFF" },
            self.committed,
            share(self.conflicts),
            share(self.deadlocks),
            share(self.advanced)
        );
        assert!(self.committed > 0);
    }
}

const HEADER: &str = "mix      connections  snapshot isolation  committed  conflicts/1000  \
                      deadlocks/1000  advanced/1000";

/// Transaction that a client repeats.
type Work<'w> = dyn Fn(&mut Sql, &mut Random) -> Result<(), Failure> + Sync + 'w;

/// Minimum number of transactions that a run commits, however slow the machine is.
const LEAST_COMMITS: u64 = 40;
/// Time after which a run ends with fewer.
const LONGEST_RUN: Duration = Duration::from_secs(60);

/// State of a run. Its clients stop when its time has passed and they have committed `LEAST_COMMITS` in all.
struct Run {
    began: Instant,
    time: Duration,
    committed: AtomicU64,
}

impl Run {
    fn goes_on(&self) -> bool {
        let elapsed = self.began.elapsed();
        let few = self.committed.load(Ordering::Relaxed) < LEAST_COMMITS;
        elapsed < self.time || (few && elapsed < LONGEST_RUN)
    }
}

/// Runs `connections` clients side by side, each repeating `work`.
fn clients(
    address: SocketAddr,
    connections: u64,
    on: bool,
    time: Duration,
    work: &Work<'_>,
) -> Count {
    let run = &Run {
        began: Instant::now(),
        time,
        committed: AtomicU64::new(0),
    };
    let counts: Vec<Count> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections)
            .map(|n| scope.spawn(move || client(address, n, on, run, work)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let mut all = Count::default();
    for count in counts {
        all.committed += count.committed;
        all.conflicts += count.conflicts;
        all.deadlocks += count.deadlocks;
    }
    all
}

fn client(address: SocketAddr, n: u64, on: bool, run: &Run, work: &Work<'_>) -> Count {
    let mut sql = Sql::connect(address);
    sql.run(&format!("SET innodb_snapshot_isolation = {}", u8::from(on)));
    let (mut rng, mut count) = (Random::new(n + 1), Count::default());
    while run.goes_on() {
        match work(&mut sql, &mut rng) {
            Ok(()) => {
                count.committed += 1;
                run.committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Failure::Refused(e)) if e.code == 1213 => {
                if e.message.contains("snapshot conflict") {
                    count.conflicts += 1
                } else {
                    count.deadlocks += 1
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
    let work = |sql: &mut Sql, rng: &mut Random| transaction(sql, rng, mix.skewed);
    let on = mix.snapshot_isolation;
    let mut all = clients(server.mysql_addr, mix.connections, on, time, &work);
    all.advanced = metric(&server, "porpoise_engine_views_advanced_total");
    assert_eq!(sql.number("SELECT COUNT(*) FROM d.sb"), ROWS as i64);
    all
}

const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 100;
const ITEMS: u64 = 1_000;

fn rows(sql: &mut Sql, table: &str, all: impl Iterator<Item = String>) {
    let all: Vec<String> = all.collect();
    for some in all.chunks(1_000) {
        sql.run(&format!("INSERT INTO d.{table} VALUES {}", some.join(",")));
    }
}

fn make_shop(sql: &mut Sql) {
    sql.run(
        "CREATE DATABASE d; \
         CREATE TABLE d.warehouse (w INT PRIMARY KEY, tax INT, ytd BIGINT); \
         CREATE TABLE d.district (w INT, d INT, next INT, ytd BIGINT, PRIMARY KEY (w, d)); \
         CREATE TABLE d.customer (w INT, d INT, c INT, discount INT, balance BIGINT, \
           PRIMARY KEY (w, d, c)); \
         CREATE TABLE d.stock (w INT, i INT, quantity INT, PRIMARY KEY (w, i)); \
         CREATE TABLE d.orders (w INT, d INT, o INT, c INT, PRIMARY KEY (w, d, o)); \
         CREATE TABLE d.line (w INT, d INT, o INT, n INT, i INT, PRIMARY KEY (w, d, o, n))",
    );
    let places = || (1..=WAREHOUSES).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)));
    rows(
        sql,
        "warehouse",
        (1..=WAREHOUSES).map(|w| format!("({w},7,0)")),
    );
    rows(
        sql,
        "district",
        places().map(|(w, d)| format!("({w},{d},1,0)")),
    );
    let customers = places().flat_map(|(w, d)| (1..=CUSTOMERS).map(move |c| (w, d, c)));
    rows(
        sql,
        "customer",
        customers.map(|(w, d, c)| format!("({w},{d},{c},3,0)")),
    );
    let stock = (1..=WAREHOUSES).flat_map(|w| (1..=ITEMS).map(move |i| (w, i)));
    rows(
        sql,
        "stock",
        stock.map(|(w, i)| format!("({w},{i},1000000)")),
    );
}

/// An order as `go-tpc` sends it, or a payment, as often as TPC-C has them.
fn trade(sql: &mut Sql, rng: &mut Random) -> Result<(), Failure> {
    let (w, d, c) = (
        rng.below(WAREHOUSES) + 1,
        rng.below(DISTRICTS) + 1,
        rng.below(CUSTOMERS) + 1,
    );
    let (district, customer) = (
        format!("w = {w} AND d = {d}"),
        format!("c.w = {w} AND c.d = {d} AND c = {c}"),
    );
    sql.attempt("BEGIN")?;
    if rng.below(88) < 43 {
        sql.attempt(&format!(
            "UPDATE d.warehouse SET ytd = ytd + 1 WHERE w = {w}"
        ))?;
        sql.attempt(&format!("SELECT tax FROM d.warehouse WHERE w = {w}"))?;
        sql.attempt(&format!(
            "UPDATE d.district SET ytd = ytd + 1 WHERE {district}"
        ))?;
        sql.attempt(&format!("SELECT next FROM d.district WHERE {district}"))?;
        sql.attempt(&format!(
            "SELECT balance FROM d.customer c WHERE {customer} FOR UPDATE"
        ))?;
        sql.attempt(&format!(
            "UPDATE d.customer c SET balance = balance - 1 WHERE {customer}"
        ))?;
        return sql.attempt("COMMIT").map(|_| ());
    }
    let names = format!("c.w = v.w AND {customer}");
    sql.attempt(&format!(
        "SELECT discount, tax FROM d.customer c, d.warehouse v WHERE {names}"
    ))?;
    let next = format!("SELECT next FROM d.district WHERE {district} FOR UPDATE");
    let o = sql.attempt(&next)?.rows[0][0].clone().unwrap();
    sql.attempt(&format!(
        "UPDATE d.district SET next = next + 1 WHERE {district}"
    ))?;
    sql.attempt(&format!("INSERT INTO d.orders VALUES ({w}, {d}, {o}, {c})"))?;
    let mut items: Vec<u64> = (0..rng.below(11) + 5)
        .map(|_| rng.below(ITEMS) + 1)
        .collect();
    items.sort_unstable();
    items.dedup();
    let list: Vec<String> = items.iter().map(u64::to_string).collect();
    let list = list.join(",");
    sql.attempt(&format!(
        "SELECT i, quantity FROM d.stock WHERE w = {w} AND i IN ({list}) FOR UPDATE"
    ))?;
    for (n, i) in items.iter().enumerate() {
        sql.attempt(&format!(
            "UPDATE d.stock SET quantity = quantity - 1 WHERE w = {w} AND i = {i}"
        ))?;
        sql.attempt(&format!(
            "INSERT INTO d.line VALUES ({w}, {d}, {o}, {n}, {i})"
        ))?;
    }
    sql.attempt("COMMIT").map(|_| ())
}

fn measure_trade(connections: u64, on: bool, time: Duration) -> Count {
    let server = server().arg("--durability", "interval").start();
    let mut sql = Sql::connect(server.mysql_addr);
    make_shop(&mut sql);
    let mut all = clients(server.mysql_addr, connections, on, time, &trade);
    all.advanced = metric(&server, "porpoise_engine_views_advanced_total");
    // No order is lost, whatever was refused or moved forward.
    let orders = sql.number("SELECT COUNT(*) FROM d.orders");
    assert_eq!(sql.number("SELECT SUM(next - 1) FROM d.district"), orders);
    let lines = sql.number("SELECT COUNT(*) FROM d.line");
    let sold = sql.number("SELECT SUM(1000000 - quantity) FROM d.stock");
    assert_eq!(lines, sold);
    let paid = sql.number("SELECT SUM(ytd) FROM d.warehouse");
    assert_eq!(sql.number("SELECT -SUM(balance) FROM d.customer"), paid);
    assert_eq!(paid + orders, all.committed as i64);
    all
}

#[test]
fn orders_and_payments_add_up() {
    for on in [true, false] {
        let count = measure_trade(8, on, Duration::from_millis(700));
        assert!(count.committed >= LEAST_COMMITS, "{count:?}");
        assert!(on || count.conflicts == 0, "{count:?}");
    }
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
        assert!(count.committed >= LEAST_COMMITS, "{count:?}");
        assert!(snapshot_isolation || count.conflicts == 0, "{count:?}");
    }
}

/// `SECONDS` for each line, five without it.
#[test]
#[ignore = "twelve runs of SECONDS each, five without it"]
fn conflicts_per_thousand_transactions() {
    let seconds = std::env::var("SECONDS").ok().and_then(|s| s.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(5));
    println!("{HEADER}");
    for skewed in [false, true] {
        for connections in [8, 64] {
            for snapshot_isolation in [true, false] {
                let mix = Mix {
                    connections,
                    skewed,
                    snapshot_isolation,
                };
                let what = if skewed { "skewed" } else { "uniform" };
                measure(mix, time).print(what, connections, snapshot_isolation);
            }
        }
    }
    for connections in [8, 64] {
        for on in [true, false] {
            measure_trade(connections, on, time).print("orders", connections, on);
        }
    }
}
