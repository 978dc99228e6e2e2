//! The write set of a transaction: a list of writes in order, with an index by key.
//!
//! Invariants:
//! 1. `log[n]` is the n-th write; a statement mark is a length of `log`.
//! 2. `prev` of a write is the index of the write before it to the same key; each key's newest write is
//!    not `superseded`, all others are.
//! 3. Above [`MAX_LINEAR_SEARCH`] writes, `sorted` has the index of each key's newest write.
//!
//! A write holds the version that a commit pushes to the chain, so that the value's bytes are copied
//! once, and a lone write with a short key allocates nothing else.

use crate::record::{InlineKey, NewVersion};
use porpoise_kv::{Check, Key, SpaceId, StatementMark};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Number of writes up to which a look-up scans the list linearly.
const MAX_LINEAR_SEARCH: usize = 12;

/// Accounted bytes of a write without key and value: those of the record and version that it may
/// become.
const WRITE_BYTES: usize = crate::record::RECORD_BYTES + crate::record::VERSION_BYTES;

/// List of writes; a single one is stored inline.
pub(crate) type Writes = SmallVec<[Write; 1]>;

pub(crate) struct Write {
    pub(crate) space: SpaceId,
    pub(crate) key: InlineKey,
    pub(crate) version: NewVersion,
    pub(crate) check: Check,
    pub(crate) superseded: bool,
    prev: Option<usize>,
}

impl Write {
    fn is(&self, key: Key<'_>) -> bool {
        self.space == key.space && self.key.as_slice() == key.bytes
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(self.space, &self.key)
    }

    /// The written value; `None` is a deletion.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.version.value()
    }

    fn bytes(&self) -> usize {
        WRITE_BYTES + self.key.len() + self.value().map_or(0, <[u8]>::len)
    }
}

/// Writes of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    log: Writes,
    sorted: BTreeMap<SpaceId, BTreeMap<Box<[u8]>, usize>>,
    indexed: bool,
    bytes: usize,
}

impl WriteSet {
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn newest(&self, key: Key<'_>) -> Option<usize> {
        if self.indexed {
            return self.sorted.get(&key.space)?.get(key.bytes).copied();
        }
        self.log.iter().rposition(|w| w.is(key))
    }

    pub(crate) fn push(&mut self, key: Key<'_>, value: Option<&[u8]>, check: Check) {
        let prev = self.newest(key);
        let mut check = check;
        if let Some(old) = prev.and_then(|at| self.log.get_mut(at)) {
            old.superseded = true;
            // A compared write stays compared: the earlier write still requires the comparison.
            if old.check == Check::FirstCommitter {
                check = Check::FirstCommitter;
            }
        }
        let at = self.log.len();
        let write = Write {
            space: key.space,
            key: InlineKey::from_slice(key.bytes),
            version: NewVersion::new(value),
            check,
            superseded: false,
            prev,
        };
        self.bytes += write.bytes();
        self.log.push(write);
        if self.indexed {
            self.add_to_index(key, at);
        } else if self.log.len() > MAX_LINEAR_SEARCH {
            self.indexed = true;
            for (n, write) in self.log.iter().enumerate() {
                let space = self.sorted.entry(write.space).or_default();
                space.insert(write.key.as_slice().into(), n);
            }
        }
    }

    fn add_to_index(&mut self, key: Key<'_>, at: usize) {
        let space = self.sorted.entry(key.space).or_default();
        match space.get_mut(key.bytes) {
            Some(place) => *place = at,
            None => {
                space.insert(key.bytes.into(), at);
            }
        }
    }

    /// The newest write to a key below a mark: `Some(None)` is a deletion.
    pub(crate) fn find(&self, key: Key<'_>, mark: StatementMark) -> Option<Option<&[u8]>> {
        let write = self.newest_below_mark(self.newest(key)?, mark)?;
        Some(write.value())
    }

