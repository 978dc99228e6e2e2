//! Privileges on columns in GRANT, REVOKE and SHOW GRANTS.
//!
//! MySQL's rules (manual, "GRANT Statement", Column Privileges, and "REVOKE Statement"):
//!
//! 1. Only SELECT, INSERT, UPDATE and REFERENCES can be granted on columns, and only of a table or
//!    view: else 1144.
//! 2. A grantor needs GRANT OPTION on the table, and each privilege on the table or the column.
//! 3. Columns in GRANT must exist: else 1054. Columns in REVOKE must have a grant: else 1147.
//! 4. Revoking a privilege on the table revokes it on all of its columns, too.

use crate::context::StatementContext;
use porpoise_access::{AccessData, AuthId, Change, ColumnGrant, Grant, Privileges};
use porpoise_rows::catalog::Catalog;
use porpoise_rows::show::quote;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast;
use porpoise_sql_plan::plan::views;

/// Error 1144: illegal GRANT or REVOKE.
pub(super) fn illegal_grant() -> SqlError {
    let text = "Illegal GRANT/REVOKE command; please consult the manual to see which privileges \
                can be used";
    SqlError::new(1144, "42000", text)
}

/// Error 1141, or 1147 for a table: there is no such grant.
pub(super) fn no_grant(user: &str, host: &str, table: &str) -> SqlError {
    let start = format!("There is no such grant defined for user '{user}' on host '{host}'");
    if table.is_empty() {
        SqlError::new(1141, "42000", start)
    } else {
        SqlError::new(1147, "42000", format!("{start} on table '{table}'"))
    }
}

/// Privileges on columns that a statement names; each column occurs once.
#[derive(Default)]
pub(super) struct Columns {
    list: Vec<(String, Privileges)>,
}

impl Columns {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a privilege and its columns, as a GRANT on `table` names them.
    pub(super) fn add(&mut self, privilege: &ast::Privilege<'_>, table: &str) -> Result<()> {
        let named = Privileges::named(privilege.name);
        let named = named.filter(|p| !table.is_empty() && Privileges::COLUMN.has(*p));
        let named = named.ok_or_else(illegal_grant)?;
        for column in privilege.columns {
            let same =
                |(name, _): &&mut (String, Privileges)| name.eq_ignore_ascii_case(column.name);
            match self.list.iter_mut().find(same) {
                Some((_, set)) => *set = set.with(named),
                None => self.list.push((column.name.to_owned(), named)),
            }
        }
        Ok(())
    }

    /// Checks that the grantor has the privileges; GRANT OPTION is checked with the table.
    pub(super) fn check_grantor(
        &self,
        cx: &StatementContext,
        database: &str,
        table: &str,
    ) -> Result<()> {
        let rights = cx.rights();
        for (column, set) in &self.list {
            let lacking = set.without(rights.on_column(database, table, column));
            if let Some(name) = lacking.names().next() {
                return Err(cx.column_denied(name, column, table));
            }
        }
        Ok(())
    }

    /// Replaces the names by those in the definition of the table or view, which may differ in case.
    /// Error 1054 for unknown columns.
    pub(super) fn resolve_names(
        self,
        cx: &StatementContext,
        catalog: &Catalog,
        database: &str,
        table: &str,
    ) -> Result<Columns> {
        if self.is_empty() {
            return Ok(self);
        }
        let names: Vec<String> = if let Some(found) = catalog.table(database, table) {
            let columns = found.named_columns();
            columns.map(|(_, c)| c.name.clone()).collect()
        } else if let Some(view) = catalog.view(database, table) {
            let columns = views::describe(catalog, view, cx)?.columns;
            columns.into_iter().map(|c| c.name).collect()
        } else {
            return Err(SqlError::no_table(database, table));
        };
        let mut list = Vec::with_capacity(self.list.len());
        for (column, set) in self.list {
            let mut known = names.iter();
            let Some(name) = known.find(|n| n.eq_ignore_ascii_case(&column)) else {
                return Err(SqlError::unknown_column(&column, table));
            };
            list.push((name.clone(), set));
        }
        Ok(Columns { list })
    }

