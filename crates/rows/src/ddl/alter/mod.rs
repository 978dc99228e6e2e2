//! ALTER TABLE; CREATE INDEX and DROP INDEX are special cases of it.
//!
//! All clauses of a statement make one [`Plan`]: the new table, and the work on rows that it
//! requires. Most column changes require none: a row refers to the layout that it was written in,
//! an added column reads as its default at the time of the ALTER, a dropped one is not read. The
//! remaining work is done online ([`super::online`]), or under the metadata barrier, in order of
//! cost: checking rows (NOT NULL, foreign keys), building indexes, copying rows ([`copy`]).
//!
//! Invariants:
//! 1. Nothing that a running statement can see changes before the commit of
//!    the catalog; all clauses take effect with it, or none.
//! 2. A statement waits only for users of the table itself and of parents that it is to reference:
//!    a writer to a table related to it by a foreign key has published its use of this table, too.
//! 3. After [`MAX_LAYOUTS`] changes of the columns the next one copies the
//!    rows, so that a catalog row stays small.
//!
//! Rejected: rewriting rows in place in one transaction (its write set is
//! limited, and readers of the old definition would meet new rows).

mod columns;
mod copy;
mod fill;
mod keys;
mod online_copy;

use super::{
    AlterOp, DdlCx, DdlOutcome, check_name, checks, columns as specs, errors, indexes, online,
    partition, rename, spaces, ttl,
};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::ddl::DdlBarrier;
use crate::definition::{ColumnId, Index, IndexKind, TableDef, TableId};
use crate::error::Result;
use crate::metadata_lock::Exclusion;
use crate::overflow;
use crate::progress::Stage;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{CommitPosition, SpaceId};
use porpoise_types::{CastCx, SqlMode, TimeZone};
use std::sync::Arc;

pub(in crate::ddl) use copy::CopyOptions;
pub use fill::implicit_default;
pub(super) use fill::row_context;
pub(super) use online_copy::{OnlineCopy, create_copy_spaces};

/// Maximum number of layouts before the rows are copied (MySQL allows as many row versions).
pub const MAX_LAYOUTS: usize = 64;

/// Position clause of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the end for a new column, unchanged for others.
    Default,
    /// FIRST.
    First,
    /// AFTER a column.
    After(String),
}

/// The ALGORITHM clause, which limits the permitted work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Only the definition may change.
    Instant,
    /// Indexes may be built, but no row changed.
    Inplace,
    /// Rows are copied.
    Copy,
}

/// The LOCK clause, which limits the sessions that are kept from the table while rows are read or
/// changed. Each level waits for users of the table to commit the new definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLevel {
    /// None.
    None,
    /// Writers.
    Shared,
    /// Readers and writers.
    Exclusive,
}

/// The plan of an ALTER TABLE, complete before it is carried out.
pub(super) struct Plan {
    pub(super) table: TableDef,
    /// Whether the rows are copied.
    pub(super) rewrite: bool,
    /// Whether the copy converts values to other types.
    converts: bool,
    /// Whether the copy changes the keys of rows.
    rekeys_rows: bool,
    /// Whether the set of columns changes.
    pub(super) changes_layout: bool,
    /// Ids of the indexes to be built.
    pub(super) indexes_to_build: Vec<u32>,
    /// Id of the next index.
    next_index: u32,
    /// Columns that become NOT NULL.
    pub(super) not_null: Vec<ColumnId>,
    /// Columns whose types change.
    retyped: Vec<ColumnId>,
    /// Columns whose encoding in keys changes.
    rekeyed: Vec<ColumnId>,
    /// Added columns that are possible only in an empty table (1292).
    requires_empty_table: Vec<ColumnId>,
    /// The column that gets generated ids.
    generated_column: Option<ColumnId>,
    /// Columns' old and new names.
    renamed: Vec<(String, String)>,
    /// Whether the rows must be validated against the CHECK constraints.
    pub(super) validates_checks: bool,
    /// Names of foreign keys to be validated.
    pub(super) validate: Vec<String>,
    /// Spaces to be dropped after the commit of the catalog.
    pub(super) spaces_to_drop: Vec<SpaceId>,
    auto_increment: Option<u64>,
    rename_to: Option<(String, String)>,
}