    /// Follows the writes to a key from its newest one to the newest one below a mark.
    fn newest_below_mark(&self, newest: usize, mark: StatementMark) -> Option<&Write> {
        let mut at = newest;
        loop {
            let write = self.log.get(at)?;
            if (at as u64) < mark.0 {
                return Some(write);
            }
            at = write.prev?;
        }
    }

    /// The writes of a range below a mark, in ascending order of keys.
    pub(crate) fn range(
        &self,
        space: SpaceId,
        start: &[u8],
        end: Option<&[u8]>,
        mark: StatementMark,
    ) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut out = Vec::new();
        if end.is_some_and(|end| end <= start) {
            return out;
        }
        let mut take = |newest: usize| {
            if let Some(write) = self.newest_below_mark(newest, mark) {
                out.push((&*write.key, write.value()));
            }
        };
        if self.indexed {
            let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
            if let Some(keys) = self.sorted.get(&space) {
                let range = keys.range::<[u8], _>((Bound::Included(start), upper));
                range.for_each(|(_, newest)| take(*newest));
            }
            return out;
        }
        for (n, write) in self.log.iter().enumerate() {
            let inside = write.space == space
                && *write.key >= *start
                && end.is_none_or(|end| *write.key < *end);
            if inside && !write.superseded {
                take(n);
            }
        }
        out.sort_unstable_by_key(|(key, _)| *key);
        out
    }

    /// Rolls back the writes from a mark on.
    pub(crate) fn rollback_to(&mut self, mark: StatementMark) {
        let keep = usize::try_from(mark.0).unwrap_or(usize::MAX);
        while self.log.len() > keep {
            let Some(gone) = self.log.pop() else {
                return;
            };
            self.bytes -= gone.bytes();
            if let Some(prev) = gone.prev.and_then(|at| self.log.get_mut(at)) {
                prev.superseded = false;
            }
            if self.indexed
                && let Some(space) = self.sorted.get_mut(&gone.space)
            {
                match gone.prev {
                    Some(prev) => {
                        space.insert(gone.key.as_slice().into(), prev);
                    }
                    None => {
                        space.remove(gone.key.as_slice());
                    }
                }
            }
        }
    }

    /// Returns each key's newest write, in key order.
    pub(crate) fn into_final(mut self) -> Writes {
        self.log.retain(|write| !write.superseded);
        self.log.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        self.log
    }

    /// Whether a key was written.
    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        self.newest(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a simple list, below and above the size at which the write set is indexed.
    #[test]
    fn marks_and_rollbacks_agree_with_a_list() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let mut set = WriteSet::default();
            let mut list: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
            for n in 0..rng.usize(1..40) {
                if rng.u8(0..8) == 0 {
                    let to = rng.usize(0..=list.len());
                    list.truncate(to);
                    set.rollback_to(StatementMark(to as u64));
                }
                let key = vec![rng.u8(0..6)];
                let value = (rng.u8(0..3) > 0).then(|| vec![n as u8]);
                set.push(Key::new(SpaceId(1), &key), value.as_deref(), Check::Blind);
                list.push((key, value));
            }
            let mark = rng.usize(0..=list.len());
            let mut expected = BTreeMap::new();
            for (key, value) in &list[..mark] {
                expected.insert(key.as_slice(), value.as_deref());
            }
            for key in 0..6u8 {
                let found = set.find(Key::new(SpaceId(1), &[key]), StatementMark(mark as u64));
                assert_eq!(found, expected.get(&[key][..]).copied());
            }
            let range = set.range(SpaceId(1), b"", None, StatementMark(mark as u64));
            assert_eq!(range, expected.into_iter().collect::<Vec<_>>());
            let mut last = BTreeMap::new();
            for (key, value) in list {
                last.insert(key, value);
            }
            let done = set.into_final();
            assert!(done.windows(2).all(|w| w[0].key < w[1].key));
            let done: BTreeMap<_, _> = done
                .into_iter()
                .map(|w| (w.key.to_vec(), w.value().map(<[u8]>::to_vec)))
                .collect();
            assert_eq!(done, last);
        }
    }
}
