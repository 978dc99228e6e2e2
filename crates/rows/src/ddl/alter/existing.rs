//! What an ALTER TABLE that copies no rows asks of those that are there.

use super::{Plan, fill};
use crate::db::Db;
use crate::ddl::{DdlCx, errors};
use crate::definition::ColumnId;
use crate::error::Result;
use crate::overflow;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_types::CastCx;

impl Db {
    /// 1292: a zero date for rows that are there.
    pub(super) fn check_no_rows(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &Plan,
        cast: &CastCx<'_>,
    ) -> Result<()> {
        let added = |id: &ColumnId| plan.table.columns.iter().find(|c| c.id == *id);
        let Some(column) = plan.no_rows.iter().find_map(added) else {
            return Ok(());
        };
        self.for_each_batch(cx, before, |batch| match batch.is_empty() {
            true => Ok(()),
            false => fill::check_zero_date(column, cast),
        })
    }

    /// 1138 when a row holds NULL in a column that becomes NOT NULL.
    pub(super) fn check_not_null(&self, cx: &DdlCx<'_>, after: &Table, plan: &Plan) -> Result<()> {
        let position = |id: &ColumnId| plan.table.columns.iter().position(|c| c.id == *id);
        let wanted: Vec<usize> = plan.not_null.iter().filter_map(position).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        self.for_each_batch(cx, after, |batch| {
            for (_, row) in batch {
                let row = RowRef::new(after, row)?;
                if wanted.iter().any(|c| row.get(*c).is_null()) {
                    return Err(errors::invalid_null());
                }
            }
            Ok(())
        })
    }

    /// 3819 when a row violates a check that is to hold from now on.
    pub(super) fn hold_checks(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        cast: &CastCx<'_>,
    ) -> Result<()> {
        let expressions = self.expressions(after)?;
        let env = fill::row_context(cx, cast);
        self.for_each_batch(cx, before, |batch| {
            for (primary, row) in batch {
                let whole = overflow::whole_row(self, before, primary, row)?;
                let row = RowRef::new(after, whole.as_deref().unwrap_or(row))?;
                expressions.check(&row.values(), &env)?;
            }
            Ok(())
        })
    }
}
