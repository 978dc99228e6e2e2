//! Measures the weights of the planner's costs on the embedded engine:
//! `cargo run --release -p porpoise-sql --example plan_costs [ROWS]`. Each line
//! is the cost of one operation of a plan: in nanoseconds, and as a multiple of
//! reading one row in the order of the primary key, the unit of `plan/cost.rs`.
//! Not a test.
//!
//! Each weight is the difference between the median times of two statements
//! with forced plans that differ in this one operation.

use porpoise_base::cancel::Cancel;
use porpoise_base::clock;
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::{Db, DbOptions};
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::{ClientInfo, SqlSession};
use porpoise_types::ValueRef;
use std::io::Write;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

struct DiscardingSink;

impl ResultSink for DiscardingSink {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Runs of a statement; their median is its time.
const RUNS: usize = 7;

/// Rows of the small table `few`, and keys of an IN list.
const FEW: u64 = 1000;

struct Bench {
    session: SqlSession,
    /// Rows of the large tables `t` and `u`.
    rows: u64,
}

impl Bench {
    fn run(&mut self, text: &str) -> Result<(), SqlError> {
        let outcome = self
            .session
            .query(text.as_bytes(), false, &mut DiscardingSink);
        outcome.map(|_| ())
    }

    /// Median time of a statement in nanoseconds.
    fn median_nanos(&mut self, text: &str) -> Result<f64, SqlError> {
        let mut times = Vec::with_capacity(RUNS);
        self.run(text)?;
        for _ in 0..RUNS {
            let begun = Instant::now();
            self.run(text)?;
            times.push(begun.elapsed().as_nanos() as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok(times.get(RUNS / 2).copied().unwrap_or_default())
    }

    /// Median time of a statement in nanoseconds, for each row of the large table.
    fn nanos_per_row(&mut self, text: &str) -> Result<f64, SqlError> {
        Ok(self.median_nanos(text)? / self.rows as f64)
    }

    /// Nanoseconds for each of many keys of an IN list: read by point lookups,
    /// and by ranges of an index. The texts differ in nothing else.
    fn nanos_per_key(&mut self) -> Result<(f64, f64), SqlError> {
        let mut random = fastrand::Rng::with_seed(2);
        let list: Vec<String> = (0..FEW)
            .map(|_| random.u64(0..self.rows).to_string())
            .collect();
        let list = list.join(",");
        let each = |nanos: f64| nanos / FEW as f64;
        let keys = format!("SELECT COUNT(d) FROM t WHERE id IN ({list})");
        let ranges = format!("SELECT COUNT(d) FROM t FORCE INDEX (a) WHERE a IN ({list})");
        Ok((
            each(self.median_nanos(&keys)?),
            each(self.median_nanos(&ranges)?),
        ))
    }

    fn fill(&mut self) -> Result<(), SqlError> {
        self.run("CREATE DATABASE d")?;
        self.run("USE d")?;
        self.run(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, p INT NOT NULL, s INT NOT NULL, \
             c INT NOT NULL, d INT NOT NULL, filler VARCHAR(60) NOT NULL, KEY a (a))",
        )?;
        self.run("CREATE TABLE u LIKE t")?;
        self.run("CREATE TABLE few (id INT PRIMARY KEY, c INT NOT NULL)")?;
        let mut random = fastrand::Rng::with_seed(1);
        // In the order of the key, as tables mostly grow.
        let order: Vec<u64> = (0..self.rows).collect();
        for chunk in order.chunks(500) {
            for table in ["t", "u"] {
                let mut text = format!("INSERT INTO {table} VALUES ");
                for (at, n) in chunk.iter().enumerate() {
                    let other = random.u64(0..self.rows);
                    let comma = if at > 0 { "," } else { "" };
                    text.push_str(&format!(
                        "{comma}({n},{other},{},{other},{n},{other},'some text of fifty bytes, as \
                         rows of tables have {n}')",
                        random.u64(0..self.rows)
                    ));
                }
                self.run(&text)?;
            }
        }
        for n in 0..FEW {
            self.run(&format!("INSERT INTO few VALUES ({n}, {n})"))?;
        }
        self.run("ANALYZE TABLE t, u, few")
    }
}

fn open(rows: u64) -> Result<Bench, Failure> {
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    })?;
    let db = Db::open(engine, clock::system(), DbOptions::default()).map_err(|e| e.to_string())?;
    let server = SqlServer::new(db, SqlConfig::default())?;
    let client = ClientInfo {
        connection_id: 1,
        user: "root".to_owned(),
        host: "localhost".to_owned(),
        account: "root@localhost".to_owned(),
        capabilities: 0,
        collation: 255,
        database: None,
    };
    let session = server.connect(client, Cancel::new())?;
    Ok(Bench { session, rows })
}

