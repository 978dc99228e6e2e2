//! Keys and ranges that prepared transactions have validated, and the keys that they will write.
//!
//! A prepared transaction must not fail at its commit. What it validated is therefore protected: a
//! commit that would change it is refused. Two prepared transactions of which one writes what the
//! other has validated would refuse each other, so the second one is refused when it is prepared.
//!
//! The memory of the list belongs to the store's accounted bytes, from preparation to end: of a large
//! transaction its written keys are as large as the keys of its image.
//!
//! The list is part of the sequencer, under which transactions are validated and prepared. It is empty
//! unless transactions are prepared, so that other commits pay for one comparison.

use crate::lock::TxnId;
use crate::record::InlineKey;
use crate::store::RecordStore;
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
    /// Its approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let reads = self.reads.iter().map(Tracked::bytes);
        let key = |key: &InlineKey| size_of::<(SpaceId, InlineKey)>() + key.as_slice().len();
        let writes = self.writes.iter().map(|(_, written)| key(written));
        reads.sum::<usize>() + writes.sum::<usize>()
    }

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

    /// Bytes that all of them use: part of the store's accounting.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Protected::bytes).sum()
    }

    /// Adds the keys and ranges of a transaction to the list and to the store's accounting.
    pub(crate) fn add(&mut self, new: Protected, store: &RecordStore) {
        store.add_bytes(new.bytes() as i64);
        self.0.push(new);
    }

    /// Removes those of a transaction.
    pub(crate) fn remove(&mut self, txn: TxnId, store: &RecordStore) {
        self.0.retain(|protected| {
            let stays = protected.txn != txn;
            if !stays {
                store.add_bytes(-(protected.bytes() as i64));
            }
            stays
        });
    }
}
