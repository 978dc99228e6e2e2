//! The same statements on MariaDB and here: rows, affected rows and error
//! numbers must agree.
//!
//! Every file of `tests/differential/` holds one statement a line. Both
//! servers start with an empty database `test`, collation
//! `utf8mb4_general_ci`, UTC and MySQL's default SQL mode. Rows are compared
//! in order where the statement says ORDER BY, else as sets.
//!
//! A line `-- differs: REASON` lets the next statement answer otherwise than
//! MariaDB does: an intended difference, or one of MariaDB from MySQL. A line
//! `-- only here: REASON` runs the next one here only; it must succeed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod common;

use common::{Collected, Nothing};
use porpoise_sql::session::SqlSession;
use porpoise_testkit::Mariadb;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What both begin with.
const PREAMBLE: &[&str] = &[
    "CREATE DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "USE test",
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "SET time_zone = '+00:00'",
    "SET sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
     ERROR_FOR_DIVISION_BY_ZERO'",
];

/// MariaDB cuts fractions of seconds unless told to round them as MySQL does.
const ROUNDS: &str = "SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')";

/// What one statement did.
#[derive(Debug, PartialEq, Eq, Default)]
struct Answer {
    rows: Vec<String>,
    error: Option<u16>,
    affected: i64,
}

struct Line {
    number: usize,
    sql: String,
    differs: bool,
    only_here: bool,
}

fn lines(text: &str) -> Vec<Line> {
    let mut out = Vec::new();
    let (mut differs, mut only_here) = (false, false);
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("-- differs:") {
            differs = true;
        } else if line.starts_with("-- only here:") {
            only_here = true;
        } else if !line.is_empty() && !line.starts_with("--") {
            out.push(Line {
                number: at + 1,
                sql: line.trim_end_matches(';').to_owned(),
                differs,
                only_here,
            });
            (differs, only_here) = (false, false);
        }
    }
    out
}

/// All statements through one run of MariaDB's client.
fn on_mariadb(server: &Mariadb, lines: &[Line]) -> Vec<Answer> {
    let mut script = String::from("DROP DATABASE IF EXISTS test;\n");
    for statement in PREAMBLE.iter().chain([&ROUNDS]) {
        writeln!(script, "{statement};").unwrap();
    }
    let first = PREAMBLE.len() + 3;
    for line in lines {
        let sql = if line.only_here { "DO 0" } else { &line.sql };
        writeln!(script, "{sql};\nSELECT '@@@', ROW_COUNT();").unwrap();
    }
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--batch"])
        .args(["--skip-column-names", "--force", "--raw"])
        .arg("--default-character-set=utf8mb4")
        .arg(format!("--host={}", server.addr.ip()))
        .arg(format!("--port={}", server.addr.port()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()).unwrap());
    let done = client.wait_with_output().unwrap();
    writer.join().unwrap();
    let mut errors: HashMap<usize, u16> = HashMap::new();
    for line in String::from_utf8_lossy(&done.stderr).lines() {
        let number = line
            .split("ERROR ")
            .nth(1)
            .and_then(|r| r.split(' ').next());
        let at = line
            .split("at line ")
            .nth(1)
            .and_then(|r| r.split(':').next());
        let (Some(number), Some(at)) = (number, at) else {
            continue;
        };
        errors.insert(at.parse().unwrap(), number.parse().unwrap());
    }
    let mut answers = Vec::new();
    let mut rows = Vec::new();
    for line in String::from_utf8_lossy(&done.stdout).split('\n') {
        match line.strip_prefix("@@@\t") {
            Some(affected) => answers.push(Answer {
                rows: std::mem::take(&mut rows),
                error: errors.get(&(first + 2 * answers.len())).copied(),
                affected: affected.parse().unwrap(),
            }),
            None => rows.push(line.to_owned()),
        }
    }
    assert_eq!(answers.len(), lines.len(), "answers of MariaDB");
    answers
}

fn session() -> SqlSession {
    let mut session = common::session();
    for statement in PREAMBLE {
        session
            .query(statement.as_bytes(), true, &mut Nothing)
            .unwrap();
    }
    session
}

fn here(session: &mut SqlSession, sql: &str) -> (Answer, String) {
    let mut sink = Collected::default();
    let result = session.query(sql.as_bytes(), true, &mut sink);
    match result {
        Ok(outcome) => {
            let affected = match outcome.had_rows {
                true => -1,
                false => i64::try_from(outcome.affected_rows).unwrap(),
            };
            let lines = sink.lines("\t");
            let rows = lines.iter().flat_map(|line| line.split('\n'));
            let answer = Answer {
                rows: rows.map(str::to_owned).collect(),
                error: None,
                affected,
            };
            (answer, String::new())
        }
        Err(error) => {
            let answer = Answer {
                rows: Vec::new(),
                error: Some(error.code),
                affected: -1,
            };
            (answer, error.message)
        }
    }
}

/// Whether ROW_COUNT() means the same on both.
fn counts(sql: &str) -> bool {
    let first = sql.trim_start_matches('(').split(' ').next().unwrap_or("");
    let known = ["INSERT", "REPLACE", "UPDATE", "DELETE"];
    known.iter().any(|k| first.eq_ignore_ascii_case(k))
}

fn compare(file: &str, line: &Line, theirs: &Answer, ours: (Answer, String)) -> Option<String> {
    let (ours, message) = ours;
    if line.only_here {
        let text = || format!("{file}:{}: {}\n  failed: {message}", line.number, line.sql);
        return ours.error.map(|_| text());
    }
    let (mut a, mut b) = (theirs.rows.clone(), ours.rows.clone());
    if !line.sql.to_ascii_uppercase().contains("ORDER BY") {
        a.sort();
        b.sort();
    }
    let affected = !counts(&line.sql) || theirs.affected == ours.affected;
    let same = a == b && theirs.error == ours.error && affected;
    if same != line.differs {
        return None;
    }
    if line.differs {
        return Some(format!(
            "{file}:{}: {}\n  does not differ any more",
            line.number, line.sql
        ));
    }
    Some(format!(
        "{file}:{}: {}\n  MariaDB: {:?} {} {:?}\n  here:    {:?} {} {:?} {message}",
        line.number, line.sql, theirs.error, theirs.affected, a, ours.error, ours.affected, b
    ))
}

#[test]
fn the_same_answers_as_mariadb() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "sql"));
    if let Ok(only) = std::env::var("DIFFERENTIAL") {
        files.retain(|f| f.to_string_lossy().contains(&only));
    }
    files.sort();
    let server = Mariadb::builder().start();
    let mut failures = Vec::new();
    let mut statements = 0;
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let lines = lines(&std::fs::read_to_string(&file).unwrap());
        statements += lines.len();
        let theirs = on_mariadb(&server, &lines);
        let mut session = session();
        for (line, theirs) in lines.iter().zip(&theirs) {
            let ours = here(&mut session, &line.sql);
            failures.extend(compare(&name, line, theirs, ours));
        }
    }
    assert!(
        failures.is_empty(),
        "\n{}\n{} of {statements} statements",
        failures.join("\n"),
        failures.len()
    );
}
