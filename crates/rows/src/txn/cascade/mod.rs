//! Referential actions of deleted rows and changed referenced values.
//!
//! There are three steps. *Expand* finds, level by level, the children of all rows of the level in
//! one scan call over the child indexes, in the newest committed state. A second call locks and
//! rereads those that CASCADE or SET NULL changes, and skips those that no longer reference the
//! parent; a third locks the keys that they remove or create. *Simulate* walks the graph in memory in
//! InnoDB's order: depth first, the statement's rows in their order, constraints in order of their
//! names, children in order of the child index; so RESTRICT refuses the same statements as in
//! MySQL.
//! *Apply* writes, deletions first.
//!
//! Invariants:
//! 1. A row is in [`Effects`] at most once, by (table, primary key): cycles
//!    end, two paths to one row are handled once, and DELETE wins over SET
//!    NULL and over updates.
//! 2. When a level's children are scanned, every referenced key that the level removes is locked
//!    exclusively. The parent check of an uncommitted child can no longer be granted, so the scan
//!    does not wait for such children.
//! 3. A cascade of updates may return to a table that it is updating, and to the row at which it
//!    began, which InnoDB refuses. It terminates, because a column of a row changes at most once: a
//!    row whose column was changed no longer references the old value.
//! 4. Depth is bounded only by memory; there is no recursion.
//!
//! Rejected: cascading row by row, depth first, with engine calls (a round trip per row); checking
//! RESTRICT only at the end (accepts what MySQL refuses).

mod expand;
mod simulate;

use super::Statement;
use super::firing::{FireTriggers, Firing, has_triggers};
use super::gather::{Constraint, NO_KEY, check_not_null};
use super::key_changes::{KeyChanges, referenced_change};
use super::keyset::{KeyId, KeySet};
use super::lookup::complete_rows;
use super::reapply::CascadedRows;
use super::update::RowChange;
use crate::catalog::Catalog;
use crate::definition::{FkAction, FkParent, ForeignKey, TableId};
use crate::fk::{self, Referrer};
use crate::overflow::OverflowFetch;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use crate::triggers::{TriggerEvent, TriggerTime};
use crate::{Error, Result};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt, fast::FixedState};
use hashbrown::HashTable;
use porpoise_kv::{Read, SpaceId, prefix_end};
use porpoise_types::Value;
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A row to be deleted or changed.
struct Change {
    table: Arc<Table>,
    primary: Vec<u8>,
    old: RowBuf,
    /// New values; `None` if it is deleted.
    new: Option<Vec<Value>>,
    /// Constraints (position in the table) by which a cascade changed it.
    via: SmallVec<[usize; 2]>,
    /// Whether the statement itself names the row.
    is_root: bool,
    /// Whether the row is in the level to be expanded next.
    is_queued: bool,
    /// Changes of its keys; `None` for a row that is deleted.
    keys: Option<Box<KeyChanges>>,
    /// New primary key, if it changes.
    moves_to: Option<Box<[u8]>>,
    /// Consequences of its deletion or change, in order.
    edges: Vec<Edge>,
}

/// Effect of a constraint on a child.
struct Edge {
    /// Whether it follows from the parent's deletion, not from its change.
    by_delete: bool,
    referrer: Arc<Referrer>,
    child: Child,
}

enum Child {
    /// The child must be deleted or reference another parent when the edge is walked.
    Restrict(Vec<u8>),
    /// The child is deleted; position in the list.
    Delete(usize),
    /// The child's columns get the new value or NULL; position in the list.
    Update(usize),
}

/// Positions in a list of changes, by row: the keys themselves are in the list.
#[derive(Default)]
struct RowMap {
    at: HashTable<u32>,
}

impl RowMap {
    fn hash(table: TableId, primary: &[u8]) -> u64 {
        FixedState::with_seed(0x7f4a_7c15).hash_one((table, primary))
    }

    fn find(&self, list: &[Change], table: TableId, primary: &[u8]) -> Option<usize> {
        let is = |at: &u32| {
            let change = list.get(*at as usize);
            change.is_some_and(|c| c.table.id == table && c.primary == primary)
        };
        let found = self.at.find(Self::hash(table, primary), is)?;
        Some(*found as usize)
    }

