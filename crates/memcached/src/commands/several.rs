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
//!    waiting for replies to changes that need not wait. Changes that may fire triggers are executed
//!    by themselves, because the bodies wait for locks.
//! 3. A transaction changes each key at most once. All its rows get one version, and replies tell
//!    it: two changes of a key would give two clients behind a proxy the same CAS value for
//!    different items, and the first one's `cas` would overwrite the second one's item.
//! 4. Changes that read or leave item metadata are executed by themselves, because metadata changes
//!    when a change has committed.
//! 5. Plain `set`s of different keys are executed at once where their order makes no difference; if that fails, they are
//!    undone and executed one by one.
//! 6. A change is executed in a shared transaction once. If that cannot commit, all changes that it
//!    has executed are executed by themselves.

use crate::command_statistics::Verb;
use crate::commands::{self, CommandOutcome, store, table};
use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::requirement::Requirement;
use crate::context::{Attempt, CommandContext, Done, Failure, ListenerState, Place, is_retryable};
use crate::mapping::Target;
use crate::mapping::mapping_cache::CurrentMapping;
use crate::sampled_command::{self, SampledCommand};
use foldhash::fast::RandomState;
use porpoise_kv::{self as kv, CommitPosition};
use porpoise_rows::{Error, Txn};
use porpoise_wire::memcached::command::{Change, Outcome, Store};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    while !rest.is_empty() {
        let shared = execute_together(context, current, rest);
        let after_shared = rest.get(shared.results.len()..).unwrap_or_default();
        let position = shared.position;
        let mut results = shared.results.into_iter();
        if !results.all(|outcome| reply(Done { outcome, position })) {
            return false;
        }
        let split = after_shared.split_at_checked(shared.alone);
        let (alone, later) = split.unwrap_or((after_shared, &[]));
        for change in alone {
            if !reply(commands::apply(context, current, change)) {
                return false;
            }
        }
        rest = later;
    }
    true
}

