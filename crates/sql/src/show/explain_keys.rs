//! Foreign key work as rows of EXPLAIN: lookups of parents, checks for children that prevent a
//! deletion, and cascades, level by level. MySQL shows none of this.
//!
//! `select_type` is `FOREIGN KEY`; Extra names the action and the constraint. Each row of the output
//! is one batch of engine calls, whatever the number of changed rows.

use super::explain::{cell, table_row};
use super::table::{Rows, text};
use porpoise_rows::catalog::{Catalog, FkAction, ForeignKey, Table, TableId};
use porpoise_types::Value;
use std::collections::BTreeSet;

/// A change to the rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Delete,
    /// UPDATE; positions of the changed columns.
    Update(BTreeSet<usize>),
}

/// Adds the lookups of the parents of new rows.
pub(super) fn inserted(table: &Table, rows: &mut Rows) {
    for key in &table.foreign_keys {
        add_parent_lookup(table, key, rows);
    }
}

/// Adds the effects of deleting rows.
pub(super) fn deleted(catalog: &Catalog, table: &Table, rows: &mut Rows) {
    follow_references(catalog, table, Change::Delete, rows);
}

/// Adds the effects of changing columns of rows.
pub(super) fn updated(
    catalog: &Catalog,
    table: &Table,
    columns: impl Iterator<Item = usize>,
    rows: &mut Rows,
) {
    let columns: BTreeSet<usize> = columns.collect();
    let is_changed = |k: &&ForeignKey| k.columns.iter().any(|c| columns.contains(c));
    for key in table.foreign_keys.iter().filter(is_changed) {
        add_parent_lookup(table, key, rows);
    }
    follow_references(catalog, table, Change::Update(columns), rows);
}

/// Adds a lookup of the parents of a statement's rows.
fn add_parent_lookup(child: &Table, key: &ForeignKey, rows: &mut Rows) {
    let extra = format!("Look up parents of {} (`{}`)", child.name, key.name);
    let mut row = table_row(
        "FOREIGN KEY",
        Some(&key.parent_table),
        Some("eq_ref"),
        &extra,
    );
    if let Some(cell) = row.get_mut(cell::REF) {
        *cell = text(key.parent_columns.join(","));
    }
    rows.push(row);
}

fn follow_references(catalog: &Catalog, table: &Table, change: Change, rows: &mut Rows) {
    let mut seen: BTreeSet<(TableId, Change)> = BTreeSet::new();
    let mut level = vec![(table.id, change)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (id, change) in level {
            let Some(parent) = catalog.table_by_id(id) else {
                continue;
            };
            if !seen.insert((id, change.clone())) {
                continue;
            }
            for (child, at) in &parent.referenced_by {
                let child = catalog.table_by_id(*child);
                let key = child.and_then(|c| Some((c, c.foreign_keys.get(*at)?)));
                let Some((child, key)) = key else { continue };
                next.extend(add_constraint_effect(parent, child, key, &change, rows));
            }
        }
        level = next;
    }
}

/// Adds the effect of a change of the parent for one constraint. Returns the change that it makes to
/// the rows of the child; `None` if it makes none.
fn add_constraint_effect(
    parent: &Table,
    child: &Table,
    key: &ForeignKey,
    change: &Change,
    rows: &mut Rows,
) -> Option<(TableId, Change)> {
    let (event, action) = match change {
        Change::Delete => ("DELETE", key.on_delete),
        Change::Update(columns) => {
            let mut referenced = key.parent_columns.iter().filter_map(|c| parent.column(c));
            if !referenced.any(|c| columns.contains(&c)) {
                return None;
            }
            ("UPDATE", key.on_update)
        }
    };
    let (word, child_change) = match action {
        FkAction::NoAction | FkAction::Restrict => ("RESTRICT", None),
        FkAction::SetNull => ("SET NULL", Some(Change::Update(columns_of(key)))),
        FkAction::Cascade => match change {
            Change::Delete => ("CASCADE", Some(Change::Delete)),
            Change::Update(_) => ("CASCADE", Some(Change::Update(columns_of(key)))),
        },
    };
    let extra = format!("ON {event} {word} of {} (`{}`)", parent.name, key.name);
    let mut row = table_row("FOREIGN KEY", Some(&child.name), Some("ref"), &extra);
    let index = child.indexes.get(key.child_index);
    let name = index.map_or(Value::Null, |i| text(&i.name));
    for at in [cell::POSSIBLE_KEYS, cell::KEY] {
        if let Some(cell) = row.get_mut(at) {
            cell.clone_from(&name);
        }
    }
    rows.push(row);
    child_change.map(|change| (child.id, change))
}

fn columns_of(key: &ForeignKey) -> BTreeSet<usize> {
    key.columns.iter().copied().collect()
}
