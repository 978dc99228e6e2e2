//! A portion of a read: some keys, resolved, looked up container by container,
//! answered in the order in which they were asked.
//!
//! Keys of one container, which is nearly always, are written where the engine
//! shows them, without a copy; others are rendered aside and put together.
//! What a portion is for, and how many keys it takes, is [`super::get`]'s.

use super::ask::{Ask, AskKeys, Style, View};
use super::cache::Cache;
use super::container::Container;
use super::context::{CommandContext, Failure};
use super::convert::Conversion;
use super::mapping::{self, Mapping};
use super::notes::Notes;
use super::reading::{self, Shown};
use super::requirement::Requirement;
use crate::metrics::{self, Counter};
use crate::net::Output;
use porpoise_kv::Read;
use porpoise_rows::Txn;
use porpoise_wire::memcached::reply;
use smallvec::SmallVec;
use std::ops::{ControlFlow, Range};

/// What a portion should come to, in bytes.
pub(super) const PORTION_BYTES: usize = 1 << 20;

/// Where a key leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// To a row, by its key in the arena.
    Row(usize, Range<usize>),
    /// To the memory cache.
    Cache,
    /// No row can have this key.
    Nowhere,
}

/// A key, resolved.
struct Looked<'p, 'k> {
    text: &'k [u8],
    style: &'p Style<'k>,
    /// The last key of its request.
    last: bool,
    target: Target,
}

impl Looked<'_, '_> {
    fn container(&self) -> Option<usize> {
        match self.target {
            Target::Row(at, _) => Some(at),
            Target::Cache | Target::Nowhere => None,
        }
    }

    fn primary<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        match &self.target {
            Target::Row(_, range) => arena.get(range.clone()).unwrap_or_default(),
            Target::Cache | Target::Nowhere => &[],
        }
    }
}

type Items<'p, 'k> = SmallVec<[Looked<'p, 'k>; 8]>;

/// The keys of all requests of a plan, one after the other.
#[derive(Clone)]
pub(super) struct Walk<'p, 'k> {
    plan: &'p [Ask<'k>],
    /// What is left of the first of them.
    keys: AskKeys<'k>,
}

impl<'p, 'k> Walk<'p, 'k> {
    pub(super) fn new(plan: &'p [Ask<'k>]) -> Walk<'p, 'k> {
        let keys = plan.first().map_or(AskKeys::One(None), |ask| ask.keys);
        Walk { plan, keys }
    }

    /// The next key, how it is shown, and whether its request ends with it.
    #[inline]
    pub(super) fn step(&mut self) -> Option<(&'k [u8], &'p Style<'k>, bool)> {
        loop {
            let first = self.plan.first()?;
            if let Some(key) = self.keys.next() {
                return Some((key, &first.style, self.keys.len() == 0));
            }
            self.plan = self.plan.get(1..)?;
            self.keys = self.plan.first()?.keys;
        }
    }
}

/// The answer for a key, rendered aside.
#[derive(Clone)]
struct Piece {
    text: Range<usize>,
    found: bool,
}

