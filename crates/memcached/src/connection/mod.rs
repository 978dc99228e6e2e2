//! A connection of the memcached listener.
//!
//! The first byte selects the dialect. All complete requests that have arrived are executed one
//! after the other, and their replies are sent in one write. A reply that reveals a commit is
//! deferred until the commit is durable, while later requests are executed already
//! (transactions.md, rule 19). Consecutive reads are answered as one batch, and consecutive changes
//! are executed together.
//!
//! Invariants:
//! 1. Replies have the order of the requests; a request without a reply (`noreply`, quiet mode)
//!    removes everything that it appended.
//! 2. The mapping is the newest one at the start of each batch.
//! 3. A batch has at most as many reads as fill [`TARGET_BATCH_BYTES`] if their replies are as
//!    large as those of the previous batch ([`ConnectionState::max_batch_reads`]).

mod ascii;
mod binary;
mod login;
mod meta;
mod meta_transaction;

use crate::command_statistics::Verb;
use crate::commands::{flush, several};
use crate::context::identity::Identity;
use crate::context::{CommandContext, Done, Failure, ListenerState};
use crate::mapping::mapping_cache::CurrentMapping;
use crate::read;
use crate::read::request::{MAX_BATCHED_READS, ReadBatch, ReadRequest, Style};
use crate::reply_sink::{Next, ReplySink};
use crate::sampled_command::{self, SampledCommand};
use login::UNAUTHENTICATED_LIMITS;
use meta_transaction::MetaTransaction;
use porpoise_access::TlsPeer;
use porpoise_base::cancel::Cancel;
use porpoise_rows::Db;
use porpoise_wire::memcached::binary::{BinaryParser, ReplyHeader, StatusCode};
use porpoise_wire::memcached::command::{Change, Outcome};
use porpoise_wire::memcached::meta::ReplyFormat;
use porpoise_wire::memcached::{Dialect, Limits, Parser, binary_reply, meta_reply, reply};
use smallvec::SmallVec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Target size in bytes of the replies to one batch of reads.
const TARGET_BATCH_BYTES: usize = 256 * 1024;

/// The client of a new connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address; `None` on a Unix socket.
    pub address: Option<SocketAddr>,
    /// Its host, in the form of account host patterns.
    pub host: String,
    /// Whether the client is on this machine.
    pub is_local: bool,
    /// Cancels waits of the connection's commands.
    pub cancel: Cancel,
}

/// See the module.
pub struct Connection {
    codec: Codec,
    /// Number of the connection since the start of the server.
    number: u64,
    state: ConnectionState,
}

enum Codec {
    /// Nothing has arrived yet.
    Unknown,
    Ascii(Parser),
    Binary(BinaryParser),
}

/// Everything but the parser, whose requests borrow the input.
pub(crate) struct ConnectionState {
    pub(crate) shared: Arc<ListenerState>,
    pub(crate) context: CommandContext,
    pub(crate) current: Arc<CurrentMapping>,
    /// Meta commands that wait for their `mn`.
    pub(crate) transaction: Option<MetaTransaction>,
    /// Maximum number of reads in the next batch.
    max_batch_reads: usize,
    /// Properties of the encryption, once the first request has arrived.
    tls: Option<TlsPeer>,
    client: Client,
}

/// Progress in parsing a batch of requests.
pub struct ParseProgress {
    /// Number of bytes consumed.
    pub consumed: usize,
    /// The connection's next action.
    pub next: Next,
    /// Number of bytes that the next request lacks, if it is incomplete.
    pub missing: usize,
}

impl ParseProgress {
    /// Returns the progress that waits for `missing` more bytes.
    pub(crate) fn wait(consumed: usize, missing: usize) -> ParseProgress {
        ParseProgress {
            consumed,
            next: Next::Wait,
            missing,
        }
    }

    /// Returns the progress that ends the batch with this action.
    pub(crate) fn end(consumed: usize, next: Next) -> ParseProgress {
        ParseProgress {
            consumed,
            next,
            missing: 0,
        }
    }
}

