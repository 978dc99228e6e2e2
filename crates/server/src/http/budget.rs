//! Budget of HTTP connections: number, time and bytes of each.
//!
//! A connection has [`REQUEST_TIME`] from accept, and later from a request's
//! first byte, to the begin of its answer; a request has at most
//! [`REQUEST_BYTES`], headers and body together. These are absolute limits, so a
//! client that sends a byte now and then gains nothing. A newcomer beyond
//! [`CONNECTIONS`] takes the place of the oldest connection that is not being
//! answered.
//!
//! Rejected: leaving newcomers in the listen queue, where a health check waits
//! behind idle clients.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once.
pub(super) const CONNECTIONS: usize = 64;

/// Time for a request to arrive.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Size of a request, with its body, in bytes.
pub(super) const REQUEST_BYTES: usize = 16 * 1024;

/// Longest life of a connection.
const LIFETIME: Duration = Duration::from_secs(60);

/// A connection as the registry knows it.
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
    /// Makes room for one more, if need be at the cost of the oldest that is
    /// not being answered, or else the oldest.
    fn make_room(&mut self) {
        while self.open.len() >= CONNECTIONS {
            let idle = self.open.iter().find(|(_, entry)| !entry.client.answered());
            let Some(id) = idle.or_else(|| self.open.iter().next()).map(|(id, _)| *id) else {
                return;
            };
            if let Some(entry) = self.open.remove(&id) {
                // It may have ended by itself meanwhile.
                let _ = entry.evict.send(());
            }
        }
    }
}

/// Handle by which a page tells that a connection's request is being answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Client(Arc<AtomicBool>);

impl Client {
    /// The request is complete; its answer is being made.
    pub(super) fn begin_answer(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn end_answer(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn answered(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Accepts within the budget.
pub(super) struct Listener {
    socket: TcpListener,
    registry: Arc<Mutex<Registry>>,
}

impl Listener {
    pub(super) fn new(socket: TcpListener) -> Listener {
        Listener {
            socket,
            registry: Arc::default(),
        }
    }

    /// The next connection, and the handle of its requests.
    pub(super) async fn accept(&self) -> (Connection, Client) {
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    let connection = self.admit(stream);
                    let client = connection.client.clone();
                    return (connection, client);
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream) -> Connection {
        let (evict, evicted) = oneshot::channel();
        let client = Client::default();
        let mut registry = self.registry.lock();
        registry.make_room();
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
            lifetime: Box::pin(sleep(LIFETIME)),
            request: Box::pin(sleep(REQUEST_TIME)),
            receiving: true,
            received: 0,
            wrote: false,
        }
    }
}

/// A connection that ends by itself.
pub(super) struct Connection {
    stream: TcpStream,
    id: u64,
    client: Client,
    registry: Arc<Mutex<Registry>>,
    evicted: oneshot::Receiver<()>,
    lifetime: Pin<Box<Sleep>>,
    /// Limit for the request that is being received.
    request: Pin<Box<Sleep>>,
    /// A request is awaited for the first time, or has begun.
    receiving: bool,
    /// Bytes of that request.
    received: usize,
    /// A part of the answer was written since the last flush.
    wrote: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.id);
    }
}

impl Connection {
    /// Fails once the connection has lost its place or a limit has passed.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.evicted).poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let late = self.lifetime.as_mut().poll(cx).is_ready()
            || (self.receiving
                && !self.client.answered()
                && self.request.as_mut().poll(cx).is_ready());
        if late {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Counts received bytes; the first ones begin a request.
    fn note_received(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > 0 && !self.receiving {
            self.receiving = true;
            self.received = 0;
            let limit = Instant::now() + REQUEST_TIME;
            self.request.as_mut().reset(limit);
        }
        self.received += bytes;
        if self.received > REQUEST_BYTES {
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
            // The limit of a new request has to wake this task.
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
