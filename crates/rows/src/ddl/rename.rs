//! RENAME TABLE, and RENAME TO in ALTER TABLE.
//!
//! Names are only in the catalog: no row is touched. Constraints follow on both sides: children
//! keep referencing the renamed parent, and generated constraint names (`old_ibfk_1`) change with
//! their table, as in MySQL 8.

use super::{CatalogDraft, DdlCx, DdlOutcome, check_name, checks, errors, foreign};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::definition::TableId;
use crate::error::Result;
use std::sync::Arc;

/// A table by database and name.
pub type QualifiedName = (String, String);

impl Db {
    /// RENAME TABLE: all pairs, tables or views, from left to right, or none.
    ///
    /// # Errors
    /// 1146, 1049, 1050, 1450 for a view that is to change its database, and those of constraints
    /// whose parent did not exist until now.
    pub fn rename_tables(
        &self,
        cx: &DdlCx<'_>,
        pairs: &[(QualifiedName, QualifiedName)],
    ) -> Result<DdlOutcome> {
        let _barrier = self.barrier(cx, |catalog| {
            let mut all = Vec::new();
            for ((database, name), (new_database, new_name)) in pairs {
                all.extend(catalog.table(database, name).map(|t| t.id));
                all.extend(unresolved_children(catalog, new_database, new_name));
            }
            Ok(all)
        })?;
        let position = self.change_catalog(cx, |draft| {
            for ((database, name), (new_database, new_name)) in pairs {
                if draft.catalog.view(database, name).is_some() {
                    rename_view(draft, database, name, new_database, new_name)?;
                    continue;
                }
                let table = draft.catalog.table(database, name);
                let id = table.map(|t| t.id);
                let id = id.ok_or_else(|| errors::no_table(database, name))?;
                rename_in(draft, id, new_database, new_name)?;
            }
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}

/// Returns children whose constraints refer to a table that does not exist yet.
pub(super) fn unresolved_children<'a>(
    catalog: &'a Catalog,
    database: &'a str,
    name: &'a str,
) -> impl Iterator<Item = TableId> {
    let waits = move |t: &&Arc<crate::table::Table>| {
        t.foreign_keys
            .iter()
            .any(|k| k.parent_database == database && k.parent_table == name)
    };
    catalog.tables.values().filter(waits).map(|t| t.id)
}

/// Renames one view of a draft.
fn rename_view(
    draft: &mut CatalogDraft,
    database: &str,
    name: &str,
    new_database: &str,
    new_name: &str,
) -> Result<()> {
    check_name(new_name)?;
    if new_name.is_empty() || new_name.ends_with(' ') {
        return Err(errors::bad_table_name(new_name));
    }
    if database != new_database {
        return Err(errors::view_changes_database(database, new_database));
    }
    let catalog = &mut draft.catalog;
    if catalog.view(database, new_name).is_some() || catalog.table(database, new_name).is_some() {
        return Err(errors::table_exists(new_name));
    }
    if let Some(mut view) = catalog
        .views
        .remove(&(database.to_owned(), name.to_owned()))
    {
        new_name.clone_into(&mut Arc::make_mut(&mut view).name);
        catalog
            .views
            .insert((database.to_owned(), new_name.to_owned()), view);
    }
    Ok(())
}

/// Renames one table of a draft.
pub(super) fn rename_in(
    draft: &mut CatalogDraft,
    id: TableId,
    database: &str,
    name: &str,
) -> Result<()> {
    check_name(name)?;
    if name.is_empty() || name.ends_with(' ') {
        return Err(errors::bad_table_name(name));
    }
    let Some(table) = draft.catalog.tables.get(&id).cloned() else {
        return Ok(());
    };
    if table.database != database && !table.triggers.is_empty() {
        return Err(errors::trigger_in_wrong_schema());
    }
    let view = draft.catalog.view(database, name).is_some();
    if view || draft.catalog.table(database, name).is_some() {
        return Err(errors::table_exists(name));
    }
    if draft.catalog.database(database).is_none() {
        return Err(errors::no_database(database));
    }
    let waiting: Vec<TableId> = unresolved_children(&draft.catalog, database, name).collect();
    if let Some(old) = draft.catalog.databases.get_mut(&table.database) {
        Arc::make_mut(old).tables.remove(&table.name);
    }
    if let Some(new) = draft.catalog.databases.get_mut(database) {
        Arc::make_mut(new).tables.insert(name.to_owned(), id);
    }
    let ids: Vec<TableId> = draft.catalog.tables.keys().copied().collect();
    let follows = |k: &crate::definition::ForeignKey| {
        k.parent_database == table.database && k.parent_table == table.name
    };
    for child in ids {
        let names = |t: &Arc<crate::table::Table>| t.foreign_keys.iter().any(follows);
        if !draft.catalog.tables.get(&child).is_some_and(names) {
            continue;
        }
        draft.edit(child, |child| {
            for key in child.foreign_keys.iter_mut().filter(|k| follows(k)) {
                database.clone_into(&mut key.parent_database);
                name.clone_into(&mut key.parent_table);
            }
        });
    }
    draft.edit(id, |new| {
        let generated = format!("{}_ibfk_", new.name);
        for key in &mut new.foreign_keys {
            if let Some(number) = key.name.strip_prefix(&generated) {
                key.name = format!("{name}_ibfk_{number}");
            }
        }
        checks::rename(new, name);
        database.clone_into(&mut new.database);
        name.clone_into(&mut new.name);
    });
    if let Some(table) = draft.catalog.table_by_id(id) {
        checks::check_names(&draft.catalog, table)?;
    }
    check_constraint_names(&draft.catalog, id)?;
    check_unresolved(&draft.catalog, id, &waiting)
}

/// 1826: a constraint's name is taken in the new database.
fn check_constraint_names(catalog: &Catalog, id: TableId) -> Result<()> {
    let Some(table) = catalog.table_by_id(id) else {
        return Ok(());
    };
    if table.foreign_keys.is_empty() {
        return Ok(());
    }
    let others = catalog.tables.values();
    let others = others.filter(|t| t.id != id && t.database == table.database);
    let mut taken = others.flat_map(|t| &t.foreign_keys);
    let clash = taken.find(|k| {
        let mut own = table.foreign_keys.iter();
        own.any(|o| o.name.eq_ignore_ascii_case(&k.name))
    });
    clash.map_or(Ok(()), |k| Err(errors::fk_duplicate(&k.name)))
}

/// Checks that constraints that referred to the new name before fit the renamed table.
fn check_unresolved(catalog: &Catalog, id: TableId, waiting: &[TableId]) -> Result<()> {
    let Some(table) = catalog.table_by_id(id) else {
        return Ok(());
    };
    for child in waiting.iter().filter_map(|c| catalog.table_by_id(*c)) {
        for key in &child.foreign_keys {
            if key.parent_database == table.database && key.parent_table == table.name {
                foreign::check_parent(child, table, key)?;
            }
        }
    }
    Ok(())
}
