//! The native protocol over rows: operations in batches, without SQL text.
//!
//! ```text
//! bytes      wire::native            native                                     rows
//!   |--> frame --> message --> Session::run --> Plan (shape, resolved) --> batch::read   --> look_up
//!                                                                      --> batch::write  --> lock, insert, update, delete
//!                                                                      --> scan          --> scan
//! ```
//!
//! * [`session`]: a connection: login, requests, an open transaction.
//! * [`login`] and [`identity`]: the account, and its rights on tables and columns.
//! * [`plan`]: the shape of an operation, resolved to a table, an index and columns.
//! * [`batch`] and [`scan`]: execution.
//! * [`changes`]: subscriptions to the change log.
//! * [`schema`]: definitions for clients. [`convert`]: values of clients and of rows.
//! * [`operation_statistics`]: counts and times by table and operation.
//! * [`local`]: the same requests for another listener of this process (REST), without a connection.
//!
//! Sockets, event loops and TLS are the server's (`crates/server/src/native.rs`).
//!
//! Invariants:
//! 1. Rows change only through `porpoise_rows`, by the same functions as by SQL and memcached.
//! 2. A request is executed as a whole before its answer is complete; an answer that reveals a
//!    commit, or rows of one that is not durable, waits for it (transactions.md, rule 19).
//! 3. A request outside of a transaction is repeated on conflict or deadlock only while no part of
//!    its answer was sent.
//! 4. Before the login only login frames are parsed, and none longer than
//!    [`porpoise_wire::native::frame::MAX_BODY_BEFORE_LOGIN`].

#![forbid(unsafe_code)]

mod batch;
mod changes;
mod context;
mod convert;
pub mod counters;
mod failure;
mod identity;
mod listener;
mod local;
mod login;
pub mod operation_statistics;
mod plan;
mod scan;
mod schema;
mod session;
mod settings;
mod sink;

pub use changes::{
    ChangeLog, ChangeReader, ChangeStep, LoggedChange, LoggedColumn, LoggedRow, LoggedTable,
};
pub use listener::Native;
pub use local::{
    BatchOperation, BatchRequest, LocalSession, LocalTable, OperationOutcome, default_value,
    member_text, stored_value,
};
pub use session::Session;
pub use settings::{Client, ListenerSettings, Monitor, SessionInfo};
pub use sink::{Disconnected, NextAction, RequestOutcome, Sink};
