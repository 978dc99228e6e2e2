//! Replication in MySQL's own protocol: events of the binary log, and sets of transaction identifiers.
//!
//! * [`event`]: the codec of events, version 4, in both directions.
//! * [`gtid`]: sets of global transaction identifiers, of MySQL and of MariaDB.
//!
//! Invariants:
//! 1. Nothing that a source or a file contains panics, or allocates by a length field alone.
//! 2. What is decoded and encoded again has the same meaning; what is not understood is refused with the name of
//!    the event and the field.

#![forbid(unsafe_code)]

pub mod event;
pub mod gtid;
