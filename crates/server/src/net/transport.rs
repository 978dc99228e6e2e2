//! A socket, with or without TLS around it, and with or without a codec inside TLS (compression).
//!
//! Invariant: with TLS or a codec, `write` accepts plain bytes only while no transformed bytes are
//! pending, so that at most one chunk of them accumulates for a slow reader.

use crate::metrics::{self, Counter};
use porpoise_base::threads::panic_message;
use rustls::ServerConnection;
use socket2::Socket;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum number of plain bytes passed to TLS at a time.
const TLS_CHUNK: usize = 32 * 1024;

/// Maximum number of plain bytes passed to a codec at a time.
const CODEC_CHUNK: usize = 16 * 1024;

/// Encodes and decodes the bytes of a connection.
pub trait StreamCodec: Send {
    /// Decodes received bytes into `out`. Returns the number of bytes consumed and of bytes
    /// produced; no bytes are produced only if all of `input` was consumed or `out` is empty.
    ///
    /// # Errors
    /// The bytes cannot be decoded: the connection ends.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> io::Result<(usize, usize)>;

    /// Appends the encoding of `plain` to `out`.
    ///
    /// # Errors
    /// The bytes cannot be encoded: the connection ends.
    fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()>;
}

/// A codec with the bytes that wait on both of its sides.
struct Encoding {
    codec: Box<dyn StreamCodec>,
    /// Number of bytes that are still sent as they are.
    plain_left: usize,
    /// Encoded bytes, of which `sent` have been accepted.
    out: Vec<u8>,
    sent: usize,
    /// Received bytes, of which `decoded` have been decoded.
    input: Vec<u8>,
    decoded: usize,
}

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The cipher suite, under OpenSSL's name.
    pub cipher: String,
    /// The protocol version.
    pub version: &'static str,
    /// The client's verified certificate (DER), if it sent one.
    pub certificate: Option<Vec<u8>>,
}

impl TlsSession {
    /// Describes a connection; `None` before the end of its handshake.
    pub(crate) fn of(tls: &rustls::ServerConnection) -> Option<TlsSession> {
        if tls.is_handshaking() {
            return None;
        }
        let suite = tls.negotiated_cipher_suite()?;
        let certificate = tls.peer_certificates().and_then(|chain| chain.first());
        Some(TlsSession {
            cipher: openssl_name(suite.suite()),
            version: match tls.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            certificate: certificate.map(|c| c.as_ref().to_vec()),
        })
    }
}

/// OpenSSL's name of a cipher suite.
fn openssl_name(suite: rustls::CipherSuite) -> String {
    use rustls::CipherSuite as S;
    let name = match suite {
        S::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        S::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        S::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        S::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => return format!("{other:?}"),
    };
    name.to_owned()
}

/// Result of one read.
pub(crate) struct ReadOutcome {
    /// Plain bytes placed into the buffer.
    pub(crate) bytes: usize,
    /// Whether the socket has no more data for now.
    pub(crate) drained: bool,
    /// Whether the client has shut down its writing side.
    pub(crate) eof: bool,
}

impl ReadOutcome {
    /// The client has shut down its writing side.
    const END: ReadOutcome = ReadOutcome {
        bytes: 0,
        drained: true,
        eof: true,
    };
    /// No data is available for now.
    const NOTHING: ReadOutcome = ReadOutcome {
        bytes: 0,
        drained: true,
        eof: false,
    };
}

/// See the module.
pub(crate) struct Transport {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
    encoding: Option<Box<Encoding>>,
}

/// Records whether the socket was read to its end.
struct DrainTracker<'a> {
    socket: &'a Socket,
    drained: bool,
}

impl Read for DrainTracker<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.socket.read(buf)?;
        self.drained = n < buf.len();
        Ok(n)
    }
}

