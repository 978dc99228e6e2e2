//! The console's interface over HTTP, through the real binary: logins, privileges, hostile requests.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod client;
mod hostile;
mod logins;
mod rights;
