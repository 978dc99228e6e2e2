//! Printing a tree and parsing the text gives an equal tree.

use bumpalo::Bump;
use porpoise_sql_parser::{LexMode, ParseOptions, parse_one, print};

const CORPUS: &str = include_str!("fixtures/mysql_statements.sql");
const MORE: &str = include_str!("fixtures/more_statements.sql");

fn check(text: &str, mode: LexMode) -> Result<(), String> {
    let arena = Bump::new();
    let options = ParseOptions {
        mode,
        ..ParseOptions::default()
    };
    let first = parse_one(&arena, text.as_bytes(), 0, &options)
        .map_err(|error| format!("{text}\n    {}", error.message(text.as_bytes())))?;
    let printed = arena.alloc(print::statement(&first.statement, mode));
    let shown = String::from_utf8_lossy(printed).into_owned();
    let second = parse_one(&arena, printed, 0, &options)
        .map_err(|error| format!("{text}\n    {shown}\n    {}", error.message(printed)))?;
    if first.statement != second.statement || first.params != second.params {
        return Err(format!(
            "{text}\n    {shown}\n    {:?}\n    {:?}",
            first.statement, second.statement
        ));
    }
    let again = print::statement(&second.statement, mode);
    if again != *printed {
        return Err(format!(
            "{text}\n    {shown}\n    {}",
            String::from_utf8_lossy(&again)
        ));
    }
    Ok(())
}

#[test]
fn printed_statements_parse_to_the_same_tree() {
    let failures: Vec<String> = CORPUS
        .lines()
        .chain(MORE.lines().filter(|line| !line.is_empty()))
        .filter_map(|line| check(line, LexMode::default()).err())
        .collect();
    assert!(
        failures.is_empty(),
        "{}\n{}",
        failures.len(),
        failures.join("\n")
    );
}
