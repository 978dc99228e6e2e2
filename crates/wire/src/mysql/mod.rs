//! The MySQL client/server protocol (version 10, `CLIENT_PROTOCOL_41`).
//!
//! Server half, in the order in which a connection meets it:
//! * [`frame`]: packets in the connection's buffer, and writing them.
//! * [`handshake`]: greeting, TLS request, login request, change of user.
//! * [`auth`]: the mathematics of the authentication plugins; [`login`]: the
//!   exchange that they make up.
//! * [`command`]: commands; [`params`]: parameters and query attributes.
//! * [`reply`]: OK, ERR, EOF, session state, answer to a prepare.
//! * [`mod@column`]: metadata of results; [`row`]: rows in text and binary form.
//!
//! Client half: [`client`].
//!
//! Below them: [`capability`] (the bits both sides exchange), `cursor`
//! (primitive encodings), [`error`].

pub mod auth;
pub mod capability;
pub mod client;
pub mod column;
pub mod command;
mod cursor;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod login;
pub mod params;
pub mod reply;
pub mod row;
mod row_binary;

pub use capability::{Capabilities, Status};
pub use error::ProtocolError;
