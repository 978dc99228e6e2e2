//! The memcached protocol.
//!
//! A connection speaks one of several dialects; its first byte tells them
//! apart ([`Dialect::of`]). Each dialect is a sibling module with its own
//! parser and reply writers; only [`ascii`] exists so far, and the others
//! are recognised so that they can be refused cleanly.
//!
//! * [`command`]: what all dialects have in common.
//! * [`ascii`]: request parser of the server.
//! * [`reply`]: reply writers of the server.
//! * [`client`]: request writers and reply parser of a client.

pub mod ascii;
pub mod client;
pub mod command;
mod line;
mod number;
pub mod reply;
mod tokens;

pub use ascii::{Fault, Keys, Limits, Parsed, Parser, Request, StoreVerb};

/// Longest key in bytes, in every dialect.
pub const MAX_KEY: usize = 250;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Lines of text: the classic commands (and the meta commands, which are
    /// told apart by their two-letter names).
    Ascii,
    /// 24-byte headers, each with this first byte: 0x80.
    Binary,
}

impl Dialect {
    /// The dialect of a connection whose first byte is `first`.
    pub fn of(first: u8) -> Dialect {
        if first == 0x80 {
            Dialect::Binary
        } else {
            Dialect::Ascii
        }
    }
}
