//! Changes of the tree: insertion with splits, removal with merges.
//!
//! The nodes that a change touches are marked from `begin` to `end`. A reader that finds a node
//! marked waits; a reader that read the node before detects the change by its version.

use super::{Separators, Target, WriteGuard, bounds_of, child_separators};
use crate::index::cell::Link;
use crate::index::node::{Node, Place, WIDTH, common_prefix_len};
use crate::record::{FirstLock, RecordRef};
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering;
use smallvec::SmallVec;

/// An inner node on the writer's path, and the index of the child taken.
struct PathNode<'g> {
    node: &'g Node,
    child: usize,
    separators: Separators<'g>,
}

/// A leaf as the writer found it.
#[derive(Clone, Copy)]
pub(in crate::index) struct Leaf<'g> {
    node: &'g Node,
    separators: Separators<'g>,
}

impl Leaf<'_> {
    /// Whether a key lies in its range.
    fn covers(&self, key: &[u8]) -> bool {
        let (low, high) = bounds_of(self.separators);
        low.is_none_or(|low| key >= low) && high.is_none_or(|high| key < high)
    }
}

type Path<'g> = SmallVec<[PathNode<'g>; 8]>;

impl WriteGuard<'_> {
    /// Descends to the leaf of a key, and shows the inner nodes on the path to it.
    #[inline]
    fn descend<'g>(
        &self,
        key: &[u8],
        guard: &'g Guard,
        mut visit: impl FnMut(PathNode<'g>),
    ) -> Option<Leaf<'g>> {
        let mut node = self.tree.root.load(guard)?;
        let mut separators = (None, None);
        while !node.is_leaf() {
            let child = Target::Of(key).child(node, guard);
            visit(PathNode {
                node,
                child,
                separators,
            });
            separators = child_separators(node, child, separators, guard);
            node = node.child(child, guard)?;
        }
        Some(Leaf { node, separators })
    }

    /// The writer's path to the leaf of a key.
    fn path<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<(Path<'g>, Leaf<'g>)> {
        let mut path = Path::new();
        let leaf = self.descend(key, guard, |node| path.push(node))?;
        Some((path, leaf))
    }

    /// Returns the record of a key, created if it is missing, with this lock if there is one, and whether it was
    /// created. `near` is the leaf of the key before, so that keys in ascending order are seldom searched from the
    /// root.
    pub(in crate::index) fn get_or_insert<'g>(
        &mut self,
        key: &[u8],
        lock: Option<FirstLock>,
        near: &mut Option<Leaf<'g>>,
        guard: &'g Guard,
    ) -> (RecordRef, bool) {
        loop {
            let Some(leaf) = self.leaf_near(key, near, guard) else {
                self.add_first_leaf(guard);
                continue;
            };
            let place = leaf.search(key, guard);
            if let (true, Some(record)) = (place.found, leaf.key(place.at, guard)) {
                return (record.to_counted(), false);
            }
            if leaf.is_full() {
                self.split_full_nodes(key, guard);
                *near = None;
                continue;
            }
            let (record, owned) = RecordRef::new_pair(key, lock);
            self.insert_into_leaf(leaf, place.at, owned, guard);
            return (record, true);
        }
    }

    /// Puts a leaf into the empty tree.
    fn add_first_leaf(&mut self, guard: &Guard) {
        let leaf = self.tree.root.set_new(Node::leaf(), guard);
        self.tree
            .node_bytes
            .fetch_add(leaf.bytes(), Ordering::Relaxed);
    }

    /// The leaf of a key: `near` if it is that, otherwise found from the root. `None` while the tree is
    /// empty.
    fn leaf_near<'g>(
        &self,
        key: &[u8],
        near: &mut Option<Leaf<'g>>,
        guard: &'g Guard,
    ) -> Option<&'g Node> {
        match near.filter(|leaf| leaf.covers(key)) {
            Some(leaf) => Some(leaf.node),
            None => Some(near.insert(self.descend(key, guard, |_| ())?).node),
        }
    }

    /// Inserts records, fastest in key order. Stops at a key that the tree has already, and returns
    /// whether there was none.
    pub(in crate::index) fn insert_all(&mut self, records: &[RecordRef], guard: &Guard) -> bool {
        // Leaf of the previous record.
        let mut near: Option<Leaf<'_>> = None;
        for record in records {
            let key = record.key();
            loop {
                let Some(leaf) = self.leaf_near(key, &mut near, guard) else {
                    self.add_first_leaf(guard);
                    continue;
                };
                let Place { at, found } = leaf.search(key, guard);
                if found {
                    return false;
                }
                if leaf.is_full() {
                    self.split_full_nodes(key, guard);
                    near = None;
                    continue;
                }
                self.insert_into_leaf(leaf, at, record.clone(), guard);
                break;
            }
        }
        true
    }

    /// Inserts a record into a leaf that is not full.
    fn insert_into_leaf(&mut self, leaf: &Node, at: usize, record: RecordRef, guard: &Guard) {
        leaf.version.begin();
        // SAFETY: `WriteGuard` is the tree's one writer.
        unsafe { leaf.insert(at, record, None, guard) };
        leaf.version.end();
        self.tree.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Splits every full node on the path to a key, from the root down.
    fn split_full_nodes(&mut self, key: &[u8], guard: &Guard) {
        let Some(mut node) = self.tree.root.load(guard) else {
            return;
        };
        if node.is_full() {
            let root = Node::inner();
            if let Some(link) = root.link(0) {
                link.copy_from(&self.tree.root, guard);
            }
            node = self.tree.root.set_new(root, guard);
            self.tree
                .node_bytes
                .fetch_add(node.bytes(), Ordering::Relaxed);
        }
        let mut separators = (None, None);
        while !node.is_leaf() {
            let at = Target::Of(key).child(node, guard);
            let Some(child) = node.child(at, guard) else {
                return;
            };
            let range = child_separators(node, at, separators, guard);
            if child.is_full() {
                // SAFETY: `WriteGuard` is the tree's one writer.
                unsafe { split(node, at, child, range, key, guard) };
                // The new sibling is as large.
                self.tree
                    .node_bytes
                    .fetch_add(child.bytes(), Ordering::Relaxed);
                continue;
            }
            (node, separators) = (child, range);
        }
    }

    /// Removes a record. Returns false if the tree does not have it.
    pub(in crate::index) fn remove(&mut self, record: &RecordRef, guard: &Guard) -> bool {
        let key = record.key();
        let Some((path, Leaf { node: leaf, .. })) = self.path(key, guard) else {
            return false;
        };
        let Place { at, found } = leaf.search(key, guard);
        let here = leaf.key(at, guard).filter(|_| found);
        if here.is_none_or(|here| here.address() != record.address()) {
            return false;
        }
        leaf.version.begin();
        // SAFETY: `WriteGuard` is the tree's one writer.
        let removed = unsafe { leaf.remove(at, guard) };
        leaf.version.end();
        if let Some(removed) = removed {
            removed.retire(guard);
        }
        self.tree.len.fetch_sub(1, Ordering::Relaxed);
        self.merge_up(&path, guard);
        true
    }

    /// Merges underfull nodes along the path, from the leaf up.
    fn merge_up(&mut self, path: &Path<'_>, guard: &Guard) {
        for step in path.iter().rev() {
            let Some(child) = step.node.child(step.child, guard) else {
                return;
            };
            if child.count() >= WIDTH / 4 {
                return;
            }
            // SAFETY: `WriteGuard` is the tree's one writer.
            if !unsafe { merge(step, guard) } {
                return;
            }
            self.tree
                .node_bytes
                .fetch_sub(child.bytes(), Ordering::Relaxed);
        }
        // A root with one child is replaced by the child.
        while let Some(root) = self.tree.root.load(guard)
            && !root.is_leaf()
            && root.count() == 0
            && let Some(only) = root.link(0)
        {
            let old: Link<Node> = Link::empty();
            old.copy_from(&self.tree.root, guard);
            self.tree.root.copy_from(only, guard);
            root.version.begin();
            root.version.end();
            self.tree
                .node_bytes
                .fetch_sub(root.bytes(), Ordering::Relaxed);
            // SAFETY: the tree's root link was the only one to it, and leads to the child now. The
            // node's own link to the child goes with it, and is not followed by later readers.
            unsafe { old.retire(guard) };
        }
    }

    /// Removes all records.
    pub(in crate::index) fn clear(&mut self, guard: &Guard) {
        let top: Link<Node> = Link::empty();
        top.copy_from(&self.tree.root, guard);
        self.tree.root.clear();
        self.tree.len.store(0, Ordering::Relaxed);
        self.tree.node_bytes.store(0, Ordering::Relaxed);
        // SAFETY: the root link was the only one to the topmost node, and leads nowhere now; a node's
        // link is the only one to its child.
        unsafe { retire_subtree(&top, guard) };
    }
}