    /// Adds the last change of the list; no statement changes 2^32 rows.
    fn add_last(&mut self, list: &[Change]) {
        let (Some(last), Ok(at)) = (list.last(), u32::try_from(list.len().saturating_sub(1)))
        else {
            return;
        };
        let rehash = |at: &u32| {
            let change = list.get(*at as usize);
            change.map_or(0, |c| Self::hash(c.table.id, &c.primary))
        };
        let hash = Self::hash(last.table.id, &last.primary);
        self.at.insert_unique(hash, at, rehash);
    }
}

/// A statement's rows, and all rows that its referential actions change.
pub(crate) struct Effects {
    list: Vec<Change>,
    by_row: RowMap,
    roots: usize,
    referrers: HashMap<TableId, Vec<Arc<Referrer>>>,
    /// Tables whose rows may change, computed at the first RESTRICT.
    touchable: Option<HashSet<TableId>>,
}

/// A range of a child index to be scanned.
struct Probe {
    parent: usize,
    referrer: Arc<Referrer>,
    action: FkAction,
    by_delete: bool,
    space: SpaceId,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// Whether a single child is enough to refuse the change.
    is_fatal: bool,
}

impl Change {
    fn new(table: &Arc<Table>, primary: Vec<u8>, old: RowBuf) -> Change {
        Change {
            table: table.clone(),
            moves_to: None,
            primary,
            old,
            new: None,
            via: SmallVec::new(),
            is_root: false,
            is_queued: false,
            keys: None,
            edges: Vec::new(),
        }
    }

    /// The primary key after the change.
    fn new_primary(&self) -> &[u8] {
        self.moves_to.as_deref().unwrap_or(&self.primary)
    }

    /// Adds an edge. Most rows have few edges, so capacity grows slowly.
    fn add_edge(&mut self, edge: Edge) {
        if self.edges.capacity() == 0 {
            self.edges.reserve_exact(1);
        }
        self.edges.push(edge);
    }

    /// Returns the index in which the new value is a duplicate, and the key.
    fn duplicate(&self, keys: &KeySet) -> Option<(usize, KeyId)> {
        self.keys.as_ref()?.duplicate(keys)
    }

    /// Returns a constraint whose parent is missing, except those by which a cascade changed the
    /// row.
    fn missing_parent(&self, keys: &KeySet) -> Option<usize> {
        let own = self.keys.as_ref()?;
        let missing = |(fk, id): &&(usize, KeyId)| {
            !self.via.contains(fk)
                && *id != NO_KEY
                && !keys.present(*id)
                && !own.created.iter().any(|(_, c)| c == id)
        };
        own.parents.iter().find(missing).map(|(fk, _)| *fk)
    }

    /// Whether one of these columns has already been changed to another value.
    fn is_already_changed(&self, news: &[(usize, Value)]) -> bool {
        let (Some(new), Ok(old)) = (&self.new, self.old.row(&self.table)) else {
            return false;
        };
        news.iter().any(|(column, value)| {
            let now = new.get(*column);
            now.is_some_and(|now| now.as_ref() != old.get(*column) && now != value)
        })
    }
}

impl Effects {
    fn of(changes: Vec<Change>) -> Effects {
        let mut by_row = RowMap::default();
        let mut list: Vec<Change> = Vec::with_capacity(changes.len());
        for mut change in changes {
            change.is_root = true;
            if by_row
                .find(&list, change.table.id, &change.primary)
                .is_none()
            {
                list.push(change);
                by_row.add_last(&list);
            }
        }
        Effects {
            roots: list.len(),
            list,
            by_row,
            referrers: HashMap::new(),
            touchable: None,
        }
    }

    /// The effects of deleting rows of a table, in that order.
    pub(crate) fn of_delete(table: &Arc<Table>, rows: Vec<(Vec<u8>, RowBuf)>) -> Effects {
        let rows = rows.into_iter();
        Effects::of(rows.map(|(p, old)| Change::new(table, p, old)).collect())
    }

