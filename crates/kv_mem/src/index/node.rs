//! The nodes of the ordered index.
//!
//! A node is a sorted array of keys with prefix truncation and key heads (Graefe, "Modern B-Tree
//! Techniques", 2011; Leis et al., "LeanStore", 2018): of each key it keeps the four bytes after the
//! common prefix of its range, and the address of the record that has the whole key. A search compares
//! the four bytes and reads records only on ties. An inner node has one more child than keys.
//!
//! A node is read without a latch, by the protocol of [`optimistic`](super::optimistic).
//!
//! Invariants:
//! 1. One thread at a time changes nodes: the tree's writer.
//! 2. Moving the keys of a node leaves it empty, so that freeing it drops no count.

use super::cell::{Cell, Link, Removed};
use super::optimistic::Version;
use crate::record::{Pinned, RecordAddress, RecordHead, RecordRef};
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::cmp;

/// Maximum number of keys of a node. A leaf has 768 bytes, a size class of common allocators.
pub(super) const WIDTH: usize = 61;

/// Number of equal heads up to which they are counted one by one.
const FEW_TIES: usize = 3;

/// Position at which a node has a key, or would insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) found: bool,
}

type Children = [Link<Node>; WIDTH + 1];

/// A node. Only the tree's writer calls methods that change it.
pub(super) struct Node {
    pub(super) version: Version,
    count: AtomicU16,
    /// Length of the common prefix of all keys of the node's range.
    prefix: AtomicU16,
    /// Detects ascending insertions: the index of the last insertion in the low byte, and in the
    /// high byte the length of the ascending run before it. Used only by the writer.
    insertion_run: AtomicU16,
    children: Option<Box<Children>>,
    heads: [AtomicU32; WIDTH],
    keys: [Cell; WIDTH],
}

/// Returns the key head that a node stores: four bytes of the key after the common prefix.
fn head_of(key: &[u8], prefix: usize) -> u32 {
    let tail = key.get(prefix..).unwrap_or_default();
    if let Some(first) = tail.first_chunk::<4>() {
        return u32::from_be_bytes(*first);
    }
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(tail) {
        *to = *from;
    }
    u32::from_be_bytes(bytes)
}

