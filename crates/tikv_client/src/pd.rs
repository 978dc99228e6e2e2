//! The placement driver: timestamps, and where regions and stores are.
//!
//! Requests go to the leader of the placement drivers, which `members.rs` finds. A call whose leader is replaced is repeated at
//! the new leader at once.
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
//! A stream that fails, does not answer for [`ANSWER_TIME`], or whose leader is replaced while it is late, is opened again; its
//! callers stay in the queue.
//!
//! Invariants:
//! 1. Timestamps given out increase in the order of requests to the placement driver; an answer below an
//!    earlier one is discarded with its stream.
//! 2. No wait here is unbounded: a caller's own deadline closes its channel.

use crate::backoff::{Backoff, Class};
use crate::error::{Error, Result};
use crate::members::{ANSWER_TIME, CallEnd, DOUBT_TIME, Leader, Members, check_header};
use crate::proto::{
    GetAllStoresRequest, GetAllStoresResponse, GetRegionRequest, GetRegionResponse,
    GetSafePointRequest, GetStoreRequest, GetStoreResponse, MoveSafePointRequest, RequestHeader,
    SafePointResponse, ServiceSafePointRequest, ServiceSafePointResponse, Store, Timestamp,
    TsoRequest, TsoResponse,
};
use crate::region::{Region, encode_key};
use crate::transport::{self, TlsOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

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

/// The placement drivers of a cluster.
pub(crate) struct Pd {
    members: Arc<Members>,
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

impl Pd {
    /// Uses the placement drivers at these addresses; starts the task for timestamps. Sends no request yet.
    pub(crate) fn new(
        addresses: &[String],
        tls: Option<TlsOptions>,
        runtime: &tokio::runtime::Handle,
    ) -> Arc<Pd> {
        let (waiters, queue) = mpsc::unbounded_channel();
        let pd = Arc::new(Pd {
            members: Members::new(addresses, tls, runtime),
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
        let cluster_id = self.members.cluster_id();
        Some(RequestHeader { cluster_id })
    }

    /// Calls the leader until it answers, or the call's deadline.
    async fn ask<Q, A>(&self, path: &'static str, request: Q, b: &mut Backoff) -> Result<A>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        loop {
            let why = match self.members.leader(b.deadline()).await {
                Ok(leader) => {
                    let request = request.clone();
                    let call = transport::unary(&leader.channel, path, request, 2 * ANSWER_TIME);
                    match self.members.while_leading(&leader, call).await {
                        Ok(answer) => return Ok(answer),
                        Err(CallEnd::Replaced) => continue,
                        Err(CallEnd::Failed(why)) => {
                            self.members.failed(&leader);
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
    pub(crate) async fn connect(&self, b: &Backoff) -> Result<()> {
        let found = self.members.leader(b.deadline()).await;
        found.map(drop).map_err(Error::Unavailable)
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
        let until = Instant::now() + ANSWER_TIME;
        let why = match pd.members.leader(until).await {
            Ok(leader) => {
                let why = serve_stream(&pd, &leader, &mut waiting, &mut queue).await;
                pd.members.failed(&leader);
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
    leader: &Leader,
    waiting: &mut VecDeque<Waiter>,
    queue: &mut mpsc::UnboundedReceiver<Waiter>,
) -> String {
    let (requests, outgoing) = mpsc::channel(MAX_IN_FLIGHT);
    let mut sent: VecDeque<Sent> = VecDeque::new();
    // The first request goes ahead of the stream's opening, which some servers answer only then.
    send_waiting(pd, &requests, waiting, &mut sent);
    let mut stream = match open_stream(pd, leader, outgoing).await {
        Ok(stream) => stream,
        Err(why) => return give_back(sent, waiting, why),
    };
    let mut arrived = Vec::new();
    let mut is_doubted = false;
    loop {
        send_waiting(pd, &requests, waiting, &mut sent);
        let limit = if is_doubted { ANSWER_TIME } else { DOUBT_TIME };
        let late = sent.front().map(|s| s.at + limit);
        let late_at = late.unwrap_or_else(|| Instant::now() + ANSWER_TIME);
        let why = tokio::select! {
            n = queue.recv_many(&mut arrived, MAX_BATCH) => {
                waiting.extend(arrived.drain(..));
                if n > 0 { continue }
                "the client is closed".into()
            }
            answer = stream.message() => match answer {
                Ok(Some(answer)) => match take_answer(pd, &answer, &mut sent) {
                    Ok(()) => {
                        is_doubted = false;
                        continue
                    }
                    Err(why) => why,
                },
                Ok(None) => "the placement driver closed the stream".into(),
                Err(status) => transport::describe(&status),
            },
            () = tokio::time::sleep_until(late_at.into()), if late.is_some() => {
                if !is_doubted {
                    pd.members.doubt();
                    is_doubted = true;
                    continue
                }
                "the placement driver does not answer".into()
            }
            () = pd.members.replaced(leader), if is_doubted => CallEnd::Replaced.describe(),
        };
        return give_back(sent, waiting, why);
    }
}

/// Opens a stream of timestamps at the leader, within [`ANSWER_TIME`].
async fn open_stream(
    pd: &Pd,
    leader: &Leader,
    requests: mpsc::Receiver<TsoRequest>,
) -> std::result::Result<tonic::Streaming<TsoResponse>, String> {
    let requests = ReceiverStream::new(requests);
    let opening = transport::stream(&leader.channel, "/pdpb.PD/Tso", requests);
    let opening = async {
        let opened = tokio::time::timeout(ANSWER_TIME, opening).await;
        opened.unwrap_or_else(|_| Err("the placement driver does not answer".into()))
    };
    let opened = pd.members.while_leading(leader, opening).await;
    opened.map_err(CallEnd::describe)
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
