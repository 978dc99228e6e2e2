//! Tests without another server: queries that must return the same rows.
//!
//! * Ternary logic partitioning: a query's rows are those for which a condition is true, those for
//!   which it is false, and those for which it is NULL. For a query with windows, the condition is
//!   applied to its result and must not move below the windows.
//! * Non-optimizing reference engine construction: WHERE, where a condition influences the plan,
//!   keeps as many rows as there are rows for which the condition is true in the select list, where
//!   it does not.
//! * Indexes over expressions do not change the rows of a query.
//!
//! The first two are also applied to conditions that lead to index merges, semi-joins and anti-joins, on
//! tables that are large enough for them.

use super::query::{Scope, Select};
use super::tables::{Column, Table};
use super::{Gen, Ty, fail_if_any, normal, report, seeds};
use crate::both::{here, session};
use porpoise_sql::session::SqlSession;

/// The rows of a query in this process, or the text of its error.
pub fn rows_here(session: &mut SqlSession, sql: &str) -> Result<Vec<String>, String> {
    match here(session, sql) {
        // Any of the texts that differ only in trailing spaces may represent a group.
        (answer, _) if answer.error.is_none() => Ok(normal(&answer.rows)
            .iter()
            .map(|row| row.split('\t').map(|cell| cell.trim_end_matches(' ')))
            .map(|cells| cells.collect::<Vec<_>>().join("\t"))
            .collect()),
        (_, message) => Err(message),
    }
}

/// A session that has run these statements.
fn prepared(statements: &[String]) -> SqlSession {
    let mut session = session();
    here(&mut session, "SET max_execution_time = 2000");
    for sql in statements {
        here(&mut session, sql);
    }
    session
}

/// A query with an alias for its rows, so that a condition on them can be added.
fn derived(select: &Select, condition: Option<&str>) -> String {
    let condition = condition.map_or(String::new(), |c| format!(" WHERE {c}"));
    format!("SELECT * FROM ({}) AS w{condition}", select.text())
}

/// Compares a query with its three partitions. Returns descriptions of the mismatches.
fn check_partitions(seed: u64, queries: usize) -> Vec<String> {
    let mut random = Gen::new(seed);
    let made = random.create_tables();
    let mut session = prepared(&made);
    let mut wrong = Vec::new();
    for _ in 0..queries {
        random.subqueries = 3;
        let types = random.types(3);
        let select = random.select(&Scope::default(), &types, 1);
        let windowed = select.items.iter().any(|item| item.contains(" OVER ("));
        let condition = if windowed {
            Some(random.condition(&result_scope("w", &types), 1))
        } else {
            select.condition.clone().filter(|_| !select.grouped)
        };
        let Some(condition) = condition else {
            continue;
        };
        let with = |condition: Option<&str>| {
            if windowed {
                derived(&select, condition)
            } else {
                select.with_condition(condition)
            }
        };
        let whole = with(None);
        let parts = ["({}) ", "NOT ({})", "({}) IS NULL"]
            .map(|shape| with(Some(&shape.replace("{}", &condition))));
        let mut all = Vec::new();
        let mut failed = None;
        for sql in &parts {
            match rows_here(&mut session, sql) {
                Ok(rows) => all.extend(rows),
                Err(message) => failed = Some(message),
            }
        }
        let mut rows = match rows_here(&mut session, &whole) {
            Ok(rows) => rows,
            Err(message) => {
                failed = Some(message);
                Vec::new()
            }
        };
        all.sort();
        rows.sort();
        if select.distinct {
            all.dedup();
            rows.dedup();
        }
        // A query may fail in all forms, by overflow or a subquery with several rows.
        if failed.is_none() && all != rows {
            let (left, right) = (format!("whole: {rows:?}"), format!("parts: {all:?}"));
            let text = format!("{whole};\n{}", parts.join(";\n"));
            wrong.push(report(seed, &made, &text, &left, &right));
        }
    }
    wrong
}

