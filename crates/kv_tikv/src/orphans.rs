//! Orphaned locks: their transaction has neither lock nor record at its primary key.
//!
//! A client that meets a lock reads the state of its transaction at the primary key. If there is none,
//! TiKV answers "not found", and the client must, once the lock has certainly expired, write a rollback
//! record there and remove the lock. tikv-client 0.4.0 fails to do so: the answer is wrapped in another
//! error than the one that it checks for, so such a lock would never be removed. A server that dies with
//! several locks regularly leaves orphans: the first client that meets its expired primary lock removes
//! it, and the others are orphans from then on.
//!
//! The library can roll back a transaction unconditionally, for garbage collection, within a range and up
//! to a timestamp. Here the range is single keys on which the lock was seen, and the transaction must
//! have begun longer ago than any lock lives without heartbeats.

use crate::fault::Failure;
use std::time::Duration;
use tikv_client::transaction::ResolveLocksOptions;
use tikv_client::{Timestamp, TimestampExt, TransactionClient};

/// Age from which a lock has certainly expired. Locks live for 20 s from the start of their
/// transaction unless its primary lock is prolonged, which an orphan's is not.
const EXPIRED: Duration = Duration::from_secs(30);
/// Pause between two checks of an orphan that has not expired yet.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of locks that one request scans.
const BATCH: u32 = 1024;
/// Maximum number of rounds, one per region with locks of the transaction.
const ROUNDS: usize = 64;

/// Removes the locks of a transaction without a primary lock in `start..end`, if they have expired;
/// otherwise pauses briefly.
pub(crate) async fn remove(
    client: &TransactionClient,
    owner: u64,
    start: &[u8],
    end: &[u8],
) -> Result<(), Failure> {
    let now = client.current_timestamp().await?;
    let age = now.physical - Timestamp::from_version(owner).physical;
    if u128::try_from(age).unwrap_or(0) < EXPIRED.as_millis() {
        tokio::time::sleep(PAUSE).await;
        return Ok(());
    }
    tracing::warn!("removing the locks of transaction {owner}, whose primary lock is gone");
    rollback(client, owner, start, end).await
}

/// Rolls back the locks of transaction `owner` in `start..end`.
pub(crate) async fn rollback(
    client: &TransactionClient,
    owner: u64,
    start: &[u8],
    end: &[u8],
) -> Result<(), Failure> {
    let upto = Timestamp::from_version(owner);
    for _ in 0..ROUNDS {
        let range = start.to_vec()..end.to_vec();
        let locks = client.scan_locks(&upto, range, BATCH).await?;
        let Some(lock) = locks.into_iter().find(|l| l.lock_version == owner) else {
            return Ok(());
        };
        // This removes the transaction's other locks of the region, too.
        let mut behind = lock.key.clone();
        behind.push(0);
        client
            .cleanup_locks(lock.key..behind, &upto, ResolveLocksOptions::default())
            .await?;
    }
    Ok(())
}

/// Returns the smallest range that contains all `keys`.
pub(crate) fn span(keys: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let start = keys.iter().min().cloned().unwrap_or_default();
    let mut end = keys.iter().max().cloned().unwrap_or_default();
    end.push(0);
    (start, end)
}
