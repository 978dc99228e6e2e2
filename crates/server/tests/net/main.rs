//! The net layer through real sockets, behind a small line protocol.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod batches;
mod deferred;
mod harness;
mod limits;
mod shutdown;
mod slow;
mod stalls;
mod tls;
mod waits;
