//! Errors of the protocol itself, with MySQL's numbers.

use thiserror::Error;

/// A peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A packet beyond the limit of the connection's phase.
    #[error("Got a packet bigger than 'max_allowed_packet' bytes")]
    TooLarge,
    /// A sequence number that does not follow.
    #[error("Got packets out of order")]
    OutOfOrder,
    /// A login packet that cannot be read, or of an older protocol.
    #[error("Bad handshake")]
    BadHandshake,
    /// A command byte that is not known.
    #[error("Unknown command")]
    UnknownCommand,
    /// A command whose contents break its form; the text names the part.
    #[error("Malformed communication packet ({0})")]
    Malformed(&'static str),
}

impl ProtocolError {
    /// MySQL's error number.
    pub fn code(self) -> u16 {
        match self {
            ProtocolError::TooLarge => 1153,
            ProtocolError::OutOfOrder => 1156,
            ProtocolError::BadHandshake => 1043,
            ProtocolError::UnknownCommand => 1047,
            ProtocolError::Malformed(_) => 1835,
        }
    }

    /// MySQL's SQLSTATE.
    pub fn sqlstate(self) -> [u8; 5] {
        match self {
            ProtocolError::Malformed(_) => *b"HY000",
            _ => *b"08S01",
        }
    }

    /// Whether the connection must be closed after the error was sent, because packet
    /// boundaries are lost.
    pub fn fatal(self) -> bool {
        matches!(
            self,
            ProtocolError::OutOfOrder | ProtocolError::BadHandshake
        )
    }
}
