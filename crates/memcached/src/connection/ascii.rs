//! The ASCII dialect: converts requests to commands, and outcomes to reply lines. Meta commands are
//! in [`crate::connection::meta`].

use crate::commands::touch;
use crate::connection::login::LoginStep;
use crate::connection::{ChangeReply, ConnectionState, Gathered, ParseProgress, finish};
use crate::context::Failure;
use crate::context::stats::{self, StatsReply};
use crate::read::request::{ReadRequest, RequestKeys, Style};
use crate::reply_sink::{Next, ReplySink};
use porpoise_wire::memcached::command::Change;
use porpoise_wire::memcached::meta::Meta;
use porpoise_wire::memcached::{Fault, Keys, Parsed, Parser, Request, reply};

/// Minimum of `cache_memlimit` in megabytes, as in memcached.
const MIN_CACHE_MEGABYTES: u64 = 8;

/// Executes all complete requests at the start of `bytes`.
pub(crate) fn run_requests(
    parser: &mut Parser,
    state: &mut ConnectionState,
    bytes: &[u8],
    out: &mut impl ReplySink,
) -> ParseProgress {
    let mut at = 0;
    let mut gathered = Gathered::default();
    loop {
        if let Some(next) = state.answer_if_ready(&mut gathered, out) {
            return ParseProgress::end(at, next);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let (consumed, continues) = match parser.parse(rest) {
            Parsed::NeedMore(missing) => {
                if !state.answer(&mut gathered, out) {
                    return ParseProgress::end(at, Next::Close);
                }
                return ParseProgress::wait(at, missing);
            }
            Parsed::Swallow { consumed } => {
                at += consumed;
                continue;
            }
            Parsed::Request { request, consumed } if !state.context.identity.is_authenticated() => {
                let handled = state.handle_unauthenticated(&request, out);
                parser.set_limits(state.limits());
                at += consumed;
                out.request_done();
                if let LoginStep::Next(next) = handled {
                    return ParseProgress::end(at, next);
                }
                continue;
            }
            Parsed::Request { request, consumed } => {
                match state.gather(&mut gathered, &request, consumed, out) {
                    Some(true) => {
                        at += consumed;
                        continue;
                    }
                    Some(false) => return ParseProgress::end(at, Next::Close),
                    None => {}
                }
                let raw = rest.get(..consumed).unwrap_or_default();
                let continues =
                    state.answer(&mut gathered, out) && state.execute(request, raw, out);
                (consumed, continues)
            }
            Parsed::Refused {
                fault,
                silent,
                consumed,
                ..
            } => {
                let continues =
                    state.answer(&mut gathered, out) && state.refuse(fault, silent, out);
                (consumed, continues)
            }
        };
        at += consumed;
        out.request_done();
        if !continues {
            return ParseProgress::end(at, Next::Close);
        }
    }
}

/// Converts a request to a read request, if it is one that can join a batch.
#[inline]
fn read_request<'a>(request: &Request<'a>) -> Option<ReadRequest<'a>> {
    match request {
        Request::Get {
            keys,
            cas,
            touch: None,
        } => Some(ReadRequest {
            keys: RequestKeys::Several(*keys),
            style: Style::Ascii { cas: *cas },
        }),
        Request::Meta(meta) => crate::connection::meta::read_request(meta),
        _ => None,
    }
}

/// Converts a request to a change and the form of its reply, if it is one that can be gathered.
#[inline]
fn change_request<'a>(request: &Request<'a>) -> Option<(Change<'a>, ChangeReply<'a>)> {
    match request {
        Request::Change { change, noreply } => {
            Some((*change, ChangeReply::Ascii { noreply: *noreply }))
        }
        Request::Meta(Meta::Change(change, format)) if !format.is_base64() => {
            Some((*change, ChangeReply::Meta(*format)))
        }
        _ => None,
    }
}

/// Appends the reply to a failure.
pub(crate) fn fail(failure: &Failure, out: &mut Vec<u8>) {
    reply::server_error(out, &failure.to_string());
}

