//! Filling a table: several connections, many rows in a statement.

use crate::connect::{Access, Endpoint};
use crate::error::{Error, Result};
use crate::load::{self, Plan, Shape, Worker, Workload};
use crate::proto::{Answer, Call, Verb};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rows to insert.
pub trait Rows: Sync {
    /// The statement for this number of rows.
    fn statement(&self, rows: usize) -> String;

    /// Adds the parameters of the n-th row.
    fn add(&self, n: u64, call: &mut Call);

    /// Adds key and value of the n-th row, where the protocol has no
    /// statements.
    fn item(&self, n: u64, call: &mut Call);
}

/// Rows in a statement.
const BATCH: u64 = 100;

/// Connections at once.
const CONNECTIONS: usize = 4;

/// Longest time it may take.
const TIME: Duration = Duration::from_secs(3600);

/// A load of rows in progress.
pub struct LoadRows<R> {
    rows: R,
    to: u64,
    /// The next row that no connection has taken.
    next: AtomicU64,
    /// Rows that the server has acknowledged.
    stored: AtomicU64,
    by_item: bool,
}

impl<R: Rows> LoadRows<R> {
    /// The rows of a range.
    pub fn new(range: Range<u64>, rows: R) -> LoadRows<R> {
        LoadRows {
            rows,
            to: range.end,
            next: AtomicU64::new(range.start),
            stored: AtomicU64::new(0),
            by_item: false,
        }
    }

    /// Loads the rows.
    ///
    /// # Errors
    /// The system failed or refused.
    pub fn load(mut self, endpoint: &Endpoint) -> Result<()> {
        let wanted = self.to.saturating_sub(self.next.load(Ordering::Relaxed));
        if wanted == 0 {
            return Ok(());
        }
        self.by_item = endpoint.access == Access::Memcached;
        let plan = Plan {
            endpoint,
            connections: CONNECTIONS,
            shape: Shape::ThreadEach,
            warm_up: Duration::ZERO,
            time: TIME,
            pace: load::Pace::default(),
        };
        let outcome = load::run(&plan, &self)?;
        let during = |error: Error| error.during(format_args!("filling {}", endpoint.target.name));
        if let Some(failure) = outcome.failure {
            return Err(during(failure));
        }
        if crate::sys::is_interrupted() {
            return Err(Error::failed(load::INTERRUPTED));
        }
        let stored = self.stored.load(Ordering::Relaxed);
        if stored == wanted {
            return Ok(());
        }
        // The time was over, or the server refused some (deadlocks, lock waits).
        Err(during(Error::failed(format!(
            "{stored} of {wanted} rows were stored"
        ))))
    }
}

impl<R: Rows> Workload for LoadRows<R> {
    fn statements(&self) -> Vec<String> {
        if self.by_item {
            return Vec::new();
        }
        vec![self.rows.statement(BATCH as usize), self.rows.statement(1)]
    }

    fn worker(&self, _: usize) -> Box<dyn Worker + '_> {
        Box::new(Loader {
            of: self,
            single: 0..0,
            expected: 0,
        })
    }
}

struct Loader<'a, R> {
    of: &'a LoadRows<R>,
    /// Rows that were taken and go one by one.
    single: Range<u64>,
    expected: u64,
}

impl<R: Rows> Worker for Loader<'_, R> {
    fn next(&mut self, call: &mut Call) -> bool {
        let all = self.of;
        if self.single.is_empty() {
            let from = all.next.fetch_add(BATCH, Ordering::Relaxed);
            let to = all.to.min(from.saturating_add(BATCH));
            if from >= to {
                return false;
            }
            if !all.by_item && to - from == BATCH {
                call.begin(Verb::Statement(0));
                (from..to).for_each(|n| all.rows.add(n, call));
                self.expected = BATCH;
                return true;
            }
            self.single = from..to;
        }
        let Some(n) = self.single.next() else {
            return false;
        };
        self.expected = 1;
        if all.by_item {
            call.begin(Verb::Set);
            all.rows.item(n, call);
        } else {
            call.begin(Verb::Statement(1));
            all.rows.add(n, call);
        }
        true
    }

    fn verify(&mut self, answer: &Answer) -> Result<()> {
        if answer.affected == self.expected {
            self.of.stored.fetch_add(self.expected, Ordering::Relaxed);
            return Ok(());
        }
        Err(Error::wrong(format!(
            "{} rows were stored, not {}",
            answer.affected, self.expected
        )))
    }
}
