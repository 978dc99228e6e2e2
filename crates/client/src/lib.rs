//! Blocking clients of the protocols that Porpoise serves, [`mysql`] and [`memcached`], and of services by
//! [`http`] (object stores, receivers of traces).
//!
//! The shell, `porpoise import`, the demo and the load generator connect with them, and so does whatever reads
//! another server.
//! They own sockets, TLS and waiting; the bytes are read and written by `porpoise-wire`.
//!
//! Invariants:
//! 1. Nothing that a server sends panics, or allocates by a length field alone.
//! 2. Results are streamed: a client keeps one packet, not a result.
//! 3. A password is sent through TLS or a Unix socket, or as an answer to a challenge; over an unencrypted
//!    connection it is encrypted by the server's RSA key, which only [`TlsMode::VerifyIdentity`] and
//!    [`TlsMode::VerifyCa`] protect from an intermediary.
//! 4. A server gets a file of the client only if the caller allows files and the statement names this one.

#![deny(unsafe_code)]

mod error;
pub mod http;
mod local_file;
pub mod memcached;
pub mod mysql;
mod stream;
mod tls;

pub use error::{Error, Result};
pub use local_file::{FileError, OpenFile};
pub use stream::{Address, Stream};
pub use tls::{TlsMode, TlsOptions, server_name};
