//! Replication in MySQL's own protocol: events of the binary log, sets of transaction identifiers, and following a
//! source.
//!
//! * [`event`]: the codec of events, version 4, in both directions.
//! * [`gtid`]: sets of global transaction identifiers, of MySQL and of MariaDB.
//! * [`readable`]: rows of events for readers without tables of their own.
//! * [`replica`]: this server as a replica: [`source`] reads events, [`follow`] applies them in transactions with the
//!   help of [`mod@apply`] and [`convert`], [`position`] keeps what was applied, and [`copied`] knows what an unfinished
//!   import has not copied yet.
//! * [`dependencies`]: which transactions may be applied in parallel.
//! * [`epoch`]: fencing numbers of sources. [`election`]: the election of a group's leader, a state machine that simulations
//!   test.
//!
//! Invariants:
//! 1. Nothing that a source or a file contains panics, or allocates by a length field alone.
//! 2. What is decoded and encoded again has the same meaning; what is not understood is refused with the name of
//!    the event and the field.

#![forbid(unsafe_code)]

pub mod apply;
pub mod convert;
pub mod copied;
pub mod dependencies;
pub mod election;
pub mod epoch;
pub mod event;
pub mod filter;
pub mod follow;
pub mod gtid;
pub mod position;
pub mod readable;
pub mod replica;
pub mod source;
