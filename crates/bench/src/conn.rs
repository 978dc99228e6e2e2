//! A connection: a socket, its buffers and the codec of its protocol.
//!
//! Both kinds of client use it: a thread with one connection calls
//! [`Connection::exchange`] and waits; a thread that multiplexes many starts a
//! call, and reads bytes as they arrive.
//!
//! 1. One call is outstanding at a time (a closed loop).
//! 2. Connections to all systems make the same system calls: one write
//!    for a request, and a read each time the answer is not complete.

use crate::error::{Error, Result};
use crate::proto::{Answer, Call, Codec, Progress};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Timeout for a silent server.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// First size of the input buffer in bytes.
const INPUT: usize = 16 << 10;

/// A connection with its buffers and codec; see the module.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Number of bytes received in `input`; those before `taken` are processed.
    filled: usize,
    taken: usize,
    output: Vec<u8>,
    written: usize,
    nonblocking: bool,
    codec: Box<dyn Codec>,
}

/// Opens a socket with the timeouts and without delayed sending.
///
/// # Errors
/// One line that names the address.
pub fn open(host: &str, port: u16) -> Result<TcpStream> {
    let attempt = || -> std::io::Result<TcpStream> {
        let mut last = ErrorKind::AddrNotAvailable.into();
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(SILENCE))?;
                    stream.set_write_timeout(Some(SILENCE))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    attempt().map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            ErrorKind::TimedOut => "no answer".to_owned(),
            _ => error.to_string(),
        };
        Error::failed(format!("{host}:{port}: {reason}"))
    })
}

impl Connection {
    /// A connection whose login is done.
    pub fn new(stream: TcpStream, codec: Box<dyn Codec>) -> Connection {
        Connection {
            stream,
            input: vec![0; INPUT],
            filled: 0,
            taken: 0,
            output: Vec::new(),
            written: 0,
            nonblocking: false,
            codec,
        }
    }

    /// Sends a call and waits for its answer.
    ///
    /// # Errors
    /// The connection or the protocol failed; a server's refusal is in the
    /// answer instead.
    pub fn exchange(&mut self, call: &Call, answer: &mut Answer) -> Result<()> {
        self.start(call, answer)?;
        self.stream.write_all(&self.output)?;
        while !self.read_once(answer)? {}
        Ok(())
    }

    /// As [`Connection::exchange`], but a refusal is an error, too.
    ///
    /// # Errors
    /// See there.
    pub fn must(&mut self, call: &Call, answer: &mut Answer) -> Result<()> {
        self.exchange(call, answer)?;
        match answer.error.take() {
            Some(reason) => Err(Error::refused(reason)),
            None => Ok(()),
        }
    }

    /// Writes a call into the output; [`Connection::flush`] sends it.
    ///
    /// # Errors
    /// The protocol does not have the operation.
    pub fn start(&mut self, call: &Call, answer: &mut Answer) -> Result<()> {
        answer.clear();
        self.output.clear();
        self.written = 0;
        self.codec.encode(call, &mut self.output)
    }

    /// Sends as much as the socket accepts now. Returns whether everything is sent.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush(&mut self) -> Result<bool> {
        while let Some(rest) = self.output.get(self.written..).filter(|r| !r.is_empty()) {
            match self.stream.write(rest) {
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Reads once and processes the bytes. Returns whether the answer is complete.
    /// Without bytes on a nonblocking socket it is not.
    ///
    /// # Errors
    /// The connection or the protocol failed.
    pub fn read_once(&mut self, answer: &mut Answer) -> Result<bool> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
        } else if self.filled == self.input.len() {
            self.make_room();
        }
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        let came = match self.stream.read(room) {
            Ok(0) => return Err(Error::from(std::io::Error::from(ErrorKind::UnexpectedEof))),
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.nonblocking => 0,
            Err(error) => return Err(error.into()),
        };
        if came == 0 {
            return Ok(false);
        }
        self.filled += came;
        let unread = self
            .input
            .get_mut(self.taken..self.filled)
            .unwrap_or_default();
        match self.codec.decode(unread, answer)? {
            Progress::More(_) if answer.is_too_large() => {
                Err(Error::failed("an answer over 256 MiB"))
            }
            Progress::More(used) => {
                self.taken += used;
                Ok(false)
            }
            Progress::Done(used) => {
                self.taken += used;
                if self.taken != self.filled {
                    return Err(Error::failed("bytes after the end of an answer"));
                }
                Ok(true)
            }
        }
    }

    fn make_room(&mut self) {
        if self.taken > 0 {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    /// Sets the time limit for a reply.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_patience(&mut self, time: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(time))?)
    }

    /// Makes the socket not wait, for a thread that serves many.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_nonblocking(&mut self) -> Result<()> {
        self.nonblocking = true;
        Ok(self.stream.set_nonblocking(true)?)
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Verb;
    use crate::proto::memcached::Memcached;
    use std::net::TcpListener;

    fn serve(answer: Vec<u8>) -> (u16, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            let _ = stream.read(&mut request).unwrap();
            for piece in answer.chunks(5000) {
                stream.write_all(piece).unwrap();
            }
        });
        (port, server)
    }

    fn get(port: u16) -> (Result<()>, Answer) {
        let stream = open("127.0.0.1", port).unwrap();
        let mut connection = Connection::new(stream, Box::new(Memcached));
        let (mut call, mut answer) = (Call::default(), Answer::default());
        call.begin(Verb::Get).bytes(b"k");
        let outcome = connection.exchange(&call, &mut answer);
        (outcome, answer)
    }

    #[test]
    fn an_answer_larger_than_the_buffer_is_read_whole() {
        let value = vec![b'v'; 3 * INPUT];
        let answer = [
            format!("VALUE k 0 {}\r\n", value.len()).into_bytes(),
            value.clone(),
            b"\r\nEND\r\n".to_vec(),
        ];
        let (port, server) = serve(answer.concat());
        let (outcome, answer) = get(port);
        outcome.unwrap();
        assert_eq!(answer.cell(1), Some(&value[..]));
        server.join().unwrap();
    }

    #[test]
    fn a_lost_server_and_excess_bytes_are_one_error_line_each() {
        let (port, server) = serve(b"VALUE k 0 5\r\nab".to_vec());
        let error = get(port).0.unwrap_err();
        // The rest of the request may make the kernel reset the connection.
        assert!(!error.message.contains('\n'), "{error}");
        server.join().unwrap();
        let (port, server) = serve(b"END\r\nEND\r\n".to_vec());
        let error = get(port).0.unwrap_err();
        assert!(error.message.contains("bytes after"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_refused_connection_names_the_address() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let error = open("127.0.0.1", port).unwrap_err();
        assert_eq!(
            error.message,
            format!("127.0.0.1:{port}: connection refused")
        );
    }
}
