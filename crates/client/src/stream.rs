//! Byte streams to a server: TCP, Unix sockets, and TLS over either.

use crate::error::{Error, Result};
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp(String, u16),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A connected byte stream.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over one of them.
    Tls(Box<StreamOwned<ClientConnection, Stream>>),
}

impl Stream {
    /// Connects within `timeout`, trying each address of a name.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub fn open(address: &Address, timeout: Duration) -> Result<Stream> {
        let attempt = || match address {
            Address::Tcp(host, port) => open_tcp(host, *port, timeout).map(Stream::Tcp),
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        };
        attempt().map_err(|source| Error::Connect {
            address: address.to_string(),
            source,
        })
    }

    /// Wraps the stream into TLS; the handshake runs with the first bytes.
    pub(crate) fn into_tls(self, session: ClientConnection) -> Stream {
        Stream::Tls(Box::new(StreamOwned::new(session, self)))
    }

    /// Sets the longest wait for a read or a write; `None` waits forever.
    ///
    /// # Errors
    /// The system's.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(tcp) => {
                tcp.set_read_timeout(timeout)?;
                tcp.set_write_timeout(timeout)
            }
            Stream::Unix(unix) => {
                unix.set_read_timeout(timeout)?;
                unix.set_write_timeout(timeout)
            }
            Stream::Tls(tls) => tls.sock.set_timeout(timeout),
        }
    }

    /// Whether bytes have arrived that were not read. Always false for a Unix socket.
    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Stream::Tcp(tcp) => {
                let peeked = tcp.set_nonblocking(true).and_then(|()| tcp.peek(&mut [0]));
                tcp.set_nonblocking(false).is_ok() && peeked.is_ok()
            }
            Stream::Unix(_) => false,
            Stream::Tls(tls) => tls.sock.is_readable(),
        }
    }

    /// Whether others cannot read what is sent.
    pub fn is_secure(&self) -> bool {
        !matches!(self, Stream::Tcp(_))
    }
}

fn open_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(tcp) => tcp.read(into),
            Stream::Unix(unix) => unix.read(into),
            Stream::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(tcp) => tcp.write(bytes),
            Stream::Unix(unix) => unix.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(tcp) => tcp.flush(),
            Stream::Unix(unix) => unix.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

/// Bytes received and not consumed yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
}

/// Bytes read from the system at a time.
const READ: usize = 16 << 10;

impl Input {
    /// The bytes that have not been consumed.
    pub fn unread(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Drops bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.start = self.bytes.len().min(self.start + count);
    }

    /// Waits for more bytes. The buffer grows by what has arrived, not by what a length field announces.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if the server has closed the connection.
    pub fn fill(&mut self, stream: &mut Stream) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let end = self.bytes.len();
        self.bytes.resize(end + READ, 0);
        let into = self.bytes.get_mut(end..).unwrap_or_default();
        let result = loop {
            match stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes
            .truncate(end + result.as_ref().map_or(0, |&count| count));
        match result {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed it",
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
