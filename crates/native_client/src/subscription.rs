//! Subscriptions that return transactions.
//!
//! A subscription requests changes only when its caller does, so that the server reads at the caller's pace and
//! buffers nothing. It connects again when its connection breaks, and continues after the last transaction
//! that it has received: each transaction comes once, whole and in commit order. A caller that stores
//! [`ChangedTransaction::position`] together with the results of the changes can continue there after its own restart.
//!
//! A server that has vanished without closing the connection is noticed by a missing answer: the server waits for changes for at
//! most half the time that the client waits for its answer.

use crate::asynchronous::AsyncConnection;
use crate::changes::{Change, ChangedRow, ChangedTransaction, ChangesPage, SubscribeRequest};
use crate::combined::copy_of;
use crate::connection::{Connection, SignalHook, Target};
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_types::ValueRef;
use porpoise_wire::native::Reader;
use porpoise_wire::native::changes::{ChangedColumn, Record};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for an answer, unless the target has a [`Target::read_timeout`].
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Pause before a connection is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// Collects transactions from pages.
#[derive(Debug, Default)]
struct Collector {
    columns: Arc<[ChangedColumn]>,
    /// The transaction that has not ended.
    open: Vec<Change>,
    complete: VecDeque<ChangedTransaction>,
    /// The position after the last complete transaction.
    position: Option<String>,
    /// The position after the last transaction that was returned to the caller; those of `complete` come after it.
    returned: Option<String>,
}

impl Collector {
    fn add(&mut self, page: &ChangesPage) -> Result<()> {
        let mut reader = Reader::new(&page.0);
        while !reader.is_empty() {
            let columns = self.columns.clone();
            let record = Record::read(&mut reader, &columns);
            let row = |values: Vec<Option<ValueRef<'_>>>| ChangedRow::new(&columns, &values);
            match record.ok_or(Error::Protocol("changes that cannot be read"))? {
                Record::Table(columns) => self.columns = columns.into(),
                Record::Insert(after) => self.open.push(Change::Insert(row(after))),
                Record::Update(before, after) => self.open.push(Change::Update {
                    before: row(before),
                    after: row(after),
                }),
                Record::Delete(before) => self.open.push(Change::Delete(row(before))),
                Record::Definition(kind) => self.open.push(Change::Definition(kind.to_owned())),
                Record::Commit {
                    micros,
                    gtid,
                    position,
                } => {
                    let position = position.to_owned();
                    self.position = Some(position.clone());
                    self.complete.push_back(ChangedTransaction {
                        changes: std::mem::take(&mut self.open),
                        gtid: gtid.to_owned(),
                        micros,
                        position,
                    });
                }
                Record::Position(position) => self.position = Some(position.to_owned()),
            }
            if self.complete.is_empty() {
                self.returned.clone_from(&self.position);
            }
        }
        Ok(())
    }

    /// The oldest transaction that is complete.
    fn take(&mut self) -> Option<ChangedTransaction> {
        let transaction = self.complete.pop_front()?;
        self.returned = if self.complete.is_empty() {
            self.position.clone()
        } else {
            Some(transaction.position.clone())
        };
        Some(transaction)
    }

    /// Discards the received part of an open transaction: the server sends it again as a whole.
    fn restart(&mut self) {
        self.open.clear();
    }
}

/// State of a subscription without its connection.
#[derive(Debug)]
struct State {
    target: Target,
    request: SubscribeRequest,
    collector: Collector,
    /// The error that has ended the subscription.
    ended: Option<Error>,
}

impl State {
    fn new(target: &Target, request: SubscribeRequest) -> State {
        let limit = target.read_timeout.unwrap_or(ANSWER_LIMIT);
        State {
            target: Target {
                read_timeout: Some(limit),
                ..target.clone()
            },
            request,
            collector: Collector::default(),
            ended: None,
        }
    }

    /// Prepares for a new connection, on which the table has this definition: it may have changed, and the ranges then apply
    /// to the new one. Returns the request that continues the subscription after the last complete transaction.
    fn continued(&mut self, table: Table) -> SubscribeRequest {
        self.request.table = table;
        self.collector.restart();
        let mut request = self.request.clone();
        if let Some(position) = &self.collector.position {
            request.position.clone_from(position);
        }
        request
    }

    /// The next transaction, if it was received.
    ///
    /// # Errors
    /// The subscription has ended.
    fn take(&mut self) -> Result<Option<ChangedTransaction>> {
        if let Some(transaction) = self.collector.take() {
            return Ok(Some(transaction));
        }
        self.ended.as_ref().map_or(Ok(None), |e| Err(copy_of(e)))
    }

    /// Time for which the server may wait for changes: an answer without changes shows that it is alive.
    fn request_wait(&self, until: Instant) -> Duration {
        let limit = self.target.read_timeout.unwrap_or(ANSWER_LIMIT);
        left(until).min(limit / 2)
    }

    /// The pause before the subscription connects again after an error.
    ///
    /// # Errors
    /// The error, if there is no time left, or it ends the subscription.
    fn failed(&mut self, error: Error, until: Instant) -> Result<Duration> {
        if is_interruption(&error) {
            return Err(error);
        }
        if !is_temporary(&error) {
            self.ended = Some(copy_of(&error));
        } else if !left(until).is_zero() {
            return Ok(PAUSE.min(left(until)));
        }
        Err(error)
    }

