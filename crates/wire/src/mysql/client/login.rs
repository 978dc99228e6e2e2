//! Logging in as a client.

use super::super::auth::{Plugin, encrypt_password, native_answer, sha2_answer};
use super::super::capability::{Capabilities, Status};
use super::super::compression::{Algorithm, ZSTD_LEVEL};
use super::super::cursor::{Cursor, put_bytes};
use super::super::frame;
use super::super::handshake::{
    Attributes, LoginRequest, SALT_LEN, Salt, put_login, put_login_head,
};
use super::result::{ServerError, parse_error};

/// The server's greeting, as a client reads it.
#[derive(Clone, Debug)]
pub struct ServerGreeting<'a> {
    /// Version text.
    pub server_version: &'a [u8],
    /// Id of the connection.
    pub connection_id: u32,
    /// The challenge.
    pub salt: Salt,
    /// Capabilities offered by the server.
    pub capabilities: Capabilities,
    /// Default collation.
    pub collation: u8,
    /// Status bits.
    pub status: Status,
    /// Default authentication plugin.
    pub plugin: &'a [u8],
}

/// Parses the server's first packet. Returns `None` if it is not a greeting; use [`parse_error`] for
/// an error packet.
pub fn parse_greeting(payload: &[u8]) -> Option<ServerGreeting<'_>> {
    let mut cursor = Cursor::new(payload);
    if cursor.u8()? != 10 {
        return None;
    }
    let server_version = cursor.nul()?;
    let connection_id = cursor.u32()?;
    let first: [u8; 8] = cursor.array()?;
    cursor.u8()?;
    let [c0, c1] = cursor.array()?;
    let collation = cursor.u8()?;
    let status = Status(cursor.u16()?);
    let [c2, c3] = cursor.array()?;
    cursor.take(11)?;
    let second: [u8; SALT_LEN - 8] = cursor.array()?;
    cursor.u8()?;
    let mut salt = [0; SALT_LEN];
    for (slot, byte) in salt.iter_mut().zip(first.iter().chain(&second)) {
        *slot = *byte;
    }
    Some(ServerGreeting {
        server_version,
        connection_id,
        salt,
        capabilities: Capabilities(u32::from_le_bytes([c0, c1, c2, c3])),
        collation,
        status,
        plugin: cursor.nul_or_end(),
    })
}

/// Login data of a client.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// User name.
    pub user: Vec<u8>,
    /// Password; empty: none.
    pub password: Vec<u8>,
    /// Default database; empty: none.
    pub database: Vec<u8>,
    /// Attributes of the program, names and values.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Next step of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the appended packets and pass in the next packet.
    Wait,
    /// Logged in.
    Done,
    /// The server refused the login.
    Refused(ServerError),
    /// The server sent a packet that this client does not support.
    Unsupported(&'static str),
}

/// A login in progress.
#[derive(Debug)]
pub struct ClientLogin {
    credentials: Credentials,
    /// Capabilities of the connection.
    capabilities: Capabilities,
    /// Whether the password may be sent without encryption by RSA.
    secure: bool,
    /// The server's last challenge.
    salt: Salt,
    /// The plugin in use; `None` if the server's default is unknown to this client.
    plugin: Option<Plugin>,
    /// Whether the next message is the server's public RSA key.
    is_key_requested: bool,
}

/// Capabilities that this client requests if the server offers them.
pub const WANTED: Capabilities = Capabilities(
    Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0
        | Capabilities::QUERY_ATTRIBUTES.0,
);

/// Largest packet that this client announces.
const MAX_PACKET: u32 = 1 << 30;

/// utf8mb4_general_ci.
const COLLATION: u8 = 45;

impl ClientLogin {
    /// Starts a login after `greeting`. `wanted` is usually [`WANTED`]; capabilities that the
    /// server does not offer are removed. `secure`: the connection uses TLS or a Unix socket, or
    /// will use TLS before the password is sent.
    pub fn new(
        greeting: &ServerGreeting<'_>,
        credentials: Credentials,
        wanted: Capabilities,
        secure: bool,
    ) -> ClientLogin {
        let mut wanted = wanted;
        if !credentials.database.is_empty() {
            wanted = wanted | Capabilities::CONNECT_WITH_DB;
        }
        if !credentials.attributes.is_empty() {
            wanted = wanted | Capabilities::CONNECT_ATTRS;
        }
        ClientLogin {
            credentials,
            capabilities: wanted & greeting.capabilities,
            secure,
            salt: greeting.salt,
            plugin: Plugin::by_name(greeting.plugin),
            is_key_requested: false,
        }
    }

