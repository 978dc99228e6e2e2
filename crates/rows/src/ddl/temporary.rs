//! Temporary tables, which are not in the catalog.
//!
//! They have spaces and counters like other tables, without durability. The session that created a
//! table keeps its definition and shows it to no other session; access to rows needs only the
//! definition. Spaces left by a crash are unreferenced and dropped at the next start.

use super::{DdlCx, TableSpec, check_name, errors, tables, ttl};
use crate::catalog::{Catalog, persist};
use crate::db::Db;
use crate::definition::{IndexKind, TableId};
use crate::error::Result;
use crate::table::Table;
use std::sync::Arc;

impl Db {
    /// CREATE TEMPORARY TABLE. The caller checks the name for conflicts.
    ///
    /// # Errors
    /// As CREATE TABLE; 1215 with foreign keys, 1562 with partitions.
    pub fn create_temporary(&self, cx: &DdlCx<'_>, spec: &TableSpec) -> Result<Arc<Table>> {
        check_name(&spec.name)?;
        if spec.name.is_empty() || spec.name.ends_with(' ') {
            return Err(errors::bad_table_name(&spec.name));
        }
        if self.catalog().database(&spec.database).is_none() {
            return Err(errors::no_database(&spec.database));
        }
        if !spec.foreign_keys.is_empty() {
            return Err(errors::temporary_foreign_key());
        }
        if spec.indexes.iter().any(|i| i.kind == IndexKind::FullText) {
            return Err(errors::full_text_of_temporary());
        }
        if spec.placement.partitioning.is_some() {
            return Err(errors::temporary_partitions());
        }
        if spec.options.ttl.is_some() {
            return Err(ttl::not_for_temporary());
        }
        let id = TableId(self.engine().reserve_ids(persist::TABLE_IDS, 1, 1)?.start);
        // Names of its CHECK constraints cannot collide with those of other tables.
        let mut table = tables::draft_table(self, &Catalog::default(), cx, spec, id)?;
        table.options.memory = true;
        self.check_expressions(&table)?;
        self.create_spaces_for(&mut table)?;
        if let Some(first) = spec.auto_increment {
            self.engine().set_next_id(table.counter, first.max(1))?;
        }
        Ok(Arc::new(Table::new(table)))
    }

    /// TRUNCATE of a temporary table: the same definition over new spaces.
    ///
    /// # Errors
    /// The engine's.
    pub fn renew_temporary(&self, table: &Table) -> Result<Arc<Table>> {
        let mut fresh = table.definition().clone();
        self.create_spaces_for(&mut fresh)?;
        Ok(Arc::new(Table::new(fresh)))
    }

    /// Drops the spaces and counters of a temporary table. No transaction may use it any more.
    pub fn drop_temporary(&self, table: &Table) {
        let spaces: Vec<_> = table.all_spaces().collect();
        self.retire_spaces(&spaces);
        self.forget_counters(table);
    }
}