impl Connection {
    pub(crate) fn new(shared: Arc<ListenerState>, client: Client) -> Connection {
        let figures = &shared.statistics;
        figures.connections.fetch_add(1, Ordering::Relaxed);
        let number = figures.total.fetch_add(1, Ordering::Relaxed) + 1;
        let peer = match client.address {
            Some(address) => format!("tcp:{address}"),
            None => "unix".to_owned(),
        };
        figures.open.add(number, peer);
        let current = shared.mapping.load();
        let identity = Identity::new(shared.authentication.clone(), client.host.clone());
        Connection {
            codec: Codec::Unknown,
            number,
            state: ConnectionState {
                context: CommandContext::new(shared.clone(), identity, client.cancel.clone()),
                tls: None,
                current,
                transaction: None,
                max_batch_reads: MAX_BATCHED_READS,
                shared,
                client,
            },
        }
    }

    /// Selects the account of the connection until it authenticates; called before the first
    /// request. `tls` has the properties of the connection's encryption, `None` if it is not
    /// encrypted. `common_name` is the common name in the client's verified certificate.
    pub fn begin(&mut self, tls: Option<TlsPeer>, common_name: Option<&str>) {
        let state = &mut self.state;
        state.tls = tls;
        let identity = &mut state.context.identity;
        identity.check_default(state.tls.as_ref());
        if let (Some(name), Some(tls)) = (common_name, &state.tls) {
            identity.authenticate_by_certificate(name, tls);
        }
    }

    /// Executes the complete requests at the start of `bytes` and appends their replies.
    pub fn run_requests(&mut self, bytes: &[u8], out: &mut impl ReplySink) -> ParseProgress {
        let state = &mut self.state;
        state.shared.mapping.renew(&mut state.current);
        if let (Codec::Unknown, Some(first)) = (&self.codec, bytes.first()) {
            let limits = state.limits();
            self.codec = match Dialect::of(*first) {
                Dialect::Ascii => Codec::Ascii(Parser::new(limits)),
                Dialect::Binary => Codec::Binary(BinaryParser::new(limits)),
            };
        }
        let progress = match &mut self.codec {
            Codec::Ascii(parser) => ascii::run_requests(parser, state, bytes, out),
            Codec::Binary(parser) => binary::run_requests(parser, state, bytes, out),
            Codec::Unknown => ParseProgress::wait(0, 1),
        };
        state.context.end_batch();
        progress
    }

    /// Whether the client speaks the binary dialect.
    pub fn is_binary(&self) -> bool {
        matches!(self.codec, Codec::Binary(_))
    }

    /// Whether the connection has an account.
    pub fn is_authenticated(&self) -> bool {
        self.state.context.identity.is_authenticated()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let figures = &self.state.shared.statistics;
        figures.connections.fetch_sub(1, Ordering::Relaxed);
        figures.open.remove(self.number);
    }
}

/// Maximum number of changes that are executed together.
const MAX_GATHERED_CHANGES: usize = 64;

/// Number of bytes of requests from which on gathered changes are executed.
const MAX_GATHERED_BYTES: usize = 256 * 1024;

/// Form of the reply to a change.
#[derive(Clone, Copy)]
pub(crate) enum ChangeReply<'a> {
    /// An ASCII command.
    Ascii {
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// A meta command.
    Meta(ReplyFormat<'a>),
    /// A request of the binary dialect.
    Binary(ReplyHeader),
}

impl ChangeReply<'_> {
    /// Appends the reply, as [`finish`] does. Returns false if the connection must end.
    pub(crate) fn finish(&self, done: Done<Outcome>, out: &mut impl ReplySink, db: &Db) -> bool {
        finish(
            done,
            out,
            |outcome, buf| match self {
                ChangeReply::Ascii { noreply: true } => {}
                ChangeReply::Ascii { noreply: false } => reply::outcome(buf, &outcome),
                ChangeReply::Meta(format) => {
                    let now = db.clock().unix_micros().div_euclid(1_000_000);
                    meta_reply::outcome(buf, format, &outcome, now);
                }
                ChangeReply::Binary(head) => binary_reply::outcome(buf, head, &outcome),
            },
            |failure, buf| match self {
                ChangeReply::Ascii { noreply: true } => {}
                ChangeReply::Ascii { .. } | ChangeReply::Meta(_) => ascii::fail(failure, buf),
                ChangeReply::Binary(head) => binary::fail(head, failure, buf),
            },
        )
    }
}

