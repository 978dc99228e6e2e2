//! The budget of one listener: its connections, and those before login.
//!
//! Listeners share `max_connections`. Each has a guaranteed share, which other
//! listeners cannot use, so that none of them makes another one unreachable. Connections before login have a limit of their own per listener;
//! past it a newcomer evicts the oldest one, as SYN caches evict entries, so that
//! clients that never log in cannot keep out those that do.
//!
//! Invariants:
//! 1. `connections` counts a socket from its acceptance until its group closes
//!    it; `half_open` until its session has logged in, or it is closed.
//! 2. A connection is evicted at most once, and only before its login.
//! 3. If the newcomer's address has connections before login, the oldest of them
//!    is evicted: a flood from one address evicts its own connections first.
//!
//! Rejected: leaving newcomers in the listen queue until a login times out (a
//! client that opens connections faster than `connect_timeout` ends them keeps
//! all others out); refusing the newcomer (the same).

use super::group::{Group, Token};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A connection before login, which can be evicted.
struct Candidate {
    address: Option<IpAddr>,
    group: Arc<Group>,
    token: Token,
}

/// Counters of one listener; see the module.
#[derive(Default)]
pub(crate) struct Budget {
    connections: AtomicUsize,
    half_open: AtomicUsize,
    /// By connection number: the oldest comes first.
    candidates: Mutex<BTreeMap<u64, Candidate>>,
}

impl Budget {
    /// Counts an accepted socket.
    pub(super) fn accept(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        self.half_open.fetch_add(1, Ordering::SeqCst);
    }

    /// Records the group and token of a connection, so that it can be evicted.
    pub(super) fn admit(&self, id: u64, address: Option<IpAddr>, group: Arc<Group>, token: Token) {
        let candidate = Candidate {
            address,
            group,
            token,
        };
        self.candidates.lock().insert(id, candidate);
    }

    /// Counts a connection out of those before login: it has logged in, or ends.
    pub(super) fn end_login(&self, id: u64) {
        self.candidates.lock().remove(&id);
        self.half_open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts a closed connection out.
    pub(super) fn close(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Number of open connections of this listener.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Number of connections of this listener before login.
    pub(super) fn half_open(&self) -> usize {
        self.half_open.load(Ordering::SeqCst)
    }

    /// Evicts the oldest connection before login: the oldest from `address`, else
    /// of the listener. False if there is none.
    pub(super) fn evict_for(&self, address: Option<IpAddr>) -> bool {
        let mut candidates = self.candidates.lock();
        let same = candidates.iter().find(|(_, c)| c.address == address);
        let Some(id) = same.map(|(id, _)| *id).or_else(|| {
            let first = candidates.first_key_value();
            first.map(|(id, _)| *id)
        }) else {
            return false;
        };
        let evicted = candidates.remove(&id);
        drop(candidates);
        if let Some(Candidate { group, token, .. }) = evicted {
            group.leave(|inbox| inbox.evicted.push(token));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_same_address_makes_room_else_the_oldest() {
        let (group, _epoll) = Group::new(0).unwrap();
        let group = Arc::new(group);
        let budget = Budget::default();
        let address = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
        for (id, n) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            budget.accept();
            let token = Token {
                index: id,
                generation: 0,
            };
            budget.admit(u64::from(id), address(n), group.clone(), token);
        }
        assert_eq!((budget.connections(), budget.half_open()), (4, 4));
        assert!(budget.evict_for(address(2)));
        assert!(budget.evict_for(address(9)));
        let order: Vec<_> = group.take_inbox().evicted;
        assert_eq!(order.iter().map(|t| t.index).collect::<Vec<_>>(), [2, 1]);
        budget.end_login(3);
        budget.end_login(4);
        assert!(!budget.evict_for(address(1)), "nothing is left to evict");
        assert_eq!(budget.half_open(), 2, "evicted ones count until closed");
    }
}
