//! The digest removes exactly the literals that the parser turns into parameters.

use std::collections::HashMap;

use bumpalo::Bump;
use fastrand::Rng;
use porpoise_sql_parser::ast::Statement;
use porpoise_sql_parser::digest::{Digest, LiteralKind, parse_parametric};
use porpoise_sql_parser::lexer::Lexer;
use porpoise_sql_parser::token::TokenKind;
use porpoise_sql_parser::{LexMode, ParseErrorKind, ParseOptions, parse_one, print};

const CORPUS: &str = include_str!("fixtures/mysql_statements.sql");
const MORE: &str = include_str!("fixtures/more_statements.sql");
const MODE: LexMode = LexMode {
    ansi_quotes: false,
    no_backslash_escapes: false,
    pipes_as_concat: false,
    high_not_precedence: false,
    ignore_space: false,
};

/// Kinds and texts of the literals, and the key.
fn digest(text: &str) -> Option<(u128, Vec<(LiteralKind, String)>)> {
    let mut digest = Digest::new();
    let key = digest.compute(text.as_bytes(), 0, MODE)?.key;
    let literals = digest.literals().iter().map(|literal| {
        (
            literal.kind,
            String::from_utf8_lossy(literal.span.slice(text.as_bytes())).into_owned(),
        )
    });
    Some((key, literals.collect()))
}

fn key(text: &str) -> u128 {
    digest(text).unwrap().0
}

/// Puts the texts of literals in place of the parameters.
fn substitute(printed: &[u8], literals: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut lexer = Lexer::new(printed, 0, MODE);
    let mut literals = literals.iter();
    let mut copied = 0;
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::Param {
            out.extend_from_slice(&printed[copied..token.start as usize]);
            out.extend_from_slice(literals.next().unwrap());
            copied = token.end as usize;
        }
        if token.kind == TokenKind::End {
            out.extend_from_slice(&printed[copied..]);
            assert!(literals.next().is_none());
            return out;
        }
    }
}

#[test]
fn substituting_back_gives_the_original_tree() {
    let mut plans = 0;
    let mut digest = Digest::new();
    for line in CORPUS.lines().chain(MORE.lines()) {
        let text = line.as_bytes();
        let Some(normalized) = digest.compute(text, 0, MODE) else {
            continue;
        };
        let arena = Bump::new();
        let Ok(original) = parse_one(&arena, text, 0, &ParseOptions::default()) else {
            continue;
        };
        assert_eq!(
            (normalized.end, normalized.rest),
            (original.end, original.rest),
            "{line}"
        );
        let parametric = match parse_parametric(&arena, text, 0, MODE, digest.literals()) {
            Ok(parametric) => parametric,
            Err(error) => {
                assert_eq!(error.kind, ParseErrorKind::NotParametric, "{line}");
                continue;
            }
        };
        plans += 1;
        assert_eq!(
            parametric.params as usize,
            digest.literals().len(),
            "{line}"
        );
        let printed = print::statement(&parametric.statement, MODE);
        let literals: Vec<&[u8]> = digest
            .literals()
            .iter()
            .map(|literal| literal.span.slice(text))
            .collect();
        let back = arena.alloc(substitute(&printed, &literals));
        let again = parse_one(&arena, back, 0, &ParseOptions::default()).unwrap();
        assert!(
            again.statement == original.statement,
            "{line}\n{}",
            String::from_utf8_lossy(back)
        );
    }
    assert!(plans > 120, "{plans}");
}

#[test]
fn keys_depend_on_types_and_not_on_values() {
    let select = "SELECT a,b FROM t WHERE id = 12345";
    assert_eq!(key(select), key("SELECT a,b FROM t WHERE id = 7"));
    assert_eq!(
        key(select),
        key("SELECT a,b FROM t /* x */ WHERE id=  7 -- y")
    );
    for other in [
        "SELECT a,b FROM t WHERE id = '12345'",
        "SELECT a,b FROM t WHERE id = 12345.0",
        "SELECT a,b FROM t WHERE id = 1e5",
        "SELECT a,b FROM t WHERE id = 9223372036854775808",
        "SELECT a,b FROM T WHERE id = 12345",
        "SELECT a, b FROM t WHERE id = 12345",
        "SELECT a,b FROM t WHERE id = -12345",
        "SELECT a,b FROM t WHERE id = NULL",
        "SELECT a,b FROM t WHERE id = id",
        "SELECT a,b FROM t WHERE id = 12345 LIMIT 1",
    ] {
        assert_ne!(key(select), key(other), "{other}");
    }
    assert_ne!(
        key("TABLE t LIMIT 9223372036854775807"),
        key("TABLE t LIMIT 9223372036854775808")
    );
    assert_eq!(
        key("UPDATE t SET a = 1.25 WHERE b = 'x'"),
        key("UPDATE t SET a = 9.75 WHERE b = 'yy'")
    );
    assert_ne!(key("UPDATE t SET a = 1.25"), key("UPDATE t SET a = 12.5"));
    assert_ne!(
        key("DELETE FROM t WHERE a IN (1, 2)"),
        key("DELETE FROM t WHERE a IN (1, 2, 3)")
    );
    assert_ne!(
        key("INSERT INTO t VALUES (1)"),
        key("INSERT INTO t VALUES (1), (2)")
    );
    assert_ne!(
        key("SELECT count(a) FROM t"),
        key("SELECT count (a) FROM t")
    );
    assert_ne!(
        key("SELECT 1 FROM t WHERE max(a)"),
        key("SELECT 1 FROM t WHERE max (a)")
    );
}

