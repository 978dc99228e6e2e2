//! ALTER TABLE of a temporary table, which no catalog names.
//!
//! What it asks of the rows is the same as elsewhere; the result is a definition that its
//! session takes up. No other session can be using the table.

use super::super::{AlterOp, DdlCx, check_name, errors};
use super::{check_algorithm, columns, plan};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::error::Result;
use crate::table::Table;
use porpoise_types::CastCx;
use std::sync::Arc;

impl Db {
    /// The table as the clauses make it, and how many rows were copied. On success the old
    /// definition cannot be used any more; on an error it can.
    ///
    /// # Errors
    /// As ALTER TABLE; 1215 for foreign keys.
    pub fn alter_temporary(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        ops: &[AlterOp],
        cast: &mut CastCx<'_>,
    ) -> Result<(Arc<Table>, u64)> {
        if ops.iter().any(|op| matches!(op, AlterOp::AddForeignKey(_))) {
            return Err(errors::temporary_foreign_key());
        }
        // Its constraints' names collide with no other table's, and it has no foreign keys.
        let mut plan = plan(&Catalog::default(), before, cx, ops, cast)?;
        if let Some((database, name)) = &plan.rename_to {
            check_name(name)?;
            if name.is_empty() || name.ends_with(' ') {
                return Err(errors::bad_table_name(name));
            }
            if self.catalog().database(database).is_none() {
                return Err(errors::no_database(database));
            }
        }
        check_algorithm(&plan, ops)?;
        self.check_expressions(&plan.table)?;
        let fresh = self.give_index_spaces(&mut plan)?;
        let after = Table::new(plan.table.clone());
        let done = self.work_on_rows(cx, before, &after, &plan, cast);
        cx.metadata_locks.progress().end();
        if let Err(error) = &done {
            self.abandon_spaces(&fresh, error);
        }
        let rows = done?;
        self.retire_spaces(&plan.leaving);
        let mut table = plan.table;
        if plan.rewrite {
            columns::forget_backfills(&mut table);
        }
        if let Some((database, name)) = plan.rename_to {
            (table.database, table.name) = (database, name);
        }
        Ok((Arc::new(Table::new(table)), rows))
    }
}
