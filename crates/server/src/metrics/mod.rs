//! Counters of the server. Those of the memcached protocol are
//! [`porpoise_memcached::counters`].

pub mod registry;

pub use porpoise_base::counters::use_block;
pub use registry::{COUNTERS, Counter, add, sum};
