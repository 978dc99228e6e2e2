//! The client of a connection, as login and encryption describe it.

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The connection's number.
    pub connection_id: u64,
    /// User name of the login.
    pub user: String,
    /// Host of the client.
    pub host: String,
    /// Account that it was authenticated as, `user@host`.
    pub account: String,
    /// The capabilities of the handshake.
    pub capabilities: u64,
    /// The collation of the handshake, by MySQL's number.
    pub collation: u16,
    /// Default database of the login.
    pub database: Option<String>,
}

/// Encryption of a connection; empty without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// OpenSSL's name of the cipher suite.
    pub cipher: String,
    /// The protocol version, like `TLSv1.3`.
    pub version: String,
}
