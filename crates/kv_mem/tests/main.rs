//! Integration tests of the engine, one module for each subject, in one program: linking one
//! for each file took longer than running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod aborted_process;
mod absent_keys;
mod against_the_model;
mod annotations;
mod bad_disks;
mod checkpoint_faults;
mod commit_races;
mod common;
mod contract;
mod contract_durable;
mod copies;
mod counts;
mod deadlocks;
mod ended_snapshots;
mod full_disk_starts;
mod incremental_checkpoints;
mod long_keys;
mod lost_updates;
mod missing_files;
mod old_formats;
mod overlapping_syncs;
mod planted_panics;
mod power_cuts;
mod prepared_crashes;
mod readers_and_reclaimer;
mod reclaiming;
mod removed_segments;
