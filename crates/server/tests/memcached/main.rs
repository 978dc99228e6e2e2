//! The memcached door through real sockets: some tests with rows at hand in
//! the same process, some with the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod alter_memcached;
mod concurrent_incr;
mod configuration;
mod constraints;
mod crash;
mod default_table;
mod expiry;
mod flush;
mod house;
mod json_rows;
mod large_values;
mod mapped;
mod memory_cache;
mod multi_get;
mod own_writes;
mod reaper;
mod roles;
mod switching;
mod transcripts;
mod unique_keys;
mod value_forms;
mod with_sql;