impl Plan {
    /// Whether rows get generated ids.
    pub(super) fn generates_ids(&self) -> bool {
        self.generated_column.is_some()
    }

    /// Whether the plan is possible only for a table without rows.
    pub(super) fn requires_no_rows(&self) -> bool {
        !self.requires_empty_table.is_empty()
    }

    /// Whether the plan changes more than indexes and constraints.
    pub(super) fn changes_more_than_keys(&self, before: &TableDef) -> bool {
        let after = &self.table;
        self.changes_layout
            || before.columns != after.columns
            || before.options != after.options
            || before.partitioning != after.partitioning
    }

    pub(super) fn copy_options(&self) -> CopyOptions {
        CopyOptions {
            generated_column: self.generated_column,
            first_id: self.auto_increment,
            converts: self.converts,
            rekeys_rows: self.rekeys_rows,
        }
    }
}

pub(super) fn find(catalog: &Catalog, database: &str, name: &str) -> Result<Arc<Table>> {
    if catalog.database(database).is_none() {
        return Err(errors::no_database(database));
    }
    let table = catalog.table(database, name).cloned();
    table.ok_or_else(|| errors::no_table(database, name))
}

/// Conversion rules of the strict mode.
pub(in crate::ddl) fn strict_cast<'c>(
    cx: &DdlCx<'_>,
    warnings: &'c mut dyn FnMut(porpoise_types::Warning),
) -> CastCx<'c> {
    let now = porpoise_types::DateTime::from_unix_micros(cx.now);
    CastCx {
        mode: SqlMode::default(),
        strict: true,
        warnings,
        tz: &TimeZone::UTC,
        now: now.unwrap_or(porpoise_types::DateTime::ZERO),
    }
}

impl Db {
    /// Runs an ALTER TABLE in strict mode. Either all clauses take effect or none.
    ///
    /// # Errors
    /// MySQL's for each clause; the engine's.
    pub fn alter_table(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
    ) -> Result<DdlOutcome> {
        let mut ignore = |_| ();
        self.alter_table_as(cx, database, name, ops, &mut strict_cast(cx, &mut ignore))
    }

    /// As [`Db::alter_table`], with the conversion rules of `cast`.
    ///
    /// # Errors
    /// As there.
    pub fn alter_table_as(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
        cast: &mut CastCx<'_>,
    ) -> Result<DdlOutcome> {
        let tables = |catalog: &Catalog| {
            let table = find(catalog, database, name)?;
            let mut all = vec![table.id];
            all.extend(new_relatives(catalog, &table, ops));
            Ok(all)
        };
        let mut brief = None;
        let is_shared = self.membership().is_some();
        if online::may_be_online(ops) {
            brief = self.brief_barrier(cx, (database, name), ops, &tables)?;
            if brief.is_none()
                && let Some(done) = self.alter_online(cx, (database, name), ops, &tables, cast)?
            {
                return Ok(done);
            }
        }
        // Readers go on until the new definition is committed.
        let exclusion = match asked_lock(ops) {
            Some(LockLevel::Exclusive) => Exclusion::Everyone,
            _ if is_shared => Exclusion::Everyone,
            _ => Exclusion::Writers,
        };
        let _barrier = match brief {
            Some(barrier) => DdlBarrier::local(barrier),
            None => self.barrier_of(cx, exclusion, tables)?,
        };
        let catalog = self.catalog();
        let before = find(&catalog, database, name)?;
        let mut plan = plan(self, &catalog, &before, cx, ops, cast)?;
        check_algorithm(&plan, ops)?;
        check_lock(&plan, ops)?;
        let (rows, position) = self.rewrite_and_commit(cx, &before, &mut plan, cast, |plan| {
            let _everyone = match exclusion {
                Exclusion::Everyone => None,
                _ => Some(self.barrier(cx, tables)?),
            };
            cx.metadata_locks.progress().begin(Stage::Committing, "");
            self.commit_definition(cx, &before, plan)
        })?;
        Ok(DdlOutcome {
            position,
            is_note: false,
            rows,
        })
    }

