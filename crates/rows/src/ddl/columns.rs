//! Converts column specifications to columns: names, NULL, defaults.

use super::{ColumnSpec, IndexSpec, check_name, errors};
use crate::definition::{
    Column, ColumnDefault, ColumnId, Generated, GeneratedKind, IndexKind, LayoutDef,
};
use crate::error::Result;
use porpoise_types::{Kind, Value};

/// MySQL's limit ("Limits on Table Column Count and Row Size").
pub(super) const MAX_COLUMNS: usize = 4096;

/// Checks the specifications and creates the columns, numbered from 0. Columns of the primary key
/// become NOT NULL.
pub(super) fn columns(specs: &[ColumnSpec], indexes: &[IndexSpec]) -> Result<Vec<Column>> {
    if specs.is_empty() {
        return Err(errors::no_columns());
    }
    if specs.len() > MAX_COLUMNS {
        return Err(errors::too_many_columns());
    }
    if specs.iter().filter(|c| c.auto_increment).count() > 1 {
        return Err(errors::two_auto_columns());
    }
    let mut columns: Vec<Column> = Vec::with_capacity(specs.len());
    for (id, spec) in (0u32..).zip(specs) {
        let taken = |c: &Column| c.name.eq_ignore_ascii_case(&spec.name);
        if columns.iter().any(taken) {
            return Err(errors::duplicate_column(&spec.name));
        }
        columns.push(column(ColumnId(id), spec, in_primary_key(spec, indexes))?);
    }
    check_visible(&columns)?;
    Ok(columns)
}

/// 4028: all columns are INVISIBLE.
pub(super) fn check_visible(columns: &[Column]) -> Result<()> {
    if columns.iter().all(|c| c.invisible || c.is_hidden()) {
        return Err(errors::no_visible_column());
    }
    Ok(())
}

/// Checks a column name: 1059, 1166.
pub(super) fn check_column_name(name: &str) -> Result<()> {
    check_name(name)?;
    if name.is_empty() || name.ends_with(' ') {
        return Err(errors::bad_column_name(name));
    }
    Ok(())
}

/// Whether the column belongs to a primary key among `indexes`.
pub(super) fn in_primary_key(spec: &ColumnSpec, indexes: &[IndexSpec]) -> bool {
    indexes
        .iter()
        .filter(|i| i.kind == IndexKind::Primary)
        .flat_map(|i| &i.parts)
        .any(|(name, _, _)| name.eq_ignore_ascii_case(&spec.name))
}

/// Whether a column is generated and not STORED.
pub(super) fn is_virtual(generated: &Option<Generated>) -> bool {
    let generated = generated.as_ref();
    generated.is_some_and(|g| g.kind != GeneratedKind::Stored)
}

/// Creates the column with a given id.
pub(super) fn column(id: ColumnId, spec: &ColumnSpec, primary: bool) -> Result<Column> {
    check_column_name(&spec.name)?;
    if primary && spec.nullable == Some(true) {
        return Err(errors::nullable_primary());
    }
    let nullable = spec.nullable.unwrap_or(true) && !primary && !spec.auto_increment;
    if spec.auto_increment {
        let counts = spec.ty.is_integer() || matches!(spec.ty.kind, Kind::Float | Kind::Double);
        if !counts {
            return Err(errors::bad_specifier(&spec.name));
        }
        if spec.default.is_some() {
            return Err(errors::bad_default(&spec.name));
        }
    }
    if spec.on_update_now && !matches!(spec.ty.kind, Kind::DateTime | Kind::Timestamp) {
        return Err(errors::refuse_on_update(&spec.name));
    }
    if primary && is_virtual(&spec.generated) {
        return Err(errors::generated_key());
    }
    Ok(Column {
        id,
        name: spec.name.clone(),
        ty: spec.ty.clone(),
        nullable,
        default: default(spec, nullable)?,
        on_update_now: spec.on_update_now,
        auto_increment: spec.auto_increment,
        comment: spec.comment.clone(),
        backfill: Value::Null,
        explicit_collation: spec.explicit_collation,
        generated: spec.generated.clone(),
        invisible: spec.invisible,
    })
}

fn default(spec: &ColumnSpec, nullable: bool) -> Result<ColumnDefault> {
    match &spec.default {
        None if nullable => Ok(ColumnDefault::Null),
        None => Ok(ColumnDefault::None),
        Some(ColumnDefault::Null) if !nullable => Err(errors::bad_default(&spec.name)),
        Some(ColumnDefault::Now) => match spec.ty.kind {
            Kind::DateTime | Kind::Timestamp => Ok(ColumnDefault::Now),
            _ => Err(errors::bad_default(&spec.name)),
        },
        Some(ColumnDefault::Literal(_)) if spec.ty.is_blob() || spec.ty.kind == Kind::Json => {
            Err(errors::blob_default(&spec.name))
        }
        Some(given) => Ok(given.clone()),
    }
}

/// Returns the layout of rows with these columns, in this order.
pub(super) fn layout(version: u32, columns: &[Column]) -> LayoutDef {
    LayoutDef {
        version,
        columns: columns.iter().map(|c| (c.id, c.stored_type())).collect(),
    }
}
