//! Reads at a timestamp, in batches bounded by keys and by bytes.
//!
//! The library sends a request to all regions that it touches at once. The size of an answer is not known
//! in advance, and TiKV refuses to send more than its message limit, so a batch that proves too large is
//! requested again in halves.
//!
//! A lock of a committing transaction delays a read; the library reads that transaction's state and
//! waits. A crashed writer's locks live for up to 20 s, so reads wait longer than that.

use crate::fault::{Failure, Fault};
use crate::orphans;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tikv_client::{
    Backoff, CheckLevel, RetryOptions, Snapshot, Timestamp, TransactionClient, TransactionOptions,
};

/// Maximum number of keys of one request.
pub(crate) const BATCH_KEYS: usize = 1024;
/// Maximum number of keys of a first or locking request, when the size of values is unknown.
pub(crate) const FIRST_KEYS: usize = 256;
/// Target size of a reply; TiKV sends up to 10 MiB.
const ANSWER_BYTES: usize = 4 << 20;
/// Maximum bytes of keys of one request.
const BATCH_BYTES: usize = 512 * 1024;

/// Maximum time that a read waits for orphaned locks to expire.
const ORPHAN_WAIT: Duration = Duration::from_secs(45);
/// Backoff on locks: 2 to 500 ms, 31 s in all.
const LOCK_BACKOFF: Backoff = Backoff::no_jitter_backoff(2, 500, 70);
/// Backoff while regions move or stores restart: 2 to 500 ms, 4.5 s in all.
pub(crate) const REGION_BACKOFF: Backoff = Backoff::no_jitter_backoff(2, 500, 16);

fn snapshot(client: &TransactionClient, ts: &Timestamp) -> Snapshot {
    let options = TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::None)
        .retry_options(RetryOptions {
            region_backoff: REGION_BACKOFF,
            lock_backoff: LOCK_BACKOFF,
        });
    client.snapshot(ts.clone(), options)
}

/// Splits keys into batches of at most `most` keys and [`BATCH_BYTES`].
pub(crate) fn batches(keys: Vec<Vec<u8>>, most: usize) -> Vec<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for key in keys {
        if !batch.is_empty() && (batch.len() == most || bytes + key.len() > BATCH_BYTES) {
            out.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += key.len();
        batch.push(key);
    }
    if !batch.is_empty() {
        out.push(batch);
    }
    out
}

/// Measures the time for which orphaned locks delay a read.
struct OrphanTimeout(Instant);

impl OrphanTimeout {
    fn new() -> OrphanTimeout {
        OrphanTimeout(Instant::now() + ORPHAN_WAIT)
    }

    /// Returns `Ok` if the read should be retried.
    async fn check_retry(
        &self,
        client: &TransactionClient,
        failure: Failure,
        start: &[u8],
        end: &[u8],
    ) -> Result<(), Failure> {
        match failure.orphan {
            Some(owner) if Instant::now() < self.0 => {
                orphans::remove(client, owner, start, end).await
            }
            _ => Err(failure),
        }
    }
}

/// The framed values of those of `keys` that exist at `ts`.
pub(crate) async fn get_many(
    client: &TransactionClient,
    ts: &Timestamp,
    keys: Vec<Vec<u8>>,
) -> Result<HashMap<Vec<u8>, Vec<u8>>, Failure> {
    let mut found = HashMap::with_capacity(keys.len());
    let orphan_timeout = OrphanTimeout::new();
    let (mut rest, mut most) = (keys.as_slice(), FIRST_KEYS);
    while !rest.is_empty() {
        let (batch, later) = split(rest, most);
        match get_batch(client, ts, batch).await {
            Ok(pairs) => {
                let bytes: usize = pairs.iter().map(|(k, v)| k.len() + v.len()).sum();
                let average = bytes / pairs.len().max(1) + 1;
                most = (ANSWER_BYTES / average).clamp(1, BATCH_KEYS);
                found.extend(pairs);
                rest = later;
            }
            Err(f) if f.fault == Fault::TooLarge && batch.len() > 1 => most = batch.len() / 2,
            Err(f) => {
                let (start, end) = orphans::span(batch);
                orphan_timeout.check_retry(client, f, &start, &end).await?;
            }
        }
    }
    Ok(found)
}

