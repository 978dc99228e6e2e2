//! One thread for many connections: each that is ready is read, verified and
//! given its next request at once.

use super::{Stage, Tally, Worker, verify};
use crate::conn::{Connection, SILENCE};
use crate::error::{Error, Result};
use crate::proto::{Answer, Call};
use crate::sys::{Interest, Poll};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Longest wait for readiness before the phase is checked.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A connection and its outstanding request.
struct Lane<'w> {
    connection: Connection,
    worker: Box<dyn Worker + 'w>,
    call: Call,
    answer: Answer,
    sent: Instant,
    is_waiting: bool,
    is_writing: bool,
}

impl Lane<'_> {
    /// Sends the next request, if there is one.
    fn send(&mut self, poll: &Poll, token: usize) -> Result<bool> {
        self.is_waiting = self.worker.next(&mut self.call);
        if self.is_waiting {
            self.sent = Instant::now();
            self.connection.start(&self.call, &mut self.answer)?;
            self.flush(poll, token)?;
        }
        Ok(self.is_waiting)
    }

    /// Sends the rest of the request. If the socket accepts no more, waits for
    /// readiness to write.
    fn flush(&mut self, poll: &Poll, token: usize) -> Result<()> {
        let is_writing = !self.connection.flush()?;
        if is_writing != self.is_writing {
            self.is_writing = is_writing;
            let interest = if is_writing {
                Interest::ReadWrite
            } else {
                Interest::Read
            };
            poll.change(self.connection.as_raw_fd(), token, interest)?;
        }
        Ok(())
    }

    /// Handles readiness. Returns whether an answer is complete.
    fn on_ready(&mut self, poll: &Poll, token: usize) -> Result<bool> {
        if self.is_writing {
            self.flush(poll, token)?;
        }
        if !self.is_waiting {
            return Err(Error::failed("the server sent a reply without a request"));
        }
        self.connection.read_once(&mut self.answer)
    }
}

/// Drives all connections of one thread.
pub fn drive(
    connections: Vec<(Connection, Box<dyn Worker + '_>)>,
    stage: &Stage,
    tally: &mut Tally,
) -> Result<()> {
    let mut poll = Poll::new(256)?;
    let mut lanes = Vec::with_capacity(connections.len());
    for (token, (mut connection, worker)) in connections.into_iter().enumerate() {
        connection.set_nonblocking()?;
        poll.add(connection.as_raw_fd(), token, Interest::Read)?;
        lanes.push(Lane {
            connection,
            worker,
            call: Call::default(),
            answer: Answer::default(),
            sent: Instant::now(),
            is_waiting: false,
            is_writing: false,
        });
    }
    let mut outstanding = 0usize;
    for (token, lane) in lanes.iter_mut().enumerate() {
        outstanding += usize::from(lane.send(&poll, token)?);
    }
    let mut ready = Vec::new();
    let mut heard = Instant::now();
    while outstanding > 0 {
        ready.clear();
        poll.wait(LOOK_UP, |token| ready.push(token))?;
        if !ready.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() > SILENCE {
            return Err(Error::failed("no answer in time"));
        }
        for &token in &ready {
            let Some(lane) = lanes.get_mut(token) else {
                continue;
            };
            if !lane.on_ready(&poll, token)? {
                continue;
            }
            outstanding -= 1;
            lane.is_waiting = false;
            if verify(lane.worker.as_mut(), &lane.answer)? {
                tally.count(stage, lane.sent, Instant::now());
            } else {
                tally.refused += 1;
            }
            if !stage.is_over() {
                outstanding += usize::from(lane.send(&poll, token)?);
            }
        }
    }
    Ok(())
}
