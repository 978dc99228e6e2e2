//! A pool for many threads, which combines their single operations into batches.
//!
//! A thread adds its operation to a queue. If a connection is free, the thread takes it and executes
//! the queued operations, one batch for each shape; otherwise it waits until another thread has
//! executed its operation (flat combining). While a batch is executed, operations of other threads
//! queue for the next one, so that batches grow with the load.
//!
//! Operations in a combined batch succeed or fail by themselves, but share one transaction and its
//! commit: a lock that one of them waits for delays the others.
//!
//! Rejected: a thread of its own for each connection (two context switches for every operation).

use crate::batch::{Batch, COMBINED_BYTES};
use crate::combined::{Combined, copy_of};
use crate::connection::{Connection, Target};
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::reply::Reply;
use crate::table::Table;
use porpoise_types::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Settings of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Maximum number of connections; 0 means 1.
    pub connections: usize,
    /// Maximum number of operations of a combined batch; 0 means 1.
    pub max_batch: usize,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connections: 4,
            max_batch: 256,
        }
    }
}

/// An operation in the queue.
struct Queued {
    operation: Operation,
    values: Vec<Value>,
    completion: Arc<Completion>,
}

/// The result of a queued operation, once it is known.
#[derive(Default)]
struct Completion(Mutex<Option<Result<Combined>>>);

#[derive(Default)]
struct Shared {
    queue: VecDeque<Queued>,
    idle: Vec<Connection>,
    /// Number of connections that are open or being opened.
    open: usize,
}

/// A pool of connections, shared by threads.
pub struct Client {
    target: Target,
    options: ClientOptions,
    shared: Mutex<Shared>,
    /// Notified when a batch was executed or a connection became free.
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client of this server. Connections are opened when they are needed.
    pub fn new(target: Target, options: ClientOptions) -> Client {
        // Without a connection or an operation in a batch nothing would ever be executed.
        let options = ClientOptions {
            connections: options.connections.max(1),
            max_batch: options.max_batch.max(1),
        };
        Client {
            target,
            options,
            shared: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Looks up a table.
    ///
    /// # Errors
    /// See [`Connection::table`].
    pub fn table(&self, database: &str, table: &str) -> Result<Table> {
        self.with_connection(|connection| connection.table(database, table))
    }

    /// Executes a batch that the caller has made. A batch that only reads is sent again over another
    /// connection if the first one was broken.
    ///
    /// # Errors
    /// See [`Connection::run`].
    pub fn run(&self, batch: &Batch) -> Result<Reply> {
        let done = self.with_connection(|connection| connection.run(batch));
        match done {
            Err(error) if batch.is_read() && error.is_without_effect() => {
                self.with_connection(|connection| connection.run(batch))
            }
            done => done,
        }
    }

    /// Calls a function with a connection that no other thread uses, for transactions and scans.
    /// The connection is closed afterwards if it is broken or has an open transaction.
    ///
    /// # Errors
    /// The function's error, or the connection cannot be opened.
    pub fn with_connection<T>(&self, call: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut connection = self.take()?;
        let done = call(&mut connection);
        let is_usable = match &done {
            Ok(_) | Err(Error::Usage(_)) => true,
            Err(Error::Server(error)) => !matches!(error.code, 1053 | 1180 | 1835 | 3169),
            Err(_) => false,
        };
        let is_usable = is_usable && connection.in_flight() == 0 && !connection.has_transaction();
        self.give_back(is_usable.then_some(connection));
        done
    }

    /// The row with a key; `None` if there is none.
    ///
    /// # Errors
    /// The read failed.
    pub fn get(&self, read: &Operation, key: &[Value]) -> Result<Option<Vec<Value>>> {
        Ok(self.execute(read, key)?.into_row())
    }

    /// Executes an INSERT, UPDATE, UPSERT or DELETE of one row. Returns the row's version and its
    /// generated id, as far as the operation requests them; `None` if the row does not exist or does
    /// not meet the conditions.
    ///
    /// # Errors
    /// The write failed, or its outcome is unknown.
    pub fn put(&self, write: &Operation, values: &[Value]) -> Result<Option<(u64, u64)>> {
        Ok(self.execute(write, values)?.written())
    }

    fn execute(&self, operation: &Operation, values: &[Value]) -> Result<Combined> {
        let completion = Arc::<Completion>::default();
        let mut shared = lock(&self.shared);
        shared.queue.push_back(Queued {
            operation: operation.clone(),
            values: values.to_vec(),
            completion: completion.clone(),
        });
        loop {
            if let Some(result) = lock(&completion.0).take() {
                return result;
            }
            let can_open = shared.open < self.options.connections;
            if shared.queue.is_empty() || (shared.idle.is_empty() && !can_open) {
                shared = self
                    .changed
                    .wait(shared)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let count = shared.queue.len().min(self.options.max_batch);
            let queued: Vec<Queued> = shared.queue.drain(..count).collect();
            drop(shared);
            self.run_combined(&queued);
            shared = lock(&self.shared);
            self.changed.notify_all();
        }
    }

    /// Executes queued operations and stores their results. Each operation shape is a batch of its
    /// own, so that reads and writes are separate and a batch of reads can be retried.
    fn run_combined(&self, queued: &[Queued]) {
        let (reads, writes): (Vec<&Queued>, Vec<&Queued>) =
            queued.iter().partition(|queued| queued.operation.is_read());
        for mut group in [reads, writes] {
            // Operations of one shape are adjacent, so that they are one batch.
            group.sort_by_key(|queued| std::ptr::from_ref(queued.operation.definition()).addr());
            for group in group.chunk_by(|a, b| a.operation.is_same(&b.operation)) {
                self.run_group(group);
            }
        }
    }

    /// Executes operations of one shape: in one batch, unless their values are large.
    fn run_group(&self, group: &[&Queued]) {
        let mut batch = Batch::new();
        let mut sent = Vec::new();
        for queued in group {
            let values: Vec<_> = queued.values.iter().map(Value::as_ref).collect();
            match batch.push(&queued.operation, &values) {
                Ok(()) => sent.push(*queued),
                Err(error) => *lock(&queued.completion.0) = Some(Err(error)),
            }
            if batch.bytes() >= COMBINED_BYTES {
                self.run_batch(&batch, &sent);
                batch.clear();
                sent.clear();
            }
        }
        if !sent.is_empty() {
            self.run_batch(&batch, &sent);
        }
    }

    fn run_batch(&self, batch: &Batch, sent: &[&Queued]) {
        match self.run(batch) {
            Ok(reply) => {
                for (queued, outcome) in sent.iter().zip(reply.results()) {
                    *lock(&queued.completion.0) = Some(outcome.and_then(Combined::of));
                }
            }
            Err(error) => {
                for queued in sent {
                    *lock(&queued.completion.0) = Some(Err(copy_of(&error)));
                }
            }
        }
    }

    fn take(&self) -> Result<Connection> {
        let mut shared = lock(&self.shared);
        loop {
            if let Some(connection) = shared.idle.pop() {
                return Ok(connection);
            }
            if shared.open < self.options.connections {
                break;
            }
            shared = self
                .changed
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
        shared.open += 1;
        drop(shared);
        Connection::connect(&self.target).inspect_err(|_| self.give_back(None))
    }

    /// Returns a connection to the pool; `None` if it was closed or could not be opened.
    fn give_back(&self, connection: Option<Connection>) {
        let mut shared = lock(&self.shared);
        match connection {
            Some(connection) => shared.idle.push(connection),
            None => shared.open -= 1,
        }
        drop(shared);
        self.changed.notify_all();
    }
}
