//! ALTER TABLE, and CREATE and DROP INDEX, which are the same thing.

use super::{AlterOp, DdlCx, DdlDone, FkSpec, errors, foreign, indexes, neighbours, tables};
use crate::catalog::{Catalog, Index, IndexKind, Table, TableId};
use crate::db::Db;
use crate::error::Result;
use crate::row::RowRef;
use porpoise_kv::SpaceId;
use porpoise_types::ValueRef;
use std::sync::Arc;

/// What an ALTER TABLE is going to do, worked out before anything is built.
struct Plan {
    table: Table,
    /// Ids of indexes to be built.
    build: Vec<u32>,
    /// Names of constraints to be validated.
    validate: Vec<String>,
    /// Spaces that nothing names afterwards.
    leaving: Vec<SpaceId>,
    auto_increment: Option<u64>,
}

impl Db {
    /// ALTER TABLE with all its clauses, or none of them.
    pub fn alter_table(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        ops: &[AlterOp],
    ) -> Result<DdlDone> {
        let find = |catalog: &Catalog| -> Result<Arc<Table>> {
            if catalog.database(database).is_none() {
                return Err(errors::no_database(database));
            }
            let table = catalog.table(database, name).cloned();
            table.ok_or_else(|| errors::no_table(database, name))
        };
        let _barrier = self.barrier(cx, |catalog| {
            let table = find(catalog)?;
            let mut all = neighbours(&table);
            all.extend(new_parents(catalog, &table, ops));
            Ok(all)
        })?;
        let catalog = self.catalog();
        let before = find(&catalog)?;
        let mut plan = plan(&catalog, &before, cx, ops)?;
        let fresh = self.give_index_spaces(&mut plan)?;
        let built = self.build_and_commit(cx, &before, &plan);
        if let Err(error) = &built {
            self.abandon_spaces(&fresh, error);
        }
        let ticket = built?;
        self.retire_spaces(&plan.leaving);
        Ok(DdlDone {
            ticket,
            note: false,
        })
    }

    fn give_index_spaces(&self, plan: &mut Plan) -> Result<Vec<SpaceId>> {
        let wanted = |i: &&Index| plan.build.contains(&i.id);
        let specs: Vec<_> = plan
            .table
            .indexes
            .iter()
            .filter(wanted)
            .map(|i| tables::space_spec(&plan.table, i))
            .collect();
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        let spaces = self.engine().create_spaces(&specs)?;
        let mut given = spaces.iter();
        for index in &mut plan.table.indexes {
            if plan.build.contains(&index.id) {
                index.spaces = given.next().copied().into_iter().collect();
            }
        }
        Ok(spaces)
    }

    fn build_and_commit(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &Plan,
    ) -> Result<porpoise_kv::Ticket> {
        for (position, index) in plan.table.indexes.iter().enumerate() {
            if plan.build.contains(&index.id) {
                self.build_index(cx, before, &plan.table, position)?;
            }
        }
        if cx.foreign_key_checks {
            for key in &plan.table.foreign_keys {
                if plan.validate.contains(&key.name) {
                    self.validate_foreign_key(cx, &plan.table, key)?;
                }
            }
        }
        if let Some(next) = plan.auto_increment {
            self.raise_auto_increment(cx, &plan.table, next)?;
        }
        self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            let Some(table) = draft.table_mut(plan.table.id) else {
                return Err(errors::no_table(&before.database, &before.name));
            };
            // A clone carries no resolved layouts: they are worked out anew.
            *table = plan.table.clone();
            if !plan.build.is_empty() {
                // Snapshots taken before the build do not find its entries.
                table.incompatible_since = version;
            }
            Ok(())
        })
    }
}

fn new_parents(catalog: &Catalog, table: &Table, ops: &[AlterOp]) -> Vec<TableId> {
    let wanted = |op: &AlterOp| match op {
        AlterOp::AddForeignKey(spec) => {
            let database = spec.parent_database.as_ref().unwrap_or(&table.database);
            catalog.table(database, &spec.parent_table).map(|t| t.id)
        }
        _ => None,
    };
    ops.iter().filter_map(wanted).collect()
}

fn plan(catalog: &Catalog, before: &Table, cx: &DdlCx<'_>, ops: &[AlterOp]) -> Result<Plan> {
    let mut plan = Plan {
        table: before.clone(),
        build: Vec::new(),
        validate: Vec::new(),
        leaving: Vec::new(),
        auto_increment: None,
    };
    // MySQL takes what is dropped before what is added, in one statement.
    for op in ops {
        match op {
            AlterOp::DropForeignKey(name) => drop_foreign_key(&mut plan.table, name)?,
            AlterOp::DropIndex(name) => drop_index(&mut plan, name)?,
            _ => {}
        }
    }
    for op in ops {
        match op {
            AlterOp::AddIndex(spec) => {
                if spec.kind == IndexKind::Primary {
                    return Err(add_primary_refused(&plan.table));
                }
                let table = &mut plan.table;
                indexes::add(&mut table.indexes, &table.columns, spec, false)?;
                plan.build.extend(table.indexes.last().map(|i| i.id));
                drop_superseded(&mut plan);
            }
            AlterOp::AddForeignKey(spec) => add_foreign_key(catalog, &mut plan, cx, spec)?,
            AlterOp::SetAutoIncrement(next) => plan.auto_increment = Some(*next),
            AlterOp::SetComment(text) => plan.table.options.comment.clone_from(text),
            AlterOp::DropForeignKey(_) | AlterOp::DropIndex(_) => {}
        }
    }
    check_dropped(catalog, before, &plan)?;
    let table = &mut plan.table;
    indexes::sort(&mut table.indexes, &table.columns);
    Ok(plan)
}

