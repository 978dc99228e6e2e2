//! The database: an engine, its catalog, and the ids handed out over it.
//!
//! Invariants:
//! 1. The catalog is replaced as a whole; an older one stays valid as long as it is referenced.
//!    Metadata locks, not this module, keep a definition from changing under a transaction.
//! 2. All ids come from here: auto-increment ids, hidden row ids and row versions.

use crate::autoinc::Counters;
use crate::catalog::Catalog;
use crate::catalog::persist;
use crate::change_notifier::{ChangeNotifier, TableChanges};
use crate::changes::ChangeLog;
use crate::cluster::{ClusterOptions, ClusterView, Followed, Membership};
use crate::commit_pacing::CommitPacing;
use crate::definition::{TableDef, TableId};
use crate::error::{Error, Result};
use crate::expressions::{CompileExpressions, Compiled, RowContext, RowExpressions};
use crate::fk::FkCounters;
use crate::hot_keys::HotKeys;
use crate::metadata_lock::MetadataLocks;
use crate::read_only::{ReadOnly, ReadOnlyState};
use crate::row::overflow::MAX_ROW_BYTES;
use crate::table::Table;
use crate::text_index::maintenance::TextMaintenance;
use crate::ttl::{ExpiryZone, TtlCounters};
use crate::version::{IdAllocator, OVERFLOW_IDS, ROW_VERSIONS};
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use porpoise_base::clock::Clock;
use porpoise_kv::{self as kv, Engine, SpaceId, TxnOptions};
use porpoise_types::DateTime;
use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Settings of a [`Db`].
#[derive(Clone, Debug, Default)]
pub struct DbOptions {
    /// For an engine that several servers share.
    pub cluster: ClusterOptions,
}

/// An open database: what SQL, memcached and the native API work on.
pub struct Db {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    catalog: ArcSwap<Catalog>,
    /// Version of the newest catalog, which most statements check.
    version: AtomicU64,
    pub(crate) versions: IdAllocator,
    /// Ids of overflow values.
    pub(crate) overflow_ids: IdAllocator,
    pub(crate) counters: Counters,
    pub(crate) change_notifier: ChangeNotifier,
    pub(crate) fk_counters: FkCounters,
    pub(crate) hot_keys: HotKeys,
    pub(crate) metadata_locks: Arc<MetadataLocks>,
    /// Serializes changes of the catalog, until they are published.
    pub(crate) catalog_change: Mutex<()>,
    /// Catalogs that online schema changes replaced, which running statements may still use.
    replaced: ReplacedCatalogs,
    /// Spaces of finished schema changes, which wait for transactions that may still write to them.
    pub(crate) unused_spaces: Mutex<Vec<UnusedSpaces>>,
    /// Maximum size of an encoded row, in bytes.
    pub(crate) row_limit: usize,
    /// Compiles the expressions of definitions.
    pub(crate) compiler: OnceLock<Arc<dyn CompileExpressions>>,
    /// A [`crate::SharedRunner`]; type-erased, because its trait names the transaction, which names
    /// this module.
    pub(crate) trigger_runner: OnceLock<Box<dyn Any + Send + Sync>>,
    pub(crate) text_maintenance: TextMaintenance,
    /// The change log; unset if it is off.
    change_log: OnceLock<Arc<dyn ChangeLog>>,
    pub(crate) commit_pacing: Arc<CommitPacing>,
    /// The clients whose writes are refused.
    pub(crate) read_only: ReadOnlyState,
    /// See [`Db::read_staleness`], in milliseconds.
    read_staleness: AtomicU32,
    /// Prepared transactions that were taken from the engine before
    /// [`crate::prepared::PreparedTxn::restore`].
    pub(crate) restored: Mutex<Vec<Box<dyn kv::PreparedTxn>>>,
    /// Time zone of DATETIME and DATE columns of TTL.
    pub(crate) expiry_zone: ExpiryZone,
    /// Whether a table of the newest catalog has TTL.
    pub(crate) has_ttl: AtomicBool,
    pub(crate) ttl_counters: TtlCounters,
    /// Weak reference to this database, for threads that it starts.
    pub(crate) own: Weak<Db>,
    /// This server's membership of a cluster; unset on an engine that one server uses.
    pub(crate) cluster: OnceLock<Arc<Membership>>,
}

/// Spaces that no catalog names any more.
pub(crate) struct UnusedSpaces {
    /// Transactions that have used the table since before this epoch of the metadata locks may
    /// write to the spaces.
    pub(crate) epoch: u64,
    pub(crate) table: TableId,
    pub(crate) spaces: Vec<SpaceId>,
}

