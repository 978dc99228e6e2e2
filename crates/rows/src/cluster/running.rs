//! The statements of this server that have announced changes.

use super::Membership;
use crate::catalog::ChangeKey;
use std::collections::{BTreeSet, HashMap};

/// The announced changes of this server, by the identity of their sessions.
#[derive(Default)]
pub(super) struct Running {
    last: u64,
    by_session: HashMap<usize, Vec<ChangeKey>>,
}

impl Membership {
    pub(super) fn running_statements(&self) -> BTreeSet<u64> {
        let running = self.statements.lock();
        let keys = running.by_session.values().flatten();
        keys.map(|key| key.1).collect()
    }

    /// The announced changes of the statement that a session runs.
    pub(crate) fn changes_of(&self, session: usize) -> Vec<ChangeKey> {
        let running = self.statements.lock();
        running
            .by_session
            .get(&session)
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn register(&self, session: usize) -> ChangeKey {
        let mut running = self.statements.lock();
        running.last += 1;
        let key = (self.id, running.last);
        running.by_session.entry(session).or_default().push(key);
        key
    }

    pub(crate) fn unregister(&self, session: usize, key: ChangeKey) {
        let mut running = self.statements.lock();
        if let Some(keys) = running.by_session.get_mut(&session) {
            keys.retain(|k| *k != key);
            if keys.is_empty() {
                running.by_session.remove(&session);
            }
        }
    }
}