/// Length of the common prefix of two keys.
pub(super) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Node {
    fn new(children: Option<Box<Children>>) -> Node {
        Node {
            version: Version::new(AtomicU64::new(0)),
            count: AtomicU16::new(0),
            prefix: AtomicU16::new(0),
            insertion_run: AtomicU16::new(0),
            children,
            heads: [const { AtomicU32::new(0) }; WIDTH],
            keys: [const { Cell::empty() }; WIDTH],
        }
    }

    pub(super) fn leaf() -> Node {
        Node::new(None)
    }

    pub(super) fn inner() -> Node {
        Node::new(Some(Box::new([const { Link::empty() }; WIDTH + 1])))
    }

    /// Creates an empty node of the same kind (leaf or inner node).
    pub(super) fn new_sibling(&self) -> Node {
        match &self.children {
            Some(_) => Node::inner(),
            None => Node::leaf(),
        }
    }

    /// Bytes of the node, its children excluded.
    pub(super) fn bytes(&self) -> usize {
        let children = self
            .children
            .as_ref()
            .map_or(0, |children| size_of_val(&**children));
        size_of::<Node>() + children
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.children.is_none()
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.count.load(Ordering::Relaxed)).min(WIDTH)
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() == WIDTH
    }

    /// Whether keys have been inserted in ascending order, and `at` continues the run.
    pub(super) fn continues_ascending_run(&self, at: usize) -> bool {
        let run = self.insertion_run.load(Ordering::Relaxed);
        usize::from(run & 0xff) + 1 == at && usize::from(run >> 8) >= WIDTH / 4
    }

    fn record_insertion(&self, at: usize) {
        let before = self.insertion_run.load(Ordering::Relaxed);
        let run = if usize::from(before & 0xff) + 1 == at {
            (before >> 8).saturating_add(1).min(0xff)
        } else {
            0
        };
        self.insertion_run
            .store(run << 8 | at as u16, Ordering::Relaxed);
    }

    pub(super) fn key<'g>(&self, at: usize, guard: &'g Guard) -> Option<Pinned<'g>> {
        self.keys.get(at)?.load(guard)
    }

    pub(super) fn child<'g>(&self, at: usize, guard: &'g Guard) -> Option<&'g Node> {
        self.link(at)?.load(guard)
    }

    pub(super) fn link(&self, at: usize) -> Option<&Link<Node>> {
        self.children.as_deref()?.get(at)
    }

    /// Searches for a key.
    pub(super) fn search(&self, key: &[u8], guard: &Guard) -> Place {
        let prefix = usize::from(self.prefix.load(Ordering::Relaxed));
        let head = head_of(key, prefix);
        let heads = self.heads.get(..self.count()).unwrap_or_default();
        let from = heads.partition_point(|h| h.load(Ordering::Relaxed) < head);
        let rest = heads.get(from..).unwrap_or_default();
        let is_tied = |h: &AtomicU32| h.load(Ordering::Relaxed) == head;
        // Mostly none or one.
        let ties = match rest.get(FEW_TIES) {
            Some(behind) if is_tied(behind) => rest.partition_point(is_tied),
            _ => rest
                .iter()
                .take(FEW_TIES)
                .take_while(|h| is_tied(h))
                .count(),
        };
        let keys = self.keys.get(from..from + ties).unwrap_or_default();
        let compare = |cell: &Cell| {
            let record = cell.load(guard);
            record.map_or(cmp::Ordering::Greater, |record| record.key().cmp(key))
        };
        // A key is compared once: it is seldom in the cache.
        let (below, found) = match keys.binary_search_by(compare) {
            Ok(at) => (at, true),
            Err(at) => (at, false),
        };
        Place {
            at: from + below,
            found,
        }
    }

    /// # Safety
    /// As for [`Cell::set`].
    unsafe fn set(&self, at: usize, address: *mut RecordHead, head: u32) {
        if let (Some(cell), Some(place)) = (self.keys.get(at), self.heads.get(at)) {
            // SAFETY: guaranteed by the caller.
            unsafe { cell.set(address) };
            place.store(head, Ordering::Relaxed);
        }
    }

    fn get(&self, at: usize) -> (*mut RecordHead, u32) {
        let cell = self.keys.get(at).map(Cell::address);
        let head = self.heads.get(at).map(|head| head.load(Ordering::Relaxed));
        (cell.unwrap_or_default(), head.unwrap_or(0))
    }

    fn set_count(&self, count: usize) {
        self.count.store(count as u16, Ordering::Relaxed);
    }

    /// Inserts a key at its place, and in an inner node a new child after it. The node is not full
    /// and is marked as changing. The cell takes over the count.
    ///
    /// # Safety
    /// The caller is the tree's writer, or no other thread knows the node.
    pub(super) unsafe fn insert(
        &self,
        at: usize,
        record: RecordRef,
        child: Option<Node>,
        guard: &Guard,
    ) {
        let count = self.count();
        let prefix = usize::from(self.prefix.load(Ordering::Relaxed));
        let head = head_of(record.key(), prefix);
        let moved = self.heads.get(at..=count).unwrap_or_default();
        for pair in moved.windows(2).rev() {
            if let [from, to] = pair {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        let moved = self.keys.get(at..=count).unwrap_or_default();
        for pair in moved.windows(2).rev() {
            if let [from, to] = pair {
                // SAFETY: by the caller there is no other writer. Each address moves up by one cell, and
                // its old cell is overwritten in the next step, the first one below.
                unsafe { to.set(from.address()) };
            }
        }
        // SAFETY: as above; the count of the new key is given.
        unsafe { self.set(at, record.into_address().as_ptr(), head) };
        self.record_insertion(at);
        if let Some(child) = child {
            for n in (at + 1..=count).rev() {
                if let (Some(to), Some(from)) = (self.link(n + 1), self.link(n)) {
                    to.copy_from(from, guard);
                }
            }
            if let Some(link) = self.link(at + 1) {
                link.set_new(child, guard);
            }
        }
        self.set_count(count + 1);
    }

    /// Removes a key, and in an inner node the child link after it. The child is reachable through
    /// another link or is being retired. The node is marked as changing.
    ///
    /// # Safety
    /// The caller is the tree's writer.
    pub(super) unsafe fn remove(&self, at: usize, guard: &Guard) -> Option<Removed> {
        let count = self.count();
        let address = RecordAddress::new(self.keys.get(at)?.address())?;
        for n in at + 1..count {
            let (address, head) = self.get(n);
            // SAFETY: by the caller there is no other writer. Each address moves down by one cell,
            // and its old cell is overwritten in the next step, the last one below.
            unsafe { self.set(n - 1, address, head) };
            if let (Some(to), Some(from)) = (self.link(n), self.link(n + 1)) {
                to.copy_from(from, guard);
            }
        }
        // SAFETY: the address is null, and by the caller there is no other writer.
        unsafe { self.set(count - 1, std::ptr::null_mut(), 0) };
        if let Some(link) = self.link(count) {
            link.clear();
        }
        self.set_count(count - 1);
        // SAFETY: its cell had the count, and was overwritten.
        Some(unsafe { Removed::new(address) })
    }

    /// Moves the keys from `from` on, with the children after them, to the end of another node. Both
    /// are marked as changing, or no other thread knows them.
    ///
    /// # Safety
    /// The caller is the tree's writer.
    pub(super) unsafe fn move_tail(&self, from: usize, to: &Node, guard: &Guard) {
        let (count, base) = (self.count(), to.count());
        for n in from..count {
            let (address, head) = self.get(n);
            // SAFETY: by the caller there is no other writer; the count moves with the address.
            unsafe {
                to.set(base + n - from, address, head);
                self.set(n, std::ptr::null_mut(), 0);
            }
            if let (Some(target), Some(link)) = (to.link(base + n - from + 1), self.link(n + 1)) {
                target.copy_from(link, guard);
                link.clear();
            }
        }
        to.set_count(base + count.saturating_sub(from));
        self.set_count(from.min(count));
    }

    /// Sets the common prefix of the node's range, and recomputes the head of each key.
    pub(super) fn set_range(&self, low: Option<&[u8]>, high: Option<&[u8]>, guard: &Guard) {
        let prefix = prefix_of(low, high);
        self.prefix.store(prefix as u16, Ordering::Relaxed);
        let cells = self.keys.iter().zip(&self.heads).take(self.count());
        for (cell, place) in cells {
            if let Some(record) = cell.load(guard) {
                place.store(head_of(record.key(), prefix), Ordering::Relaxed);
            }
        }
    }

    /// Checks the node by itself: the order and the heads of its keys.
    pub(super) fn check(
        &self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        guard: &Guard,
    ) -> Result<(), String> {
        if self.version.stable().is_none() {
            return Err("a node is locked by a writer".to_owned());
        }
        let prefix = usize::from(self.prefix.load(Ordering::Relaxed));
        let mut last: Option<&[u8]> = None;
        for at in 0..self.count() {
            let Some(record) = self.key(at, guard).map(Pinned::record) else {
                return Err(format!(
                    "an empty cell at position {at} of {}",
                    self.count()
                ));
            };
            let key = record.key();
            if last.is_some_and(|last| last >= key)
                || low.is_some_and(|low| key < low)
                || high.is_some_and(|high| key >= high)
            {
                return Err(format!("key {key:?} is out of order"));
            }
            if self.get(at).1 != head_of(key, prefix) {
                return Err(format!("the cell of key {key:?} contains other bytes"));
            }
            last = Some(key);
        }
        if (self.count()..WIDTH).any(|at| !self.get(at).0.is_null()) {
            return Err("a cell after the last key is not empty".to_owned());
        }
        match (low, high) {
            (Some(low), Some(high)) if common_prefix_len(low, high) < prefix => Err(format!(
                "{low:?} and {high:?} do not share a prefix of {prefix} bytes"
            )),
            (None, _) | (_, None) if prefix > 0 => Err(format!(
                "a prefix of {prefix} bytes in a node without bounds"
            )),
            _ => Ok(()),
        }
    }
}

/// Length of the common prefix of all keys between two bounds.
fn prefix_of(low: Option<&[u8]>, high: Option<&[u8]>) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => common_prefix_len(low, high).min(usize::from(u16::MAX)),
        _ => 0,
    }
}
