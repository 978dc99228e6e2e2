//! Workers: the active one of each group, the waiting ones, the spares.
//!
//! Before a worker calls a session it puts its group into its *seat*, a cell
//! of the thread; after the call it takes it out again. If the session was
//! about to wait meanwhile, the hook of `porpoise_base::blocking` has found
//! the group in the seat and handed it to a spare: the worker is *detached*,
//! finishes with its one connection, gives it back and becomes a spare.
//!
//! Invariants:
//! 1. The hand-over moves the group; a request that does not wait pays two
//!    moves of a pointer for it.
//! 2. At most `max_running_statements` sessions without locks are detached at
//!    once; requests beyond wait in their order. Sessions that hold locks go
//!    on up to twice that, for others may be waiting for their commit.
//! 3. Where no spare can be had, the group stays with the waiting worker and
//!    waits with it: slow, never wrong.

use super::Shared;
use super::conn::{Conn, Verdict};
use super::core::{Core, Job};
use super::door::Session;
use crate::metrics::{self, Counter};
use parking_lot::{Condvar, Mutex};
use porpoise_base::blocking;
use porpoise_base::threads::{self, Role};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Stack of a worker in bytes; only what is used costs memory.
pub const STACK: usize = 8 * 1024 * 1024;

/// A spare that nobody needed for so long goes.
const SPARE_PATIENCE: Duration = Duration::from_secs(20);

thread_local! {
    static DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the group of the connection being served is with another worker.
pub(crate) fn is_detached() -> bool {
    DETACHED.with(Cell::get)
}

#[derive(Default)]
struct Roster {
    cores: VecDeque<Box<Core>>,
    idle: usize,
    threads: usize,
    closed: bool,
}

/// All workers of the server.
pub(crate) struct Staff {
    roster: Mutex<Roster>,
    hired: Condvar,
    detached: AtomicUsize,
    groups: usize,
    soft: usize,
    hard: usize,
}

impl Staff {
    pub(crate) fn new(groups: usize, max_running: usize) -> Staff {
        Staff {
            roster: Mutex::new(Roster::default()),
            hired: Condvar::new(),
            detached: AtomicUsize::new(0),
            groups,
            soft: max_running.max(1),
            hard: max_running.saturating_mul(2).max(2),
        }
    }

    /// Sessions that wait, each with a thread of its own.
    pub(crate) fn detached(&self) -> usize {
        self.detached.load(Ordering::SeqCst)
    }

    /// Worker threads.
    pub(crate) fn threads(&self) -> usize {
        self.roster.lock().threads
    }

    /// Whether a request of a session without locks has to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.detached.load(Ordering::SeqCst) >= self.soft
    }

    /// Lets all spares go.
    pub(crate) fn close(&self) {
        self.roster.lock().closed = true;
        self.hired.notify_all();
    }

    /// Waits for a group to work for; `None`: go home.
    fn stand_by(&self) -> Option<Box<Core>> {
        let mut roster = self.roster.lock();
        roster.idle += 1;
        let core = loop {
            if let Some(core) = roster.cores.pop_front() {
                break Some(core);
            }
            let late = !roster.closed
                && self.hired.wait_for(&mut roster, SPARE_PATIENCE).timed_out()
                && roster.cores.is_empty()
                && roster.idle > self.groups;
            if roster.closed || late {
                break None;
            }
        };
        roster.idle -= 1;
        if core.is_none() {
            roster.threads -= 1;
        }
        core
    }
}

/// Finds a worker for `core`: a spare, or a new thread. Gives it back when
/// there is none to be had.
pub(super) fn employ(
    shared: &Arc<Shared>,
    core: Box<Core>,
) -> Result<(), (io::Error, Option<Box<Core>>)> {
    let staff = &shared.staff;
    let mut roster = staff.roster.lock();
    roster.cores.push_back(core);
    if roster.idle >= roster.cores.len() {
        drop(roster);
        staff.hired.notify_one();
        return Ok(());
    }
    let theirs = shared.clone();
    let spawned = threads::spawn_sized(Role::Worker, Some(STACK), move || live(&theirs));
    match spawned {
        Ok(_) => {
            roster.threads += 1;
            Ok(())
        }
        Err(error) => Err((error, roster.cores.pop_back())),
    }
}

