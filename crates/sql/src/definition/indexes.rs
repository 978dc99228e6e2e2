//! Definitions of indexes and foreign keys, and shortening of keys that are too long.
//!
//! In strict mode `rows` rejects a key that is too long with error 1071. Otherwise, parts of
//! non-unique keys are shortened to the maximum, each with a warning 1071 (manual, "CREATE INDEX
//! Statement"); a unique key is still rejected, because a shorter one would reject other rows.

use super::{expressions, full_text, text, warn};
use crate::context::StatementContext;
use crate::table_expressions::ExpressionOwner;
use porpoise_rows::catalog::{FkAction, IndexKind, Table};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, FkSpec, IndexSpec, shortened_prefix};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    Expr, ExprKind, ForeignKeyAction, ForeignKeyDef, IndexAlgorithm, IndexDef,
    IndexKind as AstIndexKind, IndexOption, IndexPart, IndexPartKey,
};
use porpoise_types::{ColumnType, Level};

/// Converts the definition of an index.
///
/// # Errors
/// 1235 for unsupported kinds and parts.
pub fn index(cx: &StatementContext, def: &IndexDef<'_>) -> Result<IndexSpec> {
    let functional = |p: &IndexPart<'_>| matches!(p.key, IndexPartKey::Expr(_));
    let functional = def.parts.iter().any(functional);
    let kind = match def.kind {
        AstIndexKind::Primary => IndexKind::Primary,
        AstIndexKind::Unique => IndexKind::Unique,
        AstIndexKind::Plain => IndexKind::Plain,
        AstIndexKind::Fulltext if functional => {
            let text = "Fulltext functional index is not supported.";
            return Err(SqlError::new(3759, "HY000", text));
        }
        AstIndexKind::Spatial if functional => {
            let text = "Spatial functional index is not supported.";
            return Err(SqlError::new(3760, "HY000", text));
        }
        AstIndexKind::Fulltext => IndexKind::FullText,
        AstIndexKind::Spatial => return Err(SqlError::not_supported("SPATIAL indexes")),
    };
    let name = def.name.or(def.constraint).map(|n| n.name.to_owned());
    let mut spec = IndexSpec {
        name: name.filter(|_| kind != IndexKind::Primary),
        kind,
        parts: Vec::with_capacity(def.parts.len()),
        expressions: Vec::new(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
        full_text: full_text::settings(cx, def)?,
    };
    for part in def.parts {
        match part.key {
            IndexPartKey::Column(column, prefix) => {
                let prefix = match prefix {
                    Some(0) => {
                        let text = format!("Key part '{}' length cannot be 0", column.name);
                        return Err(SqlError::new(1391, "HY000", text));
                    }
                    other => other.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
                };
                spec.parts.push((column.name.to_owned(), prefix, part.desc));
            }
            IndexPartKey::Expr(e) => {
                let owner = ExpressionOwner::KeyPart(spec.name.as_deref().unwrap_or_default());
                check_array_order(part, &e)?;
                let expression = expressions::expression(&e, owner)?;
                spec.expressions.push((spec.parts.len(), expression));
                spec.parts.push((String::new(), None, part.desc));
            }
        }
    }
    for option in def.options {
        match option {
            IndexOption::Using(IndexAlgorithm::Hash) => spec.using_hash = true,
            IndexOption::Using(IndexAlgorithm::Btree) => spec.using_hash = false,
            IndexOption::Using(IndexAlgorithm::Rtree) => {
                return Err(SqlError::not_supported("RTREE indexes"));
            }
            IndexOption::Comment(comment) => {
                let what = format!("index '{}'", spec.name.as_deref().unwrap_or_default());
                spec.comment = super::limited_comment(cx, text(comment), 1024, (1688, &what))?;
            }
            IndexOption::Visible(visible) => spec.invisible = !visible,
            _ => {}
        }
    }
    Ok(spec)
}

/// Error 1221 for ASC or DESC on a multi-valued key part.
fn check_array_order(part: &IndexPart<'_>, e: &Expr<'_>) -> Result<()> {
    let array = matches!(e.kind, ExprKind::Cast(cast) if cast.array);
    if array && part.has_order {
        let text = "Incorrect usage of multi-valued index and explicit index order";
        return Err(SqlError::new(1221, "HY000", text));
    }
    Ok(())
}

fn action(given: Option<ForeignKeyAction>) -> Result<FkAction> {
    match given {
        None | Some(ForeignKeyAction::NoAction) => Ok(FkAction::NoAction),
        Some(ForeignKeyAction::Restrict) => Ok(FkAction::Restrict),
        Some(ForeignKeyAction::Cascade) => Ok(FkAction::Cascade),
        Some(ForeignKeyAction::SetNull) => Ok(FkAction::SetNull),
        Some(ForeignKeyAction::SetDefault) => Err(SqlError::new(
            1215,
            "HY000",
            "Cannot add foreign key constraint",
        )),
    }
}

/// Converts the definition of a foreign key.
///
/// # Errors
/// 1239 if the numbers of columns differ, 1215 for SET DEFAULT.
pub fn foreign_key(def: &ForeignKeyDef<'_>) -> Result<FkSpec> {
    let references = &def.references;
    if references.columns.len() != def.columns.len() {
        let name = def.constraint.or(def.index_name);
        let name = name.map_or("foreign key without name", |n| n.name);
        let text = format!(
            "Incorrect foreign key definition for '{name}': Key reference and table reference \
             don't match"
        );
        return Err(SqlError::new(1239, "42000", text));
    }
    let names = |list: &[porpoise_sql_parser::ast::Ident<'_>]| -> Vec<String> {
        list.iter().map(|i| i.name.to_owned()).collect()
    };
    Ok(FkSpec {
        name: def.constraint.map(|n| n.name.to_owned()),
        index_name: def.index_name.map(|n| n.name.to_owned()),
        columns: names(def.columns),
        parent_database: references.table.schema.map(|s| s.name.to_owned()),
        parent_table: references.table.name.name.to_owned(),
        parent_columns: names(references.columns),
        on_delete: action(references.on_delete)?,
        on_update: action(references.on_update)?,
    })
}

/// Shortens over-long keys of CREATE TABLE.
pub fn shorten_keys(cx: &StatementContext, columns: &[ColumnSpec], indexes: &mut [IndexSpec]) {
    if cx.settings.mode.is_strict() {
        return;
    }
    for index in indexes {
        shorten_key(cx, index, |name| {
            let named = |c: &&ColumnSpec| c.name.eq_ignore_ascii_case(name);
            columns.iter().find(named).map(|c| &c.ty)
        });
    }
}

/// Shortens over-long keys that ALTER TABLE and CREATE INDEX add to a table.
pub fn shorten_added_keys(cx: &StatementContext, table: &Table, ops: &mut [AlterOp]) {
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
        shorten_key(cx, index, |name| {
            let named = |c: &&ColumnSpec| c.name.eq_ignore_ascii_case(name);
            let new = columns.iter().find(named).map(|c| &c.ty);
            let old = || Some(&table.columns.get(table.column(name)?)?.ty);
            new.or_else(old)
        });
    }
}

/// Shortens the parts of a non-unique key; `ty` gives the types of columns by name.
fn shorten_key<'a>(
    cx: &StatementContext,
    index: &mut IndexSpec,
    ty: impl Fn(&str) -> Option<&'a ColumnType>,
) {
    if index.kind != IndexKind::Plain {
        return;
    }
    for (name, prefix, _) in &mut index.parts {
        if let Some(shortened) = ty(name).and_then(|ty| shortened_prefix(ty, *prefix)) {
            *prefix = Some(shortened);
            let text = "Specified key was too long; max key length is 3072 bytes".to_owned();
            warn(cx, Level::Warning, 1071, text);
        }
    }
}
