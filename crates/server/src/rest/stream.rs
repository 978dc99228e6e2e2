//! Answers in chunks, passed from a thread that may block to the connection.
//!
//! At most [`MAX_CHUNKS`] chunks wait for the client; then the thread waits. If the sender is dropped
//! before the end of the answer, the connection is closed, so that the client does not take the answer for complete.

use super::execution::Cancellation;
use super::problem::Problem;
use crate::http::StreamGuard;
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_sql::SqlError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// Maximum number of chunks that wait for the client.
const MAX_CHUNKS: usize = 4;

/// Longest wait for the client before the sender checks for cancellation.
const LOOK: Duration = Duration::from_millis(200);

/// A part of an answer.
enum Piece {
    Chunk(Bytes),
    /// The answer is complete.
    End,
}

/// Creates both ends of an answer. The sender fails when the client reads nothing for `patience`.
pub(super) fn channel(patience: Duration) -> (ChunkSender, ChunkReceiver) {
    let (send, receive) = mpsc::channel(MAX_CHUNKS);
    let sender = ChunkSender {
        send,
        handle: Handle::current(),
        patience,
    };
    (sender, ChunkReceiver(receive))
}

/// The sending end, for a thread that may block.
pub(super) struct ChunkSender {
    send: Sender<Piece>,
    handle: Handle,
    patience: Duration,
}

/// Error 1160: the client is gone, or does not read.
fn not_taken() -> SqlError {
    let text = "Got an error writing communication packets";
    SqlError::new(1160, "08S01", text)
}

impl ChunkSender {
    /// Sends a chunk, once the client has taken earlier ones. `cancel` ends the wait.
    ///
    /// # Errors
    /// 1160; the request was cancelled.
    pub(super) fn send(&self, bytes: Bytes, cancel: Option<&Cancel>) -> Result<(), SqlError> {
        self.send_piece(Piece::Chunk(bytes), cancel)
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// 1160.
    pub(super) fn end(&self) -> Result<(), SqlError> {
        self.send_piece(Piece::End, None)
    }

    fn send_piece(&self, piece: Piece, cancel: Option<&Cancel>) -> Result<(), SqlError> {
        let until = Instant::now() + self.patience;
        blocking(|| {
            loop {
                let wait = self.send.reserve();
                match self.handle.block_on(async { timeout(LOOK, wait).await }) {
                    Ok(Ok(permit)) => {
                        permit.send(piece);
                        return Ok(());
                    }
                    Ok(Err(_)) => return Err(not_taken()),
                    Err(_) => {}
                }
                if let Some(reason) = cancel.and_then(Cancel::reason) {
                    return Err(porpoise_sql::cancelled(reason));
                }
                if Instant::now() >= until {
                    return Err(not_taken());
                }
            }
        })
    }
}

/// The receiving end.
pub(super) struct ChunkReceiver(Receiver<Piece>);

impl ChunkReceiver {
    /// Returns the body of the answer when its first chunk is ready. `task` sends the chunks.
    ///
    /// # Errors
    /// The task has failed before the first chunk.
    pub(super) async fn body<T: Send + 'static>(
        mut self,
        task: impl Future<Output = Result<T, Problem>> + Send + 'static,
        cancellation: Cancellation,
        stream: Option<StreamGuard>,
    ) -> Result<Body, Problem> {
        let task = tokio::spawn(task);
        let Some(Piece::Chunk(first)) = self.0.recv().await else {
            return Err(match task.await {
                Ok(Err(problem)) => problem,
                _ => {
                    let text = "internal error; see the server's log";
                    Problem::mysql(1105, "HY000", text.to_owned())
                }
            });
        };
        Ok(Body::new(Chunks {
            first: Some(first),
            rest: self.0,
            is_complete: false,
            _cancellation: cancellation,
            _stream: stream,
        }))
    }
}

/// An answer in chunks. Dropping it ends its request.
struct Chunks {
    first: Option<Bytes>,
    rest: Receiver<Piece>,
    is_complete: bool,
    _cancellation: Cancellation,
    _stream: Option<StreamGuard>,
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.is_complete {
            return Poll::Ready(None);
        }
        self.rest.poll_recv(cx).map(|piece| match piece {
            Some(Piece::Chunk(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => {
                self.is_complete = true;
                None
            }
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}