/// A scope whose only source is a query's result with columns of these types.
fn result_scope(alias: &str, types: &[Ty]) -> Scope<'static> {
    let column = |(at, ty): (usize, &Ty)| Column {
        name: format!("c{at}"),
        ty: *ty,
    };
    let columns = types.iter().enumerate().map(column).collect();
    Scope {
        sources: vec![(alias.to_owned(), columns)],
        ..Scope::default()
    }
}

/// Compares the number of rows that a condition selects with the number of rows for which it is
/// true. Returns descriptions of the mismatches.
fn check_counts(seed: u64, queries: usize) -> Vec<String> {
    let mut random = Gen::new(seed);
    let made = random.create_tables();
    let mut session = prepared(&made);
    let mut wrong = Vec::new();
    for _ in 0..queries {
        random.subqueries = 3;
        let select = random.select(&Scope::default(), &[Ty::Int], 1);
        let Some(condition) = &select.condition else {
            continue;
        };
        let optimized = format!("SELECT COUNT(*) FROM {} WHERE {condition}", select.from);
        let reference = format!("SELECT ({condition}) IS TRUE FROM {}", select.from);
        let (Ok(found), Ok(all)) = (
            rows_here(&mut session, &optimized),
            rows_here(&mut session, &reference),
        ) else {
            continue;
        };
        let true_rows = all.iter().filter(|row| *row == "1").count().to_string();
        if found != [true_rows.clone()] {
            let text = format!("{optimized};\n{reference}");
            let right = format!("true for: {true_rows}");
            wrong.push(report(
                seed,
                &made,
                &text,
                &format!("found: {found:?}"),
                &right,
            ));
        }
    }
    wrong
}

/// Expressions over a table's columns, with their types.
fn expressions(random: &mut Gen, table: &Table) -> Vec<(String, Ty)> {
    let scope = Scope {
        sources: vec![(table.name.clone(), table.columns.clone())],
        ..Scope::default()
    };
    let count = random.rng.usize(1..4);
    let expression = |_| {
        random.subqueries = 0;
        let ty = random.ty();
        let depth = random.rng.usize(1..3);
        (random.expr(&scope, ty, depth), ty)
    };
    (0..count).map(expression).collect()
}

/// A condition on a table, mostly on one of the expressions.
fn condition_on(random: &mut Gen, table: &Table, known: &[(String, Ty)]) -> String {
    let scope = Scope {
        sources: vec![(table.name.clone(), table.columns.clone())],
        ..Scope::default()
    };
    let (e, ty) = random.pick(known).clone();
    let (a, b) = (random.literal(ty), random.literal(ty));
    let on = match random.rng.u8(0..8) {
        0..3 => format!("{e} = {a}"),
        3 => format!("{e} IN ({a}, {b})"),
        4 => format!("{e} BETWEEN {a} AND {b}"),
        5 => format!("{e} {} {a}", random.pick(&["<", ">=", "<=>", "<>"])),
        6 => format!("{e} IS NULL"),
        _ => format!("{a} < {e}"),
    };
    match random.rng.u8(0..6) {
        0 => format!("({on}) AND ({})", random.condition(&scope, 0)),
        1 => format!("({on}) OR ({})", random.condition(&scope, 0)),
        2 => format!("NOT ({on})"),
        _ => on,
    }
}

