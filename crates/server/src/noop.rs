//! A protocol that answers without storing anything: the physical limit.
//!
//! Speaks as much of the memcached protocol as a load generator needs: every
//! `get KEY` finds the same ten bytes. Measuring the real listeners against it
//! shows what they cost beyond reading, dispatching and writing.

use crate::net::{End, Input, Next, Output, Peer, Protocol, Refusal, Session};
use memchr::memchr;

/// Longest request line in bytes.
const LINE: usize = 2048;

/// See the module.
#[derive(Debug)]
pub struct Noop;

impl Protocol for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn open(&self, _: Peer, _: &mut Output) -> Box<dyn Session> {
        Box::new(Answering)
    }

    fn refusal(&self, _: Refusal) -> Vec<u8> {
        b"SERVER_ERROR too many connections\r\n".to_vec()
    }
}

struct Answering;

impl Answering {
    /// Answers one line; false if it is not a `get`.
    fn answer(line: &[u8], out: &mut Output) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(keys) = line.strip_prefix(b"get ") else {
            return false;
        };
        let buf = out.buf();
        for key in keys.split(|b| *b == b' ').filter(|k| !k.is_empty()) {
            buf.extend_from_slice(b"VALUE ");
            buf.extend_from_slice(key);
            buf.extend_from_slice(b" 0 10\r\naaaaaaaaaa\r\n");
        }
        buf.extend_from_slice(b"END\r\n");
        true
    }
}

impl Session for Answering {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        loop {
            if out.should_yield() {
                return Next::Yield;
            }
            let bytes = input.bytes();
            let Some(end) = memchr(b'\n', bytes) else {
                return if bytes.len() > LINE {
                    Next::Close
                } else {
                    Next::Wait
                };
            };
            let answered = bytes.get(..end).is_some_and(|line| Self::answer(line, out));
            input.consume(end + 1);
            out.request_done();
            if !answered {
                out.buf().extend_from_slice(b"ERROR\r\n");
                return Next::Close;
            }
        }
    }

    fn on_end(&mut self, _: End, _: &mut Output) {}

    fn logged_in(&self) -> bool {
        true
    }
}
