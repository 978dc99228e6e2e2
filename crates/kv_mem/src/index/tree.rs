//! The ordered index: a B+tree that readers walk without a latch.
//!
//! Readers go down noting versions: a kid's before the parent's is looked at
//! again, so that a kid that no longer covers the key is noticed. They begin
//! again at the root when something changed. Writers take the one mutex of the
//! tree and mark what they change; commits of one engine are sequenced anyway,
//! and a change takes some hundred nanoseconds.
//!
//! Invariants:
//! 1. Keys of a subtree are at or above the separator on its left and below
//!    the one on its right. Separators are records of their own, as short as
//!    will do, that are in no leaf.
//! 2. All leaves are equally deep.
//! 3. All nodes that a change touches are marked until it is whole: a split
//!    its parent and both halves, a merge likewise.
//! 4. A leaf with less than a quarter of its keys is merged with a neighbour
//!    of the same parent where both fit into three quarters of one.
//! 5. A reader does not meet a change of its own thread: it would wait for
//!    ever. So nothing is looked up amid a change.
//!
//! Rejected: latches coupled from node to node for writers (several at a time
//! win nothing on few cores, behind one sequencer); a trie by bytes (a third
//! faster on long keys at best, and twice the code); whole keys in the nodes
//! (24 bytes a row more, for an entry that a hash path answers mostly).

use super::Walk;
use super::cell::{Link, release};
use super::node::{Node, Place, WIDTH, common};
use crate::record::{InlineKey, Pinned, RecordRef};
use crossbeam_epoch::Guard;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A reader that meets a change spins so often before it waits for its end.
const SPINS: usize = 100;

/// The ordered index of one space.
pub(super) struct Tree {
    root: Link<Node>,
    writer: Mutex<()>,
    len: AtomicUsize,
}

/// Whoever holds this is the writer.
pub(super) type Writing<'t> = MutexGuard<'t, ()>;

/// Which leaf is wanted.
#[derive(Clone, Copy)]
enum Target<'k> {
    /// The one in whose range the key lies.
    Of(&'k [u8]),
    /// The one with the greatest keys below.
    Below(&'k [u8]),
    /// The last one.
    Last,
}

impl Target<'_> {
    /// Which kid of an inner node leads there.
    fn kid(self, node: &Node, guard: &Guard) -> usize {
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

/// The keys between which a subtree's keys are.
type Bounds<'g> = (Option<&'g [u8]>, Option<&'g [u8]>);

/// A leaf as a reader met it.
struct Met<'g> {
    leaf: &'g Node,
    version: u64,
    bounds: Bounds<'g>,
}

impl Met<'_> {
    /// Which of its keys lie between two bounds. A node is not searched for
    /// keys outside its range: it knows only what differs inside.
    fn between(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, guard: &Guard) -> Range<usize> {
        let (low, high) = self.bounds;
        let is_before = |key: &[u8]| low.is_some_and(|low| key < low);
        let is_behind = |key: &[u8]| high.is_some_and(|high| key >= high);
        let from = match lower {
            Bound::Included(key) if !is_before(key) => self.leaf.search(key, guard).at,
            Bound::Excluded(key) if !is_before(key) => behind(self.leaf.search(key, guard)),
            _ => 0,
        };
        let to = match upper {
            Bound::Excluded(key) if !is_behind(key) => self.leaf.search(key, guard).at,
            Bound::Included(key) if !is_behind(key) => behind(self.leaf.search(key, guard)),
            _ => self.leaf.count(),
        };
        from..to
    }
}

/// An inner node on the writer's way down, and the kid it went to.
struct Step<'g> {
    node: &'g Node,
    kid: usize,
    bounds: Bounds<'g>,
}

