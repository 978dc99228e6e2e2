//! `bench programs`: cost of stored procedures, functions and triggers.
//!
//! Every case is one statement that is sent repeatedly. Most of them repeat an operation
//! within the server, so that its cost is not hidden by that of a request. Statements that do the
//! same without a program are measured for comparison. Short statements are also measured with several
//! clients. Tables are emptied before each run, and the answers, or the rows that a procedure has written,
//! are verified.

use super::batch::{Check, Statement, inserted};
use super::{Bench, Route, usual_pairs};
use crate::connect::{Access, Admin};
use crate::error::{Error, Result};
use crate::matrix::{Entry, Group};
use crate::proto::Answer;
use crate::report::Experiment;

/// Rows of the table that cursors and queries read, and steps of the loops.
const STEPS: u64 = 1000;

/// Definitions of tables and programs, after those of an earlier run are dropped.
const DEFINITIONS: [&str; 14] = [
    "DROP TABLE IF EXISTS program_numbers, program_plain, program_audited, program_audit",
    "DROP PROCEDURE IF EXISTS program_empty",
    "DROP PROCEDURE IF EXISTS program_calls",
    "DROP PROCEDURE IF EXISTS program_walk",
    "DROP FUNCTION IF EXISTS program_twice",
    "CREATE TABLE program_numbers (n INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE program_plain (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=InnoDB",
    "CREATE TABLE program_audited (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=InnoDB",
    "CREATE TABLE program_audit (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=InnoDB",
    "CREATE PROCEDURE program_empty() BEGIN END",
    "CREATE PROCEDURE program_calls(steps INT) \
     BEGIN DECLARE i INT DEFAULT 0; \
     WHILE i < steps DO CALL program_empty(); SET i = i + 1; END WHILE; END",
    "CREATE PROCEDURE program_walk() \
     BEGIN DECLARE total INT DEFAULT 0; DECLARE found INT; DECLARE done BOOL DEFAULT FALSE; \
     DECLARE walk CURSOR FOR SELECT n FROM program_numbers; \
     DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE; \
     OPEN walk; \
     steps: LOOP FETCH walk INTO found; IF done THEN LEAVE steps; END IF; \
     SET total = total + found; END LOOP; CLOSE walk; SET @program_total = total; END",
    "CREATE FUNCTION program_twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
    "CREATE TRIGGER program_after AFTER INSERT ON program_audited FOR EACH ROW \
     INSERT INTO program_audit (n) VALUES (NEW.n)",
];

/// A statement that is measured.
struct Case {
    /// Name in reports.
    name: &'static str,
    /// The statement.
    text: &'static str,
    /// Number of steps within the server.
    units: u64,
    /// Default numbers of clients that send the statement.
    clients: &'static [usize],
    /// Check of its answer.
    check: fn() -> Box<Check<'static>>,
}

/// One client, for statements whose time is spent in the server.
const ONE: &[usize] = &[1];
/// Several clients, for short statements: with one client, the network limits the rate.
const SEVERAL: &[usize] = &[1, 8, 32];

const CASES: [Case; 10] = [
    Case {
        name: "DO 1",
        text: "DO 1",
        units: 1,
        clients: SEVERAL,
        check: succeeded,
    },
    Case {
        name: "CALL of an empty procedure",
        text: "CALL program_empty()",
        units: 1,
        clients: SEVERAL,
        check: succeeded,
    },
    Case {
        name: "1,000 CALLs in a procedure",
        text: "CALL program_calls(1000)",
        units: STEPS,
        clients: ONE,
        check: succeeded,
    },
    Case {
        name: "cursor over 1,000 rows",
        text: "CALL program_walk()",
        units: STEPS,
        clients: ONE,
        check: succeeded,
    },
    Case {
        name: "INSERT",
        text: "INSERT INTO program_plain (n) VALUES (7)",
        units: 1,
        clients: SEVERAL,
        check: || inserted(1),
    },
    Case {
        name: "INSERT with a trigger that inserts",
        text: "INSERT INTO program_audited (n) VALUES (7)",
        units: 1,
        clients: SEVERAL,
        check: || inserted(1),
    },
    Case {
        name: "INSERT of 1,000 rows",
        text: "INSERT INTO program_plain (n) SELECT n FROM program_numbers",
        units: STEPS,
        clients: ONE,
        check: || inserted(STEPS),
    },
    Case {
        name: "INSERT of 1,000 rows with a trigger that inserts",
        text: "INSERT INTO program_audited (n) SELECT n FROM program_numbers",
        units: STEPS,
        clients: ONE,
        check: || inserted(STEPS),
    },
    Case {
        name: "SUM of an expression over 1,000 rows",
        text: "SELECT SUM(n * 2) FROM program_numbers",
        units: STEPS,
        clients: ONE,
        check: || is_sum(STEPS * (STEPS + 1)),
    },
    Case {
        name: "SUM of a function over 1,000 rows",
        text: "SELECT SUM(program_twice(n)) FROM program_numbers",
        units: STEPS,
        clients: ONE,
        check: || is_sum(STEPS * (STEPS + 1)),
    },
];

