//! Metadata locks: a definition that a statement uses is not altered or dropped meanwhile, and the
//! locks of the whole server that backups take.
//!
//! Each session *publishes* the tables that it uses, and how, in a slot of its own. A DDL statement
//! raises a *barrier* over the tables it changes, and waits until no other session's slot contains
//! one of them. While a barrier is raised, new users of its tables wait. Publishing costs an
//! uncontended lock of the session's own slot and one read of a counter that only DDL and backups
//! write, so that readers do not write to shared cache lines. LOCK TABLES raises barriers, too: for
//! READ one that excludes only writers.
//!
//! Statements that change anything publish an [`Activity`] the same way: a flag in the slot.
//! FLUSH TABLES WITH READ LOCK raises a *block* over writes and one over commits, LOCK INSTANCE FOR
//! BACKUP one over definitions; each waits until no other session's slot has the flag.
//!
//! Order in all code paths (transactions.md, rule 41): activity, metadata lock, then plan check
//! against the catalog, then snapshot.
//!
//! Invariants:
//! 1. A table in a slot was published before the barrier was raised, or the slot's session owns the
//!    barrier, or the session saw no barrier after publishing. (The session publishes, then reads
//!    the barriers; DDL raises, then reads the slots. All are sequentially consistent, so one sees
//!    the other.) The same holds of activities and blocks.
//! 2. A slot is emptied only by its session, at the end of its transaction; activities at the end
//!    of the statement.
//! 3. A transaction never waits for a table that is in its slot: it passes barriers raised after it
//!    began to use the table.
//! 4. No deadlock among these locks lasts: a session that begins to wait searches the graph of waits for a
//!    cycle through itself, and the user of a table or of an activity in it is refused (1213). A
//!    session that does not wait is in no cycle, so the last one to wait closes it. Cycles that
//!    lead through a row lock end with the time limit of either wait.
//!
//! Rejected: a reader-writer lock per table (every statement would write to a cache line that all
//! sessions share).

mod deadlock;
mod list;
mod modes;
mod server_barrier;
mod waits;

use crate::definition::TableId;
use crate::progress::Progress;
use modes::{STATEMENT, WRITES};
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::Cancel;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use waits::{Need, Waiter};

pub use list::MetadataLock;
pub use modes::{Access, Activity, Exclusion, MetadataLockError};
pub(crate) use server_barrier::{ServerBarrier, TableUsers};

/// Tables that a session uses.
pub type Uses = SmallVec<[(TableId, Access); 4]>;

/// Tables that a barrier covers.
type Exclusions = SmallVec<[(TableId, Exclusion); 4]>;

/// Sessions, by the address of their slots.
type Owners = SmallVec<[usize; 4]>;

#[derive(Default)]
struct Published {
    uses: Uses,
    /// The epoch in which the session began to use the first of the tables.
    since: u64,
}

#[derive(Default)]
struct Slot {
    tables: Mutex<Published>,
    /// Flags of [`Activity`].
    activities: AtomicU8,
}

impl Slot {
    fn owner(self: &Arc<Slot>) -> usize {
        Arc::as_ptr(self) as usize
    }

    fn has(&self, flags: u8) -> bool {
        self.activities.load(Ordering::SeqCst) & flags != 0
    }

    /// Whether it uses one of the tables in a way that is to be excluded.
    fn uses(&self, tables: &Exclusions) -> bool {
        let mine = self.tables.lock();
        let mut mine = mine.uses.iter();
        mine.any(|(t, access)| tables.iter().any(|(b, e)| b == t && e.covers(*access)))
    }

    /// Whether it has used a table since before an epoch.
    fn is_older_user(&self, table: TableId, epoch: u64) -> bool {
        let mine = self.tables.lock();
        mine.since < epoch && mine.uses.iter().any(|(used, _)| *used == table)
    }
}

struct Barrier {
    owner: usize,
    tables: Exclusions,
}

