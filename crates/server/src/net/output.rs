//! Output of a connection, with deferred replies: those that wait for durability.
//!
//! A session appends reply bytes to [`Output::buf`], and names, for a reply that reveals a commit,
//! the [`CommitPosition`] that must be durable before it is sent. Bytes after a deferred reply wait
//! with it, so replies keep their order.
//!
//! Invariants:
//! 1. No byte at or after the start of a deferred reply is written while its commit position is
//!    beyond the durable LSN.
//! 2. The deferred ranges have ascending starts and ascending commit positions: a deferred reply
//!    after one with the same or a later commit position gets no range of its own.
//! 3. The session has no access to bytes that have been written; its positions stay valid until its
//!    call returns or it calls [`Output::drain`] or [`Output::send_if_detached`].
//! 4. A buffer of [`FLUSH_AT`] bytes or more is charged to the connection: by the session as it
//!    grows ([`Output::charge`]), and in any case while it waits for the client.
//!
//! Rejected: one buffer per reply (an allocation and a writev entry each); deferring a whole
//! connection's output (a pipelined GET before a SET would wait for the disk).

use super::durability::DurabilityWatermark;
use super::pool::Pool;
use super::transport::{StreamCodec, TlsSession, Transport};
use super::worker;
use crate::metrics;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryRefused, MemoryTracker};
use porpoise_base::sampling::Countdown;
use porpoise_kv::CommitPosition;
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size in bytes at which output is flushed. A connection whose client does not read it is not
/// served until it does.
pub const FLUSH_AT: usize = 256 * 1024;

/// Maximum number of requests of one connection per turn.
const MAX_REQUESTS_PER_TURN: u32 = 64;

/// Output that is deferred from a position on, to the next range or the end.
struct DeferredRange {
    from: usize,
    commit: CommitPosition,
    /// The time from which the reply has waited, if the wait is measured.
    since: Option<Instant>,
}

/// Time limits of a connection's client.
pub(crate) struct Timeouts {
    /// Maximum time without input within a request.
    pub(crate) read: Duration,
    /// Maximum time without progress while writing.
    pub(crate) write: Duration,
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is written.
    All,
    /// The remaining bytes are deferred until the log is durable.
    Deferred,
    /// The socket accepts no more for now.
    Blocked,
}

/// The client has disconnected, or did not read for `net_write_timeout`: the session abandons its
/// request and returns `Next::Close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The replies of one connection; see the module.
pub struct Output {
    pub(crate) transport: Transport,
    buf: Vec<u8>,
    written: usize,
    deferred_ranges: VecDeque<DeferredRange>,
    durability: Arc<DurabilityWatermark>,
    cancel: Cancel,
    timeouts: Timeouts,
    /// Number of requests answered in this turn.
    requests: u32,
    /// Number of requests answered since the group last read this count.
    total_requests: u64,
    /// Start of the reply that is being appended.
    reply_start: usize,
    /// Bytes written since the group last read this count.
    pub(crate) sent: u64,
    /// Bytes that the session has read itself ([`Output::receive`]) since the group last read this
    /// count.
    pub(crate) received: u64,
    pub(crate) memory: MemoryTracker,
    /// Chooses the deferred replies whose waits are measured.
    wait_countdown: Countdown,
}

impl Output {
    pub(crate) fn new(
        transport: Transport,
        durability: Arc<DurabilityWatermark>,
        cancel: Cancel,
        timeouts: Timeouts,
        memory: &Arc<ConnectionMemory>,
    ) -> Output {
        Output {
            transport,
            buf: Vec::new(),
            written: 0,
            deferred_ranges: VecDeque::new(),
            durability,
            cancel,
            timeouts,
            requests: 0,
            total_requests: 0,
            reply_start: 0,
            sent: 0,
            received: 0,
            memory: MemoryTracker::new(memory.clone(), MemoryClass::Output),
            wait_countdown: Countdown::new(metrics::WAIT_INTERVAL),
        }
    }

    /// The TLS session around the connection; `None` without TLS.
    pub fn tls(&self) -> Option<TlsSession> {
        self.transport.tls_session()
    }

    /// Passes the connection's bytes through a codec: those sent after what has been appended so
    /// far, and those received from now on.
    pub fn start_codec(&mut self, codec: Box<dyn StreamCodec>) {
        self.transport.start_codec(codec, self.unsent());
    }

    /// Returns the buffer to append to. Bytes before [`Output::position`] at the start of the reply
    /// must not be changed.
    pub fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Returns the position of the next byte. Read before a reply is appended, it is the start of
    /// the reply for [`Output::defer_from`] and for patching headers.
    pub fn position(&self) -> usize {
        self.buf.len()
    }

