//! Conditions of OR, AND, NOT, BETWEEN and IN find and change the same rows with
//! indexes and without.
//!
//! The same rows are in a table with many indexes, in one with none and in a
//! partitioned one. Random trees of conditions are queried on all, sorted and
//! unsorted, with hints that force ranges of one index or a union of several.

use crate::common::{run, session};
use porpoise_kv::contract::Rng;
use porpoise_sql::session::SqlSession;

/// A value to compare a column with, sometimes one that the column cannot store.
fn value(rng: &mut Rng, column: &str) -> String {
    let n = rng.below(14);
    match (column, rng.below(16)) {
        (_, 0) => "NULL".to_owned(),
        ("a" | "b" | "u" | "id", 1) => format!("{n}.5"),
        ("a" | "b" | "u" | "id", 2) => "3000000000".to_owned(),
        ("a" | "b" | "u" | "id", 3) => "-3000000000".to_owned(),
        ("a", _) => n.to_string(),
        ("b" | "id", _) => (n * 3).to_string(),
        ("u", _) => (n * 107).to_string(),
        ("m", _) => format!("{}.{}", n, rng.below(100)),
        ("d", _) => format!("'2020-01-{:02}'", 1 + n * 2),
        (_, 1) => "''".to_owned(),
        (_, 2) => format!("'V{n}'"),
        _ => format!("'v{n}'"),
    }
}

/// A value to search for in an array, as JSON.
fn array_value(rng: &mut Rng, path: &str) -> String {
    let n = rng.below(9);
    match (path, rng.below(8)) {
        (_, 0) => format!("{n}.5"),
        (_, 1) => format!("{n}.0"),
        (_, 2) => "null".to_owned(),
        ("n", 3) => "9007199254740993".to_owned(),
        ("n" | "u", 4) | ("s", _) => format!("\"t{n}\""),
        ("u", _) => (n * 40).to_string(),
        _ => n.to_string(),
    }
}

/// A condition over the elements of an array.
fn array_leaf(rng: &mut Rng) -> String {
    let path = ["n", "n", "s", "s", "u"][rng.below(5) as usize];
    let array = format!("j->'$.{path}'");
    let mut next = || array_value(rng, path);
    let (one, two, three) = (next(), next(), next());
    match rng.below(7) {
        0 => format!("CAST('{one}' AS JSON) MEMBER OF ({array})"),
        1 | 2 => format!("{} MEMBER OF ({array})", one.replace('"', "'")),
        3 => format!("JSON_CONTAINS({array}, '[{one}, {two}]')"),
        4 => format!("JSON_CONTAINS({array}, '{one}')"),
        5 => format!("JSON_OVERLAPS({array}, '[{one}, {two}, {three}]')"),
        _ => format!("JSON_OVERLAPS('[{one}, {two}]', {array})"),
    }
}

/// A condition over an expression that has an index.
fn computed_leaf(rng: &mut Rng) -> String {
    let n = rng.below(12);
    match rng.below(4) {
        0 => format!("LOWER(s) = 'v{n}'"),
        1 => format!("LOWER(s) > 'v{}'", rng.below(3)),
        2 => format!("a * 2 - b BETWEEN {} AND {n}", n as i64 - 9),
        _ => format!("a * 2 - b IN ({n}, -{n}, {}.5)", n + 1),
    }
}

/// A condition over one column.
fn leaf(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => return array_leaf(rng),
        1 => return computed_leaf(rng),
        _ => {}
    }
    let columns = ["a", "a", "b", "b", "u", "id", "s", "m", "d"];
    let c = columns[rng.below(columns.len() as u64) as usize];
    let (one, two, three) = (value(rng, c), value(rng, c), value(rng, c));
    match rng.below(16) {
        0..=2 => format!("{c} = {one}"),
        3 => format!("{c} < {one}"),
        4 => format!("{c} >= {one}"),
        5 => format!("{one} > {c}"),
        6..=8 => format!("{c} BETWEEN {one} AND {two}"),
        9 => format!("{c} IN ({one}, {two}, {three})"),
        10 => format!("{c} <> {one}"),
        11 => format!("{c} NOT BETWEEN {one} AND {two}"),
        12 => format!("{c} IS NULL"),
        13 => format!("{c} NOT IN ({one}, {two})"),
        14 => format!("(a, b) IN ((1, {}), ({}, 9))", rng.below(40), rng.below(12)),
        _ => match rng.below(3) {
            0 => format!("s LIKE 'v{}%'", rng.below(3)),
            1 => "s LIKE '%1'".to_owned(),
            _ => format!("(a, b) > ({}, {})", rng.below(12), rng.below(40)),
        },
    }
}

