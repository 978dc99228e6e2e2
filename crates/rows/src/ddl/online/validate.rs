//! Validation of existing rows against constraints that all writers enforce already.
//!
//! Rows and parents are read in one snapshot for each batch, without locks. A row that violates the
//! constraint in that snapshot was written before the constraint was enforced. Rows that are written during the
//! validation obey the constraint, so it does not matter whether the validation reads them.

use super::Change;
use super::throttle::Throttle;
use crate::ddl::alter::row_context;
use crate::ddl::walk::{Batch, read_batch};
use crate::error::{Error, Result};
use crate::fk;
use crate::overflow;
use crate::progress::Stage;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{self as kv, Read, TxnOptions};
use porpoise_types::CastCx;

impl Change<'_> {
    /// Validates all rows against the unfinished constraints of the table.
    ///
    /// # Errors
    /// 1452, 3819; a cancellation; the engine's.
    pub(super) fn validate(&self, cast: &CastCx<'_>) -> Result<()> {
        let table = self.present()?;
        let engine = self.db.engine();
        // Transactions that did not enforce the constraints have ended, so each snapshot contains their rows.
        engine.wait_durable(engine.newest_position())?;
        let unfinished = &table.unfinished;
        let progress = self.cx.metadata_locks.progress();
        for name in &unfinished.foreign_keys {
            self.begin_stage(Stage::Validating, &table, name);
            self.validate_foreign_key(&table, name)?;
        }
        let checks = [&unfinished.checks, &unfinished.enforced_checks];
        let checks: Vec<&str> = checks.into_iter().flatten().map(String::as_str).collect();
        if !checks.is_empty() {
            self.begin_stage(Stage::Validating, &table, &checks.join(", "));
            self.validate_checks(&table, cast)?;
        }
        progress.end();
        Ok(())
    }

    fn validate_foreign_key(&self, table: &Table, name: &str) -> Result<()> {
        let mut keys = table.foreign_keys.iter();
        let Some(key) = keys.find(|key| key.name == *name) else {
            return Err(Error::DefinitionChanged);
        };
        self.for_each_row_batch(table, &mut |txn, batch| {
            let refuse = &mut |_: &[u8]| {
                Err(Error::NoReferencedRow {
                    constraint: fk::constraint_text(table, key),
                })
            };
            self.db
                .orphans(table, key, batch, txn, Read::SNAPSHOT, refuse)
        })
    }

    fn validate_checks(&self, table: &Table, cast: &CastCx<'_>) -> Result<()> {
        let expressions = self.db.expressions(table)?;
        let env = row_context(self.cx, cast);
        self.for_each_row_batch(table, &mut |txn, batch| {
            for (primary, bytes) in batch {
                let whole = overflow::complete_row(txn, Read::SNAPSHOT, table, primary, bytes)?;
                let row = RowRef::new(table, whole.as_deref().unwrap_or(bytes))?;
                expressions.check(&row.values(), &env)?;
            }
            Ok(())
        })
    }

    /// Calls `each` with batches of rows and the transaction whose snapshot they are of.
    fn for_each_row_batch(
        &self,
        table: &Table,
        each: &mut dyn FnMut(&mut dyn kv::Txn, &Batch) -> Result<()>,
    ) -> Result<()> {
        let mut throttle = Throttle::new(self.db, self.cx, table.id);
        for space in table.index_spaces(0) {
            let mut next = Some(Vec::new());
            while let Some(start) = next {
                let limit = throttle.begin()?;
                let mut txn = self.db.engine().begin(TxnOptions::default())?;
                let (batch, rest) = read_batch(
                    self.cx,
                    txn.as_mut(),
                    Read::SNAPSHOT,
                    *space,
                    &start,
                    limit,
                    <[u8]>::len,
                )?;
                each(txn.as_mut(), &batch)?;
                txn.rollback();
                throttle.end(batch.len());
                next = rest;
            }
        }
        Ok(())
    }
}
