//! A read chunk: consecutive keys of a batch of reads, resolved, read container by container, and
//! answered in the order of the keys.
//!
//! Resolving needs the connection (its account, its selected container); reading and formatting
//! do not. If all keys are of one container (the usual case), rows are formatted in place, without
//! a copy; otherwise the replies of each container are buffered, then merged in key order.
//! [`crate::read`] decides how many keys a chunk has.

use super::rows::{self, FoundRow};
use crate::command_statistics::{Effects, Verb};
use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::requirement::Requirement;
use crate::context::{CommandContext, Failure};
use crate::counters::{self, Counter};
use crate::item_metadata::ItemMetadata;
use crate::mapping::{self, Mapping};
use crate::read::request::{ItemFormatter, ReadRequest, RequestKeys, Style};
use crate::reply_sink::ReplySink;
use porpoise_kv::Read;
use porpoise_rows::Txn;
use porpoise_wire::memcached::reply;
use smallvec::SmallVec;
use std::ops::{ControlFlow, Range};

/// Target size of a chunk's replies, in bytes.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// Storage of the item of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ItemLocation {
    /// In a row of the container at this position; the range of its encoded key in the arena.
    Row(usize, Range<usize>),
    /// In the memory cache.
    Cache,
    /// Nowhere: the key cannot be converted to the types of the key columns.
    NoRow,
}

/// A resolved key.
struct ResolvedKey<'p, 'k> {
    /// The key as the client sent it.
    text: &'k [u8],
    /// Format of the reply.
    style: &'p Style<'k>,
    /// Whether it is the last key of its request.
    is_last: bool,
    location: ItemLocation,
}

impl ResolvedKey<'_, '_> {
    fn container(&self) -> Option<usize> {
        match self.location {
            ItemLocation::Row(at, _) => Some(at),
            ItemLocation::Cache | ItemLocation::NoRow => None,
        }
    }

    /// Whether this key is not a row of the same container as the chunk's first key.
    fn is_other_container(&self, first: Option<&ResolvedKey<'_, '_>>) -> bool {
        !matches!(self.location, ItemLocation::Row(..))
            || first.is_some_and(|first| first.container() != self.container())
    }

    /// The key encoded for the container's index; empty if it has no row.
    fn index_key<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        match &self.location {
            ItemLocation::Row(_, range) => arena.get(range.clone()).unwrap_or_default(),
            ItemLocation::Cache | ItemLocation::NoRow => &[],
        }
    }
}

/// Iterates over the keys of all requests of a batch.
#[derive(Clone)]
pub(crate) struct BatchKeys<'p, 'k> {
    batch: &'p [ReadRequest<'k>],
    /// Remaining keys of the first request of `batch`.
    keys: RequestKeys<'k>,
}

impl<'p, 'k> BatchKeys<'p, 'k> {
    pub(crate) fn new(batch: &'p [ReadRequest<'k>]) -> BatchKeys<'p, 'k> {
        let keys = batch
            .first()
            .map_or(RequestKeys::One(None), |request| request.keys);
        BatchKeys { batch, keys }
    }

    /// Returns the next key, its reply style, and whether it is the last one of its request.
    #[inline]
    pub(crate) fn next_key(&mut self) -> Option<(&'k [u8], &'p Style<'k>, bool)> {
        loop {
            let first = self.batch.first()?;
            if let Some(key) = self.keys.next() {
                return Some((key, &first.style, self.keys.len() == 0));
            }
            self.batch = self.batch.get(1..)?;
            self.keys = self.batch.first()?.keys;
        }
    }
}

/// The buffered reply to a key.
#[derive(Clone)]
struct FormattedReply {
    /// Position of the reply in the buffer.
    text: Range<usize>,
    /// Whether the item exists.
    is_found: bool,
}

/// Returns `Continue` if there is room for more replies, otherwise `Break`.
#[inline]
fn continue_if(room: bool) -> ControlFlow<()> {
    if room {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// Number of keys answered, and of those found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerCounts {
    pub(crate) keys: usize,
    pub(crate) hits: usize,
}

/// Consecutive keys of a batch of reads; see the module.
pub(crate) struct ReadChunk<'m, 'p, 'k> {
    mapping: &'m Mapping,
    /// Whether replying with an item may change later replies: a chunk then has keys of one
    /// container only. See [`ReadRequest::changes_metadata`].
    changes_metadata: bool,
    keys: SmallVec<[ResolvedKey<'p, 'k>; 8]>,
    /// Whether the keys are not all rows of one container.
    is_mixed: bool,
}

