//! Spaces and counters: the cluster's metadata, changed by small optimistic transactions of the
//! library.
//!
//! Such a transaction reads the keys it will write and writes them; TiKV refuses it if one of them
//! was changed in between, and it is retried. Ids stay unique after an unknown outcome: another
//! reservation gives higher ones.
//!
//! A drop of a space first removes its specification and adds a drop record, in one transaction.
//! Then the rows are deleted in batches, and finally the drop record. Rows are deleted by
//! transactions, not by `unsafe_destroy_range`, which also destroys primary locks and commit
//! records that decide commits in other spaces. A server that finds a drop record when it connects
//! completes the drop.

use crate::cluster::Cluster;
use crate::fault::{Failure, Fault};
use crate::keys::{
    KEY_FORMAT_VERSION, Layout, UNCOORDINATED_VERSION, end_of, frame_spec, frame_u64,
    frame_version, unframe_spec, unframe_u64, unframe_version,
};
use crate::orphans;
use crate::reads::{REGION_BACKOFF, page, page_of_keys};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CounterId, Error, Resource, Result, SpaceId, SpaceSpec};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tikv_client::transaction::Mutation;
use tikv_client::{
    Backoff, CheckLevel, Key, RetryOptions, Timestamp, TransactionClient, TransactionOptions,
};

/// Time for which a change is retried.
const RETRY_TIME: Duration = Duration::from_secs(45);
/// Maximum number of rows that one transaction of a drop deletes.
const DELETE_BATCH: u32 = 1000;
/// Entries of one page of specifications.
const PAGE: u32 = 512;

fn options() -> TransactionOptions {
    TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::None)
        .retry_options(RetryOptions {
            region_backoff: REGION_BACKOFF,
            lock_backoff: Backoff::no_jitter_backoff(2, 500, 16),
        })
}

/// One attempt of [`change`]; `Err(Ok(failure))` may be retried.
async fn change_once<T>(
    client: &TransactionClient,
    keys: &[Vec<u8>],
    decide: &mut impl FnMut(&[Option<Vec<u8>>]) -> Result<(Vec<Mutation>, T)>,
) -> std::result::Result<T, std::result::Result<Failure, Error>> {
    let read_error = |e: tikv_client::Error| Err(Failure::from(e).into_read_error());
    let mut txn = client
        .begin_with_options(options())
        .await
        .map_err(read_error)?;
    let mut values: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
    let found = match txn.batch_get(keys.to_vec()).await {
        Ok(found) => found,
        Err(e) => {
            let failure = Failure::from(e);
            let _ = txn.rollback().await;
            return Err(match failure.orphan {
                Some(_) => Ok(failure),
                None => Err(failure.into_read_error()),
            });
        }
    };
    for pair in found {
        let key: &[u8] = (&pair.0).into();
        let at = keys.iter().position(|k| k == key);
        if let Some(value) = at.and_then(|i| values.get_mut(i)) {
            *value = Some(pair.1);
        }
    }
    let (mutations, result) = decide(&values).map_err(Err)?;
    if mutations.is_empty() {
        let _ = txn.rollback().await;
        return Ok(result);
    }
    txn.batch_mutate(mutations).await.map_err(read_error)?;
    let Err(e) = txn.commit().await else {
        return Ok(result);
    };
    let failure = Failure::from(e);
    if failure.is_commit_refused() {
        let _ = txn.rollback().await;
        return Err(Ok(failure));
    }
    Err(Err(failure.into_commit_error()))
}

/// Reads `keys`, calls `decide` to turn their values into writes of some of them and a result, and
/// commits. Retries after conflicts.
pub(crate) async fn change<T>(
    client: &TransactionClient,
    keys: Vec<Vec<u8>>,
    mut decide: impl FnMut(&[Option<Vec<u8>>]) -> Result<(Vec<Mutation>, T)>,
) -> Result<T> {
    let give_up = Instant::now() + RETRY_TIME;
    let mut pause = Duration::from_millis(2);
    loop {
        match change_once(client, &keys, &mut decide).await {
            Ok(result) => return Ok(result),
            Err(Err(e)) => return Err(e),
            Err(Ok(failure)) if Instant::now() > give_up => return Err(failure.into_read_error()),
            Err(Ok(failure)) => {
                if let Some(owner) = failure.orphan {
                    let (start, end) = orphans::span(&keys);
                    let removed = orphans::remove(client, owner, &start, &end).await;
                    removed.map_err(Failure::into_read_error)?;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(200));
            }
        }
    }
}

pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> Mutation {
    Mutation::Put(Key::from(key), value)
}

pub(crate) fn delete(key: Vec<u8>) -> Mutation {
    Mutation::Delete(Key::from(key))
}

pub(crate) fn value_at(values: &[Option<Vec<u8>>], i: usize) -> Option<&[u8]> {
    values.get(i).and_then(Option::as_deref)
}

