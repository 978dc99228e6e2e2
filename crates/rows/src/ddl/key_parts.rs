//! Functional key parts: each is a hidden generated column (manual, "CREATE INDEX Statement",
//! Functional Key Parts).
//!
//! Rows store the values of generated columns, so that the column's index is maintained and built
//! like any other. Its type is that of the expression ([`crate::expressions`]), and follows when an
//! ALTER TABLE changes the types of other columns. The column is dropped with its index.
//! `CAST(... AS ... ARRAY)` makes a multi-valued part: the column stores the elements' keys
//! ([`porpoise_types::array`]), and the index has an entry for each (Multi-Valued Indexes).
//!
//! Invariant: hidden columns are after all others, because an expression may read generated
//! columns, which are computed in order.

use super::columns::MAX_COLUMNS;
use super::{IndexSpec, errors};
use crate::db::Db;
use crate::definition::{Column, ColumnId, Generated, GeneratedKind, IndexKind, TableDef};
use crate::error::Result;
use crate::expressions::KeyPartType;

/// Adds the hidden columns of an index to its table. Returns the specification with their names in
/// place of the expressions.
///
/// # Errors
/// 3756 for a primary key; 1235 for a second multi-valued part; those of the expressions.
pub(super) fn add_columns(db: &Db, table: &mut TableDef, spec: &IndexSpec) -> Result<IndexSpec> {
    let mut spec = spec.clone();
    let mut has_array = false;
    for (at, expression) in std::mem::take(&mut spec.expressions) {
        if spec.kind == IndexKind::Primary {
            return Err(errors::functional_primary());
        }
        if table.columns.len() >= MAX_COLUMNS {
            return Err(errors::too_many_columns());
        }
        if at == 0 && spec.name.is_none() {
            spec.name = Some(generated_name(table));
        }
        let first = spec
            .parts
            .first()
            .map_or("", |(column, ..)| column.as_str());
        let index = spec.name.as_deref().unwrap_or(first);
        let compiler = db.expression_compiler()?;
        let KeyPartType { ty, array } = compiler.key_part_type(table, index, &expression)?;
        if array && std::mem::replace(&mut has_array, true) {
            return Err(errors::several_arrays());
        }
        let name = column_name(table, index, at);
        if let Some((column, ..)) = spec.parts.get_mut(at) {
            column.clone_from(&name);
        }
        let id = ColumnId(table.next_column);
        table.next_column += 1;
        table.columns.push(Column {
            generated: Some(Generated {
                expression,
                kind: if array {
                    GeneratedKind::ArrayPart
                } else {
                    GeneratedKind::KeyPart
                },
            }),
            ..Column::new(id, name, ty)
        });
    }
    Ok(spec)
}

/// A free name for an index whose first part is an expression.
fn generated_name(table: &TableDef) -> String {
    let base = "functional_index";
    let taken = |name: &String| table.index(name).is_some();
    let mut names = std::iter::once(base.to_owned()).chain((2..).map(|n| format!("{base}_{n}")));
    names.find(|name| !taken(name)).unwrap_or_default()
}

/// MySQL's name of the hidden column; the last number makes it unique.
fn column_name(table: &TableDef, index: &str, part: usize) -> String {
    let taken = |name: &String| table.columns.iter().any(|c| c.name == *name);
    let mut names = (0..).map(|n: u32| format!("!hidden!{index}!{part}!{n}"));
    names.find(|name| !taken(name)).unwrap_or_default()
}
