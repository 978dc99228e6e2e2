//! Packet framing: a header of three bytes of length and one byte of sequence number,
//! then the payload. A payload of 2^24-1 bytes or more is split into pieces; a piece of
//! that length is always followed by another one, which may be empty.
//!
//! Reading works on the connection's buffer: [`PacketReader::next`] parses the
//! unread bytes and returns the range of a payload in them. Pieces
//! of a split payload are joined inside that buffer once all have
//! arrived; nothing else is copied, and nothing is allocated here.
//!
//! Invariants:
//! 1. The length in each header is added to the payload's length and compared with the
//!    limit as soon as the header has arrived, before waiting for the piece itself.
//! 2. Sequence numbers are consecutive, starting with the one set by [`PacketReader::expect`].
//! 3. Before login, a payload over the limit is an error immediately. After login,
//!    it is discarded as it arrives and reported at its end, so
//!    that the client gets an error packet and keeps its connection.
//!
//! Writing appends to the connection's output: [`begin`] reserves a header,
//! the caller appends the payload, [`finish`] fills the header in and, if the payload is too
//! long for one packet, splits it in place.

use std::ops::Range;

use super::error::ProtocolError;

/// Maximum length of one piece of a payload.
pub const MAX_PACKET_PAYLOAD: usize = 0xff_ffff;

/// Length of a packet's header.
pub const HEADER: usize = 4;

/// Limit of a payload before login, in bytes.
pub const LOGIN_LIMIT: usize = 64 << 10;

/// Result of [`PacketReader::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// At least this many more bytes (never 0) are needed.
    NeedMore(usize),
    /// A complete packet.
    Packet {
        /// Range of the payload in the buffer.
        payload: Range<usize>,
        /// Bytes to discard from the buffer once the packet has been processed.
        consumed: usize,
    },
    /// Bytes of a payload over the limit: discard them and continue.
    Skip {
        /// Bytes to discard, never 0.
        consumed: usize,
    },
    /// The end of a payload over the limit, which has been discarded: reply
    /// [`ProtocolError::TooLarge`], discard `consumed` bytes and continue.
    TooLarge {
        /// Bytes to discard, may be 0.
        consumed: usize,
    },
}

/// Reads packets of one direction of a connection.
#[derive(Debug)]
pub struct PacketReader {
    /// Maximum length of a payload in bytes.
    limit: usize,
    /// Whether an oversized payload is discarded; if not, it is an error.
    discards_oversized: bool,
    /// Expected sequence number of the next packet.
    sequence: u8,
    /// An oversized payload that is being discarded.
    skipping: Option<Skipping>,
}

/// Progress through an oversized payload.
#[derive(Debug)]
struct Skipping {
    /// Bytes of the current piece that have not arrived.
    left: usize,
    /// Whether another piece follows the current one.
    more: bool,
}

impl PacketReader {
    /// Creates a reader for the phase before login: the limit is [`LOGIN_LIMIT`], and an oversized
    /// packet is an error.
    pub fn before_login() -> Self {
        PacketReader {
            limit: LOGIN_LIMIT,
            discards_oversized: false,
            sequence: 0,
            skipping: None,
        }
    }

    /// Sets the limit of a logged-in connection (`max_allowed_packet`). From now on oversized
    /// payloads are discarded instead of ending the connection.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.discards_oversized = true;
    }

    /// Sets the expected sequence number of the next packet: 0 before a command.
    pub fn expect(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Sequence number of the first packet of the reply to the last packet.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Parses `buf`, the unread bytes. Moves bytes inside `buf` if it returns a packet of
    /// several pieces.
    ///
    /// # Errors
    /// [`ProtocolError::OutOfOrder`]; [`ProtocolError::TooLarge`] before
    /// login. The caller must close the connection after either.
    #[inline]
    pub fn next(&mut self, buf: &mut [u8]) -> Result<FrameStep, ProtocolError> {
        if self.skipping.is_some() {
            return self.skip(buf);
        }
        let Some((length, number)) = header(buf, 0) else {
            return Ok(FrameStep::NeedMore(HEADER - buf.len()));
        };
        if number != self.sequence {
            return Err(ProtocolError::OutOfOrder);
        }
        if length == MAX_PACKET_PAYLOAD || length > self.limit {
            return self.large(buf);
        }
        let end = HEADER + length;
        if end > buf.len() {
            return Ok(FrameStep::NeedMore(end - buf.len()));
        }
        self.sequence = number.wrapping_add(1);
        Ok(FrameStep::Packet {
            payload: HEADER..end,
            consumed: end,
        })
    }

    /// Parses a payload of several pieces, or one over the limit.
    fn large(&mut self, buf: &mut [u8]) -> Result<FrameStep, ProtocolError> {
        let mut at = 0;
        let mut total = 0usize;
        let mut expected = self.sequence;
        loop {
            let Some((length, number)) = header(buf, at) else {
                return Ok(FrameStep::NeedMore(at + HEADER - buf.len()));
            };
            if number != expected {
                return Err(ProtocolError::OutOfOrder);
            }
            expected = expected.wrapping_add(1);
            total = total.saturating_add(length);
            if total > self.limit {
                if !self.discards_oversized {
                    return Err(ProtocolError::TooLarge);
                }
                self.sequence = expected;
                self.skipping = Some(Skipping {
                    left: length,
                    more: length == MAX_PACKET_PAYLOAD,
                });
                return Ok(FrameStep::Skip {
                    consumed: at + HEADER,
                });
            }
            let end = at + HEADER + length;
            if end > buf.len() {
                return Ok(FrameStep::NeedMore(end - buf.len()));
            }
            at = end;
            if length < MAX_PACKET_PAYLOAD {
                break;
            }
        }
        self.sequence = expected;
        Ok(FrameStep::Packet {
            payload: HEADER..join_payload(buf, at),
            consumed: at,
        })
    }

    /// Discards the bytes of an oversized payload that have arrived.
    fn skip(&mut self, buf: &[u8]) -> Result<FrameStep, ProtocolError> {
        let Some(state) = &mut self.skipping else {
            return Ok(FrameStep::Skip { consumed: 0 });
        };
        if state.left > 0 {
            let consumed = state.left.min(buf.len());
            if consumed == 0 {
                return Ok(FrameStep::NeedMore(1));
            }
            state.left -= consumed;
            return Ok(FrameStep::Skip { consumed });
        }
        if !state.more {
            self.skipping = None;
            return Ok(FrameStep::TooLarge { consumed: 0 });
        }
        let Some((length, number)) = header(buf, 0) else {
            return Ok(FrameStep::NeedMore(HEADER - buf.len()));
        };
        if number != self.sequence {
            return Err(ProtocolError::OutOfOrder);
        }
        self.sequence = number.wrapping_add(1);
        state.left = length;
        state.more = length == MAX_PACKET_PAYLOAD;
        Ok(FrameStep::Skip { consumed: HEADER })
    }
}

