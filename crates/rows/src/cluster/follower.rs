//! The follower: the thread that renews the lease, loads newer definitions, and cleans up after servers
//! that are gone.
//!
//! Invariant: nothing here waits for another server for longer than a small part of the lease, because
//! the lease would run out meanwhile.

use super::{Membership, Reported, Versions, pause};
use crate::catalog::persist::cluster::read_version_and_tokens;
use crate::catalog::{Catalog, ChangeKey};
use crate::definition::TableId;
use crate::error::Result;
use porpoise_base::cancel::Cancel;
use porpoise_base::threads::{self, Role};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pause while sessions still use tables that another server wants to change, and while a barrier of another server
/// blocks sessions.
const DRAIN_STEP: Duration = Duration::from_millis(10);
/// Pause while another server changes tables online: the last step blocks sessions until all servers have polled.
const ONLINE_STEP: Duration = Duration::from_millis(50);

/// The database whose definitions follow those of other servers.
pub(crate) trait Followed: Send + Sync {
    /// The catalog in use.
    fn catalog(&self) -> Arc<Catalog>;

    /// Its version.
    fn catalog_version(&self) -> u64;

    /// Loads the catalog if it is newer, unless a statement of this server is changing it. Returns
    /// whether it looked.
    fn follow_catalog(&self) -> Result<bool>;

    /// Removes changes of definitions whose servers are gone.
    fn remove_changes(&self, keys: &[ChangeKey], patience: Duration) -> Result<()>;

    /// Tables from which caches are derived.
    fn subscribed_tables(&self) -> Arc<Vec<TableId>>;

    /// Another server may have written such tables.
    fn notify_changed(&self, tables: &[TableId]);
}

impl Membership {
    /// Takes the lease for the catalog that `db` has loaded, and starts the follower.
    pub(crate) fn activate(self: &Arc<Self>, db: &Arc<dyn Followed>) -> Result<()> {
        self.report(Some(self.versions(db.as_ref())), true)?;
        let (own, db) = (self.clone(), Arc::downgrade(db));
        let work = move || own.follow(&db);
        threads::spawn_restarting(Role::ClusterFollower, work).map_err(|error| {
            let text = format!("the thread that follows the cluster cannot be started: {error}");
            crate::Error::Kv(porpoise_kv::Error::Io(text))
        })?;
        Ok(())
    }

    /// Lets the follower look at once.
    pub(crate) fn nudge(&self) {
        self.signal.lock().nudged = true;
        self.wake.notify_all();
    }

    /// Ends the follower and withdraws from the cluster. The engine is still open.
    pub(crate) fn leave(&self) {
        {
            let mut signal = self.signal.lock();
            if std::mem::replace(&mut signal.stopping, true) {
                return;
            }
        }
        self.wake.notify_all();
        if let Err(error) = self.withdraw() {
            tracing::warn!(%error, "this server could not withdraw from the cluster: other servers wait for the end of its lease");
        }
    }

    fn withdraw(&self) -> Result<()> {
        let store = self.store()?;
        store.end_lease("it was stopped");
        let (_, records) = store.records()?;
        if let Some((id, record)) = records.iter().find(|(id, _)| *id == self.id) {
            store.replace_record(*id, Some(record), None)?;
        }
        Ok(())
    }

    fn follow(&self, db: &Weak<dyn Followed>) {
        loop {
            let Some(db) = db.upgrade() else {
                return;
            };
            let done = self.step(db.as_ref());
            if self.signal.lock().stopping {
                return;
            }
            if let Err(error) = done {
                self.note_failure(&error);
            }
            let versions = self.versions(db.as_ref());
            let is_draining = versions.drained < versions.loaded;
            let time = if is_draining {
                DRAIN_STEP
            } else {
                self.time_to_next_look(db.as_ref())
            };
            drop(db);
            let mut signal = self.signal.lock();
            if !signal.nudged && !signal.stopping {
                self.wake.wait_for(&mut signal, time);
            }
            signal.nudged = false;
            if signal.stopping {
                return;
            }
        }
    }

    /// Pause before the catalog's version is polled again: shorter while another server changes definitions.
    fn time_to_next_look(&self, db: &dyn Followed) -> Duration {
        let catalog = db.catalog();
        let changes = catalog.changes.iter();
        let others = changes.filter(|(key, _)| key.0 != self.id);
        let steps = others.map(|(_, change)| {
            if change.is_online {
                ONLINE_STEP
            } else {
                DRAIN_STEP
            }
        });
        steps
            .min()
            .map_or(self.options.poll, |step| step.min(self.options.poll))
    }