    /// The effects of changing one row.
    pub(crate) fn of_update(table: &Arc<Table>, change: &RowChange) -> Effects {
        let mut root = Change::new(table, change.key.clone(), change.old.clone());
        root.new = Some(change.new.clone());
        Effects::of(vec![root])
    }

    /// Returns the new values and primary key of the updated root row if its cascade has changed
    /// it, after checking them again.
    pub(crate) fn rechecked_root(
        &self,
        table: &Table,
        constraints: &[Constraint<'_>],
        keys: &KeySet,
    ) -> Result<Option<(Vec<Value>, Vec<u8>)>> {
        let Some(root) = self.list.first().filter(|r| !r.via.is_empty()) else {
            return Ok(None);
        };
        let Some(new) = &root.new else {
            return Ok(None);
        };
        if let Some((index, id)) = root.duplicate(keys) {
            return Err(table.duplicate_of_key(index, new.as_slice(), keys.key(id)));
        }
        if let Some(fk) = root.missing_parent(keys)
            && let Some(constraint) = constraints.get(fk)
        {
            return Err(Error::NoReferencedRow {
                constraint: fk::constraint_text(table, constraint.fk),
            });
        }
        Ok(Some((new.clone(), root.new_primary().to_vec())))
    }

    /// Records the new primary keys of a table's rows that the cascade changes.
    pub(crate) fn note_cascaded(&self, table: TableId, moved: &mut CascadedRows) {
        for change in &self.list {
            if change.is_root || change.table.id != table || change.new.is_none() {
                continue;
            }
            moved.note(&change.primary, change.new_primary());
        }
    }

    /// Number of distinct rows that the statement names.
    pub(crate) fn roots(&self) -> usize {
        self.roots
    }

    fn referrers_of(&mut self, catalog: &Catalog, table: &Arc<Table>) -> &[Arc<Referrer>] {
        self.referrers.entry(table.id).or_insert_with(|| {
            let all = fk::referrers(catalog, table);
            all.into_iter().map(Arc::new).collect()
        })
    }

    /// Whether this statement may delete or change rows of a table.
    fn touchable(&mut self, catalog: &Catalog, table: TableId) -> bool {
        if self.touchable.is_none() {
            let mut seen: HashSet<TableId> = HashSet::new();
            let mut todo: Vec<TableId> = self.list.iter().map(|c| c.table.id).collect();
            while let Some(id) = todo.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let Some(parent) = catalog.table_by_id(id) else {
                    continue;
                };
                for referrer in fk::referrers(catalog, parent) {
                    let follows = |a| matches!(a, FkAction::Cascade | FkAction::SetNull);
                    if let Some((fk, _)) = referrer.parts()
                        && (follows(fk.on_delete) || follows(fk.on_update))
                    {
                        todo.push(referrer.child.id);
                    }
                }
            }
            self.touchable = Some(seen);
        }
        self.touchable.as_ref().is_some_and(|t| t.contains(&table))
    }

    /// Appends the ranges that contain the children of one change.
    fn probes_of(&mut self, catalog: &Catalog, parent: usize, out: &mut Vec<Probe>) -> Result<()> {
        let Some(change) = self.list.get(parent) else {
            return Ok(());
        };
        let table = change.table.clone();
        let referrers: SmallVec<[Arc<Referrer>; 4]> =
            self.referrers_of(catalog, &table).iter().cloned().collect();
        for referrer in referrers {
            let (Some((fk, at)), Some(change)) = (referrer.parts(), self.list.get(parent)) else {
                continue;
            };
            let old = change.old.row(&change.table)?;
            let mut action = fk.on_delete;
            if let Some(new) = &change.new {
                if !referenced_change(&referrer, &change.table, &old, new) {
                    continue;
                }
                action = fk.on_update;
            }
            let by_delete = change.new.is_none();
            let prefix = fk::child_prefix(&referrer.child, fk, &change.table, at, &old);
            let Some(start) = prefix else { continue };
            let restrict = matches!(action, FkAction::NoAction | FkAction::Restrict);
            let fatal = restrict && !self.touchable(catalog, referrer.child.id);
            for space in referrer.child.prefix_spaces(fk.child_index, &start) {
                out.push(Probe {
                    parent,
                    action,
                    by_delete,
                    space,
                    end: prefix_end(&start),
                    start: start.clone(),
                    is_fatal: fatal,
                    referrer: referrer.clone(),
                });
            }
        }
        Ok(())
    }

