//! The locks of the whole server that backups take: FLUSH TABLES WITH READ LOCK and LOCK INSTANCE FOR
//! BACKUP (manual, "FLUSH Statement" and "LOCK INSTANCE FOR BACKUP and UNLOCK INSTANCE Statements").
//!
//! Both are blocks of activities in the metadata locks. Statements publish what they do here, before
//! they publish their tables: [`SqlSession::begin_writes`] for changes of rows,
//! [`SqlSession::begin_definition`] for definitions and accounts. FLUSH TABLES WITH READ LOCK first
//! holds off writes and waits for those that run, then commits: a transaction that has written
//! before waits when it commits, and keeps its row locks.
//!
//! Temporary tables belong to their session, and are written and defined regardless.

use super::{Outcome, SqlSession};
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::Table;
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::metadata_lock::{Activity, ActivityBlock};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Flush, FlushWhat, LockTable, TableLock, TableName};
use porpoise_sql_plan::plan::planned::Planned;
use std::sync::Arc;
use std::time::Instant;

/// The locks of the whole server that a session holds.
#[derive(Default)]
pub struct ServerLocks {
    /// FLUSH TABLES WITH READ LOCK: blocks of writes and of commits.
    read_lock: Option<[ActivityBlock; 2]>,
    /// LOCK INSTANCE FOR BACKUP.
    instance: Option<ActivityBlock>,
}

impl ServerLocks {
    /// Whether there is one.
    pub(super) fn are_held(&self) -> bool {
        self.read_lock.is_some() || self.instance.is_some()
    }

    /// Error 1223 if the session itself holds the global read lock.
    fn check_may_write(&self) -> Result<()> {
        if self.read_lock.is_none() {
            return Ok(());
        }
        let text = "Can't execute the query because you have a conflicting read lock";
        Err(SqlError::new(1223, "HY000", text))
    }
}

impl SqlSession {
    fn begin_activity(&self, activity: Activity, deadline: impl Fn() -> Instant) -> Result<()> {
        let begun = self
            .metadata_locks
            .begin_until(activity, deadline, &self.cx.env.cancel);
        begun.map_err(|e| SqlError::from(metadata_lock_error(e)))
    }

    /// Publishes that the statement writes, if it writes to a table that is not temporary.
    ///
    /// # Errors
    /// 1223 if the session itself holds the global read lock.
    pub(super) fn begin_writes(&self, plan: &Planned) -> Result<()> {
        let written = |(table, writes): &(Arc<Table>, bool)| {
            *writes && !self.cx.temporary.contains_id(table.id)
        };
        if !plan.tables.iter().any(written) {
            return Ok(());
        }
        self.server_locks.check_may_write()?;
        self.begin_activity(Activity::Write, || self.definition_deadline())
    }

    /// Publishes that the session may write until it unlocks its tables.
    ///
    /// # Errors
    /// As [`Self::begin_writes`].
    pub(super) fn begin_held_writes(&self, deadline: Instant) -> Result<()> {
        self.server_locks.check_may_write()?;
        self.begin_activity(Activity::HeldWrites, || deadline)
    }

    /// Commits the open transaction before a statement that changes definitions or accounts, and
    /// publishes that the statement does so.
    ///
    /// # Errors
    /// 1223 if the session itself holds the global read lock; 1290 if the server is read-only; as
    /// [`Self::commit_implicitly`].
    pub(super) fn begin_definition(&mut self) -> Result<CommitPosition> {
        self.check_server_writable()?;
        let position = self.commit_implicitly()?;
        self.server_locks.check_may_write()?;
        let deadline = self.definition_deadline();
        self.begin_activity(Activity::Write, || deadline)?;
        self.begin_activity(Activity::Define, || deadline)?;
        Ok(position)
    }

    /// Publishes the commit of a transaction with writes. A statement that writes has been waited
    /// for already.
    pub(super) fn begin_commit(&self) -> porpoise_rows::Result<()> {
        if self.metadata_locks.is_writing() {
            return Ok(());
        }
        let deadline = || self.definition_deadline();
        let cancel = &self.cx.env.cancel;
        let begun = self
            .metadata_locks
            .begin_until(Activity::Commit, deadline, cancel);
        begun.map_err(metadata_lock_error)
    }

    /// FLUSH.
    pub(super) fn flush(&mut self, flush: &Flush<'_>) -> Result<Outcome> {
        match flush.what {
            FlushWhat::Others(words) => self.flush_others(words),
            FlushWhat::Tables {
                tables: [],
                read_lock: true,
                ..
            } => self.flush_with_read_lock(),
            FlushWhat::Tables {
                tables,
                read_lock,
                export,
            } if read_lock || export => self.flush_and_lock(tables),
            FlushWhat::Tables { tables, .. } => self.flush_tables(tables),
        }
    }

