//! Rules for expressions in definitions, and dependencies between them.
//!
//! The compiler ([`crate::expressions`]) checks whether a text can be evaluated. The rules here
//! need only the names of the columns that an expression reads (manual, "CHECK Constraints",
//! "CREATE TABLE and Generated Columns", "Data Type Default Values").

use super::{CheckSpec, check_name, errors};
use crate::catalog::Catalog;
use crate::definition::{
    CheckConstraint, Column, ColumnDefault, FkAction, ForeignKey, GeneratedKind, TableDef, TableId,
};
use crate::error::Result;

/// Adds a constraint to a table.
///
/// # Errors
/// 3822 for a name that is taken, 3813 for a column's check that reads
/// another column.
pub(super) fn add(catalog: &Catalog, table: &mut TableDef, spec: &CheckSpec) -> Result<()> {
    let name = match &spec.name {
        Some(name) => {
            check_name(name)?;
            name.clone()
        }
        None => generated_name(table),
    };
    if is_name_taken(catalog, table, table.id, &name) {
        return Err(errors::check_duplicate(&name));
    }
    if let Some(own) = &spec.of_column {
        let other = |c: &String| !c.eq_ignore_ascii_case(own);
        if spec.expression.columns.iter().any(other) {
            return Err(errors::check_other_column(&name));
        }
    }
    table.checks.push(CheckConstraint {
        name,
        expression: spec.expression.clone(),
        enforced: spec.enforced,
    });
    Ok(())
}

/// Returns `table_chk_n`, where n is one more than the greatest in use.
fn generated_name(table: &TableDef) -> String {
    let start = format!("{}_chk_", table.name);
    let number = |c: &CheckConstraint| c.name.strip_prefix(&start)?.parse::<u64>().ok();
    let greatest = table.checks.iter().filter_map(number).max().unwrap_or(0);
    format!("{start}{}", greatest.saturating_add(1))
}

fn is_name_taken(catalog: &Catalog, table: &TableDef, id: TableId, name: &str) -> bool {
    let named = |c: &CheckConstraint| c.name.eq_ignore_ascii_case(name);
    let others = catalog.tables.values();
    let mut others = others.filter(|t| t.id != id && t.database == table.database);
    table.checks.iter().any(named) || others.any(|t| t.checks.iter().any(named))
}

/// 3822: a check's name is taken in the table's database.
pub(super) fn check_names(catalog: &Catalog, table: &TableDef) -> Result<()> {
    if table.checks.is_empty() {
        return Ok(());
    }
    let others = catalog.tables.values();
    let others = others.filter(|t| t.id != table.id && t.database == table.database);
    for other in others {
        for check in &other.checks {
            let same = |c: &CheckConstraint| c.name.eq_ignore_ascii_case(&check.name);
            if table.checks.iter().any(same) {
                return Err(errors::check_duplicate(&check.name));
            }
        }
    }
    Ok(())
}

/// Gives generated names of checks the table's new name.
pub(super) fn rename(table: &mut TableDef, name: &str) {
    let start = format!("{}_chk_", table.name);
    for check in &mut table.checks {
        if let Some(number) = check.name.strip_prefix(&start) {
            check.name = format!("{name}_chk_{number}");
        }
    }
}

/// DROP CHECK; 3821 if there is no constraint of that name.
pub(super) fn drop(table: &mut TableDef, name: &str) -> Result<()> {
    let at = position(table, name)?;
    table.checks.remove(at);
    Ok(())
}

/// Returns the position of the CHECK constraint with that name; 3821 if there is none.
pub(super) fn position(table: &TableDef, name: &str) -> Result<usize> {
    let named = |c: &CheckConstraint| c.name.eq_ignore_ascii_case(name);
    let at = table.checks.iter().position(named);
    at.ok_or_else(|| errors::no_such_check(name))
}

