//! State that the client and its transactions share.

use crate::call::Threads;
use crate::router::Router;
use crate::transport::TlsOptions;
use std::sync::Arc;
use std::time::Duration;

/// Options for [`crate::Client::connect`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Addresses of placement drivers, `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Time for which [`crate::Client::connect`] retries.
    pub connect_time: Duration,
    /// Time limit of one request to a store, without the wait for a lock.
    pub request_time: Duration,
    /// Time after which a call without a deadline of its own ends if the cluster does not serve it.
    pub retry_time: Duration,
    /// Time to live of locks without heartbeats: how long those of a dead server block others.
    pub lock_ttl: Duration,
    /// TLS of all connections; `None` for connections without TLS.
    pub tls: Option<TlsOptions>,
    /// Number of network threads.
    pub threads: usize,
}

/// A connected client.
pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    pub(crate) router: Arc<Router>,
    pub(crate) threads: Threads,
}
