//! The budget of one listener: its connections, and those before login.
//!
//! Listeners share `max_connections`. Each has a guaranteed share, which other
//! listeners cannot use, so that none of them makes another one unreachable.
//! Connections before login have a limit of their own per listener; past it a
//! newcomer evicts the oldest one, as SYN caches evict entries, so that clients
//! that never log in cannot keep out those that do.
//!
//! Invariants:
//! 1. `connections` counts a socket from its acceptance until its group closes
//!    it; `before_login` until its session has logged in, or it is closed.
//! 2. A connection is evicted at most once, and only before its login.
//! 3. If the newcomer's address has connections before login, the oldest of them
//!    is evicted: a flood from one address evicts its own connections first.
//! 4. An eviction that finds no candidate (the older connections have not reached
//!    their groups) is made up for when one of them does, so that the connections
//!    past the limit are on their way to their end.
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

/// Connection counts of one listener; see the module.
#[derive(Default)]
pub(crate) struct Budget {
    connections: AtomicUsize,
    before_login: AtomicUsize,
    evictions: Mutex<Evictions>,
}

#[derive(Default)]
struct Evictions {
    /// By connection number: the oldest comes first.
    candidates: BTreeMap<u64, Candidate>,
    /// Newcomers whose eviction found no candidate, in the order of their numbers.
    owed_evictions: Vec<(u64, Option<IpAddr>)>,
}

impl Evictions {
    /// Executes one owed eviction, if there is a candidate for it.
    fn execute_owed(&mut self) {
        let Some((oldest, _)) = self.candidates.first_key_value() else {
            return;
        };
        // Earlier newcomers have lower numbers than every candidate, so none of these is older.
        let place = self.owed_evictions.partition_point(|(id, _)| id < oldest);
        if let Some((id, address)) = self.owed_evictions.get(place).copied()
            && self.evict_for(id, address)
        {
            self.owed_evictions.remove(place);
        }
    }

    /// Evicts the oldest candidate that is older than connection `id`: the oldest
    /// from `address`, else of the listener. False if there is none.
    fn evict_for(&mut self, id: u64, address: Option<IpAddr>) -> bool {
        let mut older = self.candidates.range(..id);
        let oldest = older.clone().next();
        let same = older.find(|(_, c)| c.address == address);
        let Some(evicted) = same.or(oldest).map(|(id, _)| *id) else {
            return false;
        };
        if let Some(Candidate { group, token, .. }) = self.candidates.remove(&evicted) {
            group.send(|inbox| inbox.evicted.push(token));
        }
        true
    }
}

impl Budget {
    /// Counts an accepted socket.
    pub(super) fn accept(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        self.before_login.fetch_add(1, Ordering::SeqCst);
    }

    /// Records the group and token of a connection, so that it can be evicted.
    pub(super) fn admit(&self, id: u64, address: Option<IpAddr>, group: Arc<Group>, token: Token) {
        let candidate = Candidate {
            address,
            group,
            token,
        };
        let mut evictions = self.evictions.lock();
        evictions.candidates.insert(id, candidate);
        evictions.execute_owed();
    }

    /// Removes a connection from the count before login: it has logged in, or ends.
    pub(super) fn end_login(&self, id: u64) {
        self.evictions.lock().candidates.remove(&id);
        self.before_login.fetch_sub(1, Ordering::SeqCst);
    }

    /// Removes a closed connection from the count.
    pub(super) fn close(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Number of open connections of this listener.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Number of connections of this listener before login.
    pub(super) fn before_login(&self) -> usize {
        self.before_login.load(Ordering::SeqCst)
    }

    /// Makes room for connection `id` from `address` where `limit` connections are
    /// before login: evicts one, now or as soon as there is a candidate.
    pub(super) fn make_room(&self, id: u64, address: Option<IpAddr>, limit: usize) {
        let mut evictions = self.evictions.lock();
        if self.before_login() < limit {
            evictions.owed_evictions.clear();
        } else if !evictions.evict_for(id, address) {
            evictions.owed_evictions.push((id, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, n]))
    }

    fn token(index: u32) -> Token {
        Token {
            index,
            generation: 0,
        }
    }

    fn evicted(group: &Group) -> Vec<u32> {
        let tokens = group.take_inbox().evicted;
        tokens.iter().map(|token| token.index).collect()
    }

    #[test]
    fn the_oldest_of_the_same_address_makes_room_else_the_oldest() {
        let (group, _epoll) = Group::new(0).unwrap();
        let group = Arc::new(group);
        let budget = Budget::default();
        for (id, n) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            budget.accept();
            budget.admit(u64::from(id), address(n), group.clone(), token(id));
        }
        assert_eq!((budget.connections(), budget.before_login()), (4, 4));
        budget.make_room(5, address(2), 5);
        assert!(evicted(&group).is_empty(), "the limit is not reached");
        budget.make_room(5, address(2), 4);
        budget.make_room(6, address(9), 4);
        assert_eq!(evicted(&group), [2, 1]);
        budget.end_login(3);
        budget.end_login(4);
        assert_eq!(budget.before_login(), 2, "evicted ones count until closed");
    }

    #[test]
    fn an_eviction_without_a_candidate_is_made_up_for() {
        let (group, _epoll) = Group::new(0).unwrap();
        let group = Arc::new(group);
        let budget = Budget::default();
        for id in 1..=5 {
            budget.make_room(id, address(1), 2);
            budget.accept();
        }
        assert!(evicted(&group).is_empty(), "none has reached its group");
        // A newcomer never evicts itself, nor a younger one.
        for id in [5, 1, 2, 3, 4] {
            budget.admit(id, address(1), group.clone(), token(id as u32));
        }
        assert_eq!(evicted(&group), [1, 2, 3]);
    }
}
