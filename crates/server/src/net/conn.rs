//! One connection: socket, unread input, unsent output, session.

use super::budget::Budget;
use super::door::{Door, End, Next, Peer, Session};
use super::group::{Group, Token};
use super::input::Input;
use super::output::Output;
use crate::metrics::{self, Counter};
use porpoise_base::cancel::Cancel;
use porpoise_base::threads::panic_message;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a session is called for.
pub(crate) enum Call {
    /// The connection is new.
    Open(Arc<dyn Door>, Box<Peer>),
    /// There is input.
    Input,
    /// It ends.
    End(End),
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// As the session said.
    Next(Next),
    /// The session has had its last call.
    Ended,
}

/// See the module.
pub(crate) struct Conn {
    pub(super) token: Token,
    pub(super) id: u64,
    pub(super) group: Arc<Group>,
    pub(super) session: Option<Box<dyn Session>>,
    pub(super) input: Input,
    pub(super) out: Output,
    pub(super) cancel: Cancel,
    /// The session has ended; the connection closes when all is sent.
    pub(super) closing: bool,
    /// Our side is shut down; waiting for the client's.
    pub(super) lingering: bool,
    /// The client sends nothing any more.
    pub(super) eof: bool,
    /// The session yielded with requests left.
    pub(super) more: bool,
    /// Counted among those that have not logged in.
    pub(super) before_login: bool,
    /// Kept for an administrator: never deferred.
    pub(super) reserved: bool,
    /// The budget of its listener.
    pub(super) budget: Arc<Budget>,
    /// Until then its requests count as long ones, for the last call of its
    /// session computed for long.
    pub(super) long_until: u64,
    /// The socket is watched for room to write.
    pub(super) watching_room: bool,
    /// Nothing is sent or read before this time; 0: no delay.
    pub(super) delayed_until: u64,
    /// The group's heap of held replies knows this ticket.
    pub(super) waiting_for: u64,
    /// Times in the server's milliseconds; 0 is never.
    pub(super) opened: u64,
    /// When its TLS handshake began.
    pub(super) handshake_since: u64,
    pub(super) request_since: u64,
    pub(super) blocked_since: u64,
    pub(super) linger_until: u64,
}

impl Conn {
    /// Calls the session; a panic ends it and nothing else.
    pub(super) fn call(&mut self, call: Call) -> Verdict {
        match catch_unwind(AssertUnwindSafe(|| self.call_unguarded(call))) {
            Ok(verdict) => verdict,
            Err(panic) => {
                self.report(&*panic);
                Verdict::Ended
            }
        }
    }

    fn call_unguarded(&mut self, call: Call) -> Verdict {
        match call {
            Call::Open(door, peer) => {
                self.session = Some(door.open(*peer, &mut self.out));
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

    /// Tells the log and the client of a panic.
    fn report(&mut self, panic: &(dyn Any + Send)) {
        let what = panic_message(panic);
        metrics::add(Counter::PanicsCaught, 1);
        tracing::error!(connection = self.id, "session ended by a panic: {what}");
        if !self.out.take_back_unfinished() {
            return;
        }
        if let Some(session) = &mut self.session {
            let out = &mut self.out;
            let told = catch_unwind(AssertUnwindSafe(|| {
                session.on_end(End::InternalError, out);
            }));
            if told.is_err() {
                self.out.take_back_unfinished();
            }
        }
    }
}
