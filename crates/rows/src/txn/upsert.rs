//! Inserting one row, or finding the one in its way: the insert half of ON
//! DUPLICATE KEY UPDATE and of memcached's commands.
//!
//! Invariants:
//! 1. What is found is locked exclusively; nothing was written then.
//! 2. Parents are looked at only when the row is new.

use super::Txn;
use super::gather::{Plan, check_not_null, constraints, gather_own, judge};
use super::insert::Inserted;
use super::keyset::{KeyId, KeySet};
use crate::overflow::OverflowFetch;
use crate::row::RowBuf;
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::{LockMode, Read};
use porpoise_types::Value;
use std::sync::Arc;

impl Txn {
    /// Inserts one row, unless a row with an equal key exists: then that row
    /// is locked exclusively and shown, and nothing is written. For ON
    /// DUPLICATE KEY UPDATE and for memcached's commands. Parents are looked
    /// at only when the row is new.
    ///
    /// # Errors
    /// [`Error::NoReferencedRow`], [`Error::NotNull`]; the engine's.
    pub fn insert_or_find(&mut self, table: &Arc<Table>, row: &[Value]) -> Result<Inserted> {
        if !table.evaluates_expressions() {
            return self.statement(table, |txn, keys| txn.insert_one(table, row, keys));
        }
        let mut row = row.to_vec();
        self.evaluate_row(table, &mut row, 1)?;
        self.statement(table, |txn, keys| txn.insert_one(table, &row, keys))
    }

    fn insert_one(
        &mut self,
        table: &Arc<Table>,
        row: &[Value],
        keys: &mut KeySet,
    ) -> Result<Inserted> {
        check_not_null(table, row)?;
        table.partition_of_row(row)?;
        let hidden = self.hidden_ids(table, 1)?;
        let uniques = table.derived().uniques.len();
        let mut plan = Plan::new(1, uniques, 0);
        gather_own(table, row, hidden, keys, &mut plan.ids);
        keys.keep_values = true;
        let wait = self.wait();
        keys.lock(self.kv.as_mut(), wait)?;
        let taken = plan.own(0).iter().enumerate();
        let taken = taken.map(|(n, id)| (n, *id));
        if let Some((place, id)) = taken.into_iter().find(|(_, id)| keys.present(*id)) {
            return self.found(table, place, id, keys);
        }
        if self.foreign_key_checks && !table.foreign_keys.is_empty() {
            let catalog = self.db.catalog_guard();
            let constraints = constraints(&catalog, table);
            for constraint in &constraints {
                plan.ids.push(constraint.gather(row, keys));
            }
            plan.stride = plan.ids.len();
            let wait = self.wait();
            keys.lock(self.kv.as_mut(), wait)?;
            judge(table, row, &plan, 0, &constraints, keys)?;
        }
        self.write_new(table, &plan.primary(0, keys), row, keys)?;
        Ok(Inserted::New)
    }

    /// The row behind a key that is taken.
    fn found(
        &mut self,
        table: &Table,
        place: usize,
        id: KeyId,
        keys: &mut KeySet,
    ) -> Result<Inserted> {
        let (index, row_id) = if place == 0 {
            (0, id)
        } else {
            let primary = keys.value(id).unwrap_or(&[]).to_vec();
            let row_id = keys.add(table.space(0, &primary), &primary, LockMode::Exclusive);
            let wait = self.wait();
            keys.lock(self.kv.as_mut(), wait)?;
            let index = table.derived().uniques.get(place - 1).copied();
            (index.unwrap_or(0), row_id)
        };
        let Some(row) = keys.value(row_id) else {
            return Err(Error::Corrupt(format!(
                "index {index} of {} names a row that does not exist",
                table.quoted_name()
            )));
        };
        let newer = keys.newer(id) || keys.newer(row_id);
        let mut rows = [(keys.key(row_id).to_vec(), RowBuf::from(row.to_vec()))];
        self.complete_rows(table, &mut rows, OverflowFetch::All, Read::CURRENT)?;
        let [(primary, row)] = rows;
        Ok(Inserted::Duplicate {
            index,
            primary,
            row,
            newer,
        })
    }
}
