//! A connection of the MySQL listener.
//!
//! The state determines the next packet: a login request, a response of an authentication plugin,
//! or a command. All complete packets of one read are processed in order, and their replies are in
//! the output in that order.
//!
//! Invariants:
//! 1. Sequence numbers restart with each command, and are consecutive through a login.
//! 2. A packet that is too large is answered after its last byte has been discarded, so that the
//!    client, which is still sending, can read the error.
//! 3. A failed change of user ends the connection, as on MySQL.

use super::Shared;
use super::answer::{Answer, status_of};
use super::login::{Authentication, LoginStep, Request};
use super::replication::Registration;
use super::statements::Statements;
use crate::net::{End, Input, Next, Output, Peer, Session, StreamCodec, TlsSession};
use porpoise_base::cancel::Reason;
use porpoise_sql::status::Counter;
use porpoise_sql::{ClientInfo, Encryption, SqlError, SqlSession, VERSION};
use porpoise_types::Collation;
use porpoise_wire::mysql::auth::Plugin;
use porpoise_wire::mysql::command::{self, Command};
use porpoise_wire::mysql::compression::{Algorithm, Compression};
use porpoise_wire::mysql::frame::{self, FrameStep, PacketReader};
use porpoise_wire::mysql::handshake::{
    ClientHello, Greeting, LoginRequest, Salt, parse_hello, random_salt,
};
use porpoise_wire::mysql::{Capabilities, ProtocolError, Status};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Kind of the next packet.
enum State {
    /// A TLS request or a login request.
    AwaitLogin,
    /// A response of the authentication plugin.
    Authenticating(Box<Authentication>),
    /// A command.
    LoggedIn(Box<LoggedIn>),
    /// None: the connection is being closed.
    Closed,
}

/// A logged-in session.
pub(super) struct LoggedIn {
    pub(super) sql: SqlSession,
    pub(super) statements: Statements,
    pub(super) caps: Capabilities,
    /// Whether several statements in one text are allowed.
    pub(super) allows_multiple_statements: bool,
    /// `max_allowed_packet` as it was at login.
    pub(super) max_packet: usize,
    /// Entry in the list of replicas.
    pub(super) registration: Option<Registration>,
    request: Request,
}

/// Effect of a command on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next command is awaited.
    Continue,
    /// The connection closes.
    Close,
}

/// The server's side of one connection of the MySQL protocol.
pub(super) struct MysqlSession {
    shared: Arc<Shared>,
    peer: Peer,
    reader: PacketReader,
    state: State,
    salt: Salt,
    /// Whether the connection is encrypted or a Unix socket.
    secure: bool,
    /// The capabilities offered; after the login request, those in use.
    caps: Capabilities,
    /// The compression after the login.
    compression: Option<Algorithm>,
    /// Whether compression has begun. A change of user does not begin it again.
    is_compressed: bool,
    /// `wait_timeout`, or `interactive_timeout`, as it was after the last
    /// command.
    idle: Duration,
    /// Number of bytes after the current packet that its command has consumed.
    read_ahead: usize,
}

/// `max_allowed_packet` if the variable cannot be read.
const DEFAULT_PACKET: usize = 64 << 20;

/// Maximum of `max_allowed_packet`.
const LARGEST_PACKET: usize = 1 << 30;

/// Continues or closes the connection after a delay.
fn after(delay: Duration, close: bool) -> Next {
    match (delay.is_zero(), close) {
        (true, true) => Next::Close,
        (true, false) => Next::Wait,
        (false, close) => Next::Delay { delay, close },
    }
}

/// The compression algorithms that the server offers: `protocol_compression_algorithms`.
fn offered_compression(shared: &Shared) -> Capabilities {
    let list = shared.sql.variable("protocol_compression_algorithms");
    let list = list.unwrap_or_default();
    let offered = |name: &str, flag| {
        let is_named = list.split(',').any(|word| word == name);
        if is_named { flag } else { Capabilities(0) }
    };
    offered("zlib", Capabilities::COMPRESS) | offered("zstd", Capabilities::ZSTD_COMPRESSION)
}

impl StreamCodec for Compression {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> io::Result<(usize, usize)> {
        Compression::decode(self, input, out)
    }

    fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        Compression::encode(self, plain, out)
    }
}

