//! Batches of operations.
//!
//! * A batch of READs outside of a transaction is answered while its rows are visited
//!   ([`read`]), chunk by chunk.
//! * Every other batch runs in a transaction ([`mod@write`]): the open one, or one of its own. Its
//!   results are kept until the commit.

pub(crate) mod encode;
mod read;
mod write;

use crate::context::{Context, MAX_ATTEMPTS};
use crate::counters::{self, Counter};
use crate::failure::{Failure, is_retryable};
use crate::identity::Identity;
use crate::operation_statistics::Effects;
use crate::plan::{Plan, Plans};
use crate::sink::Sink;
use porpoise_kv::{CommitPosition, Isolation};
use porpoise_rows::{Error, Txn};
use porpoise_wire::native::batch::{Batch, FOR_UPDATE, Operation, Part};
use porpoise_wire::native::frame::{self, Kind, LAST};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;
use write::Results;

/// Operations of one shape, with their plan.
pub(crate) struct PlannedPart<'a> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) part: Part<'a>,
}

impl PlannedPart<'_> {
    fn is_plain_read(&self) -> bool {
        let shape = &self.plan.shape;
        shape.operation == Operation::Read && shape.flags & FOR_UPDATE == 0
    }
}

/// Executor of a connection's batches.
pub(crate) struct Executor<'s> {
    pub(crate) context: &'s mut Context,
    pub(crate) identity: &'s mut Identity,
    pub(crate) plans: &'s mut Plans,
}

