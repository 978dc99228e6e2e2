//! Keys that are longer than a key may be.
//!
//! In strict mode `rows` refuses them with 1071. Without it, parts of non-unique
//! keys are shortened to what fits, each with a warning of that number (manual,
//! "CREATE INDEX Statement"); unique keys are refused all the same, since a
//! shorter one would refuse other rows.

use super::warn;
use crate::context::StatementContext;
use porpoise_rows::catalog::{IndexKind, Table};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, IndexSpec, shortened};
use porpoise_types::{ColumnType, Level};

/// Shortens the keys of CREATE TABLE.
pub fn shorten_of_table(cx: &StatementContext, columns: &[ColumnSpec], indexes: &mut [IndexSpec]) {
    if cx.settings.mode.is_strict() {
        return;
    }
    for index in indexes {
        shorten(cx, index, |name| {
            let named = |c: &&ColumnSpec| c.name.eq_ignore_ascii_case(name);
            columns.iter().find(named).map(|c| &c.ty)
        });
    }
}

/// Shortens the keys that ALTER TABLE and CREATE INDEX add to a table.
pub fn shorten_added(cx: &StatementContext, table: &Table, ops: &mut [AlterOp]) {
    if cx.settings.mode.is_strict() {
        return;
    }
    let columns: Vec<ColumnSpec> = ops
        .iter()
        .filter_map(|op| match op {
            AlterOp::AddColumn(spec, _) | AlterOp::ChangeColumn(_, spec, _) => Some(spec.clone()),
            _ => None,
        })
        .collect();
    for op in ops {
        let AlterOp::AddIndex(index) = op else {
            continue;
        };
        shorten(cx, index, |name| {
            let named = |c: &&ColumnSpec| c.name.eq_ignore_ascii_case(name);
            let new = columns.iter().find(named).map(|c| &c.ty);
            let old = || Some(&table.columns.get(table.column(name)?)?.ty);
            new.or_else(old)
        });
    }
}

fn shorten<'a>(
    cx: &StatementContext,
    index: &mut IndexSpec,
    ty: impl Fn(&str) -> Option<&'a ColumnType>,
) {
    if index.kind != IndexKind::Plain {
        return;
    }
    for (name, prefix, _) in &mut index.parts {
        if let Some(fits) = ty(name).and_then(|ty| shortened(ty, *prefix)) {
            *prefix = Some(fits);
            let text = "Specified key was too long; max key length is 3072 bytes".to_owned();
            warn(cx, Level::Warning, 1071, text);
        }
    }
}
