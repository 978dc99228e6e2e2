//! Input buffer of a connection: bytes received and not consumed yet.
//!
//! Invariants:
//! 1. `start <= end <= buf.len()`.
//! 2. The buffer grows by doubling as bytes arrive, and never beyond the size that the session
//!    requested: a length field alone allocates nothing.
//! 3. The part of a buffer beyond [`BUFFER`] is charged to the connection before the buffer
//!    grows. If the charge is refused, the buffer does not grow and the connection ends.
//! 4. A connection without unread bytes has no buffer: it is returned to the group's pool.

use super::pool::{BUFFER, Pool};
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryTracker};
use std::sync::Arc;

/// Unread bytes of one connection; see the module.
#[derive(Debug, Default)]
pub struct Input {
    buf: Vec<u8>,
    /// Start of the unread bytes.
    start: usize,
    /// End of the unread bytes.
    end: usize,
    /// Number of bytes that the session requested.
    requested: usize,
    /// Whether bytes were consumed since [`Input::take_progress`].
    consumed: bool,
    /// `None` in tests: nothing is charged.
    memory: Option<MemoryTracker>,
}

impl Input {
    /// Creates the input of a connection, to which its buffer is charged.
    pub(crate) fn new(connection: Arc<ConnectionMemory>) -> Input {
        Input {
            memory: Some(MemoryTracker::new(connection, MemoryClass::Input)),
            ..Input::default()
        }
    }

    /// Charges the connection for a buffer of `bytes`. Returns false if the charge is refused.
    fn charge(&self, bytes: usize) -> bool {
        let beyond = bytes.saturating_sub(BUFFER) as u64;
        let charged = self.memory.as_ref().map(|m| m.resize(beyond));
        charged.is_none_or(|done| done.is_ok())
    }

    /// The unread bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the unread bytes, for a session that joins the parts of a request in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Removes the first `n` unread bytes.
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
        self.consumed |= n > 0;
    }

    /// Requests `n` bytes, counted from the first unread one, before the next call of the
    /// session. The caller has checked `n` against its own limits.
    pub fn request_bytes(&mut self, n: usize) {
        self.requested = n;
    }

    /// Number of unread bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is unread.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes requested by [`Input::request_bytes`].
    pub(crate) fn requested_bytes(&self) -> usize {
        self.requested
    }

    /// Prepares for a call of the session.
    pub(crate) fn begin(&mut self) {
        self.requested = 0;
    }

    /// Whether anything was consumed since the last call.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.consumed)
    }

    /// Returns space for the next read; empty if the session must consume first.
    pub(crate) fn read_space(&mut self, pool: &mut Pool) -> &mut [u8] {
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
        if self.buf.is_empty() {
            self.buf = pool.take_input();
        }
        if self.end == self.buf.len() {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.buf.len() < BUFFER {
                let mut bigger = pool.take_input();
                if let (Some(to), Some(from)) =
                    (bigger.get_mut(..self.end), self.buf.get(..self.end))
                {
                    to.copy_from_slice(from);
                }
                self.buf = bigger;
            } else if self.end == self.buf.len() && self.requested > self.end {
                let bound = self.requested.next_multiple_of(BUFFER);
                let grown = (self.buf.len() * 2).min(bound);
                if !self.charge(grown) {
                    tracing::info!(
                        "connection closed: not enough memory for a request of {} bytes",
                        self.requested
                    );
                    return &mut [];
                }
                // `resize` could allocate more than what is charged.
                self.buf.reserve_exact(grown - self.buf.len());
                self.buf.resize(grown, 0);
            }
        }
        self.buf.get_mut(self.end..).unwrap_or_default()
    }

    /// Records that `n` bytes were read into [`Input::read_space`].
    pub(crate) fn note_read(&mut self, n: usize) {
        self.end = (self.end + n).min(self.buf.len());
    }

    /// Returns the buffer to the pool if nothing is unread; shrinks it if only a few bytes are.
    pub(crate) fn return_buffer(&mut self, pool: &mut Pool) {
        if self.is_empty() {
            if !self.buf.is_empty() {
                pool.give_input(std::mem::take(&mut self.buf));
            }
            self.charge(0);
            self.start = 0;
            self.end = 0;
        } else if self.buf.len() == BUFFER && self.len() <= BUFFER / 16 && self.requested <= BUFFER
        {
            let rest = self.bytes().to_vec();
            self.start = 0;
            self.end = rest.len();
            pool.give_input(std::mem::replace(&mut self.buf, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(input: &mut Input, pool: &mut Pool, n: usize) -> usize {
        let room = input.read_space(pool);
        let n = n.min(room.len());
        room[..n].fill(7);
        input.note_read(n);
        n
    }

    #[test]
    fn a_buffer_grows_as_bytes_arrive_and_only_if_requested() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        assert_eq!(fill(&mut input, &mut pool, usize::MAX), BUFFER);
        assert_eq!(fill(&mut input, &mut pool, usize::MAX), 0);
        input.request_bytes(1 << 30);
        assert_eq!(fill(&mut input, &mut pool, usize::MAX), BUFFER);
        assert_eq!(input.buf.len(), 2 * BUFFER);
        input.begin();
        input.request_bytes(2 * BUFFER + 1);
        assert_eq!(fill(&mut input, &mut pool, usize::MAX), BUFFER);
        assert_eq!(fill(&mut input, &mut pool, usize::MAX), 0);
        assert_eq!(input.bytes().len(), 3 * BUFFER);
    }

    #[test]
    fn unread_bytes_move_to_the_front_before_the_buffer_grows() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        fill(&mut input, &mut pool, BUFFER);
        input.consume(BUFFER - 3);
        assert!(input.take_progress());
        assert!(!input.take_progress());
        assert_eq!(fill(&mut input, &mut pool, 5), 5);
        assert_eq!(input.bytes(), [7; 8]);
        assert_eq!(input.buf.len(), BUFFER);
    }

    #[test]
    fn an_idle_connection_returns_its_buffer() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        fill(&mut input, &mut pool, 100);
        input.consume(90);
        input.return_buffer(&mut pool);
        assert_eq!((input.bytes(), input.buf.len()), (&[7; 10][..], 10));
        assert_eq!(fill(&mut input, &mut pool, 4), 4);
        assert_eq!(input.bytes(), [7; 14]);
        input.consume(14);
        input.return_buffer(&mut pool);
        assert!(input.buf.is_empty());
    }
}
