//! Metadata of result columns.

use super::ResultColumn;
use super::select::Item;
use crate::bind::{Origin, Scope};
use crate::expr::ExprKind;
use porpoise_rows::catalog::Table;
use porpoise_types::{Collation, ColumnType, Kind, column_flag as flag};

/// Metadata of one select-list item.
pub(super) fn result_column(scope: &Scope, item: &Item) -> ResultColumn {
    let e = &item.expr;
    let mut column =
        ResultColumn::without_table(item.name.clone(), e.ty.clone(), type_flags(&e.ty));
    if !e.nullable {
        column.flags |= flag::NOT_NULL;
    }
    let ExprKind::Column {
        slot, column: at, ..
    } = &e.kind
    else {
        return column;
    };
    if e.ty.is_numeric() || matches!(e.ty.kind, Kind::Bit | Kind::Year) {
        // MySQL sets this flag for numeric expressions, but not for columns.
        column.flags &= !flag::BINARY;
    }
    let Some(source) = scope.sources.get(*slot) else {
        return column;
    };
    column.table.clone_from(&source.alias);
    column.schema.clone_from(&source.database);
    if let Some(known) = source.columns.get(*at) {
        column.org_name.clone_from(&known.name);
    }
    match &source.origin {
        Origin::Derived(_) => {}
        Origin::Virtual(table) => column.org_table = table.name.to_owned(),
        Origin::Stored(table) => {
            column.org_table.clone_from(&table.name);
            column.flags |= column_flags(table, *at);
        }
    }
    if e.nullable {
        // The inner side of an outer join.
        column.flags &= !flag::NOT_NULL;
    }
    column
}

/// Flags that follow from the type.
pub fn type_flags(ty: &ColumnType) -> u16 {
    let mut all = 0;
    let mut set = |on: bool, flag: u16| {
        if on {
            all |= flag;
        }
    };
    set(ty.unsigned, flag::UNSIGNED);
    set(ty.zerofill, flag::ZEROFILL);
    set(ty.is_blob() || ty.kind == Kind::Json, flag::BLOB);
    set(ty.kind == Kind::Enum, flag::ENUM);
    set(ty.kind == Kind::Set, flag::SET);
    set(ty.kind == Kind::Timestamp, flag::TIMESTAMP);
    let textual = crate::bind::types::is_text(ty);
    set(!textual || ty.collation == Collation::BINARY, flag::BINARY);
    all
}

/// Flags that follow from the definition of a stored column.
pub fn column_flags(table: &Table, at: usize) -> u16 {
    use porpoise_rows::catalog::{ColumnDefault, IndexKind};
    let mut all = 0;
    for index in &table.indexes {
        let place = index.parts.iter().position(|p| p.column == at);
        all |= match (index.kind, place) {
            (IndexKind::Primary, Some(_)) => flag::PRI_KEY,
            (IndexKind::Unique, Some(0)) if index.parts.len() == 1 => flag::UNIQUE_KEY,
            (_, Some(0)) => flag::MULTIPLE_KEY,
            _ => 0,
        };
        if place.is_some() {
            all |= flag::PART_KEY;
        }
    }
    if let Some(column) = table.columns.get(at) {
        if column.auto_increment {
            all |= flag::AUTO_INCREMENT;
        }
        if column.default == ColumnDefault::None && !column.nullable && !column.auto_increment {
            all |= flag::NO_DEFAULT_VALUE;
        }
        if column.on_update_now {
            all |= flag::ON_UPDATE_NOW;
        }
    }
    all
}
