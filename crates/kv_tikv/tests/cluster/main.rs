//! Tests of the distributed engine on the test double of a TiKV cluster: the contract suite, and
//! faults of a cluster. One program, so that the client library is linked once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test program fails by panicking, in its helpers too"
)]

mod bounds;
mod contract;
mod double;
mod failures;
mod gc;
mod guards;
mod heartbeats;
mod held_locks;
mod layout;
mod lost_locks;
mod orphans;
mod regions;
mod requests;
mod staleness;
mod tls;
mod two_servers;
mod unknown;
mod unreachable;
mod versions;
