//! Packets of the connection phase: greeting, TLS request, login request, AuthSwitchRequest,
//! AuthMoreData; and COM_CHANGE_USER, which repeats the authentication.

use super::capability::{Capabilities, Status};
use super::compression::{Algorithm, ZSTD_LEVEL};
use super::cursor::{Cursor, put_bytes};
use super::error::ProtocolError;
use super::frame;

pub use porpoise_base::password::{SALT_LEN, salt as random_salt};

/// Random challenge of a login: 20 bytes, none of them 0 (clients read it as a
/// C string), all below 128 (some clients read it as text).
pub type Salt = [u8; SALT_LEN];

/// The server's first packet.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a> {
    /// Version text, e.g. `8.0.36-porpoise`; no NUL.
    pub server_version: &'a str,
    /// Id of the connection.
    pub connection_id: u32,
    /// The challenge.
    pub salt: &'a Salt,
    /// Capabilities offered by the server.
    pub capabilities: Capabilities,
    /// Id of the default collation. The field has one byte, so the id is at most 255.
    pub collation: u8,
    /// Status bits.
    pub status: Status,
    /// Default authentication plugin.
    pub plugin: &'a str,
}

impl Greeting<'_> {
    /// Appends the packet.
    pub fn write(&self, out: &mut Vec<u8>, sequence: &mut u8) {
        let packet = frame::begin(out);
        out.push(10);
        put_nul(out, self.server_version.as_bytes());
        out.extend_from_slice(&self.connection_id.to_le_bytes());
        let (first, second) = self.salt.split_at(8);
        out.extend_from_slice(first);
        out.push(0);
        let [c0, c1, c2, c3] = self.capabilities.0.to_le_bytes();
        out.extend_from_slice(&[c0, c1, self.collation]);
        out.extend_from_slice(&self.status.0.to_le_bytes());
        out.extend_from_slice(&[c2, c3, SALT_LEN as u8 + 1]);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(second);
        out.push(0);
        put_nul(out, self.plugin.as_bytes());
        frame::finish(out, packet, sequence);
    }
}

fn put_nul(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().copied().filter(|&b| b != 0));
    out.push(0);
}

/// The client's first packet.
#[derive(Clone, Debug)]
pub enum ClientHello<'a> {
    /// A request for TLS: its handshake follows, then a login request.
    Tls {
        /// Capabilities in force: those offered by both client and server.
        capabilities: Capabilities,
    },
    /// A login request.
    Login(LoginRequest<'a>),
}

/// A login request (`HandshakeResponse41`).
#[derive(Clone, Debug)]
pub struct LoginRequest<'a> {
    /// Capabilities in force: those offered by both client and server.
    pub capabilities: Capabilities,
    /// Maximum packet size that the client accepts.
    pub max_packet: u32,
    /// The client's collation, low byte only.
    pub collation: u8,
    /// User name.
    pub user: &'a [u8],
    /// The client's answer to the challenge.
    pub auth: &'a [u8],
    /// Default database; empty: none.
    pub database: &'a [u8],
    /// Plugin that computed `auth`; empty if not given.
    pub plugin: &'a [u8],
    /// Attributes of the client program.
    pub attributes: Attributes<'a>,
    /// The compression in force after the login.
    pub compression: Option<Algorithm>,
}

/// Connection attributes: an iterator over pairs of name and value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut cursor = Cursor::new(self.bytes);
        let pair = (|| Some((cursor.lenenc_bytes()?, cursor.lenenc_bytes()?)))();
        self.bytes = cursor.rest();
        pair
    }
}

impl<'a> Attributes<'a> {
    /// Wraps pairs that the client half has encoded.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Attributes { bytes }
    }

    /// Checks that the bytes consist of complete pairs.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            cursor.lenenc_bytes()?;
            cursor.lenenc_bytes()?;
        }
        Some(Attributes { bytes })
    }
}

/// Parses the client's first packet. `server` are the capabilities that the greeting offered.
///
/// # Errors
/// [`ProtocolError::BadHandshake`] for anything else than a TLS request or a
/// login request of the 4.1 protocol.
pub fn parse_hello(payload: &[u8], server: Capabilities) -> Result<ClientHello<'_>, ProtocolError> {
    hello(payload, server).ok_or(ProtocolError::BadHandshake)
}

