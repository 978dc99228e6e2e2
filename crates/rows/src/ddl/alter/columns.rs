//! Columns in ALTER TABLE: added, dropped, changed, renamed, moved.
//!
//! Clauses name columns as they were before the statement. Drops are applied first, so that `DROP
//! a, ADD a` replaces a column, and two columns may swap names. Positions (`FIRST`, `AFTER`) are
//! applied last, by the names after the statement.
//!
//! Invariants:
//! 1. A column keeps its id through renames, moves and changes of type. Rows refer to columns by
//!    id, so only a change of the storage type touches rows.
//! 2. Index parts and foreign-key columns, which are positions, are remapped only in
//!    [`set_columns`].

use super::{Plan, Position, fill};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::ddl::{
    AlterOp, ColumnSpec, DdlCx, IndexSpec, checks, columns as specs, errors, indexes, key_parts,
};
use crate::definition::{
    Column, ColumnDefault, ColumnId, ForeignKey, Generated, Index, IndexKind, TableDef,
};
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_types::{CastCx, ColumnType, Kind, Value};

/// Whether the statement contains a new definition of a column or its default, whose expression uses the new names of columns.
fn is_redefined(column: &Column, ops: &[AlterOp]) -> bool {
    let is_named = |name: &String| name.eq_ignore_ascii_case(&column.name);
    ops.iter().any(|op| match op {
        AlterOp::ChangeColumn(old, spec, _) => is_named(old) || is_named(&spec.name),
        AlterOp::AddColumn(spec, _) => is_named(&spec.name),
        AlterOp::SetDefault(name, ..) => column.generated.is_none() && is_named(name),
        _ => false,
    })
}

/// Applies DROP COLUMN.
fn drop_columns(
    catalog: &Catalog,
    before: &Table,
    plan: &mut Plan,
    columns: &mut Vec<Column>,
    ops: &[AlterOp],
) -> Result<()> {
    for op in ops {
        if let AlterOp::DropColumn(name) = op {
            drop_column(catalog, before, plan, columns, name)?;
        }
    }
    for op in ops {
        if let AlterOp::DropColumn(name) = op {
            let dependent = columns.iter().filter(|c| !is_redefined(c, ops));
            checks::check_column_removal(&mut plan.table, dependent, name, true)?;
        }
    }
    Ok(())
}

/// Whether a generated column that the statement redefines reads a name that belonged to another column before. Its values
/// then change, even if the text of its expression does not.
fn reads_other_columns(plan: &Plan, columns: &[Column], ops: &[AlterOp]) -> bool {
    let is_moved = |name: &String| {
        let same = |other: &String| other.eq_ignore_ascii_case(name);
        let renamed = plan.renamed.iter().any(|(old, new)| same(old) || same(new));
        renamed
            || ops
                .iter()
                .any(|op| matches!(op, AlterOp::DropColumn(n) if same(n)))
    };
    let generated = columns.iter().filter(|c| is_redefined(c, ops));
    let mut expressions = generated.filter_map(|c| c.generated.as_ref());
    expressions.any(|g| g.expression.columns.iter().any(is_moved))
}

/// Applies all clauses about columns to the plan.
///
/// Returns the clauses with functional key parts of added indexes replaced by their hidden columns.
pub(super) fn apply(
    db: &Db,
    catalog: &Catalog,
    before: &Table,
    plan: &mut Plan,
    ops: &[AlterOp],
    cx: &DdlCx<'_>,
    cast: &CastCx<'_>,
) -> Result<Vec<AlterOp>> {
    let mut columns = kept_columns(before, &plan.table);
    let primary = primary_columns(before, ops);
    drop_columns(catalog, before, plan, &mut columns, ops)?;
    let mut moves: Vec<(ColumnId, &Position)> = Vec::new();
    for op in ops {
        match op {
            AlterOp::ChangeColumn(old, spec, to) => {
                let id = existing_column(before, &columns, old)?;
                if !spec.name.eq_ignore_ascii_case(old) {
                    refuse_partitioning_column(before, old)?;
                }
                change_column(plan, &mut columns, id, spec, &primary)?;
                moves.push((id, to));
            }
            AlterOp::RenameColumn(old, new) => {
                let id = existing_column(before, &columns, old)?;
                specs::check_column_name(new)?;
                refuse_partitioning_column(before, old)?;
                rename(plan, &mut columns, id, new);
            }
            AlterOp::SetDefault(name, ty, default) => {
                let id = existing_column(before, &columns, name)?;
                set_default(&mut columns, id, ty.as_ref(), default.as_ref())?;
            }
            AlterOp::AddColumn(spec, to) => {
                let id = ColumnId(plan.table.next_column);
                plan.table.next_column += 1;
                columns.push(add_column(plan, id, spec, &primary, cx, cast)?);
                moves.push((id, to));
            }
            AlterOp::ConvertCollation(collation) => convert(plan, &mut columns, *collation)?,
            _ => {}
        }
    }
    set_visibility(before, &mut columns, ops)?;
    for (old, new) in plan.renamed.clone() {
        if !old.eq_ignore_ascii_case(&new) {
            let dependent = columns.iter().filter(|c| !is_redefined(c, ops));
            checks::check_column_removal(&mut plan.table, dependent, &old, false)?;
        }
    }
    plan.rewrite |= reads_other_columns(plan, &columns, ops);
    for (id, to) in moves {
        move_column(&mut columns, &plan.table, id, to)?;
    }
    // An expression reads columns before its own.
    columns.sort_by_key(Column::is_hidden);
    let ops = key_parts(db, plan, &mut columns, ops)?;
    check_names(&columns)?;
    set_columns(plan, columns);
    check_key_types(&plan.table)?;
    Ok(ops)
}

