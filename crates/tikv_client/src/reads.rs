//! Reads at a timestamp: keys, pages of ranges, and locks of ranges.
//!
//! The size of an answer is not known in advance: a request asks for as many values as fit [`ANSWER_BYTES`] by the
//! average of the values read lately. A page asks only the regions that it needs, one after
//! the other, and ends at its limit.

use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::proto::{
    BatchGetRequest, Command, Context, GetRequest, KeyError, KvPair, LockInfo, Reply,
    ScanLockRequest, ScanRequest,
};
use crate::resolve::PassedLocks;
use crate::router::{GroupLimit, Router, unexpected};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of keys of one request.
pub(crate) const BATCH_KEYS: usize = 1024;
/// Size of a value while none was read.
pub(crate) const FIRST_VALUE_BYTES: usize = 4 << 10;
/// Target size of an answer.
const ANSWER_BYTES: usize = 4 << 20;
/// Maximum bytes of keys of one request.
pub(crate) const BATCH_BYTES: usize = 512 * 1024;

/// Keys and values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The lock that a key error reports; another error ends the read.
fn lock_of(e: KeyError) -> Result<LockInfo> {
    match e.locked {
        Some(lock) => Ok(lock),
        None => Err(Error::Unavailable(format!("a read was refused: {e:?}"))),
    }
}

/// Separates values from locks; returns whether there were none of the latter.
fn take_pairs(pairs: Vec<KvPair>, found: &mut Pairs, locks: &mut Vec<LockInfo>) -> Result<()> {
    for pair in pairs {
        match pair.error {
            Some(e) => locks.push(lock_of(e)?),
            None => found.push((pair.key, pair.value)),
        }
    }
    Ok(())
}

fn pass(mut context: Context, passed: &PassedLocks) -> Option<Context> {
    context.resolved_locks.clone_from(&passed.ignored);
    context.committed_locks.clone_from(&passed.committed);
    Some(context)
}

/// A page of a range.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// First key, inclusive.
    pub start: Vec<u8>,
    /// End key, exclusive.
    pub end: Vec<u8>,
    /// Maximum number of keys.
    pub limit: u32,
    /// Whether the page begins at the end of the range.
    pub reverse: bool,
    /// Whether values are left out.
    pub keys_only: bool,
}

