//! The memcached listener: runs [`porpoise_memcached`] on the event loops.
//!
//! The first byte of a connection decides about TLS: the first byte of a handshake starts TLS,
//! anything else is a plain-text request, which is refused if TLS is required.

use crate::certificate;
use crate::config::StartError;
use crate::metrics::{self, Counter};
use crate::mysql::login::tls_peer;
use crate::net::{self, End, Input, Output, Peer, Protocol, Refusal, Session};
use porpoise_kv::CommitPosition;
use porpoise_memcached::{
    Client, Connection, Disconnected, Memcached, Next, OpenError, ReplySink, tls_required,
};
use std::net::SocketAddr;
use std::sync::Arc;

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// TLS settings of a listener.
#[derive(Clone, Default)]
pub struct TlsSettings {
    /// TLS configuration; `None` if the listener does not offer TLS.
    pub config: Option<Arc<rustls::ServerConfig>>,
    /// Whether clients without TLS are refused, except those of a Unix socket.
    pub required: bool,
}

/// The memcached protocol at a listener.
pub struct MemcachedProtocol {
    listener: Arc<Memcached>,
    tls: Arc<TlsSettings>,
}

impl MemcachedProtocol {
    /// Serves the connections of `listener`.
    pub fn new(listener: Arc<Memcached>, tls: TlsSettings) -> MemcachedProtocol {
        MemcachedProtocol {
            listener,
            tls: Arc::new(tls),
        }
    }
}

/// Bytes received and sent so far.
pub fn traffic() -> (u64, u64) {
    let sum = metrics::sum;
    (sum(Counter::BytesReceived), sum(Counter::BytesSent))
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        match error {
            OpenError::UnknownRole(_) => StartError::usage(error.to_string()),
            OpenError::Failed(..) => StartError::failure(error.to_string()),
        }
    }
}

impl Protocol for MemcachedProtocol {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn open(&self, peer: Peer, _out: &mut Output) -> Box<dyn Session> {
        let client = Client {
            address: peer.address,
            host: peer.host(),
            is_local: peer.is_local(),
            cancel: peer.cancel,
        };
        Box::new(MemcachedSession {
            address: peer.address,
            connection: self.listener.connect(client),
            tls: self.tls.clone(),
            begun: false,
        })
    }

    fn refusal(&self, why: Refusal) -> Vec<u8> {
        match why {
            Refusal::TooManyConnections => b"ERROR Too many open connections\r\n".to_vec(),
            Refusal::OutOfResources => b"SERVER_ERROR out of resources\r\n".to_vec(),
        }
    }
}

struct MemcachedSession {
    connection: Connection,
    tls: Arc<TlsSettings>,
    address: Option<SocketAddr>,
    /// Whether the connection has passed the TLS decision, so that requests are read.
    begun: bool,
}

impl MemcachedSession {
    /// Starts TLS if the client does, and refuses plain-text clients if TLS is required. Returns
    /// `None` when requests can be read.
    fn begin(&mut self, first: u8, out: &mut Output) -> Option<net::Next> {
        let tls = out.tls();
        if tls.is_none() {
            if let (Some(config), TLS_HANDSHAKE) = (&self.tls.config, first) {
                return Some(net::Next::StartTls(config.clone()));
            }
            if self.tls.required && self.address.is_some() {
                tls_required(first, out.buf());
                return Some(net::Next::Close);
            }
        }
        let certificate = tls.as_ref().and_then(|tls| tls.certificate.as_deref());
        let names = certificate.and_then(certificate::names);
        let common_name = names.and_then(|names| names.common_name);
        self.connection
            .begin(tls.map(tls_peer), common_name.as_deref());
        self.begun = true;
        None
    }
}

impl Session for MemcachedSession {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> net::Next {
        if !self.begun
            && let Some(first) = input.bytes().first()
            && let Some(next) = self.begin(*first, out)
        {
            return next;
        }
        let progress = self.connection.run_requests(input.bytes(), out);
        input.consume(progress.consumed);
        if progress.missing > 0 {
            let want = input.len().saturating_add(progress.missing);
            input.request_bytes(want);
        }
        progress.next.into()
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        if self.connection.is_binary() {
            // The client has sent no request to which an error could reply.
            return;
        }
        let text: &[u8] = match end {
            End::UnknownOutcome => UNKNOWN_OUTCOME,
            End::InternalError => b"SERVER_ERROR internal error\r\n",
            // No reply: no request is in progress.
            _ => b"",
        };
        out.buf().extend_from_slice(text);
    }

    fn logged_in(&self) -> bool {
        self.connection.is_authenticated()
    }
}

const UNKNOWN_OUTCOME: &[u8] =
    b"SERVER_ERROR commit outcome unknown: the log could not be synced; the last changes may or may not survive a restart\r\n";

impl From<Next> for net::Next {
    fn from(next: Next) -> net::Next {
        match next {
            Next::Wait => net::Next::Wait,
            Next::Yield => net::Next::Yield,
            Next::Close => net::Next::Close,
            Next::Delay { delay, close } => net::Next::Delay { delay, close },
        }
    }
}

impl ReplySink for Output {
    #[inline]
    fn buf(&mut self) -> &mut Vec<u8> {
        Output::buf(self)
    }

    #[inline]
    fn position(&self) -> usize {
        Output::position(self)
    }

    #[inline]
    fn defer_from(&mut self, from: usize, position: CommitPosition) {
        Output::defer_from(self, from, position);
    }

    #[inline]
    fn request_done(&mut self) {
        Output::request_done(self);
    }

    #[inline]
    fn should_yield(&self) -> bool {
        Output::should_yield(self)
    }

    #[inline]
    fn send_if_detached(&mut self) {
        Output::send_if_detached(self);
    }

    #[inline]
    fn is_full(&self) -> bool {
        Output::is_full(self)
    }

    fn drain(&mut self) -> Result<(), Disconnected> {
        Output::drain(self).map_err(|_| Disconnected)
    }
}
