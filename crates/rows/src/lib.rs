//! Rows and constraints. All changes of rows pass through this crate.
//!
//! SQL, the memcached protocol and the native API all call this crate. It knows no SQL text and no
//! protocol, and calls the engine in batches.
//!
//! * [`Db`]: an engine, its catalog, its counters.
//! * [`Txn`]: reads, locks and writes of rows; constraints and cascades.
//! * [`definition`], [`table`], [`catalog`]: table definitions. [`row`]: the encoding of rows.
//! * [`Error`]: failures, with MySQL's error numbers and messages.

#![forbid(unsafe_code)]

pub mod autoinc;
mod bytes;
pub mod catalog;
pub mod change_notifier;
pub mod changes;
pub mod check;
mod check_text;
mod check_values;
pub mod cluster;
pub mod command_summary;
pub mod commit_pacing;
pub mod db;
pub mod ddl;
pub mod definition;
pub mod entry_reader;
pub mod error;
mod expiry;
pub mod expressions;
pub(crate) mod fk;
pub mod histogram;
pub mod hot_keys;
pub mod keys;
pub mod lock_description;
pub mod metadata_lock;
pub mod number;
pub mod overflow;
pub mod partition;
pub mod prepared;
pub mod progress;
pub mod read_only;
pub mod reap;
pub mod routing;
pub mod row;
pub mod sample;
pub mod shared_map;
pub mod show;
pub mod table;
pub mod text_index;
pub mod triggers;
pub mod ttl;
pub mod txn;
pub mod version;

pub use autoinc::{AutoIncOptions, GeneratedIds};
pub use change_notifier::TableChanges;
pub use db::{Db, DbOptions};
pub use entry_reader::EntryReader;
pub use error::{Error, Result};
pub use fk::FkCounters;
pub use number::{Number, NumberColumn};
pub use overflow::OverflowFetch;
pub use read_only::ReadOnly;
pub use row::{RowBuf, RowProjection, RowRef, RowStamp};
pub use txn::access_counts::AccessCounts;
pub use txn::delete::DeleteOutcome;
pub use txn::expired::Expiry;
pub use txn::firing::{FireTriggers, Firing, FiringTxn, SharedRunner};
pub use txn::insert::{InsertMode, InsertOutcome, Inserted};
pub use txn::lookup::{FoundRow, FoundVisitor, LockedRow, LockedVisitor, Lookup};
pub use txn::replace::ReplacedRows;
pub use txn::scan::{EntryVisitor, Fetch, KeyRange, ScanPosition, ScanSpec};
pub use txn::text_search::{RankOrder, TextEntries, TextMatches};
pub use txn::update::{RowChange, UpdateMode, UpdateOutcome};
pub use txn::{BeginOptions, Txn};
