//! `bench contention`: many clients that lock a few rows in random order, so
//! that transactions deadlock constantly.
//!
//! Each client draws 2 to 4 of the rows in random order and changes them one
//! by one in a transaction. A transaction that fails with 1213 or 1205 is rolled
//! back and retried at once, with the same rows in the same order, until it
//! commits. The variants differ in the locks that are taken: by UPDATE
//! alone, by a SELECT ... FOR SHARE before each UPDATE (an upgrade), by a
//! SELECT ... FOR UPDATE before each.
//!
//! 1. A request is a committed transaction; its latency begins with its first
//!    attempt. Attempts that were rolled back count as refused.
//! 2. The counters of the rows are compared with the committed changes after
//!    each run: a lost or doubled change is a wrong answer.
//! 3. All systems run at REPEATABLE READ.

use super::Bench;
use crate::conn::Connection;
use crate::connect::{Access, Admin, Endpoint};
use crate::error::{Error, Result};
use crate::load::{Outcome, Stage, histogram};
use crate::matrix::{Measured, run_rounds};
use crate::proto::{Answer, Call, Verb};
use crate::report::{Cell, Contention, Experiment};
use crate::url::{System, Target};
use crate::value;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 6;

/// Minimum and maximum of the rows that a transaction changes.
const CHANGED: (u64, u64) = (2, 4);

/// Statements of every connection, in the order of [`Statement`].
const STATEMENTS: [&str; 6] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "UPDATE contention SET n = n + 1 WHERE id = ?",
    "SELECT n FROM contention WHERE id = ? LOCK IN SHARE MODE",
    "SELECT n FROM contention WHERE id = ? FOR UPDATE",
];

/// Indexes into [`STATEMENTS`].
#[derive(Clone, Copy)]
enum Statement {
    Begin,
    Commit,
    Rollback,
    Update,
    Share,
    ForUpdate,
}

/// Ways to lock a row, each with the statements that a transaction runs on it.
const VARIANTS: [(&str, &[Statement]); 3] = [
    ("UPDATE", &[Statement::Update]),
    ("FOR SHARE, UPDATE", &[Statement::Share, Statement::Update]),
    (
        "FOR UPDATE, UPDATE",
        &[Statement::ForUpdate, Statement::Update],
    ),
];

/// Counters of one client.
struct Tally {
    /// Commits, deadlocks, timeouts and latencies of the measured time.
    commits: u64,
    deadlocks: u64,
    timeouts: u64,
    latency: Histogram<u64>,
    /// Row changes committed over the whole run.
    changes: u64,
    failure: Option<Error>,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            commits: 0,
            deadlocks: 0,
            timeouts: 0,
            latency: histogram(),
            changes: 0,
            failure: None,
        }
    }
}

/// Outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Committed,
    Deadlock,
    Timeout,
    /// The run ended before the attempt did.
    Cut,
}

/// One connection with its random numbers.
struct Client<'a> {
    connection: Connection,
    call: Call,
    answer: Answer,
    random: fastrand::Rng,
    rows: u64,
    locks: &'a [Statement],
    stage: &'a Stage,
}

impl Client<'_> {
    /// Runs a statement; `None` when it succeeded.
    ///
    /// # Errors
    /// The connection failed, or the server refused the statement with an error
    /// other than 1213 and 1205.
    fn run(&mut self, statement: Statement, row: Option<i64>) -> Result<Option<Attempt>> {
        self.call.begin(Verb::Statement(statement as usize));
        if let Some(row) = row {
            self.call.int(row);
        }
        self.connection.exchange(&self.call, &mut self.answer)?;
        match &self.answer.error {
            None => {}
            Some(reason) if reason.starts_with("1213 ") => return Ok(Some(Attempt::Deadlock)),
            Some(reason) if reason.starts_with("1205 ") => return Ok(Some(Attempt::Timeout)),
            Some(reason) => return Err(Error::refused(reason.clone())),
        }
        if matches!(statement, Statement::Update) && self.answer.affected != 1 {
            let rows = self.answer.affected;
            return Err(Error::wrong(format!(
                "an UPDATE by key changed {rows} rows"
            )));
        }
        Ok(None)
    }

    /// Runs the transaction once.
    fn attempt(&mut self, rows: &[i64]) -> Result<Attempt> {
        self.run(Statement::Begin, None)?;
        for row in rows {
            for lock in self.locks {
                if self.stage.is_over() {
                    return Ok(Attempt::Cut);
                }
                if let Some(refused) = self.run(*lock, Some(*row))? {
                    return Ok(refused);
                }
            }
        }
        let refused = self.run(Statement::Commit, None)?;
        Ok(refused.unwrap_or(Attempt::Committed))
    }

    /// Rows of the next transaction, in random order.
    fn draw(&mut self) -> Vec<i64> {
        let mut rows: Vec<i64> = (1..=self.rows).map(u64::cast_signed).collect();
        self.random.shuffle(&mut rows);
        let most = CHANGED.1.min(self.rows);
        let count = self.random.u64(CHANGED.0.min(most)..=most);
        rows.truncate(count as usize);
        rows
    }

    /// Runs transactions until the run is over.
    fn drive(&mut self, tally: &mut Tally) -> Result<()> {
        while !self.stage.is_over() {
            let rows = self.draw();
            let began = Instant::now();
            loop {
                let attempt = self.attempt(&rows)?;
                let is_measured = self.stage.is_measuring();
                let counted = match attempt {
                    Attempt::Committed => {
                        tally.changes += rows.len() as u64;
                        if is_measured {
                            let nanos = began.elapsed().as_nanos();
                            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                            tally.latency.saturating_record(nanos);
                            tally.commits += 1;
                        }
                        break;
                    }
                    Attempt::Deadlock => &mut tally.deadlocks,
                    Attempt::Timeout => &mut tally.timeouts,
                    Attempt::Cut => {
                        self.run(Statement::Rollback, None)?;
                        return Ok(());
                    }
                };
                *counted += u64::from(is_measured);
                self.run(Statement::Rollback, None)?;
            }
        }
        Ok(())
    }
}

