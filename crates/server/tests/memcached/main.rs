//! The memcached listener through real sockets: some tests with rows at hand in
//! the same process, some with the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod accounts;
mod adjacent;
mod alter_memcached;
#[path = "../mysql/certificates.rs"]
mod certificates;
mod concurrent_incr;
mod configuration;
mod conformance;
mod constraints;
mod crash;
mod default_table;
mod expiry;
mod expressions;
mod flush;
mod in_process;
mod item_size;
mod json_rows;
mod large_values;
mod mapped;
mod marks;
mod memory_cache;
mod multi_get;
mod own_writes;
mod portions;
mod reaper;
mod roles;
mod switching;
mod tls;
mod transactions;
mod transcripts;
mod triggers;
mod unique_keys;
mod value_forms;
mod with_sql;
mod writers;