    fn position(&self) -> &str {
        self.collector.returned.as_deref().unwrap_or_default()
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Whether a subscription continues over another connection: the connection broke, or the server shuts down or has too
/// many connections. Not after KILL (1317, 3169).
fn is_temporary(error: &Error) -> bool {
    let is_broken = matches!(error, Error::Broken(_) | Error::Connect(_));
    is_broken || matches!(error.code(), Some(1040 | 1041 | 1053))
}

/// Whether a [`SignalHook`] has ended the wait.
fn is_interruption(error: &Error) -> bool {
    matches!(error, Error::Broken(error) if error.kind() == io::ErrorKind::Interrupted)
}

/// A subscription over a connection of its own, which is opened again when it breaks.
#[derive(Debug)]
pub struct Subscription {
    state: State,
    connection: Option<Connection>,
    on_signal: Option<SignalHook>,
}

impl Subscription {
    /// Connects and subscribes.
    ///
    /// # Errors
    /// The connection; 1142: no privilege; 1381: the server keeps no binary log; 1236: the log lacks transactions
    /// after the position.
    pub fn open(target: &Target, request: SubscribeRequest) -> Result<Subscription> {
        Subscription::open_with(target, request, None)
    }

    /// As [`Subscription::open`], for its connections with [`Connection::set_on_signal`].
    ///
    /// # Errors
    /// As [`Subscription::open`].
    pub fn open_with(
        target: &Target,
        request: SubscribeRequest,
        on_signal: Option<SignalHook>,
    ) -> Result<Subscription> {
        let mut subscription = Subscription {
            state: State::new(target, request),
            connection: None,
            on_signal,
        };
        subscription.connect()?;
        Ok(subscription)
    }

    fn connect(&mut self) -> Result<()> {
        let mut connection = Connection::connect(&self.state.target)?;
        if let Some(hook) = &self.on_signal {
            connection.set_on_signal(hook.clone());
        }
        let table = &self.state.request.table;
        let table = connection.table(&table.database, &table.name)?;
        let page = connection.subscribe(&self.state.continued(table))?;
        self.state.collector.add(&page)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// The position after the last transaction that [`Subscription::next`] has returned. It also passes transactions that
    /// change no subscribed row.
    pub fn position(&self) -> &str {
        self.state.position()
    }

    /// Id of the connection, for KILL; 0 while there is none.
    pub fn id(&self) -> u64 {
        self.connection.as_ref().map_or(0, Connection::id)
    }

    /// The next transaction, if there is one within `wait`. A broken connection is opened again within that time.
    ///
    /// # Errors
    /// The connection could not be opened again: the next call tries it again. Any other error ends the subscription, and
    /// is that of every later call: 1142 after REVOKE, 1236 if the log has lost the position, 1317 or 3169 after KILL.
    pub fn next(&mut self, wait: Duration) -> Result<Option<ChangedTransaction>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(transaction) = self.state.take()? {
                return Ok(Some(transaction));
            }
            let done = match &mut self.connection {
                None => self.connect(),
                Some(connection) => {
                    let page = connection.next_changes(self.state.request_wait(until));
                    page.and_then(|page| self.state.collector.add(&page))
                }
            };
            match done {
                Ok(()) if left(until).is_zero() => return self.state.take(),
                Ok(()) => {}
                Err(error) => {
                    self.connection = None;
                    std::thread::sleep(self.state.failed(error, until)?);
                }
            }
        }
    }
}

/// As [`Subscription`], for tasks of a tokio runtime.
#[derive(Debug)]
pub struct AsyncSubscription {
    state: State,
    connection: Option<AsyncConnection>,
}

impl AsyncSubscription {
    /// Connects and subscribes.
    ///
    /// # Errors
    /// As [`Subscription::open`].
    pub async fn open(target: &Target, request: SubscribeRequest) -> Result<AsyncSubscription> {
        let mut subscription = AsyncSubscription {
            state: State::new(target, request),
            connection: None,
        };
        subscription.connect().await?;
        Ok(subscription)
    }

    async fn connect(&mut self) -> Result<()> {
        let connection = AsyncConnection::connect(&self.state.target).await?;
        let table = &self.state.request.table;
        let table = connection.table(&table.database, &table.name).await?;
        let page = connection.subscribe(&self.state.continued(table)).await?;
        self.state.collector.add(&page)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// The position after the transactions that were returned; see [`Subscription::position`].
    pub fn position(&self) -> &str {
        self.state.position()
    }

    /// Id of the connection, for KILL; 0 while there is none.
    pub fn id(&self) -> u64 {
        self.connection.as_ref().map_or(0, AsyncConnection::id)
    }

    /// The next transaction, if there is one within `wait`; see [`Subscription::next`]. If the future is dropped, the
    /// subscription connects again at the next call, and nothing is lost.
    ///
    /// # Errors
    /// As [`Subscription::next`].
    pub async fn next(&mut self, wait: Duration) -> Result<Option<ChangedTransaction>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(transaction) = self.state.take()? {
                return Ok(Some(transaction));
            }
            let wait = self.state.request_wait(until);
            // Taken for the time of the request: if this future is dropped, the connection, whose next answer would be
            // that of the dropped request, goes with it.
            let done = match self.connection.take() {
                None => self.connect().await,
                Some(connection) => match connection.next_changes(wait).await {
                    Ok(page) => {
                        self.connection = Some(connection);
                        self.state.collector.add(&page)
                    }
                    Err(error) => Err(error),
                },
            };
            match done {
                Ok(()) if left(until).is_zero() => return self.state.take(),
                Ok(()) => {}
                Err(error) => {
                    self.connection = None;
                    tokio::time::sleep(self.state.failed(error, until)?).await;
                }
            }
        }
    }
}