/// A leaf as the writer found it.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'g> {
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
    pub(super) fn new() -> Tree {
        Tree {
            root: Link::empty(),
            writer: Mutex::new(()),
            len: AtomicUsize::new(0),
        }
    }

    /// Becomes the writer.
    pub(super) fn write(&self) -> Writing<'_> {
        self.writer.lock()
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// A version of a node that nobody changes.
    fn stable(&self, node: &Node) -> u64 {
        loop {
            for _ in 0..SPINS {
                if let Some(version) = node.stable() {
                    return version;
                }
                std::hint::spin_loop();
            }
            // The writer may have lost its core.
            drop(self.writer.lock());
        }
    }

    /// The leaf that is wanted; `None` while there is no key.
    fn meet<'g>(&self, target: Target<'_>, guard: &'g Guard) -> Option<Met<'g>> {
        'again: loop {
            let mut node = self.root.load(guard)?;
            let mut version = self.stable(node);
            if !self.root.is(node, guard) {
                continue;
            }
            let mut bounds: Bounds<'g> = (None, None);
            while !node.is_leaf() {
                let at = target.kid(node, guard);
                let kid = node.kid(at, guard);
                let key = |at| node.key(at, guard).map(|sep| sep.record().key());
                let low = at.checked_sub(1).and_then(key).or(bounds.0);
                let high = (at < node.count()).then(|| key(at)).flatten().or(bounds.1);
                let Some(kid) = kid else {
                    continue 'again;
                };
                let below = self.stable(kid);
                if !node.unchanged(version) {
                    continue 'again;
                }
                (node, version, bounds) = (kid, below, (low, high));
            }
            return Some(Met {
                leaf: node,
                version,
                bounds,
            });
        }
    }

    /// The record of a key.
    pub(super) fn find<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Pinned<'g>> {
        loop {
            let met = self.meet(Target::Of(key), guard)?;
            let Place { at, found } = met.leaf.search(key, guard);
            let record = met.leaf.key(at, guard).filter(|_| found);
            if met.leaf.unchanged(met.version) {
                return record;
            }
        }
    }

    /// Shows the records between two bounds in order, at most `step` of them.
    pub(super) fn walk<'g>(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        step: usize,
        guard: &'g Guard,
        visit: &mut dyn FnMut(Pinned<'g>) -> ControlFlow<()>,
    ) -> Walk {
        let (mut lower, mut upper) = (lower, upper);
        let mut left = step.max(1);
        let mut run: SmallVec<[Pinned<'g>; 64]> = SmallVec::new();
        loop {
            let target = match (reverse, lower, upper) {
                (false, Bound::Unbounded, _) => Target::Of(&[]),
                (false, Bound::Included(key) | Bound::Excluded(key), _) => Target::Of(key),
                (true, _, Bound::Unbounded) => Target::Last,
                (true, _, Bound::Included(key)) => Target::Of(key),
                (true, _, Bound::Excluded(key)) => Target::Below(key),
            };
            let Some(met) = self.meet(target, guard) else {
                return Walk::Done;
            };
            let part = met.between(lower, upper, guard);
            run.clear();
            run.extend(part.filter_map(|at| met.leaf.key(at, guard)));
            if !met.leaf.unchanged(met.version) {
                continue;
            }
            if reverse {
                run.reverse();
            }
            for record in &run {
                if visit(*record).is_break() {
                    return Walk::Broken;
                }
                left -= 1;
                if left == 0 {
                    return Walk::Paused(InlineKey::from_slice(record.key()));
                }
            }
            // The bounds of the leaf say where its neighbour begins.
            match (reverse, met.bounds) {
                (false, (_, Some(high))) if !above(high, upper) => lower = Bound::Included(high),
                (true, (Some(low), _)) if !below(low, lower) => upper = Bound::Excluded(low),
                _ => return Walk::Done,
            }
        }
    }

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
    pub(super) fn get_or_insert(
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
    pub(super) fn insert<'g>(
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
    pub(super) fn remove(&self, _: &Writing<'_>, record: &RecordRef, guard: &Guard) -> bool {
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
    pub(super) fn clear(&self, _: &Writing<'_>, guard: &Guard) {
        let top: Link<Node> = Link::empty();
        top.copy(&self.root, guard);
        self.root.clear();
        self.len.store(0, Ordering::Relaxed);
        retire_all(&top, guard);
    }

    /// How many leaves there are.
    #[cfg(test)]
    pub(super) fn leaves(&self, guard: &Guard) -> usize {
        let mut open: Vec<&Node> = self.root.load(guard).into_iter().collect();
        let mut leaves = 0;
        while let Some(node) = open.pop() {
            leaves += usize::from(node.is_leaf());
            open.extend((0..=node.count()).filter_map(|at| node.kid(at, guard)));
        }
        leaves
    }

    /// Checks all invariants; for `verify`. Shows every record.
    pub(super) fn check<'g>(
        &self,
        _: &Writing<'_>,
        guard: &'g Guard,
        seen: &mut dyn FnMut(Pinned<'g>) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(root) = self.root.load(guard) else {
            return Ok(());
        };
        let mut open = vec![(root, 0, (None, None))];
        let (mut leaves, mut count) = (None, 0);
        while let Some((node, depth, bounds)) = open.pop() {
            node.check(bounds.0, bounds.1, guard)?;
            if node.is_leaf() {
                if *leaves.get_or_insert(depth) != depth {
                    return Err(format!("leaves at {depth} and elsewhere"));
                }
                count += node.count();
                for at in 0..node.count() {
                    node.key(at, guard).map_or(Ok(()), &mut *seen)?;
                }
                continue;
            }
            for at in (0..=node.count()).rev() {
                let Some(kid) = node.kid(at, guard) else {
                    return Err(format!("no kid at {at} of {}", node.count()));
                };
                open.push((kid, depth + 1, bounds_of(node, at, bounds, guard)));
            }
        }
        if count != self.len() {
            return Err(format!("{count} keys, {} were counted", self.len()));
        }
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        retire_all(&self.root, &guard);
    }
}

/// Retires a subtree. It is as deep as a logarithm.
fn retire_all(top: &Link<Node>, guard: &Guard) {
    if let Some(node) = top.load(guard) {
        for link in (0..=node.count()).filter_map(|at| node.link(at)) {
            let kid: Link<Node> = Link::empty();
            kid.copy(link, guard);
            retire_all(&kid, guard);
        }
    }
    top.retire(guard);
}

fn behind(place: Place) -> usize {
    place.at + usize::from(place.found)
}

/// Whether everything from a key on is above an upper bound.
fn above(key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => false,
        Bound::Included(bound) => key > bound,
        Bound::Excluded(bound) => key >= bound,
    }
}

/// Whether everything before a key is below a lower bound.
fn below(key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) | Bound::Excluded(bound) => key <= bound,
    }
}

/// The bounds of a kid.
fn bounds_of<'g>(node: &Node, at: usize, own: Bounds<'g>, guard: &'g Guard) -> Bounds<'g> {
    let key = |at: usize| node.key(at, guard).map(|sep| sep.record().key());
    (
        at.checked_sub(1).and_then(key).or(own.0),
        (at < node.count()).then(|| key(at)).flatten().or(own.1),
    )
}

/// Splits a full kid of a node that has room, for a key that is to go there.
fn split(parent: &Node, at: usize, kid: &Node, range: Bounds<'_>, key: &[u8], guard: &Guard) {
    let Place { at: place, .. } = kid.search(key, guard);
    let count = kid.count();
    let whole = |at: usize| kid.key(at, guard).map(|record| record.record().key());
    let right = kid.alike();
    // Keys that come in order leave full nodes behind.
    let (middle, separator) = if kid.is_leaf() {
        let middle = match place {
            0 if range.0.is_none() => 0,
            n if n == count => count,
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