impl Barrier {
    /// Whether it blocks sessions from a table.
    fn excludes_users(&self) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|(_, exclusion)| *exclusion != Exclusion::Definitions)
    }
}

#[derive(Default)]
struct Shared {
    slots: Vec<Arc<Slot>>,
    barriers: Vec<Barrier>,
    /// Activities that are held off, with the owners of the blocks.
    blocks: Vec<(usize, Activity)>,
    waiters: Vec<Waiter>,
}

/// All metadata locks of a server.
#[derive(Default)]
pub struct MetadataLocks {
    /// Number of barriers that exclude users, of blocks, and of waits for older users: unless it is
    /// 0, users wait, or wake those who wait for them.
    standing: AtomicUsize,
    /// Number of waits for older users so far.
    epoch: AtomicU64,
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

/// An activity that is held off in all other sessions, until this is dropped.
pub struct ActivityBlock {
    metadata_locks: Arc<MetadataLocks>,
    owner: usize,
    activity: Activity,
}

impl MetadataLocks {
    /// Creates a lock manager without locks.
    pub fn new() -> Arc<MetadataLocks> {
        Arc::default()
    }

    /// Registers a session.
    pub fn session(self: &Arc<Self>) -> MetadataLockSession {
        self.session_with(&[])
    }

    /// Registers a session that uses tables from the beginning. For tables that another session
    /// publishes meanwhile, or that no barrier can cover yet.
    pub(crate) fn session_with(
        self: &Arc<Self>,
        tables: &[(TableId, Access)],
    ) -> MetadataLockSession {
        let slot = Arc::new(Slot {
            // Another session may have used them since any epoch.
            tables: Mutex::new(Published {
                uses: tables.into(),
                since: 0,
            }),
            activities: AtomicU8::new(0),
        });
        self.shared.lock().slots.push(slot.clone());
        MetadataLockSession {
            metadata_locks: self.clone(),
            slot,
            progress: Arc::default(),
        }
    }
}

/// A use that a session has just published.
#[derive(Clone, Copy)]
struct AddedUse {
    table: TableId,
    access: Access,
    /// Whether the session read the table before and now writes to it.
    is_upgrade: bool,
}

/// Adds a use to a list, unless the list has it already.
fn add_use(mine: &mut Uses, table: TableId, access: Access) -> Option<AddedUse> {
    let added = |is_upgrade| AddedUse {
        table,
        access,
        is_upgrade,
    };
    let Some((_, old)) = mine.iter_mut().find(|(t, _)| *t == table) else {
        mine.push((table, access));
        return Some(added(false));
    };
    if *old == access || access == Access::Read {
        return None;
    }
    *old = access;
    Some(added(true))
}

impl MetadataLockSession {
    /// Identity of the session in [`MetadataLocks::list`].
    pub fn owner(&self) -> usize {
        self.slot.owner()
    }

    /// Progress of the session's DDL statement.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The uses that it publishes.
    pub(crate) fn uses(&self) -> Vec<(TableId, Access)> {
        self.slot.tables.lock().uses.to_vec()
    }

    /// Waits, and shows the wait in the session's progress.
    fn wait(
        &self,
        need: Need,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let owner = self.slot.owner();
        if self.is_free(&need) {
            return Ok(());
        }
        self.progress.begin(need.stage(), "");
        let locks = &self.metadata_locks;
        let done = locks.wait_until(owner, need, deadline, cancel);
        self.progress.end();
        done
    }

    fn is_free(&self, need: &Need) -> bool {
        let shared = self.metadata_locks.shared.lock();
        shared.blockers(self.slot.owner(), need).is_empty()
    }

    /// Publishes the use of tables until [`MetadataLockSession::release`]. Waits while another
    /// session's barrier covers one that this session does not use yet in this way.
    ///
    /// # Errors
    /// Then nothing has been published.
    pub fn share(
        &self,
        uses: &[(TableId, Access)],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        self.share_until(uses, || deadline, cancel)
    }

