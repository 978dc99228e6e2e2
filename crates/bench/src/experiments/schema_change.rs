//! `bench schema-change`: changes of a table's definition beside a load like oltp_read_write's.
//!
//! Clients run transactions of point reads, a range, two updates, a deletion and an insertion on a table
//! that references a parent. One statement of another connection changes the table: it adds an index, a
//! foreign key, or changes a column's type. It measures the throughput of transactions before each change,
//! during it and after it, and the longest time of a statement. Writers maintain the new index, or check the new constraint,
//! during the change as they do after it: the throughput after it shows this part of the loss.
//!
//! 1. A statement that is refused so that a client would repeat the transaction (1205, 1213, 1412, or
//!    1020 of MariaDB) counts as refused; its time counts.
//! 2. A change that fails is reported with the reason, and the others are measured.
//! 3. The system chooses the algorithm of each change: the statements have no ALGORITHM and no LOCK.

use super::{Bench, no_system};
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::report::{Cell, Experiment, Latency, Measure, Run};
use crate::url::{System, Target};
use crate::value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 100_000;
/// Rows of the parent.
const PARENTS: u64 = 1000;
/// Clients unless chosen otherwise.
const CLIENTS: usize = 8;
/// Goal for the longest time of a statement, in milliseconds.
const WAIT_LIMIT: f64 = 100.0;
/// Time that a change may take; with `--quick`.
const CHANGE_LIMIT: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(60));
/// The fall of the throughput that counts as reached.
const FALL_LIMIT: f64 = 0.15;
/// Rows in an INSERT while the table is filled.
const BATCH: u64 = 500;
/// Refusals after which a client repeats a transaction.
const REPEATED: [&str; 4] = ["1205", "1213", "1412", "1020"];

/// The changes, with the statement that prepares each.
const CHANGES: [(&str, &str); 3] = [
    ("add index", "ALTER TABLE sc ADD INDEX c (c)"),
    (
        "add foreign key",
        "ALTER TABLE sc ADD CONSTRAINT sc_parent FOREIGN KEY (parent) REFERENCES sc_parent (id)",
    ),
    ("modify", "ALTER TABLE sc MODIFY k BIGINT NOT NULL"),
];

/// Transactions and statements of the clients in one period, and the times that statements took.
#[derive(Clone, Copy, Default)]
struct Done {
    transactions: u64,
    refused: u64,
    statements: u64,
    /// Sum of the times of statements.
    total: Duration,
    longest: Duration,
}

impl Done {
    fn add(&mut self, other: &Done) {
        self.transactions += other.transactions;
        self.refused += other.refused;
        self.statements += other.statements;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// One client.
struct Client {
    admin: Admin,
    random: u64,
    rows: u64,
    done: Done,
}

impl Client {
    fn draw(&mut self, below: u64) -> u64 {
        self.random = value::mix(self.random);
        self.random % below.max(1)
    }

    fn run(&mut self, statement: &str) -> Result<()> {
        let began = Instant::now();
        let outcome = self.admin.run(statement).map(drop);
        let took = began.elapsed();
        self.done.statements += 1;
        self.done.total += took;
        self.done.longest = self.done.longest.max(took);
        outcome
    }

    /// One transaction, as oltp_read_write's, with half of the point reads.
    fn transaction(&mut self) -> Result<()> {
        self.run("BEGIN")?;
        for _ in 0..5 {
            let id = self.draw(self.rows) + 1;
            self.run(&format!("SELECT c FROM sc WHERE id = {id}"))?;
        }
        let id = self.draw(self.rows) + 1;
        self.run(&format!(
            "SELECT SUM(k) FROM sc WHERE id BETWEEN {id} AND {}",
            id + 99
        ))?;
        let (id, text) = (self.draw(self.rows) + 1, self.draw(u64::MAX));
        self.run(&format!("UPDATE sc SET k = k + 1 WHERE id = {id}"))?;
        let id = (id + self.rows / 2) % self.rows + 1;
        self.run(&format!("UPDATE sc SET c = 'text-{text}' WHERE id = {id}"))?;
        let (id, parent) = (self.draw(self.rows) + 1, self.draw(PARENTS) + 1);
        self.run(&format!("DELETE FROM sc WHERE id = {id}"))?;
        self.run(&format!(
            "INSERT INTO sc VALUES ({id}, {parent}, {}, 'text-{text}')",
            parent * 7
        ))?;
        self.run("COMMIT")
    }

    /// Runs transactions until `stop` is set.
    fn work(mut self, stop: &AtomicBool) -> Result<(Client, Done)> {
        self.done = Done::default();
        while !stop.load(Ordering::Relaxed) {
            match self.transaction() {
                Ok(()) => self.done.transactions += 1,
                Err(error) if REPEATED.iter().any(|code| error.message.contains(code)) => {
                    self.done.refused += 1;
                    self.admin.run("ROLLBACK")?;
                }
                Err(error) => return Err(error),
            }
        }
        let done = self.done;
        Ok((self, done))
    }
}

/// Runs the clients while `during` runs. Returns their results, and the time.
fn beside(
    clients: &mut Vec<Client>,
    during: impl FnOnce() -> Result<()>,
) -> Result<(Done, Duration)> {
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let mut all = Done::default();
    let taken = std::mem::take(clients);
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = taken
            .into_iter()
            .map(|client| scope.spawn(|| client.work(&stop)))
            .collect();
        let outcome = during();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let ended = thread.join();
            let ended = ended.map_err(|_| Error::failed("a client panicked"))?;
            let (client, done) = ended?;
            all.add(&done);
            clients.push(client);
        }
        outcome
    });
    outcome.map(|()| (all, began.elapsed()))
}

