//! The write buffer: a log of writes in order, and an ordered index over it.
//!
//! Invariants:
//! 1. A statement mark is a length of the log. A read with mark *m* sees of each key its last write below
//!    *m*; rolling back to *m* truncates the log there.
//! 2. The index has for each key the positions of its writes in the log, ascending, and no key without
//!    any.
//! 3. Keys are those of the cluster (`keys`), values are unframed.

use porpoise_kv::{Check, SpaceId, StatementMark};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Accounted bytes of a write without its key and value.
const OVERHEAD: usize = 64;

struct Write {
    key: Vec<u8>,
    space: SpaceId,
    /// The value; `None` for a deletion.
    value: Option<Vec<u8>>,
    check: Check,
    /// The snapshot's timestamp when the write was made.
    snapshot: Option<u64>,
}

/// A key's last write, and the checks that it requires.
pub(crate) struct Final<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) space: SpaceId,
    pub(crate) value: Option<&'a [u8]>,
    /// If any remaining write has [`Check::FirstCommitter`], the earliest snapshot of those writes,
    /// since which the key must be unchanged.
    pub(crate) unchanged_since: Option<u64>,
    /// Whether a remaining write has [`Check::Locked`]: the key is locked, or must be.
    pub(crate) needs_lock: bool,
}

/// The writes of one transaction.
#[derive(Default)]
pub(crate) struct Writes {
    log: Vec<Write>,
    index: BTreeMap<Vec<u8>, Vec<usize>>,
    bytes: usize,
}

fn cost(key: &[u8], value: Option<&[u8]>) -> usize {
    2 * key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD
}

impl Writes {
    pub(crate) fn mark(&self) -> StatementMark {
        StatementMark(self.log.len() as u64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Accounted bytes of keys and values, with overhead.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a write would add to [`Writes::bytes`].
    pub(crate) fn cost(key: &[u8], value: Option<&[u8]>) -> usize {
        cost(key, value)
    }

    pub(crate) fn push(
        &mut self,
        space: SpaceId,
        key: Vec<u8>,
        value: Option<&[u8]>,
        check: Check,
        snapshot: Option<u64>,
    ) {
        self.bytes += cost(&key, value);
        let at = self.log.len();
        self.index.entry(key.clone()).or_default().push(at);
        self.log.push(Write {
            key,
            space,
            value: value.map(<[u8]>::to_vec),
            check,
            snapshot,
        });
    }

    /// Whether `key` is written.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.index.contains_key(key)
    }

    fn last_below(&self, positions: &[usize], mark: StatementMark) -> Option<&Write> {
        let at = positions.iter().rev().find(|&&p| (p as u64) < mark.0)?;
        self.log.get(*at)
    }

    /// The own write of `key` below `mark`: a value, or `Some(None)` for a
    /// deletion.
    pub(crate) fn get(&self, key: &[u8], mark: StatementMark) -> Option<Option<&[u8]>> {
        let write = self.last_below(self.index.get(key)?, mark)?;
        Some(write.value.as_deref())
    }

    /// The own writes below `mark` with keys in `start..end`, ascending.
    pub(crate) fn range<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
        mark: StatementMark,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let end = end.max(start);
        self.index
            .range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
            .filter_map(move |(key, positions)| {
                let write = self.last_below(positions, mark)?;
                Some((key.as_slice(), write.value.as_deref()))
            })
    }

    /// Rolls back the writes since `mark`.
    pub(crate) fn rollback_to(&mut self, mark: StatementMark) {
        while self.log.len() as u64 > mark.0 {
            let Some(write) = self.log.pop() else { return };
            self.bytes -= cost(&write.key, write.value.as_deref());
            if let Some(positions) = self.index.get_mut(&write.key) {
                positions.pop();
                if positions.is_empty() {
                    self.index.remove(&write.key);
                }
            }
        }
    }

    /// Each key's last write, by key.
    pub(crate) fn finals(&self) -> impl Iterator<Item = Final<'_>> {
        self.index.iter().filter_map(|(key, positions)| {
            let all = || positions.iter().filter_map(|&p| self.log.get(p));
            let last = all().next_back()?;
            Some(Final {
                key,
                space: last.space,
                value: last.value.as_deref(),
                unchanged_since: all()
                    .filter(|w| w.check == Check::FirstCommitter)
                    .filter_map(|w| w.snapshot)
                    .min(),
                needs_lock: all().any(|w| w.check == Check::Locked),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: SpaceId = SpaceId(70);

    fn put(w: &mut Writes, key: &[u8], value: &[u8]) {
        w.push(S, key.to_vec(), Some(value), Check::Locked, None);
    }

    #[test]
    fn a_mark_hides_later_writes_and_rollback_removes_exactly_those() {
        let mut w = Writes::default();
        put(&mut w, b"a", b"1");
        let m1 = w.mark();
        put(&mut w, b"a", b"2");
        w.push(S, b"b".to_vec(), None, Check::Blind, None);
        assert_eq!(w.get(b"a", m1), Some(Some(&b"1"[..])));
        assert_eq!(w.get(b"a", StatementMark::ALL), Some(Some(&b"2"[..])));
        assert_eq!(w.get(b"b", m1), None);
        assert_eq!(w.get(b"b", StatementMark::ALL), Some(None));
        w.rollback_to(m1);
        assert_eq!(w.get(b"a", StatementMark::ALL), Some(Some(&b"1"[..])));
        assert_eq!(w.get(b"b", StatementMark::ALL), None);
        w.rollback_to(StatementMark(0));
        assert!(w.is_empty());
        assert_eq!(w.bytes(), 0);
        assert_eq!(w.finals().count(), 0);
    }

    #[test]
    fn ranges_are_ordered_and_respect_the_mark() {
        let mut w = Writes::default();
        for key in [b"c", b"a", b"b"] {
            put(&mut w, key, b"x");
        }
        let keys =
            |mark| -> Vec<Vec<u8>> { w.range(b"a", b"c", mark).map(|(k, _)| k.to_vec()).collect() };
        assert_eq!(keys(StatementMark::ALL), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(keys(StatementMark(2)), [b"a".to_vec()]);
        assert_eq!(w.range(b"z", b"a", StatementMark::ALL).count(), 0);
    }

    #[test]
    fn the_strictest_check_of_the_remaining_writes_is_made() {
        let mut w = Writes::default();
        let key = b"k".to_vec();
        w.push(S, key.clone(), Some(b"1"), Check::FirstCommitter, Some(9));
        w.push(S, key.clone(), Some(b"2"), Check::FirstCommitter, Some(12));
        w.push(S, key, Some(b"3"), Check::Blind, Some(12));
        let only = w.finals().next().unwrap();
        assert_eq!(only.value, Some(&b"3"[..]));
        assert_eq!(only.unchanged_since, Some(9));
        assert!(!only.needs_lock);
    }
}