    /// ALTER TABLE of a temporary table, which no catalog names and no other session uses: the
    /// table as the clauses make it, and how many rows were copied. On success the old
    /// definition cannot be used any more; on an error it can.
    ///
    /// # Errors
    /// As ALTER TABLE; 1215 for foreign keys.
    pub fn alter_temporary(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        ops: &[AlterOp],
        cast: &mut CastCx<'_>,
    ) -> Result<(Arc<Table>, u64)> {
        if ops.iter().any(|op| matches!(op, AlterOp::AddForeignKey(_))) {
            return Err(errors::temporary_foreign_key());
        }
        let full_text = |op: &AlterOp| matches!(op, AlterOp::AddIndex(spec) if spec.kind == IndexKind::FullText);
        if ops.iter().any(full_text) {
            return Err(errors::full_text_of_temporary());
        }
        if ops.iter().any(|op| matches!(op, AlterOp::SetTtl(_))) {
            return Err(ttl::not_for_temporary());
        }
        // Names of its constraints cannot collide with those of other tables, and it has no foreign
        // keys.
        let mut plan = plan(self, &Catalog::default(), before, cx, ops, cast)?;
        if let Some((database, name)) = &plan.rename_to {
            check_name(name)?;
            if name.is_empty() || name.ends_with(' ') {
                return Err(errors::bad_table_name(name));
            }
            if self.catalog().database(database).is_none() {
                return Err(errors::no_database(database));
            }
        }
        check_algorithm(&plan, ops)?;
        let (rows, ()) = self.rewrite_and_commit(cx, before, &mut plan, cast, |_| Ok(()))?;
        let mut table = plan.table;
        if plan.rewrite {
            columns::forget_backfills(&mut table);
        }
        if let Some((database, name)) = plan.rename_to {
            (table.database, table.name) = (database, name);
        }
        Ok((Arc::new(Table::new(table)), rows))
    }

    /// Returns the table as it would be after an ALTER TABLE, without changing anything.
    ///
    /// # Errors
    /// MySQL's for each clause, except those that depend on rows.
    pub fn altered_table(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
        cast: &CastCx<'_>,
    ) -> Result<Table> {
        let catalog = self.catalog();
        let before = find(&catalog, database, name)?;
        let plan = plan(self, &catalog, &before, cx, ops, cast)?;
        Ok(Table::new(plan.table))
    }

    pub(super) fn create_index_spaces(&self, plan: &mut Plan) -> Result<Vec<SpaceId>> {
        let Plan {
            table,
            indexes_to_build: build,
            spaces_to_drop: leaving,
            rewrite,
            ..
        } = plan;
        if *rewrite {
            leaving.extend(table.all_spaces());
            leaving.sort_unstable();
            leaving.dedup();
        }
        let wanted = |i: &Index| *rewrite || build.contains(&i.id);
        let mut specs: Vec<_> = table
            .indexes
            .iter()
            .filter(|i| wanted(i))
            .flat_map(|i| spaces::index_spaces(table, i))
            .collect();
        // The statement may have added a column whose values may overflow.
        let overflow = table.may_overflow() && (*rewrite || table.overflow_spaces.is_empty());
        if overflow {
            let partitions = 0..table.leaf_count();
            specs.extend(partitions.map(|p| spaces::overflow_space(table, p)));
        }
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        let made = self.engine().create_spaces(&specs)?;
        let mut given = made.chunks(table.leaf_count().max(1));
        for index in table.indexes.iter_mut().filter(|i| wanted(i)) {
            index.spaces = given.next().unwrap_or(&[]).to_vec();
        }
        if overflow {
            table.overflow_spaces = given.next().unwrap_or(&[]).to_vec();
        } else if *rewrite {
            table.overflow_spaces.clear();
        }
        Ok(made)
    }

    /// Does a plan's work on the rows, then `commit`. Returns how many rows were copied.
    fn rewrite_and_commit<T>(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &mut Plan,
        cast: &mut CastCx<'_>,
        commit: impl FnOnce(&Plan) -> Result<T>,
    ) -> Result<(u64, T)> {
        self.check_expressions(&plan.table)?;
        let fresh = self.create_index_spaces(plan)?;
        let after = Table::new(plan.table.clone());
        let done = self
            .apply_to_rows(cx, before, &after, plan, cast)
            .and_then(|rows| Ok((rows, commit(plan)?)));
        cx.metadata_locks.progress().end();
        match &done {
            Ok(_) => self.retire_spaces(&plan.spaces_to_drop),
            Err(error) => self.abandon_spaces(&fresh, error),
        }
        done
    }