    fn note_failure(&self, error: &crate::Error) {
        let mut written = self.written.lock();
        let is_first = written.failure.is_none() && Instant::now() >= written.until;
        if Instant::now() >= written.until {
            written.failure = Some(error.to_string());
        }
        drop(written);
        if is_first {
            tracing::error!(%error, "this server's lease on the cluster has run out: it neither reads nor writes until it can renew it");
        } else {
            tracing::debug!(%error, "the cluster could not be followed now");
        }
    }

    /// Looks for newer definitions, and writes the record if it is due.
    fn step(&self, db: &dyn Followed) -> Result<()> {
        if self.written.lock().is_rejoining {
            return self.rejoin(db);
        }
        self.poll(db)?;
        let versions = self.versions(db);
        let running = self.running_statements();
        let catalog = db.catalog();
        let mut own = catalog.changes.keys().filter(|key| key.0 == self.id);
        let has_abandoned = own.any(|key| !running.contains(&key.1));
        let is_due = has_abandoned || {
            let written = self.written.lock();
            let record = &written.record;
            let last = Versions {
                loaded: record.loaded,
                drained: record.drained,
            };
            Instant::now() >= written.renew_at || last != versions
        };
        if !is_due {
            return Ok(());
        }
        let had_lease = self.problem().is_none();
        match self.report(Some(versions), false)? {
            Reported::Written => {
                if !had_lease {
                    tracing::info!("this server has renewed its lease on the cluster");
                }
                self.clean_up(db)
            }
            Reported::Expired => self.rejoin(db),
        }
    }

    /// Reads the version and the tokens, and acts on those that changed.
    fn poll(&self, db: &dyn Followed) -> Result<()> {
        let tables = db.subscribed_tables();
        let mut txn = self.begin()?;
        let (version, tokens) = read_version_and_tokens(txn.as_mut(), &tables)?;
        txn.rollback();
        if version > db.catalog_version() {
            db.follow_catalog()?;
        }
        let mut known = self.tokens.lock();
        let mut changed = Vec::new();
        for (table, token) in tables.iter().zip(tokens) {
            if known.insert(*table, token) != Some(token) {
                changed.push(*table);
            }
        }
        drop(known);
        if !changed.is_empty() {
            db.notify_changed(&changed);
        }
        Ok(())
    }

    /// Takes a new lease after the last one has ended. Transactions that began before are refused;
    /// definitions may have changed without this server.
    fn rejoin(&self, db: &dyn Followed) -> Result<()> {
        self.written.lock().is_rejoining = true;
        let why =
            "the last lease has run out before it could be renewed; definitions are loaded again";
        self.store()?.end_lease(why);
        tracing::warn!(
            "this server was taken for dead, because its lease had run out: transactions under way are rolled back"
        );
        self.report(None, true)?;
        // A statement of this server may hold the catalog while it waits for other servers.
        let patience = Instant::now() + self.options.lease / 4;
        while !db.follow_catalog()? {
            pause(DRAIN_STEP, patience, &Cancel::new())?;
        }
        self.tokens.lock().clear();
        self.report(Some(self.versions(db)), true)?;
        tracing::info!("this server has a new lease on the cluster");
        Ok(())
    }

    /// Undoes what servers without a lease have left, and removes changes whose statements have ended without a commit.
    fn clean_up(&self, db: &dyn Followed) -> Result<()> {
        let store = self.store()?;
        let (now, records) = store.records()?;
        let mut alive = BTreeSet::new();
        let mut dead = Vec::new();
        for (id, record) in &records {
            if super::ServerState::decode(*id, record)?.lease_end >= now {
                alive.insert(*id);
            } else {
                dead.push((*id, record));
            }
        }
        let running = self.running_statements();
        let catalog = db.catalog();
        let abandoned = |(server, statement): &(u64, u64)| {
            !alive.contains(server) || (*server == self.id && !running.contains(statement))
        };
        let ended: Vec<_> = catalog.changes.keys().copied().filter(abandoned).collect();
        if !ended.is_empty() {
            db.remove_changes(&ended, self.options.lease / 6)?;
            // The ends of this server's own statements are nothing special.
            let lost: Vec<_> = ended.iter().filter(|key| key.0 != self.id).collect();
            if !lost.is_empty() {
                tracing::warn!(changes = ?lost, "changes of definitions were undone, because their servers are gone");
            }
        }
        for (id, record) in dead {
            if store.replace_record(id, Some(record), None)? {
                tracing::info!(
                    server = id,
                    "the record of a server whose lease has run out was removed"
                );
            }
        }
        Ok(())
    }
}