/// What a thread lends its group to while a session runs.
struct Seat {
    core: Cell<Option<Box<Core>>>,
    shared: Arc<Shared>,
}

struct SeatHook(Rc<Seat>);

impl blocking::Hook for SeatHook {
    fn enter(&self) {
        let Some(mut core) = self.0.core.take() else {
            return;
        };
        let staff = &self.0.shared.staff;
        if staff.detached.fetch_add(1, Ordering::SeqCst) >= staff.hard {
            staff.detached.fetch_sub(1, Ordering::SeqCst);
            self.0.core.set(Some(core));
            return;
        }
        core.part_with_served();
        match employ(&self.0.shared, core) {
            Ok(()) => {
                DETACHED.with(|d| d.set(true));
                metrics::add(Counter::HandOvers, 1);
            }
            Err((error, core)) => {
                staff.detached.fetch_sub(1, Ordering::SeqCst);
                self.0.core.set(core);
                tracing::warn!("no thread for a spare worker: {error}");
            }
        }
    }

    fn leave(&self) {}
}

impl Seat {
    /// Runs `f` as a session's code: it may lose the group, and may panic no
    /// further than here (`None`).
    fn lend<R>(&self, core: Box<Core>, f: impl FnOnce() -> R) -> (Option<R>, Option<Box<Core>>) {
        self.core.set(Some(core));
        let result = catch_unwind(AssertUnwindSafe(f)).ok();
        (result, self.core.take())
    }

    /// Back from a wait, without a group: no longer counted as waiting.
    fn rejoin(&self) {
        DETACHED.with(|d| d.set(false));
        let staff = &self.shared.staff;
        let before = staff.detached.fetch_sub(1, Ordering::SeqCst);
        if before == staff.soft {
            for group in &self.shared.groups {
                if group.deferring.load(Ordering::SeqCst) {
                    group.rouse();
                }
            }
        }
    }
}

/// The life of a worker thread.
fn live(shared: &Arc<Shared>) {
    let seat = Rc::new(Seat {
        core: Cell::new(None),
        shared: shared.clone(),
    });
    blocking::install(Some(Box::new(SeatHook(seat.clone()))));
    // The first stand-by was counted by whoever started the thread.
    while let Some(core) = shared.staff.stand_by() {
        metrics::use_block(core.group_index());
        work(&seat, core);
    }
    blocking::install(None);
}

/// Works for one group until it is finished or somebody else's.
fn work(seat: &Seat, mut core: Box<Core>) {
    loop {
        let left = match core.next() {
            Job::Exit => {
                drop(core);
                seat.shared.finished.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Job::Serve(mut conn, call) => {
                let (verdict, left) = seat.lend(core, || conn.call(call));
                deliver(left, conn, verdict.unwrap_or(Verdict::Ended))
            }
            Job::Bury(session) => seat.lend(core, || drop::<Box<dyn Session>>(session)).1,
        };
        match left {
            Some(mine) => core = mine,
            None => {
                seat.rejoin();
                return;
            }
        }
    }
}

/// Hands the connection back to its group: directly, or through the inbox if
/// another worker has the group now.
fn deliver(left: Option<Box<Core>>, mut conn: Box<Conn>, verdict: Verdict) -> Option<Box<Core>> {
    if let Some(mut core) = left {
        core.settle(conn, verdict);
        return Some(core);
    }
    // The reply need not wait for the group's turn. A failure shows again
    // when the group flushes.
    let _ = conn.out.flush();
    let group = conn.group.clone();
    group.leave(|inbox| inbox.returned.push((conn, verdict)));
    None
}
