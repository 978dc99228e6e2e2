//! Keys that are known beforehand are read in one engine call: look-ups of joins, IN lists. Also the
//! operators and measurements that EXPLAIN shows of them.

#![allow(dead_code, reason = "not every test uses all that is common")]

#[path = "../../rows/tests/common/counting.rs"]
mod counting;

use counting::{Calls, Counting};
use porpoise_kv::model::Model;
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::session::SqlSession;
use porpoise_types::ValueRef;
use std::sync::Arc;

#[derive(Default)]
struct Collected {
    rows: usize,
    text: String,
}

impl ResultSink for Collected {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.rows += 1;
        if let Some(ValueRef::Bytes(text)) = values.first() {
            self.text.push_str(std::str::from_utf8(text).unwrap());
        }
        Ok(())
    }
}

fn session() -> (SqlSession, Arc<Calls>) {
    let counting = Counting::new(Arc::new(Model::new()));
    let calls = counting.calls.clone();
    let mut session = crate::common::connect(&crate::common::server(Arc::new(counting)), 1);
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY a (a))",
        "CREATE TABLE u (id INT PRIMARY KEY, t INT, b INT)",
    ] {
        run(&mut session, text);
    }
    let rows = |f: &dyn Fn(i32) -> String| (0..200).map(f).collect::<Vec<_>>().join(",");
    let t = rows(&|n| format!("({n}, {})", n % 20));
    run(&mut session, &format!("INSERT INTO t VALUES {t}"));
    let u = rows(&|n| format!("({n}, {}, {n})", (n * 7) % 250));
    run(&mut session, &format!("INSERT INTO u VALUES {u}"));
    (session, calls)
}

fn run(session: &mut SqlSession, sql: &str) -> Collected {
    let mut sink = Collected::default();
    if let Err(e) = session.query(sql.as_bytes(), false, &mut sink) {
        panic!("{}: {sql}", e.message);
    }
    sink
}

/// Rows, gets and scans of the statement's second run, for which the plan is cached.
fn calls_of(session: &mut SqlSession, calls: &Calls, sql: &str) -> (usize, usize, usize) {
    run(session, sql);
    calls.take();
    let rows = run(session, sql).rows;
    let taken = calls.take();
    (rows, taken.gets, taken.scans)
}

#[test]
fn an_in_list_is_one_call() {
    let (mut session, calls) = session();
    let keys: Vec<String> = (0..50).map(|n| (n * 3).to_string()).collect();
    let keys = keys.join(",");
    let sql = format!("SELECT * FROM t WHERE id IN ({keys})");
    assert_eq!(calls_of(&mut session, &calls, &sql), (50, 1, 0));
    // By a secondary index: all keys in one scan.
    let sql = "SELECT * FROM t FORCE INDEX (a) WHERE a IN (1, 2, 3)";
    let (rows, gets, scans) = calls_of(&mut session, &calls, sql);
    assert_eq!((rows, gets, scans), (30, 0, 1), "no row is read");
}

#[test]
fn a_join_looks_a_batch_up_in_one_call() {
    let (mut session, calls) = session();
    // The 200 rows of the driving scan are one batch: one scan, and one get for all look-ups.
    let sql = "SELECT STRAIGHT_JOIN * FROM u JOIN t FORCE INDEX (PRIMARY) ON t.id = u.t";
    let (rows, gets, scans) = calls_of(&mut session, &calls, sql);
    assert!(rows > 100);
    assert_eq!((gets, scans), (1, 1));
    let sql = "SELECT STRAIGHT_JOIN u.id, t.a FROM u JOIN t FORCE INDEX (a) ON t.a = u.b";
    let (rows, gets, scans) = calls_of(&mut session, &calls, sql);
    assert_eq!((rows, gets, scans), (200, 0, 2), "no row is read");
}

#[test]
fn a_count_reads_entries_only() {
    let (mut session, calls) = session();
    let sql = "SELECT COUNT(*) FROM t WHERE a BETWEEN 3 AND 4";
    assert_eq!(calls_of(&mut session, &calls, sql), (1, 0, 1));
    let sql = "SELECT COUNT(*) FROM t";
    assert_eq!(calls_of(&mut session, &calls, sql), (1, 0, 1));
}

