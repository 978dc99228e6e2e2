//! What several tests need: random bytes, and a small executor of memcached
//! requests.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]

pub mod cache;

pub use porpoise_testkit::Random;