/// Parameters of one run.
struct Plan<'a> {
    target: &'a Target,
    clients: usize,
    rows: u64,
    locks: &'a [Statement],
    warm_up: Duration,
    time: Duration,
    seed: u64,
}

/// Creates the table; an existing one is dropped.
fn prepare(plan: &Plan<'_>) -> Result<()> {
    let mut admin = Admin::connect(plan.target)?;
    admin.run("DROP TABLE IF EXISTS contention")?;
    admin.run("CREATE TABLE contention (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB")?;
    let rows: Vec<String> = (1..=plan.rows).map(|id| format!("({id}, 0)")).collect();
    let insert = format!("INSERT INTO contention VALUES {}", rows.join(", "));
    admin.run(&insert).map(|_| ())
}

/// Compares the sum of the rows with the committed changes.
fn verify(plan: &Plan<'_>, tallies: &[Tally]) -> Result<()> {
    let changes: u64 = tallies.iter().map(|tally| tally.changes).sum();
    let mut admin = Admin::connect(plan.target)?;
    let found = admin.value("SELECT SUM(n) FROM contention")?;
    if found.as_deref() == Some(changes.to_string().as_str()) {
        return Ok(());
    }
    let found = found.unwrap_or_else(|| "NULL".to_owned());
    Err(Error::wrong(format!(
        "{changes} changes were committed, the rows have {found}"
    )))
}

/// Opens the connections of a run.
fn connect<'a>(plan: &Plan<'a>, stage: &'a Stage) -> Result<Vec<Client<'a>>> {
    let endpoint = Endpoint {
        target: plan.target.clone(),
        access: Access::MysqlText,
    };
    let statements = STATEMENTS.map(str::to_owned);
    let mut clients = Vec::with_capacity(plan.clients);
    for number in 0..plan.clients as u64 {
        let mut client = Client {
            connection: endpoint.connect(&statements)?,
            call: Call::default(),
            answer: Answer::default(),
            random: fastrand::Rng::with_seed(value::mix(plan.seed ^ value::mix(number))),
            rows: plan.rows,
            locks: plan.locks,
            stage,
        };
        let level = b"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        client.call.begin(Verb::Text).bytes(level);
        client.connection.must(&client.call, &mut client.answer)?;
        clients.push(client);
    }
    Ok(clients)
}

/// Runs and measures once.
fn measure(plan: &Plan<'_>, cores: usize) -> Result<Measured> {
    prepare(plan)?;
    let stage = Stage::new(plan.clients, plan.target.pid, plan.warm_up, plan.time);
    let clients = connect(plan, &stage)?;
    let (tallies, mut outcome) = std::thread::scope(|scope| {
        let drive = |mut client: Client<'_>| {
            let mut tally = Tally::new();
            tally.failure = client.drive(&mut tally).err();
            stage.thread_ended(tally.failure.is_some());
            tally
        };
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || drive(client)))
            .collect();
        let outcome = stage.conduct();
        let tallies: Vec<Tally> = threads.into_iter().flat_map(|t| t.join().ok()).collect();
        (tallies, outcome)
    });
    if tallies.len() < plan.clients {
        return Err(Error::failed("a thread of the generator ended"));
    }
    let contention = sum_up(&tallies, &mut outcome);
    if outcome.failure.is_none() {
        outcome.failure = verify(plan, &tallies).err();
    }
    let mut measured = Measured::of(&outcome, cores);
    measured.run.contention = Some(contention);
    Ok(measured)
}

/// Adds up the counters of the clients.
fn sum_up(tallies: &[Tally], outcome: &mut Outcome) -> Contention {
    let mut contention = Contention {
        fewest: tallies.iter().map(|t| t.commits).min().unwrap_or(0),
        most: tallies.iter().map(|t| t.commits).max().unwrap_or(0),
        ..Contention::default()
    };
    for tally in tallies {
        contention.deadlocks += tally.deadlocks;
        contention.timeouts += tally.timeouts;
        outcome.requests += tally.commits;
        // Both have the same bounds, so nothing is refused.
        let _ = outcome.latency.add(&tally.latency);
        if outcome.failure.is_none() {
            outcome.failure.clone_from(&tally.failure);
        }
    }
    outcome.refused = contention.deadlocks + contention.timeouts;
    contention.attempts = outcome.requests + outcome.refused;
    contention
}

