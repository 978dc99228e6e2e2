//! Operators bind as in MySQL: the shape of the tree is shown with every pair of parentheses.

use bumpalo::Bump;
use porpoise_sql_parser::{LexMode, ParseOptions, parse_expr, print};

fn shape(text: &str, mode: LexMode) -> String {
    let arena = Bump::new();
    let options = ParseOptions {
        mode,
        ..ParseOptions::default()
    };
    match parse_expr(&arena, text.as_bytes(), &options) {
        Ok(expr) => String::from_utf8(print::expr_shape(&expr, mode))
            .unwrap()
            .replace('`', ""),
        Err(error) => error.message(text.as_bytes()),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(shape(text, LexMode::default()), expected, "{text}");
}

#[test]
fn logical_operators() {
    check("a || b AND c", "(a OR (b AND c))");
    check("a && b || c", "((a AND b) OR c)");
    check("a XOR b AND c", "(a XOR (b AND c))");
    check("a OR b XOR c", "(a OR (b XOR c))");
    check("a XOR b OR c AND d", "((a XOR b) OR (c AND d))");
    check("a OR b OR c", "(a OR b OR c)");
    check("(a OR b) OR c", "((a OR b) OR c)");
    check("a AND b AND c OR d", "((a AND b AND c) OR d)");
    check("NOT a AND b", "((NOT a) AND b)");
    check("NOT a = b", "(NOT (a = b))");
    check("NOT a BETWEEN b AND c", "(NOT (a BETWEEN b AND c))");
    check("NOT NOT a", "(NOT (NOT a))");
    check("! a = b", "((NOT a) = b)");
    check("a AND NOT b OR c", "((a AND (NOT b)) OR c)");
}

#[test]
fn arithmetic_and_bits() {
    check("a ^ b * c", "((a ^ b) * c)");
    check("a * b ^ c", "(a * (b ^ c))");
    check("a | b & c << d", "(a | (b & (c << d)))");
    check("a << b + c", "(a << (b + c))");
    check("a & b = c", "((a & b) = c)");
    check("a + b * c - d", "(a + (b * c) - d)");
    check("a - b - c", "(a - b - c)");
    check("a DIV b MOD c % d / e", "(a DIV b % c % d / e)");
    check("a * (b * c)", "(a * (b * c))");
    check("-a ^ b", "((-a) ^ b)");
    check("- a * b", "((-a) * b)");
    check("~ a | b", "((~a) | b)");
    check("2--1", "(2 - (-1))");
    check("- -1", "(-(-1))");
    check("a + -b", "(a + (-b))");
}

#[test]
fn comparisons_and_predicates() {
    check("a LIKE b = c", "((a LIKE b) = c)");
    check("a = b LIKE c", "(a = (b LIKE c))");
    check("a = b = c", "(a = b = c)");
    check("a < b <= c <=> d", "(a < b <= c <=> d)");
    check("a = b IS NULL", "((a = b) IS NULL)");
    check("a IS NULL = b", "((a IS NULL) = b)");
    check("a IS NULL IS NOT TRUE", "((a IS NULL) IS NOT TRUE)");
    check("a IN (1, 2) IN (0, 3)", "((a IN (1, 2)) IN (0, 3))");
    check("a BETWEEN b AND c AND d", "((a BETWEEN b AND c) AND d)");
    check("a BETWEEN b AND c = d", "((a BETWEEN b AND c) = d)");
    check(
        "a BETWEEN b + 1 AND c | d OR e",
        "((a BETWEEN (b + 1) AND (c | d)) OR e)",
    );
    check(
        "a BETWEEN 1 AND 2 BETWEEN 3 AND 4",
        "(a BETWEEN 1 AND (2 BETWEEN 3 AND 4))",
    );
    check("a REGEXP b | c", "(a REGEXP (b | c))");
    check(
        "a NOT LIKE b ESCAPE '!' AND c",
        "((a NOT LIKE b ESCAPE '!') AND c)",
    );
    check("a + b LIKE c", "((a + b) LIKE c)");
    check("a MEMBER OF (b) = c", "((a MEMBER OF (b)) = c)");
    check("a SOUNDS LIKE b = c", "((a SOUNDS LIKE b) = c)");
    check("a > ALL (SELECT 1) = b", "((a > ALL (SELECT 1)) = b)");
}

#[test]
fn tight_prefixes_and_suffixes() {
    check("BINARY a = b", "((BINARY a) = b)");
    check("BINARY a COLLATE x", "(BINARY (a COLLATE x))");
    check("- a COLLATE x", "(-(a COLLATE x))");
    check("a = b COLLATE x", "(a = (b COLLATE x))");
    check("a || b COLLATE x", "(a OR (b COLLATE x))");
    check("d + INTERVAL 1 DAY * 2", "((d + INTERVAL 1 DAY) * 2)");
    check("d + INTERVAL 1 DAY + 2", "((d + INTERVAL 1 DAY) + 2)");
    check(
        "a + b - INTERVAL c + 1 HOUR",
        "((a + b) - INTERVAL (c + 1) HOUR)",
    );
    check(
        "a * d + INTERVAL 1 DAY > b",
        "(((a * d) + INTERVAL 1 DAY) > b)",
    );
}

#[test]
fn assignment_is_loosest_on_its_right() {
    check("@a := b OR c", "(@a := (b OR c))");
    check("1 + @a := 5 OR 2", "(1 + (@a := (5 OR 2)))");
    check("@a := @b := c", "(@a := (@b := c))");
}

#[test]
fn modes_change_binding() {
    let pipes = LexMode {
        pipes_as_concat: true,
        ..LexMode::default()
    };
    assert_eq!(shape("a || b AND c", pipes), "((a || b) AND c)");
    assert_eq!(shape("a || b ^ c", pipes), "((a || b) ^ c)");
    assert_eq!(shape("-a || b COLLATE x", pipes), "((-a) || (b COLLATE x))");
    let high = LexMode {
        high_not_precedence: true,
        ..LexMode::default()
    };
    assert_eq!(shape("NOT a = b", high), "((NOT a) = b)");
    assert_eq!(
        shape("NOT a BETWEEN b AND c", high),
        "((NOT a) BETWEEN b AND c)"
    );
}

#[test]
fn invalid_expressions_are_refused() {
    for text in [
        "a IS NULL + 1",
        "a OR b IS NULL + 1",
        "NOT a LIKE b LIKE c",
        "a BETWEEN 1 AND 2 LIKE c IN (1)",
        "@a := b IS NULL * 2",
        "INTERVAL 1 DAY + a IS NULL + 1",
        "a = NOT b",
        "a LIKE b + NOT c",
        "a +",
        "(a",
        "a IN ()",
        "CASE END",
        "a b",
        "1 2",
        "INTERVAL 1 DAY",
        "COUNT (*)",
        "f(,)",
        "CAST(a AS INT)",
        "ROW(1)",
        "x'4'",
        "'abc",
        "a.b.c.d",
        "NOT",
        "@a := ",
        "a BETWEEN 1",
    ] {
        assert!(
            shape(text, LexMode::default()).starts_with("You have an error in your SQL syntax"),
            "{text}"
        );
    }
}
