//! A client of TiKV clusters: timestamps, reads at a timestamp, pessimistic locks, and commits.
//!
//! It knows keys and values as bytes and nothing of Porpoise. Written for servers that call it from many threads: calls
//! are synchronous, and share a few connections and network threads.
//!
//! ```text
//! caller's thread    Client, Transaction          blocks until the answer, the deadline or a KILL
//!                        |
//! network threads    locks, commit, reads         the calls of a transaction
//!                    resolve                      locks of other transactions
//!                    router                       keys -> regions -> requests -> answers, repetitions
//!                     /        \
//!              members, pd     store              the leader, timestamps, regions; one stream for each store
//!                     \        /
//!                     transport                   gRPC
//! ```
//!
//! Invariants:
//! 1. Every call ends: at its deadline, or after [`ClientOptions::retry_time`] in which the cluster did not
//!    serve it.
//! 2. [`Error::Unknown`] is the only error after which a write may still take effect.
//! 3. A timestamp, a lock or a commit is never assumed: each is an answer of the cluster.
//!
//! Rejected: the crate tikv-client 0.4 (no time limits on timestamps and connections, a failing lock call loses held locks,
//! pessimistic locks of others are never removed, scans ask every region); an asynchronous interface (the
//! server's core is synchronous); requests for the leader's followers (reads are of the newest data).

#![forbid(unsafe_code)]

mod backoff;
mod call;
mod client;
mod commit;
mod counts;
mod error;
mod locks;
mod members;
mod pd;
mod proto;
mod reads;
mod region;
mod resolve;
mod router;
mod shared;
mod store;
mod transport;
mod txn;
mod version;

pub use call::Call;
pub use client::{Client, PendingGet};
pub use commit::{Change, Write};
pub use counts::{RequestCounts, RequestKind};
pub use error::{Error, Result};
pub use locks::{Grant, LockWait};
pub use pd::{first_timestamp_of, last_timestamp_of, physical_ms};
pub use reads::{PageRequest, Pairs};
pub use shared::ClientOptions;
pub use transport::TlsOptions;
pub use txn::{CommitOptions, Transaction};
