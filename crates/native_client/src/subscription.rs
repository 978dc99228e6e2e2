//! Subscriptions that return transactions.
//!
//! A subscription requests changes only when its caller does, so that the server reads at the caller's pace and
//! buffers nothing. It connects again when its connection breaks, and continues after the last transaction
//! that it has received: each transaction comes once, whole and in commit order. A caller that keeps
//! [`ChangedTransaction::position`] with what it makes of the changes continues there after its own restart.

use crate::asynchronous::AsyncConnection;
use crate::changes::{Change, ChangedRow, ChangedTransaction, ChangesPage, SubscribeRequest};
use crate::connection::{Connection, Target};
use crate::error::{Error, Result};
use porpoise_types::ValueRef;
use porpoise_wire::native::Reader;
use porpoise_wire::native::changes::{ChangedColumn, Record};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of one request: an answer shows that the server is there.
const REQUEST_WAIT: Duration = Duration::from_secs(10);

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
    /// The position after the last transaction that the caller was given; those of `complete` come after it.
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

/// The request that continues a subscription: everything received is behind its position.
fn continued(request: &SubscribeRequest, collector: &Collector) -> SubscribeRequest {
    let mut request = request.clone();
    if let Some(position) = &collector.position {
        request.position.clone_from(position);
    }
    request
}

/// Time that a request may wait.
fn request_wait(until: Instant) -> Duration {
    until
        .saturating_duration_since(Instant::now())
        .min(REQUEST_WAIT)
}

/// Whether a subscription may continue over another connection.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Broken(_) | Error::Connect(_)) || error.is_without_effect()
}

/// A subscription over a connection of its own, which is opened again when it breaks.
#[derive(Debug)]
pub struct Subscription {
    target: Target,
    request: SubscribeRequest,
    connection: Option<Connection>,
    collector: Collector,
}

impl Subscription {
    /// Connects and subscribes.
    ///
    /// # Errors
    /// The connection; 1142: no privilege; 1381: the server keeps no binary log; 1236: the log lacks transactions
    /// after the position.
    pub fn open(target: &Target, request: SubscribeRequest) -> Result<Subscription> {
        let mut subscription = Subscription {
            target: target.clone(),
            request,
            connection: None,
            collector: Collector::default(),
        };
        subscription.connect()?;
        Ok(subscription)
    }

    fn connect(&mut self) -> Result<()> {
        let mut connection = Connection::connect(&self.target)?;
        // Its definition may have changed: the ranges then apply to the new one.
        let table = &self.request.table;
        self.request.table = connection.table(&table.database, &table.name)?;
        self.collector.restart();
        let page = connection.subscribe(&continued(&self.request, &self.collector))?;
        self.collector.add(&page)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// The position after the last transaction that [`Subscription::next`] has returned. It also passes transactions that
    /// change no subscribed row.
    pub fn position(&self) -> &str {
        self.collector.returned.as_deref().unwrap_or_default()
    }

    /// The next transaction, if there is one within `wait`. A broken connection is opened again within that time.
    ///
    /// # Errors
    /// The connection could not be opened again: the next call tries it again. Any other error ends the subscription:
    /// 1142 after REVOKE, 1236 if the log has lost the position.
    pub fn next(&mut self, wait: Duration) -> Result<Option<ChangedTransaction>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(transaction) = self.collector.take() {
                return Ok(Some(transaction));
            }
            // The answer comes before the connection counts as broken.
            let limit = self
                .target
                .read_timeout
                .map_or(REQUEST_WAIT, |time| time / 2);
            let done = match &mut self.connection {
                None => self.connect(),
                Some(connection) => {
                    let page = connection.next_changes(request_wait(until).min(limit));
                    page.and_then(|page| self.collector.add(&page))
                }
            };
            let is_late = Instant::now() >= until;
            match done {
                Err(error) if is_gone(&error) => {
                    self.connection = None;
                    if is_late {
                        return Err(error);
                    }
                    std::thread::sleep(PAUSE.min(request_wait(until)));
                }
                Err(error) => return Err(error),
                Ok(()) if is_late && self.collector.complete.is_empty() => return Ok(None),
                Ok(()) => {}
            }
        }
    }
}

/// As [`Subscription`], for tasks of a tokio runtime.
#[derive(Debug)]
pub struct AsyncSubscription {
    target: Target,
    request: SubscribeRequest,
    connection: Option<AsyncConnection>,
    collector: Collector,
}

impl AsyncSubscription {
    /// Connects and subscribes.
    ///
    /// # Errors
    /// As [`Subscription::open`].
    pub async fn open(target: &Target, request: SubscribeRequest) -> Result<AsyncSubscription> {
        let mut subscription = AsyncSubscription {
            target: target.clone(),
            request,
            connection: None,
            collector: Collector::default(),
        };
        subscription.connect().await?;
        Ok(subscription)
    }

    async fn connect(&mut self) -> Result<()> {
        let connection = AsyncConnection::connect(&self.target).await?;
        let table = &self.request.table;
        self.request.table = connection.table(&table.database, &table.name).await?;
        self.collector.restart();
        let request = continued(&self.request, &self.collector);
        let page = connection.subscribe(&request).await?;
        self.collector.add(&page)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// The position after the transactions that were returned; see [`Subscription::position`].
    pub fn position(&self) -> &str {
        self.collector.returned.as_deref().unwrap_or_default()
    }

    /// The next transaction, if there is one within `wait`; see [`Subscription::next`]. If the future is dropped, the
    /// subscription connects again at the next call, and nothing is lost.
    ///
    /// # Errors
    /// As [`Subscription::next`].
    pub async fn next(&mut self, wait: Duration) -> Result<Option<ChangedTransaction>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(transaction) = self.collector.take() {
                return Ok(Some(transaction));
            }
            // Taken while it is used: an answer that is not received would be missing.
            let done = match self.connection.take() {
                None => self.connect().await,
                Some(connection) => match connection.next_changes(request_wait(until)).await {
                    Ok(page) => {
                        self.connection = Some(connection);
                        self.collector.add(&page)
                    }
                    Err(error) => Err(error),
                },
            };
            let is_late = Instant::now() >= until;
            match done {
                Err(error) if is_gone(&error) => {
                    self.connection = None;
                    if is_late {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE.min(request_wait(until))).await;
                }
                Err(error) => return Err(error),
                Ok(()) if is_late && self.collector.complete.is_empty() => return Ok(None),
                Ok(()) => {}
            }
        }
    }
}
