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

/// Makes MariaDB round fractions of seconds, as MySQL does; its default is to truncate.
const ROUND_FRACTIONS: &str = "SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')";

/// MySQL's default.
const GROUP_CONCAT_LENGTH: &str = "SET group_concat_max_len = 1024";

/// Outcome of one statement.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// Rows as text, with tabs between columns.
    pub rows: Vec<String>,
    /// Number of the error.
    pub error: Option<u16>,
    /// ROW_COUNT().
    pub affected: i64,
    /// Number of warnings.
    pub warnings: u64,
}

/// The MariaDB server that the tests of this program share; one test at a time uses it.
pub struct Shared(Arc<Mariadb>);

static RUNNING: Mutex<Weak<Mariadb>> = Mutex::new(Weak::new());
static TURN: Mutex<()> = Mutex::new(());

impl Shared {
    /// The running server, or a new one.
    pub fn start() -> Shared {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = running.upgrade() {
            return Shared(server);
        }
        let server = Arc::new(Mariadb::builder().start());
        *running = Arc::downgrade(&server);
        Shared(server)
    }

    /// Runs all statements on an empty database.
    pub fn run(&self, statements: &[&str]) -> Vec<Answer> {
        self.run_with("DO 0", statements)
    }

    /// Runs all statements on an empty database, after the statement `set`.
    pub fn run_with(&self, set: &str, statements: &[&str]) -> Vec<Answer> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        on_mariadb(&self.0, set, statements)
    }
}

/// Ends a statement in the client's input: bodies of programs contain semicolons.
const DELIMITER: &str = "$$";

/// Runs all statements, none of which has a line break, through one process of MariaDB's client.
fn on_mariadb(server: &Mariadb, set: &str, statements: &[&str]) -> Vec<Answer> {
    let mut script = format!("DELIMITER {DELIMITER}\nDROP DATABASE IF EXISTS test{DELIMITER}\n");
    let settings = [&ROUND_FRACTIONS, &GROUP_CONCAT_LENGTH, &set];
    for statement in PREAMBLE.iter().chain(settings) {
        writeln!(script, "{statement}{DELIMITER}").unwrap();
    }
    // Line of the first statement: after DELIMITER, DROP DATABASE, the preamble and the settings. Each
    // takes two lines, itself and the SELECT that marks its end.
    let first = 2 + PREAMBLE.len() + settings.len() + 1;
    for sql in statements {
        writeln!(
            script,
            "{sql}{DELIMITER}\nSELECT '@@@', ROW_COUNT(), @@warning_count{DELIMITER}"
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

/// A session on an empty server in this process.
pub fn session() -> SqlSession {
    let mut session = common::session();
    for statement in PREAMBLE {
        session
            .query(statement.as_bytes(), true, &mut Nothing)
            .unwrap();
    }
    session
}

/// Runs a statement in this process. Returns its outcome and the text of its error.
pub fn here(session: &mut SqlSession, sql: &str) -> (Answer, String) {
    let mut sink = Collected::default();
    let result = session.query(sql.as_bytes(), true, &mut sink);
    match result {
        Ok(outcome) => {
            let affected = if outcome.had_rows {
                -1
            } else {
                i64::try_from(outcome.affected_rows).unwrap()
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

/// Number of warnings of the last statement.
fn warnings(session: &mut SqlSession) -> u64 {
    let mut sink = Collected::default();
    session
        .query(b"SELECT @@warning_count", true, &mut sink)
        .unwrap();
    sink.lines("\t").first().map_or(0, |n| n.parse().unwrap())
}