fn hello(payload: &[u8], server: Capabilities) -> Option<ClientHello<'_>> {
    let mut cursor = Cursor::new(payload);
    let offered = Capabilities(cursor.u32()?);
    if !offered.has(Capabilities::PROTOCOL_41) {
        return None;
    }
    let max_packet = cursor.u32()?;
    let collation = cursor.u8()?;
    cursor.take(23)?;
    let capabilities = offered & server;
    if cursor.is_empty() {
        return capabilities
            .has(Capabilities::SSL)
            .then_some(ClientHello::Tls { capabilities });
    }
    let user = cursor.nul()?;
    let auth = if offered.has(Capabilities::PLUGIN_AUTH_LENENC) {
        cursor.lenenc_bytes()?
    } else if offered.has(Capabilities::SECURE_CONNECTION) {
        let length = cursor.u8()?;
        cursor.take(usize::from(length))?
    } else {
        cursor.nul_or_end()
    };
    let database = if offered.has(Capabilities::CONNECT_WITH_DB) {
        cursor.nul_or_end()
    } else {
        &[]
    };
    let plugin = if offered.has(Capabilities::PLUGIN_AUTH) {
        cursor.nul_or_end()
    } else {
        &[]
    };
    let attributes = attributes(&mut cursor, offered)?;
    let compression = if capabilities.has(Capabilities::COMPRESS) {
        Some(Algorithm::Zlib)
    } else if capabilities.has(Capabilities::ZSTD_COMPRESSION) {
        Some(Algorithm::Zstd(cursor.u8().unwrap_or(ZSTD_LEVEL)))
    } else {
        None
    };
    Some(ClientHello::Login(LoginRequest {
        capabilities,
        max_packet,
        collation,
        user,
        auth,
        database,
        plugin,
        attributes,
        compression,
    }))
}

fn attributes<'a>(cursor: &mut Cursor<'a>, offered: Capabilities) -> Option<Attributes<'a>> {
    if !offered.has(Capabilities::CONNECT_ATTRS) || cursor.is_empty() {
        return Some(Attributes::default());
    }
    Attributes::parse(cursor.lenenc_bytes()?)
}

/// A change of user on an open connection (`COM_CHANGE_USER`).
#[derive(Clone, Debug)]
pub struct ChangeUser<'a> {
    /// User name.
    pub user: &'a [u8],
    /// Answer to the connection's challenge.
    pub auth: &'a [u8],
    /// Default database; empty: none.
    pub database: &'a [u8],
    /// Collation id; `None`: unchanged.
    pub collation: Option<u16>,
    /// Plugin that computed `auth`; empty if not given.
    pub plugin: &'a [u8],
    /// Attributes of the client program.
    pub attributes: Attributes<'a>,
}

/// Parses the body of `COM_CHANGE_USER` under the connection's capabilities.
pub(super) fn parse_change_user(body: &[u8], caps: Capabilities) -> Option<ChangeUser<'_>> {
    let mut cursor = Cursor::new(body);
    let user = cursor.nul()?;
    let auth = if caps.has(Capabilities::SECURE_CONNECTION) {
        let length = cursor.u8()?;
        cursor.take(usize::from(length))?
    } else {
        cursor.nul()?
    };
    let database = cursor.nul_or_end();
    let collation = if cursor.is_empty() {
        None
    } else {
        Some(cursor.u16()?)
    };
    let plugin = if caps.has(Capabilities::PLUGIN_AUTH) && !cursor.is_empty() {
        cursor.nul_or_end()
    } else {
        &[]
    };
    let attributes = attributes(&mut cursor, caps)?;
    Some(ChangeUser {
        user,
        auth,
        database,
        collation,
        plugin,
        attributes,
    })
}

/// Appends an AuthSwitchRequest: asks the client to authenticate again, with `plugin` and the
/// challenge `salt`.
pub fn write_auth_switch(out: &mut Vec<u8>, sequence: &mut u8, plugin: &str, salt: &Salt) {
    let packet = frame::begin(out);
    out.push(0xfe);
    put_nul(out, plugin.as_bytes());
    out.extend_from_slice(salt);
    out.push(0);
    frame::finish(out, packet, sequence);
}

/// Appends an AuthMoreData packet: a message of the plugin to the client.
pub fn write_auth_more(out: &mut Vec<u8>, sequence: &mut u8, data: &[u8]) {
    let packet = frame::begin(out);
    out.push(0x01);
    out.extend_from_slice(data);
    frame::finish(out, packet, sequence);
}

/// Appends a login request. Used by the client half, which has already computed `auth`.
pub(super) fn put_login(out: &mut Vec<u8>, request: &LoginRequest<'_>) {
    put_login_head(
        out,
        request.capabilities,
        request.max_packet,
        request.collation,
    );
    let caps = request.capabilities;
    put_nul(out, request.user);
    if caps.has(Capabilities::PLUGIN_AUTH_LENENC) {
        put_bytes(out, request.auth);
    } else {
        // The older format has a length byte, which limits the answer to 255 bytes.
        let auth = request.auth.get(..255).unwrap_or(request.auth);
        out.push(auth.len() as u8);
        out.extend_from_slice(auth);
    }
    if caps.has(Capabilities::CONNECT_WITH_DB) {
        put_nul(out, request.database);
    }
    if caps.has(Capabilities::PLUGIN_AUTH) {
        put_nul(out, request.plugin);
    }
    if caps.has(Capabilities::CONNECT_ATTRS) {
        put_bytes(out, request.attributes.bytes);
    }
    if let Some(Algorithm::Zstd(level)) = request.compression {
        out.push(level);
    }
}

/// Appends the fixed part that TLS requests and login requests begin with.
pub(super) fn put_login_head(
    out: &mut Vec<u8>,
    caps: Capabilities,
    max_packet: u32,
    collation: u8,
) {
    out.extend_from_slice(&caps.0.to_le_bytes());
    out.extend_from_slice(&max_packet.to_le_bytes());
    out.push(collation);
    out.extend_from_slice(&[0; 23]);
}
