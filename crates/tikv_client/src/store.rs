//! Connections to stores: one channel and one stream of requests for each.
//!
//! All requests to a store share a stream (`BatchCommands`): those that wait when the sender is free go in one message,
//! and each answer names its request. So a thousand statements cost a few packets, and a lock that waits
//! holds up nothing.
//!
//! A store that closes the connection, does not accept one, or answers nothing at all for the time limit of a request
//! loses its connection: all requests on it end as *unanswered* (the store may have executed them), and the
//! next request connects again.
//!
//! Invariants:
//! 1. Every request ends: with its answer, with the connection's end, or at its time limit.
//! 2. A request is written to one connection only; who repeats it decides that, not this module.

use crate::proto::{
    BatchCommandsRequest, BatchCommandsResponse, BatchRequest, Command, DestroyRangeRequest,
    DestroyRangeResponse, Reply,
};
use crate::transport::{self, Channel, TlsOptions};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

/// Requests of one message.
const LARGEST_BATCH: usize = 128;
/// Time to connect to a store.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Time limit for the destruction of a range in one store.
const DESTROY_TIME: Duration = Duration::from_secs(120);
/// Messages that wait for the network.
const OUTGOING: usize = 16;

/// A request that is on its way.
pub(crate) struct Pending {
    answer: oneshot::Receiver<Reply>,
    connection: Arc<Connection>,
    id: u64,
    sent: Instant,
    limit: Instant,
}

impl Pending {
    /// Waits for the answer.
    ///
    /// # Errors
    /// There is none: the reason. The store may have executed the request.
    pub(crate) async fn wait(self) -> Result<Reply, String> {
        match tokio::time::timeout_at(self.limit.into(), self.answer).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(self.connection.end_reason()),
            Err(_) => {
                self.connection.pending.lock().remove(&self.id);
                // Other answers came meanwhile: the store lives, and only this request is slow.
                if *self.connection.heard.lock() < self.sent {
                    self.connection.end("it did not answer in time");
                    return Err(self.connection.end_reason());
                }
                let address = &self.connection.address;
                Err(format!(
                    "store {address}: it did not answer a request in time"
                ))
            }
        }
    }
}

/// A stream of requests to a store.
pub(crate) struct Connection {
    address: String,
    requests: mpsc::UnboundedSender<(u64, Command)>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
    next_id: AtomicU64,
    ended: AtomicBool,
    reason: Mutex<Option<String>>,
    /// Time of the newest answer.
    heard: Mutex<Instant>,
    /// Wakes the task that reads answers, so that it ends too.
    closed: Notify,
}

impl Connection {
    fn open(address: &str, tls: Option<&TlsOptions>) -> Result<Arc<Connection>, String> {
        let channel = transport::channel(address, CONNECT_TIME, tls)?;
        let (requests, queue) = mpsc::unbounded_channel();
        let connection = Arc::new(Connection {
            address: address.to_owned(),
            requests,
            pending: Mutex::default(),
            next_id: AtomicU64::new(1),
            ended: AtomicBool::new(false),
            reason: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            closed: Notify::new(),
        });
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        tokio::spawn(send_requests(queue, outgoing));
        let reader = connection.clone();
        tokio::spawn(async move {
            tokio::select! {
                why = receive_answers(&reader, channel, messages) => reader.end(&why),
                () = reader.closed.notified() => {}
            }
        });
        Ok(connection)
    }

    /// Whether new requests should use another connection.
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn end_reason(&self) -> String {
        let reason = self.reason.lock();
        let why = reason.as_deref().unwrap_or("the connection ended");
        format!("store {}: {why}", self.address)
    }

    /// Ends the connection and all requests on it.
    fn end(&self, why: &str) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            *self.reason.lock() = Some(why.to_owned());
        }
        // The receivers notice that their senders are gone.
        self.pending.lock().clear();
        self.closed.notify_one();
    }

    /// Sends a request.
    pub(crate) fn send(self: &Arc<Self>, command: Command, limit: Duration) -> Pending {
        let sent = Instant::now();
        let (sender, answer) = oneshot::channel();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.pending.lock().insert(id, sender);
        // A connection that ended before the insertion does not clear it any more.
        if self.is_ended() || self.requests.send((id, command)).is_err() {
            self.pending.lock().remove(&id);
        }
        Pending {
            answer,
            connection: self.clone(),
            id,
            sent,
            limit: sent + limit,
        }
    }
}

