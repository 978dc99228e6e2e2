//! The event loop of a group: its connections, ready queues and deferred replies.
//!
//! The loop serves every connection that was ready when the round began, with one
//! call of its session each. Then it releases deferred replies that are durable,
//! polls the sockets (without waiting if a connection is still ready), empties the
//! inbox, and checks deadlines. [`EventLoop::next`] returns whenever a session must be called, so
//! that the worker can lend the event loop during the call (see `worker`).
//!
//! Invariants:
//! 1. A table entry with `QUEUED` set is in `ready` or `ready_logins` exactly once,
//!    or in `deferred`.
//! 2. `READABLE` is cleared only when a read has emptied the socket.
//! 3. `next_deadline` is never later than the earliest deadline of a
//!    connection in the table; a sweep that finds none overdue only corrects it.

use super::conn::{Call, Conn, Verdict};
use super::defer::Deferred;
use super::group::{Group, Inbox, NewConnection, Token, WAKE};
use super::pool::Pool;
use super::protocol::Session;
use super::send_batch::{MAX_SENDS, SendBatch};
use super::worker::WorkerSlot;
use super::{Phase, Shared};
use crate::metrics::{self, Counter};
use crate::sys::{self, Epoll, EventBuf, events};
use porpoise_base::cancel::{Cancel, Reason};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Milliseconds for which a session continues to wait after its client has shut down its
/// writing side, on protocols whose clients do not half-close.
const HALF_CLOSE_GRACE_MS: u64 = 2_000;

/// Maximum of events fetched at once.
const EVENTS: usize = 128;

/// Flags of a table entry: state of the socket and of the connection.
pub(super) mod flag {
    /// The socket may have something to read.
    pub const READABLE: u16 = 1;
    /// The peer has ended its writing side.
    pub const ENDED: u16 = 2;
    /// The connection is closed in both directions.
    pub const HUNG_UP: u16 = 4;
    /// In the ready queue or deferred.
    pub const QUEUED: u16 = 8;
    /// The connection's cancel handle was used, or the server shuts down.
    pub const CANCELLED: u16 = 16;
    /// The entry belongs to a connection.
    pub const IN_USE: u16 = 32;
    /// Clients of this protocol do not half-close.
    pub const NEVER_HALF_CLOSES: u16 = 64;
    /// The session has not logged in.
    pub const BEFORE_LOGIN: u16 = 128;
    /// The connection's request is deferred.
    pub const DEFERRED: u16 = 256;
    /// The connection is evicted to make room for another one before login.
    pub const EVICTED: u16 = 512;
}

/// An entry of the group's connection table.
pub(super) struct Slot {
    /// `None` while a worker is serving the connection.
    pub(super) conn: Option<Box<Conn>>,
    /// Bits of [`flag`].
    pub(super) flags: u16,
    /// Incremented when the entry is freed.
    pub(super) generation: u32,
    pub(super) fd: RawFd,
    /// Time at which the connection is checked without an event, in the server's milliseconds.
    pub(super) deadline: u64,
    /// Time at which its wait is cancelled, because the client seems to have disconnected.
    pub(super) hang_up: u64,
    pub(super) cancel: Option<Cancel>,
}

impl Slot {
    /// A free entry.
    pub(super) fn free() -> Slot {
        Slot {
            conn: None,
            flags: 0,
            generation: 0,
            fd: -1,
            deadline: u64::MAX,
            hang_up: u64::MAX,
            cancel: None,
        }
    }
}

/// The worker's next task.
pub(super) enum Job {
    /// Call the session, then [`EventLoop::settle`] its connection.
    Serve(Box<Conn>, Call),
    /// Drop a session; rolling back may wait.
    DropSession(Box<dyn Session>),
    /// The group has ended.
    Exit,
}

/// Counts since the last poll of the sockets.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
}

