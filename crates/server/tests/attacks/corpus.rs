//! The attack corpus: statements that occupy a server for as long as possible.
//!
//! Most are generated, because they are too long to be written out. The tables are
//! those of [`setup`].

use std::fmt::Write;

/// A named attack statement.
pub struct Attack {
    /// Unique short name.
    pub name: String,
    /// The text.
    pub sql: String,
}

/// Tables of the corpus: `n` of 60,000 rows, `e` of one row a digit, `j` of
/// documents, `p` and `c` of a parent and its children.
const SETUP: &str = include_str!("../../../../tests/attacks/setup.sql");

/// Short statements, one per line after its name.
const PLAIN: &str = include_str!("../../../../tests/attacks/plain.sql");

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with("--"))
}

/// The statements that create the tables.
pub fn setup() -> impl Iterator<Item = &'static str> {
    lines(SETUP)
}

/// Joins `count` items by `between`.
fn list(count: usize, item: impl Fn(usize) -> String, between: &str) -> String {
    let mut out = String::new();
    for at in 0..count {
        if at > 0 {
            out.push_str(between);
        }
        let _ = write!(out, "{}", item(at));
    }
    out
}

fn nested(open: &str, inside: &str, close: &str, times: usize) -> String {
    format!("{}{inside}{}", open.repeat(times), close.repeat(times))
}

/// All statements of the corpus.
pub fn attacks() -> Vec<Attack> {
    let named = lines(PLAIN).filter_map(|line| line.split_once(": "));
    let plain = named.map(|(name, sql)| (name, sql.to_owned()));
    let long = [long_lists(), long_chains(), long_clauses(), long_tokens()];
    let deep = [deep_texts(), deep_queries(), planner(), outer_joins()];
    let all = plain.chain(long.into_iter().chain(deep).flatten());
    all.map(|(name, sql)| Attack {
        name: name.to_owned(),
        sql,
    })
    .collect()
}

/// Statements with long lists and chains.
fn long_lists() -> Vec<(&'static str, String)> {
    let million = list(1_000_000, |n| (n * 7).to_string(), ",");
    let words = list(400_000, |n| format!("'row {n}'"), ",");
    vec![
        (
            "list of a million numbers",
            format!("SELECT COUNT(*) FROM n WHERE a IN ({million})"),
        ),
        (
            "million numbers not in",
            format!("SELECT COUNT(*) FROM n x, n y WHERE x.a + y.a NOT IN ({million})"),
        ),
        (
            "million numbers by key",
            format!("SELECT COUNT(*) FROM n WHERE id IN ({million})"),
        ),
        (
            "list of texts",
            format!("SELECT COUNT(*) FROM n x, e y WHERE b IN ({words})"),
        ),
        (
            "list of mixed types",
            format!("SELECT COUNT(*) FROM n WHERE a IN ({words}, 1, 2.5, 1e3)"),
        ),
        (
            "list of rows",
            format!(
                "SELECT COUNT(*) FROM n WHERE (id, a) IN ({})",
                list(100_000, |n| format!("({n},{n})"), ",")
            ),
        ),
    ]
}

/// Statements with long chains of conditions.
fn long_chains() -> Vec<(&'static str, String)> {
    vec![
        (
            "20,000 arms of one column",
            format!(
                "SELECT COUNT(*) FROM n WHERE {}",
                list(20_000, |n| format!("a={n}"), " OR ")
            ),
        ),
        (
            "20,000 arms of two columns",
            format!(
                "SELECT COUNT(*) FROM n WHERE {}",
                list(20_000, |n| format!("a=-{n} OR b='{n}'"), " OR ")
            ),
        ),
        (
            "20,000 ranges",
            format!(
                "SELECT COUNT(*) FROM n WHERE {}",
                list(20_000, |n| format!("a BETWEEN -{n} AND -1"), " OR ")
            ),
        ),
        (
            "20,000 conjuncts",
            format!(
                "SELECT COUNT(*) FROM n WHERE {}",
                list(20_000, |n| format!("a<>-{n}"), " AND ")
            ),
        ),
        (
            "20,000 branches",
            format!(
                "SELECT COUNT(*) FROM n WHERE CASE a {} END",
                list(20_000, |n| format!("WHEN -{n} THEN 1"), " ")
            ),
        ),
        (
            "50,000 patterns",
            format!(
                "SELECT COUNT(*) FROM n WHERE {}",
                list(50_000, |n| format!("b LIKE '%a%{n}q'"), " OR ")
            ),
        ),
        (
            "many exclusive ors",
            format!("SELECT {}", list(200_000, |_| "1".into(), " XOR ")),
        ),
    ]
}

