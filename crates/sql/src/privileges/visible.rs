//! Objects that a session may see: databases, tables and views on which its account has at
//! least one privilege (manual, "INFORMATION_SCHEMA Introduction").

use crate::context::StatementContext;
use porpoise_access::Privileges;
use porpoise_rows::catalog::Catalog;
use std::sync::Arc;

impl StatementContext {
    /// The catalog without the names of databases, tables and views that this session may not
    /// see. The map of tables by id ([`Catalog::tables`]) is complete.
    pub(crate) fn visible_catalog(&self) -> Arc<Catalog> {
        let catalog = self.server.db.catalog();
        let rights = self.rights();
        if rights.everywhere().intersects(Privileges::TABLE) {
            return catalog;
        }
        let mut seen = Catalog::clone(&catalog);
        let all = rights.global().has(Privileges::SHOW_DATABASES);
        seen.databases
            .retain(|name, _| all || rights.sees_database(name));
        for (name, database) in seen.databases.iter_mut() {
            let tables = &mut Arc::make_mut(database).tables;
            tables.retain(|table, _| rights.sees_table(name, table));
        }
        seen.views
            .retain(|(database, view), _| rights.sees_table(database, view));
        Arc::new(seen)
    }
}
