//! The ASCII dialect of a connection: from requests to commands, from their
//! outcomes to lines. Meta commands are in [`super::meta`].

use super::ask::{Ask, AskKeys, Plan, Style};
use super::context::Failure;
use super::login::Handled;
use super::session::{ParseProgress, Work, finish};
use super::stats::{self, Answer};
use super::{apply, touch};
use crate::net::{Next, Output};
use porpoise_wire::memcached::{Fault, Keys, Parsed, Parser, Request, reply};

/// Least megabytes that memcached lets itself be limited to.
const LEAST_CACHE: u64 = 8;

/// Takes all complete requests of some bytes.
pub(super) fn take(
    parser: &mut Parser,
    work: &mut Work,
    bytes: &[u8],
    out: &mut Output,
) -> ParseProgress {
    let mut at = 0;
    let mut plan = Plan::new();
    loop {
        if let Some(next) = work.answer_gathered(&mut plan, out) {
            return ParseProgress::end(at, next);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let (consumed, goes_on) = match parser.parse(rest) {
            Parsed::NeedMore(missing) => {
                if !work.answer(&mut plan, out) {
                    return ParseProgress::end(at, Next::Close);
                }
                return ParseProgress::wait(at, missing);
            }
            Parsed::Swallow { consumed } => {
                at += consumed;
                continue;
            }
            Parsed::Request { request, consumed } if !work.context.identity.is_authenticated() => {
                let handled = work.unauthenticated(&request, out);
                parser.set_limits(work.limits());
                at += consumed;
                out.request_done();
                if let Handled::Next(next) = handled {
                    return ParseProgress::end(at, next);
                }
                continue;
            }
            Parsed::Request { request, consumed } => {
                if work.bundle.is_none()
                    && let Some(ask) = ask(&request)
                {
                    plan.push(ask);
                    at += consumed;
                    continue;
                }
                let raw = rest.get(..consumed).unwrap_or_default();
                let goes_on = work.answer(&mut plan, out) && work.carry_out(request, raw, out);
                (consumed, goes_on)
            }
            Parsed::Refused {
                fault,
                silent,
                consumed,
                ..
            } => {
                let goes_on = work.answer(&mut plan, out) && work.refuse(fault, silent, out);
                (consumed, goes_on)
            }
        };
        at += consumed;
        out.request_done();
        if !goes_on {
            return ParseProgress::end(at, Next::Close);
        }
    }
}

/// A request as a read that can be gathered.
#[inline]
fn ask<'a>(request: &Request<'a>) -> Option<Ask<'a>> {
    match request {
        Request::Get {
            keys,
            cas,
            touch: None,
        } => Some(Ask {
            keys: AskKeys::Several(*keys),
            style: Style::Ascii { cas: *cas },
        }),
        Request::Meta(meta) => super::meta::ask(meta),
        _ => None,
    }
}

/// Answers a failure.
pub(super) fn fail(failure: &Failure, out: &mut Vec<u8>) {
    reply::server_error(out, &failure.to_string());
}

impl Work {
    /// Answers a refused line; false when the connection must end.
    fn refuse(&mut self, fault: Fault, silent: bool, out: &mut Output) -> bool {
        if !silent {
            out.buf().extend_from_slice(fault.reply());
        }
        if let Some(bundle) = &mut self.bundle {
            bundle.spoil();
        }
        !fault.closes()
    }

    /// Carries out a request; false when the connection must end. `raw` are
    /// its bytes.
    fn carry_out(&mut self, request: Request<'_>, raw: &[u8], out: &mut Output) -> bool {
        if let Request::Meta(meta) = &request {
            return self.meta(meta, raw, out);
        }
        if let Some(bundle) = &mut self.bundle {
            bundle.spoil();
            let text = "only meta commands are allowed between mn begin and mn";
            reply::client_error(out.buf(), text);
            return true;
        }
        if let Some((change, noreply)) = request.change() {
            let done = apply::apply(&mut self.context, &mut self.current, &change);
            return finish(
                done,
                out,
                |outcome, buf| {
                    if !noreply {
                        reply::outcome(buf, &outcome);
                    }
                },
                |failure, buf| {
                    if !noreply {
                        fail(failure, buf);
                    }
                },
            );
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
            other => self.about_the_server(other, out),
        }
    }

    fn about_the_server(&mut self, request: Request<'_>, out: &mut Output) -> bool {
        let buf = out.buf();
        match request {
            Request::Stats { args } => {
                let end = stats::answer(&self.shared, args, &mut |name, value| {
                    reply::stat(buf, name, value);
                });
                match end {
                    Answer::Figures => buf.extend_from_slice(reply::END),
                    Answer::Text(text) => buf.extend_from_slice(text),
                    Answer::Unknown => buf.extend_from_slice(reply::ERROR),
                }
            }
            Request::Version => reply::version(buf, super::VERSION),
            Request::Verbosity { noreply, .. } => ok(noreply, buf),
            // Rows are not a cache: there is nothing to shrink.
            Request::CacheLimit { megabytes, noreply } => {
                if megabytes >= LEAST_CACHE {
                    ok(noreply, buf);
                } else if !noreply {
                    buf.extend_from_slice(reply::CACHE_TOO_SMALL);
                }
            }
            Request::Quit => return false,
            _ => buf.extend_from_slice(reply::ERROR),
        }
        true
    }

    fn get_and_touch(&mut self, keys: Keys<'_>, cas: bool, exptime: i64, out: &mut Output) -> bool {
        let (context, current) = (&mut self.context, &mut self.current);
        let list: Vec<&[u8]> = keys.collect();
        let done = touch::get_and_touch(context, current, &list, exptime);
        let show = |rows: Vec<Option<touch::Touched>>, buf: &mut Vec<u8>| {
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

fn ok(noreply: bool, buf: &mut Vec<u8>) {
    if !noreply {
        buf.extend_from_slice(reply::OK);
    }
}
