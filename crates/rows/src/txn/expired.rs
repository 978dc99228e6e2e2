//! Expired rows ([`crate::ttl`]) in the way of writers: an expired row is deleted when a new row
//! has one of its unique keys, and a new child cannot reference it.
//!
//! Invariants:
//! 1. A row that is in the way is deleted under the ordinary rules, cascades and triggers included. One
//!    that RESTRICT refuses to delete stays, and the writer gets the error of a duplicate key.
//! 2. Tables without TTL, and children of such tables, cost one comparison for each statement.

use super::firing::FireTriggers;
use super::gather::{Constraint, NO_PARENT, adds_entries};
use super::key_changes::is_key_changed;
use super::keyset::KeyId;
use super::lookup::Lookup;
use super::{Statement, Txn};
use crate::error::Result;
use crate::overflow::OverflowFetch;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use crate::ttl::{ExpiryRule, ExpiryTime};
use porpoise_base::interrupt::Pacer;
use porpoise_kv::Read;
use porpoise_types::Value;
use smallvec::SmallVec;
use std::sync::Arc;

/// Rule and time by which a transaction judges whether rows of a table have expired.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    rule: ExpiryRule,
    now: ExpiryTime,
}

impl Expiry {
    /// Whether a row has expired.
    #[inline]
    pub fn is_over(&self, row: &RowRef<'_>) -> bool {
        self.rule.is_expired(row, &self.now)
    }
}

impl Txn {
    /// The rule and the time for rows of a table; `None` for a table without TTL.
    #[inline]
    pub fn expiry_of(&self, table: &Table) -> Option<Expiry> {
        let rule = *table.expiry_rule()?;
        let now = self.expiry_time();
        Some(Expiry { rule, now })
    }

    /// Sets the time at which rows expire for the statements that follow.
    pub fn set_expiry_time(&mut self, now: ExpiryTime) {
        self.expiry_time = Some(now);
    }

    /// The time at which rows expire, if it was set.
    pub fn given_expiry_time(&self) -> Option<ExpiryTime> {
        self.expiry_time
    }

    /// The time at which rows expire: as set, or now.
    fn expiry_time(&self) -> ExpiryTime {
        self.expiry_time.unwrap_or_else(|| self.db.expiry_time())
    }

    /// Deletes the expired rows whose unique keys the given rows have. A row that is changed is given
    /// with its old state; keys that stay the same are not looked up.
    pub(super) fn remove_expired<'r>(
        &mut self,
        table: &Arc<Table>,
        rows: impl Iterator<Item = ChangedRow<'r>>,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<()> {
        let Some(rule) = table.expiry_rule().copied() else {
            return Ok(());
        };
        let now = self.expiry_time();
        let mut expired: Vec<Vec<u8>> = Vec::new();
        for (index, keys) in unique_keys(table, rows)? {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let lookup = Lookup::unique(table, index, &keys).overflow(OverflowFetch::Prefixes);
            lookup.read(self.kv.as_mut(), Read::CURRENT, &mut |_, found| {
                if let Some(found) = found.filter(|found| rule.is_expired(&found.row, &now)) {
                    expired.push(found.primary.to_vec());
                }
            })?;
        }
        if expired.is_empty() {
            return Ok(());
        }
        expired.sort_unstable();
        expired.dedup();
        let rows = self.lock_present(table, &expired, |row| rule.is_expired(row, &now))?;
        let deleted = match self.delete_expired(table, rows.clone(), runner) {
            Err(error) if error.ignorable() => {
                let mut deleted = 0;
                for row in rows {
                    match self.delete_expired(table, vec![row], runner) {
                        Ok(rows) => deleted += rows,
                        Err(error) if error.ignorable() => {}
                        Err(error) => return Err(error),
                    }
                }
                deleted
            }
            done => done?,
        };
        self.db.ttl_counters.add_deleted(deleted);
        Ok(())
    }

    fn delete_expired(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<u64> {
        let done = match runner {
            Some(runner) => self.firing(runner).delete(table, rows),
            None => self.delete(table, rows),
        };
        Ok(done?.deleted)
    }
}

