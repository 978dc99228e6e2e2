//! The expand step: finds, locks and rereads the children of a level of rows.
//!
//! Invariants:
//! 1. A level costs at most three engine calls: a scan of all child ranges, a lock of the affected
//!    children, and a lock of the keys that they remove or create. Large results are processed in
//!    batches.
//! 2. Children under RESTRICT are not locked: their parent's lock excludes new ones, and if nothing
//!    in the statement could remove them, one is enough.

use super::super::Statement;
use super::super::delete::gather_deleted;
use super::super::expressions::fetch_overflow_values;
use super::super::gather::constraints;
use super::super::key_changes::{gather_change, lock_referenced, referenced_change};
use super::super::keyset::KeyId;
use super::{Child, Edge, Effects, Probe};
use crate::Result;
use crate::catalog::Catalog;
use crate::definition::FkAction;
use crate::fk::{self, Referrer};
use crate::row::RowRef;
use porpoise_kv::{LockMode, Read, ScanEnd, ScanRange};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Children taken from one scan call.
const BATCH: usize = 4096;

impl Statement<'_> {
    /// Finds and locks all consequences of the changes in `fx`, whose own keys are locked already.
    pub(crate) fn expand(&mut self, fx: &mut Effects) -> Result<()> {
        let Some(root) = fx.list.first().map(|root| root.table.clone()) else {
            return Ok(());
        };
        let catalog = self.txn.db.catalog_of(&root)?;
        let mut level: Vec<usize> = (0..fx.list.len()).collect();
        while !level.is_empty() {
            let mut probes = Vec::new();
            for parent in &level {
                if let Some(change) = fx.list.get_mut(*parent) {
                    change.is_queued = false;
                }
                fx.probes_of(&catalog, *parent, &mut probes)?;
            }
            let found = self.scan_children(&probes)?;
            level = self.lock_and_add_children(fx, &probes, found)?;
            self.lock_changes(fx, &level, &catalog)?;
        }
        Ok(())
    }

    /// Scans the children in all ranges. Returns probe and primary key, in order.
    fn scan_children(&mut self, probes: &[Probe]) -> Result<Vec<(usize, Vec<u8>)>> {
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut from = 0;
        let mut resume: Option<Vec<u8>> = None;
        while let Some(rest @ [_, ..]) = probes.get(from..) {
            self.txn.check_cancel()?;
            let ranges: Vec<ScanRange<'_>> = rest
                .iter()
                .enumerate()
                .map(|(n, p)| ScanRange {
                    space: p.space,
                    start: resume.as_deref().filter(|_| n == 0).unwrap_or(&p.start),
                    end: p.end.as_deref(),
                    reverse: false,
                })
                .collect();
            let mut failure = None;
            let end = self
                .txn
                .kv
                .scan(Read::CURRENT, &ranges, BATCH, &mut |n, key, value| {
                    let Some(probe) = rest.get(n) else {
                        return ControlFlow::Break(());
                    };
                    match child_primary(probe, key, value) {
                        Ok(primary) => found.push((from + n, primary.to_vec())),
                        Err(e) => {
                            failure = Some(e);
                            return ControlFlow::Break(());
                        }
                    }
                    if probe.is_fatal {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
            if let Some(e) = failure {
                return Err(e);
            }
            let ScanEnd::Stopped { range, mut key } = end else {
                break;
            };
            if rest.get(range).is_some_and(|p| p.is_fatal) {
                from += range + 1;
                resume = None;
            } else {
                from += range;
                key.push(0);
                resume = Some(key);
            }
        }
        Ok(found)
    }

    /// Locks the affected children, rereads them, and adds those that still reference their parent.
    /// Returns the positions to be expanded next.
    fn lock_and_add_children(
        &mut self,
        fx: &mut Effects,
        probes: &[Probe],
        found: Vec<(usize, Vec<u8>)>,
    ) -> Result<Vec<usize>> {
        self.keys.keep_values = true;
        let mut ids: Vec<KeyId> = Vec::with_capacity(found.len());
        for (n, primary) in &found {
            let id = probes.get(*n).and_then(|probe| {
                let mode = child_lock(probe)?;
                let child = &probe.referrer.child;
                let id = self.keys.add(child.space(0, primary), primary, mode);
                // An earlier row of the statement may have changed it since.
                self.keys.request_again(id);
                Some(id)
            });
            ids.push(id.unwrap_or(KeyId::MAX));
        }
        self.lock_keys()?;
        let mut next = Vec::new();
        let (mut named, mut named_by_parent) = (Vec::new(), Vec::new());
        for ((n, primary), id) in found.into_iter().zip(ids) {
            let Some(probe) = probes.get(n) else { continue };
            self.txn.check_cancel()?;
            if id == KeyId::MAX {
                let edge = Edge {
                    by_delete: probe.by_delete,
                    referrer: probe.referrer.clone(),
                    child: Child::Restrict(primary),
                };
                if let Some(parent) = fx.list.get_mut(probe.parent) {
                    parent.add_edge(edge);
                }
                continue;
            }
            let child = &probe.referrer.child;
            // This cascade's own changes are not written yet.
            let known = fx.by_row.find(&fx.list, child.id, &primary);
            let bytes: Vec<u8> = match known.and_then(|at| fx.list.get(at)) {
                Some(change) => change.old.bytes().to_vec(),
                None => match self.keys.value(id) {
                    Some(bytes) => bytes.to_vec(),
                    None => continue,
                },
            };
            let row = RowRef::new(child, &bytes)?;
            let (Some((fk, at)), Some(parent)) =
                (probe.referrer.parts(), fx.list.get(probe.parent))
            else {
                continue;
            };
            named.clear();
            named_by_parent.clear();
            let null = fk::append_parent_key(&parent.table, fk, at, &row, &mut named);
            if let Some(index) = parent.table.indexes.get(at.index) {
                let old = parent.old.row(&parent.table)?;
                index.append_parts(&parent.table, &old, &mut named_by_parent);
            }
            if null || named != named_by_parent {
                continue;
            }
            next.extend(fx.apply_to_child(probe, &primary, &row, &bytes));
        }
        Ok(next)
    }

    /// Locks the keys that changes remove or create, and the parents of the other constraints that
    /// they reference now.
    fn lock_changes(&mut self, fx: &mut Effects, level: &[usize], catalog: &Catalog) -> Result<()> {
        for at in level {
            self.txn.check_cancel()?;
            let Some(table) = fx.list.get(*at).map(|c| c.table.clone()) else {
                continue;
            };
            let referrers: SmallVec<[Arc<Referrer>; 4]> =
                fx.referrers_of(catalog, &table).iter().cloned().collect();
            let Some(change) = fx.list.get_mut(*at) else {
                continue;
            };
            if let Some(new) = &mut change.new
                && table.evaluates_expressions()
            {
                let kv = self.txn.kv.as_mut();
                fetch_overflow_values(kv, &table, &change.primary, &mut change.old, new)?;
                self.txn.evaluator().generate(&table, new, 1)?;
            }
            let old = change.old.row(&table)?;
            let Some(new) = &change.new else {
                gather_deleted(&table, &old, &mut self.keys);
                continue;
            };
            let constraints = constraints(catalog, &table);
            let new_primary = table.changed_key(&change.primary, new)?;
            let gathered = gather_change(
                &table,
                &change.primary,
                &old,
                &new_primary,
                new,
                &constraints,
                &mut self.keys,
            );
            change.keys = Some(Box::new(gathered));
            let moves = new_primary != change.primary;
            change.moves_to = moves.then(|| new_primary.into_boxed_slice());
            for referrer in referrers {
                if referenced_change(&referrer, &table, &old, new) {
                    lock_referenced(&table, &referrer, &change.primary, &old, &mut self.keys);
                }
            }
        }
        self.lock_keys()
    }
}

/// Extracts the child's primary key from an entry of its index.
fn child_primary<'a>(probe: &Probe, key: &'a [u8], value: &'a [u8]) -> Result<&'a [u8]> {
    let child = &probe.referrer.child;
    let position = child.foreign_keys.get(probe.referrer.fk);
    let position = position.map_or(0, |fk| fk.child_index);
    match child.indexes.get(position) {
        Some(index) if position > 0 => index.primary_of(key, value),
        _ => Ok(key),
    }
}

/// Lock mode for a child; none under RESTRICT.
fn child_lock(probe: &Probe) -> Option<LockMode> {
    let (fk, _) = probe.referrer.parts()?;
    match (probe.action, probe.by_delete) {
        (FkAction::NoAction | FkAction::Restrict, _) => None,
        (FkAction::Cascade, true) => Some(LockMode::Exclusive),
        _ => {
            let primary = probe.referrer.child.indexes.first()?;
            let moves = primary.parts.iter().any(|p| fk.columns.contains(&p.column));
            Some(if moves {
                LockMode::Exclusive
            } else {
                LockMode::Update
            })
        }
    }
}
