//! State of a connection, without I/O: frames, requests in flight, the login.
//!
//! Invariant: answers arrive in the order of the requests, so that each frame belongs to the oldest
//! request in flight; a frame with another number is an error.

use crate::batch::Batch;
use crate::changes::ChangesPage;
use crate::error::{Error, Result, ServerError};
use crate::reply::Reply;
use crate::scan::ScanPage;
use crate::table::Table;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::Status as MysqlStatus;
use porpoise_wire::mysql::auth::sha2_answer;
use porpoise_wire::mysql::client::login::{
    ClientLogin, Credentials, ServerGreeting, Step as LoginStep,
};
use porpoise_wire::native::frame::{self, FrameStep, Header, Kind, LAST};
use porpoise_wire::native::message::{
    self, ErrorMessage, Greeting, Isolation, OpenTable, TRANSACTION_ENDED,
};
use porpoise_wire::native::{LOGIN_PLUGIN, NATIVE_FORMAT_VERSION, OLDEST_VERSION, Reader, changes};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Largest body of an answer's frame.
const MAX_ANSWER: usize = 1 << 30;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Bytes read at a time until the first answer, so that connections opened in advance use little memory.
const FIRST_READ_BYTES: usize = 1024;

/// The error of a commit whose outcome the server does not know.
const COMMIT_FAILED: u16 = 1180;

/// Length of the header of MySQL's packets.
const PACKET_HEADER: usize = 4;

/// Answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Executed, without results.
    Done,
    /// A table.
    Table(Table),
    /// Results of a batch.
    Reply(Reply),
    /// A page of a scan.
    Page(ScanPage),
    /// Changes of a subscription.
    Changes(ChangesPage),
}

/// A request in flight.
#[derive(Debug)]
struct Pending {
    request: u32,
    is_read: bool,
    expected: Expected,
}

/// Expected answer of a request in flight.
#[derive(Debug)]
enum Expected {
    Done,
    Table,
    Reply(Reply),
    Page(ScanPage, Vec<u8>),
    Changes(Vec<u8>),
}

/// Progress of the login.
pub(crate) enum LoginProgress {
    /// More frames are needed; the output has the next message.
    Continue,
    /// Logged in.
    Done,
}

/// State of a connection.
#[derive(Debug)]
pub(crate) struct Core {
    /// Bytes to be sent.
    pub(crate) output: Vec<u8>,
    /// Input buffer: unread bytes are between `consumed` and `filled`; the rest is free.
    input: Vec<u8>,
    consumed: usize,
    filled: usize,
    next_request: u32,
    pending: VecDeque<Pending>,
    window: usize,
    max_body: usize,
    connection: u64,
    /// Version of the protocol that both sides speak.
    version: u8,
    server: String,
    login: Option<ClientLogin>,
    /// Whether the server has ended the connection.
    has_ended: bool,
}

impl Core {
    /// A connection that begins with the preamble.
    pub(crate) fn new() -> Core {
        let mut output = Vec::new();
        frame::put_preamble(&mut output, OLDEST_VERSION, NATIVE_FORMAT_VERSION);
        Core {
            output,
            input: Vec::new(),
            consumed: 0,
            filled: 0,
            next_request: 1,
            pending: VecDeque::new(),
            window: 1,
            max_body: 0,
            connection: 0,
            version: 0,
            server: String::new(),
            login: None,
            has_ended: false,
        }
    }

    /// Whether the server has ended the connection. No further request is answered.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Id of the connection, for KILL.
    pub(crate) fn connection(&self) -> u64 {
        self.connection
    }

