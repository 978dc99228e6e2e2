//! CREATE, ALTER and DROP DATABASE.

use super::{DdlCx, DdlOutcome, check_name, errors, tables};
use crate::catalog::{Catalog, Database};
use crate::db::Db;
use crate::definition::TableId;
use crate::error::Result;
use crate::table::Table;
use porpoise_kv::SpaceId;
use porpoise_types::Collation;
use std::sync::Arc;

impl Db {
    /// CREATE DATABASE.
    pub fn create_database(
        &self,
        cx: &DdlCx<'_>,
        name: &str,
        collation: Collation,
        if_not_exists: bool,
    ) -> Result<DdlOutcome> {
        check_name(name)?;
        if name.is_empty() || name.ends_with(' ') {
            return Err(errors::bad_database_name(name));
        }
        if self.catalog().database(name).is_some() && if_not_exists {
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let position = self.change_catalog(cx, |draft| {
            let databases = &mut draft.catalog.databases;
            if databases.contains_key(name) {
                return Err(errors::database_exists(name));
            }
            let database = Database {
                name: name.to_owned(),
                collation,
                tables: Default::default(),
            };
            databases.insert(name.to_owned(), Arc::new(database));
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// ALTER DATABASE ... COLLATE.
    pub fn alter_database(
        &self,
        cx: &DdlCx<'_>,
        name: &str,
        collation: Collation,
    ) -> Result<DdlOutcome> {
        let position = self.change_catalog(cx, |draft| {
            let Some(database) = draft.catalog.databases.get_mut(name) else {
                return Err(errors::no_database(name));
            };
            Arc::make_mut(database).collation = collation;
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// DROP DATABASE with all its tables. Also returns the number of tables.
    pub fn drop_database(
        &self,
        cx: &DdlCx<'_>,
        name: &str,
        if_exists: bool,
    ) -> Result<(DdlOutcome, usize)> {
        if self.catalog().database(name).is_none() {
            if !if_exists {
                return Err(errors::cannot_drop_database(name));
            }
            let done = DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            };
            return Ok((done, 0));
        }
        let inside = |catalog: &Catalog| -> Vec<Arc<Table>> {
            let tables = catalog.tables.values();
            tables.filter(|t| t.database == name).cloned().collect()
        };
        let _barrier = self.barrier(cx, |catalog| {
            let tables = inside(catalog);
            Ok(tables
                .iter()
                .flat_map(|t| super::foreign_key_relatives(t))
                .collect())
        })?;
        let mut spaces: Vec<SpaceId> = Vec::new();
        let mut gone = Vec::new();
        let position = self.change_catalog(cx, |draft| {
            let tables = inside(&draft.catalog);
            let ids: Vec<TableId> = tables.iter().map(|t| t.id).collect();
            for table in &tables {
                if cx.foreign_key_checks {
                    tables::refuse_if_referenced(&draft.catalog, table, &ids)?;
                }
                draft.catalog.tables.remove(&table.id);
                spaces.extend(table.all_spaces());
            }
            gone = tables;
            draft
                .catalog
                .views
                .retain(|(database, _), _| database != name);
            draft.catalog.events.retain(|key, _| key.0 != name);
            draft.catalog.routines.retain(|key, _| key.database != name);
            if draft.catalog.databases.remove(name).is_none() {
                return Err(errors::cannot_drop_database(name));
            }
            Ok(())
        })?;
        self.retire_spaces(&spaces);
        for table in &gone {
            self.forget_counters(table);
        }
        let done = DdlOutcome {
            position,
            ..DdlOutcome::default()
        };
        Ok((done, gone.len()))
    }
}
