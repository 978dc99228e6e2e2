//! Metadata locks: nothing a statement uses is altered or dropped under it.
//!
//! Sessions that use tables *publish* them in a slot of their own; a DDL
//! statement raises a *barrier* over the tables it changes and waits until no
//! other session's slot holds one of them. While the barrier stands, new
//! users of those tables wait in front of it. Publishing costs an
//! uncontended lock of the session's own slot and one read of a counter that
//! only DDL writes, so readers share no written cache line.
//!
//! Order everywhere (transactions.md, rule 41): metadata lock, then plan
//! check against the catalog, then snapshot.
//!
//! Invariants:
//! 1. A table in a slot was put there before the barrier was raised, or the
//!    barrier's owner is the slot's session, or the session saw no barrier
//!    after publishing. (Publish, then look; raise, then look: one of the two
//!    sees the other. Both sides use sequentially consistent operations.)
//! 2. A slot is emptied only by its session, at the end of its transaction.
//! 3. A table once in the slot is never waited for again: a transaction
//!    passes a barrier raised after it began to use the table.
//!
//! Rejected: one reader-writer lock a table (every statement would write a
//! cache line that all sessions share).

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
pub enum MdlError {
    /// The deadline passed (1205).
    Timeout,
    /// The wait was ended from outside.
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
pub struct Mdl {
    standing: AtomicUsize,
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// One session's part in the metadata locks.
pub struct MdlSession {
    mdl: Arc<Mdl>,
    slot: Arc<Slot>,
    progress: Arc<Progress>,
}

/// A raised barrier; lowered when dropped.
pub struct MdlBarrier {
    mdl: Arc<Mdl>,
    owner: usize,
}

impl Mdl {
    /// No locks.
    pub fn new() -> Arc<Mdl> {
        Arc::default()
    }

