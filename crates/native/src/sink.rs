//! A connection's output, and its next action.

use porpoise_kv::CommitPosition;
use std::time::Duration;

/// The client has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// Output of a connection.
pub trait Sink {
    /// The buffer to append to.
    fn buf(&mut self) -> &mut Vec<u8>;

    /// Sends everything if the buffer is full: once the commit at `position` is durable, and as fast
    /// as the client reads. Positions in the buffer are invalid afterwards. Returns whether anything
    /// was sent.
    ///
    /// # Errors
    /// The client has disconnected.
    fn drain_if_full(&mut self, position: CommitPosition) -> Result<bool, Disconnected>;
}

/// The connection's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// The next frame is read.
    Continue,
    /// The output is sent, then the connection closes.
    Close,
    /// Nothing is sent or read for this long; then the connection continues, or closes.
    Delay {
        /// Time from now.
        delay: Duration,
        /// Whether the connection closes afterwards.
        close: bool,
    },
}

/// Result of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome {
    /// The commit that the answer waits for.
    pub position: CommitPosition,
    /// The connection's next action.
    pub then: NextAction,
}

impl RequestOutcome {
    /// The result that waits for no commit.
    pub(crate) fn now(then: NextAction) -> RequestOutcome {
        RequestOutcome {
            position: CommitPosition::NONE,
            then,
        }
    }
}
