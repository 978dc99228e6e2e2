//! Settings of a native listener, its clients, and what its connections share.

use crate::changes::{ChangeLog, SubscriptionCount};
use porpoise_access::{AccessControl, AuthId, DelayPolicy, LoginError, TlsPeer, VerifierCache};
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::ConnectionMemory;
use porpoise_rows::Db;
use porpoise_wire::mysql::auth::RsaKey;
use std::sync::Arc;

/// An entry of the list of sessions, kept by the server. Dropping it removes the entry.
pub trait Monitor: Send {
    /// Records the start of a request.
    fn begin(&self, command: &'static str, info: &[u8]);

    /// Records the end of a request.
    fn end(&self);
}

/// A session that has logged in.
pub struct SessionInfo<'a> {
    /// Id of the connection.
    pub connection: u64,
    /// User name of the login.
    pub user: &'a str,
    /// Host of the client.
    pub host: &'a str,
    /// The account.
    pub account: &'a AuthId,
    /// Version of access control in which the account has this name.
    pub named_at: u64,
    /// Ends the session or its request.
    pub cancel: &'a Cancel,
}

/// Adds a session to the list of sessions.
pub type AddSession = Box<dyn Fn(&SessionInfo<'_>) -> Box<dyn Monitor> + Send + Sync>;

/// Reports an attempt to log in: connection, user, host and outcome. An error refuses the login, although the
/// password was right.
pub type ReportLogin = Box<dyn Fn(u64, &str, &str, bool) -> Result<(), LoginError> + Send + Sync>;

/// Settings of a listener.
pub struct ListenerSettings {
    /// Accounts and privileges.
    pub control: Arc<AccessControl>,
    /// Hashes of passwords that were verified before, shared with other listeners.
    pub verifiers: Arc<VerifierCache>,
    /// Key by which clients without TLS encrypt passwords.
    pub rsa: Option<Arc<RsaKey>>,
    /// Returns the delays after failed logins, and the default lifetime of passwords in days.
    pub policy: Box<dyn Fn() -> (DelayPolicy, u16) + Send + Sync>,
    /// Reports a login to the audit log.
    pub audit: ReportLogin,
    /// Adds a session to the list of sessions.
    pub add_session: AddSession,
    /// The change log; `None` if the server keeps none.
    pub changes: Option<Arc<dyn ChangeLog>>,
    /// Version of the server.
    pub server_version: String,
}

/// The client of a new connection.
pub struct Client {
    /// Id of the connection.
    pub id: u64,
    /// Its host, in the form of account host patterns.
    pub host: String,
    /// Whether the client is on this machine.
    pub is_local: bool,
    /// Whether the connection cannot be eavesdropped on: a Unix socket.
    pub is_unix: bool,
    /// Whether only an administrator may log in, because all other connections are used.
    pub is_reserved: bool,
    /// Properties of the encryption; `None` without TLS.
    pub tls: Option<TlsPeer>,
    /// Ends the session or its request.
    pub cancel: Cancel,
    /// Memory account of the connection.
    pub memory: Arc<ConnectionMemory>,
}

/// State shared by all connections of a listener.
pub(crate) struct ListenerState {
    pub(crate) db: Arc<Db>,
    pub(crate) settings: ListenerSettings,
    pub(crate) subscriptions: Arc<SubscriptionCount>,
}