/// Applies SET VISIBLE and SET INVISIBLE.
fn set_visibility(before: &Table, columns: &mut [Column], ops: &[AlterOp]) -> Result<()> {
    for op in ops {
        let AlterOp::SetColumnVisible(name, visible) = op else {
            continue;
        };
        let id = existing_column(before, columns, name)?;
        if let Some(column) = find_by_id(columns, id) {
            column.invisible = !visible;
        }
    }
    Ok(())
}

/// The columns of a table without the hidden ones of dropped indexes.
fn kept_columns(before: &Table, table: &TableDef) -> Vec<Column> {
    let all = before.columns.iter().enumerate();
    let kept = all.filter(|(at, c)| !c.is_hidden() || table.index_of_key_part(*at).is_some());
    kept.map(|(_, c)| c.clone()).collect()
}

/// Adds the columns of new functional key parts, and gives existing ones the types that their
/// expressions have after the statement.
fn key_parts(
    db: &Db,
    plan: &mut Plan,
    columns: &mut Vec<Column>,
    ops: &[AlterOp],
) -> Result<Vec<AlterOp>> {
    let mut table = plan.table.clone();
    let indexes: Vec<(ColumnId, String)> = (0..table.columns.len())
        .filter_map(|at| {
            let name = table.index_of_key_part(at)?;
            Some((table.columns.get(at)?.id, name.to_owned()))
        })
        .collect();
    table.columns.clone_from(columns);
    let converts =
        |op: &AlterOp| matches!(op, AlterOp::ChangeColumn(..) | AlterOp::ConvertCollation(_));
    if ops.iter().any(converts) {
        for column in columns.iter_mut() {
            let Some(expression) = column.key_part() else {
                continue;
            };
            let mut named = indexes.iter();
            let index = named.find(|(id, _)| *id == column.id);
            let index = index.map_or("", |(_, name)| name.as_str());
            let compiler = db.expression_compiler()?;
            let mut new = column.clone();
            new.ty = compiler.key_part_type(&table, index, expression)?.ty;
            note_change(plan, column, &new);
            plan.rewrite = true;
            *column = new;
        }
    }
    let mut resolved = Vec::with_capacity(ops.len());
    for op in ops {
        resolved.push(match op {
            AlterOp::AddIndex(spec) if !spec.expressions.is_empty() => {
                let spec = key_parts::add_columns(db, &mut table, spec)?;
                // Reserves the name: further indexes get other ones.
                table.indexes.push(Index {
                    name: spec.name.clone().unwrap_or_default(),
                    ..indexes::hidden_primary()
                });
                plan.rewrite = true;
                plan.changes_layout = true;
                AlterOp::AddIndex(spec)
            }
            other => other.clone(),
        });
    }
    let added = table.columns.split_off(columns.len());
    columns.extend(added);
    plan.table.next_column = table.next_column;
    Ok(resolved)
}

/// 3152: a column that an index refers to has become JSON. 1283: one of a FULLTEXT index has become
/// unsuitable.
fn check_key_types(table: &TableDef) -> Result<()> {
    let texts = table.indexes.iter().filter(|index| index.is_full_text());
    texts
        .into_iter()
        .try_for_each(|index| indexes::check_text_parts(&table.columns, index))?;
    let parts = table.indexes.iter().flat_map(|index| &index.parts);
    let mut columns = parts.filter_map(|part| table.columns.get(part.column));
    match columns.find(|c| c.ty.kind == Kind::Json) {
        Some(column) => Err(errors::json_key(&column.name)),
        None => Ok(()),
    }
}