/// Statements with many arguments, columns, rows or parts.
fn long_clauses() -> Vec<(&'static str, String)> {
    let columns = list(4_000, |n| format!("c{n} INT"), ",");
    let rows = list(300_000, |n| format!("({})", n + 1_000_000), ",");
    vec![
        (
            "many arguments",
            format!(
                "SELECT CONCAT({}) FROM n",
                list(60_000, |n| n.to_string(), ",")
            ),
        ),
        (
            "many fields",
            format!(
                "SELECT MAX(FIELD(a, {})) FROM n",
                list(60_000, |n| format!("-{n}"), ",")
            ),
        ),
        (
            "many greatest",
            format!(
                "SELECT MAX(GREATEST({})) FROM n",
                list(60_000, |n| format!("a+{n}"), ",")
            ),
        ),
        (
            "a long select list",
            format!(
                "SELECT {} FROM n",
                list(4_000, |n| format!("a+{n} c{n}"), ",")
            ),
        ),
        (
            "a long group by",
            format!(
                "SELECT COUNT(*) FROM n GROUP BY {}",
                list(2_000, |n| format!("a+{n}"), ",")
            ),
        ),
        (
            "a long order by",
            format!(
                "SELECT id FROM n ORDER BY {}",
                list(2_000, |n| format!("a%{}", n + 1), ",")
            ),
        ),
        ("many rows inserted", format!("INSERT INTO p VALUES {rows}")),
        ("many columns", format!("CREATE TABLE wide ({columns})")),
        (
            "many selects of a union",
            format!(
                "SELECT COUNT(*) FROM ({}) u",
                list(1_000, |n| format!("SELECT id+{n} x FROM n"), " UNION ")
            ),
        ),
        (
            "many common table expressions",
            format!(
                "WITH {} SELECT COUNT(*) FROM t299, n",
                list(
                    300,
                    |n| match n {
                        0 => "t0 AS (SELECT id FROM n)".into(),
                        n => format!("t{n} AS (SELECT id+1 id FROM t{})", n - 1),
                    },
                    ","
                )
            ),
        ),
    ]
}

/// Statements of long tokens, or of many.
fn long_tokens() -> Vec<(&'static str, String)> {
    vec![
        (
            "a long literal",
            format!("SELECT LENGTH('{}')", "a\\\\".repeat(3_000_000)),
        ),
        ("a long number", format!("SELECT {}", "9".repeat(8_000_000))),
        (
            "a long comment",
            format!("/*{}*/ SELECT SLEEP(1)", "* / ".repeat(2_500_000)),
        ),
        (
            "many comments",
            format!("SELECT {} 1", "/**/".repeat(2_500_000)),
        ),
        ("many signs", format!("SELECT {}1", "- ".repeat(900))),
        (
            "a long hexadecimal literal",
            format!("SELECT LENGTH(x'{}')", "ab".repeat(4_000_000)),
        ),
        (
            "a syntax error at the end",
            format!(
                "SELECT {} FROM FROM",
                list(1_000_000, |n| n.to_string(), ",")
            ),
        ),
        (
            "statement prepared",
            format!(
                "PREPARE s FROM 'SELECT COUNT(*) FROM n WHERE a IN ({})'",
                list(500_000, |n| n.to_string(), ",")
            ),
        ),
        (
            "many variables",
            format!("SET {}", list(100_000, |n| format!("@v{n}={n}"), ",")),
        ),
        ("many statements", list(100_000, |_| "DO 1".into(), ";")),
    ]
}

