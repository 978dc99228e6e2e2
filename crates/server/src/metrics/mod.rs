//! Counters of the server, and the times of deferred replies. The counters of the memcached protocol
//! are in [`porpoise_memcached::counters`].

mod durability_wait;
pub mod registry;

pub use durability_wait::{WAIT_INTERVAL, durability_wait, record_durability_wait};
pub use porpoise_base::counters::use_block;
pub use registry::{COUNTERS, Counter, add, sum};