#[inline]
fn go_on(goes_on: bool) -> ControlFlow<()> {
    match goes_on {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// How a portion of keys is answered.
pub(super) struct Portion<'m> {
    pub(super) mapping: &'m Mapping,
    /// A version for what a meta get makes.
    pub(super) spare: u64,
    /// See [`Ask::marks`].
    pub(super) marks: bool,
    /// Keys to answer, unless they come to more bytes than are good.
    pub(super) wanted: usize,
}

impl Portion<'_> {
    /// Answers the next keys, at least one; returns how many, and how many of
    /// those were found.
    pub(super) fn answer(
        &self,
        context: &mut CommandContext,
        txn: &mut Txn,
        read: Read,
        walk: &mut Walk<'_, '_>,
        out: &mut Output,
    ) -> Result<(usize, usize), Failure> {
        context.keys.clear();
        let mut items = Items::new();
        let mut convert = Conversion::timeless();
        let mut several = false;
        for _ in 0..self.wanted {
            let Some((text, style, last)) = walk.step() else {
                break;
            };
            let lead = context.target(self.mapping, text, Requirement::GET)?;
            let start = context.keys.len();
            let mapping::Target::Row(at, container, rest) = lead else {
                if self.marks && items.first().is_some_and(|i| i.container().is_some()) {
                    break;
                }
                several = true;
                items.push(Looked {
                    text,
                    style,
                    last,
                    target: Target::Cache,
                });
                continue;
            };
            let fits = container.append_key(rest, &mut convert, &mut context.keys);
            let target = if fits.is_ok() {
                Target::Row(at, start..context.keys.len())
            } else {
                context.keys.truncate(start);
                Target::Nowhere
            };
            let item = Looked {
                text,
                style,
                last,
                target,
            };
            let differs = item.target == Target::Nowhere
                || items.first().is_some_and(|i| i.container() != Some(at));
            if differs && self.marks && !items.is_empty() {
                break;
            }
            several |= differs;
            items.push(item);
        }
        if several {
            self.of_several(context, txn, read, &items, out)
        } else {
            self.of_one(context, txn, read, &items, out)
        }
    }

    /// Appends the answer for one key; true when its row is there.
    #[inline]
    fn append(
        container: &Container,
        item: &Looked<'_, '_>,
        primary: &[u8],
        shown: Shown<'_>,
        view: &mut View<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let there = shown.is_some();
        let shown = shown.filter(|(row, _)| !container.expired(row, || view.now()));
        if there && shown.is_none() {
            metrics::add(Counter::MemcachedGetExpired, 1);
        }
        match &shown {
            Some((row, value)) => {
                let place = (container, primary);
                view.found(item.text, item.style, place, (row, *value), out);
            }
            None => {
                let id = |notes: &Notes| Some(notes.id(container.table.id, primary));
                view.missing(item.style, id, out);
            }
        }
        shown.is_some()
    }

    /// Appends what ends a request.
    #[inline]
    fn finish(item: &Looked<'_, '_>, out: &mut Vec<u8>) {
        if item.last && matches!(item.style, Style::Ascii { .. }) {
            out.extend_from_slice(reply::END);
        }
    }

    fn of_one(
        &self,
        context: &mut CommandContext,
        txn: &mut Txn,
        read: Read,
        items: &Items<'_, '_>,
        out: &mut Output,
    ) -> Result<(usize, usize), Failure> {
        let first = items.first().and_then(Looked::container);
        let Some(container) = first.and_then(|at| self.mapping.containers.get(at)) else {
            return Ok((items.len(), 0));
        };
        let arena = context.keys.as_slice();
        let primaries: SmallVec<[&[u8]; 16]> = items.iter().map(|i| i.primary(arena)).collect();
        let shared = &context.shared;
        let mut view = View::new(shared.db.clock().as_ref(), &shared.notes, &mut context.text);
        view.spare = self.spare;
        let mut hits = 0;
        let buf = out.buf();
        let end = buf.len() + PORTION_BYTES;
        let took = reading::rows(container, txn, &primaries, read, &mut |n, shown| {
            if let Some(item) = items.get(n) {
                let primary = primaries.get(n).copied().unwrap_or_default();
                let there = Self::append(container, item, primary, shown, &mut view, buf);
                hits += usize::from(there);
                Self::finish(item, buf);
            }
            go_on(buf.len() < end)
        })?;
        Ok((took, hits))
    }

    /// Keys of several containers: each container's batch is rendered aside,
    /// then the pieces are put into the keys' order, up to the first key that
    /// was not reached.
    fn of_several(
        &self,
        context: &mut CommandContext,
        txn: &mut Txn,
        read: Read,
        items: &Items<'_, '_>,
        out: &mut Output,
    ) -> Result<(usize, usize), Failure> {
        let arena = context.keys.as_slice();
        let mut containers: SmallVec<[usize; 8]> =
            items.iter().filter_map(Looked::container).collect();
        containers.sort_unstable();
        containers.dedup();
        let share = PORTION_BYTES / containers.len().max(1);
        let mut rendered = Vec::new();
        let mut pieces: Vec<Option<Piece>> = vec![None; items.len()];
        let shared = &context.shared;
        let mut view = View::new(shared.db.clock().as_ref(), &shared.notes, &mut context.text);
        view.spare = self.spare;
        for at in containers {
            let Some(container) = self.mapping.containers.get(at) else {
                continue;
            };
            let members: Vec<usize> = items
                .iter()
                .enumerate()
                .filter(|(_, i)| i.container() == Some(at))
                .map(|(n, _)| n)
                .collect();
            let primaries: Vec<&[u8]> = items
                .iter()
                .filter(|i| i.container() == Some(at))
                .map(|i| i.primary(arena))
                .collect();
            let end = rendered.len() + share;
            reading::rows(container, txn, &primaries, read, &mut |n, shown| {
                let member = members.get(n).copied().unwrap_or(usize::MAX);
                let (Some(item), Some(piece)) = (items.get(member), pieces.get_mut(member)) else {
                    return ControlFlow::Break(());
                };
                let start = rendered.len();
                let primary = primaries.get(n).copied().unwrap_or_default();
                let buf = &mut rendered;
                let found = Self::append(container, item, primary, shown, &mut view, buf);
                let text = start..rendered.len();
                *piece = Some(Piece { text, found });
                go_on(rendered.len() < end)
            })?;
        }
        let cache = &shared.cache;
        Ok(Self::put_together(
            items,
            pieces,
            &rendered,
            (&mut view, cache),
            out,
        ))
    }

    /// Appends what was rendered aside in the order of the keys, up to the
    /// first that was not reached: how many keys, and how many were found.
    fn put_together(
        items: &Items<'_, '_>,
        pieces: Vec<Option<Piece>>,
        rendered: &[u8],
        (view, cache): (&mut View<'_>, &Cache),
        out: &mut Output,
    ) -> (usize, usize) {
        let (mut took, mut hits) = (0, 0);
        let end = out.position() + PORTION_BYTES;
        for (item, piece) in items.iter().zip(pieces) {
            let buf = out.buf();
            let found = match (&item.target, piece) {
                (Target::Row(..), Some(piece)) => {
                    buf.extend_from_slice(rendered.get(piece.text).unwrap_or_default());
                    piece.found
                }
                (Target::Row(..), None) => break,
                (Target::Cache, _) => view.cached(cache, item.text, item.style, buf),
                (Target::Nowhere, _) => {
                    view.missing(item.style, |_| None, buf);
                    false
                }
            };
            took += 1;
            hits += usize::from(found);
            Self::finish(item, buf);
            // Rows are rendered already.
            if !matches!(item.target, Target::Row(..)) && buf.len() >= end {
                break;
            }
        }
        (took, hits)
    }
}