/// A check that a request has no result and changed no rows that it counts.
fn succeeded() -> Box<Check<'static>> {
    Box::new(|answer: &Answer| answer.error.is_none() && answer.rows == 0)
}

fn is_sum(expected: u64) -> Box<Check<'static>> {
    Box::new(move |answer: &Answer| answer.cell(0) == Some(expected.to_string().as_bytes()))
}

/// Creates tables and programs, and verifies the programs' effects.
fn prepare(route: &Route) -> Result<()> {
    let mut admin = Admin::connect(&route.endpoint.target)?;
    for statement in DEFINITIONS {
        admin.run(statement)?;
    }
    let rows: Vec<String> = (1..=STEPS).map(|n| format!("({n})")).collect();
    let fill = format!("INSERT INTO program_numbers VALUES {}", rows.join(","));
    admin.run(&fill)?;
    admin.run("CALL program_walk()")?;
    let total = admin.value("SELECT @program_total")?;
    let expected = (STEPS * (STEPS + 1) / 2).to_string();
    if total.as_deref() != Some(expected.as_str()) {
        let text = format!("a cursor's rows add up to {total:?} instead of {expected}");
        return Err(Error::wrong(text));
    }
    admin.run("INSERT INTO program_audited (n) VALUES (1), (2)")?;
    let audited = admin.value("SELECT COUNT(*) FROM program_audit")?;
    if audited.as_deref() != Some("2") {
        let text = format!("a trigger of two rows has inserted {audited:?}");
        return Err(Error::wrong(text));
    }
    Ok(())
}

/// Empties the tables, after the rows of the run before have been compared.
fn reset(route: &Route) -> Result<()> {
    let mut admin = Admin::connect(&route.endpoint.target)?;
    let rows = admin.value("SELECT COUNT(*) FROM program_audited")?;
    let audit = admin.value("SELECT COUNT(*) FROM program_audit")?;
    if rows != audit {
        let text = format!("{rows:?} rows were inserted, and {audit:?} by their trigger");
        return Err(Error::wrong(text));
    }
    for table in ["program_plain", "program_audited", "program_audit"] {
        admin.run(&format!("TRUNCATE TABLE {table}"))?;
    }
    Ok(())
}

fn entry<'g>(case: &'g Case, route: &'g Route, seed: u64) -> Entry<'g> {
    Entry {
        system: &route.name,
        endpoint: &route.endpoint,
        workload: Box::new(Statement {
            text: case.text.to_owned(),
            fill: Box::new(|_, _| ()),
            check: (case.check)(),
            seed,
            limit: None,
        }),
        before: Some(Box::new(move || reset(route))),
    }
}

/// `bench programs`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn programs(bench: &mut Bench) -> Result<()> {
    bench
        .progress
        .begin("programs: cost of procedures, functions and triggers");
    let mut notes = Vec::new();
    let mut routes = Vec::new();
    for route in bench.routes(|access| access == Access::MysqlText) {
        match prepare(&route) {
            Ok(()) => routes.push(route),
            Err(error) => {
                let note = format!("{} left out: {error}", route.name);
                bench.progress.say(&format!("   {note}"));
                notes.push(note);
            }
        }
    }
    if routes.is_empty() {
        let what = "programs: no system with MySQL's protocol could be prepared";
        return Err(super::no_system(what, &notes));
    }
    let (shape, seed, effort) = (
        bench.options.shape,
        bench.options.seed,
        bench.options.effort,
    );
    let mut groups = Vec::new();
    for case in &CASES {
        for clients in bench.clients(case.clients) {
            groups.push(Group {
                operation: case.name.to_owned(),
                size: clients as u64,
                connections: clients,
                shape,
                units: case.units,
                entries: routes.iter().map(|r| entry(case, r, seed)).collect(),
            });
        }
    }
    let experiment = Experiment {
        pairs: usual_pairs(&routes),
        notes,
        ..Experiment::new(
            "programs",
            "Stored procedures, functions and triggers",
            format!(
                "One statement, sent again and again; a unit is a CALL, a row fetched, inserted or \
                 computed, of which most statements have {STEPS}. A trigger inserts one row into \
                 another table for each row inserted."
            ),
            "clients",
        )
    };
    bench.run(experiment, &groups, effort)
}
