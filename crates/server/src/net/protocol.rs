//! The interface that a protocol implements: [`Protocol`] and [`Session`].
//!
//! Invariants:
//! 1. A session is driven by one thread at a time, though not always the same.
//! 2. A session reads complete requests only, consumes each, and appends its
//!    whole reply before it reads the next.
//! 3. A session waits only inside `porpoise_base::blocking`. Computations need no
//!    such call: after a few milliseconds the supervisor assigns the group's event
//!    loop to another worker.

use super::{Input, Output};
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::ConnectionMemory;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The client of a new connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Number of the connection, unique until the server stops, from 1.
    pub id: u64,
    /// The client's address; `None` on a Unix socket.
    pub address: Option<SocketAddr>,
    /// Whether `max_connections` are open and this is the connection reserved for an
    /// administrator: the session must refuse all other accounts at login.
    pub reserved: bool,
    /// Cancels the session's waits, and ends the session: KILL, hang-up, shutdown.
    pub cancel: Cancel,
    /// Memory account of the connection.
    pub memory: Arc<ConnectionMemory>,
}

impl Peer {
    /// Whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        self.address
            .is_none_or(|a| a.ip().to_canonical().is_loopback())
    }

    /// The client's host, in the form of account host patterns.
    pub fn host(&self) -> String {
        client_host(self.address)
    }
}

/// A client's host, in the form of account host patterns; `None` is a Unix socket.
pub(crate) fn client_host(address: Option<SocketAddr>) -> String {
    match address.map(|a| a.ip().to_canonical()) {
        Some(ip) if !ip.is_loopback() => ip.to_string(),
        _ => "localhost".to_owned(),
    }
}

/// The reason for refusing a connection before it has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `max_connections` are open.
    TooManyConnections,
    /// No file descriptors or memory are available.
    OutOfResources,
}

/// One protocol at one or more listeners.
pub trait Protocol: Send + Sync {
    /// The protocol's name in messages and metrics.
    fn name(&self) -> &'static str;

    /// Opens a session. Output that it appends to `out` is sent first (a greeting).
    fn open(&self, peer: Peer, out: &mut Output) -> Box<dyn Session>;

    /// The message to a client that is refused; may be empty.
    fn refusal(&self, why: Refusal) -> Vec<u8>;

    /// Whether one more connection is accepted for an administrator when
    /// `max_connections` are open.
    fn reserves_connection(&self) -> bool {
        false
    }

    /// Whether clients of this protocol shut down their writing side and still
    /// read the replies (`nc -N`). If not, a half-close cancels a wait of the
    /// session after two seconds; if so, the peer is probed, which takes up to a
    /// minute.
    fn half_closes(&self) -> bool {
        true
    }
}

/// A session's decision about its connection after a call.
#[derive(Debug)]
pub enum Next {
    /// More bytes are needed (see [`Input::request_bytes`]).
    Wait,
    /// Complete requests may be left: the session is called again after the other
    /// ready connections.
    Yield,
    /// Send the unsent output, then close.
    Close,
    /// Nothing is sent or read for some time (the delay after failed logins); then the
    /// connection continues as with `Wait`, or as with `Close`. No worker waits meanwhile.
    Delay {
        /// Time from now.
        delay: Duration,
        /// Whether the connection closes afterwards.
        close: bool,
    },
    /// The connection continues with TLS. Unconsumed input is part of the handshake; replies
    /// appended before are sent in plain text.
    StartTls(Arc<rustls::ServerConfig>),
}

/// The reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has shut down its writing side, and every complete request is
    /// answered. The input may hold an incomplete request.
    Eof,
    /// Not logged in within `connect_timeout`.
    LoginTimeout,
    /// A request that had begun did not arrive in time.
    RequestTimeout,
    /// Idle for longer than [`Session::idle_timeout`].
    IdleTimeout,
    /// KILL.
    Killed,
    /// The server shuts down.
    Shutdown,
    /// The log has failed: the replies from the first deferred one on were
    /// discarded. The outcome of the commits that they reveal is unknown.
    UnknownOutcome,
    /// The session panicked; an unfinished reply was discarded.
    InternalError,
}

/// The server's side of one connection.
pub trait Session: Send {
    /// Runs the complete requests in `input`. Between requests it checks
    /// [`Output::should_yield`], and returns [`Next::Yield`] if true.
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next;

    /// Handles the end of the session; may append a last message. The connection is closed when all
    /// output is sent, and the session is dropped.
    fn on_end(&mut self, end: End, out: &mut Output);

    /// Whether the client is authenticated (true where there is no login).
    fn logged_in(&self) -> bool;

    /// Longest idle time of the connection; `None`: no limit.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether other sessions may wait for this one (a transaction is open). It is
    /// served even when `max_running_statements` sessions wait, and shutdown gives
    /// it time to finish.
    fn holds_locks(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: Option<&str>) -> Peer {
        Peer {
            id: 1,
            address: address.map(|a| a.parse().unwrap()),
            reserved: false,
            memory: Arc::default(),
            cancel: Cancel::new(),
        }
    }

    #[test]
    fn sockets_and_loopback_are_localhost() {
        for local in [
            None,
            Some("127.0.0.1:1"),
            Some("[::1]:1"),
            Some("[::ffff:127.0.0.1]:1"),
        ] {
            assert_eq!(peer(local).host(), "localhost", "{local:?}");
        }
        assert_eq!(peer(Some("[::ffff:192.0.2.1]:1")).host(), "192.0.2.1");
    }
}
