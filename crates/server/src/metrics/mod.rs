//! Counters of the server. The counters of the memcached protocol are in
//! [`porpoise_memcached::counters`].

pub mod registry;

pub use porpoise_base::counters::use_block;
pub use registry::{COUNTERS, Counter, add, sum};
