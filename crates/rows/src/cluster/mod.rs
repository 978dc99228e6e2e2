//! Several servers over one engine: who they are, and how a change of definitions on one of them reaches
//! the others before anything depends on it.
//!
//! Each server keeps a *record* in the store ([`ServerState`]) and renews the lease in it
//! ([`porpoise_kv::coordination`]). One thread, the *follower*, polls the catalog's version, reloads what
//! changed, and writes into the record which version the server uses. This is the protocol of Google's
//! F1 (Rae and others, "Online, Asynchronous Schema Change in F1", 2013) with acknowledgements, as in
//! TiDB: a statement waits for the servers, not for a fixed time.
//!
//! ```text
//!   server A: ALTER TABLE t                        server B
//!   version 8: change (A, 1) of t            -->   loads 8; keeps new users away from t
//!   waits until all have drained 8           <--   last user of t ends: record "drained 8"
//!   builds; version 9: new t, change removed -->   loads 9: lets users in, who see the new t
//!   waits until all have loaded 9            <--   record "loaded 9"
//!   replies to the client
//! ```
//!
//! Invariants:
//! 1. At most two adjacent versions are in use: version n + 1 is committed only when every server with a
//!    lease has loaded n, and a server without a lease uses none.
//! 2. A change of a table's rows or of what its writers must do is committed while every server with a
//!    lease blocks sessions from the table. So its old spaces can be freed at once.
//! 3. The version row of the catalog is locked by each commit of a version, and compared with the version
//!    from which the change was made. A statement whose change was removed, because its server was taken
//!    for dead, is refused there ([`crate::Error::DefinitionChanged`]).
//! 4. A server acknowledges a version after its barriers are raised and the catalog is published, and
//!    renews its lease only after it has looked for a newer version.
//! 5. No space is removed that a server may have created since it was started and not named yet.
//!
//! The version in a transaction is checked by the lease, as in TiDB, and not by reading the version row:
//! that takes no request, whereas the read would be one more in every commit and would not hold
//! off a change that comes between the read and the commit. A transaction of a server that has
//! acknowledged a version is over, or uses none of the tables; one of a server that has not is refused
//! once the lease has ended ([`porpoise_kv::coordination::Fence`]).
//!
//! Rejected: waiting for twice the lease at each step, as F1 does (an ALTER would take a minute); one lock
//! for all changes (two tables can be altered at a time; changes of one table exclude each other by their
//! entries in [`crate::catalog::Catalog::changes`]).

mod follower;
mod record;
mod running;

pub(crate) use follower::Followed;
pub use record::{SERVER_RECORD_FORMAT_VERSION, ServerState};

