//! The placement driver: timestamps, and where regions and stores are.
//!
//! Of several placement drivers the leader answers. It is found by asking all known members at once, so
//! that a member that hangs delays nothing, and again whenever the leader fails or does not answer in time.
//!
//! # Timestamps
//!
//! A task owns the stream of timestamps. Callers leave a one-shot channel; the task asks for as many
//! timestamps as callers wait, without waiting for earlier answers (at most [`MAX_IN_FLIGHT`]), so that any
//! number of statements costs one round trip each and few messages:
//!
//! ```text
//! callers   a b c        d e              f
//! stream    -> 3         -> 2             -> 1
//!                  <- last of 3   <- last of 2 ...
//! ```
//!
//! A stream that fails, or does not answer for [`ANSWER_TIME`], is replaced, at another leader if there is one;
//! its callers stay in the queue. A *stopped* leader accepts connections and says nothing: only this time
//! limit finds it.
//!
//! Invariants:
//! 1. Timestamps given out increase in the order of requests to the placement driver; an answer below an
//!    earlier one is discarded with its stream.
//! 2. No wait here is unbounded: a caller's own deadline closes its channel.

use crate::backoff::{Backoff, Class};
use crate::error::{Error, Result};
use crate::proto::{
    GetAllStoresRequest, GetAllStoresResponse, GetMembersRequest, GetMembersResponse,
    GetRegionRequest, GetRegionResponse, GetSafePointRequest, GetStoreRequest, GetStoreResponse,
    MoveSafePointRequest, RequestHeader, ResponseHeader, SafePointResponse,
    ServiceSafePointRequest, ServiceSafePointResponse, Store, Timestamp, TsoRequest, TsoResponse,
};
use crate::region::{Region, encode_key};
use crate::transport::{self, Channel, TlsOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

/// Time after which a placement driver that does not answer is given up.
const ANSWER_TIME: Duration = Duration::from_millis(1_000);
/// Requests for timestamps without an answer.
const MAX_IN_FLIGHT: usize = 4;
/// Timestamps of one request; the placement driver refuses more than fit a logical clock.
const MAX_BATCH: usize = 10_000;
/// Pause after a failed attempt to open the stream.
const PAUSE: Duration = Duration::from_millis(50);

/// Bits of the logical part of a timestamp; the rest is milliseconds since 1970.
const LOGICAL_BITS: u32 = 18;

/// Milliseconds since 1970 of a timestamp.
pub fn physical_ms(ts: u64) -> u64 {
    ts >> LOGICAL_BITS
}

/// The first timestamp of a millisecond.
pub fn first_timestamp_of(ms: u64) -> u64 {
    ms << LOGICAL_BITS
}

/// The last timestamp of a millisecond.
pub fn last_timestamp_of(ms: u64) -> u64 {
    (ms << LOGICAL_BITS) | ((1 << LOGICAL_BITS) - 1)
}

type Waiter = oneshot::Sender<u64>;

/// Known placement drivers.
struct Members {
    /// Addresses, `HOST:PORT`.
    addresses: Vec<String>,
    leader: Option<(String, Channel)>,
    cluster_id: u64,
}

/// The placement drivers of a cluster.
pub(crate) struct Pd {
    members: Mutex<Members>,
    tls: Option<TlsOptions>,
    /// One search for the leader at a time.
    searching: tokio::sync::Mutex<()>,
    waiters: mpsc::UnboundedSender<Waiter>,
    newest: Mutex<Newest>,
}

/// The newest timestamp received; 0 before the first. The placement driver issued it between the two times.
#[derive(Clone, Copy)]
struct Newest {
    ts: u64,
    /// Time of the request.
    requested: Instant,
    /// Time of the answer.
    arrived: Instant,
}

fn address_of(url: &str) -> String {
    let url = (url.strip_prefix("http://"))
        .or_else(|| url.strip_prefix("https://"))
        .unwrap_or(url);
    url.trim_end_matches('/').to_owned()
}

fn check_header(header: Option<&ResponseHeader>) -> std::result::Result<(), String> {
    match header.and_then(|h| h.error.as_ref()) {
        Some(e) if e.kind != 0 => Err(format!("placement driver: {}", e.message)),
        _ => Ok(()),
    }
}

impl Pd {
    /// Uses the placement drivers at these addresses; starts the task for timestamps. Sends no request yet.
    pub(crate) fn new(
        addresses: Vec<String>,
        tls: Option<TlsOptions>,
        runtime: &tokio::runtime::Handle,
    ) -> Arc<Pd> {
        let (waiters, queue) = mpsc::unbounded_channel();
        let pd = Arc::new(Pd {
            members: Mutex::new(Members {
                addresses: addresses.iter().map(|a| address_of(a)).collect(),
                leader: None,
                cluster_id: 0,
            }),
            tls,
            searching: tokio::sync::Mutex::new(()),
            waiters,
            newest: Mutex::new(Newest {
                ts: 0,
                requested: Instant::now(),
                arrived: Instant::now(),
            }),
        });
        runtime.spawn(grant_timestamps(pd.clone(), queue));
        pd
    }

    fn header(&self) -> Option<RequestHeader> {
        let cluster_id = self.members.lock().cluster_id;
        Some(RequestHeader { cluster_id })
    }

    fn known_leader(&self) -> Option<Channel> {
        let members = self.members.lock();
        members.leader.as_ref().map(|(_, channel)| channel.clone())
    }

    /// Forgets the leader if it is still this one.
    fn leader_failed(&self, failed: &Channel) {
        let mut members = self.members.lock();
        if members.leader.as_ref().is_some_and(|(_, c)| c.is(failed)) {
            members.leader = None;
        }
    }

    /// A channel to the leader, which is searched for if none is known.
    async fn leader(&self) -> std::result::Result<Channel, String> {
        if let Some(channel) = self.known_leader() {
            return Ok(channel);
        }
        let _turn = self.searching.lock().await;
        if let Some(channel) = self.known_leader() {
            return Ok(channel);
        }
        let addresses = self.members.lock().addresses.clone();
        let mut requests = JoinSet::new();
        for address in addresses {
            let tls = self.tls.clone();
            requests.spawn(async move {
                let channel = transport::channel(&address, ANSWER_TIME, tls.as_ref())?;
                let request = GetMembersRequest { header: None };
                let path = "/pdpb.PD/GetMembers";
                let answer: GetMembersResponse =
                    transport::unary(&channel, path, request, ANSWER_TIME).await?;
                check_header(answer.header.as_ref())?;
                Ok::<_, String>(answer)
            });
        }
        let mut last = String::from("no placement driver is configured");
        while let Some(answer) = requests.join_next().await {
            match answer {
                Ok(Ok(answer)) => match self.learn(&answer) {
                    Ok(channel) => return Ok(channel),
                    Err(why) => last = why,
                },
                Ok(Err(why)) => last = why,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Takes over the members and the leader that a member names.
    fn learn(&self, answer: &GetMembersResponse) -> std::result::Result<Channel, String> {
        let cluster = answer.header.as_ref().map_or(0, |h| h.cluster_id);
        let url = (answer.leader.as_ref()).and_then(|l| l.client_urls.first());
        let Some(url) = url else {
            return Err("the placement drivers have no leader at present".into());
        };
        let address = address_of(url);
        let channel = transport::channel(&address, ANSWER_TIME, self.tls.as_ref())?;
        let mut members = self.members.lock();
        if members.cluster_id != 0 && cluster != members.cluster_id {
            return Err(format!(
                "{address} is of cluster {cluster}, not of cluster {}",
                members.cluster_id
            ));
        }
        members.cluster_id = cluster;
        let named = answer.members.iter().flat_map(|m| &m.client_urls);
        for address in named.map(|url| address_of(url.as_str())) {
            if !members.addresses.contains(&address) {
                members.addresses.push(address);
            }
        }
        members.leader = Some((address, channel.clone()));
        Ok(channel)
    }

    /// Calls the leader until it answers, or the call's deadline.
    async fn ask<Q, A>(&self, path: &'static str, request: Q, b: &mut Backoff) -> Result<A>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        loop {
            let why = match self.leader().await {
                Ok(channel) => {
                    match transport::unary(&channel, path, request.clone(), 2 * ANSWER_TIME).await {
                        Ok(answer) => return Ok(answer),
                        Err(why) => {
                            self.leader_failed(&channel);
                            why
                        }
                    }
                }
                Err(why) => why,
            };
            b.pause(Class::Network, &why).await?;
        }
    }

    /// The region of a key, or with `before` that of the keys immediately below it.
    pub(crate) async fn region(&self, key: &[u8], before: bool, b: &mut Backoff) -> Result<Region> {
        let path = if before {
            "/pdpb.PD/GetPrevRegion"
        } else {
            "/pdpb.PD/GetRegion"
        };
        loop {
            let request = GetRegionRequest {
                header: self.header(),
                region_key: encode_key(key),
            };
            let answer: GetRegionResponse = self.ask(path, request, b).await?;
            let meta = answer.region.as_ref();
            let region = meta.and_then(|meta| Region::new(meta, answer.leader.as_ref()));
            match (region, check_header(answer.header.as_ref())) {
                (Some(region), Ok(())) => return Ok(region),
                (_, Err(why)) => b.pause(Class::Region, &why).await?,
                (None, Ok(())) => {
                    let why = "the placement driver knows no region of a key";
                    b.pause(Class::Region, why).await?;
                }
            }
        }
    }

    /// A store, or `None` if the placement driver does not know it.
    pub(crate) async fn store(&self, id: u64, b: &mut Backoff) -> Result<Option<Store>> {
        let request = GetStoreRequest {
            header: self.header(),
            store_id: id,
        };
        let answer: GetStoreResponse = self.ask("/pdpb.PD/GetStore", request, b).await?;
        Ok(answer.store)
    }

    /// All stores that hold data, including those that do not answer.
    pub(crate) async fn stores(&self, b: &mut Backoff) -> Result<Vec<Store>> {
        loop {
            let request = GetAllStoresRequest {
                header: self.header(),
                exclude_tombstone_stores: true,
            };
            let path = "/pdpb.PD/GetAllStores";
            let answer: GetAllStoresResponse = self.ask(path, request, b).await?;
            match check_header(answer.header.as_ref()) {
                Ok(()) => return Ok(answer.stores),
                Err(why) => b.pause(Class::Network, &why).await?,
            }
        }
    }

    /// Registers the oldest timestamp that a service needs. Returns the oldest that any service needs, or the safe point
    /// if that is later.
    pub(crate) async fn register_service(
        &self,
        service: &str,
        ttl: i64,
        safe_point: u64,
        b: &mut Backoff,
    ) -> Result<u64> {
        let request = ServiceSafePointRequest {
            header: self.header(),
            service_id: service.as_bytes().to_vec(),
            ttl,
            safe_point,
        };
        let path = "/pdpb.PD/UpdateServiceGCSafePoint";
        let answer: ServiceSafePointResponse = self.ask(path, request, b).await?;
        check_header(answer.header.as_ref()).map_err(Error::Unavailable)?;
        Ok(answer.min_safe_point)
    }

    /// The safe point of garbage collection.
    pub(crate) async fn safe_point(&self, b: &mut Backoff) -> Result<u64> {
        let request = GetSafePointRequest {
            header: self.header(),
        };
        let path = "/pdpb.PD/GetGCSafePoint";
        let answer: SafePointResponse = self.ask(path, request, b).await?;
        check_header(answer.header.as_ref()).map_err(Error::Unavailable)?;
        Ok(answer.safe_point)
    }

    /// Moves the safe point of garbage collection; returns the one in force.
    pub(crate) async fn move_safe_point(&self, safe_point: u64, b: &mut Backoff) -> Result<u64> {
        let request = MoveSafePointRequest {
            header: self.header(),
            safe_point,
        };
        let path = "/pdpb.PD/UpdateGCSafePoint";
        let answer: SafePointResponse = self.ask(path, request, b).await?;
        check_header(answer.header.as_ref()).map_err(Error::Unavailable)?;
        Ok(answer.safe_point)
    }

    /// Waits until the leader answers; learns the members.
    pub(crate) async fn connect(&self, b: &mut Backoff) -> Result<()> {
        loop {
            match self.leader().await {
                Ok(_) => return Ok(()),
                Err(why) => b.pause(Class::Network, &why).await?,
            }
        }
    }

    /// A new timestamp.
    pub(crate) async fn timestamp(&self, b: &Backoff) -> Result<u64> {
        let late = || Error::Unavailable("no placement driver gives timestamps".into());
        let (waiter, granted) = oneshot::channel();
        self.waiters.send(waiter).map_err(|_| late())?;
        match tokio::time::timeout_at(b.deadline().into(), granted).await {
            Ok(Ok(ts)) => Ok(ts),
            _ => Err(late()),
        }
    }

    /// The present time as a timestamp, estimated without a request. It may be ahead of the placement driver, so it is only compared
    /// and never sent: stores end their process when they get a timestamp that was not given out.
    pub(crate) fn estimated_now(&self) -> u64 {
        let Newest { ts, arrived, .. } = *self.newest.lock();
        let elapsed =
            u64::try_from(arrived.elapsed().as_millis()).unwrap_or(u64::MAX >> LOGICAL_BITS);
        ts.saturating_add(elapsed << LOGICAL_BITS)
    }

    /// The newest timestamp received.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.lock().ts
    }

    /// The newest timestamp received, if it was requested at most `age` ago.
    pub(crate) fn recent(&self, age: Duration) -> Option<u64> {
        let newest = *self.newest.lock();
        (newest.ts > 0 && newest.requested.elapsed() <= age).then_some(newest.ts)
    }

    /// The `count` timestamps of an answer, which contains only the last of them; `None` if they do not increase.
    fn granted(
        &self,
        answer: &TsoResponse,
        count: usize,
        requested: Instant,
    ) -> Option<std::ops::RangeInclusive<u64>> {
        let Timestamp {
            physical,
            logical,
            suffix_bits,
        } = answer.timestamp?;
        let (physical, logical) = (u64::try_from(physical).ok()?, u64::try_from(logical).ok()?);
        let last = physical.checked_shl(LOGICAL_BITS)?.checked_add(logical)?;
        let first = last.checked_sub(count as u64 - 1)?;
        let mut newest = self.newest.lock();
        if suffix_bits != 0 || answer.count as usize != count || first <= newest.ts {
            return None;
        }
        *newest = Newest {
            ts: last,
            requested,
            arrived: Instant::now(),
        };
        Some(first..=last)
    }
}

/// Serves the queue of callers until the client's runtime ends.
async fn grant_timestamps(pd: Arc<Pd>, mut queue: mpsc::UnboundedReceiver<Waiter>) {
    let mut waiting = VecDeque::new();
    loop {
        waiting.retain(|w: &Waiter| !w.is_closed());
        if waiting.is_empty() {
            match queue.recv().await {
                Some(waiter) => waiting.push_back(waiter),
                None => return,
            }
        }
        let why = match pd.leader().await {
            Ok(channel) => {
                let why = serve_stream(&pd, &channel, &mut waiting, &mut queue).await;
                pd.leader_failed(&channel);
                why
            }
            Err(why) => why,
        };
        tracing::debug!("the stream of timestamps ended: {why}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Callers whose request was sent, and when.
struct Sent {
    callers: Vec<Waiter>,
    at: Instant,
}

/// Opens a stream and serves callers with it until it fails; returns why. Callers without a timestamp are in
/// `waiting` then, in order.
async fn serve_stream(
    pd: &Pd,
    channel: &Channel,
    waiting: &mut VecDeque<Waiter>,
    queue: &mut mpsc::UnboundedReceiver<Waiter>,
) -> String {
    let (requests, outgoing) = mpsc::channel(MAX_IN_FLIGHT);
    let mut sent: VecDeque<Sent> = VecDeque::new();
    // The first request goes ahead of the stream's opening, which some servers answer only then.
    send_waiting(pd, &requests, waiting, &mut sent);
    let opening = transport::stream(channel, "/pdpb.PD/Tso", ReceiverStream::new(outgoing));
    let mut stream = match tokio::time::timeout(ANSWER_TIME, opening).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return give_back(sent, waiting, why),
        Err(_) => return give_back(sent, waiting, "the placement driver does not answer".into()),
    };
    let mut arrived = Vec::new();
    loop {
        send_waiting(pd, &requests, waiting, &mut sent);
        let late = sent.front().map(|s| s.at + ANSWER_TIME);
        let late_at = late.unwrap_or_else(|| Instant::now() + ANSWER_TIME);
        let why = tokio::select! {
            n = queue.recv_many(&mut arrived, MAX_BATCH) => {
                waiting.extend(arrived.drain(..));
                if n > 0 { continue }
                "the client is closed".into()
            }
            answer = stream.message() => match answer {
                Ok(Some(answer)) => match take_answer(pd, &answer, &mut sent) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
                Ok(None) => "the placement driver closed the stream".into(),
                Err(status) => transport::describe(&status),
            },
            () = tokio::time::sleep_until(late_at.into()), if late.is_some() => {
                "the placement driver does not answer".into()
            }
        };
        return give_back(sent, waiting, why);
    }
}

/// Sends one request for all waiting callers, unless too many are on their way.
fn send_waiting(
    pd: &Pd,
    requests: &mpsc::Sender<TsoRequest>,
    waiting: &mut VecDeque<Waiter>,
    sent: &mut VecDeque<Sent>,
) {
    if waiting.is_empty() || sent.len() >= MAX_IN_FLIGHT {
        return;
    }
    let callers: Vec<Waiter> = waiting.drain(..waiting.len().min(MAX_BATCH)).collect();
    let request = TsoRequest {
        header: pd.header(),
        count: callers.len() as u32,
        dc_location: "global".into(),
    };
    // The channel has room for all requests in flight; if the stream is gone, its end is noticed.
    let _ = requests.try_send(request);
    let at = Instant::now();
    sent.push_back(Sent { callers, at });
}

/// Gives the timestamps of an answer to the callers of the oldest request.
fn take_answer(
    pd: &Pd,
    answer: &TsoResponse,
    sent: &mut VecDeque<Sent>,
) -> std::result::Result<(), String> {
    check_header(answer.header.as_ref())?;
    let Some(oldest) = sent.front() else {
        return Err("timestamps that were not requested".into());
    };
    let Some(timestamps) = pd.granted(answer, oldest.callers.len(), oldest.at) else {
        return Err(format!("timestamps that do not increase: {answer:?}"));
    };
    if let Some(oldest) = sent.pop_front() {
        for (caller, ts) in oldest.callers.into_iter().zip(timestamps) {
            let _ = caller.send(ts);
        }
    }
    Ok(())
}

/// Puts callers without a timestamp back in front of the queue.
fn give_back(sent: VecDeque<Sent>, waiting: &mut VecDeque<Waiter>, why: String) -> String {
    for batch in sent.into_iter().rev() {
        for caller in batch.callers.into_iter().rev() {
            waiting.push_front(caller);
        }
    }
    why
}