    fn flush_others(&mut self, words: &[&str]) -> Result<Outcome> {
        self.cx.server.access.reload()?;
        if words.contains(&"PRIVILEGES") {
            self.cx.server.access.guard().unlock_all();
        }
        if words.contains(&"LOGS") {
            self.cx.server.reopen_logs();
            self.rotate_binary_log()?;
        } else if words.contains(&"BINARY LOGS") {
            self.rotate_binary_log()?;
        } else if words.contains(&"SLOW LOGS") {
            self.cx.server.slow_log.reopen();
        }
        if words.contains(&"STATUS") {
            self.cx.server.processes.flush_counters(&self.process);
        }
        if words.contains(&"PRIVILEGES") || words.contains(&"USER_RESOURCES") {
            self.cx.server.access.reset_usage();
        }
        let position = self.commit()?;
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// FLUSH TABLES without a lock. There is no table cache: it only commits. Under LOCK TABLES the
    /// tables must be locked for writing, as in MySQL.
    fn flush_tables(&mut self, tables: &[TableName<'_>]) -> Result<Outcome> {
        if let Some(locks) = &self.table_locks {
            let catalog = self.cx.server.db.catalog();
            for name in tables {
                let (database, name) = self.cx.qualified(name)?;
                if let Some(table) = catalog.table(&database, &name) {
                    locks.check(table, true)?;
                }
            }
            if tables.is_empty() {
                locks.check_all_writable(&catalog)?;
            }
        }
        let position = self.commit()?;
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// Error 1192 under LOCK TABLES.
    pub(super) fn check_nothing_locked(&self) -> Result<()> {
        if self.table_locks.is_none() {
            return Ok(());
        }
        let text = "Can't execute the given command because you have active locked tables or an \
                    active transaction";
        Err(SqlError::new(1192, "HY000", text))
    }

    /// FLUSH TABLES WITH READ LOCK. Its reply waits for the newest commit, so that snapshots taken
    /// under the lock are the same.
    fn flush_with_read_lock(&mut self) -> Result<Outcome> {
        self.check_nothing_locked()?;
        self.commit()?;
        if self.server_locks.read_lock.is_none() {
            let deadline = self.definition_deadline();
            let block = |activity| {
                let cancel = &self.cx.env.cancel;
                let block = self.metadata_locks.block(activity, deadline, cancel);
                block.map_err(|e| SqlError::from(metadata_lock_error(e)))
            };
            let blocks = [block(Activity::Write)?, block(Activity::Commit)?];
            self.server_locks.read_lock = Some(blocks);
        }
        Ok(Outcome {
            position: self.cx.server.db.engine().newest_position(),
            ..Outcome::default()
        })
    }

    /// FLUSH TABLES with names, WITH READ LOCK or FOR EXPORT: LOCK TABLES ... READ of tables that are
    /// not views. Nothing has to be written for a copy of files, because there are none of tables.
    fn flush_and_lock(&mut self, tables: &[TableName<'_>]) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let catalog = self.cx.server.db.catalog();
        for name in tables {
            let (database, name) = self.cx.qualified(name)?;
            if catalog.view(&database, &name).is_some() {
                let text = format!("'{database}.{name}' is not BASE TABLE");
                return Err(SqlError::new(1347, "HY000", text));
            }
        }
        let lock = |table: &TableName<'_>| self.cx.qualified(table);
        let names = tables.iter().map(lock).collect::<Result<Vec<_>>>()?;
        drop(catalog);
        let locks = names
            .into_iter()
            .map(|(database, name)| (database, name, false));
        self.lock_named_tables(locks.collect())
    }

    /// LOCK TABLES.
    pub(super) fn lock_tables(&mut self, tables: &[LockTable<'_>]) -> Result<Outcome> {
        let named = |lock: &LockTable<'_>| {
            let (database, name) = self.cx.qualified(&lock.table)?;
            Ok((database, name, lock.mode == TableLock::Write))
        };
        let named = tables.iter().map(named).collect::<Result<Vec<_>>>()?;
        self.lock_named_tables(named)
    }

    /// UNLOCK TABLES: releases the global read lock, too. It commits only if tables were locked, so
    /// that a transaction begun under the global read lock goes on.
    pub(super) fn unlock_all_tables(&mut self) -> Result<Outcome> {
        let outcome = self.unlock_tables()?;
        self.server_locks.read_lock = None;
        Ok(outcome)
    }

    /// LOCK INSTANCE FOR BACKUP and UNLOCK INSTANCE.
    pub(super) fn lock_instance(&mut self, locks: bool) -> Result<Outcome> {
        if !locks {
            self.server_locks.instance = None;
        } else if self.server_locks.instance.is_none() {
            let deadline = self.definition_deadline();
            let cancel = &self.cx.env.cancel;
            let block = self
                .metadata_locks
                .block(Activity::Define, deadline, cancel);
            let block = block.map_err(|e| SqlError::from(metadata_lock_error(e)))?;
            self.server_locks.instance = Some(block);
        }
        Ok(Outcome::default())
    }
}
