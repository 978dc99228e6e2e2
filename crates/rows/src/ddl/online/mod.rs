//! Online schema change: indexes are added and dropped while readers and writers of the table go on.
//!
//! The algorithm is that of F1 (Rae et al., "Online, Asynchronous Schema Change in F1", VLDB 2013). A
//! change is a sequence of catalog versions. Two transactions that use adjacent versions at the same
//! time leave rows and index entries consistent, so no transaction has to be kept away; before the
//! next version is published, the change waits until none uses the version before the present one.
//!
//! ```text
//! ADD INDEX     absent -> DeleteOnly -> Building -> (backfill) -> Enforced (unique only) -> Public
//! DROP INDEX    Public -> Enforced -> DeleteOnly -> absent
//! ```
//!
//! * `DeleteOnly` before `Building`: a writer that does not know the index deletes a row and leaves
//!   its entry. So entries are only added when every writer removes them.
//! * The backfill reads rows in small transactions. Each locks its rows shared, without waiting, and
//!   adds their entries. A row that is locked by another transaction follows alone.
//! * A duplicate in a unique index that is being built is not the writer's fault. The writer records
//!   it in the space [`TableDef::duplicates`], in its own transaction, and goes on. A committed record
//!   ends the change (1062), as does a duplicate that the backfill finds.
//! * `Enforced` closes the gap between the last look at that space and `Public`: from this version on
//!   writers refuse duplicates, and when none uses `Building` any more, no record can follow.
//! * Dropped indexes stay `Enforced` while a transaction may read them as public.
//!
//! All clauses of a statement take effect by one catalog version, in which the new indexes become
//! public, and the dropped ones cease to be. What precedes it can be undone, what follows it is only
//! cleaned up.
//!
//! Invariants:
//! 1. Indexes in [`TableDef::changing`] are read by nobody. After a crash they are removed when the
//!    database is opened ([`Db::remove_unfinished_changes`]), whether they were added or dropped; the
//!    same is done before the next change of the table.
//! 2. At most two adjacent versions of the table are in use: [`Db::wait_for_older_users`] is called
//!    after each version that adds or removes a duty of writers.
//! 3. The change holds no lock on a row while it waits for another.
//! 4. One change at a time: a barrier [`Exclusion::Definitions`] excludes other definition statements
//!    of the table and LOCK TABLES, but neither readers nor writers.
//! 5. Spaces are dropped when no transaction can write to them any more ([`UnusedSpaces`]).
//!
//! Rejected: a log of the changes that arrive during the build, replayed under an exclusive lock at
//! its end (InnoDB): it is not transactional across servers, has a size limit, and ends in a stall.
//! Refusing duplicates to writers during the build: a change that fails in the end would have failed
//! statements that are correct without it.

mod backfill;

use super::alter::{self, LockLevel, Plan};
use super::{AlterOp, DdlCx, DdlOutcome, metadata_lock_error};
use crate::catalog::Table;
use crate::db::{Db, UnusedSpaces};
use crate::definition::{Index, IndexState, TableDef, TableId};
use crate::error::{Error, Result};
use crate::metadata_lock::{Exclusion, MetadataBarrier, MetadataLockError};
use crate::progress::Stage;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{self as kv, CommitPosition, Read, ScanRange, SpaceId, SpaceSpec, TxnOptions};
use porpoise_types::CastCx;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of rows up to which a table that is not in use is changed under a barrier: that takes less
/// time than the commits of the states.
const SMALL_TABLE_ROWS: u64 = 2000;

/// Longest wait for the barrier of a small table, during which new users of the table wait, too.
const BRIEF_WAIT: Duration = Duration::from_millis(20);

/// Whether clauses only add, drop and describe indexes, so that the change may be an online one.
pub(super) fn changes_only_indexes(ops: &[AlterOp]) -> bool {
    let may_be_online = |op: &AlterOp| match op {
        AlterOp::AddIndex(spec) => matches!(
            spec.kind,
            crate::definition::IndexKind::Plain | crate::definition::IndexKind::Unique
        ),
        AlterOp::DropIndex(_)
        | AlterOp::RenameIndex(..)
        | AlterOp::SetIndexVisible(..)
        | AlterOp::SetComment(_)
        | AlterOp::Algorithm(super::Algorithm::Inplace | super::Algorithm::Instant)
        | AlterOp::Lock(LockLevel::None) => true,
        _ => false,
    };
    let changes = |op: &AlterOp| matches!(op, AlterOp::AddIndex(_) | AlterOp::DropIndex(_));
    ops.iter().all(may_be_online) && ops.iter().any(changes)
}

/// The indexes of `a` that `b` does not have.
fn missing_indexes<'a>(a: &'a TableDef, b: &'a TableDef) -> impl Iterator<Item = &'a Index> {
    let missing = |index: &&Index| b.indexes.iter().all(|other| other.id != index.id);
    a.indexes.iter().filter(missing)
}