fn find_by_id(columns: &mut [Column], id: ColumnId) -> Option<&mut Column> {
    columns.iter_mut().find(|c| c.id == id)
}

/// Returns the id of a column by its name before the statement; 1054 if it does not exist (any
/// more).
fn existing_column(before: &Table, columns: &[Column], name: &str) -> Result<ColumnId> {
    let found = before.column(name).and_then(|at| before.columns.get(at));
    found
        .map(|c| c.id)
        .filter(|id| columns.iter().any(|c| c.id == *id))
        .ok_or_else(|| errors::unknown_column(name, &before.name))
}

/// Names of the columns of the primary key after the statement.
fn primary_columns(before: &Table, ops: &[AlterOp]) -> Vec<IndexSpec> {
    let added = ops.iter().filter_map(|op| match op {
        AlterOp::AddIndex(spec) if spec.kind == IndexKind::Primary => Some(spec.clone()),
        _ => None,
    });
    let dropped = ops.iter().any(|op| matches!(op, AlterOp::DropPrimaryKey));
    let kept = before.indexes.first().filter(|_| !dropped);
    let kept = kept.map(|index| IndexSpec {
        name: None,
        kind: IndexKind::Primary,
        parts: index
            .parts
            .iter()
            .filter_map(|p| before.columns.get(p.column))
            .map(|c| (c.name.clone(), None, false))
            .collect(),
        expressions: Vec::new(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
        full_text: None,
    });
    added.chain(kept).collect()
}

fn drop_column(
    catalog: &Catalog,
    before: &Table,
    plan: &mut Plan,
    columns: &mut Vec<Column>,
    name: &str,
) -> Result<()> {
    let at = columns
        .iter()
        .position(|c| c.name.eq_ignore_ascii_case(name) && !c.is_hidden())
        .ok_or_else(|| errors::cannot_drop(name))?;
    let position = before.column(name);
    let uses = |k: &&ForeignKey| position.is_some_and(|p| k.columns.contains(&p));
    if let Some(key) = plan.table.foreign_keys.iter().find(uses) {
        return Err(errors::column_in_foreign_key(name, &key.name));
    }
    for (child, key) in referencing(catalog, before) {
        if key
            .parent_columns
            .iter()
            .any(|c| c.eq_ignore_ascii_case(name))
        {
            // A self-reference that the same statement drops does not prevent it.
            let own = child.id == before.id;
            if own && !plan.table.foreign_keys.iter().any(|k| k.name == key.name) {
                continue;
            }
            return Err(errors::column_referenced(name, &key.name, &child.name));
        }
    }
    refuse_partitioning_column(before, name)?;
    columns.remove(at);
    Ok(())
}

/// 3855: a partitioning column cannot be renamed or dropped.
fn refuse_partitioning_column(before: &Table, name: &str) -> Result<()> {
    let by = before.partitioning.as_ref();
    let uses = by
        .zip(before.column(name))
        .is_some_and(|(by, at)| by.all_columns().any(|c| c == at));
    if uses {
        Err(errors::partitioning_column(name))
    } else {
        Ok(())
    }
}

/// Returns the constraints that reference the table, each with its child.
pub(super) fn referencing<'a>(
    catalog: &'a Catalog,
    table: &'a Table,
) -> impl Iterator<Item = (&'a Table, &'a ForeignKey)> {
    table.referenced_by.iter().filter_map(|(child, at)| {
        let child = catalog.table_by_id(*child)?;
        Some((child.as_ref(), child.foreign_keys.get(*at)?))
    })
}

fn add_column(
    plan: &mut Plan,
    id: ColumnId,
    spec: &ColumnSpec,
    primary: &[IndexSpec],
    cx: &DdlCx<'_>,
    cast: &CastCx<'_>,
) -> Result<Column> {
    let mut column = specs::column(id, spec, specs::in_primary_key(spec, primary))?;
    column.backfill = fill::default_for_existing_rows(&column, cx.now, cast);
    if column.auto_increment {
        plan.generated_column = Some(id);
        plan.rewrite = true;
    }
    let computed = matches!(column.default, ColumnDefault::Expr(_));
    plan.rewrite |= computed || column.generated.is_some();
    if fill::check_zero_date(&column, cast).is_err() {
        plan.requires_empty_table.push(id);
    }
    plan.changes_layout = true;
    Ok(column)
}

