//! Integration tests of the row layer, one module for each subject, in one program: linking one
//! for each file took longer than running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod auto_increment;
mod blobs;
mod calls;
mod cascade_large;
mod change_notifier;
mod check;
mod cluster;
mod common;
mod concurrency;
mod concurrent_foreign_keys;
mod crash_auto_increment;
mod crash_definitions;
mod definitions;
mod full_text;
mod multi_valued;
mod old_catalogs;
mod online_change;
mod online_copy;
mod partitions;
mod random_alter;
mod random_foreign_keys;
mod reads;
mod row_format;
mod sample;
mod schema_states;
mod statement_order;
mod storage_crashes;
mod triggers;