impl<'m, 'p, 'k> ReadChunk<'m, 'p, 'k> {
    pub(crate) fn new(mapping: &'m Mapping, changes_metadata: bool) -> ReadChunk<'m, 'p, 'k> {
        ReadChunk {
            mapping,
            changes_metadata,
            keys: SmallVec::new(),
            is_mixed: false,
        }
    }

    /// Resolves the next keys, at least one and at most `wanted`. Encoded keys are stored in the
    /// context's arena.
    ///
    /// # Errors
    /// Access to a key is refused.
    pub(crate) fn resolve(
        &mut self,
        context: &mut CommandContext,
        batch_keys: &mut BatchKeys<'p, 'k>,
        wanted: usize,
    ) -> Result<(), Failure> {
        context.keys.clear();
        self.keys.clear();
        self.is_mixed = false;
        let mut convert = Conversion::for_keys();
        for _ in 0..wanted {
            let Some((text, style, is_last)) = batch_keys.next_key() else {
                break;
            };
            let start = context.keys.len();
            let location = match context.target(self.mapping, text, Requirement::GET)? {
                mapping::Target::Row(at, container, rest) => {
                    let encoded = container.append_key(rest, &mut convert, &mut context.keys);
                    if encoded.is_ok() {
                        ItemLocation::Row(at, start..context.keys.len())
                    } else {
                        context.keys.truncate(start);
                        ItemLocation::NoRow
                    }
                }
                mapping::Target::Cache => ItemLocation::Cache,
            };
            let key = ResolvedKey {
                text,
                style,
                is_last,
                location,
            };
            let is_other = key.is_other_container(self.keys.first());
            if is_other && self.changes_metadata && self.ends_before(&key) {
                break;
            }
            self.is_mixed |= is_other;
            self.keys.push(key);
        }
        Ok(())
    }

    /// Whether the chunk ends before a key that differs from its first one.
    fn ends_before(&self, key: &ResolvedKey<'_, '_>) -> bool {
        match key.location {
            // A key of the memory cache may follow keys that have no row.
            ItemLocation::Cache => self.keys.first().is_some_and(|k| k.container().is_some()),
            ItemLocation::Row(..) | ItemLocation::NoRow => !self.keys.is_empty(),
        }
    }

    /// Reads the rows of the keys and appends the replies, until they exceed [`CHUNK_BYTES`].
    /// `arena` has the encoded keys.
    ///
    /// # Errors
    /// Reading failed.
    pub(crate) fn answer(
        &self,
        txn: &mut Txn,
        read: Read,
        arena: &[u8],
        formatter: &mut ItemFormatter<'_>,
        out: &mut impl ReplySink,
    ) -> Result<AnswerCounts, Failure> {
        if self.is_mixed {
            self.answer_merged(txn, read, arena, formatter, out)
        } else {
            self.answer_in_place(txn, read, arena, formatter, out)
        }
    }

    /// Appends the reply to one key. Returns whether its row exists and has not expired.
    #[inline]
    fn append(
        container: &Container,
        key: &ResolvedKey<'_, '_>,
        primary: &[u8],
        found_row: FoundRow<'_>,
        formatter: &mut ItemFormatter<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let exists = found_row.is_some();
        let found_row = found_row.filter(|(row, _)| !container.expired(row, || formatter.now()));
        if exists && found_row.is_none() {
            counters::add(Counter::GetExpired, 1);
        }
        match &found_row {
            Some((row, value)) => {
                let found = (row, *value);
                formatter.append_found(key.text, key.style, container, primary, found, out);
            }
            None => {
                let id = |metadata: &ItemMetadata| Some(metadata.id(container.table.id, primary));
                formatter.append_missing(key.style, id, out);
            }
        }
        found_row.is_some()
    }

    /// Appends `END` after the last key of a request of the classic commands.
    #[inline]
    fn finish(key: &ResolvedKey<'_, '_>, out: &mut Vec<u8>) {
        if key.is_last && matches!(key.style, Style::Ascii { .. }) {
            out.extend_from_slice(reply::END);
        }
    }

    /// Answers keys of one container.
    fn answer_in_place(
        &self,
        txn: &mut Txn,
        read: Read,
        arena: &[u8],
        formatter: &mut ItemFormatter<'_>,
        out: &mut impl ReplySink,
    ) -> Result<AnswerCounts, Failure> {
        let first = self.keys.first().and_then(ResolvedKey::container);
        let Some(container) = first.and_then(|at| self.mapping.containers.get(at)) else {
            return Ok(AnswerCounts {
                keys: self.keys.len(),
                hits: 0,
            });
        };
        let primaries: SmallVec<[&[u8]; 16]> =
            self.keys.iter().map(|k| k.index_key(arena)).collect();
        let mut hits = 0;
        let has_prefixes = container.statistics.len() > 1;
        let buf = out.buf();
        let end = buf.len() + CHUNK_BYTES;
        let keys = rows::rows(container, txn, &primaries, read, &mut |n, found_row| {
            if let Some(key) = self.keys.get(n) {
                let primary = primaries.get(n).copied().unwrap_or_default();
                let exists = Self::append(container, key, primary, found_row, formatter, buf);
                hits += usize::from(exists);
                if has_prefixes {
                    self.count_key(key, exists);
                }
                Self::finish(key, buf);
            }
            continue_if(buf.len() < end)
        })?;
        if let [statistics] = container.statistics.as_slice() {
            let effects = Effects {
                keys: keys as u64,
                rows_read: hits as u64,
                ..Effects::default()
            };
            statistics.count(Verb::Get, effects);
        }
        Ok(AnswerCounts { keys, hits })
    }

    /// Counts the read of one key by its prefix, where not all keys of a reply have the same
    /// prefix.
    fn count_key(&self, key: &ResolvedKey<'_, '_>, is_found: bool) {
        let rule = self.mapping.rule(key.text);
        if let Some(statistics) = rule.and_then(|rule| rule.statistics.as_ref()) {
            let effects = Effects {
                keys: 1,
                rows_read: u64::from(is_found),
                ..Effects::default()
            };
            statistics.count(Verb::Get, effects);
        }
    }

    /// Answers keys of several containers: buffers the replies of each container, then merges them
    /// in key order, up to the first key that was not reached.
    fn answer_merged(
        &self,
        txn: &mut Txn,
        read: Read,
        arena: &[u8],
        formatter: &mut ItemFormatter<'_>,
        out: &mut impl ReplySink,
    ) -> Result<AnswerCounts, Failure> {
        let mut containers: SmallVec<[usize; 8]> = self
            .keys
            .iter()
            .filter_map(ResolvedKey::container)
            .collect();
        containers.sort_unstable();
        containers.dedup();
        let bytes_per_container = CHUNK_BYTES / containers.len().max(1);
        let mut text = Vec::new();
        let mut answers: Vec<Option<FormattedReply>> = vec![None; self.keys.len()];
        for at in containers {
            let Some(container) = self.mapping.containers.get(at) else {
                continue;
            };
            let members = || {
                let keys = self.keys.iter().enumerate();
                keys.filter(move |(_, key)| key.container() == Some(at))
            };
            let positions: Vec<usize> = members().map(|(n, _)| n).collect();
            let primaries: Vec<&[u8]> = members().map(|(_, key)| key.index_key(arena)).collect();
            let end = text.len() + bytes_per_container;
            rows::rows(container, txn, &primaries, read, &mut |n, found_row| {
                let at = positions.get(n).copied().unwrap_or(usize::MAX);
                let (Some(key), Some(answer)) = (self.keys.get(at), answers.get_mut(at)) else {
                    return ControlFlow::Break(());
                };
                let start = text.len();
                let primary = primaries.get(n).copied().unwrap_or_default();
                let is_found =
                    Self::append(container, key, primary, found_row, formatter, &mut text);
                *answer = Some(FormattedReply {
                    text: start..text.len(),
                    is_found,
                });
                continue_if(text.len() < end)
            })?;
        }
        Ok(self.append_in_order(answers, &text, formatter, out))
    }

    /// Appends the buffered replies in key order, up to the first key that was not reached.
    fn append_in_order(
        &self,
        answers: Vec<Option<FormattedReply>>,
        text: &[u8],
        formatter: &mut ItemFormatter<'_>,
        out: &mut impl ReplySink,
    ) -> AnswerCounts {
        let mut answered = AnswerCounts { keys: 0, hits: 0 };
        let end = out.position() + CHUNK_BYTES;
        for (key, answer) in self.keys.iter().zip(answers) {
            let buf = out.buf();
            let found = match (&key.location, answer) {
                (ItemLocation::Row(..), Some(answer)) => {
                    buf.extend_from_slice(text.get(answer.text).unwrap_or_default());
                    answer.is_found
                }
                (ItemLocation::Row(..), None) => break,
                (ItemLocation::Cache, _) => formatter.append_cached(key.text, key.style, buf),
                (ItemLocation::NoRow, _) => {
                    formatter.append_missing(key.style, |_| None, buf);
                    false
                }
            };
            answered.keys += 1;
            answered.hits += usize::from(found);
            self.count_key(key, found);
            Self::finish(key, buf);
            // The size of rows was limited when they were formatted.
            if !matches!(key.location, ItemLocation::Row(..)) && buf.len() >= end {
                break;
            }
        }
        answered
    }
}
