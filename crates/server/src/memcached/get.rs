//! `get` and `gets`: any number of keys, of any containers, in one snapshot.
//!
//! The keys are resolved first; then each container's rows are asked for in
//! one batch, and the values go out in the order of the keys. Keys of one
//! container, which is nearly always, are written where the engine shows them,
//! without a copy.
//!
//! A request of very many keys is taken in portions, so that its answer is
//! sent as it is made and no client makes the server hold gigabytes.
//!
//! Invariants:
//! 1. All portions read one snapshot.
//! 2. Once part of the answer was sent, a failure ends the connection: there
//!    is no way to take it back.

use super::container::Container;
use super::convert::Conversion;
use super::live::Current;
use super::mapping::{Mapping, Operation, Target};
use super::reading::{self, Shown};
use super::switch;
use super::work::{Desk, Failure, repeatable};
use crate::metrics::{self, Counter};
use crate::net::Output;
use porpoise_base::clock::Clock;
use porpoise_kv::Read;
use porpoise_rows::Txn;
use porpoise_wire::memcached::{Keys, reply};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Keys of the first portion; later ones follow from the size of the values.
const PORTION: usize = 256;
/// What a portion should come to, in bytes.
const PORTION_BYTES: usize = 8 << 20;
/// Tries when definitions change meanwhile.
const TRIES: usize = 16;

/// In place of a container's position: the memory cache.
const CACHE: usize = usize::MAX;

/// A key, resolved.
struct Item<'k> {
    text: &'k [u8],
    container: usize,
    /// Its primary key in the arena.
    primary: Range<usize>,
}

type Items<'k> = SmallVec<[Item<'k>; 8]>;

/// A request of the get family, without `touch`.
pub struct Gets<'k> {
    /// The keys.
    pub keys: Keys<'k>,
    /// Whether versions are shown.
    pub cas: bool,
}

/// Carries out `get` or `gets`; the answer, without `END`, is appended.
///
/// # Errors
/// Nothing was appended then, unless the failure ends the connection.
pub fn get(
    desk: &mut Desk,
    current: &mut Arc<Current>,
    request: &Gets<'_>,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut tries = 0;
    let mut first = request.keys;
    if first.next().is_some_and(|key| key.starts_with(b"@"))
        && switch::get(desk, current, request, out)?
    {
        return Ok(());
    }
    loop {
        let start = out.position();
        let mut sent = false;
        let done = run(desk, &current.mapping, request, out, &mut sent);
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
        desk.end_batch();
        desk.shared.live.renew(current);
    }
}

fn run(
    desk: &mut Desk,
    mapping: &Mapping,
    request: &Gets<'_>,
    out: &mut Output,
    sent: &mut bool,
) -> Result<(), Failure> {
    let count = request.keys.len();
    let (mut txn, read) = desk.reader(count)?;
    let mut keys = request.keys;
    let (mut done, mut portion) = (0, PORTION);
    let mut hits = 0;
    while done < count {
        let start = out.position();
        let took = portion.min(count - done);
        let part = Portion {
            mapping,
            cas: request.cas,
        };
        hits += part.answer(desk, &mut txn, read, &mut keys, took, out)?;
        done += took;
        if txn.seen() != porpoise_kv::Ticket::NONE {
            out.hold_from(start, txn.seen());
        }
        if done < count {
            let each = (out.position() - start) / took.max(1);
            portion = (PORTION_BYTES / each.max(64)).clamp(16, 65_536);
            if out.is_full() {
                *sent = true;
                out.drain().map_err(|_| Failure::Gone)?;
            }
        }
    }
    // A current read is no snapshot for those that follow.
    if read.view == Read::SNAPSHOT.view {
        desk.give_back(txn);
    }
    let hits = u64::try_from(hits).unwrap_or(0);
    metrics::add(Counter::MemcachedGetHit, hits);
    let misses = u64::try_from(count).unwrap_or(0).saturating_sub(hits);
    if misses > 0 {
        metrics::add(Counter::MemcachedGetMiss, misses);
    }
    Ok(())
}

/// How a portion of keys is answered.
struct Portion<'m> {
    mapping: &'m Mapping,
    cas: bool,
}

