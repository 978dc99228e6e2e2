//! Files of clients: the exchange of LOAD DATA LOCAL INFILE within a reply.
//!
//! The statement runs while the file arrives: it processes the bytes of each packet as they come, so
//! that no more than one chunk of the file is in memory. Waiting for the client is inside
//! `blocking`, as is waiting for a slow reader of a result.
//!
//! Invariants:
//! 1. Bytes after the file's end stay in the socket, or in the connection's input.
//! 2. A statement that fails before the end of the file is rolled back first; then the rest of the
//!    file is read and discarded, because the client reads no reply before it has sent everything.
//! 3. A client that sends nothing for `net_read_timeout` loses its connection.

use super::answer::{Answer, client_gone};
use porpoise_sql::{Outcome, SqlError};
use porpoise_wire::mysql::local_file::{self, FilePackets};
use std::time::{Duration, Instant};

/// Number of bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// A file that a client is sending.
pub(super) struct FileTransfer {
    packets: FilePackets,
    buffer: Vec<u8>,
    /// Time at which the client last sent something.
    last_received: Instant,
}

impl Answer<'_> {
    /// Sends the request for a file.
    pub(super) fn request_file(&mut self, name: &[u8]) -> Result<(), SqlError> {
        local_file::write_request(self.out.buf(), &mut self.sequence, name);
        self.drain().map_err(|_| client_gone())?;
        self.file = Some(Box::new(FileTransfer {
            packets: FilePackets::new(self.sequence),
            buffer: vec![0; CHUNK],
            last_received: Instant::now(),
        }));
        Ok(())
    }

    /// Appends the next bytes of the file, if any arrive within a tenth of a second. Returns false at
    /// the end of the file.
    pub(super) fn read_file(&mut self, out: &mut Vec<u8>) -> Result<bool, SqlError> {
        let Some(mut file) = self.file.take() else {
            return Ok(false);
        };
        let read = self.read_packet(&mut file, out);
        self.sequence = file.packets.sequence();
        if !matches!(read, Ok(false)) {
            self.file = Some(file);
        }
        read
    }

    /// Appends bytes of the file as soon as some have arrived. Returns false at the file's end.
    fn read_packet(
        &mut self,
        file: &mut FileTransfer,
        out: &mut Vec<u8>,
    ) -> Result<bool, SqlError> {
        let before = out.len();
        while out.len() == before {
            let wanted = file.packets.wanted().min(CHUNK);
            if wanted == 0 {
                return Ok(false);
            }
            let buffer = file.buffer.get_mut(..wanted).unwrap_or_default();
            let received = self.receive(buffer)?;
            if received == 0 {
                if file.last_received.elapsed() >= self.out.read_timeout() {
                    return Err(timed_out());
                }
                break;
            }
            file.last_received = Instant::now();
            let bytes = buffer.get(..received).unwrap_or_default();
            file.packets.push(bytes, out).map_err(|error| {
                let mut error = SqlError::new(error.code(), "08S01", error.to_string());
                error.fatal = true;
                error
            })?;
        }
        Ok(true)
    }

    /// Reads bytes after the command: those that arrived with it, then those of the socket. Returns
    /// their number, which may be 0.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, SqlError> {
        self.receive_within(buffer, Duration::from_millis(100))
    }

    /// As [`Answer::receive`], with a limit for the wait for bytes from the socket.
    pub(super) fn receive_within(
        &mut self,
        buffer: &mut [u8],
        wait: Duration,
    ) -> Result<usize, SqlError> {
        if self.unread.is_empty() {
            let received = self.out.receive_within(buffer, wait);
            return received.map_err(|_| client_gone());
        }
        let n = buffer.len().min(self.unread.len());
        let (taken, rest) = self.unread.split_at_checked(n).unwrap_or_default();
        if let Some(buffer) = buffer.get_mut(..n) {
            buffer.copy_from_slice(taken);
        }
        self.unread = rest;
        self.read_ahead += n;
        Ok(n)
    }

    /// Discards the rest of a file that the statement has not read to its end; returns `result`.
    pub(super) fn skip_file(
        &mut self,
        result: Result<Outcome, SqlError>,
    ) -> Result<Outcome, SqlError> {
        if matches!(&result, Err(error) if error.fatal) {
            return result;
        }
        let mut discarded = Vec::new();
        while self.read_file(&mut discarded)? {
            discarded.clear();
        }
        result
    }
}

fn timed_out() -> SqlError {
    let text = "Got timeout reading communication packets";
    let mut error = SqlError::new(1159, "08S01", text);
    error.fatal = true;
    error
}
