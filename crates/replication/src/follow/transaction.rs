//! One transaction of this server, in which the rows events of one transaction of the source are applied.
//!
//! Used by the thread that follows the source, and by each of its workers ([`super::workers`]).

use super::error::Failure;
use crate::apply::{ApplyError, DecodedRows, MappedTable};
use crate::copied::{CopiedRanges, CopiedTables};
use crate::event::rows::flags as row_flags;
use crate::event::{RowsEvent, TableMap, kind_name};
use crate::filter::Filters;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CommitPosition, StatementMark};
use porpoise_rows::changes::Origin;
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::hot_keys::Interface;
use porpoise_rows::metadata_lock::{Activity, MetadataLockSession};
use porpoise_rows::prepared::PreparedTxn;
use porpoise_rows::table::Table;
use porpoise_rows::{BeginOptions, Db, Txn};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of a commit for FLUSH TABLES WITH READ LOCK and the like.
const COMMIT_WAIT: Duration = Duration::from_secs(50);

/// The rows that are applied.
#[derive(Clone, Default)]
pub(super) struct Selection {
    /// Tables and databases.
    pub(super) filters: Arc<Filters>,
    /// The tables that an import has not copied completely.
    pub(super) copied: Arc<CopiedTables>,
}

/// An event of rows, or the description of their table.
#[derive(Debug)]
pub(super) enum RowChange {
    Map(Arc<TableMap>),
    /// The type number of the event, the event, and its rows if they are decoded (`apply` takes them).
    Rows(u8, RowsEvent, Option<DecodedRows>),
}

/// A transaction of this server; see the header of the module.
pub(super) struct Transaction {
    db: Arc<Db>,
    selection: Selection,
    cancel: Cancel,
    /// Longest wait for a row lock or a metadata lock.
    pub(super) lock_wait: Duration,
    locks: MetadataLockSession,
    txn: Option<Txn>,
    /// Tables by the numbers of the source; `None`: filtered.
    tables: HashMap<u64, Option<MappedTable>>,
}

