//! Serves one connection: from readiness to a call of its session, and from the end of the call
//! until the connection is idle again.
//!
//! Invariant: a connection becomes idle only through [`EventLoop::put_back`], which queues it again if
//! work is left and sets its deadline otherwise.

use super::Phase;
use super::budget::Budget;
use super::conn::{Call, Conn, Verdict};
use super::event_loop::{EventLoop, flag};
use super::group::{Group, Token};
use super::input::Input;
use super::output::{FLUSH_AT, Flushed, Output};
use super::protocol::{End, Next};
use crate::metrics::{self, Counter};
use crate::sys::events;
use porpoise_base::cancel::Cancel;
use std::cmp::Reverse;
use std::io;
use std::sync::Arc;

/// Time for which a closed connection may continue to send: a reset would destroy replies that
/// the client has not read yet.
const LINGER_MS: u64 = 1_000;

/// Maximum number of reads of a lingering connection per turn.
const MAX_LINGER_READS: usize = 16;

/// The event loop's next action on a queued connection.
pub(super) enum NextAction {
    /// Call the session; [`EventLoop::settle`] applies the result.
    Call(Call),
    /// Return the connection to its table entry, until the next event or its deadline.
    PutBack,
    /// Close the socket without further output, and drop the session.
    Close,
}

impl Conn {
    pub(super) fn new(
        token: Token,
        id: u64,
        group: Arc<Group>,
        out: Output,
        cancel: Cancel,
        budget: Arc<Budget>,
    ) -> Conn {
        Conn {
            token,
            id,
            group,
            session: None,
            input: Input::new(out.memory.connection().clone()),
            out,
            cancel,
            closing: false,
            lingering: false,
            eof: false,
            has_pending_requests: false,
            before_login: true,
            reserved: false,
            budget,
            long_until: 0,
            last_call_was_detached: false,
            is_watching_writable: false,
            delayed_until: 0,
            waiting_for: 0,
            opened: 0,
            handshake_since: 0,
            request_since: 0,
            blocked_since: 0,
            linger_until: 0,
        }
    }

    /// Whether no request or reply is in progress.
    fn is_idle(&self) -> bool {
        !self.has_pending_requests && self.input.is_empty() && self.out.is_clear()
    }

    pub(super) fn holds_locks(&self) -> bool {
        self.session.as_ref().is_some_and(|s| s.holds_locks())
    }
}

impl EventLoop {
    /// Processes a queued connection up to the next call of its session.
    pub(super) fn prepare(&mut self, index: u32) -> Option<(Box<Conn>, Call)> {
        let slot = self.slots.get_mut(index as usize)?;
        slot.flags &= !flag::QUEUED;
        let mut conn = slot.conn.take()?;
        match self.advance(&mut conn, index) {
            NextAction::Call(call) => {
                conn.out.begin(Some(&mut self.pool));
                Some((conn, call))
            }
            NextAction::PutBack => {
                self.put_back(conn);
                None
            }
            NextAction::Close => {
                self.close_connection(conn);
                None
            }
        }
    }

    fn flags(&self, index: u32) -> u16 {
        self.slots.get(index as usize).map_or(0, |s| s.flags)
    }