impl MysqlSession {
    /// Opens a session and sends the greeting.
    pub(super) fn greet(shared: Arc<Shared>, peer: Peer, out: &mut Output) -> MysqlSession {
        let mut offered = Capabilities::SERVER | offered_compression(&shared);
        if shared.tls.is_some() && peer.address.is_some() {
            offered = offered | Capabilities::SSL;
        }
        let salt = random_salt();
        let mut session = MysqlSession {
            secure: peer.address.is_none(),
            shared,
            peer,
            reader: PacketReader::before_login(),
            state: State::AwaitLogin,
            salt: salt.unwrap_or([0; 20]),
            caps: offered,
            compression: None,
            is_compressed: false,
            idle: Duration::from_secs(28_800),
            read_ahead: 0,
        };
        if salt.is_none() {
            let mut answer = Answer::new(out, offered, 0);
            let text = "The operating system returned no random bytes for the login challenge";
            answer.raw_error(1041, *b"HY000", text);
            session.state = State::Closed;
            return session;
        }
        let mut sequence = 0;
        Greeting {
            server_version: VERSION,
            connection_id: session.peer.id as u32,
            salt: &session.salt,
            capabilities: offered,
            collation: u8::try_from(Collation::UTF8MB4_0900_AI_CI.0).unwrap_or(45),
            status: Status::AUTOCOMMIT,
            plugin: Plugin::CachingSha2.name(),
        }
        .write(out.buf(), &mut sequence);
        session.reader.expect(sequence);
        session
    }

    /// Processes one packet; `rest` are the bytes received after it.
    fn packet(&mut self, payload: &[u8], rest: &[u8], out: &mut Output) -> Next {
        let sequence = self.reader.sequence();
        match std::mem::replace(&mut self.state, State::Closed) {
            State::AwaitLogin => self.handle_hello(payload, out, sequence),
            State::Authenticating(authentication) => {
                self.continue_authentication(authentication, payload, out, sequence)
            }
            State::LoggedIn(logged_in) => self.command(logged_in, payload, rest, out, sequence),
            State::Closed => Next::Close,
        }
    }

    fn handle_hello(&mut self, payload: &[u8], out: &mut Output, sequence: u8) -> Next {
        match parse_hello(payload, self.caps) {
            Ok(ClientHello::Tls { .. }) => match &self.shared.tls {
                Some(tls) if !self.secure => {
                    self.secure = true;
                    self.state = State::AwaitLogin;
                    Next::StartTls(tls.clone())
                }
                _ => self.close_on_protocol_error(ProtocolError::BadHandshake, out, sequence),
            },
            Ok(ClientHello::Login(login)) => self.login(&login, out, sequence),
            Err(error) => self.close_on_protocol_error(error, out, sequence),
        }
    }

    fn login(&mut self, login: &LoginRequest<'_>, out: &mut Output, sequence: u8) -> Next {
        self.caps = login.capabilities;
        self.compression = login.compression;
        let mut answer = Answer::new(out, self.caps, sequence);
        let tls = answer.out.tls();
        let request = Request::of_login(login);
        let Some(mut authentication) = self.authenticate(request, tls, &mut answer) else {
            return Next::Close;
        };
        let step = authentication.start(
            &self.shared,
            &self.peer,
            login.plugin,
            login.auth,
            &mut answer,
        );
        self.apply_step(step, authentication, answer)
    }

    /// Starts authentication. Returns `None` after appending an error.
    fn authenticate(
        &self,
        request: Request,
        tls: Option<TlsSession>,
        answer: &mut Answer<'_>,
    ) -> Option<Box<Authentication>> {
        let (shared, peer) = (&self.shared, &self.peer);
        match Authentication::begin(shared, peer, request, self.salt, tls) {
            Ok(authentication) => Some(Box::new(authentication)),
            Err(error) => {
                answer.error(&error);
                None
            }
        }
    }

    fn continue_authentication(
        &mut self,
        mut authentication: Box<Authentication>,
        payload: &[u8],
        out: &mut Output,
        sequence: u8,
    ) -> Next {
        let mut answer = Answer::new(out, self.caps, sequence);
        let step = authentication.next_packet(&self.shared, &self.peer, payload, &mut answer);
        self.apply_step(step, authentication, answer)
    }