/// The last catalogs that online schema changes replaced, oldest first.
#[derive(Default)]
struct ReplacedCatalogs {
    exist: AtomicBool,
    catalogs: Mutex<VecDeque<Arc<Catalog>>>,
}

impl ReplacedCatalogs {
    /// Number of catalogs kept. A statement that runs during more changes is refused.
    const MAX: usize = 32;

    fn push(&self, catalog: Arc<Catalog>) {
        let mut catalogs = self.catalogs.lock();
        catalogs.push_back(catalog);
        if catalogs.len() > Self::MAX {
            catalogs.pop_front();
        }
        self.exist.store(true, Ordering::Release);
    }

    #[cold]
    fn catalog_of(
        &self,
        newest: Guard<Arc<Catalog>>,
        table: &Arc<Table>,
    ) -> Result<Guard<Arc<Catalog>>> {
        let found = |catalog: &Arc<Catalog>| {
            let same = catalog.table_by_id(table.id);
            same.is_some_and(|same| Arc::ptr_eq(same, table) || has_same_relations(same, table))
        };
        if found(&newest) || newest.table_by_id(table.id).is_none() {
            return Ok(newest);
        }
        let catalogs = self.catalogs.lock();
        let older = catalogs.iter().rev().find(|catalog| found(catalog));
        let older = older.cloned().ok_or(Error::DefinitionChanged)?;
        Ok(Guard::from_inner(older))
    }
}

/// Whether two versions of a table have the same indexes and foreign keys, at the same positions.
fn has_same_relations(a: &Table, b: &Table) -> bool {
    let ids = |table: &Table| -> Vec<u32> { table.indexes.iter().map(|i| i.id).collect() };
    ids(a) == ids(b) && a.foreign_keys == b.foreign_keys && a.referenced_by == b.referenced_by
}

impl Db {
    /// Creates a database from an engine and a loaded catalog.
    pub fn with_catalog(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        _options: DbOptions,
        catalog: Catalog,
    ) -> Arc<Db> {
        let row_limit = engine.limits().value.min(MAX_ROW_BYTES);
        let has_ttl = AtomicBool::new(catalog.has_ttl());
        Arc::new_cyclic(|own| Db {
            own: own.clone(),
            engine,
            clock,
            version: AtomicU64::new(catalog.version),
            catalog: ArcSwap::from_pointee(catalog),
            versions: IdAllocator::new(ROW_VERSIONS),
            overflow_ids: IdAllocator::new(OVERFLOW_IDS),
            counters: Counters::default(),
            change_notifier: ChangeNotifier::default(),
            fk_counters: FkCounters::default(),
            hot_keys: HotKeys::default(),
            metadata_locks: MetadataLocks::new(),
            catalog_change: Mutex::new(()),
            replaced: ReplacedCatalogs::default(),
            unused_spaces: Mutex::default(),
            row_limit,
            compiler: OnceLock::new(),
            trigger_runner: OnceLock::new(),
            text_maintenance: TextMaintenance::default(),
            change_log: OnceLock::new(),
            commit_pacing: Arc::default(),
            read_only: ReadOnlyState::default(),
            read_staleness: AtomicU32::new(0),
            restored: Mutex::default(),
            expiry_zone: ExpiryZone::default(),
            has_ttl,
            ttl_counters: TtlCounters::default(),
            cluster: OnceLock::new(),
        })
    }

    /// Opens the database in an engine: reads the catalog, and drops spaces that it does not refer
    /// to (a crash during DDL leaves them). Over an engine that several servers share, joins them
    /// ([`crate::cluster`]) until [`Db::leave_cluster`].
    ///
    /// # Errors
    /// The engine's; [`Error::Corrupt`] for a catalog that cannot be
    /// read.
    pub fn open(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        options: DbOptions,
    ) -> Result<Arc<Db>> {
        let joined =
            Membership::join(engine.clone(), options.cluster.clone(), clock.unix_micros())?;
        let opened = Db::open_as(engine, clock, options, joined.clone());
        if opened.is_err()
            && let Some(membership) = joined
        {
            membership.leave();
        }
        opened
    }

    fn open_as(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        options: DbOptions,
        membership: Option<Arc<Membership>>,
    ) -> Result<Arc<Db>> {
        let mut txn = engine.begin(TxnOptions::default())?;
        let catalog = persist::load(txn.as_mut())?;
        txn.rollback();
        Db::remove_orphaned_spaces(engine.as_ref(), membership.as_deref(), &catalog)?;
        let db = Db::with_catalog(engine, clock, options, catalog);
        if let Some(membership) = membership {
            db.cluster.get_or_init(|| membership.clone());
            db.publish(db.catalog());
            let followed: Arc<dyn Followed> = db.clone();
            membership.activate(&followed)?;
            db.finish_abandoned_changes();
        } else {
            db.remove_unfinished_changes()?;
        }
        db.rebuild_old_text_indexes()?;
        Ok(db)
    }

