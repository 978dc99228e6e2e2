//! Interface to a connection's output, implemented by the server.

use porpoise_kv::CommitPosition;
use std::time::Duration;

/// The client has disconnected: the request is abandoned and the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// Output buffer of one connection. Bytes are appended to [`ReplySink::buf`]; a reply that reveals
/// a commit is deferred until that commit is durable.
pub trait ReplySink {
    /// The buffer to append to. Bytes before the reply's beginning must not be touched.
    fn buf(&mut self) -> &mut Vec<u8>;

    /// Position of the next byte.
    fn position(&self) -> usize;

    /// Defers everything appended at or after `from` until `position` is durable.
    fn defer_from(&mut self, from: usize, position: CommitPosition);

    /// Records that one request has been answered completely.
    fn request_done(&mut self);

    /// Whether other connections should be served before the next request.
    fn should_yield(&self) -> bool;

    /// Sends what can be sent without waiting, if the connection has already waited or computed for
    /// long in this call, so that replies do not wait for later requests that take long, too.
    /// Positions taken before are invalid afterwards.
    fn send_if_detached(&mut self);

    /// Whether the buffer is so full that [`ReplySink::drain`] should be called before more is
    /// appended.
    fn is_full(&self) -> bool;

    /// Sends everything, waiting for the log and the client. Positions taken before are invalid
    /// afterwards.
    ///
    /// # Errors
    /// The client has disconnected.
    fn drain(&mut self) -> Result<(), Disconnected>;
}

/// A connection's decision after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes are needed.
    Wait,
    /// Complete requests may be left: the connection is called again after others.
    Yield,
    /// Send the output, then close.
    Close,
    /// Nothing is sent or read for this long; then the connection continues, or closes.
    Delay {
        /// Time from now.
        delay: Duration,
        /// Whether the connection closes afterwards.
        close: bool,
    },
}