/// Compares the rows of queries on tables with functional indexes and on the same tables without.
/// Returns descriptions of the mismatches, and the number of queries that used such an index.
fn check_functional_indexes(seed: u64, queries: usize) -> (Vec<String>, usize) {
    let mut random = Gen::new(seed);
    let made = random.create_tables();
    let (mut plain, mut indexed) = (prepared(&made), prepared(&made));
    let mut statements = made;
    let (mut wrong, mut used) = (Vec::new(), 0);
    for table in random.tables.clone() {
        let known = expressions(&mut random, &table);
        let name = &table.name;
        for (at, (e, _)) in known.iter().enumerate() {
            // Some expressions cannot be indexed: plain columns, texts without a length, and those
            // with values out of range.
            let create = format!("CREATE INDEX e{at} ON {name} (({e}))");
            if here(&mut indexed, &create).0.error.is_none() {
                statements.push(create);
            }
        }
        for _ in 0..queries {
            let condition = condition_on(&mut random, &table, &known);
            let (e, _) = random.pick(&known).clone();
            let sql = match random.rng.u8(0..5) {
                0 => format!("SELECT {e}, COUNT(*) FROM {name} WHERE {condition} GROUP BY {e}"),
                1 => format!("SELECT DISTINCT {e} FROM {name} WHERE {condition}"),
                2 => format!("SELECT COUNT(*), MIN({e}), MAX({e}) FROM {name} WHERE {condition}"),
                3 => format!("SELECT {e} FROM {name} WHERE {condition} ORDER BY {e}"),
                _ => format!("SELECT * FROM {name} WHERE {condition}"),
            };
            let explained = here(&mut indexed, &format!("EXPLAIN {sql}")).0.rows;
            let key = |row: &String| row.split('\t').nth(6).map(|key| key.starts_with('e'));
            used += usize::from(explained.iter().any(|row| key(row) == Some(true)));
            let (Ok(mut a), Ok(mut b)) =
                (rows_here(&mut plain, &sql), rows_here(&mut indexed, &sql))
            else {
                continue;
            };
            if !sql.contains("ORDER BY") {
                a.sort();
                b.sort();
            }
            if a != b {
                let (left, right) = (format!("without: {a:?}"), format!("with: {b:?}"));
                wrong.push(report(seed, &statements, &sql, &left, &right));
            }
        }
    }
    (wrong, used)
}

/// Statements that create the table `m` with an index on each column, and `o`, which subqueries read.
fn indexed_tables(random: &mut Gen) -> Vec<String> {
    let value = |random: &mut Gen, highest: i32| match random.one_in(10) {
        true => "NULL".to_owned(),
        false => random.rng.i32(0..highest).to_string(),
    };
    let mut out = vec![
        "CREATE TABLE m (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(9), KEY (a), KEY (b), KEY (c))"
            .to_owned(),
        "CREATE TABLE o (id INT PRIMARY KEY, a INT, b INT, KEY (b))".to_owned(),
    ];
    let rows = (0..400).map(|id| {
        let (a, b, c) = (value(random, 60), value(random, 40), value(random, 90));
        format!("({id}, {a}, {b}, {c})")
    });
    let rows = rows.collect::<Vec<_>>().join(", ");
    out.push(format!("INSERT INTO m VALUES {rows}"));
    let rows = (0..60).map(|id| format!("({id}, {}, {})", value(random, 90), value(random, 20)));
    let rows = rows.collect::<Vec<_>>().join(", ");
    out.push(format!("INSERT INTO o VALUES {rows}"));
    out
}

/// A condition on the table `x` (`m`) for an index merge, or with a subquery over `o`.
fn path_condition(random: &mut Gen) -> String {
    let leaf = |random: &mut Gen| {
        let (n, m) = (random.rng.i32(0..60), random.rng.i32(0..60));
        let shapes = [
            format!("x.a = {n}"),
            format!("x.b = {n}"),
            format!("x.c = '{n}'"),
            format!("x.a IN ({n}, {m})"),
            format!("x.b BETWEEN {n} AND {}", n + 1),
            "x.c IS NULL".to_owned(),
            format!("x.id = {m}"),
            format!("x.a > {}", 50 + n / 10),
        ];
        random.pick(&shapes).clone()
    };
    let (first, second, third) = (leaf(random), leaf(random), leaf(random));
    let n = random.rng.i32(0..20);
    match random.rng.u8(0..8) {
        0..2 => format!("{first} OR {second}"),
        2 => format!("{first} OR {second} OR {third}"),
        3 => format!("({first} AND x.id > {n}) OR ({second} AND {third})"),
        4 => format!("x.a IN (SELECT o.a FROM o WHERE o.b > {n})"),
        5 => format!("EXISTS (SELECT 1 FROM o WHERE o.a = x.a AND (o.b < x.b OR o.b = {n}))"),
        6 => "NOT EXISTS (SELECT 1 FROM o WHERE o.b = x.b AND o.a > x.a)".to_owned(),
        _ => format!("x.a NOT IN (SELECT o.a FROM o WHERE o.b = {n}) AND ({first} OR {second})"),
    }
}

