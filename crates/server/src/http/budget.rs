//! Limits of HTTP connections: their number, and time and bytes of each.
//!
//! The first request must arrive within [`Limits::request_time`] of the accept, a later
//! one within that time of its first byte. A request has at most
//! [`Limits::request_bytes`], headers and body together. The time limits are absolute:
//! receiving a byte does not extend them. A new connection beyond [`Limits::connections`]
//! replaces the oldest connection that is not being answered.
//!
//! Rejected: leaving new connections in the listen queue, where a health check would
//! wait behind idle clients.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Limits of a listener's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open connections.
    pub(crate) connections: usize,
    /// Maximum time for a request to arrive.
    pub(crate) request_time: Duration,
    /// Largest request, headers and body together, in bytes.
    pub(crate) request_bytes: usize,
    /// Maximum lifetime of a connection.
    pub(crate) lifetime: Duration,
}

/// A connection in the registry.
struct Entry {
    client: Client,
    evict: oneshot::Sender<()>,
}

/// Open connections by age.
#[derive(Default)]
struct Registry {
    next: u64,
    open: BTreeMap<u64, Entry>,
}

impl Registry {
    /// Makes room for one more connection. Evicts the oldest one that is not being
    /// answered, or else the oldest.
    fn make_room(&mut self, limit: usize) {
        while self.open.len() >= limit {
            let idle = self
                .open
                .iter()
                .find(|(_, entry)| !entry.client.is_answering());
            let Some(id) = idle.or_else(|| self.open.iter().next()).map(|(id, _)| *id) else {
                return;
            };
            if let Some(entry) = self.open.remove(&id) {
                // Fails if the connection has ended meanwhile.
                let _ = entry.evict.send(());
            }
        }
    }
}

/// Flags of a connection, for the page handlers.
#[derive(Debug, Default)]
struct Flags {
    /// A request is being answered.
    answering: AtomicBool,
    /// The answer is a stream.
    streaming: AtomicBool,
}

/// State of a connection whose request is being answered; set by the page handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client(Arc<Flags>);

/// A guard of an answer that is sent in many parts: the connection counts as being answered until this is dropped.
#[derive(Debug)]
pub(crate) struct StreamGuard(Client);

impl Client {
    /// Records that the request is complete and is being answered.
    pub(crate) fn begin_answer(&self) {
        self.0.answering.store(true, Ordering::Relaxed);
    }

    /// Marks the answer as a stream: a new connection does not evict it while other connections are idle.
    pub(crate) fn begin_stream(&self) -> StreamGuard {
        self.0.streaming.store(true, Ordering::Relaxed);
        StreamGuard(self.clone())
    }

    fn end_answer(&self) {
        self.0.answering.store(false, Ordering::Relaxed);
    }

    fn is_answering(&self) -> bool {
        let Flags {
            answering,
            streaming,
        } = &*self.0;
        answering.load(Ordering::Relaxed) || streaming.load(Ordering::Relaxed)
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.0.streaming.store(false, Ordering::Relaxed);
    }
}

/// A listener that accepts connections within the budget.
pub(super) struct Listener {
    socket: TcpListener,
    limits: Limits,
    registry: Arc<Mutex<Registry>>,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, limits: Limits) -> Listener {
        Listener {
            socket,
            limits,
            registry: Arc::default(),
        }
    }

    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> Connection {
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => return self.admit(stream),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream) -> Connection {
        let (evict, evicted) = oneshot::channel();
        let client = Client::default();
        let mut registry = self.registry.lock();
        registry.make_room(self.limits.connections);
        registry.next += 1;
        let id = registry.next;
        let entry = Entry {
            client: client.clone(),
            evict,
        };
        registry.open.insert(id, entry);
        Connection {
            stream,
            id,
            client,
            registry: self.registry.clone(),
            evicted,
            limits: self.limits,
            lifetime: Box::pin(sleep(self.limits.lifetime)),
            request: Box::pin(sleep(self.limits.request_time)),
            receiving: true,
            received: 0,
            wrote: false,
        }
    }
}

/// A connection that enforces its limits.
pub(super) struct Connection {
    stream: TcpStream,
    id: u64,
    client: Client,
    registry: Arc<Mutex<Registry>>,
    evicted: oneshot::Receiver<()>,
    limits: Limits,
    lifetime: Pin<Box<Sleep>>,
    /// Time limit of the request that is being received.
    request: Pin<Box<Sleep>>,
    /// Whether a request is being received, or the first one is awaited.
    receiving: bool,
    /// Number of bytes of that request.
    received: usize,
    /// Whether a part of the response was written since the last flush.
    wrote: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.id);
    }
}

impl Connection {
    /// Addresses of the client and of this end.
    pub(super) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.peer_addr()?, self.stream.local_addr()?))
    }

    /// Returns the flag for the page handlers.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits for the first byte, and leaves it to be read. `None` at the end of input.
    pub(super) async fn first_byte(&mut self) -> io::Result<Option<u8>> {
        poll_fn(|cx| {
            self.check(cx)?;
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            match self.stream.poll_peek(cx, &mut buffer) {
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(buffer.filled().first().copied())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Fails if the connection has been evicted or a limit is exceeded.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.evicted).poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let late = self.lifetime.as_mut().poll(cx).is_ready()
            || (self.receiving
                && !self.client.is_answering()
                && self.request.as_mut().poll(cx).is_ready());
        if late {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Counts received bytes; the first bytes after a response start a new request.
    fn note_received(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > 0 && !self.receiving {
            self.receiving = true;
            self.received = 0;
            let limit = Instant::now() + self.limits.request_time;
            self.request.as_mut().reset(limit);
        }
        self.received += bytes;
        if self.received > self.limits.request_bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = &polled {
            self.note_received(buf.filled().len() - before)?;
            // Polls the limit of a new request, so that its timer wakes this task.
            self.check(cx)?;
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(_)) = &polled {
            self.wrote = true;
            self.receiving = false;
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.wrote) {
            self.client.end_answer();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