fn prepare(target: &Target, rows: u64) -> Result<Admin> {
    let tail = match target.system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    let mut admin = Admin::connect(target)?;
    admin.run("DROP TABLE IF EXISTS sc, sc_parent")?;
    admin.run(&format!(
        "CREATE TABLE sc_parent (id INT PRIMARY KEY){tail}"
    ))?;
    admin.run(&format!(
        "CREATE TABLE sc (id INT PRIMARY KEY, parent INT NOT NULL, k INT NOT NULL, \
         c VARCHAR(120) NOT NULL, KEY parent (parent)){tail}"
    ))?;
    let ids: Vec<String> = (1..=PARENTS).map(|id| format!("({id})")).collect();
    admin.run(&format!("INSERT INTO sc_parent VALUES {}", ids.join(", ")))?;
    let mut first = 1;
    while first <= rows {
        let last = (first + BATCH - 1).min(rows);
        let row = |id| {
            let parent = id % PARENTS + 1;
            format!("({id}, {parent}, {}, 'text-{}')", id % 97, value::mix(id))
        };
        let values: Vec<String> = (first..=last).map(row).collect();
        admin.run(&format!("INSERT INTO sc VALUES {}", values.join(", ")))?;
        first = last + 1;
    }
    Ok(admin)
}

fn cell(
    target: &Target,
    operation: String,
    clients: usize,
    (done, time): (Done, Duration),
) -> Cell {
    let seconds = time.as_secs_f64();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let mean = micros(done.total) / (done.statements.max(1) as f64);
    Cell {
        operation,
        size: clients as u64,
        system: target.name.clone(),
        client: format!("{clients} connections"),
        units: 1,
        runs: vec![Run {
            requests: done.transactions,
            refused: done.refused,
            seconds,
            throughput: done.transactions as f64 / seconds.max(1e-9),
            latency: Latency {
                mean,
                max: micros(done.longest),
                ..Latency::default()
            },
            ..Run::default()
        }],
    }
}

/// Sizes of the table and of the load, and the time that a change may take.
#[derive(Clone, Copy)]
struct Size {
    rows: u64,
    /// Clients.
    count: usize,
    seed: u64,
    limit: Duration,
}

/// One system's table, clients, and the connection that changes the table.
struct Session {
    admin: Admin,
    /// The connection's number on the server.
    number: String,
    clients: Vec<Client>,
}

