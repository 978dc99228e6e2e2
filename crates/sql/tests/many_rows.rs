//! Fast paths that a query switches to after many rows do not change results. Each query runs on
//! plain columns, which the fast path reads as integers, and on columns inside IFNULL, which are
//! evaluated value by value.

use crate::common::{Collected, Nothing};
use porpoise_sql::SqlSession;

/// More rows than one engine call returns.
const ROWS: u64 = 2600;

const COLUMNS: &[&str] = &[
    "i", "u", "b", "t", "d", "w", "day", "at", "n", "late", "ai", "gen", "bin", "lat", "raw", "fix",
];

fn run(session: &mut SqlSession, text: &str) {
    let done = session.query(text.as_bytes(), false, &mut Nothing);
    done.unwrap_or_else(|error| panic!("{error:?}: {text}"));
}

fn ask(session: &mut SqlSession, text: &str) -> Result<Vec<String>, String> {
    let mut found = Collected::default();
    match session.query(text.as_bytes(), false, &mut found) {
        Ok(_) => Ok(found.lines("|")),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// A pseudo-random number for a row and a column (SplitMix64).
fn mix(n: u64, salt: u64) -> u64 {
    let mut z = (n * 31 + salt).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn row(n: u64) -> String {
    let signed = |salt: u64, of: u64| (mix(n, salt) % (2 * of)) as i64 - of as i64;
    let huge = match mix(n, 3) % 40 {
        0 => u64::MAX - n,
        _ => mix(n, 3) % 50,
    };
    let null = |salt: u64, text: String| match mix(n, salt) % 9 {
        0 => "NULL".to_owned(),
        _ => text,
    };
    format!(
        "({n}, {}, {}, {huge}, {}, {}.{:02}, {}, '2025-{:02}-{:02}', {}, {})",
        signed(1, 30),
        mix(n, 2) % 60,
        null(11, signed(4, 100).to_string()),
        signed(5, 5000),
        mix(n, 6) % 100,
        null(12, format!("{}.{:05}", signed(7, 900), mix(n, 8) % 100_000)),
        mix(n, 9) % 12 + 1,
        mix(n, 10) % 28 + 1,
        null(
            13,
            format!(
                "'2025-01-{:02} {:02}:00:00'",
                mix(n, 14) % 28 + 1,
                mix(n, 15) % 24
            )
        ),
        null(16, (mix(n, 17) % 7).to_string()),
    )
}

fn filled() -> SqlSession {
    let mut session = crate::common::session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(
        &mut session,
        "CREATE TABLE r (id INT PRIMARY KEY, i INT NOT NULL, u INT UNSIGNED NOT NULL, \
         b BIGINT UNSIGNED NOT NULL, t TINYINT, d DECIMAL(10,2) NOT NULL, w DECIMAL(18,5), \
         day DATE NOT NULL, at DATETIME, n SMALLINT, KEY by_i (i), KEY by_n (n, i))",
    );
    run(
        &mut session,
        "CREATE TABLE s (k INT PRIMARY KEY, i INT NOT NULL, u INT UNSIGNED NOT NULL, \
         d DECIMAL(12,2) NOT NULL, day DATE NOT NULL, note VARCHAR(10))",
    );
    for from in (0..ROWS).step_by(200) {
        // The rows before have an older layout.
        if from == 1200 {
            let later = "ALTER TABLE r ADD COLUMN late INT NOT NULL DEFAULT 4, ALGORITHM=INSTANT";
            run(&mut session, later);
        }
        let values: Vec<String> = (from..(from + 200).min(ROWS))
            .map(|n| {
                if from >= 1200 {
                    row(n).replace(')', &format!(", {})", mix(n, 18) % 9))
                } else {
                    row(n)
                }
            })
            .collect();
        run(
            &mut session,
            &format!("INSERT INTO r VALUES {}", values.join(", ")),
        );
    }
    let values: Vec<String> = (0..300u64)
        .map(|n| {
            let (i, cents) = (mix(n, 21) as i64 % 40, mix(n, 23) % 100);
            let day = format!("2025-{:02}-{:02}", mix(n, 24) % 12 + 1, mix(n, 25) % 28 + 1);
            let u = mix(n, 22) % 60;
            format!("({n}, {i}, {u}, {}.{cents:02}, '{day}', 's{n}')", n % 90)
        })
        .collect();
    run(
        &mut session,
        &format!("INSERT INTO s VALUES {}", values.join(", ")),
    );
    session
}

/// A query, with the columns in braces replaced by plain columns or, if `hidden`, by IFNULL.
fn with_columns(template: &str, hidden: bool) -> String {
    let mut text = template.to_owned();
    for table in ["", "r.", "s.", "y."] {
        for column in COLUMNS {
            let name = format!("{table}{column}");
            let replacement = if hidden {
                format!("IFNULL({name}, NULL)")
            } else {
                name.clone()
            };
            text = text.replace(&format!("{{{name}}}"), &replacement);
        }
    }
    text
}

/// Checks that a query returns the same with plain and with hidden columns.
fn same(session: &mut SqlSession, template: &str) {
    let plain = ask(session, &with_columns(template, false));
    let hidden = ask(session, &with_columns(template, true));
    assert_eq!(plain, hidden, "{template}");
    if let Ok(rows) = plain {
        assert!(!rows.is_empty(), "{template}");
    }
}

#[test]
fn conditions() {
    let mut session = filled();
    for condition in [
        "{i} = 7",
        "{i} % 7 = 3",
        "{i} % 7 = -3",
        "{i} DIV 4 = -2",
        "{i} + {t} > 20",
        "{i} * {t} - {i} < -100",
        "{u} BETWEEN 5 AND 9",
        "{u} NOT BETWEEN 5 AND 50",
        "{b} > 40",
        "{b} = 18446744073709551000",
        "{b} <> 3",
        "{t} IS NULL",
        "{t} IS NOT NULL AND {t} > 0",
        "{t} <=> NULL",
        "{t} <=> 5",
        "NOT {t} > 5",
        "{t} > 5 OR {n} = 2",
        "{t} > 5 OR {n} IS NULL",
        "{i} IN (1, 5, -7, 29)",
        "{i} NOT IN (1, 5, -7, 29)",
        "{t} NOT IN (1, 5)",
        "{d} > 100",
        "{d} > 100.5",
        "{d} > 100.125",
        "{d} = {i}",
        "{d} < {w}",
        "{d} * {i} > 1000.5",
        "{d} + {w} <= 20",
        "{w} - {d} BETWEEN -100 AND 100.00001",
        "{w} IN (1.5, 2)",
        "{day} = '2025-03-04'",
        "{day} > DATE '2025-09-01'",
        "{day} BETWEEN DATE '2025-02-01' AND DATE '2025-03-01'",
        "{at} > TIMESTAMP '2025-01-12 12:00:00'",
        "{at} = {day}",
        "{late} = 4",
        "{late} > 4 AND {i} > 0",
        "{i} / {t} > 2",
        "{i} % {t} = 1",
        "{i} > 1.5",
        "{i} > 1e0",
        "{i} = '7'",
    ] {
        for from in ["r", "r FORCE INDEX (by_i)", "r FORCE INDEX (by_n)"] {
            same(
                &mut session,
                &format!("SELECT COUNT(*), SUM(id), MIN(id) FROM {from} WHERE {condition}"),
            );
        }
        same(
            &mut session,
            &format!("SELECT id FROM r WHERE {condition} OR id = 1 ORDER BY id"),
        );
    }
}

/// A session with a table of texts in several collations.
fn filled_with_texts() -> SqlSession {
    let mut session = crate::common::session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    run(
        &mut session,
        "CREATE TABLE x (id INT PRIMARY KEY, ai VARCHAR(40), gen VARCHAR(40) COLLATE utf8mb4_general_ci, \
         bin VARCHAR(40) COLLATE utf8mb4_bin, lat VARCHAR(40) CHARACTER SET latin1, raw VARBINARY(40), \
         fix CHAR(20), KEY (ai))",
    );
    let words = [
        "special", "requests", "SPECIAL", "10%", "a_b", "é", "É", "ß", "", "Brand#12", "brand#12",
        "x\ty", "13-abc", "31-abc", "1", "e", "ss", "special ",
    ];
    for from in (0..ROWS).step_by(200) {
        let values = (from..(from + 200).min(ROWS)).map(|n| {
            let word = |salt: u64| words[(mix(n, salt) % words.len() as u64) as usize];
            let text = match mix(n, 50) % 4 {
                0 => word(51).to_owned(),
                1 => format!("{} {}", word(51), word(52)),
                2 => format!("{}{}{}", word(51), word(52), word(53)),
                _ => format!("{}  ", word(51)),
            };
            if mix(n, 54).is_multiple_of(30) {
                format!("({n}, NULL, NULL, NULL, NULL, NULL, NULL)")
            } else {
                let fix: String = text.chars().take(20).collect();
                format!("({n}, '{text}', '{text}', '{text}', '{text}', '{text}', '{fix}')")
            }
        });
        let values: Vec<String> = values.collect();
        run(
            &mut session,
            &format!("INSERT INTO x VALUES {}", values.join(", ")),
        );
    }
    session
}

#[test]
fn conditions_on_texts() {
    let mut session = filled_with_texts();
    for column in ["ai", "gen", "bin", "lat", "raw", "fix"] {
        for condition in [
            "{c} LIKE '%special%requests%'",
            "{c} NOT LIKE '%special%requests%'",
            "{c} LIKE 'special%'",
            "{c} LIKE '%SPECIAL'",
            "{c} LIKE '%e%s%'",
            "{c} LIKE '_a%'",
            "{c} LIKE '%\\%%'",
            "{c} LIKE 'a|_b%' ESCAPE '|'",
            "{c} LIKE '%é%'",
            "{c} LIKE ''",
            "{c} LIKE NULL",
            "{c} = 'brand#12'",
            "'special' = {c}",
            "{c} <> 'special'",
            "{c} = ''",
            "{c} = 'é'",
            "{c} <=> 'special'",
            "{c} = 'special' COLLATE utf8mb4_0900_as_cs",
            "{c} IN ('special', 'REQUESTS', '10%')",
            "{c} NOT IN ('special', 'REQUESTS')",
            "{c} NOT IN ('special', NULL)",
            "{c} IN ('1', 'e', 'a', 'b', 'c', 'd', 'f', 'g', 'h', 'ss')",
            "{c} IN ('special', 13)",
            "SUBSTRING({c} FROM 1 FOR 2) IN ('13', '31', 'SP', 'é')",
            "SUBSTRING({c}, 2, 3) = 'pec'",
            "LEFT({c}, 1) = 'e' OR MID({c}, 4, 1) = 'c'",
            "SUBSTRING({c}, 0, 2) = ''",
            "SUBSTRING({c}, -2, 2) = 'al'",
            "LEFT({c}, 3) LIKE 'SP%' AND {c} NOT LIKE '%x%'",
        ] {
            let condition = condition.replace("{c}", &format!("{{{column}}}"));
            same(
                &mut session,
                &format!("SELECT COUNT(*), SUM(id), MIN(id) FROM x WHERE {condition}"),
            );
            same(
                &mut session,
                &format!(
                    "SELECT x.id, y.id FROM x LEFT JOIN x y ON y.id = x.id + 1 AND {condition} \
                     WHERE x.id < 150 ORDER BY x.id",
                    condition = condition.replace('{', "{y.")
                ),
            );
        }
    }
}

#[test]
fn counts_of_ranges() {
    let mut session = filled();
    run(&mut session, "CREATE INDEX by_nd ON r (n DESC)");
    run(&mut session, "CREATE INDEX by_u ON r (u)");
    for (column, index) in [("n", "by_n"), ("n", "by_nd"), ("u", "by_u"), ("i", "by_i")] {
        for condition in [
            "{c} BETWEEN 2 AND 5",
            "{c} BETWEEN 5 AND 2",
            "{c} > 3",
            "3 > {c}",
            "{c} >= 3 AND {c} < 6",
            "{c} > 3 AND {c} > 4",
            "{c} > 3 AND {c} + 1 < 6",
            "{c} > 100000000000",
            "{c} < 100000000000",
            "{c} >= -100000000000",
            "{c} < -100000000000",
            "{c} < 18446744073709551615",
            "{c} BETWEEN -7 AND 99999999999",
            "{c} > 2.5 AND {c} <= 4",
            "{c} > NULL",
            "{c} < 4 AND id > 100",
        ] {
            let condition = condition.replace("{c}", &format!("{{{column}}}"));
            let from = format!("r FORCE INDEX ({index})");
            same(
                &mut session,
                &format!("SELECT COUNT(*) FROM {from} WHERE {condition}"),
            );
            let plain = with_columns(&condition, false);
            run(
                &mut session,
                &format!("PREPARE p FROM 'SELECT COUNT(*) FROM {from} WHERE {plain}'"),
            );
            let direct = ask(
                &mut session,
                &format!("SELECT COUNT(*) FROM {from} WHERE {plain}"),
            );
            assert_eq!(ask(&mut session, "EXECUTE p"), direct, "{condition}");
        }
        run(
            &mut session,
            &format!(
                "PREPARE p FROM 'SELECT COUNT(*) FROM r FORCE INDEX ({index}) WHERE {column} > ?'"
            ),
        );
        for value in ["3", "-99999999999", "99999999999", "NULL", "2.5", "'4x'"] {
            run(&mut session, &format!("SET @v = {value}"));
            let found = ask(&mut session, "EXECUTE p USING @v");
            let hidden = format!("SELECT COUNT(*) FROM r WHERE IFNULL({column}, NULL) > {value}");
            assert_eq!(found, ask(&mut session, &hidden), "{column} > {value}");
        }
    }
}

#[test]
fn conditions_beside_subqueries() {
    let mut session = filled();
    for condition in [
        "{d} > (SELECT AVG(d) FROM s) AND {i} > 0",
        "{i} > 0 AND {d} > (SELECT AVG(s.d) FROM s WHERE s.i = r.i)",
        "{i} IN (SELECT i FROM s WHERE s.u > r.u) AND {t} > 5 AND {day} > DATE '2025-03-01'",
        "{t} IS NULL AND (SELECT COUNT(*) FROM s WHERE s.k = r.u) = 1",
        "({i} = 3 OR EXISTS (SELECT 1 FROM s WHERE s.u = r.u AND s.i < r.i)) AND {late} = 4",
    ] {
        same(
            &mut session,
            &format!("SELECT id, i FROM r WHERE {condition} ORDER BY id"),
        );
        same(
            &mut session,
            &format!("SELECT id, i FROM r WHERE {condition} ORDER BY id LIMIT 10"),
        );
    }
}

#[test]
fn groups_and_aggregates() {
    let mut session = filled();
    let aggregates = "COUNT(*), COUNT({t}), SUM({i}), AVG({i}), SUM({d}), AVG({d}), MIN({d}), \
         MAX({d}), SUM({w}), MIN({t}), MAX({b}), MIN({b}), SUM({b}), MIN({day}), MAX({at}), \
         COUNT(DISTINCT {i}), COUNT(DISTINCT {b}), SUM(DISTINCT {t}), AVG(DISTINCT {d}), \
         SUM({i} * {t}), SUM({d} * {i}), MAX({i} - {t}), MIN({late}), SUM({late}), \
         COUNT(DISTINCT {late}), BIT_OR({u}), STD({i})";
    same(&mut session, &format!("SELECT {aggregates} FROM r"));
    same(
        &mut session,
        &format!("SELECT {aggregates} FROM r WHERE {{i}} > 1000"),
    );
    for key in ["i", "u", "b", "t", "d % 10", "day", "at", "n", "late", "w"] {
        let key = match key {
            "d % 10" => "{d} % 10".to_owned(),
            key => format!("{{{key}}}"),
        };
        let text = format!("SELECT {key} k, {aggregates} FROM r GROUP BY k ORDER BY k, COUNT(*)");
        same(&mut session, &text);
    }
    for keys in ["{i}, {n}", "{late}, {t}", "{day}, {u}"] {
        let text = format!("SELECT {keys}, {aggregates} FROM r GROUP BY {keys} ORDER BY {keys}");
        same(&mut session, &text);
    }
    same(
        &mut session,
        "SELECT {n}, SUM({i}) FROM r GROUP BY {n} WITH ROLLUP",
    );
}

#[test]
fn distinct_rows_and_the_first_of_a_sort() {
    let mut session = filled();
    for items in [
        "{i}",
        "{t}",
        "{late}",
        "{d}",
        "{b}",
        "{i}, {n}",
        "{late}, {n}",
        "{day}",
    ] {
        let text = format!("SELECT DISTINCT {items} FROM r ORDER BY {items}");
        same(&mut session, &text);
        same(&mut session, &format!("{text} LIMIT 3"));
        let text = format!("SELECT COUNT(*) FROM (SELECT DISTINCT {items} FROM r) x");
        same(&mut session, &text);
    }
    for key in ["i", "u", "b", "t", "d", "w", "day", "at", "n", "late"] {
        for order in ["", "DESC"] {
            for rest in [", id", ", id DESC"] {
                let text = format!("SELECT id FROM r ORDER BY {{{key}}} {order}{rest} LIMIT 5");
                same(&mut session, &text);
            }
        }
    }
}

#[test]
fn joins() {
    let mut session = filled();
    let of = "COUNT(*), SUM(r.id), SUM(s.k)";
    for on in [
        "{s.i} = {r.i}",
        "{s.i} = {r.t}",
        "{s.u} = {r.b}",
        "{s.u} = {r.late}",
        "{s.d} = {r.d}",
        "{s.day} = {r.day}",
        "{s.i} = {r.i} AND s.note < 's2'",
        "{s.i} = {r.i} AND {s.u} < 20 AND {r.d} > 5",
        "{s.k} = {r.i}",
        "{s.k} = {r.u}",
    ] {
        // `s.k` is not in `COLUMNS`, so it stays a plain column.
        let on = &on.replace("{s.k}", "s.k");
        for join in ["JOIN", "LEFT JOIN", "STRAIGHT_JOIN"] {
            same(
                &mut session,
                &format!("SELECT {of} FROM r {join} s ON {on}"),
            );
            same(
                &mut session,
                &format!("SELECT {of} FROM s {join} r ON {on}"),
            );
        }
        for not in ["", "NOT "] {
            let inner = format!("SELECT 1 FROM s WHERE {on}");
            same(
                &mut session,
                &format!("SELECT COUNT(*), SUM(id) FROM r WHERE {not}EXISTS ({inner})"),
            );
            let inner = format!("SELECT 1 FROM r WHERE {on} AND {{r.d}} > 30");
            same(
                &mut session,
                &format!("SELECT COUNT(*), SUM(k) FROM s WHERE {not}EXISTS ({inner})"),
            );
        }
    }
}

#[test]
fn rows_before_an_offset() {
    let mut session = filled();
    for table in ["r", "r FORCE INDEX (by_i)"] {
        let order = if table == "r" { "id" } else { "i, id" };
        let all = ask(
            &mut session,
            &format!("SELECT id, i FROM r ORDER BY {order}"),
        )
        .unwrap();
        for (offset, count) in [
            (0, 3),
            (1, 1),
            (255, 2),
            (1024, 300),
            (2599, 5),
            (2600, 5),
            (9999, 1),
        ] {
            let text =
                format!("SELECT id, i FROM {table} ORDER BY {order} LIMIT {offset}, {count}");
            let found = ask(&mut session, &text).unwrap();
            let wanted: Vec<String> = all.iter().skip(offset).take(count).cloned().collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}

/// A condition that fails for some values is not evaluated for rows that another condition
/// excludes, also after many rows, when conditions may be reordered.
#[test]
fn a_condition_is_not_evaluated_for_rows_that_another_excludes() {
    let mut session = crate::common::session();
    run(&mut session, "CREATE DATABASE d");
    run(&mut session, "USE d");
    let table = "CREATE TABLE g (id INT PRIMARY KEY, kind VARCHAR(9), v BIGINT, d INT)";
    run(&mut session, table);
    let row = |n: u64| match n % 7 {
        0 => format!("({n}, 'most', {}, 0)", i64::MAX),
        rest => format!("({n}, 'small', {rest}, 5)"),
    };
    let values: Vec<String> = (0..4200).map(row).collect();
    run(
        &mut session,
        &format!("INSERT INTO g VALUES {}", values.join(", ")),
    );
    for (query, expected) in [
        (
            "SELECT COUNT(*) FROM g WHERE kind = 'small' AND v * 10 > 5",
            "3600",
        ),
        (
            "SELECT COUNT(*) FROM g JOIN g h ON h.id = g.id AND h.kind = 'small' \
             WHERE g.kind = 'small' AND g.v * 10 + h.v > 5",
            "3600",
        ),
    ] {
        let found = ask(&mut session, query);
        assert_eq!(found, Ok(vec![expected.to_owned()]), "{query}");
    }
    let copy = "CREATE TABLE c SELECT id FROM g WHERE kind = 'small' AND 10 DIV d = 2";
    run(&mut session, copy);
    let found = ask(&mut session, "SELECT COUNT(*) FROM c");
    assert_eq!(found, Ok(vec!["3600".to_owned()]));
}