/// Splits at least one and at most `most` keys off the front, within [`BATCH_BYTES`].
fn split(keys: &[Vec<u8>], most: usize) -> (&[Vec<u8>], &[Vec<u8>]) {
    let mut bytes = 0;
    let fitting = keys.iter().take(most.max(1)).take_while(|key| {
        bytes += key.len();
        bytes <= BATCH_BYTES
    });
    let n = fitting.count().max(1);
    keys.split_at_checked(n).unwrap_or((keys, &[]))
}

async fn get_batch(
    client: &TransactionClient,
    ts: &Timestamp,
    keys: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Failure> {
    // A new snapshot each time, because it caches what it has read.
    let mut snapshot = snapshot(client, ts);
    if let [key] = keys {
        let value = snapshot.get(key.clone()).await?;
        return Ok(value
            .map(|value| (key.clone(), value))
            .into_iter()
            .collect());
    }
    let pairs = snapshot.batch_get(keys.to_vec()).await?;
    Ok(pairs.map(|pair| (Vec::from(pair.0), pair.1)).collect())
}

/// Reads at most `limit` pairs of `start..end` at `ts`, from either end, with framed values.
pub(crate) async fn page(
    client: &TransactionClient,
    ts: &Timestamp,
    start: Vec<u8>,
    end: Vec<u8>,
    limit: u32,
    reverse: bool,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Failure> {
    let orphan_timeout = OrphanTimeout::new();
    let pair = |pair: tikv_client::KvPair| (Vec::from(pair.0), pair.1);
    loop {
        let mut snapshot = snapshot(client, ts);
        let range = start.clone()..end.clone();
        let result = if reverse {
            let pairs = snapshot.scan_reverse(range, limit).await;
            pairs.map(|pairs| pairs.map(pair).collect())
        } else {
            let pairs = snapshot.scan(range, limit).await;
            pairs.map(|pairs| pairs.map(pair).collect())
        };
        match result {
            Ok(pairs) => return Ok(pairs),
            Err(e) => {
                orphan_timeout
                    .check_retry(client, e.into(), &start, &end)
                    .await?
            }
        }
    }
}

/// Like [`page`], keys only.
pub(crate) async fn page_of_keys(
    client: &TransactionClient,
    ts: &Timestamp,
    start: Vec<u8>,
    end: Vec<u8>,
    limit: u32,
) -> Result<Vec<Vec<u8>>, Failure> {
    let orphan_timeout = OrphanTimeout::new();
    loop {
        let range = start.clone()..end.clone();
        let keys = snapshot(client, ts).scan_keys(range, limit).await;
        match keys {
            Ok(keys) => return Ok(keys.map(Vec::from).collect()),
            Err(e) => {
                orphan_timeout
                    .check_retry(client, e.into(), &start, &end)
                    .await?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_both_limits_and_every_key() {
        let keys: Vec<Vec<u8>> = (0..3000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        let all = batches(keys.clone(), BATCH_KEYS);
        assert_eq!(all.len(), 3);
        assert_eq!(all.concat(), keys);
        let long = vec![vec![7; BATCH_BYTES / 2 + 1]; 3];
        assert_eq!(batches(long.clone(), 10).len(), 3);
        assert!(batches(Vec::new(), 10).is_empty());
        assert_eq!(split(&keys, 7).0.len(), 7);
        assert_eq!(split(&keys, 7).1.len(), 2993);
        assert_eq!(split(&long, 7).0.len(), 1);
        assert_eq!(split(&[vec![0; BATCH_BYTES + 1]], 0).0.len(), 1);
    }
}
