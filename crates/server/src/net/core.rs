//! A group's state: its connections, who is ready, who waits for the log.
//!
//! The loop: serve everybody who was ready when the round began, one call of
//! a session each; then let go what the log has caught up with, look at the
//! sockets (without waiting if somebody is still ready), the inbox, the
//! deadlines. [`Core::next`] returns whenever a session must be called, so
//! that the worker can lend the core to the call (see `worker`).
//!
//! Invariants:
//! 1. A place with `QUEUED` set is in `ready` exactly once, or in `deferred`.
//! 2. `READABLE` is cleared only when a read has emptied the socket.
//! 3. `next_deadline` is never later than the earliest deadline of a
//!    connection at home; sweeps that find nobody late only correct it.

use super::conn::{Call, Conn, Verdict};
use super::door::Session;
use super::group::{Group, Inbox, Newcomer, Token, WAKE};
use super::output::Output;
use super::pool::Pool;
use super::transport::Transport;
use super::{Phase, Shared};
use crate::metrics::{self, Counter};
use crate::sys::{self, Epoll, EventBuf, events};
use porpoise_base::cancel::{Cancel, Reason};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Milliseconds that a session goes on waiting whose client has ended what it
/// sends, where the protocol's clients do not do so and stay.
const GRACE: u64 = 2_000;

/// Events fetched at once.
const EVENTS: usize = 128;

/// What is remembered about a connection's socket and place.
pub(super) mod flag {
    /// The socket may have something to read.
    pub const READABLE: u8 = 1;
    /// The peer has ended its writing side.
    pub const ENDED: u8 = 2;
    /// The socket is gone in both directions.
    pub const HUNG_UP: u8 = 4;
    /// In the ready queue or deferred.
    pub const QUEUED: u8 = 8;
    /// Its cancel handle was used, or the server shuts down.
    pub const KICKED: u8 = 16;
    /// The place belongs to a connection.
    pub const TAKEN: u8 = 32;
    /// Who ends the writing side goes away, as a rule.
    pub const NEVER_HALF: u8 = 64;
}

/// A place in the group's table.
pub(super) struct Slot {
    /// `None` while a worker has it.
    pub(super) conn: Option<Box<Conn>>,
    pub(super) flags: u8,
    pub(super) generation: u32,
    pub(super) fd: RawFd,
    pub(super) deadline: u64,
    /// When its wait ends, for the client seems to be gone.
    pub(super) hang_up: u64,
    pub(super) cancel: Option<Cancel>,
}

/// What the worker is to do next.
pub(super) enum Job {
    /// Call the session, then [`Core::settle`].
    Serve(Box<Conn>, Call),
    /// Drop a session; rolling back may wait.
    Bury(Box<dyn Session>),
    /// The group has ended.
    Exit,
}

/// Counted since the last look at the sockets.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
}

/// See the module.
pub(crate) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<Group>,
    pub(super) epoll: Epoll,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<u32>,
    pub(super) ready: VecDeque<u32>,
    round: usize,
    newcomers: VecDeque<Newcomer>,
    pub(super) graves: Vec<Box<dyn Session>>,
    pub(super) deferred: VecDeque<u32>,
    pub(super) held: BinaryHeap<Reverse<(u64, u32, u32)>>,
    pub(super) pool: Pool,
    events: EventBuf,
    pub(super) now: u64,
    pub(super) next_deadline: u64,
    pub(super) live: usize,
    pub(super) serving: Option<u32>,
    pub(super) tally: Tally,
    phase: Phase,
}

impl Core {
    pub(super) fn new(shared: Arc<Shared>, group: Arc<Group>, epoll: Epoll) -> Core {
        Core {
            shared,
            group,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            round: 0,
            newcomers: VecDeque::new(),
            graves: Vec::new(),
            deferred: VecDeque::new(),
            held: BinaryHeap::new(),
            pool: Pool::default(),
            events: EventBuf::new(EVENTS),
            now: 0,
            next_deadline: u64::MAX,
            live: 0,
            serving: None,
            tally: Tally::default(),
            phase: Phase::Serve,
        }
    }

    /// The number of the group.
    pub(super) fn group_index(&self) -> usize {
        self.group.index
    }

    /// Runs the group until a session must be called.
    pub(super) fn next(&mut self) -> Job {
        self.serving = None;
        loop {
            if let Some(session) = self.graves.pop() {
                return Job::Bury(session);
            }
            if let Some(newcomer) = self.newcomers.pop_front() {
                if let Some(job) = self.admit(newcomer) {
                    return job;
                }
                continue;
            }
            if self.round > 0 {
                self.round -= 1;
                let Some(index) = self.ready.pop_front() else {
                    self.round = 0;
                    continue;
                };
                if let Some((conn, call)) = self.prepare(index) {
                    self.serving = Some(index);
                    return Job::Serve(conn, call);
                }
                continue;
            }
            if self.phase != Phase::Serve && self.live == 0 {
                self.publish();
                return Job::Exit;
            }
            self.look_around();
            self.round = self.ready.len();
        }
    }