    /// Registers a session.
    pub fn session(self: &Arc<Self>) -> MdlSession {
        let slot = Arc::new(Slot::default());
        self.shared.lock().slots.push(slot.clone());
        MdlSession {
            mdl: self.clone(),
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
    ) -> Result<(), MdlError> {
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
                    return Err(MdlError::Cancelled(reason));
                }
                if self.changed.wait_until(&mut shared, deadline).timed_out() {
                    return if ready(&shared) {
                        Ok(())
                    } else {
                        Err(MdlError::Timeout)
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

impl MdlSession {
    /// What the session waits for or works at in a definition.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Waits, and lets it be seen.
    fn wait(
        &self,
        deadline: Instant,
        cancel: &Cancel,
        ready: impl Fn(&Shared) -> bool,
    ) -> Result<(), MdlError> {
        if ready(&self.mdl.shared.lock()) {
            return Ok(());
        }
        self.progress.begin(Stage::WaitingForTable, "");
        let done = self.mdl.wait_until(deadline, cancel, ready);
        self.progress.end();
        done
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.slot) as usize
    }

    /// Publishes `tables` until [`MdlSession::release`]. Waits while another
    /// session's barrier stands over one that this session does not use yet.
    pub fn share(
        &self,
        tables: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MdlError> {
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
        if added.is_empty() || self.mdl.standing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.share_slowly(&added, deadline, cancel)
    }

    fn share_slowly(
        &self,
        added: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MdlError> {
        loop {
            if !self.mdl.shared.lock().blocked(self.owner(), added) {
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
        if self.mdl.standing.load(Ordering::SeqCst) != 0 {
            let _shared = self.mdl.shared.lock();
            self.mdl.changed.notify_all();
        }
    }

    /// Gives up all published tables: the transaction is over.
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

    /// Raises a barrier over `tables` and waits until no other session uses
    /// one of them, and no other barrier stands over one. Barriers are
    /// granted one after the other, so two DDL statements cannot wait for
    /// each other's barrier.
    pub fn exclude(
        &self,
        tables: &[TableId],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<MdlBarrier, MdlError> {
        let owner = self.owner();
        loop {
            self.wait(deadline, cancel, |shared| !shared.blocked(owner, tables))?;
            let mut shared = self.mdl.shared.lock();
            if !shared.blocked(owner, tables) {
                shared.barriers.push(Barrier {
                    owner,
                    tables: tables.iter().copied().collect(),
                });
                self.mdl.standing.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        let barrier = MdlBarrier {
            mdl: self.mdl.clone(),
            owner,
        };
        self.wait(deadline, cancel, |shared| {
            !shared.used_by_others(&self.slot, tables)
        })?;
        Ok(barrier)
    }
}

impl Drop for MdlSession {
    fn drop(&mut self) {
        self.release();
        let mut shared = self.mdl.shared.lock();
        shared.slots.retain(|s| !Arc::ptr_eq(s, &self.slot));
        self.mdl.changed.notify_all();
    }
}

impl Drop for MdlBarrier {
    fn drop(&mut self) {
        let mut shared = self.mdl.shared.lock();
        let at = shared.barriers.iter().rposition(|b| b.owner == self.owner);
        if let Some(at) = at {
            shared.barriers.remove(at);
            self.mdl.standing.fetch_sub(1, Ordering::SeqCst);
        }
        self.mdl.changed.notify_all();
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
        let mdl = Mdl::new();
        let (a, b) = (mdl.session(), mdl.session());
        a.share(&[T], soon(), &Cancel::new()).unwrap();
        let err = b.exclude(&[T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MdlError::Timeout));
        assert!(b.exclude(&[U], soon(), &Cancel::new()).is_ok());
        a.release();
        assert!(b.exclude(&[T], soon(), &Cancel::new()).is_ok());
    }

    #[test]
    fn users_wait_in_front_of_a_barrier_but_go_on_with_what_they_have() {
        let mdl = Mdl::new();
        let (a, b) = (mdl.session(), mdl.session());
        a.share(&[U], soon(), &Cancel::new()).unwrap();
        let barrier = b.exclude(&[T], soon(), &Cancel::new()).unwrap();
        a.share(&[U], soon(), &Cancel::new()).unwrap();
        let err = a.share(&[T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MdlError::Timeout));
        drop(barrier);
        a.share(&[T], soon(), &Cancel::new()).unwrap();
    }

    #[test]
    fn the_owner_of_a_barrier_uses_its_tables() {
        let mdl = Mdl::new();
        let a = mdl.session();
        let _barrier = a.exclude(&[T], soon(), &Cancel::new()).unwrap();
        a.share(&[T], soon(), &Cancel::new()).unwrap();
    }

    #[test]
    fn a_wait_ends_when_cancelled() {
        let mdl = Mdl::new();
        let (a, b) = (mdl.session(), mdl.session());
        a.share(&[T], soon(), &Cancel::new()).unwrap();
        let cancel = Cancel::new();
        let other = cancel.clone();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.cancel(Reason::Query);
        });
        let err = b.exclude(&[T], late(), &cancel).err();
        assert_eq!(err, Some(MdlError::Cancelled(Reason::Query)));
        killer.join().unwrap();
        // The barrier is gone with the failed attempt.
        assert!(mdl.session().share(&[T], soon(), &Cancel::new()).is_ok());
    }

    #[test]
    fn sessions_and_barriers_never_overlap() {
        let mdl = Mdl::new();
        let users = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (mdl, users) = (mdl.clone(), users.clone());
                scope.spawn(move || {
                    let s = mdl.session();
                    for _ in 0..300 {
                        s.share(&[T], late(), &Cancel::new()).unwrap();
                        users.fetch_add(1, Ordering::SeqCst);
                        users.fetch_sub(1, Ordering::SeqCst);
                        s.release();
                    }
                });
            }
            for _ in 0..2 {
                let (mdl, users) = (mdl.clone(), users.clone());
                scope.spawn(move || {
                    let s = mdl.session();
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
