//! The native protocol (docs/formats.md, "Native protocol"): rows in batches, without SQL text.
//!
//! * [`frame`]: the preamble of a connection, and frames.
//! * [`value`]: typed values of columns.
//! * [`message`]: login, look-up of tables, transactions, errors.
//! * [`batch`]: operations on rows, and their results.
//! * [`scan`]: ranges of an index.
//! * [`changes`]: subscriptions to the change log.
//!
//! All integers are little-endian. Parsers borrow from the received bytes. They never allocate by a
//! length field: counts only bound loops over bytes that have arrived.
//!
//! Rejected: names of columns in operations (a client looks a definition up once, and every
//! operation has the version of the definition that it was built from); encodings chosen by each
//! operation (the version of the definition determines them).

pub mod batch;
pub mod changes;
pub mod frame;
pub mod message;
mod reader;
pub mod scan;
pub mod value;

pub use reader::{Malformed, Reader, put_bytes, put_varint};

/// Newest version of the protocol: 2 has subscriptions ([`changes`]).
pub const NATIVE_FORMAT_VERSION: u8 = 2;

/// Oldest version of the protocol that servers and clients speak.
pub const OLDEST_VERSION: u8 = 1;

/// Plugin of the answer in the login request.
pub const LOGIN_PLUGIN: &str = "caching_sha2_password";
