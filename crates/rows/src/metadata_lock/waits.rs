//! Waits for metadata locks: the condition that a session waits for, the sessions that block it, and the victims of
//! deadlock cycles.

use super::modes::{Access, Activity, Exclusion, MetadataLockError};
use super::{Barrier, Exclusions, MetadataLocks, Owners, Shared, Slot, Uses, deadlock};
use crate::definition::TableId;
use crate::progress::Stage;
use parking_lot::MutexGuard;
use porpoise_base::blocking::wait_for_lock;
use porpoise_base::cancel::Cancel;
use std::sync::Arc;
use std::time::Instant;

/// Condition that a session waits for.
pub(super) enum Need {
    /// No barrier covers these uses.
    Share(Uses),
    /// No other barrier covers these tables.
    RaiseBarrier(Exclusions),
    /// No other session uses these tables.
    Unused(Exclusions),
    /// No other session has used the table since before the epoch.
    NoOlderUser(TableId, u64),
    /// No block covers the activity.
    Begin(Activity),
    /// No other session is active in this way.
    Quiet(Activity),
}

impl Need {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Need::Begin(activity) | Need::Quiet(activity) => activity.stage(),
            Need::Share(_) | Need::RaiseBarrier(_) | Need::Unused(_) | Need::NoOlderUser(..) => {
                Stage::WaitingForTable
            }
        }
    }

    /// Whether the waiter is the victim of a deadlock rather than another one: it can run again,
    /// whereas definitions and backups cost more (as in MySQL).
    fn is_cheap(&self) -> bool {
        matches!(
            self,
            Need::Share(_) | Need::Begin(Activity::Write | Activity::Commit)
        )
    }
}

pub(super) struct Waiter {
    pub(super) owner: usize,
    pub(super) need: Need,
    pub(super) is_victim: bool,
}

impl MetadataLocks {
    /// Waits on the condition variable until the need is met, the deadline, or a cancellation.
    pub(super) fn wait_until(
        self: &Arc<Self>,
        owner: usize,
        need: Need,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        let me = self.clone();
        let _registration = cancel.register(Arc::new(move || {
            let _shared = me.shared.lock();
            me.changed.notify_all();
        }));
        wait_for_lock(|| {
            let mut shared = self.shared.lock();
            let is_victim = false;
            shared.waiters.push(Waiter {
                owner,
                need,
                is_victim,
            });
            let done = self.wait_registered(&mut shared, owner, deadline, cancel);
            shared.waiters.retain(|w| w.owner != owner);
            done
        })
    }

    /// Waits as a registered waiter.
    fn wait_registered(
        &self,
        shared: &mut MutexGuard<'_, Shared>,
        owner: usize,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), MetadataLockError> {
        if shared.choose_victims(owner) {
            self.changed.notify_all();
        }
        loop {
            let waiter = shared.waiters.iter().find(|w| w.owner == owner);
            let Some(waiter) = waiter else {
                return Ok(());
            };
            if shared.blockers(owner, &waiter.need).is_empty() {
                return Ok(());
            }
            if waiter.is_victim {
                return Err(MetadataLockError::Deadlock);
            }
            if let Some(reason) = cancel.reason() {
                return Err(MetadataLockError::Cancelled(reason));
            }
            if Instant::now() >= deadline {
                return Err(MetadataLockError::Timeout);
            }
            self.changed.wait_until(shared, deadline);
        }
    }
}

impl Shared {
    /// The sessions that block `owner`.
    pub(super) fn blockers(&self, owner: usize, need: &Need) -> Owners {
        let barriers = self.barriers.iter().filter(|b| b.owner != owner);
        let slots = self.slots.iter().filter(|slot| slot.owner() != owner);
        match need {
            Need::Share(uses) => {
                let covered = |b: &&Barrier| {
                    let covers = |(t, access): &(TableId, Access)| {
                        b.tables.iter().any(|(b, e)| b == t && e.covers(*access))
                    };
                    uses.iter().any(covers)
                };
                barriers.filter(covered).map(|b| b.owner).collect()
            }
            Need::RaiseBarrier(tables) => {
                let covered = |b: &&Barrier| {
                    let conflicts = |(t, e): &(TableId, Exclusion)| {
                        let same =
                            |(b, other): &(TableId, Exclusion)| b == t && e.conflicts(*other);
                        b.tables.iter().any(same)
                    };
                    tables.iter().any(conflicts)
                };
                barriers.filter(covered).map(|b| b.owner).collect()
            }
            Need::Unused(tables) => {
                let users = slots.filter(|slot| slot.uses(tables));
                users.map(Slot::owner).collect()
            }
            Need::NoOlderUser(table, epoch) => {
                let users = slots.filter(|slot| slot.is_older_user(*table, *epoch));
                users.map(Slot::owner).collect()
            }
            Need::Begin(activity) => {
                let blocks = self.blocks.iter();
                let blocks = blocks.filter(|(o, a)| *o != owner && a.flags() == activity.flags());
                blocks.map(|(owner, _)| *owner).collect()
            }
            Need::Quiet(activity) => {
                let active = slots.filter(|slot| slot.has(activity.flags()));
                active.map(Slot::owner).collect()
            }
        }
    }

    /// Marks a victim in each cycle of waits through `owner`. Returns whether there was one.
    fn choose_victims(&mut self, owner: usize) -> bool {
        let mut found = false;
        loop {
            let waiters = &self.waiters;
            let waits_for = |session: usize| {
                let mut waiting = waiters.iter().filter(|w| !w.is_victim);
                let waiter = waiting.find(|w| w.owner == session);
                waiter.map_or_else(Owners::new, |w| self.blockers(session, &w.need))
            };
            let Some(cycle) = deadlock::cycle_through(owner, waits_for) else {
                return found;
            };
            let cheap = |session: &&usize| {
                let mut waiters = waiters.iter();
                waiters.any(|w| w.owner == **session && w.need.is_cheap())
            };
            let victim = cycle.iter().find(cheap).copied().unwrap_or(owner);
            let mut marked = self.waiters.iter_mut().filter(|w| w.owner == victim);
            let Some(waiter) = marked.next() else {
                return found;
            };
            waiter.is_victim = true;
            found = true;
        }
    }
}
