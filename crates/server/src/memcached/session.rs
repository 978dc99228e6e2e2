//! A connection of the memcached listener.
//!
//! The first byte tells the dialect. All complete requests that have arrived
//! are carried out one after the other, and their replies leave in one write.
//! A reply that tells of a commit is held back until the log has it, while
//! later requests are carried out already (transactions.md, rule 19). Reads
//! that stand behind each other are gathered and answered as one batch.
//!
//! Invariants:
//! 1. Replies stand in the order of the requests; a request that wants no
//!    answer takes back everything that it appended.
//! 2. The mapping is the newest one at the start of each batch.
//! 3. No more reads are gathered than would fill a buffer if they are as large
//!    as the last ones ([`Work::gather`]).

use super::ask::{MOST_GATHERED, Plan, Style};
use super::bundle::Bundle;
use super::context::{CommandContext, Done, Failure};
use super::identity::Identity;
use super::live::Current;
use super::login::UNAUTHENTICATED;
use super::{Shared, ascii, binary, flush, get};
use crate::mysql::login::tls_peer;
use crate::net::{End, Input, Next, Output, Peer, Session};
use porpoise_access::TlsPeer;
use porpoise_wire::memcached::binary::{BinaryParser, Head, StatusCode};
use porpoise_wire::memcached::{Dialect, Limits, Parser, binary_reply, reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of answers that reads gathered together should come to.
const GATHERED_BYTES: usize = 256 * 1024;

/// See the module.
pub struct Connection {
    codec: Codec,
    /// Its place among the connections since the start.
    number: u64,
    work: Work,
}

pub(super) enum Codec {
    /// Nothing has arrived yet.
    Unknown,
    Ascii(Parser),
    Binary(BinaryParser),
}

/// Everything but the parser, whose requests borrow the input.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) context: CommandContext,
    pub(super) current: Arc<Current>,
    /// Meta commands that wait for their `mn`.
    pub(super) bundle: Option<Bundle>,
    /// Reads to gather before they are answered.
    gather: usize,
    /// What the connection is encrypted with, once its first request has arrived.
    tls: Option<TlsPeer>,
    peer: Peer,
}

/// How far a batch of requests went.
pub(super) struct ParseProgress {
    /// Bytes done with.
    pub(super) consumed: usize,
    pub(super) next: Next,
    /// Bytes that the next request lacks, where more are waited for.
    pub(super) missing: usize,
}

impl ParseProgress {
    /// It goes on when `missing` more bytes are there.
    pub(super) fn wait(consumed: usize, missing: usize) -> ParseProgress {
        ParseProgress {
            consumed,
            next: Next::Wait,
            missing,
        }
    }

    /// It ends otherwise.
    pub(super) fn end(consumed: usize, next: Next) -> ParseProgress {
        ParseProgress {
            consumed,
            next,
            missing: 0,
        }
    }
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer) -> Connection {
        let figures = &shared.figures;
        figures.connections.fetch_add(1, Ordering::Relaxed);
        let number = figures.total.fetch_add(1, Ordering::Relaxed) + 1;
        let shown = match peer.address {
            Some(address) => format!("tcp:{address}"),
            None => "unix".to_owned(),
        };
        figures.open.add(number, shown);
        let current = shared.live.load();
        let identity = Identity::new(shared.authentication.clone(), peer.host());
        Connection {
            codec: Codec::Unknown,
            number,
            work: Work {
                context: CommandContext::new(shared.clone(), identity, peer.cancel.clone()),
                tls: None,
                current,
                bundle: None,
                gather: MOST_GATHERED,
                shared,
                peer,
            },
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let figures = &self.work.shared.figures;
        figures.connections.fetch_sub(1, Ordering::Relaxed);
        figures.open.remove(self.number);
    }
}

impl Session for Connection {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        let work = &mut self.work;
        if let Some(next) = work.encrypt(&self.codec, input.bytes().first(), out) {
            return next;
        }
        work.shared.live.renew(&mut work.current);
        let bytes = input.bytes();
        let took = loop {
            match (&mut self.codec, bytes.first()) {
                (Codec::Ascii(parser), _) => break ascii::take(parser, work, bytes, out),
                (Codec::Binary(parser), _) => break binary::take(parser, work, bytes, out),
                (Codec::Unknown, None) => break ParseProgress::wait(0, 1),
                (Codec::Unknown, Some(first)) => {
                    let limits = work.limits();
                    self.codec = match Dialect::of(*first) {
                        Dialect::Ascii => Codec::Ascii(Parser::new(limits)),
                        Dialect::Binary => Codec::Binary(BinaryParser::new(limits)),
                    };
                }
            }
        };
        work.context.end_batch();
        input.consume(took.consumed);
        if took.missing > 0 {
            let want = input.len().saturating_add(took.missing);
            input.want(want);
        }
        took.next
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        if let Codec::Binary(_) = self.codec {
            // There is no request that a text could answer.
            return;
        }
        let text: &[u8] = match end {
            End::UnknownOutcome => {
                b"SERVER_ERROR commit outcome unknown: the log could not be synced; the last changes may or may not survive a restart\r\n"
            }
            End::InternalError => b"SERVER_ERROR internal error\r\n",
            // Nobody has asked for anything.
            _ => b"",
        };
        out.buf().extend_from_slice(text);
    }

    fn logged_in(&self) -> bool {
        self.work.context.identity.is_authenticated()
    }
}

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