/// Whether the work of a plan is to build and drop indexes, and no other.
fn is_online(before: &TableDef, plan: &Plan) -> bool {
    let full_text = |index: &Index| index.is_full_text();
    !plan.rewrite
        && !plan.changes_layout
        && plan.not_null.is_empty()
        && plan.validate.is_empty()
        && !plan.validates_checks
        && !missing_indexes(before, &plan.table).any(full_text)
        && !missing_indexes(&plan.table, before).any(full_text)
        && !(plan.table.may_overflow() && plan.table.overflow_spaces.is_empty())
}

/// An online change of one table.
struct Change<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    table: TableId,
}

impl Change<'_> {
    /// Publishes a version of the table.
    fn publish(&self, change: impl FnOnce(&mut TableDef, u64)) -> Result<CommitPosition> {
        self.db.change_catalog_online(self.cx, |draft| {
            let version = draft.catalog.version + 1;
            let changed = draft.edit(self.table, |table| change(table, version));
            changed.ok_or(Error::DefinitionChanged)
        })
    }

    /// Publishes the indexes of the change in a state, and waits until no transaction uses the table
    /// by an older version.
    fn enter(&self, state: IndexState) -> Result<()> {
        self.publish(|table, _| {
            for index in &mut table.changing {
                index.state = state;
            }
        })?;
        self.db.wait_for_older_users(self.cx, self.table)
    }

    fn present(&self) -> Result<Arc<Table>> {
        let catalog = self.db.catalog();
        let table = catalog.table_by_id(self.table).cloned();
        table.ok_or(Error::DefinitionChanged)
    }

    /// Takes new indexes from absent to complete.
    fn build(&self, indexes: Vec<Index>, duplicates: Option<SpaceId>) -> Result<()> {
        let names: Vec<&str> = indexes.iter().map(|i| i.name.as_str()).collect();
        let names = names.join(", ");
        self.publish(|table, _| {
            table.changing = indexes;
            table.duplicates = duplicates;
            for index in &mut table.changing {
                index.state = IndexState::DeleteOnly;
            }
        })?;
        self.db.wait_for_older_users(self.cx, self.table)?;
        self.enter(IndexState::Building)?;
        let table = self.present()?;
        let progress = self.cx.metadata_locks.progress();
        progress.begin(Stage::BuildingIndex, &names);
        let rows = self.db.engine().approximate_keys(table.index_spaces(0));
        progress.expect(rows.unwrap_or(0));
        backfill::run(self.db, self.cx, &table)?;
        if let Some(space) = duplicates {
            progress.begin(Stage::Validating, &names);
            self.check_duplicates(&table, space)?;
            self.enter(IndexState::Enforced)?;
            self.check_duplicates(&table, space)?;
        } else {
            // Older snapshots do not see the entries: their transactions end before the index is read.
            self.db.wait_for_older_users(self.cx, self.table)?;
        }
        Ok(())
    }

    /// 1062 if a transaction has recorded a duplicate.
    fn check_duplicates(&self, table: &Table, space: SpaceId) -> Result<()> {
        let mut txn = self.db.engine().begin(TxnOptions::default())?;
        let range = ScanRange {
            space,
            start: &[],
            end: None,
            reverse: false,
        };
        let mut found = None;
        txn.scan(Read::CURRENT, &[range], 1, &mut |_, key, text| {
            found = Some((key.to_vec(), String::from_utf8_lossy(text).into_owned()));
            ControlFlow::Break(())
        })?;
        txn.rollback();
        let Some((key, entry)) = found else {
            return Ok(());
        };
        let id = key.first_chunk().map(|id| u32::from_be_bytes(*id));
        let index = table.changing.iter().find(|index| Some(index.id) == id);
        let name = index.map_or("", |index| index.name.as_str());
        Err(Error::Duplicate {
            entry,
            key: format!("{}.{name}", table.name),
        })
    }

    /// Removes the indexes in `changing`, and their spaces once nobody can write to them.
    fn remove_changing(&self) -> Result<()> {
        let table = self.present()?;
        let is_enforced = |index: &Index| index.state.refuses_duplicates();
        if table.changing.iter().any(is_enforced) {
            // Transactions that read a dropped index as public end first. A writer that enforces the
            // index must not find entries that others left behind.
            self.db.wait_for_older_users(self.cx, self.table)?;
            self.enter(IndexState::DeleteOnly)?;
        }
        self.publish(|table, _| {
            table.changing.clear();
            table.duplicates = None;
        })?;
        let indexes = table.changing.iter().flat_map(|index| &index.spaces);
        let spaces = indexes.chain(&table.duplicates).copied().collect();
        self.db.retire_when_unused(self.table, spaces);
        Ok(())
    }
}

