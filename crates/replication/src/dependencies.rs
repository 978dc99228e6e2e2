//! Dependencies between the transactions of a log, by the keys that they use: those that must be committed before another may begin.
//!
//! A transaction writes keys and references keys. It depends on the last one before it that wrote a key that it writes or
//! references, or that referenced a key that it writes. The binary log offers these dependencies to replicas
//! (`last_committed`, as MySQL with `binlog_transaction_dependency_tracking = WRITESET`); a replica here computes them from
//! the rows (`follow/write_set.rs`).

use std::collections::HashMap;

/// Maximum number of keys in the history. Beyond it the history is cleared, and the next transactions depend on all before them.
pub const MAX_KEYS: usize = 100_000;

/// The last transactions that used a key, by their numbers; 0: none.
#[derive(Clone, Copy, Default)]
struct Use {
    written: u64,
    referenced: u64,
}

/// The last transactions that used each key.
#[derive(Default)]
pub struct KeyHistory {
    uses: HashMap<u64, Use>,
    /// Every transaction depends on this one.
    floor: u64,
}

impl KeyHistory {
    /// Enters a transaction with its keys, and whether it writes each. Numbers ascend from 1. Returns the number of the last
    /// transaction that must be committed before it; 0: none.
    pub fn enter(&mut self, number: u64, keys: &[(u64, bool)]) -> u64 {
        let mut depends_on = self.floor;
        for (key, is_written) in keys {
            let Some(before) = self.uses.get(key) else {
                continue;
            };
            depends_on = depends_on.max(before.written);
            if *is_written {
                depends_on = depends_on.max(before.referenced);
            }
        }
        for (key, is_written) in keys {
            let entry = self.uses.entry(*key).or_default();
            if *is_written {
                entry.written = number;
            } else {
                entry.referenced = number;
            }
        }
        if self.uses.len() > MAX_KEYS {
            self.uses.clear();
            self.floor = number;
        }
        depends_on
    }

    /// Adds a transaction that depends on all before it, and on which all after it depend. Returns the number of its predecessor.
    pub fn add_alone(&mut self, number: u64) -> u64 {
        self.uses.clear();
        self.floor = number;
        number.saturating_sub(1)
    }

    /// Forgets all transactions.
    pub fn clear(&mut self) {
        self.uses.clear();
        self.floor = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(written: &[u64], referenced: &[u64]) -> Vec<(u64, bool)> {
        let written = written.iter().map(|key| (*key, true));
        let referenced = referenced.iter().map(|key| (*key, false));
        written.chain(referenced).collect()
    }

    #[test]
    fn transactions_on_common_keys_depend_on_each_other() {
        let (p7, p8, c1, c2) = (1, 2, 3, 4);
        let mut history = KeyHistory::default();
        assert_eq!(history.enter(1, &keys(&[p7], &[])), 0);
        assert_eq!(history.enter(2, &keys(&[c1], &[p7])), 1);
        assert_eq!(history.enter(3, &keys(&[c2], &[p7])), 1);
        assert_eq!(history.enter(4, &keys(&[p8], &[])), 0);
        assert_eq!(history.enter(5, &keys(&[c1, c2], &[p7])), 3);
        assert_eq!(history.enter(6, &keys(&[p7], &[])), 5);
    }

    #[test]
    fn a_transaction_that_runs_alone_holds_up_those_behind() {
        let mut history = KeyHistory::default();
        assert_eq!(history.enter(1, &keys(&[1], &[])), 0);
        assert_eq!(history.add_alone(2), 1);
        assert_eq!(history.enter(3, &keys(&[9], &[])), 2);
        history.clear();
        assert_eq!(history.enter(1, &keys(&[9], &[])), 0);
    }

    #[test]
    fn keys_that_were_forgotten_are_depended_on() {
        let mut history = KeyHistory::default();
        let many: Vec<u64> = (0..=MAX_KEYS as u64).collect();
        assert_eq!(history.enter(1, &keys(&many, &[])), 0);
        assert_eq!(history.enter(2, &keys(&[5], &[])), 1);
        assert_eq!(history.enter(3, &keys(&[MAX_KEYS as u64 * 2], &[])), 1);
    }
}