/// An event loop; see the module.
pub(crate) struct EventLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<Group>,
    pub(super) epoll: Epoll,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<u32>,
    /// Entries to serve. Those before login have a queue of their own; the two queues alternate, so
    /// that neither kind waits for more than one call of the other.
    ready: VecDeque<u32>,
    ready_logins: VecDeque<u32>,
    /// Whether an entry of `ready_logins` was the last to be served.
    login_turn: bool,
    /// Number of entries to serve before the sockets are polled again.
    round: usize,
    new_connections: VecDeque<NewConnection>,
    /// Sessions to drop.
    pub(super) closing_sessions: Vec<Box<dyn Session>>,
    pub(super) deferred: Deferred,
    /// Connections with deferred replies: commit position, index and generation of the entry.
    pub(super) deferred_replies: BinaryHeap<Reverse<(u64, u32, u32)>>,
    pub(super) pool: Pool,
    /// Sends of several connections with one system call; `None` if the kernel does not offer it.
    pub(super) send_batch: Option<SendBatch>,
    /// Connections whose replies are sent together, at the end of the round at the latest.
    #[allow(clippy::vec_box, reason = "a connection is moved by its pointer")]
    pub(super) sending: Vec<Box<Conn>>,
    events: EventBuf,
    /// Time of the last poll, in the server's milliseconds.
    pub(super) now: u64,
    pub(super) next_deadline: u64,
    pub(super) connection_count: usize,
    /// The entry whose session is being called.
    pub(super) serving: Option<u32>,
    pub(super) tally: Tally,
    phase: Phase,
}

impl EventLoop {
    pub(super) fn new(shared: Arc<Shared>, group: Arc<Group>, epoll: Epoll) -> EventLoop {
        let send_batch = shared.config.io_uring.then(SendBatch::new);
        let send_batch = send_batch.and_then(|batch| {
            let refused = "replies are sent one by one, because the kernel refuses io_uring";
            batch
                .inspect_err(|error| tracing::info!("{refused}: {error}"))
                .ok()
        });
        EventLoop {
            shared,
            group,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            ready_logins: VecDeque::new(),
            login_turn: false,
            round: 0,
            new_connections: VecDeque::new(),
            closing_sessions: Vec::new(),
            deferred: Deferred::default(),
            deferred_replies: BinaryHeap::new(),
            pool: Pool::default(),
            send_batch,
            sending: Vec::new(),
            events: EventBuf::new(EVENTS),
            now: 0,
            next_deadline: u64::MAX,
            connection_count: 0,
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
            if let Some(session) = self.closing_sessions.pop() {
                return Job::DropSession(session);
            }
            if let Some(connection) = self.new_connections.pop_front() {
                if let Some(job) = self.admit(connection) {
                    return job;
                }
                continue;
            }
            if self.round > 0 {
                self.round -= 1;
                let Some(index) = self.next_ready() else {
                    self.round = 0;
                    continue;
                };
                if let Some((conn, call)) = self.prepare(index) {
                    if conn.last_call_was_detached {
                        // This call may take long, too; the collected replies do not wait for it.
                        self.send_collected();
                    }
                    self.serving = Some(index);
                    return Job::Serve(conn, call);
                }
                continue;
            }
            if !self.sending.is_empty() {
                self.send_collected();
                continue;
            }
            if self.phase != Phase::Serve && self.connection_count == 0 {
                self.publish();
                return Job::Exit;
            }
            self.poll_all();
            self.round = self.ready.len() + self.ready_logins.len();
        }
    }

