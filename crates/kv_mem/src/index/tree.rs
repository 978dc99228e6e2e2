//! The ordered index: a B+tree that readers search without a latch.
//!
//! Readers descend by optimistic lock coupling ([`optimistic`](super::optimistic)) and restart at the
//! root when they were disturbed. The writer takes the one mutex of the tree and marks the nodes that it
//! changes; commits of one engine are sequenced anyway, and a change takes some hundred nanoseconds.
//!
//! Invariants:
//! 1. Keys of a subtree are at or above the separator on its left and below the one on its right.
//!    Separators are records of their own, as short as possible, that are in no leaf (suffix
//!    truncation).
//! 2. All leaves are equally deep.
//! 3. All nodes that a change touches are marked until it is complete: a split its parent and both
//!    halves, a merge likewise.
//! 4. A leaf with less than a quarter of its keys is merged with a neighbour of the same parent if both
//!    fit into three quarters of one.
//! 5. A reader does not meet a change of its own thread, which would be a deadlock: nothing is searched
//!    amid a change.
//! 6. A reader restarts a bounded number of times; then it takes the writer's mutex.
//!
//! Rejected: latches coupled from node to node for writers (several at a time win nothing on few cores,
//! behind one sequencer); a trie by bytes (a third faster on long keys at best, and twice the code);
//! whole keys in the nodes (24 bytes a row more, for an entry that the hash index mostly answers).

mod change;
mod walk;

use super::cell::Link;
use super::node::{Node, Place};
use super::optimistic::{Arrival, Descent, Restart, Version, descend};
use crate::record::Pinned;
use change::retire_subtree;
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use porpoise_base::sync::{Mutex, MutexGuard};
use std::ops::{Bound, Range};
pub(super) use walk::RemainingRange;

/// Spins of a reader that meets a change, before it waits for the change to end.
const SPIN_LIMIT: usize = 100;

/// Attempts of a reader before it takes the writer's mutex.
const OPTIMISTIC_ATTEMPTS: usize = 32;

/// The ordered index of one space.
pub(super) struct Tree {
    root: Link<Node>,
    writer: Mutex<()>,
    len: AtomicUsize,
    /// Sum of [`Node::bytes`] over all nodes; changed by the writer.
    node_bytes: AtomicUsize,
}

/// Exclusive right to change a tree: a guard of the writer's mutex.
pub(super) struct WriteGuard<'t> {
    tree: &'t Tree,
    _exclusive: MutexGuard<'t, ()>,
}

/// Target leaf of a search.
#[derive(Clone, Copy)]
enum Target<'k> {
    /// The leaf whose range contains the key.
    Of(&'k [u8]),
    /// The leaf with the greatest keys below this one.
    Below(&'k [u8]),
    /// The last leaf.
    Last,
}

impl Target<'_> {
    /// Index of the child of an inner node to descend to.
    fn child(self, node: &Node, guard: &Guard) -> usize {
        match self {
            Target::Of(key) => {
                let Place { at, found } = node.search(key, guard);
                at + usize::from(found)
            }
            Target::Below(key) => node.search(key, guard).at,
            Target::Last => node.count(),
        }
    }
}

/// Lower (inclusive) and upper (exclusive) bound of a subtree's keys.
type Bounds<'g> = (Option<&'g [u8]>, Option<&'g [u8]>);

/// The separators that are the bounds of a subtree. A descent does not read them: each would be a cache miss.
type Separators<'g> = (Option<Pinned<'g>>, Option<Pinned<'g>>);

/// The keys of separators.
fn bounds_of<'g>(separators: Separators<'g>) -> Bounds<'g> {
    let key = |separator: Pinned<'g>| separator.record().key();
    (separators.0.map(key), separators.1.map(key))
}

/// A reader's descent to a leaf.
struct Search<'s, 'g> {
    tree: &'s Tree,
    target: Target<'s>,
    guard: &'g Guard,
}

impl<'g> Descent<'g> for Search<'_, 'g> {
    type Node = Node;
    type Word = AtomicU64;
    type Place = Separators<'g>;

