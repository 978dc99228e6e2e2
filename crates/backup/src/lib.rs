//! Backup repositories: where backups and the archived log of one store lie, in a directory or in a
//! bucket.
//!
//! ```text
//!   repository                          whose repository this is
//!   data/CHECKPOINT-FILE.PART           parts of checkpoint files, shared by all backups
//!   log/FROM-TO                         groups of the log between two positions
//!   backup/NUMBER                       a backup: which of the above it needs
//! ```
//!
//! Every object is compressed, checksummed and, with a key, encrypted ([`object`]). Objects are written
//! whole or not at all and never change. A backup is incremental by itself: it stores the parts and the
//! log that the repository does not have. Its own object is written last, so an interrupted backup
//! leaves parts that the next one uses, and never a backup that looks whole and is not.
//!
//! The crate knows neither the engine nor the network protocol of the server: `crates/server/src/backup/`
//! connects them.

#![forbid(unsafe_code)]

mod chain;
mod error;
pub mod key;
pub mod log;
pub mod object;
pub mod prune;
pub mod repository;
pub mod store;
mod verify;

pub use chain::Chain;
pub use error::{Error, Result};
pub use key::Key;
pub use log::{Group, Piece};
pub use repository::{Backup, BackupFile, BinlogPosition, Identity, Repository};
pub use store::Location;
pub use verify::{Verdict, verify};
