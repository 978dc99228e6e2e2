//! System variables that another server of a cluster has persisted: SET PERSIST changes the global value
//! on all of them. (RESET PERSIST changes no value, as in MySQL.)
//!
//! Invariant: a value that was set here later by SET GLOBAL stays until the variable is persisted with
//! another value.

use crate::server::SqlServer;
use crate::session::set_global_variable;
use crate::vars::{self, Scope, check};
use porpoise_access::persisted;
use porpoise_rows::TableChanges;
use porpoise_sql_expr::error::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// The persisted variables as last applied.
#[derive(Default)]
pub(crate) struct SharedVariables {
    changes: Option<Arc<TableChanges>>,
    seen: u64,
    applied: HashMap<String, String>,
}

impl SharedVariables {
    /// Applies those that were persisted since the last call.
    pub(crate) fn follow(&mut self, server: &SqlServer) -> Result<()> {
        if !server.db.is_clustered() {
            return Ok(());
        }
        if self.changes.is_none() {
            self.changes = persisted::subscribe(&server.db);
            self.seen = u64::MAX;
        }
        let Some(changes) = &self.changes else {
            return Ok(());
        };
        let now = changes.changes();
        if now == self.seen {
            return Ok(());
        }
        for variable in persisted::load(&server.db)? {
            if self.applied.get(&variable.name) == Some(&variable.value) {
                continue;
            }
            if let Ok((at, entry)) = vars::entry(&variable.name)
                && entry.scope != Scope::Fixed
                && let Ok(value) = check::from_text(entry, &variable.value)
            {
                set_global_variable(server, at, entry, value)?;
            }
            self.applied.insert(variable.name, variable.value);
        }
        self.seen = now;
        Ok(())
    }
}
