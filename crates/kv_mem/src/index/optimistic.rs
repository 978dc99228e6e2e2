//! The read protocol of the index: optimistic lock coupling.
//!
//! Source: Leis et al., "The ART of Practical Synchronization", 2016. Each node is a seqlock (Boehm,
//! "Can Seqlocks Get Along With Programming Language Memory Models?", 2012): its version is odd
//! while the node changes, and grows with each change.
//!
//! ```text
//! writer                               reader
//! version = odd         (relaxed)      v = version          (acquire), waits while odd
//! fence                 (release)      reads fields         (relaxed at least)
//! writes fields         (relaxed at    fence                (acquire)
//!                        least)        version == v?        (relaxed), else starts again
//! version = next even   (release)
//! ```
//!
//! A reader that saw a field of a change passes its acquire fence after the writer's release fence,
//! so it sees the odd version, too. A reader that descends reads the child's version before it
//! validates the parent ([`descend`]): a child that was split in between is noticed.
//!
//! Invariants:
//! 1. One thread at a time changes the nodes of a tree.
//! 2. Fields of a node are atomic, so that a reader amid a change reads stale values, never torn
//!    ones.
//! 3. A change marks every node that it touches (a split or merge also marks the parent) before it
//!    writes the first field, and unmarks them after it has written the last.
//!
//! The protocol is generic over its [`Word`], so that `schedules/protocol.rs` checks this code under
//! loom, which explores weak memory orders.

use porpoise_base::sync::atomic::{AtomicU64, Ordering, fence};

/// The atomic operations that the protocol uses.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// The version of a node.
pub(crate) struct Version<W = AtomicU64>(W);

impl<W: Word> Version<W> {
    /// Creates the version of a node that no other thread can reach; `word` is 0.
    pub(crate) const fn new(word: W) -> Version<W> {
        Version(word)
    }

    /// The version, unless the node is being changed.
    #[inline]
    pub(crate) fn stable(&self) -> Option<u64> {
        let version = self.0.load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Whether the node is unchanged since [`Version::stable`] returned `version`, so that all
    /// fields read since then belong to one state.
    #[inline]
    pub(crate) fn is_unchanged(&self, version: u64) -> bool {
        W::fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }

    /// Begins a change. The caller is the writer.
    #[inline]
    pub(crate) fn begin(&self) {
        let version = self.0.load(Ordering::Relaxed);
        self.0.store(version | 1, Ordering::Relaxed);
        W::fence(Ordering::Release);
    }

    /// Ends a change.
    #[inline]
    pub(crate) fn end(&self) {
        let version = self.0.load(Ordering::Relaxed);
        self.0.store((version | 1) + 1, Ordering::Release);
    }
}

/// A concurrent change was detected: the reader must restart.
#[derive(Debug)]
pub(crate) struct Restart;

/// The outcome of a step: a child with its place, `None` at a leaf.
pub(crate) type Step<'g, D> =
    Result<Option<(&'g <D as Descent<'g>>::Node, <D as Descent<'g>>::Place)>, Restart>;

/// A tree as a descent sees it.
pub(crate) trait Descent<'g>: Sized {
    type Node: 'g;
    type Word: Word + 'g;
    /// Information about a node's position that its ancestors provide, such as the bounds of its
    /// range.
    type Place;

    fn version(node: &'g Self::Node) -> &'g Version<Self::Word>;
    /// The version of a node; waits while the node changes.
    fn wait_stable(&self, node: &'g Self::Node) -> u64;
    fn root(&self) -> Option<&'g Self::Node>;
    fn is_root(&self, node: &'g Self::Node) -> bool;
    /// Chooses the child to descend to.
    fn step(&self, node: &'g Self::Node, place: &Self::Place) -> Step<'g, Self>;
}

/// A leaf that a descent arrived at. Fields read from it are valid if its version is unchanged
/// afterwards.
pub(crate) struct Arrival<'g, D: Descent<'g>> {
    pub(crate) leaf: &'g D::Node,
    pub(crate) version: u64,
    pub(crate) place: D::Place,
}

/// Descends from the root to a leaf; `None` while there is no root.
#[inline]
pub(crate) fn descend<'g, D: Descent<'g>>(
    tree: &D,
    place: D::Place,
) -> Result<Option<Arrival<'g, D>>, Restart> {
    let (mut place, Some(mut node)) = (place, tree.root()) else {
        return Ok(None);
    };
    let mut version = tree.wait_stable(node);
    if !tree.is_root(node) {
        return Err(Restart);
    }
    while let Some((child, below)) = tree.step(node, &place)? {
        let child_version = tree.wait_stable(child);
        if !D::version(node).is_unchanged(version) {
            return Err(Restart);
        }
        (node, version, place) = (child, child_version, below);
    }
    Ok(Some(Arrival {
        leaf: node,
        version,
        place,
    }))
}
