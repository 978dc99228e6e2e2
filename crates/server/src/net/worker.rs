//! The worker pool: the active worker of each group, detached ones, spares.
//!
//! Before a worker calls a session it lends its event loop ([`EventLoop`]) to its
//! own cell ([`WorkerSlot`]); after the call it takes the event loop back. During
//! the call it can lose the event loop in two ways. It is *detached* then: it
//! finishes its one call, returns the connection through the group's inbox, and
//! becomes a spare.
//!
//! * Hand-over: the session enters `porpoise_base::blocking` before a wait, and
//!   the hook, on the same thread, assigns the event loop to a spare.
//! * Retake: the call takes longer than 0.75 ms, and the supervisor takes the
//!   event loop (see `supervisor`).
//!
//! ```text
//!              lend/take                blocking()
//!  Attached <------------> Attached ---------------> Waiting
//!      |  retaken                                    |    ^
//!      +-------------------> Running <---------------+    |
//!                              |   wait over              |
//!                              |  ------ blocking() ------+
//!                              v  10 ms of CPU time
//!                             Long      (all: call over -> spare)
//! ```
//!
//! Invariants:
//! 1. An event loop has one owner: a worker's stack, a worker's cell, or the
//!    queue of unassigned ones. Only an atomic exchange takes it out of a cell, so
//!    a worker either gets its own event loop back, or finds that it is detached.
//! 2. At most `max_running_statements` sessions without locks wait detached at
//!    once; further requests are deferred in their order. Sessions that hold
//!    locks go on up to twice that, because others may wait for their commit.
//!    Connections before login and the administrator's reserved one
//!    are never deferred.
//! 3. Computing workers are counted apart from waiting ones. A connection whose
//!    last call became `Long` is deferred while [`MAX_LONG_CALLS_PER_GROUP`] calls per group
//!    are `Long`, so that a flood of CPU-bound statements runs one after another
//!    and other statements go on. Past `max_running_statements` detached computing
//!    workers nothing is retaken.
//! 4. If no thread can be created, the event loop stays with its worker
//!    (hand-over), or waits for the next free worker (retake): clients wait
//!    longer, and no state is lost.
//! 5. The kernel schedules threads, so a `Long` worker runs at a lower
//!    priority until its call is over. A thread whose priority cannot be
//!    raised again without privileges ends then.

use super::Shared;
use super::conn::{Conn, Verdict};
use super::defer::wake_deferring;
use super::event_loop::{EventLoop, Job};
use super::protocol::{Next, Session};
use super::supervisor::LONG_CPU;
use crate::metrics::{self, Counter};
use crate::sys;
use parking_lot::{Condvar, Mutex};
use porpoise_base::blocking;
use porpoise_base::lend::LendCell;
use porpoise_base::threads::{self, Role};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Stack of a worker in bytes; only what is used costs memory.
pub const STACK: usize = 8 * 1024 * 1024;

/// Time without work after which a spare ends.
const SPARE_IDLE_TIME: Duration = Duration::from_secs(20);

/// Long-running calls per group beyond which connections that make such calls
/// are deferred.
const MAX_LONG_CALLS_PER_GROUP: usize = 2;

/// Milliseconds for which a connection is deferred as one that makes such calls.
const LONG_CALL_DEFERRAL_MS: u64 = 1_000;

thread_local! {
    static SLOT: OnceCell<Arc<WorkerSlot>> = const { OnceCell::new() };
}

/// Whether the calling worker is detached: it has lost the event loop of the
/// connection that it serves. Only for code inside a session's call.
pub(crate) fn is_detached() -> bool {
    SLOT.with(|slot| slot.get().is_some_and(|s| s.cell.is_empty()))
}

/// State of a worker's current call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// With its event loop, or a spare.
    Attached,
    /// Detached, in a blocking section; `long` is whether it was [`CallState::Long`] before.
    Waiting { long: bool },
    /// Detached, running; `since` is its CPU time when the supervisor first saw it
    /// in this state.
    Running { since: Option<Duration> },
    /// Detached, running for long, demoted.
    Long,
}

/// The part of a worker's state that other threads use.
pub(crate) struct WorkerSlot {
    pub(super) cell: LendCell<EventLoop>,
    thread: sys::ThreadId,
    call_state: Mutex<CallState>,
}

/// The worker threads, and the event loops without one.
#[derive(Default)]
struct Roster {
    unassigned: VecDeque<Box<EventLoop>>,
    slots: Vec<Arc<WorkerSlot>>,
    /// Number of spares.
    idle: usize,
    /// Number of worker threads.
    threads: usize,
    /// Whether spares end.
    closed: bool,
}

