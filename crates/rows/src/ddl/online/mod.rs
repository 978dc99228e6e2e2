//! Online schema change: definitions of tables change while readers and writers of the table go on.
//!
//! The algorithm is that of F1 (Rae et al., "Online, Asynchronous Schema Change in F1", VLDB 2013). A
//! change is a sequence of catalog versions. Two transactions that use adjacent versions at the same
//! time leave rows and index entries consistent, so no transaction has to be blocked; before the
//! next version is published, the change waits until none uses the version before the present one.
//!
//! ```text
//! ADD INDEX     absent -> DeleteOnly -> Building -> (backfill) -> Enforced (unique only) -> Public
//! DROP INDEX    Public -> Enforced -> DeleteOnly -> absent
//! FOREIGN KEY,
//! CHECK         absent -> enforced by writers -> (validation) -> public
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
//! * A constraint is enforced by the writers of the child and of the parent, with its index, before
//!   existing rows are validated ([`validate`]). Until it is public it is in [`TableDef::unfinished`].
//! * Changes that rewrite rows are made in a copy of the table ([`copy`]).
//!
//! All clauses of a statement take effect by one catalog version, in which the new indexes become
//! public, and the dropped ones cease to be. What precedes it can be undone, what follows it is only
//! cleaned up.
//!
//! Invariants:
//! 1. Indexes in [`TableDef::changing`] are not read. After a crash they, and the objects in
//!    [`TableDef::unfinished`], are removed when the database is opened
//!    ([`Db::remove_unfinished_changes`]), whether they were added or dropped; the same is done before the
//!    next change of the table. On a cluster the remaining servers remove them.
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
mod barrier;
mod copy;
mod throttle;
mod validate;

use super::alter::{self, LockLevel, Plan};
use super::{AlterOp, DdlCx, DdlOutcome, indexes, metadata_lock_error};
use crate::catalog::{Catalog, Table};
use crate::db::{Db, UnusedSpaces};
use crate::definition::{CheckConstraint, Index, IndexState, TableDef, TableId, UnfinishedChange};
use crate::error::{Error, Result};
use crate::metadata_lock::{Exclusion, MetadataBarrier, MetadataLockError};
use crate::progress::Stage;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{self as kv, CommitPosition, Read, ScanRange, SpaceId, SpaceSpec, TxnOptions};
use porpoise_types::CastCx;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use copy::CopyJob;
pub(super) use throttle::{Throttle, check_cancel};

/// Number of rows up to which a table that is not in use is changed under a barrier: that takes less
/// time than the commits of the states.
pub(super) const SMALL_TABLE_ROWS: u64 = 2000;

/// Longest wait for the barrier of a small table, during which new users of the table wait, too.
const BRIEF_WAIT: Duration = Duration::from_millis(20);

/// Whether clauses may be carried out while other sessions read and write the table. LOCK=SHARED,
/// LOCK=EXCLUSIVE and ALGORITHM=COPY ask for a change that blocks them.
pub(super) fn may_be_online(ops: &[AlterOp]) -> bool {
    use super::Algorithm;
    ops.iter().all(|op| match op {
        AlterOp::Lock(level) => *level == LockLevel::None,
        AlterOp::Algorithm(algorithm) => *algorithm != Algorithm::Copy,
        AlterOp::RenameTo(..) | AlterOp::SetAutoIncrement(_) => false,
        _ => true,
    })
}

/// The indexes of `a` that `b` does not have.
fn missing_indexes<'a>(a: &'a TableDef, b: &'a TableDef) -> impl Iterator<Item = &'a Index> {
    let missing = |index: &&Index| b.indexes.iter().all(|other| other.id != index.id);
    a.indexes.iter().filter(missing)
}

/// The way in which a plan is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// States of indexes and constraints.
    States,
    /// A copy of the table.
    Copy,
    /// Only the definition changes, and rows are read by the old and the new one.
    Definition,
    /// Under a barrier that blocks writers.
    Barrier,
}

/// Chooses how a plan is carried out.
fn method(before: &TableDef, plan: &Plan, cx: &DdlCx<'_>) -> Method {
    let full_text = |index: &Index| index.is_full_text();
    let validates = cx.foreign_key_checks && !plan.validate.is_empty();
    let builds = !plan.indexes_to_build.is_empty();
    let changes_columns = plan.changes_layout || before.columns != plan.table.columns;
    let gains_overflow = plan.table.may_overflow() && plan.table.overflow_spaces.is_empty();
    let needs_copy = plan.rewrite
        || !plan.not_null.is_empty()
        || missing_indexes(&plan.table, before).any(full_text)
        || builds && gains_overflow
        || changes_columns && (builds || plan.validates_checks);
    if plan.generates_ids()
        || plan.requires_no_rows()
        || validates && (needs_copy || changes_columns)
    {
        // A copy does not check foreign keys.
        Method::Barrier
    } else if needs_copy {
        Method::Copy
    } else if !builds
        && !validates
        && !plan.validates_checks
        && (missing_indexes(before, &plan.table).any(full_text)
            || plan.changes_more_than_keys(before))
    {
        Method::Definition
    } else {
        Method::States
    }
}