impl Session {
    /// Creates the table, and connects.
    fn open(target: &Target, size: Size) -> Result<Session> {
        let Size { rows, count, .. } = size;
        let mut admin = prepare(target, rows)?;
        let number = admin.value("SELECT CONNECTION_ID()")?.unwrap_or_default();
        admin.set_patience(size.limit)?;
        let client = |n: usize| -> Result<Client> {
            Ok(Client {
                admin: Admin::connect(target)?,
                random: value::mix(size.seed ^ n as u64),
                rows,
                done: Done::default(),
            })
        };
        Ok(Session {
            admin,
            number,
            clients: (0..count).map(client).collect::<Result<_>>()?,
        })
    }

    /// Ends a statement that may still run: it would prevent the creation of the next table.
    fn end(self, target: &Target) {
        let kill = format!("KILL {}", self.number);
        // The connection may be gone already.
        let _ = Admin::connect(target).and_then(|mut admin| admin.run(&kill).map(drop));
    }

    /// Measures before and during one change.
    fn measure(&mut self, statement: &str, time: Duration) -> Result<Measured> {
        let sleep = || {
            std::thread::sleep(time);
            Ok(())
        };
        beside(&mut self.clients, sleep)?;
        let before = beside(&mut self.clients, sleep)?;
        let admin = &mut self.admin;
        let during = beside(&mut self.clients, || admin.run(statement).map(drop))?;
        let after = beside(&mut self.clients, sleep)?;
        Ok(Measured {
            before,
            during,
            after,
        })
    }
}

/// Work of the clients before, during and after a change, each with its time.
struct Measured {
    before: (Done, Duration),
    during: (Done, Duration),
    after: (Done, Duration),
}

/// Transactions a second.
fn rate((done, time): &(Done, Duration)) -> f64 {
    done.transactions as f64 / time.as_secs_f64().max(1e-9)
}

impl Measured {
    /// The share of the throughput that was lost during the change.
    fn fall(&self) -> f64 {
        1.0 - rate(&self.during) / rate(&self.before).max(1e-9)
    }

    /// The longest time of a statement during the change, in milliseconds.
    fn longest(&self) -> f64 {
        self.during.0.longest.as_secs_f64() * 1e3
    }

    fn note(&self, target: &Target, name: &str, rows: u64) -> String {
        let (longest, fall) = (self.longest(), self.fall());
        let verdict = |reached: bool| if reached { "reached" } else { "missed" };
        let [before, during, after] = [&self.before, &self.during, &self.after].map(rate);
        format!(
            "{}, {name} of {rows} rows in {:.1} s: longest statement {longest:.0} ms (limit {WAIT_LIMIT:.0} ms: {}; \
             {:.0} ms before), {before:.0} transactions/s before, {during:.0} during ({:+.0} %, limit -{:.0} %: {}), \
             {after:.0} with the change done",
            target.name,
            self.during.1.as_secs_f64(),
            verdict(longest <= WAIT_LIMIT),
            self.before.0.longest.as_secs_f64() * 1e3,
            -fall * 100.0,
            FALL_LIMIT * 100.0,
            verdict(fall <= FALL_LIMIT),
        )
    }

    fn measures(&self, target: &Target, name: &str) -> [Measure; 2] {
        let measure = |figure: &str, value, unit: &str| Measure {
            name: format!("{}: {figure}, {name}", target.name),
            value,
            unit: unit.to_owned(),
        };
        [
            measure("longest statement", self.longest(), "ms"),
            measure("throughput lost", self.fall() * 100.0, "%"),
        ]
    }
}

/// A change that could not be measured, as a cell with the reason.
fn failed_cell(target: &Target, name: &str, count: usize, reason: &str) -> Cell {
    let mut cell = cell(
        target,
        name.to_owned(),
        count,
        (Done::default(), Duration::ZERO),
    );
    for run in &mut cell.runs {
        run.failure = Some(reason.to_owned());
    }
    cell
}

