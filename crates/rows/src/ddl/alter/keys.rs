//! Indexes and foreign keys in ALTER TABLE.

use super::Plan;
use super::columns::{have_same_encoding, referencing};
use crate::catalog::{Catalog, derive};
use crate::ddl::columns::is_virtual;
use crate::ddl::{AlterOp, DdlCx, FkSpec, IndexSpec, check_name, checks, errors, foreign, indexes};
use crate::definition::{Index, IndexKind, TableDef};
use crate::error::Result;
use crate::table::Table;

/// Applies the drops of a statement, which precede its additions.
pub(super) fn drop_all(plan: &mut Plan, ops: &[AlterOp]) -> Result<()> {
    for op in ops {
        match op {
            AlterOp::DropForeignKey(name) => drop_foreign_key(&mut plan.table, name)?,
            AlterOp::DropIndex(name) => drop_index(plan, name)?,
            AlterOp::DropPrimaryKey => drop_primary(plan)?,
            AlterOp::DropCheck(name) => checks::drop(&mut plan.table, name)?,
            _ => {}
        }
    }
    Ok(())
}

/// Applies the renames, then the additions.
pub(super) fn add_all(
    catalog: &Catalog,
    before: &Table,
    plan: &mut Plan,
    cx: &DdlCx<'_>,
    ops: &[AlterOp],
) -> Result<()> {
    for op in ops {
        match op {
            AlterOp::RenameIndex(old, new) => rename_index(before, plan, old, new)?,
            AlterOp::SetIndexVisible(name, visible) => {
                let at = declared_index(&plan.table, name);
                let implicit = plan.table.implicit_primary_key();
                let is_implicit = implicit.is_some_and(|i| i.name.eq_ignore_ascii_case(name));
                if !visible && (at == Some(0) || is_implicit) {
                    return Err(errors::primary_invisible());
                }
                let index = at.and_then(|at| plan.table.indexes.get_mut(at));
                let index = index.ok_or_else(|| errors::no_such_key(name, &before.name))?;
                index.invisible = !visible;
            }
            _ => {}
        }
    }
    for op in ops {
        match op {
            AlterOp::AddIndex(spec) if spec.kind == IndexKind::Primary => add_primary(plan, spec)?,
            AlterOp::AddIndex(spec) => add_declared_index(plan, spec)?,
            AlterOp::AddForeignKey(spec) => add_foreign_key(catalog, plan, cx, spec)?,
            AlterOp::AddCheck(spec) => {
                checks::add(catalog, &mut plan.table, spec)?;
                plan.validates_checks |= spec.enforced;
            }
            AlterOp::SetCheckEnforced(name, enforced) => {
                let at = checks::position(&plan.table, name)?;
                if let Some(check) = plan.table.checks.get_mut(at) {
                    plan.validates_checks |= *enforced && !check.enforced;
                    check.enforced = *enforced;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the position of a declared index. The hidden key cannot be named.
fn declared_index(table: &TableDef, name: &str) -> Option<usize> {
    table.index(name).filter(|at| *at != 0 || !table.hidden_key)
}

fn drop_foreign_key(table: &mut TableDef, name: &str) -> Result<()> {
    let named = |k: &crate::definition::ForeignKey| k.name.eq_ignore_ascii_case(name);
    let at = table.foreign_keys.iter().position(named);
    let at = at.ok_or_else(|| errors::cannot_drop(name))?;
    table.foreign_keys.remove(at);
    Ok(())
}

fn drop_index(plan: &mut Plan, name: &str) -> Result<()> {
    let at = declared_index(&plan.table, name).ok_or_else(|| errors::cannot_drop(name))?;
    if at == 0 {
        return drop_primary(plan);
    }
    let index = plan.table.indexes.remove(at);
    plan.spaces_to_drop.extend(index.spaces);
    Ok(())
}

/// Replaces the primary key by a hidden row id, unless the statement adds a new primary key.
fn drop_primary(plan: &mut Plan) -> Result<()> {
    if plan.table.hidden_key {
        return Err(errors::cannot_drop("PRIMARY"));
    }
    if let Some(primary) = plan.table.indexes.first_mut() {
        primary.parts = Vec::new();
        primary.implicit = true;
        primary.using_hash = false;
        primary.comment = String::new();
    }
    plan.table.hidden_key = true;
    plan.rewrite = true;
    plan.rekeys_rows = true;
    Ok(())
}

fn add_primary(plan: &mut Plan, spec: &IndexSpec) -> Result<()> {
    if !plan.table.hidden_key {
        return Err(errors::two_primary_keys());
    }
    for (name, _, _) in &spec.parts {
        let column = plan.table.columns.iter_mut();
        for column in column.filter(|c| c.name.eq_ignore_ascii_case(name)) {
            if column.nullable {
                column.nullable = false;
                plan.not_null.push(column.id);
                if is_virtual(&column.generated) {
                    return Err(errors::generated_key());
                }
                if column.default == crate::definition::ColumnDefault::Null {
                    column.default = crate::definition::ColumnDefault::None;
                }
            }
        }
    }
    let mut made = Vec::new();
    indexes::add(&mut made, &plan.table.columns, spec, false)?;
    if let (Some(new), Some(primary)) = (made.pop(), plan.table.indexes.first_mut()) {
        *primary = Index {
            id: primary.id,
            spaces: std::mem::take(&mut primary.spaces),
            ..new
        };
    }
    plan.table.hidden_key = false;
    plan.rewrite = true;
    plan.rekeys_rows = true;
    Ok(())
}

fn rename_index(before: &Table, plan: &mut Plan, old: &str, new: &str) -> Result<()> {
    check_name(new)?;
    if new.is_empty() || new.eq_ignore_ascii_case("PRIMARY") {
        return Err(errors::bad_index_name(new));
    }
    if old.eq_ignore_ascii_case("PRIMARY") {
        return Err(errors::bad_index_name(old));
    }
    let id = declared_index(before, old).and_then(|at| before.indexes.get(at));
    let id = id.map(|i| i.id);
    let at = plan.table.indexes.iter().position(|i| Some(i.id) == id);
    let at = at.ok_or_else(|| errors::no_such_key(old, &before.name))?;
    let named = |(n, i): (usize, &Index)| n != at && i.name.eq_ignore_ascii_case(new);
    if plan.table.indexes.iter().enumerate().any(named) {
        return Err(errors::duplicate_index(new));
    }
    if let Some(index) = plan.table.indexes.get_mut(at) {
        new.clone_into(&mut index.name);
    }
    Ok(())
}

fn add_index(plan: &mut Plan, spec: &IndexSpec, implicit: bool) -> Result<()> {
    let table = &mut plan.table;
    indexes::add(&mut table.indexes, &table.columns, spec, implicit)?;
    if let Some(index) = table.indexes.last_mut() {
        // A new id, so that it differs from those of indexes that this statement drops.
        index.id = plan.next_index;
        plan.next_index += 1;
        plan.indexes_to_build.push(index.id);
    }
    Ok(())
}

/// Adds an index after the implicit indexes that it supersedes are dropped: it may have the name of
/// one of them.
fn add_declared_index(plan: &mut Plan, spec: &IndexSpec) -> Result<()> {
    let mut declared = Vec::new();
    indexes::add(&mut declared, &plan.table.columns, spec, false)?;
    for index in &declared {
        drop_superseded(plan, index);
    }
    add_index(plan, spec, false)
}

/// Drops the indexes that were created only for a foreign key and whose work the added one can do
/// (manual, "FOREIGN KEY Constraints", on implicit indexes).
fn drop_superseded(plan: &mut Plan, added: &Index) {
    if plan.table.array_column(added).is_some() || added.is_full_text() {
        return;
    }
    let goes = |i: &Index| i.implicit && i.kind == IndexKind::Plain && has_prefix_parts(added, i);
    let (leaving, kept): (Vec<Index>, Vec<Index>) = std::mem::take(&mut plan.table.indexes)
        .into_iter()
        .partition(goes);
    plan.table.indexes = kept;
    for index in leaving {
        plan.indexes_to_build.retain(|id| *id != index.id);
        plan.spaces_to_drop.extend(index.spaces);
    }
}

fn has_prefix_parts(longer: &Index, shorter: &Index) -> bool {
    longer.parts.len() >= shorter.parts.len()
        && longer
            .parts
            .iter()
            .zip(&shorter.parts)
            .all(|(a, b)| a.column == b.column && a.prefix == b.prefix)
}

fn add_foreign_key(
    catalog: &Catalog,
    plan: &mut Plan,
    cx: &DdlCx<'_>,
    spec: &FkSpec,
) -> Result<()> {
    let mut key = foreign::foreign_key(catalog, &plan.table, spec, cx.foreign_key_checks)?;
    if let Some(index) = foreign::missing_index(&plan.table, &key, spec) {
        add_index(plan, &index, true)?;
    }
    plan.validate.push(key.name.clone());
    key.child_index = 0;
    plan.table.foreign_keys.push(key);
    Ok(())
}

/// Checks that every constraint still has its indexes and compatible columns.
pub(super) fn check_constraints(
    catalog: &Catalog,
    before: &Table,
    plan: &Plan,
    cx: &DdlCx<'_>,
) -> Result<()> {
    check_types(catalog, before, plan, cx)?;
    check_parents_of(catalog, before, plan)?;
    for key in &plan.table.foreign_keys {
        if derive::child_index(&plan.table, &key.columns).is_none() {
            return Err(errors::index_needed(&lost_index(before, plan)));
        }
    }
    for (child, key) in referencing(catalog, before) {
        let own = child.id == before.id;
        if own && !plan.table.foreign_keys.iter().any(|k| k.name == key.name) {
            continue;
        }
        let mut key = key.clone();
        rename_parent_columns(&mut key.parent_columns, &plan.renamed);
        if derive::resolve_parent(&plan.table, &key).is_none() {
            return Err(errors::index_needed(&lost_index(before, plan)));
        }
    }
    Ok(())
}

/// Checks constraints of this table whose parent exists: 3780 if a column is no longer compatible,
/// 1830 if a SET NULL column is NOT NULL.
fn check_parents_of(catalog: &Catalog, before: &Table, plan: &Plan) -> Result<()> {
    use crate::definition::FkAction::SetNull;
    for key in &plan.table.foreign_keys {
        let sets_null = key.on_delete == SetNull || key.on_update == SetNull;
        let columns = key
            .columns
            .iter()
            .filter_map(|c| plan.table.columns.get(*c));
        if let Some(strict) = columns.into_iter().find(|c| sets_null && !c.nullable) {
            return Err(errors::fk_not_null(&strict.name, &key.name));
        }
        let own = key.parent_database == before.database && key.parent_table == before.name;
        if own {
            let mut key = key.clone();
            rename_parent_columns(&mut key.parent_columns, &plan.renamed);
            foreign::check_types(&plan.table, &plan.table, &key)?;
        } else if let Some(parent) = catalog.table(&key.parent_database, &key.parent_table) {
            foreign::check_types(&plan.table, parent, key)?;
        }
    }
    for (child, key) in referencing(catalog, before).filter(|(c, _)| c.id != before.id) {
        let mut key = key.clone();
        rename_parent_columns(&mut key.parent_columns, &plan.renamed);
        foreign::check_types(child, &plan.table, &key)?;
    }
    Ok(())
}

/// 1832 and 1833 if the type of a constraint's column changes.
fn check_types(catalog: &Catalog, before: &Table, plan: &Plan, cx: &DdlCx<'_>) -> Result<()> {
    if !cx.foreign_key_checks {
        return Ok(());
    }
    let changed = |position: usize| {
        let old = before.columns.get(position)?;
        let new = plan.table.columns.iter().find(|c| c.id == old.id)?;
        (!have_same_encoding(&old.ty, &new.ty)).then_some(old)
    };
    for key in &before.foreign_keys {
        if !plan.table.foreign_keys.iter().any(|k| k.name == key.name) {
            continue;
        }
        if let Some(column) = key.columns.iter().find_map(|c| changed(*c)) {
            return Err(errors::column_change_in_foreign_key(
                &column.name,
                &key.name,
            ));
        }
    }
    for (child, key) in referencing(catalog, before) {
        let mut positions = key.parent_columns.iter().filter_map(|c| before.column(c));
        if let Some(column) = positions.find_map(changed) {
            let child = format!("{}.{}", child.database, child.name);
            return Err(errors::column_change_referenced(
                &column.name,
                &key.name,
                &child,
            ));
        }
    }
    Ok(())
}

/// Returns the name of the first index of `before` that was dropped or changed.
fn lost_index(before: &Table, plan: &Plan) -> String {
    let kept = |i: &&Index| {
        !plan
            .table
            .indexes
            .iter()
            .any(|n| n.id == i.id && n.parts.len() == i.parts.len())
    };
    let lost = before.indexes.iter().find(kept);
    lost.map_or_else(String::new, |i| i.name.clone())
}

/// Renames referenced columns that the statement renames.
pub(super) fn rename_parent_columns(names: &mut [String], renamed: &[(String, String)]) {
    for name in names {
        let new = renamed
            .iter()
            .find(|(old, _)| old.eq_ignore_ascii_case(name));
        if let Some((_, new)) = new {
            name.clone_from(new);
        }
    }
}
