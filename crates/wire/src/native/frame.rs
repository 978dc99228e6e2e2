//! The preamble of a connection, and frames.
//!
//! ```text
//! preamble   "PRPN", u8 lowest version, u8 highest version, u16 0      client to server, once
//! frame      u32 length of the body, u32 request, u8 kind, u8 flags, u16 0, then the body
//! ```
//!
//! A request is one frame. Its answer is one or several frames with the request's number; the last
//! one has [`LAST`]. Answers are in the order of the requests.

use super::Malformed;
use std::ops::Range;

/// First bytes of a connection. They differ from those of TLS and of the other protocols.
pub const MAGIC: [u8; 4] = *b"PRPN";

/// Length of the preamble.
pub const PREAMBLE: usize = 8;

/// Length of a frame's header.
pub const HEADER: usize = 12;

/// Largest body of a request before the login.
pub const MAX_BODY_BEFORE_LOGIN: usize = 4096;

/// Largest body of a frame.
pub const MAX_BODY: usize = 16 << 20;

/// Flag of the last frame of an answer.
pub const LAST: u8 = 1;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Request to log in.
    Login = 0x01,
    /// Next message of the login, in both directions.
    Authentication = 0x02,
    /// Request without effect.
    Ping = 0x10,
    /// Look-up of a table.
    OpenTable = 0x11,
    /// Operations on rows.
    Batch = 0x20,
    /// Rows of a range of an index.
    Scan = 0x21,
    /// Start of a subscription.
    Subscribe = 0x22,
    /// The next changes of the subscription.
    NextChanges = 0x23,
    /// Start of a transaction.
    Begin = 0x30,
    /// End of a transaction, with its changes.
    Commit = 0x31,
    /// End of a transaction, without its changes.
    Rollback = 0x32,
    /// The server's first frame.
    Greeting = 0x80,
    /// The login is complete.
    Ready = 0x81,
    /// A request without results was executed.
    Done = 0x82,
    /// A table's definition.
    Table = 0x83,
    /// Results of operations.
    Results = 0x84,
    /// Rows of a scan.
    Rows = 0x85,
    /// Changes of a subscription.
    Changes = 0x86,
    /// The request failed.
    Error = 0xff,
}

const KINDS: [Kind; 19] = [
    Kind::Login,
    Kind::Authentication,
    Kind::Ping,
    Kind::OpenTable,
    Kind::Batch,
    Kind::Scan,
    Kind::Subscribe,
    Kind::NextChanges,
    Kind::Begin,
    Kind::Commit,
    Kind::Rollback,
    Kind::Greeting,
    Kind::Ready,
    Kind::Done,
    Kind::Table,
    Kind::Results,
    Kind::Rows,
    Kind::Changes,
    Kind::Error,
];

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        KINDS.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A frame, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the body.
    pub length: usize,
    /// Number of the request, chosen by the client.
    pub request: u32,
    /// Kind.
    pub kind: Kind,
    /// Flags.
    pub flags: u8,
}

impl Header {
    /// Whether no further frame of this answer follows.
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }
}

/// The next frame in received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// A whole frame.
    Frame {
        /// The header.
        header: Header,
        /// Position of the body.
        body: Range<usize>,
    },
    /// The frame lacks this number of bytes.
    NeedMore(usize),
}

/// Finds the first frame in `bytes`, whose body has at most `limit` bytes.
///
/// # Errors
/// The bytes are not a frame, or the frame is too long. The connection must end.
pub fn next(bytes: &[u8], limit: usize) -> Result<FrameStep, Malformed> {
    let Some(head) = bytes.first_chunk::<HEADER>() else {
        return Ok(FrameStep::NeedMore(HEADER - bytes.len()));
    };
    let [l0, l1, l2, l3, r0, r1, r2, r3, kind, flags, z0, z1] = *head;
    let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3]))
        .ok()
        .filter(|length| *length <= limit)
        .ok_or(Malformed("frame: its body is too long"))?;
    let kind = Kind::of(kind).ok_or(Malformed("frame: unknown kind"))?;
    if (z0, z1) != (0, 0) {
        return Err(Malformed("frame: reserved bytes are not zero"));
    }
    let end = HEADER + length;
    if bytes.len() < end {
        return Ok(FrameStep::NeedMore(end - bytes.len()));
    }
    let header = Header {
        length,
        request: u32::from_le_bytes([r0, r1, r2, r3]),
        kind,
        flags,
    };
    Ok(FrameStep::Frame {
        header,
        body: HEADER..end,
    })
}

/// Appends the header of a frame and returns its position, for [`finish`].
pub fn begin(out: &mut Vec<u8>, kind: Kind, request: u32) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&request.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    at
}

/// Completes the frame that begins at `at`. Its body is everything after its header.
pub fn finish(out: &mut [u8], at: usize, flags: u8) {
    let length = out.len().saturating_sub(at + HEADER);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(head) = out.get_mut(at..at + HEADER) {
        for (to, from) in head.iter_mut().zip(length.to_le_bytes()) {
            *to = from;
        }
        if let Some(to) = head.get_mut(9) {
            *to = flags;
        }
    }
}

/// Appends a whole frame.
pub fn put(out: &mut Vec<u8>, kind: Kind, request: u32, flags: u8, body: &[u8]) {
    let at = begin(out, kind, request);
    out.extend_from_slice(body);
    finish(out, at, flags);
}

/// Appends the preamble of a client that speaks these versions.
pub fn put_preamble(out: &mut Vec<u8>, lowest: u8, highest: u8) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[lowest, highest, 0, 0]);
}

/// Reads the preamble: the lowest and the highest version that the client speaks. Returns `None`
/// until it has arrived.
///
/// # Errors
/// The client speaks another protocol.
pub fn read_preamble(bytes: &[u8]) -> Result<Option<(u8, u8)>, Malformed> {
    let differs = bytes.iter().zip(MAGIC).any(|(have, want)| *have != want);
    if differs {
        return Err(Malformed("preamble: this is not the native protocol"));
    }
    let Some([_, _, _, _, lowest, highest, z0, z1]) = bytes.first_chunk::<PREAMBLE>() else {
        return Ok(None);
    };
    if (*z0, *z1) != (0, 0) {
        return Err(Malformed("preamble: reserved bytes are not zero"));
    }
    Ok(Some((*lowest, *highest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_half_frames_ask_for_the_rest() {
        let mut out = Vec::new();
        put(&mut out, Kind::Batch, 7, LAST, b"abc");
        let header = Header {
            length: 3,
            request: 7,
            kind: Kind::Batch,
            flags: LAST,
        };
        let body = HEADER..HEADER + 3;
        assert_eq!(next(&out, 3), Ok(FrameStep::Frame { header, body }));
        assert!(header.is_last());
        for cut in 0..out.len() {
            let missing = if cut < HEADER {
                HEADER - cut
            } else {
                out.len() - cut
            };
            assert_eq!(next(&out[..cut], 3), Ok(FrameStep::NeedMore(missing)));
        }
        assert!(next(&out, 2).is_err());
        out[8] = 0x7f;
        assert!(next(&out, 3).is_err());
    }

    #[test]
    fn a_preamble_of_another_protocol_is_refused_at_its_first_byte() {
        let mut out = Vec::new();
        put_preamble(&mut out, 1, 2);
        assert_eq!(read_preamble(&out), Ok(Some((1, 2))));
        assert_eq!(read_preamble(&out[..7]), Ok(None));
        for other in [&b"get a\r\n"[..], &[0x16, 3, 1], &[0x80]] {
            assert!(read_preamble(other).is_err());
        }
    }
}