impl Executor<'_> {
    /// Resolves the parts of a batch, and checks privileges.
    pub(crate) fn plan<'a>(
        &mut self,
        batch: &Batch<'a>,
    ) -> Result<SmallVec<[PlannedPart<'a>; 2]>, Failure> {
        let mut parts = SmallVec::new();
        for part in batch.parts() {
            let plan = self
                .plans
                .find(&self.context.db, self.identity, part.shape)?;
            parts.push(PlannedPart { plan, part });
        }
        Ok(parts)
    }

    /// Executes a batch in a transaction of its own, and appends its answer. Returns the commit that
    /// the answer waits for.
    pub(crate) fn run(
        &mut self,
        request: u32,
        batch: &Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let start = sink.buf().len();
            let mut sent = false;
            let done = self.attempt(request, batch, sink, &mut sent);
            self.context.unshare();
            let error = match done {
                Ok(position) => return Ok(position),
                Err(Failure::Rows(error)) if sent => {
                    return Err(Failure::AfterFrames(self.context.reported(error)));
                }
                Err(Failure::Rows(error)) => error,
                Err(failure) => return Err(failure),
            };
            sink.buf().truncate(start);
            // If the definition differs from the client's version, the next resolution reports it.
            if !is_retryable(&error) || attempts >= MAX_ATTEMPTS {
                return Err(Failure::Rows(self.context.reported(error)));
            }
            if matches!(error, Error::DefinitionChanged) {
                self.plan(batch)?;
            }
            counters::add(Counter::Retried, 1);
        }
    }

    fn attempt(
        &mut self,
        request: u32,
        batch: &Batch<'_>,
        sink: &mut dyn Sink,
        sent: &mut bool,
    ) -> Result<CommitPosition, Failure> {
        let began = Instant::now();
        let parts = self.plan(batch)?;
        if parts.iter().all(PlannedPart::is_plain_read) {
            let (position, effects) = read::answer(self.context, &parts, request, sink, sent)?;
            record(&parts, &effects, began);
            return Ok(position);
        }
        let parts = self.share(batch, parts)?;
        if parts.iter().any(PlannedPart::is_plain_read) {
            self.context.await_own_commits()?;
        }
        let mut txn = self.context.begin(Isolation::Snapshot)?;
        let mut results = Results::new(batch.is_atomic);
        match write::run(self.context, &mut txn, &parts, &mut results) {
            Ok(()) => {
                let position = if txn.has_writes() {
                    txn.commit()?.position
                } else {
                    let seen = txn.seen();
                    txn.rollback();
                    seen
                };
                self.context.note_commit(position);
                put_results(request, &parts, &results, sink);
                record(&parts, &results.effects(&parts), began);
                Ok(position)
            }
            Err(Failure::Operation) => {
                let seen = txn.seen();
                txn.rollback();
                results.undo();
                put_results(request, &parts, &results, sink);
                record(&parts, &results.effects(&parts), began);
                Ok(seen)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Takes the metadata locks of the tables that a batch writes, and returns the plans under them.
    fn share<'a>(
        &mut self,
        batch: &Batch<'a>,
        mut parts: SmallVec<[PlannedPart<'a>; 2]>,
    ) -> Result<SmallVec<[PlannedPart<'a>; 2]>, Failure> {
        loop {
            for planned in parts.iter().filter(|planned| !planned.is_plain_read()) {
                self.context.share(&planned.plan.table.write_set)?;
            }
            // Under the locks the definitions no longer change: the plans are compared again.
            let again = self.plan(batch)?;
            let mut pairs = again.iter().zip(&parts);
            let is_same = pairs.all(|(a, b)| Arc::ptr_eq(&a.plan, &b.plan));
            parts = again;
            if is_same {
                return Ok(parts);
            }
        }
    }

    /// Executes a batch in the open transaction, and appends its answer.
    ///
    /// # Errors
    /// The batch has had no effect; see [`Error::ends_transaction`] for the transaction.
    pub(crate) fn run_in(
        &mut self,
        txn: &mut Txn,
        request: u32,
        batch: &Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let parts = self.plan(batch)?;
        let parts = self.share(batch, parts)?;
        txn.set_lock_wait(self.context.lock_wait());
        if parts.iter().any(PlannedPart::is_plain_read) {
            self.context.pin(txn)?;
        }
        for planned in &parts {
            self.context.check_definition(txn, &planned.plan.table)?;
        }
        let mark = txn.mark();
        let mut results = Results::new(batch.is_atomic);
        match write::run(self.context, txn, &parts, &mut results) {
            Ok(()) => {}
            Err(Failure::Operation) => {
                txn.rollback_to(mark);
                results.undo();
            }
            Err(failure) => {
                txn.rollback_to(mark);
                return Err(match failure {
                    Failure::Rows(error) => Failure::Rows(self.context.reported(error)),
                    other => other,
                });
            }
        }
        put_results(request, &parts, &results, sink);
        record(&parts, &results.effects(&parts), began);
        Ok(())
    }
}

/// Counts the operations of parts, of which `effects` has the effects of each, and the time since
/// `began`.
fn record(parts: &[PlannedPart<'_>], effects: &[Effects], began: Instant) {
    if parts
        .iter()
        .all(|planned| planned.plan.statistics.is_none())
    {
        return;
    }
    let ended = Instant::now();
    let operations: u64 = effects.iter().map(|effects| effects.operations).sum();
    let divisor = u32::try_from(operations.max(1)).unwrap_or(u32::MAX);
    let share = ended.saturating_duration_since(began) / divisor;
    for (planned, effects) in parts.iter().zip(effects) {
        if let Some(statistics) = &planned.plan.statistics {
            statistics.count(*effects);
            statistics.time(effects.operations, share, ended);
        }
    }
}

fn put_results(request: u32, parts: &[PlannedPart<'_>], results: &Results, sink: &mut dyn Sink) {
    let out = sink.buf();
    let at = frame::begin(out, Kind::Results, request);
    results.put(parts, out);
    frame::finish(out, at, LAST);
}

/// Counts operations.
fn count(operation: Operation, rows: usize) {
    let counter = match operation {
        Operation::Read => Counter::Read,
        Operation::Insert => Counter::Insert,
        Operation::Update => Counter::Update,
        Operation::Upsert => Counter::Upsert,
        Operation::Delete => Counter::Delete,
    };
    counters::add(counter, rows as u64);
}