    /// Takes the next entry to serve; the two queues alternate.
    fn next_ready(&mut self) -> Option<u32> {
        self.login_turn = !self.login_turn;
        let (first, second) = if self.login_turn {
            (&mut self.ready_logins, &mut self.ready)
        } else {
            (&mut self.ready, &mut self.ready_logins)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Records that `worker` runs the event loop.
    pub(super) fn attach(&self, worker: &Arc<WorkerSlot>) {
        self.group.set_worker(Some(worker.clone()));
    }

    /// Records that the event loop has ended.
    pub(super) fn detach(&self) {
        self.group.set_worker(None);
    }

    /// Prepares a hand-over or retake: from now on a hang-up of the served
    /// connection's client cancels its call. The round ends, so that the next worker
    /// polls sockets and inbox first: requests have arrived during a long call, or
    /// during many hand-overs in a row.
    pub(super) fn prepare_hand_over(&mut self) {
        self.round = 0;
        if let Some(index) = self.serving.take() {
            self.watch_waiting(index);
        }
    }

    /// Cancels the call of a connection that a detached worker is serving, if its client has
    /// disconnected.
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
            if slot.flags & flag::NEVER_HALF_CLOSES != 0 && slot.hang_up == u64::MAX {
                slot.hang_up = now + HALF_CLOSE_GRACE_MS;
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
            if slot.flags & flag::BEFORE_LOGIN != 0 {
                self.ready_logins.push_back(index);
            } else {
                self.ready.push_back(index);
            }
        }
    }

    /// Adds the counts since the last poll to the metrics.
    fn publish(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        if tally.requests | tally.received | tally.sent != 0 {
            metrics::add(Counter::Requests, tally.requests);
            metrics::add(Counter::BytesReceived, tally.received);
            metrics::add(Counter::BytesSent, tally.sent);
        }
        metrics::add(Counter::Polls, 1);
    }

    /// Checks log, sockets, inbox, deadlines and shutdown.
    fn poll_all(&mut self) {
        self.release_deferred_replies();
        self.publish();
        let mut timeout = Some(Duration::ZERO);
        if self.ready.is_empty() && self.ready_logins.is_empty() {
            timeout = self.try_to_sleep();
        }
        let n = self
            .epoll
            .wait(&mut self.events, timeout)
            .unwrap_or_else(|error| {
                tracing::error!("epoll_wait: {error}");
                0
            });
        self.group.finish_sleep();
        self.shared.supervisor.unpark();
        self.now = self.shared.now();
        self.group.last_progress.store(self.now, Ordering::Relaxed);
        for i in 0..n {
            if let Some((bits, data)) = self.events.get(i)
                && data != WAKE
            {
                self.record_event(bits, Token::unpack(data));
            }
        }
        if self.group.is_dirty() {
            let inbox = self.group.take_inbox();
            self.process_inbox(inbox);
        }
        self.resume_deferred();
        if self.now >= self.next_deadline {
            self.sweep();
        }
        let phase = self.shared.phase();
        if phase > self.phase {
            self.phase = phase;
            self.announce_phase(phase);
        }
    }

    /// Announces that the group is about to sleep, and returns the timeout: zero if
    /// there is work already.
    fn try_to_sleep(&mut self) -> Option<Duration> {
        let lowest = self
            .deferred_replies
            .peek()
            .map_or(u64::MAX, |Reverse((position, ..))| *position);
        self.group.prepare_to_sleep(lowest);
        let durability = &self.shared.durability;
        let can_release = lowest != u64::MAX
            && (durability.durable_position().0 >= lowest || durability.has_failed());
        let has_work = self.group.is_dirty()
            || can_release
            || self.can_resume()
            || self.shared.phase() > self.phase;
        if has_work {
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

    /// Records an event of epoll.
    fn record_event(&mut self, bits: u32, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index as usize) else {
            return;
        };
        if slot.generation != token.generation || slot.flags & flag::IN_USE == 0 {
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

    fn process_inbox(&mut self, inbox: Inbox) {
        self.group.note_probe_seen(inbox.probe_requested);
        self.new_connections.extend(inbox.new_connections);
        for (conn, verdict) in inbox.returned {
            self.settle(conn, verdict);
        }
        for token in inbox.cancelled {
            if let Some(slot) = self.slots.get_mut(token.index as usize)
                && slot.generation == token.generation
            {
                slot.flags |= flag::CANCELLED;
                self.enqueue_now(token.index);
            }
        }
        for token in inbox.evicted {
            if let Some(slot) = self.slots.get_mut(token.index as usize)
                && slot.generation == token.generation
                && slot.flags & flag::BEFORE_LOGIN != 0
            {
                slot.flags |= flag::EVICTED;
                self.enqueue(token.index);
            }
        }
    }

    /// Queues the connections whose deferred reply is durable; after a failure of the log, all
    /// connections with deferred replies.
    fn release_deferred_replies(&mut self) {
        if self.deferred_replies.is_empty() {
            return;
        }
        let failed = self.shared.durability.has_failed();
        let durable = self.shared.durability.durable_position().0;
        while let Some(Reverse((position, index, generation))) =
            self.deferred_replies.peek().copied()
        {
            if position > durable && !failed {
                break;
            }
            self.deferred_replies.pop();
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

    /// Queues the connections whose deadline has passed, and finds the next one.
    fn sweep(&mut self) {
        let now = self.now;
        let mut next = u64::MAX;
        let (mut late, mut hung_up) = (Vec::new(), Vec::new());
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.conn.is_none() {
                if slot.flags & flag::IN_USE == 0 {
                    continue;
                }
                if slot.hang_up <= now {
                    hung_up.push(index as u32)
                } else {
                    next = next.min(slot.hang_up)
                }
            } else if slot.deadline <= now {
                late.push(index as u32);
            } else {
                next = next.min(slot.deadline);
            }
        }
        self.next_deadline = next;
        for index in hung_up {
            self.watch_waiting(index);
        }
        for index in late {
            self.enqueue(index);
        }
    }

    /// Notifies all connections of a new phase of the shutdown.
    fn announce_phase(&mut self, phase: Phase) {
        // Index of each connection, and the handle if its waits are to be cancelled.
        let mut connections = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.flags & flag::IN_USE == 0 {
                continue;
            }
            slot.flags |= flag::CANCELLED;
            if phase >= Phase::Cancel
                && let Some(cancel) = slot.cancel.clone()
            {
                connections.push((index as u32, Some(cancel)));
            } else {
                connections.push((index as u32, None));
            }
        }
        for (index, cancel) in connections {
            if let Some(cancel) = cancel {
                cancel.cancel(Reason::Shutdown);
            }
            self.enqueue_now(index);
        }
    }

    /// Phase of the shutdown, as far as this group has applied it.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Applies the result of a session's call, and puts the connection back or
    /// closes it.
    pub(super) fn settle(&mut self, mut conn: Box<Conn>, verdict: Verdict) {
        self.tally.requests += conn.out.take_requests();
        if !self.apply(&mut conn, verdict) {
            return self.close_connection(conn);
        }
        if conn.delayed_until != 0 || conn.out.is_clear() {
            return self.put_back(conn);
        }
        if self.collects_replies() && conn.out.sendable().is_some() {
            self.sending.push(conn);
            if self.sending.len() == MAX_SENDS {
                self.send_collected();
            }
            return;
        }
        self.flush_and_put_back(conn);
    }

    /// Whether replies are sent together: several connections are served in this round.
    fn collects_replies(&self) -> bool {
        self.send_batch.is_some() && (self.round > 0 || !self.sending.is_empty())
    }

    /// Writes a connection's output, and puts it back or closes it.
    fn flush_and_put_back(&mut self, mut conn: Box<Conn>) {
        if self.flush(&mut conn).is_ok() {
            self.put_back(conn);
        } else {
            self.close_connection(conn);
        }
    }

    /// Sends the collected replies, and puts their connections back.
    fn send_collected(&mut self) {
        if self.sending.is_empty() {
            return;
        }
        let mut sending = std::mem::take(&mut self.sending);
        if sending.len() > 1
            && let Some(batch) = &mut self.send_batch
            && let Err(error) = batch.send(&mut sending)
        {
            tracing::warn!("replies are sent one by one from now on: io_uring: {error}");
            self.send_batch = None;
        }
        for conn in sending.drain(..) {
            self.flush_and_put_back(conn);
        }
        self.sending = sending;
    }
}