fn change_column(
    plan: &mut Plan,
    columns: &mut [Column],
    id: ColumnId,
    spec: &ColumnSpec,
    primary: &[IndexSpec],
) -> Result<()> {
    let Some(column) = find_by_id(columns, id) else {
        return Ok(());
    };
    let mut new = specs::column(id, spec, specs::in_primary_key(spec, primary))?;
    if new.name != column.name {
        plan.renamed.push((column.name.clone(), new.name.clone()));
    }
    new.backfill = column.backfill.clone();
    if new.auto_increment && !column.auto_increment {
        plan.generated_column = Some(id);
        plan.rewrite = true;
    }
    let stored = |g: &Option<Generated>| g.as_ref().map(|_| !specs::is_virtual(g));
    match (stored(&column.generated), stored(&new.generated)) {
        (None, Some(false)) | (Some(false), None) => return Err(errors::generated_status()),
        (Some(a), Some(b)) if a != b => return Err(errors::generated_status()),
        (_, Some(_)) => plan.rewrite |= column.generated != new.generated,
        _ => {}
    }
    note_change(plan, column, &new);
    *column = new;
    Ok(())
}

/// Records in the plan how a change of a column affects rows.
fn note_change(plan: &mut Plan, old: &Column, new: &Column) {
    if old.ty != new.ty {
        plan.retyped.push(old.id);
        if !have_same_encoding(&old.ty, &new.ty) {
            plan.rewrite = true;
            plan.converts = true;
        }
    }
    if old.nullable != new.nullable {
        if !new.nullable {
            plan.not_null.push(old.id);
        }
        // Keys of nullable columns have a NULL marker, those of others do not.
        plan.rekeyed.push(old.id);
    }
}

/// Whether every value of type `a` is also one of type `b`, with the same encoding in rows and in
/// keys.
pub(super) fn have_same_encoding(a: &ColumnType, b: &ColumnType) -> bool {
    if a == b {
        return true;
    }
    let grows = b.length >= a.length;
    match (a.kind, b.kind) {
        (Kind::VarChar | Kind::VarBinary, _) if a.kind == b.kind => {
            grows && a.collation == b.collation
        }
        (Kind::Enum | Kind::Set, _) if a.kind == b.kind => {
            let prefix = b.members.get(..a.members.len());
            a.collation == b.collation && prefix == Some(&a.members[..])
        }
        _ => match (text_rank(a.kind), text_rank(b.kind)) {
            (Some((class, from)), Some((other, to))) => {
                class == other && from <= to && a.collation == b.collation
            }
            _ => false,
        },
    }
}

/// TEXT and BLOB types by size.
fn text_rank(kind: Kind) -> Option<(u8, u8)> {
    Some(match kind {
        Kind::TinyText => (0, 0),
        Kind::Text => (0, 1),
        Kind::MediumText => (0, 2),
        Kind::LongText => (0, 3),
        Kind::TinyBlob => (1, 0),
        Kind::Blob => (1, 1),
        Kind::MediumBlob => (1, 2),
        Kind::LongBlob => (1, 3),
        _ => return None,
    })
}

fn rename(plan: &mut Plan, columns: &mut [Column], id: ColumnId, new: &str) {
    if let Some(column) = find_by_id(columns, id) {
        plan.renamed.push((column.name.clone(), new.to_owned()));
        new.clone_into(&mut column.name);
    }
}

fn set_default(
    columns: &mut [Column],
    id: ColumnId,
    ty: Option<&ColumnType>,
    default: Option<&ColumnDefault>,
) -> Result<()> {
    let Some(column) = find_by_id(columns, id) else {
        return Ok(());
    };
    if ty.is_some_and(|ty| *ty != column.ty) {
        // The value was converted to an earlier type of the column.
        return Err(Error::DefinitionChanged);
    }
    if column.auto_increment && default.is_some() {
        return Err(errors::bad_default(&column.name));
    }
    if default == Some(&ColumnDefault::Null) && !column.nullable {
        return Err(errors::bad_default(&column.name));
    }
    column.default = default.cloned().unwrap_or(ColumnDefault::None);
    Ok(())
}

/// CONVERT TO CHARACTER SET: every column with a character set.
fn convert(
    plan: &mut Plan,
    columns: &mut [Column],
    collation: porpoise_types::Collation,
) -> Result<()> {
    plan.table.options.collation = collation;
    for column in columns {
        let textual = column.ty.is_string() && column.ty.kind != Kind::Json
            || matches!(column.ty.kind, Kind::Enum | Kind::Set);
        // The type of a functional key part follows from those of the other columns.
        let derived = column.is_hidden();
        if !textual || derived || column.ty.is_binary() || column.ty.collation == collation {
            continue;
        }
        let mut new = column.clone();
        new.ty.collation = collation;
        new.explicit_collation = false;
        note_change(plan, column, &new);
        *column = new;
    }
    Ok(())
}