impl Work {
    /// What the client may send now.
    pub(super) fn limits(&self) -> Limits {
        if self.context.identity.is_authenticated() {
            self.shared.limits
        } else {
            UNAUTHENTICATED
        }
    }

    /// Begins TLS where the client does, and refuses clients that do not where it is
    /// required; then decides the account of the connection until it authenticates. `None`
    /// when requests can be carried out, or nothing has arrived.
    fn encrypt(&mut self, codec: &Codec, first: Option<&u8>, out: &mut Output) -> Option<Next> {
        if !matches!(codec, Codec::Unknown) {
            return None;
        }
        let settings = self.shared.authentication.clone();
        let first = first?;
        let tls = out.tls();
        match (&tls, &settings.tls, first) {
            (None, Some(config), &TLS_HANDSHAKE) => {
                return Some(Next::StartTls(config.clone()));
            }
            (None, ..) if settings.require_tls && self.peer.address.is_some() => {
                refuse_plain(*first, out);
                return Some(Next::Close);
            }
            _ => {}
        }
        let certificate = tls.as_ref().and_then(|tls| tls.certificate.as_deref());
        let names = certificate.and_then(crate::certificate::names);
        self.tls = tls.map(tls_peer);
        let identity = &mut self.context.identity;
        identity.check_default(self.tls.as_ref());
        if let (Some(name), Some(tls)) = (names.and_then(|n| n.common_name), &self.tls) {
            identity.by_certificate(&name, tls);
        }
        None
    }

    /// What the connection is encrypted with.
    pub(super) fn tls(&self) -> Option<&TlsPeer> {
        self.tls.as_ref()
    }

    /// Whether the client is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.peer.is_local()
    }

    /// Whether the reads gathered should be answered before another joins.
    #[inline]
    fn is_gathered(&self, plan: &Plan<'_>) -> bool {
        plan.len() >= self.gather
    }

    /// Answers the reads gathered when there are enough of them, or others wait for their
    /// turn; `None`: the next request follows.
    #[inline]
    pub(super) fn answer_gathered(
        &mut self,
        plan: &mut Plan<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        if !self.is_gathered(plan) && !out.should_yield() {
            return None;
        }
        if !self.answer(plan, out) {
            return Some(Next::Close);
        }
        out.should_yield().then_some(Next::Yield)
    }

    /// Answers the reads gathered; false when the connection must end.
    #[inline]
    pub(super) fn answer(&mut self, plan: &mut Plan<'_>, out: &mut Output) -> bool {
        if plan.is_empty() {
            return true;
        }
        let start = out.position();
        let (context, current) = (&mut self.context, &mut self.current);
        let goes_on = get::answer(context, current, plan, out, refuse);
        for _ in 0..plan.len() {
            out.request_done();
        }
        let each = out.position().saturating_sub(start) / plan.len();
        self.gather = (GATHERED_BYTES / each.max(1)).clamp(1, MOST_GATHERED);
        plan.clear();
        goes_on
    }

    /// Carries out `flush_all`.
    pub(super) fn flush(&mut self, delay: i64) -> Done<()> {
        let from = match self.peer.address {
            Some(address) => address.to_string(),
            None => "a local socket".to_owned(),
        };
        flush::flush_or_schedule(&mut self.context, &mut self.current, delay, &from)
    }
}

/// Tells a client without TLS, whose first byte this is, that TLS is required.
fn refuse_plain(first: u8, out: &mut Output) {
    const TEXT: &str = "this listener requires TLS";
    match Dialect::of(first) {
        Dialect::Ascii => reply::client_error(out.buf(), TEXT),
        Dialect::Binary => {
            // The request's head may not have arrived.
            let head = Head {
                opcode: 0,
                opaque: 0,
                quiet: false,
            };
            binary_reply::refusal(out.buf(), &head, StatusCode::Auth, TEXT);
        }
    }
}

/// Answers a read that failed; false when the connection must end.
fn refuse(style: &Style<'_>, failure: &Failure, out: &mut Output) -> bool {
    if !matches!(failure, Failure::Gone) {
        match style {
            Style::Binary(get) => {
                let text = failure.to_string();
                binary_reply::refusal(out.buf(), &get.head, binary::status_of(failure), &text);
            }
            _ => reply::server_error(out.buf(), &failure.to_string()),
        }
    }
    !failure.ends_session()
}

/// Answers a write, held back for what it waits for; false when the connection
/// must end. `show` appends the answer, or nothing where none is wanted; `fail`
/// that of a failure.
pub(super) fn finish<T>(
    done: Done<T>,
    out: &mut Output,
    show: impl FnOnce(T, &mut Vec<u8>),
    fail: impl FnOnce(&Failure, &mut Vec<u8>),
) -> bool {
    let start = out.position();
    let goes_on = match done.outcome {
        Ok(outcome) => {
            show(outcome, out.buf());
            true
        }
        Err(failure) => {
            if !matches!(failure, Failure::Gone) {
                fail(&failure, out.buf());
            }
            !failure.ends_session()
        }
    };
    // Also where nothing is answered: what follows, the end of the connection
    // included, tells that the command was done.
    out.hold_from(start, done.ticket);
    goes_on
}
