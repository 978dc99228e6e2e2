//! ALTER TABLE: from clauses to operations.

use super::{foreign_key, index, is_engine};
use crate::error::{Result, SqlError};
use crate::parse::ast::{AlterAction, AlterTable, TableElement, TableOption};
use crate::session::SqlSession;
use porpoise_rows::catalog::{IndexKind, Table};
use porpoise_rows::ddl::AlterOp;
use std::sync::Arc;

/// The operations of an ALTER TABLE.
///
/// # Errors
/// 1146 without the table, 1235 for what is not there.
pub fn operations(
    session: &SqlSession,
    database: &str,
    name: &str,
    alter: &AlterTable<'_>,
) -> Result<Vec<AlterOp>> {
    let catalog = session.server.db.catalog();
    let table = catalog.table(database, name);
    let table = table.ok_or_else(|| SqlError::no_table(database, name))?;
    let mut ops = Vec::with_capacity(alter.actions.len());
    for action in alter.actions {
        operation(session, table, action, &mut ops)?;
    }
    Ok(ops)
}

fn operation(
    session: &SqlSession,
    table: &Arc<Table>,
    action: &AlterAction<'_>,
    ops: &mut Vec<AlterOp>,
) -> Result<()> {
    match action {
        AlterAction::AddElements(elements) => {
            for element in *elements {
                match element {
                    TableElement::Index(def) => ops.push(AlterOp::AddIndex(index(def)?)),
                    TableElement::ForeignKey(def) => {
                        ops.push(AlterOp::AddForeignKey(foreign_key(def)?));
                    }
                    TableElement::Column(_) => return Err(SqlError::not_supported("ADD COLUMN")),
                    TableElement::Check(_) => {
                        return Err(SqlError::not_supported("CHECK constraints"));
                    }
                }
            }
        }
        AlterAction::AddIndex(def) => ops.push(AlterOp::AddIndex(index(def)?)),
        AlterAction::AddForeignKey(def) => ops.push(AlterOp::AddForeignKey(foreign_key(def)?)),
        AlterAction::DropIndex(name) => ops.push(AlterOp::DropIndex(name.name.to_owned())),
        AlterAction::DropForeignKey(name) => {
            ops.push(AlterOp::DropForeignKey(name.name.to_owned()));
        }
        AlterAction::DropConstraint(name) => ops.push(drop_constraint(table, name.name)?),
        AlterAction::Option(option) => table_option(session, table, option, ops)?,
        AlterAction::EnableKeys(_) => {
            let text = format!(
                "Table storage engine for '{}' doesn't have this option",
                table.name
            );
            session.note(1031, text);
        }
        AlterAction::Force
        | AlterAction::Algorithm(_)
        | AlterAction::Lock(_)
        | AlterAction::Validation(_)
        | AlterAction::OrderBy(_) => {}
        other => return Err(SqlError::not_supported(refused(other))),
    }
    Ok(())
}

/// DROP CONSTRAINT: a foreign key or a unique key of that name.
fn drop_constraint(table: &Table, name: &str) -> Result<AlterOp> {
    let key = |k: &porpoise_rows::catalog::ForeignKey| k.name.eq_ignore_ascii_case(name);
    if table.foreign_keys.iter().any(key) {
        return Ok(AlterOp::DropForeignKey(name.to_owned()));
    }
    let unique = table.index(name).and_then(|at| table.indexes.get(at));
    if unique.is_some_and(|i| i.kind != IndexKind::Plain) {
        return Ok(AlterOp::DropIndex(name.to_owned()));
    }
    let text = format!("Constraint '{name}' does not exist.");
    Err(SqlError::new(3940, "HY000", text))
}

fn table_option(
    session: &SqlSession,
    table: &Table,
    option: &TableOption<'_>,
    ops: &mut Vec<AlterOp>,
) -> Result<()> {
    match option {
        TableOption::AutoIncrement(n) => ops.push(AlterOp::SetAutoIncrement(*n)),
        TableOption::Comment(comment) => {
            let comment = super::table_comment(&table.name, comment)?;
            ops.push(AlterOp::SetComment(comment));
        }
        TableOption::Engine(name) if is_engine(name.name) => {
            super::engine(session, &table.name, name.name)?;
        }
        TableOption::Engine(name) => {
            let text = format!("Unknown storage engine '{}'", name.name);
            return Err(SqlError::new(1286, "42000", text));
        }
        TableOption::Charset(_) | TableOption::Collate(_) => {
            return Err(SqlError::not_supported("changing a table's character set"));
        }
        TableOption::Union(_) => return Err(SqlError::not_supported("UNION of tables")),
        TableOption::RowFormat(_) | TableOption::Other(..) => {}
    }
    Ok(())
}

fn refused(action: &AlterAction<'_>) -> &'static str {
    match action {
        AlterAction::AddColumn(..) => "ADD COLUMN",
        AlterAction::AddCheck(_) => "ADD CHECK",
        AlterAction::DropColumn(_) => "DROP COLUMN",
        AlterAction::DropPrimaryKey => "DROP PRIMARY KEY",
        AlterAction::DropCheck(_) => "DROP CHECK",
        AlterAction::ModifyColumn(..) => "MODIFY COLUMN",
        AlterAction::ChangeColumn(..) => "CHANGE COLUMN",
        AlterAction::SetDefault(..) => "ALTER COLUMN ... SET DEFAULT",
        AlterAction::DropDefault(_) => "ALTER COLUMN ... DROP DEFAULT",
        AlterAction::SetColumnVisible(..) => "INVISIBLE columns",
        AlterAction::SetIndexVisible(..) => "ALTER INDEX ... VISIBLE",
        AlterAction::SetCheckEnforced(..) => "ALTER CHECK",
        AlterAction::Rename(_) => "RENAME TO",
        AlterAction::RenameColumn(..) => "RENAME COLUMN",
        AlterAction::RenameIndex(..) => "RENAME INDEX",
        AlterAction::ConvertCharset(..) => "CONVERT TO CHARACTER SET",
        AlterAction::DiscardTablespace(_) => "DISCARD TABLESPACE",
        _ => "partitioning",
    }
}
