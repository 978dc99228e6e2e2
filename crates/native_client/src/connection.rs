//! One connection, synchronous, with pipelining.

use crate::batch::Batch;
use crate::changes::{ChangesPage, SubscribeRequest};
use crate::core::{Answer, Core, LoginProgress};
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::scan::{ScanPage, ScanRequest};
use crate::table::Table;
use porpoise_client::{Address, Stream, TlsMode, TlsOptions};
use porpoise_wire::native::message::Isolation;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address of the listener.
    pub address: Address,
    /// User name.
    pub user: String,
    /// Password; empty: none.
    pub password: String,
    /// TLS settings. [`TlsMode::Preferred`] means no TLS: the protocol has no negotiation of TLS.
    pub tls: TlsOptions,
    /// Name of the program, for the server's log.
    pub program: String,
    /// Longest wait for the connection, and for each message of the login.
    pub connect_timeout: Duration,
    /// Longest time without a byte of an answer that is awaited afterwards: the connection counts as broken then. `None` waits
    /// forever (a subscription 20 seconds).
    pub read_timeout: Option<Duration>,
}

/// A function that a synchronous connection calls when a signal interrupts its wait for an answer. An error ends the wait and
/// the connection.
#[derive(Clone)]
pub struct SignalHook(Arc<dyn Fn() -> io::Result<()> + Send + Sync>);

impl SignalHook {
    /// The hook that calls this function.
    pub fn new(call: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> SignalHook {
        SignalHook(Arc::new(call))
    }
}

impl fmt::Debug for SignalHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalHook")
    }
}

impl Target {
    /// A target with defaults: no TLS, no limit for answers.
    pub fn new(address: Address, user: &str, password: &str) -> Target {
        Target {
            address,
            user: user.to_owned(),
            password: password.to_owned(),
            tls: TlsOptions::default(),
            program: String::new(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: None,
        }
    }
}

/// A logged-in connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    core: Core,
    /// Answers that were received but not returned yet.
    answers: VecDeque<Result<Answer>>,
    has_transaction: bool,
    on_signal: Option<SignalHook>,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Connecting, TLS or the login failed.
    pub fn connect(target: &Target) -> Result<Connection> {
        let mut stream = Stream::open(&target.address, target.connect_timeout)?;
        let broken = Error::Broken;
        stream
            .set_timeout(Some(target.connect_timeout))
            .map_err(broken)?;
        let uses_tls = !matches!(target.tls.mode, TlsMode::Disabled | TlsMode::Preferred);
        if uses_tls {
            stream = target.tls.wrap(stream, &target.address)?;
        }
        let is_secure = uses_tls || matches!(target.address, Address::Unix(_));
        let mut connection = Connection {
            stream,
            core: Core::new(),
            answers: VecDeque::new(),
            has_transaction: false,
            on_signal: None,
        };
        loop {
            connection.flush()?;
            connection.fill().map_err(Error::Broken)?;
            let (user, password) = (&target.user, &target.password);
            let step = connection
                .core
                .log_in(user, password, &target.program, is_secure)?;
            if let LoginProgress::Done = step {
                break;
            }
        }
        connection
            .stream
            .set_timeout(target.read_timeout)
            .map_err(Error::Broken)?;
        Ok(connection)
    }

    /// Calls a function when a signal interrupts the wait for an answer.
    pub fn set_on_signal(&mut self, hook: SignalHook) {
        self.on_signal = Some(hook);
    }

    /// Id of the connection, for KILL.
    pub fn id(&self) -> u64 {
        self.core.connection()
    }

    /// Version of the server.
    pub fn server_version(&self) -> &str {
        self.core.server()
    }

