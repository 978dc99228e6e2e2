//! UPDATE of rows that the caller has locked and read.
//!
//! The keys of all rows are gathered and locked in one call: old and new values of changed unique
//! keys (exclusive), old and new primary keys of moved rows (exclusive), newly referenced parents
//! (key-share). Rows are then checked and written in the statement's order: `SET id = id + 1`
//! conflicts with the next row unless the statement runs in descending order (transactions.md, rule
//! 13).
//!
//! Invariants:
//! 1. A row whose values are all the same is not written and keeps its
//!    version, unless [`UpdateMode::Rewrite`] requests it.
//! 2. A row with unchanged keys needs only the caller's lock: an UPDATE of other columns makes no
//!    engine call except its put, and plans nothing ([`keeps_keys`]). A row whose entry in a constraint's index moves locks its parent
//!    key-share, so that a deletion of the parent scans before or after the move.
//! 3. Changes of referenced values are processed row by row, because an earlier row of the
//!    statement may have moved the children. One scan call for all rows finds those without
//!    children.
//! 4. A row that a cascade of the same statement has changed is read again at its turn, and only
//!    the columns that the caller changes are set.
//!
//! Rejected: checking unique keys at the end of the statement (accepts what
//! MySQL refuses).

use super::Statement;
use super::cascade::Effects;
use super::expired::parents_expire;
use super::expressions::{Refused, prepare_change, refusal};
use super::gather::{Constraint, check_not_null, constraints};
use super::key_changes::{
    KeyChanges, gather_change, is_key_changed, lock_referenced, referenced_change,
};
use super::keyset::{KeyId, KeySet};
use super::reapply::CascadedRows;
use crate::definition::{FkAction, Index};
use crate::fk::{self, Referrer};
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::{Read, ScanEnd, ScanRange, prefix_end};
use porpoise_types::Value;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One row to change.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The row's primary key.
    pub key: Vec<u8>,
    /// The row as read under the lock.
    pub old: RowBuf,
    /// New storage values of all columns, in column order.
    pub new: Vec<Value>,
}

/// Treatment of a row that violates a constraint, and of unchanged rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// Fail.
    Plain,
    /// Skip it.
    Ignore,
    /// Fail. A row whose values stay the same is written, too, and so gets a
    /// new version: memcached's `set`.
    Rewrite,
    /// Fail. Rows keep their version: memcached's `touch`.
    KeepVersion,
}

/// Result of an UPDATE.
#[derive(Clone, Debug, Default)]
pub struct UpdateOutcome {
    /// Rows whose values changed.
    pub changed: u64,
    /// Rows that cascades changed or deleted.
    pub cascaded: u64,
    /// Rows skipped by IGNORE: position in the call, and error.
    pub skipped: Vec<(usize, Error)>,
}

/// A row to be changed, with its gathered keys.
struct PlannedChange {
    primary: Vec<u8>,
    keys: KeyChanges,
    /// Whether a referenced value changes.
    referenced: bool,
    /// Whether rows also reference the old value, or may do so now.
    followed: bool,
}

/// Work to be done for a row.
enum RowAction {
    Unchanged,
    Refuse(Error),
    Change(Box<PlannedChange>),
}

impl RowAction {
    /// The keys of newly referenced parents, with the positions of their constraints.
    fn new_parents(&self) -> &[(usize, KeyId)] {
        match self {
            RowAction::Change(planned) => &planned.keys.parents,
            RowAction::Unchanged | RowAction::Refuse(_) => &[],
        }
    }
}