/// Consecutive requests of one kind that are answered together.
#[derive(Default)]
pub(crate) struct Gathered<'a> {
    reads: ReadBatch<'a>,
    changes: SmallVec<[Change<'a>; 2]>,
    /// For each change, the form of its reply.
    forms: SmallVec<[ChangeReply<'a>; 2]>,
    /// Bytes of the changes' requests.
    change_bytes: usize,
}

impl ConnectionState {
    /// Size limits of the client's requests.
    pub(crate) fn limits(&self) -> Limits {
        if self.context.identity.is_authenticated() {
            self.shared.limits
        } else {
            UNAUTHENTICATED_LIMITS
        }
    }

    /// Properties of the connection's encryption.
    pub(crate) fn tls(&self) -> Option<&TlsPeer> {
        self.tls.as_ref()
    }

    /// Whether the client is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.client.is_local
    }

    /// Whether the gathered requests should be answered before another one joins them.
    #[inline]
    fn is_ready(&self, gathered: &Gathered<'_>) -> bool {
        gathered.reads.len() >= self.max_batch_reads
            || gathered.changes.len() >= MAX_GATHERED_CHANGES
            || gathered.change_bytes >= MAX_GATHERED_BYTES
    }

    /// Answers the gathered requests if they are enough, or if other connections wait for their
    /// turn; `None`: the next request is processed.
    #[inline]
    pub(crate) fn answer_if_ready(
        &mut self,
        gathered: &mut Gathered<'_>,
        out: &mut impl ReplySink,
    ) -> Option<Next> {
        if !self.is_ready(gathered) && !out.should_yield() {
            return None;
        }
        if !self.answer(gathered, out) {
            return Some(Next::Close);
        }
        out.should_yield().then_some(Next::Yield)
    }

    /// Gathers a read. Returns false if the connection must end.
    #[inline]
    pub(crate) fn gather_read<'a>(
        &mut self,
        gathered: &mut Gathered<'a>,
        read: ReadRequest<'a>,
        out: &mut impl ReplySink,
    ) -> bool {
        if !self.answer_changes(gathered, out) {
            return false;
        }
        gathered.reads.push(read);
        true
    }

    /// Gathers a change whose request has `bytes` bytes. Returns false if the connection must end.
    #[inline]
    pub(crate) fn gather_change<'a>(
        &mut self,
        gathered: &mut Gathered<'a>,
        (change, form): (Change<'a>, ChangeReply<'a>),
        bytes: usize,
        out: &mut impl ReplySink,
    ) -> bool {
        if !self.answer_reads(&mut gathered.reads, out) {
            return false;
        }
        gathered.changes.push(change);
        gathered.forms.push(form);
        gathered.change_bytes += bytes;
        true
    }

    /// Answers the gathered requests. Returns false if the connection must end.
    #[inline]
    pub(crate) fn answer(&mut self, gathered: &mut Gathered<'_>, out: &mut impl ReplySink) -> bool {
        self.answer_reads(&mut gathered.reads, out) && self.answer_changes(gathered, out)
    }

    /// Executes the gathered changes and replies to them. Returns false if the connection must end;
    /// then the changes after the failed one are not executed.
    fn answer_changes(&mut self, gathered: &mut Gathered<'_>, out: &mut impl ReplySink) -> bool {
        if gathered.changes.is_empty() {
            return true;
        }
        let db = self.shared.db.clone();
        let mut forms = gathered.forms.iter();
        let reply = &mut |done| {
            let Some(form) = forms.next() else {
                return false;
            };
            let continues = form.finish(done, out, &db);
            out.request_done();
            out.send_if_detached();
            continues
        };
        let (context, current) = (&mut self.context, &mut self.current);
        let continues = several::apply(context, current, &gathered.changes, reply);
        gathered.changes.clear();
        gathered.forms.clear();
        gathered.change_bytes = 0;
        continues
    }

    /// Answers the batch of reads. Returns false if the connection must end.
    #[inline]
    pub(crate) fn answer_reads(
        &mut self,
        batch: &mut ReadBatch<'_>,
        out: &mut impl ReplySink,
    ) -> bool {
        if batch.is_empty() {
            return true;
        }
        let start = out.position();
        let requests = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let sampled = sampled_command::begin(&self.shared.db, requests);
        let (context, current) = (&mut self.context, &mut self.current);
        let continues = read::answer(context, current, batch, out, refuse);
        if let Some((at, began)) = sampled {
            let mut keys = batch.get(at as usize).map(|request| request.keys);
            if let Some(key) = keys.as_mut().and_then(Iterator::next) {
                let sampled = SampledCommand {
                    verb: Verb::Get,
                    key,
                    began,
                    commands: requests,
                };
                sampled.note(&self.current.mapping, &self.shared.db);
            }
        }
        for _ in 0..batch.len() {
            out.request_done();
        }
        let reply_bytes = out.position().saturating_sub(start) / batch.len();
        self.max_batch_reads =
            (TARGET_BATCH_BYTES / reply_bytes.max(1)).clamp(1, MAX_BATCHED_READS);
        batch.clear();
        continues
    }

    /// Executes `flush_all`.
    pub(crate) fn flush(&mut self, delay: i64) -> Done<()> {
        let from = match self.client.address {
            Some(address) => address.to_string(),
            None => "a local socket".to_owned(),
        };
        flush::flush_or_schedule(&mut self.context, &mut self.current, delay, &from)
    }
}

