//! Results do not depend on plans.
//!
//! The same rows are in tables with many indexes and in tables with none.
//! Random queries run on both, with hints that select different plans, in
//! different join orders, and after ANALYZE TABLE; all results must agree.

use crate::common::{run, session};
use porpoise_kv::contract::Rng;
use porpoise_sql::session::SqlSession;

/// A condition over columns of table `t`.
fn condition(rng: &mut Rng, t: &str) -> String {
    let n = rng.below(12);
    let m = rng.below(40);
    match rng.below(18) {
        0 => format!("{t}.a = {n}"),
        1 => format!("{t}.a IN ({n}, {}, {n})", n + 2),
        2 => format!("{t}.a IS NULL"),
        3 => format!("({t}.a = {n} OR {t}.a IS NULL)"),
        4 => format!("{t}.a BETWEEN {n} AND {}", n + 3),
        5 => format!("{t}.b > {n}"),
        6 => format!("{t}.a = {n} AND {t}.b < {m}"),
        7 => format!("{t}.a IN ({n}, {}) AND {t}.b >= {n}", n + 1),
        8 => format!("{t}.id = {m}"),
        9 => format!("{t}.id IN ({m}, {}, 3, 1000)", m + 1),
        10 => format!("{t}.id > {m}"),
        11 => format!("{t}.s = 'v{n}'"),
        12 => format!("{t}.s LIKE 'V{}%'", n % 3),
        13 => format!("{t}.u = {m}"),
        14 => format!("{t}.d <= '2020-01-{:02}'", 1 + m % 28),
        15 => format!("({t}.a = {n} OR {t}.a = {})", n + 1),
        16 => format!("{t}.a <=> NULL"),
        _ => format!("NOT {t}.b = {n}"),
    }
}

/// A query with `{T}` for the suffix of table names, and `{H}` for hints of the first table.
fn query(rng: &mut Rng) -> String {
    let one = condition(rng, "x");
    let two = condition(rng, "y");
    let items = [
        "x.id",
        "x.a",
        "x.id, x.s",
        "x.a, x.b",
        "x.d, x.a",
        "x.u, x.id",
    ];
    let item = items[rng.below(items.len() as u64) as usize];
    let on = [
        "x.id = y.a",
        "x.a = y.id",
        "x.a = y.a",
        "x.b = y.b",
        "x.s = y.s",
        "x.u = y.u",
        "x.a = y.a AND x.b > y.b",
        "x.a = y.a AND x.a = 3",
        "x.b = y.b AND y.b = 7 AND x.a = y.a",
        "(x.a = y.a AND x.b = 5 OR y.a = x.a AND y.b < 20 OR x.a = y.a AND x.s = 'v3')",
        "(x.a = y.a OR x.a = y.a AND x.b = 5)",
        "(x.a = 2 AND y.a = 4 OR x.a = 4 AND y.a IN (2, 3) AND x.b > 3)",
    ];
    let on = on[rng.below(on.len() as u64) as usize];
    match rng.below(16) {
        0 => format!("SELECT {item} FROM t{{T}} x {{H}} WHERE {one}"),
        1 => format!("SELECT COUNT(*) FROM t{{T}} x {{H}} WHERE {one}"),
        2 => "SELECT COUNT(*), COUNT(x.a), MIN(x.a), MAX(x.b) FROM t{T} x {H}".to_owned(),
        3 => format!("SELECT x.a, COUNT(*), SUM(x.b) FROM t{{T}} x {{H}} WHERE {one} GROUP BY x.a"),
        4 => format!("SELECT DISTINCT x.a FROM t{{T}} x {{H}} WHERE {one}"),
        5 => format!("SELECT x.id, y.id FROM t{{T}} x {{H}} JOIN v{{T}} y ON {on} WHERE {one}"),
        6 => format!(
            "SELECT x.id, y.id FROM t{{T}} x {{H}} JOIN v{{T}} y ON {on} WHERE {one} AND {two}"
        ),
        7 => format!(
            "SELECT x.id, y.id, y.a FROM t{{T}} x {{H}} LEFT JOIN v{{T}} y ON {on} AND {two} WHERE {one}"
        ),
        8 => format!(
            "SELECT x.id FROM t{{T}} x {{H}} WHERE {one} AND EXISTS (SELECT 1 FROM v{{T}} y WHERE {on} AND {two})"
        ),
        9 => format!(
            "SELECT x.id FROM t{{T}} x {{H}} WHERE x.a IN (SELECT y.a FROM v{{T}} y WHERE {two}) AND {one}"
        ),
        10 => format!(
            "SELECT x.id, y.id, z.id FROM t{{T}} x {{H}} JOIN v{{T}} y ON {on} JOIN t{{T}} z ON z.id = y.a WHERE {one}"
        ),
        11 => format!(
            "SELECT x.id, (SELECT MAX(y.b) FROM v{{T}} y WHERE {on}) m FROM t{{T}} x {{H}} WHERE {one}"
        ),
        14 => format!(
            "SELECT x.id FROM t{{T}} x {{H}} WHERE x.id IN (SELECT y.a FROM v{{T}} y WHERE {two})"
        ),
        15 => "SELECT COUNT(*), MAX(x.u) FROM t{T} x {H} WHERE x.u IN (SELECT y.u FROM v{T} y)"
            .to_owned(),
        12 => format!(
            "SELECT x.a, x.b, x.id FROM t{{T}} x {{H}} WHERE {one} ORDER BY x.a DESC, x.b, x.id LIMIT {}",
            1 + rng.below(20)
        ),
        _ => format!(
            "SELECT x.a, x.id FROM t{{T}} x {{H}} WHERE {one} ORDER BY x.a, x.id LIMIT {} OFFSET {}",
            1 + rng.below(9),
            rng.below(5)
        ),
    }
}