impl Transaction {
    pub(super) fn new(
        db: Arc<Db>,
        selection: Selection,
        cancel: Cancel,
        lock_wait: Duration,
    ) -> Transaction {
        Transaction {
            locks: db.metadata_locks().session(),
            db,
            selection,
            cancel,
            lock_wait,
            txn: None,
            tables: HashMap::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.txn.is_some()
    }

    pub(super) fn mark(&self) -> Option<StatementMark> {
        self.txn.as_ref().map(Txn::mark)
    }

    pub(super) fn rollback_to(&mut self, mark: StatementMark) {
        if let Some(txn) = &mut self.txn {
            txn.rollback_to(mark);
        }
    }

    /// Begins, unless it has begun.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if self.txn.is_some() {
            return Ok(());
        }
        let txn = self.db.begin(self.options());
        self.txn = Some(txn.map_err(|error| Failure::apply("BEGIN", error))?);
        Ok(())
    }

    fn options(&self) -> BeginOptions {
        BeginOptions {
            cancel: self.cancel.clone(),
            lock_wait: self.lock_wait,
            cascades_fire: false,
            fires_triggers: false,
            replicates: true,
            interface: Interface::Internal,
            ..BeginOptions::default()
        }
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, change: &mut RowChange) -> Result<(), Failure> {
        let done = match change {
            RowChange::Map(map) => self.table_map(map),
            RowChange::Rows(number, rows, decoded) => self.rows(*number, rows, decoded.take()),
        };
        self.locks.end_statement();
        done
    }

    fn table_map(&mut self, map: &Arc<TableMap>) -> Result<(), Failure> {
        let (database, name) = self.selection.names(map);
        let mapped = match self.selection.ranges(&database, &name) {
            Wanted::Nothing => None,
            Wanted::All => Some(self.map_table(&database, &name, map)),
            Wanted::Ranges(ranges) => {
                let mapped = self.map_table(&database, &name, map);
                Some(mapped.and_then(|mapped| mapped.restricted(&ranges)))
            }
        };
        let mapped = mapped
            .transpose()
            .map_err(|error| Failure::apply("TABLE_MAP", error))?;
        self.tables.insert(map.table_id, mapped);
        Ok(())
    }

    fn map_table(
        &self,
        database: &str,
        name: &str,
        map: &Arc<TableMap>,
    ) -> Result<MappedTable, ApplyError> {
        let mut table = find_table(&self.db, database, name)?;
        loop {
            let deadline = || self.db.clock().now() + self.lock_wait;
            self.locks
                .share_for_writing(&table.write_set, deadline, &self.cancel)
                .map_err(metadata_lock_error)?;
            // A definition may have changed before the lock was granted.
            let present = find_table(&self.db, database, name)?;
            if Arc::ptr_eq(&present, &table) {
                return MappedTable::new(table, map.clone());
            }
            table = present;
        }
    }

    fn rows(
        &mut self,
        number: u8,
        rows: &RowsEvent,
        decoded: Option<DecodedRows>,
    ) -> Result<(), Failure> {
        self.begin()?;
        let name = kind_name(number);
        let Some(mapped) = self.tables.get(&rows.table_id) else {
            // MySQL ends a statement whose tables were all filtered with an event of a dummy number.
            return if rows.data.is_empty() {
                Ok(())
            } else {
                let why = "it refers to a table that no TABLE_MAP has described";
                Err(Failure::refused(name, why))
            };
        };
        if let (Some(mapped), Some(txn)) = (mapped, &mut self.txn) {
            let versioned = match rows.row_version {
                Some(version) => txn.set_row_version(version).map_err(ApplyError::from),
                None => Ok(()),
            };
            let done = versioned.and_then(|()| match decoded {
                Some(decoded) => mapped.apply_decoded(txn, rows, decoded),
                None => mapped.apply(txn, rows),
            });
            if let Err(error) = done {
                let table = format!("{}.{}", mapped.table().database, mapped.table().name);
                return Err(Failure::apply(
                    &format!("{name} event on table {table}"),
                    error,
                ));
            }
        }
        if rows.flags & row_flags::STATEMENT_END != 0 {
            self.tables.clear();
        }
        Ok(())
    }

    /// Commits, after `write` has added its changes.
    pub(super) fn commit(
        &mut self,
        origin: Option<Origin>,
        write: impl FnOnce(&mut Txn) -> porpoise_rows::Result<()>,
    ) -> Result<CommitPosition, Failure> {
        self.begin()?;
        let Some(mut txn) = self.txn.take() else {
            return Ok(CommitPosition::NONE);
        };
        self.tables.clear();
        if let Some(origin) = origin {
            txn.set_origin(origin);
        }
        let done = self.commit_with(txn, write);
        self.locks.finish(Activity::Commit);
        self.locks.end();
        done.map_err(|error| Failure::apply("XID", error))
    }

    fn commit_with(
        &self,
        mut txn: Txn,
        write: impl FnOnce(&mut Txn) -> porpoise_rows::Result<()>,
    ) -> Result<CommitPosition, ApplyError> {
        write(&mut txn)?;
        let deadline = self.db.clock().now() + COMMIT_WAIT;
        let begun = self.locks.begin(Activity::Commit, deadline, &self.cancel);
        begun.map_err(metadata_lock_error)?;
        Ok(txn.commit()?.position)
    }

    /// Prepares the transaction under a name, to which its locks pass.
    pub(super) fn prepare(
        &mut self,
        name: &[u8],
        origin: Option<Origin>,
    ) -> porpoise_rows::Result<PreparedTxn> {
        let mut txn = match self.txn.take() {
            Some(txn) => txn,
            None => self.db.begin(self.options())?,
        };
        self.tables.clear();
        if let Some(origin) = origin {
            txn.set_origin(origin);
        }
        let deadline = self.db.clock().now() + COMMIT_WAIT;
        let begun = self.locks.begin(Activity::Commit, deadline, &self.cancel);
        let prepared = match begun {
            Ok(()) => txn.prepare(name, &self.locks),
            Err(error) => Err(metadata_lock_error(error)),
        };
        self.locks.finish(Activity::Commit);
        self.locks.end();
        prepared
    }

    /// Rolls back, and releases all locks.
    pub(super) fn roll_back(&mut self) {
        if let Some(txn) = self.txn.take() {
            txn.rollback();
        }
        self.tables.clear();
        self.locks.end();
    }

    /// Releases metadata locks, so that a definition can be executed, unless rows were written under them.
    pub(super) fn release_unused(&self) {
        if self.txn.as_ref().is_none_or(|txn| !txn.has_writes()) {
            self.locks.end();
        }
    }
}

/// The rows of a table that are applied.
pub(super) enum Wanted {
    Nothing,
    All,
    Ranges(CopiedRanges),
}

impl Selection {
    /// The names of an event's table on this server.
    pub(super) fn names(&self, map: &TableMap) -> (String, String) {
        let database = String::from_utf8_lossy(&map.database);
        (
            self.filters.rewritten(&database).to_owned(),
            String::from_utf8_lossy(&map.table).into_owned(),
        )
    }

    /// The rows of a table that are applied.
    pub(super) fn ranges(&self, database: &str, name: &str) -> Wanted {
        if !self.filters.applies_to_table(database, name) {
            return Wanted::Nothing;
        }
        match self.copied.ranges(database, name) {
            None => Wanted::All,
            Some(ranges) if ranges.is_empty() => Wanted::Nothing,
            Some(ranges) => Wanted::Ranges(ranges.clone()),
        }
    }
}

/// The present definition of a table.
pub(super) fn find_table(db: &Db, database: &str, name: &str) -> Result<Arc<Table>, ApplyError> {
    let catalog = db.catalog();
    let found = catalog.table(database, name).cloned();
    found.ok_or_else(|| {
        ApplyError::from(porpoise_rows::Error::NoSuchTable {
            database: database.to_owned(),
            table: name.to_owned(),
        })
    })
}
