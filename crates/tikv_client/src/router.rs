//! Sends requests to the regions of their keys, until each has an answer.
//!
//! ```text
//! keys --group by region--> one request per group, all at once --> answers
//!   ^                                                                |
//!   +---- groups refused by their region, or without an answer <-----+
//!         (the cache is corrected first, and a pause is made)
//! ```
//!
//! | refusal | correction | pause |
//! |---|---|---|
//! | not leader, leader named | leader set | region |
//! | not leader, none named | next peer | leader |
//! | epoch does not match | regions of the answer learned | region |
//! | region not found, key not in region, peer id does not match | region forgotten | region |
//! | store does not match | region and the store's address forgotten | region |
//! | busy, disk full | - | busy, at least what the store asks |
//! | stale command, timestamps not synced, merging, not initialized | - | region |
//! | outcome undetermined | region forgotten | region |
//! | no answer | next peer; the store's address is read again | network |
//!
//! Invariants:
//! 1. A group is repeated only with the mark "may have arrived before" ([`Context::is_retry_request`]).
//! 2. [`Backoff::unanswered`] counts each request that ended without an answer, or with a refusal that does not exclude its
//!    execution, so that a caller whose request is not idempotent knows.

use crate::backoff::{Backoff, Class};
use crate::counts::Counters;
use crate::error::{Error, Result};
use crate::pd::Pd;
use crate::proto::{Command, Context, DestroyRangeRequest, RegionError, Reply, store_state};
use crate::region::{Region, RegionCache};
use crate::store::{Connection, Pending, Stores};
use crate::version;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Groups of keys whose requests are on their way at once.
const MAX_GROUPS: usize = 64;

/// Something with a key, by which its region is found.
pub(crate) trait Keyed {
    fn key(&self) -> &[u8];
    /// Size in a message.
    fn bytes(&self) -> usize {
        self.key().len()
    }
}

impl Keyed for Vec<u8> {
    fn key(&self) -> &[u8] {
        self
    }
}

/// Largest group of one request.
#[derive(Clone, Copy)]
pub(crate) struct GroupLimit {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// A result, or why there is none: the peer was not reached, or did not answer.
type Answered<T> = std::result::Result<T, String>;

/// Keys of one region.
struct Group<T> {
    region: Arc<Region>,
    items: Vec<T>,
    /// Whether it may have been executed before.
    repeated: bool,
}

/// Finds the way of requests to stores.
pub(crate) struct Router {
    pub(crate) pd: Arc<Pd>,
    pub(crate) regions: RegionCache,
    pub(crate) stores: Stores,
    pub(crate) counters: Counters,
    /// Time limit of a request.
    pub(crate) request_time: Duration,
    /// Average size of the values read lately, by which the first request of a read is sized.
    pub(crate) value_bytes: AtomicUsize,
    /// Transactions of this client whose locks are being given back.
    pub(crate) releasing: AtomicUsize,
}

/// Refusal of a group, which must be sent again.
struct Refusal {
    pause: Class,
    least: Duration,
    why: String,
}

impl Refusal {
    fn new(pause: Class, why: impl Into<String>) -> Refusal {
        Refusal {
            pause,
            least: Duration::ZERO,
            why: why.into(),
        }
    }
}

impl Router {
    /// The region of a key, from the cache or the placement driver.
    pub(crate) async fn region(&self, key: &[u8], b: &mut Backoff) -> Result<Arc<Region>> {
        if let Some(region) = self.regions.find(key) {
            return Ok(region);
        }
        self.counters.region_lookups.fetch_add(1, Ordering::Relaxed);
        let region = self.pd.region(key, false, b).await?;
        Ok(self.regions.insert(region))
    }

    /// The region of the keys immediately below `end`.
    pub(crate) async fn region_before(&self, end: &[u8], b: &mut Backoff) -> Result<Arc<Region>> {
        if let Some(region) = self.regions.find_before(end) {
            return Ok(region);
        }
        // The region of `end` itself is that of the keys below it, unless it begins there.
        let region = self.region(end, b).await?;
        if region.ends_at_or_contains(end) {
            return Ok(region);
        }
        self.counters.region_lookups.fetch_add(1, Ordering::Relaxed);
        let region = self.pd.region(end, true, b).await?;
        Ok(self.regions.insert(region))
    }