/// Writes the layout version into a new cluster, or checks that of an existing one.
pub(crate) async fn open(client: &TransactionClient, layout: &Layout, tenant: u32) -> Result<()> {
    let key = layout.version();
    change(client, vec![key.clone()], |values| {
        match value_at(values, 0) {
            None => Ok((
                vec![put(key.clone(), frame_version(KEY_FORMAT_VERSION))],
                (),
            )),
            Some(found) => match unframe_version(found)? {
                KEY_FORMAT_VERSION => Ok((Vec::new(), ())),
                UNCOORDINATED_VERSION => Ok((
                    vec![put(key.clone(), frame_version(KEY_FORMAT_VERSION))],
                    (),
                )),
                found => Err(Error::Unavailable(format!(
                    "the data of tenant {tenant} in this cluster has key layout version {found}; \
                 this program reads and writes version {KEY_FORMAT_VERSION}"
                ))),
            },
        }
    })
    .await
}

/// All entries of a range of metadata, and the time at which they were read.
pub(crate) async fn entries(
    client: &TransactionClient,
    mut start: Vec<u8>,
    end: Vec<u8>,
) -> Result<(Timestamp, Vec<(Vec<u8>, Vec<u8>)>)> {
    let read_error = |f: Failure| f.into_read_error();
    let ts = client.current_timestamp().await;
    let ts = ts.map_err(|e| Failure::from(e).into_read_error())?;
    let mut out = Vec::new();
    loop {
        let found = page(client, &ts, start.clone(), end.clone(), PAGE, false).await;
        let found = found.map_err(read_error)?;
        let full = found.len() == PAGE as usize;
        if let Some((last, _)) = found.last() {
            start.clone_from(last);
            start.push(0);
        }
        out.extend(found);
        if !full {
            return Ok((ts, out));
        }
    }
}

/// All entries of a range of specifications.
async fn specs(
    client: &TransactionClient,
    layout: &Layout,
    start: Vec<u8>,
    end: Vec<u8>,
) -> Result<Vec<(SpaceId, SpaceSpec)>> {
    let (_, found) = entries(client, start, end).await?;
    let spec = |(key, value): (Vec<u8>, Vec<u8>)| {
        let malformed = || Error::Corrupt("a malformed key in the list of spaces".into());
        let space = layout.space_of_meta(&key).ok_or_else(malformed)?;
        Ok((space, unframe_spec(&value)?))
    };
    found.into_iter().map(spec).collect()
}

impl Cluster {
    pub(crate) fn meta<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        if self.is_closed() {
            return Err(Error::Ended);
        }
        self.io.run(async {
            // One at a time in this process, because concurrent changes would conflict.
            let _turn = self.meta_lock.lock().await;
            future.await
        })
    }

    pub(crate) fn create_spaces(&self, wanted: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let client = self.client();
        let next_key = self.layout.next_space();
        let ids = self.meta(change(&client, vec![next_key.clone()], |values| {
            let next = match value_at(values, 0) {
                Some(v) => unframe_u64(v)?,
                None => SpaceId::FIRST_FREE.0,
            };
            let after = next
                .checked_add(wanted.len() as u64)
                .ok_or(Error::Full(Resource::Memory))?;
            let ids: Vec<SpaceId> = (next..after).map(SpaceId).collect();
            let mut writes = vec![put(next_key.clone(), frame_u64(after))];
            for (id, spec) in ids.iter().zip(wanted) {
                writes.push(put(self.layout.spec(*id), frame_spec(spec)));
            }
            Ok((writes, ids))
        }))?;
        for (id, spec) in ids.iter().zip(wanted) {
            self.spaces.insert(*id, spec.clone(), &self.layout);
        }
        Ok(ids)
    }

    pub(crate) fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        let spaces: Vec<SpaceId> = spaces
            .iter()
            .copied()
            .filter(|s| *s >= SpaceId::FIRST_FREE)
            .collect();
        let client = self.client();
        for part in spaces.chunks(256) {
            let keys: Vec<Vec<u8>> = part.iter().map(|s| self.layout.spec(*s)).collect();
            self.meta(change(&client, keys.clone(), |values| {
                let mut writes = Vec::new();
                for ((space, key), found) in part.iter().zip(&keys).zip(values) {
                    if let Some(spec) = found {
                        writes.push(delete(key.clone()));
                        writes.push(put(self.layout.dropped(*space), spec.clone()));
                    }
                }
                Ok((writes, ()))
            }))?;
            for space in part {
                self.spaces.forget(*space);
            }
        }
        self.io.run(sweep(&client, &self.layout))
    }

    pub(crate) fn all_spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        let client = self.client();
        let (start, end) = self.layout.specs();
        let found = self.meta(specs(&client, &self.layout, start, end))?;
        for (space, spec) in &found {
            self.spaces.insert(*space, spec.clone(), &self.layout);
        }
        Ok(found)
    }

    pub(crate) fn reserve_ids(
        &self,
        counter: CounterId,
        count: u64,
        at_least: u64,
    ) -> Result<Range<u64>> {
        let client = self.client();
        let key = self.layout.counter(counter);
        let reserve = || {
            self.meta(change(&client, vec![key.clone()], |values| {
                let next = counter_value(values)?.max(at_least);
                let after = next
                    .checked_add(count.max(1))
                    .ok_or(Error::Full(Resource::Memory))?;
                Ok((vec![put(key.clone(), frame_u64(after))], next..after))
            }))
        };
        match reserve() {
            // If the first one was committed after all, its ids are lost.
            Err(Error::UnknownOutcome(_)) => reserve(),
            other => other,
        }
    }

    pub(crate) fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        let client = self.client();
        let key = self.layout.counter(counter);
        if unused.is_empty() {
            return Ok(true);
        }
        let done = self.meta(change(&client, vec![key.clone()], |values| {
            if counter_value(values)? != unused.end {
                return Ok((Vec::new(), false));
            }
            Ok((vec![put(key.clone(), frame_u64(unused.start.max(1)))], true))
        }));
        match done {
            // The ids may be lost, so the caller counts them as lost.
            Err(Error::UnknownOutcome(_)) => Ok(false),
            other => other,
        }
    }

    pub(crate) fn next_id(&self, counter: CounterId) -> Result<u64> {
        let client = self.client();
        let keys = vec![self.layout.counter(counter)];
        self.meta(change(&client, keys, |values| {
            Ok((Vec::new(), counter_value(values)?))
        }))
    }

    pub(crate) fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        let client = self.client();
        let key = self.layout.counter(counter);
        self.meta(change(&client, vec![key.clone()], |_| {
            Ok((vec![put(key.clone(), frame_u64(next.max(1)))], ()))
        }))
    }

    /// Returns the prefix of all keys of a space, which is read from the cluster if this server
    /// does not know the space.
    pub(crate) fn prefix(&self, space: SpaceId, cancel: &Cancel) -> Result<Arc<[u8]>> {
        if let Some(prefix) = self.spaces.get(space) {
            return Ok(prefix);
        }
        let client = self.client();
        let found = self
            .io
            .wait_result(cancel, spec(&client, &self.layout, space))?;
        let Some(spec) = found else {
            return Err(Error::NoSuchSpace(space));
        };
        self.spaces.insert(space, spec, &self.layout);
        self.spaces.get(space).ok_or(Error::NoSuchSpace(space))
    }
}