    /// The session being served is about to wait, and this core goes to
    /// another worker: from now on a client that goes away ends that wait.
    pub(super) fn part_with_served(&mut self) {
        if let Some(index) = self.serving.take() {
            self.watch_waiting(index);
        }
    }

    /// Ends the wait of a connection that a worker has if its client is gone.
    fn watch_waiting(&mut self, index: u32) {
        let now = self.shared.now();
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        if slot.flags & flag::HUNG_UP != 0 || slot.hang_up <= now {
            if let Some(cancel) = slot.cancel.clone()
                && cancel.reason().is_none_or(|r| !r.ends_session())
            {
                metrics::add(Counter::HangUps, 1);
                cancel.cancel(Reason::Connection);
            }
        } else if slot.flags & flag::ENDED != 0 {
            sys::probe_peer(slot.fd);
            if slot.flags & flag::NEVER_HALF != 0 && slot.hang_up == u64::MAX {
                slot.hang_up = now + GRACE;
                self.next_deadline = self.next_deadline.min(slot.hang_up);
            }
        }
    }

    /// Puts a connection into the ready queue, once.
    pub(super) fn enqueue(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.conn.is_some()
            && slot.flags & flag::QUEUED == 0
        {
            slot.flags |= flag::QUEUED;
            self.ready.push_back(index);
        }
    }

