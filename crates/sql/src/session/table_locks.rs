//! LOCK TABLES and UNLOCK TABLES (manual, "LOCK TABLES and UNLOCK TABLES Statements").

use super::{Outcome, SqlSession};
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::metadata_lock::MetadataBarrier;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{LockTable, TableLock};

/// State of LOCK TABLES: the tables, whether they may be written, and the barrier that excludes
/// other sessions.
pub struct TableLocks {
    tables: Vec<(TableId, bool)>,
    _barrier: MetadataBarrier,
}

impl TableLocks {
    /// Checks whether a statement may use a table.
    ///
    /// # Errors
    /// 1100 for a table that is not locked, 1099 for a write to one that is locked for READ.
    pub fn check(&self, table: &Table, writes: bool) -> Result<()> {
        let found = self.tables.iter().find(|(t, _)| *t == table.id);
        let text = match found {
            None => format!("Table '{}' was not locked with LOCK TABLES", table.name),
            Some((_, false)) if writes => format!(
                "Table '{}' was locked with a READ lock and can't be updated",
                table.name
            ),
            Some(_) => return Ok(()),
        };
        let code = if found.is_some() { 1099 } else { 1100 };
        Err(SqlError::new(code, "HY000", text))
    }
}

impl SqlSession {
    /// LOCK TABLES: a barrier excludes all other sessions from the tables and from tables reached
    /// through their foreign keys. READ takes the same exclusive barrier as WRITE, but does not
    /// allow writing.
    pub(super) fn lock_tables(&mut self, tables: &[LockTable<'_>]) -> Result<Outcome> {
        self.unlock_tables()?;
        let position = self.commit()?;
        let catalog = self.cx.server.db.catalog();
        let mut locked = Vec::new();
        let mut excluded: Vec<TableId> = Vec::new();
        for lock in tables {
            let (database, name) = self.cx.qualified(&lock.table)?;
            let table = catalog.table(&database, &name);
            let table = table.ok_or_else(|| SqlError::no_table(&database, &name))?;
            locked.push((table.id, lock.mode == TableLock::Write));
            excluded.extend(table.write_set.iter().copied());
        }
        excluded.sort_unstable();
        excluded.dedup();
        let deadline = self.definition_deadline();
        let barrier = self
            .metadata_locks
            .exclude(&excluded, deadline, &self.cx.env.cancel);
        let barrier =
            barrier.map_err(|e| SqlError::from(porpoise_rows::ddl::metadata_lock_error(e)))?;
        self.table_locks = Some(TableLocks {
            tables: locked,
            _barrier: barrier,
        });
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// UNLOCK TABLES; commits if tables were locked.
    pub(super) fn unlock_tables(&mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if self.table_locks.is_some() {
            outcome.position = self.commit()?;
            self.table_locks = None;
        }
        Ok(outcome)
    }
}