    /// A connection to the region's leader.
    async fn connection(
        &self,
        region: &Region,
        b: &mut Backoff,
    ) -> Result<Answered<Arc<Connection>>> {
        let id = region.leader.store_id;
        let address = match self.stores.address(id) {
            Some(address) => address,
            None => match self.pd.store(id, b).await? {
                Some(store) if store.state != store_state::TOMBSTONE => {
                    version::check(&store)?;
                    self.stores.set_address(id, store.address.clone());
                    store.address
                }
                _ => return Ok(Err(format!("store {id} does not exist any more"))),
            },
        };
        Ok(self.stores.connection(&address))
    }

    /// Sends a request to a region. `time` is that which the store may need beyond the usual.
    async fn send(
        &self,
        region: &Arc<Region>,
        repeated: bool,
        time: Duration,
        b: &mut Backoff,
        build: impl FnOnce(Context) -> Command,
    ) -> Result<Answered<Pending>> {
        let connection = match self.connection(region, b).await? {
            Ok(connection) => connection,
            Err(why) => return Ok(Err(why)),
        };
        let command = build(Context {
            region_id: region.id,
            region_epoch: Some(region.epoch),
            peer: Some(region.leader.clone()),
            is_retry_request: repeated,
            request_source: "external_porpoise".into(),
            ..Context::default()
        });
        self.counters.count(&command);
        Ok(Ok(connection.send(command, self.request_time + time)))
    }

    /// Corrects the cache after a refusal.
    fn refused(&self, region: &Arc<Region>, e: RegionError) -> Result<Refusal> {
        let why = format!("region {}: {}", region.id, e.message);
        if let Some(not_leader) = e.not_leader {
            return Ok(match not_leader.leader.filter(|l| l.store_id != 0) {
                Some(leader) => {
                    self.regions.set_leader(region, leader);
                    Refusal::new(Class::Region, why)
                }
                None => {
                    self.regions.try_next_peer(region);
                    Refusal::new(Class::Leader, why)
                }
            });
        }
        if let Some(epoch) = e.epoch_not_match {
            self.regions.remove(region);
            for meta in &epoch.current_regions {
                let same_store = |p: &&crate::proto::Peer| p.store_id == region.leader.store_id;
                let leader = meta.peers.iter().find(same_store);
                if let Some(region) = Region::new(meta, leader) {
                    self.regions.insert(region);
                }
            }
            return Ok(Refusal::new(Class::Region, why));
        }
        if let Some(busy) = e.server_is_busy {
            return Ok(Refusal {
                pause: Class::Busy,
                least: Duration::from_millis(busy.backoff_ms.min(2_000)),
                why: format!("{why} {}", busy.reason),
            });
        }
        if e.raft_entry_too_large.is_some() {
            return Err(Error::Refused(why));
        }
        if e.store_not_match.is_some() {
            self.stores.forget(region.leader.store_id);
        }
        let class = match e.disk_full {
            Some(_) => Class::Busy,
            None => Class::Region,
        };
        let is_temporary = e.stale_command.is_some()
            || e.max_timestamp_not_synced.is_some()
            || e.read_index_not_ready.is_some()
            || e.proposal_in_merging_mode.is_some()
            || e.region_not_initialized.is_some()
            || e.recovery_in_progress.is_some()
            || e.disk_full.is_some();
        if !is_temporary {
            self.regions.remove(region);
        }
        Ok(Refusal::new(class, why))
    }

    /// Corrects the cache after a request without an answer.
    fn unanswered(&self, region: &Arc<Region>, why: String) -> Refusal {
        self.stores.forget(region.leader.store_id);
        self.regions.try_next_peer(region);
        Refusal::new(Class::Network, why)
    }

