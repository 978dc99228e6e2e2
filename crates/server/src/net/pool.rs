//! Pool of a group's buffers, used by connections with unread or unsent bytes.
//!
//! An idle connection holds none, so that ten thousand of them cost what
//! their sockets and records cost. Only the group's active worker uses the
//! pool; buffers that travel with a waiting session come back with it.

/// Size of an input buffer in bytes: what one read takes at most.
pub(crate) const BUFFER: usize = 16 * 1024;

/// Number of buffers kept; more are freed.
const STOCK: usize = 64;

/// Output buffers beyond this many bytes are freed instead of kept.
const OUTPUT_KEPT: usize = 64 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Pool {
    input: Vec<Vec<u8>>,
    output: Vec<Vec<u8>>,
}

impl Pool {
    /// An input buffer; its length is its size.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        self.input.pop().unwrap_or_else(|| vec![0; BUFFER])
    }

    /// Returns an input buffer to the pool.
    pub(crate) fn give_input(&mut self, buf: Vec<u8>) {
        if buf.len() == BUFFER && self.input.len() < STOCK {
            self.input.push(buf);
        }
    }

    /// An empty output buffer.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.output.pop().unwrap_or_default()
    }

    /// Returns an output buffer to the pool.
    pub(crate) fn give_output(&mut self, mut buf: Vec<u8>) {
        if buf.capacity() > 0 && buf.capacity() <= OUTPUT_KEPT && self.output.len() < STOCK {
            buf.clear();
            self.output.push(buf);
        }
    }
}
