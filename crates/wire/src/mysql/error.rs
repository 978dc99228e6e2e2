//! Errors of the protocol itself, with MySQL's numbers.

use thiserror::Error;

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A packet above the size limit of the connection's phase.
    #[error("Got a packet bigger than 'max_allowed_packet' bytes")]
    TooLarge,
    /// An unexpected sequence number.
    #[error("Got packets out of order")]
    OutOfOrder,
    /// A malformed login packet, or one of an older protocol.
    #[error("Bad handshake")]
    BadHandshake,
    /// An unknown command code.
    #[error("Unknown command")]
    UnknownCommand,
    /// A malformed command; the text names the invalid part.
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