impl ConnectionState {
    /// Gathers a request of `bytes` bytes, if it is one that can be answered with others. Returns
    /// false if the connection must end.
    #[inline]
    fn gather<'a>(
        &mut self,
        gathered: &mut Gathered<'a>,
        request: &Request<'a>,
        bytes: usize,
        out: &mut impl ReplySink,
    ) -> Option<bool> {
        if self.transaction.is_some() {
            return None;
        }
        if let Some(read) = read_request(request) {
            return Some(self.gather_read(gathered, read, out));
        }
        change_request(request).map(|change| self.gather_change(gathered, change, bytes, out))
    }

    /// Replies to a rejected line. Returns false if the connection must end.
    fn refuse(&mut self, fault: Fault, silent: bool, out: &mut impl ReplySink) -> bool {
        if !silent {
            out.buf().extend_from_slice(fault.reply());
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.mark_failed();
        }
        !fault.closes_connection()
    }

    /// Executes a request, whose bytes are `raw`. Returns false if the connection must end.
    fn execute(&mut self, request: Request<'_>, raw: &[u8], out: &mut impl ReplySink) -> bool {
        if let Request::Meta(meta) = &request {
            return self.meta(meta, raw, out);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.mark_failed();
            let text = "only meta commands are allowed between mn begin and mn";
            reply::client_error(out.buf(), text);
            return true;
        }
        match request {
            Request::Get {
                keys,
                cas,
                touch: Some(exptime),
            } => self.get_and_touch(keys, cas, exptime, out),
            Request::FlushAll { delay, noreply } => {
                let done = self.flush(delay);
                finish(
                    done,
                    out,
                    |(), buf| ok(noreply, buf),
                    |failure, buf| {
                        if !noreply {
                            fail(failure, buf);
                        }
                    },
                )
            }
            other => self.run_server_command(other, out),
        }
    }

    /// Executes a command that accesses no item. Returns false if the connection must end.
    fn run_server_command(&mut self, request: Request<'_>, out: &mut impl ReplySink) -> bool {
        let buf = out.buf();
        match request {
            Request::Stats { args } => {
                let end = stats::answer(&self.shared, args, &mut |name, value| {
                    reply::stat(buf, name, value);
                });
                match end {
                    StatsReply::ListenerStatistics => buf.extend_from_slice(reply::END),
                    StatsReply::Text(text) => buf.extend_from_slice(text),
                    StatsReply::Unknown => buf.extend_from_slice(reply::ERROR),
                }
            }
            Request::Version => reply::version(buf, crate::VERSION),
            Request::Verbosity { noreply, .. } => ok(noreply, buf),
            // No effect: rows are not a cache that could shrink.
            Request::CacheLimit { megabytes, noreply } => {
                if megabytes >= MIN_CACHE_MEGABYTES {
                    ok(noreply, buf);
                } else if !noreply {
                    buf.extend_from_slice(reply::CACHE_TOO_SMALL);
                }
            }
            Request::Quit => return false,
            // Executed by `run_requests`, `execute` or `meta`.
            Request::Get { .. }
            | Request::Change { .. }
            | Request::Meta(_)
            | Request::FlushAll { .. } => buf.extend_from_slice(reply::ERROR),
        }
        true
    }

    fn get_and_touch(
        &mut self,
        keys: Keys<'_>,
        cas: bool,
        exptime: i64,
        out: &mut impl ReplySink,
    ) -> bool {
        let (context, current) = (&mut self.context, &mut self.current);
        let list: Vec<&[u8]> = keys.collect();
        let done = touch::get_and_touch(context, current, &list, exptime);
        let show = |rows: Vec<Option<touch::TouchedRow>>, buf: &mut Vec<u8>| {
            for (key, row) in list.iter().zip(rows) {
                if let Some(row) = row {
                    let version = cas.then_some(row.version);
                    reply::value(buf, key, row.flags, &row.value, version);
                }
            }
            buf.extend_from_slice(reply::END);
        };
        finish(done, out, show, fail)
    }
}

/// Appends `OK`, unless the client wants no reply.
fn ok(noreply: bool, buf: &mut Vec<u8>) {
    if !noreply {
        buf.extend_from_slice(reply::OK);
    }
}
