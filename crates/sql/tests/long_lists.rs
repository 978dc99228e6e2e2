//! Long lists of IN and long chains of OR and XOR have the same results as short ones, in bounded
//! time.

use crate::common::Nothing;
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::session::SqlSession;
use porpoise_types::{Value, ValueRef};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Rows(Vec<Vec<Value>>);

impl ResultSink for Rows {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.0
            .push(values.iter().map(|v| ValueRef::to_owned(*v)).collect());
        Ok(())
    }
}

fn rows(session: &mut SqlSession, text: &str) -> Vec<Vec<Value>> {
    let mut rows = Rows::default();
    session.query(text.as_bytes(), false, &mut rows).unwrap();
    rows.0
}

/// A table of integers, decimals and texts, some of them NULL.
fn session() -> SqlSession {
    let mut session = crate::common::session();
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, u BIGINT UNSIGNED, n DECIMAL(10, 2), x DOUBLE, \
         b VARCHAR(20), l VARCHAR(20) CHARACTER SET latin1)",
    ] {
        session.query(text.as_bytes(), false, &mut Nothing).unwrap();
    }
    let row = |n: usize| match n % 7 {
        0 => format!("({n}, NULL, NULL, NULL, NULL, NULL, NULL)"),
        _ => format!("({n}, {n} - 50, {n}, {n} / 4, {n} / 2, 'Wört {n} ', 'wört {n}')"),
    };
    let values: Vec<String> = (0..300).map(row).collect();
    let insert = format!("INSERT INTO t VALUES {}", values.join(","));
    session
        .query(insert.as_bytes(), false, &mut Nothing)
        .unwrap();
    session
}

/// Columns, each with a list of a hundred items to compare it with.
fn lists() -> Vec<(&'static str, Vec<String>)> {
    let of = |item: &dyn Fn(usize) -> String| (0..100).map(item).collect::<Vec<String>>();
    let mut with_null = of(&|n| (n * 3).to_string());
    with_null.push("NULL".to_owned());
    vec![
        ("a", of(&|n| (n * 3).to_string())),
        ("a", of(&|n| format!("-{n}"))),
        ("a", with_null),
        ("a", of(&|n| format!("'{n}'"))),
        ("a", of(&|n| format!("{n}.0"))),
        ("a", of(&|n| format!("{n}e0"))),
        ("u", of(&|n| format!("{}", u64::MAX - n as u64))),
        ("u", of(&|n| (n as i64 - 50).to_string())),
        ("n", of(&|n| format!("{n}.25"))),
        ("n", of(&|n| format!("{n}.250"))),
        ("n", of(&|n| format!("'{n}.25'"))),
        ("x", of(&|n| format!("{n}.5"))),
        ("x", of(&|n| format!("{n}"))),
        ("b", of(&|n| format!("'WORT {n} '"))),
        ("b", of(&|n| format!("'wört {n}'"))),
        ("b", of(&|n| format!("_latin1'wort {n} '"))),
        ("b", of(&|n| n.to_string())),
        ("l", of(&|n| format!("'WÖRT {n} '"))),
        ("l", of(&|n| format!("_binary'w\u{f6}rt {n}'"))),
        ("a + 1", of(&|n| n.to_string())),
    ]
}

#[test]
fn long_lists_have_the_results_of_short_ones() {
    let mut session = session();
    for (column, items) in lists() {
        // Short lists are compared item by item, long ones through a hash table.
        let any = |of: &dyn Fn(&[String]) -> String| {
            let parts: Vec<String> = items.chunks(10).map(of).collect();
            parts.join(" OR ")
        };
        let short = any(&|part| format!("{column} IN ({})", part.join(",")));
        let wanted = rows(
            &mut session,
            &format!("SELECT id, ({short}) FROM t ORDER BY id"),
        );
        let list = items.join(",");
        let arms: Vec<String> = items.iter().map(|i| format!("{column} = {i}")).collect();
        let arms = arms.join(" OR ");
        for long in [format!("{column} IN ({list})"), format!("({arms})")] {
            let found = rows(
                &mut session,
                &format!("SELECT id, {long} FROM t ORDER BY id"),
            );
            assert_eq!(found, wanted, "{long}");
            let negated = rows(
                &mut session,
                &format!("SELECT id FROM t WHERE NOT ({long}) ORDER BY id"),
            );
            let short = format!("SELECT id FROM t WHERE NOT ({short}) ORDER BY id");
            assert_eq!(negated, rows(&mut session, &short), "NOT {long}");
        }
    }
}

#[test]
fn in_lists_are_evaluated_anew_at_each_execution() {
    let mut session = session();
    let params = vec!["?"; 40].join(",");
    let text = format!("PREPARE s FROM 'SELECT COUNT(*) FROM t WHERE a + 0 IN ({params})'");
    session.query(text.as_bytes(), false, &mut Nothing).unwrap();
    for shift in [1, 100, 1000] {
        let set: Vec<String> = (0..40).map(|n| format!("@v{n} = {}", n + shift)).collect();
        let set = format!("SET {}", set.join(","));
        session.query(set.as_bytes(), false, &mut Nothing).unwrap();
        let using: Vec<String> = (0..40).map(|n| format!("@v{n}")).collect();
        let count = rows(
            &mut session,
            &format!("EXECUTE s USING {}", using.join(",")),
        );
        let direct: Vec<String> = (0..40).map(|n| format!("a = {}", n + shift)).collect();
        let (first, second) = direct.split_at(20);
        let direct = format!(
            "SELECT COUNT(*) FROM t WHERE ({}) OR ({})",
            first.join(" OR "),
            second.join(" OR ")
        );
        assert_eq!(count, rows(&mut session, &direct), "{shift}");
    }
}

#[test]
fn long_chains_of_xor_are_right_and_do_not_overrun_the_stack() {
    let mut session = crate::common::session();
    for (count, truth) in [(3, 1), (64, 0), (65, 1), (1001, 1), (100_000, 0)] {
        let text = format!("SELECT {}", vec!["1"; count].join(" XOR "));
        assert_eq!(rows(&mut session, &text), [[Value::Int(truth)]], "{count}");
    }
    let with_null = format!("SELECT {} XOR NULL", vec!["1"; 200].join(" XOR "));
    assert_eq!(rows(&mut session, &with_null), [[Value::Null]]);
}

#[test]
fn joins_of_many_tables_are_planned_in_bounded_time() {
    let mut session = session();
    let begun = Instant::now();
    let tables: Vec<String> = (0..60).map(|n| format!("t t{n}")).collect();
    let chain: Vec<String> = (1..60)
        .map(|n| format!("t{n}.id = t{}.id", n - 1))
        .collect();
    let text = format!(
        "SELECT COUNT(*) FROM {} WHERE {} AND t0.id < 10",
        tables.join(","),
        chain.join(" AND ")
    );
    assert_eq!(rows(&mut session, &text), [[Value::Int(10)]]);
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}
