//! The native client's part of a run: one thread, one connection, several batches in flight.

use super::PARENTS;
use crate::error::{Error, Result};
use crate::experiments::store::Store;
use crate::load::{Outcome, Stage, Tally, run_threads};
use crate::url::Target;
use crate::value;
use porpoise_native_client::{
    Address, Batch, Connection, Operation, Outcome as RowOutcome, Reply, Target as NativeTarget,
    ValueRef,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Value of a child row.
pub(super) const CHILD_TEXT: &[u8] = b"forty characters that say nothing at all";

/// Work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Update,
    Insert,
    /// Rows are inserted by one batch and deleted by the next one.
    InsertDelete,
    /// Rows with two foreign keys.
    Children,
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Read => "read",
            Work::Update => "update",
            Work::Insert => "insert",
            Work::InsertDelete => "insert and delete",
            Work::Children => "insert under two foreign keys",
        }
    }
}

/// Parameters of a run.
pub(super) struct NativeLoad<'a> {
    pub(super) target: &'a Target,
    pub(super) store: &'a Store,
    pub(super) work: Work,
    /// Rows of a batch.
    pub(super) rows: usize,
    /// Batches in flight.
    pub(super) in_flight: usize,
    /// Warm-up and measured time.
    pub(super) times: (Duration, Duration),
    pub(super) seed: u64,
    pub(super) versions: &'a AtomicU64,
    pub(super) next_child: &'a AtomicI64,
}

fn failed(error: porpoise_native_client::Error) -> Error {
    Error::failed(error.to_string())
}

/// Runs the load.
///
/// # Errors
/// The connection, or a wrong answer.
pub(super) fn run(load: &NativeLoad<'_>) -> Result<Outcome> {
    let target = load.target;
    let address = Address::Tcp(target.host.clone(), target.native_port);
    let native = NativeTarget::new(address, &target.user, &target.password);
    let mut connection = Connection::connect(&native).map_err(failed)?;
    let name = match load.work {
        Work::Children => "async_child",
        _ => "kv",
    };
    let table = connection.table(&target.database, name).map_err(failed)?;
    let (first, second) = match load.work {
        Work::Read => (table.read().columns(&["value"]), None),
        Work::Update => (table.update().columns(&["value"]), None),
        Work::Insert => (table.insert().columns(&["id", "value"]), None),
        Work::InsertDelete => (
            table.insert().columns(&["id", "value"]),
            Some(table.delete().build().map_err(failed)?),
        ),
        Work::Children => (table.insert().columns(&["id", "l", "r", "v"]), None),
    };
    let driver = Driver {
        load,
        connection,
        operation: first.build().map_err(failed)?,
        delete: second,
        random: fastrand::Rng::with_seed(value::mix(load.seed)),
        batch: Batch::new(),
        text: Vec::new(),
        sent: VecDeque::new(),
        spare: Vec::new(),
        to_delete: None,
    };
    let work = Box::new(move |stage: &Stage, tally: &mut Tally| driver.drive(stage, tally));
    run_threads(target.pid, load.times, vec![work])
}

/// A batch in flight: when it was sent, and its keys.
struct Sent {
    at: Instant,
    keys: Vec<u64>,
}

/// State of the client's thread.
struct Driver<'a> {
    load: &'a NativeLoad<'a>,
    connection: Connection,
    operation: Operation,
    delete: Option<Operation>,
    random: fastrand::Rng,
    batch: Batch,
    text: Vec<u8>,
    sent: VecDeque<Sent>,
    /// Vectors of keys for reuse.
    spare: Vec<Vec<u64>>,
    /// Keys that the next batch deletes.
    to_delete: Option<Vec<u64>>,
}

impl Driver<'_> {
    fn drive(mut self, stage: &Stage, tally: &mut Tally) -> Result<()> {
        while !stage.is_over() {
            while self.sent.len() < self.load.in_flight {
                self.send()?;
            }
            self.receive(stage, tally)?;
        }
        while !self.sent.is_empty() {
            self.receive(stage, tally)?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        self.batch.clear();
        let mut keys = self.spare.pop().unwrap_or_default();
        keys.clear();
        if let Some(deleted) = self.to_delete.take() {
            if let Some(delete) = &self.delete {
                for key in &deleted {
                    let key = ValueRef::Int(key.cast_signed());
                    self.batch.push(delete, &[key]).map_err(failed)?;
                }
            }
            keys = deleted;
        } else {
            for _ in 0..self.load.rows {
                keys.push(self.push()?);
            }
            self.to_delete = self.delete.is_some().then(|| keys.clone());
        }
        self.connection.send(&self.batch).map_err(failed)?;
        self.sent.push_back(Sent {
            at: Instant::now(),
            keys,
        });
        Ok(())
    }

    /// Adds a row to the batch, and returns its key.
    fn push(&mut self) -> Result<u64> {
        let load = self.load;
        let int = |key: u64| ValueRef::Int(key.cast_signed());
        let key = match load.work {
            Work::Read => {
                let key = self.random.u64(0..load.store.rows);
                let pushed = self.batch.push(&self.operation, &[int(key)]);
                pushed.map_err(failed)?;
                return Ok(key);
            }
            Work::Children => {
                let id = load.next_child.fetch_add(1, Ordering::Relaxed);
                let mut parent = || ValueRef::Int(self.random.i64(0..PARENTS));
                let row = [
                    ValueRef::Int(id),
                    parent(),
                    parent(),
                    ValueRef::Bytes(CHILD_TEXT),
                ];
                self.batch.push(&self.operation, &row).map_err(failed)?;
                return Ok(id.cast_unsigned());
            }
            Work::Update => self.random.u64(0..load.store.rows),
            Work::Insert | Work::InsertDelete => {
                value::inserted_key(load.store.inserted.fetch_add(1, Ordering::Relaxed))
            }
        };
        let version = load.versions.fetch_add(1, Ordering::Relaxed);
        value::write(&mut self.text, key, version, load.store.length);
        let row = [int(key), ValueRef::Bytes(&self.text)];
        self.batch.push(&self.operation, &row).map_err(failed)?;
        Ok(key)
    }

    fn receive(&mut self, stage: &Stage, tally: &mut Tally) -> Result<()> {
        let reply = self.connection.receive().map_err(failed)?;
        let Some(sent) = self.sent.pop_front() else {
            return Ok(());
        };
        self.verify(&reply, &sent.keys)?;
        tally.count(stage, sent.at, Instant::now());
        self.spare.push(sent.keys);
        Ok(())
    }

    fn verify(&self, reply: &Reply, keys: &[u64]) -> Result<()> {
        let mut right = 0;
        for (key, outcome) in keys.iter().zip(reply.results()) {
            right += usize::from(match outcome.map_err(failed)? {
                RowOutcome::Row { values, .. } => match values.first() {
                    Some(ValueRef::Bytes(found)) => {
                        value::read(found, *key, self.load.store.length).is_some()
                    }
                    _ => false,
                },
                RowOutcome::Written { .. } => true,
                _ => false,
            });
        }
        if right == keys.len() {
            return Ok(());
        }
        Err(Error::wrong(format!(
            "{}: {} of {} rows are wrong, near key {:?}",
            self.load.work.name(),
            keys.len() - right,
            keys.len(),
            keys.first()
        )))
    }
}
