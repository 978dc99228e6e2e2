//! Data definition: statements that change the catalog.
//!
//! Every statement here goes through the same steps: raise a metadata
//! barrier over the tables whose definition (or whose place in a foreign
//! key) changes; check the request against the catalog; create the spaces it
//! needs; build or validate; commit all changed catalog rows in one
//! transaction; publish the new catalog; lower the barrier; drop spaces that
//! the catalog no longer references.
//!
//! Invariants:
//! 1. The commit of the catalog transaction is the only point of change. A
//!    crash before it leaves the table as it was and unreferenced new spaces;
//!    a crash after it leaves unreferenced old spaces. The next start drops
//!    both.
//! 2. The new catalog is published before the barrier falls, so a session
//!    that waited in front of it finds the new definition.
//! 3. A constraint is never added while a transaction that does not know it
//!    may still write to the child or the parent: the barrier covers both.
//!
//! ALTER TABLE is an online schema change where it can be ([`online`]): readers and writers go on.

mod alter;
mod build;
mod checks;
mod cluster;
mod columns;
mod databases;
mod errors;
mod events;
mod filled;
mod foreign;
mod histogram;
mod indexes;
mod key_parts;
mod online;
pub mod partition;
mod rename;
mod routines;
mod spaces;
mod spec;
mod tables;
mod temporary;
mod text_build;
mod triggers;
mod ttl;
mod views;
pub(crate) mod walk;

use crate::catalog::{Catalog, persist};
use crate::changes::LoggedStatement;
use crate::db::Db;
use crate::definition::{ColumnDefault, TableDef, TableId};
use crate::error::{Error, Result};
use crate::metadata_lock::{Exclusion, MetadataLockError, MetadataLockSession};
use crate::partition::Partitioning;
use crate::table::Table;
use crate::ttl::TtlChange;
use parking_lot::MutexGuard;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::ConnectionMemory;
use porpoise_kv::{CommitPosition, SpaceId};
use porpoise_types::{Collation, ColumnType};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::DdlBarrier;
pub use cluster::{AnnouncedChange, Initialization};

pub use alter::{Algorithm, LockLevel, MAX_LAYOUTS, Position, implicit_default};
pub use errors::no_event;
pub use errors::{no_database, no_table};
pub use indexes::shortened_prefix;
pub use rename::QualifiedName;
pub use spec::{CheckSpec, ColumnSpec, FkSpec, IndexSpec, Placement, TableSpec};
pub use triggers::TriggerOrder;
pub use views::ViewMode;

/// Session context of a data definition statement.
#[derive(Clone, Copy)]
pub struct DdlCx<'a> {
    /// The session's part in the metadata locks. Its own transaction has
    /// ended (implicit commit) and it publishes no tables.
    pub metadata_locks: &'a MetadataLockSession,
    /// Ends the wait for metadata locks (`lock_wait_timeout`).
    pub deadline: Instant,
    /// Cancels waits and long builds.
    pub cancel: &'a Cancel,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// The time of the statement, microseconds since 1970 UTC.
    pub now: i64,
    /// The statement for the change log; `None` if it is not logged. It goes with each commit of the catalog, so a
    /// statement that commits several times passes it with the one after which tables are as it says.
    pub statement: Option<&'a LoggedStatement>,
    /// The memory that builds of indexes are charged to.
    pub memory: Option<&'a Arc<ConnectionMemory>>,
}

/// The outcome of a data definition statement.
#[derive(Clone, Copy, Debug, Default)]
pub struct DdlOutcome {
    /// Commit that must be durable before the reply is sent.
    pub position: CommitPosition,
    /// Whether `IF [NOT] EXISTS` turned an error into a note; then nothing changed.
    pub is_note: bool,
    /// Rows that were copied.
    pub rows: u64,
}