    /// Adds the change of one account's privileges on columns of the object of `next`. `set` are
    /// the privileges that the statement names for the whole table. Returns whether the account
    /// then has privileges on columns of the object.
    pub(super) fn change(
        &self,
        data: &AccessData,
        revoke: bool,
        set: Privileges,
        next: &Grant,
        change: &mut Change,
    ) -> Result<bool> {
        let own = |g: &&ColumnGrant| {
            g.is_of(&next.user, &next.host) && g.is_on(&next.database, &next.table)
        };
        let held: Vec<&ColumnGrant> = data.column_grants.iter().filter(own).collect();
        let find = |column: &str| {
            let mut held = held.iter();
            held.find(|g| g.column.eq_ignore_ascii_case(column))
        };
        if revoke {
            if self.list.iter().any(|(column, _)| find(column).is_none()) {
                return Err(no_grant(&next.user, &next.host, &next.table));
            }
            for old in &held {
                let mut list = self.list.iter();
                let named = list.find(|(c, _)| c.eq_ignore_ascii_case(&old.column));
                let revoked = named.map_or(set, |(_, named)| set.with(*named));
                let privileges = old.privileges.without(revoked);
                let remaining = ColumnGrant {
                    privileges,
                    ..(*old).clone()
                };
                match privileges {
                    Privileges::NONE => change.remove_column_grants.push(remaining),
                    some if some == old.privileges => {}
                    _ => change.put_column_grants.push(remaining),
                }
            }
            return Ok(!held.is_empty());
        }
        for (column, named) in &self.list {
            let old = find(column);
            let had = old.map_or(Privileges::NONE, |g| g.privileges);
            change.put_column_grants.push(ColumnGrant {
                user: next.user.clone(),
                host: next.host.clone(),
                database: next.database.clone(),
                table: next.table.clone(),
                column: old.map_or(column, |g| &g.column).clone(),
                privileges: had.with(*named),
            });
        }
        Ok(!held.is_empty() || !self.is_empty())
    }
}

/// Column privileges of an account and its roles, as SHOW GRANTS lists them.
pub(super) struct ShownColumnGrants<'d> {
    grants: Vec<&'d ColumnGrant>,
}

impl<'d> ShownColumnGrants<'d> {
    pub(super) fn of(data: &'d AccessData, ids: &[AuthId]) -> ShownColumnGrants<'d> {
        let held = |g: &&ColumnGrant| ids.iter().any(|i| g.is_of(&i.user, &i.host));
        let mut grants: Vec<&ColumnGrant> = data.column_grants.iter().filter(held).collect();
        grants.sort_by(|a, b| a.column.cmp(&b.column));
        ShownColumnGrants { grants }
    }

    /// Adds the tables on which only column privileges are granted.
    pub(super) fn add_tables(&self, id: &AuthId, list: &mut Vec<Grant>) {
        for grant in &self.grants {
            if !list.iter().any(|g| grant.is_on(&g.database, &g.table)) {
                list.push(Grant {
                    user: id.user.clone(),
                    host: id.host.clone(),
                    database: grant.database.clone(),
                    table: grant.table.clone(),
                    privileges: Privileges::NONE,
                    grantable: Privileges::NONE,
                });
            }
        }
    }

    /// The privileges on a table, `on_table`, each followed by those on columns: SELECT, SELECT
    /// (`a`, `b`).
    pub(super) fn privilege_list(
        &self,
        on_table: Privileges,
        database: &str,
        table: &str,
    ) -> Vec<String> {
        let own = self.grants.iter().filter(|g| g.is_on(database, table));
        let own: Vec<&&ColumnGrant> = own.collect();
        let all = own.iter().fold(on_table, |all, g| all.with(g.privileges));
        let mut list = Vec::new();
        for name in all.names() {
            let privilege = Privileges::named(name).unwrap_or_default();
            if on_table.has(privilege) {
                list.push(name.to_owned());
            }
            let columns = own.iter().filter(|g| g.privileges.has(privilege));
            let mut columns: Vec<String> = columns.map(|g| quote(&g.column)).collect();
            columns.dedup();
            if !columns.is_empty() {
                list.push(format!("{name} ({})", columns.join(", ")));
            }
        }
        list
    }
}
