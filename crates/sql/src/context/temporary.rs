//! Temporary tables, and the session's catalog, which includes them.
//!
//! Invariant: the overlay has the version of the catalog from which it was built.

use super::StatementContext;
use porpoise_rows::catalog::{Catalog, Table, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Temporary tables of a session.
#[derive(Clone, Default)]
pub(crate) struct Temporary {
    pub(crate) tables: BTreeMap<(String, String), Arc<Table>>,
    /// Dropped tables that the open transaction may still use.
    pub(crate) pending_drops: Vec<Arc<Table>>,
    /// The shared catalog with the temporary tables added.
    pub(crate) overlay: RefCell<Option<Arc<Catalog>>>,
}

impl Temporary {
    /// The temporary table of this name.
    pub(crate) fn table(&self, database: &str, name: &str) -> Option<&Arc<Table>> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&(database.to_owned(), name.to_owned()))
    }

    /// Whether a table is one of the session's temporary tables.
    pub(crate) fn contains_id(&self, id: TableId) -> bool {
        self.tables.values().any(|t| t.id == id)
    }

    /// The overlay for this version of the shared catalog.
    fn with_temporary(&self, shared: &Arc<Catalog>) -> Arc<Catalog> {
        let mut overlay = self.overlay.borrow_mut();
        if let Some(cached) = overlay.as_ref().filter(|o| o.version == shared.version) {
            return cached.clone();
        }
        let mut catalog = Catalog::clone(shared);
        for ((database, name), table) in &self.tables {
            if let Some(database) = catalog.databases.get_mut(database) {
                Arc::make_mut(database)
                    .tables
                    .insert(name.clone(), table.id);
                catalog.views.remove(&(database.name.clone(), name.clone()));
                catalog.tables.insert(table.id, table.clone());
            }
        }
        let catalog = Arc::new(catalog);
        *overlay = Some(catalog.clone());
        catalog
    }
}

impl StatementContext {
    /// The catalog against which this session's statements are planned.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let shared = self.server.db.catalog();
        if self.temporary.tables.is_empty() {
            shared
        } else {
            self.temporary.with_temporary(&shared)
        }
    }
}