/// Retires a subtree. The recursion is as deep as the tree.
///
/// # Safety
/// No link that a later reader follows leads to the subtree, but `top`. No other thread changes it.
pub(super) unsafe fn retire_subtree(top: &Link<Node>, guard: &Guard) {
    if let Some(node) = top.load(guard) {
        for link in (0..=node.count()).filter_map(|at| node.link(at)) {
            let child: Link<Node> = Link::empty();
            child.copy_from(link, guard);
            // SAFETY: the child is reached through its parent only, which is retired below.
            unsafe { retire_subtree(&child, guard) };
        }
    }
    // SAFETY: by the caller.
    unsafe { top.retire(guard) };
}

/// Splits a full child of a node that is not full, before a key is inserted into it.
///
/// # Safety
/// The caller is the writer of the nodes' tree.
unsafe fn split(
    parent: &Node,
    at: usize,
    child: &Node,
    range: Separators<'_>,
    key: &[u8],
    guard: &Guard,
) {
    let range = bounds_of(range);
    let Place { at: place, .. } = child.search(key, guard);
    let count = child.count();
    let whole = |at: usize| child.key(at, guard).map(|record| record.record().key());
    let right = child.new_sibling();
    // Ascending insertions leave full nodes behind, at the end of a leaf or before the first keys
    // of another run. Nearly ascending insertions at the end of the tree leave nodes with room for
    // late keys.
    let (ascends, at_end) = (child.continues_ascending_run(place), range.1.is_none());
    let (middle, separator) = if child.is_leaf() {
        let middle = match place {
            0 if range.0.is_none() => 0,
            n if ascends => n,
            n if at_end && n > count * 7 / 8 => count * 7 / 8,
            _ => count / 2,
        };
        let last = middle.checked_sub(1).and_then(whole).unwrap_or(key);
        let first = whole(middle).unwrap_or(key);
        let len = common_prefix_len(last, first) + 1;
        (middle, first.get(..len).unwrap_or(first))
    } else {
        let middle = match place {
            n if n == count => count - 1,
            _ => count / 2,
        };
        (middle, whole(middle).unwrap_or_default())
    };
    let separator = RecordRef::new(separator);
    let bound = separator.clone();
    parent.version.begin();
    child.version.begin();
    if child.is_leaf() {
        // SAFETY: by the caller; no other thread knows `right`.
        unsafe { child.move_tail(middle, &right, guard) };
    } else {
        // The middle key goes up; its child becomes the first of the right half.
        if let (Some(to), Some(from)) = (right.link(0), child.link(middle + 1)) {
            to.copy_from(from, guard);
        }
        // SAFETY: as above.
        let removed = unsafe {
            child.move_tail(middle + 1, &right, guard);
            child.remove(middle, guard)
        };
        if let Some(removed) = removed {
            removed.retire(guard);
        }
    }
    child.set_range(range.0, Some(bound.key()), guard);
    right.set_range(Some(bound.key()), range.1, guard);
    // SAFETY: by the caller.
    unsafe { parent.insert(at, separator, Some(right), guard) };
    child.version.end();
    parent.version.end();
}