    /// Defers everything appended at or after `from` (an [`Output::position`]) until `commit` is
    /// durable.
    pub fn defer_from(&mut self, from: usize, commit: CommitPosition) {
        if commit <= self.durability.durable_position() {
            return;
        }
        if self
            .deferred_ranges
            .back()
            .is_some_and(|last| last.from <= from && last.commit >= commit)
        {
            return;
        }
        // Ranges that begin within these bytes are merged into this one.
        let mut commit = commit;
        let is_measured = self.wait_countdown.is_sampled(metrics::WAIT_INTERVAL);
        let mut since = is_measured.then(Instant::now);
        while let Some(last) = self.deferred_ranges.back() {
            if last.from < from {
                break;
            }
            commit = commit.max(last.commit);
            since = last.since.or(since);
            self.deferred_ranges.pop_back();
        }
        let range = DeferredRange {
            from,
            commit,
            since,
        };
        self.deferred_ranges.push_back(range);
    }

    /// Records that one request has been answered completely.
    pub fn request_done(&mut self) {
        self.requests += 1;
        self.total_requests += 1;
        self.reply_start = self.buf.len();
    }

    /// Whether the session should return `Next::Yield` before the next request.
    pub fn should_yield(&self) -> bool {
        self.requests >= MAX_REQUESTS_PER_TURN || self.unsent() >= FLUSH_AT || worker::is_detached()
    }

    /// Writes what can be written without waiting, if the call has lost the event loop: later requests
    /// of the call may wait, too. Earlier positions are invalid afterwards. An error occurs again when
    /// the event loop flushes.
    pub fn send_if_detached(&mut self) {
        if worker::is_detached() {
            let _ = self.flush();
        }
    }

    /// Whether a long result should be drained before more rows are appended.
    pub fn is_full(&self) -> bool {
        self.unsent() >= FLUSH_AT
    }

    /// Charges the connection for the buffer at its present size.
    ///
    /// # Errors
    /// [`MemoryRefused`] when a limit would be exceeded; the session discards what
    /// it appended.
    pub fn charge(&mut self) -> Result<(), MemoryRefused> {
        self.memory.resize(self.buf.capacity() as u64)
    }

    /// Charges the connection for a buffer of [`FLUSH_AT`] bytes or more, and for no
    /// smaller one.
    fn charge_large(&mut self) {
        let bytes = self.buf.capacity();
        let charged = if bytes >= FLUSH_AT { bytes } else { 0 };
        self.memory.resize_always(charged as u64);
    }

    /// Writes everything, waiting for the log and for a slow client; for results too large to
    /// buffer. The caller must not hold locks that others need. Earlier positions are invalid
    /// afterwards.
    pub fn drain(&mut self) -> Result<(), Gone> {
        let mut deadline = Instant::now() + self.timeouts.write;
        loop {
            let before = self.sent;
            let flushed = self.flush().map_err(|_| Gone)?;
            if self.sent != before {
                deadline = Instant::now() + self.timeouts.write;
            }
            match flushed {
                Flushed::All => {
                    self.reply_start = 0;
                    self.buf.shrink_to(2 * FLUSH_AT);
                    self.memory.resize_always(0);
                    return Ok(());
                }
                Flushed::Deferred => self.await_log()?,
                Flushed::Blocked => self.await_client(deadline)?,
            }
        }
    }

    /// Longest time for which a client may be silent within a request.
    pub fn read_timeout(&self) -> Duration {
        self.timeouts.read
    }