/// One clause of ALTER TABLE.
#[derive(Clone, Debug)]
pub enum AlterOp {
    /// `ADD [CONSTRAINT] FOREIGN KEY`.
    AddForeignKey(FkSpec),
    /// DROP FOREIGN KEY.
    DropForeignKey(String),
    /// ADD CHECK.
    AddCheck(CheckSpec),
    /// DROP CHECK.
    DropCheck(String),
    /// ALTER CHECK ... ENFORCED (true) or NOT ENFORCED.
    SetCheckEnforced(String, bool),
    /// ADD INDEX, UNIQUE, and CREATE INDEX.
    AddIndex(IndexSpec),
    /// DROP INDEX.
    DropIndex(String),
    /// AUTO_INCREMENT = n.
    SetAutoIncrement(u64),
    /// COMMENT = text.
    SetComment(String),
    /// ADD COLUMN.
    AddColumn(ColumnSpec, Position),
    /// DROP COLUMN.
    DropColumn(String),
    /// CHANGE COLUMN by its old name, and MODIFY COLUMN.
    ChangeColumn(String, ColumnSpec, Position),
    /// RENAME COLUMN: old and new name.
    RenameColumn(String, String),
    /// ALTER COLUMN ... SET DEFAULT, the value being of the type given, and
    /// DROP DEFAULT.
    SetDefault(String, Option<ColumnType>, Option<ColumnDefault>),
    /// ALTER COLUMN ... SET VISIBLE (true) or INVISIBLE.
    SetColumnVisible(String, bool),
    /// DROP PRIMARY KEY.
    DropPrimaryKey,
    /// RENAME INDEX: old and new name.
    RenameIndex(String, String),
    /// ALTER INDEX ... VISIBLE or INVISIBLE.
    SetIndexVisible(String, bool),
    /// RENAME TO database and name.
    RenameTo(String, String),
    /// ENGINE = name, as shown.
    SetEngine(String),
    /// The default collation of columns added later.
    SetCollation(Collation),
    /// CONVERT TO CHARACTER SET: the default and every column.
    ConvertCollation(Collation),
    /// Another table option, only stored and shown; `None` removes it.
    SetOption(String, Option<String>),
    /// TTL, TTL_ENABLE and TTL_JOB_INTERVAL.
    SetTtl(TtlChange),
    /// REMOVE TTL.
    RemoveTtl,
    /// ALGORITHM.
    Algorithm(Algorithm),
    /// LOCK.
    Lock(LockLevel),
    /// PARTITION BY or REMOVE PARTITIONING with other clauses: the new partitioning, over the
    /// columns after those clauses (see [`crate::Db::altered_table`]).
    Partition(Option<Box<Partitioning>>),
    /// FORCE, and ENGINE of the same engine: the rows are copied.
    Force,
}

impl AlterOp {
    /// Whether it adds a primary key.
    pub fn adds_primary_key(&self) -> bool {
        matches!(self, AlterOp::AddIndex(spec) if spec.kind == crate::definition::IndexKind::Primary)
    }
}

/// Working copy of the catalog during a change.
pub(crate) struct CatalogDraft {
    pub(crate) catalog: Catalog,
}

impl CatalogDraft {
    /// Changes a table's definition; `None` when there is no such table.
    pub(crate) fn edit<T>(
        &mut self,
        id: TableId,
        change: impl FnOnce(&mut TableDef) -> T,
    ) -> Option<T> {
        let table = self.catalog.tables.get_mut(&id)?;
        let mut def = table.definition().clone();
        let done = change(&mut def);
        *table = Arc::new(table.with_definition(def));
        Some(done)
    }
}