/// A tree of conditions.
fn tree(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 {
        return leaf(rng);
    }
    let count = 2 + rng.below(3);
    let mut parts = Vec::new();
    for _ in 0..count {
        let under = rng.below(u64::from(depth)) as u32;
        parts.push(tree(rng, under));
    }
    match rng.below(9) {
        0..=4 => format!("({})", parts.join(" OR ")),
        5..=7 => format!("({})", parts.join(" AND ")),
        _ => format!("NOT {}", parts[0]),
    }
}

const COLUMNS: &str = "id INT NOT NULL, a INT, b INT, s VARCHAR(10), u INT, d DATE, \
                       m DECIMAL(6, 2) NOT NULL, j JSON";
const KEYS: &str = "PRIMARY KEY (id), KEY ab (a, b), KEY b (b), KEY s (s), UNIQUE KEY u (u), \
                    KEY da (d DESC, a), KEY sp (s(2), a), KEY m (m DESC), UNIQUE KEY au (a, id), \
                    KEY ls ((LOWER(s)), a), KEY ab2 ((a * 2 - b)), \
                    KEY jn ((CAST(j->'$.n' AS SIGNED ARRAY))), \
                    KEY ajs (a, (CAST(j->'$.s' AS CHAR(4) ARRAY)), b), \
                    UNIQUE KEY ju ((CAST(j->'$.u' AS UNSIGNED ARRAY)))";

fn row(rng: &mut Rng, id: u64) -> String {
    let null = |rng: &mut Rng, value: String| match rng.below(8) {
        0 => "NULL".to_owned(),
        _ => value,
    };
    let (a, b) = (rng.below(12).to_string(), rng.below(40).to_string());
    let (a, b) = (null(rng, a), null(rng, b));
    let letter = if rng.below(2) == 0 { "v" } else { "V" };
    let s = format!("'{letter}{}'", rng.below(12));
    let (s, u) = (
        null(rng, s),
        null(rng, (id * 7 % 97 + 100 * id).to_string()),
    );
    let d = format!("'2020-01-{:02}'", 1 + rng.below(28));
    let m = format!("{}.{}", rng.below(14), rng.below(100));
    let j = document(rng, id);
    let j = null(rng, j);
    format!("{id}, {a}, {b}, {s}, {u}, {d}, {m}, {j}")
}

/// A document with arrays: `n` of numbers of several kinds, `s` of texts, `u` of numbers that are
/// unique to the row.
fn document(rng: &mut Rng, id: u64) -> String {
    let array = |rng: &mut Rng, element: &dyn Fn(&mut Rng) -> String| {
        let elements: Vec<String> = (0..rng.below(4)).map(|_| element(rng)).collect();
        match elements.as_slice() {
            [one] if rng.below(2) == 0 => one.clone(),
            _ => format!("[{}]", elements.join(", ")),
        }
    };
    let n = array(rng, &|rng| match (rng.below(9), rng.below(9)) {
        (0, n) => format!("{n}.0"),
        (1, n) => format!("{n}.5"),
        (2, n) => format!("\"{n}\""),
        (3, n) => format!("90071992547409{}", 90 + n),
        (4, _) => "9007199254740992.0".to_owned(),
        (_, n) => n.to_string(),
    });
    let s = array(rng, &|rng| format!("\"t{}\"", rng.below(9)));
    let u = array(rng, &|rng| (id * 4 + rng.below(4)).to_string());
    let members = [("n", n), ("s", s), ("u", u)].map(|(name, array)| match rng.below(6) {
        0 => String::new(),
        _ => format!("\"{name}\": {array}, "),
    });
    format!("'{{{}\"id\": {id}}}'", members.concat())
}

