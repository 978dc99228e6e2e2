//! Golden files of SQL: every file of `tests/sql/` runs on a database of its
//! own, on the reference model and on the embedded engine.
//!
//! A file is a list of blocks separated by empty lines. A block begins with a
//! directive; the lines after it are the statement:
//!
//! * `ok`, `ok affected=N`, `ok id=N`, `ok warnings=N`, `ok info=TEXT`
//! * `error CODE`, `error CODE TEXT`: TEXT is a part of the message
//! * `query`, `query sorted`: after a line `----` come the rows, one in each
//!   line, with `|` between the cells; NULL stands for NULL. For `query header`
//!   the first line has the names of the columns.
//! * `connection NAME`: the session of the following blocks (`a` at first)
//! * `disconnect NAME`, `reset NAME`: ends a session, or resets it (COM_RESET_CONNECTION)
//! * `background DIRECTIVE`: the statement runs while the following blocks
//!   run, until `join NAME`, the name of its session
//! * `prepared DIRECTIVE`: the statement is prepared and executed; lines
//!   `param TYPE VALUE` between directive and statement are its parameters

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod common;

use porpoise_kv::Engine;
use porpoise_kv::model::Model;
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::{Outcome, Param, SqlSession};
use porpoise_types::{ColumnType, Kind, Value, ValueRef, write_text};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A sink that collects a result as text.
#[derive(Default)]
struct Collected {
    columns: Vec<ResultColumn>,
    rows: Vec<String>,
}

impl ResultSink for Collected {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        assert_eq!(values.len(), self.columns.len(), "cells of a row");
        let cells = values
            .iter()
            .zip(&self.columns)
            .map(|(v, c)| cell(*v, &c.ty));
        self.rows.push(cells.collect::<Vec<_>>().join("|"));
        Ok(())
    }
}

fn cell(value: ValueRef<'_>, ty: &ColumnType) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    let mut out = Vec::new();
    write_text(value, ty, &mut out);
    String::from_utf8(out).unwrap_or_else(|e| format!("{:02X?}", e.as_bytes()))
}

/// Outcome of a statement.
struct Answer {
    result: Result<Outcome, SqlError>,
    collected: Collected,
}

#[derive(Clone, Debug)]
struct Block {
    line: usize,
    directive: String,
    params: Vec<(String, String)>,
    sql: String,
    expected: Vec<String>,
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut current: Option<Block> = None;
    let mut rows = false;
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() {
            blocks.extend(current.take());
            rows = false;
            continue;
        }
        match &mut current {
            None if line.starts_with('#') => {}
            None => {
                current = Some(Block {
                    line: at + 1,
                    directive: line.to_owned(),
                    params: Vec::new(),
                    sql: String::new(),
                    expected: Vec::new(),
                });
            }
            Some(_) if line == "----" => rows = true,
            Some(block) if rows => block.expected.push(line.to_owned()),
            Some(block) => match line.strip_prefix("param ") {
                Some(param) => {
                    let (ty, value) = param.split_once(' ').unwrap_or((param, ""));
                    block.params.push((ty.to_owned(), value.to_owned()));
                }
                None => {
                    if !block.sql.is_empty() {
                        block.sql.push('\n');
                    }
                    block.sql.push_str(line);
                }
            },
        }
    }
    blocks.extend(current);
    blocks
}

fn run(session: &mut SqlSession, block: &Block, prepared: bool) -> Answer {
    let mut collected = Collected::default();
    let result = if prepared {
        run_prepared(session, block, &mut collected)
    } else {
        session.query(block.sql.as_bytes(), true, &mut collected)
    };
    Answer { result, collected }
}

fn run_prepared(
    session: &mut SqlSession,
    block: &Block,
    collected: &mut Collected,
) -> Result<Outcome, SqlError> {
    let info = session.prepare(block.sql.as_bytes())?;
    assert_eq!(
        info.params,
        block.params.len(),
        "parameters of line {}",
        block.line
    );
    let utf8 = porpoise_types::Collation::UTF8MB4_0900_AI_CI;
    let owned: Vec<(Value, ColumnType)> = block
        .params
        .iter()
        .map(|(ty, value)| match ty.as_str() {
            "int" => (Value::Int(value.parse().unwrap()), ColumnType::bigint()),
            "double" => (Value::Double(value.parse().unwrap()), ColumnType::double()),
            "null" => (Value::Null, ColumnType::null()),
            "text" => (
                Value::Bytes(value.as_bytes().to_vec()),
                ColumnType::text(Kind::LongText, utf8),
            ),
            other => panic!("parameter type {other}"),
        })
        .collect();
    let params: Vec<Param<'_>> = owned
        .iter()
        .map(|(value, ty)| Param {
            value: value.as_ref(),
            ty: ty.clone(),
        })
        .collect();
    // Only queries are executed twice: a change would change rows twice.
    let outcome = session.execute(info.id, &params, collected)?;
    if outcome.had_rows {
        let first = std::mem::take(&mut collected.rows);
        session.execute(info.id, &params, collected)?;
        assert_eq!(
            first, collected.rows,
            "second execution of line {}",
            block.line
        );
    }
    session.close_statement(info.id);
    Ok(outcome)
}