    /// Undoes interrupted schema changes that no server of the cluster is working on.
    fn finish_abandoned_changes(&self) {
        let catalog = self.catalog();
        let announced = |id: &TableId| catalog.changes.values().any(|c| c.tables.contains(id));
        let tables = catalog.tables.keys().copied().filter(|id| !announced(id));
        self.finish_changes_in_background(tables.collect());
    }

    /// The metadata locks.
    pub fn metadata_locks(&self) -> &Arc<MetadataLocks> {
        &self.metadata_locks
    }

    /// Counters of foreign-key actions, whether or not they were committed.
    pub fn fk_counters(&self) -> &FkCounters {
        &self.fk_counters
    }

    /// The most frequently looked-up keys.
    #[inline]
    pub fn hot_keys(&self) -> &HotKeys {
        &self.hot_keys
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The newest catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The version of the newest catalog. It reads a cache line that only DDL writes, whereas
    /// [`Db::catalog`] increments a reference count.
    pub fn catalog_version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
    /// Counts the commits that write to `tables` from now on, until the counter
    /// is dropped.
    pub fn subscribe(&self, tables: &[TableId]) -> Arc<TableChanges> {
        self.change_notifier.subscribe(tables)
    }

    /// The catalog by which a statement resolves the relatives of a table that it has planned with:
    /// the newest one, or the one that an online schema change has replaced meanwhile. Positions
    /// of indexes in the definitions of one catalog agree with each other.
    ///
    /// # Errors
    /// [`Error::DefinitionChanged`] if too many changes have followed.
    #[inline]
    pub(crate) fn catalog_of(&self, table: &Arc<Table>) -> Result<Guard<Arc<Catalog>>> {
        // Without a change of the reference count.
        let newest = self.catalog.load();
        let is_alone = table.foreign_keys.is_empty() && table.referenced_by.is_empty();
        if is_alone || !self.replaced.exist.load(Ordering::Acquire) {
            return Ok(newest);
        }
        self.replaced.catalog_of(newest, table)
    }

    /// Publishes a catalog while transactions may use the present one.
    pub(crate) fn publish_online(&self, catalog: Arc<Catalog>) {
        self.replaced.push(self.catalog());
        self.publish(catalog);
    }

    /// Publishes a catalog as the newest one. For DDL only, under its metadata locks.
    pub(crate) fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version;
        let mut following = self.membership().map(|m| (m.id(), m.publishing()));
        if let Some((own, following)) = &mut following {
            following.before_publishing(*own, &catalog, &self.metadata_locks);
        }
        let old = self.catalog.load();
        let differences = catalog.tables.differences(&old.tables, Arc::ptr_eq);
        let mut tables = differences
            .iter()
            .flat_map(|d| d.before.iter().chain(&d.after));
        if tables.any(|table| table.expiry_rule().is_some()) {
            self.has_ttl.store(catalog.has_ttl(), Ordering::Relaxed);
        }
        drop(old);
        self.tell_referenced_spaces(&catalog);
        self.catalog.store(catalog.clone());
        self.version.store(version, Ordering::SeqCst);
        if let Some((own, following)) = &mut following {
            following.after_publishing(*own, &catalog, &self.metadata_locks);
        }
    }

    /// Sets the engine's list of spaces whose keys get key-share locks: those of referenced indexes.
    pub(crate) fn tell_referenced_spaces(&self, catalog: &Catalog) {
        if self.engine.capabilities().share_locks {
            return;
        }
        let mut spaces = HashSet::new();
        for table in catalog.tables.values() {
            for at in table
                .foreign_keys
                .iter()
                .filter_map(|fk| fk.parent.as_ref())
            {
                if let Some(parent) = catalog.table_by_id(at.table) {
                    spaces.extend(parent.index_spaces(at.index));
                }
            }
        }
        self.engine.set_referenced_spaces(spaces);
    }

    /// The id that the table's next row would be given (SHOW CREATE TABLE,
    /// information_schema).
    ///
    /// # Errors
    /// The engine's.
    pub fn next_auto_increment(&self, table: &Table) -> Result<u64> {
        self.counters.peek(self.engine.as_ref(), table)
    }