    /// Groups sorted or unsorted items by region.
    async fn group<T: Keyed>(
        &self,
        items: Vec<T>,
        limit: GroupLimit,
        repeated: bool,
        b: &mut Backoff,
        groups: &mut Vec<Group<T>>,
    ) -> Result<()> {
        let first = groups.len();
        let mut bytes: Vec<usize> = Vec::new();
        // By region, the group that still has room.
        let mut open: std::collections::HashMap<u64, usize> = std::collections::HashMap::new();
        for item in items {
            let region = self.region(item.key(), b).await?;
            let size = item.bytes();
            let at = open.get(&region.id).copied().filter(|&i| {
                let full = |g: &Group<T>| g.items.len() >= limit.items;
                let used = bytes.get(i - first).copied().unwrap_or(0);
                groups
                    .get(i)
                    .is_some_and(|g| !full(g) && Arc::ptr_eq(&g.region, &region))
                    && used + size <= limit.bytes
            });
            let i = at.unwrap_or(groups.len());
            if at.is_none() {
                open.insert(region.id, i);
                bytes.push(0);
                groups.push(Group {
                    region,
                    items: Vec::new(),
                    repeated,
                });
            }
            if let (Some(group), Some(used)) = (groups.get_mut(i), bytes.get_mut(i - first)) {
                group.items.push(item);
                *used += size;
            }
        }
        Ok(())
    }

    /// Number of requests that `items` would take at present.
    pub(crate) async fn groups_of<T: Keyed>(
        &self,
        items: Vec<T>,
        limit: GroupLimit,
        b: &mut Backoff,
    ) -> Result<usize> {
        let mut groups = Vec::new();
        self.group(items, limit, false, b, &mut groups).await?;
        Ok(groups.len())
    }

    /// Sends requests for all items, and repeats those that are refused by their region or have no answer.
    /// `build` makes a request, `take` gets the items and the answer of each.
    pub(crate) async fn each<T: Keyed>(
        &self,
        items: Vec<T>,
        limit: GroupLimit,
        time: Duration,
        b: &mut Backoff,
        build: impl Fn(Context, &[T]) -> Command,
        mut take: impl FnMut(Vec<T>, Reply) -> Result<()>,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        self.group(items, limit, false, b, &mut waiting).await?;
        while !waiting.is_empty() {
            self.counters.rounds.fetch_add(b.steps(), Ordering::Relaxed);
            let later = waiting.split_off(waiting.len().min(MAX_GROUPS));
            let mut sent = Vec::with_capacity(waiting.len());
            for group in waiting {
                let build = |context| build(context, &group.items);
                let pending = self
                    .send(&group.region, group.repeated, time, b, build)
                    .await?;
                sent.push((group, pending));
            }
            waiting = later;
            let mut refusals: Vec<Refusal> = Vec::new();
            let mut refused = Vec::new();
            let mut failure = None;
            for (group, pending) in sent {
                let answer = match pending {
                    Ok(pending) => {
                        let answer = pending.wait().await;
                        b.unanswered += u32::from(answer.is_err());
                        answer
                    }
                    Err(why) => Err(why),
                };
                let outcome = match answer {
                    Ok(mut reply) => match reply.take_region_error() {
                        None => take(group.items, reply).map(|()| None),
                        Some(e) => {
                            b.unanswered += u32::from(e.may_have_been_executed());
                            let refused = self.refused(&group.region, e);
                            refused.map(|r| Some((r, group.items)))
                        }
                    },
                    Err(why) => Ok(Some((self.unanswered(&group.region, why), group.items))),
                };
                let (refusal, items) = match outcome {
                    Ok(None) => continue,
                    Ok(Some(refused)) => refused,
                    // The other answers of the round are awaited: their requests have effects.
                    Err(e) => {
                        failure.get_or_insert(e);
                        continue;
                    }
                };
                self.counters.retries.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("request repeated: {}", refusal.why);
                refusals.push(refusal);
                refused.extend(items);
            }
            if let Some(e) = failure {
                return Err(e);
            }
            pause(b, &refusals).await?;
            self.group(refused, limit, true, b, &mut waiting).await?;
        }
        Ok(())
    }

