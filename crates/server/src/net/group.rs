//! The part of a group shared with other threads: its inbox and its wake-up.
//!
//! Invariants:
//! 1. No lost wake-up: the sender sets `dirty`, then reads the sleep state; the
//!    worker publishes that it sleeps, then reads `dirty`. One sees the other
//!    ([`Sleeper`]).
//! 2. The event descriptor is written only for a group that sleeps, so a busy
//!    group costs its senders no system call.

use super::budget::Budget;
use super::conn::{Conn, Verdict};
use super::protocol::{Peer, Protocol};
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

/// Identifies a connection within its group. The generation changes whenever the
/// entry is reused, so that a late event finds no connection.
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
pub(super) struct NewConnection {
    pub(super) socket: Socket,
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) peer: Option<std::net::SocketAddr>,
    pub(super) id: u64,
    pub(super) reserved: bool,
    pub(super) budget: Arc<Budget>,
}

impl NewConnection {
    /// Returns the session's description of this connection, with its cancel handle.
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

/// Messages of other threads to the group's worker.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) new_connections: Vec<NewConnection>,
    /// Connections that detached workers return, with the results of their calls.
    pub(super) returned: Vec<(Box<Conn>, Verdict)>,
    /// Connections whose cancel handle was used.
    pub(super) cancelled: Vec<Token>,
    /// Number of the last liveness probe; 0: none.
    pub(super) probe_requested: u64,
    /// Connections before login that are evicted to make room for others.
    pub(super) evicted: Vec<Token>,
}

/// A worker group as other threads see it; see the module.
#[repr(align(128))]
pub(crate) struct Group {
    pub(super) index: usize,
    alarm: EventFd,
    sleeper: Sleeper,
    dirty: AtomicBool,
    inbox: Mutex<Inbox>,
    /// Connections that belong to this group, or are on their way to it.
    pub(super) connections: AtomicUsize,
    /// Whether requests of this group are deferred.
    pub(super) deferring: AtomicBool,
    /// Number of liveness probes sent.
    probe_requested: AtomicU64,
    /// Number of the last liveness probe that the worker has seen.
    probe_seen: AtomicU64,
    /// The worker that runs the event loop, for the supervisor.
    worker: Mutex<Option<Arc<WorkerSlot>>>,
    /// Time of the event loop's last poll of its sockets, in the server's
    /// milliseconds. It does not advance while the group sleeps.
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
            probe_requested: AtomicU64::new(0),
            probe_seen: AtomicU64::new(0),
            worker: Mutex::new(None),
            last_progress: AtomicU64::new(0),
        };
        Ok((group, epoll))
    }

    /// Wakes the worker if it sleeps.
    pub(super) fn wake(&self) {
        if self.sleeper.wake() {
            self.alarm.signal();
        }
    }

    /// Wakes the worker if it sleeps with a deferred reply whose position is at most `durable`.
    pub(super) fn wake_for(&self, durable: u64) {
        if self.sleeper.wake_for(durable) {
            self.alarm.signal();
        }
    }

    /// Wakes the worker if it sleeps with any deferred reply.
    pub(super) fn wake_if_deferring(&self) {
        if self.sleeper.waits_for_position() {
            self.wake();
        }
    }

    /// Publishes that the worker is about to sleep, with deferred replies from
    /// `lowest` on. Afterwards the caller checks every reason to stay awake.
    pub(super) fn prepare_to_sleep(&self, lowest: u64) {
        self.sleeper.prepare_to_sleep(lowest);
    }

    /// Publishes that the worker is awake.
    pub(super) fn finish_sleep(&self) {
        self.sleeper.finish_sleep();
    }

    /// Whether the worker sleeps, or is about to.
    pub(super) fn is_asleep(&self) -> bool {
        self.sleeper.is_asleep()
    }

    /// The worker that runs the event loop.
    pub(super) fn worker(&self) -> Option<Arc<WorkerSlot>> {
        self.worker.lock().clone()
    }

    /// Sets the worker that runs the event loop.
    pub(super) fn set_worker(&self, worker: Option<Arc<WorkerSlot>>) {
        *self.worker.lock() = worker;
    }

    /// Whether the inbox may hold messages.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }

    /// Puts a message into the inbox and wakes the worker.
    pub(super) fn send(&self, put: impl FnOnce(&mut Inbox)) {
        put(&mut self.inbox.lock());
        self.dirty.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Sends a liveness probe to the worker. Returns the number of the probe.
    pub(super) fn send_probe(&self) -> u64 {
        let probe = self.probe_requested.fetch_add(1, Ordering::SeqCst) + 1;
        self.send(|inbox| inbox.probe_requested = inbox.probe_requested.max(probe));
        probe
    }

    /// Records that the worker has seen a probe.
    pub(super) fn note_probe_seen(&self, probe: u64) {
        self.probe_seen.fetch_max(probe, Ordering::SeqCst);
    }

    /// Whether the worker has seen a probe.
    pub(super) fn has_seen_probe(&self, probe: u64) -> bool {
        self.probe_seen.load(Ordering::SeqCst) >= probe
    }

    /// Empties the inbox.
    pub(super) fn take_inbox(&self) -> Inbox {
        self.dirty.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.inbox.lock())
    }
}
