//! Fast paths that a query switches to after many rows do not change results. Each query runs on
//! plain columns, which the fast path reads as integers, and on columns inside IFNULL, which are
//! evaluated value by value.

use crate::common::{Collected, Nothing};
use porpoise_sql::SqlSession;

/// More rows than one engine call returns.
const ROWS: u64 = 2600;

const COLUMNS: &[&str] = &["i", "u", "b", "t", "d", "w", "day", "at", "n", "late"];

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
    for table in ["", "r.", "s."] {
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
