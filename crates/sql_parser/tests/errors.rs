//! Errors have MySQL's numbers and texts, and several statements of one text are separated.

use bumpalo::Bump;
use porpoise_sql_parser::{ParseOptions, parse_one};

fn error(text: &str) -> (u16, String) {
    let arena = Bump::new();
    let error = parse_one(&arena, text.as_bytes(), 0, &ParseOptions::default()).unwrap_err();
    (error.code(), error.message(text.as_bytes()))
}

fn near(text: &str) -> String {
    let (code, message) = error(text);
    assert_eq!(code, 1064);
    let start = "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version \
                 for the right syntax to use near '";
    message.strip_prefix(start).unwrap().to_owned()
}

#[test]
fn the_message_quotes_from_the_offending_token() {
    assert_eq!(near("SELEC 1"), "SELEC 1' at line 1");
    assert_eq!(near("SELECT 1\nFROM\n\nWHERE x"), "WHERE x' at line 4");
    assert_eq!(near("SELECT"), "' at line 1");
    assert_eq!(near("SELECT FROM; SELECT 1"), "FROM; SELECT 1' at line 1");
    assert_eq!(near("SELECT 'abc"), "'abc' at line 1");
    assert_eq!(near("INSERT INTO t VALUES (1,)"), ")' at line 1");
    let long = format!("SELECT * FORM {}", "x".repeat(200));
    assert_eq!(near(&long), format!("{}' at line 1", &long[9..89]));
}

#[test]
fn an_empty_statement_is_1065() {
    for text in ["", "  \n", ";", "-- x", "/* x */ ;", "/*!99999 SELECT 1 */"] {
        assert_eq!(error(text), (1065, "Query was empty".to_owned()), "{text}");
    }
}

#[test]
fn a_text_may_hold_several_statements() {
    let arena = Bump::new();
    let options = ParseOptions::default();
    let text = b" SELECT 1 ; BEGIN; -- end\n";
    let first = parse_one(&arena, text, 0, &options).unwrap();
    assert_eq!((first.start, first.end, first.rest), (1, 9, Some(11)));
    let second = parse_one(&arena, text, 11, &options).unwrap();
    assert_eq!((second.start, second.end, second.rest), (12, 17, None));
}

#[test]
fn result_columns_are_named_by_their_source() {
    use porpoise_sql_parser::ast::{QueryBody, SelectItem, Statement};
    let arena = Bump::new();
    let text = b"SELECT a+1 , (b), t.a AS x, COUNT( * ) y, (1 +  2)*3 FROM t";
    let parsed = parse_one(&arena, text, 0, &ParseOptions::default()).unwrap();
    let Statement::Query(query) = parsed.statement else {
        panic!()
    };
    let QueryBody::Select(select) = query.body else {
        panic!()
    };
    let names: Vec<&str> = select
        .items
        .iter()
        .map(|item| match item {
            SelectItem::Expr {
                alias: Some(alias), ..
            } => alias.name,
            SelectItem::Expr { span, .. } => std::str::from_utf8(span.slice(text)).unwrap(),
            _ => panic!(),
        })
        .collect();
    assert_eq!(names, ["a+1", "(b)", "x", "y", "(1 +  2)*3"]);
}
