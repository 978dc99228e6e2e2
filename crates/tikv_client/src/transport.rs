//! gRPC: channels, unary calls and streams, with the sizes and times that all of them share.

use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic_prost::ProstCodec;

/// Longest message accepted: an answer of the most and largest values.
const LARGEST_MESSAGE: usize = 1100 << 20;
/// Pings of an idle connection, so that the death of the other machine is noticed. Servers refuse more
/// frequent ones.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(3);
/// HTTP/2 windows: a page of rows without a wait for window updates.
const WINDOW: u32 = 8 << 20;

/// Certificates of connections with TLS, in PEM. The servers' names are verified.
#[derive(Clone)]
pub struct TlsOptions {
    /// Certificate of the authority that signed the servers' certificates.
    pub authority: Vec<u8>,
    /// Certificate and private key of this client, for servers that ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsOptions").finish_non_exhaustive()
    }
}

impl TlsOptions {
    fn config(&self) -> ClientTlsConfig {
        let authority = Certificate::from_pem(&self.authority);
        let config = ClientTlsConfig::new().ca_certificate(authority);
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

/// A connection to a server, made when it is first used and again after it broke.
#[derive(Clone)]
pub(crate) struct Channel {
    inner: tonic::transport::Channel,
    identity: Arc<()>,
}

impl Channel {
    /// Whether `other` is a clone of this channel.
    pub(crate) fn is(&self, other: &Channel) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

/// One line for a failed call.
pub(crate) fn describe(status: &tonic::Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    if text.len() > 300 {
        let cut = (0..=300).rev().find(|&i| text.is_char_boundary(i));
        text.truncate(cut.unwrap_or(0));
    }
    text
}

/// A channel to `address` (`HOST:PORT`).
pub(crate) fn channel(
    address: &str,
    connect: Duration,
    tls: Option<&TlsOptions>,
) -> Result<Channel, String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|e| format!("{address} is not an address: {e}"))?;
    if let Some(tls) = tls {
        let with_tls = endpoint.tls_config(tls.config());
        endpoint = with_tls.map_err(|e| {
            let cause = std::error::Error::source(&e).map(ToString::to_string);
            format!("the certificates of TLS: {e}: {cause:?}")
        })?;
    }
    let endpoint = endpoint
        .connect_timeout(connect)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW);
    Ok(Channel {
        inner: endpoint.connect_lazy(),
        identity: Arc::new(()),
    })
}

type Grpc = tonic::client::Grpc<tonic::transport::Channel>;

async fn ready(channel: &Channel) -> Result<Grpc, String> {
    let mut grpc = tonic::client::Grpc::new(channel.inner.clone())
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    grpc.ready().await.map_err(|e| {
        format!(
            "{e}: {:?}",
            std::error::Error::source(&e).map(ToString::to_string)
        )
    })?;
    Ok(grpc)
}

/// Calls a method, for at most `limit`.
pub(crate) async fn unary<Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Q,
    limit: Duration,
) -> Result<A, String>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let call = async {
        let mut grpc = ready(channel).await?;
        let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|s| describe(&s))
    };
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer to {path} within {limit:?}")),
    }
}

/// Opens a stream of requests and answers.
pub(crate) async fn stream<Q, A>(
    channel: &Channel,
    path: &'static str,
    requests: impl tokio_stream::Stream<Item = Q> + Send + 'static,
) -> Result<tonic::Streaming<A>, String>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = ready(channel).await?;
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    let answer = grpc
        .streaming(tonic::Request::new(requests), path, codec)
        .await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|s| describe(&s))
}
