//! What a protocol implements to be served: [`Door`] and [`Session`].
//!
//! Invariants:
//! 1. A session is driven by one thread at a time, though not always the same.
//! 2. A session reads complete requests only, consumes each, and appends its
//!    whole reply before it looks at the next.
//! 3. Everything in a session that may stand still does so inside
//!    `porpoise_base::blocking`. Computations need no such call: the supervisor
//!    gives the other connections of the group to another worker after a few
//!    milliseconds.

use super::{Input, Output};
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::ConnectionMemory;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who has connected.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The number of the connection, unique in this server's life, from 1.
    pub id: u64,
    /// The client's address; `None` on a Unix socket.
    pub address: Option<SocketAddr>,
    /// All places are taken and this is the one kept for an administrator:
    /// the session must refuse everybody else at login.
    pub reserved: bool,
    /// Ends the session's waits, and the session: KILL, hang-up, shutdown.
    pub cancel: Cancel,
    /// The connection's memory.
    pub memory: Arc<ConnectionMemory>,
}

impl Peer {
    /// Whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        self.address
            .is_none_or(|a| a.ip().to_canonical().is_loopback())
    }

    /// The client's host as accounts name it.
    pub fn host(&self) -> String {
        match self.address {
            Some(address) if !self.is_local() => address.ip().to_canonical().to_string(),
            _ => "localhost".to_owned(),
        }
    }
}

/// Why a connection is turned away before it has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `max_connections` are open.
    TooManyConnections,
    /// The system gives no more descriptors or memory.
    OutOfResources,
}

/// One protocol at one or more listeners.
pub trait Door: Send + Sync {
    /// The protocol's name in messages and metrics.
    fn name(&self) -> &'static str;

    /// Opens a session; what it appends to `out` is sent first (a greeting).
    fn open(&self, peer: Peer, out: &mut Output) -> Box<dyn Session>;

    /// What a client that is turned away is told; may be empty.
    fn refusal(&self, why: Refusal) -> Vec<u8>;

    /// Whether an administrator may come in through this door when
    /// `max_connections` are open.
    fn reserves_a_place(&self) -> bool {
        false
    }

    /// Whether clients of this protocol shut down their writing side and still
    /// want the answers (`nc -N`). Where they do not as a rule, the end of what
    /// a client sends ends a wait of its session after two seconds; where they
    /// do, its machine is asked, which takes up to a minute.
    fn half_closes(&self) -> bool {
        true
    }
}

/// What becomes of the connection after a call.
#[derive(Debug)]
pub enum Next {
    /// More bytes are needed (see [`Input::want`]).
    Wait,
    /// Complete requests may be left: call again when others had their turn.
    Yield,
    /// Send what there is to send, then close.
    Close,
    /// Nothing is sent or read for this long (the delay after failed logins); then the
    /// connection goes on as with `Wait`, or as with `Close`. No worker waits meanwhile.
    Delay {
        /// The time from now.
        delay: Duration,
        /// The connection closes afterwards.
        close: bool,
    },
    /// From here on the connection speaks TLS. Input left over is already
    /// part of the handshake. Replies appended before go out in the clear.
    StartTls(Arc<rustls::ServerConfig>),
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has sent everything and all of it has been answered; what
    /// is left in the input is an incomplete request.
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
    /// The log has failed: the replies from the first held one on were taken
    /// back, and nobody knows whether what they told of is durable.
    UnknownOutcome,
    /// The session panicked; an unfinished reply was taken back.
    InternalError,
}

/// The server's side of one connection.
pub trait Session: Send {
    /// Runs the complete requests in `input`. Between requests it asks
    /// [`Output::should_yield`] and returns [`Next::Yield`] if so.
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next;

    /// The last call: may append a last message. The connection is closed
    /// when everything is sent, and the session is dropped.
    fn on_end(&mut self, end: End, out: &mut Output);

    /// Whether the client has proved who it is (true where there is no login).
    fn logged_in(&self) -> bool;

    /// How long the connection may be idle; `None` for ever.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether others may wait for this session (a transaction is open): it
    /// is served also when `max_running_statements` are waiting, and shutdown
    /// gives it time to finish.
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