impl Db {
    /// Runs the server's own DDL, outside of any session: foreign
    /// keys are checked, and a wait for metadata locks ends after a minute.
    pub fn define<T>(&self, run: impl FnOnce(&DdlCx<'_>) -> T) -> T {
        let (metadata_locks, cancel) = (self.metadata_locks().session(), Cancel::new());
        run(&DdlCx {
            metadata_locks: &metadata_locks,
            deadline: self.clock().now() + Duration::from_secs(60),
            cancel: &cancel,
            foreign_key_checks: true,
            now: self.clock().unix_micros(),
            statement: None,
            memory: None,
        })
    }

    /// Changes the catalog in one transaction and publishes the result, to all servers of a cluster. The
    /// caller's barrier keeps other sessions from the tables whose definitions change.
    pub(crate) fn change_catalog(
        &self,
        cx: &DdlCx<'_>,
        change: impl FnOnce(&mut CatalogDraft) -> Result<()>,
    ) -> Result<CommitPosition> {
        let publish = |new| self.publish(new);
        let position = self.commit_version(
            cx,
            |draft| {
                self.end_announced(cx, draft)?;
                change(draft)
            },
            publish,
        )?;
        self.forget_announced(cx);
        self.wait_until_loaded(cx);
        Ok(position)
    }

    /// As [`Db::change_catalog`], for one step of an online schema change: meanwhile sessions of all servers may use the table
    /// by the present catalog.
    pub(crate) fn change_catalog_online(
        &self,
        cx: &DdlCx<'_>,
        change: impl FnOnce(&mut CatalogDraft) -> Result<()>,
    ) -> Result<CommitPosition> {
        self.commit_version(
            cx,
            |draft| {
                self.end_announced(cx, draft)?;
                change(draft)
            },
            |new| self.publish_online(new),
        )
    }

    /// Commits the next version of the catalog, and passes it to `publish`.
    pub(crate) fn commit_version(
        &self,
        cx: &DdlCx<'_>,
        change: impl FnOnce(&mut CatalogDraft) -> Result<()>,
        publish: impl FnOnce(Arc<Catalog>),
    ) -> Result<CommitPosition> {
        let _change_lock = self.lock_catalog_changes(cx)?;
        let (mut txn, old) = self.begin_version(cx)?;
        let mut draft = CatalogDraft {
            catalog: Catalog::clone(&old),
        };
        change(&mut draft)?;
        let mut new = draft.catalog;
        new.version = old.version + 1;
        new.derive_after(&old);
        persist::write_changes(txn.as_mut(), &old, &new)?;
        porpoise_base::interrupt::outcome()
            .map_err(|ended| Error::Kv(porpoise_kv::Error::Cancelled(ended.0)))?;
        if let (Some(statement), Some(log)) = (cx.statement, self.change_log()) {
            txn.annotate(log.statement(statement))?;
        }
        let commit = txn.commit()?;
        publish(Arc::new(new));
        Ok(commit.position)
    }

    /// Acquires the catalog change lock, until the deadline or a cancellation
    /// (polled every 50 ms; the lock is held only briefly).
    fn lock_catalog_changes(&self, cx: &DdlCx<'_>) -> Result<MutexGuard<'_, ()>> {
        if let Some(turn) = self.catalog_change.try_lock() {
            return Ok(turn);
        }
        porpoise_base::blocking::wait_for_lock(|| {
            loop {
                let now = Instant::now();
                if let Some(reason) = cx.cancel.reason() {
                    return Err(Error::Kv(porpoise_kv::Error::Cancelled(reason)));
                }
                if now >= cx.deadline {
                    return Err(Error::Kv(porpoise_kv::Error::LockTimeout));
                }
                let step = cx.deadline.min(now + Duration::from_millis(50));
                if let Some(turn) = self.catalog_change.try_lock_until(step) {
                    return Ok(turn);
                }
            }
        })
    }

    /// Drops the spaces created for a statement that failed. If the commit outcome
    /// is unknown, the catalog may reference them, so they are kept; the next
    /// start drops those that are unreferenced.
    pub(crate) fn abandon_spaces(&self, spaces: &[SpaceId], refusal: &Error) {
        if !matches!(refusal, Error::Kv(porpoise_kv::Error::UnknownOutcome(_))) {
            self.retire_spaces(spaces);
        }
    }

    /// Drops unreferenced spaces. A failure is only logged: the transaction is
    /// committed, and the next start drops the spaces.
    pub(crate) fn retire_spaces(&self, spaces: &[SpaceId]) {
        if let Err(error) = self.engine().drop_spaces(spaces) {
            tracing::warn!(%error, "spaces of a dropped table or index could not be removed: they remain until the next start");
        }
    }

    /// Raises a barrier over the tables that `choose` returns, on all servers of a cluster; repeats this
    /// until the choice is the same after the wait.
    pub(crate) fn barrier(
        &self,
        cx: &DdlCx<'_>,
        choose: impl Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<DdlBarrier> {
        self.barrier_of(cx, Exclusion::Everyone, choose)
    }

    /// As [`Db::barrier`], for some of the users. Ends what an interrupted schema change has left of
    /// the tables.
    pub(crate) fn barrier_of(
        &self,
        cx: &DdlCx<'_>,
        exclusion: Exclusion,
        choose: impl Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<DdlBarrier> {
        let (barrier, tables) = self.raise_barrier(cx, exclusion, choose)?;
        for table in tables {
            self.finish_change(cx, table)?;
        }
        Ok(barrier)
    }

    pub(in crate::ddl) fn raise_barrier(
        &self,
        cx: &DdlCx<'_>,
        exclusion: Exclusion,
        choose: impl Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<(DdlBarrier, Vec<TableId>)> {
        loop {
            let mut tables = choose(&self.catalog())?;
            tables.sort_unstable();
            tables.dedup();
            let is_online = exclusion == Exclusion::Definitions;
            let announced = self.announce_change(cx, &tables, is_online)?;
            let excluded = tables.iter().map(|table| (*table, exclusion));
            let barrier = cx
                .metadata_locks
                .exclude(&excluded.collect::<Vec<_>>(), cx.deadline, cx.cancel)
                .map_err(metadata_lock_error)?;
            let mut again = choose(&self.catalog())?;
            again.sort_unstable();
            again.dedup();
            if tables == again {
                if let Some(announced) = announced.as_ref().filter(|_| !is_online) {
                    announced.wait_until_drained(cx)?;
                }
                let barrier = DdlBarrier {
                    _announced: announced,
                    _local: barrier,
                };
                return Ok((barrier, tables));
            }
        }
    }
}

impl Db {
    /// Checks that all expressions of a definition compile.
    pub(crate) fn check_expressions(&self, table: &TableDef) -> Result<()> {
        if table.has_expressions() {
            self.compile(table)?;
        }
        Ok(())
    }
}

/// A metadata lock's refusal as a row error.
pub fn metadata_lock_error(error: MetadataLockError) -> Error {
    match error {
        MetadataLockError::Timeout => Error::Kv(porpoise_kv::Error::LockTimeout),
        MetadataLockError::Deadlock => Error::Kv(porpoise_kv::Error::Deadlock),
        MetadataLockError::Cancelled(reason) => Error::Kv(porpoise_kv::Error::Cancelled(reason)),
    }
}

/// The tables whose place in foreign keys changes with `table`: itself, its
/// parents, its children.
pub(crate) fn foreign_key_relatives(table: &Table) -> Vec<TableId> {
    let parents = table.foreign_keys.iter().filter_map(|k| k.parent.as_ref());
    std::iter::once(table.id)
        .chain(parents.map(|p| p.table))
        .chain(table.referenced_by.iter().map(|(child, _)| *child))
        .collect()
}

/// Names are at most 64 characters (manual, "Identifier Length Limits").
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.chars().count() > 64 {
        return Err(errors::name_too_long(name));
    }
    Ok(())
}

pub(crate) fn same_collation(a: Collation, b: Collation) -> bool {
    a == b
}
