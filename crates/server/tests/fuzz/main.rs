//! Fuzzing of the real binary's listeners: random input from seeds, beside an ordinary connection that
//! must not be affected.
//!
//! Each test draws its cases from consecutive seeds, on two connections at a time, until its time
//! or its number of cases is over; a failure names the seed. `FUZZ_SEED=n` begins with another
//! seed, `FUZZ_SECONDS=n` runs longer.
//!
//! Every case asserts, whatever was sent: the server is running, no session panicked, the log has
//! no panic, memory stays below a bound, the transactions of another client stay consistent, and no
//! session outlives its connection.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../mysql/certificates.rs"]
mod certificates;
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../mysql/client.rs"]
mod client;
mod corpus;
mod http;
mod memcached;
mod mysql_bytes;
mod mysql_commands;
mod mysql_statements;
mod packets;
mod requests;
mod talk;
#[path = "../../../wire/tests/support/transcript.rs"]
mod transcript;
mod watch;

use std::time::Duration;

/// Duration of a test of `make test`.
const SHORT: Duration = Duration::from_secs(4);

/// Duration of a test of `make soak`.
const LONG: Duration = Duration::from_secs(150);
