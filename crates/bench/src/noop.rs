//! A server without storage on Porpoise's own network layer: the upper bound of
//! what its listeners can reach.
//!
//! It implements as much of the memcached protocol as a load generator needs: every
//! `get KEY` finds the same ten bytes. Compared with it, the real listeners
//! show their cost beyond reading, dispatching and writing.

use crate::error::{Error, Result};
use memchr::memchr;
use porpoise_kv::CommitPosition;
use porpoise_server::net::{
    BoundSocket, DurabilityWatermark, End, Input, Listening, Net, NetConfig, Next, Output, Peer,
    Protocol, Refusal, Session,
};
use porpoise_server::sys::Signals;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time that connections have to end at a shutdown.
const GRACE: Duration = Duration::from_secs(1);

/// Longest request line in bytes.
const LINE: usize = 2048;

/// Serves at `address` until a signal ends the process, and announces the
/// address as the server does.
///
/// # Errors
/// The address cannot be listened at, or workers cannot be started.
pub fn serve(address: SocketAddr) -> Result<()> {
    let signals = Signals::take()?;
    let bound = BoundSocket::tcp(address).map_err(|e| Error::usage(format!("{address}: {e}")))?;
    let place = match bound.at() {
        Listening::Tcp(place) => *place,
        Listening::Unix(_) => address,
    };
    let mut net = Net::start(
        NetConfig::default(),
        DurabilityWatermark::new(CommitPosition(0)),
    )?;
    net.serve(vec![bound.serving(Arc::new(Noop))])?;
    println!("ready noop {place}\nporpoise ready");
    signals.next()?;
    net.shutdown(GRACE);
    Ok(())
}

/// The protocol of the server without storage.
#[derive(Debug)]
struct Noop;

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
