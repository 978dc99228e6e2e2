//! The memcached protocol.
//!
//! A connection uses one of several dialects, which its first byte selects
//! ([`Dialect::of`]). Each dialect is a sibling module with its own parser and
//! reply writers; all parse into the types of [`command`].
//!
//! * [`commands`]: the table of commands: names, opcodes, layouts of requests.
//! * [`command`]: changes of an item and their outcomes, which all dialects have in common.
//! * [`ascii`]: request parser of the server.
//! * [`meta`], [`meta_reply`], [`base64`]: meta commands, which are lines of the ASCII dialect.
//! * [`binary`], [`binary_reply`]: the binary dialect.
//! * [`reply`]: reply writers of the server.
//! * [`client`]: request writers and reply parser of a client.

pub mod ascii;
pub mod base64;
pub mod binary;
pub mod binary_reply;
pub mod client;
pub mod command;
pub mod commands;
mod line;
pub mod meta;
pub mod meta_reply;
mod number;
pub mod reply;
mod request;
mod tokens;

pub use ascii::{Fault, Keys, Limits, Parsed, Parser, Request};

/// Longest key in bytes, in every dialect.
pub const MAX_KEY: usize = 250;

/// Dialect of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Lines of text: the classic commands, and the meta commands, which have names of two
    /// letters.
    Ascii,
    /// 24-byte headers, each with this first byte: 0x80.
    Binary,
}

impl Dialect {
    /// Returns the dialect of a connection whose first byte is `first`.
    pub fn of(first: u8) -> Dialect {
        if first == 0x80 {
            Dialect::Binary
        } else {
            Dialect::Ascii
        }
    }
}