impl Statement<'_> {
    /// Changes the rows.
    pub(super) fn update_rows(
        &mut self,
        table: &Arc<Table>,
        changes: &[RowChange],
        mode: UpdateMode,
        refused: Refused,
    ) -> Result<UpdateOutcome> {
        if mode != UpdateMode::Ignore && refused.is_empty() && keeps_keys(table, changes)? {
            return self.update_in_place(table, changes, mode);
        }
        self.update_planned(table, changes, mode, refused)
    }

    /// Changes the rows by a plan for each of them.
    fn update_planned(
        &mut self,
        table: &Arc<Table>,
        changes: &[RowChange],
        mode: UpdateMode,
        mut refused: Refused,
    ) -> Result<UpdateOutcome> {
        let catalog = self.txn.db.catalog_of(table)?;
        let (constraints, referrers) = if self.txn.settings.foreign_key_checks {
            (constraints(&catalog, table), fk::referrers(&catalog, table))
        } else {
            (SmallVec::new(), Vec::new())
        };
        let mut steps = Vec::with_capacity(changes.len());
        for (n, change) in changes.iter().enumerate() {
            let step = match refusal(&mut refused, n) {
                Some(error) => RowAction::Refuse(error),
                None => plan_change(
                    table,
                    change,
                    mode,
                    &constraints,
                    &referrers,
                    &mut self.keys,
                )?,
            };
            let stop = matches!(step, RowAction::Refuse(_)) && mode != UpdateMode::Ignore;
            steps.push(step);
            if stop {
                break;
            }
        }
        self.lock_keys()?;
        self.hide_new_parents(&constraints, &steps)?;
        self.read_changed_removals(table, changes)?;
        self.find_followed(table, changes, &referrers, &mut steps)?;
        let mut done = UpdateOutcome::default();
        // Rows of this table that cascades of earlier rows have changed.
        let mut moved = CascadedRows::default();
        for (n, (mut step, change)) in steps.into_iter().zip(changes).enumerate() {
            let (mark, journal) = (self.txn.kv.mark(), self.keys.journal_position());
            let mut change = Cow::Borrowed(change);
            if !moved.is_empty()
                && let Some(now) = moved.reapply(self.txn.kv.as_mut(), table, &change)?
            {
                (change, step) = self.replan(table, now, n, mode, &constraints, &referrers)?;
            }
            let result = match step {
                RowAction::Unchanged => continue,
                RowAction::Refuse(e) => Err(e),
                RowAction::Change(planned) => {
                    self.change_row(table, &change, &planned, &constraints, &mut moved)
                }
            };
            match result {
                Ok(cascaded) => {
                    done.changed += 1;
                    done.cascaded += cascaded;
                }
                Err(e) if mode == UpdateMode::Ignore && e.ignorable() => {
                    self.txn.rollback_to(mark);
                    self.keys.undo_to(journal);
                    done.skipped.push((n, e));
                }
                Err(e) => return Err(e),
            }
        }
        self.push_counter(table, changes)?;
        Ok(done)
    }

    /// Changes rows for which the caller's locks are enough ([`keeps_keys`]).
    fn update_in_place(
        &mut self,
        table: &Table,
        changes: &[RowChange],
        mode: UpdateMode,
    ) -> Result<UpdateOutcome> {
        let mut done = UpdateOutcome::default();
        for change in changes {
            let old = change.old.row(table)?;
            if mode != UpdateMode::Rewrite && is_unchanged(&old, &change.new) {
                continue;
            }
            check_not_null(table, &change.new)?;
            self.write_changed(table, &change.key, old, &change.key, &change.new)?;
            done.changed += 1;
        }
        self.push_counter(table, changes)?;
        Ok(done)
    }

    /// Plans a row again that cascades of earlier rows have changed, and locks the keys it needs.
    fn replan(
        &mut self,
        table: &Arc<Table>,
        mut now: RowChange,
        n: usize,
        mode: UpdateMode,
        constraints: &[Constraint<'_>],
        referrers: &[Referrer],
    ) -> Result<(Cow<'static, RowChange>, RowAction)> {
        let allowed = if table.evaluates_expressions() {
            prepare_change(self.txn, table, &mut now, mode, n as u64 + 1)
        } else {
            Ok(())
        };
        let mut step = match allowed {
            Ok(()) => plan_change(table, &now, mode, constraints, referrers, &mut self.keys)?,
            Err(error) => RowAction::Refuse(error),
        };
        if let RowAction::Change(planned) = &mut step {
            planned.followed = planned.referenced;
        }
        self.lock_keys()?;
        Ok((Cow::Owned(now), step))
    }

    /// Marks the expired ones among newly referenced parents as absent.
    fn hide_new_parents(
        &mut self,
        constraints: &[Constraint<'_>],
        steps: &[RowAction],
    ) -> Result<()> {
        if !parents_expire(constraints) {
            return Ok(());
        }
        let parents = steps.iter().flat_map(RowAction::new_parents);
        let parents: Vec<_> = parents.copied().collect();
        self.hide_expired_parents(constraints, &parents)
    }

    /// Checks and writes one row and its referential actions.
    fn change_row(
        &mut self,
        table: &Arc<Table>,
        change: &RowChange,
        planned: &PlannedChange,
        constraints: &[Constraint<'_>],
        moved: &mut CascadedRows,
    ) -> Result<u64> {
        let old = change.old.row(table)?;
        if let Some((index, id)) = planned.keys.duplicate(&self.keys) {
            if planned.followed {
                self.check_restricted(table, change, index)?;
            }
            let key = self.keys.key(id);
            return Err(table.duplicate_of_key(index, change.new.as_slice(), key));
        }
        if let Some(fk) = planned.keys.missing_parent(&self.keys)
            && let Some(constraint) = constraints.get(fk)
        {
            return Err(Error::NoReferencedRow {
                constraint: fk::constraint_text(table, constraint.fk),
            });
        }
        if !planned.followed {
            self.write_changed(table, &change.key, old, &planned.primary, &change.new)?;
            return Ok(0);
        }
        let mut fx = Effects::of_update(table, change);
        self.expand(&mut fx)?;
        fx.simulate()?;
        let (new, primary) = match fx.rechecked_root(table, constraints, &self.keys)? {
            Some((new, primary)) => {
                self.txn.evaluator().check(table, &new)?;
                (new, primary)
            }
            None => (change.new.clone(), planned.primary.clone()),
        };
        self.write_changed(table, &change.key, old, &primary, &new)?;
        fx.note_cascaded(table.id, moved);
        self.apply(fx)
    }

    /// Fails if rows reference an old key of the row, up to the index in which its new key is a
    /// duplicate, and their constraint forbids the change. InnoDB changes index by index: it checks
    /// the references to the old entry before it inserts the new one, so that this error comes first.
    fn check_restricted(
        &mut self,
        table: &Arc<Table>,
        change: &RowChange,
        last: usize,
    ) -> Result<()> {
        let catalog = self.txn.db.catalog_of(table)?;
        let old = change.old.row(table)?;
        for referrer in fk::referrers(&catalog, table) {
            let Some((fk, at)) = referrer.parts() else {
                continue;
            };
            let restricts = matches!(fk.on_update, FkAction::NoAction | FkAction::Restrict);
            if !restricts
                || at.index > last
                || !referenced_change(&referrer, table, &old, &change.new)
            {
                continue;
            }
            let Some(start) = fk::child_prefix(&referrer.child, fk, table, at, &old) else {
                continue;
            };
            let end = prefix_end(&start);
            let spaces = referrer.child.prefix_spaces(fk.child_index, &start);
            let ranges: Vec<ScanRange<'_>> = spaces
                .into_iter()
                .map(|space| ScanRange {
                    space,
                    start: &start,
                    end: end.as_deref(),
                    reverse: false,
                })
                .collect();
            let found = self
                .txn
                .kv
                .scan(Read::CURRENT, &ranges, 1, &mut |_, _, _| {
                    ControlFlow::Break(())
                })?;
            if matches!(found, ScanEnd::Stopped { .. }) {
                return Err(Error::RowIsReferenced {
                    constraint: fk::constraint_text(&referrer.child, fk),
                });
            }
        }
        Ok(())
    }

    /// Finds rows with a changed referenced value that have no children, by one scan call (more
    /// only as children are found).
    fn find_followed(
        &mut self,
        table: &Arc<Table>,
        changes: &[RowChange],
        referrers: &[Referrer],
        steps: &mut [RowAction],
    ) -> Result<()> {
        let mut probes = Vec::new();
        for (n, (step, change)) in steps.iter_mut().zip(changes).enumerate() {
            let RowAction::Change(planned) = step else {
                continue;
            };
            if !planned.referenced {
                continue;
            }
            let old = change.old.row(table)?;
            for referrer in referrers {
                let Some((fk, at)) = referrer.parts() else {
                    continue;
                };
                if !referenced_change(referrer, table, &old, &change.new) {
                    continue;
                }
                if referrer.child.id == table.id {
                    planned.followed = true;
                    continue;
                }
                if let Some(prefix) = fk::child_prefix(&referrer.child, fk, table, at, &old) {
                    for space in referrer.child.prefix_spaces(fk.child_index, &prefix) {
                        probes.push((n, space, prefix_end(&prefix), prefix.clone()));
                    }
                }
            }
        }
        let ranges: Vec<ScanRange<'_>> = probes
            .iter()
            .map(|(_, space, end, start)| ScanRange {
                space: *space,
                start,
                end: end.as_deref(),
                reverse: false,
            })
            .collect();
        let mut from = 0;
        while let Some(rest @ [_, ..]) = ranges.get(from..) {
            let end =
                self.txn.kv.scan(
                    Read::CURRENT,
                    rest,
                    1,
                    &mut |_, _, _| ControlFlow::Break(()),
                )?;
            let ScanEnd::Stopped { range, .. } = end else {
                break;
            };
            if let Some((n, ..)) = probes.get(from + range)
                && let Some(RowAction::Change(planned)) = steps.get_mut(*n)
            {
                planned.followed = true;
            }
            from += range + 1;
        }
        Ok(())
    }

    /// Raises the auto-increment counter above stored values.
    fn push_counter(&mut self, table: &Table, changes: &[RowChange]) -> Result<()> {
        let Some(position) = table.auto_increment() else {
            return Ok(());
        };
        for change in changes {
            let old = change.old.row(table)?;
            if let Some(new) = change.new.get(position)
                && new.as_ref() != old.get(position)
            {
                self.txn
                    .db
                    .counters
                    .raise_above(self.txn.db.engine().as_ref(), table, new)?;
            }
        }
        Ok(())
    }
}

/// Whether all values of a row stay the same.
fn is_unchanged(old: &RowRef<'_>, new: &[Value]) -> bool {
    let mut new = new.iter().enumerate();
    new.all(|(n, value)| value.as_ref() == old.get(n))
}

/// Whether the changes need no other locks or checks of keys than the caller's: the table has no foreign keys, and each row
/// keeps its place and its unique keys.
fn keeps_keys(table: &Table, changes: &[RowChange]) -> Result<bool> {
    let is_alone = table.foreign_keys.is_empty() && table.referenced_by.is_empty();
    if !is_alone || table.partitioning.is_some() || table.indexes.iter().any(Index::is_full_text) {
        return Ok(false);
    }
    let unique = &table.derived().unique_indexes;
    let primary = (!table.hidden_key).then_some(0);
    for change in changes {
        let old = change.old.row(table)?;
        let keeps = |position: usize| {
            let index = table.maintained_index(position);
            index.is_none_or(|index| !is_key_changed(&index.parts, &old, &change.new))
        };
        let mut keys = primary.into_iter().chain(unique.iter().copied());
        if !keys.all(keeps) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn plan_change(
    table: &Table,
    change: &RowChange,
    mode: UpdateMode,
    constraints: &[Constraint<'_>],
    referrers: &[Referrer],
    keys: &mut KeySet,
) -> Result<RowAction> {
    let old = change.old.row(table)?;
    if mode != UpdateMode::Rewrite && is_unchanged(&old, &change.new) {
        return Ok(RowAction::Unchanged);
    }
    if let Err(e) = check_not_null(table, &change.new) {
        return Ok(RowAction::Refuse(e));
    }
    let primary = match table.changed_key(&change.key, &change.new) {
        Ok(primary) => primary,
        Err(e) => return Ok(RowAction::Refuse(e)),
    };
    let gathered = gather_change(
        table,
        &change.key,
        &old,
        &primary,
        &change.new,
        constraints,
        keys,
    );
    let mut referenced = false;
    for referrer in referrers {
        if referenced_change(referrer, table, &old, &change.new) {
            referenced = true;
            // A change that keeps the key's weights ('a' to 'A') also locks the key, because its
            // value changes.
            lock_referenced(table, referrer, &change.key, &old, keys);
        }
    }
    Ok(RowAction::Change(Box::new(PlannedChange {
        primary,
        keys: gathered,
        referenced,
        followed: false,
    })))
}
