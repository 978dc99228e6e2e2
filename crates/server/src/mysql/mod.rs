//! The MySQL listener: sessions of the client/server protocol in front of SQL.
//!
//! * [`login`]: greeting, TLS, authentication, change of user.
//! * [`session`]: packets of a logged-in connection, one command at a time.
//! * [`query`]: statements as text, one or several in a packet.
//! * [`replication`]: replicas and other readers of the binary log. [`clone`]: copies of all data for them.
//! * [`statements`]: prepared statements, long data, cursors.
//! * [`local_file`]: files of clients, for LOAD DATA LOCAL.
//! * [`sink`]: encodes result rows into the connection's output.
//! * [`answer`]: OK and ERR packets, and which of them are deferred.
//!
//! Invariants:
//! 1. Before a client has logged in, a packet over 64 KiB ends the connection, and its declared
//!    length allocates nothing.
//! 2. Every request is answered with a packet of the protocol. The connection is closed only if
//!    packet boundaries are lost or the statement's error is fatal.
//! 3. A reply that reveals a commit, or rows of a commit that is not durable yet, is a deferred
//!    reply: it is sent when that commit is durable (transactions.md, rule 19). [`answer`] defers
//!    it from its first byte.
//! 4. A result is sent in parts only if it reads from a snapshot. One that reads the newest rows is
//!    buffered whole until its commit position is known.
//! 5. Logs and replies contain no password and no other secret.
//!
//! Rejected: answering session set-up queries of drivers by their text, without the parser;
//! executing only the first statement of a packet and ignoring the rest (loses data silently).

mod answer;
mod checksum;
pub(crate) mod clone;
mod local_file;
pub(crate) mod login;
mod query;
mod replication;
mod session;
mod sink;
mod statements;

use crate::metrics::{self, Counter};
use crate::net::{Output, Peer, Protocol, Refusal, Session};
use porpoise_access::VerifierCache;
use porpoise_binlog::BinaryLog;
use porpoise_kv_mem::KvMem;
use porpoise_sql::SqlServer;
use porpoise_wire::mysql::auth::RsaKey;
use porpoise_wire::mysql::reply;
use session::MysqlSession;
use std::sync::Arc;

/// State shared by all sessions of a listener.
pub(crate) struct Shared {
    sql: Arc<SqlServer>,
    tls: Option<Arc<rustls::ServerConfig>>,
    rsa: Option<Arc<RsaKey>>,
    verifiers: Arc<VerifierCache>,
    /// The binary log, if it is on.
    binlog: Option<Arc<BinaryLog>>,
    /// The embedded engine, if there is one.
    engine: Option<Arc<KvMem>>,
}

/// The MySQL protocol.
pub struct MysqlProtocol(Arc<Shared>);

impl MysqlProtocol {
    /// Creates the protocol for `sql`. `tls` serves clients that request encryption; `rsa` decrypts
    /// the passwords of clients that do not; `verifiers` caches the hashes of verified
    /// passwords; replicas follow `binlog`, and copy the data of `engine`.
    pub fn new(
        sql: Arc<SqlServer>,
        tls: Option<Arc<rustls::ServerConfig>>,
        rsa: Option<Arc<RsaKey>>,
        verifiers: Arc<VerifierCache>,
        binlog: Option<Arc<BinaryLog>>,
        engine: Option<Arc<KvMem>>,
    ) -> MysqlProtocol {
        sql.provide_status(Box::new(network_status));
        MysqlProtocol(Arc::new(Shared {
            sql,
            tls,
            rsa,
            verifiers,
            binlog,
            engine,
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

    fn reserves_connection(&self) -> bool {
        true
    }
}

/// Returns the network metrics under their names in SHOW STATUS.
fn network_status() -> Vec<(String, String)> {
    let refused = metrics::sum(Counter::RefusedMany) + metrics::sum(Counter::RefusedResources);
    [
        ("Aborted_connects", metrics::sum(Counter::LoginsDenied)),
        ("Bytes_received", metrics::sum(Counter::BytesReceived)),
        ("Bytes_sent", metrics::sum(Counter::BytesSent)),
        ("Connections", metrics::sum(Counter::Accepted)),
        ("Connection_errors_max_connections", refused),
        (
            "Porpoise_replies_held",
            metrics::sum(Counter::DeferredReplies),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .collect()
}
