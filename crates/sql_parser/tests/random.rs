//! Random expressions parse to the same tree after printing, and no random bytes make the parser panic.

use bumpalo::Bump;
use fastrand::Rng;
use porpoise_sql_parser::digest::{Digest, parse_parametric};
use porpoise_sql_parser::{LexMode, ParseOptions, parse_expr, parse_one, print};

const CORPUS: &str = include_str!("fixtures/mysql_statements.sql");
const MORE: &str = include_str!("fixtures/more_statements.sql");

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

/// Appends a random expression, mostly without parentheses, so that precedence decides.
fn grow(rng: &mut Rng, depth: u32, out: &mut String) {
    const ATOMS: &[&str] = &[
        "a",
        "`b c`",
        "t.c",
        "1",
        "2.50",
        "3e4",
        "'x''y\\n'",
        "NULL",
        "TRUE",
        "@v",
        "@@global.x",
        "?",
        "x'41'",
        "b'101'",
        "_latin1'z'",
        "DATE '2020-01-01'",
        "NOW(3)",
        "COUNT(*)",
        "(SELECT 1)",
        "f(a, 1)",
        "CURRENT_DATE",
        "(1, 2)",
        "EXISTS (SELECT 1)",
        "DEFAULT(a)",
        "j->'$.x'",
        "CASE WHEN a THEN 1 END",
        "18446744073709551615",
        "VALUES(a)",
    ];
    const INFIX: &[&str] = &[
        "+",
        "-",
        "*",
        "/",
        "DIV",
        "MOD",
        "%",
        "&",
        "|",
        "^",
        "<<",
        ">>",
        "=",
        "<=>",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "XOR",
        "||",
        "&&",
        "LIKE",
        "NOT LIKE",
        "REGEXP",
        "SOUNDS LIKE",
        "= ANY",
        "MEMBER OF",
    ];
    const PREFIX: &[&str] = &["-", "+", "~", "!", "NOT ", "BINARY ", "@w := "];
    const SUFFIX: &[&str] = &[
        " IS NULL",
        " IS NOT TRUE",
        " COLLATE utf8mb4_bin",
        " IN (1, a + 2)",
        " NOT IN (SELECT 1)",
        " BETWEEN 1 AND b",
        " + INTERVAL a DAY",
        " - INTERVAL 1 + 1 HOUR_SECOND",
    ];
    if depth == 0 {
        return out.push_str(pick(rng, ATOMS));
    }
    match rng.u32(..10) {
        0 => {
            out.push('(');
            grow(rng, depth - 1, out);
            out.push(')');
        }
        1 | 2 => {
            out.push_str(pick(rng, PREFIX));
            grow(rng, depth - 1, out);
        }
        3 | 4 => {
            grow(rng, depth - 1, out);
            out.push_str(pick(rng, SUFFIX));
        }
        5 => out.push_str(pick(rng, ATOMS)),
        _ => {
            grow(rng, depth - 1, out);
            let infix = pick(rng, INFIX);
            out.push(' ');
            out.push_str(infix);
            out.push(' ');
            match infix {
                "= ANY" => out.push_str("(SELECT 2)"),
                "MEMBER OF" => out.push_str("(j)"),
                _ => grow(rng, depth - 1, out),
            }
        }
    }
}

#[test]
fn printed_random_expressions_parse_to_the_same_tree() {
    let mut rng = Rng::with_seed(7);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        let depth = rng.u32(1..7);
        grow(&mut rng, depth, &mut text);
        let mode = LexMode {
            pipes_as_concat: rng.bool(),
            high_not_precedence: rng.bool(),
            no_backslash_escapes: rng.bool(),
            ..LexMode::default()
        };
        let options = ParseOptions {
            mode,
            ..ParseOptions::default()
        };
        let arena = Bump::new();
        let Ok(first) = parse_expr(&arena, text.as_bytes(), &options) else {
            continue;
        };
        accepted += 1;
        for printed in [print::expr(&first, mode), print::expr_shape(&first, mode)] {
            let printed = arena.alloc(printed);
            let second =
                parse_expr(&arena, printed, &options).map_err(|error| error.message(printed));
            assert_eq!(
                second,
                Ok(first),
                "\n{text}\n{}",
                String::from_utf8_lossy(printed)
            );
        }
    }
    assert!(accepted > 4_000, "{accepted}");
}

fn mutate(rng: &mut Rng, lines: &[&[u8]]) -> Vec<u8> {
    let mut text = lines[rng.usize(..lines.len())].to_vec();
    for _ in 0..rng.u32(1..5) {
        let at = rng.usize(..=text.len());
        match rng.u32(..8) {
            0 if at < text.len() => text[at] = rng.u8(..),
            1 => text.insert(at, b"()'\"`;,.@-*/#?\\x0 "[rng.usize(..18)]),
            2 if at < text.len() => {
                text.remove(at);
            }
            3 => text.truncate(at),
            4 => {
                let other = lines[rng.usize(..lines.len())];
                let from = rng.usize(..=other.len());
                text.splice(at..at, other[from..].iter().copied());
            }
            5 => {
                let end = (at + rng.usize(..20)).min(text.len());
                let part = text[at..end].to_vec();
                for _ in 0..rng.u32(..50) {
                    text.splice(at..at, part.iter().copied());
                }
            }
            6 => text
                .splice(at..at, b"(".repeat(rng.usize(..200)))
                .for_each(drop),
            _ => {
                let end = (at + rng.usize(..30)).min(text.len());
                text.drain(at..end);
            }
        }
    }
    text
}

#[test]
fn random_bytes_never_make_the_parser_panic() {
    let run = || {
        let lines: Vec<&[u8]> = CORPUS
            .lines()
            .chain(MORE.lines())
            .map(str::as_bytes)
            .collect();
        let mut rng = Rng::with_seed(11);
        let mut digest = Digest::new();
        let mut arena = Bump::new();
        let mut accepted = 0;
        for round in 0..20_000_u32 {
            let text = mutate(&mut rng, &lines);
            let mode = LexMode {
                ansi_quotes: round % 3 == 0,
                no_backslash_escapes: round % 5 == 0,
                pipes_as_concat: round % 7 == 0,
                ..LexMode::default()
            };
            let options = ParseOptions {
                mode,
                ..ParseOptions::default()
            };
            match parse_one(&arena, &text, 0, &options) {
                Ok(parsed) => {
                    accepted += 1;
                    let printed = print::statement(&parsed.statement, mode);
                    let again =
                        parse_one(&arena, &printed, 0, &options).map(|parsed| parsed.statement);
                    let same = again.as_ref() == Ok(&parsed.statement);
                    assert!(
                        same,
                        "\n{}\n{}",
                        String::from_utf8_lossy(&text),
                        String::from_utf8_lossy(&printed)
                    );
                }
                Err(error) => assert!(error.message(&text).len() < 1_000),
            }
            if digest.compute(&text, 0, mode).is_some() {
                let _ = parse_parametric(&arena, &text, 0, mode, digest.literals());
            }
            arena.reset();
        }
        assert!(accepted > 800, "{accepted}");
    };
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}
