//! Foreign keys: conversion of keys between child and parent, and the SQL text.
//!
//! A child's values are encoded as a key of the parent's referenced index (to probe
//! it), a parent's values as a prefix of the child's index (to find children).
//!
//! Invariants:
//! 1. MATCH SIMPLE: a child with a NULL in any column of the constraint refers
//!    to nothing; a parent with a NULL in a referenced column has no children.
//! 2. A value is encoded with the column type of the index that is searched: a child's
//!    values with the parent's types, a parent's values with the child's. So CHAR(10)
//!    and VARCHAR(20) of one collation agree.

use crate::catalog::Catalog;
use crate::definition::{FkAction, FkParent, ForeignKey, TableDef};
use crate::keys::Columns;
use crate::table::Table;
use porpoise_types::{ColumnType, Kind, Value, ValueRef, encode_key};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of foreign-key actions since the start.
#[derive(Debug, Default)]
pub struct FkCounters {
    /// Rows deleted because their parent was.
    deleted: AtomicU64,
    /// Rows changed because their parent was deleted or changed.
    updated: AtomicU64,
}

impl FkCounters {
    pub(crate) fn add(&self, deleted: u64, updated: u64) {
        // Most statements cascade nothing, and avoid the write to a shared cache line.
        if deleted > 0 {
            self.deleted.fetch_add(deleted, Ordering::Relaxed);
        }
        if updated > 0 {
            self.updated.fetch_add(updated, Ordering::Relaxed);
        }
    }

    /// Rows deleted by cascades.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Rows updated by cascades and SET NULL.
    pub fn updated(&self) -> u64 {
        self.updated.load(Ordering::Relaxed)
    }
}

/// Appends the key of the parent's index that a child row references. Returns true if it references
/// none because a column is NULL.
pub(crate) fn append_parent_key<C: Columns + ?Sized>(
    parent: &Table,
    fk: &ForeignKey,
    at: &FkParent,
    child: &C,
    out: &mut Vec<u8>,
) -> bool {
    let mut null = false;
    let parts = parent.indexes.get(at.index).map_or(&[][..], |i| &i.parts);
    for (part, order) in parts.iter().zip(&at.order) {
        let value = match fk.columns.get(*order) {
            Some(position) => child.column(*position),
            None => ValueRef::Null,
        };
        null |= value.is_null();
        if let Some(column) = parent.columns.get(part.column) {
            encode_key(value, &column.ty, column.nullable, part.desc, out);
        }
    }
    null
}

impl Table {
    /// The key, in this table's index, that a child row references, with the position of that index; `None` if the
    /// row references nothing, or the constraint is not on this table. `child` are the child's storage values, of
    /// which some may be missing.
    pub fn key_referenced_by(
        &self,
        fk: &ForeignKey,
        child: &[Option<Value>],
    ) -> Option<(usize, Vec<u8>)> {
        let at = fk.parent.as_ref().filter(|at| at.table == self.id)?;
        let mut key = Vec::with_capacity(16);
        let has_null = append_parent_key(self, fk, at, child, &mut key);
        (!has_null).then_some((at.index, key))
    }
}

/// Returns the key prefix, in the child's index, of all children of a parent row; `None` if it
/// cannot have any.
pub(crate) fn child_prefix<C: Columns + ?Sized>(
    child: &Table,
    fk: &ForeignKey,
    parent: &Table,
    at: &FkParent,
    row: &C,
) -> Option<Vec<u8>> {
    let index = child.indexes.get(fk.child_index)?;
    let mut out = Vec::with_capacity(16);
    for part in index.parts.iter().take(fk.columns.len()) {
        let column = child.columns.get(part.column)?;
        let value = row.column(parent_column(fk, parent, at, part.column)?);
        if value.is_null() {
            return None;
        }
        encode_key(value, &column.ty, column.nullable, part.desc, &mut out);
    }
    Some(out)
}

/// The parent's column that a child's column refers to.
pub(crate) fn parent_column(
    fk: &ForeignKey,
    parent: &Table,
    at: &FkParent,
    child_column: usize,
) -> Option<usize> {
    let place = fk.columns.iter().position(|c| *c == child_column)?;
    let part = at.order.iter().position(|o| *o == place)?;
    let index = parent.indexes.get(at.index)?;
    index.parts.get(part).map(|p| p.column)
}

/// A foreign key that references a table.
pub(crate) struct Referrer {
    /// The child.
    pub(crate) child: Arc<Table>,
    /// Position in the child's constraints.
    pub(crate) fk: usize,
}

