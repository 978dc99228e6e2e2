//! `bench requests`: requests that statements make on a TiKV cluster.
//!
//! A Porpoise server is started on a test double of a cluster (`tests/tikv-double`), and its own counters are read
//! before and after each statement. Steps are requests that follow each other: those to several regions at
//! once are one. The median of [`TIMES`] statements is reported, because the server also renews its lease
//! meanwhile.

use super::Bench;
use super::cluster_double::ClusterDouble;
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::report::{Experiment, Measure};
use crate::stats::median;
use std::path::{Path, PathBuf};

/// Statements of each kind.
const TIMES: usize = 21;

const TABLES: [&str; 5] = [
    "CREATE TABLE rq_left (id INT PRIMARY KEY)",
    "CREATE TABLE rq_right (id INT PRIMARY KEY)",
    "CREATE TABLE rq (id INT PRIMARY KEY, l INT NOT NULL, r INT NOT NULL, v VARCHAR(100), \
     FOREIGN KEY (l) REFERENCES rq_left (id), FOREIGN KEY (r) REFERENCES rq_right (id))",
    "INSERT INTO rq_left VALUES (1), (2), (3)",
    "INSERT INTO rq_right VALUES (1), (2), (3)",
];

/// A kind of statement; the text of its n-th one.
struct Kind {
    name: &'static str,
    text: fn(usize) -> String,
}

fn insert(n: usize, rows: usize) -> String {
    let row = |at: usize| {
        format!(
            "({}, {}, {}, 'text')",
            n * 1000 + at,
            at % 3 + 1,
            (at + 1) % 3 + 1
        )
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO rq VALUES {}", rows.join(", "))
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "INSERT of 1 row with two foreign keys",
        text: |n| insert(n, 1),
    },
    Kind {
        name: "INSERT of 100 rows with two foreign keys",
        text: |n| insert(1000 + n, 100),
    },
    Kind {
        name: "point SELECT",
        text: |n| format!("SELECT v FROM rq WHERE id = {}", n * 1000),
    },
    Kind {
        name: "UPDATE by key",
        text: |n| format!("UPDATE rq SET v = 'other {n}' WHERE id = {}", n * 1000),
    },
];

/// Steps and timestamps so far.
fn counters(admin: &mut Admin) -> Result<[f64; 2]> {
    let mut of = |name: &str| -> Result<f64> {
        let statement = format!("SHOW GLOBAL STATUS LIKE 'Porpoise_engine_{name}'");
        let answer = admin.run(&statement)?;
        let value = answer
            .cell(1)
            .and_then(|v| std::str::from_utf8(v).ok()?.parse().ok());
        value.ok_or_else(|| Error::failed(format!("the server does not count {name}")))
    };
    Ok([of("request_rounds_total")?, of("timestamps_total")?])
}

/// The medians of a kind.
fn measure(admin: &mut Admin, kind: &Kind) -> Result<[Measure; 2]> {
    let (mut steps, mut timestamps) = (Vec::new(), Vec::new());
    for n in 0..TIMES {
        let before = counters(admin)?;
        admin.run(&(kind.text)(n))?;
        let after = counters(admin)?;
        steps.push(after[0] - before[0]);
        timestamps.push(after[1] - before[1]);
    }
    let measure = |figure: &str, values: &[f64]| Measure {
        name: format!("{}: {figure}", kind.name),
        value: median(values),
        unit: figure.to_owned(),
    };
    Ok([measure("steps", &steps), measure("timestamps", &timestamps)])
}

fn describe() -> Experiment {
    let about = format!(
        "Steps (requests that follow each other) and timestamps of a statement, the median of {TIMES}, on a test \
         double of a cluster with one region."
    );
    let title = "Requests of statements on a TiKV cluster";
    Experiment::new("requests", title, about, "rows")
}

/// `bench requests`. The server is the program `porpoise`, its files are in `home`.
///
/// # Errors
/// The double is not there, or the server failed.
pub fn requests(bench: &mut Bench, home: &Path, porpoise: PathBuf) -> Result<()> {
    bench
        .progress
        .begin("requests: statements on a TiKV cluster");
    let cluster = ClusterDouble::start(home)?;
    let started = cluster.server(home, porpoise)?;
    let mut admin = Admin::connect(&started.target)?;
    for statement in TABLES {
        admin.run(statement)?;
    }
    let mut experiment = describe();
    for kind in &KINDS {
        let measures = measure(&mut admin, kind)?;
        for measure in &measures {
            let note = format!("{} {}", measure.name, measure.value);
            bench.progress.say(&format!("   {note}"));
            experiment.notes.push(note);
        }
        experiment.measures.extend(measures);
    }
    bench.keep(experiment);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_insert_rows_under_parents_that_are_there() {
        assert_eq!(
            insert(2, 2),
            "INSERT INTO rq VALUES (2000, 1, 2, 'text'), (2001, 2, 3, 'text')"
        );
    }
}