    /// Applies the result of an authentication step.
    fn apply_step(
        &mut self,
        step: LoginStep,
        authentication: Box<Authentication>,
        mut answer: Answer<'_>,
    ) -> Next {
        let granted = match step {
            LoginStep::Wait => {
                self.reader.expect(answer.sequence);
                self.state = State::Authenticating(authentication);
                return Next::Wait;
            }
            LoginStep::Refused(delay) => return after(delay, true),
            LoginStep::Granted(granted) => granted,
        };
        let mut logged_in = match self.connect(granted.account, authentication.request) {
            Ok(logged_in) => logged_in,
            Err(error) => {
                answer.error(&error);
                return after(granted.delay, true);
            }
        };
        if granted.password_expired {
            logged_in.sql.expire_password();
        }
        if let Some(tls) = answer.out.tls() {
            logged_in.sql.set_encryption(Encryption {
                cipher: tls.cipher,
                version: tls.version.to_owned(),
            });
        }
        if let Some(algorithm) = self.compression {
            logged_in
                .sql
                .set_compression(algorithm.name(), algorithm.level());
        }
        answer.plain_ok(status_of(&logged_in.sql), &[]);
        if let (Some(algorithm), false) = (self.compression, self.is_compressed) {
            self.is_compressed = true;
            answer
                .out
                .start_codec(Box::new(Compression::new(algorithm)));
        }
        self.reader.set_limit(logged_in.max_packet);
        self.reader.expect(0);
        self.idle = logged_in.sql.idle_timeout();
        self.state = State::LoggedIn(Box::new(logged_in));
        after(granted.delay, false)
    }

    /// Opens the SQL session of an authenticated client.
    fn connect(&self, account: String, request: Request) -> Result<LoggedIn, SqlError> {
        let caps = request.capabilities;
        let info = ClientInfo {
            connection_id: self.peer.id,
            user: request.user.clone(),
            host: self.peer.host(),
            account,
            capabilities: u64::from(caps.0),
            collation: request.collation,
            database: request.database.clone(),
        };
        let (cancel, memory) = (self.peer.cancel.clone(), &self.peer.memory);
        let sql = self.shared.sql.connect_with(info, cancel, memory)?;
        let limit = self.shared.sql.variable("max_allowed_packet");
        let limit = limit.and_then(|text| text.parse().ok());
        Ok(LoggedIn {
            sql,
            statements: Statements::new(memory),
            caps,
            allows_multiple_statements: caps.has(Capabilities::MULTI_STATEMENTS),
            registration: None,
            max_packet: limit.unwrap_or(DEFAULT_PACKET).min(LARGEST_PACKET),
            request,
        })
    }

    /// Runs the command in `payload`; `rest` are the bytes received after its packet.
    fn command(
        &mut self,
        mut logged_in: Box<LoggedIn>,
        payload: &[u8],
        rest: &[u8],
        out: &mut Output,
        sequence: u8,
    ) -> Next {
        let command = match command::parse(payload, self.caps) {
            Ok(Command::ChangeUser(change)) => {
                let request = Request::of_change(&change, &logged_in.request);
                drop(logged_in);
                return self.change_user(request, &change, out, sequence);
            }
            Ok(command) => command,
            Err(error) => {
                let mut answer = Answer::new(out, self.caps, sequence);
                answer.protocol_error(error);
                return self.next_command(logged_in, Flow::Continue, out);
            }
        };
        let mut answer = Answer::new(out, self.caps, sequence);
        answer.unread = rest;
        logged_in
            .sql
            .count(Counter::BytesReceived, frame::bytes_on_wire(payload.len()));
        let flow = logged_in.run(&self.shared, command, &mut answer);
        logged_in.sql.count(Counter::BytesSent, answer.bytes());
        self.read_ahead = answer.read_ahead;
        self.next_command(logged_in, flow, out)
    }

    /// Awaits the next command, or closes the connection.
    fn next_command(&mut self, logged_in: Box<LoggedIn>, flow: Flow, out: &mut Output) -> Next {
        out.request_done();
        let ended = self.peer.cancel.reason();
        if flow == Flow::Close || ended == Some(Reason::Connection) {
            return Next::Close;
        }
        self.reader.expect(0);
        self.idle = logged_in.sql.idle_timeout();
        self.state = State::LoggedIn(logged_in);
        Next::Wait
    }