impl Db {
    /// Waits until no transaction uses the table by a catalog older than the present one. Nobody is
    /// kept from the table meanwhile. A cluster waits for the transactions of its other servers here.
    ///
    /// # Errors
    /// The deadline of the statement (1205), or its cancellation.
    pub(crate) fn wait_for_older_users(&self, cx: &DdlCx<'_>, table: TableId) -> Result<()> {
        let locks = cx.metadata_locks;
        let waited = locks.wait_for_older_users(table, cx.deadline, cx.cancel);
        waited.map_err(metadata_lock_error)
    }

    /// Raises a barrier over a small table if nobody uses it, so that it is changed at once. `None`
    /// for other tables, and with LOCK=NONE.
    pub(super) fn brief_barrier(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
    ) -> Result<Option<MetadataBarrier>> {
        let table = alter::find(&self.catalog(), database, name)?;
        let rows = self.engine().approximate_keys(table.index_spaces(0));
        let is_small = rows.is_some_and(|rows| rows <= SMALL_TABLE_ROWS);
        if !is_small || alter::asked_lock(ops).is_some() || !table.changing.is_empty() {
            return Ok(None);
        }
        let deadline = cx.deadline.min(Instant::now() + BRIEF_WAIT);
        let everyone = [(table.id, Exclusion::Everyone)];
        match cx.metadata_locks.exclude(&everyone, deadline, cx.cancel) {
            Ok(barrier) => {
                let now = alter::find(&self.catalog(), database, name)?;
                let is_same = now.id == table.id && now.changing.is_empty();
                Ok(is_same.then_some(barrier))
            }
            Err(MetadataLockError::Timeout) => Ok(None),
            Err(error) => Err(metadata_lock_error(error)),
        }
    }

    /// Runs an ALTER TABLE that only changes indexes, while others read and write the table. `None`
    /// if the clauses need other work: then nothing has changed.
    pub(super) fn alter_online(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
        cast: &mut CastCx<'_>,
    ) -> Result<Option<DdlOutcome>> {
        let _definitions = self.barrier_of(cx, Exclusion::Definitions, |catalog| {
            Ok(vec![alter::find(catalog, database, name)?.id])
        })?;
        let catalog = self.catalog();
        let before = alter::find(&catalog, database, name)?;
        let mut plan = alter::plan(self, &catalog, &before, cx, ops, cast)?;
        alter::check_algorithm(&plan, ops)?;
        if !is_online(&before, &plan) {
            return Ok(None);
        }
        self.check_expressions(&plan.table)?;
        // Only the version by which the statement takes effect carries it in the change log.
        let steps = DdlCx {
            statement: None,
            ..*cx
        };
        let change = Change {
            db: self,
            cx: &steps,
            table: before.id,
        };
        let done = self.change_indexes(cx, &change, &before, &mut plan);
        if done.is_ok() && !self.unused_spaces.lock().is_empty() {
            // Their memory is free when the statement ends; if the wait is refused, later.
            let _ = self.wait_for_older_users(cx, change.table);
        }
        cx.metadata_locks.progress().end();
        self.retire_unused_spaces();
        Ok(Some(DdlOutcome {
            position: done?,
            is_note: false,
            rows: 0,
        }))
    }

    fn change_indexes(
        &self,
        cx: &DdlCx<'_>,
        change: &Change<'_>,
        before: &Table,
        plan: &mut Plan,
    ) -> Result<CommitPosition> {
        // Transactions may use the table by a version before the present one.
        self.wait_for_older_users(change.cx, change.table)?;
        let mut made = self.create_index_spaces(plan)?;
        let build = &plan.indexes_to_build;
        let is_new = |index: &&Index| build.contains(&index.id);
        let new: Vec<Index> = plan.table.indexes.iter().filter(is_new).cloned().collect();
        let mut duplicates = None;
        if new.iter().any(|index| index.kind.is_unique()) {
            let spec = SpaceSpec {
                point_lookups: false,
                ..super::spaces::overflow_space(&plan.table, 0)
            };
            match self.engine().create_spaces(&[spec]) {
                Ok(space) => duplicates = space.first().copied(),
                Err(error) => {
                    self.retire_spaces(&made);
                    return Err(error.into());
                }
            }
            made.extend(duplicates);
        }
        let built = match new.is_empty() {
            true => Ok(()),
            false => change.build(new, duplicates),
        };
        let dropped: Vec<Index> = missing_indexes(before, &plan.table).cloned().collect();
        let committed = built.and_then(|()| {
            let progress = change.cx.metadata_locks.progress();
            progress.begin(Stage::Committing, "");
            commit_change(&Change { cx, ..*change }, plan, &dropped)
        });
        match committed {
            Ok(position) => {
                if let Some(space) = duplicates {
                    self.retire_when_unused(change.table, vec![space]);
                }
                if !dropped.is_empty()
                    && let Err(error) = change.remove_changing()
                {
                    // The statement has taken effect; the next one on the table cleans up.
                    let table = before.quoted_name();
                    tracing::info!(%table, %error, "a dropped index is removed later");
                }
                Ok(position)
            }
            Err(error) => {
                self.undo_change(change, &made, &error);
                Err(error)
            }
        }
    }

