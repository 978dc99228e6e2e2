//! Porpoise follows a MariaDB source: rows of all types, definitions, cascades, crashes of either side, errors,
//! filters, privileges, workers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod crashes;
mod from_backup;
mod import;
mod parallel;
mod promote;
mod rows;
mod standby;
mod statements;
mod support;
mod written_source;
mod xa;
