//! Codecs of the protocols: bytes to values and back.
//!
//! Nothing in this crate opens a socket, reads a row or starts a thread. The caller owns the
//! connection's buffers: a codec parses a slice, returns the number of bytes consumed, and appends
//! replies to a `Vec<u8>`.
//!
//! Invariants of every codec in this crate:
//! 1. How the input is split into reads does not affect what is parsed.
//! 2. A length that a peer sends is checked against a limit before any buffer grows; nothing is
//!    allocated for bytes that have not arrived.
//! 3. No input causes a panic; malformed input yields an error value that names the violated rule.
//!
//! * [`mysql`]: the MySQL client/server protocol, for servers and clients.
//! * [`memcached`]: the memcached protocol: ASCII, meta and binary dialects for servers, ASCII for
//!   clients.
#![forbid(unsafe_code)]

pub mod memcached;
pub mod mysql;
pub mod native;