    #[inline]
    fn version(node: &'g Node) -> &'g Version {
        &node.version
    }

    #[inline]
    fn wait_stable(&self, node: &'g Node) -> u64 {
        loop {
            for _ in 0..SPIN_LIMIT {
                if let Some(version) = node.version.stable() {
                    return version;
                }
                porpoise_base::sync::spin_loop();
            }
            // The writer may have been preempted: sleeps on its mutex.
            drop(self.tree.writer.lock());
        }
    }

    #[inline]
    fn root(&self) -> Option<&'g Node> {
        self.tree.root.load(self.guard)
    }

    #[inline]
    fn is_root(&self, node: &'g Node) -> bool {
        self.tree.root.points_to(node, self.guard)
    }

    #[inline]
    fn step(
        &self,
        node: &'g Node,
        separators: &Separators<'g>,
    ) -> Result<Option<(&'g Node, Separators<'g>)>, Restart> {
        if node.is_leaf() {
            return Ok(None);
        }
        let at = self.target.child(node, self.guard);
        let child = node.child(at, self.guard).ok_or(Restart)?;
        let separators = child_separators(node, at, *separators, self.guard);
        Ok(Some((child, separators)))
    }
}

/// A leaf as a reader found it, with the bounds of its range.
struct LeafView<'g> {
    leaf: &'g Node,
    separators: Separators<'g>,
}

