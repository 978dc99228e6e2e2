//! Statements written by hand: rows, affected rows and error numbers must agree.
//!
//! Every `.sql` file of `tests/differential/` has one statement in each line. Both
//! servers start with an empty database `test`, collation
//! `utf8mb4_general_ci`, UTC and MySQL's default SQL mode. Rows are compared
//! in order if the statement contains ORDER BY, otherwise in any order.
//!
//! After a line `-- differs: REASON` the result of the next statement must
//! differ from MariaDB's: an intended difference, or one between MariaDB and
//! MySQL. After a line `-- only here: REASON` the next statement runs only on
//! Porpoise, and must succeed.

use crate::both::{Answer, Shared, here, session};
use std::path::Path;

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

/// Whether ROW_COUNT() of a statement must be the same on both servers.
fn compares_row_count(sql: &str) -> bool {
    let first = sql.trim_start_matches('(').split(' ').next().unwrap_or("");
    let known = ["INSERT", "REPLACE", "UPDATE", "DELETE"];
    known.iter().any(|k| first.eq_ignore_ascii_case(k))
}

/// Describes the difference of two outcomes; `None` if they are as expected.
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
    let same_count = !compares_row_count(&line.sql) || theirs.affected == ours.affected;
    let same = a == b && theirs.error == ours.error && same_count;
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
fn results_agree_with_mariadb() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "sql"));
    if let Ok(only) = std::env::var("DIFFERENTIAL") {
        files.retain(|f| f.to_string_lossy().contains(&only));
    }
    files.sort();
    let server = Shared::start();
    let mut failures = Vec::new();
    let mut statements = 0;
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let lines = lines(&std::fs::read_to_string(&file).unwrap());
        statements += lines.len();
        let for_mariadb: Vec<&str> = lines
            .iter()
            .map(|line| if line.only_here { "DO 0" } else { &line.sql })
            .collect();
        let theirs = server.run(&for_mariadb);
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
