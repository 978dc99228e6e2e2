//! The asynchronous interface: one connection, shared by many tasks.
//!
//! Requests of all tasks go through a channel to a task that owns the socket. It writes everything that
//! is queued at once, reads answers, and passes each to its task, so that the requests of concurrent
//! tasks are pipelined. If a task is dropped while it waits, its request is executed all the same.
//!
//! Single operations ([`AsyncConnection::get`], [`AsyncConnection::put`]) are combined: while
//! [`MAX_COMBINED`] combined batches are in flight, operations queue, and those of one shape become one
//! batch. So an idle connection sends an operation at once, and batches grow with the load. Each operation of a batch
//! succeeds or fails by itself, but all share one transaction and its commit.

use crate::batch::{Batch, COMBINED_BYTES};
use crate::changes::{ChangesPage, SubscribeRequest};
use crate::combined::{Combined, copy_of};
use crate::connection::Target;
use crate::core::{Answer, Core, LoginProgress};
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::reply::Reply;
use crate::scan::{ScanPage, ScanRequest};
use crate::table::Table;
use porpoise_client::{Address, TlsMode, server_name};
use porpoise_types::Value;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

/// Maximum number of requests that wait for the task that owns the socket.
const QUEUE: usize = 1024;

/// Maximum number of combined batches in flight: one that the server executes, and the next one.
const MAX_COMBINED: usize = 2;

/// Maximum number of operations of a combined batch.
const MAX_OPERATIONS: usize = 256;

/// A request of a task, with the task that waits for its answer.
enum Request {
    Batch(Batch, Waiter<Answer>),
    Scan(Vec<u8>, ScanPage, Waiter<Answer>),
    Subscribe(Vec<u8>, Waiter<Answer>),
    NextChanges(Duration, Waiter<Answer>),
    Table(String, String, Waiter<Answer>),
    Single(Operation, Vec<Value>, Waiter<Combined>),
}

type Waiter<T> = oneshot::Sender<Result<T>>;

/// A request in flight.
struct InFlight {
    is_read: bool,
    waiting: Waiting,
}

/// The tasks that wait for an answer.
enum Waiting {
    /// One, for the whole answer.
    Task(Waiter<Answer>),
    /// One for each operation of a combined batch.
    Combined(Vec<Waiter<Combined>>),
}

/// Operations of one shape that will be one batch.
struct Group {
    operation: Operation,
    batch: Batch,
    waiters: Vec<Waiter<Combined>>,
}

/// A logged-in connection for tasks of a tokio runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AsyncConnection {
    requests: mpsc::Sender<Request>,
    id: u64,
}

impl AsyncConnection {
    /// Connects and logs in, within [`Target::connect_timeout`].
    ///
    /// # Errors
    /// Connecting, TLS or the login failed.
    pub async fn connect(target: &Target) -> Result<AsyncConnection> {
        let late = |_| Error::Broken(io::ErrorKind::TimedOut.into());
        let connected = timeout(target.connect_timeout, AsyncConnection::open(target));
        connected.await.map_err(late)?
    }

