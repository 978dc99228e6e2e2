//! Helpers shared by the tests: random bytes, a small executor of memcached
//! requests, and transcripts for it.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]

pub mod cache;
pub mod transcript;

pub use porpoise_testkit::Random;