    /// Shows a stage that goes through the rows of a table.
    pub(crate) fn begin_stage(&self, cx: &DdlCx<'_>, stage: Stage, table: &Table, subject: &str) {
        let progress = cx.metadata_locks.progress();
        progress.begin(stage, subject);
        progress.expect(self.approximate_rows(table).unwrap_or(0));
    }

    /// Checks rows, builds indexes, copies rows. Returns the number of rows copied.
    fn apply_to_rows(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        plan: &Plan,
        cast: &mut CastCx<'_>,
    ) -> Result<u64> {
        self.check_no_rows(cx, before, plan, cast)?;
        let mut rows = 0;
        if plan.rewrite {
            self.begin_stage(cx, Stage::Copying, before, "");
            rows = self.copy_rows(cx, before, after, plan.copy_options(), cast)?;
        } else {
            self.begin_stage(cx, Stage::Validating, before, "");
            self.check_not_null(cx, after, plan)?;
            if plan.validates_checks {
                self.validate_checks(cx, before, after, cast)?;
            }
            self.build_new_indexes(cx, before, after, plan)?;
        }
        if cx.foreign_key_checks {
            for key in &after.foreign_keys {
                if plan.validate.contains(&key.name) {
                    self.begin_stage(cx, Stage::Validating, after, &key.name);
                    self.validate_foreign_key(cx, after, key)?;
                }
            }
        }
        if let Some(next) = plan
            .auto_increment
            .filter(|_| plan.generated_column.is_none())
        {
            self.raise_auto_increment(cx, after, next)?;
        }
        Ok(rows)
    }

    /// Builds the indexes of a plan.
    fn build_new_indexes(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        plan: &Plan,
    ) -> Result<()> {
        let indexes = after.indexes.iter().enumerate();
        let new = indexes.filter(|(_, index)| plan.indexes_to_build.contains(&index.id));
        let (positions, names): (Vec<usize>, Vec<&str>) =
            new.map(|(at, index)| (at, index.name.as_str())).unzip();
        if positions.is_empty() {
            return Ok(());
        }
        self.begin_stage(cx, Stage::BuildingIndex, before, &names.join(", "));
        let rows = self.approximate_rows(before).unwrap_or(0);
        let progress = cx.metadata_locks.progress();
        progress.expect(rows.saturating_mul(positions.len() as u64));
        self.build_indexes(cx, before, after, &positions)
    }

    /// 1292 if rows exist for which an added column would have a zero date.
    fn check_no_rows(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &Plan,
        cast: &CastCx<'_>,
    ) -> Result<()> {
        let added = |id: &ColumnId| plan.table.columns.iter().find(|c| c.id == *id);
        let Some(column) = plan.requires_empty_table.iter().find_map(added) else {
            return Ok(());
        };
        self.for_each_batch(cx, before, |batch| {
            if batch.is_empty() {
                Ok(())
            } else {
                fill::check_zero_date(column, cast)
            }
        })
    }

