//! Every statement of the corpus parses into a tree.

use bumpalo::Bump;
use porpoise_sql_parser::{ParseOptions, parse_one};

const CORPUS: &str = include_str!("fixtures/mysql_statements.sql");

#[test]
fn every_statement_parses_to_its_end() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in CORPUS.lines() {
        count += 1;
        let arena = Bump::new();
        match parse_one(&arena, line.as_bytes(), 0, &ParseOptions::default()) {
            Ok(parsed) => assert_eq!(parsed.rest, None, "{line}"),
            Err(error) => failures.push(format!("{line}\n    {}", error.message(line.as_bytes()))),
        }
    }
    assert_eq!(count, 220);
    assert!(
        failures.is_empty(),
        "{}\n{}",
        failures.len(),
        failures.join("\n")
    );
}