    /// Gives a new connection a place and a session.
    fn admit(&mut self, newcomer: Newcomer) -> Option<Job> {
        let fd = newcomer.socket.as_raw_fd();
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    conn: None,
                    flags: 0,
                    generation: 0,
                    fd: -1,
                    deadline: u64::MAX,
                    hang_up: u64::MAX,
                    cancel: None,
                });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        let token = Token {
            index,
            generation: slot.generation,
        };
        let group = self.group.clone();
        let cancel = Cancel::owned(Arc::new(move || {
            group.leave(|inbox| inbox.kicked.push(token));
        }));
        slot.fd = fd;
        slot.flags = match newcomer.door.half_closes() {
            true => flag::TAKEN,
            false => flag::TAKEN | flag::NEVER_HALF,
        };
        slot.deadline = u64::MAX;
        slot.hang_up = u64::MAX;
        slot.cancel = Some(cancel.clone());
        let interest = events::IN | events::RDHUP | events::EDGE;
        if let Err(error) = self.epoll.add(fd, interest, token.pack()) {
            tracing::warn!("cannot watch a connection: {error}");
            slot.flags = 0;
            self.free.push(index);
            self.forget_connection();
            return None;
        }
        self.live += 1;
        self.now = self.shared.now();
        self.shared.before_login.fetch_add(1, Ordering::Relaxed);
        let peer = Box::new(newcomer.peer(cancel.clone(), &self.shared.config.memory));
        let out = Output::new(
            Transport::new(newcomer.socket),
            self.shared.marks.clone(),
            cancel.clone(),
            self.shared.config.net_write_timeout,
            &peer.memory,
        );
        let group = self.group.clone();
        let conn = Box::new(Conn::new(token, newcomer.id, group, out, cancel, self.now));
        self.serving = Some(index);
        Some(Job::Serve(conn, Call::Open(newcomer.door, peer)))
    }

    /// One connection less, here and in all.
    pub(super) fn forget_connection(&self) {
        self.shared.connections.fetch_sub(1, Ordering::SeqCst);
        self.group.connections.fetch_sub(1, Ordering::Relaxed);
        metrics::add(Counter::Closed, 1);
    }

    /// Adds what was counted to the metrics.
    fn publish(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        if tally.requests | tally.received | tally.sent != 0 {
            metrics::add(Counter::Requests, tally.requests);
            metrics::add(Counter::BytesReceived, tally.received);
            metrics::add(Counter::BytesSent, tally.sent);
        }
        metrics::add(Counter::Polls, 1);
    }

    /// Log, sockets, inbox, deadlines, shutdown.
    fn look_around(&mut self) {
        self.release_held();
        self.publish();
        let mut timeout = Some(Duration::ZERO);
        if self.ready.is_empty() {
            timeout = self.try_to_sleep();
        }
        let n = self
            .epoll
            .wait(&mut self.events, timeout)
            .unwrap_or_else(|error| {
                tracing::error!("epoll_wait: {error}");
                0
            });
        self.group.wake_up();
        self.now = self.shared.now();
        for i in 0..n {
            if let Some((bits, data)) = self.events.get(i)
                && data != WAKE
            {
                self.note(bits, Token::unpack(data));
            }
        }
        if self.group.is_dirty() {
            let inbox = self.group.take_inbox();
            self.take_in(inbox);
        }
        if !self.deferred.is_empty() && !self.shared.staff.is_full() {
            self.group.deferring.store(false, Ordering::SeqCst);
            while let Some(index) = self.deferred.pop_front() {
                self.unqueue(index);
                self.enqueue(index);
            }
        }
        if self.now >= self.next_deadline {
            self.sweep();
        }
        let phase = self.shared.phase();
        if phase > self.phase {
            self.phase = phase;
            self.kick_all(phase);
        }
    }

    /// Announces that the group is about to sleep and says for how long; not
    /// at all if something has come meanwhile.
    fn try_to_sleep(&mut self) -> Option<Duration> {
        let lowest = self
            .held
            .peek()
            .map_or(u64::MAX, |Reverse((ticket, ..))| *ticket);
        self.group.fall_asleep(lowest);
        let marks = &self.shared.marks;
        let stirred = self.group.is_dirty()
            || marks.durable_mark().0 >= lowest
            || (lowest != u64::MAX && marks.has_failed())
            || (!self.deferred.is_empty() && !self.shared.staff.is_full())
            || self.shared.phase() > self.phase;
        if stirred {
            return Some(Duration::ZERO);
        }
        if self.next_deadline == u64::MAX {
            return None;
        }
        let now = self.shared.now();
        Some(Duration::from_millis(
            self.next_deadline.saturating_sub(now).max(1),
        ))
    }

    /// Remembers what epoll has reported.
    fn note(&mut self, bits: u32, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index as usize) else {
            return;
        };
        if slot.generation != token.generation || slot.flags & flag::TAKEN == 0 {
            return;
        }
        if bits & (events::IN | events::RDHUP | events::HUP | events::ERR) != 0 {
            slot.flags |= flag::READABLE;
        }
        if bits & events::RDHUP != 0 {
            slot.flags |= flag::ENDED;
        }
        if bits & (events::HUP | events::ERR) != 0 {
            slot.flags |= flag::HUNG_UP | flag::ENDED;
        }
        if slot.conn.is_some() {
            self.enqueue(token.index);
        } else if bits & (events::RDHUP | events::HUP | events::ERR) != 0 {
            self.watch_waiting(token.index);
        }
    }

    fn take_in(&mut self, inbox: Inbox) {
        self.newcomers.extend(inbox.newcomers);
        for (conn, verdict) in inbox.returned {
            self.settle(conn, verdict);
        }
        for token in inbox.kicked {
            if let Some(slot) = self.slots.get_mut(token.index as usize)
                && slot.generation == token.generation
            {
                slot.flags |= flag::KICKED;
                self.enqueue(token.index);
            }
        }
    }

    fn unqueue(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.flags &= !flag::QUEUED;
        }
    }

    /// Queues everybody whose reply the log has caught up with.
    fn release_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let failed = self.shared.marks.has_failed();
        let mark = self.shared.marks.durable_mark().0;
        while let Some(Reverse((ticket, index, generation))) = self.held.peek().copied() {
            if ticket > mark && !failed {
                break;
            }
            self.held.pop();
            if let Some(slot) = self.slots.get_mut(index as usize)
                && slot.generation == generation
            {
                if let Some(conn) = &mut slot.conn {
                    conn.waiting_for = 0;
                }
                self.enqueue(index);
            }
        }
    }

    /// Queues everybody whose deadline is over, and finds the next one.
    fn sweep(&mut self) {
        let now = self.now;
        let mut next = u64::MAX;
        let (mut late, mut gone) = (Vec::new(), Vec::new());
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.conn.is_none() {
                if slot.flags & flag::TAKEN == 0 {
                    continue;
                }
                match slot.hang_up <= now {
                    true => gone.push(index as u32),
                    false => next = next.min(slot.hang_up),
                }
            } else if slot.deadline <= now {
                late.push(index as u32);
            } else {
                next = next.min(slot.deadline);
            }
        }
        self.next_deadline = next;
        for index in gone {
            self.watch_waiting(index);
        }
        for index in late {
            self.enqueue(index);
        }
    }

    /// The shutdown has come a step further.
    fn kick_all(&mut self, phase: Phase) {
        let mut taken = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.flags & flag::TAKEN == 0 {
                continue;
            }
            slot.flags |= flag::KICKED;
            if phase >= Phase::Cancel
                && let Some(cancel) = slot.cancel.clone()
            {
                taken.push((index as u32, Some(cancel)));
            } else {
                taken.push((index as u32, None));
            }
        }
        for (index, cancel) in taken {
            if let Some(cancel) = cancel {
                cancel.cancel(Reason::Shutdown);
            }
            self.enqueue(index);
        }
    }

    /// How far the shutdown has come, as this group knows.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// After a call of the session, with the group at hand.
    pub(super) fn settle(&mut self, mut conn: Box<Conn>, verdict: Verdict) {
        self.tally.requests += conn.out.take_requests();
        if self.apply(&mut conn, verdict) {
            self.rest(conn);
        } else {
            self.bury(conn);
        }
    }
}
