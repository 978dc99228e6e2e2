//! Blocking clients of the protocols that Porpoise serves: [`mysql`] and [`memcached`].
//!
//! The shell, the demo and the load generator connect with them, and so does whatever reads another server.
//! They own sockets, TLS and waiting; the bytes are read and written by `porpoise-wire`.
//!
//! Invariants:
//! 1. Nothing that a server sends panics, or allocates by a length field alone.
//! 2. Results are streamed: a client keeps one packet, not a result.
//! 3. A password is sent through TLS or a Unix socket, or as an answer to a challenge; over an unencrypted
//!    connection it is encrypted by the server's RSA key, which only [`TlsMode::VerifyIdentity`] and
//!    [`TlsMode::VerifyCa`] protect from an intermediary.

#![deny(unsafe_code)]

mod error;
pub mod memcached;
pub mod mysql;
mod stream;
mod tls;

pub use error::{Error, Result};
pub use stream::{Address, Stream};
pub use tls::{TlsMode, TlsOptions};
