//! Statements that change definitions: how they announce the tables that they change, commit a version,
//! and wait for the other servers.

use super::{CatalogDraft, DdlCx};
use crate::catalog::persist::cluster::version_of;
use crate::catalog::{Catalog, ChangeKey, DefinitionChange, persist};
use crate::cluster::{Followed, Membership, pause};
use crate::db::Db;
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::metadata_lock::{Exclusion, MetadataBarrier, MetadataLockSession};
use porpoise_base::threads::{self, Role};
use porpoise_kv::{self as kv, CommitPosition, LockMode, LockRequest, SpaceId, Wait};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause before a table that another statement is changing is requested again.
const BUSY_STEP: Duration = Duration::from_millis(25);

/// A change that all servers know of. Dropping it lets them use its tables again, if the statement's
/// commit has not done so.
pub struct AnnouncedChange {
    membership: Arc<Membership>,
    session: usize,
    key: ChangeKey,
    /// The catalog version that has it first.
    version: u64,
}

/// Barrier over the tables of a statement, on this server and on the others.
pub(crate) struct DdlBarrier {
    // Fields are dropped in this order: the other servers let users in first.
    pub(crate) _announced: Option<AnnouncedChange>,
    pub(crate) _local: MetadataBarrier,
}

impl DdlBarrier {
    /// A barrier on an engine that one server uses.
    pub(crate) fn local(barrier: MetadataBarrier) -> DdlBarrier {
        DdlBarrier {
            _announced: None,
            _local: barrier,
        }
    }
}

impl Drop for AnnouncedChange {
    fn drop(&mut self) {
        self.membership.unregister(self.session, self.key);
        // The follower removes the change from the catalog, unless the commit has.
        self.membership.nudge();
    }
}

/// A version that is about to be committed: the transaction that holds the version row, and the catalog
/// from which it is made.
pub(crate) type Begun = (Box<dyn kv::Txn>, Arc<Catalog>);

impl Db {
    /// Announces to all servers of the cluster that a statement changes `tables`, so that they block sessions
    /// from them, unless `is_online`. Waits while another statement changes one of them. `None` on an
    /// engine that one server uses, and without tables.
    pub(crate) fn announce_change(
        &self,
        cx: &DdlCx<'_>,
        tables: &[TableId],
        is_online: bool,
    ) -> Result<Option<AnnouncedChange>> {
        let Some(membership) = self.membership().filter(|_| !tables.is_empty()) else {
            return Ok(None);
        };
        let session = cx.metadata_locks.owner();
        let own = membership.changes_of(session);
        let is_busy = |catalog: &Catalog| {
            let mut others = catalog.changes.iter().filter(|(k, _)| !own.contains(k));
            others.any(|(_, change)| change.tables.iter().any(|t| tables.contains(t)))
        };
        let key = membership.register(session);
        let mut announced = AnnouncedChange {
            membership: membership.clone(),
            session,
            key,
            version: 0,
        };
        loop {
            let mut busy = is_busy(&self.catalog());
            if !busy {
                let version = &mut announced.version;
                let announce = |draft: &mut CatalogDraft| {
                    busy = is_busy(&draft.catalog);
                    if busy {
                        return Err(Error::Kv(kv::Error::LockBusy));
                    }
                    *version = draft.catalog.version + 1;
                    let change = DefinitionChange {
                        version: *version,
                        is_online,
                        tables: tables.to_vec(),
                    };
                    draft.catalog.changes.insert(key, change);
                    Ok(())
                };
                let committed = self.commit_version(cx, announce, |new| self.publish(new));
                if !busy {
                    return committed.map(|_| Some(announced));
                }
            }
            if cx.metadata_locks.has_locked(tables) {
                // The other statement waits for this session's LOCK TABLES.
                return Err(Error::Kv(kv::Error::Deadlock));
            }
            membership.nudge();
            pause(BUSY_STEP, cx.deadline, cx.cancel)?;
        }
    }

    /// Announces a change during which sessions use the tables, until the result is dropped.
    ///
    /// # Errors
    /// The engine's; [`kv::Error::LockTimeout`] at the statement's deadline.
    pub fn announce_online_change(
        &self,
        cx: &DdlCx<'_>,
        tables: &[TableId],
    ) -> Result<Option<AnnouncedChange>> {
        self.announce_change(cx, tables, true)
    }

    /// Removes a statement's announced changes from the version that it commits, except an online one,
    /// which may commit several.
    ///
    /// # Errors
    /// [`Error::DefinitionChanged`] if one is missing: this server was taken for dead, and others have
    /// used the tables since.
    pub(crate) fn end_announced(&self, cx: &DdlCx<'_>, draft: &mut CatalogDraft) -> Result<()> {
        let Some(membership) = self.membership() else {
            return Ok(());
        };
        for key in membership.changes_of(cx.metadata_locks.owner()) {
            match draft.catalog.changes.get(&key) {
                None => return Err(Error::DefinitionChanged),
                Some(change) if change.is_online => {}
                Some(_) => drop(draft.catalog.changes.remove(&key)),
            }
        }
        Ok(())
    }

