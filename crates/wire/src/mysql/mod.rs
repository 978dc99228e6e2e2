//! The MySQL client/server protocol (version 10, `CLIENT_PROTOCOL_41`).
//!
//! Server half, in the order in which a connection uses it:
//! * [`frame`]: reading and writing packets.
//! * [`handshake`]: greeting, TLS request, login request, change of user.
//! * [`auth`]: hashes and ciphers of the authentication plugins; [`login`]: the
//!   exchange of packets.
//! * [`command`]: commands; [`params`]: parameters and query attributes.
//! * [`reply`]: OK, ERR, EOF, session state, reply to COM_STMT_PREPARE.
//! * [`local_file`]: files that a client sends within a statement.
//! * [`mod@column`]: metadata of results; [`row`]: rows in text and binary form.
//!
//! Client half: [`client`].
//!
//! Used by both: [`capability`] (capability and status bits), `cursor`
//! (primitive encodings), [`error`].

pub mod auth;
pub mod capability;
pub mod client;
pub mod column;
pub mod command;
pub mod compression;
mod cursor;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod local_file;
pub mod login;
pub mod params;
pub mod reply;
pub mod row;
mod row_binary;

pub use capability::{Capabilities, Status};
pub use error::ProtocolError;