/// Merges an underfull child with a neighbour if both fit. Returns whether it did.
///
/// # Safety
/// The caller is the writer of the nodes' tree.
unsafe fn merge(step: &PathNode<'_>, guard: &Guard) -> bool {
    let PathNode {
        node,
        child,
        separators,
    } = step;
    let fits = |at: usize| {
        let (left, right) = (node.child(at, guard)?, node.child(at + 1, guard)?);
        let sum = left.count() + right.count() + usize::from(!left.is_leaf());
        let empty = left.count() == 0 || right.count() == 0;
        let most = if empty { WIDTH } else { WIDTH * 3 / 4 };
        (sum <= most).then_some((at, left, right))
    };
    let ahead = (*child < node.count()).then(|| fits(*child)).flatten();
    let Some((at, left, right)) = ahead.or_else(|| fits(child.checked_sub(1)?)) else {
        return false;
    };
    let low = child_separators(node, at, *separators, guard).0;
    let high = child_separators(node, at + 1, *separators, guard).1;
    let (low, high) = bounds_of((low, high));
    node.version.begin();
    left.version.begin();
    right.version.begin();
    if !left.is_leaf()
        && let Some(separator) = node.key(at, guard)
    {
        // The separator moves down between the two halves, with the first child of the right one.
        // SAFETY: by the caller.
        unsafe { left.insert(left.count(), separator.to_counted(), None, guard) };
        if let (Some(to), Some(from)) = (left.link(left.count()), right.link(0)) {
            to.copy_from(from, guard);
        }
    }
    // SAFETY: by the caller.
    unsafe { right.move_tail(0, left, guard) };
    let gone: Link<Node> = Link::empty();
    if let Some(link) = node.link(at + 1) {
        gone.copy_from(link, guard);
    }
    // SAFETY: by the caller.
    if let Some(separator) = unsafe { node.remove(at, guard) } {
        separator.retire(guard);
    }
    left.set_range(low, high, guard);
    right.version.end();
    left.version.end();
    node.version.end();
    // SAFETY: the parent's link was the only one to the node, and was removed above. Its first child,
    // if any, is reached through `left` now.
    unsafe { gone.retire(guard) };
    true
}
