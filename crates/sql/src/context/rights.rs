//! Rights of the session's account, and the errors of statements that lack a privilege.
//!
//! Invariant: for an account with all privileges on `*.*` a check costs one comparison.

use super::StatementContext;
use porpoise_access::{AccessData, AuthId, Privileges, Rights, administration};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_plan::virtual_tables::{self, VirtualTable};
use std::sync::Arc;

impl StatementContext {
    /// Whether the session has all privileges that can be granted.
    pub(crate) fn has_all_privileges(&self) -> bool {
        self.rights().everywhere().has(Privileges::ALL)
    }

    /// The current rights of this session's account.
    pub(crate) fn rights(&self) -> Arc<Rights> {
        let mut own = self.rights.borrow_mut();
        if own.version() != self.server.access.version() {
            *own = self.current_rights();
        }
        own.clone()
    }

    /// `'user'@'host'`, as error messages name the client; within a program that runs with the
    /// rights of its definer, the definer.
    pub(crate) fn client_name(&self) -> String {
        let account = AuthId::parse(&self.client.account);
        if !account.user.is_empty() && account.user != self.client.user {
            return format!("'{}'@'{}'", account.user, account.host);
        }
        format!("'{}'@'{}'", self.client.user, self.client.host)
    }

    /// Error 1142 unless the account has the privileges on the table.
    pub(crate) fn need_table(&self, wanted: Privileges, database: &str, table: &str) -> Result<()> {
        let rights = self.rights();
        if let Some(needed) = administration(wanted, database, table) {
            self.need_global(needed.privilege, needed.shown)?;
        }
        let found = virtual_tables::find(database, table);
        if rights.everywhere().has(wanted) || found.is_some_and(|t| self.sees_virtual(t)) {
            return Ok(());
        }
        let missing = wanted.without(rights.on_table(database, table));
        match missing.names().next() {
            None => Ok(()),
            Some(name) => Err(self.table_denied(name, table)),
        }
    }

    /// Whether a virtual table may be read: those of `mysql`, `performance_schema` and `sys` need
    /// SELECT; none for the tables with the rows of SHOW VARIABLES and SHOW STATUS, which every account may read.
    pub(crate) fn sees_virtual(&self, table: &VirtualTable) -> bool {
        let rights = self.rights();
        !matches!(table.database, "mysql" | "performance_schema" | "sys")
            || virtual_tables::is_of_variables(table)
            || rights.everywhere().has(Privileges::SELECT)
            || rights
                .on_table(table.database, table.name)
                .has(Privileges::SELECT)
    }

    /// Error 1142: command denied on a table.
    pub(crate) fn table_denied(&self, command: &str, table: &str) -> SqlError {
        let text = format!(
            "{command} command denied to user {} for table '{table}'",
            self.client_name()
        );
        SqlError::new(1142, "42000", text)
    }

    /// Error 1143: command denied on a column.
    pub(crate) fn column_denied(&self, command: &str, column: &str, table: &str) -> SqlError {
        let text = format!(
            "{command} command denied to user {} for column '{column}' in table '{table}'",
            self.client_name()
        );
        SqlError::new(1143, "42000", text)
    }

    /// Error 1044 unless the account has the privileges on the database.
    pub(crate) fn need_database(&self, wanted: Privileges, database: &str) -> Result<()> {
        if self.rights().on_database(database).has(wanted) {
            Ok(())
        } else {
            Err(self.database_denied(database))
        }
    }

    /// Error 1044: access to a database denied.
    pub(crate) fn database_denied(&self, database: &str) -> SqlError {
        let text = format!(
            "Access denied for user {} to database '{database}'",
            self.client_name()
        );
        SqlError::new(1044, "42000", text)
    }

    /// Error 1227 if account `id` has SYSTEM_USER, unless the session has it too or belongs to that
    /// account.
    pub(crate) fn need_system_user(&self, data: &AccessData, id: &AuthId) -> Result<()> {
        let own = AuthId::parse(&self.client.account);
        if own == *id || !data.is_system_user(id) {
            return Ok(());
        }
        self.need_global(Privileges::SYSTEM_USER, "SYSTEM_USER")
    }

    /// Error 1227 unless the account has all of these privileges on `*.*`; `shown` names them in the
    /// message.
    pub(crate) fn need_global(&self, wanted: Privileges, shown: &str) -> Result<()> {
        if self.rights().global().has(wanted) {
            Ok(())
        } else {
            Err(denied_globally(shown))
        }
    }
}

/// Error 1227 that names a privilege on `*.*`.
pub(crate) fn denied_globally(shown: &str) -> SqlError {
    let text = format!(
        "Access denied; you need (at least one of) the {shown} privilege(s) for this operation"
    );
    SqlError::new(1227, "42000", text)
}
