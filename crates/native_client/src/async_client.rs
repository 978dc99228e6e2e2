//! A pool of asynchronous connections to one server, opened on demand and reopened when they break.
//!
//! Tasks are spread over the connections round-robin; each connection combines the single operations of its
//! tasks ([`AsyncConnection`]). A request is retried, once and over a new connection, only if it has had
//! no effect: it was not sent, or it only reads.

use crate::asynchronous::AsyncConnection;
use crate::batch::Batch;
use crate::connection::Target;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::reply::Reply;
use crate::scan::{ScanPage, ScanRequest};
use crate::table::Table;
use porpoise_types::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Mutex;

/// Settings of an [`AsyncClient`].
#[derive(Clone, Debug)]
pub struct AsyncClientOptions {
    /// Number of connections; 0 means 1.
    pub connections: usize,
}

impl Default for AsyncClientOptions {
    fn default() -> AsyncClientOptions {
        AsyncClientOptions { connections: 2 }
    }
}

/// A pool of asynchronous connections, shared by tasks of a tokio runtime.
#[derive(Debug)]
pub struct AsyncClient {
    target: Target,
    /// The connections; `None` until one is needed. A lock is held while its connection is opened.
    connections: Vec<Mutex<Option<AsyncConnection>>>,
    next: AtomicUsize,
}

impl AsyncClient {
    /// A client of this server. Connections are opened when they are needed.
    pub fn new(target: Target, options: &AsyncClientOptions) -> AsyncClient {
        // A pool without connections could execute nothing.
        let connections = 0..options.connections.max(1);
        AsyncClient {
            target,
            connections: connections.map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// The next connection in turn.
    async fn connection(&self) -> Result<AsyncConnection> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len().max(1);
        let place = self.connections.get(turn);
        let place = place.ok_or(Error::Protocol("a pool without connections"))?;
        let mut place = place.lock().await;
        if let Some(connection) = place.as_ref().filter(|known| !known.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = AsyncConnection::connect(&self.target).await?;
        *place = Some(connection.clone());
        Ok(connection)
    }

    /// Calls a function with a connection, and again with another one if the first request has had no
    /// effect because its connection broke.
    async fn retried<T>(&self, call: impl AsyncFn(AsyncConnection) -> Result<T>) -> Result<T> {
        match call(self.connection().await?).await {
            Err(error) if error.is_without_effect() => call(self.connection().await?).await,
            done => done,
        }
    }

    /// Looks up a table.
    ///
    /// # Errors
    /// See [`AsyncConnection::table`].
    pub async fn table(&self, database: &str, table: &str) -> Result<Table> {
        self.retried(async |connection| connection.table(database, table).await)
            .await
    }

    /// Executes a batch.
    ///
    /// # Errors
    /// See [`AsyncConnection::run`].
    pub async fn run(&self, batch: &Batch) -> Result<Reply> {
        self.retried(async |connection| connection.run(batch.clone()).await)
            .await
    }

    /// The row with a key; see [`AsyncConnection::get`].
    ///
    /// # Errors
    /// The read failed.
    pub async fn get(&self, read: &Operation, key: &[Value]) -> Result<Option<Vec<Value>>> {
        self.retried(async |connection| connection.get(read, key).await)
            .await
    }

    /// Executes an operation that writes one row; see [`AsyncConnection::put`].
    ///
    /// # Errors
    /// The write failed, or its outcome is unknown.
    pub async fn put(&self, write: &Operation, values: &[Value]) -> Result<Option<(u64, u64)>> {
        self.retried(async |connection| connection.put(write, values).await)
            .await
    }

    /// Requests a page of a scan; see [`crate::Connection::scan`].
    ///
    /// # Errors
    /// The scan failed.
    pub async fn scan(&self, scan: &ScanRequest, continuation: &[u8]) -> Result<ScanPage> {
        self.retried(async |connection| connection.scan(scan, continuation).await)
            .await
    }
}