    /// Version of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Whether the number of requests in flight has reached the server's window.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= self.window
    }

    /// Whether all requests in flight only read.
    pub(crate) fn only_reads(&self) -> bool {
        self.pending.iter().all(|pending| pending.is_read)
    }

    /// The free part of the input buffer: at least [`READ_BYTES`] once batches or scans are in flight. The
    /// buffer grows with the unread bytes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.consumed > 0 {
            self.input.copy_within(self.consumed..self.filled, 0);
            self.filled -= self.consumed;
            self.consumed = 0;
        }
        let is_small = |pending: &Pending| matches!(pending.expected, Expected::Done);
        let least = if self.pending.iter().all(is_small) {
            FIRST_READ_BYTES
        } else {
            READ_BYTES
        };
        if self.input.len() < self.filled + least {
            self.input.resize(self.filled + least.max(self.filled), 0);
        }
        self.input.get_mut(self.filled..).unwrap_or_default()
    }

    /// Records that this number of bytes was received into [`Core::room`].
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.input.len());
    }

    /// The next complete frame, and the position of its body.
    fn next_frame(&mut self) -> Result<Option<(Header, std::ops::Range<usize>)>> {
        let unread = self.input.get(self.consumed..self.filled);
        let unread = unread.unwrap_or_default();
        match frame::next(unread, MAX_ANSWER).map_err(|m| Error::Protocol(m.0))? {
            FrameStep::NeedMore(_) => Ok(None),
            FrameStep::Frame { header, body } => {
                let start = self.consumed;
                self.consumed += body.end;
                Ok(Some((header, start + body.start..start + body.end)))
            }
        }
    }

    /// Processes received frames of the login. `is_secure`: TLS, or a Unix socket.
    pub(crate) fn log_in(
        &mut self,
        user: &str,
        password: &str,
        program: &str,
        is_secure: bool,
    ) -> Result<LoginProgress> {
        while let Some((header, body)) = self.next_frame()? {
            let body = self.input.get(body).unwrap_or_default();
            match (header.kind, &mut self.login) {
                (Kind::Error, _) => return Err(error_of(body)),
                (Kind::Greeting, None) => {
                    let greeting = Greeting::parse(body).ok_or(Error::Protocol("greeting"))?;
                    self.connection = greeting.connection;
                    self.version = greeting.version;
                    self.window = (greeting.window as usize).max(1);
                    self.max_body = greeting.max_body as usize;
                    self.server = greeting.server.to_owned();
                    let salt = greeting.salt;
                    let at = frame::begin(&mut self.output, Kind::Login, 0);
                    let answer = if password.is_empty() {
                        Vec::new()
                    } else {
                        sha2_answer(password.as_bytes(), &salt)
                    };
                    message::Login {
                        user,
                        answer: &answer,
                        program,
                    }
                    .put(&mut self.output);
                    frame::finish(&mut self.output, at, LAST);
                    self.login = Some(plugin_exchange(user, password, salt, is_secure));
                }
                (Kind::Authentication, Some(login)) => {
                    let (mut packet, mut sequence) = (Vec::new(), 0);
                    match login.more(body, &mut packet, &mut sequence) {
                        LoginStep::Wait => {}
                        LoginStep::Done => return Err(Error::Protocol("login")),
                        LoginStep::Refused(_) => return Err(Error::Protocol("login: refused")),
                        LoginStep::Unsupported(what) => return Err(Error::Protocol(what)),
                    }
                    if let Some(message) = packet.get(PACKET_HEADER..) {
                        frame::put(&mut self.output, Kind::Authentication, 0, LAST, message);
                    }
                }
                (Kind::Ready, Some(_)) => {
                    self.login = None;
                    return Ok(LoginProgress::Done);
                }
                _ => return Err(Error::Protocol("login: another frame was expected")),
            }
        }
        Ok(LoginProgress::Continue)
    }

    fn request(
        &mut self,
        kind: Kind,
        is_read: bool,
        expected: Expected,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let request = self.next_request;
        let start = frame::begin(&mut self.output, kind, request);
        put(&mut self.output);
        let length = self.output.len() - start - frame::HEADER;
        if length > self.max_body {
            self.output.truncate(start);
            return Err(Error::Usage(format!(
                "the request has {length} bytes, and the server accepts {}",
                self.max_body
            )));
        }
        frame::finish(&mut self.output, start, LAST);
        self.next_request = self.next_request.wrapping_add(1);
        self.pending.push_back(Pending {
            request,
            is_read,
            expected,
        });
        Ok(())
    }

    /// Adds a batch to the output.
    pub(crate) fn batch(&mut self, batch: &Batch) -> Result<()> {
        let reply = Reply {
            operations: batch.operations(),
            bytes: Vec::new(),
        };
        let is_read = batch.is_read();
        self.request(Kind::Batch, is_read, Expected::Reply(reply), |out| {
            batch.put(out)
        })
    }

    /// Adds a scan to the output: its message, and its empty page.
    pub(crate) fn scan(&mut self, body: &[u8], page: ScanPage) -> Result<()> {
        let expected = Expected::Page(page, Vec::new());
        self.request(Kind::Scan, true, expected, |out| {
            out.extend_from_slice(body)
        })
    }

    /// Adds the start of a subscription to the output.
    pub(crate) fn subscribe(&mut self, body: &[u8]) -> Result<()> {
        self.check_has_changes()?;
        let expected = Expected::Changes(Vec::new());
        self.request(Kind::Subscribe, true, expected, |out| {
            out.extend_from_slice(body)
        })
    }

    /// Adds a request for the next changes, with its longest wait, to the output.
    pub(crate) fn next_changes(&mut self, wait: Duration) -> Result<()> {
        self.check_has_changes()?;
        let wait = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let expected = Expected::Changes(Vec::new());
        self.request(Kind::NextChanges, true, expected, |out| {
            out.extend_from_slice(&wait.to_le_bytes())
        })
    }

    fn check_has_changes(&self) -> Result<()> {
        if self.version >= changes::SINCE_VERSION {
            return Ok(());
        }
        let text = format!(
            "the server speaks version {} of the native protocol, which has no subscriptions",
            self.version
        );
        Err(Error::Usage(text))
    }

    /// Adds a look-up of a table to the output.
    pub(crate) fn open_table(&mut self, database: &str, table: &str) -> Result<()> {
        self.request(Kind::OpenTable, true, Expected::Table, |out| {
            OpenTable { database, table }.put(out);
        })
    }

    /// Adds a request without effect to the output.
    pub(crate) fn ping(&mut self) -> Result<()> {
        self.request(Kind::Ping, true, Expected::Done, |_| {})
    }

    /// Adds the start of a transaction to the output.
    pub(crate) fn begin(&mut self, isolation: Isolation) -> Result<()> {
        self.request(Kind::Begin, true, Expected::Done, |out| {
            out.push(isolation as u8)
        })
    }

    /// Adds the end of a transaction to the output.
    pub(crate) fn end(&mut self, commit: bool) -> Result<()> {
        let kind = if commit { Kind::Commit } else { Kind::Rollback };
        self.request(kind, !commit, Expected::Done, |_| {})
    }

    /// The answer to the oldest request, if it is complete. The inner error is the server's.
    pub(crate) fn next_answer(&mut self) -> Result<Option<Result<Answer>>> {
        while let Some((header, body)) = self.next_frame()? {
            let body = self.input.get(body).unwrap_or_default();
            let is_mine = self
                .pending
                .front()
                .is_some_and(|p| p.request == header.request);
            if header.kind == Kind::Error {
                let error = error_of(body);
                // An error with the number of no request ends the connection: the requests in
                // flight may have been executed.
                self.has_ended |= !is_mine;
                let is_unknown = error.code() == Some(COMMIT_FAILED) || !is_mine;
                let error = if is_unknown && !self.only_reads() {
                    Error::UnknownOutcome(io::Error::other(error.to_string()))
                } else {
                    error
                };
                self.pending.pop_front();
                return Ok(Some(Err(error)));
            }
            let Some(pending) = self.pending.front_mut().filter(|_| is_mine) else {
                return Err(Error::Protocol("an answer to no request"));
            };
            match (header.kind, &mut pending.expected) {
                (Kind::Results, Expected::Reply(reply)) => reply.bytes.extend_from_slice(body),
                (Kind::Rows, Expected::Page(_, bytes))
                | (Kind::Changes, Expected::Changes(bytes)) => bytes.extend_from_slice(body),
                (Kind::Table, Expected::Table) => {
                    let table = message::Table::parse(body).ok_or(Error::Protocol("table"))?;
                    self.pending.pop_front();
                    return Ok(Some(Ok(Answer::Table(Table::new(table)))));
                }
                (Kind::Done, Expected::Done) => {
                    self.pending.pop_front();
                    return Ok(Some(Ok(Answer::Done)));
                }
                _ => return Err(Error::Protocol("an answer of another kind")),
            }
            if header.is_last() {
                let answer = match self.pending.pop_front().map(|pending| pending.expected) {
                    Some(Expected::Reply(reply)) => Answer::Reply(reply),
                    Some(Expected::Page(page, bytes)) => Answer::Page(page.finish(bytes)?),
                    Some(Expected::Changes(bytes)) => Answer::Changes(ChangesPage(bytes)),
                    _ => return Err(Error::Protocol("an answer of another kind")),
                };
                return Ok(Some(Ok(answer)));
            }
        }
        Ok(None)
    }
}

/// The exchange of MySQL's plugins, which follows the login request.
fn plugin_exchange(
    user: &str,
    password: &str,
    salt: [u8; message::SALT],
    is_secure: bool,
) -> ClientLogin {
    let greeting = ServerGreeting {
        server_version: b"",
        connection_id: 0,
        salt,
        capabilities: Capabilities(0),
        collation: 0,
        status: MysqlStatus(0),
        plugin: LOGIN_PLUGIN.as_bytes(),
    };
    let credentials = Credentials {
        user: user.as_bytes().to_vec(),
        password: password.as_bytes().to_vec(),
        ..Credentials::default()
    };
    ClientLogin::new(&greeting, credentials, Capabilities(0), is_secure)
}

fn error_of(body: &[u8]) -> Error {
    let mut reader = Reader::new(body);
    let mut read = || Some((reader.u8()?, ErrorMessage::read(&mut reader)?));
    match read() {
        Some((flags, message)) => Error::Server(ServerError {
            ended_transaction: flags & TRANSACTION_ENDED != 0,
            ..message.into()
        }),
        None => Error::Protocol("an error that cannot be read"),
    }
}
