//! Definitions of tables for clients.

use crate::convert::default_of;
use porpoise_access::{Privileges, Rights};
use porpoise_rows::catalog::{Index, IndexState, Table};
use porpoise_wire::native::message;
use porpoise_wire::native::value::Encoding;

/// Whether operations can use an index: it is complete, and its keys are whole values of columns that
/// clients see.
pub(crate) fn is_usable(table: &Table, index: &Index) -> bool {
    let is_whole = |part: &porpoise_rows::catalog::IndexPart| {
        let column = table.columns.get(part.column);
        part.prefix.is_none() && column.is_some_and(|c| !c.is_hidden() && !c.is_array())
    };
    index.state == IndexState::Public
        && !index.is_full_text()
        && !index.invisible
        && index.parts.iter().all(is_whole)
}

fn number(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(u16::MAX)
}

/// Describes a table, with the columns on which there are any rights.
pub(crate) fn describe(table: &Table, rights: &Rights) -> message::Table {
    let is_visible = |name: &str| {
        let held = rights.on_column(&table.database, &table.name, name);
        held.intersects(Privileges::COLUMN)
    };
    let columns = table.named_columns();
    let columns = columns.filter(|(_, column)| is_visible(&column.name));
    let columns = columns.map(|(position, column)| {
        let is_generated = column.generated.is_some();
        message::Column {
            position: number(position),
            name: column.name.clone(),
            encoding: Encoding::of(&column.ty),
            is_nullable: column.nullable,
            has_default: default_of(column, 0).is_some(),
            is_generated,
            is_auto_increment: column.auto_increment,
            sql_type: column.ty.sql(),
        }
    });
    let indexes = table.indexes.iter().enumerate();
    let indexes = indexes.filter(|(_, index)| is_usable(table, index));
    message::Table {
        id: table.id.0,
        version: table.version,
        database: table.database.clone(),
        name: table.name.clone(),
        columns: columns.collect(),
        indexes: indexes
            .map(|(position, index)| message::Index {
                position: number(position),
                name: index.name.clone(),
                is_unique: index.kind.is_unique() && !index.parts.is_empty(),
                columns: index.parts.iter().map(|part| number(part.column)).collect(),
            })
            .collect(),
    }
}