/// All workers of the server.
pub(crate) struct WorkerPool {
    roster: Mutex<Roster>,
    /// Notified when an event loop is assigned.
    assigned: Condvar,
    /// Number of workers in [`CallState::Waiting`].
    waiting: AtomicUsize,
    /// Number of workers in [`CallState::Running`] or [`CallState::Long`].
    running: AtomicUsize,
    /// Number of workers in [`CallState::Long`].
    long: AtomicUsize,
    groups: usize,
    /// Maximum number of waiting workers whose sessions have no locks: `max_running_statements`.
    soft: usize,
    /// Maximum number of all waiting workers.
    hard: usize,
    /// Nice value of workers.
    nice: i32,
}

impl WorkerPool {
    pub(crate) fn new(groups: usize, max_running: usize) -> WorkerPool {
        WorkerPool {
            roster: Mutex::new(Roster::default()),
            assigned: Condvar::new(),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            long: AtomicUsize::new(0),
            groups,
            soft: max_running.max(1),
            hard: max_running.saturating_mul(2).max(2),
            nice: sys::nice(),
        }
    }

    /// Number of detached sessions that wait, each on a thread of its own.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Number of detached sessions that compute.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// Number of worker threads.
    pub(crate) fn threads(&self) -> usize {
        self.roster.lock().threads
    }

    /// Whether a request of a session without locks is deferred.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= self.soft
    }

    /// Whether requests of connections that compute for long are deferred.
    pub(crate) fn is_busy(&self) -> bool {
        self.long.load(Ordering::SeqCst) >= self.groups * MAX_LONG_CALLS_PER_GROUP
    }

    /// Whether an event loop has no worker.
    pub(super) fn has_unassigned(&self) -> bool {
        !self.roster.lock().unassigned.is_empty()
    }

    /// Ends all spares.
    pub(crate) fn close(&self) {
        self.roster.lock().closed = true;
        self.assigned.notify_all();
    }

    /// Waits for an event loop to run; `None` ends the thread.
    fn wait_for_event_loop(&self) -> Option<Box<EventLoop>> {
        let mut roster = self.roster.lock();
        roster.idle += 1;
        let event_loop = loop {
            if let Some(event_loop) = roster.unassigned.pop_front() {
                break Some(event_loop);
            }
            let late = !roster.closed
                && self
                    .assigned
                    .wait_for(&mut roster, SPARE_IDLE_TIME)
                    .timed_out()
                && roster.unassigned.is_empty()
                && roster.idle > self.groups;
            if roster.closed || late {
                break None;
            }
        };
        roster.idle -= 1;
        event_loop
    }

    /// Takes the event loop of a stalled worker; `None` if too many detached workers compute
    /// already, or the call has ended meanwhile.
    pub(super) fn retake(&self, slot: &WorkerSlot) -> Option<Box<EventLoop>> {
        if self.running() >= self.soft {
            return None;
        }
        let mut state = slot.call_state.lock();
        let event_loop = slot.cell.take()?;
        *state = CallState::Running { since: None };
        self.running.fetch_add(1, Ordering::SeqCst);
        sys::lengthen_slice(slot.thread);
        Some(event_loop)
    }

    /// Demotes detached workers that have used much CPU time.
    pub(super) fn demote_long(&self) {
        let slots = self.roster.lock().slots.clone();
        for slot in slots {
            let mut state = slot.call_state.lock();
            let CallState::Running { since } = &mut *state else {
                continue;
            };
            let Ok(used) = sys::cpu_time(slot.thread) else {
                continue;
            };
            let since = *since.get_or_insert(used);
            if used.saturating_sub(since) >= LONG_CPU {
                *state = CallState::Long;
                self.long.fetch_add(1, Ordering::SeqCst);
                sys::demote(slot.thread);
                metrics::add(Counter::Demotions, 1);
            }
        }
    }

    /// Ends the detached state of a worker that has finished its call. Returns the state that it
    /// had.
    fn rejoin(&self, slot: &WorkerSlot, shared: &Shared) -> CallState {
        let before = std::mem::replace(&mut *slot.call_state.lock(), CallState::Attached);
        let mut can_resume = false;
        match before {
            CallState::Attached => {}
            CallState::Waiting { .. } => {
                can_resume = self.waiting.fetch_sub(1, Ordering::SeqCst) == self.soft;
            }
            CallState::Running { .. } | CallState::Long => {
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
        }
        if before == CallState::Long {
            can_resume |=
                self.long.fetch_sub(1, Ordering::SeqCst) == self.groups * MAX_LONG_CALLS_PER_GROUP;
        }
        if can_resume {
            wake_deferring(shared);
        }
        before
    }
}