    /// Applies a parent's change to a locked child. Returns the child's position in the list if it
    /// must be expanded.
    fn apply_to_child(
        &mut self,
        probe: &Probe,
        primary: &[u8],
        row: &RowRef<'_>,
        bytes: &[u8],
    ) -> Option<usize> {
        let (fk, at) = probe.referrer.parts()?;
        let child = &probe.referrer.child;
        let parent = self.list.get(probe.parent)?;
        let known = self.by_row.find(&self.list, child.id, primary);
        let deletes = probe.by_delete && probe.action == FkAction::Cascade;
        let news = if deletes {
            SmallVec::new()
        } else {
            child_values(probe, fk, at, parent)?
        };
        let at = known.unwrap_or(self.list.len());
        if known.is_none() {
            let mut change = Change::new(child, primary.to_vec(), RowBuf::from(bytes.to_vec()));
            if !deletes {
                change.new = Some(row.values());
            }
            self.list.push(change);
            self.by_row.add_last(&self.list);
        }
        let change = self.list.get_mut(at)?;
        if !deletes && change.is_already_changed(&news) {
            return None;
        }
        let mut again = known.is_none();
        match &mut change.new {
            None => {}
            Some(_) if deletes => {
                change.new = None;
                again = true;
            }
            Some(new) => {
                for (column, value) in news {
                    if let Some(place) = new.get_mut(column)
                        && *place != value
                    {
                        *place = value;
                        again = true;
                    }
                }
                if !change.via.contains(&probe.referrer.fk) {
                    change.via.push(probe.referrer.fk);
                }
            }
        }
        let edge = Edge {
            by_delete: probe.by_delete,
            referrer: probe.referrer.clone(),
            child: if deletes {
                Child::Delete(at)
            } else {
                Child::Update(at)
            },
        };
        self.list.get_mut(probe.parent)?.add_edge(edge);
        let change = self.list.get_mut(at)?;
        let queue = again && !change.is_queued;
        change.is_queued |= queue;
        queue.then_some(at)
    }
}

/// Returns the new values of a constraint's columns in an updated child.
fn child_values(
    probe: &Probe,
    fk: &ForeignKey,
    at: &FkParent,
    parent: &Change,
) -> Option<SmallVec<[(usize, Value); 4]>> {
    let mut news = SmallVec::new();
    for column in &fk.columns {
        let value = match probe.action {
            FkAction::Cascade => {
                let from = fk::parent_column(fk, &parent.table, at, *column)?;
                parent.new.as_ref()?.get(from)?.clone()
            }
            _ => Value::Null,
        };
        news.push((*column, value));
    }
    Some(news)
}

