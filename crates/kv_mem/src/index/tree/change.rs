//! Changes of the tree: its one writer at work.
//!
//! What a change touches is marked from `begin` to `end`; readers that meet a
//! mark wait for it, and those that were faster notice afterwards.

use super::{Bounds, Target, Tree, Writing, bounds_of};
use crate::index::cell::{Link, release};
use crate::index::node::{Node, Place, WIDTH, common};
use crate::record::RecordRef;
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering;
use smallvec::SmallVec;

/// An inner node on the writer's way down, and the kid it went to.
struct Step<'g> {
    node: &'g Node,
    kid: usize,
    bounds: Bounds<'g>,
}

/// A leaf as the writer found it.
#[derive(Clone, Copy)]
pub(in crate::index) struct Leaf<'g> {
    node: &'g Node,
    bounds: Bounds<'g>,
}

impl Leaf<'_> {
    /// Whether a key lies in its range.
    fn covers(&self, key: &[u8]) -> bool {
        let (low, high) = self.bounds;
        low.is_none_or(|low| key >= low) && high.is_none_or(|high| key < high)
    }
}

type Path<'g> = SmallVec<[Step<'g>; 8]>;

impl Tree {
    /// The writer's way to the leaf of a key.
    fn path<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<(Path<'g>, Leaf<'g>)> {
        let mut node = self.root.load(guard)?;
        let mut path = Path::new();
        let mut bounds = (None, None);
        while !node.is_leaf() {
            let kid = Target::Of(key).kid(node, guard);
            path.push(Step { node, kid, bounds });
            bounds = bounds_of(node, kid, bounds, guard);
            node = node.kid(kid, guard)?;
        }
        Some((path, Leaf { node, bounds }))
    }

    /// The record of a key, made when there is none; whether it was made.
    pub(in crate::index) fn get_or_insert(
        &self,
        _: &Writing<'_>,
        key: &[u8],
        guard: &Guard,
    ) -> (RecordRef, bool) {
        loop {
            let Some((_, Leaf { node: leaf, .. })) = self.path(key, guard) else {
                self.root.set_new(Node::leaf(), guard);
                continue;
            };
            let place = leaf.search(key, guard);
            if let (true, Some(record)) = (place.found, leaf.key(place.at, guard)) {
                return (record.counted(), false);
            }
            if leaf.is_full() {
                self.make_room(key, guard);
                continue;
            }
            let record = RecordRef::new(key);
            leaf.begin();
            leaf.insert(place.at, record.clone(), None, guard);
            leaf.end();
            self.len.fetch_add(1, Ordering::Relaxed);
            return (record, true);
        }
    }

    /// Puts a record in; false when its key is there already. `near` is the
    /// leaf of the call before, within one writing.
    pub(in crate::index) fn insert<'g>(
        &self,
        _: &Writing<'_>,
        record: &RecordRef,
        near: &mut Option<Leaf<'g>>,
        guard: &'g Guard,
    ) -> bool {
        let key = record.key();
        loop {
            let leaf = match near.filter(|leaf| leaf.covers(key)) {
                Some(leaf) => leaf.node,
                None => {
                    let Some((_, leaf)) = self.path(key, guard) else {
                        self.root.set_new(Node::leaf(), guard);
                        continue;
                    };
                    near.insert(leaf).node
                }
            };
            let Place { at, found } = leaf.search(key, guard);
            if found {
                return false;
            }
            if leaf.is_full() {
                self.make_room(key, guard);
                *near = None;
                continue;
            }
            leaf.begin();
            leaf.insert(at, record.clone(), None, guard);
            leaf.end();
            self.len.fetch_add(1, Ordering::Relaxed);
            return true;
        }
    }

    /// Splits every full node on the way to a key.
    fn make_room(&self, key: &[u8], guard: &Guard) {
        let Some(mut node) = self.root.load(guard) else {
            return;
        };
        if node.is_full() {
            let root = Node::inner();
            if let Some(link) = root.link(0) {
                link.copy(&self.root, guard);
            }
            node = self.root.set_new(root, guard);
        }
        let mut bounds = (None, None);
        while !node.is_leaf() {
            let at = Target::Of(key).kid(node, guard);
            let Some(kid) = node.kid(at, guard) else {
                return;
            };
            let range = bounds_of(node, at, bounds, guard);
            if kid.is_full() {
                split(node, at, kid, range, key, guard);
                continue;
            }
            (node, bounds) = (kid, range);
        }
    }

    /// Takes a record out; false when it is not there.
    pub(in crate::index) fn remove(
        &self,
        _: &Writing<'_>,
        record: &RecordRef,
        guard: &Guard,
    ) -> bool {
        let key = record.key();
        let Some((path, Leaf { node: leaf, .. })) = self.path(key, guard) else {
            return false;
        };
        let Place { at, found } = leaf.search(key, guard);
        let here = leaf.key(at, guard).filter(|_| found);
        if here.is_none_or(|here| here.address() != record.address()) {
            return false;
        }
        leaf.begin();
        let gone = leaf.remove(at, guard);
        leaf.end();
        if let Some(gone) = gone {
            release(gone, guard);
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        self.merge_up(&path, guard);
        true
    }

    /// Merges what has become small on the way down, from below.
    fn merge_up(&self, path: &Path<'_>, guard: &Guard) {
        for step in path.iter().rev() {
            let Some(kid) = step.node.kid(step.kid, guard) else {
                return;
            };
            if kid.count() >= WIDTH / 4 || !merge(step, guard) {
                return;
            }
        }
        // A root with one kid gives its place to it.
        while let Some(root) = self.root.load(guard)
            && !root.is_leaf()
            && root.count() == 0
            && let Some(only) = root.link(0)
        {
            let old: Link<Node> = Link::empty();
            old.copy(&self.root, guard);
            self.root.copy(only, guard);
            root.begin();
            root.end();
            old.retire(guard);
        }
    }

    /// Forgets everything.
    pub(in crate::index) fn clear(&self, _: &Writing<'_>, guard: &Guard) {
        let top: Link<Node> = Link::empty();
        top.copy(&self.root, guard);
        self.root.clear();
        self.len.store(0, Ordering::Relaxed);
        retire_all(&top, guard);
    }
}

