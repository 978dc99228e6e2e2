//! Converts foreign key specifications to foreign keys, by MySQL's rules on names, types and
//! indexes (manual, "FOREIGN KEY Constraints").

use super::{FkSpec, IndexSpec, check_name, errors, same_collation};
use crate::catalog::{Catalog, derive};
use crate::definition::{FkAction, ForeignKey, IndexKind, TableDef};
use crate::error::Result;
use porpoise_types::{ColumnType, Kind};

/// Checks `spec` for the child `table`, and creates the constraint. The catalog has no or an older
/// version of `table`.
pub(super) fn foreign_key(
    catalog: &Catalog,
    table: &TableDef,
    spec: &FkSpec,
    checks: bool,
) -> Result<ForeignKey> {
    let name = constraint_name(catalog, table, spec)?;
    if spec.columns.len() != spec.parent_columns.len() || spec.columns.is_empty() {
        return Err(errors::bad_fk_definition(&name));
    }
    let columns: Vec<usize> = spec
        .columns
        .iter()
        .map(|c| table.column(c).ok_or_else(|| errors::no_key_column(c)))
        .collect::<Result<_>>()?;
    if sets_null(spec) {
        let strict = columns
            .iter()
            .filter_map(|c| table.columns.get(*c))
            .find(|c| !c.nullable);
        if let Some(column) = strict {
            return Err(errors::fk_not_null(&column.name, &name));
        }
    }
    let parent_database = spec
        .parent_database
        .clone()
        .unwrap_or_else(|| table.database.clone());
    let key = ForeignKey {
        name,
        columns,
        parent_database,
        parent_table: spec.parent_table.clone(),
        parent_columns: spec.parent_columns.clone(),
        on_delete: spec.on_delete,
        on_update: spec.on_update,
        child_index: 0,
        parent: None,
    };
    let own = key.parent_database == table.database && key.parent_table == table.name;
    let parent: &TableDef = match catalog.table(&key.parent_database, &key.parent_table) {
        _ if own => table,
        Some(parent) => parent,
        None if !checks => return Ok(key),
        None => return Err(errors::fk_no_parent(&key.parent_table)),
    };
    check_parent(table, parent, &key)?;
    Ok(key)
}

fn sets_null(spec: &FkSpec) -> bool {
    spec.on_delete == FkAction::SetNull || spec.on_update == FkAction::SetNull
}

fn constraint_name(catalog: &Catalog, table: &TableDef, spec: &FkSpec) -> Result<String> {
    let others = catalog
        .tables
        .values()
        .filter(|t| t.database == table.database && t.id != table.id)
        .flat_map(|t| &t.foreign_keys);
    let mut taken = others.chain(&table.foreign_keys);
    if let Some(name) = &spec.name {
        check_name(name)?;
        if taken.any(|k| k.name.eq_ignore_ascii_case(name)) {
            return Err(errors::fk_duplicate(name));
        }
        return Ok(name.clone());
    }
    let stem = format!("{}_ibfk_", table.name);
    let last = taken
        .filter_map(|k| k.name.strip_prefix(&stem)?.parse::<u64>().ok())
        .max()
        .unwrap_or(0);
    Ok(format!("{stem}{}", last + 1))
}

/// Checks that `parent` can be referenced by `key`: columns, types, a unique
/// index over exactly these columns.
pub(super) fn check_parent(table: &TableDef, parent: &TableDef, key: &ForeignKey) -> Result<()> {
    let positions = check_types(table, parent, key)?;
    let exact = parent
        .indexes
        .iter()
        .filter(|i| i.kind.is_unique())
        .any(|i| derive::parent_order(i, &positions).is_some());
    if !exact {
        let some = parent
            .indexes
            .iter()
            .any(|i| derive::starts_with(i, &positions));
        return Err(if some {
            errors::fk_not_unique(&key.name, &parent.name)
        } else {
            errors::fk_no_parent_index(&key.name, &parent.name)
        });
    }
    if parent.options.memory && !table.options.memory {
        return Err(errors::fk_memory_parent(&key.name));
    }
    Ok(())
}

/// Checks that the referenced columns exist (3734) with compatible types (3780). Returns their
/// positions.
pub(super) fn check_types(
    table: &TableDef,
    parent: &TableDef,
    key: &ForeignKey,
) -> Result<Vec<usize>> {
    let mut positions = Vec::with_capacity(key.columns.len());
    for (column, wanted) in key.columns.iter().zip(&key.parent_columns) {
        let found = parent
            .column(wanted)
            .and_then(|p| Some((p, parent.columns.get(p)?)));
        let Some((position, theirs)) = found else {
            return Err(errors::fk_no_parent_column(wanted, &key.name, &parent.name));
        };
        let ours = table.columns.get(*column);
        if let Some(ours) = ours.filter(|ours| !comparable(&ours.ty, &theirs.ty)) {
            return Err(errors::fk_incompatible(&ours.name, &theirs.name, &key.name));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// Whether equal values of the two types have equal key encodings: integers of one size and sign,
/// decimals of one precision and scale, strings of one collation, ENUM or SET types of which one
/// member list is a prefix of the other, otherwise the same kind.
fn comparable(a: &ColumnType, b: &ColumnType) -> bool {
    let stringlike = |t: &ColumnType| {
        matches!(
            t.kind,
            Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary
        )
    };
    if stringlike(a) && stringlike(b) {
        return same_collation(a.collation, b.collation);
    }
    if a.kind != b.kind || a.unsigned != b.unsigned {
        return false;
    }
    match a.kind {
        Kind::Decimal => a.length == b.length && a.decimals == b.decimals,
        // Compared by position, as in MySQL, so positions must mean the same members.
        Kind::Enum | Kind::Set => {
            let (a_members, b_members) = (&a.members, &b.members);
            a.fixed_width() == b.fixed_width()
                && a_members.iter().zip(b_members.iter()).all(|(a, b)| a == b)
        }
        Kind::Bit => a.fixed_width() == b.fixed_width(),
        _ => true,
    }
}

/// Returns the index that `key` needs if the child has none that starts with its columns. MySQL
/// names it after the constraint, else after index_name, else after the first column.
pub(super) fn missing_index(
    table: &TableDef,
    key: &ForeignKey,
    spec: &FkSpec,
) -> Option<IndexSpec> {
    if derive::child_index(table, &key.columns).is_some() {
        return None;
    }
    let name = spec.name.clone().or_else(|| spec.index_name.clone());
    let free = |n: &String| table.index(n).is_none();
    Some(IndexSpec {
        name: name.filter(free),
        kind: IndexKind::Plain,
        parts: spec
            .columns
            .iter()
            .map(|c| (c.clone(), None, false))
            .collect(),
        expressions: Vec::new(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
        full_text: None,
    })
}
