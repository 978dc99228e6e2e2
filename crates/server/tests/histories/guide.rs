//! The examples of docs/guide/isolation.md have the results that are written there.
//!
//! A block fenced as `session` is a line per statement, `a> ...` or `b> ...`; below it, behind `=`,
//! what it answered: rows with cells between `|`, or an error's number. The result of a
//! query without such lines is not checked; any other statement must succeed. The first block makes the table and is run before each
//! of the others, which have two fresh connections and a database of their own.

use crate::support::{Failure, Sql, server};
use std::net::SocketAddr;

const PAGE: &str = include_str!("../../../../docs/guide/isolation.md");

#[derive(Debug)]
struct Step {
    line: usize,
    who: char,
    statement: String,
    answer: Vec<String>,
}

fn blocks() -> Vec<Vec<Step>> {
    let mut blocks: Vec<Vec<Step>> = Vec::new();
    let mut inside = false;
    for (n, line) in (1..).zip(PAGE.lines()) {
        match (inside, line) {
            (false, "```session") => {
                inside = true;
                blocks.push(Vec::new());
            }
            (true, "```") => inside = false,
            (true, _) => {
                let block = blocks.last_mut().unwrap();
                if let Some(answer) = line.strip_prefix("= ") {
                    block.last_mut().unwrap().answer.push(answer.to_owned());
                    continue;
                }
                let (who, statement) = line.split_once("> ").expect(line);
                block.push(Step {
                    line: n,
                    who: who.chars().next().unwrap(),
                    statement: statement.to_owned(),
                    answer: Vec::new(),
                });
            }
            (false, _) => assert!(!line.starts_with("```"), "line {n}: {line}"),
        }
    }
    blocks
}

fn run(address: SocketAddr, database: &str, steps: &[&Step]) {
    let mut sessions = [(); 2].map(|()| {
        let mut sql = Sql::connect(address);
        sql.run(&format!("USE {database}"));
        sql
    });
    for step in steps {
        let sql = &mut sessions[usize::from(step.who == 'b')];
        let answer = match sql.attempt(&step.statement) {
            Ok(answer) => answer
                .rows
                .into_iter()
                .map(|row| row.into_iter().map(Option::unwrap_or_default))
                .map(|row| row.collect::<Vec<_>>().join("|"))
                .collect(),
            Err(Failure::Refused(error)) => vec![format!("error {}", error.code)],
            Err(gone) => panic!("line {}: {gone}", step.line),
        };
        assert_eq!(
            answer, step.answer,
            "line {}: {}",
            step.line, step.statement
        );
    }
}

#[test]
fn the_examples_of_the_guide_do_what_stands_there() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    let blocks = blocks();
    let (table, examples) = blocks.split_first().unwrap();
    assert!(examples.len() > 10, "{} examples", examples.len());
    for (n, example) in examples.iter().enumerate() {
        let database = format!("example_{n}");
        sql.run(&format!("CREATE DATABASE {database}"));
        let steps: Vec<&Step> = table.iter().chain(example).collect();
        run(server.mysql_addr, &database, &steps);
    }
}
