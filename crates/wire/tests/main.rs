//! Integration tests of the codecs, one module for each subject, in one program: linking one
//! for each file took longer than running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod memcached_any_bytes;
mod memcached_parser;
mod memcached_transcripts;
mod mysql_commands;
mod mysql_frames;
mod mysql_login;
mod mysql_mariadb;
mod mysql_metadata;
mod mysql_results;
mod support;