/// Assigns `event_loop` to a spare worker, or to a new thread.
///
/// # Errors
/// No thread can be created; `event_loop` is returned.
pub(super) fn assign(
    shared: &Arc<Shared>,
    event_loop: Box<EventLoop>,
) -> Result<(), (io::Error, Option<Box<EventLoop>>)> {
    let pool = &shared.workers;
    let group = event_loop.group_index();
    let mut roster = pool.roster.lock();
    roster.unassigned.push_back(event_loop);
    if roster.idle >= roster.unassigned.len() {
        drop(roster);
        pool.assigned.notify_one();
        return Ok(());
    }
    drop(roster);
    spawn(shared).or_else(|error| {
        let mut roster = pool.roster.lock();
        let position = roster
            .unassigned
            .iter()
            .position(|c| c.group_index() == group);
        // If it is not found, another worker has taken the event loop meanwhile.
        match position.and_then(|at| roster.unassigned.remove(at)) {
            Some(event_loop) => Err((error, Some(event_loop))),
            None => Ok(()),
        }
    })
}

/// Like [`assign`]; if no thread can be created the event loop waits for a free
/// worker.
pub(super) fn assign_or_keep(shared: &Arc<Shared>, event_loop: Box<EventLoop>) {
    if let Err((error, event_loop)) = assign(shared, event_loop) {
        tracing::warn!("cannot start a thread for an event loop: {error}");
        let mut roster = shared.workers.roster.lock();
        roster.unassigned.extend(event_loop);
        drop(roster);
        shared.workers.assigned.notify_one();
    }
}

/// Tries again to start a thread for event loops that wait for one.
pub(super) fn assign_waiting(shared: &Arc<Shared>) {
    let pool = &shared.workers;
    let missing = {
        let roster = pool.roster.lock();
        !roster.closed && roster.unassigned.len() > roster.idle
    };
    if missing {
        let _ = spawn(shared);
    }
}

/// Starts a worker thread.
fn spawn(shared: &Arc<Shared>) -> io::Result<()> {
    shared.workers.roster.lock().threads += 1;
    let for_worker = shared.clone();
    let spawned = threads::spawn_sized(Role::Worker, Some(STACK), move || run_worker(&for_worker));
    if spawned.is_err() {
        shared.workers.roster.lock().threads -= 1;
    }
    spawned.map(drop)
}

/// The worker's side of the blocking sections of its sessions.
struct BlockingHook {
    slot: Arc<WorkerSlot>,
    shared: Arc<Shared>,
}

impl blocking::Hook for BlockingHook {
    fn enter(&self) {
        match self.slot.cell.take() {
            Some(event_loop) => self.hand_over(event_loop),
            None => self.note_waiting(),
        }
    }

    fn leave(&self) {
        let pool = &self.shared.workers;
        let mut state = self.slot.call_state.lock();
        let CallState::Waiting { long } = *state else {
            return;
        };
        *state = if long {
            CallState::Long
        } else {
            CallState::Running { since: None }
        };
        if long {
            pool.long.fetch_add(1, Ordering::SeqCst);
        }
        pool.running.fetch_add(1, Ordering::SeqCst);
        drop(state);
        if pool.waiting.fetch_sub(1, Ordering::SeqCst) == pool.soft {
            wake_deferring(&self.shared);
        }
        self.shared.supervisor.unpark();
    }
}

impl BlockingHook {
    /// Assigns the event loop to another worker before this one waits.
    fn hand_over(&self, mut event_loop: Box<EventLoop>) {
        let pool = &self.shared.workers;
        if pool.waiting.fetch_add(1, Ordering::SeqCst) >= pool.hard {
            pool.waiting.fetch_sub(1, Ordering::SeqCst);
            self.slot.cell.lend(event_loop);
            return;
        }
        event_loop.prepare_hand_over();
        match assign(&self.shared, event_loop) {
            Ok(()) => {
                *self.slot.call_state.lock() = CallState::Waiting { long: false };
                metrics::add(Counter::HandOvers, 1);
            }
            Err((error, event_loop)) => {
                pool.waiting.fetch_sub(1, Ordering::SeqCst);
                if let Some(event_loop) = event_loop {
                    self.slot.cell.lend(event_loop);
                }
                tracing::warn!("cannot start a spare worker thread: {error}");
            }
        }
    }