/// Creates the tables `i` with indexes, `n` without, and `p` with partitions.
fn fill(session: &mut SqlSession, rng: &mut Rng, rows: u64) {
    run(session, "CREATE DATABASE d");
    run(session, "USE d");
    run(session, "SET SESSION sql_mode = ''");
    run(session, &format!("CREATE TABLE i ({COLUMNS}, {KEYS})"));
    run(session, &format!("CREATE TABLE n ({COLUMNS})"));
    let keys = "PRIMARY KEY (id), KEY ab (a, b), KEY b (b), KEY ls ((LOWER(s))), \
                KEY jn ((CAST(j->'$.n' AS SIGNED ARRAY)), b)";
    run(
        session,
        &format!("CREATE TABLE p ({COLUMNS}, {keys}) PARTITION BY HASH (id) PARTITIONS 3"),
    );
    for id in 0..rows {
        let row = row(rng, id);
        for table in ["i", "n", "p"] {
            run(session, &format!("INSERT INTO {table} VALUES ({row})"));
        }
    }
}

fn seed() -> u64 {
    let seed = std::env::var("PORPOISE_SEED");
    seed.ok().and_then(|s| s.parse().ok()).unwrap_or(11)
}

const HINTS: &[&str] = &[
    "",
    "FORCE INDEX (ab)",
    "FORCE INDEX (b, u, s)",
    "FORCE INDEX (PRIMARY)",
    "FORCE INDEX (da, m, au)",
    "FORCE INDEX (jn, ajs, ju)",
    "FORCE INDEX (ls, ab2, jn)",
];

/// Select lists, and the clauses after WHERE.
const SHAPES: &[(&str, &str)] = &[
    ("*", ""),
    ("COUNT(*)", ""),
    ("a, b", "ORDER BY a, b"),
    ("a, b, id", "ORDER BY a DESC, b DESC, id DESC LIMIT 7"),
    ("id", "ORDER BY id LIMIT 5"),
    ("b", "ORDER BY b LIMIT 4 OFFSET 2"),
    ("m", "ORDER BY m DESC"),
    ("COUNT(b), MIN(a), MAX(b)", ""),
    ("DISTINCT a, b", ""),
    ("DISTINCT d", "ORDER BY d DESC LIMIT 3"),
    ("b, COUNT(*), MIN(id)", "GROUP BY b"),
    (
        "a, COUNT(*), SUM(b)",
        "GROUP BY a ORDER BY a LIMIT 3 OFFSET 1",
    ),
    ("m, a, COUNT(*)", "GROUP BY a, m ORDER BY m DESC, a DESC"),
    ("a, b, COUNT(*) n", "GROUP BY b, a HAVING n > 1"),
    ("LOWER(s), COUNT(*)", "GROUP BY s"),
    ("id, COUNT(*), SUM(b)", "GROUP BY id"),
    ("u, COUNT(*), MIN(s)", "GROUP BY u ORDER BY u LIMIT 6"),
];

