//! Long statements parse and deeply nested ones are refused; neither overflows the stack.

use bumpalo::Bump;
use porpoise_sql_parser::{
    LexMode, Limits, ParseError, ParseErrorKind, ParseOptions, parse_one, print,
};

/// Parses, prints and compares on a thread with a small stack.
fn on_small_stack(text: String) -> Result<(), ParseError> {
    let run = move || {
        let arena = Bump::new();
        let parsed = parse_one(&arena, text.as_bytes(), 0, &ParseOptions::default())?;
        let printed = arena.alloc(print::statement(&parsed.statement, LexMode::default()));
        let again = parse_one(&arena, printed, 0, &ParseOptions::default())?;
        assert!(again.statement == parsed.statement);
        Ok(())
    };
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn long_chains_parse() {
    let n = 50_000;
    assert_eq!(
        on_small_stack(format!("SELECT 1{}", " + 1".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT 1{}", " * a / 2".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT 1 WHERE a = 1{}", " OR a = 2".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT 1 WHERE a = 1{}", " AND (a = 2)".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!(
            "SELECT 1{}",
            " INTERSECT SELECT 1 UNION SELECT 2".repeat(n)
        )),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!(
            "INSERT INTO t VALUES (1, 'a'){}",
            ", (2, 'b')".repeat(n)
        )),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT * FROM t{}", " JOIN t ON a = b".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT * FROM t{}", ", (t JOIN u)".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT t.a{} FROM t", ", t.a + 1".repeat(n))),
        Ok(())
    );
    assert_eq!(
        on_small_stack(format!("SELECT a IN (1{})", ", (2)".repeat(n))),
        Ok(())
    );
}

#[test]
fn deep_nesting_is_refused_with_1436() {
    let n = 50_000;
    let deep = [
        format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("SELECT {}1", "- ".repeat(n)),
        format!("SELECT {}1", "NOT ".repeat(n)),
        format!("SELECT {}1", "@a := ".repeat(n)),
        format!("SELECT 1{}", " IS NULL".repeat(n)),
        format!("SELECT a{}", " IN (1)".repeat(n)),
        format!("SELECT a{}", " COLLATE x".repeat(n)),
        format!("SELECT a{}", " + INTERVAL 1 DAY".repeat(n)),
        format!("SELECT a{}", " BETWEEN 1 AND 2".repeat(n)),
        format!("SELECT {}1{}", "f(".repeat(n), ")".repeat(n)),
        format!(
            "SELECT {}1{}",
            "CASE WHEN ".repeat(n),
            " THEN 1 END".repeat(n)
        ),
        format!("{}SELECT 1{}", "(".repeat(n), ")".repeat(n)),
        format!("SELECT {}1{}", "(SELECT ".repeat(n), ")".repeat(n)),
        format!("SELECT * FROM {}t{}", "(".repeat(n), ")".repeat(n)),
        format!(
            "SELECT * FROM {}SELECT 1{}",
            "(".repeat(n),
            ") AS d".repeat(n)
        ),
        format!(
            "SELECT * FROM t{}{}",
            " JOIN t".repeat(n),
            " ON a".repeat(n)
        ),
        format!("SELECT {}1{}", "1 IN (".repeat(n), ")".repeat(n)),
        format!("SELECT * FROM {}t", "{ OJ ".repeat(n)),
        format!("EXPLAIN {}SELECT 1", "(".repeat(n)),
    ];
    for text in deep {
        let head: String = text.chars().take(60).collect();
        let error = on_small_stack(text).expect_err(&head);
        assert_eq!(error.code(), 1436, "{head}");
        assert!(
            matches!(error.kind, ParseErrorKind::TooDeep { .. }),
            "{head}"
        );
    }
}

#[test]
fn moderate_nesting_parses_on_a_small_stack() {
    let n = 200;
    for text in [
        format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("SELECT {}1{}", "(SELECT ".repeat(n), ")".repeat(n)),
        format!("SELECT {}1{}", "f(1 + ".repeat(n), ")".repeat(n)),
        format!("SELECT {}(SELECT 1){}", "(".repeat(n), " + 1)".repeat(n)),
    ] {
        assert_eq!(on_small_stack(text), Ok(()));
    }
}

#[test]
fn the_number_of_nodes_is_limited() {
    let arena = Bump::new();
    let options = ParseOptions {
        limits: Limits {
            nodes: 1_000,
            ..Limits::default()
        },
        ..ParseOptions::default()
    };
    let text = format!("SELECT 1{}", ", 1".repeat(2_000));
    let error = parse_one(&arena, text.as_bytes(), 0, &options).unwrap_err();
    assert_eq!((error.kind, error.code()), (ParseErrorKind::TooLarge, 1064));
}