/// An online change of one table.
struct Change<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    table: TableId,
    /// The table and the parents of its new foreign keys: writers of all of them enforce the keys.
    tables: &'a [TableId],
    /// `lock_wait_timeout`: the limit of each wait.
    patience: Duration,
}

impl Change<'_> {
    /// Publishes a version of the table.
    fn publish(&self, change: impl FnOnce(&mut TableDef, u64)) -> Result<CommitPosition> {
        self.db.change_catalog_online(&self.waiting(), |draft| {
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
        self.wait_for_older_users()
    }

    /// The context of the statement, with the time limit of a wait that begins now.
    fn waiting(&self) -> DdlCx<'_> {
        DdlCx {
            deadline: Instant::now() + self.patience,
            ..*self.cx
        }
    }

    /// Waits until no transaction uses the tables of the change by a version before the present one.
    fn wait_for_older_users(&self) -> Result<()> {
        self.db.wait_for_older_users(&self.waiting(), self.tables)
    }

    /// Shows a stage that goes through the rows of the table.
    fn begin_stage(&self, stage: Stage, table: &Table, subject: &str) {
        self.db.begin_stage(self.cx, stage, table, subject);
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
        self.wait_for_older_users()?;
        self.enter(IndexState::Building)?;
        let table = self.present()?;
        let progress = self.cx.metadata_locks.progress();
        self.begin_stage(Stage::BuildingIndex, &table, &names);
        backfill::run(self.db, self.cx, &table, self.patience)?;
        if let Some(space) = duplicates {
            progress.begin(Stage::Validating, &names);
            self.check_duplicates(&table, space)?;
            self.enter(IndexState::Enforced)?;
            self.check_duplicates(&table, space)?;
        } else {
            // Older snapshots do not see the entries: their transactions end before the index is read.
            self.wait_for_older_users()?;
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

    /// Removes the unfinished parts of a change, and its spaces once no transaction can write to them.
    fn remove_changing(&self) -> Result<()> {
        let mut spaces = Vec::new();
        if !self.present()?.unfinished.is_empty() {
            self.publish(|table, _| {
                spaces.extend(table.unfinished.changed_rows);
                let mut new = table.remove_unfinished();
                for index in &mut new {
                    index.state = IndexState::Enforced;
                }
                table.changing.extend(new);
            })?;
        }
        let table = self.present()?;
        let is_enforced = |index: &Index| index.state.refuses_duplicates();
        if table.changing.iter().any(is_enforced) {
            // Transactions that read a dropped index as public end first. A writer that enforces the
            // index must not find entries that others left behind.
            self.wait_for_older_users()?;
            self.enter(IndexState::DeleteOnly)?;
        }
        if !table.changing.is_empty() || table.duplicates.is_some() {
            self.publish(|table, _| {
                table.changing.clear();
                table.duplicates = None;
            })?;
        }
        let indexes = table.changing.iter().flat_map(|index| &index.spaces);
        spaces.extend(indexes.chain(&table.duplicates));
        self.retire(spaces)
    }

    /// Drops spaces that the present version does not name, once no transaction can write to them.
    fn retire(&self, spaces: Vec<SpaceId>) -> Result<()> {
        if self.db.is_clustered() {
            self.wait_for_older_users()?;
        }
        self.db.retire_when_unused(self.table, spaces);
        Ok(())
    }

    /// Makes writers enforce new constraints, with the indexes that they need, and validates the rows.
    fn validate_constraints(&self, before: &Table, plan: &Plan, cast: &CastCx<'_>) -> Result<()> {
        let unfinished = new_constraints(self.cx, before, plan);
        let is_validated = [
            &unfinished.foreign_keys,
            &unfinished.checks,
            &unfinished.enforced_checks,
        ];
        if is_validated.iter().all(|names| names.is_empty()) {
            return Ok(());
        }
        self.publish(|table, version| {
            let new = |index: &&Index| unfinished.indexes.contains(&index.id);
            let indexes = plan.table.indexes.iter().filter(new).cloned();
            table.indexes.extend(indexes);
            indexes::sort(&mut table.indexes, &table.columns);
            let keys = plan.table.foreign_keys.iter();
            let keys = keys.filter(|key| unfinished.foreign_keys.contains(&key.name));
            table.foreign_keys.extend(keys.cloned());
            let checks = plan.table.checks.iter();
            let checks = checks.filter(|check| unfinished.checks.contains(&check.name));
            table.checks.extend(checks.cloned());
            for check in &mut table.checks {
                check.enforced |= unfinished.enforced_checks.contains(&check.name);
            }
            if !unfinished.indexes.is_empty() {
                // Older snapshots do not see the entries of the new indexes.
                table.incompatible_since = version;
            }
            table.changing.clear();
            table.unfinished = unfinished;
        })?;
        self.wait_for_older_users()?;
        self.validate(cast)
    }
}

/// The constraints of a plan that rows must be validated against, with all new indexes.
fn new_constraints(cx: &DdlCx<'_>, before: &TableDef, plan: &Plan) -> UnfinishedChange {
    let old = |name: &str| before.checks.iter().find(|check| check.name == name);
    let enforced = plan.table.enforced_checks();
    let (reset, checks): (Vec<_>, Vec<_>) = enforced
        .filter(|check| old(&check.name).is_none_or(|old| !old.enforced))
        .partition(|check| old(&check.name).is_some());
    let names = |checks: Vec<&CheckConstraint>| checks.iter().map(|c| c.name.clone()).collect();
    UnfinishedChange {
        indexes: plan.indexes_to_build.clone(),
        foreign_keys: if cx.foreign_key_checks {
            plan.validate.clone()
        } else {
            Vec::new()
        },
        checks: names(checks),
        enforced_checks: names(reset),
        changed_rows: None,
    }
}

impl Db {
    /// Waits until no transaction uses one of the tables by a catalog older than the present one. No session
    /// is blocked meanwhile. On a cluster it waits for the transactions of the other servers, too.
    ///
    /// # Errors
    /// The deadline of the statement (1205), or its cancellation.
    pub(crate) fn wait_for_older_users(&self, cx: &DdlCx<'_>, tables: &[TableId]) -> Result<()> {
        for table in tables {
            let waited = cx
                .metadata_locks
                .wait_for_older_users(*table, cx.deadline, cx.cancel);
            waited.map_err(metadata_lock_error)?;
        }
        self.wait_for_other_servers(cx)
    }

    /// Raises a barrier over a small table if no session uses it, so that it is changed at once. `None`
    /// for other tables, and with LOCK=NONE. `tables` returns the table and those related to the change.
    pub(super) fn brief_barrier(
        &self,
        cx: &DdlCx<'_>,
        (database, name): (&str, &str),
        ops: &[AlterOp],
        tables: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<Option<MetadataBarrier>> {
        let table = alter::find(&self.catalog(), database, name)?;
        let rows = self.engine().approximate_keys(table.index_spaces(0));
        let is_small = rows.is_some_and(|rows| rows <= SMALL_TABLE_ROWS);
        let asks = alter::asked_lock(ops).is_some();
        if !is_small || asks || table.has_unfinished_change() || self.is_clustered() {
            return Ok(None);
        }
        let deadline = cx.deadline.min(Instant::now() + BRIEF_WAIT);
        let before = tables(&self.catalog())?;
        let everyone = before.iter().map(|id| (*id, Exclusion::Everyone));
        let everyone: Vec<_> = everyone.collect();
        match cx.metadata_locks.exclude(&everyone, deadline, cx.cancel) {
            Ok(barrier) => {
                let now = alter::find(&self.catalog(), database, name)?;
                let is_same = now.id == table.id
                    && !now.has_unfinished_change()
                    && tables(&self.catalog())? == before;
                Ok(is_same.then_some(barrier))
            }
            Err(MetadataLockError::Timeout) => Ok(None),
            Err(error) => Err(metadata_lock_error(error)),
        }
    }

    /// Runs an ALTER TABLE while other sessions read and write the table. `None` if the clauses need other work:
    /// then nothing has changed.
    pub(super) fn alter_online(
        &self,
        cx: &DdlCx<'_>,
        (database, name): (&str, &str),
        ops: &[AlterOp],
        tables: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
        cast: &mut CastCx<'_>,
    ) -> Result<Option<DdlOutcome>> {
        let patience = cx.deadline.saturating_duration_since(Instant::now());
        let _definitions = self.barrier_of(cx, Exclusion::Definitions, tables)?;
        let catalog = self.catalog();
        let before = alter::find(&catalog, database, name)?;
        let mut plan = alter::plan(self, &catalog, &before, cx, ops, cast)?;
        alter::check_algorithm(&plan, ops)?;
        let method = method(&before, &plan, cx);
        if method == Method::Barrier {
            return Ok(None);
        }
        self.check_expressions(&plan.table)?;
        // Only the version by which the statement takes effect carries it in the change log.
        let steps = DdlCx {
            statement: None,
            ..*cx
        };
        let all = tables(&catalog)?;
        let change = Change {
            db: self,
            cx: &steps,
            table: before.id,
            tables: &all,
            patience,
        };
        let done = match method {
            Method::Definition => self.change_definition(cx, &change, &before, &plan, tables),
            Method::Copy => self.alter_by_copy(cx, &change, &before, &mut plan, tables, cast),
            _ => self
                .change_states(cx, &change, &before, &mut plan, cast)
                .map(|position| (0, position)),
        };
        if done.is_ok() && !self.unused_spaces.lock().is_empty() {
            // Their memory is free when the statement ends; if the wait is refused, later.
            let _ = change.wait_for_older_users();
        }
        cx.metadata_locks.progress().end();
        self.retire_unused_spaces();
        let (rows, position) = done?;
        self.wait_until_loaded(cx);
        Ok(Some(DdlOutcome {
            position,
            is_note: false,
            rows,
        }))
    }

    /// Commits a plan that needs no work on rows, under a brief barrier.
    fn change_definition(
        &self,
        cx: &DdlCx<'_>,
        change: &Change<'_>,
        before: &Table,
        plan: &Plan,
        tables: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
    ) -> Result<(u64, CommitPosition)> {
        let _everyone = self.brief_barrier_over(&change.waiting(), tables)?;
        let cx = DdlCx {
            deadline: change.waiting().deadline,
            ..*cx
        };
        cx.metadata_locks.progress().begin(Stage::Committing, "");
        let position = self.commit_definition(&cx, before, plan)?;
        self.retire_spaces(&plan.spaces_to_drop);
        Ok((0, position))
    }

    fn change_states(
        &self,
        cx: &DdlCx<'_>,
        change: &Change<'_>,
        before: &Table,
        plan: &mut Plan,
        cast: &CastCx<'_>,
    ) -> Result<CommitPosition> {
        // Transactions may use the table by a version before the present one.
        change.wait_for_older_users()?;
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
        let committed = built
            .and_then(|()| change.validate_constraints(before, plan, cast))
            .and_then(|()| {
                let progress = change.cx.metadata_locks.progress();
                progress.begin(Stage::Committing, "");
                commit_change(&Change { cx, ..*change }, plan, &dropped)
            });
        match committed {
            Ok(position) => {
                let retired = change.retire(duplicates.into_iter().collect());
                let removed = retired.and_then(|()| match dropped.is_empty() {
                    true => Ok(()),
                    false => change.remove_changing(),
                });
                if let Err(error) = removed {
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
        let is_ours = |space: &SpaceId| made.contains(space);
        let present = change.present();
        let named: Vec<SpaceId> = match &present {
            Ok(table) => table.all_spaces().filter(is_ours).collect(),
            Err(_) => Vec::new(),
        };
        let unnamed: Vec<SpaceId> = made
            .iter()
            .filter(|s| !named.contains(s))
            .copied()
            .collect();
        if !unnamed.is_empty() {
            self.retire_when_unused(change.table, unnamed);
        }
        if !present.is_ok_and(|table| table.has_unfinished_change()) {
            return;
        }
        let cancel = Cancel::new();
        let cx = DdlCx {
            cancel: &cancel,
            ..*change.cx
        };
        let undo = Change {
            cx: &cx,
            patience: UNDO_WAIT,
            ..*change
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
        if !found.has_unfinished_change() {
            return Ok(());
        }
        let cx = &DdlCx {
            statement: None,
            ..*cx
        };
        let unfinished = Change {
            db: self,
            cx,
            table,
            tables: &[table],
            patience: cx.deadline.saturating_duration_since(Instant::now()),
        };
        unfinished.remove_changing()
    }

    /// Removes the indexes of changes that a crash has interrupted. A table that a prepared
    /// transaction uses keeps them until its next change: the transaction may have written to them.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn remove_unfinished_changes(&self) -> Result<()> {
        let catalog = self.catalog();
        let unfinished = |table: &&Arc<Table>| table.has_unfinished_change();
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
        if spaces.is_empty() {
            return;
        }
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
