//! The asynchronous interface: one connection, shared by many tasks.
//!
//! Requests of all tasks go through a channel to a task that owns the socket. It writes everything that
//! is queued at once, reads answers, and passes each to its task, so that the requests of concurrent
//! tasks are pipelined. If a task is dropped while it waits, its request is executed all the same.

use crate::batch::Batch;
use crate::connection::Target;
use crate::core::{Answer, Core, LoginProgress};
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::scan::{ScanPage, ScanRequest};
use crate::table::Table;
use porpoise_client::{Address, TlsMode, server_name};
use std::collections::VecDeque;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum number of requests that wait for the task that owns the socket.
const QUEUE: usize = 1024;

/// A request of a task.
enum Request {
    Batch(Batch),
    Scan(Vec<u8>, ScanPage),
    Table(String, String),
}

type Waiter = oneshot::Sender<Result<Answer>>;

/// A logged-in connection for tasks of a tokio runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AsyncConnection {
    requests: mpsc::Sender<(Request, Waiter)>,
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
        tokio::spawn(drive(stream, core, queue));
        Ok(AsyncConnection { requests, id })
    }

    /// Id of the connection, for KILL.
    pub fn id(&self) -> u64 {
        self.id
    }

    async fn send_request(&self, request: Request) -> Result<Answer> {
        let (waiter, answer) = oneshot::channel();
        let closed = || Error::Broken(io::ErrorKind::NotConnected.into());
        let sent = self.requests.send((request, waiter)).await;
        sent.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Looks up a table.
    ///
    /// # Errors
    /// It does not exist, or the account has no privilege on it.
    pub async fn table(&self, database: &str, table: &str) -> Result<Table> {
        let request = Request::Table(database.to_owned(), table.to_owned());
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
        match self.send_request(Request::Batch(batch)).await? {
            Answer::Reply(reply) => Ok(reply),
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
        match self.send_request(Request::Scan(body, page)).await? {
            Answer::Page(page) => Ok(page),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }
}

/// Adds a request to the output. A request that cannot be encoded is answered at once.
fn add(core: &mut Core, waiters: &mut VecDeque<Waiter>, (request, waiter): (Request, Waiter)) {
    let added = match request {
        Request::Batch(batch) => core.batch(&batch),
        Request::Scan(body, page) => core.scan(&body, page),
        Request::Table(database, table) => core.open_table(&database, &table),
    };
    match added {
        Ok(()) => waiters.push_back(waiter),
        // The task may have been dropped.
        Err(error) => drop(waiter.send(Err(error))),
    }
}

/// Drives the socket until all handles are dropped and all answers were received, or the connection
/// breaks.
async fn drive(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut core: Core,
    mut queue: mpsc::Receiver<(Request, Waiter)>,
) {
    let mut waiters = VecDeque::new();
    let done = exchange(stream, &mut core, &mut queue, &mut waiters).await;
    let is_safe = core.only_reads();
    let (kind, text) = match &done {
        Ok(()) => return,
        Err(error) => (io::ErrorKind::NotConnected, error.to_string()),
    };
    for waiter in waiters {
        let error = io::Error::new(kind, text.clone());
        let error = if is_safe {
            Error::Broken(error)
        } else {
            Error::UnknownOutcome(error)
        };
        // The task may have been dropped.
        drop(waiter.send(Err(error)));
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

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    core: &mut Core,
    queue: &mut mpsc::Receiver<(Request, Waiter)>,
    waiters: &mut VecDeque<Waiter>,
) -> Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    // The bytes that are being sent, and the number of those that were. Meanwhile requests are added to
    // the core's output.
    let (mut sending, mut sent) = (Vec::new(), 0);
    // Whether TLS may hold back records of what was written.
    let mut is_unflushed = false;
    let mut is_open = true;
    while is_open || core.in_flight() > 0 {
        while let Some(answer) = core.next_answer()? {
            if let Some(waiter) = waiters.pop_front() {
                // The task may have been dropped.
                drop(waiter.send(answer));
            }
        }
        if sent == sending.len() {
            sending.clear();
            std::mem::swap(&mut sending, &mut core.output);
            sent = 0;
        }
        let unsent = sending.get(sent..).unwrap_or_default();
        let (accepts, waits) = (is_open && !core.is_full(), core.in_flight() > 0);
        tokio::select! {
            request = queue.recv(), if accepts => match request {
                Some(request) => {
                    add(core, waiters, request);
                    // Other queued requests are sent together with it.
                    while !core.is_full() && let Ok(request) = queue.try_recv() {
                        add(core, waiters, request);
                    }
                }
                None => is_open = false,
            },
            written = write_or_flush(&mut writer, unsent), if !unsent.is_empty() || is_unflushed => {
                is_unflushed = !unsent.is_empty();
                sent += written.map_err(Error::Broken)?;
            }
            received = reader.read(core.room()), if waits => {
                let received = received.map_err(Error::Broken)?;
                if received == 0 {
                    return Err(Error::Broken(io::ErrorKind::UnexpectedEof.into()));
                }
                core.received(received);
            }
        }
    }
    Ok(())
}