const KEYS: &str = "PRIMARY KEY (id), KEY ab (a, b), KEY b (b), KEY s (s), UNIQUE KEY u (u), \
                    KEY da (d DESC, a), KEY sp (s(2), a)";

/// Creates tables with indexes (suffix `i`) and without (suffix `n`), both with the same rows.
fn fill(session: &mut SqlSession, rng: &mut Rng, table: &str, rows: u64) {
    let columns = "id INT NOT NULL, a INT, b INT, s VARCHAR(10), u INT, d DATE";
    run(
        session,
        &format!("CREATE TABLE {table}i ({columns}, {KEYS})"),
    );
    run(session, &format!("CREATE TABLE {table}n ({columns})"));
    for id in 0..rows {
        let null = |rng: &mut Rng, value: String| match rng.below(8) {
            0 => "NULL".to_owned(),
            _ => value,
        };
        let (a, b) = (rng.below(12).to_string(), rng.below(40).to_string());
        let (a, b) = (null(rng, a), null(rng, b));
        let s = format!(
            "'{}{}'",
            if rng.below(2) == 0 { "v" } else { "V" },
            rng.below(12)
        );
        let (s, u) = (
            null(rng, s),
            null(rng, (id * 7 % 97 + 100 * id).to_string()),
        );
        let d = format!("'2020-01-{:02}'", 1 + rng.below(28));
        for kind in ["i", "n"] {
            let values = format!("{id}, {a}, {b}, {s}, {u}, {d}");
            run(
                session,
                &format!("INSERT INTO {table}{kind} VALUES ({values})"),
            );
        }
    }
}

