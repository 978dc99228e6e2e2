//! Keys and ranges that prepared transactions have validated, and the keys that they will write.
//!
//! A prepared transaction must not fail at its commit. What it validated is therefore protected: a
//! commit that would change it is refused. Two prepared transactions of which one writes what the
//! other has validated would refuse each other, so the second one is refused when it is prepared.
//!
//! The list is part of the sequencer, under which transactions are validated and prepared. It is empty
//! unless transactions are prepared, so that other commits pay for one comparison.

use crate::lock::TxnId;
use crate::record::InlineKey;
use crate::validate::Tracked;
use porpoise_kv::{Error, Key, Result, SpaceId};

/// Keys and ranges that one prepared transaction protects.
pub(crate) struct Protected {
    pub(crate) txn: TxnId,
    /// Validated keys and ranges.
    pub(crate) reads: Vec<Tracked>,
    /// Written keys, ascending.
    pub(crate) writes: Vec<(SpaceId, InlineKey)>,
}

impl Protected {
    fn has_read(&self, key: Key<'_>) -> bool {
        self.reads.iter().any(|read| read.contains(key))
    }

    /// Whether it has read a key that the other one writes.
    fn depends_on(&self, other: &Protected) -> bool {
        let mut writes = other.writes.iter();
        !self.reads.is_empty() && writes.any(|(space, key)| self.has_read(Key::new(*space, key)))
    }
}

/// Keys and ranges that all prepared transactions protect.
#[derive(Default)]
pub(crate) struct ProtectedReads(Vec<Protected>);

impl ProtectedReads {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of prepared transactions.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fails if a commit of these keys would change what is protected.
    pub(crate) fn check_commit<'k>(&self, mut keys: impl Iterator<Item = Key<'k>>) -> Result<()> {
        if keys.any(|key| self.0.iter().any(|protected| protected.has_read(key))) {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// Fails if a transaction cannot be prepared beside the others.
    pub(crate) fn check_prepare(&self, new: &Protected) -> Result<()> {
        let mut others = self.0.iter();
        if others.any(|other| other.depends_on(new) || new.depends_on(other)) {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, new: Protected) {
        self.0.push(new);
    }

    pub(crate) fn remove(&mut self, txn: TxnId) {
        self.0.retain(|protected| protected.txn != txn);
    }
}
