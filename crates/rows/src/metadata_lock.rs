//! Metadata locks: a definition that a statement uses is not altered or dropped meanwhile.
//!
//! Each session *publishes* the tables that it uses in a slot of its own. A DDL statement raises a
//! *barrier* over the tables it changes, and waits until no other session's slot contains one of
//! them. While a barrier is raised, new users of its tables wait. Publishing costs an uncontended
//! lock of the session's own slot and one read of a counter that only DDL writes, so that readers
//! do not write to shared cache lines.
//!
//! Order in all code paths (transactions.md, rule 41): metadata lock, then plan check against the
//! catalog, then snapshot.
//!
//! Invariants:
//! 1. A table in a slot was published before the barrier was raised, or the slot's session owns the
//!    barrier, or the session saw no barrier after publishing. (The session publishes, then reads
//!    the barriers; DDL raises, then reads the slots. All are sequentially consistent, so one sees
//!    the other.)
//! 2. A slot is emptied only by its session, at the end of its transaction.
//! 3. A transaction never waits for a table that is in its slot: it passes barriers raised after it
//!    began to use the table.
//!
//! Rejected: a reader-writer lock per table (every statement would write to a cache line that all
//! sessions share).

use crate::definition::TableId;
use crate::progress::{Progress, Stage};
use parking_lot::{Condvar, Mutex};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::{Cancel, Reason};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Why a metadata lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataLockError {
    /// The deadline passed (1205).
    Timeout,
    /// The wait was cancelled.
    Cancelled(Reason),
}

type Tables = SmallVec<[TableId; 4]>;

#[derive(Default)]
struct Slot {
    tables: Mutex<Tables>,
}

struct Barrier {
    owner: usize,
    tables: Tables,
}

#[derive(Default)]
struct Shared {
    slots: Vec<Arc<Slot>>,
    barriers: Vec<Barrier>,
}

/// All metadata locks of a server.
#[derive(Default)]
pub struct MetadataLocks {
    standing: AtomicUsize,
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// A session's handle to the metadata locks.
pub struct MetadataLockSession {
    metadata_locks: Arc<MetadataLocks>,
    slot: Arc<Slot>,
    progress: Arc<Progress>,
}

/// A raised barrier, which is lowered on drop.
pub struct MetadataBarrier {
    metadata_locks: Arc<MetadataLocks>,
    owner: usize,
}

impl MetadataLocks {
    /// Creates a lock manager without locks.
    pub fn new() -> Arc<MetadataLocks> {
        Arc::default()
    }

    /// Registers a session.
    pub fn session(self: &Arc<Self>) -> MetadataLockSession {
        let slot = Arc::new(Slot::default());
        self.shared.lock().slots.push(slot.clone());
        MetadataLockSession {
            metadata_locks: self.clone(),
            slot,
            progress: Arc::default(),
        }
    }

    /// Waits on the condition variable until `ready`, the deadline, or a
    /// cancellation.
    fn wait_until(
        self: &Arc<Self>,
        deadline: Instant,
        cancel: &Cancel,
        ready: impl Fn(&Shared) -> bool,
    ) -> Result<(), MetadataLockError> {
        if ready(&self.shared.lock()) {
            return Ok(());
        }
        let me = self.clone();
        let _registration = cancel.register(Arc::new(move || {
            let _shared = me.shared.lock();
            me.changed.notify_all();
        }));
        blocking(|| {
            let mut shared = self.shared.lock();
            loop {
                if ready(&shared) {
                    return Ok(());
                }
                if let Some(reason) = cancel.reason() {
                    return Err(MetadataLockError::Cancelled(reason));
                }
                if self.changed.wait_until(&mut shared, deadline).timed_out() {
                    return if ready(&shared) {
                        Ok(())
                    } else {
                        Err(MetadataLockError::Timeout)
                    };
                }
            }
        })
    }
}

impl Shared {
    fn blocked(&self, owner: usize, tables: &[TableId]) -> bool {
        self.barriers
            .iter()
            .any(|b| b.owner != owner && b.tables.iter().any(|t| tables.contains(t)))
    }

    fn used_by_others(&self, own: &Arc<Slot>, tables: &[TableId]) -> bool {
        self.slots.iter().any(|slot| {
            !Arc::ptr_eq(slot, own) && slot.tables.lock().iter().any(|t| tables.contains(t))
        })
    }
}

impl MetadataLockSession {
    /// Progress of the session's DDL statement.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Waits, and shows the wait in the session's progress.
    fn wait(
        &self,
        deadline: Instant,
        cancel: &Cancel,
        ready: impl Fn(&Shared) -> bool,
    ) -> Result<(), MetadataLockError> {
        if ready(&self.metadata_locks.shared.lock()) {
            return Ok(());
        }
        self.progress.begin(Stage::WaitingForTable, "");
        let done = self.metadata_locks.wait_until(deadline, cancel, ready);
        self.progress.end();
        done
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.slot) as usize
    }

    /// Publishes `tables` until [`MetadataLockSession::release`]. Waits while another session's
    /// barrier covers one that this session does not use yet.
    pub fn share(
        &self,
        tables: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let mut added = Tables::new();
        {
            let mut mine = self.slot.tables.lock();
            for table in tables {
                if !mine.contains(table) {
                    mine.push(*table);
                    added.push(*table);
                }
            }
        }
        if added.is_empty() || self.metadata_locks.standing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.share_blocking(&added, deadline, cancel)
    }

