//! The text of a view is a statement that creates the same view: it gives the same rows, and its own
//! text is the same.

use crate::common::{run, session};
use porpoise_kv::contract::Rng;
use porpoise_sql::session::SqlSession;

/// Queries of all forms.
const QUERIES: &[&str] = &[
    "SELECT * FROM t1",
    "SELECT x.*, y.s FROM t1 x JOIN t2 y ON x.a = y.a",
    "SELECT * FROM t1 NATURAL JOIN t2",
    "SELECT * FROM t1 LEFT JOIN t2 USING (a, b) ORDER BY id",
    "SELECT t1.a, t2.b FROM t1 RIGHT JOIN t2 ON t1.a = t2.a AND t1.b",
    "SELECT t1.a FROM t1, t2, t2 z WHERE t1.a = t2.a AND t2.b = z.b",
    "SELECT t1.a FROM t1 LEFT JOIN (t2 JOIN t2 z ON t2.a = z.a) ON t1.a = z.b",
    "SELECT STRAIGHT_JOIN t1.a FROM t1 STRAIGHT_JOIN t2 ON t1.a < t2.a",
    "SELECT a + b * 2 - -a, -b, ~a, NOT a, !b, a DIV 2, a % 2, MOD(a, 3), a - b - 1 FROM t1",
    "SELECT a FROM t1 WHERE a AND NOT (b OR a > 3) XOR b = 1",
    "SELECT a IS NULL, a IS NOT NULL, a IS TRUE, b IS NOT FALSE, ISNULL(a), a <=> NULL FROM t1",
    "SELECT s LIKE 'a%', s NOT LIKE 'b|%' ESCAPE '|', s REGEXP '^a', s NOT RLIKE 'b' FROM t2",
    "SELECT a BETWEEN 1 AND 3, a NOT BETWEEN b AND 4, a IN (1, 2), a NOT IN (3, NULL) FROM t1",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, CASE WHEN a THEN 1 WHEN b > 1 THEN 2 END FROM t1",
    "SELECT IF(a > 1, 'it''s', \"q\\\"\"), IFNULL(a, 0), NULLIF(a, b), COALESCE(a, b) FROM t1",
    "SELECT CAST(a AS CHAR), CAST(a AS CHAR(3)), CAST(s AS BINARY(3)), BINARY s FROM t2",
    "SELECT CAST(a AS DECIMAL(8,2)), CAST(a AS DECIMAL), CAST(a AS SIGNED), CONVERT(s, UNSIGNED) FROM t2",
    "SELECT CONVERT(s USING latin1), s COLLATE utf8mb4_bin, _utf8mb4'x', x'4142', 0b11, 1e3 FROM t2",
    "SELECT DATE '2020-01-02' + INTERVAL a DAY, INTERVAL 1 MONTH + d, d - INTERVAL b HOUR FROM t2",
    "SELECT EXTRACT(YEAR FROM d), DATE(d), DAY(d), DATE_ADD(d, INTERVAL 1 YEAR_MONTH) FROM t2",
    "SELECT TRIM(LEADING 'a' FROM s), TRIM(s), SUBSTRING(s, 2), MID(s, 1, 1), POSITION('b' IN s) FROM t2",
    "SELECT LCASE(s), UCASE(s), CHARACTER_LENGTH(s), OCTET_LENGTH(s), CEIL(1.5), POWER(a, 2) FROM t2",
    "SELECT a, COUNT(*), SUM(b) AS total, COUNT(DISTINCT b) FROM t1 GROUP BY a HAVING total > 1",
    "SELECT a, GROUP_CONCAT(DISTINCT b ORDER BY b DESC SEPARATOR '-') g FROM t1 GROUP BY a ORDER BY g",
    "SELECT a, MAX(b) FROM t1 GROUP BY a WITH ROLLUP",
    "SELECT a + 1 AS a, b FROM t1 ORDER BY a, 2 DESC LIMIT 1, 3",
    "SELECT DISTINCT a FROM t1 ORDER BY 1 LIMIT 2 OFFSET 1",
    "SELECT a FROM t1 WHERE a IN (SELECT t2.a FROM t2 WHERE t2.b = t1.b) OR b NOT IN (SELECT b FROM t2)",
    "SELECT a, (SELECT MAX(s) FROM t2 WHERE t2.a = t1.a) FROM t1 WHERE EXISTS (SELECT * FROM t2 WHERE a = t1.a)",
    "SELECT a FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.a = t1.a) OR a >= ALL (SELECT a FROM t2)",
    "SELECT a FROM t1 WHERE (a, b) IN (SELECT a, b FROM t2) OR (a, b) = (1, 2) OR a = ANY (SELECT b FROM t2)",
    "SELECT q.m, q.c FROM (SELECT MAX(a) m, COUNT(*) c FROM t1 GROUP BY b) q WHERE q.c",
    "SELECT q.x FROM t1, LATERAL (SELECT t1.a + t2.b AS x FROM t2 WHERE t2.a = t1.a) q",
    "WITH c AS (SELECT a FROM t1), e (z) AS (SELECT a + 1 FROM c) SELECT * FROM c JOIN e ON z = a",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r",
    "SELECT a FROM t1 UNION SELECT b FROM t2 ORDER BY a LIMIT 3",
    "(SELECT a FROM t1 ORDER BY b LIMIT 1) UNION ALL (SELECT b FROM t2 ORDER BY 1 LIMIT 1)",
    "SELECT a FROM t1 EXCEPT SELECT b FROM t2 INTERSECT SELECT a FROM t1",
    "SELECT 1, 1, 'k', 'K', NULL, ''",
    "SELECT 's1' , a AS s1 FROM t1",
    "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) r, SUM(b) OVER w FROM t1 WINDOW w AS (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "SELECT j->'$.k', j->>'$.k', JSON_VALUE(j, '$.k' RETURNING SIGNED), 2 MEMBER OF (j->'$.l') FROM t2",
    "SELECT jt.v FROM t2, JSON_TABLE(t2.j, '$.l[*]' COLUMNS (v INT PATH '$')) AS jt",
    "SELECT other.o.a, o.b FROM other.o JOIN t1 ON t1.a = o.a",
    "SELECT a FROM t1 x WHERE x.a > (SELECT AVG(x.a) FROM t2 x)",
    "TABLE t1",
    "VALUES ROW(1, 'a'), ROW(2, 'b')",
];