impl Portion<'_> {
    /// Answers the next `count` keys; returns how many were found.
    fn answer(
        &self,
        desk: &mut Desk,
        txn: &mut Txn,
        read: Read,
        keys: &mut Keys<'_>,
        count: usize,
        out: &mut Output,
    ) -> Result<usize, Failure> {
        desk.keys.clear();
        let mut items = Items::new();
        let mut convert = Conversion::timeless();
        let mut several = false;
        for text in keys.by_ref().take(count) {
            let target = desk.target(self.mapping, text, Operation::Get);
            let target = target.map_err(Failure::Refused)?;
            let start = desk.keys.len();
            let Target::Row(at, container, rest) = target else {
                several = true;
                items.push(Item {
                    text,
                    container: CACHE,
                    primary: start..start,
                });
                continue;
            };
            let fits = container.append_key(rest, &mut convert, &mut desk.keys);
            if fits.is_err() {
                // No row can have this key.
                desk.keys.truncate(start);
                continue;
            }
            several |= items.first().is_some_and(|i: &Item<'_>| i.container != at);
            items.push(Item {
                text,
                container: at,
                primary: start..desk.keys.len(),
            });
        }
        if several {
            self.of_several(desk, txn, read, &items, out)
        } else {
            self.of_one(desk, txn, read, &items, out)
        }
    }

    /// Appends one row; true when it is there.
    #[inline]
    fn append(
        &self,
        container: &Container,
        item: &Item<'_>,
        shown: Shown<'_>,
        view: &mut View<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((row, value)) = &shown else {
            return false;
        };
        if container.expired(row, || view.now()) {
            return false;
        }
        let flags = container.flags_of(row);
        let version = self.cas.then(|| row.version());
        let value = match value {
            Some(value) => value,
            None => container.value_of(row, view.scratch),
        };
        reply::value(out, item.text, flags, value, version);
        true
    }

    fn of_one(
        &self,
        desk: &mut Desk,
        txn: &mut Txn,
        read: Read,
        items: &Items<'_>,
        out: &mut Output,
    ) -> Result<usize, Failure> {
        let first = items.first().map(|i| i.container);
        let Some(container) = first.and_then(|at| self.mapping.containers.get(at)) else {
            return Ok(0);
        };
        let arena = desk.keys.as_slice();
        let primaries: SmallVec<[&[u8]; 16]> = items
            .iter()
            .map(|i| arena.get(i.primary.clone()).unwrap_or_default())
            .collect();
        let mut view = View::new(desk.shared.db.clock().as_ref(), &mut desk.text);
        let mut hits = 0;
        let buf = out.buf();
        reading::rows(container, txn, &primaries, read, &mut |n, shown| {
            if let Some(item) = items.get(n) {
                hits += usize::from(self.append(container, item, shown, &mut view, buf));
            }
        })?;
        Ok(hits)
    }

    /// Keys of several containers: each container's batch is rendered aside,
    /// then the pieces are put into the keys' order.
    fn of_several(
        &self,
        desk: &mut Desk,
        txn: &mut Txn,
        read: Read,
        items: &Items<'_>,
        out: &mut Output,
    ) -> Result<usize, Failure> {
        let arena = desk.keys.as_slice();
        let mut containers: SmallVec<[usize; 8]> = items.iter().map(|i| i.container).collect();
        containers.sort_unstable();
        containers.dedup();
        let mut rendered = Vec::new();
        let mut pieces: Vec<Range<usize>> = vec![0..0; items.len()];
        let mut view = View::new(desk.shared.db.clock().as_ref(), &mut desk.text);
        let mut hits = 0;
        for at in containers {
            if at == CACHE {
                let now = view.now().div_euclid(1_000_000);
                let cache = &desk.shared.cache;
                for (item, piece) in items.iter().zip(&mut pieces) {
                    if item.container != CACHE {
                        continue;
                    }
                    if let Some(found) = cache.get(item.text, now) {
                        let start = rendered.len();
                        let version = self.cas.then_some(found.version);
                        let (flags, value) = (found.flags, &found.value);
                        reply::value(&mut rendered, item.text, flags, value, version);
                        *piece = start..rendered.len();
                        hits += 1;
                    }
                }
                continue;
            }
            let Some(container) = self.mapping.containers.get(at) else {
                continue;
            };
            let members: Vec<usize> = items
                .iter()
                .enumerate()
                .filter(|(_, i)| i.container == at)
                .map(|(n, _)| n)
                .collect();
            let primaries: Vec<&[u8]> = items
                .iter()
                .filter(|i| i.container == at)
                .map(|i| arena.get(i.primary.clone()).unwrap_or_default())
                .collect();
            reading::rows(container, txn, &primaries, read, &mut |n, shown| {
                let member = members.get(n).copied().unwrap_or(usize::MAX);
                let Some(item) = items.get(member) else {
                    return;
                };
                let start = rendered.len();
                let there = self.append(container, item, shown, &mut view, &mut rendered);
                hits += usize::from(there);
                if let Some(piece) = pieces.get_mut(member) {
                    *piece = start..rendered.len();
                }
            })?;
        }
        for piece in pieces {
            let bytes = rendered.get(piece).unwrap_or_default();
            out.buf().extend_from_slice(bytes);
        }
        Ok(hits)
    }
}

/// What rows are looked at with: the time, read once and only if some row can
/// expire, and room for values put together.
struct View<'d> {
    clock: &'d dyn Clock,
    now: Option<i64>,
    scratch: &'d mut Vec<u8>,
}

impl<'d> View<'d> {
    fn new(clock: &'d dyn Clock, scratch: &'d mut Vec<u8>) -> View<'d> {
        View {
            clock,
            now: None,
            scratch,
        }
    }

    fn now(&mut self) -> i64 {
        *self.now.get_or_insert_with(|| self.clock.unix_micros())
    }
}