/// Appends the error for a client without TLS if TLS is required; `first` is its first byte.
pub fn tls_required(first: u8, out: &mut Vec<u8>) {
    const TEXT: &str = "this listener requires TLS";
    match Dialect::of(first) {
        Dialect::Ascii => reply::client_error(out, TEXT),
        Dialect::Binary => {
            // The header of the request may not have arrived completely.
            let head = ReplyHeader {
                opcode: 0,
                opaque: 0,
                quiet: false,
            };
            binary_reply::status_with_text(out, &head, StatusCode::Auth, TEXT);
        }
    }
}

/// Replies to a failed read. Returns false if the connection must end.
fn refuse(style: &Style<'_>, failure: &Failure, out: &mut impl ReplySink) -> bool {
    if !matches!(failure, Failure::Gone) {
        match style {
            Style::Binary(get) => {
                let text = failure.to_string();
                binary_reply::status_with_text(
                    out.buf(),
                    &get.head,
                    binary::status_of(failure),
                    &text,
                );
            }
            _ => reply::server_error(out.buf(), &failure.to_string()),
        }
    }
    !failure.ends_session()
}

/// Replies to a write, deferred until the write is durable. Returns false if the connection must
/// end. `show` appends the reply, or nothing if the client wants none; `fail` appends an error.
pub(crate) fn finish<T>(
    done: Done<T>,
    out: &mut impl ReplySink,
    show: impl FnOnce(T, &mut Vec<u8>),
    fail: impl FnOnce(&Failure, &mut Vec<u8>),
) -> bool {
    let start = out.position();
    let continues = match done.outcome {
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
    // Deferred even without a reply: later output, or the end of the connection, reveals that the
    // command was executed.
    out.defer_from(start, done.position);
    continues
}
