//! The native listener: runs [`porpoise_native`] on the event loops.
//!
//! The first byte of a connection determines whether it uses TLS, as at the memcached listeners: a
//! handshake and the protocol's preamble begin with different bytes. A client without TLS is
//! refused if TLS is required.

use crate::memcached::TlsSettings;
use crate::metrics::{self, Counter};
use crate::mysql::login::{login_policy, tls_peer};
use crate::native_changes::LoggedChanges;
use crate::net::{End, Input, Next, Output, Peer, Protocol, Refusal, Session};
use porpoise_access::VerifierCache;
use porpoise_binlog::BinaryLog;
use porpoise_kv::CommitPosition;
use porpoise_native::{
    ChangeLog, Client, Disconnected, ListenerSettings, Monitor, Native, NextAction,
    Session as NativeSession, SessionInfo, Sink,
};
use porpoise_sql::SqlServer;
use porpoise_sql::audit::AuditedLogin;
use porpoise_sql::registered_process::RegisteredProcess;
use porpoise_sql::{ClientInfo, VERSION};
use porpoise_wire::mysql::auth::RsaKey;
use porpoise_wire::native::Malformed;
use porpoise_wire::native::frame::{self, FrameStep, PREAMBLE};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// The native protocol at a listener.
pub struct NativeProtocol {
    sql: Weak<SqlServer>,
    listener: Arc<Native>,
    tls: Arc<TlsSettings>,
}

impl NativeProtocol {
    /// Serves `native`, which [`open`] has returned for `sql`.
    pub fn new(sql: &Arc<SqlServer>, native: Arc<Native>, tls: TlsSettings) -> NativeProtocol {
        NativeProtocol {
            sql: Arc::downgrade(sql),
            listener: native,
            tls: Arc::new(tls),
        }
    }
}

/// The rows of `sql` for native clients and REST, with its accounts and in its list of sessions. Without
/// `rsa`, clients without TLS whose password is not cached are refused.
pub fn open(
    sql: &Arc<SqlServer>,
    rsa: Option<Arc<RsaKey>>,
    verifiers: Arc<VerifierCache>,
    binlog: Option<&Arc<BinaryLog>>,
) -> Arc<Native> {
    let policy = Arc::downgrade(sql);
    let sessions = Arc::downgrade(sql);
    let audit = Arc::downgrade(sql);
    let settings = ListenerSettings {
        control: sql.access().clone(),
        verifiers,
        rsa,
        policy: Box::new(move || {
            policy
                .upgrade()
                .map(|sql| login_policy(&sql))
                .unwrap_or_default()
        }),
        audit: Box::new(move |connection, user, host, granted| {
            let login = AuditedLogin {
                interface: "native",
                connection: Some(connection),
                user,
                host,
                granted,
            };
            let sql = audit.upgrade();
            let reported = sql.map_or(Ok(()), |sql| sql.report_login(&login));
            reported.map_err(|error| (error.code, "HY000", error.message))
        }),
        add_session: Box::new(move |info| match sessions.upgrade() {
            Some(sql) => Box::new(ListedSession(add_session(&sql, info))),
            None => Box::new(UnlistedSession),
        }),
        changes: binlog.map(|log| -> Arc<dyn ChangeLog> { Arc::new(LoggedChanges(log.clone())) }),
        server_version: VERSION.to_owned(),
    };
    Arc::new(Native::new(sql.db().clone(), settings))
}

/// An entry of the process list.
struct ListedSession(RegisteredProcess);

impl Monitor for ListedSession {
    fn begin(&self, command: &'static str, info: &[u8]) {
        self.0.begin(command, Some(info));
    }

    fn end(&self) {
        self.0.end();
    }
}

/// A session of a server that has been closed.
struct UnlistedSession;

impl Monitor for UnlistedSession {
    fn begin(&self, _: &'static str, _: &[u8]) {}

    fn end(&self) {}
}

fn add_session(sql: &Arc<SqlServer>, info: &SessionInfo<'_>) -> RegisteredProcess {
    let client = ClientInfo {
        connection_id: info.connection,
        user: info.user.to_owned(),
        host: info.host.to_owned(),
        account: format!("{}@{}", info.account.user, info.account.host),
        capabilities: 0,
        collation: 0,
        database: None,
    };
    sql.register_process(&client, info.named_at, info.cancel.clone())
}

impl Protocol for NativeProtocol {
    fn name(&self) -> &'static str {
        "native"
    }

    fn open(&self, peer: Peer, _out: &mut Output) -> Box<dyn Session> {
        Box::new(NativeConnection {
            listener: self.listener.clone(),
            tls: self.tls.clone(),
            peer,
            idle: self
                .sql
                .upgrade()
                .map(|sql| Duration::from_secs(u64::from(sql.number("wait_timeout")))),
            session: None,
        })
    }

    fn refusal(&self, why: Refusal) -> Vec<u8> {
        let (code, text) = match why {
            Refusal::TooManyConnections => (1040, "Too many connections"),
            Refusal::OutOfResources => (1041, "Out of memory or file descriptors"),
        };
        let mut out = Vec::new();
        NativeSession::end_with(&mut out, code, "08004", text);
        out
    }

    fn half_closes(&self) -> bool {
        false
    }
}

