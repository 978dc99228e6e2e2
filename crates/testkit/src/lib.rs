//! Starts and stops real servers for tests: Porpoise, MariaDB, memcached and the TiKV double, each
//! on free loopback ports with its files in a separate directory.
//!
//! ```no_run
//! let server = porpoise_testkit::Porpoise::builder().arg("--durability", "sync").start();
//! let rows = server.sql("SELECT 1");
//! assert_eq!(rows.stdout, "1\n");
//! ```
//!
//! Invariants:
//! 1. No process outlives its handle: dropping a handle, also while a test panics, kills the whole
//!    process group. None outlives the test program: the kernel kills the children of a process
//!    that has ended.
//! 2. A server that does not get ready within its deadline, or that is not installed, fails the
//!    test with one clear line and its log. Nothing is skipped.
//! 3. The output of a server is kept, and printed when its test panics.
//! 4. Servers listen on 127.0.0.1 only.
//!
//! Functions panic instead of returning errors, because a test could not handle an error. A function
//! whose failure a test may expect returns whether it failed.

mod client;
mod go;
mod mariadb;
mod memcached;
mod porpoise;
mod ports;
mod process;
mod random;
mod sys;
mod tikv_double;

pub use client::{HttpReply, SqlOutput, exchange, http_exchange, http_get, http_request, sql};
pub use mariadb::{Mariadb, MariadbBuilder};
pub use memcached::Memcached;
pub use porpoise::{Finished, Porpoise, PorpoiseBuilder, Witness};
pub use ports::free as free_ports;
pub use process::wait_until;
pub use random::Random;
pub use tikv_double::TikvDouble;

/// Fails the test with a message that begins with the name of the failed program.
pub(crate) fn fail(program: &str, why: impl std::fmt::Display) -> ! {
    panic!("{program}: {why}")
}
