//! The HTTP door: `/health` and `/metrics`.
//!
//! A runtime of one thread, apart from the workers. At most [`PLACES`]
//! connections are open at once, each for at most [`LIFETIME`]: a client that
//! sends nothing, or reads nothing, costs little and not for long.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Sleep;

/// Connections at once.
pub const PLACES: usize = 64;

/// Longest life of a connection.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// What the pages show.
pub trait Pages: Send + Sync + 'static {
    /// Whether the server can do its work; else why not.
    fn health(&self) -> Result<(), String>;
    /// The metrics page.
    fn metrics(&self) -> String;
}

/// The running HTTP door.
pub struct Http {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Serves `pages` on a listening, non-blocking socket.
    pub fn start(socket: std::net::TcpListener, pages: Arc<dyn Pages>) -> io::Result<Http> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("http".into())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        result = serve(socket, pages) => {
                            if let Err(error) = result {
                                tracing::error!("HTTP has ended: {error}");
                            }
                        }
                    }
                });
            })?;
        Ok(Http {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Closes everything.
    pub fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(socket: std::net::TcpListener, pages: Arc<dyn Pages>) -> io::Result<()> {
    let listener = Listener {
        socket: TcpListener::from_std(socket)?,
        places: Arc::new(Semaphore::new(PLACES)),
    };
    let health = pages.clone();
    let router = Router::new()
        .route(
            "/health",
            get(move || async move {
                match health.health() {
                    Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
                    Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
                }
            }),
        )
        .route(
            "/metrics",
            get(move || async move {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                ([(header::CONTENT_TYPE, kind)], pages.metrics()).into_response()
            }),
        );
    let router = router.fallback(|| async {
        let text = "Here are /health and /metrics.\n";
        (StatusCode::NOT_FOUND, text)
    });
    axum::serve(listener, router).await
}

/// Accepts within the limits of the module.
struct Listener {
    socket: TcpListener,
    places: Arc<Semaphore>,
}

impl axum::serve::Listener for Listener {
    type Io = Limited;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Limited, SocketAddr) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else {
                // Nobody closes the semaphore; waiting is all there is to do.
                std::future::pending::<()>().await;
                continue;
            };
            match self.socket.accept().await {
                Ok((stream, from)) => {
                    let end = Box::pin(tokio::time::sleep(LIFETIME));
                    return (
                        Limited {
                            stream,
                            end,
                            _place: place,
                        },
                        from,
                    );
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A connection that ends by itself.
struct Limited {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Limited {
    fn over(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.over(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.over(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
