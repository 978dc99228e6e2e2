//! The work of the search for a join order, in counted steps: `Last_query_partial_plans` for chains,
//! stars and cliques of 24 to 61 tables, the most that a statement may have.

use porpoise_sql::session::SqlSession;
use porpoise_sql::{ResultColumn, ResultSink, SqlError};
use porpoise_types::ValueRef;

#[derive(Default)]
struct Cells(Vec<String>);

impl ResultSink for Cells {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let text = |v: &ValueRef<'_>| match v {
            ValueRef::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        };
        self.0.extend(values.iter().map(text));
        Ok(())
    }
}

fn run(session: &mut SqlSession, statement: &str) -> Vec<String> {
    let mut cells = Cells::default();
    session
        .query(statement.as_bytes(), false, &mut cells)
        .unwrap();
    cells.0
}

/// Pairs of joined tables.
fn edges(shape: &str, tables: usize) -> Vec<(usize, usize)> {
    match shape {
        "chain" => (1..tables).map(|n| (n - 1, n)).collect(),
        "star" => (1..tables).map(|n| (0, n)).collect(),
        _ => (1..tables)
            .flat_map(|n| (0..n).map(move |before| (before, n)))
            .collect(),
    }
}

fn partial_plans(session: &mut SqlSession, shape: &str, tables: usize) -> u64 {
    let from: Vec<String> = (0..tables).map(|n| format!("t AS t{n}")).collect();
    let on: Vec<String> = edges(shape, tables)
        .into_iter()
        .map(|(a, b)| {
            // Each edge of a clique joins columns of its own, so that they do not follow from others.
            let column = if shape == "clique" { (a + b) % 4 } else { 0 };
            format!("t{a}.c{column} = t{b}.c{}", (column + 1) % 4)
        })
        .collect();
    let query = format!(
        "EXPLAIN SELECT COUNT(*) FROM {} WHERE {}",
        from.join(", "),
        on.join(" AND ")
    );
    run(session, &query);
    let status = run(
        session,
        "SHOW SESSION STATUS LIKE 'Last_query_partial_plans'",
    );
    status[1].parse().unwrap()
}

#[test]
fn the_work_of_the_search_for_a_join_order_is_bounded() {
    let mut session = crate::common::session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(
        &mut session,
        "CREATE TABLE t (c0 INT PRIMARY KEY, c1 INT, c2 INT, c3 INT, KEY (c1), KEY (c2, c3))",
    );
    run(
        &mut session,
        "INSERT INTO t VALUES (1, 1, 1, 1), (2, 1, 2, 1), (3, 2, 1, 2), (4, 2, 2, 2)",
    );
    let mut found = Vec::new();
    for shape in ["chain", "star", "clique"] {
        for tables in [24, 32, 48, 61] {
            found.push((shape, tables, partial_plans(&mut session, shape, tables)));
        }
    }
    // 16 sets of each size, each joined with the other tables, of which half are open on average; and one
    // pass that follows the most promising table.
    for (shape, tables, count) in &found {
        let most = 9 * (tables * tables) as u64;
        assert!(
            *count <= most && *count >= *tables as u64,
            "{shape} {tables}: {found:?}"
        );
    }
    // Few tables: far from all orders, of which ten tables have 3,628,800.
    let few = partial_plans(&mut session, "clique", 10);
    assert!((10..=3_000).contains(&few), "{few}");
}