fn main() -> Result<(), Failure> {
    let rows = std::env::args().nth(1).map_or(Ok(200_000), |n| n.parse())?;
    let mut bench = open(rows)?;
    bench.fill()?;
    // No row fulfils the condition, so the statement only reads rows.
    let row = bench.nanos_per_row("SELECT COUNT(*) FROM t IGNORE INDEX (a) WHERE c < 0")?;
    let mut out = std::io::stdout();
    let mut show =
        |what: &str, nanos: f64| writeln!(out, "{what:<44} {nanos:>8.1} ns  {:>6.2}", nanos / row);
    show("ROW, the next row in key order", row)?;
    let entry =
        bench.nanos_per_row("SELECT COUNT(*) FROM t FORCE INDEX (a) WHERE a >= 0 AND a <> -1")?;
    show("ENTRY, the next entry of an index", entry)?;
    let by_entry =
        bench.nanos_per_row("SELECT COUNT(*) FROM t FORCE INDEX (a) WHERE a >= 0 AND c < 0")?;
    show("LOOKUP, the row of an entry", by_entry - entry)?;
    let joined = bench
        .nanos_per_row("SELECT STRAIGHT_JOIN COUNT(*) FROM t JOIN u ON u.id = t.p WHERE u.c < 0")?;
    show("LOOKUP, a row joined by its key", joined - row)?;
    let sought = bench.nanos_per_row(
        "SELECT STRAIGHT_JOIN COUNT(*) FROM t JOIN u FORCE INDEX (a) ON u.a = t.p WHERE u.d = -1",
    )?;
    show(
        "SEEK, the start of a scan",
        sought - row - by_entry.max(entry),
    )?;
    let (keys, ranges) = bench.nanos_per_key()?;
    show("SEEK, one of many ranges", ranges - keys - entry)?;
    let built = bench.nanos_per_row(
        "SELECT STRAIGHT_JOIN COUNT(*) FROM few JOIN t IGNORE INDEX (a) ON t.c = few.c + 9e9",
    )?;
    show("BUILD, a row put into a hash table", built - row)?;
    let probed = bench
        .nanos_per_row("SELECT STRAIGHT_JOIN COUNT(*) FROM t JOIN few ON few.c + 0 = t.c + 9e9")?;
    show("PROBE, a look-up in a hash table", probed - row)?;
    let pairs =
        bench.median_nanos("SELECT COUNT(*) FROM few a JOIN few b ON a.c < b.c - 100000")?;
    show(
        "COMPARE_PAIR, a pair of rows compared",
        pairs / (FEW * FEW) as f64,
    )?;
    let sorted = bench.nanos_per_row("SELECT d FROM t IGNORE INDEX (a) ORDER BY d")?;
    let plain = bench.nanos_per_row("SELECT d FROM t IGNORE INDEX (a)")?;
    let levels = (rows as f64).log2();
    show(
        "SORT, a row and a level of the sort",
        (sorted - plain) / levels,
    )?;
    let grouped = bench.nanos_per_row("SELECT c, COUNT(*) FROM t IGNORE INDEX (a) GROUP BY c")?;
    show("GROUP, a row put into a group of its own", grouped - row)?;
    let grouped =
        bench.nanos_per_row("SELECT c % 100 g, COUNT(*) FROM t IGNORE INDEX (a) GROUP BY g")?;
    let sum = bench.nanos_per_row("SELECT COUNT(*), SUM(c % 100) FROM t IGNORE INDEX (a)")?;
    show("GROUP, a row put into one of 100 groups", grouped - sum)?;
    let ordered = bench.nanos_per_row("SELECT id, COUNT(*) FROM t GROUP BY id")?;
    show("a row that begins a group in order", ordered - row)?;
    Ok(())
}
