//! Sends of several connections with one system call.
//!
//! Most of a short request's processor time is the kernel's: the system call, the way through TCP,
//! and the wake-up of the client, which preempts the worker in the middle of its round when client
//! and server share a core. A [`SendBatch`] collects the replies of a round and submits them
//! together through io_uring: one system call, and the clients run when all replies are sent.
//!
//! Only the sends go through io_uring; connections are still watched by epoll and read with `recv`.
//! All sends are non-blocking (`MSG_DONTWAIT`), which io_uring executes while it is entered, never
//! later and on no other thread.
//!
//! Invariants:
//! 1. [`SendBatch::send`] returns when all of its sends are complete: no operation refers to a
//!    buffer or a descriptor after the call. So a descriptor may be closed and reused at any time.
//! 2. Each socket is in a batch at most once, so the order of its bytes is that of the calls.
//!
//! The kernel may not offer io_uring (containers often forbid it); then [`SendBatch::new`] fails,
//! and the event loop sends each reply by itself, as it does with TLS and compression.
//!
//! Rejected: receiving through io_uring, too (about the same processor time as this at 64
//! connections, more at 1, and buffers that the kernel owns); `SINGLE_ISSUER` and `DEFER_TASKRUN`
//! (an event loop moves between threads); `SQPOLL` (a kernel thread that competes for the core);
//! sends at the end of the round with one system call each (the first wake-up preempts the rest).

use super::conn::Conn;
use crate::metrics::{self, Counter};
use crate::sys::Ring;
use smallvec::SmallVec;
use std::io;
use std::os::fd::RawFd;

/// Maximum number of sends in a batch. A larger one saves little, and the first client waits for
/// the requests of all the others.
pub(super) const MAX_SENDS: usize = 32;

/// Collects and submits sends; see the module.
pub(super) struct SendBatch {
    ring: Ring,
    results: Vec<io::Result<usize>>,
}

impl SendBatch {
    /// Creates an instance of io_uring.
    ///
    /// # Errors
    /// The kernel does not offer it, or forbids it to this process.
    pub(super) fn new() -> io::Result<SendBatch> {
        Ok(SendBatch {
            ring: Ring::new(MAX_SENDS as u32)?,
            results: Vec::with_capacity(MAX_SENDS),
        })
    }

    /// Sends what the connections may send now, once for each. What a socket has not accepted stays
    /// in the connection's output, where the next flush finds it, or the error of the socket.
    ///
    /// # Errors
    /// io_uring failed, and all later calls fail. Bytes that were sent are noted.
    pub(super) fn send(&mut self, connections: &mut [Box<Conn>]) -> io::Result<()> {
        let mut sends = SmallVec::<[(RawFd, &[u8]); MAX_SENDS]>::new();
        let mut senders = SmallVec::<[usize; MAX_SENDS]>::new();
        for (index, conn) in connections.iter_mut().enumerate() {
            if let Some(send) = conn.out.sendable() {
                sends.push(send);
                senders.push(index);
            }
        }
        let outcome = self.ring.send_all(&sends, &mut self.results);
        drop(sends);
        for (index, result) in senders.iter().zip(&self.results) {
            if let (Some(conn), Ok(bytes)) = (connections.get_mut(*index), result) {
                conn.out.note_sent(*bytes);
                metrics::add(Counter::BatchedSends, 1);
            }
        }
        outcome
    }
}
