//! Annotations of commits: bytes that an engine stores with a transaction, and returns in commit order.
//!
//! A log of changes for other servers (docs/internals/replication.md) needs the rows as they were before and
//! after, in the order of the commits, and must never disagree with the data after a crash. So what it needs of
//! a transaction travels with the transaction: an engine writes the annotation and the writes together, one sync
//! makes both durable, and there is nothing to reconcile. A reader later turns annotations into files of their
//! own, syncs them, and releases the annotations.
//!
//! Guarantees of an engine with [`Capabilities::annotations`](crate::Capabilities::annotations):
//!
//! 1. A commit is recovered with its annotation, or neither is.
//! 2. A reader gets annotations of commits that are on disk, in commit order, each once, whatever the durability
//!    mode. The numbers of the commits ascend.
//! 3. An annotation is kept, through checkpoints and restarts, until a reader has released it, if the engine was
//!    opened with annotations. A transaction without writes has no annotation.
//!
//! Rejected: a second log with a two-phase commit (two syncs a group, and a recovery that compares both); rows of
//! a space (an index entry and a deletion for each transaction, and an order by key, not by commit).

use crate::{Result, SpaceId};
use std::time::Duration;

impl SpaceId {
    /// The space under whose number an engine stores annotations with the writes of a transaction; it has no rows,
    /// and nothing else writes to it.
    pub const ANNOTATIONS: SpaceId = SpaceId(61);
}

/// The annotation of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Number of the commit; later commits have greater numbers.
    pub commit: u64,
    /// The bytes given to [`Txn::annotate`](crate::Txn::annotate).
    pub bytes: Vec<u8>,
}

/// A reader of annotations: one at a time for each engine.
pub trait AnnotationReader: Send {
    /// Returns the next annotations in commit order: at least one if there is one on disk, and about
    /// `max_bytes` at most, unless the first one is longer.
    ///
    /// # Errors
    /// Those of the disk; a log that cannot be read.
    fn read(&mut self, max_bytes: usize) -> Result<Vec<Annotation>>;

    /// Waits until more may be on disk, at most for `timeout`.
    fn wait(&mut self, timeout: Duration);

    /// Position of the reader: a reader opened there returns everything that this one has not yet returned, and
    /// possibly some that it has.
    fn position(&self) -> u64;

    /// Releases the annotations before a position. The engine may remove them.
    fn release(&mut self, position: u64);
}