struct NativeConnection {
    listener: Arc<Native>,
    tls: Arc<TlsSettings>,
    peer: Peer,
    /// Longest time without a request: `wait_timeout` when the connection was opened. It ends
    /// transactions that hold locks for clients that no longer respond.
    idle: Option<Duration>,
    /// The session, once the preamble was read.
    session: Option<NativeSession>,
}

/// The output of a connection, for a request.
struct OutputSink<'o> {
    out: &'o mut Output,
    /// Whether output was sent during the request, so that positions from before it are invalid.
    is_drained: bool,
}

impl Sink for OutputSink<'_> {
    fn buf(&mut self) -> &mut Vec<u8> {
        self.out.buf()
    }

    fn drain_if_full(&mut self, position: CommitPosition) -> Result<bool, Disconnected> {
        if !self.out.is_full() {
            return Ok(false);
        }
        self.out.defer_from(0, position);
        self.out.drain().map_err(|_| Disconnected)?;
        self.is_drained = true;
        Ok(true)
    }
}

impl NativeConnection {
    /// Reads the preamble.
    ///
    /// # Errors
    /// The next action, if frames cannot be read yet, or not at all.
    fn begin(&mut self, input: &mut Input, out: &mut Output) -> Result<(), Next> {
        let Some(first) = input.bytes().first().copied() else {
            return Err(Next::Wait);
        };
        let tls = out.tls();
        if let (None, Some(config), TLS_HANDSHAKE) = (&tls, &self.tls.config, first) {
            return Err(Next::StartTls(config.clone()));
        }
        let is_unix = self.peer.address.is_none();
        if tls.is_none() && self.tls.required && !is_unix {
            let text =
                "Connections using insecure transport are prohibited: this listener requires TLS";
            NativeSession::end_with(out.buf(), 3159, "HY000", text);
            return Err(Next::Close);
        }
        let versions = match frame::read_preamble(input.bytes()) {
            Ok(Some(versions)) => versions,
            Ok(None) => {
                input.request_bytes(PREAMBLE);
                return Err(Next::Wait);
            }
            Err(malformed) => {
                NativeSession::refuse(out.buf(), malformed);
                return Err(Next::Close);
            }
        };
        input.consume(PREAMBLE);
        let mut session = self.listener.connect(Client {
            id: self.peer.id,
            host: self.peer.host(),
            is_local: self.peer.is_local(),
            is_unix,
            is_reserved: self.peer.reserved,
            tls: tls.map(tls_peer),
            cancel: self.peer.cancel.clone(),
            memory: self.peer.memory.clone(),
        });
        let then = session.greet(versions, out.buf());
        self.session = Some(session);
        match then {
            NextAction::Continue => Ok(()),
            _ => Err(Next::Close),
        }
    }
}

/// Runs the complete requests in the input.
fn run_requests(session: &mut NativeSession, input: &mut Input, out: &mut Output) -> Next {
    loop {
        let step = match frame::next(input.bytes(), session.max_body()) {
            Ok(step) => step,
            Err(malformed) => return refuse(out, malformed),
        };
        let (header, body) = match step {
            FrameStep::Frame { header, body } => (header, body),
            FrameStep::NeedMore(missing) => {
                let want = input.len().saturating_add(missing);
                input.request_bytes(want);
                return Next::Wait;
            }
        };
        let end = body.end;
        let start = out.position();
        let was_logged_in = session.is_logged_in();
        let bytes = input.bytes().get(body).unwrap_or_default();
        let mut sink = OutputSink {
            out,
            is_drained: false,
        };
        let answered = session.run(header, bytes, &mut sink);
        let start = if sink.is_drained { 0 } else { start };
        out.defer_from(start, answered.position);
        out.request_done();
        input.consume(end);
        match answered.then {
            NextAction::Continue => {}
            NextAction::Close => {
                if !was_logged_in {
                    metrics::add(Counter::LoginsDenied, 1);
                }
                return Next::Close;
            }
            NextAction::Delay { delay, close } => {
                if close {
                    metrics::add(Counter::LoginsDenied, 1);
                }
                return Next::Delay { delay, close };
            }
        }
        if out.should_yield() {
            return Next::Yield;
        }
    }
}

fn refuse(out: &mut Output, malformed: Malformed) -> Next {
    NativeSession::refuse(out.buf(), malformed);
    Next::Close
}

impl Session for NativeConnection {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        if self.session.is_none()
            && let Err(next) = self.begin(input, out)
        {
            return next;
        }
        match &mut self.session {
            Some(session) => run_requests(session, input, out),
            None => Next::Close,
        }
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        let (code, sqlstate, text) = match end {
            End::Eof | End::RequestTimeout | End::IdleTimeout | End::LoginTimeout => return,
            End::Killed => (3169, "HY000", "The session was killed."),
            End::Shutdown => (1053, "08S01", "Server shutdown in progress"),
            End::UnknownOutcome => (
                1180,
                "HY000",
                "commit outcome unknown: the log could not be synced; the last changes may or may not survive a restart",
            ),
            End::InternalError => (1105, "HY000", "Internal error"),
        };
        NativeSession::end_with(out.buf(), code, sqlstate, text);
    }

    fn logged_in(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(NativeSession::is_logged_in)
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle
    }

    fn holds_locks(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(NativeSession::holds_locks)
    }
}
