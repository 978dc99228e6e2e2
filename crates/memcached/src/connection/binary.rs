//! The binary dialect: converts requests to commands, and outcomes to replies.

use crate::commands::touch;
use crate::connection::login::LoginStep;
use crate::connection::{ChangeReply, ConnectionState, Gathered, ParseProgress, finish};
use crate::context::Failure;
use crate::context::stats::{self, StatsReply};
use crate::read::request::{ReadRequest, Style};
use crate::reply_sink::{Next, ReplySink};
use porpoise_kv as kv;
use porpoise_rows::Error;
use porpoise_wire::memcached::binary::{
    BinaryParser, Get, Parsed, ReplyHeader, Request, StatusCode, opcode,
};
use porpoise_wire::memcached::{binary_reply, reply};

/// Executes all complete requests at the start of `bytes`.
pub(crate) fn run_requests(
    parser: &mut BinaryParser,
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
        let parsed = parser.parse(rest);
        if let Parsed::Request { request, consumed } = &parsed
            && (request.is_login() || !state.context.identity.is_authenticated())
        {
            if !state.answer(&mut gathered, out) {
                return ParseProgress::end(at, Next::Close);
            }
            if let Some(handled) = state.binary_login(request, out) {
                parser.set_limits(state.limits());
                at += consumed;
                out.request_done();
                if let LoginStep::Next(next) = handled {
                    return ParseProgress::end(at, next);
                }
                continue;
            }
        }
        if let Parsed::Request { request, consumed } = &parsed
            && let Some(continues) = state.gather_binary(&mut gathered, request, *consumed, out)
        {
            if !continues {
                return ParseProgress::end(at, Next::Close);
            }
            at += consumed;
            continue;
        }
        if !state.answer(&mut gathered, out) {
            return ParseProgress::end(at, Next::Close);
        }
        let (consumed, continues) = match parsed {
            Parsed::NeedMore(missing) => return ParseProgress::wait(at, missing),
            Parsed::Foreign => return ParseProgress::end(at, Next::Close),
            Parsed::Swallow { consumed } => {
                at += consumed;
                continue;
            }
            Parsed::Request { request, consumed } => {
                (consumed, state.execute_binary(&request, out))
            }
            Parsed::Refused {
                head,
                status,
                consumed,
                closes,
            } => {
                binary_reply::status(out.buf(), &head, status);
                (consumed, !closes)
            }
        };
        at += consumed;
        out.request_done();
        if !continues {
            return ParseProgress::end(at, Next::Close);
        }
    }
}

/// Returns the status code of a failure.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Rows(Error::Kv(
            kv::Error::LockTimeout | kv::Error::Deadlock | kv::Error::Conflict,
        ))
        | Failure::Rows(Error::SnapshotConflict | Error::DefinitionChanged) => {
            StatusCode::Temporary
        }
        Failure::Denied(_) => StatusCode::Auth,
        _ => StatusCode::Internal,
    }
}

/// Appends the reply to a failure, also for a quiet request.
pub(crate) fn fail(head: &ReplyHeader, failure: &Failure, out: &mut Vec<u8>) {
    binary_reply::status_with_text(out, head, status_of(failure), &failure.to_string());
}

impl ConnectionState {
    /// Gathers a request of `bytes` bytes, if it is one that can be answered with others. Returns
    /// false if the connection must end.
    #[inline]
    fn gather_binary<'a>(
        &mut self,
        gathered: &mut Gathered<'a>,
        request: &Request<'a>,
        bytes: usize,
        out: &mut impl ReplySink,
    ) -> Option<bool> {
        match request {
            Request::Get(get) => {
                let read = ReadRequest::one(get.key, Style::Binary(*get));
                Some(self.gather_read(gathered, read, out))
            }
            Request::Change(change, head) => {
                let change = (*change, ChangeReply::Binary(*head));
                Some(self.gather_change(gathered, change, bytes, out))
            }
            _ => None,
        }
    }

    /// Executes a request. Returns false if the connection must end.
    fn execute_binary(&mut self, request: &Request<'_>, out: &mut impl ReplySink) -> bool {
        match request {
            Request::GetAndTouch(get, exptime) | Request::Touch(get, exptime) => {
                self.binary_touch(get, *exptime, out)
            }
            Request::Flush { delay, head } => {
                let done = self.flush(*delay);
                finish(
                    done,
                    out,
                    |(), buf| binary_reply::done(buf, head, 0),
                    |failure, buf| fail(head, failure, buf),
                )
            }
            Request::Stat { key, head } => {
                self.binary_stat(key, head, out.buf());
                true
            }
            Request::Noop(head) => {
                binary_reply::done(out.buf(), head, 0);
                true
            }
            Request::Version(head) => {
                binary_reply::version(out.buf(), head, crate::VERSION);
                true
            }
            Request::Quit(head) => {
                binary_reply::done(out.buf(), head, 0);
                false
            }
            // Handled by `run_requests`.
            Request::SaslMechanisms(head) | Request::SaslAuth { head, .. } => {
                binary_reply::status(out.buf(), head, StatusCode::Unknown);
                true
            }
            // Gathered by `run_requests`.
            Request::Change(_, head) => {
                binary_reply::status(out.buf(), head, StatusCode::Unknown);
                true
            }
            Request::Get(get) => {
                binary_reply::miss(out.buf(), get);
                true
            }
        }
    }

    fn binary_touch(&mut self, get: &Get<'_>, exptime: i64, out: &mut impl ReplySink) -> bool {
        let (context, current) = (&mut self.context, &mut self.current);
        let done = touch::get_and_touch(context, current, &[get.key], exptime);
        let show = |rows: Vec<Option<touch::TouchedRow>>, buf: &mut Vec<u8>| match rows
            .into_iter()
            .next()
            .flatten()
        {
            None => binary_reply::miss(buf, get),
            Some(row) if get.head.opcode == opcode::TOUCH => {
                binary_reply::touched(buf, get, &row.item());
            }
            Some(row) => binary_reply::hit(buf, get, &row.item()),
        };
        finish(done, out, show, |failure, buf| {
            fail(&get.head, failure, buf)
        })
    }

    fn binary_stat(&self, key: &[u8], head: &ReplyHeader, buf: &mut Vec<u8>) {
        let args = key.split(|b| *b == b' ').filter(|word| !word.is_empty());
        let end = stats::answer(&self.shared, args, &mut |name, value| {
            binary_reply::stat(buf, head, name.as_bytes(), value);
        });
        match end {
            StatsReply::ListenerStatistics | StatsReply::Text(reply::RESET) => {
                binary_reply::stat(buf, head, &[], &[]);
            }
            StatsReply::Text(_) | StatsReply::Unknown => {
                binary_reply::status(buf, head, StatusCode::NotFound);
            }
        }
    }
}