fn select(
    session: &mut SqlSession,
    table: &str,
    hint: &str,
    shape: usize,
    tree: &str,
) -> Vec<String> {
    let (items, tail) = SHAPES[shape];
    let sql = format!("SELECT {items} FROM {table} {hint} WHERE {tree} {tail}");
    let mut rows = run(session, &sql);
    if !tail.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

#[test]
fn rows_found() {
    let mut rng = Rng::new(seed());
    let mut session = session();
    fill(&mut session, &mut rng, 150);
    let mut found = 0;
    for round in 0..400 {
        if round == 150 {
            run(&mut session, "ANALYZE TABLE i, n, p");
        }
        let tree = tree(&mut rng, 1 + round % 3);
        let shape = rng.below(SHAPES.len() as u64) as usize;
        let expected = select(&mut session, "n", "", shape, &tree);
        found += expected.len();
        for hint in HINTS {
            let rows = select(&mut session, "i", hint, shape, &tree);
            assert_eq!(rows, expected, "{hint} {:?} WHERE {tree}", SHAPES[shape]);
        }
        let rows = select(&mut session, "p", "", shape, &tree);
        assert_eq!(rows, expected, "p {:?} WHERE {tree}", SHAPES[shape]);
        let rows = select(&mut session, "p", "FORCE INDEX (ab, b)", shape, &tree);
        assert_eq!(rows, expected, "p {:?} WHERE {tree}", SHAPES[shape]);
    }
    assert!(found > 1000, "conditions that find something: {found}");
}

#[test]
fn random_conditions_use_index_unions_and_ranges() {
    let mut rng = Rng::new(seed());
    let mut session = session();
    fill(&mut session, &mut rng, 60);
    let (mut merged, mut ranges) = (0, 0);
    for round in 0..200 {
        let tree = tree(&mut rng, 1 + round % 2);
        for hint in HINTS {
            let sql = format!("EXPLAIN SELECT * FROM i {hint} WHERE {tree}");
            for line in run(&mut session, &sql) {
                merged += usize::from(line.contains("|index_merge|"));
                ranges += usize::from(line.contains("|range|"));
            }
        }
    }
    assert!(merged > 20, "unions of indexes: {merged}");
    assert!(ranges > 100, "ranges: {ranges}");
}

#[test]
fn rows_changed() {
    let mut rng = Rng::new(seed() + 1);
    let mut session = session();
    fill(&mut session, &mut rng, 120);
    let all = "SELECT * FROM {} ORDER BY id";
    let mut affected = 0;
    for round in 0..160u64 {
        let tree = tree(&mut rng, 1 + (round % 3) as u32);
        let change = match rng.below(7) {
            5 => {
                "UPDATE {} SET j = JSON_SET(j, '$.n', JSON_ARRAY(IFNULL(a, 1), IFNULL(b, 2), 3)) WHERE "
            }
            6 => "UPDATE {} SET j = JSON_REMOVE(j, '$.n[0]', '$.s') WHERE ",
            0 => "UPDATE {} SET b = b + 1, a = 11 - a WHERE ",
            1 => "UPDATE {} SET a = NULL, b = b - 3 WHERE ",
            2 => "UPDATE {} SET m = m + 1, s = CONCAT('v', b) WHERE ",
            3 => "UPDATE {} SET d = d + INTERVAL 1 DAY WHERE ",
            _ => "DELETE FROM {} WHERE ",
        };
        if change.starts_with("DELETE") && round % 4 != 0 {
            continue;
        }
        for table in ["n", "i", "p"] {
            run(&mut session, "START TRANSACTION");
            let text = format!("{}{tree}", change.replace("{}", table));
            run(&mut session, &text);
            let rows = run(&mut session, "SELECT ROW_COUNT()");
            affected += rows[0].parse::<usize>().unwrap_or(0);
            run(&mut session, "COMMIT");
        }
        let expected = run(&mut session, &all.replace("{}", "n"));
        for table in ["i", "p"] {
            let found = run(&mut session, &all.replace("{}", table));
            assert_eq!(found, expected, "{change} {tree}");
        }
        let locked = format!("SELECT id FROM {{}} WHERE {tree} ORDER BY id FOR UPDATE");
        let expected = run(&mut session, &locked.replace("{}", "n"));
        for table in ["i", "p"] {
            let checked = run(&mut session, &format!("CHECK TABLE {table}"));
            assert_eq!(
                checked,
                [format!("d.{table}|check|status|OK")],
                "{change} {tree}"
            );
            let found = run(&mut session, &locked.replace("{}", table));
            assert_eq!(found, expected, "{locked}");
        }
        if round % 10 == 9 {
            let row = row(&mut rng, 1000 + round);
            for table in ["i", "n", "p"] {
                run(&mut session, &format!("INSERT INTO {table} VALUES ({row})"));
            }
        }
    }
    assert!(affected > 500, "rows changed: {affected}");
}
