//! The two servers: MariaDB through its client, Porpoise in this process.

use crate::common::{self, Collected, Nothing};
use porpoise_sql::session::SqlSession;
use porpoise_testkit::Mariadb;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Statements that both servers execute first.
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

/// MySQL's default.
const LENGTH: &str = "SET group_concat_max_len = 1024";

/// Outcome of one statement.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// Rows as text, columns parted by tabs.
    pub rows: Vec<String>,
    /// Number of the error.
    pub error: Option<u16>,
    /// ROW_COUNT().
    pub affected: i64,
    /// Warnings that the statement left.
    pub warnings: u64,
}

/// The MariaDB of all tests of this program, which take turns.
pub struct Shared(Arc<Mariadb>);

static RUNNING: Mutex<Weak<Mariadb>> = Mutex::new(Weak::new());
static TURN: Mutex<()> = Mutex::new(());

impl Shared {
    /// The running one, or a new one.
    pub fn start() -> Shared {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = running.upgrade() {
            return Shared(server);
        }
        let server = Arc::new(Mariadb::builder().start());
        *running = Arc::downgrade(&server);
        Shared(server)
    }

    /// All statements on an empty database.
    pub fn run(&self, statements: &[&str]) -> Vec<Answer> {
        self.run_with("DO 0", statements)
    }

    /// All statements on an empty database, after a SET.
    pub fn run_with(&self, set: &str, statements: &[&str]) -> Vec<Answer> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        on_mariadb(&self.0, set, statements)
    }
}

/// All statements, none of which has a line break, through one run of MariaDB's client.
fn on_mariadb(server: &Mariadb, set: &str, statements: &[&str]) -> Vec<Answer> {
    let mut script = String::from("DROP DATABASE IF EXISTS test;\n");
    for statement in PREAMBLE.iter().chain([&ROUNDS, &LENGTH, &set]) {
        writeln!(script, "{statement};").unwrap();
    }
    let first = PREAMBLE.len() + 5;
    for sql in statements {
        writeln!(
            script,
            "{sql};\nSELECT '@@@', ROW_COUNT(), @@warning_count;"
        )
        .unwrap();
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
            Some(counts) => {
                let (affected, warnings) = counts.split_once('\t').unwrap();
                answers.push(Answer {
                    rows: std::mem::take(&mut rows),
                    error: errors.get(&(first + 2 * answers.len())).copied(),
                    affected: affected.parse().unwrap(),
                    warnings: warnings.parse().unwrap(),
                });
            }
            None => rows.push(line.to_owned()),
        }
    }
    assert_eq!(answers.len(), statements.len(), "answers of MariaDB");
    answers
}

/// A session of an empty server.
pub fn session() -> SqlSession {
    let mut session = common::session();
    for statement in PREAMBLE {
        session
            .query(statement.as_bytes(), true, &mut Nothing)
            .unwrap();
    }
    session
}

/// One statement in this process, and the text of its error.
pub fn here(session: &mut SqlSession, sql: &str) -> (Answer, String) {
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
                warnings: warnings(session),
            };
            (answer, String::new())
        }
        Err(error) => {
            let answer = Answer {
                rows: Vec::new(),
                error: Some(error.code),
                affected: -1,
                warnings: warnings(session),
            };
            (answer, error.message)
        }
    }
}

/// Warnings that the last statement left.
fn warnings(session: &mut SqlSession) -> u64 {
    let mut sink = Collected::default();
    let asked = session.query(b"SELECT @@warning_count", true, &mut sink);
    asked.unwrap();
    sink.lines("\t").first().map_or(0, |n| n.parse().unwrap())
}