/// Collects waiting requests into messages.
async fn send_requests(
    mut queue: mpsc::UnboundedReceiver<(u64, Command)>,
    outgoing: mpsc::Sender<BatchCommandsRequest>,
) {
    let mut waiting = Vec::with_capacity(LARGEST_BATCH);
    while queue.recv_many(&mut waiting, LARGEST_BATCH).await > 0 {
        let mut message = BatchCommandsRequest::default();
        for (id, command) in waiting.drain(..) {
            message.request_ids.push(id);
            message.requests.push(BatchRequest {
                command: Some(command),
            });
        }
        if outgoing.send(message).await.is_err() {
            return;
        }
    }
}

/// Reads answers until the stream ends; returns why.
async fn receive_answers(
    connection: &Connection,
    channel: Channel,
    messages: mpsc::Receiver<BatchCommandsRequest>,
) -> String {
    let path = "/tikvpb.Tikv/BatchCommands";
    let opening = transport::stream(&channel, path, ReceiverStream::new(messages));
    let mut stream: tonic::Streaming<BatchCommandsResponse> = match opening.await {
        Ok(stream) => stream,
        Err(why) => return why,
    };
    loop {
        let message = match stream.message().await {
            Ok(Some(message)) => message,
            Ok(None) => return "it closed the stream".into(),
            Err(status) => return transport::describe(&status),
        };
        *connection.heard.lock() = Instant::now();
        let mut pending = connection.pending.lock();
        for (id, response) in message.request_ids.iter().zip(message.responses) {
            if let (Some(waiter), Some(reply)) = (pending.remove(id), response.reply) {
                let _ = waiter.send(reply);
            }
        }
    }
}

/// The stores of a cluster, by number.
pub(crate) struct Stores {
    tls: Option<TlsOptions>,
    addresses: Mutex<HashMap<u64, String>>,
    connections: Mutex<HashMap<String, Arc<Connection>>>,
}

impl Stores {
    /// An empty set of stores.
    pub(crate) fn new(tls: Option<TlsOptions>) -> Stores {
        Stores {
            tls,
            addresses: Mutex::default(),
            connections: Mutex::default(),
        }
    }

    /// Destroys a range in the store at `address`.
    pub(crate) async fn destroy_range(
        &self,
        address: &str,
        request: DestroyRangeRequest,
    ) -> Result<(), String> {
        let channel = transport::channel(address, CONNECT_TIME, self.tls.as_ref())?;
        let path = "/tikvpb.Tikv/UnsafeDestroyRange";
        let answer: DestroyRangeResponse =
            transport::unary(&channel, path, request, DESTROY_TIME).await?;
        match (answer.region_error, answer.error.as_str()) {
            (None, "") => Ok(()),
            (Some(e), _) => Err(format!("store {address}: {}", e.message)),
            (None, why) => Err(format!("store {address}: {why}")),
        }
    }

    /// The address of a store, if known.
    pub(crate) fn address(&self, store: u64) -> Option<String> {
        self.addresses.lock().get(&store).cloned()
    }

    /// Records the address of a store.
    pub(crate) fn set_address(&self, store: u64, address: String) {
        self.addresses.lock().insert(store, address);
    }

    /// Forgets the address of a store, which may have moved.
    pub(crate) fn forget(&self, store: u64) {
        self.addresses.lock().remove(&store);
    }

    /// A connection to a store.
    pub(crate) fn connection(&self, address: &str) -> Result<Arc<Connection>, String> {
        let mut all = self.connections.lock();
        if let Some(connection) = all.get(address).filter(|c| !c.is_ended()) {
            return Ok(connection.clone());
        }
        let connection = Connection::open(address, self.tls.as_ref())?;
        all.insert(address.to_owned(), connection.clone());
        Ok(connection)
    }
}
