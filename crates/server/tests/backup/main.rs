//! Backups, the archive and restores, through the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod archive;
mod buckets;
mod damage;
mod guide;
mod ledger;
mod load;
mod old_log;
mod refusals;
mod restores;
mod support;