/// Compares a statement's outcome with its block. Returns a description of the difference.
fn difference(block: &Block, directive: &str, answer: &Answer) -> Option<String> {
    let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    match (word, &answer.result) {
        ("error", Ok(_)) => Some("succeeded".to_owned()),
        ("error", Err(error)) => {
            let (code, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let fits = error.code.to_string() == code && error.message.contains(text);
            (!fits).then(|| format!("failed with {error}"))
        }
        (_, Err(error)) => Some(format!("failed with {error}")),
        ("ok", Ok(outcome)) => rest.split_once('=').and_then(|(what, wanted)| {
            let found = match what {
                "affected" => outcome.affected_rows.to_string(),
                "id" => outcome.last_insert_id.to_string(),
                "warnings" => outcome.warnings.to_string(),
                "info" => outcome.info.clone(),
                other => panic!("{other}"),
            };
            (found != wanted).then(|| format!("{what} is {found}"))
        }),
        ("query", Ok(_)) => {
            let lines = |row: &String| row.split('\n').map(str::to_owned).collect::<Vec<_>>();
            let mut found: Vec<String> = answer.collected.rows.iter().flat_map(lines).collect();
            let mut wanted = block.expected.clone();
            if rest == "sorted" {
                found.sort();
                wanted.sort();
            }
            if rest == "header" {
                let names = answer.collected.columns.iter().map(|c| c.name.clone());
                found.insert(0, names.collect::<Vec<_>>().join("|"));
            }
            (found != wanted).then(|| format!("answered\n    {}", found.join("\n    ")))
        }
        _ => panic!("line {}: directive {directive}", block.line),
    }
}

/// A statement in the background: its block, the directive after `background`,
/// and the thread, which returns the session.
type Running = (Block, String, JoinHandle<(SqlSession, Answer)>);

struct Runner {
    server: Arc<SqlServer>,
    sessions: HashMap<String, SqlSession>,
    background: HashMap<String, Running>,
    current: String,
    failures: Vec<String>,
    name: String,
}

impl Runner {
    fn new(engine: Arc<dyn Engine>, name: &str) -> Runner {
        Runner {
            server: common::server(engine),
            sessions: HashMap::new(),
            background: HashMap::new(),
            current: "a".to_owned(),
            failures: Vec::new(),
            name: name.to_owned(),
        }
    }

    fn session(&mut self) -> SqlSession {
        if let Some(session) = self.sessions.remove(&self.current) {
            return session;
        }
        let number = u64::from(self.current.bytes().next().unwrap_or(b'a') - b'a') + 1;
        let mut session = common::connect(&self.server, number);
        let mut sink = Collected::default();
        session
            .query(b"CREATE DATABASE IF NOT EXISTS test", true, &mut sink)
            .unwrap();
        session.use_db("test").unwrap();
        session
            .query(b"SET time_zone = '+00:00'", true, &mut sink)
            .unwrap();
        session
    }

    fn fail(&mut self, block: &Block, difference: String) {
        let statement = block.sql.replace('\n', " ");
        let text = format!(
            "{}:{}: {statement}\n  expected {} {}\n  {difference}",
            self.name,
            block.line,
            block.directive,
            block.expected.join("\n    ")
        );
        self.failures.push(text);
    }

    fn block(&mut self, block: &Block) {
        if let Some(name) = block.directive.strip_prefix("connection ") {
            self.current = name.to_owned();
            return;
        }
        if let Some(name) = block.directive.strip_prefix("disconnect ") {
            self.sessions.remove(name).unwrap();
            return;
        }
        if let Some(name) = block.directive.strip_prefix("reset ") {
            self.sessions.get_mut(name).unwrap().reset().unwrap();
            return;
        }
        if let Some(name) = block.directive.strip_prefix("join ") {
            let (block, directive, handle) = self.background.remove(name).unwrap();
            let (session, answer) = handle.join().unwrap();
            self.sessions.insert(name.to_owned(), session);
            if let Some(difference) = difference(&block, &directive, &answer) {
                self.fail(&block, difference);
            }
            return;
        }
        let mut session = self.session();
        if let Some(directive) = block.directive.strip_prefix("background ") {
            let directive = directive.to_owned();
            let copy = block.clone();
            let handle = std::thread::spawn(move || {
                let answer = run(&mut session, &copy, false);
                (session, answer)
            });
            let entry = (block.clone(), directive, handle);
            self.background.insert(self.current.clone(), entry);
            // Gives the statement time to reach the lock that it is to wait for.
            std::thread::sleep(std::time::Duration::from_millis(100));
            return;
        }
        let prepared = block.directive.strip_prefix("prepared ");
        let answer = run(&mut session, block, prepared.is_some());
        let directive = prepared.unwrap_or(&block.directive);
        if let Some(difference) = difference(block, directive, &answer) {
            self.fail(block, difference);
        }
        self.sessions.insert(self.current.clone(), session);
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "slt"));
    if let Ok(only) = std::env::var("SLT") {
        files.retain(|f| f.to_string_lossy().contains(&only));
    }
    files.sort();
    assert!(!files.is_empty());
    files
}

fn run_all(engine: fn() -> Arc<dyn Engine>) {
    let mut failures = Vec::new();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let blocks = parse(&text);
        assert!(!blocks.is_empty(), "{name}");
        let mut runner = Runner::new(engine(), &name);
        for block in &blocks {
            runner.block(block);
        }
        assert!(
            runner.background.is_empty(),
            "{name}: a statement was not joined"
        );
        failures.append(&mut runner.failures);
    }
    assert!(
        failures.is_empty(),
        "\n{}\n{} failures",
        failures.join("\n\n"),
        failures.len()
    );
}

#[test]
fn every_file_on_the_reference_engine() {
    run_all(|| Arc::new(Model::new()));
}

#[test]
fn every_file_on_the_embedded_engine() {
    run_all(|| {
        let options = porpoise_kv_mem::KvMemOptions {
            durability: porpoise_kv::Durability::Memory,
            ..Default::default()
        };
        porpoise_kv_mem::KvMem::open(options).unwrap()
    });
}
