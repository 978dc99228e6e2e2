//! Pool of a group's buffers, used by connections with unread or unsent bytes.
//!
//! An idle connection has no buffer, so that ten thousand of them cost no more than their sockets
//! and records. Only the group's active worker uses the pool; buffers of a waiting session are
//! returned with its connection.

/// Size of an input buffer in bytes: the maximum of one read.
pub(crate) const BUFFER: usize = 16 * 1024;

/// Maximum number of pooled buffers; more are freed.
const MAX_POOLED: usize = 64;

/// Output buffers of more bytes are freed instead of pooled.
const MAX_POOLED_OUTPUT_BYTES: usize = 64 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Pool {
    input: Vec<Vec<u8>>,
    output: Vec<Vec<u8>>,
}

impl Pool {
    /// Takes an input buffer; its length is its size.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        self.input.pop().unwrap_or_else(|| vec![0; BUFFER])
    }

    /// Returns an input buffer to the pool.
    pub(crate) fn give_input(&mut self, buf: Vec<u8>) {
        if buf.len() == BUFFER && self.input.len() < MAX_POOLED {
            self.input.push(buf);
        }
    }

    /// Takes an empty output buffer.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.output.pop().unwrap_or_default()
    }

    /// Returns an output buffer to the pool.
    pub(crate) fn give_output(&mut self, mut buf: Vec<u8>) {
        if buf.capacity() > 0
            && buf.capacity() <= MAX_POOLED_OUTPUT_BYTES
            && self.output.len() < MAX_POOLED
        {
            buf.clear();
            self.output.push(buf);
        }
    }
}
