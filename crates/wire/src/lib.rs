//! Codecs of the protocols: bytes to values and back.
//!
//! Nothing here opens a socket, reads a row or starts a thread. A caller owns
//! the connection's buffers; a codec reads from a slice, returns the number of
//! bytes used, and appends replies to a `Vec<u8>`.
//!
//! Invariants of every codec in this crate:
//! 1. Where the input is cut into reads makes no difference to what is parsed.
//! 2. A length that a peer claims is compared with a limit before anything
//!    grows; nothing is allocated for bytes that have not arrived.
//! 3. No input panics; malformed input is an error value that names the rule.
//!
//! * [`mysql`]: the MySQL client/server protocol, both halves.
//! * [`memcached`]: the memcached protocol (ASCII dialect), both halves.
#![forbid(unsafe_code)]

pub mod memcached;
pub mod mysql;