impl Statement<'_> {
    /// Writes all changes except an updated root, which its statement writes, and fires the
    /// triggers of the changed children: BEFORE those of all before the first is written, AFTER
    /// those after the last. Returns the number of rows without the roots.
    pub(crate) fn apply(&mut self, mut fx: Effects) -> Result<u64> {
        let (mut deleted, mut updated) = (0, 0);
        let fires = self.fires_any(&fx);
        if fires {
            self.fire_children(&mut fx, TriggerTime::Before)?;
        }
        for change in &fx.list {
            if change.new.is_none() {
                let old = change.old.row(&change.table)?;
                self.write_deletion(&change.table, &change.primary, old)?;
                deleted += u64::from(!change.is_root);
            }
        }
        for change in &fx.list {
            let (Some(new), false) = (&change.new, change.is_root) else {
                continue;
            };
            let table = &change.table;
            let old = change.old.row(table)?;
            if let Some((index, _)) = change.duplicate(&self.keys) {
                return Err(cascade_duplicate(&fx, change, index));
            }
            if let Some(fk) = change.missing_parent(&self.keys)
                && let Some(fk) = table.foreign_keys.get(fk)
            {
                return Err(Error::NoReferencedRow {
                    constraint: fk::constraint_text(table, fk),
                });
            }
            if table.evaluates_expressions() {
                check_not_null(table, new)?;
                self.txn.evaluator().check(table, new)?;
            }
            self.write_changed(table, &change.primary, old, change.new_primary(), new)?;
            updated += 1;
        }
        if fires {
            self.fire_children(&mut fx, TriggerTime::After)?;
        }
        self.txn.db.fk_counters.add(deleted, updated);
        Ok(deleted + updated)
    }

    /// Whether a changed child has triggers that fire.
    fn fires_any(&self, fx: &Effects) -> bool {
        let mut children = fx.list.iter().filter(|change| !change.is_root);
        self.txn.settings.cascades_fire && children.any(|change| !change.table.triggers.is_empty())
    }

    /// Fires the triggers of one time for all changed children, in the order of the changes.
    fn fire_children(&mut self, fx: &mut Effects, time: TriggerTime) -> Result<()> {
        let own;
        let runner = match self.runner {
            Some(runner) => runner,
            None => {
                own = self.txn.db.shared_runner()?;
                &*own as &dyn FireTriggers
            }
        };
        let mut busy: Vec<TableId> = fx.list.iter().map(|change| change.table.id).collect();
        busy.sort_unstable();
        busy.dedup();
        for change in fx.list.iter_mut().filter(|change| !change.is_root) {
            let event = if change.new.is_some() {
                TriggerEvent::Update
            } else {
                TriggerEvent::Delete
            };
            let table = &change.table;
            if !has_triggers(table, time, event) {
                continue;
            }
            let mut rows = [(change.primary.clone(), change.old.clone())];
            let kv = self.txn.kv.as_mut();
            complete_rows(kv, table, &mut rows, OverflowFetch::All, Read::CURRENT)?;
            let [(_, old)] = &rows;
            let old = old.row(table)?.values();
            let mut new = change.new.clone().unwrap_or_default();
            let mut firing = Firing {
                table,
                time,
                event,
                old: &old,
                new: &mut new,
            };
            self.txn.fire(runner, &busy, &mut firing)?;
            if time == TriggerTime::Before
                && let Some(change) = &mut change.new
            {
                check_keys_kept(table, change, &new)?;
                *change = new;
            }
        }
        Ok(())
    }
}

/// Error 1362 if a BEFORE trigger has changed a column of an index: the keys of the row are locked
/// and checked already.
fn check_keys_kept(table: &Table, before: &[Value], after: &[Value]) -> Result<()> {
    let indexes = table.maintained_indexes();
    let parts = indexes.flat_map(|(_, index)| &index.parts);
    let changed = |column: &usize| before.get(*column) != after.get(*column);
    match parts.map(|part| part.column).find(changed) {
        None => Ok(()),
        Some(at) => {
            let name = table.columns.get(at).map_or("", |c| c.name.as_str());
            let text = format!(
                "Updating of NEW row is not allowed in a trigger fired by a foreign key action: \
                 column '{name}' of table '{}' is indexed",
                table.name
            );
            Err(Error::refused(1362, "HY000", text))
        }
    }
}

fn cascade_duplicate(fx: &Effects, change: &Change, index: usize) -> Error {
    let root = fx.list.first();
    let key = change.table.maintained_index(index);
    Error::CascadeDuplicate {
        parent: root.map(|r| r.table.name.clone()).unwrap_or_default(),
        entry: root
            .and_then(|r| Some((r.old.row(&r.table).ok()?, &r.table)))
            .map(|(old, table)| table.entry_text(0, &old))
            .unwrap_or_default(),
        child: change.table.name.clone(),
        key: key.map(|k| k.name.clone()).unwrap_or_default(),
    }
}