/// Runs code of TLS or a codec and turns a panic into an error, which ends the connection.
fn catch_panic<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        metrics::add(Counter::PanicsCaught, 1);
        let what = panic_message(&*panic);
        tracing::error!(
            "internal error (panic) in TLS or compression: the connection was ended: {what}"
        );
        Err(io::Error::other("internal error in TLS or compression"))
    })
}

/// Writes the waiting bytes of TLS to the socket.
fn write_tls_bytes(tls: &mut ServerConnection, mut socket: &Socket) -> io::Result<()> {
    catch_panic(|| {
        while tls.wants_write() {
            match tls.write_tls(&mut socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Transport {
        Transport {
            socket,
            tls: None,
            encoding: None,
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The socket's descriptor, if bytes are sent as they are; `None` with TLS or a codec.
    pub(crate) fn plain_fd(&self) -> Option<RawFd> {
        (self.tls.is_none() && self.encoding.is_none()).then(|| self.fd())
    }

    /// The result of the handshake; `None` without TLS, or before its end.
    pub(crate) fn tls_session(&self) -> Option<TlsSession> {
        TlsSession::of(self.tls.as_ref()?)
    }

    /// Whether a TLS handshake has begun and is not complete.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Sends `close_notify` on TLS: the client sees that nothing was truncated.
    pub(crate) fn send_close_notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            let queued = catch_panic(|| {
                tls.send_close_notify();
                Ok(())
            });
            let _ = queued.and_then(|()| self.flush_tls());
        }
    }

    /// Shuts down the server's writing side; the client may still send.
    pub(crate) fn end_writing(&mut self) {
        self.send_close_notify();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Wraps the socket into TLS; `early` was read already and belongs to the
    /// handshake.
    pub(crate) fn start_tls(
        &mut self,
        config: Arc<rustls::ServerConfig>,
        early: &[u8],
    ) -> io::Result<()> {
        catch_panic(|| self.begin_handshake(config, early))
    }

    fn begin_handshake(
        &mut self,
        config: Arc<rustls::ServerConfig>,
        mut early: &[u8],
    ) -> io::Result<()> {
        let mut tls = Box::new(ServerConnection::new(config).map_err(tls_error)?);
        while !early.is_empty() {
            if tls.read_tls(&mut early)? == 0 {
                break;
            }
            if let Err(error) = tls.process_new_packets() {
                self.tls = Some(tls);
                let _ = self.flush_tls();
                return Err(tls_error(error));
            }
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// Passes all bytes through a codec from now on, except for the next `plain_left` bytes sent.
    pub(crate) fn start_codec(&mut self, codec: Box<dyn StreamCodec>, plain_left: usize) {
        self.encoding = Some(Box::new(Encoding {
            codec,
            plain_left,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            decoded: 0,
        }));
    }

    /// Whether transformed bytes wait for the socket.
    pub(crate) fn pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
            || self.encoding.as_ref().is_some_and(|e| !e.out.is_empty())
    }

    /// Writes waiting transformed bytes; `WouldBlock` when the socket is full.
    #[inline]
    pub(crate) fn flush_pending(&mut self) -> io::Result<()> {
        if self.encoding.is_some() {
            self.flush_encoded()?;
        }
        self.flush_tls()
    }

    #[inline]
    fn flush_tls(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => write_tls_bytes(tls, &self.socket),
        }
    }

    /// Writes encoded bytes; `WouldBlock` when the socket is full.
    fn flush_encoded(&mut self) -> io::Result<()> {
        let Some(mut encoding) = self.encoding.take() else {
            return Ok(());
        };
        let mut result = Ok(());
        while let Some(bytes) = encoding.out.get(encoding.sent..).filter(|b| !b.is_empty()) {
            match self.write_plain(bytes) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => encoding.sent += n,
                Err(error) => result = Err(error),
            }
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() {
            encoding.out.clear();
            encoding.sent = 0;
        }
        self.encoding = Some(encoding);
        result
    }

    /// Reads once (with TLS or a codec: until there are plain bytes or nothing more).
    /// `ended` is whether epoll has reported that the peer has shut down its writing side.
    pub(crate) fn read(&mut self, buf: &mut [u8], ended: bool) -> io::Result<ReadOutcome> {
        let Some(mut encoding) = self.encoding.take() else {
            return self.read_plain(buf, ended);
        };
        let result = self.read_encoded(&mut encoding, buf, ended);
        self.encoding = Some(encoding);
        result
    }

    fn read_encoded(
        &mut self,
        encoding: &mut Encoding,
        buf: &mut [u8],
        ended: bool,
    ) -> io::Result<ReadOutcome> {
        loop {
            let waiting = encoding.input.get(encoding.decoded..).unwrap_or_default();
            let (consumed, produced) = catch_panic(|| encoding.codec.decode(waiting, buf))?;
            encoding.decoded += consumed;
            if produced > 0 || buf.is_empty() {
                return Ok(ReadOutcome {
                    bytes: produced,
                    drained: false,
                    eof: false,
                });
            }
            encoding.input.resize(CODEC_CHUNK, 0);
            encoding.decoded = 0;
            let got = self.read_plain(&mut encoding.input, ended);
            encoding.input.truncate(got.as_ref().map_or(0, |g| g.bytes));
            if encoding.input.is_empty() {
                encoding.input = Vec::new();
                return got;
            }
        }
    }

    fn read_plain(&mut self, buf: &mut [u8], ended: bool) -> io::Result<ReadOutcome> {
        if self.tls.is_some() {
            return catch_panic(|| self.read_tls(buf));
        }
        loop {
            match (&self.socket).read(buf) {
                Ok(0) => return Ok(ReadOutcome::END),
                // A short read has emptied the socket, unless its end follows.
                Ok(n) => {
                    let drained = n < buf.len() && !ended;
                    return Ok(ReadOutcome {
                        bytes: n,
                        drained,
                        eof: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(ReadOutcome::NOTHING);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_tls(&mut self, buf: &mut [u8]) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut ended = false;
        loop {
            // Plain bytes first: TLS accepts no more input while these are waiting.
            match tls.reader().read(buf) {
                Ok(0) => return Ok(ReadOutcome::END),
                Ok(n) => {
                    return Ok(ReadOutcome {
                        bytes: n,
                        drained: false,
                        eof: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(ReadOutcome::END);
                }
                Err(error) => return Err(error),
            }
            if ended {
                return Ok(ReadOutcome::END);
            }
            let mut tracker = DrainTracker {
                socket: &self.socket,
                drained: false,
            };
            match tls.read_tls(&mut tracker) {
                Ok(n) => ended = n == 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(ReadOutcome::NOTHING);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = tls.process_new_packets() {
                // Tries to send the client an alert.
                let _ = tls.write_tls(&mut &self.socket);
                return Err(tls_error(error));
            }
        }
    }

    /// Writes some of `bytes`; `WouldBlock` if none could be accepted.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(encoding) = &mut self.encoding else {
            return self.write_plain(bytes);
        };
        if encoding.plain_left > 0 {
            let plain = bytes.get(..encoding.plain_left.min(bytes.len()));
            let taken = self.write_plain(plain.unwrap_or_default())?;
            if let Some(encoding) = &mut self.encoding {
                encoding.plain_left -= taken;
            }
            return Ok(taken);
        }
        self.flush_encoded()?;
        let chunk = bytes
            .get(..CODEC_CHUNK.min(bytes.len()))
            .unwrap_or_default();
        if let Some(encoding) = &mut self.encoding {
            catch_panic(|| encoding.codec.encode(chunk, &mut encoding.out))?;
        }
        match self.flush_encoded() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(chunk.len()),
        }
    }

    fn write_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush_tls()?;
        let Some(tls) = &mut self.tls else {
            loop {
                match (&self.socket).write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        };
        let chunk = bytes.get(..TLS_CHUNK.min(bytes.len())).unwrap_or_default();
        let taken = catch_panic(|| tls.writer().write(chunk))?;
        match self.flush_tls() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }
}