/// Reads length and sequence number from the header at `at`; `None` if it is incomplete.
#[inline]
fn header(buf: &[u8], at: usize) -> Option<(usize, u8)> {
    let [a, b, c, number] = *buf.get(at..)?.first_chunk::<HEADER>()?;
    Some((u32::from_le_bytes([a, b, c, 0]) as usize, number))
}

/// Joins the pieces in `buf[..end]` after the first header. Returns the end of the joined payload.
fn join_payload(buf: &mut [u8], end: usize) -> usize {
    let mut read = 0;
    let mut write = HEADER;
    while read < end {
        let Some((length, _)) = header(buf, read) else {
            break;
        };
        let piece = read + HEADER;
        // The write position never overtakes the piece, and the header of the
        // next piece is after the bytes written.
        buf.copy_within(piece..piece + length, write);
        write += length;
        read = piece + length;
    }
    write
}

/// Position of an unfinished packet in an output buffer.
#[must_use = "a packet must be finished or cancelled"]
#[derive(Debug)]
pub struct PacketStart(usize);

/// Begins a packet: reserves its header at the end of `out`.
#[inline]
pub fn begin(out: &mut Vec<u8>) -> PacketStart {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER]);
    PacketStart(at)
}

/// Fills in the header of a packet whose payload was appended after
/// [`begin`], splits it if it is long, and advances `sequence`.
#[inline]
pub fn finish(out: &mut Vec<u8>, start: PacketStart, sequence: &mut u8) {
    let length = out.len().saturating_sub(start.0 + HEADER);
    if length >= MAX_PACKET_PAYLOAD {
        split(out, start.0, length, sequence);
        return;
    }
    put_header(out, start.0, length, sequence);
}

/// Returns the number of bytes sent for a payload of this length, headers included.
pub fn bytes_on_wire(payload: usize) -> u64 {
    let headers = payload / MAX_PACKET_PAYLOAD + 1;
    (payload + headers * HEADER) as u64
}

/// Discards an unfinished packet.
pub fn cancel(out: &mut Vec<u8>, start: PacketStart) {
    out.truncate(start.0);
}

/// Appends a complete packet.
pub fn packet(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let packet = begin(out);
    out.extend_from_slice(payload);
    finish(out, packet, sequence);
}

#[inline]
fn put_header(out: &mut [u8], at: usize, length: usize, sequence: &mut u8) {
    let [a, b, c, ..] = (length as u32).to_le_bytes();
    if let Some(slot) = out.get_mut(at..at + HEADER) {
        slot.copy_from_slice(&[a, b, c, *sequence]);
    }
    *sequence = sequence.wrapping_add(1);
}

/// Inserts headers between the pieces of a long payload. Moves the last piece first, so that
/// nothing is overwritten.
#[cold]
fn split(out: &mut Vec<u8>, at: usize, length: usize, sequence: &mut u8) {
    let pieces = length / MAX_PACKET_PAYLOAD + 1;
    out.resize(out.len() + (pieces - 1) * HEADER, 0);
    for i in (1..pieces).rev() {
        let from = at + HEADER + i * MAX_PACKET_PAYLOAD;
        let size = (length - i * MAX_PACKET_PAYLOAD).min(MAX_PACKET_PAYLOAD);
        out.copy_within(from..from + size, from + i * HEADER);
    }
    for i in 0..pieces {
        let size = (length - i * MAX_PACKET_PAYLOAD).min(MAX_PACKET_PAYLOAD);
        put_header(out, at + i * (HEADER + MAX_PACKET_PAYLOAD), size, sequence);
    }
}
