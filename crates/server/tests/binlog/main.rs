//! The binary log through the real binary: read by `mariadb-binlog`, followed by a MariaDB replica, after kills.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod dependencies;
mod gap;
mod images;
mod kills;
mod reading;
mod replica;
mod semi_sync;
mod support;
