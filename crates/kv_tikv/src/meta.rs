//! Spaces and counters: the cluster's metadata, changed by small optimistic transactions.
//!
//! Such a transaction reads the keys it will write and writes them (a timestamp and two requests); TiKV refuses it if one
//! of them was changed in between, and it is retried. Ids stay unique after an unknown outcome: another
//! reservation gives higher ones.
//!
//! A drop of a space removes its specification and adds a drop record, in one transaction. The keys are destroyed by garbage
//! collection (`gc`), and finally the drop record. Without garbage collection, the rows are deleted at once in
//! batches, by transactions, because destroying the range would remove primary locks and commit
//! records on which commits in other spaces depend; a server that finds a drop record when it connects completes the
//! drop.

use crate::cluster::Cluster;
use crate::fault::{commit_error, read_error};
use crate::keys::{
    KEY_FORMAT_VERSION, Layout, UNCOORDINATED_VERSION, UNGUARDED_VERSION, end_of, frame,
    frame_spec, frame_u64, frame_version, unframe, unframe_spec, unframe_u64, unframe_version,
};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_kv::coordination::Coordination;
use porpoise_kv::{CounterId, Error, Resource, Result, SpaceId, SpaceSpec};
use porpoise_tikv_client::{
    Call, Change, Client, CommitOptions, Error as ClientError, PageRequest, Pairs, Write,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a change is retried.
const RETRY_TIME: Duration = Duration::from_secs(45);
/// Time for which one attempt waits for locks of others.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Maximum number of rows that one transaction of a drop deletes.
const DELETE_BATCH: u32 = 1000;
/// Entries of one page of specifications.
const PAGE: u32 = 512;

/// Returns the end of the lease in a server's record, milliseconds of the store's clock, and the server's address.
pub type LeaseOfRecord = fn(&[u8]) -> Option<(u64, String)>;

/// Runs a function with a [`Call`] without deadline, which cannot be cancelled.
pub(crate) fn uncancelled<T>(run: impl FnOnce(Call<'_>) -> T) -> T {
    let cancel = Cancel::new();
    run(Call {
        cancel: &cancel,
        deadline: None,
    })
}

/// Whether a refused commit may succeed when it is tried again.
fn may_retry(e: &ClientError) -> bool {
    matches!(
        e,
        ClientError::Conflict(_)
            | ClientError::Aborted(_)
            | ClientError::Deadlock
            | ClientError::Locked
    )
}

/// Commits writes of keys that have no version above `ts`.
fn commit_at(client: &Client, ts: u64, writes: Vec<Write>) -> std::result::Result<(), ClientError> {
    let options = CommitOptions {
        lock_wait: LOCK_WAIT,
        max_commit_ts: 0,
    };
    uncancelled(|call| client.begin(ts).commit(call, writes, options)).map(drop)
}

/// Reads `keys`, calls `decide` to turn their values into writes of some of them and a result, and
/// commits. Retries after conflicts.
pub(crate) fn change<T>(
    client: &Client,
    keys: Vec<Vec<u8>>,
    mut decide: impl FnMut(&[Option<Vec<u8>>]) -> Result<(Vec<Write>, T)>,
) -> Result<T> {
    let give_up = Instant::now() + RETRY_TIME;
    let mut pause = Duration::from_millis(2);
    loop {
        let read = uncancelled(|call| {
            let ts = client.timestamp(call)?;
            Ok((ts, client.get(call, ts, keys.clone())?))
        });
        let (ts, found) = read.map_err(read_error)?;
        let values: Vec<Option<Vec<u8>>> = keys.iter().map(|k| found.get(k).cloned()).collect();
        let (writes, result) = decide(&values)?;
        if writes.is_empty() {
            return Ok(result);
        }
        match commit_at(client, ts, writes) {
            Ok(()) => return Ok(result),
            Err(e) if may_retry(&e) && Instant::now() < give_up => {}
            Err(e) if may_retry(&e) => return Err(read_error(e)),
            Err(e) => return Err(commit_error(e)),
        }
        blocking(|| std::thread::sleep(pause));
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

fn change_of(key: Vec<u8>, change: Change) -> Write {
    Write {
        key,
        change,
        locked: false,
    }
}

/// A new value of a key.
pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> Write {
    change_of(key, Change::Put(value))
}

/// The removal of a key.
pub(crate) fn delete(key: Vec<u8>) -> Write {
    change_of(key, Change::Delete)
}

/// The value of the key with this index.
pub(crate) fn value_at(values: &[Option<Vec<u8>>], i: usize) -> Option<&[u8]> {
    values.get(i).and_then(Option::as_deref)
}

/// Writes the layout version into a new cluster, or checks that of an existing one and upgrades it.
pub(crate) fn open(
    cluster: &Cluster,
    tenant: u32,
    lease_of_record: Option<LeaseOfRecord>,
) -> Result<()> {
    let key = cluster.layout.version();
    change(&cluster.client, vec![key.clone()], |values| {
        let current = || vec![put(key.clone(), frame_version(KEY_FORMAT_VERSION))];
        match value_at(values, 0) {
            None => Ok((current(), ())),
            Some(found) => match unframe_version(found)? {
                KEY_FORMAT_VERSION => Ok((Vec::new(), ())),
                older @ (UNCOORDINATED_VERSION | UNGUARDED_VERSION) => {
                    if let Some(lease_of_record) = lease_of_record {
                        refuse_if_used(cluster, tenant, older, lease_of_record)?;
                    }
                    Ok((current(), ()))
                }
                found => Err(Error::Unavailable(format!(
                    "the data of tenant {tenant} in this cluster has key layout version {found}; \
                 this program reads and writes version {KEY_FORMAT_VERSION}"
                ))),
            },
        }
    })
}

/// Refuses the upgrade of a layout while servers have leases. Those servers were started with the older layout, and do not learn of
/// the newer one. A server that has read the version and not yet written its record is not noticed.
fn refuse_if_used(
    cluster: &Cluster,
    tenant: u32,
    older: u32,
    lease_of_record: LeaseOfRecord,
) -> Result<()> {
    let (now, records) = cluster.records()?;
    let leases = records
        .iter()
        .filter_map(|(_, record)| lease_of_record(record));
    let Some((end, address)) = leases.filter(|(end, _)| *end >= now).max() else {
        return Ok(());
    };
    let left = Duration::from_millis(end - now).as_secs() + 1;
    Err(Error::Unavailable(format!(
        "the data of tenant {tenant} in this cluster has key layout version {older}, and the server {address} uses it: stop all servers of \
         older versions before the first one of this version is started (if that server has crashed, its lease ends in {left} s)"
    )))
}

/// Writes the name of the installation if there is none yet; refuses another name.
pub(crate) fn check_name(
    client: &Client,
    layout: &Layout,
    tenant: u32,
    name: Option<&str>,
) -> Result<()> {
    let key = layout.name();
    change(client, vec![key.clone()], |values| {
        let found = value_at(values, 0).map(unframe).transpose()?;
        match (found, name) {
            (None, Some(name)) => Ok((vec![put(key.clone(), frame(name.as_bytes()))], ())),
            (Some(found), Some(name)) if found == name.as_bytes() => Ok((Vec::new(), ())),
            (Some(found), name) => Err(Error::Unavailable(format!(
                "tenant {tenant} of this cluster belongs to the installation {:?}, not to {}: use another tenant, or set name=... to that \
                 installation's name",
                String::from_utf8_lossy(found),
                name.map_or_else(
                    || "an installation without a name".to_owned(),
                    |name| format!("{name:?}")
                ),
            ))),
            (None, None) => Ok((Vec::new(), ())),
        }
    })
}

/// All entries of a range of metadata, and the timestamp at which they were read.
pub(crate) fn entries(client: &Client, start: Vec<u8>, end: Vec<u8>) -> Result<(u64, Pairs)> {
    let ts = uncancelled(|call| client.timestamp(call)).map_err(read_error)?;
    Ok((ts, entries_at(client, ts, start, end)?))
}

fn entries_at(client: &Client, ts: u64, start: Vec<u8>, end: Vec<u8>) -> Result<Pairs> {
    uncancelled(|call| {
        let mut page = PageRequest {
            start,
            end,
            limit: PAGE,
            reverse: false,
            keys_only: false,
        };
        let mut out = Pairs::new();
        loop {
            let found = client.page(call, ts, &page).map_err(read_error)?;
            let full = found.len() == PAGE as usize;
            if let Some((last, _)) = found.last() {
                page.start.clone_from(last);
                page.start.push(0);
            }
            out.extend(found);
            if !full {
                return Ok(out);
            }
        }
    })
}

/// All entries of a range of specifications.
fn specs(
    client: &Client,
    layout: &Layout,
    start: Vec<u8>,
    end: Vec<u8>,
) -> Result<Vec<(SpaceId, SpaceSpec)>> {
    let ts = uncancelled(|call| client.timestamp(call)).map_err(read_error)?;
    specs_at(client, layout, ts, start, end)
}

/// As [`specs`], at a timestamp.
fn specs_at(
    client: &Client,
    layout: &Layout,
    ts: u64,
    start: Vec<u8>,
    end: Vec<u8>,
) -> Result<Vec<(SpaceId, SpaceSpec)>> {
    let found = entries_at(client, ts, start, end)?;
    let spec = |(key, value): (Vec<u8>, Vec<u8>)| {
        let malformed = || Error::Corrupt("a malformed key in the list of spaces".into());
        let space = layout.space_of_meta(&key).ok_or_else(malformed)?;
        Ok((space, unframe_spec(&value)?))
    };
    found.into_iter().map(spec).collect()
}

impl Cluster {
    /// Runs an access to metadata. One at a time in this process, because concurrent changes would conflict.
    pub(crate) fn meta<T>(&self, access: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_closed() {
            return Err(Error::Ended);
        }
        blocking(|| {
            let _turn = self.meta_lock.lock();
            access()
        })
    }

    pub(crate) fn create_spaces(&self, wanted: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let client = self.client();
        let next_key = self.layout.next_space();
        let ids = self.meta(|| {
            change(&client, vec![next_key.clone()], |values| {
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
            })
        })?;
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
            self.meta(|| {
                change(&client, keys.clone(), |values| {
                    let mut writes = Vec::new();
                    for ((space, key), found) in part.iter().zip(&keys).zip(values) {
                        if let Some(spec) = found {
                            writes.push(delete(key.clone()));
                            writes.push(put(self.layout.dropped(*space), spec.clone()));
                        }
                    }
                    Ok((writes, ()))
                })
            })?;
            for space in part {
                self.spaces.forget(*space);
            }
        }
        if self.collects {
            return Ok(());
        }
        sweep(&client, &self.layout)
    }

    /// Destroys the keys of spaces whose drop is visible at the safe point; returns their number.
    pub(crate) fn destroy_dropped(&self, safe_point: u64) -> Result<u64> {
        let (start, end) = self.layout.all_dropped();
        let dropped = specs_at(&self.client, &self.layout, safe_point, start, end)?;
        let mut destroyed = 0;
        for (space, spec) in dropped {
            let start = self.layout.rows(space, &spec);
            let end = end_of(&start);
            let done = uncancelled(|call| self.client.destroy_range(call, &start, &end));
            done.map_err(read_error)?;
            let note = self.layout.dropped(space);
            destroyed += change(&self.client, vec![note.clone()], |values| {
                // Another server may have done the same.
                let writes = value_at(values, 0).map(|_| delete(note.clone()));
                let count = u64::from(writes.is_some());
                Ok((writes.into_iter().collect(), count))
            })?;
        }
        Ok(destroyed)
    }

    pub(crate) fn all_spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        let client = self.client();
        let (start, end) = self.layout.specs();
        let found = self.meta(|| specs(&client, &self.layout, start, end))?;
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
            self.meta(|| {
                change(&client, vec![key.clone()], |values| {
                    let next = counter_value(values)?.max(at_least);
                    let after = next
                        .checked_add(count.max(1))
                        .ok_or(Error::Full(Resource::Memory))?;
                    Ok((vec![put(key.clone(), frame_u64(after))], next..after))
                })
            })
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
        let done = self.meta(|| {
            change(&client, vec![key.clone()], |values| {
                if counter_value(values)? != unused.end {
                    return Ok((Vec::new(), false));
                }
                Ok((vec![put(key.clone(), frame_u64(unused.start.max(1)))], true))
            })
        });
        match done {
            // The ids may be lost, so the caller counts them as lost.
            Err(Error::UnknownOutcome(_)) => Ok(false),
            other => other,
        }
    }

    pub(crate) fn next_id(&self, counter: CounterId) -> Result<u64> {
        let client = self.client();
        let keys = vec![self.layout.counter(counter)];
        self.meta(|| {
            change(&client, keys, |values| {
                Ok((Vec::new(), counter_value(values)?))
            })
        })
    }

    pub(crate) fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        let client = self.client();
        let key = self.layout.counter(counter);
        self.meta(|| {
            change(&client, vec![key.clone()], |_| {
                Ok((vec![put(key.clone(), frame_u64(next.max(1)))], ()))
            })
        })
    }

    /// Returns the prefix of all keys of a space, which is read from the cluster if this server
    /// does not know the space.
    pub(crate) fn prefix(&self, space: SpaceId, cancel: &Cancel) -> Result<Arc<[u8]>> {
        if let Some(prefix) = self.spaces.get(space) {
            return Ok(prefix);
        }
        let client = self.client();
        let call = Call {
            cancel,
            deadline: None,
        };
        let found = spec(&client, call, &self.layout, space)?;
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
fn spec(
    client: &Client,
    call: Call<'_>,
    layout: &Layout,
    space: SpaceId,
) -> Result<Option<SpaceSpec>> {
    let key = layout.spec(space);
    let found = client.get(call, u64::MAX, vec![key.clone()]);
    let found = found.map_err(read_error)?;
    found.get(&key).map(|v| unframe_spec(v)).transpose()
}

/// Deletes the rows of all dropped spaces.
pub(crate) fn sweep(client: &Client, layout: &Layout) -> Result<()> {
    let (start, end) = layout.all_dropped();
    for (space, spec) in specs(client, layout, start, end)? {
        let start = layout.rows(space, &spec);
        delete_range(client, &start)?;
        let note = layout.dropped(space);
        change(client, vec![note.clone()], |_| {
            Ok((vec![delete(note.clone())], ()))
        })?;
    }
    Ok(())
}

fn delete_range(client: &Client, prefix: &[u8]) -> Result<()> {
    let page = PageRequest {
        start: prefix.to_vec(),
        end: end_of(prefix),
        limit: DELETE_BATCH,
        reverse: false,
        keys_only: true,
    };
    let give_up = Instant::now() + RETRY_TIME;
    loop {
        let read = uncancelled(|call| {
            let ts = client.timestamp(call)?;
            Ok((ts, client.page(call, ts, &page)?))
        });
        let (ts, keys) = read.map_err(read_error)?;
        if keys.is_empty() {
            return Ok(());
        }
        let deletes = keys.into_iter().map(|(key, _)| delete(key)).collect();
        if let Err(e) = commit_at(client, ts, deletes) {
            // A transaction that began before the drop still locks rows: try again later.
            if !may_retry(&e) || Instant::now() > give_up {
                return Err(read_error(e));
            }
            blocking(|| std::thread::sleep(Duration::from_millis(20)));
        }
    }
}
