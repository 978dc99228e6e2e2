//! Reads: any number of requests, with any number of keys of any containers, in
//! one snapshot.
//!
//! ```text
//! parse -> resolve each key -> read each container's rows in one batch -> format in key order
//! ```
//!
//! Reads that follow each other in the connection's buffer make one batch. Where something is
//! refused they are answered one by one, so that each request gets its own refusal. Very many
//! keys, and large values, are read in chunks ([`ReadChunk`]) of [`CHUNK_BYTES`], so that answers
//! are sent as they are made: a chunk ends with the key whose value filled it.
//!
//! Invariants:
//! 1. All chunks read one snapshot.
//! 2. Once part of the answer was sent, a failure ends the connection: there
//!    is no way to take it back.
//! 3. Not much more than [`CHUNK_BYTES`] of answers are held for a client
//!    that does not read, but for a single value that is larger.
//! 4. What was marked as shown to a client is shown to it: where showing has
//!    effects ([`ReadRequest::changes_marks`]), keys of one container only make a chunk.

mod chunk;
mod innodb_containers;
pub(crate) mod request;
mod rows;

use crate::context::{CommandContext, Failure, is_retryable};
use crate::mapping::Mapping;
use crate::mapping::mapping_cache::CurrentMapping;
use chunk::{CHUNK_BYTES, KeyWalk, ReadChunk};
use request::{ItemFormatter, ReadRequest, Style};

use crate::counters::{self, Counter};
use crate::reply_sink::ReplySink;
use porpoise_kv::Read;
use std::sync::Arc;

/// Keys of the first chunk; later ones follow from the size of the values.
const FIRST_CHUNK_KEYS: usize = 256;
/// Greatest ratio of a chunk to the one before it, in keys.
const MAX_GROWTH: usize = 4;
/// Most keys of a chunk.
const MAX_CHUNK_KEYS: usize = 65_536;
/// Attempts while definitions change.
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
    let special = |request: &ReadRequest<'_>| {
        let mut keys = request.keys;
        let begins = keys.next().is_some_and(|key| key.starts_with(b"@"));
        begins || (selected && keys.len() > 0)
    };
    if batch.len() > 1 && !context.has_pending_commit() && !batch.iter().any(special) {
        match get(context, current, batch, out) {
            Ok(()) => return true,
            // Part of the replies has been sent.
            Err(Failure::Gone) => return false,
            Err(_) => {}
        }
    }
    for request in batch {
        if let Err(failure) = get(context, current, std::slice::from_ref(request), out)
            && !refuse(&request.style, &failure, out)
        {
            return false;
        }
    }
    true
}

/// Answers reads as one batch.
///
/// # Errors
/// After an error nothing has been appended, unless it is [`Failure::Gone`].
fn get(
    context: &mut CommandContext,
    current: &mut Arc<CurrentMapping>,
    batch: &[ReadRequest<'_>],
    out: &mut impl ReplySink,
) -> Result<(), Failure> {
    let mut tries = 0;
    let may_be_special = |request: &ReadRequest<'_>| {
        let mut keys = request.keys;
        context.selected.is_some() || keys.next().is_some_and(|key| key.starts_with(b"@"))
    };
    if let [request] = batch
        && may_be_special(request)
        && innodb_containers::get(context, current, request, out)?
    {
        return Ok(());
    }
    loop {
        let start = out.position();
        let mut sent = false;
        let done = run(context, &current.mapping, batch, out, &mut sent);
        let Err(failure) = done else {
            return Ok(());
        };
        if sent {
            return Err(Failure::Gone);
        }
        out.buf().truncate(start);
        tries += 1;
        let again = matches!(&failure, Failure::Rows(error) if is_retryable(error));
        if !again || tries >= MAX_ATTEMPTS {
            return Err(failure);
        }
        context.end_batch();
        context.shared.mapping.renew(current);
    }
}

fn run(
    context: &mut CommandContext,
    mapping: &Mapping,
    batch: &[ReadRequest<'_>],
    out: &mut impl ReplySink,
    sent: &mut bool,
) -> Result<(), Failure> {
    let count = batch.iter().map(|request| request.keys.len()).sum();
    let (mut txn, read) = context.reader(count)?;
    let spare = if batch.iter().any(ReadRequest::vivifies) {
        txn.row_version()?
    } else {
        0
    };
    let mut walk = KeyWalk::new(batch);
    let (mut done, mut hits, mut next) = (0, 0, FIRST_CHUNK_KEYS);
    let marks = batch
        .iter()
        .any(|request| request.changes_marks(&context.shared.metadata));
    let mut chunk = ReadChunk::new(mapping, marks);
    while done < count {
        let start = out.position();
        let wanted = next.min(count - done);
        let before = walk.clone();
        chunk.resolve(context, &mut walk, wanted)?;
        let mut view = ItemFormatter::new(&context.shared, &mut context.text, spare);
        let answered = chunk.answer(&mut txn, read, &context.keys, &mut view, out)?;
        if answered.keys < wanted {
            walk = before;
            (0..answered.keys).for_each(|_| {
                walk.next_key();
            });
        }
        done += answered.keys;
        hits += answered.hits;
        if txn.seen() != porpoise_kv::CommitPosition::NONE {
            out.defer_from(start, txn.seen());
        }
        if done < count {
            let each = (out.position() - start) / answered.keys.max(1);
            let most = wanted.saturating_mul(MAX_GROWTH).min(MAX_CHUNK_KEYS);
            next = (CHUNK_BYTES / each.max(16)).clamp(1, most);
            if out.is_full() {
                *sent = true;
                out.drain().map_err(|_| Failure::Gone)?;
            }
        }
    }
    // The transaction of a current read is not reused: it is no snapshot for later reads.
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
