//! Reads: any number of keys, of any containers, of any number of requests, in
//! one snapshot.
//!
//! The keys are resolved first; then each container's rows are asked for in
//! one batch, and the values go out in the order of the keys ([`Portion`]).
//! Reads that follow each other in the connection's buffer
//! make one batch; where something is refused they are answered one by one,
//! so that each request gets its own refusal.
//!
//! Very many keys, and large values, are taken in portions of [`PORTION_BYTES`],
//! so that their answers are sent as they are made and no client makes the
//! server hold gigabytes: a portion ends with the key whose value filled it.
//!
//! Invariants:
//! 1. All portions read one snapshot.
//! 2. Once part of the answer was sent, a failure ends the connection: there
//!    is no way to take it back.
//! 3. Not much more than [`PORTION_BYTES`] of answers are held for a client
//!    that does not read, but for a single value that is larger.
//! 4. What was marked as shown to a client is shown to it: where showing has
//!    effects ([`Ask::marks`]), keys of one container only make a portion.

use super::ask::{Ask, Style};
use super::context::{CommandContext, Failure, repeatable};
use super::live::Current;
use super::mapping::Mapping;
use super::portion::{PORTION_BYTES, Portion, Walk};
use super::switch;
use crate::metrics::{self, Counter};
use crate::net::Output;
use porpoise_kv::Read;
use std::sync::Arc;

/// Keys of the first portion; later ones follow from the size of the values.
const PORTION: usize = 256;
/// How many times larger a portion can be than the one before it, in keys.
const GROWTH: usize = 4;
/// Most keys of a portion.
const MOST: usize = 65_536;
/// Tries when definitions change meanwhile.
const TRIES: usize = 16;

/// Answers reads. A refused one gets `refuse`'s answer, which tells whether
/// the connection goes on.
pub fn answer(
    context: &mut CommandContext,
    current: &mut Arc<Current>,
    plan: &[Ask<'_>],
    out: &mut Output,
    refuse: impl Fn(&Style<'_>, &Failure, &mut Output) -> bool,
) -> bool {
    // What begins so may switch to another container for those behind it.
    let switched = context.switched.is_some();
    let special = |ask: &Ask<'_>| {
        let mut keys = ask.keys;
        let begins = keys.next().is_some_and(|key| key.starts_with(b"@"));
        begins || (switched && keys.len() > 0)
    };
    if plan.len() > 1 && !context.has_pending_own() && !plan.iter().any(special) {
        match get(context, current, plan, out) {
            Ok(()) => return true,
            // Part of the answers was sent.
            Err(Failure::Gone) => return false,
            Err(_) => {}
        }
    }
    for ask in plan {
        if let Err(failure) = get(context, current, std::slice::from_ref(ask), out)
            && !refuse(&ask.style, &failure, out)
        {
            return false;
        }
    }
    true
}

/// Answers reads as one batch.
///
/// # Errors
/// Nothing was appended then, unless the failure ends the connection.
fn get(
    context: &mut CommandContext,
    current: &mut Arc<Current>,
    plan: &[Ask<'_>],
    out: &mut Output,
) -> Result<(), Failure> {
    let mut tries = 0;
    let may_be_special = |ask: &Ask<'_>| {
        let mut keys = ask.keys;
        context.switched.is_some() || keys.next().is_some_and(|key| key.starts_with(b"@"))
    };
    if let [ask] = plan
        && may_be_special(ask)
        && switch::get(context, current, ask, out)?
    {
        return Ok(());
    }
    loop {
        let start = out.position();
        let mut sent = false;
        let done = run(context, &current.mapping, plan, out, &mut sent);
        let Err(failure) = done else {
            return Ok(());
        };
        if sent {
            return Err(Failure::Gone);
        }
        out.buf().truncate(start);
        tries += 1;
        let again = matches!(&failure, Failure::Rows(error) if repeatable(error));
        if !again || tries >= TRIES {
            return Err(failure);
        }
        context.end_batch();
        context.shared.live.renew(current);
    }
}

fn run(
    context: &mut CommandContext,
    mapping: &Mapping,
    plan: &[Ask<'_>],
    out: &mut Output,
    sent: &mut bool,
) -> Result<(), Failure> {
    let count = plan.iter().map(|ask| ask.keys.len()).sum();
    let (mut txn, read) = context.reader(count)?;
    let spare = if plan.iter().any(Ask::vivifies) {
        txn.row_version()?
    } else {
        0
    };
    let mut walk = Walk::new(plan);
    let (mut done, mut portion) = (0, PORTION);
    let marks = plan.iter().any(|ask| ask.marks(&context.shared.notes));
    let mut hits = 0;
    while done < count {
        let start = out.position();
        let wanted = portion.min(count - done);
        let part = Portion {
            mapping,
            spare,
            marks,
            wanted,
        };
        let before = walk.clone();
        let (took, found) = part.answer(context, &mut txn, read, &mut walk, out)?;
        if took < wanted {
            walk = before;
            (0..took).for_each(|_| {
                walk.step();
            });
        }
        done += took;
        hits += found;
        if txn.seen() != porpoise_kv::CommitPosition::NONE {
            out.hold_from(start, txn.seen());
        }
        if done < count {
            let each = (out.position() - start) / took.max(1);
            let most = wanted.saturating_mul(GROWTH).min(MOST);
            portion = (PORTION_BYTES / each.max(16)).clamp(1, most);
            if out.is_full() {
                *sent = true;
                out.drain().map_err(|_| Failure::Gone)?;
            }
        }
    }
    // A current read is no snapshot for those that follow.
    if read.mode == Read::SNAPSHOT.mode {
        context.give_back(txn);
    }
    let hits = u64::try_from(hits).unwrap_or(0);
    metrics::add(Counter::MemcachedGetHit, hits);
    let misses = u64::try_from(count).unwrap_or(0).saturating_sub(hits);
    if misses > 0 {
        metrics::add(Counter::MemcachedGetMiss, misses);
    }
    Ok(())
}
