//! Client of the native protocol: rows by key in batches, scans, transactions.
//!
//! It is separate from `porpoise-client`, the blocking clients of the MySQL and the memcached
//! protocol that the tools use: applications link this one, and its asynchronous interface needs
//! tokio.
//!
//! ```text
//!            Operation (table, index, columns, conditions)
//!                 |
//! Connection ---- Batch --> core (frames, requests in flight) --> Stream        synchronous
//! Client ---------- combines the operations of concurrent threads into batches of Connections
//! AsyncConnection - Batch --> core --> tokio::net::TcpStream                     asynchronous
//! AsyncClient ----- AsyncConnections, which combine the operations of concurrent tasks
//! ```
//!
//! * [`Connection`]: one connection, with pipelining.
//! * [`Client`]: a pool for many threads, whose single operations it combines into batches.
//! * [`AsyncConnection`]: an asynchronous connection, shared by many tasks, whose single operations it
//!   combines into batches.
//! * [`AsyncClient`]: a pool of asynchronous connections, reopened when they break.
//! * [`Table`], [`Operation`], [`Batch`], [`Reply`]: requests and answers of all of these.
//! * [`Subscription`], [`AsyncSubscription`]: changes of rows, from the change log.
//! * [`trait@Row`]: typed rows.
//!
//! A request is retried automatically only if it cannot have had an effect: it was not sent, or it
//! only reads. After a write whose answer did not arrive the error is [`Error::UnknownOutcome`].

#![forbid(unsafe_code)]

mod async_client;
mod asynchronous;
mod batch;
mod changes;
mod client;
mod combined;
mod connection;
mod core;
mod error;
mod operation;
mod reply;
mod row;
mod scan;
mod subscription;
mod table;
mod values;

pub use async_client::{AsyncClient, AsyncClientOptions};
pub use asynchronous::AsyncConnection;
pub use batch::Batch;
pub use changes::{Change, ChangedRow, ChangedTransaction, ChangesPage, SubscribeRequest};
pub use client::{Client, ClientOptions};
pub use connection::{Connection, SignalHook, Target};
pub use error::{Error, Result, ServerError};
pub use operation::{Operation, OperationBuilder};
pub use porpoise_client::{Address, TlsMode, TlsOptions};
pub use porpoise_native_derive::Row;
pub use porpoise_types::{Date, DateTime, Time, Value, ValueRef};
pub use porpoise_wire::native::changes::ChangedColumn;
pub use porpoise_wire::native::message::Isolation;
pub use porpoise_wire::native::value::Encoding;
pub use reply::{Outcome, Reply, Results};
pub use row::{ColumnValues, FromValue, IntoValue, Row};
pub use scan::{Bound, ScanPage, ScanRequest};
pub use subscription::{AsyncSubscription, Subscription};
pub use table::Table;
pub use values::RowValues;