    async fn open(target: &Target) -> Result<AsyncConnection> {
        match &target.address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(Error::Broken)?;
                stream.set_nodelay(true).map_err(Error::Broken)?;
                AsyncConnection::secure(stream, target, false).await
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(Error::Broken)?;
                AsyncConnection::secure(stream, target, true).await
            }
        }
    }

    /// Begins TLS, if the target requires it, and logs in.
    async fn secure(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        target: &Target,
        is_unix: bool,
    ) -> Result<AsyncConnection> {
        if matches!(target.tls.mode, TlsMode::Disabled | TlsMode::Preferred) {
            return AsyncConnection::start(stream, target, is_unix).await;
        }
        let connector = TlsConnector::from(target.tls.config()?);
        let name = server_name(&target.address)?;
        let stream = connector.connect(name, stream).await.map_err(|error| {
            Error::Connect(porpoise_client::Error::Tls(format!(
                "handshake failed: {error}"
            )))
        })?;
        AsyncConnection::start(stream, target, true).await
    }

    async fn start(
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        target: &Target,
        is_secure: bool,
    ) -> Result<AsyncConnection> {
        let mut core = Core::new();
        loop {
            let sent = stream.write_all(&core.output).await;
            core.output.clear();
            sent.map_err(Error::Broken)?;
            stream.flush().await.map_err(Error::Broken)?;
            let received = stream.read(core.room()).await.map_err(Error::Broken)?;
            if received == 0 {
                return Err(Error::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
            core.received(received);
            let (user, password) = (&target.user, &target.password);
            let step = core.log_in(user, password, &target.program, is_secure)?;
            if let LoginProgress::Done = step {
                break;
            }
        }
        let (requests, queue) = mpsc::channel(QUEUE);
        let id = core.connection();
        tokio::spawn(drive(stream, core, queue, target.read_timeout));
        Ok(AsyncConnection { requests, id })
    }

    /// Id of the connection, for KILL.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the connection has ended: it broke, or the server closed it.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a request. It has had no effect if the error is [`Error::Broken`].
    async fn send_request<T>(&self, request: impl FnOnce(Waiter<T>) -> Request) -> Result<T> {
        let (waiter, answer) = oneshot::channel();
        let closed = || Error::Broken(io::ErrorKind::NotConnected.into());
        let sent = self.requests.send(request(waiter)).await;
        sent.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Looks up a table.
    ///
    /// # Errors
    /// It does not exist, or the account has no privilege on it.
    pub async fn table(&self, database: &str, table: &str) -> Result<Table> {
        let (database, table) = (database.to_owned(), table.to_owned());
        let request = |waiter| Request::Table(database, table, waiter);
        match self.send_request(request).await? {
            Answer::Table(table) => Ok(table),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Executes a batch.
    ///
    /// # Errors
    /// The whole batch failed. Errors of single operations are in the reply.
    pub async fn run(&self, batch: Batch) -> Result<Reply> {
        match self
            .send_request(|waiter| Request::Batch(batch, waiter))
            .await?
        {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// The row with a key; `None` if there is none. READs of concurrent tasks are combined.
    ///
    /// # Errors
    /// The read failed.
    pub async fn get(&self, read: &Operation, key: &[Value]) -> Result<Option<Vec<Value>>> {
        Ok(self.single(read, key).await?.into_row())
    }

    /// Executes an INSERT, UPDATE, UPSERT or DELETE of one row, combined with those of concurrent tasks.
    /// Returns the row's version and its generated id, as far as the operation requests them; `None` if
    /// the row does not exist or does not meet the conditions.
    ///
    /// # Errors
    /// The write failed, or its outcome is unknown.
    pub async fn put(&self, write: &Operation, values: &[Value]) -> Result<Option<(u64, u64)>> {
        Ok(self.single(write, values).await?.written())
    }

    async fn single(&self, operation: &Operation, values: &[Value]) -> Result<Combined> {
        let (operation, values) = (operation.clone(), values.to_vec());
        self.send_request(|waiter| Request::Single(operation, values, waiter))
            .await
    }

    /// Begins a subscription; see [`crate::Connection::subscribe`]. A request for changes that waits delays the answers to the
    /// connection's other requests; therefore [`crate::AsyncSubscription`] has a connection of its own.
    ///
    /// # Errors
    /// As [`crate::Subscription::open`].
    pub async fn subscribe(&self, request: &SubscribeRequest) -> Result<ChangesPage> {
        let mut body = Vec::new();
        request.put(&mut body)?;
        self.changes(|waiter| Request::Subscribe(body, waiter))
            .await
    }

    /// The next changes of the connection's subscription; see [`crate::Connection::next_changes`].
    ///
    /// # Errors
    /// The connection broke; any other error ends the subscription.
    pub async fn next_changes(&self, wait: Duration) -> Result<ChangesPage> {
        self.changes(|waiter| Request::NextChanges(wait, waiter))
            .await
    }

    async fn changes(
        &self,
        request: impl FnOnce(Waiter<Answer>) -> Request,
    ) -> Result<ChangesPage> {
        match self.send_request(request).await? {
            Answer::Changes(page) => Ok(page),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Requests a page of a scan; see [`crate::Connection::scan`].
    ///
    /// # Errors
    /// The scan failed.
    pub async fn scan(&self, scan: &ScanRequest, continuation: &[u8]) -> Result<ScanPage> {
        let mut body = Vec::new();
        let page = scan.put(continuation, &mut body)?;
        let request = |waiter| Request::Scan(body, page, waiter);
        match self.send_request(request).await? {
            Answer::Page(page) => Ok(page),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }
}

/// Requests of tasks: in flight, or waiting to be combined.
#[derive(Default)]
struct Requests {
    /// In the order of the core's requests in flight.
    in_flight: VecDeque<InFlight>,
    /// Number of combined batches in flight.
    combined: usize,
    /// Operations that are not sent yet.
    groups: VecDeque<Group>,
    /// Number of operations in `groups`.
    queued: usize,
}

impl Requests {
    /// Adds a request to the output, or an operation to its group. A request that cannot be encoded is
    /// answered at once.
    fn add(&mut self, core: &mut Core, request: Request) {
        let (added, is_read, waiter) = match request {
            Request::Batch(batch, waiter) => (core.batch(&batch), batch.is_read(), waiter),
            Request::Scan(body, page, waiter) => (core.scan(&body, page), true, waiter),
            Request::Subscribe(body, waiter) => (core.subscribe(&body), true, waiter),
            Request::NextChanges(wait, waiter) => (core.next_changes(wait), true, waiter),
            Request::Table(database, table, waiter) => {
                (core.open_table(&database, &table), true, waiter)
            }
            Request::Single(operation, values, waiter) => {
                self.add_to_group(&operation, &values, waiter);
                return;
            }
        };
        match added {
            Ok(()) => self.in_flight.push_back(InFlight {
                is_read,
                waiting: Waiting::Task(waiter),
            }),
            // The task may have been dropped.
            Err(error) => drop(waiter.send(Err(error))),
        }
    }

    fn add_to_group(&mut self, operation: &Operation, values: &[Value], waiter: Waiter<Combined>) {
        let is_open = |group: &&mut Group| {
            group.operation.is_same(operation)
                && group.waiters.len() < MAX_OPERATIONS
                && group.batch.bytes() < COMBINED_BYTES
        };
        let values: Vec<_> = values.iter().map(Value::as_ref).collect();
        let group = match self.groups.iter_mut().find(is_open) {
            Some(group) => group,
            None => self.groups.push_back_mut(Group {
                operation: operation.clone(),
                batch: Batch::new(),
                waiters: Vec::new(),
            }),
        };
        match group.batch.push(operation, &values) {
            Ok(()) => {
                group.waiters.push(waiter);
                self.queued += 1;
            }
            Err(error) => drop(waiter.send(Err(error))),
        }
    }

    /// Adds groups to the output, as many as may be in flight.
    fn send_groups(&mut self, core: &mut Core) {
        while self.combined < MAX_COMBINED
            && !core.is_full()
            && let Some(group) = self.groups.pop_front()
        {
            self.queued -= group.waiters.len();
            if group.waiters.is_empty() {
                continue;
            }
            match core.batch(&group.batch) {
                Ok(()) => {
                    self.combined += 1;
                    self.in_flight.push_back(InFlight {
                        is_read: group.operation.is_read(),
                        waiting: Waiting::Combined(group.waiters),
                    });
                }
                Err(error) => fail(group.waiters, &error),
            }
        }
    }

    /// Passes an answer to the tasks that wait for it.
    fn answer(&mut self, answer: Result<Answer>) {
        let Some(request) = self.in_flight.pop_front() else {
            return;
        };
        match request.waiting {
            // A task may have been dropped.
            Waiting::Task(waiter) => drop(waiter.send(answer)),
            Waiting::Combined(waiters) => {
                self.combined -= 1;
                match answer {
                    Ok(Answer::Reply(reply)) => {
                        for (waiter, outcome) in waiters.into_iter().zip(reply.results()) {
                            drop(waiter.send(outcome.and_then(Combined::of)));
                        }
                    }
                    Ok(_) => fail(waiters, &Error::Protocol("an answer of another kind")),
                    Err(error) => fail(waiters, &error),
                }
            }
        }
    }

    /// Fails the requests in flight, because the connection broke. Requests that were not sent are
    /// dropped, and so fail as such.
    fn fail_all(self, why: &Error) {
        for request in self.in_flight {
            let error = io::Error::new(io::ErrorKind::NotConnected, why.to_string());
            let error = if request.is_read {
                Error::Broken(error)
            } else {
                Error::UnknownOutcome(error)
            };
            match request.waiting {
                Waiting::Task(waiter) => drop(waiter.send(Err(error))),
                Waiting::Combined(waiters) => fail(waiters, &error),
            }
        }
    }
}

fn fail(waiters: Vec<Waiter<Combined>>, error: &Error) {
    for waiter in waiters {
        // The task may have been dropped.
        drop(waiter.send(Err(copy_of(error))));
    }
}

/// Drives the socket until all handles are dropped and all answers were received, or the connection
/// breaks.
async fn drive(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut core: Core,
    mut queue: mpsc::Receiver<Request>,
    read_timeout: Option<Duration>,
) {
    let mut requests = Requests::default();
    let silence = Silence::new(read_timeout);
    let done = exchange(stream, &mut core, &mut queue, &mut requests, silence).await;
    // New requests are refused before those in flight fail.
    queue.close();
    if let Err(error) = done {
        requests.fail_all(&error);
    }
}

/// Writes some of the bytes, or flushes what was written if there are none. Returns the number of bytes
/// written. Nothing is lost if the future is dropped.
async fn write_or_flush(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    match writer.write(bytes).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        written => Ok(written),
    }
}

/// Time without a byte of an answer that is awaited. The timer runs on when something was received, and is set again when it
/// ends, so that answers cost a look at the clock only.
struct Silence {
    limit: Option<Duration>,
    /// When the wait began, or the last bytes were received.
    since: Instant,
    is_waiting: bool,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new(limit: Option<Duration>) -> Silence {
        let since = Instant::now();
        Silence {
            limit,
            since,
            is_waiting: false,
            timer: Box::pin(sleep_until(since)),
        }
    }

    /// Records whether an answer is awaited.
    fn set_waiting(&mut self, is_waiting: bool) {
        if is_waiting && !self.is_waiting {
            self.heard();
        }
        self.is_waiting = is_waiting;
    }

    /// Records that something was received.
    fn heard(&mut self) {
        if self.limit.is_some() {
            self.since = Instant::now();
        }
    }

    /// Ends when an answer is late.
    async fn end(&mut self) {
        let Some(limit) = self.limit else {
            return std::future::pending().await;
        };
        let due = self.since + limit;
        loop {
            self.timer.as_mut().await;
            if self.timer.deadline() >= due {
                return;
            }
            self.timer.as_mut().reset(due);
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    core: &mut Core,
    queue: &mut mpsc::Receiver<Request>,
    requests: &mut Requests,
    mut silence: Silence,
) -> Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    // The bytes that are being sent, and the number of those that were. Meanwhile requests are added to
    // the core's output.
    let (mut sending, mut sent) = (Vec::new(), 0);
    // Whether TLS may hold back records of what was written.
    let mut is_unflushed = false;
    let (mut is_writable, mut is_open) = (true, true);
    while is_open || core.in_flight() > 0 || !requests.groups.is_empty() {
        while let Some(answer) = core.next_answer()? {
            if core.has_ended() {
                // The connection is closed before a task gets the error, so that the task's next request uses another connection.
                queue.close();
                requests.answer(answer);
                return Err(Error::Broken(io::ErrorKind::ConnectionAborted.into()));
            }
            requests.answer(answer);
        }
        requests.send_groups(core);
        if sent == sending.len() {
            sending.clear();
            std::mem::swap(&mut sending, &mut core.output);
            sent = 0;
        }
        let unsent = sending.get(sent..).unwrap_or_default();
        let accepts = is_open && !core.is_full() && requests.queued < QUEUE;
        let waits = core.in_flight() > 0;
        silence.set_waiting(waits);
        tokio::select! {
            request = queue.recv(), if accepts => match request {
                Some(request) => {
                    requests.add(core, request);
                    // Other queued requests are sent together with it.
                    while !core.is_full()
                        && requests.queued < QUEUE
                        && let Ok(request) = queue.try_recv()
                    {
                        requests.add(core, request);
                    }
                }
                None => is_open = false,
            },
            written = write_or_flush(&mut writer, unsent), if is_writable && (!unsent.is_empty() || is_unflushed) => {
                is_unflushed = !unsent.is_empty();
                match written {
                    Ok(written) => sent += written,
                    // The server may have said why it ended the connection; then nothing else is read.
                    Err(_) if waits => (is_writable, is_open) = (false, false),
                    Err(error) => return Err(Error::Broken(error)),
                }
            }
            received = reader.read(core.room()), if waits => {
                let received = received.map_err(Error::Broken)?;
                if received == 0 {
                    return Err(Error::Broken(io::ErrorKind::UnexpectedEof.into()));
                }
                core.received(received);
                silence.heard();
            }
            () = silence.end(), if waits => return Err(Error::Broken(io::ErrorKind::TimedOut.into())),
        }
    }
    Ok(())
}