    /// After the commit that has ended them.
    pub(crate) fn forget_announced(&self, cx: &DdlCx<'_>) {
        if let Some(membership) = self.membership() {
            let (session, catalog) = (cx.metadata_locks.owner(), self.catalog());
            for key in membership.changes_of(session) {
                if !catalog.changes.contains_key(&key) {
                    membership.unregister(session, key);
                }
            }
        }
    }

    /// Waits until no session of another server uses an older version of a table of the statement's
    /// announced change than the newest one.
    ///
    /// # Errors
    /// [`kv::Error::LockTimeout`] at the statement's deadline; a cancellation; the engine's.
    pub fn wait_for_other_servers(&self, cx: &DdlCx<'_>) -> Result<()> {
        let Some(membership) = self.membership() else {
            return Ok(());
        };
        let version = self.catalog_version();
        membership.wait_for(|s| s.has_drained(version), cx.deadline, cx.cancel)
    }

    /// Begins a version: waits until every server has loaded the present one, and locks the version row.
    /// The caller holds the lock of catalog changes.
    pub(crate) fn begin_version(&self, cx: &DdlCx<'_>) -> Result<Begun> {
        loop {
            if let Some(membership) = self.membership() {
                let version = self.catalog_version();
                membership.wait_for(|s| s.has_loaded(version), cx.deadline, cx.cancel)?;
            }
            let mut txn = self.engine().begin(kv::TxnOptions {
                sync: true,
                cancel: cx.cancel.clone(),
                ..kv::TxnOptions::default()
            })?;
            let request = LockRequest {
                key: persist::version_key(),
                mode: LockMode::Exclusive,
            };
            let mut stored = Ok(0);
            txn.lock(&[request], Wait::Until(cx.deadline), &mut |_, locked| {
                stored = version_of(locked.value);
            })?;
            let old = self.catalog();
            if self.membership().is_none() || stored? == old.version {
                return Ok((txn, old));
            }
            txn.rollback();
            self.load_newer_catalog()?;
        }
    }

    /// Waits until every server has loaded the newest version. The statement is done already, so a
    /// server that does not answer only delays it: for its lease.
    pub(crate) fn wait_until_loaded(&self, cx: &DdlCx<'_>) {
        let Some(membership) = self.membership() else {
            return;
        };
        let version = self.catalog_version();
        let deadline = Instant::now() + membership.lease() * 2;
        let done = membership.wait_for(|s| s.has_loaded(version), deadline, cx.cancel);
        if let Err(error) = done {
            tracing::warn!(%error, version, "not all servers of the cluster have loaded a new version of the catalog yet");
        }
    }

    /// Loads the catalog if it is newer. The caller holds the lock of catalog changes.
    fn load_newer_catalog(&self) -> Result<()> {
        let Some(membership) = self.membership() else {
            return Ok(());
        };
        let old = self.catalog();
        let mut txn = membership.begin()?;
        let new = persist::reload(txn.as_mut(), &old)?;
        txn.rollback();
        if new.version <= old.version {
            return Ok(());
        }
        let ended = old
            .changes
            .iter()
            .filter(|(k, _)| !new.changes.contains_key(k));
        let changed: BTreeSet<TableId> = ended.flat_map(|(_, c)| c.tables.clone()).collect();
        let new = Arc::new(new);
        let is_online = |catalog: &Catalog| catalog.changes.values().any(|c| c.is_online);
        if is_online(&old) || is_online(&new) {
            self.publish_online(new.clone());
        } else {
            self.publish(new.clone());
        }
        for (id, table) in &old.tables {
            let counter = new.tables.get(id).map(|table| table.counter);
            if counter != Some(table.counter) || changed.contains(id) {
                self.forget_counters(table);
            }
        }
        Ok(())
    }

    /// Removes spaces that no table has. The embedded engine's are left over from a crash during a
    /// statement. On a cluster another server may have created them for a statement under way or a
    /// temporary table, so only those count that are older than every server.
    pub(crate) fn remove_orphaned_spaces(
        engine: &dyn kv::Engine,
        membership: Option<&Membership>,
        catalog: &Catalog,
    ) -> Result<()> {
        let named = |catalog: &Catalog| -> BTreeSet<SpaceId> {
            let tables = catalog.tables.values();
            tables.flat_map(|table| table.all_spaces()).collect()
        };
        let used = named(catalog);
        let spaces = engine.spaces()?.into_iter().map(|(id, _)| id);
        let mut orphans: Vec<SpaceId> = spaces.filter(|id| !used.contains(id)).collect();
        let Some(membership) = membership else {
            if !orphans.is_empty() {
                engine.drop_spaces(&orphans)?;
            }
            return Ok(());
        };
        let oldest = membership.oldest_server_space()?;
        orphans.retain(|id| *id < oldest);
        if orphans.is_empty() {
            return Ok(());
        }
        // No statement, not even one of a server taken for dead, names a space while this is held.
        let mut txn = engine.begin(kv::TxnOptions::default())?;
        let request = LockRequest {
            key: persist::version_key(),
            mode: LockMode::Exclusive,
        };
        let wait = Wait::Until(Instant::now() + membership.lease() * 2);
        txn.lock(&[request], wait, &mut |_, _| ())?;
        let used = named(&persist::load(txn.as_mut())?);
        orphans.retain(|id| !used.contains(id));
        engine.drop_spaces(&orphans)?;
        txn.rollback();
        Ok(())
    }
}