/// Result of executing changes in one transaction.
struct SharedExecution {
    /// Results of the first changes; empty if none was executed.
    results: Vec<Result<Outcome, Failure>>,
    /// Number of changes after these that are to be executed by themselves. At least 1 if there are
    /// no results.
    alone: usize,
    /// The commit that the replies wait for.
    position: CommitPosition,
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

/// Executes the first changes in one transaction, if at least two can share one.
fn execute_together(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    changes: &[Change<'_>],
) -> SharedExecution {
    let sharing = changes.iter().take_while(|c| can_share(c)).count();
    if sharing < 2 || context.shared.metadata.any_marks() {
        return SharedExecution {
            results: Vec::new(),
            alone: 1,
            position: CommitPosition::NONE,
        };
    }
    let changes = changes.get(..sharing).unwrap_or_default();
    let began = context.shared.db.clock().now();
    let mut keys = std::mem::take(&mut context.keys);
    let done = context.retry_until_final(current, |context, current| {
        attempt(context, current, changes, &mut keys)
    });
    context.keys = keys;
    let (results, alone) = done.outcome.unwrap_or_else(|_| (Vec::new(), 1));
    sample(context, current, changes, results.len(), began);
    let mapping = &current.mapping;
    let conclude = |(change, result)| {
        let outcome = commands::conclude(context, mapping, change, result);
        commands::count_by_prefix(mapping, change, &outcome);
        outcome
    };
    SharedExecution {
        results: changes.iter().zip(results).map(conclude).collect(),
        alone,
        position: done.position,
    }
}

/// Records the time and the key of one of the changes, if the sampler chooses one of the first
/// `executed`, which have been executed together since `began`.
fn sample(
    context: &CommandContext,
    current: &CurrentMapping,
    changes: &[Change<'_>],
    executed: usize,
    began: Instant,
) {
    if executed == 0 {
        return;
    }
    let db = &context.shared.db;
    let commands = u32::try_from(executed).unwrap_or(u32::MAX);
    let chosen = sampled_command::choose(db, commands);
    if let Some(change) = chosen.and_then(|at| changes.get(at as usize)) {
        let sampled = SampledCommand {
            verb: Verb::of(change),
            key: change.key(),
            began,
            commands,
        };
        sampled.note(&current.mapping, db);
    }
}

/// A change with its resolved key.
struct Resolved<'m, 'k> {
    container: &'m Container,
    change: &'k Change<'k>,
    /// The key without its prefix.
    key: &'k [u8],
    /// Range of the encoded key.
    encoded: Range<usize>,
}

impl<'m, 'k> Resolved<'m, 'k> {
    /// Its encoded key.
    fn index_key<'b>(&self, keys: &'b [u8]) -> &'b [u8] {
        keys.get(self.encoded.clone()).unwrap_or_default()
    }

    fn place<'p>(&self, keys: &'p [u8], convert: Conversion, shared: &'p ListenerState) -> Place<'p>
    where
        'm: 'p,
        'k: 'p,
    {
        Place::new(
            self.container,
            self.key,
            self.index_key(keys),
            convert,
            shared,
        )
    }

    /// The command of the change, if it is a plain `set`.
    fn plain_set(&self) -> Option<&'k Store<'k>> {
        match self.change {
            Change::Store(store) if store::is_plain_set(store) => Some(store),
            _ => None,
        }
    }
}

/// Resolves the keys of the first changes, as far as they are of one container and fire no
/// triggers; encoded keys are appended to `keys`.
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
        let is_other = first.is_some_and(|first| !std::ptr::eq(first.container, container));
        if is_other || container.may_fire_triggers {
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

/// Results of the changes that were executed, and the number of changes after them that are to be
/// executed by themselves.
type Executed = (Vec<Result<CommandOutcome, Failure>>, usize);

/// Makes one attempt.
fn attempt(
    context: &mut CommandContext,
    current: &CurrentMapping,
    changes: &[Change<'_>],
    keys: &mut Vec<u8>,
) -> Attempt<Executed> {
    let shared = context.shared.clone();
    let mut convert = Conversion::new(shared.db.clock().as_ref());
    keys.clear();
    let resolved = resolve(context, current, changes, &mut convert, keys);
    let Some(first) = resolved.first().filter(|_| resolved.len() > 1) else {
        return not_committed((Vec::new(), 1));
    };
    if let Err(error) = context.share(&first.container.write_set) {
        // The first change has waited for the metadata locks; it does not wait for them again.
        return not_committed(if is_retryable(&error) {
            (Vec::new(), 1)
        } else {
            (vec![Err(error.into())], 0)
        });
    }
    if shared.db.catalog_version() != current.mapping.catalog_version {
        return Attempt::Stale;
    }
    let Ok(mut txn) = context.begin_next() else {
        return not_committed((Vec::new(), 1));
    };
    txn.set_lock_wait(Duration::ZERO);
    let (results, alone) = match execute_each(&mut txn, &resolved, keys, convert, &shared) {
        Ok(executed) => executed,
        Err(count) => return not_committed((Vec::new(), count)),
    };
    if results.is_empty() {
        return Attempt::rolled_back(*txn, (results, alone));
    }
    let executed = results.len();
    match context.end_attempt(txn, Ok((results, alone))) {
        // The outcome is unknown, so no change is repeated.
        Attempt::Done(Done {
            outcome: Err(failure @ Failure::Rows(Error::Kv(kv::Error::UnknownOutcome(_)))),
            ..
        }) => not_committed((vec![Err(failure); executed], alone)),
        Attempt::Done(Done {
            outcome: Err(_), ..
        }) => not_committed((Vec::new(), executed)),
        ended => ended,
    }
}

/// The longest run of changes from the first one on whose keys all differ.
fn with_different_keys<'r, 'm, 'k>(
    resolved: &'r [Resolved<'m, 'k>],
    keys: &[u8],
) -> &'r [Resolved<'m, 'k>] {
    let mut known = HashSet::with_capacity_and_hasher(resolved.len(), RandomState::default());
    let is_known = |one: &Resolved<'_, '_>| !known.insert(one.index_key(keys));
    let different = resolved.iter().position(is_known);
    resolved
        .get(..different.unwrap_or(resolved.len()))
        .unwrap_or_default()
}

/// Executes changes in a transaction, up to the first one that must be executed by itself or in
/// another transaction.
///
/// # Errors
/// The transaction has ended; the number of changes that were executed or tried.
fn execute_each(
    txn: &mut Txn,
    resolved: &[Resolved<'_, '_>],
    keys: &[u8],
    convert: Conversion,
    shared: &ListenerState,
) -> Result<Executed, usize> {
    let resolved = with_different_keys(resolved, keys);
    let mut results = Vec::with_capacity(resolved.len());
    let mut rest = resolved;
    while let Some(first) = rest.first() {
        let sets = rest.iter().map_while(Resolved::plain_set).count();
        if sets > 1 && first.container.sets_together() {
            let (run, later) = rest.split_at_checked(sets).unwrap_or((rest, &[]));
            if let Some(done) = execute_sets(txn, run, keys, convert, shared, results.len())? {
                results.extend(done.into_iter().map(Ok));
                rest = later;
                continue;
            }
        }
        // One by one, which finds the change that fails.
        let (run, later) = rest.split_at_checked(sets.max(1)).unwrap_or((rest, &[]));
        for one in run {
            let (mark, mut place) = (txn.mark(), one.place(keys, convert, shared));
            match table::run(txn, &mut place, one.change) {
                Ok(outcome) => results.push(Ok(outcome)),
                Err(Failure::Rows(error)) if error.ends_transaction() => {
                    return Err(results.len() + 1);
                }
                Err(_) => {
                    txn.rollback_to(mark);
                    return Ok((results, 1));
                }
            }
        }
        rest = later;
    }
    Ok((results, 0))
}

/// Executes several plain `set`s at once. Returns `None`, with nothing written, if they are to be executed one by one.
///
/// # Errors
/// The transaction has ended. The error has the number of changes that were tried, including the `before` earlier ones.
fn execute_sets(
    txn: &mut Txn,
    run: &[Resolved<'_, '_>],
    keys: &[u8],
    convert: Conversion,
    shared: &ListenerState,
    before: usize,
) -> Result<Option<Vec<CommandOutcome>>, usize> {
    let mark = txn.mark();
    let places = run.iter().map(|one| one.place(keys, convert, shared));
    let mut places: Vec<Place<'_>> = places.collect();
    let sets: Vec<_> = run.iter().filter_map(Resolved::plain_set).collect();
    let set = store::set_all(txn, &mut places, &sets);
    let outcomes = set.and_then(|version| {
        let Some(version) = version else {
            return Ok(None);
        };
        let outcome = |place| store::set_outcome(place, version);
        places
            .iter()
            .map(outcome)
            .collect::<Result<_, _>>()
            .map(Some)
    });
    match outcomes {
        Ok(done) => Ok(done),
        Err(Failure::Rows(error)) if error.ends_transaction() => Err(before + run.len()),
        Err(_) => {
            txn.rollback_to(mark);
            Ok(None)
        }
    }
}

/// An attempt that has committed nothing, as far as is known.
fn not_committed(executed: Executed) -> Attempt<Executed> {
    Attempt::Done(Done {
        outcome: Ok(executed),
        position: CommitPosition::NONE,
    })
}