#[test]
fn structural_literals_stay_in_the_key() {
    for (one, other) in [
        ("SELECT 1", "SELECT 2"),
        ("SELECT a+1 FROM t", "SELECT a + 1 FROM t"),
        ("SELECT * FROM (SELECT 1) d", "SELECT * FROM (SELECT 2) d"),
        ("SELECT a FROM t ORDER BY 1", "SELECT a FROM t ORDER BY 2"),
        (
            "SELECT a FROM t GROUP BY a, 1",
            "SELECT a FROM t GROUP BY a, 2",
        ),
        (
            "SELECT a FROM t GROUP BY a HAVING a + 1 > 2",
            "SELECT a FROM t GROUP BY a HAVING a + 1 > 3",
        ),
        (
            "SELECT a FROM t WHERE CAST(a AS CHAR(3)) = 'x'",
            "SELECT a FROM t WHERE CAST(a AS CHAR(4)) = 'x'",
        ),
        (
            "SELECT a FROM t WHERE ROUND(a, 1) = 1",
            "SELECT a FROM t WHERE ROUND(a, 2) = 1",
        ),
        (
            "SELECT a FROM t WHERE b = NOW(1)",
            "SELECT a FROM t WHERE b = NOW(2)",
        ),
        (
            "SELECT a FROM t WHERE b = DATE '2020-01-01'",
            "SELECT a FROM t WHERE b = DATE '2020-01-02'",
        ),
        (
            "SELECT a FROM t WHERE b->'$.x' = 1",
            "SELECT a FROM t WHERE b->'$.y' = 1",
        ),
        (
            "SELECT a FROM t WHERE b LIKE 'x' ESCAPE '!'",
            "SELECT a FROM t WHERE b LIKE 'x' ESCAPE '|'",
        ),
        (
            "SELECT a FROM t WHERE b > d + INTERVAL 1 DAY",
            "SELECT a FROM t WHERE b > d + INTERVAL 1 HOUR",
        ),
        (
            "SELECT a FROM t WHERE b = _utf8mb4'x'",
            "SELECT a FROM t WHERE b = _utf8mb4'y'",
        ),
        (
            "SELECT a FROM t WHERE @a = 1",
            "SELECT a FROM t WHERE @b = 1",
        ),
    ] {
        assert_ne!(key(one), key(other), "{one} / {other}");
    }
}

#[test]
fn literals_are_listed_in_order_with_their_kinds() {
    use LiteralKind::{Decimal, Float, Hex, Int, Limit, String};
    let (_, literals) = digest(
        "SELECT 1, a FROM t WHERE b = 'x' AND c IN (2, 3.5, 4e1, x'41') ORDER BY 2 LIMIT 10, 20",
    )
    .unwrap();
    let expected = [
        (String, "'x'"),
        (Int, "2"),
        (Decimal, "3.5"),
        (Float, "4e1"),
        (Hex, "x'41'"),
        (Limit, "10"),
        (Limit, "20"),
    ];
    assert_eq!(
        literals,
        expected.map(|(kind, text)| (kind, text.to_owned()))
    );
}

#[test]
fn other_texts_have_no_digest() {
    for text in [
        "SET a = 1",
        "CREATE TABLE t (a INT)",
        "SELECT ?",
        "SELECT a FROM t WHERE b = 'x' 'y'",
        "SELECT 'x",
        "",
        "BEGIN",
        "SHOW TABLES",
        "SELECT 1 \u{0}",
        "SELECT NTH_VALUE(a, 2) FROM FIRST OVER w, 5 FROM t",
    ] {
        assert_eq!(digest(text), None, "{text}");
    }
}

#[test]
fn equal_keys_mean_equal_trees() {
    let lines: Vec<&str> = CORPUS.lines().chain(MORE.lines()).collect();
    let words = [
        "1", "2", "'x'", "'y'", "1.5", " ", "(", ")", ",", "a", "AS", "SELECT", "FROM", "LIMIT",
        "ORDER BY", "GROUP BY", "/* c */", "INTERVAL", ".", "@", "-", "ROUND(", "UNION", "AND",
        "=",
    ];
    let mut rng = Rng::with_seed(3);
    let mut digest = Digest::new();
    let arena = Bump::new();
    let mut seen: HashMap<Vec<u8>, (&str, Option<Statement<'_>>)> = HashMap::new();
    let mut repeated = 0;
    for _ in 0..60_000 {
        let line = lines[rng.usize(..lines.len().min(160))];
        let mut pieces: Vec<&str> = line.split_inclusive(' ').collect();
        for _ in 0..rng.usize(..3) {
            let at = rng.usize(..=pieces.len());
            if rng.bool() && at < pieces.len() {
                pieces[at] = words[rng.usize(..words.len())];
            } else {
                pieces.insert(at, words[rng.usize(..words.len())]);
            }
        }
        let text = arena.alloc_str(&pieces.concat());
        if digest.compute(text.as_bytes(), 0, MODE).is_none() {
            continue;
        }
        let literals = arena.alloc_slice_copy(digest.literals());
        let tree = parse_parametric(&arena, text.as_bytes(), 0, MODE, literals)
            .ok()
            .map(|parsed| parsed.statement);
        match seen.get(digest.normalized()) {
            Some((earlier, known)) => {
                repeated += usize::from(*earlier != text);
                assert!(*known == tree, "{earlier}\n{text}");
            }
            None => {
                seen.insert(digest.normalized().to_vec(), (text, tree));
            }
        }
    }
    assert!(repeated > 700, "{repeated}");
}
