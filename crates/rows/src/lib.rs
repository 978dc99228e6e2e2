//! Rows and constraints: the only place from which a row changes.
//!
//! SQL, the memcached protocol and the native API are doors to the functions
//! of this crate. It knows no SQL text and no protocol; it asks the engine
//! for everything in batches.

#![forbid(unsafe_code)]

pub mod catalog;