/// Applies both oracles to conditions for index merges and for semi-joins and anti-joins of subqueries. Returns descriptions
/// of the mismatches, and the numbers of queries planned with index merges and with semi-joins or anti-joins.
fn check_paths(seed: u64, queries: usize) -> (Vec<String>, [usize; 2]) {
    let mut random = Gen::new(seed);
    let made = indexed_tables(&mut random);
    let mut session = prepared(&made);
    let rows = |session: &mut SqlSession, sql: &str| {
        let mut rows = rows_here(session, sql).unwrap();
        rows.sort();
        rows
    };
    let all = rows(&mut session, "SELECT id FROM m");
    let (mut wrong, mut planned) = (Vec::new(), [0, 0]);
    for _ in 0..queries {
        let condition = path_condition(&mut random);
        let found = format!("SELECT x.id FROM m x WHERE {condition}");
        let tree = here(&mut session, &format!("EXPLAIN {found}")).0.rows;
        planned[0] += usize::from(tree.concat().contains("index_merge"));
        let tree = here(&mut session, &format!("EXPLAIN FORMAT=TREE {found}"));
        let tree = tree.0.rows.concat();
        planned[1] += usize::from(tree.contains("semijoin") || tree.contains("antijoin"));
        let mut parts = rows(&mut session, &found);
        let true_rows = rows(
            &mut session,
            &format!("SELECT IF({condition}, id, NULL) FROM m x"),
        );
        let true_rows: Vec<String> = true_rows.into_iter().filter(|r| r != "null").collect();
        if parts != true_rows {
            let (left, right) = (format!("found: {parts:?}"), format!("true: {true_rows:?}"));
            wrong.push(report(seed, &made, &found, &left, &right));
            continue;
        }
        for shape in ["NOT ({})", "({}) IS NULL"] {
            let condition = shape.replace("{}", &condition);
            let sql = format!("SELECT x.id FROM m x WHERE {condition}");
            parts.extend(rows(&mut session, &sql));
        }
        parts.sort();
        if parts != all {
            let left = format!("parts: {parts:?}");
            wrong.push(report(seed, &made, &found, &left, "all rows"));
        }
    }
    (wrong, planned)
}

#[test]
fn rows_by_index_merges_and_semi_joins_are_those_that_make_the_condition_true() {
    let seeds = seeds(1, 4);
    let cases = seeds.clone().count();
    let (mut wrong, mut planned) = (Vec::new(), [0, 0]);
    for seed in seeds {
        let (mismatches, counts) = check_paths(seed, 25);
        wrong.extend(mismatches);
        planned = [planned[0] + counts[0], planned[1] + counts[1]];
    }
    fail_if_any(&wrong, cases);
    assert!(cases < 4 || planned.iter().all(|n| *n >= 10), "{planned:?}");
}

#[test]
fn ternary_partitions_of_a_query_have_all_its_rows() {
    let seeds = seeds(1, 40);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.flat_map(|s| check_partitions(s, 20)).collect();
    fail_if_any(&wrong, cases);
}

#[test]
fn the_rows_found_are_as_many_as_make_the_condition_true() {
    let seeds = seeds(1, 40);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.flat_map(|s| check_counts(s, 20)).collect();
    fail_if_any(&wrong, cases);
}

#[test]
fn functional_indexes_change_no_rows() {
    let seeds = seeds(1, 40);
    let cases = seeds.clone().count();
    let (mut wrong, mut used) = (Vec::new(), 0);
    for seed in seeds {
        let (mismatches, used_by) = check_functional_indexes(seed, 20);
        wrong.extend(mismatches);
        used += used_by;
    }
    fail_if_any(&wrong, cases);
    assert!(cases < 40 || used > 100, "queries through an index: {used}");
}
