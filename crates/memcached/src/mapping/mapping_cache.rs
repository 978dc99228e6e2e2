//! Mapping cache: the mapping in force, rebuilt when the configuration or a definition changes.
//!
//! A session checks once per batch of requests whether its mapping is the newest one, at the cost
//! of a few atomic loads. Change notification of `rows` counts commits to the tables of the
//! configuration, through any protocol, before the commit returns to its caller, so the next
//! command on any connection sees the change.
//!
//! Invariants:
//! 1. A mapping is read at a snapshot, without waiting for a counted commit that is not durable
//!    yet: the client of that commit has not received a reply, and the mapping is rebuilt as soon
//!    as snapshots see the change.
//! 2. The count is read before the snapshot is taken: a commit in between causes a redundant
//!    rebuild, not a missed change.
//! 3. If building a mapping fails (an error of the engine), the last one stays in force, and the
//!    error is logged.
//!
//! On an engine shared by several servers, a commit made through another server is counted when the follower of
//! `rows` finds the new token of the table (`crates/rows/src/cluster/follower.rs`). The server also calls
//! [`MappingCache::poll`] periodically, which reads the configuration without such a notification.

use crate::mapping::Mapping;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use porpoise_rows::catalog::TableId;
use porpoise_rows::{Db, Error, Result, TableChanges};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapping, and the versions of its sources by which staleness is detected.
#[derive(Debug)]
pub struct CurrentMapping {
    /// The mapping.
    pub mapping: Mapping,
    /// Counts commits to `watched_tables`.
    table_changes: Arc<TableChanges>,
    /// The tables of the configuration.
    watched_tables: Vec<TableId>,
    /// Value of `table_changes` that the mapping includes.
    seen_changes: u64,
    /// Value of [`MappingCache::polled`] that the mapping includes.
    polled: u64,
}

/// The mapping in force; see the module.
pub struct MappingCache {
    db: Arc<Db>,
    role: String,
    current: ArcSwap<CurrentMapping>,
    rebuild_lock: Mutex<()>,
    /// Number of changes that [`MappingCache::poll`] has detected.
    polled: AtomicU64,
}

impl MappingCache {
    /// Reads the configuration for a role.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn open(db: Arc<Db>, role: &str) -> Result<MappingCache> {
        let first = build_mapping(&db, role, None, None, 0)?;
        Ok(MappingCache {
            role: role.to_owned(),
            current: ArcSwap::from_pointee(first),
            rebuild_lock: Mutex::new(()),
            polled: AtomicU64::new(0),
            db,
        })
    }

    /// The role's name.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Returns the mapping in force. Sessions use [`MappingCache::renew`], which is cheaper.
    pub fn load(&self) -> Arc<CurrentMapping> {
        let mut cached = self.current.load_full();
        self.renew(&mut cached);
        cached
    }

    /// Replaces `cached` by the mapping in force if it is out of date.
    #[inline]
    pub(crate) fn renew(&self, cached: &mut Arc<CurrentMapping>) {
        if !self.is_stale(cached) {
            return;
        }
        self.refresh_if_stale(cached);
    }

    /// Reads the configuration, and replaces the mapping if its rows have changed, on this server
    /// or another.
    ///
    /// # Errors
    /// The errors of reading; the mapping in force stays.
    pub fn poll(&self) -> Result<()> {
        let _rebuild_guard = self.rebuild_lock.lock();
        let cached = self.current.load_full();
        let last = cached.mapping.roles.get(&self.role).copied();
        let polled = cached.polled + 1;
        let new = build_mapping(&self.db, &self.role, last, Some(&cached), polled)?;
        if new.mapping.fingerprint != cached.mapping.fingerprint {
            log_status_changes(&cached.mapping, &new.mapping);
            self.current.store(Arc::new(new));
            self.polled.store(polled, Ordering::Release);
        }
        Ok(())
    }

    fn is_stale(&self, cached: &CurrentMapping) -> bool {
        cached.table_changes.changes() != cached.seen_changes
            || cached.mapping.catalog_version != self.db.catalog_version()
            || cached.polled != self.polled.load(Ordering::Acquire)
    }

    #[cold]
    fn refresh_if_stale(&self, cached: &mut Arc<CurrentMapping>) {
        let _rebuild_guard = self.rebuild_lock.lock();
        *cached = self.current.load_full();
        if !self.is_stale(cached) {
            return;
        }
        let same_definitions = cached.mapping.catalog_version == self.db.catalog_version();
        let is_durable = self.db.engine().durable_position() >= cached.table_changes.position();
        if same_definitions && !is_durable {
            // Snapshots do not see the change yet (invariant 1).
            return;
        }
        let last = cached.mapping.roles.get(&self.role).copied();
        let polled = self.polled.load(Ordering::Acquire);
        match build_mapping(&self.db, &self.role, last, Some(cached), polled) {
            Ok(new) => {
                log_status_changes(&cached.mapping, &new.mapping);
                *cached = Arc::new(new);
                self.current.store(cached.clone());
            }
            Err(error) => {
                tracing::warn!("the memcached configuration cannot be read: {error}");
            }
        }
    }
}

/// Logs each prefix whose status has changed.
fn log_status_changes(old: &Mapping, new: &Mapping) {
    if old.status == new.status {
        return;
    }
    for line in new.status.iter().filter(|s| !old.status.contains(s)) {
        let state = if line.active { "active" } else { "disabled" };
        tracing::info!(
            "memcached prefix '{}' of role {} is {state} {}",
            line.prefix,
            line.role,
            line.reason
        );
    }
}

/// Builds a mapping for `role`. `last` is the role's last known number; the count of changes of
/// `old` is reused if the tables are the same; `polled` is the value for
/// [`CurrentMapping::polled`].
fn build_mapping(
    db: &Arc<Db>,
    role: &str,
    last: Option<i64>,
    old: Option<&CurrentMapping>,
    polled: u64,
) -> Result<CurrentMapping> {
    let mut tries = 0;
    loop {
        let tables = Mapping::configuration_tables(&db.catalog());
        let table_changes = match old.filter(|old| old.watched_tables == tables) {
            Some(old) => old.table_changes.clone(),
            None => db.subscribe(&tables),
        };
        let seen = table_changes.changes();
        match Mapping::read(db, role, last) {
            Ok(mapping) => {
                return Ok(CurrentMapping {
                    mapping,
                    table_changes,
                    watched_tables: tables,
                    seen_changes: seen,
                    polled,
                });
            }
            // A definition changed during the read.
            Err(Error::DefinitionChanged | Error::Kv(porpoise_kv::Error::NoSuchSpace(_)))
                if tries < 8 =>
            {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
