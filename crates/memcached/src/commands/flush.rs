//! `flush_all`: deletes the rows of the containers whose policy has `flush_from_db`
//! (transactions.md, rule 47), and no others. If any prefix of the role is `cache_only`, the memory
//! cache is emptied.
//!
//! Rows are deleted in transactions of [`BATCH`] rows, under the ordinary rules: a row referenced
//! by a RESTRICT foreign key ends the command with that error, and rows deleted before stay
//! deleted. Rows stored while it runs may or may not be deleted.

use crate::container::chunked_values;
use crate::container::{Container, expiry_time};
use crate::context::delay::Caller;
use crate::context::requirement::Requirement;
use crate::context::{CommandContext, Done, Failure, ListenerState, is_retryable};
use crate::counters::{self, Counter};
use crate::mapping::Mapping;
use crate::mapping::mapping_cache::CurrentMapping;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::{Error, Fetch, KeyRange, ScanPosition, ScanSpec};
use std::sync::Arc;

/// Rows per transaction.
const BATCH: usize = 500;
/// Attempts at one batch before its conflict is reported.
const MAX_ATTEMPTS: usize = 16;

/// Deletes the rows. Returns their number, and the commit position that the reply waits for.
///
/// # Errors
/// The first error.
pub fn flush(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
) -> Result<(u64, CommitPosition), Failure> {
    counters::add(Counter::Flush, 1);
    context.end_batch();
    // May take long: hands the event loop to another worker.
    blocking(|| ());
    let mapping = current.clone();
    let mapping = &mapping.mapping;
    authorize(context, mapping)?;
    if mapping.uses_cache() {
        context.shared.cache.clear();
    }
    let (mut rows, mut position) = (0, CommitPosition::NONE);
    for at in mapping.flushed_containers() {
        let Some(container) = mapping.containers.get(at) else {
            continue;
        };
        let (count, last) = flush_container(context, mapping, container)?;
        rows += count;
        position = position.max(last);
    }
    context.shared.metadata.clear();
    context.note_commit(position);
    Ok((rows, position))
}

/// Checks the account's DELETE privilege on every table concerned, before the first row is deleted.
fn authorize(context: &mut CommandContext, mapping: &Mapping) -> Result<(), Failure> {
    let mut positions = mapping.flushed_containers().into_iter();
    positions.try_for_each(|at| context.identity.check(mapping, at, Requirement::FLUSH))
}

/// Deletes the rows of a container. Returns their number, and the position of the newest commit.
fn flush_container(
    context: &mut CommandContext,
    mapping: &Mapping,
    container: &Container,
) -> Result<(u64, CommitPosition), Failure> {
    let (mut rows, mut position) = (0, CommitPosition::NONE);
    let mut start = Vec::new();
    let mut tries = 0;
    loop {
        context.share(&container.write_set)?;
        let done = if context.shared.db.catalog_version() == mapping.catalog_version {
            flush_batch(context, container, &start)
        } else {
            Err(Error::DefinitionChanged)
        };
        context.unshare();
        match done {
            Ok(batch) => {
                tries = 0;
                rows += batch.rows;
                position = position.max(batch.position);
                match batch.last {
                    // The key followed by a zero byte is the smallest key after it.
                    Some(mut last) => {
                        last.push(0);
                        start = last;
                    }
                    None => return Ok((rows, position)),
                }
            }
            Err(Error::DefinitionChanged) => return Err(Error::DefinitionChanged.into()),
            Err(error) if is_retryable(&error) && tries < MAX_ATTEMPTS => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Executes `flush_all`: at once if `delay` is 0 or negative, otherwise when `delay`, which is
/// converted like an expiry time, has passed. `from` names the client in the log.
pub(crate) fn flush_or_schedule(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    delay: i64,
    from: &str,
) -> Done<()> {
    let shared = context.shared.clone();
    let (outcome, position) = if delay > 0 {
        let now = shared.unix_seconds();
        let at = expiry_time(delay, now);
        let allowed = authorize(context, &current.mapping);
        let identity = context.identity.clone();
        let outcome = allowed.and_then(|()| {
            shared
                .delayed
                .set(&shared, at, from, identity, flush_delayed)
        });
        (outcome, CommitPosition::NONE)
    } else {
        shared.delayed.cancel();
        let done = flush(context, current);
        log_outcome(&done.clone().map(|(rows, _)| rows), from);
        let position = done
            .as_ref()
            .map_or(CommitPosition::NONE, |(_, position)| *position);
        (done.map(|_| ()), position)
    };
    Done { outcome, position }
}

/// Executes a delayed `flush_all`.
fn flush_delayed(shared: Arc<ListenerState>, caller: Caller) {
    let mut current = shared.mapping.load();
    let mut context = CommandContext::new(shared, caller.identity, Cancel::new());
    let done = flush(&mut context, &mut current).map(|(rows, _)| rows);
    log_outcome(&done, &caller.from);
}

/// Logs the outcome.
fn log_outcome(done: &Result<u64, Failure>, from: &str) {
    match done {
        Ok(rows) => tracing::info!("flush_all from {from} deleted {rows} rows"),
        Err(failure) => tracing::info!("flush_all from {from} failed: {failure}"),
    }
}

struct Batch {
    rows: u64,
    position: CommitPosition,
    /// The last key scanned, if more may follow.
    last: Option<Vec<u8>>,
}

/// Deletes the next batch of rows, from the key `start` on.
fn flush_batch(
    context: &CommandContext,
    container: &Container,
    start: &[u8],
) -> Result<Batch, Error> {
    let table = &container.table;
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange {
            start: start.to_vec(),
            end: None,
        }],
        reverse: false,
        entries_only: false,
    };
    let mut txn = context.begin()?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut position = ScanPosition::default();
    let more = txn.scan_with(
        table,
        &spec,
        Fetch::PREFIXES,
        Read::CURRENT,
        &mut position,
        BATCH,
        &mut |key, _| {
            keys.push(key.to_vec());
        },
    )?;
    let rows = txn.lock_present(table, &keys, |_| true)?;
    let done = chunked_values::delete(container, &mut txn, rows)?;
    let position = txn.commit()?.position;
    Ok(Batch {
        rows: done.deleted,
        position,
        last: keys.pop().filter(|_| more),
    })
}