/// Position of an index, and keys in it.
type IndexKeys = (usize, Vec<Vec<u8>>);

/// A row to be written: its old state if it exists, and its new values.
pub(super) type ChangedRow<'r> = (Option<&'r RowBuf>, &'r [Value]);

/// The new keys of rows in each unique index, the primary one included, without those with a NULL part
/// and those that stay the same.
fn unique_keys<'r>(
    table: &Table,
    rows: impl Iterator<Item = ChangedRow<'r>>,
) -> Result<Vec<IndexKeys>> {
    let primary = (!table.hidden_key).then_some(0);
    let unique = table.derived().unique_indexes.iter().copied();
    let unique = unique.filter(|position| adds_entries(table, *position));
    let mut all: Vec<IndexKeys> = primary
        .into_iter()
        .chain(unique)
        .map(|index| (index, Vec::new()))
        .collect();
    let mut pacer = Pacer::new();
    for (old, row) in rows {
        // The caller's statement passes a checkpoint of its own, and ends there.
        if pacer.leaves() {
            break;
        }
        let old = old.map(|old| old.row(table)).transpose()?;
        for (position, keys) in &mut all {
            let index = table.maintained_index(*position);
            let stays = |parts| {
                old.as_ref()
                    .is_some_and(|old| !is_key_changed(parts, old, row))
            };
            if index.is_some_and(|index| stays(&index.parts)) {
                continue;
            }
            if *position == 0 {
                let mut key = Vec::new();
                table.append_primary_key(row, &mut key);
                keys.push(key);
            } else if let Some(index) = index {
                let entries = index.entry_keys(table, *position, row, &[]);
                let unique = entries.into_iter().filter(|(_, is_unique)| *is_unique);
                keys.extend(unique.map(|(key, _)| key));
            }
        }
    }
    all.retain(|(_, keys)| !keys.is_empty());
    Ok(all)
}

impl Statement<'_> {
    /// Marks the locked keys of expired parents as absent. `parents` are the gathered keys with the
    /// positions of their constraints.
    pub(super) fn hide_expired_parents(
        &mut self,
        constraints: &[Constraint<'_>],
        parents: &[(usize, KeyId)],
    ) -> Result<()> {
        for (n, constraint) in constraints.iter().enumerate() {
            let Some((parent, at)) = constraint.parent else {
                continue;
            };
            let Some(rule) = parent.expiry_rule() else {
                continue;
            };
            let now = self.txn.expiry_time();
            let of_constraint = parents.iter().filter(|(fk, _)| *fk == n);
            let mut ids: SmallVec<[KeyId; 8]> = of_constraint
                .map(|(_, id)| *id)
                .filter(|id| *id < NO_PARENT && self.keys.is_present_parent(*id))
                .collect();
            ids.sort_unstable();
            ids.dedup();
            let keys: SmallVec<[&[u8]; 8]> = ids.iter().map(|id| self.keys.key(*id)).collect();
            let mut expired: SmallVec<[KeyId; 8]> = SmallVec::new();
            let lookup = Lookup::unique(parent, at.index, &keys).overflow(OverflowFetch::Prefixes);
            lookup.read(self.txn.kv.as_mut(), Read::CURRENT, &mut |n, found| {
                if found.is_some_and(|found| rule.is_expired(&found.row, &now)) {
                    expired.extend(ids.get(n).copied());
                }
            })?;
            drop(keys);
            for id in expired {
                self.keys.set_present(id, false);
            }
        }
        Ok(())
    }
}

/// Whether a constraint's parents can expire.
pub(super) fn parents_expire(constraints: &[Constraint<'_>]) -> bool {
    let mut parents = constraints.iter().filter_map(|c| c.parent);
    parents.any(|(parent, _)| parent.expiry_rule().is_some())
}
