//! Reads: any number of requests, with any number of keys of any containers, in one snapshot.
//!
//! ```text
//! parse -> resolve each key -> read each container's rows in one batch -> format in key order
//! ```
//!
//! Reads that follow each other in the connection's buffer are a batch. If a request of the batch
//! is refused, all are answered one by one, so that each gets its own reply. The keys are read in
//! chunks ([`ReadChunk`]) of about [`CHUNK_BYTES`], so that replies are sent while later keys are
//! still to be read; a chunk ends with the key whose value reaches that size.
//!
//! Invariants:
//! 1. All chunks read one snapshot.
//! 2. Once part of the replies has been sent, a failure ends the connection, because the protocol
//!    has no way to cancel a reply.
//! 3. Not much more than [`CHUNK_BYTES`] of replies are buffered for a client that does not read,
//!    except for a single value that is larger.
//! 4. An item that was recorded as sent to a client is sent to it: where replying changes metadata
//!    ([`ReadRequest::changes_metadata`]), a chunk has keys of one container only.

mod chunk;
mod innodb_containers;
pub(crate) mod request;
mod rows;

use crate::context::{CommandContext, Failure, is_retryable};
use crate::mapping::Mapping;
use crate::mapping::mapping_cache::CurrentMapping;
use chunk::{BatchKeys, CHUNK_BYTES, ReadChunk};
use request::{ItemFormatter, ReadRequest, Style};

use crate::command_statistics::{Effects, Verb};
use crate::counters::{self, Counter};
use crate::reply_sink::ReplySink;
use porpoise_kv::Read;
use std::sync::Arc;

/// Number of keys in the first chunk. The number in a later chunk depends on the size of the values
/// before it.
const FIRST_CHUNK_KEYS: usize = 256;
/// Maximum ratio of the number of keys in a chunk to the number in the chunk before it.
const MAX_GROWTH_FACTOR: usize = 4;
/// Maximum number of keys in a chunk.
const MAX_CHUNK_KEYS: usize = 65_536;
/// Attempts at a batch, each after a retryable error.
const MAX_ATTEMPTS: usize = 16;

/// Answers reads. Returns false if the connection must be closed. `refuse` replies to a request
/// that failed and returns whether the connection continues.
pub(crate) fn answer<O: ReplySink>(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    batch: &[ReadRequest<'_>],
    out: &mut O,
    refuse: impl Fn(&Style<'_>, &Failure, &mut O) -> bool,
) -> bool {
    // A key that begins with `@` may select another container for the keys after it.
    let selected = context.selected.is_some();
    let may_change_container = |request: &ReadRequest<'_>| {
        let mut keys = request.keys;
        let starts_with_at = keys.next().is_some_and(|key| key.starts_with(b"@"));
        starts_with_at || (selected && keys.len() > 0)
    };
    if batch.len() > 1 && !context.has_pending_commit() && !batch.iter().any(may_change_container) {
        match answer_batch(context, current, batch, out) {
            Ok(()) => return true,
            // Part of the replies has been sent.
            Err(Failure::Gone) => return false,
            Err(_) => {}
        }
    }
    for request in batch {
        if let Err(failure) = answer_batch(context, current, std::slice::from_ref(request), out) {
            count_failure(&current.mapping, request);
            if !refuse(&request.style, &failure, out) {
                return false;
            }
        }
    }
    true
}

/// Counts a read that failed, by the prefix of its first key.
#[cold]
fn count_failure(mapping: &Mapping, request: &ReadRequest<'_>) {
    let mut keys = request.keys;
    let rule = keys.next().and_then(|key| mapping.rule(key));
    if let Some(statistics) = rule.and_then(|rule| rule.statistics.as_ref()) {
        statistics.count(Verb::Get, Effects::FAILED);
    }
}

/// Answers reads as one batch.
///
/// # Errors
/// After an error nothing has been appended, unless it is [`Failure::Gone`].
fn answer_batch(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    batch: &[ReadRequest<'_>],
    out: &mut impl ReplySink,
) -> Result<(), Failure> {
    let mut attempts = 0;
    let may_select_container = |request: &ReadRequest<'_>| {
        let mut keys = request.keys;
        context.selected.is_some() || keys.next().is_some_and(|key| key.starts_with(b"@"))
    };
    if let [request] = batch
        && may_select_container(request)
        && innodb_containers::answer(context, current, request, out)?
    {
        return Ok(());
    }
    loop {
        let start = out.position();
        let mut sent = false;
        let done = read_chunks(context, &current.mapping, batch, out, &mut sent);
        let Err(failure) = done else {
            return Ok(());
        };
        if sent {
            return Err(Failure::Gone);
        }
        out.buf().truncate(start);
        attempts += 1;
        let is_retried = matches!(&failure, Failure::Rows(error) if is_retryable(error));
        if !is_retried || attempts >= MAX_ATTEMPTS {
            return Err(failure);
        }
        context.end_batch();
        context.shared.mapping.renew(current);
    }
}

/// Reads the keys of a batch chunk by chunk, and appends their replies. `sent` is set once part of
/// the replies has been sent.
fn read_chunks(
    context: &mut CommandContext,
    mapping: &Mapping,
    batch: &[ReadRequest<'_>],
    out: &mut impl ReplySink,
    sent: &mut bool,
) -> Result<(), Failure> {
    let count = batch.iter().map(|request| request.keys.len()).sum();
    let (mut txn, read) = context.reader(count)?;
    let placeholder_version = if batch.iter().any(ReadRequest::vivifies) {
        txn.row_version()?
    } else {
        0
    };
    let mut batch_keys = BatchKeys::new(batch);
    let (mut done, mut hits, mut chunk_keys) = (0, 0, FIRST_CHUNK_KEYS);
    let changes_metadata = batch
        .iter()
        .any(|request| request.changes_metadata(&context.shared.metadata));
    let mut chunk = ReadChunk::new(mapping, changes_metadata);
    while done < count {
        let start = out.position();
        let wanted = chunk_keys.min(count - done);
        let before = batch_keys.clone();
        chunk.resolve(context, &mut batch_keys, wanted)?;
        let mut formatter =
            ItemFormatter::new(&context.shared, &mut context.text, placeholder_version);
        let answered = chunk.answer(&mut txn, read, &context.keys, &mut formatter, out)?;
        if answered.keys < wanted {
            batch_keys = before;
            (0..answered.keys).for_each(|_| {
                batch_keys.next_key();
            });
        }
        done += answered.keys;
        hits += answered.hits;
        if txn.seen() != porpoise_kv::CommitPosition::NONE {
            out.defer_from(start, txn.seen());
        }
        if done < count {
            let reply_bytes = (out.position() - start) / answered.keys.max(1);
            let max_keys = wanted.saturating_mul(MAX_GROWTH_FACTOR).min(MAX_CHUNK_KEYS);
            chunk_keys = (CHUNK_BYTES / reply_bytes.max(16)).clamp(1, max_keys);
            if out.is_full() {
                *sent = true;
                out.drain().map_err(|_| Failure::Gone)?;
            }
        }
    }
    // The transaction of a current read is not reused: it has no snapshot for later reads.
    if read.mode == Read::SNAPSHOT.mode {
        context.return_reader(txn);
    }
    let hits = u64::try_from(hits).unwrap_or(0);
    counters::add(Counter::GetHit, hits);
    let misses = u64::try_from(count).unwrap_or(0).saturating_sub(hits);
    if misses > 0 {
        counters::add(Counter::GetMiss, misses);
    }
    Ok(())
}
