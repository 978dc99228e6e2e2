//! The supervisor: retakes event loops from stalled workers.
//!
//! Every [`CALM_TICK`], or [`ALERT_TICK`] after a retake, one thread checks the
//! cell of each group's worker (`porpoise_base::lend`). A loan older than
//! [`STALL`] is a session's call that computes for long, or waits outside of
//! `porpoise_base::blocking`. The supervisor takes the event loop out of the
//! cell and assigns it to another worker, as Go's `sysmon` retakes processors
//! and the thread pools of MariaDB and MySQL detect stalls. It also checks
//! detached workers that compute, and demotes those that have used [`LONG_CPU`] of CPU time (see `worker`).
//!
//! ```text
//!  worker A   lend ........................ computing ............ take: None
//!  supervisor       tick  tick  take -> B                          (returns the
//!  worker B                     serves the group's other clients    connection,
//!                                                                   is a spare)
//! ```
//!
//! Invariants:
//! 1. No lost wake-up: the supervisor stores `parked`, then checks that every
//!    group sleeps and no detached worker runs; a group that wakes up, or a worker
//!    that ends a wait, stores that, then reads `parked`. All four are SeqCst, so
//!    one sees the other.
//! 2. The worker sees a retake and its new class as one step: both happen under
//!    the lock of the class, which the worker takes when its cell is empty.
//! 3. An idle server has no ticks; a busy one has 400 per second, of ten
//!    microseconds each: 0.2 % of two processors. While statements stall it has
//!    1,300, which cost short statements 2 % of their CPU time: too much for a
//!    server without stalls, little beside one.
//!
//! Rejected: checkpoints in every loop of the statement executor as the only
//! means (one missing checkpoint stops a group; they are still needed to *end* a
//! statement); a timer signal per worker (interrupts system calls, and few
//! functions are safe in a handler); one event loop shared by all workers (see the parent module).

use super::Shared;
use super::worker::{self, WorkerSlot};
use crate::metrics::{self, Counter};
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two checks if no event loop was retaken within the last [`ALERT`]. The first call
/// that stalls then delays its group's other clients for 2.5 to 5 ms.
const CALM_TICK: Duration = Duration::from_micros(2500);

/// Time between two checks within [`ALERT`] of a retake. Clients that send one long statement after
/// the other delay their group for 0.75 to 1.5 ms each time, which is most of the 99th percentile of
/// the other clients' latency.
const ALERT_TICK: Duration = Duration::from_micros(750);

/// Time after a retake in which the next one is expected.
const ALERT: Duration = Duration::from_millis(250);

/// Age of a loan at which the event loop is retaken.
const STALL: Duration = Duration::from_micros(750);

/// CPU time of a detached worker after which it is demoted.
pub(super) const LONG_CPU: Duration = Duration::from_millis(10);

/// Ticks without work after which the supervisor parks.
const IDLE_TICKS_TO_PARK: u32 = 20;

/// Wakes and parks the supervisor thread; shared by all groups.
#[derive(Default)]
pub(crate) struct Supervisor {
    parked: AtomicBool,
    closed: Mutex<bool>,
    wake: Condvar,
}

impl Supervisor {
    /// Wakes the supervisor if it is parked.
    pub(super) fn unpark(&self) {
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            drop(self.closed.lock());
            self.wake.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_one();
    }

    /// Waits until the next check; false once closed.
    fn tick(&self, length: Duration) -> bool {
        let mut closed = self.closed.lock();
        if !*closed {
            self.wake.wait_for(&mut closed, length);
        }
        !*closed
    }

    /// Parks while the server is idle; false once closed.
    fn park(&self, shared: &Shared) -> bool {
        let mut closed = self.closed.lock();
        self.parked.store(true, Ordering::SeqCst);
        if is_idle(shared) {
            while !*closed && self.parked.load(Ordering::SeqCst) {
                self.wake.wait(&mut closed);
            }
        }
        self.parked.store(false, Ordering::SeqCst);
        !*closed
    }
}

/// Whether no call is running: every group sleeps and no detached worker runs.
fn is_idle(shared: &Shared) -> bool {
    shared.groups.iter().all(|group| group.is_asleep())
        && shared.workers.running() == 0
        && !shared.workers.has_unassigned()
}

/// Starts the supervisor's thread.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = shared.clone();
    let work = move || {
        crate::sys::shorten_slice();
        run(&shared);
    };
    threads::spawn(Role::Supervisor, work).map(drop)
}

fn run(shared: &Arc<Shared>) {
    let mut observers: Vec<LoanObserver> = shared
        .groups
        .iter()
        .map(|_| LoanObserver::default())
        .collect();
    let mut idle = 0;
    let mut alert_end = None;
    loop {
        let open = if idle < IDLE_TICKS_TO_PARK {
            let is_alert = alert_end.is_some_and(|end| Instant::now() < end);
            let length = if is_alert { ALERT_TICK } else { CALM_TICK };
            shared.supervisor.tick(length)
        } else {
            idle = 0;
            shared.supervisor.park(shared)
        };
        if !open {
            return;
        }
        idle = if is_idle(shared) { idle + 1 } else { 0 };
        let now = Instant::now();
        for (group, observer) in shared.groups.iter().zip(&mut observers) {
            if let Some(stalled) = observer.observe(group.worker(), now) {
                retake(shared, &stalled);
                alert_end = Some(now + ALERT);
            }
        }
        if shared.workers.running() > 0 {
            shared.workers.demote_long();
        }
        worker::assign_waiting(shared);
    }
}

/// Observer of the loans in the cell of a group's worker.
#[derive(Default)]
struct LoanObserver {
    loan: Option<Loan>,
}

/// A loan of an event loop.
struct Loan {
    slot: Arc<WorkerSlot>,
    /// Number of the loan in its cell.
    number: u64,
    /// Time of the check that first saw it.
    since: Instant,
}

impl LoanObserver {
    /// The worker's slot, if the same loan has lasted too long.
    fn observe(&mut self, slot: Option<Arc<WorkerSlot>>, now: Instant) -> Option<Arc<WorkerSlot>> {
        let Some(slot) = slot.filter(|s| !s.cell.is_empty()) else {
            self.loan = None;
            return None;
        };
        let number = slot.cell.loans();
        match &self.loan {
            Some(loan) if loan.number == number && Arc::ptr_eq(&loan.slot, &slot) => {
                (now.duration_since(loan.since) >= STALL).then_some(slot)
            }
            _ => {
                self.loan = Some(Loan {
                    slot,
                    number,
                    since: now,
                });
                None
            }
        }
    }
}

/// Takes the event loop from a stalled worker and assigns it to another.
fn retake(shared: &Arc<Shared>, slot: &WorkerSlot) {
    let Some(mut event_loop) = shared.workers.retake(slot) else {
        return;
    };
    metrics::add(Counter::Retakes, 1);
    event_loop.prepare_hand_over();
    worker::assign_or_keep(shared, event_loop);
}
