//! CREATE, ALTER and DROP VIEW: names that stand for a query.
//!
//! The catalog keeps a view's query as text; a statement that
//! reads it binds it anew. Views share their database's names with
//! tables, and hold nothing, so that no metadata barrier is needed: a
//! statement that runs goes on with the definition that it found.

use super::{DdlCx, DdlDone, check_name, errors};
use crate::catalog::{Catalog, View};
use crate::db::Db;
use crate::error::Result;
use std::sync::Arc;

/// What a definition may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// CREATE VIEW: nothing of that name.
    Create,
    /// CREATE OR REPLACE VIEW: a view, or nothing.
    Replace,
    /// ALTER VIEW: a view.
    Alter,
}

impl Db {
    /// CREATE VIEW and ALTER VIEW.
    ///
    /// # Errors
    /// 1050 for a name that is taken, 1347 for a table's, 1146 where there is
    /// nothing to alter.
    pub fn create_view(&self, cx: &DdlCx<'_>, view: &View, mode: ViewMode) -> Result<DdlDone> {
        check_name(&view.name)?;
        if view.name.is_empty() || view.name.ends_with(' ') {
            return Err(errors::bad_table_name(&view.name));
        }
        let position = self.change_catalog(cx, |draft| {
            let (database, name) = (&view.database, &view.name);
            if draft.catalog.database(database).is_none() {
                return Err(errors::no_database(database));
            }
            let table = draft.catalog.table(database, name).is_some();
            let known = draft.catalog.view(database, name).is_some();
            match mode {
                ViewMode::Create if table || known => return Err(errors::table_exists(name)),
                ViewMode::Replace | ViewMode::Alter if table => {
                    return Err(errors::not_a_view(database, name));
                }
                ViewMode::Alter if !known => return Err(errors::no_table(database, name)),
                _ => {}
            }
            let key = (database.clone(), name.clone());
            draft.catalog.views.insert(key, Arc::new(view.clone()));
            Ok(())
        })?;
        Ok(DdlDone {
            position,
            ..DdlDone::default()
        })
    }

    /// DROP VIEW of all `names` (database, view), or of none; returns, with
    /// IF EXISTS, those that were not there as `db.name`.
    ///
    /// # Errors
    /// 1347 for a table, 1051 without IF EXISTS.
    pub fn drop_views(
        &self,
        cx: &DdlCx<'_>,
        names: &[(String, String)],
        if_exists: bool,
    ) -> Result<(DdlDone, Vec<String>)> {
        let missing = |catalog: &Catalog| -> Result<Vec<String>> {
            let mut missing = Vec::new();
            for (database, name) in names {
                if catalog.table(database, name).is_some() {
                    return Err(errors::not_a_view(database, name));
                }
                if catalog.view(database, name).is_none() {
                    missing.push(format!("{database}.{name}"));
                }
            }
            match missing.is_empty() || if_exists {
                true => Ok(missing),
                false => Err(errors::unknown_tables(&missing)),
            }
        };
        let absent = missing(&self.catalog())?;
        if absent.len() == names.len() {
            return Ok((DdlDone::default(), absent));
        }
        let mut absent = Vec::new();
        let position = self.change_catalog(cx, |draft| {
            absent = missing(&draft.catalog)?;
            for name in names {
                draft.catalog.views.remove(name);
            }
            Ok(())
        })?;
        let done = DdlDone {
            position,
            ..DdlDone::default()
        };
        Ok((done, absent))
    }
}