/// Retires a subtree. It is as deep as a logarithm.
pub(super) fn retire_all(top: &Link<Node>, guard: &Guard) {
    if let Some(node) = top.load(guard) {
        for link in (0..=node.count()).filter_map(|at| node.link(at)) {
            let kid: Link<Node> = Link::empty();
            kid.copy(link, guard);
            retire_all(&kid, guard);
        }
    }
    top.retire(guard);
}

/// Splits a full kid of a node that has room, for a key that is to go there.
fn split(parent: &Node, at: usize, kid: &Node, range: Bounds<'_>, key: &[u8], guard: &Guard) {
    let Place { at: place, .. } = kid.search(key, guard);
    let count = kid.count();
    let whole = |at: usize| kid.key(at, guard).map(|record| record.record().key());
    let right = kid.alike();
    // Keys that come in order leave full nodes behind, at the end of a leaf or
    // ahead of another run's first keys; those that come nearly in order, at
    // the end of the tree, nodes with room for stragglers.
    let (ascends, at_end) = (kid.ascends(place), range.1.is_none());
    let (middle, separator) = if kid.is_leaf() {
        let middle = match place {
            0 if range.0.is_none() => 0,
            n if ascends => n,
            n if at_end && n > count * 7 / 8 => count * 7 / 8,
            _ => count / 2,
        };
        let last = middle.checked_sub(1).and_then(whole).unwrap_or(key);
        let first = whole(middle).unwrap_or(key);
        let len = common(last, first) + 1;
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
    parent.begin();
    kid.begin();
    if kid.is_leaf() {
        kid.move_tail(middle, &right, guard);
    } else {
        // The middle key goes up; its kid becomes the first of the right half.
        if let (Some(to), Some(from)) = (right.link(0), kid.link(middle + 1)) {
            to.copy(from, guard);
        }
        kid.move_tail(middle + 1, &right, guard);
        if let Some(gone) = kid.remove(middle, guard) {
            release(gone, guard);
        }
    }
    kid.set_range(range.0, Some(bound.key()), guard);
    right.set_range(Some(bound.key()), range.1, guard);
    parent.insert(at, separator, Some(right), guard);
    kid.end();
    parent.end();
}

/// Merges a small kid with a neighbour, if that is not too large.
fn merge(step: &Step<'_>, guard: &Guard) -> bool {
    let Step { node, kid, bounds } = step;
    let fits = |at: usize| {
        let (left, right) = (node.kid(at, guard)?, node.kid(at + 1, guard)?);
        let sum = left.count() + right.count() + usize::from(!left.is_leaf());
        let empty = left.count() == 0 || right.count() == 0;
        let most = if empty { WIDTH } else { WIDTH * 3 / 4 };
        (sum <= most).then_some((at, left, right))
    };
    let ahead = (*kid < node.count()).then(|| fits(*kid)).flatten();
    let Some((at, left, right)) = ahead.or_else(|| fits(kid.checked_sub(1)?)) else {
        return false;
    };
    let low = bounds_of(node, at, *bounds, guard).0;
    let high = bounds_of(node, at + 1, *bounds, guard).1;
    node.begin();
    left.begin();
    right.begin();
    if !left.is_leaf()
        && let Some(separator) = node.key(at, guard)
    {
        // It comes down between the two, with the first kid of the right one.
        left.insert(left.count(), separator.counted(), None, guard);
        if let (Some(to), Some(from)) = (left.link(left.count()), right.link(0)) {
            to.copy(from, guard);
        }
    }
    right.move_tail(0, left, guard);
    let gone: Link<Node> = Link::empty();
    if let Some(link) = node.link(at + 1) {
        gone.copy(link, guard);
    }
    if let Some(separator) = node.remove(at, guard) {
        release(separator, guard);
    }
    left.set_range(low, high, guard);
    right.end();
    left.end();
    node.end();
    gone.retire(guard);
    true
}