/// Checks the rules for a whole definition: references between expressions, auto-increment columns,
/// referential actions.
pub(super) fn validate(table: &TableDef) -> Result<()> {
    let auto = table.columns.iter().find(|c| c.auto_increment);
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(generated) = &column.generated {
            if auto.is_some_and(|a| generated.expression.reads(&a.name)) {
                return Err(match table.index_of_key_part(at) {
                    Some(index) if column.is_hidden() => errors::key_part_auto_increment(index),
                    _ => errors::generated_auto_increment(&column.name),
                });
            }
            let later = table.columns.iter().skip(at);
            let mut later = later.filter(|c| c.generated.is_some());
            if later.any(|c| generated.expression.reads(&c.name)) {
                return Err(errors::generated_non_prior());
            }
        } else if let ColumnDefault::Expr(expression) = &column.default {
            if auto.is_some_and(|a| expression.reads(&a.name)) {
                return Err(errors::default_auto_increment(&column.name));
            }
            let computed =
                |c: &&Column| c.generated.is_some() || matches!(c.default, ColumnDefault::Expr(_));
            let later = table.columns.iter().skip(at);
            if later.filter(computed).any(|c| expression.reads(&c.name)) {
                return Err(errors::default_non_prior(&column.name));
            }
        }
    }
    for check in &table.checks {
        if auto.is_some_and(|a| check.expression.reads(&a.name)) {
            return Err(errors::check_auto_increment(&check.name));
        }
    }
    let mut constraints = table.foreign_keys.iter();
    constraints.try_for_each(|key| foreign_key(table, key))
}

/// 3823, 3104, 3733: conflicts between foreign keys and expressions.
fn foreign_key(table: &TableDef, key: &ForeignKey) -> Result<()> {
    let follows = |a: FkAction| matches!(a, FkAction::Cascade | FkAction::SetNull);
    let changes = follows(key.on_update) || key.on_delete == FkAction::SetNull;
    for column in key.columns.iter().filter_map(|c| table.columns.get(*c)) {
        if let Some(generated) = &column.generated {
            if generated.kind != GeneratedKind::Stored {
                return Err(errors::fk_virtual(&key.name, &column.name));
            }
            let clause = match (key.on_update, key.on_delete) {
                (_, FkAction::SetNull) => "ON DELETE SET NULL",
                (FkAction::SetNull, _) => "ON UPDATE SET NULL",
                (FkAction::Cascade, _) => "ON UPDATE CASCADE",
                _ => continue,
            };
            return Err(errors::fk_generated(clause));
        }
        let reads = |c: &&CheckConstraint| c.expression.reads(&column.name);
        if let Some(check) = table.checks.iter().find(reads).filter(|_| changes) {
            return Err(errors::check_fk_action(
                &column.name,
                &check.name,
                &key.name,
            ));
        }
    }
    Ok(())
}

/// Checks that a column can be dropped or renamed: 3108, 3766 and 3837 while one of the columns `dependent` reads
/// it, 3959 while a CHECK constraint that also reads others does. A CHECK constraint that reads only
/// the dropped column is dropped with it (`drops`).
pub(super) fn check_column_removal<'c>(
    table: &mut TableDef,
    dependent: impl Iterator<Item = &'c Column>,
    name: &str,
    drops: bool,
) -> Result<()> {
    for column in dependent {
        if column
            .generated
            .as_ref()
            .is_some_and(|g| g.expression.reads(name))
        {
            return Err(if column.is_hidden() {
                errors::key_part_depends(name)
            } else {
                errors::generated_depends(name)
            });
        }
        if matches!(&column.default, ColumnDefault::Expr(e) if e.reads(name)) {
            return Err(errors::default_depends(name, &table.name));
        }
    }
    if drops {
        let alone = |c: &CheckConstraint| c.expression.columns.len() == 1;
        table
            .checks
            .retain(|c| !(alone(c) && c.expression.reads(name)));
    }
    let reads = |c: &&CheckConstraint| c.expression.reads(name);
    match table.checks.iter().find(reads) {
        Some(check) => Err(errors::check_depends(&check.name, name)),
        None => Ok(()),
    }
}
