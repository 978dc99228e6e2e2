//! Authentication of memcached connections, in each dialect.
//!
//! * ASCII and meta, if no default account is configured: the first command is a `set` whose value
//!   is `user password`; key, flags and expiry time are ignored. The reply is `STORED` or
//!   `CLIENT_ERROR authentication failure` (memcached's `-Y`).
//! * Binary, at any time: SASL PLAIN (RFC 4616). A client that authenticates later changes
//!   its account.
//! * Both: a client certificate whose common name is an account that requires one.
//!
//! Invariants:
//! 1. Before authentication only `version` and `quit` (binary: also SASL) are executed, and
//!    requests longer than [`UNAUTHENTICATED_LIMITS`] are rejected.
//! 2. After [`crate::context::identity::MAX_FAILURES`] failures the connection closes; every reply
//!    to a failure is delayed as over MySQL's protocol.

use crate::connection::ConnectionState;
use crate::context::identity::Attempt;
use crate::reply_sink::{Next, ReplySink};
use porpoise_wire::memcached::binary::{self, Request as BinaryRequest};
use porpoise_wire::memcached::binary::{ReplyHeader, StatusCode};
use porpoise_wire::memcached::command::{Change, Mode, Store};
use porpoise_wire::memcached::{Limits, Request, binary_reply, reply};

/// Size limits of requests before authentication.
pub(crate) const UNAUTHENTICATED_LIMITS: Limits = Limits {
    max_value: 1024,
    max_item: 2048,
    max_line: 2048,
};

/// The only SASL mechanism.
const PLAIN: &str = "PLAIN";

/// The connection's next action after a request that was handled here.
pub(crate) enum LoginStep {
    /// The next request is processed.
    Continue,
    /// The connection continues, or ends, in this way.
    Next(Next),
}

fn login_step(attempt: Attempt) -> LoginStep {
    let Attempt { delay, close, .. } = attempt;
    if !delay.is_zero() {
        LoginStep::Next(Next::Delay { delay, close })
    } else if close {
        LoginStep::Next(Next::Close)
    } else {
        LoginStep::Continue
    }
}

impl ConnectionState {
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Attempt {
        let (tls, local) = (self.tls().cloned(), self.is_local());
        let identity = &mut self.context.identity;
        identity.authenticate(user, password, tls.as_ref(), local)
    }

    /// Handles a request of a client that is not authenticated.
    pub(crate) fn handle_unauthenticated(
        &mut self,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> LoginStep {
        match request {
            Request::Version => {
                reply::version(out.buf(), crate::VERSION);
                LoginStep::Continue
            }
            Request::Quit => LoginStep::Next(Next::Close),
            Request::Change {
                change:
                    Change::Store(Store {
                        mode: Mode::Set,
                        compare: None,
                        value,
                        ..
                    }),
                ..
            } => {
                let mut words = value.splitn(2, |b| *b == b' ');
                let (user, password) = (words.next(), words.next());
                let attempt =
                    self.authenticate(user.unwrap_or_default(), password.unwrap_or_default());
                let text: &[u8] = if attempt.granted {
                    b"STORED\r\n"
                } else {
                    b"CLIENT_ERROR authentication failure\r\n"
                };
                out.buf().extend_from_slice(text);
                login_step(attempt)
            }
            _ => {
                reply::client_error(out.buf(), "unauthenticated");
                LoginStep::Continue
            }
        }
    }

    /// Handles SASL requests, and all requests of a client that is not authenticated; `None`: the
    /// request is an ordinary one and may be executed.
    pub(crate) fn binary_login(
        &mut self,
        request: &BinaryRequest<'_>,
        out: &mut impl ReplySink,
    ) -> Option<LoginStep> {
        match request {
            BinaryRequest::SaslMechanisms(head) => {
                binary_reply::version(out.buf(), head, PLAIN);
                Some(LoginStep::Continue)
            }
            BinaryRequest::SaslAuth {
                mechanism,
                response,
                head,
            } => Some(self.sasl(mechanism, response, head, out)),
            _ if self.context.identity.is_authenticated() => None,
            BinaryRequest::Version(_) | BinaryRequest::Quit(_) => None,
            other => {
                binary_reply::status(out.buf(), &head_of(other), StatusCode::Auth);
                Some(LoginStep::Continue)
            }
        }
    }

    fn sasl(
        &mut self,
        mechanism: &[u8],
        response: &[u8],
        head: &ReplyHeader,
        out: &mut impl ReplySink,
    ) -> LoginStep {
        let mut parts = response.splitn(3, |b| *b == 0);
        let (_authorization, user, password) = (parts.next(), parts.next(), parts.next());
        let (Some(user), Some(password)) = (user, password) else {
            binary_reply::status(out.buf(), head, StatusCode::Auth);
            return LoginStep::Continue;
        };
        if mechanism != PLAIN.as_bytes() {
            binary_reply::status(out.buf(), head, StatusCode::Auth);
            return LoginStep::Continue;
        }
        let attempt = self.authenticate(user, password);
        if attempt.granted {
            binary_reply::version(out.buf(), head, "Authenticated");
        } else {
            binary_reply::status(out.buf(), head, StatusCode::Auth);
        }
        login_step(attempt)
    }
}

/// Returns the header fields of a request that its reply repeats.
fn head_of(request: &binary::Request<'_>) -> ReplyHeader {
    match request {
        BinaryRequest::Get(get)
        | BinaryRequest::GetAndTouch(get, _)
        | BinaryRequest::Touch(get, _) => get.head,
        BinaryRequest::Change(_, head)
        | BinaryRequest::Flush { head, .. }
        | BinaryRequest::Stat { head, .. }
        | BinaryRequest::Noop(head)
        | BinaryRequest::Version(head)
        | BinaryRequest::Quit(head)
        | BinaryRequest::SaslMechanisms(head)
        | BinaryRequest::SaslAuth { head, .. } => *head,
    }
}
