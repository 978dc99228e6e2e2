//! A listener for HTTP: a tokio runtime of one thread that accepts connections within a budget, and
//! passes their requests to a router. Handlers run what may block on the runtime's other threads.

use super::budget::{Connection, Limits, Listener};
use crate::net::TlsSession;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Stack of the threads, as workers have: they run statements.
const STACK: usize = crate::net::worker::STACK;

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Properties of a connection, for handlers.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address at which the client has reached the listener.
    pub(crate) local: SocketAddr,
    /// Encryption of the connection, if it is encrypted.
    pub(crate) tls: Option<TlsSession>,
}

/// Pages and limits of a listener.
pub(crate) struct Site {
    /// Role of the thread.
    pub(crate) role: Role,
    /// Name of the threads that handlers use.
    pub(crate) thread_name: &'static str,
    /// The handlers. They get [`super::Client`] and [`ConnectionInfo`] as extensions, and call
    /// [`super::Client::begin_answer`] once they have read the request.
    pub(crate) router: Router,
    /// Configuration of TLS; `None` serves plain text only.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// Limits of connections.
    pub(crate) limits: Limits,
    /// Maximum number of threads for work that may block.
    pub(crate) threads: usize,
}

/// A running HTTP listener.
pub struct Http {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Serves on a listening, non-blocking socket.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub(crate) fn serve(socket: std::net::TcpListener, site: Site) -> io::Result<Http> {
        let (stop, stopped) = watch::channel(false);
        let thread = threads::spawn_restarting(site.role, move || {
            if let Err(error) = run(&socket, &site, stopped.clone()) {
                let name = site.role.name();
                tracing::error!("the listener of {name} has failed, nothing is served: {error}");
            }
        })?;
        Ok(Http {
            stop,
            thread: Some(thread),
        })
    }

    /// Closes the listener and all connections, and waits for the thread's end.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves until `stopped` becomes true.
fn run(
    socket: &std::net::TcpListener,
    site: &Site,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name(site.thread_name)
        .thread_stack_size(STACK)
        .max_blocking_threads(site.threads)
        .build()?;
    let served = runtime.block_on(async {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => Ok(()),
            result = accept(socket, site) => result.map(|never| match never {}),
        }
    });
    // A handler that waits for a latch must not delay the shutdown.
    runtime.shutdown_background();
    served
}

async fn accept(socket: std::net::TcpListener, site: &Site) -> io::Result<Infallible> {
    let listener = Listener::new(TcpListener::from_std(socket)?, site.limits);
    let tls = site.tls.clone().map(TlsAcceptor::from);
    let clock = porpoise_base::clock::system();
    loop {
        let connection = listener.accept().await;
        if is_dated(&*clock) {
            tokio::spawn(serve_either(connection, site.router.clone(), tls.clone()));
        } else {
            tokio::spawn(refuse_undated(connection));
        }
    }
}

/// Response to every request while the clock is before 1970.
const UNDATED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 32\r\n\
    connection: close\r\n\r\nthe system clock is before 1970\n";

/// Whether the clock is at or after 1970 (it reads 0 for earlier times). The HTTP library formats
/// the date for every connection and panics for earlier ones.
pub(super) fn is_dated(clock: &dyn Clock) -> bool {
    clock.unix_micros() > 0
}

/// Answers one request with [`UNDATED`].
async fn refuse_undated(mut connection: Connection) {
    let mut request = [0; 4096];
    let answered = async {
        // Reads the request first: closing a socket with unread bytes would send a reset.
        let _ = connection.read(&mut request).await?;
        connection.write_all(UNDATED).await?;
        connection.shutdown().await
    };
    if let Err(error) = answered.await {
        tracing::debug!("HTTP: {error}");
    }
}

/// Answers the requests of one connection, with TLS if the client begins with a handshake.
async fn serve_either(mut connection: Connection, router: Router, tls: Option<TlsAcceptor>) {
    let router = router.layer(Extension(connection.client()));
    let served = async {
        let (peer, local) = connection.addresses()?;
        let mut info = ConnectionInfo {
            peer,
            local,
            tls: None,
        };
        match (connection.first_byte().await?, tls) {
            (Some(TLS_HANDSHAKE), Some(tls)) => {
                let encrypted = tls.accept(connection).await?;
                info.tls = TlsSession::of(encrypted.get_ref().1);
                serve_connection(encrypted, router.layer(Extension(info))).await;
            }
            _ => serve_connection(connection, router.layer(Extension(info))).await,
        }
        io::Result::Ok(())
    };
    if let Err(error) = served.await {
        tracing::debug!("HTTP: {error}");
    }
}

/// Answers the requests of one connection.
async fn serve_connection(connection: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let service = TowerToHyperService::new(router);
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("HTTP: {error}");
    }
}
