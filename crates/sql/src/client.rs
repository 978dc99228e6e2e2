//! The client of a connection, as login and encryption describe it.

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// Connection id.
    pub connection_id: u64,
    /// User name of the login.
    pub user: String,
    /// Host of the client.
    pub host: String,
    /// Account that was authenticated, `user@host`.
    pub account: String,
    /// The capabilities of the handshake.
    pub capabilities: u64,
    /// The collation of the handshake, as MySQL's collation id.
    pub collation: u16,
    /// Default database of the login.
    pub database: Option<String>,
}

/// Compression of a connection, as SHOW STATUS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compression {
    /// The algorithm; empty without compression.
    pub(crate) algorithm: &'static str,
    /// The level; 0 without compression.
    pub(crate) level: u32,
}

/// Encryption of a connection; the strings are empty without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// OpenSSL's name of the cipher suite.
    pub cipher: String,
    /// The protocol version, for example `TLSv1.3`.
    pub version: String,
}
