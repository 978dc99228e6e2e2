//! Connections that join a group, log in and leave it.
//!
//! Invariant: a connection is counted by the server, its group and its
//! listener's budget from its acceptance on; [`EventLoop::forget_connection`]
//! decrements all three, once.

use super::budget::Budget;
use super::conn::{Call, Conn};
use super::event_loop::{EventLoop, Job, Slot, flag};
use super::group::{NewConnection, Token};
use super::output::{Output, Timeouts};
use super::transport::Transport;
use crate::metrics::{self, Counter};
use crate::sys::events;
use porpoise_base::cancel::Cancel;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl EventLoop {
    /// Gives a new connection an entry in the table, and returns the call that
    /// opens its session.
    pub(super) fn admit(&mut self, connection: NewConnection) -> Option<Job> {
        let fd = connection.socket.as_raw_fd();
        let index = self.free_slot();
        let slot = self.slots.get_mut(index as usize)?;
        let token = Token {
            index,
            generation: slot.generation,
        };
        let group = self.group.clone();
        let cancel = Cancel::owned(Arc::new(move || {
            group.send(|inbox| inbox.cancelled.push(token));
        }));
        slot.fd = fd;
        slot.flags = flag::IN_USE | flag::BEFORE_LOGIN;
        if !connection.protocol.half_closes() {
            slot.flags |= flag::NEVER_HALF_CLOSES;
        }
        slot.deadline = u64::MAX;
        slot.hang_up = u64::MAX;
        slot.cancel = Some(cancel.clone());
        let interest = events::IN | events::RDHUP | events::EDGE;
        if let Err(error) = self.epoll.add(fd, interest, token.pack()) {
            tracing::warn!("a connection cannot be added to epoll: {error}");
            slot.flags = 0;
            self.free.push(index);
            self.end_login(&connection.budget, connection.id);
            self.forget_connection(&connection.budget, connection.reserved);
            return None;
        }
        self.connection_count += 1;
        self.now = self.shared.now();
        let address = connection.peer.map(|a| a.ip());
        connection
            .budget
            .admit(connection.id, address, self.group.clone(), token);
        let peer = Box::new(connection.peer(cancel.clone(), &self.shared.config.memory));
        let out = Output::new(
            Transport::new(connection.socket),
            self.shared.durability.clone(),
            cancel.clone(),
            Timeouts {
                read: self.shared.config.net_read_timeout,
                write: self.shared.config.net_write_timeout,
            },
            &peer.memory,
        );
        let mut conn = Conn::new(
            token,
            connection.id,
            self.group.clone(),
            out,
            cancel,
            connection.budget,
        );
        conn.opened = self.now;
        conn.reserved = connection.reserved;
        self.serving = Some(index);
        Some(Job::Serve(
            Box::new(conn),
            Call::Open(connection.protocol, peer),
        ))
    }

    /// Returns the index of a free entry of the table.
    fn free_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::free());
            (self.slots.len() - 1) as u32
        })
    }

    /// Removes a connection from the counts before login: it has logged in, or ends.
    pub(super) fn end_login(&self, budget: &Budget, id: u64) {
        budget.end_login(id);
        self.shared.before_login.fetch_sub(1, Ordering::Relaxed);
    }

    /// Removes a closed connection from the counts of server, group and listener.
    pub(super) fn forget_connection(&self, budget: &Budget, reserved: bool) {
        budget.close();
        if reserved {
            self.shared.reserved.fetch_sub(1, Ordering::SeqCst);
        }
        self.shared.connections.fetch_sub(1, Ordering::SeqCst);
        self.group.connections.fetch_sub(1, Ordering::Relaxed);
        metrics::add(Counter::Closed, 1);
    }
}