impl LeafView<'_> {
    /// The indexes of its keys between two bounds. A node is not searched for keys outside its
    /// range: it has only the bytes that differ inside.
    fn between(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, guard: &Guard) -> Range<usize> {
        let (low, high) = bounds_of(self.separators);
        let is_before = |key: &[u8]| low.is_some_and(|low| key < low);
        let is_behind = |key: &[u8]| high.is_some_and(|high| key >= high);
        let from = match lower {
            // A walk that continues from the neighbouring leaf.
            Bound::Included(key) if low.is_some_and(|low| std::ptr::eq(low, key)) => 0,
            Bound::Included(key) if !is_before(key) => self.leaf.search(key, guard).at,
            Bound::Excluded(key) if !is_before(key) => index_after(self.leaf.search(key, guard)),
            _ => 0,
        };
        let to = match upper {
            Bound::Excluded(key) if high.is_some_and(|high| std::ptr::eq(high, key)) => {
                self.leaf.count()
            }
            Bound::Excluded(key) if !is_behind(key) => self.leaf.search(key, guard).at,
            Bound::Included(key) if !is_behind(key) => index_after(self.leaf.search(key, guard)),
            _ => self.leaf.count(),
        };
        from..to
    }
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            root: Link::empty(),
            writer: Mutex::new(()),
            len: AtomicUsize::new(0),
            node_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes the writer's mutex.
    pub(super) fn write(&self) -> WriteGuard<'_> {
        WriteGuard {
            tree: self,
            _exclusive: self.writer.lock(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Reads a leaf, and retries until no change interfered; `None` while the tree is empty.
    fn read<'g, T>(
        &self,
        target: Target<'_>,
        guard: &'g Guard,
        mut read: impl FnMut(&LeafView<'g>) -> T,
    ) -> Option<(LeafView<'g>, T)> {
        let mut tries = 0;
        loop {
            let _alone = (tries >= OPTIMISTIC_ATTEMPTS).then(|| self.write());
            tries += 1;
            let search = Search {
                tree: self,
                target,
                guard,
            };
            let Ok(arrival) = descend(&search, (None, None)) else {
                continue;
            };
            let Arrival {
                leaf,
                version,
                place: separators,
            } = arrival?;
            let leaf_view = LeafView { leaf, separators };
            let found = read(&leaf_view);
            if leaf.version.is_unchanged(version) {
                return Some((leaf_view, found));
            }
        }
    }

    /// Returns the record of a key.
    pub(super) fn find<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Pinned<'g>> {
        let read = |leaf_view: &LeafView<'g>| {
            let Place { at, found } = leaf_view.leaf.search(key, guard);
            leaf_view.leaf.key(at, guard).filter(|_| found)
        };
        self.read(Target::Of(key), guard, read)?.1
    }

    /// Number of leaves.
    #[cfg(test)]
    pub(super) fn leaves(&self, guard: &Guard) -> usize {
        let mut leaves = 0;
        self.each_node(guard, &mut |node| leaves += usize::from(node.is_leaf()));
        leaves
    }

    /// Bytes of all nodes, without the separators' records. Visits no node.
    pub(super) fn node_bytes(&self) -> usize {
        self.node_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all nodes, and of the separators' records.
    pub(super) fn bytes(&self, _: &WriteGuard<'_>, guard: &Guard) -> usize {
        let mut bytes = 0;
        self.each_node(guard, &mut |node| {
            bytes += node.bytes();
            if !node.is_leaf() {
                let keys = (0..node.count()).filter_map(|at| node.key(at, guard));
                bytes += keys.map(|sep| sep.record().bytes()).sum::<usize>();
            }
        });
        bytes
    }

    fn each_node(&self, guard: &Guard, visit: &mut dyn FnMut(&Node)) {
        let mut open: Vec<&Node> = self.root.load(guard).into_iter().collect();
        while let Some(node) = open.pop() {
            visit(node);
            open.extend((0..=node.count()).filter_map(|at| node.child(at, guard)));
        }
    }

    /// Checks all invariants, and passes every record to the callback; for `verify`.
    pub(super) fn check<'g>(
        &self,
        _: &WriteGuard<'_>,
        guard: &'g Guard,
        seen: &mut dyn FnMut(Pinned<'g>) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(root) = self.root.load(guard) else {
            return Ok(());
        };
        let mut open = vec![(root, 0, (None, None))];
        let (mut leaves, mut count, mut bytes) = (None, 0, 0);
        while let Some((node, depth, separators)) = open.pop() {
            bytes += node.bytes();
            let bounds = bounds_of(separators);
            node.check(bounds.0, bounds.1, guard)?;
            if node.is_leaf() {
                if *leaves.get_or_insert(depth) != depth {
                    return Err(format!("leaves at depth {depth} and at other depths"));
                }
                count += node.count();
                for at in 0..node.count() {
                    node.key(at, guard).map_or(Ok(()), &mut *seen)?;
                }
                continue;
            }
            for at in (0..=node.count()).rev() {
                let Some(child) = node.child(at, guard) else {
                    return Err(format!("no child at position {at} of {}", node.count()));
                };
                let separators = child_separators(node, at, separators, guard);
                open.push((child, depth + 1, separators));
            }
        }
        if count != self.len() {
            return Err(format!("found {count} keys, counted {}", self.len()));
        }
        let counted = self.node_bytes();
        if bytes != counted {
            return Err(format!("nodes of {bytes} bytes, counted {counted}"));
        }
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        // SAFETY: `&mut self`: no other thread reads or changes the tree.
        unsafe { retire_subtree(&self.root, &guard) };
    }
}

fn index_after(place: Place) -> usize {
    place.at + usize::from(place.found)
}

/// The separators that bound a child.
fn child_separators<'g>(
    node: &Node,
    at: usize,
    own: Separators<'g>,
    guard: &'g Guard,
) -> Separators<'g> {
    let below = at.checked_sub(1).and_then(|at| node.key(at, guard));
    // A cell behind the last key is empty.
    (below.or(own.0), node.key(at, guard).or(own.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_restarts_too_often_takes_the_writers_mutex() {
        let (tree, guard) = (Tree::new(), crossbeam_epoch::pin());
        let (made, _) = tree.write().get_or_insert(b"k", None, &mut None, &guard);
        let mut tries = 0;
        let read = tree.read(Target::Last, &guard, |leaf_view| {
            tries += 1;
            if let Some(_writing) = tree.writer.try_lock() {
                leaf_view.leaf.version.begin();
                leaf_view.leaf.version.end();
            }
            leaf_view.leaf.key(0, &guard).map(Pinned::address)
        });
        assert_eq!(read.map(|(_, found)| found), Some(Some(made.address())));
        assert_eq!(tries, OPTIMISTIC_ATTEMPTS + 1);
        assert!(tree.writer.try_lock().is_some());
    }
}