    /// Ends the current session and authenticates another user (COM_CHANGE_USER).
    fn change_user(
        &mut self,
        request: Request,
        change: &porpoise_wire::mysql::handshake::ChangeUser<'_>,
        out: &mut Output,
        sequence: u8,
    ) -> Next {
        let mut answer = Answer::new(out, self.caps, sequence);
        let tls = answer.out.tls();
        let Some(mut authentication) = self.authenticate(request, tls, &mut answer) else {
            return Next::Close;
        };
        let step = if self.caps.has(Capabilities::PLUGIN_AUTH) {
            authentication.restart_with_new_challenge(&self.shared, &self.peer, &mut answer)
        } else {
            let (shared, peer) = (&self.shared, &self.peer);
            authentication.start(shared, peer, change.plugin, change.auth, &mut answer)
        };
        self.apply_step(step, authentication, answer)
    }

    /// Closes the connection after a protocol error: the bytes that follow cannot be interpreted.
    fn close_on_protocol_error(
        &mut self,
        error: ProtocolError,
        out: &mut Output,
        sequence: u8,
    ) -> Next {
        Answer::new(out, self.caps, sequence).protocol_error(error);
        self.state = State::Closed;
        Next::Close
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::LoggedIn(_))
    }
}

impl Session for MysqlSession {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        if matches!(self.state, State::Closed) {
            return Next::Close;
        }
        loop {
            if self.is_open() && out.should_yield() {
                return Next::Yield;
            }
            match self.reader.next(input.bytes_mut()) {
                Ok(FrameStep::NeedMore(more)) => {
                    input.request_bytes(input.len().saturating_add(more));
                    return Next::Wait;
                }
                Ok(FrameStep::Packet { payload, consumed }) => {
                    let bytes = input.bytes().get(payload).unwrap_or_default();
                    let rest = input.bytes().get(consumed..).unwrap_or_default();
                    let next = self.packet(bytes, rest, out);
                    input.consume(consumed + std::mem::take(&mut self.read_ahead));
                    if !matches!(next, Next::Wait) {
                        return next;
                    }
                }
                Ok(FrameStep::Skip { consumed }) => input.consume(consumed),
                Ok(FrameStep::TooLarge { consumed }) => {
                    input.consume(consumed);
                    let mut answer = Answer::new(out, self.caps, self.reader.sequence());
                    answer.protocol_error(ProtocolError::TooLarge);
                    out.request_done();
                    self.reader.expect(0);
                }
                Err(error) => {
                    let sequence = self.reader.sequence();
                    return self.close_on_protocol_error(error, out, sequence);
                }
            }
        }
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        let (code, state, text) = match end {
            End::Eof => return,
            End::LoginTimeout | End::RequestTimeout => {
                (1159, *b"08S01", "Got timeout reading communication packets")
            }
            End::IdleTimeout => (
                4031,
                *b"HY000",
                "The client was disconnected by the server because of inactivity. See \
                 wait_timeout and interactive_timeout for configuring this behavior.",
            ),
            End::Killed => (3169, *b"HY000", "The session was killed."),
            End::Shutdown => (1053, *b"08S01", "Server shutdown in progress"),
            End::UnknownOutcome => (
                1180,
                *b"HY000",
                "Got error 1 - 'commit outcome unknown: the log could not be synced; the transaction may or may not survive a restart' \
                 during COMMIT",
            ),
            End::InternalError => (
                1105,
                *b"HY000",
                "Internal error: the transaction was rolled back; see the server's log",
            ),
        };
        // A reply to a request has sequence number 1, an unsolicited packet 0.
        let sequence = match end {
            End::UnknownOutcome | End::InternalError => 1,
            End::LoginTimeout => self.reader.sequence(),
            _ => 0,
        };
        Answer::new(out, self.caps, sequence).raw_error(code, state, text);
        self.state = State::Closed;
    }

    fn logged_in(&self) -> bool {
        self.is_open()
    }

    fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle)
    }

    fn holds_locks(&self) -> bool {
        match &self.state {
            State::LoggedIn(open) => open.sql.holds_locks(),
            _ => false,
        }
    }
}