    /// Removes the indexes of a failed change. The statement may be cancelled, its undoing is not.
    fn undo_change(&self, change: &Change<'_>, made: &[SpaceId], refusal: &Error) {
        if matches!(refusal, Error::Kv(kv::Error::UnknownOutcome(_))) {
            return;
        }
        let is_published = change.present().is_ok_and(|table| {
            let ours = |index: &Index| index.spaces.iter().any(|space| made.contains(space));
            table.changing.iter().any(ours)
        });
        if !is_published {
            self.retire_spaces(made);
            return;
        }
        let cancel = Cancel::new();
        let cx = DdlCx {
            metadata_locks: change.cx.metadata_locks,
            deadline: Instant::now() + UNDO_WAIT,
            cancel: &cancel,
            ..*change.cx
        };
        let undo = Change {
            db: self,
            cx: &cx,
            table: change.table,
        };
        if let Err(error) = undo.remove_changing() {
            // The next change of the table, or the next start, removes them.
            tracing::warn!(%error, "the indexes of a failed change of a definition are removed later");
        }
    }

    /// Removes what an interrupted change has left of a table. The caller's barrier excludes other
    /// changes.
    pub(crate) fn finish_change(&self, cx: &DdlCx<'_>, table: TableId) -> Result<()> {
        self.retire_unused_spaces();
        let catalog = self.catalog();
        let Some(found) = catalog.table_by_id(table) else {
            return Ok(());
        };
        if found.changing.is_empty() && found.duplicates.is_none() {
            return Ok(());
        }
        let cx = &DdlCx {
            statement: None,
            ..*cx
        };
        let db = self;
        Change { db, cx, table }.remove_changing()
    }

    /// Removes the indexes of changes that a crash has interrupted. A table that a prepared
    /// transaction uses keeps them until its next change: the transaction may have written to them.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn remove_unfinished_changes(&self) -> Result<()> {
        let catalog = self.catalog();
        let unfinished =
            |table: &&Arc<Table>| !table.changing.is_empty() || table.duplicates.is_some();
        let unfinished: Vec<_> = catalog.tables.values().filter(unfinished).collect();
        if unfinished.is_empty() {
            return Ok(());
        }
        let prepared = self.prepared_tables()?;
        for table in unfinished.iter().filter(|t| !prepared.contains(&t.id)) {
            let name = table.quoted_name();
            tracing::info!(table = %name, "an interrupted change of the definition is undone");
            self.define(|cx| self.finish_change(cx, table.id))?;
        }
        Ok(())
    }

    /// Drops spaces that the catalog names no more, once no transaction can write to them.
    pub(crate) fn retire_when_unused(&self, table: TableId, spaces: Vec<SpaceId>) {
        let epoch = self.metadata_locks().next_epoch();
        self.unused_spaces.lock().push(UnusedSpaces {
            epoch,
            table,
            spaces,
        });
        self.retire_unused_spaces();
    }

    /// Drops the spaces of finished changes that no transaction can write to any more.
    pub(crate) fn retire_unused_spaces(&self) {
        let mut waiting = self.unused_spaces.lock();
        let locks = self.metadata_locks();
        let unused = waiting.extract_if(.., |s| !locks.has_older_users(s.table, s.epoch));
        let spaces: Vec<SpaceId> = unused.flat_map(|s| s.spaces).collect();
        drop(waiting);
        if !spaces.is_empty() {
            self.retire_spaces(&spaces);
        }
    }
}

/// Longest wait of an undone change for transactions that enforce its index.
const UNDO_WAIT: Duration = Duration::from_secs(2);

/// The version by which a statement takes effect: new indexes become public, dropped ones cease to
/// be read.
fn commit_change(change: &Change<'_>, plan: &Plan, dropped: &[Index]) -> Result<CommitPosition> {
    change.publish(|table, version| {
        let incompatible_since = table.incompatible_since;
        table.clone_from(&plan.table);
        table.incompatible_since = match plan.indexes_to_build.is_empty() {
            // Older snapshots do not see the entries of the new indexes.
            false => version,
            true => incompatible_since,
        };
        table.changing = dropped.to_vec();
        for index in &mut table.changing {
            index.state = IndexState::Enforced;
        }
        table.duplicates = None;
    })
}