/// `bench contention`.
///
/// # Errors
/// A wrong answer, or no system speaks MySQL's protocol.
pub fn contention(bench: &mut Bench) -> Result<()> {
    bench
        .progress
        .begin("contention: few rows locked in random order");
    let spoken = |t: &&Target| matches!(t.system, System::Mysql | System::Porpoise);
    let targets: Vec<Target> = bench.targets.iter().filter(spoken).cloned().collect();
    if targets.is_empty() {
        return Err(Error::failed(
            "contention: no target speaks MySQL's protocol",
        ));
    }
    let clients = bench.clients(&[24]);
    let rows = bench.rows(ROWS);
    let mut experiment = describe(&targets, &clients, rows);
    let done = rounds(bench, &targets, &clients, rows, &mut experiment.cells);
    bench.keep(experiment);
    done
}

fn describe(targets: &[Target], clients: &[usize], rows: u64) -> Experiment {
    let mut cells = Vec::new();
    for (operation, _) in VARIANTS {
        for clients in clients {
            for target in targets {
                cells.push(Cell {
                    operation: operation.to_owned(),
                    size: *clients as u64,
                    system: target.name.clone(),
                    client: format!("{clients} connections"),
                    units: 1,
                    runs: Vec::new(),
                });
            }
        }
    }
    let ours = targets.iter().filter(|t| t.system == System::Porpoise);
    let theirs = || targets.iter().filter(|t| t.system == System::Mysql);
    let pairs = ours
        .flat_map(|ours| theirs().map(|theirs| (ours.name.clone(), theirs.name.clone())))
        .collect();
    let (fewest, most) = CHANGED;
    Experiment {
        cells,
        pairs,
        ..Experiment::new(
            "contention",
            "Few rows locked in random order",
            format!(
                "Transactions that change {fewest} to {most} of {rows} rows in random order, by UPDATE \
                 alone or after a locking read of each row; rolled back after 1213 and 1205 and begun \
                 again at once. A request is a committed transaction, its latency that of all its \
                 attempts. That no change is lost is verified."
            ),
            "clients",
        )
    }
}

/// All runs, interleaved; cells are in the order of [`describe`].
fn rounds(
    bench: &mut Bench,
    targets: &[Target],
    clients: &[usize],
    rows: u64,
    cells: &mut [Cell],
) -> Result<()> {
    let (effort, seed) = (bench.options.effort, bench.options.seed);
    let plan = |target, clients, locks, round: usize| Plan {
        target,
        clients,
        rows,
        locks,
        warm_up: effort.warm_up,
        time: effort.time,
        seed: seed ^ round as u64,
    };
    let mut combinations = Vec::new();
    for (_, locks) in VARIANTS {
        for clients in clients {
            combinations.extend(targets.iter().map(|target| (target, *clients, locks)));
        }
    }
    let each = effort.warm_up + effort.time;
    bench.progress.expect(cells.len() * effort.rounds, each);
    let cores = crate::sys::cores();
    let groups = vec![targets.len(); VARIANTS.len() * clients.len()];
    let mut measure_cell = |round: usize, cell: usize| {
        let Some((target, clients, locks)) = combinations.get(cell) else {
            return Measured::default();
        };
        measure(&plan(target, *clients, locks, round), cores).unwrap_or_else(Measured::from)
    };
    run_rounds(
        &groups,
        effort.rounds,
        cells,
        &mut bench.progress,
        &mut measure_cell,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(commits: u64, deadlocks: u64, timeouts: u64) -> Tally {
        Tally {
            commits,
            deadlocks,
            timeouts,
            ..Tally::new()
        }
    }

    #[test]
    fn attempts_are_the_commits_and_refusals_of_all_clients() {
        let mut outcome = Stage::new(0, None, Duration::ZERO, Duration::ZERO).conduct();
        let contention = sum_up(&[tally(5, 2, 0), tally(3, 1, 4)], &mut outcome);
        let expected = Contention {
            attempts: 15,
            deadlocks: 3,
            timeouts: 4,
            fewest: 3,
            most: 5,
        };
        assert_eq!(contention, expected);
        assert_eq!((outcome.requests, outcome.refused), (8, 7));
    }

    #[test]
    fn every_variant_changes_each_row_once() {
        for (name, statements) in VARIANTS {
            let updates = statements.iter().filter(|s| matches!(s, Statement::Update));
            assert_eq!(updates.count(), 1, "{name}");
        }
        assert!(STATEMENTS[Statement::Rollback as usize] == "ROLLBACK");
        assert!(STATEMENTS[Statement::ForUpdate as usize].ends_with("FOR UPDATE"));
    }
}
