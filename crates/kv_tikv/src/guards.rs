//! Key-share locks by guards: children of one parent are inserted at the same time.
//!
//! TiKV's locks are exclusive. Foreign-key checks that lock the parent would make inserts of its children wait for each
//! other. So a key-share lock is a lock on a *guard* instead: one of [`SLOTS`] keys that belong to the parent's key. A transaction
//! that excludes key-share locks takes all of them:
//!
//! ```text
//! insert child of P   guard (P, slot 7), guard (space, slot 7); reads P
//! insert child of P   guard (P, slot 8), guard (space, slot 8); reads P
//! update P            P
//! delete P            P, then guards (P, 0) to (P, 63)                     waits for both children
//! delete many         their keys, then guards (space, 0) to (space, 63)    waits for children of all parents
//! insert P            P, which is absent: no guard
//! ```
//!
//! A guard is locked like a key, and takes part in the commit as a lock-only mutation, so that the commit fails if the lock
//! was lost; it never has a value. A transaction uses the same slot for all parents; transactions of one server
//! have different slots, as long as there are enough.
//!
//! **Reading the parent.** It is read at the timestamp *T* of the lock request, at the same time as the guards are locked. If they are
//! granted without a newer version, no transaction that excludes key-share locks has committed since *T*, nor can one before this
//! transaction ends, so the value that was read is current. Otherwise the parent is read again. The key of an absent parent is
//! locked itself: it stays absent, and if another transaction is inserting it, the lock waits for that transaction.
//!
//! **Which keys have guards.** Those of spaces that foreign keys reference; `rows` sets them ([`Guards::set_referenced`]) before
//! it uses a definition with a new foreign key. In other spaces a key-share lock is a lock of the key.
//!
//! Invariants:
//! 1. A transaction that has changed or removed a present key of a referenced space under an exclusive lock holds all its guards, or
//!    all guards of the space.
//! 2. A transaction with a key-share lock holds a guard of the key and one of the space, or the key.
//!
//! Rejected: TiKV's shared locks (from 8.5.6): a transaction with one commits neither in one phase nor asynchronously, which
//! costs a timestamp and a request more than guards do; guards for absent keys (64 for each row inserted into a parent table); a
//! random slot for each guard (two children, each of the same two parents, could deadlock).

use parking_lot::{Mutex, RwLock};
use porpoise_kv::SpaceId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of guards of a key, and of a space.
pub(crate) const SLOTS: u8 = 64;
/// Maximum number of keys of a space whose guards one call takes; for more keys it takes the guards of the space.
const KEYS_OF_A_CALL: usize = 16;
/// Maximum number of keys' guards that a transaction takes to exclude key-share locks; beyond it, it takes those of spaces.
const GUARDS_OF_A_TRANSACTION: usize = 1024;

/// The spaces whose keys have guards.
enum Referenced {
    Spaces(HashSet<SpaceId>),
    /// All of them, in tests of the contract.
    All,
}

/// The guards of a server.
pub(crate) struct Guards {
    referenced: RwLock<Referenced>,
    /// Transactions that have each slot.
    users: Mutex<[u32; SLOTS as usize]>,
    /// The first slot that is given out, so that servers begin with different ones.
    first: u8,
}

impl Guards {
    /// Without referenced spaces yet. `server` is a number that other servers do not have.
    pub(crate) fn new(server: u64) -> Guards {
        // Multiplicative hashing, to six bits.
        let first = server.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        Guards {
            referenced: RwLock::new(Referenced::Spaces(HashSet::new())),
            users: Mutex::new([0; SLOTS as usize]),
            first: first as u8,
        }
    }

    /// Replaces the list of the referenced spaces.
    pub(crate) fn set_referenced(&self, spaces: HashSet<SpaceId>) {
        *self.referenced.write() = Referenced::Spaces(spaces);
    }

    /// Takes all spaces for referenced.
    pub(crate) fn set_all_referenced(&self) {
        *self.referenced.write() = Referenced::All;
    }

