//! A connection of the memcached door.
//!
//! All complete requests that have arrived are carried out one after the
//! other, and their replies leave in one write. A reply that tells of a commit
//! is held back until the log has it, while later requests are carried out
//! already (transactions.md, rule 19).
//!
//! Invariants:
//! 1. Replies stand in the order of the requests; `noreply` takes back
//!    everything that its request appended, errors included.
//! 2. The mapping is the newest one at the start of each batch.

use super::Shared;
use super::get::{self, Gets};
use super::live::Current;
use super::work::{Desk, Done, Failure};
use super::{apply, flush, stats, touch};
use crate::net::{End, Input, Next, Output, Peer, Session};
use porpoise_wire::memcached::{Fault, Keys, Parsed, Parser, Request, reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// See the module.
pub struct Connection {
    parser: Parser,
    work: Work,
}

/// Everything but the parser, whose requests borrow the input.
struct Work {
    shared: Arc<Shared>,
    desk: Desk,
    current: Arc<Current>,
    peer: Peer,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, peer: Peer) -> Connection {
        let figures = &shared.figures;
        figures.connections.fetch_add(1, Ordering::Relaxed);
        figures.total.fetch_add(1, Ordering::Relaxed);
        let current = shared.live.load();
        Connection {
            parser: Parser::new(shared.limits),
            work: Work {
                desk: Desk::new(shared.clone(), peer.cancel.clone()),
                current,
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
    }
}

impl Session for Connection {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        self.work.shared.live.renew(&mut self.work.current);
        let next = loop {
            if out.should_yield() {
                break Next::Yield;
            }
            let have = input.len();
            let (consumed, goes_on) = match self.parser.parse(input.bytes()) {
                Parsed::NeedMore(missing) => {
                    input.want(have.saturating_add(missing));
                    break Next::Wait;
                }
                Parsed::Swallow { consumed } => {
                    input.consume(consumed);
                    continue;
                }
                Parsed::Refused {
                    fault,
                    silent,
                    consumed,
                    ..
                } => (consumed, refuse(fault, silent, out)),
                Parsed::Request { request, consumed } => {
                    (consumed, self.work.carry_out(request, out))
                }
            };
            input.consume(consumed);
            out.request_done();
            if !goes_on {
                break Next::Close;
            }
        };
        self.work.desk.end_batch();
        next
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        let text: &[u8] = match end {
            End::UnknownOutcome => {
                b"SERVER_ERROR the log has failed: nobody knows whether the last changes last\r\n"
            }
            End::InternalError => b"SERVER_ERROR internal error\r\n",
            // Nobody has asked for anything.
            _ => b"",
        };
        out.buf().extend_from_slice(text);
    }

    fn logged_in(&self) -> bool {
        true
    }
}

/// Answers a refused line; false when the connection must end.
fn refuse(fault: Fault, silent: bool, out: &mut Output) -> bool {
    if fault == Fault::BinaryDialect {
        let text = "the binary protocol is not spoken here: use the ASCII one";
        reply::server_error(out.buf(), text);
    } else if !silent {
        out.buf().extend_from_slice(fault.reply());
    }
    !fault.closes()
}

impl Work {
    /// Carries out a request; false when the connection must end.
    fn carry_out(&mut self, request: Request<'_>, out: &mut Output) -> bool {
        if let Some((change, noreply)) = request.change() {
            let done = apply::apply(&mut self.desk, &mut self.current, &change);
            return finish(done, noreply, out, |outcome, buf| {
                reply::outcome(buf, &outcome);
            });
        }
        match request {
            Request::Get {
                keys,
                cas,
                touch: None,
            } => self.get(keys, cas, out),
            Request::Get {
                keys,
                cas,
                touch: Some(exptime),
            } => self.get_and_touch(keys, cas, exptime, out),
            Request::FlushAll { delay, noreply } => self.flush(delay, noreply, out),
            other => self.about_the_server(other, out),
        }
    }

    fn about_the_server(&self, request: Request<'_>, out: &mut Output) -> bool {
        let buf = out.buf();
        match request {
            Request::Stats { args } => stats::answer(&self.shared, args, buf),
            Request::Version => reply::version(buf, env!("CARGO_PKG_VERSION")),
            Request::Verbosity { noreply, .. } => {
                if !noreply {
                    buf.extend_from_slice(reply::OK);
                }
            }
            Request::Quit => return false,
            _ => buf.extend_from_slice(reply::ERROR),
        }
        true
    }

    fn get(&mut self, keys: Keys<'_>, cas: bool, out: &mut Output) -> bool {
        let request = Gets { keys, cas };
        match get::get(&mut self.desk, &mut self.current, &request, out) {
            Ok(()) => {
                out.buf().extend_from_slice(reply::END);
                true
            }
            Err(failure) => fail(&failure, out),
        }
    }

    fn get_and_touch(&mut self, keys: Keys<'_>, cas: bool, exptime: i64, out: &mut Output) -> bool {
        let (desk, current) = (&mut self.desk, &mut self.current);
        let list: Vec<&[u8]> = keys.collect();
        let done = touch::get_and_touch(desk, current, &list, exptime);
        finish(done, false, out, |rows, buf| {
            for (key, row) in list.iter().zip(rows) {
                if let Some(row) = row {
                    let version = cas.then_some(row.version);
                    reply::value(buf, key, row.flags, &row.value, version);
                }
            }
            buf.extend_from_slice(reply::END);
        })
    }

    fn flush(&mut self, delay: i64, noreply: bool, out: &mut Output) -> bool {
        let from = match self.peer.address {
            Some(address) => address.to_string(),
            None => "a local socket".to_owned(),
        };
        let done = if delay > 0 {
            let why = "flush_all with a delay is not offered yet".to_owned();
            Err(Failure::Refused(why))
        } else {
            flush::flush(&mut self.desk, &mut self.current)
        };
        let done = match done {
            Ok((rows, ticket)) => {
                tracing::info!("flush_all from {from} deleted {rows} rows");
                Done {
                    outcome: Ok(()),
                    ticket,
                }
            }
            Err(failure) => {
                tracing::info!("flush_all from {from} failed: {failure}");
                Done {
                    outcome: Err(failure),
                    ticket: porpoise_kv::Ticket::NONE,
                }
            }
        };
        finish(done, noreply, out, |(), buf| {
            buf.extend_from_slice(reply::OK)
        })
    }
}

/// Answers a write, held back for what it waits for; false when the connection
/// must end.
fn finish<T>(
    done: Done<T>,
    noreply: bool,
    out: &mut Output,
    show: impl FnOnce(T, &mut Vec<u8>),
) -> bool {
    let start = out.position();
    let goes_on = match done.outcome {
        Ok(outcome) => {
            show(outcome, out.buf());
            true
        }
        Err(failure) => fail(&failure, out),
    };
    if noreply {
        out.buf().truncate(start);
    } else {
        out.hold_from(start, done.ticket);
    }
    goes_on
}

/// Answers a failure; false when the connection must end.
fn fail(failure: &Failure, out: &mut Output) -> bool {
    if !matches!(failure, Failure::Gone) {
        reply::server_error(out.buf(), &failure.to_string());
    }
    !failure.ends_session()
}
