//! Keys of transactions on their way from the sessions that committed them to the writer.
//!
//! The keys are not part of a commit's annotation: they would be written to disk twice, and they only determine which transactions
//! a replica may apply in parallel. A transaction whose keys the writer does not find (they arrived after its annotation, or a
//! crash lost them) depends on all before it, and all after it depend on it.

use parking_lot::Mutex;
use porpoise_rows::changes::ChangedKeys;
use std::collections::BTreeMap;

/// Maximum number of transactions whose keys are kept; when it is reached, all are discarded.
const MAX_TRANSACTIONS: usize = 65_536;

/// Keys of commits that the writer has not written yet.
#[derive(Debug, Default)]
pub struct PendingKeys(Mutex<BTreeMap<u64, ChangedKeys>>);

impl PendingKeys {
    /// Records the keys of a commit.
    pub fn note(&self, commit: u64, keys: ChangedKeys) {
        let mut pending = self.0.lock();
        if pending.len() >= MAX_TRANSACTIONS {
            pending.clear();
        }
        pending.insert(commit, keys);
    }

    /// Takes the keys of a commit; discards those of earlier ones.
    pub(crate) fn take(&self, commit: u64) -> Option<ChangedKeys> {
        let mut pending = self.0.lock();
        while let Some(first) = pending.first_entry() {
            match first.key().cmp(&commit) {
                std::cmp::Ordering::Less => drop(first.remove()),
                std::cmp::Ordering::Equal => return Some(first.remove()),
                std::cmp::Ordering::Greater => break,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_once_and_in_order() {
        let pending = PendingKeys::default();
        for commit in [5, 3, 9] {
            pending.note(commit, ChangedKeys::default());
        }
        assert!(pending.take(4).is_none());
        assert!(pending.take(5).is_some());
        assert!(pending.take(5).is_none());
        assert!(pending.take(3).is_none(), "it was forgotten");
        assert!(pending.take(9).is_some());
    }
}