    /// Whether keys of a space have guards.
    pub(crate) fn is_referenced(&self, space: SpaceId) -> bool {
        match &*self.referenced.read() {
            Referenced::Spaces(spaces) => spaces.contains(&space),
            Referenced::All => true,
        }
    }

    /// The slot that the fewest transactions have.
    fn take_slot(self: &Arc<Self>) -> Slot {
        let mut users = self.users.lock();
        let mut best = (u32::MAX, 0);
        for n in 0..SLOTS {
            let slot = (self.first + n) % SLOTS;
            let count = users.get(usize::from(slot)).copied().unwrap_or(u32::MAX);
            if count < best.0 {
                best = (count, slot);
            }
        }
        if let Some(count) = users.get_mut(usize::from(best.1)) {
            *count += 1;
        }
        Slot {
            guards: self.clone(),
            number: best.1,
        }
    }
}

/// A slot in use.
struct Slot {
    guards: Arc<Guards>,
    number: u8,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut users = self.guards.users.lock();
        if let Some(count) = users.get_mut(usize::from(self.number)) {
            *count -= 1;
        }
    }
}

/// The guards that a transaction has taken.
#[derive(Default)]
pub(crate) struct HeldGuards {
    slot: Option<Slot>,
    /// Framed values of the keys that it has key-share locks on, at the time of the lock.
    parents: HashMap<Vec<u8>, Vec<u8>>,
    /// Keys of which it has all guards.
    keys: HashSet<Vec<u8>>,
    /// Spaces of which it has all guards.
    spaces: HashSet<SpaceId>,
    /// Guards of keys that exclude key-share locks.
    excluding: usize,
}

impl HeldGuards {
    /// The transaction's slot.
    pub(crate) fn slot(&mut self, guards: &Arc<Guards>) -> u8 {
        self.slot.get_or_insert_with(|| guards.take_slot()).number
    }

    /// Records a key-share lock on a key that exists.
    pub(crate) fn add_parent(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.parents.insert(key, value);
    }

    /// The value of a key with a key-share lock.
    pub(crate) fn parent(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.parents.get(key)
    }

    /// Whether all guards of a key are held.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// Whether all guards of a space are held.
    pub(crate) fn has_space(&self, space: SpaceId) -> bool {
        self.spaces.contains(&space)
    }

    /// Decides whether the guards of `keys` more keys of a space are taken, rather than those of the space; if so, counts them.
    pub(crate) fn admits_keys(&mut self, keys: usize) -> bool {
        let more = keys * usize::from(SLOTS);
        let admitted = keys <= KEYS_OF_A_CALL && self.excluding + more <= GUARDS_OF_A_TRANSACTION;
        if admitted {
            self.excluding += more;
        }
        admitted
    }

    /// Records that all guards of keys and of spaces are held.
    pub(crate) fn add_excluded(&mut self, keys: Vec<Vec<u8>>, spaces: Vec<SpaceId>) {
        self.keys.extend(keys);
        self.spaces.extend(spaces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_of_a_server_have_different_slots_while_there_are_enough() {
        let guards = Arc::new(Guards::new(41));
        let mut all: Vec<HeldGuards> = Vec::new();
        let mut slots = HashSet::new();
        for _ in 0..SLOTS {
            let mut held = HeldGuards::default();
            let slot = held.slot(&guards);
            assert_eq!(held.slot(&guards), slot);
            assert!(slots.insert(slot));
            all.push(held);
        }
        let mut shared = HeldGuards::default();
        assert!(shared.slot(&guards) < SLOTS);
        let free = all.remove(5).slot(&guards);
        assert_eq!(HeldGuards::default().slot(&guards), free);
    }

    #[test]
    fn many_keys_take_the_guards_of_their_space() {
        let mut held = HeldGuards::default();
        assert!(!held.admits_keys(17));
        assert!(held.admits_keys(15));
        assert!(held.admits_keys(1));
        assert!(!held.admits_keys(1));
        assert!(!held.has_space(SpaceId(9)));
        held.add_excluded(vec![b"k".to_vec()], vec![SpaceId(9)]);
        assert!(held.has_space(SpaceId(9)) && held.has_key(b"k") && !held.has_key(b"l"));
    }
}