    /// As [`MetadataLockSession::share`]; the deadline is computed only if there is a wait.
    ///
    /// # Errors
    /// As [`MetadataLockSession::share`].
    #[inline]
    pub fn share_until(
        &self,
        uses: &[(TableId, Access)],
        deadline: impl Fn() -> Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let added: SmallVec<[AddedUse; 4]> = {
            let mut mine = self.slot.tables.lock();
            if mine.uses.is_empty() {
                mine.since = self.metadata_locks.epoch.load(Ordering::SeqCst);
            }
            let uses = uses.iter();
            uses.filter_map(|(table, access)| add_use(&mut mine.uses, *table, *access))
                .collect()
        };
        if added.is_empty() || self.metadata_locks.standing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.share_blocking(&added, deadline(), cancel)
    }

    /// Publishes tables as written to, and the activity of writing. For writers other than SQL
    /// statements; [`MetadataLockSession::end`] ends both.
    ///
    /// # Errors
    /// As [`MetadataLockSession::share`].
    pub fn share_for_writing(
        &self,
        tables: &[TableId],
        deadline: impl Fn() -> Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        self.begin_until(Activity::Write, &deadline, cancel)?;
        let uses: Uses = tables.iter().map(|table| (*table, Access::Write)).collect();
        self.share_until(&uses, deadline, cancel)
    }

    fn share_blocking(
        &self,
        added: &[AddedUse],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let need = || Need::Share(added.iter().map(|u| (u.table, u.access)).collect());
        loop {
            if self.is_free(&need()) {
                return Ok(());
            }
            self.withdraw(added);
            self.wait(need(), deadline, cancel)?;
            let mut mine = self.slot.tables.lock();
            if mine.uses.is_empty() {
                mine.since = self.metadata_locks.epoch.load(Ordering::SeqCst);
            }
            for added in added {
                add_use(&mut mine.uses, added.table, added.access);
            }
        }
    }

    /// Withdraws uses that were just added.
    fn withdraw(&self, uses: &[AddedUse]) {
        {
            let mut mine = self.slot.tables.lock();
            let mine = &mut mine.uses;
            for added in uses {
                if added.is_upgrade {
                    let mut own = mine.iter_mut();
                    if let Some((_, access)) = own.find(|(table, _)| *table == added.table) {
                        *access = Access::Read;
                    }
                } else {
                    mine.retain(|(table, _)| *table != added.table);
                }
            }
        }
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
            if mine.uses.is_empty() {
                return;
            }
            mine.uses.clear();
        }
        self.notify();
    }

    /// Publishes an activity, which ends with [`MetadataLockSession::end_statement`], or
    /// [`MetadataLockSession::finish`] if it is not that of a statement. Waits while another
    /// session blocks it. A session that may write for longer is not held up.
    ///
    /// # Errors
    /// Then the activity has not begun.
    pub fn begin(
        &self,
        activity: Activity,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        self.begin_until(activity, || deadline, cancel)
    }

    /// As [`MetadataLockSession::begin`]; the deadline is computed only if there is a wait.
    ///
    /// # Errors
    /// As [`MetadataLockSession::begin`].
    #[inline]
    pub fn begin_until(
        &self,
        activity: Activity,
        deadline: impl Fn() -> Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let flag = activity as u8;
        let is_held = activity == Activity::Write && self.slot.has(Activity::HeldWrites as u8);
        if is_held || self.slot.activities.fetch_or(flag, Ordering::SeqCst) & flag != 0 {
            return Ok(());
        }
        if self.metadata_locks.standing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.begin_blocking(activity, deadline(), cancel)
    }

    /// Waits until nothing blocks an activity that is published.
    fn begin_blocking(
        &self,
        activity: Activity,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let flag = activity as u8;
        loop {
            if self.is_free(&Need::Begin(activity)) {
                return Ok(());
            }
            self.finish(activity);
            self.wait(Need::Begin(activity), deadline, cancel)?;
            self.slot.activities.fetch_or(flag, Ordering::SeqCst);
        }
    }