    /// Reads bytes that the client sends while its request runs; waits up to a tenth of a second, and
    /// may return 0 bytes.
    ///
    /// # Errors
    /// The client has disconnected, or the session must end.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Gone> {
        self.receive_within(buffer, Duration::from_millis(100))
    }

    /// As [`Output::receive`], with a given limit of the wait.
    ///
    /// # Errors
    /// The same.
    pub fn receive_within(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, Gone> {
        let got = self.transport.read(buffer, false).map_err(|_| Gone)?;
        self.received += got.bytes as u64;
        if got.bytes > 0 {
            return Ok(got.bytes);
        }
        if got.eof || self.cancel.reason().is_some_and(|r| r.ends_session()) {
            return Err(Gone);
        }
        // TLS may have to answer before more arrives.
        if self.transport.pending()
            && let Err(error) = self.transport.flush_pending()
            && error.kind() != io::ErrorKind::WouldBlock
        {
            return Err(Gone);
        }
        let fd = self.transport.fd();
        if wait.is_zero() {
            return Ok(0);
        }
        if !blocking(|| crate::sys::wait_readable(fd, wait)).map_err(|_| Gone)? {
            return Ok(0);
        }
        let got = self.transport.read(buffer, false).map_err(|_| Gone)?;
        self.received += got.bytes as u64;
        Ok(got.bytes)
    }

    fn await_log(&mut self) -> Result<(), Gone> {
        let Some(commit) = self.first_deferred_reply() else {
            return Ok(());
        };
        if blocking(|| self.durability.wait(commit, &self.cancel)) {
            Ok(())
        } else {
            Err(Gone)
        }
    }

    fn await_client(&mut self, deadline: Instant) -> Result<(), Gone> {
        self.charge_large();
        let fd = self.transport.fd();
        blocking(|| {
            loop {
                let now = Instant::now();
                if now >= deadline || self.cancel.reason().is_some_and(|r| r.ends_session()) {
                    return Err(Gone);
                }
                let slice = (deadline - now).min(Duration::from_millis(100));
                if crate::sys::wait_writable(fd, slice).map_err(|_| Gone)? {
                    return Ok(());
                }
            }
        })
    }

    /// Bytes that have not been written.
    pub(crate) fn unsent(&self) -> usize {
        self.buf.len() - self.written
    }

    /// Whether nothing is left to write, deferred or not.
    pub(crate) fn is_clear(&self) -> bool {
        self.unsent() == 0 && !self.transport.pending()
    }

    /// Position of the log that the first deferred reply waits for.
    pub(crate) fn first_deferred_reply(&self) -> Option<CommitPosition> {
        self.deferred_ranges.front().map(|first| first.commit)
    }

    /// Prepares for a call of the session: takes a buffer from the pool, starts a new turn.
    pub(crate) fn begin(&mut self, pool: Option<&mut Pool>) {
        if self.buf.capacity() == 0
            && let Some(pool) = pool
        {
            self.buf = pool.take_output();
        }
        self.requests = 0;
        self.reply_start = self.buf.len();
    }

    /// Returns and resets the number of requests answered.
    pub(crate) fn take_requests(&mut self) -> u64 {
        std::mem::take(&mut self.total_requests)
    }

    /// Returns the buffer to the pool if it is empty.
    pub(crate) fn return_buffer(&mut self, pool: &mut Pool) {
        if self.buf.is_empty() && self.buf.capacity() > 0 {
            pool.give_output(std::mem::take(&mut self.buf));
        }
        self.charge_large();
        if self.deferred_ranges.is_empty() && self.deferred_ranges.capacity() > 8 {
            self.deferred_ranges = VecDeque::new();
        }
    }

    /// Discards the reply that a panic interrupted. Returns false if part of it has been sent
    /// already: the connection cannot continue then.
    pub(crate) fn discard_unfinished(&mut self) -> bool {
        if self.reply_start < self.written {
            return false;
        }
        self.buf.truncate(self.reply_start);
        true
    }

    /// Discards everything from the first deferred reply on.
    pub(crate) fn discard_deferred_replies(&mut self) {
        if let Some(first) = self.deferred_ranges.front() {
            self.buf.truncate(first.from.max(self.written));
            self.deferred_ranges.clear();
            self.reply_start = self.buf.len();
        }
    }

    /// Writes the bytes that are not deferred, as far as the socket accepts them.
    pub(crate) fn flush(&mut self) -> io::Result<Flushed> {
        let limit = self.limit();
        while self.written < limit {
            let bytes = self.buf.get(self.written..limit).unwrap_or_default();
            match self.transport.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.sent += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.compact();
                    return Ok(Flushed::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
        self.compact();
        match self.transport.flush_pending() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Flushed::Blocked);
            }
            Err(error) => return Err(error),
        }
        Ok(if self.unsent() == 0 {
            Flushed::All
        } else {
            Flushed::Deferred
        })
    }

    /// The bytes that may be written now, for a send that the caller executes and reports with
    /// [`Output::note_sent`]; `None` if there are none, or if TLS or a codec has to transform them.
    pub(crate) fn sendable(&mut self) -> Option<(RawFd, &[u8])> {
        let limit = self.limit();
        let fd = self.transport.plain_fd()?;
        let bytes = self.buf.get(self.written..limit)?;
        (!bytes.is_empty()).then_some((fd, bytes))
    }

    /// Records that the socket has accepted the next `bytes` bytes of [`Output::sendable`].
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        assert!(bytes <= self.unsent(), "more bytes sent than there were");
        self.written += bytes;
        self.sent += bytes as u64;
    }

    /// Returns the position up to which bytes may be written now; removes ranges that are durable.
    fn limit(&mut self) -> usize {
        if !self.deferred_ranges.is_empty() {
            let durable = self.durability.durable_position();
            while let Some(first) = self.deferred_ranges.front() {
                if first.commit > durable {
                    return first.from;
                }
                if let Some(since) = first.since {
                    metrics::record_durability_wait(since.elapsed());
                }
                self.deferred_ranges.pop_front();
            }
        }
        self.buf.len()
    }

    /// Removes written bytes from the buffer when that is cheap.
    fn compact(&mut self) {
        if self.written == self.buf.len() {
            self.buf.clear();
        } else if self.written >= FLUSH_AT / 4 && self.written >= self.unsent() {
            self.buf.drain(..self.written);
        } else {
            return;
        }
        let removed = self.written;
        self.written = 0;
        self.reply_start = self.reply_start.saturating_sub(removed);
        for range in &mut self.deferred_ranges {
            range.from -= removed;
        }
    }
}