    fn share_blocking(
        &self,
        added: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        loop {
            if !self
                .metadata_locks
                .shared
                .lock()
                .blocked(self.owner(), added)
            {
                return Ok(());
            }
            self.withdraw(added);
            self.wait(deadline, cancel, |shared| {
                !shared.blocked(self.owner(), added)
            })?;
            self.slot.tables.lock().extend(added.iter().copied());
        }
    }

    fn withdraw(&self, tables: &[TableId]) {
        self.slot.tables.lock().retain(|t| !tables.contains(t));
        self.notify();
    }

    fn notify(&self) {
        if self.metadata_locks.standing.load(Ordering::SeqCst) != 0 {
            let _shared = self.metadata_locks.shared.lock();
            self.metadata_locks.changed.notify_all();
        }
    }

    /// Withdraws all published tables at the end of the transaction.
    pub fn release(&self) {
        {
            let mut mine = self.slot.tables.lock();
            if mine.is_empty() {
                return;
            }
            mine.clear();
        }
        self.notify();
    }

    /// Raises a barrier over `tables`, and waits until no other session uses one of them and no
    /// other barrier covers one. Barriers are granted one at a time, so that two DDL statements
    /// cannot deadlock.
    pub fn exclude(
        &self,
        tables: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<MetadataBarrier, MetadataLockError> {
        let owner = self.owner();
        loop {
            self.wait(deadline, cancel, |shared| !shared.blocked(owner, tables))?;
            let mut shared = self.metadata_locks.shared.lock();
            if !shared.blocked(owner, tables) {
                shared.barriers.push(Barrier {
                    owner,
                    tables: tables.iter().copied().collect(),
                });
                self.metadata_locks.standing.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        let barrier = MetadataBarrier {
            metadata_locks: self.metadata_locks.clone(),
            owner,
        };
        self.wait(deadline, cancel, |shared| {
            !shared.used_by_others(&self.slot, tables)
        })?;
        Ok(barrier)
    }
}

impl Drop for MetadataLockSession {
    fn drop(&mut self) {
        self.release();
        let mut shared = self.metadata_locks.shared.lock();
        shared.slots.retain(|s| !Arc::ptr_eq(s, &self.slot));
        self.metadata_locks.changed.notify_all();
    }
}

impl Drop for MetadataBarrier {
    fn drop(&mut self) {
        let mut shared = self.metadata_locks.shared.lock();
        let at = shared.barriers.iter().rposition(|b| b.owner == self.owner);
        if let Some(at) = at {
            shared.barriers.remove(at);
            self.metadata_locks.standing.fetch_sub(1, Ordering::SeqCst);
        }
        self.metadata_locks.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const T: TableId = TableId(1);
    const U: TableId = TableId(2);

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn a_barrier_waits_for_users_and_times_out() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        a.share(&[T], soon(), &Cancel::new()).unwrap();
        let err = b.exclude(&[T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        assert!(b.exclude(&[U], soon(), &Cancel::new()).is_ok());
        a.release();
        assert!(b.exclude(&[T], soon(), &Cancel::new()).is_ok());
    }

    #[test]
    fn a_barrier_blocks_new_users_but_not_those_that_use_the_table() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        a.share(&[U], soon(), &Cancel::new()).unwrap();
        let barrier = b.exclude(&[T], soon(), &Cancel::new()).unwrap();
        a.share(&[U], soon(), &Cancel::new()).unwrap();
        let err = a.share(&[T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        drop(barrier);
        a.share(&[T], soon(), &Cancel::new()).unwrap();
    }

    #[test]
    fn the_owner_of_a_barrier_uses_its_tables() {
        let metadata_locks = MetadataLocks::new();
        let a = metadata_locks.session();
        let _barrier = a.exclude(&[T], soon(), &Cancel::new()).unwrap();
        a.share(&[T], soon(), &Cancel::new()).unwrap();
    }

    #[test]
    fn a_wait_ends_when_cancelled() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        a.share(&[T], soon(), &Cancel::new()).unwrap();
        let cancel = Cancel::new();
        let other = cancel.clone();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.cancel(Reason::Query);
        });
        let err = b.exclude(&[T], late(), &cancel).err();
        assert_eq!(err, Some(MetadataLockError::Cancelled(Reason::Query)));
        killer.join().unwrap();
        // The barrier is gone with the failed attempt.
        assert!(
            metadata_locks
                .session()
                .share(&[T], soon(), &Cancel::new())
                .is_ok()
        );
    }

    #[test]
    fn sessions_and_barriers_never_overlap() {
        let metadata_locks = MetadataLocks::new();
        let users = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (metadata_locks, users) = (metadata_locks.clone(), users.clone());
                scope.spawn(move || {
                    let s = metadata_locks.session();
                    for _ in 0..300 {
                        s.share(&[T], late(), &Cancel::new()).unwrap();
                        users.fetch_add(1, Ordering::SeqCst);
                        users.fetch_sub(1, Ordering::SeqCst);
                        s.release();
                    }
                });
            }
            for _ in 0..2 {
                let (metadata_locks, users) = (metadata_locks.clone(), users.clone());
                scope.spawn(move || {
                    let s = metadata_locks.session();
                    for _ in 0..100 {
                        let b = s.exclude(&[T], late(), &Cancel::new()).unwrap();
                        assert_eq!(users.load(Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(users.load(Ordering::SeqCst), 0);
                        drop(b);
                    }
                });
            }
        });
    }
}
