//! What REPLACE does to the rows that are in the way of a new one.

use super::Txn;
use super::gather::{NO_KEY, Plan};
use super::keyset::{KeyId, KeySet};
use super::lookup::Lookup;
use crate::Result;
use crate::table::Table;
use porpoise_kv::{Key, LockMode, Read};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

impl Txn {
    /// Locks, in one call, the rows that REPLACE will find in its way by the
    /// entries just locked.
    pub(super) fn lock_replaced(
        &mut self,
        table: &Table,
        plan: &Plan,
        rows: usize,
        keys: &mut KeySet,
    ) -> Result<()> {
        for n in 0..rows {
            for (place, id) in plan.own(n).iter().enumerate() {
                if *id == NO_KEY || !keys.present(*id) {
                    continue;
                }
                self.check_newer(keys.newer(*id))?;
                if place > 0
                    && let Some(primary) = keys.value(*id).map(<[u8]>::to_vec)
                {
                    keys.add(table.space(0, &primary), &primary, LockMode::Exclusive);
                }
            }
        }
        let wait = self.wait();
        keys.lock(self.kv.as_mut(), wait)?;
        Ok(())
    }

    /// Deletes the rows that are in the way of one; how many.
    pub(super) fn clear_the_way(
        &mut self,
        table: &Arc<Table>,
        own: &[KeyId],
        keys: &mut KeySet,
    ) -> Result<u64> {
        let Some((row, entries)) = own.split_first() else {
            return Ok(0);
        };
        let mut primaries: Vec<Vec<u8>> = Vec::new();
        if keys.present(*row) {
            primaries.push(keys.key(*row).to_vec());
        }
        // The entries as they are now, own writes of this statement included.
        let entries: SmallVec<[Key<'_>; 4]> = entries
            .iter()
            .zip(&table.derived().uniques)
            .filter(|(id, _)| keys.present(**id))
            .map(|(id, position)| Key::new(table.space(*position, keys.key(*id)), keys.key(*id)))
            .collect();
        if !entries.is_empty() {
            let mut found: SmallVec<[Option<Vec<u8>>; 4]> = smallvec![None; entries.len()];
            self.kv.get(Read::CURRENT, &entries, &mut |n, value| {
                if let Some(place) = found.get_mut(n) {
                    *place = value.map(<[u8]>::to_vec);
                }
            })?;
            primaries.extend(found.into_iter().flatten());
        }
        drop(entries);
        if primaries.is_empty() {
            return Ok(0);
        }
        // In the order of the indexes, as MySQL deletes them, each once.
        let mut wanted: SmallVec<[&[u8]; 4]> = SmallVec::new();
        for primary in &primaries {
            if !wanted.contains(&primary.as_slice()) {
                wanted.push(primary);
            }
        }
        let mut rows = Vec::new();
        let lookup = Lookup::primary(table, &wanted).in_order();
        self.look_up(&lookup, Read::CURRENT, &mut |_, found| {
            if let Some(found) = found {
                rows.push((found.primary.to_vec(), found.row.to_buf()));
            }
        })?;
        Ok(self.delete_rows(table, rows, keys)?.deleted)
    }
}