impl Router {
    /// The values of those of `keys` that exist at `ts`.
    pub(crate) async fn get_many(
        self: &Arc<Self>,
        ts: u64,
        mut keys: Vec<Vec<u8>>,
        b: &mut Backoff,
    ) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let mut found = HashMap::with_capacity(keys.len());
        while !keys.is_empty() {
            let most = self.values_of_one_answer();
            // All keys at once while values are small, else as many as a few answers hold.
            let part = if most == BATCH_KEYS {
                keys.len()
            } else {
                4 * most
            };
            let later = keys.split_off(part.min(keys.len()));
            let pairs = self.get_part(ts, keys, most, b).await?;
            self.note_values(pairs.iter().map(|(_, value)| value.len()));
            found.extend(pairs);
            keys = later;
        }
        Ok(found)
    }

    /// Number of values that fit one answer by the average of late.
    pub(crate) fn values_of_one_answer(&self) -> usize {
        let average = self.value_bytes.load(Ordering::Relaxed);
        (ANSWER_BYTES / (average + 1)).clamp(1, BATCH_KEYS)
    }

    /// Takes the sizes of values into the average, the new ones with half of the weight.
    pub(crate) fn note_values(&self, sizes: impl Iterator<Item = usize>) {
        let (n, bytes) = sizes.fold((0usize, 0usize), |(n, bytes), size| (n + 1, bytes + size));
        if let Some(average) = bytes.checked_div(n) {
            let old = self.value_bytes.load(Ordering::Relaxed);
            let new = usize::midpoint(old, average);
            self.value_bytes.store(new, Ordering::Relaxed);
        }
    }

    async fn get_part(
        self: &Arc<Self>,
        mut ts: u64,
        mut keys: Vec<Vec<u8>>,
        most: usize,
        b: &mut Backoff,
    ) -> Result<Pairs> {
        let mut found = Pairs::new();
        let mut passed = PassedLocks::default();
        let limit = GroupLimit {
            items: most,
            bytes: BATCH_BYTES,
        };
        loop {
            let mut locks = Vec::new();
            let mut open = Vec::new();
            let build = |context, keys: &[Vec<u8>]| read_request(pass(context, &passed), keys, ts);
            let take = |keys: Vec<Vec<u8>>, reply| {
                let before = locks.len();
                match reply {
                    Reply::Get(r) => match (r.error, keys.first()) {
                        (Some(e), _) => locks.push(lock_of(e)?),
                        // Not every store marks absent keys; Porpoise writes no empty values, so an empty one means absent.
                        (None, Some(key)) if !r.not_found && !r.value.is_empty() => {
                            found.push((key.clone(), r.value));
                        }
                        _ => {}
                    },
                    Reply::BatchGet(r) => match r.error {
                        Some(e) => locks.push(lock_of(e)?),
                        None => {
                            let mut here = Pairs::new();
                            take_pairs(r.pairs, &mut here, &mut locks)?;
                            if locks.len() == before {
                                found.append(&mut here);
                            }
                        }
                    },
                    _ => return Err(unexpected()),
                }
                if locks.len() > before {
                    open.extend(keys);
                }
                Ok(())
            };
            self.each(keys, limit, Duration::ZERO, b, build, take)
                .await?;
            if open.is_empty() {
                return Ok(found);
            }
            // A transaction cannot be made to commit after the end of time, but after now.
            if ts == u64::MAX {
                ts = self.pd.timestamp(b).await?;
                self.counters.timestamps.fetch_add(1, Ordering::Relaxed);
            }
            self.pass_locks(locks, ts, &mut passed, b).await?;
            keys = open;
        }
    }

    /// At most `limit` pairs of a range at `ts`.
    pub(crate) async fn page(
        self: &Arc<Self>,
        ts: u64,
        page: &PageRequest,
        b: &mut Backoff,
    ) -> Result<Pairs> {
        let mut found = Pairs::new();
        let mut passed = PassedLocks::default();
        let (mut start, mut end) = (page.start.clone(), page.end.clone());
        while found.len() < page.limit as usize && start < end {
            let region = if page.reverse {
                self.region_before(&end, b).await?
            } else {
                self.region(&start, b).await?
            };
            let low = start.as_slice().max(&region.start).to_vec();
            let high = match region.end.as_slice() {
                [] => end.clone(),
                border => end.as_slice().min(border).to_vec(),
            };
            let limit = page.limit - u32::try_from(found.len()).unwrap_or(u32::MAX);
            let build = |context| {
                let (from, to) = if page.reverse {
                    (&high, &low)
                } else {
                    (&low, &high)
                };
                Command::Scan(ScanRequest {
                    context: pass(context, &passed),
                    start_key: from.clone(),
                    end_key: to.clone(),
                    limit,
                    version: ts,
                    key_only: page.keys_only,
                    reverse: page.reverse,
                })
            };
            let reply = match self.once(&region, b, build).await? {
                Some(Reply::Scan(reply)) => reply,
                Some(_) => return Err(unexpected()),
                None => continue,
            };
            let mut locks = Vec::new();
            let mut here = Pairs::new();
            if let Some(e) = reply.error {
                locks.push(lock_of(e)?);
            }
            take_pairs(reply.pairs, &mut here, &mut locks)?;
            if !locks.is_empty() {
                self.pass_locks(locks, ts, &mut passed, b).await?;
                continue;
            }
            if !page.keys_only {
                self.note_values(here.iter().map(|(_, value)| value.len()));
            }
            found.append(&mut here);
            if page.reverse {
                end = low;
            } else {
                start = high;
            }
        }
        Ok(found)
    }

    /// Decides and removes all locks of a range that transactions up to `max_ts` hold. Waits for live ones.
    pub(crate) async fn remove_locks_of_range(
        &self,
        mut start: Vec<u8>,
        end: &[u8],
        max_ts: u64,
        b: &mut Backoff,
    ) -> Result<()> {
        while start.as_slice() < end {
            let region = self.region(&start, b).await?;
            let high = match region.end.as_slice() {
                [] => end.to_vec(),
                border => end.min(border).to_vec(),
            };
            let build = |context| {
                Command::ScanLock(ScanLockRequest {
                    context: Some(context),
                    max_version: max_ts,
                    start_key: start.clone(),
                    limit: BATCH_KEYS as u32,
                    end_key: high.clone(),
                })
            };
            let reply = match self.once(&region, b, build).await? {
                Some(Reply::ScanLock(reply)) => reply,
                Some(_) => return Err(unexpected()),
                None => continue,
            };
            if let Some(e) = reply.error {
                return Err(Error::Unavailable(format!("a scan of locks: {e:?}")));
            }
            if reply.locks.is_empty() {
                start = high;
            } else if self.remove_locks(reply.locks, b).await? {
                b.pause(crate::backoff::Class::Lock, "").await?;
            }
        }
        Ok(())
    }
}

fn read_request(context: Option<Context>, keys: &[Vec<u8>], ts: u64) -> Command {
    match keys {
        [key] => Command::Get(GetRequest {
            context,
            key: key.clone(),
            version: ts,
        }),
        keys => Command::BatchGet(BatchGetRequest {
            context,
            keys: keys.to_vec(),
            version: ts,
        }),
    }
}
