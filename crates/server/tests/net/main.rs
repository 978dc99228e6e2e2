//! The net layer through real sockets, behind a small line protocol.

mod door;
mod held;
mod limits;
mod shutdown;
mod slow;
mod waits;