fn prepare() -> SqlSession {
    let mut s = session();
    for sql in [
        "CREATE DATABASE other",
        "CREATE TABLE other.o (a INT, b INT)",
        "INSERT INTO other.o VALUES (1, 10), (2, 20)",
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t1 (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b INT)",
        "CREATE TABLE t2 (a INT, b INT, s VARCHAR(20), d DATETIME, j JSON)",
        "INSERT INTO t1 (a, b) VALUES (1, 2), (2, 0), (3, NULL), (NULL, 1), (4, 4), (2, 3)",
        r#"INSERT INTO t2 VALUES (1, 2, 'ab', '2020-01-31 10:00:00', '{"k": 1, "l": [1, 2]}'), (2, 3, 'b|c', '2021-12-01', '{"k": 2, "l": []}'), (5, 4, NULL, NULL, NULL)"#,
    ] {
        run(&mut s, sql);
    }
    s
}

fn text_of(s: &mut SqlSession) -> String {
    let shown = run(s, "SHOW CREATE VIEW d.v").join("\n");
    let (_, text) = shown.split_once('|').unwrap();
    let (text, _) = text.rsplit_once('|').unwrap();
    text.rsplit_once('|').unwrap().0.to_owned()
}

fn sorted(s: &mut SqlSession, sql: &str) -> Vec<String> {
    let mut rows = run(s, sql);
    rows.sort();
    rows
}

/// Creates a view and compares its rows and its text with those of the views that its text creates, in
/// its own database and from another one.
fn check(s: &mut SqlSession, query: &str) {
    run(s, &format!("CREATE OR REPLACE VIEW v AS {query}"));
    // Rows in any order: LIMIT is only used with a complete order.
    let rows = sorted(s, "SELECT * FROM v");
    assert_eq!(sorted(s, query), rows, "{query}");
    let text = text_of(s);
    run(s, "USE other");
    let qualified = text_of(s);
    run(s, "DROP VIEW d.v");
    run(s, &qualified);
    run(s, "USE d");
    assert_eq!(text_of(s), text, "{query}");
    assert_eq!(sorted(s, "SELECT * FROM v"), rows, "{qualified}");
    run(s, "DROP VIEW v");
    run(s, &text);
    assert_eq!(text_of(s), text, "{query}");
    assert_eq!(sorted(s, "SELECT * FROM v"), rows, "{text}");
}

#[test]
fn the_text_of_a_view_creates_the_same_view() {
    let mut s = prepare();
    for query in QUERIES {
        check(&mut s, query);
    }
}

/// A random expression over numbers.
fn number(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 || rng.below(4) == 0 {
        return match rng.below(5) {
            0 => rng.below(5).to_string(),
            1 => "NULL".to_owned(),
            2 => "t1.b".to_owned(),
            3 => "id".to_owned(),
            _ => "t1.a".to_owned(),
        };
    }
    let (a, b) = (number(rng, depth - 1), number(rng, depth - 1));
    match rng.below(14) {
        0 => format!("({a} + {b})"),
        1 => format!("({a} - {b} * 2)"),
        2 => format!("-({a})"),
        3 => format!("(NOT ({a}))"),
        4 => format!("({a} = {b})"),
        5 => format!("({a} AND {b} OR {a})"),
        6 => format!("({a} XOR {b})"),
        7 => format!("CASE WHEN {a} THEN {b} END"),
        8 => format!("({a} IN ({b}, 1))"),
        9 => format!("(({a} BETWEEN {b} AND 3) IS NOT TRUE)"),
        10 => format!("IFNULL({a}, {b})"),
        11 => format!("(SELECT COUNT(*) FROM t2 WHERE t2.a = {b} AND {a})"),
        12 => format!("(({a}) NOT IN (SELECT b FROM t2 WHERE a = ({b})) = {a})"),
        _ => format!("((({a}) IS NULL) + {b})"),
    }
}

#[test]
fn texts_of_random_views_create_the_same_views() {
    let mut s = prepare();
    let mut rng = Rng::new(5);
    for _ in 0..300 {
        let (a, b, c) = (
            number(&mut rng, 3),
            number(&mut rng, 3),
            number(&mut rng, 2),
        );
        let from = [
            "t1",
            "t1 JOIN t2 USING (b)",
            "t2 RIGHT JOIN t1 ON t1.a = t2.a",
            "t1 LEFT JOIN (SELECT a AS k FROM t2) q ON q.k = t1.a",
        ];
        let from = from[rng.below(4) as usize];
        check(
            &mut s,
            &format!("SELECT {a} AS x, {b} AS y FROM {from} WHERE {c} ORDER BY x, ({b}) + 0"),
        );
    }
}
