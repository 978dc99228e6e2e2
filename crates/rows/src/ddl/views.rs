//! CREATE, ALTER and DROP VIEW.
//!
//! The catalog stores a view's query as text, which is bound again by each statement that reads the
//! view. Views share a name space with the tables of their database. They have no rows, so no
//! metadata barrier is needed: a running statement continues with the definition that it found.

use super::{DdlCx, DdlOutcome, check_name, errors};
use crate::catalog::{Catalog, View};
use crate::db::Db;
use crate::error::Result;
use std::sync::Arc;

/// Kind of view definition, which decides whether the name must be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// CREATE VIEW: the name must be free.
    Create,
    /// CREATE OR REPLACE VIEW: the name must be free or a view's.
    Replace,
    /// ALTER VIEW: the view must exist.
    Alter,
}

impl Db {
    /// CREATE VIEW and ALTER VIEW.
    ///
    /// # Errors
    /// 1050 for a name in use, 1347 for the name of a table, 1146 if there is no view to alter.
    pub fn create_view(&self, cx: &DdlCx<'_>, view: &View, mode: ViewMode) -> Result<DdlOutcome> {
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
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// DROP VIEW: drops all `names` (database, view) or none. Returns, with IF EXISTS, those that
    /// did not exist, as `db.name`.
    ///
    /// # Errors
    /// 1347 for a table, 1051 without IF EXISTS.
    pub fn drop_views(
        &self,
        cx: &DdlCx<'_>,
        names: &[(String, String)],
        if_exists: bool,
    ) -> Result<(DdlOutcome, Vec<String>)> {
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
            if missing.is_empty() || if_exists {
                Ok(missing)
            } else {
                Err(errors::unknown_tables(&missing))
            }
        };
        let absent = missing(&self.catalog())?;
        if absent.len() == names.len() {
            return Ok((DdlOutcome::default(), absent));
        }
        let mut absent = Vec::new();
        let position = self.change_catalog(cx, |draft| {
            absent = missing(&draft.catalog)?;
            for name in names {
                draft.catalog.views.remove(name);
            }
            Ok(())
        })?;
        let done = DdlOutcome {
            position,
            ..DdlOutcome::default()
        };
        Ok((done, absent))
    }
}