fn counter_value(values: &[Option<Vec<u8>>]) -> Result<u64> {
    value_at(values, 0).map_or(Ok(1), unframe_u64)
}

/// The specification of one space, if there is such a space.
pub(crate) async fn spec(
    client: &TransactionClient,
    layout: &Layout,
    space: SpaceId,
) -> Result<Option<SpaceSpec>> {
    let read_error = |e: tikv_client::Error| Failure::from(e).into_read_error();
    let ts = client.current_timestamp().await.map_err(read_error)?;
    let key = layout.spec(space);
    let found = crate::reads::get_many(client, &ts, vec![key.clone()]).await;
    let found = found.map_err(Failure::into_read_error)?;
    found.get(&key).map(|v| unframe_spec(v)).transpose()
}

/// Deletes the rows of all dropped spaces.
pub(crate) async fn sweep(client: &TransactionClient, layout: &Layout) -> Result<()> {
    let (start, end) = layout.all_dropped();
    for (space, spec) in specs(client, layout, start, end).await? {
        let start = layout.rows(space, &spec);
        delete_range(client, &start).await?;
        let note = layout.dropped(space);
        change(client, vec![note.clone()], |_| {
            Ok((vec![delete(note.clone())], ()))
        })
        .await?;
    }
    Ok(())
}

async fn delete_range(client: &TransactionClient, prefix: &[u8]) -> Result<()> {
    let end = end_of(prefix);
    let read_error = |e: tikv_client::Error| Failure::from(e).into_read_error();
    let give_up = Instant::now() + RETRY_TIME;
    loop {
        let ts = client.current_timestamp().await.map_err(read_error)?;
        let keys = page_of_keys(client, &ts, prefix.to_vec(), end.clone(), DELETE_BATCH).await;
        let keys = keys.map_err(Failure::into_read_error)?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut txn = client
            .begin_with_options(options())
            .await
            .map_err(read_error)?;
        let deletes: Vec<Mutation> = keys.into_iter().map(delete).collect();
        txn.batch_mutate(deletes).await.map_err(read_error)?;
        if let Err(e) = txn.commit().await {
            let failure = Failure::from(e);
            let _ = txn.rollback().await;
            // A transaction that began before the drop still locks rows: try again later.
            let is_temporary = matches!(failure.fault, Fault::Busy | Fault::Conflict | Fault::Gone);
            if !is_temporary || Instant::now() > give_up {
                return Err(failure.into_read_error());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