    /// Records that a detached worker waits (again).
    fn note_waiting(&self) {
        let pool = &self.shared.workers;
        let mut state = self.slot.call_state.lock();
        let long = *state == CallState::Long;
        if !long && !matches!(*state, CallState::Running { .. }) {
            return;
        }
        *state = CallState::Waiting { long };
        pool.waiting.fetch_add(1, Ordering::SeqCst);
        pool.running.fetch_sub(1, Ordering::SeqCst);
        if long
            && pool.long.fetch_sub(1, Ordering::SeqCst) == pool.groups * MAX_LONG_CALLS_PER_GROUP
        {
            wake_deferring(&self.shared);
        }
    }
}

/// Runs a worker thread.
fn run_worker(shared: &Arc<Shared>) {
    sys::shorten_slice();
    let slot = Arc::new(WorkerSlot {
        cell: LendCell::default(),
        thread: sys::thread_id(),
        call_state: Mutex::new(CallState::Attached),
    });
    let _ = SLOT.with(|s| s.set(slot.clone()));
    shared.workers.roster.lock().slots.push(slot.clone());
    blocking::install(Some(Box::new(BlockingHook {
        slot: slot.clone(),
        shared: shared.clone(),
    })));
    while let Some(event_loop) = shared.workers.wait_for_event_loop() {
        metrics::use_block(event_loop.group_index());
        let state = run_event_loop(&slot, shared, event_loop);
        if state != CallState::Attached && !sys::restore(slot.thread, shared.workers.nice) {
            break;
        }
    }
    blocking::install(None);
    let mut roster = shared.workers.roster.lock();
    roster.slots.retain(|s| !Arc::ptr_eq(s, &slot));
    roster.threads -= 1;
}

/// Runs one group's event loop until it ends or the worker is detached. Returns the state of the
/// worker's last call.
fn run_event_loop(
    slot: &Arc<WorkerSlot>,
    shared: &Arc<Shared>,
    mut event_loop: Box<EventLoop>,
) -> CallState {
    event_loop.attach(slot);
    loop {
        let retained = match event_loop.next() {
            Job::Exit => {
                event_loop.detach();
                drop(event_loop);
                shared.finished_groups.fetch_add(1, Ordering::SeqCst);
                return CallState::Attached;
            }
            Job::Serve(mut conn, call) => {
                let (verdict, retained) = call_detachable(slot, event_loop, || conn.call(call));
                let verdict = verdict.unwrap_or(Verdict::Ended);
                return_connection(slot, shared, retained, conn, verdict)
            }
            Job::DropSession(session) => {
                call_detachable(slot, event_loop, || drop::<Box<dyn Session>>(session)).1
            }
        };
        match retained {
            Some(retained) => event_loop = retained,
            None => return shared.workers.rejoin(slot, shared),
        }
    }
}

/// Runs a session's code `f` with the event loop lent to the worker's cell.
/// Returns the result, `None` after a panic, and the event loop, `None` if the
/// worker is detached.
fn call_detachable<R>(
    slot: &WorkerSlot,
    event_loop: Box<EventLoop>,
    f: impl FnOnce() -> R,
) -> (Option<R>, Option<Box<EventLoop>>) {
    slot.cell.lend(event_loop);
    let result = catch_unwind(AssertUnwindSafe(f)).ok();
    (result, slot.cell.take())
}

/// Returns the connection to its group: directly to the retained event loop, or
/// through the inbox if another worker runs the event loop now.
fn return_connection(
    slot: &WorkerSlot,
    shared: &Shared,
    retained: Option<Box<EventLoop>>,
    mut conn: Box<Conn>,
    verdict: Verdict,
) -> Option<Box<EventLoop>> {
    if let Some(mut event_loop) = retained {
        conn.long_until = 0;
        conn.last_call_was_detached = false;
        event_loop.settle(conn, verdict);
        return Some(event_loop);
    }
    conn.last_call_was_detached = true;
    conn.long_until = if *slot.call_state.lock() == CallState::Long {
        shared.now() + LONG_CALL_DEFERRAL_MS
    } else {
        0
    };
    // Sends the reply before the group's event loop settles the connection,
    // unless it is delayed. An error occurs again when the event loop flushes.
    if !matches!(verdict, Verdict::Next(Next::Delay { .. })) {
        let _ = conn.out.flush();
    }
    let group = conn.group.clone();
    group.send(|inbox| inbox.returned.push((conn, verdict)));
    None
}