fn move_column(
    columns: &mut Vec<Column>,
    table: &TableDef,
    id: ColumnId,
    to: &Position,
) -> Result<()> {
    let Some(from) = columns.iter().position(|c| c.id == id) else {
        return Ok(());
    };
    let target = match to {
        Position::Default => return Ok(()),
        Position::First => None,
        Position::After(name) => {
            let named = |c: &Column| c.name.eq_ignore_ascii_case(name) && c.id != id;
            let found = columns.iter().find(|c| named(c)).map(|c| c.id);
            Some(found.ok_or_else(|| errors::unknown_column(name, &table.name))?)
        }
    };
    let column = columns.remove(from);
    let at = match target {
        None => 0,
        Some(id) => columns
            .iter()
            .position(|c| c.id == id)
            .map_or(columns.len(), |at| at + 1),
    };
    columns.insert(at, column);
    Ok(())
}

fn check_names(columns: &[Column]) -> Result<()> {
    if columns.is_empty() {
        return Err(errors::all_columns_dropped());
    }
    specs::check_visible(columns)?;
    if columns.len() > specs::MAX_COLUMNS {
        return Err(errors::too_many_columns());
    }
    if columns.iter().filter(|c| c.auto_increment).count() > 1 {
        return Err(errors::two_auto_columns());
    }
    for (at, column) in columns.iter().enumerate() {
        let same = |c: &Column| c.name.eq_ignore_ascii_case(&column.name);
        if columns.iter().take(at).any(same) {
            return Err(errors::duplicate_column(&column.name));
        }
    }
    Ok(())
}

/// Sets the table's new columns, and remaps column positions in index parts and foreign keys. Parts
/// of dropped columns are removed from their indexes; an index without parts is dropped, and one
/// that changed is rebuilt.
fn set_columns(plan: &mut Plan, columns: Vec<Column>) {
    let table = &mut plan.table;
    let old = std::mem::replace(&mut table.columns, columns);
    let map = |position: usize| {
        let id = old.get(position)?.id;
        table.columns.iter().position(|c| c.id == id)
    };
    if old.len() != table.columns.len()
        || plan.changes_layout
        || old.iter().any(|c| !is_unchanged(c, table))
    {
        plan.changes_layout = true;
    }
    for key in &mut table.foreign_keys {
        for column in &mut key.columns {
            *column = map(*column).unwrap_or(usize::MAX);
        }
    }
    if let Some(by) = &mut table.partitioning {
        by.move_columns(&|at| map(at).unwrap_or(usize::MAX));
    }
    let mut changed = Vec::new();
    for index in &mut table.indexes {
        let parts = index.parts.len();
        index.parts.retain_mut(|part| {
            let Some(position) = map(part.column) else {
                return false;
            };
            part.column = position;
            true
        });
        for part in &mut index.parts {
            let column = table.columns.get(part.column);
            let ty = column.map(|c| &c.ty);
            if let (Some(n), Some(ty)) = (part.prefix, ty)
                && !ty.is_blob()
                && (n >= ty.length || !(ty.is_string() || ty.is_binary()))
            {
                part.prefix = None;
            }
        }
        let rekeyed = index.parts.iter().any(|p| {
            let id = table.columns.get(p.column).map(|c| c.id);
            id.is_some_and(|id| plan.rekeyed.contains(&id))
        });
        if index.parts.len() != parts || rekeyed {
            changed.push((index.id, index.parts.is_empty()));
        }
    }
    for (id, empty) in changed {
        let Some(at) = plan.table.indexes.iter().position(|i| i.id == id) else {
            continue;
        };
        if at == 0 {
            plan.rewrite = true;
            if empty {
                plan.table.hidden_key = true;
            }
        } else if empty {
            let index = plan.table.indexes.remove(at);
            plan.spaces_to_drop.extend(index.spaces);
        } else if let Some(index) = plan.table.indexes.get(at) {
            plan.spaces_to_drop.extend(index.spaces.iter().copied());
            plan.indexes_to_build.push(id);
        }
    }
}

fn is_unchanged(column: &Column, table: &TableDef) -> bool {
    table.columns.iter().any(|c| c.id == column.id)
}

/// Removes the backfill values of columns, once no row lacks them.
pub(super) fn forget_backfills(table: &mut TableDef) {
    for column in &mut table.columns {
        column.backfill = Value::Null;
    }
}