    /// 1138 if a row has NULL in a column that becomes NOT NULL.
    fn check_not_null(&self, cx: &DdlCx<'_>, after: &Table, plan: &Plan) -> Result<()> {
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

    /// 3819 if a row violates a new or newly enforced CHECK constraint.
    fn validate_checks(
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
                let whole = overflow::read_complete_row(self, before, primary, row)?;
                let row = RowRef::new(after, whole.as_deref().unwrap_or(row))?;
                expressions.check(&row.values(), &env)?;
            }
            Ok(())
        })
    }

    pub(super) fn commit_definition(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &Plan,
    ) -> Result<CommitPosition> {
        self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            let children: Vec<(TableId, String)> = columns::referencing(&draft.catalog, before)
                .map(|(child, key)| (child.id, key.name.clone()))
                .collect();
            let changed = draft.edit(before.id, |table| {
                table.clone_from(&plan.table);
                if plan.rewrite {
                    columns::forget_backfills(table);
                }
                if plan.rewrite || !plan.indexes_to_build.is_empty() {
                    // Older snapshots do not see the rows in the new spaces.
                    table.incompatible_since = version;
                }
            });
            changed.ok_or_else(|| errors::no_table(&before.database, &before.name))?;
            for (child, name) in children.iter().filter(|_| !plan.renamed.is_empty()) {
                draft.edit(*child, |child| {
                    for key in child.foreign_keys.iter_mut().filter(|k| k.name == *name) {
                        keys::rename_parent_columns(&mut key.parent_columns, &plan.renamed);
                    }
                });
            }
            if let Some((database, name)) = &plan.rename_to {
                rename::rename_in(draft, before.id, database, name)?;
            }
            Ok(())
        })
    }

    /// AUTO_INCREMENT = n, raised above all existing values.
    fn raise_auto_increment(&self, cx: &DdlCx<'_>, table: &Table, next: u64) -> Result<()> {
        let Some(column) = table.auto_increment() else {
            return Ok(());
        };
        let mut next = next.max(1);
        if next < self.next_auto_increment(table)? {
            self.for_each_batch(cx, table, |batch| {
                for (_, row) in batch {
                    let used = fill::id_of(RowRef::new(table, row)?.get(column));
                    next = next.max(used.saturating_add(1));
                }
                Ok(())
            })?;
        }
        self.set_auto_increment(table, next)
    }
}

/// Returns the tables that gain a constraint by the statement: parents that will be referenced, and
/// children whose constraints refer to the new name.
fn new_relatives(catalog: &Catalog, table: &Table, ops: &[AlterOp]) -> Vec<TableId> {
    let mut all = Vec::new();
    for op in ops {
        match op {
            AlterOp::AddForeignKey(spec) => {
                let database = spec.parent_database.as_ref().unwrap_or(&table.database);
                let parent = catalog.table(database, &spec.parent_table);
                all.extend(parent.map(|t| t.id));
            }
            AlterOp::RenameTo(database, name) => {
                all.extend(rename::unresolved_children(catalog, database, name));
            }
            _ => {}
        }
    }
    all
}

pub(super) fn plan(
    db: &Db,
    catalog: &Catalog,
    before: &Table,
    cx: &DdlCx<'_>,
    ops: &[AlterOp],
    cast: &CastCx<'_>,
) -> Result<Plan> {
    let mut plan = Plan {
        table: before.definition().clone(),
        rewrite: false,
        converts: false,
        rekeys_rows: false,
        changes_layout: false,
        indexes_to_build: Vec::new(),
        next_index: before.indexes.iter().map(|i| i.id + 1).max().unwrap_or(1),
        not_null: Vec::new(),
        retyped: Vec::new(),
        rekeyed: Vec::new(),
        requires_empty_table: Vec::new(),
        generated_column: None,
        renamed: Vec::new(),
        validates_checks: false,
        validate: Vec::new(),
        spaces_to_drop: Vec::new(),
        auto_increment: None,
        rename_to: None,
    };
    apply_options(&mut plan, ops)?;
    keys::drop_all(&mut plan, ops)?;
    let ops = &columns::apply(db, catalog, before, &mut plan, ops, cx, cast)?;
    keys::add_all(catalog, before, &mut plan, cx, ops)?;
    keys::check_constraints(catalog, before, &plan, cx)?;
    if plan.not_null.iter().any(|_| !cast.strict) {
        // A non-strict mode replaces NULLs by implicit defaults.
        plan.rewrite = true;
    }
    checks::validate(&plan.table)?;
    rename_ttl_column(&mut plan);
    ttl::validate(&plan.table)?;
    for op in ops {
        if let AlterOp::Partition(by) = op {
            plan.table.partitioning = by.as_deref().cloned();
            plan.rewrite = true;
        }
    }
    update_layout(&mut plan);
    let table = &mut plan.table;
    indexes::sort(&mut table.indexes, &table.columns);
    partition::check(table)?;
    Ok(plan)
}

/// Renames the column in the TTL clause if the change renames that column.
fn rename_ttl_column(plan: &mut Plan) {
    let Some(ttl) = &mut plan.table.options.ttl else {
        return;
    };
    let mut renamed = plan.renamed.iter();
    if let Some((_, new)) = renamed.find(|(old, _)| old.eq_ignore_ascii_case(&ttl.column)) {
        ttl.column.clone_from(new);
    }
}