#[test]
fn exists_reads_one_entry_of_each_key() {
    let (mut session, calls) = session();
    let mut read = |sql: &str, expected: &str| {
        let entries = |session: &mut SqlSession| -> u64 {
            let shown = crate::common::run(session, "SHOW SESSION STATUS LIKE 'Handler_read_next'");
            shown[0].split_once('|').unwrap().1.parse().unwrap()
        };
        // Planning the statement samples the tables.
        crate::common::run(&mut session, sql);
        let before = entries(&mut session);
        calls.take();
        assert_eq!(crate::common::run(&mut session, sql), [expected], "{sql}");
        assert_eq!(calls.take().scans, 2, "{sql}");
        entries(&mut session) - before
    };
    // Each of the ten keys has ten entries; the rows of the driving scan count, too.
    let inner = "SELECT 1 FROM t FORCE INDEX (a) WHERE t.a = u.b";
    let some = read(
        &format!("SELECT COUNT(*) FROM u WHERE id < 10 AND EXISTS ({inner})"),
        "10",
    );
    assert_eq!(some, 20);
    let none = read(
        &format!("SELECT COUNT(*) FROM u WHERE id < 10 AND NOT EXISTS ({inner})"),
        "0",
    );
    assert_eq!(none, 20);
    // Another condition may reject the first entry.
    let all = read(
        &format!(
            "SELECT COUNT(*) FROM u WHERE id < 10 AND EXISTS ({inner} AND t.id > 100 + u.id % 3)"
        ),
        "10",
    );
    assert!(all >= 110, "{all}");
}

#[test]
fn explain_names_the_operators_that_rules_choose() {
    let (mut session, _) = session();
    let mut tree = |sql: &str| run(&mut session, &format!("EXPLAIN FORMAT=TREE {sql}")).text;
    let counts = tree("SELECT COUNT(*) FROM t");
    assert!(counts.starts_with("-> Count rows\n"), "{counts}");
    let checks = tree("SELECT COUNT(*) FROM t WHERE a + 0 = 3");
    assert!(checks.starts_with("-> Aggregate\n"), "{checks}");
    let ends = tree("SELECT MIN(a), MAX(a) FROM t");
    assert!(
        ends.starts_with("-> Minimum and maximum by index\n"),
        "{ends}"
    );
    // A result of at most one row needs neither a sort nor a comparison.
    let point = tree("SELECT DISTINCT a FROM t WHERE id = 1 ORDER BY a");
    assert!(
        point.starts_with("-> Single-row index lookup on t"),
        "{point}"
    );
    let two = tree("SELECT DISTINCT a FROM t WHERE id IN (1, 2)");
    assert!(two.starts_with("-> Deduplicate rows\n"), "{two}");
}

#[test]
fn explain_analyze_shows_rows_and_loops_of_each_operator() {
    let (mut session, _) = session();
    let sql = "EXPLAIN ANALYZE SELECT t.a, COUNT(*) FROM u JOIN t ON t.id = u.t \
               WHERE u.b < 100 GROUP BY t.a ORDER BY t.a LIMIT 5";
    let text = run(&mut session, sql).text;
    let line = |what: &str| {
        let found = text.lines().find(|l| l.contains(what));
        found
            .unwrap_or_else(|| panic!("{what} in {text}"))
            .to_owned()
    };
    assert!(line("Limit: 5 row(s)").contains("rows=5 loops=1"), "{text}");
    assert!(
        line("Aggregate using hash table").contains("rows=20 loops=1"),
        "{text}"
    );
    assert!(line("(u.b < 100)").contains("rows=100 loops=1"), "{text}");
    assert!(line("-> Limit").contains("actual time="), "{text}");
    let ranked = "EXPLAIN ANALYZE SELECT * FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY a ORDER \
                  BY id) AS n FROM t) d WHERE n <= 3";
    let text = run(&mut session, ranked).text;
    let top = text.lines().find(|l| l.contains("Top N per group"));
    let is_measured = top.is_some_and(|l| l.contains("rows=60 loops=1"));
    assert!(is_measured, "{text}");
    let never = run(&mut session, "EXPLAIN ANALYZE SELECT * FROM t WHERE 1 = 0").text;
    assert!(never.contains("(never executed)"), "{never}");
}
