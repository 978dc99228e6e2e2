//! The change log: files in the format of MySQL's binary log, which replicas and other readers follow.
//!
//! ```text
//! rows: change of a row -> images | commit: annotation of the engine's log record (one sync for both)
//!                                      |
//!                          writer thread: annotations in commit order -> binlog.000001, binlog.000002, ...
//!                                      |
//!                          dump: events from a position or a GTID set -> connections of replicas
//! ```
//!
//! The files are derived data. What the engine has on disk it keeps until the files that contain it are synced, so a
//! crash loses nothing: the files' torn tail is cut, and derived again (docs/internals/replication.md).
//!
//! * [`encode`]: images and statements to annotations, the hook of [`porpoise_rows::changes`].
//! * [`annotation`]: the form of an annotation.
//! * [`mod@file`]: names, headers and the recovery of a file.
//! * [`log`]: [`BinaryLog`], the state that the writer, sessions and dumps share.
//! * [`pending_keys`]: keys of transactions, from which their dependencies follow, on the way from sessions to the writer.
//! * [`open`]: opening the log. [`seed`]: the log of data that were copied.
//! * [`writer`]: the thread that turns annotations into files.
//! * [`dump`]: the stream of events to a reader.
//! * [`feed`]: the stream of changes to an application.
//! * [`acknowledge`]: commits that wait for replicas.
//! * [`flow_control`]: commits that pause while a replica catches up.
//! * [`branch`]: the point at which the log branches off from that of another server.
//! * [`describe`]: events as SHOW BINLOG EVENTS prints them.
//!
//! Invariants:
//! 1. The files contain the annotated commits in commit order, each once, without a gap.
//! 2. A reader sees only transactions that are on disk in the engine's log: none that a crash can undo.
//! 3. Annotations are released only when the file that contains them is synced.
//! 4. A file that is not the last one is synced and never changes.
//! 5. A reader that continues from a position gets every later transaction: positions before a gap, which a run
//!    without the log makes, are refused.

pub mod acknowledge;
pub mod annotation;
pub mod branch;
pub mod describe;
pub mod dump;
pub mod encode;
mod error;
pub mod feed;
pub mod file;
pub mod flow_control;
pub mod log;
mod open;
mod pacing;
pub mod pending_keys;
pub mod seed;
mod waiting;
mod writer;

pub use dump::{Dump, DumpStart, Step};
pub use encode::{Encoder, RowImage};
pub use error::{Error, Result};
pub use feed::{Feed, FeedStart, FeedStep};
pub use log::{BinaryLog, Options, Status};
pub use open::mark_unlogged;
