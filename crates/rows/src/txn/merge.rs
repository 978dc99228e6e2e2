//! A merged scan: entries of several partitions in index order (a k-way merge).
//!
//! Each partition is a stream of entries, read from the engine in chunks and buffered; the least of
//! the streams' heads is the next entry. Ranges are scanned one after the other, with all streams
//! in each.
//!
//! Invariants:
//! 1. Entries are visited as if the index were one space.
//! 2. At most one chunk per partition is buffered.
//! 3. The caller's [`Read`] decides whether all chunks are read at one snapshot or each in the
//!    newest state: then a chunk may be older than one read after it, but not older than the scan.
//!
//! Rejected: reading the partitions one after the other and sorting (a LIMIT would read
//! everything); a heap (after pruning there are few partitions, and comparing all heads is as
//! fast).

use super::arena::Arena;
use super::scan::{ScanPosition, ScanSpec};
use crate::Result;
use porpoise_kv::{self as kv, Read, ScanEnd, ScanVisitor, SpaceId};
use std::ops::ControlFlow;

/// Maximum number of entries of a chunk.
const MAX_CHUNK_ENTRIES: usize = 512;
/// Minimum number of entries of a chunk.
const MIN_CHUNK_ENTRIES: usize = 8;

/// One partition's entries.
#[derive(Clone, Debug, Default)]
struct Stream {
    keys: Arena,
    values: Arena,
    /// Index of the next entry.
    head: usize,
    /// Start of the next chunk.
    after: Option<Vec<u8>>,
    ended: bool,
}

/// State of a merged scan.
#[derive(Clone, Debug, Default)]
pub(super) struct Merge {
    streams: Vec<Stream>,
}

impl Stream {
    fn key(&self) -> Option<&[u8]> {
        (self.head < self.keys.len()).then(|| self.keys.get(self.head))
    }

    /// Reads the next chunk.
    fn fill(
        &mut self,
        kv: &mut dyn kv::Txn,
        spec: &ScanSpec,
        space: SpaceId,
        range: usize,
        chunk: usize,
        read: Read,
    ) -> Result<()> {
        let Some(range) = spec.ranges.get(range) else {
            return Ok(());
        };
        let mut resume = self.after.take();
        if let (Some(key), false) = (&mut resume, spec.reverse) {
            key.push(0);
        }
        self.keys.clear();
        self.values.clear();
        self.head = 0;
        let ranges = [range.resumed(space, resume.as_deref(), spec.reverse)];
        let (keys, values) = (&mut self.keys, &mut self.values);
        let stopped = kv.scan(read, &ranges, chunk, &mut |_, key, value| {
            keys.push(key);
            values.push(value);
            ControlFlow::Continue(())
        })?;
        match stopped {
            ScanEnd::Done => self.ended = true,
            ScanEnd::Stopped { key, .. } => self.after = Some(key),
        }
        Ok(())
    }
}

impl Merge {
    /// Returns the stream whose head is the next entry.
    fn next(&self, reverse: bool) -> Option<usize> {
        let heads = self.streams.iter().enumerate();
        let heads = heads.filter_map(|(n, stream)| Some((stream.key()?, n)));
        let found = if reverse {
            heads.max_by(|(a, m), (b, n)| a.cmp(b).then(n.cmp(m)))
        } else {
            heads.min()
        };
        found.map(|(_, n)| n)
    }
}

/// The next entries of several spaces from a position on.
pub(super) fn walk_merged(
    kv: &mut dyn kv::Txn,
    spec: &ScanSpec,
    spaces: &[SpaceId],
    read: Read,
    position: &mut ScanPosition,
    limit: usize,
    visit: &mut ScanVisitor<'_>,
) -> Result<()> {
    let chunk = (limit / spaces.len() + 1).clamp(MIN_CHUNK_ENTRIES, MAX_CHUNK_ENTRIES);
    let mut merge = position.merge.take().unwrap_or_default();
    let mut shown = 0;
    while shown < limit {
        if spec.ranges.get(position.range).is_none() {
            position.done = true;
            return Ok(());
        }
        merge.streams.resize_with(spaces.len(), Stream::default);
        for (stream, space) in merge.streams.iter_mut().zip(spaces) {
            if !stream.ended && stream.key().is_none() {
                stream.fill(kv, spec, *space, position.range, chunk, read)?;
            }
        }
        // Until a stream has run dry its chunk holds the next entries.
        while shown < limit {
            let Some(next) = merge.next(spec.reverse) else {
                position.range += 1;
                merge.streams.clear();
                break;
            };
            let Some(stream) = merge.streams.get_mut(next) else {
                break;
            };
            let at = stream.head;
            stream.head += 1;
            shown += 1;
            if visit(0, stream.keys.get(at), stream.values.get(at)).is_break() {
                shown = limit;
            }
            if stream.key().is_none() && !stream.ended {
                break;
            }
        }
    }
    position.merge = Some(merge);
    Ok(())
}