impl Referrer {
    fn name(&self) -> (&str, &str) {
        let fk = self.child.foreign_keys.get(self.fk);
        (&self.child.database, fk.map_or("", |fk| &fk.name))
    }

    /// The constraint and its parent's side.
    pub(crate) fn parts(&self) -> Option<(&ForeignKey, &FkParent)> {
        let fk = self.child.foreign_keys.get(self.fk)?;
        Some((fk, fk.parent.as_ref()?))
    }
}

/// Returns the foreign keys that reference a table, in order of their names, as InnoDB checks them.
/// For self-references, `table` is used in place of the catalog's version.
pub(crate) fn referrers(catalog: &Catalog, table: &Arc<Table>) -> Vec<Referrer> {
    let mut all: Vec<Referrer> = table
        .referenced_by
        .iter()
        .filter_map(|(id, fk)| {
            let child = if *id == table.id {
                table.clone()
            } else {
                catalog.table_by_id(*id)?.clone()
            };
            Some(Referrer { child, fk: *fk })
        })
        .collect();
    all.sort_by(|a, b| a.name().cmp(&b.name()));
    all
}

/// The parent of a constraint, when it exists.
pub(crate) fn parent_table<'a>(
    catalog: &'a Catalog,
    child: &'a Arc<Table>,
    at: &FkParent,
) -> Option<&'a Arc<Table>> {
    if at.table == child.id {
        Some(child)
    } else {
        catalog.table_by_id(at.table)
    }
}

/// An identifier between backticks.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn action(keyword: &str, action: FkAction) -> String {
    let action = match action {
        FkAction::NoAction => return String::new(),
        FkAction::Restrict => "RESTRICT",
        FkAction::Cascade => "CASCADE",
        FkAction::SetNull => "SET NULL",
    };
    format!(" ON {keyword} {action}")
}

/// `` CONSTRAINT `c` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE ``, as in SHOW
/// CREATE TABLE and messages.
pub(crate) fn definition(child: &TableDef, fk: &ForeignKey) -> String {
    let columns: Vec<String> = fk
        .columns
        .iter()
        .filter_map(|c| child.columns.get(*c))
        .map(|c| quote(&c.name))
        .collect();
    let referenced: Vec<String> = fk.parent_columns.iter().map(|c| quote(c)).collect();
    let parent = if fk.parent_database == child.database {
        quote(&fk.parent_table)
    } else {
        format!("{}.{}", quote(&fk.parent_database), quote(&fk.parent_table))
    };
    format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {parent} ({}){}{}",
        quote(&fk.name),
        columns.join(", "),
        referenced.join(", "),
        action("DELETE", fk.on_delete),
        action("UPDATE", fk.on_update),
    )
}

/// Text between the parentheses of errors 1451 and 1452.
pub(crate) fn constraint_text(child: &TableDef, fk: &ForeignKey) -> String {
    format!(
        "{}.{}, {}",
        quote(&child.database),
        quote(&child.name),
        definition(child, fk)
    )
}

/// Whether a column of the type can hold a parent's value: the types of the two
/// may differ in length, fractional digits and last members.
pub(crate) fn can_hold(value: &Value, ty: &ColumnType) -> bool {
    let digits = |micros: u32| micros.is_multiple_of(10u32.pow(6 - u32::from(ty.decimals.min(6))));
    match (value, ty.kind) {
        (Value::Null, _) => true,
        (Value::Bytes(text), Kind::Char | Kind::VarChar) => {
            // Characters are counted only for the few texts whose bytes exceed the limit.
            text.len() <= ty.length as usize
                || ty.collation.charset().char_count(text) <= ty.length as usize
        }
        (Value::Bytes(bytes), Kind::Binary) => bytes.len() == ty.length as usize,
        (Value::Bytes(bytes), Kind::VarBinary) => bytes.len() <= ty.length as usize,
        (Value::DateTime(at), Kind::DateTime | Kind::Timestamp) => digits(at.micros()),
        (Value::Time(at), Kind::Time) => digits(at.micros()),
        (Value::UInt(bits), Kind::Bit) => ty.length >= 64 || bits >> ty.length == 0,
        (Value::UInt(n), Kind::Enum) => *n <= ty.members.len() as u64,
        (Value::UInt(n), Kind::Set) => ty.members.len() >= 64 || n >> ty.members.len() == 0,
        _ => true,
    }
}
