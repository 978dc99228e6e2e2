//! One thread for many connections: each that is ready is read, verified and
//! given its next request at once, or in an open loop when that is due.

use super::schedule::{self, Schedule};
use super::{Client, Course, Stage, Tally, Worker, verify};
use crate::conn::{Connection, SILENCE};
use crate::error::{Error, Result};
use crate::proto::{Answer, Call};
use crate::sys::{Interest, Poll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    /// Of an open loop.
    schedule: Option<Schedule>,
    /// When the outstanding request was sent, or in an open loop was due.
    sent: Instant,
    is_waiting: bool,
    is_writing: bool,
}

impl Lane<'_> {
    /// Sends the next request, if there is one.
    fn send(
        &mut self,
        poll: &Poll,
        token: usize,
        stage: &Stage,
        tally: &mut Tally,
    ) -> Result<bool> {
        self.is_waiting = self.worker.next(&mut self.call);
        if self.is_waiting {
            self.sent = Instant::now();
            if let Some(schedule) = &mut self.schedule {
                self.sent = schedule.take(stage, tally, self.sent);
            }
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

    /// Counts the complete answer.
    fn count(&mut self, stage: &Stage, tally: &mut Tally) -> Result<()> {
        self.is_waiting = false;
        if !verify(self.worker.as_mut(), &self.answer)? {
            tally.refused += 1;
        } else if self.schedule.is_some() {
            schedule::count(stage, tally, self.sent, Instant::now());
        } else {
            tally.count(stage, self.sent, Instant::now());
        }
        Ok(())
    }
}

/// The connections of one thread.
struct Lanes<'w> {
    poll: Poll,
    lanes: Vec<Lane<'w>>,
    /// Requests without an answer.
    outstanding: usize,
    /// Connections of an open loop without an outstanding request, by the time at which their next
    /// one is due.
    idle: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl<'w> Lanes<'w> {
    fn new(clients: Vec<Client<'w>>, course: Course, stage: &Stage) -> Result<Lanes<'w>> {
        let poll = Poll::new(256)?;
        let mut lanes = Vec::with_capacity(clients.len());
        for (token, client) in clients.into_iter().enumerate() {
            let mut connection = client.connection;
            connection.set_nonblocking()?;
            poll.add(connection.as_raw_fd(), token, Interest::Read)?;
            lanes.push(Lane {
                connection,
                worker: client.worker,
                call: Call::default(),
                answer: Answer::default(),
                schedule: course.schedule(stage, client.number),
                sent: Instant::now(),
                is_waiting: false,
                is_writing: false,
            });
        }
        Ok(Lanes {
            poll,
            lanes,
            outstanding: 0,
            idle: BinaryHeap::new(),
        })
    }

    /// Sends a connection's next request now, or lets it wait until that is due.
    fn go_on(&mut self, token: usize, stage: &Stage, tally: &mut Tally) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(token) else {
            return Ok(());
        };
        match &lane.schedule {
            Some(schedule) if schedule.due() > Instant::now() => {
                self.idle.push(Reverse((schedule.due(), token)));
            }
            _ => self.outstanding += usize::from(lane.send(&self.poll, token, stage, tally)?),
        }
        Ok(())
    }

    /// Sends all requests that are due. Returns the time until the next one is due.
    fn send_due(&mut self, stage: &Stage, tally: &mut Tally) -> Result<Duration> {
        while let Some(Reverse((due, token))) = self.idle.peek().copied() {
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Ok(left.min(LOOK_UP));
            }
            self.idle.pop();
            if let Some(lane) = self.lanes.get_mut(token) {
                self.outstanding += usize::from(lane.send(&self.poll, token, stage, tally)?);
            }
        }
        Ok(LOOK_UP)
    }

    /// Reads the answers of ready connections, and sends their next requests.
    fn serve(&mut self, ready: &[usize], stage: &Stage, tally: &mut Tally) -> Result<()> {
        for &token in ready {
            let Some(lane) = self.lanes.get_mut(token) else {
                continue;
            };
            if !lane.on_ready(&self.poll, token)? {
                continue;
            }
            self.outstanding -= 1;
            lane.count(stage, tally)?;
            if !stage.is_over() {
                self.go_on(token, stage, tally)?;
            }
        }
        Ok(())
    }
}

/// Drives all connections of one thread.
pub(super) fn drive(
    clients: Vec<Client<'_>>,
    course: Course,
    stage: &Stage,
    tally: &mut Tally,
) -> Result<()> {
    if course.rate.is_some() {
        crate::sys::wake_on_time();
    }
    let mut lanes = Lanes::new(clients, course, stage)?;
    for token in 0..lanes.lanes.len() {
        lanes.go_on(token, stage, tally)?;
    }
    let mut ready = Vec::new();
    let mut heard = Instant::now();
    loop {
        let mut left = LOOK_UP;
        if stage.is_over() {
            lanes.idle.clear();
        } else {
            left = lanes.send_due(stage, tally)?;
        }
        if lanes.outstanding == 0 {
            if lanes.idle.is_empty() {
                break;
            }
            heard = Instant::now();
        }
        ready.clear();
        lanes.poll.wait(left, |token| ready.push(token))?;
        if !ready.is_empty() {
            heard = Instant::now();
        } else if heard.elapsed() > SILENCE {
            return Err(Error::failed("no answer in time"));
        }
        lanes.serve(&ready, stage, tally)?;
    }
    for schedule in lanes.lanes.iter().filter_map(|lane| lane.schedule.as_ref()) {
        schedule.close(stage, tally);
    }
    Ok(())
}
