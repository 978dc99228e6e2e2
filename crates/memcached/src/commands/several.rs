//! Adjacent changes of a connection, executed in one transaction.
//!
//! Changes that arrive together would each begin, lock, commit and append to the log by itself. No
//! client can tell them from changes that commit together: their replies leave together, and
//! another client may find any number of them executed at any time. So [`apply`] executes adjacent
//! changes of one container in one transaction, as long as nothing unusual happens.
//!
//! Invariants:
//! 1. Each change has the outcome that it would have by itself. The first change that fails, or
//!    would wait for a lock, is undone to its start; those before it commit, and it is executed
//!    again by itself, with the usual waits and retries.
//! 2. A transaction of several changes waits for no row lock: its other locks would keep clients
//!    waiting for replies to changes that need not wait.
//! 3. All rows get the version of the transaction, also for two changes of one key: nobody can have
//!    seen the first one's row.
//! 4. Changes that read or leave item metadata are executed by themselves, because metadata changes
//!    when a change has committed.

use crate::command_statistics::{Effects, Verb};
use crate::commands::{self, CommandOutcome, table};
use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::requirement::Requirement;
use crate::context::{Attempt, CommandContext, Done, Failure, Place, is_retryable};
use crate::mapping::Target;
use crate::mapping::mapping_cache::CurrentMapping;
use crate::sampled_command::{self, SampledCommand};
use porpoise_kv::CommitPosition;
use porpoise_wire::memcached::command::{Change, Outcome};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Executes changes in their order, and passes the result of each to `reply`, which returns whether
/// the connection goes on. If it does not, the remaining changes are not executed, and this
/// function returns false.
pub(crate) fn apply(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    changes: &[Change<'_>],
    reply: &mut impl FnMut(Done<Outcome>) -> bool,
) -> bool {
    let mut rest = changes;
    while let Some(change) = rest.first() {
        let executed = execute_together(context, current, rest);
        let count = executed.len().max(1);
        let continues = match executed.len() {
            0 => reply(commands::apply(context, current, change)),
            _ => executed.into_iter().all(&mut *reply),
        };
        if !continues {
            return false;
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    true
}

/// Whether a change may share a transaction: it assigns no version and leaves no mark.
fn can_share(change: &Change<'_>) -> bool {
    match change {
        Change::Store(store) => !store.invalidate && store.version.is_none(),
        Change::Count(count) => count.version.is_none(),
        Change::Delete(delete) => !delete.invalidate && !delete.empty && delete.version.is_none(),
        Change::Touch(_) => true,
    }
}

/// Executes the first changes in one transaction, and returns their results; none if they are to be
/// executed by themselves.
fn execute_together(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    changes: &[Change<'_>],
) -> Vec<Done<Outcome>> {
    let sharing = changes.iter().take_while(|c| can_share(c)).count();
    if sharing < 2 || context.shared.metadata.any_marks() {
        return Vec::new();
    }
    let changes = changes.get(..sharing).unwrap_or_default();
    let sampled = sampled_command::begin(&context.shared.db, sharing as u32);
    let mut keys = std::mem::take(&mut context.keys);
    let done = context.retry_until_final(current, |context, current| {
        attempt(context, current, changes, &mut keys)
    });
    context.keys = keys;
    let executed = done.outcome.unwrap_or_default();
    if let Some((at, began)) = sampled
        && let Some(change) = changes.get((at as usize).min(executed.len().wrapping_sub(1)))
    {
        let sampled = SampledCommand {
            verb: Verb::of(change),
            key: change.key(),
            began,
            commands: u32::try_from(executed.len()).unwrap_or(u32::MAX),
        };
        sampled.note(&current.mapping, &context.shared.db);
    }
    let results = changes.iter().zip(executed).map(|(change, result)| {
        let effects = match &result {
            Ok(executed) => {
                let metadata = &context.shared.metadata;
                metadata.apply_update(&executed.metadata_update);
                commands::count(change, executed.outcome.status);
                Effects::of_change(executed.outcome.status)
            }
            Err(_) => Effects::FAILED,
        };
        let rule = current.mapping.rule(change.key());
        if let Some(statistics) = rule.and_then(|rule| rule.statistics.as_ref()) {
            statistics.count(Verb::of(change), effects);
        }
        Done {
            outcome: result.map(|executed| executed.outcome),
            position: done.position,
        }
    });
    results.collect()
}

/// A change with its resolved key.
struct Resolved<'m, 'k> {
    container: &'m Container,
    change: &'k Change<'k>,
    /// The key without its prefix.
    key: &'k [u8],
    /// Where the encoded key is.
    encoded: Range<usize>,
}

/// Resolves the keys of the first changes, as far as they are of one container; encoded keys are
/// appended to `keys`.
fn resolve<'m, 'k>(
    context: &mut CommandContext,
    current: &'m CurrentMapping,
    changes: &'k [Change<'k>],
    convert: &mut Conversion,
    keys: &mut Vec<u8>,
) -> Vec<Resolved<'m, 'k>> {
    let mut resolved: Vec<Resolved<'m, 'k>> = Vec::with_capacity(changes.len());
    for change in changes {
        let found = context.target(&current.mapping, change.key(), Requirement::of(change));
        let Ok(Target::Row(_, container, key)) = found else {
            break;
        };
        let first = resolved.first();
        if first.is_some_and(|first| !std::ptr::eq(first.container, container)) {
            break;
        }
        let start = keys.len();
        if container.append_key(key, convert, keys).is_err() {
            break;
        }
        resolved.push(Resolved {
            container,
            change,
            key,
            encoded: start..keys.len(),
        });
    }
    resolved
}

/// Makes one attempt. Returns the results of the changes that were executed; none if fewer than two
/// can share a transaction, or if it must be repeated.
fn attempt(
    context: &mut CommandContext,
    current: &CurrentMapping,
    changes: &[Change<'_>],
    keys: &mut Vec<u8>,
) -> Attempt<Vec<Result<CommandOutcome, Failure>>> {
    let shared = context.shared.clone();
    let mut convert = Conversion::new(shared.db.clock().as_ref());
    keys.clear();
    let resolved = resolve(context, current, changes, &mut convert, keys);
    let Some(first) = resolved.first().filter(|_| resolved.len() > 1) else {
        return nothing_executed();
    };
    if context.share(&first.container.write_set).is_err() {
        return nothing_executed();
    }
    if shared.db.catalog_version() != current.mapping.catalog_version {
        return Attempt::Stale;
    }
    let Ok(mut txn) = context.begin() else {
        return nothing_executed();
    };
    txn.set_lock_wait(Duration::ZERO);
    let mut results = Vec::with_capacity(resolved.len());
    for resolved in &resolved {
        let index_key = keys.get(resolved.encoded.clone()).unwrap_or_default();
        let mut place = Place {
            container: resolved.container,
            key: resolved.key,
            index_key,
            primary: match resolved.container.index() {
                0 => Cow::Borrowed(index_key),
                _ => Cow::Borrowed(&[]),
            },
            convert,
            max_value: shared.limits.max_value,
            metadata: &shared.metadata,
        };
        let mark = txn.mark();
        match table::run(&mut txn, &mut place, resolved.change) {
            Ok(outcome) => results.push(Ok(outcome)),
            Err(Failure::Rows(error)) if error.ends_transaction() => return nothing_executed(),
            Err(_) => {
                txn.rollback_to(mark);
                break;
            }
        }
    }
    if results.is_empty() {
        return Attempt::rolled_back(txn, results);
    }
    let executed = results.len();
    match Attempt::end(txn, Ok(results)) {
        Attempt::Done(Done {
            outcome: Err(Failure::Rows(error)),
            ..
        }) if is_retryable(&error) => nothing_executed(),
        // The outcome may be unknown, so no change is repeated.
        Attempt::Done(Done {
            outcome: Err(failure),
            position,
        }) => Attempt::Done(Done {
            outcome: Ok(vec![Err(failure); executed]),
            position,
        }),
        ended => ended,
    }
}

/// The changes are to be executed by themselves.
fn nothing_executed<T>() -> Attempt<Vec<T>> {
    Attempt::Done(Done {
        outcome: Ok(Vec::new()),
        position: CommitPosition::NONE,
    })
}