use crate::catalog::{Catalog, ChangeKey};
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::metadata_lock::{MetadataLocks, ServerBarrier, TableUsers};
use parking_lot::{Condvar, Mutex, MutexGuard};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_kv::coordination::{Coordination, Lease};
use porpoise_kv::{self as kv, CounterId, Engine, SpaceId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Counter of the numbers of servers.
const SERVER_IDS: CounterId = CounterId(4);

/// Number of renewals in the time of a lease. Most of a lease must be left at any moment: an election of TiKV's placement
/// drivers takes up to 12 s with their own settings, and the default lease is 15 s.
const RENEWALS: u32 = 8;

/// Interval at which the records of other servers are polled.
const WAIT_STEP: Duration = Duration::from_millis(15);

/// Settings of a server of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Time for which a lease is granted.
    pub lease: Duration,
    /// Interval at which the follower polls.
    pub poll: Duration,
    /// Address, for people.
    pub address: String,
    /// Version of the program.
    pub program: String,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        ClusterOptions {
            lease: Duration::from_secs(15),
            poll: Duration::from_millis(200),
            address: String::new(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Obligations of this server from catalog versions, for statements of other servers.
#[derive(Default)]
pub(crate) struct Following {
    /// Barriers, with the versions that have them first.
    barriers: BTreeMap<ChangeKey, (u64, ServerBarrier)>,
    /// Sessions that may use an older version of a table that is changed online, with the version.
    users: Vec<(u64, TableUsers)>,
}

impl Following {
    /// Raises the barriers that a catalog requires, before it is published.
    pub(crate) fn before_publishing(
        &mut self,
        own: u64,
        new: &Catalog,
        locks: &Arc<MetadataLocks>,
    ) {
        for (key, change) in &new.changes {
            if key.0 != own && !change.is_online && !self.barriers.contains_key(key) {
                let barrier = locks.raise_for_server(&change.tables);
                self.barriers.insert(*key, (change.version, barrier));
            }
        }
    }

    /// Lowers the barriers that a catalog does not require, after it was published, and notes who may
    /// still use the version before it.
    pub(crate) fn after_publishing(&mut self, own: u64, new: &Catalog, locks: &MetadataLocks) {
        self.barriers.retain(|key, _| new.changes.contains_key(key));
        let online = new.changes.iter();
        let online = online.filter(|(key, change)| key.0 != own && change.is_online);
        let tables: Vec<TableId> = online.flat_map(|(_, c)| c.tables.clone()).collect();
        if !tables.is_empty() {
            self.users.push((new.version, locks.users_of(&tables)));
        }
    }

    /// The newest version of which everything is done, if `loaded` is the one in use.
    fn drained(&mut self, loaded: u64) -> u64 {
        self.users.retain(|(_, users)| !users.are_gone());
        let barriers = self.barriers.values();
        let pending = barriers.filter(|(_, barrier)| !barrier.is_drained());
        let pending = pending.map(|(version, _)| *version);
        let oldest = pending
            .chain(self.users.iter().map(|(version, _)| *version))
            .min();
        oldest.map_or(loaded, |version| version.saturating_sub(1).min(loaded))
    }
}

/// The lease and the record, as last written.
struct Written {
    record: ServerState,
    /// End of the lease on this machine's clock.
    until: Instant,
    /// Time from which the lease is to be renewed.
    renew_at: Instant,
    /// Reason why the last attempt to renew the lease failed.
    failure: Option<String>,
    /// Whether the lease had ended, and definitions must be loaded before the engine gets another.
    is_rejoining: bool,
}

#[derive(Default)]
struct Signal {
    stopping: bool,
    nudged: bool,
}

/// This server as a member of a cluster.
pub(crate) struct Membership {
    engine: Arc<dyn Engine>,
    options: ClusterOptions,
    id: u64,
    written: Mutex<Written>,
    /// Locked while a catalog is published.
    following: Mutex<Following>,
    /// Last token seen of each table with subscribers.
    tokens: Mutex<HashMap<TableId, u64>>,
    statements: Mutex<running::Running>,
    signal: Mutex<Signal>,
    wake: Condvar,
}

/// The catalog version in use, and the newest of which everything is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    loaded: u64,
    drained: u64,
}

/// Outcome of writing the record.
enum Reported {
    Written,
    /// The lease has ended on the store's clock, or another server has removed the record.
    Expired,
}

impl Membership {
    /// Registers this server, without a lease yet: it uses no version.
    pub(crate) fn join(
        engine: Arc<dyn Engine>,
        options: ClusterOptions,
        started: i64,
    ) -> Result<Option<Arc<Membership>>> {
        let Some(store) = engine.coordination() else {
            return Ok(None);
        };
        let id = engine.reserve_ids(SERVER_IDS, 1, 1)?.start;
        let record = ServerState {
            id,
            address: options.address.clone(),
            program: options.program.clone(),
            started,
            first_space: store.next_space()?.0,
            ..ServerState::default()
        };
        let now = Instant::now();
        let membership = Membership {
            engine: engine.clone(),
            options,
            id,
            written: Mutex::new(Written {
                record,
                until: now,
                renew_at: now,
                failure: None,
                is_rejoining: false,
            }),
            following: Mutex::default(),
            tokens: Mutex::default(),
            statements: Mutex::default(),
            signal: Mutex::default(),
            wake: Condvar::new(),
        };
        membership.report(None, true)?;
        Ok(Some(Arc::new(membership)))
    }

    fn store(&self) -> Result<&dyn Coordination> {
        self.engine
            .coordination()
            .ok_or(Error::Kv(kv::Error::Ended))
    }

    /// A transaction that does not depend on the lease, to read the catalog.
    pub(crate) fn begin(&self) -> Result<Box<dyn kv::Txn>> {
        Ok(self.engine.begin_unfenced()?)
    }

    /// Writes the record, with a lease from now on, and the catalog version in use, if the server has
    /// loaded one; then the engine is granted the lease, too. A server that is `joining` may have no
    /// lease in its record.
    fn report(&self, versions: Option<Versions>, joining: bool) -> Result<Reported> {
        let store = self.store()?;
        let lease = self.options.lease;
        let begun = Instant::now();
        let (now, records) = store.records()?;
        let stored = records.iter().find(|(id, _)| *id == self.id);
        let stored = stored.map(|(_, record)| record.as_slice());
        let previous = stored.map(|record| ServerState::decode(self.id, record));
        let has_lease = previous.transpose()?.is_some_and(|p| p.lease_end >= now);
        if !joining && !has_lease {
            return Ok(Reported::Expired);
        }
        let mut written = self.written.lock();
        let until_store = now.saturating_add(u64::try_from(lease.as_millis()).unwrap_or(0));
        let record = ServerState {
            lease_end: until_store,
            is_active: versions.is_some(),
            loaded: versions.map_or(0, |v| v.loaded),
            drained: versions.map_or(0, |v| v.drained),
            ..written.record.clone()
        };
        if !store.replace_record(self.id, stored, Some(&record.encode()))? {
            let text = "another server has changed this server's record";
            return Err(Error::Kv(kv::Error::Unavailable(text.into())));
        }
        let until = begun + lease;
        *written = Written {
            record,
            until,
            renew_at: begun + lease / RENEWALS,
            failure: None,
            is_rejoining: versions.is_none(),
        };
        drop(written);
        if versions.is_some() {
            store.grant_lease(Lease { until, until_store });
        }
        Ok(Reported::Written)
    }

    /// The servers with a lease, this one included, and the time of the store's clock in milliseconds.
    pub(crate) fn servers(&self) -> Result<(u64, Vec<ServerState>)> {
        let (now, records) = self.store()?.records()?;
        let decode = |(id, record): &(u64, Vec<u8>)| ServerState::decode(*id, record);
        let mut servers = records.iter().map(decode).collect::<Result<Vec<_>>>()?;
        servers.retain(|server| server.lease_end >= now);
        Ok((now, servers))
    }

    /// Waits until `is_done` holds for every other server with a lease. A server that does not answer
    /// is waited for until its lease ends.
    pub(crate) fn wait_for(
        &self,
        is_done: impl Fn(&ServerState) -> bool,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<()> {
        loop {
            let (_, servers) = self.servers()?;
            let mut others = servers.iter().filter(|server| server.id != self.id);
            if others.all(&is_done) {
                return Ok(());
            }
            pause(WAIT_STEP, deadline, cancel)?;
        }
    }

    /// Obligations from catalog versions; the guard is held while a catalog is published.
    pub(crate) fn publishing(&self) -> MutexGuard<'_, Following> {
        self.following.lock()
    }

    /// Time for which a lease is granted.
    pub(crate) fn lease(&self) -> Duration {
        self.options.lease
    }

    /// Number of this server.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The version that `db` uses, and the newest of which everything is done.
    fn versions(&self, db: &dyn Followed) -> Versions {
        let mut following = self.following.lock();
        let loaded = db.catalog_version();
        let drained = following.drained(loaded);
        Versions { loaded, drained }
    }

    /// Reason why the server has no lease; `None` while it has one.
    pub(crate) fn problem(&self) -> Option<String> {
        let written = self.written.lock();
        if Instant::now() < written.until && !written.is_rejoining {
            return None;
        }
        let why = written
            .failure
            .as_deref()
            .unwrap_or("it was not renewed in time");
        Some(format!("the lease on the cluster has run out: {why}"))
    }
}

/// The state of a cluster, as one of its servers sees it.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// Number of the server that looks.
    pub own: u64,
    /// Time of the store's clock, milliseconds.
    pub now: u64,
    /// The servers with a lease.
    pub servers: Vec<ServerState>,
}

impl Membership {
    /// The least space that a server with a record may have created.
    pub(crate) fn oldest_server_space(&self) -> Result<SpaceId> {
        let (_, records) = self.store()?.records()?;
        let mut oldest = u64::MAX;
        for (id, record) in &records {
            oldest = oldest.min(ServerState::decode(*id, record)?.first_space);
        }
        Ok(SpaceId(oldest))
    }
}

/// Waits for `time`, but not beyond `deadline` or a cancellation.
pub(crate) fn pause(time: Duration, deadline: Instant, cancel: &Cancel) -> Result<()> {
    if let Some(reason) = cancel.reason() {
        return Err(Error::Kv(kv::Error::Cancelled(reason)));
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Error::Kv(kv::Error::LockTimeout));
    }
    blocking(|| std::thread::sleep(time.min(left)));
    Ok(())
}
