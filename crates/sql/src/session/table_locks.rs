//! LOCK TABLES and UNLOCK TABLES (manual, "LOCK TABLES and UNLOCK TABLES Statements").

use super::{Outcome, SqlSession};
use bumpalo::Bump;
use porpoise_rows::catalog::{Catalog, Table, TableId};
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::metadata_lock::{Activity, Exclusion, MetadataBarrier};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::{ParseOptions, parse_one};
use std::sync::Arc;
use std::time::Instant;

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
        let mut named = self.tables.iter().filter(|(t, _)| *t == table.id);
        let found = named.clone().find(|(_, w)| *w).or_else(|| named.next());
        match found {
            None => Err(TableLocks::not_locked(&table.name)),
            Some((_, false)) if writes => {
                let text = format!(
                    "Table '{}' was locked with a READ lock and can't be updated",
                    table.name
                );
                Err(SqlError::new(1099, "HY000", text))
            }
            Some(_) => Ok(()),
        }
    }

    /// Error 1100.
    pub(super) fn not_locked(table: &str) -> SqlError {
        let text = format!("Table '{table}' was not locked with LOCK TABLES");
        SqlError::new(1100, "HY000", text)
    }

    /// Error 1099 if one of the tables is locked for READ only.
    pub(super) fn check_all_writable(&self, catalog: &Catalog) -> Result<()> {
        let tables = self.tables.iter();
        let mut tables = tables.filter_map(|(id, _)| catalog.table_by_id(*id));
        tables.try_for_each(|table| self.check(table, true))
    }
}

/// A table that LOCK TABLES names, and whether it is locked for writing.
pub(super) type NamedLock = (String, String, bool);

impl SqlSession {
    /// Locks tables, after the ones locked before are unlocked. For WRITE a barrier excludes all other
    /// sessions from the table and from tables reached through its foreign keys, for READ those that
    /// write to it. A view stands for its tables, which are only read.
    pub(super) fn lock_named_tables(&mut self, names: Vec<NamedLock>) -> Result<Outcome> {
        self.unlock_tables()?;
        let position = self.commit()?;
        let deadline = self.definition_deadline();
        if names.iter().any(|(.., writes)| *writes) {
            self.begin_held_writes(deadline)?;
        }
        let locked = self.lock_within(names, deadline);
        if locked.is_err() {
            self.metadata_locks.finish(Activity::HeldWrites);
        }
        self.table_locks = Some(locked?);
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    fn lock_within(&mut self, names: Vec<NamedLock>, deadline: Instant) -> Result<TableLocks> {
        let mut locked = Vec::new();
        let mut excluded: Vec<(TableId, Exclusion)> = Vec::new();
        for (database, name, writes) in names {
            if self.cx.temporary.table(&database, &name).is_some() {
                continue;
            }
            let catalog = self.cx.server.db.catalog();
            if catalog.view(&database, &name).is_some() {
                for table in self.tables_of_view(&database, &name)? {
                    locked.push((table.id, false));
                    excluded.push((table.id, Exclusion::Writers));
                }
                continue;
            }
            let table = catalog.table(&database, &name);
            let table = table.ok_or_else(|| SqlError::no_table(&database, &name))?;
            locked.push((table.id, writes));
            if writes {
                let related = table.write_set.iter();
                excluded.extend(related.map(|id| (*id, Exclusion::Everyone)));
            } else {
                excluded.push((table.id, Exclusion::Writers));
            }
        }
        let barrier = self
            .metadata_locks
            .exclude(&excluded, deadline, &self.cx.env.cancel);
        let barrier = barrier.map_err(|e| SqlError::from(metadata_lock_error(e)))?;
        Ok(TableLocks {
            tables: locked,
            _barrier: barrier,
        })
    }

    /// The stored tables that a view reads.
    fn tables_of_view(&self, database: &str, name: &str) -> Result<Vec<Arc<Table>>> {
        let quoted = |name: &str| name.replace('`', "``");
        let text = format!("SELECT * FROM `{}`.`{}`", quoted(database), quoted(name));
        let arena = Bump::new();
        let parsed = parse_one(&arena, text.as_bytes(), 0, &ParseOptions::default());
        let parsed = parsed.map_err(|error| SqlError::syntax(&error, text.as_bytes()))?;
        let catalog = self.cx.catalog();
        let plan = self.plan(&parsed.statement, text.as_bytes(), &[], &catalog)?;
        let plan = plan.ok_or_else(|| SqlError::internal("no plan of a view"))?;
        Ok(plan.tables.into_iter().map(|(table, _)| table).collect())
    }

    /// Ends LOCK TABLES when none of its tables exists any more.
    pub(super) fn unlock_dropped_tables(&mut self) -> Result<()> {
        let catalog = self.cx.server.db.catalog();
        let dropped = |locks: &TableLocks| {
            let mut tables = locks.tables.iter();
            !locks.tables.is_empty() && tables.all(|(id, _)| catalog.table_by_id(*id).is_none())
        };
        if self.table_locks.as_ref().is_some_and(dropped) {
            self.unlock_tables()?;
        }
        Ok(())
    }

    /// Unlocks the tables of LOCK TABLES; commits if there are any.
    pub(super) fn unlock_tables(&mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if self.table_locks.is_some() {
            outcome.position = self.commit()?;
            self.table_locks = None;
            self.metadata_locks.finish(Activity::HeldWrites);
        }
        Ok(outcome)
    }
}