impl AnnouncedChange {
    /// Waits until no session of another server uses the tables.
    pub(crate) fn wait_until_drained(&self, cx: &DdlCx<'_>) -> Result<()> {
        let version = self.version;
        self.membership
            .wait_for(|server| server.has_drained(version), cx.deadline, cx.cancel)
    }
}

/// The right to create what the first server of a cluster creates, until this is dropped.
pub struct Initialization {
    // Fields are dropped in this order.
    _announced: AnnouncedChange,
    _session: MetadataLockSession,
}

/// A table that does not exist, for [`Db::begin_initialization`].
const INITIALIZATION: TableId = TableId(0);

impl Db {
    /// Waits until no other server of the cluster initializes the store; `None` on an engine that one
    /// server uses.
    ///
    /// # Errors
    /// The engine's; [`kv::Error::LockTimeout`] after a minute.
    pub fn begin_initialization(&self) -> Result<Option<Initialization>> {
        let session = self.metadata_locks().session();
        let announced = self.define(|cx| {
            let cx = DdlCx {
                metadata_locks: &session,
                ..*cx
            };
            self.announce_change(&cx, &[INITIALIZATION], false)
        })?;
        Ok(announced.map(|announced| Initialization {
            _announced: announced,
            _session: session,
        }))
    }
}

impl Db {
    /// Undoes interrupted changes of tables on a thread, because it waits for the other servers,
    /// which wait for this one's follower. If it fails, the next change of the table undoes them.
    pub(crate) fn finish_changes_in_background(&self, tables: BTreeSet<TableId>) {
        let catalog = self.catalog();
        let unfinished = |id: &TableId| {
            let table = catalog.table_by_id(*id);
            table.is_some_and(|table| table.has_unfinished_change())
        };
        let tables: Vec<TableId> = tables.into_iter().filter(unfinished).collect();
        let Some(db) = self.own.upgrade().filter(|_| !tables.is_empty()) else {
            return;
        };
        let work = move || {
            for table in tables {
                let choose = |catalog: &Catalog| {
                    let table = catalog.table_by_id(table);
                    Ok(table.map(|table| table.id).into_iter().collect())
                };
                // Raising the barrier finishes the change.
                let done = db.define(|cx| {
                    db.barrier_of(cx, Exclusion::Definitions, choose)
                        .map(|_| ())
                });
                if let Err(error) = done {
                    tracing::info!(%error, "an interrupted change of a definition is undone later");
                }
            }
        };
        if let Err(error) = threads::spawn(Role::SchemaChange, work) {
            tracing::warn!(%error, "an interrupted change of a definition is undone later: no thread could be started");
        }
    }
}

impl Followed for Db {
    fn catalog(&self) -> Arc<Catalog> {
        Db::catalog(self)
    }

    fn catalog_version(&self) -> u64 {
        Db::catalog_version(self)
    }

    fn follow_catalog(&self) -> Result<bool> {
        let Some(_turn) = self.catalog_change.try_lock() else {
            return Ok(false);
        };
        self.load_newer_catalog()?;
        Ok(true)
    }

    fn remove_changes(&self, keys: &[ChangeKey], patience: Duration) -> Result<()> {
        let gone = self.catalog();
        self.define(|cx| {
            let cx = DdlCx {
                deadline: Instant::now() + patience,
                ..*cx
            };
            let remove = |draft: &mut CatalogDraft| {
                draft.catalog.changes.retain(|key, _| !keys.contains(key));
                Ok(())
            };
            self.commit_version(&cx, remove, |new| self.publish_online(new))
        })?;
        let gone = keys.iter().filter_map(|key| gone.changes.get(key));
        let tables = gone.flat_map(|change| change.tables.clone()).collect();
        self.finish_changes_in_background(tables);
        Ok(())
    }

    fn subscribed_tables(&self) -> Arc<Vec<TableId>> {
        self.change_notifier.subscribed_tables()
    }

    fn notify_changed(&self, tables: &[TableId]) {
        self.change_notifier.notify(tables, CommitPosition::NONE);
    }
}
