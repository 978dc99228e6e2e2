//! Commands that change one item: dispatch and shared parts.
//!
//! A [`Change`] and its [`Outcome`] are independent of the dialect. Each is one autocommit
//! transaction ([`CommandContext::write`]); [`run`] is the part inside the transaction, so that
//! several commands can share one ([`several`]).
//!
//! Invariants:
//! 1. A key that no row can have (text where the column is a number) is not found; a command that
//!    would have to insert its row is refused.
//! 2. A command is counted once, when its outcome is final.

mod cache_commands;
mod count_delete;
pub(crate) mod flush;
pub(crate) mod several;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod touch;

use crate::command_statistics::{Effects, Verb};
use crate::context::requirement::Requirement;
use crate::context::{CommandContext, Done, Failure};
use crate::counters::{self, Counter};
use crate::item_metadata::MetadataUpdate;
use crate::mapping::Mapping;
use crate::mapping::mapping_cache::CurrentMapping;
use crate::sampled_command::{self, SampledCommand};
use porpoise_wire::memcached::command::{Change, Outcome, Status};
use std::sync::Arc;
pub(crate) use table::{count, run};

/// Executes a command that may change one item.
pub fn apply(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    command: &Change<'_>,
) -> Done<Outcome> {
    let sampled = sampled_command::begin(&context.shared.db, 1);
    let done = execute(context, current, command);
    let mapping = &current.mapping;
    count_by_prefix(mapping, command, &done.outcome);
    if let Some((_, began)) = sampled {
        let sampled = SampledCommand {
            verb: Verb::of(command),
            key: command.key(),
            began,
            commands: 1,
        };
        sampled.note(mapping, &context.shared.db);
    }
    done
}

/// Counts a command in the statistics of its key's prefix.
fn count_by_prefix(mapping: &Mapping, command: &Change<'_>, outcome: &Result<Outcome, Failure>) {
    let rule = mapping.rule(command.key());
    if let Some(statistics) = rule.and_then(|rule| rule.statistics.as_ref()) {
        let effects = match outcome {
            Ok(outcome) => Effects::of_change(outcome.status),
            Err(_) => Effects::FAILED,
        };
        statistics.count(Verb::of(command), effects);
    }
}

fn execute(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    command: &Change<'_>,
) -> Done<Outcome> {
    let requirement = Requirement::of(command);
    if context.is_cached(&current.mapping, command.key(), requirement.operation) {
        let done = cache_commands::apply(context, command);
        if let Ok(outcome) = &done.outcome {
            count(command, outcome.status);
        }
        return done;
    }
    let done = context.write(current, requirement, command.key(), |txn, place| {
        run(txn, place, command)
    });
    let result = done
        .outcome
        .or_else(|failure| without_row(command, failure).map(CommandOutcome::from));
    Done {
        outcome: conclude(context, &current.mapping, command, result),
        position: done.position,
    }
}

/// Applies the result of a command on rows, when it is final, to item metadata and to the counters
/// of the listener.
fn conclude(
    context: &CommandContext,
    mapping: &Mapping,
    command: &Change<'_>,
    result: Result<CommandOutcome, Failure>,
) -> Result<Outcome, Failure> {
    match &result {
        Ok(executed) => {
            let metadata = &context.shared.metadata;
            metadata.apply_update(&executed.metadata_update);
            count(command, executed.outcome.status);
        }
        Err(failure) => {
            if let Some(rule) = mapping.rule(command.key()) {
                let text = failure.to_string();
                context.shared.note_error(&rule.prefix, text);
            }
            if let Change::Store(_) = command {
                counters::add(Counter::Set, 1);
            }
        }
    }
    result.map(|executed| executed.outcome)
}

/// Outcome of a command, and the change of item metadata when it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandOutcome {
    pub(crate) outcome: Outcome,
    pub(crate) metadata_update: MetadataUpdate,
}

impl From<Outcome> for CommandOutcome {
    /// A command's outcome without a change of metadata.
    fn from(outcome: Outcome) -> CommandOutcome {
        CommandOutcome {
            outcome,
            metadata_update: MetadataUpdate::default(),
        }
    }
}

impl From<Status> for CommandOutcome {
    fn from(status: Status) -> CommandOutcome {
        Outcome::with_status(status).into()
    }
}

/// Returns the status of a command that failed because no row can have its key.
pub(crate) fn without_row(command: &Change<'_>, failure: Failure) -> Result<Status, Failure> {
    match failure {
        Failure::NoSuchKey(_) => table::impossible_key(command).ok_or(failure),
        _ => Err(failure),
    }
}