    /// Sends one request to the region that `find` names, until it has an answer.
    pub(crate) async fn one(
        &self,
        key: &[u8],
        b: &mut Backoff,
        build: impl Fn(Context) -> Command,
    ) -> Result<Reply> {
        let mut reply = None;
        let limit = GroupLimit {
            items: 1,
            bytes: usize::MAX,
        };
        let build = |context: Context, _: &[Vec<u8>]| build(context);
        let take = |_, answer| {
            reply = Some(answer);
            Ok(())
        };
        self.each(vec![key.to_vec()], limit, Duration::ZERO, b, build, take)
            .await?;
        reply.ok_or_else(unexpected)
    }

    /// Destroys a range in every store.
    pub(crate) async fn destroy_range(
        &self,
        start: &[u8],
        end: &[u8],
        b: &mut Backoff,
    ) -> Result<()> {
        for store in self.pd.stores(b).await? {
            if store.state == store_state::TOMBSTONE || store.is_columnar() {
                continue;
            }
            let request = DestroyRangeRequest {
                start_key: start.to_vec(),
                end_key: end.to_vec(),
            };
            let destroyed = self.stores.destroy_range(&store.address, request).await;
            destroyed.map_err(Error::Unavailable)?;
        }
        Ok(())
    }

    /// Sends one request to a known region, once. `None`: the cache was corrected, and the caller chooses the region
    /// again.
    pub(crate) async fn once(
        &self,
        region: &Arc<Region>,
        b: &mut Backoff,
        build: impl FnOnce(Context) -> Command,
    ) -> Result<Option<Reply>> {
        self.counters.rounds.fetch_add(b.steps(), Ordering::Relaxed);
        let pending = self.send(region, false, Duration::ZERO, b, build).await?;
        let answer = match pending {
            Ok(pending) => pending.wait().await,
            Err(why) => Err(why),
        };
        let refusal = match answer {
            Ok(mut reply) => match reply.take_region_error() {
                None => return Ok(Some(reply)),
                Some(e) => self.refused(region, e)?,
            },
            Err(why) => self.unanswered(region, why),
        };
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        pause(b, &[refusal]).await?;
        Ok(None)
    }
}

/// Pauses once for all refusals of a round: for the longest.
async fn pause(b: &mut Backoff, refusals: &[Refusal]) -> Result<()> {
    match refusals.iter().max_by_key(|r| (r.least, r.pause as usize)) {
        Some(r) => b.pause_for(r.pause, r.least, &r.why).await,
        None => Ok(()),
    }
}

/// An answer of another kind than the request: the peer is no TiKV store.
pub(crate) fn unexpected() -> Error {
    Error::Unavailable("a store sent an answer of another kind than the request".into())
}

impl RegionError {
    /// Whether the request may have been executed: its proposal was under way when the leader changed, or when the peer left the
    /// region.
    fn may_have_been_executed(&self) -> bool {
        self.undetermined_result.is_some()
            || self.stale_command.is_some()
            || self.region_not_found.is_some()
    }
}

impl Reply {
    /// Takes the region's refusal out of the answer.
    fn take_region_error(&mut self) -> Option<RegionError> {
        match self {
            Reply::Get(r) => r.region_error.take(),
            Reply::Scan(r) => r.region_error.take(),
            Reply::Prewrite(r) => r.region_error.take(),
            Reply::Commit(r)
            | Reply::BatchRollback(r)
            | Reply::ResolveLock(r)
            | Reply::TxnHeartBeat(r) => r.region_error.take(),
            Reply::BatchGet(r) => r.region_error.take(),
            Reply::ScanLock(r) => r.region_error.take(),
            Reply::PessimisticLock(r) => r.region_error.take(),
            Reply::PessimisticRollback(r) => r.region_error.take(),
            Reply::CheckTxnStatus(r) => r.region_error.take(),
            Reply::CheckSecondaryLocks(r) => r.region_error.take(),
        }
    }
}