    /// An id above all that any server has stored. On a cluster the rest of this server's reserved range
    /// says nothing about rows of other servers.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn auto_increment_bound(&self, table: &Table) -> Result<u64> {
        if self.is_clustered() {
            return Ok(self.engine.next_id(table.counter)?);
        }
        self.next_auto_increment(table)
    }

    /// ALTER TABLE ... AUTO_INCREMENT: the next id, upwards or downwards.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn set_auto_increment(&self, table: &Table, next: u64) -> Result<()> {
        self.counters
            .set_next(self.engine.as_ref(), table.counter, next)
    }

    /// Drops the in-memory counters of a table that is dropped or truncated.
    pub(crate) fn forget_counters(&self, table: &Table) {
        self.counters.forget(table);
    }

    /// Returns unused ids to the engine. Called at a clean shutdown, before the engine shuts down.
    /// Ids generated afterwards leave gaps at the next start, without other harm.
    pub fn return_ids(&self) {
        self.counters.return_all(self.engine.as_ref());
    }

    /// Sets the compiler of definitions' expressions; called once, before rows are written.
    pub fn set_compiler(&self, compiler: Arc<dyn CompileExpressions>) {
        let _ = self.compiler.set(compiler);
    }

    /// Logs changes from now on; called once, before rows are written. The engine has annotations.
    pub fn set_change_log(&self, log: Arc<dyn ChangeLog>) {
        let _ = self.change_log.set(log);
    }

    /// Sets the clients whose writes are refused from now on.
    pub fn set_read_only(&self, to: ReadOnly) {
        self.read_only.set(to);
    }

    /// Whether writes of clients are refused.
    pub fn is_read_only(&self) -> bool {
        !self.read_only.is_off()
    }

    /// Sets [`Db::read_staleness`]; zero for none.
    pub fn set_read_staleness(&self, staleness: Duration) {
        let millis = u32::try_from(staleness.as_millis()).unwrap_or(u32::MAX);
        self.read_staleness.store(millis, Ordering::Relaxed);
    }

    /// Maximum age of the snapshot of a request that only reads and is not part of a transaction (`read_staleness`);
    /// `None` if the snapshot must be new. For front ends without session variables.
    pub fn read_staleness(&self) -> Option<Duration> {
        match self.read_staleness.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Duration::from_millis(u64::from(millis))),
        }
    }

    /// Fails with error 1290 if the writes of a client are refused.
    ///
    /// # Errors
    /// 1290 if they are refused.
    pub fn check_writes_allowed(&self, is_privileged: bool) -> Result<()> {
        self.read_only.check(is_privileged)
    }

    /// The change log, if it is on.
    pub fn change_log(&self) -> Option<&Arc<dyn ChangeLog>> {
        self.change_log.get()
    }

    /// The pauses of commits, which the change log controls.
    pub fn commit_pacing(&self) -> &Arc<CommitPacing> {
        &self.commit_pacing
    }

    /// The compiled expressions of a table.
    ///
    /// # Errors
    /// Fails without a compiler, or if the compilation fails.
    pub fn expressions(&self, table: &Table) -> Result<Arc<dyn RowExpressions>> {
        let compiled = &table.derived().compiled;
        compiled.get_or_init(|| self.compile(table)).clone()
    }

    /// Compiles the expressions of a definition.
    pub(crate) fn compile(&self, table: &TableDef) -> Compiled {
        self.expression_compiler()?.compile(table)
    }

    pub(crate) fn expression_compiler(&self) -> Result<&dyn CompileExpressions> {
        let compiler = self.compiler.get().map(AsRef::as_ref);
        let text = "No compiler for expressions of definitions";
        compiler.ok_or_else(|| Error::refused(1105, "HY000", text))
    }

    pub(crate) fn plain_context(&self) -> RowContext {
        let now = DateTime::from_unix_micros(self.clock().unix_micros());
        RowContext::plain(now.unwrap_or(DateTime::ZERO))
    }
}

impl Db {
    pub(crate) fn membership(&self) -> Option<&Arc<Membership>> {
        self.cluster.get()
    }

    /// Whether several servers may use the engine.
    pub fn is_clustered(&self) -> bool {
        self.membership().is_some()
    }

    /// The servers of the cluster; `None` on an engine that one server uses. Asks the store.
    ///
    /// # Errors
    /// The engine's.
    pub fn cluster_view(&self) -> Result<Option<ClusterView>> {
        let Some(membership) = self.membership() else {
            return Ok(None);
        };
        let (now, servers) = membership.servers()?;
        Ok(Some(ClusterView {
            own: membership.id(),
            now,
            servers,
        }))
    }

    /// Reason why this server of a cluster neither reads nor writes; `None` if it does. Never waits for the
    /// store.
    pub fn lease_problem(&self) -> Option<String> {
        self.membership()?.problem()
    }

    /// Withdraws this server from its cluster: others need not wait for the end of its lease. Nothing
    /// can be read or written afterwards.
    pub fn leave_cluster(&self) {
        if let Some(membership) = self.membership() {
            membership.leave();
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.leave_cluster();
    }
}
