//! Prints nanoseconds per statement of one session on the embedded engine:
//! point SELECT as text and prepared, UPDATE and INSERT as text. Not a test.

use porpoise_base::cancel::Cancel;
use porpoise_base::clock;
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::{Db, DbOptions};
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::{ClientInfo, Param};
use porpoise_types::{ColumnType, ValueRef};
use std::io::Write;
use std::time::Instant;

struct Count(u64);

impl ResultSink for Count {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.0 += 1;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const ROWS: u64 = 10_000;
    const RUNS: u64 = 100_000;
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    })?;
    let db = Db::open(engine, clock::system(), DbOptions::default()).map_err(|e| e.to_string())?;
    let server = SqlServer::new(db, SqlConfig::default())?;
    let mut session = server.connect(
        ClientInfo {
            connection_id: 1,
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            account: "root@localhost".to_owned(),
            capabilities: 0,
            collation: 255,
            database: None,
        },
        Cancel::new(),
    )?;
    let mut sink = Count(0);
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
    ] {
        session.query(text.as_bytes(), false, &mut sink)?;
    }
    let report = |what: &str, runs: u64, run: &mut dyn FnMut(u64) -> Result<(), SqlError>| {
        let start = Instant::now();
        for n in 0..runs {
            run(n)?;
        }
        let each = start.elapsed().as_nanos() / u128::from(runs);
        let _ = writeln!(std::io::stdout(), "{what:<24} {each:>8} ns");
        Ok::<(), SqlError>(())
    };
    report("INSERT text", ROWS, &mut |n| {
        let text = format!("INSERT INTO t VALUES ({n}, {n}, 'text of row {n}')");
        session.query(text.as_bytes(), false, &mut sink).map(|_| ())
    })?;
    report("SELECT text", RUNS, &mut |n| {
        let text = format!("SELECT a, b FROM t WHERE id = {}", n % ROWS);
        session.query(text.as_bytes(), false, &mut sink).map(|_| ())
    })?;
    let id = session.prepare(b"SELECT a, b FROM t WHERE id = ?")?.id;
    report("SELECT prepared", RUNS, &mut |n| {
        let param = Param {
            value: ValueRef::UInt(n % ROWS),
            ty: ColumnType::bigint(),
        };
        session.execute(id, &[param], &mut sink).map(|_| ())
    })?;
    report("SELECT 1", RUNS, &mut |_| {
        session.query(b"SELECT 1", false, &mut sink).map(|_| ())
    })?;
    report("UPDATE text", RUNS, &mut |n| {
        let text = format!("UPDATE t SET a = {n} WHERE id = {}", n % ROWS);
        session.query(text.as_bytes(), false, &mut sink).map(|_| ())
    })?;
    let _ = writeln!(std::io::stdout(), "{} rows", sink.0);
    Ok(())
}
