//! CREATE TABLE ... SELECT: the table is filled before other statements can see it.
//!
//! Rows are written into spaces that the catalog does not refer to, through a definition that only
//! the writer has. After their commit, the catalog adopts the definition. So a query that fails
//! leaves no table, and neither does a crash: unreferenced spaces are dropped at the next start.
//!
//! Foreign keys are not checked while rows are written. All rows are checked afterwards, under the
//! metadata barrier that excludes writers of the parents while the table gets its name.
//!
//! Rejected: naming the table first and dropping it if the query fails, because other sessions see
//! it without rows, and a crash leaves it so.

use super::tables::{draft_table, future_relatives};
use super::{DdlCx, DdlOutcome, TableSpec, check_name, errors, spaces};
use crate::catalog::persist;
use crate::db::Db;
use crate::definition::TableId;
use crate::error::Result;
use crate::table::Table;
use std::sync::Arc;

impl Db {
    /// Creates the table as specified, to be filled and then named by [`Db::name_table`]. Returns
    /// `None` if a table of that name exists (IF NOT EXISTS).
    ///
    /// # Errors
    /// As CREATE TABLE.
    pub fn begin_table(&self, cx: &DdlCx<'_>, spec: &TableSpec) -> Result<Option<Arc<Table>>> {
        check_name(&spec.name)?;
        if spec.name.is_empty() || spec.name.ends_with(' ') {
            return Err(errors::bad_table_name(&spec.name));
        }
        if self.is_name_taken(spec)? {
            return if spec.if_not_exists {
                Ok(None)
            } else {
                Err(errors::table_exists(&spec.name))
            };
        }
        let id = TableId(self.engine().reserve_ids(persist::TABLE_IDS, 1, 1)?.start);
        let mut table = draft_table(self, &self.catalog(), cx, spec, id)?;
        self.check_expressions(&table)?;
        table.foreign_keys.clear();
        self.create_spaces_for(&mut table)?;
        if let Some(first) = spec.auto_increment {
            self.engine().set_next_id(table.counter, first.max(1))?;
        }
        Ok(Some(Arc::new(Table::new(table))))
    }

    /// Names a table of [`Db::begin_table`] whose rows are committed. On an error the table is
    /// dropped.
    ///
    /// # Errors
    /// As CREATE TABLE, because other definitions may have changed since; 1452 for a row without
    /// parent.
    pub fn name_table(
        &self,
        cx: &DdlCx<'_>,
        spec: &TableSpec,
        table: &Table,
    ) -> Result<DdlOutcome> {
        let made: Vec<_> = table.all_spaces().collect();
        let named = self.name_filled(cx, spec, table);
        if let Err(error) = &named {
            self.abandon_spaces(&made, error);
        }
        named
    }

    fn name_filled(&self, cx: &DdlCx<'_>, spec: &TableSpec, filled: &Table) -> Result<DdlOutcome> {
        let _barrier = self.barrier(cx, |catalog| Ok(future_relatives(catalog, spec)))?;
        // Parents may have changed since; the rows' own definition has not.
        let mut table = draft_table(self, &self.catalog(), cx, spec, filled.id)?;
        if spaces::table_spaces(&table).len() != filled.all_spaces().count() {
            return Err(crate::Error::DefinitionChanged);
        }
        let made: Vec<_> = filled
            .indexes
            .iter()
            .flat_map(|i| i.spaces.iter().copied())
            .chain(filled.overflow_spaces.iter().copied())
            .collect();
        spaces::assign(&mut table, &made);
        table.counter = filled.counter;
        let table = Table::new(table);
        if cx.foreign_key_checks {
            for key in &table.foreign_keys {
                self.validate_foreign_key(cx, &table, key)?;
            }
        }
        // The rows have advanced the counter.
        let spec = TableSpec {
            auto_increment: None,
            ..spec.clone()
        };
        Ok(DdlOutcome {
            position: self.commit_new_table(cx, &spec, table.definition().clone())?,
            ..DdlOutcome::default()
        })
    }

    /// Drops a table of [`Db::begin_table`] that is not named. No transaction may use it any more.
    pub fn abandon_table(&self, table: &Table) {
        let spaces: Vec<_> = table.all_spaces().collect();
        self.retire_spaces(&spaces);
        self.forget_counters(table);
    }
}