fn apply_options(plan: &mut Plan, ops: &[AlterOp]) -> Result<()> {
    let options = &mut plan.table.options;
    for op in ops {
        match op {
            AlterOp::SetAutoIncrement(next) => plan.auto_increment = Some(*next),
            AlterOp::SetComment(text) => options.comment.clone_from(text),
            AlterOp::SetEngine(name) => options.engine.clone_from(name),
            AlterOp::SetCollation(collation) => options.collation = *collation,
            AlterOp::SetOption(name, value) => {
                options.other.retain(|(n, _)| n != name);
                let value = value.as_ref().map(|v| (name.clone(), v.clone()));
                options.other.extend(value);
            }
            AlterOp::RenameTo(database, name) => {
                plan.rename_to = Some((database.clone(), name.clone()));
            }
            AlterOp::SetTtl(change) => {
                options.ttl = Some(change.apply(options.ttl.take())?);
            }
            AlterOp::RemoveTtl => options.ttl = None,
            AlterOp::Algorithm(Algorithm::Copy) | AlterOp::Force => plan.rewrite = true,
            _ => {}
        }
    }
    for op in ops {
        if let AlterOp::DropColumn(column) = op {
            ttl::check_droppable(&plan.table, column)?;
        }
    }
    Ok(())
}

/// Makes the plan copy the rows, even if it need not.
pub(super) fn rewrite_rows(plan: &mut Plan) {
    if plan.rewrite {
        return;
    }
    let is_new_layout = plan.changes_layout;
    plan.rewrite = true;
    let table = &mut plan.table;
    if !is_new_layout {
        table.version += 1;
    }
    table.layouts = vec![specs::layout(table.version, &table.columns)];
}

/// Sets the table version and the layout of rows written from now on.
fn update_layout(plan: &mut Plan) {
    let table = &mut plan.table;
    if plan.changes_layout && table.layouts.len() >= MAX_LAYOUTS {
        plan.rewrite = true;
    }
    if !plan.rewrite && !plan.changes_layout {
        return;
    }
    table.version += 1;
    let layout = specs::layout(table.version, &table.columns);
    if plan.rewrite {
        table.layouts = vec![layout];
    } else {
        table.layouts.push(layout);
    }
}

/// The LOCK clause; `None` for DEFAULT.
pub(super) fn asked_lock(ops: &[AlterOp]) -> Option<LockLevel> {
    ops.iter().rev().find_map(|op| match op {
        AlterOp::Lock(level) => Some(*level),
        _ => None,
    })
}

/// 1845 and 1846 if LOCK=NONE is requested of a change that keeps writers away while it reads rows.
fn check_lock(plan: &Plan, ops: &[AlterOp]) -> Result<()> {
    if asked_lock(ops) != Some(LockLevel::None) {
        return Ok(());
    }
    if plan.rewrite {
        return Err(errors::copy_requires_lock());
    }
    let validates = !plan.validate.is_empty() || !plan.not_null.is_empty() || plan.validates_checks;
    if validates || !plan.indexes_to_build.is_empty() || !plan.requires_empty_table.is_empty() {
        return Err(errors::lock_refused("NONE", "SHARED"));
    }
    Ok(())
}

/// 1845 and 1846 if the requested ALGORITHM does not permit the plan.
pub(super) fn check_algorithm(plan: &Plan, ops: &[AlterOp]) -> Result<()> {
    let requested = ops.iter().rev().find_map(|op| match op {
        AlterOp::Algorithm(algorithm) => Some(*algorithm),
        _ => None,
    });
    let validates = !plan.validate.is_empty() || !plan.not_null.is_empty() || plan.validates_checks;
    match requested {
        Some(Algorithm::Instant) if plan.converts => {
            Err(errors::algorithm_refused("INSTANT", "COPY"))
        }
        Some(Algorithm::Instant)
            if plan.rewrite || !plan.indexes_to_build.is_empty() || validates =>
        {
            Err(errors::algorithm_refused("INSTANT", "COPY/INPLACE"))
        }
        Some(Algorithm::Inplace) if plan.converts => Err(errors::type_change_in_place()),
        _ => Ok(()),
    }
}