fn drop_foreign_key(table: &mut Table, name: &str) -> Result<()> {
    let at = table
        .foreign_keys
        .iter()
        .position(|k| k.name.eq_ignore_ascii_case(name));
    match at {
        Some(at) => {
            table.foreign_keys.remove(at);
            Ok(())
        }
        None => Err(errors::cannot_drop(name)),
    }
}

fn drop_index(plan: &mut Plan, name: &str) -> Result<()> {
    let at = plan.table.index(name);
    let Some(at) = at.filter(|at| *at != 0 || !plan.table.hidden_key) else {
        return Err(errors::cannot_drop(name));
    };
    if at == 0 {
        return Err(add_primary_refused(&plan.table));
    }
    let index = plan.table.indexes.remove(at);
    plan.leaving.extend(index.spaces);
    Ok(())
}

/// Changing the primary key rewrites the table; that is not an operation on
/// one index.
fn add_primary_refused(table: &Table) -> crate::error::Error {
    if table.hidden_key {
        errors::primary_change()
    } else {
        errors::two_primary_keys()
    }
}

/// Each constraint that lost its index to a DROP INDEX must still have one.
fn check_dropped(catalog: &Catalog, before: &Table, plan: &Plan) -> Result<()> {
    for (position, index) in before.indexes.iter().enumerate() {
        let kept = plan.table.indexes.iter().any(|i| i.id == index.id);
        if kept || superseded(plan, index) {
            continue;
        }
        let mut left = plan.table.clone();
        left.indexes.push(index.clone());
        let at = left.indexes.len() - 1;
        if foreign::needs_index(catalog, &left, at) && position != 0 {
            return Err(errors::index_needed(&index.name));
        }
    }
    Ok(())
}

fn superseded(plan: &Plan, index: &Index) -> bool {
    index.implicit
        && plan
            .table
            .indexes
            .iter()
            .any(|i| i.id != index.id && begins_like(i, index))
}

fn begins_like(longer: &Index, shorter: &Index) -> bool {
    longer.parts.len() >= shorter.parts.len()
        && longer
            .parts
            .iter()
            .zip(&shorter.parts)
            .all(|(a, b)| a.column == b.column && a.prefix == b.prefix)
}

/// An index that was made only for a foreign key goes when an explicit one
/// can serve (manual, "FOREIGN KEY Constraints", on implicit indexes).
fn drop_superseded(plan: &mut Plan) {
    let Some(added) = plan.table.indexes.last().cloned() else {
        return;
    };
    let goes = |i: &Index| i.implicit && i.id != added.id && i.kind == IndexKind::Plain;
    let leaving: Vec<Index> = plan
        .table
        .indexes
        .iter()
        .filter(|i| goes(i) && begins_like(&added, i))
        .cloned()
        .collect();
    for index in leaving {
        plan.table.indexes.retain(|i| i.id != index.id);
        plan.leaving.extend(index.spaces);
    }
}

fn add_foreign_key(
    catalog: &Catalog,
    plan: &mut Plan,
    cx: &DdlCx<'_>,
    spec: &FkSpec,
) -> Result<()> {
    let mut key = foreign::foreign_key(catalog, &plan.table, spec, cx.foreign_key_checks)?;
    let table = &mut plan.table;
    if let Some(index) = foreign::missing_index(table, &key, spec) {
        indexes::add(&mut table.indexes, &table.columns, &index, true)?;
        plan.build.extend(table.indexes.last().map(|i| i.id));
    }
    plan.validate.push(key.name.clone());
    key.child_index = 0;
    plan.table.foreign_keys.push(key);
    Ok(())
}

impl Db {
    /// AUTO_INCREMENT = n: never at or below a value that is there.
    fn raise_auto_increment(&self, cx: &DdlCx<'_>, table: &Table, next: u64) -> Result<()> {
        let Some(column) = table.auto_increment() else {
            return Ok(());
        };
        let mut next = next.max(1);
        if next < self.next_auto_increment(table)? {
            self.each_batch(cx, table, |batch| {
                for (_, row) in batch {
                    let used = match RowRef::new(table, row)?.get(column) {
                        ValueRef::Int(v) => u64::try_from(v).unwrap_or(0),
                        ValueRef::UInt(v) => v,
                        _ => 0,
                    };
                    next = next.max(used.saturating_add(1));
                }
                Ok(())
            })?;
        }
        self.set_auto_increment(table, next)
    }
}
