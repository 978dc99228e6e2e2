//! Commands that change one item: dispatch, and what they share.
//!
//! A [`Change`] knows nothing of the dialect it came in, nor does its
//! [`Outcome`]. Each is one autocommit transaction ([`CommandContext::write`]); [`run`]
//! is the part inside of the transaction, so that several can share one.
//!
//! Invariants:
//! 1. A key that no row can have (a word where the column is a number) is not
//!    found, and is refused where a row would have to be made of it.
//! 2. Figures are counted once for a command, when its outcome is final.

use super::context::{CommandContext, Done, Failure, Place};
use super::live::Current;
use super::notes::After;
use super::requirement::Requirement;
use super::{cached, change, store, touch};
use crate::metrics::{self, Counter};
use porpoise_rows::Txn;
use porpoise_wire::memcached::command::{Change, Mode, Outcome, Status, Store};
use std::sync::Arc;

/// Carries out a command that may change one item.
pub fn apply(
    context: &mut CommandContext,
    current: &mut Arc<Current>,
    command: &Change<'_>,
) -> Done<Outcome> {
    let requirement = Requirement::of(command);
    if context.is_cached(&current.mapping, command.key(), requirement.operation) {
        let done = cached::apply(context, command);
        if let Ok(outcome) = &done.outcome {
            count(command, outcome.status);
        }
        return done;
    }
    let mut done = context.write(current, requirement, command.key(), |txn, place| {
        run(txn, place, command)
    });
    done.outcome = done
        .outcome
        .or_else(|failure| no_such_key(command, failure).map(CommandOutcome::from));
    if let Err(failure) = &done.outcome
        && let Some(rule) = current.mapping.rule(command.key())
    {
        context.shared.note_error(&rule.prefix, failure.to_string());
    }
    if let Ok(ran) = &done.outcome {
        context.shared.notes.settle(&ran.after);
        count(command, ran.outcome.status);
    } else if let Change::Store(_) = command {
        metrics::add(Counter::MemcachedSet, 1);
    }
    Done {
        outcome: done.outcome.map(|ran| ran.outcome),
        ticket: done.ticket,
    }
}

/// What became of a command, and what is to be noted when it is committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandOutcome {
    pub(super) outcome: Outcome,
    pub(super) after: After,
}

impl From<Outcome> for CommandOutcome {
    /// Nothing is to be noted.
    fn from(outcome: Outcome) -> CommandOutcome {
        CommandOutcome {
            outcome,
            after: After::default(),
        }
    }
}

impl From<Status> for CommandOutcome {
    fn from(status: Status) -> CommandOutcome {
        Outcome::of(status).into()
    }
}

/// Carries out a command inside of a transaction.
pub(super) fn run(
    txn: &mut Txn,
    place: &mut Place<'_>,
    command: &Change<'_>,
) -> Result<CommandOutcome, Failure> {
    match command {
        Change::Store(command) => store::run(txn, place, command),
        Change::Count(command) => change::run_count(txn, place, command),
        Change::Delete(command) => change::run_delete(txn, place, command),
        Change::Touch(command) => touch::run_touch(txn, place, command),
    }
}

/// The outcome for a key that no row can have.
pub(super) fn no_such_key(command: &Change<'_>, failure: Failure) -> Result<Outcome, Failure> {
    let Failure::NoSuchKey(_) = &failure else {
        return Err(failure);
    };
    let status = match command {
        Change::Store(Store {
            mode: Mode::Add, ..
        }) => return Err(failure),
        Change::Store(c) if c.compare.is_some() => Status::NotFound,
        Change::Store(Store {
            mode: Mode::Set, ..
        }) => return Err(failure),
        Change::Store(_) => Status::NotStored,
        Change::Count(c) if c.seed.is_some() => return Err(failure),
        _ => Status::NotFound,
    };
    Ok(Outcome::of(status))
}

/// Counts what was done.
pub(super) fn count(command: &Change<'_>, status: Status) {
    let counter = match (command, status) {
        (Change::Store(c), status) => {
            metrics::add(Counter::MemcachedSet, 1);
            if status == Status::Stored {
                metrics::add(Counter::MemcachedStored, 1);
            }
            if c.compare.is_none() {
                return;
            }
            match status {
                Status::Stored => Counter::MemcachedCasHit,
                Status::Exists => Counter::MemcachedCasBadval,
                _ => Counter::MemcachedCasMiss,
            }
        }
        (Change::Count(c), Status::NotFound) if c.decrement => Counter::MemcachedDecrMiss,
        (Change::Count(_), Status::NotFound) => Counter::MemcachedIncrMiss,
        (Change::Count(c), _) if c.decrement => Counter::MemcachedDecrHit,
        (Change::Count(_), _) => Counter::MemcachedIncrHit,
        (Change::Delete(_), Status::Deleted) => Counter::MemcachedDeleteHit,
        (Change::Delete(_), _) => Counter::MemcachedDeleteMiss,
        (Change::Touch(_), Status::Touched) => Counter::MemcachedTouchHit,
        (Change::Touch(_), _) => Counter::MemcachedTouchMiss,
    };
    metrics::add(counter, 1);
}