/// Measures all changes on one system. A change that fails is recorded with its reason; the next one gets
/// new connections and a new table.
fn measure(bench: &mut Bench, target: &Target, experiment: &mut Experiment) -> Result<()> {
    let count = bench.clients(&[CLIENTS]).first().copied();
    let count = count.unwrap_or(CLIENTS);
    let rows = bench.rows(ROWS);
    let (usual, quick) = CHANGE_LIMIT;
    let size = Size {
        rows,
        count,
        seed: bench.options.seed,
        limit: if bench.options.is_quick { quick } else { usual },
    };
    let time = bench.options.effort.time.max(Duration::from_millis(200));
    let mut session = Some(Session::open(target, size)?);
    for (name, statement) in CHANGES {
        let measured = match session.take() {
            Some(open) => Ok(open),
            None => Session::open(target, size),
        };
        let measured = measured.and_then(|mut open| match open.measure(statement, time) {
            Ok(measured) => {
                session = Some(open);
                Ok(measured)
            }
            Err(error) => {
                open.end(target);
                Err(error)
            }
        });
        let note = match &measured {
            Ok(measured) => measured.note(target, name, rows),
            Err(error) => format!("{}, {name} of {rows} rows FAILED: {error}", target.name),
        };
        bench.progress.say(&format!("   {note}"));
        experiment.notes.push(note);
        match measured {
            Ok(measured) => {
                experiment.measures.extend(measured.measures(target, name));
                let (before, during) = (measured.before, measured.during);
                let parts = [
                    (format!("before {name}"), before),
                    (name.to_owned(), during),
                ];
                let cells = parts.map(|(operation, done)| cell(target, operation, count, done));
                experiment.cells.extend(cells);
            }
            Err(error) => {
                let failed = failed_cell(target, name, count, &error.message);
                experiment.cells.push(failed);
            }
        }
        if crate::sys::is_interrupted() {
            return Err(Error::failed(crate::load::INTERRUPTED));
        }
    }
    Ok(())
}

/// `bench schema-change`.
///
/// # Errors
/// No system could be measured.
pub fn schema_change(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("Schema changes beside a load");
    let mut experiment = Experiment::new(
        "schema-change",
        "Schema changes beside a load",
        "Transactions like oltp_read_write's beside ALTER TABLE; the longest statement counts.",
        "connections",
    )
    .on_linear_axis();
    let has_sql = |target: &&Target| matches!(target.system, System::Mysql | System::Porpoise);
    let targets: Vec<Target> = bench.targets.iter().filter(has_sql).cloned().collect();
    for target in &targets {
        if let Err(error) = measure(bench, target, &mut experiment) {
            let note = format!("{} left out: {error}", target.name);
            bench.progress.say(&format!("   {note}"));
            experiment.notes.push(note);
        }
    }
    if experiment.cells.is_empty() {
        return Err(no_system(
            "schema-change: no system could be measured",
            &experiment.notes,
        ));
    }
    bench.keep(experiment);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(transactions: u64, longest: u64) -> (Done, Duration) {
        let done = Done {
            transactions,
            longest: Duration::from_millis(longest),
            ..Done::default()
        };
        (done, Duration::from_secs(2))
    }

    #[test]
    fn a_change_is_judged_by_its_longest_statement_and_its_throughput() {
        let target = Target::parse("porpoise://127.0.0.1:1").unwrap();
        let measured = Measured {
            before: done(2000, 8),
            during: done(1500, 120),
            after: done(1800, 8),
        };
        let measures = measured.measures(&target, "add index");
        assert_eq!(measures[0].name, "Porpoise: longest statement, add index");
        assert!((measures[0].value - 120.0).abs() < 1e-9);
        assert!((measures[1].value - 25.0).abs() < 1e-9);
        let note = measured.note(&target, "add index", 99);
        assert!(note.contains("add index of 99 rows"), "{note}");
        assert!(note.contains("limit 100 ms: missed") && note.contains("-15 %: missed"));
        assert!(note.ends_with("900 with the change done"), "{note}");
    }

    #[test]
    fn a_failed_change_keeps_its_reason() {
        let target = Target::parse("mysql://127.0.0.1:1").unwrap();
        let cell = failed_cell(&target, "modify", 8, "no answer in time");
        assert_eq!((cell.operation.as_str(), cell.size), ("modify", 8));
        assert_eq!(cell.failure(), Some("no answer in time"));
        assert!(cell.throughput().is_none());
    }
}
