//! One connection: socket, unread input, unsent output, session.

use super::budget::Budget;
use super::group::{Group, Token};
use super::input::Input;
use super::output::Output;
use super::protocol::{End, Next, Peer, Protocol, Session};
use crate::metrics::{self, Counter};
use porpoise_base::cancel::Cancel;
use porpoise_base::threads::panic_message;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The reason for calling a session.
pub(crate) enum Call {
    /// The connection is new.
    Open(Arc<dyn Protocol>, Box<Peer>),
    /// There is input.
    Input,
    /// The session ends.
    End(End),
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The session's decision.
    Next(Next),
    /// The session has handled its last call.
    Ended,
}

/// One connection; see the module.
pub(crate) struct Conn {
    pub(super) token: Token,
    pub(super) id: u64,
    pub(super) group: Arc<Group>,
    pub(super) session: Option<Box<dyn Session>>,
    pub(super) input: Input,
    pub(super) out: Output,
    pub(super) cancel: Cancel,
    /// Whether the session has ended; the connection closes when all output is sent.
    pub(super) closing: bool,
    /// Whether the connection lingers: the server has shut down its writing side and waits for the
    /// client to close.
    pub(super) lingering: bool,
    /// Whether the client has shut down its writing side.
    pub(super) eof: bool,
    /// Whether the session yielded with requests left.
    pub(super) has_pending_requests: bool,
    /// Whether the client has not logged in.
    pub(super) before_login: bool,
    /// Whether this is the connection reserved for an administrator: it is never deferred.
    pub(super) reserved: bool,
    /// The budget of its listener.
    pub(super) budget: Arc<Budget>,
    /// Time until which its requests are treated as long-running, because the last call of its
    /// session computed for long.
    pub(super) long_until: u64,
    /// Whether the last call of its session lost the event loop: it waited, or computed for long.
    pub(super) last_call_was_detached: bool,
    /// Whether epoll watches the socket for space to write.
    pub(super) is_watching_writable: bool,
    /// Nothing is sent or read before this time; 0: no delay.
    pub(super) delayed_until: u64,
    /// Commit position of its entry in the group's heap of connections with deferred replies; 0: no
    /// entry.
    pub(super) waiting_for: u64,
    /// Time of acceptance. Times are in the server's milliseconds; 0 is never.
    pub(super) opened: u64,
    /// Start of its TLS handshake.
    pub(super) handshake_since: u64,
    /// Arrival of the first byte of an incomplete request.
    pub(super) request_since: u64,
    /// Time of the last progress in writing, while the socket accepts no more.
    pub(super) blocked_since: u64,
    /// Time at which a lingering connection is closed.
    pub(super) linger_until: u64,
}

impl Conn {
    /// Calls the session. A panic ends this session only.
    pub(super) fn call(&mut self, call: Call) -> Verdict {
        match catch_unwind(AssertUnwindSafe(|| self.call_unguarded(call))) {
            Ok(verdict) => verdict,
            Err(panic) => {
                self.report_panic(&*panic);
                Verdict::Ended
            }
        }
    }

    /// Calls the session without catching panics.
    fn call_unguarded(&mut self, call: Call) -> Verdict {
        match call {
            Call::Open(protocol, peer) => {
                self.session = Some(protocol.open(*peer, &mut self.out));
                Verdict::Next(Next::Wait)
            }
            Call::Input => {
                self.input.begin();
                match &mut self.session {
                    Some(session) => {
                        Verdict::Next(session.on_input(&mut self.input, &mut self.out))
                    }
                    None => Verdict::Ended,
                }
            }
            Call::End(end) => {
                if let Some(session) = &mut self.session {
                    session.on_end(end, &mut self.out);
                }
                Verdict::Ended
            }
        }
    }

    /// Logs a panic, and has the session send an error to the client.
    fn report_panic(&mut self, panic: &(dyn Any + Send)) {
        let what = panic_message(panic);
        metrics::add(Counter::PanicsCaught, 1);
        tracing::error!(
            connection = self.id,
            "internal error (panic): the session was ended: {what}"
        );
        if !self.out.discard_unfinished() {
            return;
        }
        if let Some(session) = &mut self.session {
            let out = &mut self.out;
            let reported = catch_unwind(AssertUnwindSafe(|| {
                session.on_end(End::InternalError, out);
            }));
            if reported.is_err() {
                self.out.discard_unfinished();
            }
        }
    }
}