    /// Clears flags of a table entry.
    fn clear_flags(&mut self, index: u32, bits: u16) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.flags &= !bits;
        }
    }

    /// Writes and reads as far as possible without the session.
    fn advance(&mut self, conn: &mut Conn, index: u32) -> NextAction {
        if self.phase() == Phase::Drop {
            return NextAction::Close;
        }
        if conn.lingering {
            return self.linger(conn, index);
        }
        if conn.delayed_until != 0
            && let Some(action) = self.serve_delayed(conn, index)
        {
            return action;
        }
        if !conn.out.is_clear() {
            match self.flush(conn) {
                Err(_) => return NextAction::Close,
                Ok(Flushed::Blocked) => return self.serve_blocked(conn),
                Ok(Flushed::Deferred) if self.shared.durability.has_failed() => {
                    conn.out.discard_deferred_replies();
                    if conn.session.is_none() {
                        return NextAction::PutBack;
                    }
                    metrics::add(Counter::UnknownOutcomes, 1);
                    return NextAction::Call(Call::End(End::UnknownOutcome));
                }
                Ok(_) => {}
            }
        }
        if conn.closing {
            return NextAction::PutBack;
        }
        let flags = self.flags(index);
        if flags & flag::CANCELLED != 0 {
            self.clear_flags(index, flag::CANCELLED);
            if let Some(end) = self.cancelled_end(conn, flags) {
                return NextAction::Call(Call::End(end));
            }
        }
        if flags & flag::EVICTED != 0 && conn.before_login {
            metrics::add(Counter::LoginsEvicted, 1);
            return NextAction::Call(Call::End(End::LoginTimeout));
        }
        if conn.out.unsent() >= FLUSH_AT {
            return NextAction::PutBack;
        }
        if conn.has_pending_requests {
            return self.run_or_defer(conn, index);
        }
        let mut call_session = false;
        if flags & flag::READABLE != 0 && !conn.eof {
            match self.read(conn, index) {
                Err(_) => return NextAction::Close,
                Ok(complete) => call_session = complete,
            }
        }
        if call_session {
            return self.run_or_defer(conn, index);
        }
        if conn.eof {
            return NextAction::Call(Call::End(End::Eof));
        }
        match self.expired_end(conn, index) {
            Some(end) => NextAction::Call(Call::End(end)),
            None => NextAction::PutBack,
        }
    }

    /// Serves a connection whose reply is delayed; `None` once the delay is over.
    fn serve_delayed(&mut self, conn: &mut Conn, index: u32) -> Option<NextAction> {
        let ended = conn.cancel.reason().is_some_and(|r| r.ends_session());
        let hung_up = self.flags(index) & (flag::HUNG_UP | flag::EVICTED) != 0;
        if ended || hung_up || self.phase() != Phase::Serve {
            return Some(NextAction::Close);
        }
        if self.now < conn.delayed_until {
            return Some(NextAction::PutBack);
        }
        conn.delayed_until = 0;
        None
    }

    /// Handles a connection whose client does not read its replies.
    fn serve_blocked(&mut self, conn: &mut Conn) -> NextAction {
        let limit = u64::try_from(self.shared.config.net_write_timeout.as_millis());
        let until = conn.blocked_since.saturating_add(limit.unwrap_or(u64::MAX));
        if conn.blocked_since != 0 && self.now >= until {
            metrics::add(Counter::TimedOutWrite, 1);
            tracing::info!(
                connection = conn.id,
                "connection closed: the client did not read its replies within net-write-timeout"
            );
            return NextAction::Close;
        }
        NextAction::PutBack
    }

    /// Returns the reason for which a cancelled connection ends, if it ends now.
    fn cancelled_end(&mut self, conn: &Conn, flags: u16) -> Option<End> {
        if self.phase() >= Phase::Cancel {
            return Some(End::Shutdown);
        }
        if conn.cancel.reason().is_some_and(|r| r.ends_session()) {
            return Some(End::Killed);
        }
        let idle = conn.is_idle() && flags & flag::READABLE == 0 && !conn.holds_locks();
        (self.phase() == Phase::Drain && idle).then_some(End::Shutdown)
    }

    /// Returns the reason to end if a deadline has passed.
    fn expired_end(&mut self, conn: &Conn, index: u32) -> Option<End> {
        let deadline = self
            .slots
            .get(index as usize)
            .map_or(u64::MAX, |s| s.deadline);
        if self.now < deadline || !conn.out.is_clear() {
            return None;
        }
        let (end, counter) = if conn.before_login || conn.out.transport.is_handshaking() {
            (End::LoginTimeout, Counter::TimedOutLogin)
        } else if conn.request_since != 0 {
            (End::RequestTimeout, Counter::TimedOutRequest)
        } else {
            (End::IdleTimeout, Counter::TimedOutIdle)
        };
        metrics::add(counter, 1);
        Some(end)
    }

    /// Reads available bytes into the buffer. Returns true if as many bytes have arrived as the
    /// session requested, so that it must be called.
    fn read(&mut self, conn: &mut Conn, index: u32) -> io::Result<bool> {
        let mut got_any = false;
        loop {
            let ended = self.flags(index) & flag::ENDED != 0;
            let space = conn.input.read_space(&mut self.pool);
            if space.is_empty() {
                let what = "the session takes no more input";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            let got = conn.out.transport.read(space, ended)?;
            conn.input.note_read(got.bytes);
            self.tally.received += got.bytes as u64;
            got_any |= got.bytes > 0;
            if got.eof {
                conn.eof = true;
            }
            if got.drained {
                self.clear_flags(index, flag::READABLE);
                break;
            }
            if conn.input.len() >= conn.input.requested_bytes() {
                break;
            }
        }
        if conn.out.transport.pending() {
            self.flush(conn)?;
        }
        Ok(got_any && conn.input.len() >= conn.input.requested_bytes())
    }

    /// Discards input of a closed connection.
    fn linger(&mut self, conn: &mut Conn, index: u32) -> NextAction {
        if self.now >= conn.linger_until || self.phase() != Phase::Serve {
            return NextAction::Close;
        }
        for _ in 0..MAX_LINGER_READS {
            if self.flags(index) & flag::READABLE == 0 {
                return NextAction::PutBack;
            }
            let length = conn.input.len();
            conn.input.consume(length);
            let space = conn.input.read_space(&mut self.pool);
            match conn.out.transport.read(space, true) {
                Ok(got) if got.eof => return NextAction::Close,
                Ok(got) if got.drained => self.clear_flags(index, flag::READABLE),
                Ok(_) => {}
                Err(_) => return NextAction::Close,
            }
        }
        NextAction::PutBack
    }

    /// Writes output that is not deferred; if the socket is full, watches it for space.
    pub(super) fn flush(&mut self, conn: &mut Conn) -> io::Result<Flushed> {
        let flushed = conn.out.flush()?;
        let sent = std::mem::take(&mut conn.out.sent);
        self.tally.sent += sent;
        let blocked = flushed == Flushed::Blocked;
        if blocked && (sent > 0 || conn.blocked_since == 0) {
            conn.blocked_since = self.now.max(1);
        } else if !blocked {
            conn.blocked_since = 0;
        }
        if blocked != conn.is_watching_writable {
            let mut interest = events::IN | events::RDHUP | events::EDGE;
            if blocked {
                interest |= events::OUT;
            }
            let fd = conn.out.transport.fd();
            self.epoll.modify(fd, interest, conn.token.pack())?;
            conn.is_watching_writable = blocked;
        }
        Ok(flushed)
    }

    /// Applies the session's verdict; its output is not sent yet. Returns false if the connection
    /// has ended.
    pub(super) fn apply(&mut self, conn: &mut Conn, verdict: Verdict) -> bool {
        conn.has_pending_requests = false;
        let received = std::mem::take(&mut conn.out.received);
        if received > 0 {
            self.tally.received += received;
            // TLS or a codec may hold bytes that no event of the socket announces.
            if let Some(slot) = self.slots.get_mut(conn.token.index as usize) {
                slot.flags |= flag::READABLE;
            }
        }
        match verdict {
            Verdict::Next(Next::Wait) => {}
            Verdict::Next(Next::Yield) => conn.has_pending_requests = true,
            Verdict::Next(Next::Close) | Verdict::Ended => conn.closing = true,
            Verdict::Next(Next::Delay { delay, close }) => {
                let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                conn.closing = close;
                conn.has_pending_requests = !close;
                conn.delayed_until = self.shared.now().saturating_add(delay.max(1));
            }
            Verdict::Next(Next::StartTls(config)) => {
                if self.flush(conn).is_err() {
                    return false;
                }
                conn.handshake_since = self.now;
                let early = conn.input.bytes().to_vec();
                conn.input.consume(early.len());
                if let Err(error) = conn.out.transport.start_tls(config, &early) {
                    tracing::debug!(connection = conn.id, "TLS: {error}");
                    return false;
                }
                // Application data may have arrived together with the handshake.
                if let Some(slot) = self.slots.get_mut(conn.token.index as usize) {
                    slot.flags |= flag::READABLE;
                }
            }
        }
        if conn.before_login && conn.session.as_ref().is_none_or(|s| s.logged_in()) {
            conn.before_login = false;
            self.clear_flags(conn.token.index, flag::BEFORE_LOGIN | flag::EVICTED);
            self.end_login(&conn.budget, conn.id);
        }
        true
    }

    /// Returns a connection to its table entry.
    pub(super) fn put_back(&mut self, mut conn: Box<Conn>) {
        if conn.closing && !conn.lingering && conn.out.is_clear() {
            let evicted = self.flags(conn.token.index) & flag::EVICTED != 0;
            if conn.eof || evicted || self.phase() != Phase::Serve {
                conn.out.transport.send_close_notify();
                return self.close_connection(conn);
            }
            conn.out.transport.end_writing();
            conn.lingering = true;
            conn.linger_until = self.now + LINGER_MS;
            // The session's locks and slots are released from here on.
            self.closing_sessions.extend(conn.session.take());
        }
        let index = conn.token.index;
        self.note_deferred_reply(&mut conn);
        conn.input.return_buffer(&mut self.pool);
        conn.out.return_buffer(&mut self.pool);
        let deadline = self.update_deadline(&mut conn);
        let flags = self.flags(index);
        let blocked = conn.is_watching_writable;
        let delayed = conn.delayed_until != 0;
        let has_work = if conn.lingering {
            flags & flag::READABLE != 0
        } else if blocked || delayed {
            false
        } else if conn.closing {
            self.shared.durability.has_failed() && !conn.out.is_clear()
        } else {
            let full = conn.out.unsent() >= FLUSH_AT;
            let waits_for_failed_log = conn.waiting_for != 0 && self.shared.durability.has_failed();
            waits_for_failed_log
                || (!full && (conn.has_pending_requests || conn.eof || flags & flag::READABLE != 0))
        };
        let draining = self.phase() == Phase::Drain && !conn.closing && conn.is_idle();
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.deadline = deadline;
            if draining && !conn.holds_locks() {
                slot.flags |= flag::CANCELLED;
            }
            let cancelled = slot.flags & flag::CANCELLED != 0 && !conn.closing && !delayed;
            let evicted = slot.flags & flag::EVICTED != 0 && (!conn.closing || delayed);
            let must_end = (cancelled || evicted) && !blocked;
            slot.conn = Some(conn);
            if has_work || must_end {
                self.enqueue(index);
            }
        }
        self.next_deadline = self.next_deadline.min(deadline);
    }

    /// Registers a connection whose replies wait for the log.
    fn note_deferred_reply(&mut self, conn: &mut Conn) {
        let position = conn.out.first_deferred_reply().map_or(0, |t| t.0);
        if position != 0 && position != conn.waiting_for {
            metrics::add(Counter::DeferredReplies, 1);
            self.deferred_replies.push(Reverse((
                position,
                conn.token.index,
                conn.token.generation,
            )));
        }
        conn.waiting_for = position;
    }

    /// Updates the start of the current request, and returns the time at which a connection
    /// without events is checked next, in the server's milliseconds.
    fn update_deadline(&self, conn: &mut Conn) -> u64 {
        let config = &self.shared.config;
        let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        if conn.input.is_empty() || conn.has_pending_requests {
            conn.request_since = 0;
        } else if conn.input.take_progress() || conn.request_since == 0 {
            conn.request_since = self.now.max(1);
        }
        if conn.lingering {
            return conn.linger_until;
        }
        if conn.delayed_until != 0 {
            return conn.delayed_until;
        }
        if conn.blocked_since != 0 {
            return conn
                .blocked_since
                .saturating_add(millis(config.net_write_timeout));
        }
        if !conn.out.is_clear() || conn.has_pending_requests {
            return u64::MAX;
        }
        if conn.before_login {
            return conn.opened.saturating_add(millis(config.connect_timeout));
        }
        if conn.out.transport.is_handshaking() {
            // A client that needs no login may start TLS, too.
            return conn
                .handshake_since
                .saturating_add(millis(config.connect_timeout));
        }
        if conn.request_since != 0 {
            let size = conn.input.requested_bytes().max(conn.input.len()) as u64;
            // One second, 1,000 ms, for each 64 KB.
            let allowed = millis(config.net_read_timeout).saturating_add(size / 64);
            return conn.request_since.saturating_add(allowed);
        }
        let idle = conn.session.as_ref().and_then(|s| s.idle_timeout());
        idle.map_or(u64::MAX, |d| self.now.saturating_add(millis(d)))
    }

    /// Closes a connection and frees its slot.
    pub(super) fn close_connection(&mut self, mut conn: Box<Conn>) {
        if conn.before_login {
            self.end_login(&conn.budget, conn.id);
        }
        self.closing_sessions.extend(conn.session.take());
        let index = conn.token.index;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.flags = 0;
            slot.deadline = u64::MAX;
            slot.cancel = None;
            slot.fd = -1;
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.free.push(index);
        self.connection_count -= 1;
        let (budget, reserved) = (conn.budget.clone(), conn.reserved);
        drop(conn);
        self.forget_connection(&budget, reserved);
    }
}