    /// Capabilities of the connection after the login.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Appends a request for TLS. After the TLS handshake the caller calls [`ClientLogin::start`]
    /// with the same, advanced, `sequence`.
    pub fn request_tls(&mut self, out: &mut Vec<u8>, sequence: &mut u8) {
        self.capabilities = self.capabilities | Capabilities::SSL;
        self.secure = true;
        let packet = frame::begin(out);
        put_login_head(out, self.capabilities, MAX_PACKET, COLLATION);
        frame::finish(out, packet, sequence);
    }

    /// Appends the login request. The greeting had sequence number 0, so the
    /// request has 1, or 2 after a request for TLS.
    pub fn start(&mut self, out: &mut Vec<u8>, sequence: &mut u8) {
        let plugin = self.plugin.unwrap_or(Plugin::Native);
        let auth = self.answer(plugin);
        let mut attributes = Vec::new();
        for (name, value) in &self.credentials.attributes {
            put_bytes(&mut attributes, name);
            put_bytes(&mut attributes, value);
        }
        let request = LoginRequest {
            capabilities: self.capabilities,
            max_packet: MAX_PACKET,
            collation: COLLATION,
            user: &self.credentials.user,
            auth: &auth,
            database: &self.credentials.database,
            plugin: plugin.name().as_bytes(),
            attributes: Attributes::new(&attributes),
            compression: self.compression(),
        };
        let packet = frame::begin(out);
        put_login(out, &request);
        frame::finish(out, packet, sequence);
    }

    /// The compression in force once the login is complete.
    pub fn compression(&self) -> Option<Algorithm> {
        if self.capabilities.has(Capabilities::COMPRESS) {
            Some(Algorithm::Zlib)
        } else if self.capabilities.has(Capabilities::ZSTD_COMPRESSION) {
            Some(Algorithm::Zstd(ZSTD_LEVEL))
        } else {
            None
        }
    }

    /// Computes the answer to the challenge.
    fn answer(&self, plugin: Plugin) -> Vec<u8> {
        match plugin {
            Plugin::Native => native_answer(&self.credentials.password, &self.salt),
            Plugin::CachingSha2 => sha2_answer(&self.credentials.password, &self.salt),
        }
    }

    /// Processes a packet of the server. `sequence` is the sequence number of the answer.
    pub fn more(&mut self, payload: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Step {
        match payload.split_first() {
            Some((0x00, _)) => Step::Done,
            Some((0xff, _)) => match parse_error(payload) {
                Some(error) => Step::Refused(error),
                None => Step::Unsupported("an error packet that cannot be read"),
            },
            Some((0xfe, body)) => self.switch(body, out, sequence),
            Some((0x01, data)) => self.message(data, out, sequence),
            _ => Step::Unsupported("an unknown packet during login"),
        }
    }

    /// Processes a request to switch to another plugin.
    fn switch(&mut self, body: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Step {
        let mut cursor = Cursor::new(body);
        let Some(plugin) = cursor.nul().and_then(Plugin::by_name) else {
            return Step::Unsupported("a switch to an unknown plugin");
        };
        let Some(salt) = cursor.array() else {
            return Step::Unsupported("a switch of plugin without a challenge");
        };
        self.plugin = Some(plugin);
        self.salt = salt;
        frame::packet(out, sequence, &self.answer(plugin));
        Step::Wait
    }

    /// Processes a message of `caching_sha2_password`.
    fn message(&mut self, data: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Step {
        if self.is_key_requested {
            let password = &self.credentials.password;
            return match encrypt_password(password, &self.salt, data) {
                Some(message) => {
                    frame::packet(out, sequence, &message);
                    self.is_key_requested = false;
                    Step::Wait
                }
                None => Step::Unsupported("a public key that cannot be read"),
            };
        }
        match data {
            // The answer was correct; an OK packet follows.
            [3] => Step::Wait,
            // The server needs the password itself.
            [4] if self.secure => {
                let mut password = self.credentials.password.clone();
                password.push(0);
                frame::packet(out, sequence, &password);
                Step::Wait
            }
            [4] => {
                // Requests the server's public key.
                frame::packet(out, sequence, &[2]);
                self.is_key_requested = true;
                Step::Wait
            }
            _ => Step::Unsupported("an unknown message of the plugin"),
        }
    }
}
