//! Faults and histories: what proves the engine's promises.
//!
//! [`engine`] drives the embedded engine by a seed on a disk that fails, and
//! compares every answer, and what comes up after every crash, with the
//! reference model. [`history`] judges what clients were
//! told: whether some order of their transactions explains it.
//!
//! Nothing here is part of the server; nothing here reads a real clock or a
//! random number that the seed does not give.
#![forbid(unsafe_code)]

pub mod engine;
pub mod history;