/// Compares a query on the table without indexes with the same query on the table with indexes,
/// under all hints; `straight` joins the latter in textual order.
fn compare(session: &mut SqlSession, template: &str, straight: bool) {
    let text = |kind: &str, hint: &str| template.replace("{T}", kind).replace("{H}", hint);
    let ordered = template.contains("ORDER BY");
    let sorted = |mut rows: Vec<String>| {
        if !ordered {
            rows.sort();
        }
        rows
    };
    let expected = sorted(run(session, &text("n", "")));
    let hints = [
        "",
        "USE INDEX ()",
        "FORCE INDEX (ab)",
        "FORCE INDEX (b)",
        "FORCE INDEX (PRIMARY)",
        "USE INDEX (s, u)",
        "FORCE INDEX (da)",
        "IGNORE INDEX (ab, PRIMARY)",
        "USE INDEX FOR ORDER BY (ab)",
    ];
    for hint in hints {
        let mut sql = text("i", hint);
        if straight {
            sql = sql.replacen("SELECT ", "SELECT STRAIGHT_JOIN ", 1);
        }
        let found = sorted(run(session, &sql));
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn results_do_not_depend_on_plans() {
    let seed = std::env::var("PORPOISE_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let mut rng = Rng::new(seed.unwrap_or(6));
    let mut session = session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(&mut session, "SET SESSION sql_mode = ''");
    fill(&mut session, &mut rng, "t", 120);
    fill(&mut session, &mut rng, "v", 60);
    for round in 0..320 {
        if round == 120 {
            run(&mut session, "ANALYZE TABLE ti, vi, tn, vn");
        }
        let template = query(&mut rng);
        compare(&mut session, &template, round % 4 == 0);
    }
}

/// A random query of groups or DISTINCT over columns of few values.
fn grouped_query(rng: &mut Rng) -> String {
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let condition = pick(&[
        "",
        "",
        "WHERE x.a > 1",
        "WHERE x.a IN (0, 2) OR x.a IS NULL",
        "WHERE x.a = 1",
        "WHERE x.a NOT IN (1, 2)",
        "WHERE x.s IN ('v1', 'V2')",
        "WHERE x.s BETWEEN 'v1' AND 'v3' AND x.a < 9",
        "WHERE x.d >= '2020-01-20'",
        "WHERE x.b < 3",
    ]);
    let (items, groups) = [
        ("x.a, MIN(x.b), MAX(x.b)", "GROUP BY x.a"),
        ("x.a, MAX(x.b)", "GROUP BY x.a"),
        ("x.a, MIN(x.b)", "GROUP BY x.a HAVING MIN(x.b) >= 0"),
        ("DISTINCT x.a", ""),
        ("DISTINCT x.a % 3", ""),
        ("DISTINCT HEX(x.s)", ""),
        ("COUNT(DISTINCT x.a), MIN(x.b), MAX(x.b)", ""),
        ("COUNT(DISTINCT x.s)", ""),
        ("LOWER(x.s), COUNT(DISTINCT x.s)", "GROUP BY x.s"),
        ("x.d, MIN(x.a), MAX(x.a)", "GROUP BY x.d"),
        ("x.a, COUNT(*)", "GROUP BY x.a"),
        (
            "x.a, BIT_OR(x.a), SUM(DISTINCT x.a)",
            "GROUP BY x.a WITH ROLLUP",
        ),
    ][rng.below(12) as usize];
    format!("SELECT {items} FROM t{{T}} x {{H}} {condition} {groups}")
}

#[test]
fn loose_scans_and_histograms_do_not_change_results() {
    let mut rng = Rng::new(11);
    let mut session = session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(&mut session, "SET SESSION sql_mode = ''");
    fill(&mut session, &mut rng, "t", 1500);
    run(&mut session, "ANALYZE TABLE ti, tn");
    let mut loose = 0;
    for round in 0..300 {
        if round == 150 {
            run(
                &mut session,
                "ANALYZE TABLE ti UPDATE HISTOGRAM ON a, b, s, d",
            );
        }
        let template = grouped_query(&mut rng);
        let sql = template.replace("{T}", "i").replace("{H}", "");
        let tree = run(&mut session, &format!("EXPLAIN FORMAT=TREE {sql}"));
        loose += u32::from(tree.concat().contains("skip scan for grouping"));
        compare(&mut session, &template, false);
    }
    assert!(loose > 60, "{loose}");
}

/// A random query with a condition on the rank that a derived table computes; `{N}` is the rank.
fn ranked_query(rng: &mut Rng) -> String {
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let function = pick(&["ROW_NUMBER()", "RANK()", "DENSE_RANK()"]);
    let partition = pick(&[
        "", "x.a", "x.s", "x.a, x.s", "x.d", "x.a % 3", "x.b", "x.id",
    ]);
    let order = pick(&[
        "",
        "x.b",
        "x.b DESC",
        "x.s, x.b DESC",
        "x.id DESC",
        "x.a DESC, x.d",
        "CAST(x.b AS JSON)",
    ]);
    let by = |clause: &str, keys: &str| match keys {
        "" => String::new(),
        keys => format!("{clause} {keys} "),
    };
    let window = by("PARTITION BY", &partition) + &by("ORDER BY", &order);
    let more = pick(&["", ", RANK() OVER w AS r", ", ROW_NUMBER() OVER w AS m"]);
    let rest = pick(&[
        "FROM tn x",
        "FROM tn x WHERE x.b > 5",
        "FROM tn x LEFT JOIN vn y ON y.a = x.id",
        "FROM tn x WHERE EXISTS (SELECT 1 FROM vn y WHERE y.a = x.a)",
        "FROM tn x GROUP BY x.id, x.a, x.b, x.s, x.d HAVING COUNT(*) > 0",
    ]);
    let last = pick(&["", "", "ORDER BY x.id"]);
    let query = format!(
        "SELECT x.id, x.a, x.s, {function} OVER w AS n{more} {rest} WINDOW w AS ({window}) {last}"
    );
    let limit = pick(&["0", "1", "2", "3", "5", "200", "-1", "NULL"]);
    let condition = pick(&["{N} <= {L}", "{N} < {L}", "{N} = {L}", "{L} >= {N}"]);
    let condition = pick(&[&condition, &condition, "{N} BETWEEN 2 AND {L}"]);
    let condition = condition.replace("{L}", &limit);
    match rng.below(4) {
        0 => format!("WITH d AS ({query}) SELECT * FROM d WHERE {condition}"),
        1 => {
            format!("SELECT v.id, d.* FROM vn v LEFT JOIN ({query}) d ON d.a = v.a AND {condition}")
        }
        2 => format!("SELECT d.* FROM ({query}) d JOIN vn v ON v.id = d.a WHERE {condition}"),
        _ => format!("SELECT d.* FROM ({query}) d WHERE {condition} AND d.id <> 7"),
    }
}

#[test]
fn the_first_rows_of_partitions_do_not_depend_on_the_plan() {
    let seed = std::env::var("PORPOISE_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let mut rng = Rng::new(seed.unwrap_or(9));
    let mut session = session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    fill(&mut session, &mut rng, "t", 150);
    fill(&mut session, &mut rng, "v", 40);
    let mut limited = 0;
    for _ in 0..400 {
        let template = ranked_query(&mut rng);
        let sql = template.replace("{N}", "d.n");
        // No rule looks into an expression.
        let plain = template.replace("{N}", "d.n + 0");
        let mut is_limited = |sql: &str| {
            let tree = run(&mut session, &format!("EXPLAIN FORMAT=TREE {sql}"));
            tree.concat().contains("-> Top N per group: ")
        };
        limited += u32::from(is_limited(&sql));
        assert!(!is_limited(&plain), "{plain}");
        // Equal also in the order of the rows.
        assert_eq!(run(&mut session, &sql), run(&mut session, &plain), "{sql}");
    }
    assert!(limited > 200, "{limited}");
}

/// A random join of tables `x0`, `x1`, ..., with `{=}` for the equalities' sign.
fn join_by_equalities(rng: &mut Rng) -> String {
    let columns = ["a", "a", "a", "b", "id", "s", "u"];
    let column = |rng: &mut Rng| columns[rng.below(columns.len() as u64) as usize];
    let equality = |rng: &mut Rng, tables: u64, one: u64| {
        let other = rng.below(tables);
        let (a, b) = (column(rng), column(rng));
        // Mostly columns of one type, which form classes.
        let b = if rng.below(4) == 0 { b } else { a };
        format!("(x{one}.{a} {{=}} x{other}.{b})")
    };
    let inner = 3 + rng.below(2);
    let outer = if rng.below(3) == 0 { 2 } else { 0 };
    let list = |rng: &mut Rng, from: u64, to: u64| {
        let mut all: Vec<String> = (from..to).map(|at| equality(rng, at, at)).collect();
        for _ in 0..rng.below(4) {
            let one = from + rng.below(to - from);
            all.push(equality(rng, to, one));
        }
        all.join(" AND ")
    };
    let tables: Vec<String> = (0..inner).map(|n| format!("t{{T}} x{n}")).collect();
    let mut from = tables.join(" JOIN ");
    if outer > 0 {
        let on = list(rng, inner, inner + outer);
        from += &format!(
            " LEFT JOIN (t{{T}} x{inner} JOIN t{{T}} x{}) ON {on}",
            inner + 1
        );
    }
    let limit = if rng.below(2) == 0 {
        " AND x1.a > 1"
    } else {
        ""
    };
    let ids: Vec<String> = (0..inner + outer).map(|n| format!("x{n}.id")).collect();
    let conditions = list(rng, 1, inner);
    format!(
        "SELECT {} FROM {from} WHERE {conditions}{limit}",
        ids.join(", ")
    )
}

/// Compares plain equalities with equalities inside `IS TRUE`, from which the planner derives nothing.
#[test]
fn equal_columns_have_the_results_of_single_equalities() {
    let mut session = session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    let mut rng = Rng::new(7);
    fill(&mut session, &mut rng, "t", 14);
    let mut found = 0;
    for round in 0..300 {
        let sql = join_by_equalities(&mut rng);
        let hidden = sql.replace("{=}", "<=>").replace("{T}", "n");
        let hidden = hide_equalities(&hidden);
        let mut expected = run(&mut session, &hidden);
        expected.sort();
        found += usize::from(!expected.is_empty());
        for kind in ["i", "n"] {
            let sql = sql.replace("{=}", "=").replace("{T}", kind);
            let mut rows = run(&mut session, &sql);
            rows.sort();
            assert_eq!(rows, expected, "round {round}: {sql}");
        }
    }
    assert!(found > 150, "{found}");
}

/// `(p <=> q)` becomes `((p = q) IS TRUE)`.
fn hide_equalities(sql: &str) -> String {
    let mut parts = sql.split(" <=> ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let open = out.rfind('(').unwrap();
        out.insert(open, '(');
        let (right, rest) = part.split_once(')').unwrap();
        out += &format!(" = {right}) IS TRUE){rest}");
    }
    out
}

/// The conditions of a join of `count` tables `t0`, `t1`, ...: a chain, a star, a clique,
/// or a tree of equal keys.
fn join_conditions(shape: &str, count: usize) -> Vec<String> {
    let pairs: Vec<(usize, usize)> = match shape {
        "chain" => (1..count).map(|n| (n - 1, n)).collect(),
        "star" => (1..count).map(|n| (0, n)).collect(),
        "equal" => (1..count).map(|n| (n / 2, n)).collect(),
        _ => (0..count)
            .flat_map(|n| (n + 1..count).map(move |m| (n, m)))
            .collect(),
    };
    let column = |n: usize| {
        if matches!(shape, "clique" | "equal") {
            "id"
        } else {
            ["a", "b"][n % 2]
        }
    };
    let condition = |(n, m): &(usize, usize)| format!("t{n}.{}=t{m}.id", column(*m));
    pairs.iter().map(condition).collect()
}

fn join_of(shape: &str, count: usize, straight: bool) -> String {
    let tables: Vec<String> = (0..count).map(|n| format!("m t{n}")).collect();
    format!(
        "SELECT {}COUNT(*), SUM(t0.id), SUM(t{}.id) FROM {} WHERE {} AND t{}.a < 4",
        if straight { "STRAIGHT_JOIN " } else { "" },
        count - 1,
        tables.join(", "),
        join_conditions(shape, count).join(" AND "),
        count - 1,
    )
}

fn many_tables() -> SqlSession {
    let mut session = session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(
        &mut session,
        "CREATE TABLE m (id INT PRIMARY KEY, a INT, b INT, KEY a (a))",
    );
    let row = |id: u64| format!("({id}, {}, {})", id * 5 % 17, id * 3 % 19);
    let rows: Vec<String> = (0..20).map(row).collect();
    run(
        &mut session,
        &format!("INSERT INTO m VALUES {}", rows.join(",")),
    );
    session
}

#[test]
fn joins_of_many_tables_have_the_results_of_textual_order() {
    let mut session = many_tables();
    for shape in ["chain", "star", "clique", "equal"] {
        for count in [9, 11, 14, 24] {
            let expected = run(&mut session, &join_of(shape, count, true));
            assert_ne!(
                expected[0].split('|').next(),
                Some("0"),
                "{shape} of {count}"
            );
            let found = run(&mut session, &join_of(shape, count, false));
            assert_eq!(found, expected, "{shape} of {count}");
        }
    }
}

/// Prints the time of EXPLAIN, which is almost only planning.
#[test]
#[ignore = "prints times, for an optimized build on a quiet machine"]
fn planning_time_of_joins_of_many_tables() {
    let mut session = many_tables();
    for shape in ["chain", "star", "clique", "equal"] {
        for count in [8, 10, 12, 24, 40, 61] {
            let sql = format!("EXPLAIN {}", join_of(shape, count, false));
            let time = |session: &mut SqlSession| {
                let start = std::time::Instant::now();
                run(session, &sql);
                start.elapsed().as_micros()
            };
            let least = (0..5).map(|_| time(&mut session)).min().unwrap();
            println!("{shape} of {count} tables: {least} us");
        }
    }
}