    /// Whether the session has published that it writes.
    pub fn is_writing(&self) -> bool {
        self.slot.has(WRITES)
    }

    /// Lets the session write although it is not asked: it acts for one that may.
    pub fn inherit_writes(&self) {
        let flag = Activity::HeldWrites as u8;
        self.slot.activities.fetch_or(flag, Ordering::SeqCst);
    }

    /// Ends an activity.
    pub fn finish(&self, activity: Activity) {
        self.clear(activity as u8);
    }

    /// Ends the activities of the statement.
    pub fn end_statement(&self) {
        self.clear(STATEMENT);
    }

    /// Ends the statement's activities and withdraws its tables.
    pub fn end(&self) {
        self.release();
        self.end_statement();
    }

    fn clear(&self, flags: u8) {
        // Only this session sets flags of its slot.
        if self.slot.activities.load(Ordering::Relaxed) & flags != 0 {
            self.slot.activities.fetch_and(!flags, Ordering::SeqCst);
            self.notify();
        }
    }

    /// Holds an activity off in all other sessions, and waits for those that are at it. Several
    /// sessions may do so at once.
    ///
    /// # Errors
    /// Then nothing is held off.
    pub fn block(
        &self,
        activity: Activity,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<ActivityBlock, MetadataLockError> {
        let owner = self.slot.owner();
        let locks = &self.metadata_locks;
        locks.shared.lock().blocks.push((owner, activity));
        locks.standing.fetch_add(1, Ordering::SeqCst);
        let block = ActivityBlock {
            metadata_locks: locks.clone(),
            owner,
            activity,
        };
        self.wait(Need::Quiet(activity), deadline, cancel)?;
        Ok(block)
    }

    /// Raises a barrier over `tables`, and waits until no other session uses one of them in a way
    /// that it excludes and no other barrier conflicts with it. Barriers that conflict are granted
    /// one at a time, so that two DDL statements cannot deadlock.
    ///
    /// # Errors
    /// Then no barrier is raised.
    pub fn exclude(
        &self,
        tables: &[(TableId, Exclusion)],
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<MetadataBarrier, MetadataLockError> {
        let owner = self.slot.owner();
        let exclusions = || tables.iter().copied().collect::<Exclusions>();
        loop {
            self.wait(Need::RaiseBarrier(exclusions()), deadline, cancel)?;
            let mut shared = self.metadata_locks.shared.lock();
            let need = Need::RaiseBarrier(exclusions());
            if shared.blockers(owner, &need).is_empty() {
                let tables = exclusions();
                let barrier = Barrier { owner, tables };
                if barrier.excludes_users() {
                    self.metadata_locks.standing.fetch_add(1, Ordering::SeqCst);
                }
                shared.barriers.push(barrier);
                break;
            }
        }
        let barrier = MetadataBarrier {
            metadata_locks: self.metadata_locks.clone(),
            owner,
        };
        self.wait(Need::Unused(exclusions()), deadline, cancel)?;
        Ok(barrier)
    }

    /// Waits until no other session uses the table that used it when this was called. New users do
    /// not wait: after the call they find the catalog that was published before it.
    ///
    /// # Errors
    /// Then older users may remain.
    pub(crate) fn wait_for_older_users(
        &self,
        table: TableId,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let locks = &self.metadata_locks;
        locks.standing.fetch_add(1, Ordering::SeqCst);
        let epoch = locks.next_epoch();
        let done = self.wait(Need::NoOlderUser(table, epoch), deadline, cancel);
        locks.standing.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Whether another session uses the table.
    pub(crate) fn is_used_by_others(&self, table: TableId) -> bool {
        let everyone = Exclusions::from_iter([(table, Exclusion::Everyone)]);
        !self.is_free(&Need::Unused(everyone))
    }
}

impl MetadataLocks {
    /// Begins an epoch. Sessions that begin to use a table from now on find the present catalog.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether a session has used the table since before an epoch.
    pub(crate) fn has_older_users(&self, table: TableId, epoch: u64) -> bool {
        let shared = self.shared.lock();
        let mut slots = shared.slots.iter();
        slots.any(|slot| slot.is_older_user(table, epoch))
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

impl MetadataLocks {
    /// Lets waiters look again after a barrier or block was removed.
    fn lowered(&self) {
        self.standing.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

impl Drop for MetadataBarrier {
    fn drop(&mut self) {
        let mut shared = self.metadata_locks.shared.lock();
        let at = shared.barriers.iter().rposition(|b| b.owner == self.owner);
        if let Some(at) = at {
            if shared.barriers.remove(at).excludes_users() {
                self.metadata_locks.standing.fetch_sub(1, Ordering::SeqCst);
            }
            self.metadata_locks.changed.notify_all();
        }
    }
}

impl Drop for ActivityBlock {
    fn drop(&mut self) {
        let mine = (self.owner, self.activity);
        let mut shared = self.metadata_locks.shared.lock();
        let at = shared.blocks.iter().rposition(|block| *block == mine);
        if let Some(at) = at {
            shared.blocks.remove(at);
            self.metadata_locks.lowered();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::cancel::Reason;
    use std::time::Duration;

    const T: (TableId, Access) = (TableId(1), Access::Write);
    const U: (TableId, Access) = (TableId(2), Access::Write);
    const ALL_T: (TableId, Exclusion) = (TableId(1), Exclusion::Everyone);
    const ALL_U: (TableId, Exclusion) = (TableId(2), Exclusion::Everyone);

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
        let err = b.exclude(&[ALL_T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        assert!(b.exclude(&[ALL_U], soon(), &Cancel::new()).is_ok());
        a.release();
        assert!(b.exclude(&[ALL_T], soon(), &Cancel::new()).is_ok());
    }

    #[test]
    fn a_barrier_blocks_new_users_but_not_those_that_use_the_table() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        a.share(&[U], soon(), &Cancel::new()).unwrap();
        let barrier = b.exclude(&[ALL_T], soon(), &Cancel::new()).unwrap();
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
        let _barrier = a.exclude(&[ALL_T], soon(), &Cancel::new()).unwrap();
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
        let err = b.exclude(&[ALL_T], late(), &cancel).err();
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
                        let b = s.exclude(&[ALL_T], late(), &Cancel::new()).unwrap();
                        assert_eq!(users.load(Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(users.load(Ordering::SeqCst), 0);
                        drop(b);
                    }
                });
            }
        });
    }

    #[test]
    fn readers_pass_a_barrier_against_writers_which_waits_for_writers_only() {
        let metadata_locks = MetadataLocks::new();
        let (a, b, c) = (
            metadata_locks.session(),
            metadata_locks.session(),
            metadata_locks.session(),
        );
        let read = (T.0, Access::Read);
        let writers = (T.0, Exclusion::Writers);
        a.share(&[read], soon(), &Cancel::new()).unwrap();
        let first = b.exclude(&[writers], soon(), &Cancel::new()).unwrap();
        let _second = c.exclude(&[writers], soon(), &Cancel::new()).unwrap();
        metadata_locks
            .session()
            .share(&[read], soon(), &Cancel::new())
            .unwrap();
        // What is read already is still published after a refused upgrade.
        let err = a.share(&[T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        let err = c.exclude(&[ALL_T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        drop(first);
        let err = c.exclude(&[ALL_T], soon(), &Cancel::new()).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        a.release();
        assert!(c.exclude(&[ALL_T], soon(), &Cancel::new()).is_ok());
    }

    #[test]
    fn a_block_waits_for_writers_and_holds_new_ones_off() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        let cancel = Cancel::new();
        a.begin(Activity::Write, soon(), &cancel).unwrap();
        let err = b.block(Activity::Write, soon(), &cancel).err();
        assert_eq!(err, Some(MetadataLockError::Timeout));
        a.end_statement();
        let block = b.block(Activity::Write, soon(), &cancel).unwrap();
        let also = metadata_locks.session();
        let second = also.block(Activity::Write, soon(), &cancel).unwrap();
        for activity in [Activity::Write, Activity::HeldWrites] {
            let err = a.begin(activity, soon(), &cancel).err();
            assert_eq!(err, Some(MetadataLockError::Timeout));
        }
        a.begin(Activity::Commit, soon(), &cancel).unwrap();
        b.begin(Activity::Write, soon(), &cancel).unwrap_err();
        drop(second);
        b.begin(Activity::Write, soon(), &cancel).unwrap();
        drop(block);
        a.begin(Activity::Write, soon(), &cancel).unwrap();
    }

    #[test]
    fn a_session_with_locked_tables_writes_until_it_unlocks_them() {
        let metadata_locks = MetadataLocks::new();
        let (a, b) = (metadata_locks.session(), metadata_locks.session());
        let cancel = Cancel::new();
        a.begin(Activity::HeldWrites, soon(), &cancel).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| b.block(Activity::Write, late(), &Cancel::new()));
            std::thread::sleep(Duration::from_millis(20));
            a.begin(Activity::Write, soon(), &cancel).unwrap();
            a.end_statement();
            assert!(a.is_writing());
            a.finish(Activity::HeldWrites);
            assert!(waiter.join().unwrap().is_ok());
        });
    }

    /// A reader of T that writes, DDL of T that may write, and a backup: each waits for the next.
    #[test]
    fn the_table_user_in_a_metadata_lock_cycle_is_refused() {
        let metadata_locks = MetadataLocks::new();
        let (user, ddl, backup) = (
            metadata_locks.session(),
            metadata_locks.session(),
            metadata_locks.session(),
        );
        user.share(&[T], soon(), &Cancel::new()).unwrap();
        std::thread::scope(|scope| {
            let ddl = scope.spawn(|| {
                ddl.begin(Activity::Write, late(), &Cancel::new()).unwrap();
                let done = ddl.exclude(&[ALL_T], late(), &Cancel::new()).map(drop);
                ddl.end_statement();
                done
            });
            std::thread::sleep(Duration::from_millis(30));
            let backup = scope.spawn(|| {
                backup
                    .block(Activity::Write, late(), &Cancel::new())
                    .map(drop)
            });
            std::thread::sleep(Duration::from_millis(30));
            let err = user.begin(Activity::Write, late(), &Cancel::new()).err();
            assert_eq!(err, Some(MetadataLockError::Deadlock));
            user.release();
            assert_eq!(ddl.join().unwrap(), Ok(()));
            assert_eq!(backup.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn two_barriers_and_two_users_do_not_wait_for_ever() {
        let metadata_locks = MetadataLocks::new();
        let sessions: Vec<_> = (0..4).map(|_| metadata_locks.session()).collect();
        let [a, b, first, second] = sessions.as_slice() else {
            panic!("four sessions");
        };
        a.share(&[T], soon(), &Cancel::new()).unwrap();
        b.share(&[U], soon(), &Cancel::new()).unwrap();
        std::thread::scope(|scope| {
            let ddl = [(first, ALL_T), (second, ALL_U)].map(|(session, table)| {
                scope.spawn(move || session.exclude(&[table], late(), &Cancel::new()).map(drop))
            });
            std::thread::sleep(Duration::from_millis(30));
            let users = [(a, U), (b, T)].map(|(session, table)| {
                scope.spawn(move || {
                    let done = session.share(&[table], late(), &Cancel::new());
                    session.release();
                    done
                })
            });
            let users = users.map(|user| user.join().unwrap());
            let refused = users
                .iter()
                .filter(|r| **r == Err(MetadataLockError::Deadlock));
            assert_eq!(refused.count(), 1, "{users:?}");
            for ddl in ddl {
                assert_eq!(ddl.join().unwrap(), Ok(()));
            }
        });
    }
}