/// Expressions nested deeply.
fn deep_texts() -> Vec<(&'static str, String)> {
    vec![
        (
            "hex of hex",
            format!("SELECT LENGTH({})", nested("HEX(", "'a'", ")", 45)),
        ),
        (
            "concat doubling",
            format!("SELECT LENGTH({})", nested("REPEAT(", "'a'", ",2)", 60)),
        ),
        (
            "json_quote of json_quote",
            format!("SELECT LENGTH({})", nested("JSON_QUOTE(", "'\"'", ")", 60)),
        ),
        (
            "deep parentheses",
            format!("SELECT {}", nested("(", "1", ")", 100_000)),
        ),
        (
            "deep functions",
            format!("SELECT {}", nested("ABS(", "1", ")", 100_000)),
        ),
        ("deep not", format!("SELECT {} 1", "NOT ".repeat(100_000))),
        (
            "deep case",
            format!(
                "SELECT {}",
                nested("CASE WHEN 1 THEN ", "1", " END", 20_000)
            ),
        ),
    ]
}

/// Queries, documents and patterns nested deeply.
fn deep_queries() -> Vec<(&'static str, String)> {
    vec![
        (
            "deep subqueries",
            format!("SELECT {}", nested("(SELECT ", "1", ")", 5_000)),
        ),
        (
            "deep derived tables",
            format!(
                "SELECT * FROM {} t",
                nested("(SELECT * FROM ", "n", " q)", 60)
            ),
        ),
        (
            "deep exists",
            format!(
                "SELECT {}",
                nested("EXISTS (SELECT 1 FROM n WHERE ", "a < 0", ")", 50)
            ),
        ),
        (
            "deep joins",
            format!(
                "SELECT COUNT(*) FROM {}",
                nested("(", "n", " JOIN n t USING (id))", 500)
            ),
        ),
        (
            "deep document",
            format!("SELECT JSON_DEPTH('{}')", nested("[", "1", "]", 1_000_000)),
        ),
        (
            "deep document path",
            format!("SELECT JSON_EXTRACT('[]', '${}')", "[0]".repeat(1_000_000)),
        ),
        (
            "deep regex",
            format!(
                "SELECT REGEXP_LIKE('a', '{}')",
                nested("(", "a", ")*", 20_000)
            ),
        ),
        (
            "wide regex",
            format!("SELECT REGEXP_LIKE('a', '{}')", "a{1000}".repeat(20_000)),
        ),
        (
            "a long sum",
            format!("SELECT {}", list(100_000, |n| n.to_string(), "+")),
        ),
        (
            "intervals added",
            format!("SELECT NOW() {}", "+ INTERVAL 1 DAY ".repeat(900)),
        ),
    ]
}

/// Joins of many tables.
fn planner() -> Vec<(&'static str, String)> {
    let tables = |count: usize| list(count, |n| format!("n t{n}"), ",");
    let chain = |count: usize| list(count - 1, |n| format!("t{n}.a=t{}.id", n + 1), " AND ");
    let clique = |count: usize| {
        let of = |n: usize| {
            list(
                count - n - 1,
                |m| format!("t{n}.a=t{}.a", n + m + 1),
                " AND ",
            )
        };
        list(count - 1, of, " AND ")
    };
    let join = |count, conditions: String| {
        format!("SELECT COUNT(*) FROM {} WHERE {conditions}", tables(count))
    };
    vec![
        ("chain of 60 tables", join(60, chain(60))),
        ("chain of 24 tables", join(24, chain(24))),
        ("clique of 30 tables", join(30, clique(30))),
        (
            "star of 60 tables",
            join(60, list(59, |n| format!("t0.a=t{}.id", n + 1), " AND ")),
        ),
        ("60 tables without conditions", join(60, "1".into())),
        ("12 tables without conditions", join(12, "1".into())),
    ]
}

/// Joins of many tables whose order is given in part.
fn outer_joins() -> Vec<(&'static str, String)> {
    vec![(
        "outer joins of 60 tables",
        format!(
            "SELECT COUNT(*) FROM n t0 {}",
            list(
                59,
                |n| format!("LEFT JOIN n t{} ON t{n}.a+1=t{}.a+1", n + 1, n + 1),
                " "
            )
        ),
    )]
}
