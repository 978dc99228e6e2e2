//! The MySQL listener: sessions of the client/server protocol in front of SQL.
//!
//! * [`login`]: greeting, TLS, authentication, change of user.
//! * [`session`]: packets of a logged-in connection, one command at a time.
//! * [`query`]: statements as text, one or several in a packet.
//! * [`statements`]: prepared statements, long data, cursors.
//! * [`sink`]: results on their way into the connection's output.
//! * [`answer`]: OK and ERR packets, and which of them are deferred.
//!
//! Invariants:
//! 1. Before a client has logged in, a packet over 64 KiB ends the
//!    connection, and nothing is kept on its word.
//! 2. Every request is answered with a packet of the protocol; the connection is
//!    closed only where packet boundaries are lost, or where the statement's error
//!    is fatal.
//! 3. A reply that reveals a commit, or rows of a commit that is not durable yet,
//!    is sent when that commit is durable (transactions.md, rule 19): [`answer`]
//!    defers it from its first byte.
//! 4. A result leaves in pieces only where it reads from a snapshot; one that
//!    reads the newest rows is kept whole until its commit position is known.
//! 5. No password and no secret appears in logs or replies.
//!
//! Rejected: answering statements by their text without the parser (session
//! set-up queries of drivers); one statement per packet only, with the rest
//! ignored (loses data silently).

mod answer;
pub(crate) mod login;
mod query;
mod session;
mod sink;
mod statements;

use crate::metrics::{self, Counter};
use crate::net::{Output, Peer, Protocol, Refusal, Session};
use login::FastPath;
use porpoise_sql::SqlServer;
use porpoise_wire::mysql::auth::RsaKey;
use porpoise_wire::mysql::reply;
use session::MysqlSession;
use std::sync::Arc;

/// State shared by all sessions of a listener.
pub(crate) struct Shared {
    sql: Arc<SqlServer>,
    tls: Option<Arc<rustls::ServerConfig>>,
    rsa: Option<RsaKey>,
    fast_path: FastPath,
}

/// The MySQL protocol.
pub struct MysqlProtocol(Arc<Shared>);

impl MysqlProtocol {
    /// The protocol before `sql`. `tls` is what clients that ask for encryption get;
    /// `rsa` takes the passwords of those that do not.
    pub fn new(
        sql: Arc<SqlServer>,
        tls: Option<Arc<rustls::ServerConfig>>,
        rsa: Option<RsaKey>,
    ) -> MysqlProtocol {
        sql.provide_status(Box::new(network_status));
        MysqlProtocol(Arc::new(Shared {
            sql,
            tls,
            rsa,
            fast_path: FastPath::default(),
        }))
    }
}

impl Protocol for MysqlProtocol {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn open(&self, peer: Peer, out: &mut Output) -> Box<dyn Session> {
        Box::new(MysqlSession::greet(self.0.clone(), peer, out))
    }

    fn refusal(&self, why: Refusal) -> Vec<u8> {
        let (code, message) = match why {
            Refusal::TooManyConnections => (1040, "Too many connections"),
            Refusal::OutOfResources => (
                1041,
                "Out of memory; check if the server or some other process uses all available \
                 memory or descriptors",
            ),
        };
        let mut bytes = Vec::new();
        reply::write_early_error(&mut bytes, &mut 0, code, message);
        bytes
    }

    fn half_closes(&self) -> bool {
        false
    }

    fn reserves_a_place(&self) -> bool {
        true
    }
}

/// Figures of the network under the names that SHOW STATUS has for them.
fn network_status() -> Vec<(String, String)> {
    let refused = metrics::sum(Counter::RefusedMany) + metrics::sum(Counter::RefusedResources);
    [
        ("Aborted_connects", metrics::sum(Counter::LoginsDenied)),
        ("Bytes_received", metrics::sum(Counter::BytesReceived)),
        ("Bytes_sent", metrics::sum(Counter::BytesSent)),
        ("Connections", metrics::sum(Counter::Accepted)),
        ("Connection_errors_max_connections", refused),
        ("Porpoise_replies_held", metrics::sum(Counter::HeldReplies)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .collect()
}