    /// Looks up a table.
    ///
    /// # Errors
    /// It does not exist, or the account has no privilege on it.
    pub fn table(&mut self, database: &str, table: &str) -> Result<Table> {
        self.core.open_table(database, table)?;
        match self.last_answer()? {
            Answer::Table(table) => Ok(table),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Executes a batch.
    ///
    /// # Errors
    /// The whole batch failed. Errors of single operations are in the reply.
    pub fn run(&mut self, batch: &Batch) -> Result<Reply> {
        self.send(batch)?;
        match self.last_answer()? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Sends a batch without waiting for its answer, which [`Connection::receive`] returns. If the
    /// server's window of requests in flight is full, earlier answers are received first.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, batch: &Batch) -> Result<()> {
        while self.core.is_full() {
            self.receive_one()?;
        }
        self.core.batch(batch)
    }

    /// Number of batches that were sent and whose answers [`Connection::receive`] has not returned.
    pub fn in_flight(&self) -> usize {
        self.core.in_flight() + self.answers.len()
    }

    /// Receives the answer to the oldest batch that was sent.
    ///
    /// # Errors
    /// As [`Connection::run`]; [`Error::Usage`] if no batch was sent.
    pub fn receive(&mut self) -> Result<Reply> {
        match self.first_answer()? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Requests a page of a scan: the first page, or the page that follows a continuation.
    ///
    /// # Errors
    /// The scan failed.
    pub fn scan(&mut self, scan: &ScanRequest, continuation: &[u8]) -> Result<ScanPage> {
        let mut body = Vec::new();
        let page = scan.put(continuation, &mut body)?;
        self.core.scan(&body, page)?;
        match self.last_answer()? {
            Answer::Page(page) => Ok(page),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Begins a subscription, which replaces that of the connection, and returns its first changes. Prefer
    /// [`crate::Subscription`], which connects again and returns whole transactions.
    ///
    /// # Errors
    /// As [`crate::Subscription::open`].
    pub fn subscribe(&mut self, request: &SubscribeRequest) -> Result<ChangesPage> {
        let mut body = Vec::new();
        request.put(&mut body)?;
        self.core.subscribe(&body)?;
        self.changes()
    }

    /// The next changes of the connection's subscription, after at most `wait` (at most a minute).
    ///
    /// # Errors
    /// The connection broke; any other error ends the subscription.
    pub fn next_changes(&mut self, wait: Duration) -> Result<ChangesPage> {
        self.core.next_changes(wait)?;
        self.changes()
    }

    fn changes(&mut self) -> Result<ChangesPage> {
        match self.last_answer()? {
            Answer::Changes(page) => Ok(page),
            _ => Err(Error::Protocol("an answer of another kind")),
        }
    }

    /// Waits for an answer to a request without effect.
    ///
    /// # Errors
    /// The connection broke.
    pub fn ping(&mut self) -> Result<()> {
        self.core.ping()?;
        self.last_answer().map(|_| ())
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// A transaction is already open.
    pub fn begin(&mut self, isolation: Isolation) -> Result<()> {
        self.core.begin(isolation)?;
        self.last_answer()?;
        self.has_transaction = true;
        Ok(())
    }

    /// Commits the open transaction.
    ///
    /// # Errors
    /// It failed, or its outcome is unknown ([`Error::UnknownOutcome`]).
    pub fn commit(&mut self) -> Result<()> {
        self.core.end(true)?;
        self.has_transaction = false;
        self.last_answer().map(|_| ())
    }

    /// Rolls the open transaction back.
    ///
    /// # Errors
    /// The connection broke.
    pub fn rollback(&mut self) -> Result<()> {
        self.core.end(false)?;
        self.has_transaction = false;
        self.last_answer().map(|_| ())
    }

    /// Whether a transaction was begun and not ended.
    pub(crate) fn has_transaction(&self) -> bool {
        self.has_transaction
    }

    /// Sends what has not been sent yet.
    ///
    /// # Errors
    /// The connection broke.
    pub fn flush(&mut self) -> Result<()> {
        if self.core.output.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.core.output);
        let sent = sent.and_then(|()| self.stream.flush());
        self.core.output.clear();
        sent.map_err(|error| self.broken(error))
    }

    /// The error for a broken connection: unknown, unless all requests in flight only read.
    fn broken(&self, error: io::Error) -> Error {
        if self.core.only_reads() {
            Error::Broken(error)
        } else {
            Error::UnknownOutcome(error)
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let read = loop {
            match self.stream.read(self.core.room()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if let Some(SignalHook(call)) = &self.on_signal {
                        call()?;
                    }
                }
                done => break done?,
            }
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.core.received(read);
        Ok(())
    }

    /// Receives the answer to the oldest request in flight.
    fn receive_one(&mut self) -> Result<()> {
        loop {
            if let Some(answer) = self.core.next_answer()? {
                self.answers.push_back(answer);
                return Ok(());
            }
            // Flushed only when no received answer is left, so that requests are sent in one write.
            if let Err(error) = self.flush() {
                let words = is_closed(&error).then(|| self.last_words());
                return words.flatten().ok_or(error);
            }
            self.fill().map_err(|error| self.broken(error))?;
        }
    }

    /// Receives what the server has sent before it ended a connection that cannot be written to any more: the reason, as
    /// after KILL.
    fn last_words(&mut self) -> Option<()> {
        loop {
            if let Some(answer) = self.core.next_answer().ok()? {
                self.answers.push_back(answer);
                return Some(());
            }
            self.fill().ok()?;
        }
    }

    fn first_answer(&mut self) -> Result<Answer> {
        if self.answers.is_empty() {
            if self.core.in_flight() == 0 {
                return Err(Error::Usage("no request is in flight".to_owned()));
            }
            self.receive_one()?;
        }
        let answer = self.answers.pop_front();
        answer.ok_or(Error::Protocol("no answer"))?
    }

    /// Receives the answer to the newest request, and buffers the answers to earlier ones.
    fn last_answer(&mut self) -> Result<Answer> {
        while self.core.in_flight() > 0 {
            self.receive_one()?;
        }
        let answer = self.answers.pop_back();
        answer.ok_or(Error::Protocol("no answer"))?
    }
}

/// Whether the server has closed the connection.
fn is_closed(error: &Error) -> bool {
    let (Error::Broken(error) | Error::UnknownOutcome(error)) = error else {
        return false;
    };
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
