//! The part of a group that other threads may touch: its inbox and its alarm.
//!
//! Invariants:
//! 1. Whoever puts something into the inbox sets `dirty`, then rouses; the
//!    worker falls asleep, then looks at `dirty`. One sees the other
//!    ([`Sleeper`]).
//! 2. The event descriptor is written only for a group that sleeps, so a busy
//!    group is never disturbed by a system call.

use super::budget::Budget;
use super::conn::{Conn, Verdict};
use super::door::{Door, Peer};
use super::worker::WorkerSlot;
use crate::sys::{Epoll, EventFd, events};
use parking_lot::Mutex;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::{ConnectionMemory, MemoryBudget};
use porpoise_base::sleeper::Sleeper;
use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The epoll data of the event descriptor.
pub(super) const WAKE: u64 = u64::MAX;

/// Names a connection within its group. A generation never comes back for
/// the same place, so a late event finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Token {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn unpack(raw: u64) -> Token {
        Token {
            index: (raw & 0xffff_ffff) as u32,
            generation: (raw >> 32) as u32,
        }
    }
}

/// An accepted socket on its way to a session.
pub(super) struct Newcomer {
    pub(super) socket: Socket,
    pub(super) door: Arc<dyn Door>,
    pub(super) peer: Option<std::net::SocketAddr>,
    pub(super) id: u64,
    pub(super) reserved: bool,
    pub(super) budget: Arc<Budget>,
}

impl Newcomer {
    /// Who it is, once its cancel handle is known.
    pub(super) fn peer(&self, cancel: Cancel, budget: &Arc<MemoryBudget>) -> Peer {
        Peer {
            id: self.id,
            address: self.peer,
            reserved: self.reserved,
            cancel,
            memory: Arc::new(ConnectionMemory::new(budget.clone())),
        }
    }
}

/// What others have left for the group's worker.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) newcomers: Vec<Newcomer>,
    pub(super) returned: Vec<(Box<Conn>, Verdict)>,
    pub(super) kicked: Vec<Token>,
    /// Number of the last question of a health check; 0: none.
    pub(super) asked: u64,
    /// Connections before login that make room for others.
    pub(super) evicted: Vec<Token>,
}

/// See the module.
#[repr(align(128))]
pub(crate) struct Group {
    pub(super) index: usize,
    alarm: EventFd,
    sleeper: Sleeper,
    dirty: AtomicBool,
    inbox: Mutex<Inbox>,
    /// Connections that belong to this group, or are on their way to it.
    pub(super) connections: AtomicUsize,
    /// Requests wait until fewer sessions are waiting.
    pub(super) deferring: AtomicBool,
    /// Questions of health checks, and the last that the worker has seen.
    asked: AtomicU64,
    answered: AtomicU64,
    /// The worker that runs the event loop, for the supervisor.
    worker: Mutex<Option<Arc<WorkerSlot>>>,
    /// When the event loop last looked at its sockets, in the server's
    /// milliseconds. Stands still while the group sleeps.
    pub(super) last_progress: AtomicU64,
}

impl Group {
    pub(super) fn new(index: usize) -> io::Result<(Group, Epoll)> {
        let epoll = Epoll::new()?;
        let alarm = EventFd::new()?;
        // Edge-triggered: every write is a new event, nothing needs to be read.
        epoll.add(alarm.as_raw_fd(), events::IN | events::EDGE, WAKE)?;
        let group = Group {
            index,
            alarm,
            sleeper: Sleeper::default(),
            dirty: AtomicBool::new(false),
            inbox: Mutex::new(Inbox::default()),
            connections: AtomicUsize::new(0),
            deferring: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            worker: Mutex::new(None),
            last_progress: AtomicU64::new(0),
        };
        Ok((group, epoll))
    }

    /// Wakes the worker if it sleeps.
    pub(super) fn rouse(&self) {
        if self.sleeper.rouse() {
            self.alarm.signal();
        }
    }

    /// Wakes the worker if it sleeps and holds a reply up to this mark.
    pub(super) fn reached(&self, mark: u64) {
        if self.sleeper.reached(mark) {
            self.alarm.signal();
        }
    }

    /// Wakes the worker if it sleeps and holds any reply.
    pub(super) fn rouse_if_holding(&self) {
        if self.sleeper.awaits_a_mark() {
            self.rouse();
        }
    }

    /// The worker is about to sleep, holding replies from `lowest` on. The
    /// caller looks at everything that may wake it after this.
    pub(super) fn fall_asleep(&self, lowest: u64) {
        self.sleeper.fall_asleep(lowest);
    }

    /// The worker is awake again.
    pub(super) fn wake_up(&self) {
        self.sleeper.wake_up();
    }

    /// Whether the worker sleeps, or is about to.
    pub(super) fn is_asleep(&self) -> bool {
        self.sleeper.is_asleep()
    }

    /// The worker that runs the event loop.
    pub(super) fn worker(&self) -> Option<Arc<WorkerSlot>> {
        self.worker.lock().clone()
    }

    /// Another worker, or none, runs the event loop from now on.
    pub(super) fn set_worker(&self, worker: Option<Arc<WorkerSlot>>) {
        *self.worker.lock() = worker;
    }

    /// Whether the inbox has something.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }

    /// Leaves something in the inbox and wakes the worker.
    pub(super) fn leave(&self, put: impl FnOnce(&mut Inbox)) {
        put(&mut self.inbox.lock());
        self.dirty.store(true, Ordering::SeqCst);
        self.rouse();
    }

    /// Asks the worker for a sign of life; the number of the question.
    pub(super) fn ask(&self) -> u64 {
        let question = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.leave(|inbox| inbox.asked = inbox.asked.max(question));
        question
    }

    /// Notes that the worker has seen a question.
    pub(super) fn answer(&self, question: u64) {
        self.answered.fetch_max(question, Ordering::SeqCst);
    }

    /// Whether the worker has seen a question.
    pub(super) fn has_answered(&self, question: u64) -> bool {
        self.answered.load(Ordering::SeqCst) >= question
    }

    /// Empties the inbox.
    pub(super) fn take_inbox(&self) -> Inbox {
        self.dirty.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.inbox.lock())
    }
}
